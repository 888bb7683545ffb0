//! Products: register tiles over factors where they lie, in buffers or in scratch.
//!
//! | form | needs | a step of depth |
//! | --- | --- | --- |
//! | rows | both factors have neighbours along the depth | vectors of both, sums lane-wise, added in a fixed tree behind |
//! | columns | the right factor and the sum have neighbours along the columns | an element of the left times vectors of the right |
//!
//! What follows the last whole register tile is a smaller one, its last vector masked.

use tilewright::dim::{Cond, Dim, Symbol};
use tilewright::kernel::{Kernel, Mask, Statement, TileId};
use tilewright::tensor::DType;

use super::code::{Code, Lack, lack};
use super::index::Interval;
use super::lanes::Part;
use super::place::Place;
use super::{Selector, access, plan};
use crate::machine::rows::moves;
use crate::machine::{Arg, Builder, Cond as Test, Level, Masking, Mem, ValueId, Width};

/// Columns of a register tile of the form `rows`.
const COLUMNS: usize = 4;

/// Where a factor or a sum lies.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The address of its first element.
    pub pointer: ValueId,
    /// Bytes from one position to the next, by axis.
    pub strides: Vec<ValueId>,
}

/// One part of a product's labels: rows, columns or depth.
#[derive(Clone, Debug)]
struct Line {
    /// The label and its first index; none where there is one index.
    label: Option<(Symbol, ValueId)>,
    count: ValueId,
    /// Bytes per step, in the tiles that have it: of the left factor, the right one and the sum.
    strides: [Option<ValueId>; 3],
}

/// What the condition of a product restricts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// Nothing.
    None,
    /// Columns, but not depth.
    Columns,
    /// Depth, but not columns.
    Depth,
}

/// A product in progress.
struct Product<'a> {
    rows: Line,
    columns: Line,
    depth: Line,
    at: [ValueId; 3],
    limit: Limit,
    condition: &'a Cond,
}

impl<'a> Selector<'a> {
    /// A load of a factor: where the whole of it is inside its buffer it stays there, else it is copied to scratch.
    pub fn operand(&mut self, statement: &'a Statement) -> Result<(), Lack> {
        let Statement::Load { tile: id, buffer, when, .. } = statement else {
            return lack(format!("the statement `{}`", plan::name(statement)));
        };
        let tile = self.tile(*id);
        let single = self.code.buffers[buffer.0 as usize].dtype == DType::F32;
        if !single || !when.is_true() {
            self.operands.remove(id);
            return self.group(&[statement]);
        }
        let there = self.in_place(*id, statement)?;
        let scratch = self.scratch_operand(*id)?;
        let Some((pointer, strides, inside)) = there else {
            self.operands.remove(id);
            return self.group(&[statement]);
        };
        let mut failed = None;
        // Both arms give the pointer, then the strides.
        let (yes, no) = (self.code.b.block("there", &[]), self.code.b.block("copy", &[]));
        let classes = vec![crate::machine::Class::General; 1 + strides.len()];
        let done = self.code.b.block("operand", &classes);
        self.code.b.branch(Test::NotEqual, inside, 0, yes, &[], no, &[]);
        self.code.b.switch_to(yes);
        let args: Vec<ValueId> = std::iter::once(pointer).chain(strides).collect();
        self.code.b.jump(done, &args);
        self.code.b.switch_to(no);
        self.code.enter();
        if let Err(lack) = self.group(&[statement]) {
            failed = Some(lack);
        }
        self.code.leave();
        let args: Vec<ValueId> = std::iter::once(scratch.pointer).chain(scratch.strides).collect();
        self.code.b.jump(done, &args);
        self.code.b.switch_to(done);
        let params = self.code.b.params(done);
        debug_assert_eq!(params.len(), 1 + tile.ranges.len());
        self.operands.insert(*id, Operand { pointer: params[0], strides: params[1..].to_vec() });
        failed.map_or(Ok(()), Err)
    }

