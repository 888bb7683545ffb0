//! One loop for statements over the same index tuples: rows in order, each row vector by vector.
//!
//! What takes part in a row is an interval for each load, store and reduction. Where all of them are whole, full vectors
//! run without masks; the rest of a row, and rows where they are not, run under masks. A lane that is off never touches
//! memory.

use std::collections::BTreeMap;

use tilewright::block::Range;
use tilewright::dim::{Cond, Symbol};
use tilewright::kernel::{Argument, Statement, Tile, TileId};
use tilewright::tensor::{DType, Monoid, Scalar};

use super::access::{Access, RowAccess, Shape, block_step, narrows};
use super::code::{Code, Lack, lack};
use super::index::Interval;
use super::lanes::{Lanes, Part};
use super::place::{self, Kind};
use super::{Selector, plan};
use crate::machine::{Arg, Cond as Test, Mask, Mem, ValueId};

/// How many vectors one turn of a loop with a reduction does.
const UNROLL: usize = 4;

/// The rows of a loop.
pub struct Rows<'a> {
    /// The tile whose ranges are the index tuples.
    pub space: &'a Tile,
    /// The axis along which rows run; none where there is a single element.
    pub inner: Option<usize>,
    /// By axis: the first index.
    pub starts: Vec<ValueId>,
    /// By axis: how many indices.
    pub counts: Vec<ValueId>,
    /// By axis but the inner one: the position, inside the loops.
    pub positions: Vec<Option<ValueId>>,
    /// Whether a range depends on the label of another axis.
    pub dependent: bool,
    one: ValueId,
}

/// What a statement of a group needs in a row.
enum Ready<'a> {
    /// A load or store.
    Access(Access<'a>, RowAccess),
    /// A reduction: where it takes part.
    Reduction(Interval, Option<i32>),
    /// A function: rows of scratch for arguments that are found one by one.
    Function(Vec<Option<i32>>),
    /// Nothing.
    Plain,
}

/// A row of a group in progress.
struct Row<'a, 'r> {
    rows: &'r Rows<'r>,
    ready: &'r [Ready<'a>],
    /// The addresses in scratch of position 0 of tiles.
    pointers: &'r BTreeMap<TileId, ValueId>,
}

impl Rows<'_> {
    /// The label along which rows run and its first index; none where a row has one position at most.
    pub fn row(&self) -> Option<(&Symbol, ValueId)> {
        let axis = self.inner.filter(|axis| self.space.ranges[*axis].size != 1)?;
        Some((&self.space.ranges[axis].label, self.starts[axis]))
    }

    /// The most positions that a row has.
    pub fn size(&self) -> i64 {
        self.inner.map_or(1, |axis| self.space.ranges[axis].size)
    }

    /// How many positions a row has.
    pub fn count(&self) -> ValueId {
        self.inner.map_or(self.one, |axis| self.counts[axis])
    }
}

