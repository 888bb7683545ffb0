//! Contractions of any tiles: sums in index order, a vector of them side by side where every tile has them as neighbours.

use tilewright::block::Range;
use tilewright::dim::Dim;
use tilewright::kernel::{Mask, Tile, TileId};
use tilewright::tensor::elementwise;
use tilewright::tensor::monoid;

use super::code::{Lack, lack};
use super::index::Interval;
use super::lanes::Lanes;
use super::place::Kind;
use super::{Selector, access};
use crate::machine::{Cond as Test, Mem, ValueId};

/// A loop over a label.
struct Level {
    range: Range,
    start: ValueId,
    count: ValueId,
    /// By tile: bytes per step.
    strides: Vec<i64>,
}

/// A contraction in progress.
struct Contraction<'a> {
    /// The sum, the factors, and the tiles of the mask.
    ids: Vec<TileId>,
    factors: usize,
    mask: &'a Mask,
    /// The label along which vectors run, if there is one.
    along: Option<Level>,
    /// Whether a vector holds neighbours along it; else it holds one element.
    wide: bool,
}

impl<'a> Selector<'a> {
    /// `sum[kept] += Π factors` under the mask.
    pub fn contraction(&mut self, factors: &[TileId], sum: TileId, mask: &'a Mask) -> Result<(), Lack> {
        let ids: Vec<TileId> = [sum].iter().chain(factors).chain(&mask.tiles).copied().collect();
        let tiles: Vec<&'a Tile> = ids.iter().map(|id| self.tile(*id)).collect();
        let mut ranges: Vec<(Range, bool)> = Vec::new();
        for (t, tile) in tiles.iter().enumerate() {
            for range in &tile.ranges {
                match ranges.iter().find(|(other, _)| other.label == range.label) {
                    Some((other, _)) if other == range => {}
                    Some(_) => return lack(format!("ranges of `{}` that differ", range.label)),
                    None => ranges.push((range.clone(), t > 0)),
                }
            }
        }
        let depends = |dim: &Dim| ranges.iter().any(|(other, _)| dim.mentions(&other.label));
        if ranges.iter().any(|(range, _)| depends(&range.start) || depends(&range.end)) {
            return lack("a range that depends on a label");
        }
        let place = |id: &TileId| &self.code.places[id.0 as usize];
        let axis = |t: usize, range: &Range| tiles[t].ranges.iter().position(|r| r.label == range.label);
        let vector =
            place(&sum).inner.map(|axis| self.tile(sum).ranges[axis].clone()).filter(|range| range.size != 1);
        let wide = vector.as_ref().is_some_and(|range| {
            let neighbours = |t: usize| axis(t, range).is_none_or(|axis| place(&ids[t]).inner == Some(axis));
            (0..ids.len()).all(neighbours) && access::narrows(&mask.condition, &range.label)
        });
        let (mut levels, mut skips, mut bound, mut along) = (Vec::new(), Vec::new(), 0, None);
        for (range, reduced) in &ranges {
            let strides =
                (0..ids.len()).map(|t| axis(t, range).map_or(0, |axis| place(&ids[t]).strides[axis]));
            let strides = strides.collect();
            let (start, count) = self.bounds_of(range)?;
            skips.push(self.code.begin_if(Test::Greater, count, 0));
            let level = Level { range: range.clone(), start, count, strides };
            if range.size == 1 {
                self.code.bind(&range.label, start);
                bound += 1;
            } else if vector.as_ref() == Some(range) {
                along = Some(level);
            } else {
                levels.push((level, *reduced));
            }
        }
        let (reduced, kept): (Vec<_>, Vec<_>) = levels.into_iter().partition(|(_, reduced)| *reduced);
        let reduced: Vec<Level> = reduced.into_iter().map(|(level, _)| level).collect();
        let kept: Vec<Level> = kept.into_iter().map(|(level, _)| level).collect();
        let mut pointers = Vec::new();
        for id in &ids {
            let offset = i32::try_from(self.code.places[id.0 as usize].offset);
            let offset = offset.map_err(|_| Lack("scratch too large".into()))?;
            pointers.push(self.code.b.lea(Mem::at(self.code.scratch, offset)));
        }
        let contraction = Contraction { ids, factors: factors.len(), mask, along, wide };
        self.kept_levels(&contraction, &kept, &reduced, pointers)?;
        self.code.unbind(bound);
        for skip in skips.into_iter().rev() {
            self.code.end_if(skip);
        }
        Ok(())
    }

    /// The loops over the labels of the sum.
    fn kept_levels(
        &mut self,
        contraction: &Contraction<'a>,
        levels: &[Level],
        reduced: &[Level],
        pointers: Vec<ValueId>,
    ) -> Result<(), Lack> {
        let zero = self.code.b.imm(0);
        let Some((level, rest)) = levels.split_first() else {
            return self.sums(contraction, reduced, &pointers);
        };
        let turn = self.code.begin_loop("kept", zero, level.count, 1, &[]);
        let pointers = self.inside(level, turn.index, &pointers)?;
        self.kept_levels(contraction, rest, reduced, pointers)?;
        self.code.unbind(1);
        self.code.end_loop(turn, &[]);
        Ok(())
    }