    /// The place of a factor in its buffer, and whether all of it lies inside; none where its index is not linear.
    fn in_place(
        &mut self,
        id: TileId,
        statement: &'a Statement,
    ) -> Result<Option<(ValueId, Vec<ValueId>, ValueId)>, Lack> {
        let space = self.tile(id);
        let inner = self.code.places[id.0 as usize].inner;
        let Some(rows) = self.bounds(space, inner)? else { return Ok(None) };
        let mut none = |_| lack("a factor without a place");
        let Some(access) = self.code.access(&rows, statement, &mut none)? else { return Ok(None) };
        let Some(linear) = access.linear else { return Ok(None) };
        let zero = self.code.b.imm(0);
        let strides = linear.strides.iter().map(|stride| stride.unwrap_or(zero)).collect();
        // Empty ranges: the corners say nothing, and nothing is read.
        Ok(Some((linear.base, strides, linear.inside)))
    }

    fn scratch_operand(&mut self, id: TileId) -> Result<Operand, Lack> {
        let place = &self.code.places[id.0 as usize];
        let offset = i32::try_from(place.offset).map_err(|_| Lack("scratch too large".into()))?;
        let pointer = self.code.b.lea(Mem::at(self.code.scratch, offset));
        let strides = place.strides.iter().map(|stride| self.code.b.imm(*stride)).collect();
        Ok(Operand { pointer, strides })
    }

    /// `c[m, n] += Σ_k a[m, k] · b[n, k]`, in the form that [`form`] gave.
    pub fn product(&mut self, ids: [TileId; 3], mask: &'a Mask, form: &Form) -> Result<(), Lack> {
        let tiles = ids.map(|id| self.tile(id));
        let mut operands = Vec::new();
        for id in ids {
            operands.push(match self.operands.get(&id) {
                Some(operand) => operand.clone(),
                None => self.scratch_operand(id)?,
            });
        }
        let one = self.code.b.imm(1);
        let line = Line { label: None, count: one, strides: [None; 3] };
        let mut lines = [line.clone(), line.clone(), line];
        let (mut skips, mut bound) = (Vec::new(), 0);
        let mut seen: Vec<Symbol> = Vec::new();
        for (t, tile) in tiles.iter().enumerate() {
            for (axis, range) in tile.ranges.iter().enumerate() {
                let part = form.labels.iter().position(|label| label.as_ref() == Some(&range.label));
                if !seen.contains(&range.label) {
                    seen.push(range.label.clone());
                    let (start, count) = self.range(tile, axis)?;
                    skips.push(self.code.begin_if(Test::Greater, count, 0));
                    match part {
                        Some(part) => {
                            lines[part].label = Some((range.label.clone(), start));
                            lines[part].count = count;
                        }
                        None => {
                            self.code.bind(&range.label, start);
                            bound += 1;
                        }
                    }
                }
                if let Some(part) = part {
                    lines[part].strides[t] = Some(operands[t].strides[axis]);
                }
            }
        }
        let [rows, columns, depth] = lines;
        let at = [operands[0].pointer, operands[1].pointer, operands[2].pointer];
        let product = Product { rows, columns, depth, at, limit: form.limit, condition: &mask.condition };
        match form.by {
            By::Rows => product.by_rows(&mut self.code)?,
            By::Columns => product.by_columns(&mut self.code)?,
        }
        self.code.unbind(bound);
        for skip in skips.into_iter().rev() {
            self.code.end_if(skip);
        }
        Ok(())
    }
}

/// How a product is done.
#[derive(Clone, Debug)]
pub struct Form {
    /// The labels of rows, columns and depth; none where there is one index.
    labels: [Option<Symbol>; 3],
    limit: Limit,
    by: By,
}

/// What vectors run along.
#[derive(Clone, Copy, Debug)]
enum By {
    /// The depth; see the module.
    Rows,
    /// The columns.
    Columns,
}

