//! One loop for statements over the same index tuples: rows in order, each row vector by vector.
//!
//! What takes part in a row is an interval for each load, store and reduction. Where all of them are whole, full vectors
//! run without masks; the rest of a row, and rows where they are not, run under predicates. A lane that is off never
//! touches memory.

use std::collections::BTreeMap;

use iced_x86::code_asm::*;
use tilewright::dim::{Cond, Dim};
use tilewright::kernel::{Argument, Statement, Tile, TileId};
use tilewright::task::BufferId;
use tilewright::tensor::{DType, Scalar};

use super::emit::{Lack, Slot};
use super::functions::{self, FIRST_TEMPORARY, ZMM};
use super::plan::{self, REDUCTIONS};
use super::{Selector, VECTOR};

/// A register for a result that is one of its own arguments; those between it and the temporaries hold states.
const IN_PLACE: usize = FIRST_TEMPORARY - REDUCTIONS - 1;

/// The rows of a loop.
struct Rows<'a> {
    space: &'a Tile,
    inner: Option<usize>,
    /// By axis: the first index and how many.
    ranges: Vec<(Slot, Slot)>,
    /// By axis but the inner one: the position.
    positions: Vec<Option<Slot>>,
    /// How many positions a row has.
    count: Slot,
    /// Whether every interval is whole.
    whole: Slot,
}

/// The interval of a statement in a row, and where its first element is.
#[derive(Clone, Copy)]
struct Access {
    lo: Slot,
    hi: Slot,
    pointer: Slot,
}

/// Values in registers.
#[derive(Default)]
struct Registers {
    of: BTreeMap<TileId, usize>,
    last: BTreeMap<TileId, usize>,
}

impl Registers {
    fn take(&mut self, id: TileId) -> Result<usize, Lack> {
        if let Some(register) = self.of.get(&id) {
            return Ok(*register);
        }
        let used: Vec<usize> = self.of.values().copied().collect();
        let free = (0..IN_PLACE).find(|register| !used.contains(register));
        let free = free.ok_or_else(|| Lack("more values than registers".into()))?;
        self.of.insert(id, free);
        Ok(free)
    }

    /// Frees what no statement after number `k` reads.
    fn free(&mut self, k: usize) {
        let Registers { of, last } = self;
        of.retain(|id, _| last.get(id).is_some_and(|last| *last > k));
    }
}