impl<'a> Selector<'a> {
    /// The loop of a group.
    pub fn group(&mut self, group: &[&'a Statement]) -> Result<(), Lack> {
        let Some(space) = plan::space(group[0]) else { return lack("a statement without a tile") };
        let inner = self.code.places[space.0 as usize].inner;
        let space = self.tile(space);
        self.rows(space, inner, group, |selector, rows, accesses| selector.row(group, rows, accesses))
    }

    /// Computes the range of each axis of a space.
    pub fn range(&mut self, space: &Tile, axis: usize) -> Result<(ValueId, ValueId), Lack> {
        self.bounds_of(&space.ranges[axis])
    }

    /// The first index of a range, and how many there are, which may be less than 1.
    pub fn bounds_of(&mut self, range: &Range) -> Result<(ValueId, ValueId), Lack> {
        let start = self.code.dim(&range.start)?;
        let end = self.code.dim(&range.end)?;
        let b = &mut self.code.b;
        let size = b.imm(range.size);
        b.add_or(start, size, super::code::NO_VALUE);
        let count = b.sub_or(end, start, super::code::NO_VALUE);
        Ok((start, b.min(count, size)))
    }

    /// The ranges of a space as bounds only; none where one depends on the label of another. Ranges may be empty.
    pub fn bounds<'s>(&mut self, space: &'s Tile, inner: Option<usize>) -> Result<Option<Rows<'s>>, Lack> {
        if depends(space) {
            return Ok(None);
        }
        let one = self.code.b.imm(1);
        let (mut starts, mut counts) = (Vec::new(), Vec::new());
        for axis in 0..space.ranges.len() {
            let (start, count) = self.range(space, axis)?;
            starts.push(start);
            counts.push(count);
        }
        let positions = vec![None; counts.len()];
        Ok(Some(Rows { space, inner, starts, counts, positions, dependent: false, one }))
    }

    /// The loops over the rows of a space.
    pub fn rows(
        &mut self,
        space: &'a Tile,
        inner: Option<usize>,
        group: &[&'a Statement],
        body: impl FnOnce(&mut Self, &Rows<'_>, Vec<Option<Access<'a>>>) -> Result<(), Lack>,
    ) -> Result<(), Lack> {
        let axes = space.ranges.len();
        let dependent = depends(space);
        if dependent {
            return lack("a range that depends on a label");
        }
        let one = self.code.b.imm(1);
        let (mut starts, mut counts, mut skips) = (Vec::new(), Vec::new(), Vec::new());
        for axis in 0..axes {
            let (start, count) = self.range(space, axis)?;
            skips.push(self.code.begin_if(Test::Greater, count, 0));
            starts.push(start);
            counts.push(count);
        }
        let mut rows = Rows { space, inner, starts, counts, positions: vec![None; axes], dependent, one };
        let mut accesses = Vec::new();
        for statement in group {
            let mut temporary = |kind| self.scratch.take(place::pitch(rows.size()), kind).map(|at| at as i32);
            accesses.push(self.code.access(&rows, statement, &mut temporary)?);
        }
        let (mut loops, mut bound) = (Vec::new(), 0);
        for axis in 0..axes {
            let size = space.ranges[axis].size;
            if size == 1 {
                self.code.bind(&space.ranges[axis].label, rows.starts[axis]);
                bound += 1;
            } else if Some(axis) != inner {
                let zero = self.code.b.imm(0);
                let at = self.code.begin_loop("row", zero, rows.counts[axis], 1, &[]);
                rows.positions[axis] = Some(at.index);
                let label = self.code.b.add(rows.starts[axis], at.index);
                self.code.bind(&space.ranges[axis].label, label);
                bound += 1;
                loops.push(at);
            }
        }
        body(self, &rows, accesses)?;
        self.code.unbind(bound);
        for at in loops.into_iter().rev() {
            self.code.end_loop(at, &[]);
        }
        for skip in skips.into_iter().rev() {
            self.code.end_if(skip);
        }
        Ok(())
    }

    /// The address in scratch of a tile's element at the positions of a row.
    pub fn address(&mut self, id: TileId, rows: &Rows<'_>) -> Result<ValueId, Lack> {
        let (tile, place) = (self.tile(id), &self.code.places[id.0 as usize]);
        let offset = i32::try_from(place.offset).map_err(|_| Lack("scratch too large".into()))?;
        let mut at = self.code.b.lea(Mem::at(self.code.scratch, offset));
        for (axis, range) in tile.ranges.iter().enumerate() {
            let found = rows.space.ranges.iter().position(|other| other.label == range.label);
            let Some(found) = found else {
                return lack(format!("`{}` has a label `{}` of its own", tile.name, range.label));
            };
            let other = &rows.space.ranges[found];
            if other.start != range.start || other.size > range.size {
                return lack(format!("`{}` over another part of `{}`", tile.name, range.label));
            }
            if let Some(position) = rows.positions[found] {
                let distance = self.code.times(position, place.strides[axis])?;
                at = self.code.b.add(at, distance);
            }
        }
        Ok(at)
    }

    /// Whether a tile has the label along which rows run.
    fn along(&self, id: TileId, rows: &Rows<'_>) -> Result<bool, Lack> {
        let (tile, place) = (self.tile(id), &self.code.places[id.0 as usize]);
        let Some((label, _)) = rows.row() else { return Ok(false) };
        match tile.ranges.iter().position(|range| range.label == *label) {
            None => Ok(false),
            Some(axis) if place.inner == Some(axis) => Ok(true),
            Some(_) => lack(format!("`{}` across `{label}`", tile.name)),
        }
    }

    /// One row of a group.
    fn row(
        &mut self,
        group: &[&'a Statement],
        rows: &Rows<'_>,
        accesses: Vec<Option<Access<'a>>>,
    ) -> Result<(), Lack> {
        let mut pointers = BTreeMap::new();
        let zero = self.code.b.imm(0);
        let all = Interval { lo: zero, hi: rows.count() };
        // Positions below this one run as full vectors.
        let mut full = rows.count();
        let mut ready = Vec::new();
        for (statement, access) in group.iter().zip(accesses) {
            for id in statement.reads().into_iter().chain(statement.writes()) {
                if self.kept.contains(&id) && !pointers.contains_key(&id) {
                    pointers.insert(id, self.address(id, rows)?);
                }
            }
            ready.push(match (statement, access) {
                (Statement::Load { .. }, Some(access)) if access.temporary.is_some() => {
                    if let Some(offset) = access.temporary {
                        self.code.fetch(rows, &access, offset)?;
                    }
                    let at = self.code.row_access(rows, &access)?;
                    Ready::Access(access, at)
                }
                (_, Some(access)) => {
                    let at = self.code.row_access(rows, &access)?;
                    if access.temporary.is_none() {
                        full = self.narrowed(full, at.interval);
                    }
                    Ready::Access(access, at)
                }
                (Statement::Reduce { monoid, mask, state, .. }, None) => {
                    if state.len() != 1 {
                        return lack(format!("the monoid `{}`", monoid.name));
                    }
                    let (mut interval, mut temporary) = (all, None);
                    match rows.row() {
                        Some((label, _)) if !narrows(&mask.condition, label) => {
                            let offset = self.scratch.take(place::pitch(rows.size()), Kind::Int)? as i32;
                            self.holds(rows, &mask.condition, offset)?;
                            temporary = Some(offset);
                        }
                        row => {
                            self.code.narrow(&mask.condition, row, &mut interval)?;
                            full = self.narrowed(full, interval);
                        }
                    }
                    Ready::Reduction(interval, temporary)
                }
                (Statement::Compute { arguments, result, .. }, None) => {
                    let dtype = self.tile(*result).dtype;
                    let mut temporaries = Vec::new();
                    for argument in arguments {
                        temporaries.push(self.one_by_one(rows, argument, dtype)?);
                    }
                    Ready::Function(temporaries)
                }
                _ => Ready::Plain,
            });
        }
        let row = Row { rows, ready: &ready, pointers: &pointers };
        self.vectors(group, &row, full)?;
        for ready in &ready {
            if let Ready::Access(access, _) = ready
                && let Some(offset) = access.temporary
                && !access.loads
            {
                self.code.put(rows, access, offset)?;
            }
        }
        Ok(())
    }

    /// Writes a row of scratch with an argument that varies along it in a way that no vector follows, if it is one.
    fn one_by_one(
        &mut self,
        rows: &Rows<'_>,
        argument: &Argument,
        dtype: DType,
    ) -> Result<Option<i32>, Lack> {
        let Some((label, start)) = rows.row() else { return Ok(None) };
        let lanes = self.code.b.lanes() as i64;
        let dim = match argument {
            Argument::Holds(condition) if !narrows(condition, label) => {
                let offset = self.scratch.take(place::pitch(rows.size()), Kind::Int)? as i32;
                self.holds(rows, condition, offset)?;
                return Ok(Some(offset));
            }
            Argument::Index(dim) if dim.mentions(label) => dim,
            _ => return Ok(None),
        };
        if block_step(dim, label, self.code.aligned(rows), lanes).is_some() {
            return Ok(None);
        }
        let kind = if dtype == DType::I64 { Kind::Long } else { Kind::Int };
        let offset = self.scratch.take(place::pitch(rows.size()), kind)? as i32;
        let code = &mut self.code;
        let to = code.b.lea(Mem::at(code.scratch, offset));
        let zero = code.b.imm(0);
        let each = code.begin_loop("index", zero, rows.count(), 1, &[]);
        let value = code.b.add(start, each.index);
        code.bind(label, value);
        let value = code.dim(dim)?;
        if !matches!(Kind::of(dtype)?, Kind::Int | Kind::Long) {
            code.fits(value);
        }
        let bytes = kind.bytes() as u8;
        code.b.store_general(bytes, Mem::indexed(to, each.index, bytes, 0), value);
        code.unbind(1);
        code.end_loop(each, &[]);
        Ok(Some(offset))
    }

    /// `full` where the interval starts at 0, up to its end; else 0.
    fn narrowed(&mut self, full: ValueId, interval: Interval) -> ValueId {
        let b = &mut self.code.b;
        let zero = b.imm(0);
        let upto = b.min(full, interval.hi);
        b.select(Test::LessEqual, interval.lo, 0, upto, zero)
    }

    /// Writes a row of scratch: 1 where a condition holds, else 0.
    fn holds(&mut self, rows: &Rows<'_>, condition: &Cond, offset: i32) -> Result<(), Lack> {
        let Some((label, start)) = rows.row() else { return lack("a row of one element, one by one") };
        let code = &mut self.code;
        let to = code.b.lea(Mem::at(code.scratch, offset));
        let zero = code.b.imm(0);
        let each = code.begin_loop("holds", zero, rows.count(), 1, &[]);
        let value = code.b.add(start, each.index);
        code.bind(label, value);
        let truth = code.truth(condition)?;
        code.b.store_general(4, Mem::indexed(to, each.index, 4, 0), truth);
        code.unbind(1);
        code.end_loop(each, &[]);
        Ok(())
    }

    /// The loops over the vectors of a row.
    fn vectors(&mut self, group: &[&'a Statement], row: &Row<'a, '_>, full: ValueId) -> Result<(), Lack> {
        let mut sums: Vec<(&'static Monoid, DType, TileId)> = Vec::new();
        for statement in group {
            if let Statement::Reduce { monoid, state, .. } = statement
                && !self.along(state[0], row.rows)?
            {
                sums.push((*monoid, self.tile(state[0]).dtype, state[0]));
            }
        }
        let unroll = if sums.is_empty() || group.len() > UNROLL { 1 } else { UNROLL };
        let lanes = self.code.b.lanes() as i32;
        let mut carried = Vec::new();
        for (monoid, dtype, _) in &sums {
            let identity = self.code.identity(monoid, *dtype)?;
            carried.push(identity);
        }
        let mut at = self.code.b.imm(0);
        if row.rows.size() >= i64::from(lanes) {
            let step = lanes * unroll as i32;
            let mut init = vec![at];
            let own: Vec<ValueId> = carried.iter().flat_map(|lanes| lanes.registers()).collect();
            for _ in 0..unroll {
                init.extend(&own);
            }
            // The last position at which a turn may start, and one.
            let limit = self.code.b.add_imm(full, 1 - step);
            let turn = self.code.begin_loop("full", at, limit, step, &init);
            let mut next = vec![self.code.b.add_imm(turn.index, step)];
            for u in 0..unroll {
                let states = Lanes::taken(&carried, &turn.carried[1 + u * own.len()..]);
                let at = match u {
                    0 => turn.index,
                    _ => self.code.b.add_imm(turn.index, lanes * u as i32),
                };
                let states = self.vector(group, row, at, None, states)?;
                next.extend(states.into_iter().flat_map(Lanes::registers));
            }
            let out = self.code.end_loop(turn, &next);
            at = out[0];
            let mut parts: Vec<Vec<Lanes>> =
                (0..unroll).map(|u| Lanes::taken(&carried, &out[1 + u * own.len()..])).collect();
            while parts.len() > 1 {
                let half = parts.len() / 2;
                let upper = parts.split_off(half);
                for (lower, upper) in parts.iter_mut().zip(upper) {
                    for ((state, more), (monoid, dtype, _)) in lower.iter_mut().zip(upper).zip(&sums) {
                        *state = self.code.absorb(monoid, *dtype, *state, more)?;
                    }
                }
            }
            carried = parts.pop().unwrap_or_default();
        }
        let init: Vec<ValueId> = carried.iter().flat_map(|lanes| lanes.registers()).collect();
        let turn = self.code.begin_loop("rest", at, row.rows.count(), lanes, &init);
        let states = Lanes::taken(&carried, &turn.carried);
        let rest = self.code.rest(row.rows.count(), turn.index);
        let states = self.vector(group, row, turn.index, Some(rest), states)?;
        let states: Vec<ValueId> = states.into_iter().flat_map(Lanes::registers).collect();
        let out = self.code.end_loop(turn, &states);
        for (state, (monoid, dtype, id)) in Lanes::taken(&carried, &out).into_iter().zip(&sums) {
            let folded = self.code.fold(monoid, *dtype, state)?;
            let to = row.pointers[id];
            let before = self.code.repeat_scratch(folded.kind(), to);
            let after = self.code.absorb(monoid, *dtype, before, folded)?;
            self.code.store_first(to, after);
        }
        Ok(())
    }

    /// The vector at position `at` of a row, or those of its lanes that take part.
    fn vector(
        &mut self,
        group: &[&'a Statement],
        row: &Row<'a, '_>,
        at: ValueId,
        rest: Option<Part>,
        mut states: Vec<Lanes>,
    ) -> Result<Vec<Lanes>, Lack> {
        self.code.enter();
        let mut values: BTreeMap<TileId, Lanes> = BTreeMap::new();
        let mut sums = 0;
        for (statement, ready) in group.iter().zip(row.ready) {
            let written = match (statement, ready) {
                (Statement::Load { tile, .. }, Ready::Access(access, place)) => {
                    Some((*tile, self.load(row, access, place, at, rest)?))
                }
                (Statement::Store { tile, .. }, Ready::Access(access, place)) => {
                    let lanes = self.value(*tile, &mut values, row, at)?;
                    let lanes = if self.tile(*tile).dtype == access.dtype {
                        lanes
                    } else {
                        return lack(format!("a store of {} to {}", self.tile(*tile).dtype, access.dtype));
                    };
                    self.store(access, place, lanes, at, rest)?;
                    None
                }
                (Statement::Fill { tile, value }, _) => {
                    let dtype = self.tile(*tile).dtype;
                    Some((*tile, self.code.literal(value.cast(dtype), Kind::of(dtype)?)?))
                }
                (Statement::Convert { from, to }, _) => Some((*to, self.value(*from, &mut values, row, at)?)),
                (Statement::Compute { function, arguments, result }, Ready::Function(temporaries)) => {
                    let dtype = self.tile(*result).dtype;
                    let mut kinds = arguments.iter().rev().filter_map(|argument| match argument {
                        Argument::Item(id) => Kind::of(self.tile(*id).dtype).ok(),
                        _ => None,
                    });
                    let kind = kinds.next().map_or_else(|| Kind::of(dtype), Ok)?;
                    // A number that is no single: the function is computed in doubles and rounded once.
                    let wide = kind == Kind::Float
                        && function.name != "cast"
                        && arguments.iter().any(
                            |argument| matches!(argument, Argument::Literal(value) if !is_single(*value)),
                        );
                    let kind = if wide { Kind::Double } else { kind };
                    let mut lanes = Vec::new();
                    for (argument, temporary) in arguments.iter().zip(temporaries) {
                        lanes.push(match argument {
                            _ if temporary.is_some() => {
                                let row = Mem::at(self.code.scratch, temporary.unwrap_or(0));
                                let row = self.code.b.lea(row);
                                let truth = matches!(argument, Argument::Holds(_));
                                let kind = match dtype {
                                    _ if truth => Kind::Bool,
                                    DType::I64 => Kind::Long,
                                    _ => Kind::Int,
                                };
                                let lanes = self.code.load_scratch(kind, row, at);
                                if truth { lanes } else { self.code.cast(lanes, dtype)? }
                            }
                            Argument::Item(id) => self.value(*id, &mut values, row, at)?,
                            Argument::Literal(value) if function.name == "cast" => {
                                self.code.literal(value.cast(dtype), Kind::of(dtype)?)?
                            }
                            Argument::Literal(value) => self.code.literal(*value, kind)?,
                            Argument::Index(dim) if function.name == "cast" => {
                                self.index(dim, dtype, row, at)?
                            }
                            Argument::Index(dim) => return lack(format!("the number `{dim}`")),
                            Argument::Holds(cond) => Lanes::Bool(self.condition(cond, row, at)?),
                        });
                    }
                    if wide {
                        for lanes in &mut lanes {
                            if let Lanes::Float(_) = lanes {
                                *lanes = self.code.cast(*lanes, DType::F64)?;
                            }
                        }
                        let value = self.code.function(function, &lanes, DType::F64)?;
                        Some((*result, self.code.cast(value, dtype)?))
                    } else {
                        Some((*result, self.code.function(function, &lanes, dtype)?))
                    }
                }
                (
                    Statement::Reduce { monoid, argument, mask, state, .. },
                    Ready::Reduction(interval, holds),
                ) => {
                    let value = self.value(*argument, &mut values, row, at)?;
                    let mut on = match rest {
                        Some(_) => Some(self.code.part(*interval, at).mask),
                        None => None,
                    };
                    let mut and = |code: &mut Code<'_>, more: Mask| {
                        on = Some(match on {
                            Some(on) => code.b.mask_and(on, more),
                            None => more,
                        });
                    };
                    if let Some(offset) = holds {
                        let bits = self.code.b.load(Mem::indexed(self.code.scratch, at, 4, *offset));
                        let holds = self.code.b.nonzero_i32(bits);
                        and(&mut self.code, holds);
                    }
                    for id in &mask.tiles {
                        let Lanes::Bool(tile) = self.value(*id, &mut values, row, at)? else {
                            return lack("a mask that is no truth value");
                        };
                        and(&mut self.code, tile);
                    }
                    let dtype = self.tile(state[0]).dtype;
                    let value = if monoid.rounds { self.code.cast(value, dtype)? } else { value };
                    let along = self.along(state[0], row.rows)?;
                    let pointer = row.pointers[&state[0]];
                    let before = if along {
                        self.code.load_scratch(Kind::of(dtype)?, pointer, at)
                    } else {
                        states[sums]
                    };
                    let mut after = self.code.absorb(monoid, dtype, before, value)?;
                    if let Some(on) = on {
                        after = self.code.pick(on, after, before)?;
                    }
                    if along {
                        self.code.store_scratch(pointer, at, after);
                    } else {
                        states[sums] = after;
                        sums += 1;
                    }
                    None
                }
                (other, _) => return lack(format!("the statement `{}`", plan::name(other))),
            };
            if let Some((id, lanes)) = written {
                values.insert(id, lanes);
                if let Some(pointer) = row.pointers.get(&id) {
                    self.code.store_scratch(*pointer, at, lanes);
                }
            }
        }
        self.code.leave();
        Ok(states)
    }

    /// The lanes of a tile.
    fn value(
        &mut self,
        id: TileId,
        values: &mut BTreeMap<TileId, Lanes>,
        row: &Row<'_, '_>,
        at: ValueId,
    ) -> Result<Lanes, Lack> {
        if let Some(lanes) = values.get(&id) {
            return Ok(*lanes);
        }
        let Some(pointer) = row.pointers.get(&id) else { return lack("a tile without a place") };
        let kind = Kind::of(self.tile(id).dtype)?;
        let lanes = if self.along(id, row.rows)? {
            self.code.load_scratch(kind, *pointer, at)
        } else {
            self.code.repeat_scratch(kind, *pointer)
        };
        values.insert(id, lanes);
        Ok(lanes)
    }

    fn load(
        &mut self,
        row: &Row<'_, '_>,
        access: &Access<'_>,
        place: &RowAccess,
        at: ValueId,
        rest: Option<Part>,
    ) -> Result<Lanes, Lack> {
        let dtype = access.dtype;
        let part = match rest {
            Some(_) => Some(self.code.part(place.interval, at)),
            None => None,
        };
        if let Some(lanes) = place.repeated {
            let Some(part) = part.filter(|_| access.shape == Shape::Repeated) else { return Ok(lanes) };
            let zero = self.code.nothing(lanes.kind());
            return self.code.pick(part.mask, lanes, zero);
        }
        if access.temporary.is_some() {
            // Rows of scratch hold the bits of elements.
            let kind = if dtype.bytes() == 8 { Kind::Long } else { Kind::Int };
            let raw = self.code.load_scratch(kind, place.pointer, at).registers();
            return self.code.lanes_of_bits(dtype, &raw);
        }
        if let Shape::Blocks(moving) = access.shape {
            let lanes = part.map(|part| part.lanes.hi);
            let pointer = self.code.block_address(row.rows, access, at, lanes)?;
            if moving {
                return self.code.load_lanes(dtype, Mem::at(pointer, 0), part.as_ref());
            }
            let lanes = self.code.load_repeated(dtype, Mem::at(pointer, 0))?;
            let Some(part) = part.filter(|_| !access.when.is_true()) else { return Ok(lanes) };
            let zero = self.code.nothing(lanes.kind());
            return self.code.pick(part.mask, lanes, zero);
        }
        let mem = Mem::indexed(place.pointer, at, dtype.bytes() as u8, 0);
        self.code.load_lanes(dtype, mem, part.as_ref())
    }

    fn store(
        &mut self,
        access: &Access<'_>,
        place: &RowAccess,
        lanes: Lanes,
        at: ValueId,
        rest: Option<Part>,
    ) -> Result<(), Lack> {
        if access.temporary.is_some() {
            let bits = self.code.bits_of_lanes(access.dtype, lanes);
            let kind = if access.dtype.bytes() == 8 { Kind::Long } else { Kind::Int };
            let bits = Lanes::of(kind, &bits, &mut self.code.b);
            self.code.store_scratch(place.pointer, at, bits);
            return Ok(());
        }
        let part = match rest {
            Some(_) => Some(self.code.part(place.interval, at)),
            None => None,
        };
        if matches!(access.shape, Shape::Blocks(_)) {
            return lack("a store in blocks");
        }
        let mem = Mem::indexed(place.pointer, at, access.dtype.bytes() as u8, 0);
        self.code.store_lanes(access.dtype, mem, lanes, part.as_ref());
        Ok(())
    }

    /// An index as a value of a type.
    fn index(
        &mut self,
        dim: &tilewright::dim::Dim,
        dtype: DType,
        row: &Row<'_, '_>,
        at: ValueId,
    ) -> Result<Lanes, Lack> {
        let lanes = self.code.b.lanes() as i64;
        let step = match row.rows.row() {
            None => Some(0),
            Some((label, _)) if !dim.mentions(label) => Some(0),
            Some((label, _)) => {
                let aligned = self.code.aligned(row.rows);
                block_step(dim, label, aligned, lanes).map(|(step, _)| step)
            }
        };
        let Some(step) = step else { return lack(format!("the number `{dim}` along its label")) };
        let bound = row.rows.row();
        if let Some((label, start)) = bound {
            let value = self.code.b.add(start, at);
            self.code.bind(label, value);
        }
        let first = self.code.dim(dim)?;
        if bound.is_some() {
            self.code.unbind(1);
        }
        let Ok(step) = i32::try_from(step) else { return lack(format!("the number `{dim}`")) };
        if dtype == DType::I64 {
            let vector = self.code.b.broadcast_general64(first);
            if step == 0 {
                return Ok(Lanes::Long([vector, vector]));
            }
            let iota = self.code.b.iota_i32();
            let iota = self.code.b.mul_i32(iota, Arg::Splat(step as u32));
            let Lanes::Long(iota) = self.code.cast(Lanes::Int(iota), DType::I64)? else {
                return lack("an index of 64 bits");
            };
            return Ok(Lanes::Long(iota.map(|half| self.code.b.add_i64(vector, half))));
        }
        if Kind::of(dtype)? != Kind::Int {
            let last = self.code.b.add_imm(first, step.saturating_mul(lanes as i32));
            self.code.fits(first);
            self.code.fits(last);
        }
        let b = &mut self.code.b;
        let mut vector = b.broadcast_general(first);
        if step != 0 {
            let mut iota = b.iota_i32();
            if step != 1 {
                iota = b.mul_i32(iota, Arg::Splat(step as u32));
            }
            vector = b.add_i32(vector, iota);
        }
        Ok(Lanes::Int(vector))
    }

    /// Where a condition holds.
    fn condition(&mut self, condition: &Cond, row: &Row<'_, '_>, at: ValueId) -> Result<Mask, Lack> {
        match row.rows.row() {
            Some((label, _)) if !narrows(condition, label) => lack(format!("the truth of `{condition}`")),
            bound => {
                let zero = self.code.b.imm(0);
                let mut interval = Interval { lo: zero, hi: row.rows.count() };
                self.code.narrow(condition, bound, &mut interval)?;
                Ok(self.code.part(interval, at).mask)
            }
        }
    }
}

/// Whether a range of a tile depends on the label of another.
fn depends(tile: &Tile) -> bool {
    let any = |dim: &tilewright::dim::Dim| tile.ranges.iter().any(|other| dim.mentions(&other.label));
    tile.ranges.iter().any(|range| any(&range.start) || any(&range.end))
}

/// Whether a number beside floats of up to 32 bits is one of them.
fn is_single(value: Scalar) -> bool {
    let wide = value.as_f64();
    f64::from(wide as f32) == wide || wide.is_nan()
}
