//! Loads and stores: rows of a tile from and to a buffer, and tables for index expressions.

use super::super::ir::TileId;
use super::compile::Scope;
use super::elements::{Elements, ElementsMut, fill};
use super::space::{Bounds, Space, Tests, View, interval, linear, split};
use super::{Machine, fault, overflow};
use crate::dim::{Code, Cond, Dim, Env, Relation, Symbol};
use crate::error::Error;
use crate::task::BufferId;
use crate::tensor::{Array, Scalar};

/// The tables that a statement's index expressions may read.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    names: Vec<(Symbol, Table)>,
}

#[derive(Clone, Debug)]
enum Table {
    Buffer(BufferId, Vec<i64>),
    /// A tile: the start and size of each range. Indices are values of its labels.
    Tile(TileId, Vec<(Code, i64)>),
}

/// Tables at hand: what index expressions are evaluated in.
pub(super) struct Lookup<'a, M> {
    tables: &'a Tables,
    tiles: &'a [Array],
    machine: &'a M,
    slots: [&'a [i64]; 1],
}

impl Tables {
    /// The tables of these names.
    pub fn new(names: impl IntoIterator<Item = Symbol>, scope: &Scope<'_>) -> Result<Tables, Error> {
        let mut tables = Tables::default();
        for name in names {
            let table = match (scope.find_tile(&name), scope.find_buffer(&name)) {
                (Some((id, tile)), _) => {
                    let axis = |range: &crate::block::Range| Ok((scope.code(&range.start, &[])?, range.size));
                    Table::Tile(id, tile.ranges.iter().map(axis).collect::<Result<_, Error>>()?)
                }
                (None, Some((id, extents))) => Table::Buffer(id, extents),
                (None, None) => return Err(scope.illegal(format!("there is no buffer or tile `{name}`"))),
            };
            tables.names.push((name, table));
        }
        Ok(tables)
    }

    /// The tables in the state of `tiles` and `machine`, at the coordinates in `slots`.
    pub fn lookup<'a, M>(&'a self, tiles: &'a [Array], machine: &'a M, slots: &'a [i64]) -> Lookup<'a, M> {
        Lookup { tables: self, tiles, machine, slots: [slots] }
    }
}

impl<M: Machine> Env for Lookup<'_, M> {
    fn symbol(&self, _: &Symbol) -> Option<i64> {
        None
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let (_, table) = self.tables.names.iter().find(|(name, _)| name == table)?;
        match table {
            Table::Buffer(id, extents) => {
                let mut position = 0i64;
                for (&i, &n) in index.iter().zip(extents) {
                    if i < 0 || i >= n {
                        return None;
                    }
                    position = position * n + i;
                }
                (index.len() == extents.len()).then(|| self.machine.integer(*id, position as usize))
            }
            Table::Tile(id, axes) => {
                let mut position = 0i64;
                for (&i, (start, size)) in index.iter().zip(axes) {
                    let i = i.checked_sub(start.eval(self.slots[0], &()).ok()?)?;
                    if i < 0 || i >= *size {
                        return None;
                    }
                    position = position * size + i;
                }
                let tile = self.tiles.get(id.0 as usize)?;
                (index.len() == axes.len() && (position as usize) < tile.len())
                    .then(|| tile.get(position as usize).as_i64())
            }
        }
    }
}

/// An access function compiled: where in a buffer an index tuple of a tile lies.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub buffer: BufferId,
    tile: View,
    tests: Tests,
    tables: Tables,
    axes: Vec<AccessAxis>,
    /// Whether the buffer has an element.
    inhabited: bool,
}

#[derive(Clone, Debug)]
struct AccessAxis {
    code: Code,
    kind: Kind,
    extent: i64,
    stride: i64,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Linear in coordinates and labels.
    Affine,
    /// Linear along a row: the value at index 0 of the inner label, and the step.
    Row(Code, i64),
    /// Anything else.
    General,
}

/// A part of a row in the buffer.
enum Run {
    /// Positions `lo..hi` of the row, at element `start` and `step` apart.
    Strided { lo: i64, hi: i64, start: usize, step: isize },
    /// Each element has to be looked up.
    Each,
}