/// The form of a product of these tiles, if it has one.
pub fn form(kernel: &Kernel, places: &[Place], ids: [TileId; 3], mask: &Mask) -> Option<Form> {
    let tiles = ids.map(|id| &kernel.tiles[id.0 as usize]);
    let [a, b, c] = tiles;
    let float = |dtype| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
    if !mask.tiles.is_empty() || c.dtype != DType::F32 || !float(a.dtype) || !float(b.dtype) {
        return None;
    }
    let mut labels: [Option<Symbol>; 3] = [None, None, None];
    // By part and tile: whether neighbours are neighbours in memory.
    let mut inner = [[false; 3]; 3];
    for (t, tile) in tiles.iter().enumerate() {
        for (axis, range) in tile.ranges.iter().enumerate() {
            let has = tiles.map(|other| other.ranges.iter().find(|r| r.label == range.label));
            let depends = |dim: &Dim| tiles.iter().flat_map(|t| &t.ranges).any(|r| dim.mentions(&r.label));
            if has.into_iter().flatten().any(|other| other != range)
                || depends(&range.start)
                || depends(&range.end)
            {
                return None;
            }
            if range.size == 1 {
                continue;
            }
            let part = match has.map(|range| range.is_some()) {
                [true, false, true] => 0,
                [false, true, true] => 1,
                [true, true, false] => 2,
                _ => return None,
            };
            if labels[part].as_ref().is_some_and(|label| *label != range.label) {
                return None;
            }
            labels[part] = Some(range.label.clone());
            inner[part][t] = places[ids[t].0 as usize].inner == Some(axis);
        }
    }
    let limit = limit(&mask.condition, &labels)?;
    let one = |part: usize, t: usize| labels[part].is_none() || inner[part][t];
    let by = if labels[2].is_some() && inner[2][0] && inner[2][1] && one(1, 2) {
        By::Rows
    } else if one(1, 1) && one(1, 2) {
        By::Columns
    } else {
        return None;
    };
    Some(Form { labels, limit, by })
}

/// What the condition of a product's mask restricts.
fn limit(condition: &Cond, [_, columns, depth]: &[Option<Symbol>; 3]) -> Option<Limit> {
    if condition.is_true() {
        return Some(Limit::None);
    }
    let along = |label: &Option<Symbol>| label.as_ref().is_some_and(|label| condition.mentions(label));
    let narrow =
        |label: &Option<Symbol>| label.as_ref().is_none_or(|label| access::narrows(condition, label));
    match (along(columns), along(depth)) {
        (true, true) => None,
        (_, true) => narrow(depth).then_some(Limit::Depth),
        (_, false) => narrow(columns).then_some(Limit::Columns),
    }
}

impl Line {
    /// `pointer` at a position.
    fn at(&self, code: &mut Code<'_>, tile: usize, pointer: ValueId, position: ValueId) -> ValueId {
        match self.strides[tile] {
            Some(stride) => {
                let distance = code.b.mul(position, stride);
                code.b.add(pointer, distance)
            }
            None => pointer,
        }
    }

    fn row(&self) -> Option<(&Symbol, ValueId)> {
        self.label.as_ref().map(|(label, start)| (label, *start))
    }
}