impl Selector<'_> {
    /// The loop of a group.
    pub fn group(&mut self, group: &[&Statement]) -> Result<(), Lack> {
        self.rows(group[0], |selector, rows| selector.row(group, rows))
    }

    /// The loop over the rows of a statement's index tuples.
    fn rows(
        &mut self,
        first: &Statement,
        mut row: impl FnMut(&mut Self, &Rows<'_>) -> Result<(), Lack>,
    ) -> Result<(), Lack> {
        let space = plan::space(first).ok_or_else(|| Lack("a statement without a tile".into()))?;
        let space = self.tile(space);
        let mut out = self.e.a.create_label();
        let ranges = self.ranges(space, out)?;
        let inner = plan::inner(space);
        let count = match inner {
            Some(axis) => ranges[axis].1,
            None => {
                let one = self.e.slot()?;
                self.e.set(one, 1)?;
                one
            }
        };
        let whole = self.e.slot()?;
        let mut rows = Rows { space, inner, positions: vec![None; ranges.len()], ranges, count, whole };
        let depth = self.e.bound.len();
        let mut loops = Vec::new();
        for axis in (0..space.ranges.len()).filter(|axis| Some(*axis) != inner) {
            let (position, label) = (self.e.slot()?, self.e.slot()?);
            rows.positions[axis] = Some(position);
            self.e.set(position, 0)?;
            let mut head = self.e.a.create_label();
            self.e.a.set_label(&mut head)?;
            let a = &mut self.e.a;
            a.mov(rax, rows.ranges[axis].0.at())?;
            a.add(rax, position.at())?;
            a.mov(label.at(), rax)?;
            self.e.bound.push((space.ranges[axis].label.clone(), label));
            loops.push((axis, position, head));
        }
        row(self, &rows)?;
        for (axis, position, head) in loops.into_iter().rev() {
            let a = &mut self.e.a;
            a.mov(rax, position.at())?;
            a.inc(rax)?;
            a.mov(position.at(), rax)?;
            a.cmp(rax, rows.ranges[axis].1.at())?;
            a.jl(head)?;
        }
        self.e.bound.truncate(depth);
        Ok(self.e.a.set_label(&mut out)?)
    }

    /// The interval of a row where an access lies inside its buffer and the condition holds.
    fn access(
        &mut self,
        rows: &Rows<'_>,
        at: Option<(BufferId, &[Dim])>,
        when: &Cond,
    ) -> Result<Access, Lack> {
        let access = Access { lo: self.e.slot()?, hi: self.e.slot()?, pointer: self.e.slot()? };
        let inner = rows.inner.map(|axis| (&rows.space.ranges[axis].label, rows.ranges[axis].0));
        self.e.set(access.lo, 0)?;
        self.e.a.mov(rax, rows.count.at())?;
        self.e.a.mov(access.hi.at(), rax)?;
        self.e.narrow(when, inner, access.lo, access.hi)?;
        if let Some((buffer, index)) = at {
            let number = buffer.0 as usize;
            let described = &self.e.buffers[number];
            if described.extents.len() != index.len() {
                return Err(Lack(format!("`{}` at {} indices", described.name, index.len())));
            }
            let bytes = described.dtype.bytes() as i32;
            let first = self.e.slot()?;
            self.e.set(first, 0)?;
            for (axis, dim) in index.iter().enumerate() {
                let base = self.e.slot()?;
                let step = self.e.line(dim, inner)?;
                self.e.a.mov(base.at(), rax)?;
                let extent = self.e.extent(number, axis);
                let a = &mut self.e.a;
                a.mov(rcx, first.at())?;
                a.imul_2(rcx, extent)?;
                a.add(rcx, rax)?;
                a.mov(first.at(), rcx)?;
                let mut fine = a.create_label();
                match step {
                    0 => {
                        a.cmp(rax, extent)?;
                        a.jb(fine)?;
                        a.mov(access.hi.at(), 0)?;
                        a.set_label(&mut fine)?;
                    }
                    _ => {
                        // -base ≤ position < extent - base
                        a.neg(rax)?;
                        a.cmp(rax, access.lo.at())?;
                        a.cmovl(rax, access.lo.at())?;
                        a.mov(access.lo.at(), rax)?;
                        a.mov(rax, extent)?;
                        a.sub(rax, base.at())?;
                        a.cmp(rax, access.hi.at())?;
                        a.cmovg(rax, access.hi.at())?;
                        a.mov(access.hi.at(), rax)?;
                    }
                }
            }
            let a = &mut self.e.a;
            a.imul_3(rax, first.at(), bytes)?;
            a.add(rax, qword_ptr(r13 + 8 * number as i32))?;
            a.mov(access.pointer.at(), rax)?;
        }
        // The row is whole if 0 and count are the bounds.
        let a = &mut self.e.a;
        let (mut no, mut fine) = (a.create_label(), a.create_label());
        a.cmp(access.lo.at(), 0)?;
        a.jg(no)?;
        a.mov(rax, access.hi.at())?;
        a.cmp(rax, rows.count.at())?;
        a.jge(fine)?;
        a.set_label(&mut no)?;
        a.mov(rows.whole.at(), 0)?;
        a.set_label(&mut fine)?;
        a.nop()?;
        Ok(access)
    }

    /// One row of a group.
    fn row(&mut self, group: &[&Statement], rows: &Rows<'_>) -> Result<(), Lack> {
        self.e.set(rows.whole, 1)?;
        let (mut accesses, mut pointers) = (BTreeMap::new(), BTreeMap::new());
        let mut states = BTreeMap::new();
        for (k, statement) in group.iter().enumerate() {
            let always = Cond::True;
            let access = match statement {
                Statement::Load { buffer, index, when, .. } => {
                    Some((Some((*buffer, index.as_slice())), when))
                }
                Statement::Store { buffer, index, .. } => Some((Some((*buffer, index.as_slice())), &always)),
                Statement::Reduce { mask, .. } if mask.tiles.is_empty() => Some((None, &mask.condition)),
                Statement::Reduce { .. } => return Err(Lack("a reduction under boolean tiles".into())),
                _ => None,
            };
            if let Some((at, when)) = access {
                accesses.insert(k, self.access(rows, at, when)?);
            }
            for id in statement.reads().into_iter().chain(statement.writes()) {
                self.aligned(self.tile(id), rows.space)?;
                if self.kept.contains(&id) && !pointers.contains_key(&id) {
                    let slot = self.e.slot()?;
                    self.address(id, rows.space, &rows.positions)?;
                    self.e.a.mov(slot.at(), rax)?;
                    pointers.insert(id, slot);
                }
            }
            if let Statement::Reduce { monoid, state, .. } = statement {
                let [state] = state.as_slice() else {
                    return Err(Lack(format!("the monoid `{}`", monoid.name)));
                };
                let narrow = !matches!(self.tile(*state).dtype, DType::F32);
                if narrow && matches!(monoid.name, "sum" | "prod") {
                    return Err(Lack(format!(
                        "a {} that is rounded to {}",
                        monoid.name,
                        self.tile(*state).dtype
                    )));
                }
                if self.along(*state, rows)?.is_none() {
                    let register = ZMM[FIRST_TEMPORARY - 1 - states.len()];
                    let identity = match monoid.name {
                        "max" => f32::NEG_INFINITY,
                        "min" => f32::INFINITY,
                        "prod" => 1.0,
                        _ => 0.0,
                    };
                    let constant = self.e.constant(identity.to_bits());
                    self.e.a.vbroadcastss(register, dword_ptr(constant))?;
                    states.insert(k, register);
                }
            }
        }
        let a = &mut self.e.a;
        let (mut head, mut rest, mut done) = (a.create_label(), a.create_label(), a.create_label());
        a.xor(ebx, ebx)?;
        a.set_label(&mut head)?;
        a.lea(rax, qword_ptr(rbx + 16))?;
        a.cmp(rax, rows.count.at())?;
        a.jg(rest)?;
        a.cmp(rows.whole.at(), 0)?;
        a.je(rest)?;
        self.vector(group, rows, &accesses, &pointers, &states, false)?;
        self.e.a.add(rbx, 16)?;
        self.e.a.jmp(head)?;
        self.e.a.set_label(&mut rest)?;
        self.e.a.cmp(rbx, rows.count.at())?;
        self.e.a.jge(done)?;
        self.vector(group, rows, &accesses, &pointers, &states, true)?;
        self.e.a.add(rbx, 16)?;
        self.e.a.jmp(head)?;
        self.e.a.set_label(&mut done)?;
        // An instruction carries one label at most.
        self.e.a.nop()?;
        for (k, register) in &states {
            let Statement::Reduce { monoid, state, .. } = group[*k] else { continue };
            functions::fold(&mut self.e, monoid.name, *register)?;
            self.e.a.mov(rax, pointers[&state[0]].at())?;
            let (before, single) = (ZMM[FIRST_TEMPORARY + 4], xmm30);
            self.e.a.vmovss(single, dword_ptr(rax))?;
            functions::absorb(&mut self.e, monoid.name, before, *register, false)?;
            self.e.a.vmovss(dword_ptr(rax), single)?;
        }
        Ok(())
    }

    /// Whether a tile has the inner label of the rows, as its own inner one.
    fn along(&self, id: TileId, rows: &Rows<'_>) -> Result<Option<()>, Lack> {
        let (tile, place) = (self.tile(id), &self.places[id.0 as usize]);
        let Some(inner) = rows.inner else { return Ok(None) };
        let label = &rows.space.ranges[inner].label;
        match tile.ranges.iter().position(|range| range.label == *label) {
            None => Ok(None),
            Some(axis) if place.strides[axis] == 1 || rows.space.ranges[inner].size == 1 => Ok(Some(())),
            Some(_) => Err(Lack(format!("`{}` across `{label}`", tile.name))),
        }
    }

    /// 16 positions of a row, or those of them that take part.
    fn vector(
        &mut self,
        group: &[&Statement],
        rows: &Rows<'_>,
        accesses: &BTreeMap<usize, Access>,
        pointers: &BTreeMap<TileId, Slot>,
        states: &BTreeMap<usize, AsmRegisterZmm>,
        masked: bool,
    ) -> Result<(), Lack> {
        let mut registers = Registers::default();
        for (k, statement) in group.iter().enumerate() {
            for id in statement.reads() {
                registers.last.insert(id, k);
            }
        }
        for (k, statement) in group.iter().enumerate() {
            let mut sources = BTreeMap::new();
            let state = match statement {
                Statement::Reduce { state, .. } => state.as_slice(),
                _ => &[],
            };
            for id in statement.reads().into_iter().filter(|id| !state.contains(id)) {
                let known = registers.of.contains_key(&id);
                let register = ZMM[registers.take(id)?];
                sources.insert(id, register);
                if known {
                    continue;
                }
                let pointer = pointers.get(&id).ok_or_else(|| Lack("a tile without a place".into()))?;
                self.e.a.mov(rax, pointer.at())?;
                match self.along(id, rows)? {
                    Some(()) => self.e.a.vmovups(register, zmmword_ptr(rax + rbx * 4))?,
                    None => self.e.a.vbroadcastss(register, dword_ptr(rax))?,
                }
            }
            if let Some(access) = accesses.get(&k)
                && masked
            {
                self.e.lanes(access.lo, access.hi)?;
            }
            let written = match statement {
                Statement::Load { tile, buffer, index, .. } => {
                    let to = registers.take(*tile)?;
                    self.load(*buffer, index, rows, accesses[&k], ZMM[to], masked)?;
                    Some((*tile, to))
                }
                Statement::Store { tile, buffer, .. } => {
                    let dtype = self.e.buffers[buffer.0 as usize].dtype;
                    if dtype != self.tile(*tile).dtype {
                        return Err(Lack("a store of another type".into()));
                    }
                    self.e.a.mov(rax, accesses[&k].pointer.at())?;
                    let to = element(dtype);
                    functions::store(&mut self.e, dtype, to, sources[tile], masked)?;
                    None
                }
                Statement::Fill { tile, value } => {
                    let to = registers.take(*tile)?;
                    self.literal(*value, self.tile(*tile).dtype, ZMM[to])?;
                    Some((*tile, to))
                }
                Statement::Convert { from, to } => {
                    let register = registers.take(*to)?;
                    self.e.a.vmovaps(ZMM[register], sources[from])?;
                    Some((*to, register))
                }
                Statement::Compute { function, arguments, result } => {
                    let dtype = self.tile(*result).dtype;
                    let mut values = Vec::new();
                    for (number, argument) in arguments.iter().enumerate() {
                        values.push(match argument {
                            Argument::Item(id) => sources[id],
                            other => {
                                let register = ZMM[FIRST_TEMPORARY + 5 - number];
                                self.scalar(other, function.name, dtype, rows, register)?;
                                register
                            }
                        });
                    }
                    if function.name == "cast" && dtype == DType::Bool {
                        return Err(Lack("a cast to bool".into()));
                    }
                    let in_place = sources.contains_key(result);
                    let to = if in_place { IN_PLACE } else { registers.take(*result)? };
                    functions::compute(&mut self.e, function.name, &values, ZMM[to])?;
                    functions::round(&mut self.e, dtype, ZMM[to])?;
                    let at = registers.take(*result)?;
                    if in_place {
                        self.e.a.vmovaps(ZMM[at], ZMM[to])?;
                    }
                    Some((*result, at))
                }
                Statement::Reduce { monoid, argument, state, .. } => {
                    match states.get(&k) {
                        Some(register) => {
                            functions::absorb(
                                &mut self.e,
                                monoid.name,
                                *register,
                                sources[argument],
                                masked,
                            )?;
                        }
                        None => {
                            let register = ZMM[FIRST_TEMPORARY + 4];
                            self.e.a.mov(rax, pointers[&state[0]].at())?;
                            self.e.a.vmovups(register, zmmword_ptr(rax + rbx * 4))?;
                            functions::absorb(&mut self.e, monoid.name, register, sources[argument], masked)?;
                            self.e.a.vmovups(zmmword_ptr(rax + rbx * 4), register)?;
                        }
                    }
                    None
                }
                other => return Err(Lack(format!("the statement `{}`", plan::name(other)))),
            };
            if let Some((id, register)) = written
                && let Some(pointer) = pointers.get(&id)
            {
                self.e.a.mov(rax, pointer.at())?;
                self.e.a.vmovups(zmmword_ptr(rax + rbx * 4), ZMM[register])?;
            }
            registers.free(k);
        }
        Ok(())
    }

    fn load(
        &mut self,
        buffer: BufferId,
        index: &[Dim],
        rows: &Rows<'_>,
        access: Access,
        to: AsmRegisterZmm,
        masked: bool,
    ) -> Result<(), Lack> {
        let dtype = self.e.buffers[buffer.0 as usize].dtype;
        let single = rows.inner.is_none_or(|axis| rows.space.ranges[axis].size == 1);
        self.e.a.mov(rax, access.pointer.at())?;
        if single || plan::moving(rows.space, index)?.is_some() {
            return functions::load(&mut self.e, dtype, element(dtype), to, masked);
        }
        match (dtype, masked) {
            (DType::F32, true) => self.e.a.vbroadcastss(to.k1().z(), dword_ptr(rax))?,
            (DType::F32, false) => self.e.a.vbroadcastss(to, dword_ptr(rax))?,
            _ => return Err(Lack(format!("one element of type {dtype} for a whole row"))),
        }
        Ok(())
    }

    /// A number in every lane.
    fn literal(&mut self, value: Scalar, dtype: DType, to: AsmRegisterZmm) -> Result<(), Lack> {
        let constant = self.e.constant((value.cast(dtype).as_f64() as f32).to_bits());
        Ok(self.e.a.vbroadcastss(to, dword_ptr(constant))?)
    }

    /// An argument that is no tile, in every lane.
    fn scalar(
        &mut self,
        argument: &Argument,
        function: &str,
        dtype: DType,
        rows: &Rows<'_>,
        to: AsmRegisterZmm,
    ) -> Result<(), Lack> {
        match argument {
            Argument::Literal(value) if function == "cast" => self.literal(*value, dtype, to),
            Argument::Literal(value) => {
                let (wide, single) = (value.as_f64(), value.as_f64() as f32);
                if !matches!(value, Scalar::Int(_)) && (f64::from(single) == wide || wide.is_nan()) {
                    return self.literal(*value, DType::F32, to);
                }
                Err(Lack(format!("the number {wide}, which is no single")))
            }
            Argument::Index(dim) if function == "cast" && dtype == DType::F32 => {
                if rows.inner.is_some_and(|axis| dim.mentions(&rows.space.ranges[axis].label)) {
                    return Err(Lack(format!("the number `{dim}` along its label")));
                }
                self.e.dim(dim)?;
                self.e.a.vcvtsi2ss(xmm26, xmm26, rax)?;
                Ok(self.e.a.vbroadcastss(to, xmm26)?)
            }
            Argument::Index(dim) => Err(Lack(format!("the number `{dim}`"))),
            Argument::Holds(cond) => Err(Lack(format!("the truth of `{cond}`"))),
            Argument::Item(_) => Err(Lack("a tile".into())),
        }
    }

    /// A load or store of elements that are apart in memory, one by one.
    pub fn strided(&mut self, statement: &Statement) -> Result<(), Lack> {
        let always = Cond::True;
        let (id, buffer, index, when, loads) = match statement {
            Statement::Load { tile, buffer, index, when, .. } => (*tile, *buffer, index, when, true),
            Statement::Store { tile, buffer, index, .. } => (*tile, *buffer, index, &always, false),
            other => return Err(Lack(format!("the statement `{}`", plan::name(other)))),
        };
        let dtype = self.e.buffers[buffer.0 as usize].dtype;
        if dtype != self.tile(id).dtype || !matches!(dtype, DType::F32 | DType::Bf16) {
            return Err(Lack(format!("elements of type {dtype} that are apart")));
        }
        let bytes = dtype.bytes() as i32;
        let axis = plan::moving(self.tile(id), index)?.ok_or_else(|| Lack("a step of 0".into()))?;
        self.rows(statement, |selector, rows| {
            let access = selector.access(rows, Some((buffer, index)), when)?;
            selector.address(id, rows.space, &rows.positions)?;
            let place = selector.e.slot()?;
            selector.e.a.mov(place.at(), rax)?;
            let a = &mut selector.e.a;
            let (mut zero, mut zeroed, mut head, mut done) =
                (a.create_label(), a.create_label(), a.create_label(), a.create_label());
            if loads {
                a.vxorps(xmm26, xmm26, xmm26)?;
                a.mov(rcx, rows.count.at())?;
                a.set_label(&mut zero)?;
                a.vmovups(zmmword_ptr(rax), zmm26)?;
                a.add(rax, VECTOR as i32)?;
                a.sub(rcx, 16)?;
                a.jg(zero)?;
                a.set_label(&mut zeroed)?;
            }
            a.mov(rcx, access.hi.at())?;
            a.sub(rcx, access.lo.at())?;
            a.jle(done)?;
            // r8: bytes from one element to the next.
            a.mov(r8, i64::from(bytes))?;
            for later in axis + 1..index.len() {
                let extent = selector.e.extent(buffer.0 as usize, later);
                selector.e.a.imul_2(r8, extent)?;
            }
            let a = &mut selector.e.a;
            a.mov(rsi, access.lo.at())?;
            a.mov(rdx, place.at())?;
            a.lea(rdx, qword_ptr(rdx + rsi * 4))?;
            a.imul_2(rsi, r8)?;
            a.add(rsi, access.pointer.at())?;
            a.set_label(&mut head)?;
            match (loads, bytes) {
                (true, 2) => {
                    a.movzx(eax, word_ptr(rsi))?;
                    a.shl(eax, 16)?;
                    a.mov(dword_ptr(rdx), eax)?;
                }
                (true, _) => {
                    a.mov(eax, dword_ptr(rsi))?;
                    a.mov(dword_ptr(rdx), eax)?;
                }
                (false, 2) => {
                    a.mov(eax, dword_ptr(rdx))?;
                    a.shr(eax, 16)?;
                    a.mov(word_ptr(rsi), ax)?;
                }
                (false, _) => {
                    a.mov(eax, dword_ptr(rdx))?;
                    a.mov(dword_ptr(rsi), eax)?;
                }
            }
            a.add(rsi, r8)?;
            a.add(rdx, 4)?;
            a.dec(rcx)?;
            a.jnz(head)?;
            a.set_label(&mut done)?;
            Ok(a.nop()?)
        })
    }
}

/// Element `rbx` of a buffer whose first byte is in `rax`.
fn element(dtype: DType) -> AsmMemoryOperand {
    match dtype.bytes() {
        1 => xmmword_ptr(rax + rbx),
        2 => ymmword_ptr(rax + rbx * 2),
        _ => zmmword_ptr(rax + rbx * 4),
    }
}