impl Access {
    /// Compiles `buffer[index]` for the labels of a tile.
    pub fn new(
        tile: TileId,
        buffer: BufferId,
        index: &[Dim],
        when: &Cond,
        scope: &Scope<'_>,
    ) -> Result<(Space, Access), Error> {
        let shape = scope.tile(tile)?;
        let (space, ends) = Space::new(&[shape], scope)?;
        let view = View::new(tile, shape, &[shape], &space, scope)?;
        let extents = scope.extents(buffer)?;
        if extents.len() != index.len() {
            let message = format!("{} indices for a buffer of {} axes", index.len(), extents.len());
            return Err(scope.illegal(message));
        }
        let mut names = when.tables();
        index.iter().for_each(|dim| names.append(&mut dim.tables()));
        space.tables(&mut names);
        let tables = Tables::new(names, scope)?;
        let tests = Tests::new(when, Vec::new(), &space, scope)?.and(ends);
        let inner = &space.labels[space.inner];
        let mut axes = Vec::new();
        let mut stride = 1i64;
        for (dim, extent) in index.iter().zip(&extents).rev() {
            let code = scope.code(dim, &space.labels)?;
            let kind = match (code.as_affine(), split(dim, inner)) {
                (Some(_), _) => Kind::Affine,
                (None, Some((rest, step))) => Kind::Row(scope.code(&rest, &space.labels)?, step),
                (None, None) => Kind::General,
            };
            axes.push(AccessAxis { code, kind, extent: *extent, stride });
            stride = stride.checked_mul(*extent).ok_or_else(|| overflow("the size of a buffer"))?;
        }
        axes.reverse();
        Ok((space, Access { buffer, tile: view, tests, tables, axes, inhabited: stride > 0 }))
    }

    /// For each axis whether its index may lie outside.
    fn unchecked(&self, space: &Space, bounds: &Bounds, slots: &[i64]) -> bool {
        self.axes.iter().all(|axis| {
            axis.code.as_affine().is_some_and(|form| {
                let (lo, hi) = space.extremes(form, bounds, slots);
                lo >= 0 && hi < i128::from(axis.extent)
            })
        })
    }

    fn run(
        &self,
        slots: &[i64],
        slot: usize,
        lo: i64,
        hi: i64,
        inside: bool,
        env: &dyn Env,
    ) -> Result<Run, Error> {
        let (mut lo, mut hi) = (lo, hi);
        let (mut start, mut step) = (0i128, 0i128);
        for axis in &self.axes {
            let stride = i128::from(axis.stride);
            match (&axis.kind, axis.code.as_affine()) {
                (Kind::Affine, Some(form)) => {
                    let (base, along) = linear(form, slots, slot);
                    if !inside {
                        (lo, hi) = interval(base, along, Relation::Ge, lo, hi);
                        (lo, hi) = interval(base - i128::from(axis.extent), along, Relation::Lt, lo, hi);
                    }
                    start += base * stride;
                    step += along * stride;
                }
                (Kind::Row(rest, along), _) if lo < hi => {
                    let Ok(rest) = rest.eval(slots, env) else { return Ok(Run::Each) };
                    let along = i128::from(*along);
                    let base = i128::from(rest) + along * i128::from(slots[slot]);
                    (lo, hi) = interval(base, along, Relation::Ge, lo, hi);
                    (lo, hi) = interval(base - i128::from(axis.extent), along, Relation::Lt, lo, hi);
                    start += base * stride;
                    step += along * stride;
                }
                (Kind::Row(..), _) => {}
                _ => return Ok(Run::Each),
            }
        }
        if lo >= hi {
            return Ok(Run::Strided { lo, hi: lo, start: 0, step: 0 });
        }
        let first = usize::try_from(start + step * i128::from(lo)).map_err(|_| overflow("an element"))?;
        Ok(Run::Strided { lo, hi, start: first, step: step as isize })
    }

    /// The position of one index tuple in the buffer, none where it lies outside.
    fn position(&self, slots: &[i64], env: &dyn Env) -> Result<Option<usize>, Error> {
        let mut position = 0;
        for axis in &self.axes {
            let value = axis.code.eval(slots, env).map_err(fault)?;
            if value < 0 || value >= axis.extent {
                return Ok(None);
            }
            position += value * axis.stride;
        }
        Ok(usize::try_from(position).ok())
    }

