//! Index tuples: the space over which a statement runs, the rows in which it is walked, and which positions of a row
//! take part.
//!
//! A space has one axis per label. The *inner* axis is the last one whose size is not 1; the others are outer, so
//! that walking the rows in order and each row from left to right is row-major order. Within a row an affine condition
//! admits an interval, so it costs a few operations per row; other conditions are evaluated per element.

use super::super::ir::{Mask, Tile, TileId};
use super::compile::Scope;
use super::fault;
use crate::block::Range;
use crate::dim::{Code, Cond, CondCode, Dim, Env, Relation, Symbol};
use crate::error::Error;
use crate::tensor::{Array, Data};
use std::collections::BTreeSet;

/// The name of a range's own label in the test of its end; no text can say it.
const OWN: &str = "(own)";

/// The axes of a statement, one per label.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// The labels; slot `base + k` holds the value of label `k`.
    pub labels: Vec<Symbol>,
    /// The first slot of the labels; the slots before hold the coordinates.
    pub base: usize,
    /// The axis along which rows run.
    pub inner: usize,
    axes: Vec<Axis>,
    /// The tables that ranges read.
    tables: BTreeSet<Symbol>,
}

#[derive(Clone, Debug)]
struct Axis {
    start: Code,
    size: i64,
    /// None where the end depends on other labels: then it is a test.
    end: Option<Code>,
}

/// A space at coordinates: for each axis the first index and how many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    pub starts: Vec<i64>,
    pub counts: Vec<i64>,
}

/// How a tile is reached from the index tuples of a space.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub tile: TileId,
    /// By label of the space: positions per step; 0 where the tile lacks the label.
    pub strides: Vec<i64>,
    /// The labels whose range in the tile starts elsewhere than in the space: axis, start, size.
    shifts: Vec<(usize, Code, i64)>,
}

/// Which positions take part.
#[derive(Clone, Debug, Default)]
pub(super) struct Tests {
    affine: Vec<(Code, Relation)>,
    /// Linear along the inner axis.
    rows: Vec<RowTest>,
    general: Vec<CondCode>,
    masks: Vec<View>,
    never: bool,
    tables: BTreeSet<Symbol>,
}

/// A comparison that is linear along the inner axis.
#[derive(Clone, Debug)]
struct RowTest {
    /// The value at index 0 of the inner axis, the step, and what must hold of their sum.
    rest: Code,
    step: i64,
    relation: Relation,
    /// The comparison itself, for where the rest has no value: its sides may have one.
    exact: CondCode,
}

/// The part of a row that takes part: positions `lo..hi` of the inner axis, and, where `bits` is set, only those whose
/// bit (counted from `lo`) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub lo: i64,
    pub hi: i64,
    pub bits: bool,
}

impl Admitted {
    pub fn is_empty(self) -> bool {
        self.lo >= self.hi
    }
}

