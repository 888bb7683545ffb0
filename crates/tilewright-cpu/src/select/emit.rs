//! Writing one function: registers with fixed roles, a frame of slots, index expressions, constants.
//!
//! | register | holds |
//! | --- | --- |
//! | `rbp` | the frame: [`Slot`]s below it |
//! | `r12` `r13` `r14` `r15` | values of symbols, first bytes of buffers, extents of buffers, scratch |
//! | `rbx` | the position along the inner label |
//! | `r11` | constants |
//! | `rax` `rcx` `rdx` `rsi` `rdi` `r8`–`r10` | anything, for a few instructions |

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use tilewright::dim::{Atom, Cond, Dim, Relation, Symbol};
use tilewright::task::Buffer;
use tilewright::tensor::DType;

/// Why a statement has no machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack(pub String);

impl From<IcedError> for Lack {
    fn from(error: IcedError) -> Lack {
        Lack(format!("no encoding: {error}"))
    }
}

/// A word of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(i32);

/// Bytes of the frame.
const FRAME: i32 = 8192;

/// Symbols that code reads from its context, in the order in which the context lists them.
#[derive(Clone, Debug, Default)]
pub struct Names(pub Vec<Symbol>);

impl Names {
    fn position(&mut self, symbol: &Symbol) -> usize {
        self.0.iter().position(|other| other == symbol).unwrap_or_else(|| {
            self.0.push(symbol.clone());
            self.0.len() - 1
        })
    }
}

/// What one function is written with.
pub struct Emitter<'a> {
    /// The assembler.
    pub a: CodeAssembler,
    /// The buffers of the program.
    pub buffers: &'a [Buffer],
    /// Coordinates and labels, and where their values are; the last of a name counts.
    pub bound: Vec<(Symbol, Slot)>,
    names: &'a mut Names,
    slots: i32,
    constants: Vec<u32>,
    pool: CodeLabel,
    fail: CodeLabel,
}