    /// `tile = buffer[index]` inside, 0 elsewhere.
    pub fn load<M: Machine>(
        &self,
        space: &Space,
        slots: &mut [i64],
        frame: &mut super::Frame,
        machine: &mut M,
    ) -> Result<(), Error> {
        let index = self.tile.tile.0 as usize;
        let mut tile = std::mem::replace(&mut frame.tiles[index], empty());
        let zero = Scalar::zero(tile.dtype);
        let coordinates = slots[..space.base].to_vec();
        let env = self.tables.lookup(&frame.tiles, machine, &coordinates);
        if space.bind(slots, &env, &mut frame.bounds)? {
            let bounds = &frame.bounds;
            let inside = self.unchecked(space, bounds, slots);
            let slot = space.inner_slot();
            let count = bounds.counts[space.inner];
            let bits = &mut frame.bits;
            space.walk(bounds, slots, |slots, positions| {
                let offset = self.tile.offset(positions) as usize;
                let whole = offset..offset + count as usize;
                if !self.inhabited {
                    fill(&mut tile, whole, zero);
                    return Ok(());
                }
                let row = self.tests.row(space, bounds, slots, positions, &[], &frame.tiles, &env, bits)?;
                match self.run(slots, slot, row.lo, row.hi, inside, &env)? {
                    Run::Strided { lo, hi, start, step } => {
                        if row.bits || (lo, hi) != (0, count) {
                            fill(&mut tile, whole, zero);
                        }
                        for (a, b) in runs(lo, hi, row.bits.then_some((row.lo, bits.as_slice()))) {
                            let first = start.wrapping_add_signed(step * (a - lo) as isize);
                            let part = ElementsMut::of(&mut tile, offset + a as usize, offset + b as usize);
                            machine.read(self.buffer, first, step, part);
                        }
                    }
                    Run::Each => {
                        fill(&mut tile, whole, zero);
                        let first = slots[slot];
                        for k in row.lo..row.hi {
                            if row.bits && !bits[(k - row.lo) as usize] {
                                continue;
                            }
                            slots[slot] = first + k;
                            if let Some(position) = self.position(slots, &env)? {
                                let at = offset + k as usize;
                                let part = ElementsMut::of(&mut tile, at, at + 1);
                                machine.read(self.buffer, position, 1, part);
                            }
                        }
                        slots[slot] = first;
                    }
                }
                Ok(())
            })?;
        }
        frame.tiles[index] = tile;
        Ok(())
    }

    /// `buffer[index] = tile` where the index lies inside.
    pub fn store<M: Machine>(
        &self,
        space: &Space,
        slots: &mut [i64],
        frame: &mut super::Frame,
        machine: &mut M,
    ) -> Result<(), Error> {
        let coordinates = slots[..space.base].to_vec();
        if !space.bind(slots, &self.tables.lookup(&frame.tiles, machine, &coordinates), &mut frame.bounds)? {
            return Ok(());
        }
        let bounds = &frame.bounds;
        let inside = self.unchecked(space, bounds, slots);
        let slot = space.inner_slot();
        let tile = &frame.tiles[self.tile.tile.0 as usize];
        let bits = &mut frame.bits;
        space.walk(bounds, slots, |slots, positions| {
            let env = self.tables.lookup(&frame.tiles, machine, &coordinates);
            let row = self.tests.row(space, bounds, slots, positions, &[], &frame.tiles, &env, bits)?;
            let offset = self.tile.offset(positions) as usize;
            match self.run(slots, slot, row.lo, row.hi, inside, &env)? {
                Run::Strided { lo, hi, start, step } => {
                    for (a, b) in runs(lo, hi, row.bits.then_some((row.lo, bits.as_slice()))) {
                        let first = start.wrapping_add_signed(step * (a - lo) as isize);
                        let part = Elements::of(tile, offset + a as usize, offset + b as usize);
                        machine.write(self.buffer, first, step, part);
                    }
                }
                Run::Each => {
                    let first = slots[slot];
                    for k in row.lo..row.hi {
                        if row.bits && !bits[(k - row.lo) as usize] {
                            continue;
                        }
                        slots[slot] = first + k;
                        let tables = self.tables.lookup(&frame.tiles, machine, &coordinates);
                        let Some(position) = self.position(slots, &tables)? else { continue };
                        let at = offset + k as usize;
                        machine.write(self.buffer, position, 1, Elements::of(tile, at, at + 1));
                    }
                    slots[slot] = first;
                }
            }
            Ok(())
        })
    }
}

/// An array of nothing, in place of a tile that is being written.
pub(super) fn empty() -> Array {
    Array {
        dtype: crate::tensor::DType::F64,
        extents: Vec::new(),
        data: crate::tensor::Data::Float(Vec::new()),
    }
}

/// The maximal parts of `lo..hi` whose bits, counted from the first element of the pair, are set; all of it without
/// bits.
pub(super) fn runs(lo: i64, hi: i64, bits: Option<(i64, &[bool])>) -> impl Iterator<Item = (i64, i64)> {
    let mut at = lo;
    std::iter::from_fn(move || {
        let Some((origin, bits)) = bits else {
            let run = (at < hi).then_some((at, hi));
            at = hi;
            return run;
        };
        let bit = |k: i64| bits.get((k - origin) as usize).copied().unwrap_or(false);
        while at < hi && !bit(at) {
            at += 1;
        }
        let first = at;
        while at < hi && bit(at) {
            at += 1;
        }
        (first < at).then_some((first, at))
    })
}