impl Product<'_> {
    /// Calls `tile` for register tiles of `most` rows, then of one row, with the first row; of one row only where a
    /// condition restricts the product.
    fn each_rows(
        &self,
        code: &mut Code<'_>,
        most: usize,
        mut tile: impl FnMut(&mut Code<'_>, ValueId, usize) -> Result<(), Lack>,
    ) -> Result<(), Lack> {
        let mut first = code.b.imm(0);
        if self.rows.label.is_some() && self.limit == Limit::None && most > 1 {
            let limit = code.b.add_imm(self.rows.count, 1 - most as i32);
            let init = [first];
            let turn = code.begin_loop("rows", first, limit, most as i32, &init);
            tile(code, turn.index, most)?;
            let next = code.b.add_imm(turn.index, most as i32);
            first = code.end_loop(turn, &[next])[0];
        }
        let turn = code.begin_loop("row", first, self.rows.count, 1, &[]);
        let bound = match self.rows.row() {
            Some((label, start)) => {
                let value = code.b.add(start, turn.index);
                code.bind(label, value);
                1
            }
            None => 0,
        };
        tile(code, turn.index, 1)?;
        code.unbind(bound);
        code.end_loop(turn, &[]);
        Ok(())
    }

    /// The columns and the depth that take part in the row whose label is bound.
    fn limits(&self, code: &mut Code<'_>) -> Result<[Interval; 2], Lack> {
        let zero = code.b.imm(0);
        let mut columns = Interval { lo: zero, hi: self.columns.count };
        let mut depth = Interval { lo: zero, hi: self.depth.count };
        let whole = match self.limit {
            Limit::None => true,
            Limit::Columns => code.narrow(self.condition, self.columns.row(), &mut columns)?,
            Limit::Depth => code.narrow(self.condition, self.depth.row(), &mut depth)?,
        };
        if whole { Ok([columns, depth]) } else { lack("a condition that is no interval") }
    }

    /// The form whose vectors run along the depth.
    fn by_rows(&self, code: &mut Code<'_>) -> Result<(), Lack> {
        let most = if code.b.level() == Level::Avx2 { 2 } else { 4 };
        self.each_rows(code, most, |code, row, count| {
            let [columns, depth] = self.limits(code)?;
            let mut lefts = vec![self.rows.at(code, 0, self.at[0], row)];
            let mut sums = vec![self.rows.at(code, 2, self.at[2], row)];
            for r in 1..count {
                lefts.push(self.step(code, 0, lefts[r - 1]));
                sums.push(self.step(code, 2, sums[r - 1]));
            }
            let zero = code.b.imm(0);
            let turn = code.begin_loop("columns", zero, self.columns.count, COLUMNS as i32, &[]);
            let last = code.b.add_imm(self.columns.count, -1);
            let mut rights = Vec::new();
            for c in 0..COLUMNS {
                // Columns that are not there are computed from the last one, and dropped.
                let at = code.b.add_imm(turn.index, c as i32);
                let at = code.b.min(at, last);
                rights.push(self.columns.at(code, 1, self.at[1], at));
            }
            let masked = self.limit == Limit::Depth;
            let totals = dots(code, &lefts, &rights, depth, masked);
            let part = quarter(code, columns, turn.index);
            for (row, totals) in sums.iter().zip(totals.chunks(COLUMNS)) {
                let to = Mem::indexed(*row, turn.index, 4, 0);
                add_quarter(&mut code.b, to, totals, &part);
            }
            code.end_loop(turn, &[]);
            Ok(())
        })
    }

    /// The pointer of the next row.
    fn step(&self, code: &mut Code<'_>, tile: usize, pointer: ValueId) -> ValueId {
        self.rows.strides[tile].map_or(pointer, |stride| code.b.add(pointer, stride))
    }

    /// The form whose vectors run along the columns.
    fn by_columns(&self, code: &mut Code<'_>) -> Result<(), Lack> {
        let wide = if code.b.level() == Level::Avx2 { 2 } else { 4 };
        self.each_rows(code, 4, |code, row, count| {
            let [columns, depth] = self.limits(code)?;
            let mut lefts = vec![self.rows.at(code, 0, self.at[0], row)];
            let mut sums = vec![self.rows.at(code, 2, self.at[2], row)];
            for r in 1..count {
                lefts.push(self.step(code, 0, lefts[r - 1]));
                sums.push(self.step(code, 2, sums[r - 1]));
            }
            let lanes = code.b.lanes() as i32;
            let mut first = code.b.imm(0);
            if self.limit != Limit::Columns && self.columns.label.is_some() {
                let step = lanes * wide;
                let limit = code.b.add_imm(columns.hi, 1 - step);
                let turn = code.begin_loop("columns", first, limit, step, &[first]);
                self.outer(code, (&lefts, &sums), depth, turn.index, wide as usize, None);
                let next = code.b.add_imm(turn.index, step);
                first = code.end_loop(turn, &[next])[0];
            }
            let turn = code.begin_loop("vector", first, self.columns.count, lanes, &[]);
            let part = code.part(columns, turn.index);
            self.outer(code, (&lefts, &sums), depth, turn.index, 1, Some(part));
            code.end_loop(turn, &[]);
            Ok(())
        })
    }

    /// Adds to `vectors` vectors of columns from `column` on, or to the lanes of one that take part.
    fn outer(
        &self,
        code: &mut Code<'_>,
        (lefts, sums): (&[ValueId], &[ValueId]),
        depth: Interval,
        column: ValueId,
        vectors: usize,
        part: Option<Part>,
    ) {
        let (width, bytes) = (code.b.width(), code.b.width().bytes() as i32);
        let zero = code.b.splat(0.0);
        let mut init = vec![zero; lefts.len() * vectors];
        let right = code.b.lea(Mem::indexed(self.at[1], column, 4, 0));
        let right = self.depth.at(code, 1, right, depth.lo);
        let pointers: Vec<ValueId> =
            lefts.iter().map(|left| self.depth.at(code, 0, *left, depth.lo)).collect();
        let sums_at = init.len();
        init.push(right);
        init.extend(&pointers);
        let turn = code.begin_loop("depth", depth.lo, depth.hi, 1, &init);
        let right = turn.carried[sums_at];
        let row: Vec<ValueId> = (0..vectors)
            .map(|v| {
                let mem = Mem::at(right, v as i32 * bytes);
                match part {
                    Some(part) => code.b.load_masked(mem, part.mask),
                    None => code.b.load(mem),
                }
            })
            .collect();
        let mut next = Vec::new();
        for r in 0..lefts.len() {
            let element = Mem::at(turn.carried[sums_at + 1 + r], 0);
            let element: Arg = if code.b.level() == Level::Avx2 || vectors == 1 && lefts.len() == 1 {
                code.b.broadcast(element).into()
            } else {
                Arg::Broadcast(element)
            };
            for (v, right) in row.iter().enumerate() {
                next.push(code.b.fma_add(turn.carried[r * vectors + v], *right, element));
            }
        }
        for pointer in 0..=lefts.len() {
            let tile = usize::from(pointer == 0);
            let at = turn.carried[sums_at + pointer];
            next.push(self.depth.strides[tile].map_or(at, |stride| code.b.add(at, stride)));
        }
        let out = code.end_loop(turn, &next);
        for (r, sum) in sums.iter().enumerate() {
            for v in 0..vectors {
                let to = Mem::indexed(*sum, column, 4, v as i32 * bytes);
                let more = out[r * vectors + v];
                match part {
                    Some(part) => {
                        let old = code.b.load_masked(to, part.mask);
                        let new = code.b.add_f32(old, more);
                        code.b.store_masked(to, new, part.mask);
                    }
                    None => {
                        let new = code.b.add_f32(more, to);
                        code.b.inst(&moves::VMOVUPS_STORE, width, &[to.into(), new.into()], None);
                    }
                }
            }
        }
    }
}