impl Space {
    /// The space of the labels of `tiles`, each with its range in the first tile that has it. Also gives the tests
    /// that stand for ends which depend on other labels.
    pub fn new(tiles: &[&Tile], scope: &Scope<'_>) -> Result<(Space, Tests), Error> {
        // A range may mention the labels of earlier axes of its tile, and those only.
        let mut ranges: Vec<(&Range, &[Range])> = Vec::new();
        for tile in tiles {
            for (axis, range) in tile.ranges.iter().enumerate() {
                if !ranges.iter().any(|(other, _)| other.label == range.label) {
                    ranges.push((range, &tile.ranges[..axis]));
                }
            }
        }
        let labels: Vec<Symbol> = ranges.iter().map(|(range, _)| range.label.clone()).collect();
        let base = scope.coordinates.len();
        let mut ends = Vec::new();
        let mut axes = Vec::new();
        for (range, earlier) in &ranges {
            let mentions = |dim: &Dim| earlier.iter().any(|other| dim.mentions(&other.label));
            if mentions(&range.start) {
                return Err(Error::Unsupported {
                    place: scope.place.to_string(),
                    what: format!("a range of `{}` that starts at `{}`", range.label, range.start),
                    instead: "start it at an expression of coordinates".into(),
                });
            }
            let dependent = mentions(&range.end);
            if dependent {
                let visible =
                    labels.iter().map(|label| match earlier.iter().any(|other| other.label == *label) {
                        true => label.clone(),
                        false => Symbol::new(if *label == range.label { OWN } else { "" }),
                    });
                ends.push((Cond::lt(OWN, &range.end), visible.collect::<Vec<_>>()));
            }
            axes.push(Axis {
                start: scope.code(&range.start, &[])?,
                size: range.size,
                end: if dependent { None } else { Some(scope.code(&range.end, &[])?) },
            });
        }
        let inner =
            ranges.iter().rposition(|(range, _)| range.size != 1).unwrap_or(ranges.len().saturating_sub(1));
        let all = tiles.iter().flat_map(|tile| &tile.ranges);
        let tables = all.flat_map(|range| [range.start.tables(), range.end.tables()]).flatten().collect();
        let mut space = Space { labels, base, inner, axes, tables };
        if space.axes.is_empty() {
            space.labels.push(Symbol::new(""));
            let constant = |value: i64| scope.code(&value.into(), &[]);
            space.axes.push(Axis { start: constant(0)?, size: 1, end: Some(constant(1)?) });
        }
        let mut tests = Tests::default();
        for (end, visible) in &ends {
            tests.add(end, visible, space.inner, scope)?;
        }
        Ok((space, tests))
    }

    /// Adds the names of the tables that ranges read.
    pub fn tables(&self, names: &mut BTreeSet<Symbol>) {
        names.extend(self.tables.iter().cloned());
    }

    /// The slot of the inner label.
    pub fn inner_slot(&self) -> usize {
        self.base + self.inner
    }

    /// How many slots the coordinates and labels take.
    pub fn slots(&self) -> usize {
        self.base + self.labels.len()
    }

    /// Fills `bounds` with the ranges at the coordinates in `slots`. False where there is no index tuple: behind an
    /// axis without indices, later ranges are not looked at, since they may have no value.
    pub fn bind(&self, slots: &[i64], env: &dyn Env, bounds: &mut Bounds) -> Result<bool, Error> {
        bounds.starts.clear();
        bounds.counts.clear();
        for axis in &self.axes {
            let start = axis.start.eval(slots, env).map_err(fault)?;
            let count = match &axis.end {
                Some(end) => end.eval(slots, env).map_err(fault)?.saturating_sub(start).clamp(0, axis.size),
                None => axis.size,
            };
            start.checked_add(axis.size).ok_or_else(|| super::overflow("the end of a range"))?;
            if count <= 0 {
                return Ok(false);
            }
            bounds.starts.push(start);
            bounds.counts.push(count);
        }
        Ok(true)
    }

