//! Reductions element by element, in index order.

use tilewright::dim::Dim;
use tilewright::kernel::{Mask as Taken, Statement, TileId};
use tilewright::tensor::Monoid;

use super::code::{Lack, lack};
use super::group::Rows;
use super::lanes::Lanes;
use super::place::Kind;
use super::{Selector, plan};
use crate::machine::{Compare, Cond as Test, ValueId};

/// The parts of a reduction.
struct Located<'a> {
    monoid: &'static Monoid,
    argument: TileId,
    position: &'a Dim,
    mask: &'a Taken,
    best: TileId,
    /// Where the position is kept, if it is.
    at: Option<TileId>,
}

impl<'a> Selector<'a> {
    /// A reduction of any monoid.
    pub fn in_order(&mut self, statement: &'a Statement) -> Result<(), Lack> {
        let Statement::Reduce { monoid, argument, position, mask, state } = statement else {
            return lack(format!("the statement `{}`", plan::name(statement)));
        };
        let (best, at) = match *state.as_slice() {
            [best] => (best, None),
            [best, at] => (best, Some(at)),
            _ => return lack(format!("the monoid `{}`", monoid.name)),
        };
        let located = Located { monoid, argument: *argument, position, mask, best, at };
        let inner = self.code.places[argument.0 as usize].inner;
        self.rows(self.tile(*argument), inner, &[], |selector, rows, _| selector.located(rows, &located))
    }

    /// One row.
    fn located(&mut self, rows: &Rows<'_>, located: &Located<'a>) -> Result<(), Lack> {
        let third = located.at.unwrap_or(located.best);
        let pointers = [located.argument, located.best, third].map(|id| self.address(id, rows));
        let [argument, best, at] = pointers;
        let pointers = [argument?, best?, at?];
        let mut masks = Vec::new();
        for id in &located.mask.tiles {
            masks.push((*id, self.address(*id, rows)?));
        }
        let Some((label, start)) = rows.row() else {
            return self.element(rows, located, pointers, &masks, None);
        };
        let zero = self.code.b.imm(0);
        let each = self.code.begin_loop("element", zero, rows.count(), 1, &[]);
        let value = self.code.b.add(start, each.index);
        self.code.bind(label, value);
        self.element(rows, located, pointers, &masks, Some(each.index))?;
        self.code.unbind(1);
        self.code.end_loop(each, &[]);
        Ok(())
    }

    /// The address of a tile's element at a position along the row.
    fn further(
        &mut self,
        id: TileId,
        rows: &Rows<'_>,
        pointer: ValueId,
        at: Option<ValueId>,
    ) -> Result<ValueId, Lack> {
        let (tile, place) = (self.tile(id), &self.code.places[id.0 as usize]);
        let axis =
            rows.row().and_then(|(label, _)| tile.ranges.iter().position(|range| range.label == *label));
        match (axis, at) {
            (Some(axis), Some(at)) => {
                let distance = self.code.times(at, place.strides[axis])?;
                Ok(self.code.b.add(pointer, distance))
            }
            _ => Ok(pointer),
        }
    }

    /// One element, whose labels are bound.
    fn element(
        &mut self,
        rows: &Rows<'_>,
        located: &Located<'a>,
        [argument, best, index]: [ValueId; 3],
        masks: &[(TileId, ValueId)],
        at: Option<ValueId>,
    ) -> Result<(), Lack> {
        let mut skips = Vec::new();
        let truth = self.code.truth(&located.mask.condition)?;
        skips.push(self.code.begin_if(Test::NotEqual, truth, 0));
        for (id, pointer) in masks {
            let pointer = self.further(*id, rows, *pointer, at)?;
            let bit = self.code.b.load32(crate::machine::Mem::at(pointer, 0));
            skips.push(self.code.begin_if(Test::NotEqual, bit, 0));
        }
        let kind = Kind::of(self.tile(located.argument).dtype)?;
        let argument = self.further(located.argument, rows, argument, at)?;
        let best = self.further(located.best, rows, best, at)?;
        let value = self.code.repeat_scratch(kind, argument);
        let Some(index_tile) = located.at else {
            let dtype = self.tile(located.best).dtype;
            let before = self.code.repeat_scratch(Kind::of(dtype)?, best);
            let value = if kind == before.kind() { value } else { self.code.cast(value, dtype)? };
            let after = self.code.absorb(located.monoid, dtype, before, value)?;
            self.code.store_first(best, after);
            for skip in skips.into_iter().rev() {
                self.code.end_if(skip);
            }
            return Ok(());
        };
        let index = self.further(index_tile, rows, index, at)?;
        let before = self.code.repeat_scratch(kind, best);
        let beats = self.beats(located.monoid.name == "argmax", value, before)?;
        let position = self.code.b.load32s(crate::machine::Mem::at(index, 0));
        let one = self.code.b.imm(1);
        let zero = self.code.b.imm(0);
        let none = self.code.b.select(Test::Less, position, 0, one, zero);
        let beats = self.code.b.or(beats, none);
        skips.push(self.code.begin_if(Test::NotEqual, beats, 0));
        let position = self.code.dim(located.position)?;
        self.code.store_first(best, value);
        self.code.b.store_general(4, crate::machine::Mem::at(index, 0), position);
        for skip in skips.into_iter().rev() {
            self.code.end_if(skip);
        }
        Ok(())
    }

    /// 1 where lane 0 of `value` lies beyond that of `best`, or is the first NaN, else 0.
    fn beats(&mut self, greatest: bool, value: Lanes, best: Lanes) -> Result<ValueId, Lack> {
        let b = &mut self.code.b;
        let (mask, wide) = match (value, best) {
            (Lanes::Float(x), Lanes::Float(y)) => {
                let beyond = b.compare_f32(if greatest { Compare::Greater } else { Compare::Less }, x, y);
                let (nan, number) =
                    (b.compare_f32(Compare::Unordered, x, x), b.compare_f32(Compare::Equal, y, y));
                let first = b.mask_and(nan, number);
                (b.mask_or(beyond, first), false)
            }
            (Lanes::Double([x, _]), Lanes::Double([y, _])) => {
                let beyond = b.compare_f64(if greatest { Compare::Greater } else { Compare::Less }, x, y);
                let (nan, number) =
                    (b.compare_f64(Compare::Unordered, x, x), b.compare_f64(Compare::Equal, y, y));
                let first = b.mask_and(nan, number);
                (b.mask_or(beyond, first), true)
            }
            (Lanes::Int(x), Lanes::Int(y)) => {
                (if greatest { b.greater_i32(x, y) } else { b.greater_i32(y, x) }, false)
            }
            (Lanes::Long([x, _]), Lanes::Long([y, _])) => {
                (if greatest { b.greater_i64(x, y) } else { b.greater_i64(y, x) }, true)
            }
            _ => return lack("a position among truth values"),
        };
        let bits = if wide { b.wide_mask_bits(mask) } else { b.mask_bits(mask) };
        let one = b.imm(1);
        Ok(b.and(bits, one))
    }
}