/// `Σ left · right` for each pair, lane-wise, over positions of the depth; all of them from 0 on unless `masked`.
fn dots(
    code: &mut Code<'_>,
    lefts: &[ValueId],
    rights: &[ValueId],
    depth: Interval,
    masked: bool,
) -> Vec<ValueId> {
    let zero = code.b.splat(0.0);
    let lanes = code.b.lanes() as i32;
    let mut sums = vec![zero; lefts.len() * rights.len()];
    let mut first = code.b.imm(0);
    if !masked {
        let limit = code.b.add_imm(depth.hi, 1 - lanes);
        let mut init = vec![first];
        init.extend(&sums);
        let turn = code.begin_loop("depth", first, limit, lanes, &init);
        let mut next = vec![code.b.add_imm(turn.index, lanes)];
        next.extend(multiply(code, lefts, rights, turn.index, None, &turn.carried[1..]));
        let out = code.end_loop(turn, &next);
        first = out[0];
        sums = out[1..].to_vec();
    }
    let turn = code.begin_loop("depth_rest", first, depth.hi, lanes, &sums);
    let part = code.part(depth, turn.index);
    let carried = turn.carried.clone();
    let next = multiply(code, lefts, rights, turn.index, Some(part), &carried);
    code.end_loop(turn, &next)
}