    /// Calls `f` for each row in order, with the slots set to the row's first index tuple and the positions of the
    /// outer axes (that of the inner one is 0).
    pub fn walk(
        &self,
        bounds: &Bounds,
        slots: &mut [i64],
        mut f: impl FnMut(&mut [i64], &[i64]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let rank = self.axes.len();
        let mut positions = vec![0i64; rank];
        slots[self.base..self.base + rank].copy_from_slice(&bounds.starts);
        loop {
            slots[self.base + self.inner] = bounds.starts[self.inner];
            f(slots, &positions)?;
            let mut axis = rank;
            loop {
                if axis == 0 {
                    return Ok(());
                }
                axis -= 1;
                if axis == self.inner {
                    continue;
                }
                positions[axis] += 1;
                if positions[axis] < bounds.counts[axis] {
                    slots[self.base + axis] = bounds.starts[axis] + positions[axis];
                    break;
                }
                positions[axis] = 0;
                slots[self.base + axis] = bounds.starts[axis];
            }
        }
    }

    /// The least and greatest value of a linear form over the index tuples.
    pub fn extremes(&self, form: (&[i64], i64), bounds: &Bounds, slots: &[i64]) -> (i128, i128) {
        let (coefficients, constant) = form;
        let (mut lo, mut hi) = (i128::from(constant), i128::from(constant));
        for (slot, &coefficient) in coefficients.iter().enumerate() {
            let coefficient = i128::from(coefficient);
            let (first, last) = match slot.checked_sub(self.base) {
                Some(axis) => (bounds.starts[axis], bounds.starts[axis] + bounds.counts[axis] - 1),
                None => (slots[slot], slots[slot]),
            };
            let ends = (coefficient * i128::from(first), coefficient * i128::from(last));
            lo += ends.0.min(ends.1);
            hi += ends.0.max(ends.1);
        }
        (lo, hi)
    }
}

/// The value of a linear form at `slots`, and how it grows along the slot `inner`.
pub(super) fn linear(form: (&[i64], i64), slots: &[i64], inner: usize) -> (i128, i128) {
    let (coefficients, constant) = form;
    let products = coefficients.iter().zip(slots).map(|(&c, &v)| i128::from(c) * i128::from(v));
    (i128::from(constant) + products.sum::<i128>(), i128::from(coefficients.get(inner).copied().unwrap_or(0)))
}

impl View {
    /// How `tile` is reached from a space that has all its labels.
    pub fn new(
        id: TileId,
        tile: &Tile,
        tiles: &[&Tile],
        space: &Space,
        scope: &Scope<'_>,
    ) -> Result<View, Error> {
        let mut strides = vec![0; space.labels.len()];
        let mut shifts = Vec::new();
        let mut stride = 1i64;
        for range in tile.ranges.iter().rev() {
            let axis = space.labels.iter().position(|label| *label == range.label);
            let axis = axis.ok_or_else(|| {
                scope.illegal(format!(
                    "tile `{}` has a label `{}` that the result lacks",
                    tile.name, range.label
                ))
            })?;
            strides[axis] = stride;
            stride = stride.saturating_mul(range.size);
            let first = tiles.iter().flat_map(|tile| &tile.ranges).find(|other| other.label == range.label);
            if first.is_some_and(|first| first.start != range.start || first.size > range.size) {
                shifts.push((axis, scope.code(&range.start, &[])?, range.size));
            }
        }
        Ok(View { tile: id, strides, shifts })
    }

    /// The position in the tile of the first index tuple.
    pub fn origin(&self, bounds: &Bounds, slots: &[i64], env: &dyn Env) -> Result<i64, Error> {
        let mut origin = 0;
        for (axis, start, size) in &self.shifts {
            let shift = bounds.starts[*axis].checked_sub(start.eval(slots, env).map_err(fault)?);
            let shift = shift.filter(|shift| *shift >= 0 && shift + bounds.counts[*axis] <= *size);
            let shift = shift.ok_or_else(|| super::overflow("an element outside its tile"))?;
            origin += shift * self.strides[*axis];
        }
        Ok(origin)
    }

    /// By how much `origin` moves at the positions of a row.
    pub fn offset(&self, positions: &[i64]) -> i64 {
        positions.iter().zip(&self.strides).map(|(position, stride)| position * stride).sum()
    }
}

impl Tests {
    /// A condition and boolean tiles.
    pub fn new(condition: &Cond, masks: Vec<View>, space: &Space, scope: &Scope<'_>) -> Result<Tests, Error> {
        let mut tests = Tests { masks, tables: condition.tables(), ..Tests::default() };
        tests.add(condition, &space.labels, space.inner, scope)?;
        Ok(tests)
    }

    /// The tests of a mask.
    pub fn of_mask(mask: &Mask, tiles: &[&Tile], space: &Space, scope: &Scope<'_>) -> Result<Tests, Error> {
        let view = |id: &TileId| View::new(*id, scope.tile(*id)?, tiles, space, scope);
        let views = mask.tiles.iter().map(view).collect::<Result<Vec<_>, Error>>()?;
        Tests::new(&mask.condition, views, space, scope)
    }