impl<'a> Emitter<'a> {
    /// A function `extern "sysv64" fn(*const Context, *const i64) -> i64` up to its body; the coordinates are bound.
    pub fn new(
        coordinates: &[Symbol],
        buffers: &'a [Buffer],
        names: &'a mut Names,
    ) -> Result<Emitter<'a>, Lack> {
        let mut a = CodeAssembler::new(64)?;
        // VEX names half of the vector registers.
        a.set_prefer_vex(false);
        let (pool, fail) = (a.create_label(), a.create_label());
        let mut this =
            Emitter { a, buffers, bound: Vec::new(), names, slots: 0, constants: Vec::new(), pool, fail };
        let a = &mut this.a;
        a.push(rbp)?;
        a.mov(rbp, rsp)?;
        for register in [rbx, r12, r13, r14, r15] {
            a.push(register)?;
        }
        a.sub(rsp, FRAME)?;
        a.mov(r12, qword_ptr(rdi))?;
        a.mov(r13, qword_ptr(rdi + 8))?;
        a.mov(r14, qword_ptr(rdi + 16))?;
        a.mov(r15, qword_ptr(rdi + 24))?;
        a.lea(r11, ptr(this.pool))?;
        for (k, name) in coordinates.iter().enumerate() {
            let slot = this.slot()?;
            this.a.mov(rax, qword_ptr(rsi + 8 * k as i32))?;
            this.a.mov(slot.at(), rax)?;
            this.bound.push((name.clone(), slot));
        }
        Ok(this)
    }

    /// The code, which does not depend on its address.
    pub fn finish(mut self) -> Result<Vec<u8>, Lack> {
        let mut out = self.a.create_label();
        self.a.xor(eax, eax)?;
        self.a.jmp(out)?;
        self.a.set_label(&mut self.fail)?;
        self.a.mov(eax, 1)?;
        self.a.set_label(&mut out)?;
        self.a.vzeroupper()?;
        self.a.lea(rsp, qword_ptr(rbp - 40))?;
        for register in [r15, r14, r13, r12, rbx, rbp] {
            self.a.pop(register)?;
        }
        self.a.ret()?;
        self.a.set_label(&mut self.pool)?;
        self.constants.push(0);
        self.a.dd(&self.constants)?;
        Ok(self.a.assemble(0)?)
    }

    /// A new word of the frame.
    pub fn slot(&mut self) -> Result<Slot, Lack> {
        if (self.slots + 1) * 8 > FRAME - 256 {
            return Err(Lack("more intermediate values than a frame holds".into()));
        }
        self.slots += 1;
        Ok(Slot(self.slots))
    }

    /// Where a constant of 32 bits is kept.
    pub fn constant(&mut self, bits: u32) -> AsmMemoryOperand {
        let found = self.constants.iter().position(|other| *other == bits);
        let index = found.unwrap_or_else(|| {
            self.constants.push(bits);
            self.constants.len() - 1
        });
        r11 + 4 * index as i32
    }

    /// A float in every lane.
    pub fn float(&mut self, value: f32) -> AsmMemoryOperand {
        dword_bcst(self.constant(value.to_bits()))
    }

    /// Leaves with the status that says: let the portable executor run the task.
    pub fn fail_if_overflow(&mut self) -> Result<(), Lack> {
        Ok(self.a.jo(self.fail)?)
    }

    /// The position of the first extent of a buffer in the context.
    pub fn extent(&self, buffer: usize, axis: usize) -> AsmMemoryOperand {
        let before: usize = self.buffers[..buffer].iter().map(|buffer| buffer.extents.len()).sum();
        qword_ptr(r14 + 8 * (before + axis) as i32)
    }

    /// `rax` = the value of a dim.
    pub fn dim(&mut self, dim: &Dim) -> Result<(), Lack> {
        let terms: Vec<(i64, Vec<Atom>)> = dim.terms().map(|(c, atoms)| (c, atoms.to_vec())).collect();
        let constant = dim.constant_part();
        let mut started = constant != 0 || terms.is_empty();
        if started {
            self.a.mov(rax, constant)?;
        }
        for (coefficient, atoms) in terms {
            if started {
                self.a.push(rax)?;
            }
            for (k, atom) in atoms.iter().enumerate() {
                if k > 0 {
                    self.a.push(rax)?;
                }
                self.atom(atom)?;
                if k > 0 {
                    self.a.pop(rcx)?;
                    self.a.imul_2(rax, rcx)?;
                    self.fail_if_overflow()?;
                }
            }
            if coefficient != 1 {
                self.a.mov(rcx, coefficient)?;
                self.a.imul_2(rax, rcx)?;
                self.fail_if_overflow()?;
            }
            if started {
                self.a.pop(rcx)?;
                self.a.add(rax, rcx)?;
                self.fail_if_overflow()?;
            }
            started = true;
        }
        Ok(())
    }

    fn atom(&mut self, atom: &Atom) -> Result<(), Lack> {
        match atom {
            Atom::Symbol(symbol) => {
                let slot = self.bound.iter().rev().find(|(name, _)| name == symbol).map(|(_, slot)| *slot);
                match slot {
                    Some(slot) => self.a.mov(rax, slot.at())?,
                    None => {
                        let at = self.names.position(symbol);
                        self.a.mov(rax, qword_ptr(r12 + 8 * at as i32))?;
                    }
                }
            }
            Atom::Element(table, index) => self.element(table, index)?,
            Atom::FloorDiv(x, y) | Atom::CeilDiv(x, y) | Atom::Mod(x, y) => {
                self.dim(x)?;
                self.a.push(rax)?;
                self.dim(y)?;
                self.a.mov(rcx, rax)?;
                self.a.pop(rax)?;
                self.a.test(rcx, rcx)?;
                self.a.jle(self.fail)?;
                self.a.cqo()?;
                self.a.idiv(rcx)?;
                self.a.xor(esi, esi)?;
                self.a.test(rdx, rdx)?;
                match atom {
                    Atom::FloorDiv(..) => {
                        self.a.sets(sil)?;
                        self.a.sub(rax, rsi)?;
                    }
                    Atom::CeilDiv(..) => {
                        self.a.setg(sil)?;
                        self.a.add(rax, rsi)?;
                    }
                    _ => {
                        self.a.lea(rcx, qword_ptr(rdx + rcx))?;
                        self.a.mov(rax, rdx)?;
                        self.a.cmovs(rax, rcx)?;
                    }
                }
            }
            Atom::Min(parts) | Atom::Max(parts) => {
                for (k, part) in parts.iter().enumerate() {
                    if k > 0 {
                        self.a.push(rax)?;
                    }
                    self.dim(part)?;
                    if k > 0 {
                        self.a.pop(rcx)?;
                        self.a.cmp(rcx, rax)?;
                        match atom {
                            Atom::Min(_) => self.a.cmovl(rax, rcx)?,
                            _ => self.a.cmovg(rax, rcx)?,
                        }
                    }
                }
            }
            Atom::Overflow => return Err(Lack("a constant beyond 64 bits".into())),
        }
        Ok(())
    }

    /// `rax` = an element of an integer buffer; an index outside leaves the function.
    fn element(&mut self, table: &Symbol, index: &[Dim]) -> Result<(), Lack> {
        let buffer = self.buffers.iter().position(|buffer| buffer.name == *table);
        let buffer = buffer.ok_or_else(|| Lack(format!("an index read from the tile `{table}`")))?;
        if index.len() != self.buffers[buffer].extents.len() {
            return Err(Lack(format!("`{table}` read with {} indices", index.len())));
        }
        self.a.xor(eax, eax)?;
        self.a.push(rax)?;
        for (axis, dim) in index.iter().enumerate() {
            self.dim(dim)?;
            let extent = self.extent(buffer, axis);
            self.a.cmp(rax, extent)?;
            self.a.jae(self.fail)?;
            self.a.pop(rcx)?;
            self.a.imul_2(rcx, extent)?;
            self.a.add(rax, rcx)?;
            self.a.push(rax)?;
        }
        self.a.pop(rax)?;
        self.a.mov(rcx, qword_ptr(r13 + 8 * buffer as i32))?;
        match self.buffers[buffer].dtype {
            DType::I64 => self.a.mov(rax, qword_ptr(rcx + rax * 8))?,
            DType::I32 => self.a.movsxd(rax, dword_ptr(rcx + rax * 4))?,
            DType::I8 => self.a.movsx(rax, byte_ptr(rcx + rax))?,
            DType::U8 | DType::Bool => self.a.movzx(eax, byte_ptr(rcx + rax))?,
            other => return Err(Lack(format!("an index of type {other}"))),
        }
        Ok(())
    }

    /// Narrows positions `lo..hi` along the label `inner`, which starts at `start`, to those where the condition holds.
    pub fn narrow(
        &mut self,
        condition: &Cond,
        inner: Option<(&Symbol, Slot)>,
        lo: Slot,
        hi: Slot,
    ) -> Result<(), Lack> {
        match condition {
            Cond::True => Ok(()),
            Cond::False => Ok(self.a.mov(hi.at(), 0)?),
            Cond::And(parts) => parts.iter().try_for_each(|part| self.narrow(part, inner, lo, hi)),
            Cond::Compare(left, relation, right) if *relation != Relation::Ne => {
                self.compare(&(left - right), *relation, inner, lo, hi)
            }
            _ => Err(Lack(format!("the condition `{condition}`"))),
        }
    }

    /// Narrows `lo..hi` to the positions where `dim` stands in `relation` to 0.
    pub fn compare(
        &mut self,
        dim: &Dim,
        relation: Relation,
        inner: Option<(&Symbol, Slot)>,
        lo: Slot,
        hi: Slot,
    ) -> Result<(), Lack> {
        let step = self.line(dim, inner)?;
        let (lo_at, hi_at) = (lo.at(), hi.at());
        let raise = |a: &mut CodeAssembler| -> Result<(), IcedError> {
            a.cmp(rax, lo_at)?;
            a.cmovl(rax, lo_at)?;
            a.mov(lo_at, rax)
        };
        let lower = |a: &mut CodeAssembler| -> Result<(), IcedError> {
            a.cmp(rax, hi_at)?;
            a.cmovg(rax, hi_at)?;
            a.mov(hi_at, rax)
        };
        let a = &mut self.a;
        match (step, relation) {
            (0, _) => {
                let mut holds = a.create_label();
                a.test(rax, rax)?;
                match relation {
                    Relation::Lt => a.js(holds)?,
                    Relation::Le => a.jle(holds)?,
                    Relation::Gt => a.jg(holds)?,
                    Relation::Ge => a.jns(holds)?,
                    _ => a.je(holds)?,
                }
                a.mov(hi_at, 0)?;
                a.set_label(&mut holds)?;
            }
            (1, Relation::Lt) => {
                a.neg(rax)?;
                lower(a)?;
            }
            (1, Relation::Le) => {
                a.neg(rax)?;
                a.inc(rax)?;
                lower(a)?;
            }
            (1, Relation::Gt) => {
                a.neg(rax)?;
                a.inc(rax)?;
                raise(a)?;
            }
            (1, Relation::Ge) => {
                a.neg(rax)?;
                raise(a)?;
            }
            (-1, Relation::Lt) => {
                a.inc(rax)?;
                raise(a)?;
            }
            (-1, Relation::Le) => raise(a)?,
            (-1, Relation::Gt) => lower(a)?,
            (-1, Relation::Ge) => {
                a.inc(rax)?;
                lower(a)?;
            }
            (1, _) => {
                a.neg(rax)?;
                a.mov(rdx, rax)?;
                raise(a)?;
                a.lea(rax, qword_ptr(rdx + 1))?;
                lower(a)?;
            }
            _ => {
                a.mov(rdx, rax)?;
                raise(a)?;
                a.lea(rax, qword_ptr(rdx + 1))?;
                lower(a)?;
            }
        }
        Ok(())
    }

    /// `rax` = the dim at position 0 of the inner label; the step along it is 0, 1 or -1.
    pub fn line(&mut self, dim: &Dim, inner: Option<(&Symbol, Slot)>) -> Result<i64, Lack> {
        let Some((label, start)) = inner.filter(|(label, _)| dim.mentions(label)) else {
            self.dim(dim)?;
            return Ok(0);
        };
        let form = dim.affine(std::slice::from_ref(label));
        let step = form.as_ref().and_then(|form| form.coefficients.first()?.as_constant());
        match (form, step) {
            (Some(form), Some(step @ (-1..=1))) => {
                self.dim(&form.constant)?;
                match step {
                    1 => self.a.add(rax, start.at())?,
                    -1 => self.a.sub(rax, start.at())?,
                    _ => {}
                }
                self.fail_if_overflow()?;
                Ok(step)
            }
            _ => Err(Lack(format!("`{dim}` along `{label}`"))),
        }
    }

    /// `k1` = which of 16 lanes from position `rbx` on lie in `lo..hi`.
    pub fn lanes(&mut self, lo: Slot, hi: Slot) -> Result<(), Lack> {
        let a = &mut self.a;
        a.mov(edx, -1)?;
        for (bound, bits) in [(hi, rsi), (lo, rdi)] {
            a.mov(rax, bound.at())?;
            a.sub(rax, rbx)?;
            a.mov(ecx, 0)?;
            a.cmovs(rax, rcx)?;
            a.mov(ecx, 16)?;
            a.cmp(rax, rcx)?;
            a.cmovg(rax, rcx)?;
            a.bzhi(bits, rdx, rax)?;
        }
        a.andn(rax, rdi, rsi)?;
        Ok(a.kmovw(k1, eax)?)
    }

    /// Sets a word of the frame.
    pub fn set(&mut self, slot: Slot, value: i32) -> Result<(), Lack> {
        Ok(self.a.mov(slot.at(), value)?)
    }
}

impl Slot {
    /// Where it is.
    pub fn at(self) -> AsmMemoryOperand {
        qword_ptr(rbp - (40 + 8 * self.0))
    }
}