    /// Binds the label of a level and moves pointers along it.
    fn inside(&mut self, level: &Level, at: ValueId, pointers: &[ValueId]) -> Result<Vec<ValueId>, Lack> {
        let value = self.code.b.add(level.start, at);
        self.code.bind(&level.range.label, value);
        let mut moved = Vec::new();
        for (pointer, stride) in pointers.iter().zip(&level.strides) {
            moved.push(match stride {
                0 => *pointer,
                stride => {
                    let distance = self.code.times(at, *stride)?;
                    self.code.b.add(*pointer, distance)
                }
            });
        }
        Ok(moved)
    }

    /// The sums along the label of vectors: each is read, added to over all reduced labels, and written.
    fn sums(
        &mut self,
        contraction: &Contraction<'a>,
        reduced: &[Level],
        pointers: &[ValueId],
    ) -> Result<(), Lack> {
        let zero = self.code.b.imm(0);
        let kind = Kind::of(self.tile(contraction.ids[0]).dtype)?;
        let Some(level) = &contraction.along else {
            let before = self.code.repeat_scratch(kind, pointers[0]);
            let after = self.terms(contraction, reduced, pointers, zero, before)?;
            self.code.store_first(pointers[0], after);
            return Ok(());
        };
        let step = if contraction.wide { self.code.b.lanes() as i32 } else { 1 };
        let turn = self.code.begin_loop("sums", zero, level.count, step, &[]);
        if contraction.wide {
            let before = self.code.load_scratch(kind, pointers[0], turn.index);
            let after = self.terms(contraction, reduced, pointers, turn.index, before)?;
            self.code.store_scratch(pointers[0], turn.index, after);
        } else {
            let pointers = self.inside(level, turn.index, pointers)?;
            let before = self.code.repeat_scratch(kind, pointers[0]);
            let after = self.terms(contraction, reduced, &pointers, zero, before)?;
            self.code.store_first(pointers[0], after);
            self.code.unbind(1);
        }
        self.code.end_loop(turn, &[]);
        Ok(())
    }

    /// Adds all terms to sums.
    fn terms(
        &mut self,
        contraction: &Contraction<'a>,
        levels: &[Level],
        pointers: &[ValueId],
        at: ValueId,
        sums: Lanes,
    ) -> Result<Lanes, Lack> {
        let Some((level, rest)) = levels.split_first() else {
            return self.term(contraction, pointers, at, sums);
        };
        let zero = self.code.b.imm(0);
        let turn = self.code.begin_loop("terms", zero, level.count, 1, &sums.registers());
        let own = Lanes::taken(&[sums], &turn.carried)[0];
        let inner = self.inside(level, turn.index, pointers)?;
        let after = self.terms(contraction, rest, &inner, at, own)?;
        self.code.unbind(1);
        let out = self.code.end_loop(turn, &after.registers());
        Ok(Lanes::taken(&[sums], &out)[0])
    }

    /// Adds one term to sums, where it takes part.
    fn term(
        &mut self,
        contraction: &Contraction<'a>,
        pointers: &[ValueId],
        at: ValueId,
        sums: Lanes,
    ) -> Result<Lanes, Lack> {
        let dtype = self.tile(contraction.ids[0]).dtype;
        let (Some(add), Some(mul)) = (monoid::find("sum"), elementwise::find("mul")) else {
            return lack("sums or products");
        };
        let mut term: Option<Lanes> = None;
        let mut on = None;
        for (t, id) in contraction.ids.iter().enumerate().skip(1) {
            let own = self.tile(*id).dtype;
            let lanes = match &contraction.along {
                Some(level) if contraction.wide && level.strides[t] != 0 => {
                    self.code.load_scratch(Kind::of(own)?, pointers[t], at)
                }
                _ => self.code.repeat_scratch(Kind::of(own)?, pointers[t]),
            };
            if t > contraction.factors {
                let Lanes::Bool(mask) = lanes else { return lack("a mask that is no truth value") };
                on = Some(on.map_or(mask, |on| self.code.b.mask_and(on, mask)));
                continue;
            }
            let lanes =
                if Kind::of(own)? == Kind::of(dtype)? { lanes } else { self.code.cast(lanes, dtype)? };
            term = Some(match term {
                Some(before) => self.code.function(mul, &[before, lanes], dtype)?,
                None => self.code.settle(dtype, lanes),
            });
        }
        let Some(term) = term else { return lack("a contraction of nothing") };
        let condition = &contraction.mask.condition;
        if !condition.is_true() {
            let mask = match &contraction.along {
                Some(level) if contraction.wide => {
                    let zero = self.code.b.imm(0);
                    let mut interval = Interval { lo: zero, hi: level.count };
                    let row = Some((&level.range.label, level.start));
                    if !self.code.narrow(condition, row, &mut interval)? {
                        return lack(format!("the condition `{condition}`"));
                    }
                    self.code.part(interval, at).mask
                }
                _ => {
                    let truth = self.code.truth(condition)?;
                    let truth = self.code.b.broadcast_general(truth);
                    self.code.b.nonzero_i32(truth)
                }
            };
            on = Some(on.map_or(mask, |on| self.code.b.mask_and(on, mask)));
        }
        let after = self.code.absorb(add, dtype, sums, term)?;
        match on {
            Some(on) => self.code.pick(on, after, sums),
            None => Ok(after),
        }
    }
}