    fn add(
        &mut self,
        condition: &Cond,
        labels: &[Symbol],
        inner: usize,
        scope: &Scope<'_>,
    ) -> Result<(), Error> {
        match condition {
            Cond::True => {}
            Cond::False => self.never = true,
            Cond::And(parts) => parts.iter().try_for_each(|part| self.add(part, labels, inner, scope))?,
            Cond::Compare(a, relation, b) if *relation != Relation::Ne => {
                let difference = a - b;
                let code = scope.code(&difference, labels)?;
                match (code.as_affine(), split(&difference, &labels[inner])) {
                    (Some(_), _) => self.affine.push((code, *relation)),
                    (None, Some((rest, step))) => {
                        let rest = scope.code(&rest, labels)?;
                        let exact = scope.condition(condition, labels)?;
                        self.rows.push(RowTest { rest, step, relation: *relation, exact });
                    }
                    (None, None) => self.general.push(scope.condition(condition, labels)?),
                }
            }
            _ => self.general.push(scope.condition(condition, labels)?),
        }
        Ok(())
    }

    /// These and those of `other`.
    pub fn and(mut self, other: Tests) -> Tests {
        self.affine.extend(other.affine);
        self.rows.extend(other.rows);
        self.general.extend(other.general);
        self.masks.extend(other.masks);
        self.never |= other.never;
        self.tables.extend(other.tables);
        self
    }

    /// Adds the names of the tables that the conditions read.
    pub fn tables(&self, names: &mut BTreeSet<Symbol>) {
        names.extend(self.tables.iter().cloned());
    }

    /// Whether all index tuples take part, as far as it can be told without looking at each.
    pub fn admits_all(&self, space: &Space, bounds: &Bounds, slots: &[i64]) -> bool {
        let holds = |(code, relation): &(Code, Relation)| {
            code.as_affine().is_some_and(|form| {
                let (lo, hi) = space.extremes(form, bounds, slots);
                match relation {
                    Relation::Lt => hi < 0,
                    Relation::Le => hi <= 0,
                    Relation::Gt => lo > 0,
                    Relation::Ge => lo >= 0,
                    Relation::Eq => lo == 0 && hi == 0,
                    Relation::Ne => lo > 0 || hi < 0,
                }
            })
        };
        !self.never && self.is_affine() && self.affine.iter().all(holds)
    }

    /// Whether what is admitted along two axes is a product of two intervals: only affine conditions, none of which
    /// varies along both.
    pub fn separable(&self, space: &Space, a: usize, b: usize) -> bool {
        let one =
            |(code, _): &(Code, Relation)| !varies(code, space.base + a) || !varies(code, space.base + b);
        self.is_affine() && (a == b || self.affine.iter().all(one))
    }

    /// Whether there are no other conditions than affine ones.
    fn is_affine(&self) -> bool {
        self.rows.is_empty() && self.general.is_empty() && self.masks.is_empty()
    }

    /// Narrows `lo..hi`, steps along `slot` from the index tuple in `slots` on, to those that the affine conditions
    /// admit, as far as they do not vary along the slot `except`.
    pub fn narrow(&self, slots: &[i64], slot: usize, except: Option<usize>, lo: i64, hi: i64) -> (i64, i64) {
        let (mut lo, mut hi) = if self.never { (lo, lo) } else { (lo, hi) };
        for (code, relation) in &self.affine {
            let Some(form) = code.as_affine() else { continue };
            if lo >= hi {
                break;
            }
            if except.is_none_or(|except| !varies(code, except)) {
                let (base, step) = linear(form, slots, slot);
                (lo, hi) = interval(base, step, *relation, lo, hi);
            }
        }
        (lo, hi)
    }