fn multiply(
    code: &mut Code<'_>,
    lefts: &[ValueId],
    rights: &[ValueId],
    at: ValueId,
    part: Option<Part>,
    sums: &[ValueId],
) -> Vec<ValueId> {
    let load = |code: &mut Code<'_>, pointer: ValueId| {
        let mem = Mem::indexed(pointer, at, 4, 0);
        match part {
            Some(part) => code.b.load_masked(mem, part.mask),
            None => code.b.load(mem),
        }
    };
    let lefts: Vec<ValueId> = lefts.iter().map(|left| load(code, *left)).collect();
    let mut out = sums.to_vec();
    for (c, right) in rights.iter().enumerate() {
        let right = load(code, *right);
        for (r, left) in lefts.iter().enumerate() {
            let sum = &mut out[r * rights.len() + c];
            *sum = code.b.fma_add(*sum, *left, right);
        }
    }
    out
}

/// Four columns from `at` on, as lanes of 16 bytes.
fn quarter(code: &mut Code<'_>, columns: Interval, at: ValueId) -> Part {
    let (zero, most) = (code.b.imm(0), code.b.imm(COLUMNS as i64));
    let clamp = |b: &mut Builder, bound: ValueId| {
        let lane = b.sub(bound, at);
        let lane = b.max(lane, zero);
        b.min(lane, most)
    };
    let lo = clamp(&mut code.b, columns.lo);
    let hi = clamp(&mut code.b, columns.hi);
    let (below, above) = (code.b.first_lanes(lo), code.b.first_lanes(hi));
    Part { mask: code.b.mask_without(above, below), lanes: Interval { lo, hi } }
}

/// Adds the lanes of four sums, each to one of four neighbours in memory.
fn add_quarter(b: &mut Builder, to: Mem, sums: &[ValueId], part: &Part) {
    let width = b.width();
    let full =
        |b: &mut Builder, row, x: ValueId, y: ValueId| b.inst(row, width, &[x.into(), y.into()], None)[0];
    let [p, q, r, s] = [sums[0], sums[1], sums[2], sums[3]];
    let pair = |b: &mut Builder, p, q| {
        let low = full(b, &moves::VUNPCKLPS, p, q);
        let high = full(b, &moves::VUNPCKHPS, p, q);
        b.add_f32(low, high)
    };
    let (x, y) = (pair(b, p, q), pair(b, r, s));
    let low = full(b, &moves::VUNPCKLPD, x, y);
    let high = full(b, &moves::VUNPCKHPD, x, y);
    let mut sum = b.add_f32(low, high);
    let mut width = b.width();
    while width > Width::V128 {
        let upper = b.inst(&moves::VEXTRACT_HALF, width, &[sum.into(), Arg::Imm(1)], None)[0];
        sum = b.add_f32(sum, upper);
        width = if width == Width::V512 { Width::V256 } else { Width::V128 };
    }
    let small = Width::V128;
    if b.level() == Level::Avx2 {
        let mask = part.mask.0;
        let old = b.inst(&moves::VMASKMOVPS, small, &[mask.into(), to.into()], None)[0];
        let new = b.add_f32(old, sum);
        b.inst(&moves::VMASKMOVPS_STORE, small, &[to.into(), mask.into(), new.into()], None);
    } else {
        let masking = Some(Masking { mask: part.mask.0, merge: None });
        let old = b.inst(&moves::VMOVUPS, small, &[to.into()], masking)[0];
        let new = b.add_f32(old, sum);
        b.inst(&moves::VMOVUPS_STORE, small, &[to.into(), new.into()], masking);
    }
}