    /// The positions of the row at `slots` that take part. `origins` are those of the mask tiles.
    #[expect(clippy::too_many_arguments, reason = "a row, its place, and where its bits go")]
    pub fn row(
        &self,
        space: &Space,
        bounds: &Bounds,
        slots: &mut [i64],
        positions: &[i64],
        origins: &[i64],
        tiles: &[Array],
        env: &dyn Env,
        bits: &mut Vec<bool>,
    ) -> Result<Admitted, Error> {
        let slot = space.inner_slot();
        let (mut lo, mut hi) = self.narrow(slots, slot, None, 0, bounds.counts[space.inner]);
        let mut exact = false;
        for RowTest { rest, step, relation, .. } in &self.rows {
            if lo >= hi {
                break;
            }
            match rest.eval(slots, env) {
                Ok(rest) => {
                    let step = i128::from(*step);
                    let base = i128::from(rest) + step * i128::from(slots[slot]);
                    (lo, hi) = interval(base, step, *relation, lo, hi);
                }
                Err(_) => exact = true,
            }
        }
        let mut admitted = Admitted { lo, hi, bits: false };
        if admitted.is_empty() || (!exact && self.general.is_empty() && self.masks.is_empty()) {
            return Ok(admitted);
        }
        admitted.bits = true;
        bits.clear();
        bits.resize(usize::try_from(hi - lo).unwrap_or(0), true);
        for (view, origin) in self.masks.iter().zip(origins) {
            let stride = view.strides[space.inner];
            let first = origin + view.offset(positions) + lo * stride;
            let Data::Bool(mask) = &tiles[view.tile.0 as usize].data else { continue };
            for (k, bit) in bits.iter_mut().enumerate() {
                *bit &= mask.get((first + k as i64 * stride) as usize).copied().unwrap_or(false);
            }
        }
        if exact || !self.general.is_empty() {
            let first = slots[slot];
            let rows = if exact { self.rows.as_slice() } else { &[] };
            for (k, bit) in bits.iter_mut().enumerate() {
                slots[slot] = first + lo + k as i64;
                for code in rows.iter().map(|row| &row.exact).chain(&self.general) {
                    if *bit {
                        *bit = code.eval(slots, env).map_err(fault)?;
                    }
                }
            }
            slots[slot] = first;
        }
        Ok(admitted)
    }

    /// The origins of the mask tiles.
    pub fn origins(&self, bounds: &Bounds, slots: &[i64], env: &dyn Env) -> Result<Vec<i64>, Error> {
        self.masks.iter().map(|view| view.origin(bounds, slots, env)).collect()
    }
}

/// A dim as `rest + step · label`, if it is one with `rest` free of the label.
pub(super) fn split(dim: &Dim, label: &Symbol) -> Option<(Dim, i64)> {
    let form = dim.affine(std::slice::from_ref(label))?;
    Some((form.constant, form.coefficients.first()?.as_constant()?))
}

/// Whether a linear form varies along a slot.
fn varies(code: &Code, slot: usize) -> bool {
    code.as_affine().is_none_or(|(coefficients, _)| coefficients.get(slot).is_some_and(|c| *c != 0))
}

/// The part of `lo..hi` where `base + step·x` stands in `relation` to 0.
pub(super) fn interval(base: i128, step: i128, relation: Relation, lo: i64, hi: i64) -> (i64, i64) {
    let at_least = |base: i128, step: i128, lo: i64, hi: i64| {
        if step == 0 {
            return if base >= 0 { (lo, hi) } else { (lo, lo) };
        }
        if step > 0 {
            let first = (-base).div_euclid(step) + i128::from((-base).rem_euclid(step) != 0);
            (first.clamp(lo.into(), hi.max(lo).into()) as i64, hi)
        } else {
            let last = base.div_euclid(-step);
            (lo, (last + 1).clamp(lo.into(), hi.max(lo).into()) as i64)
        }
    };
    match relation {
        Relation::Ge => at_least(base, step, lo, hi),
        Relation::Gt => at_least(base - 1, step, lo, hi),
        Relation::Le => at_least(-base, -step, lo, hi),
        Relation::Lt => at_least(-base - 1, -step, lo, hi),
        Relation::Eq => {
            let (lo, hi) = at_least(base, step, lo, hi);
            at_least(-base, -step, lo, hi)
        }
        Relation::Ne => (lo, hi),
    }
}
