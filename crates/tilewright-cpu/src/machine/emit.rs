//! From a machine program to bytes.

use super::allocate::{Flat, FlatInst, KEPT, allocate, reads};
use super::ir::*;
use super::level::Level;
use super::row::{Slot, Span};
use super::verify::{Illegal, verify};
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};
use regalloc2::{
    Allocation, Block as AllocBlock, Edit, Inst as AllocInst, InstOrEdit, Output, PReg, RegClass,
};
use std::collections::HashMap;

/// Why a program has no code.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// The program is not legal: a bug of whoever built it.
    #[error("{0}")]
    Illegal(#[from] Illegal),
    /// No registers were found for it.
    #[error("no registers for `{program}`: {error}")]
    Registers {
        /// The program's name.
        program: String,
        /// What the allocator says.
        error: regalloc2::RegAllocError,
    },
    /// An instruction has no encoding: a bug in the instruction table.
    #[error("`{row}` in `{program}` has no encoding: {error}")]
    Encoding {
        /// The program's name.
        program: String,
        /// The instruction.
        row: &'static str,
        /// What the assembler says.
        error: String,
    },
}

/// Moves through memory that the allocator put into a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    /// The block's name; an edge is named after the block that it leaves.
    pub block: String,
    /// Registers written to the frame.
    pub stores: usize,
    /// Registers read from the frame.
    pub loads: usize,
}

/// Code of one program; it runs at any address.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The program's name.
    pub name: String,
    /// Constants, then code.
    pub bytes: Vec<u8>,
    /// Where the code starts in `bytes`.
    pub entry: usize,
    /// Where the code ends in `bytes`.
    pub end: usize,
    /// Blocks with moves through memory.
    pub spills: Vec<Spill>,
    /// Bytes of its frame.
    pub frame: usize,
    /// First bytes of blocks, ascending.
    pub(super) labels: Vec<(usize, String)>,
}

/// Gives a legal program registers and encodes it.
///
/// # Errors
/// An illegal program, more values in registers at once than there are, or a row without an encoding.
pub fn emit(program: &Program) -> std::result::Result<Emitted, EmitError> {
    verify(program)?;
    let flat = Flat::new(program);
    let output = allocate(&flat, program.level)
        .map_err(|error| EmitError::Registers { program: program.name.clone(), error })?;
    Emitter::new(program, &flat, &output).run()
}

/// A jump whose distance is not known yet: where its four bytes lie, and what it goes to.
struct Patch {
    at: usize,
    to: Label,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Label {
    Block(usize),
    Exit(usize),
    Epilogue,
}

struct Emitter<'a> {
    program: &'a Program,
    flat: &'a Flat,
    output: &'a Output,
    encoder: Encoder,
    at: usize,
    patches: Vec<Patch>,
    labels: HashMap<Label, usize>,
    exits: Vec<i32>,
    constants: Vec<usize>,
    splats: HashMap<u32, usize>,
    kept: Vec<usize>,
    spills: Vec<Spill>,
    names: Vec<(usize, String)>,
}

type Result<T> = std::result::Result<T, EmitError>;

impl<'a> Emitter<'a> {
    fn new(program: &'a Program, flat: &'a Flat, output: &'a Output) -> Emitter<'a> {
        let edits = output.edits.iter().flat_map(|(_, Edit::Move { from, to })| [*from, *to]);
        let used = |n: &usize| {
            let register = Allocation::reg(PReg::new(*n, RegClass::Int));
            output.allocs.contains(&register) || edits.clone().any(|a| a == register)
        };
        let kept = KEPT.into_iter().filter(used).collect();
        Emitter {
            program,
            flat,
            output,
            encoder: Encoder::new(64),
            at: 0,
            patches: Vec::new(),
            labels: HashMap::new(),
            exits: Vec::new(),
            constants: Vec::new(),
            splats: HashMap::new(),
            kept,
            spills: Vec::new(),
            names: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Emitted> {
        self.pool();
        let entry = self.at;
        self.prologue()?;
        let shown = self.shown();
        for (i, &block) in shown.iter().enumerate() {
            self.block(block, shown.get(i + 1).copied())?;
        }
        self.labels.insert(Label::Epilogue, self.at);
        self.names.push((self.at, "epilogue".to_owned()));
        self.epilogue()?;
        for n in 0..self.exits.len() {
            self.labels.insert(Label::Exit(n), self.at);
            let mut inst = self.register_inst(Code::Mov_rm64_imm32, &[Register::RAX]);
            inst.set_op_kind(1, OpKind::Immediate32to64);
            inst.set_immediate32to64(self.exits[n].into());
            self.put("exit", &inst)?;
            self.jump(Label::Epilogue);
        }
        let mut bytes = self.encoder.take_buffer();
        for patch in &self.patches {
            let distance = self.labels[&patch.to] as i64 - (patch.at as i64 + 4);
            bytes[patch.at..patch.at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        Ok(Emitted {
            name: self.program.name.clone(),
            end: bytes.len(),
            bytes,
            entry,
            spills: self.spills,
            frame: self.output.num_spillslots * 8,
            labels: self.names,
        })
    }

    /// Writes the constants: those of the program, then lanes. One lane is enough where instructions repeat it.
    fn pool(&mut self) {
        let program = self.program;
        for constant in &program.constants {
            self.constants.push(self.at);
            self.raw(constant);
            self.align(64, 0);
        }
        let copies = if program.level == Level::Avx2 { 8 } else { 1 };
        for inst in program.blocks.iter().flat_map(|block| &block.insts) {
            for arg in &inst.args {
                let Arg::Splat(bits) = arg else { continue };
                if !self.splats.contains_key(bits) {
                    self.splats.insert(*bits, self.at);
                    for _ in 0..copies {
                        self.raw(&bits.to_le_bytes());
                    }
                }
            }
        }
        self.align(64, 0);
    }

    fn raw(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.encoder.write_u8(*byte));
        self.at += bytes.len();
    }

    fn align(&mut self, to: usize, fill: u8) {
        while !self.at.is_multiple_of(to) {
            self.raw(&[fill]);
        }
    }

    /// The blocks that are encoded: all but edges where nothing happens.
    fn shown(&self) -> Vec<usize> {
        (0..self.flat.blocks.len()).filter(|n| self.through(*n) == *n).collect()
    }

    /// Where a jump to a block ends up.
    fn through(&self, n: usize) -> usize {
        let block = &self.flat.blocks[n];
        let mut steps = self.output.block_insts_and_edits(self.flat, AllocBlock::new(n));
        let quiet = steps.all(|step| matches!(step, InstOrEdit::Inst(_)));
        if block.block.is_none() && quiet { block.succs[0].index() } else { n }
    }

    fn block(&mut self, n: usize, next: Option<usize>) -> Result<()> {
        let block = &self.flat.blocks[n];
        if block.block.is_some() && block.preds.iter().any(|pred| pred.index() >= n) {
            self.pad(32);
        }
        self.labels.insert(Label::Block(n), self.at);
        if let Some(number) = block.block {
            self.names.push((self.at, self.program.blocks[number].name.clone()));
        }
        let (mut stores, mut loads) = (0, 0);
        for step in self.output.block_insts_and_edits(self.flat, AllocBlock::new(n)) {
            match step {
                InstOrEdit::Edit(Edit::Move { from, to }) => {
                    stores += usize::from(to.is_stack());
                    loads += usize::from(from.is_stack());
                    self.move_register(*from, *to)?;
                }
                InstOrEdit::Inst(inst) => self.flat_inst(n, inst, next)?,
            }
        }
        if stores + loads > 0 {
            let number = block.block.or_else(|| self.flat.blocks[block.preds[0].index()].block).unwrap_or(0);
            self.spills.push(Spill { block: self.program.blocks[number].name.clone(), stores, loads });
        }
        Ok(())
    }

    fn flat_inst(&mut self, n: usize, inst: AllocInst, next: Option<usize>) -> Result<()> {
        let allocs = self.output.inst_allocs(inst);
        match self.flat.insts[inst.index()] {
            FlatInst::Entry => Ok(()),
            FlatInst::Op(block, i) => self.inst(&self.program.blocks[block].insts[i], allocs),
            FlatInst::Edge => {
                self.go(n, 0, next);
                Ok(())
            }
            FlatInst::End(block) => match &self.program.blocks[block].end {
                Terminator::Jump(_) => {
                    self.go(n, 0, next);
                    Ok(())
                }
                Terminator::Return(_) => {
                    if next.is_some() {
                        self.jump(Label::Epilogue);
                    }
                    Ok(())
                }
                Terminator::Branch { cond, right, .. } => {
                    let left = general(allocs[0], 8);
                    let compare = match right {
                        Right::Value(_) => {
                            self.register_inst(Code::Cmp_r64_rm64, &[left, general(allocs[1], 8)])
                        }
                        Right::Imm(0) if matches!(cond, Cond::Equal | Cond::NotEqual) => {
                            self.register_inst(Code::Test_rm64_r64, &[left, left])
                        }
                        Right::Imm(value) => {
                            let short = i8::try_from(*value).is_ok();
                            let code = if short { Code::Cmp_rm64_imm8 } else { Code::Cmp_rm64_imm32 };
                            let mut compare = self.register_inst(code, &[left]);
                            compare.set_op_kind(
                                1,
                                if short { OpKind::Immediate8to64 } else { OpKind::Immediate32to64 },
                            );
                            if short {
                                compare.set_immediate8to64((*value).into());
                            } else {
                                compare.set_immediate32to64((*value).into());
                            }
                            compare
                        }
                    };
                    self.put("cmp", &compare)?;
                    let then = self.through(self.flat.blocks[n].succs[0].index());
                    let inverse = cond.inverse();
                    match inverse {
                        Some(inverse) if Some(then) == next => {
                            let otherwise = self.through(self.flat.blocks[n].succs[1].index());
                            self.jump_if(inverse, Label::Block(otherwise));
                        }
                        _ => {
                            self.jump_if(*cond, Label::Block(then));
                            self.go(n, 1, next);
                        }
                    }
                    Ok(())
                }
            },
        }
    }

    /// Goes on at a successor, which may be what follows anyway.
    fn go(&mut self, n: usize, succ: usize, next: Option<usize>) {
        let to = self.through(self.flat.blocks[n].succs[succ].index());
        if Some(to) != next {
            self.jump(Label::Block(to));
        }
    }

    fn jump(&mut self, to: Label) {
        self.raw(&[0xe9]);
        self.patch(to);
    }

    fn jump_if(&mut self, cond: Cond, to: Label) {
        let number = match cond {
            Cond::Overflow => 0x0,
            Cond::Below => 0x2,
            Cond::AboveEqual => 0x3,
            Cond::Equal => 0x4,
            Cond::NotEqual => 0x5,
            Cond::Less => 0xc,
            Cond::GreaterEqual => 0xd,
            Cond::LessEqual => 0xe,
            Cond::Greater => 0xf,
        };
        self.raw(&[0x0f, 0x80 | number]);
        self.patch(to);
    }

    fn patch(&mut self, to: Label) {
        self.patches.push(Patch { at: self.at, to });
        self.raw(&[0; 4]);
    }

    /// Fills up with long forms of `nop`.
    fn pad(&mut self, to: usize) {
        const NOPS: [&[u8]; 9] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        let mut left = self.at.next_multiple_of(to) - self.at;
        while left > 0 {
            let size = left.min(9);
            self.raw(NOPS[size - 1]);
            left -= size;
        }
    }

    fn put(&mut self, row: &'static str, inst: &Instruction) -> Result<()> {
        let size = self.encoder.encode(inst, self.at as u64).map_err(|error| EmitError::Encoding {
            program: self.program.name.clone(),
            row,
            error: error.to_string(),
        })?;
        self.at += size;
        Ok(())
    }

    fn register_inst(&self, code: Code, registers: &[Register]) -> Instruction {
        let mut inst = Instruction::default();
        inst.set_code(code);
        for (i, register) in registers.iter().enumerate() {
            inst.set_op_kind(i as u32, OpKind::Register);
            inst.set_op_register(i as u32, *register);
        }
        inst
    }

    fn prologue(&mut self) -> Result<()> {
        let frame = self.output.num_spillslots * 8;
        if frame > 0 {
            self.put("push", &self.register_inst(Code::Push_r64, &[Register::RBP]))?;
            self.put("mov", &self.register_inst(Code::Mov_r64_rm64, &[Register::RBP, Register::RSP]))?;
        }
        for register in self.kept.clone() {
            self.put("push", &self.register_inst(Code::Push_r64, &[Register::RAX + register as u32]))?;
        }
        if frame > 0 {
            for (code, value) in [(Code::Sub_rm64_imm32, frame as i64), (Code::And_rm64_imm32, -64)] {
                let mut inst = self.register_inst(code, &[Register::RSP]);
                inst.set_op_kind(1, OpKind::Immediate32to64);
                inst.set_immediate32to64(value);
                self.put("frame", &inst)?;
            }
        }
        Ok(())
    }

    fn epilogue(&mut self) -> Result<()> {
        let frame = self.output.num_spillslots > 0;
        if frame {
            let mut inst = self.register_inst(Code::Lea_r64_m, &[Register::RSP]);
            self.frame_operand(&mut inst, 1, Register::RBP, -8 * self.kept.len() as i64);
            self.put("lea", &inst)?;
        }
        for register in self.kept.clone().into_iter().rev() {
            self.put("pop", &self.register_inst(Code::Pop_r64, &[Register::RAX + register as u32]))?;
        }
        if frame {
            self.put("pop", &self.register_inst(Code::Pop_r64, &[Register::RBP]))?;
        }
        if self.program.values.contains(&Class::Vector) {
            self.put("vzeroupper", &self.register_inst(Code::VEX_Vzeroupper, &[]))?;
        }
        self.put("ret", &self.register_inst(Code::Retnq, &[]))
    }

    fn frame_operand(&self, inst: &mut Instruction, operand: u32, base: Register, offset: i64) {
        inst.set_op_kind(operand, OpKind::Memory);
        inst.set_memory_base(base);
        inst.set_memory_displ_size(1);
        inst.set_memory_displacement64(offset as u64);
    }

    fn move_register(&mut self, from: Allocation, to: Allocation) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let register = from.as_reg().or(to.as_reg());
        let class = register.map_or(RegClass::Int, PReg::class);
        let wide = self.program.level != Level::Avx2;
        let name = |allocation: Allocation| match class {
            RegClass::Int => general(allocation, 8),
            RegClass::Float => vector(allocation, if wide { 64 } else { 32 }),
            RegClass::Vector => mask(allocation),
        };
        let (load, store) = match (class, wide) {
            (RegClass::Int, _) => (Code::Mov_r64_rm64, Code::Mov_rm64_r64),
            (RegClass::Float, true) => {
                (Code::EVEX_Vmovaps_zmm_k1z_zmmm512, Code::EVEX_Vmovaps_zmmm512_k1z_zmm)
            }
            (RegClass::Float, false) => (Code::VEX_Vmovaps_ymm_ymmm256, Code::VEX_Vmovaps_ymmm256_ymm),
            (RegClass::Vector, _) => (Code::VEX_Kmovq_kr_km64, Code::VEX_Kmovq_m64_kr),
        };
        let slot = |allocation: Allocation| allocation.as_stack().map(|slot| slot.index() as i64 * 8);
        let inst = match (slot(from), slot(to)) {
            (Some(offset), _) => {
                let mut inst = self.register_inst(load, &[name(to)]);
                self.frame_operand(&mut inst, 1, Register::RSP, offset);
                inst
            }
            (None, Some(offset)) => {
                let mut inst = self.register_inst(store, &[Register::RAX, name(from)]);
                self.frame_operand(&mut inst, 0, Register::RSP, offset);
                inst
            }
            (None, None) => self.register_inst(load, &[name(to), name(from)]),
        };
        self.put("move", &inst)
    }

    fn inst(&mut self, inst: &Inst, allocs: &[Allocation]) -> Result<()> {
        let row = inst.row;
        let missing = || EmitError::Encoding {
            program: self.program.name.clone(),
            row: row.name,
            error: format!("none at {} and {:?}", self.program.level, inst.width),
        };
        let code = row.code(self.program.level, inst.width).ok_or_else(missing)?;
        let mut count = 0;
        reads(inst, |_, _| count += 1);
        let (uses, defs) = allocs.split_at(count);
        let (mut uses, mut defs) = (uses.iter().copied(), defs.iter().copied());
        let mut take = || uses.next().unwrap_or(Allocation::none());
        let mut out = Instruction::default();
        out.set_code(code);
        let mut args = inst.args.iter();
        let mut operand = 0;
        for slot in row.slots {
            let arg = if slot.takes() { args.next() } else { None };
            let result = if slot.gives().is_some() { defs.next() } else { None };
            let register = match (arg, result, slot) {
                (Some(Arg::Value(_)), _, Slot::Consumed) => {
                    out.set_op_mask(mask(take()));
                    None
                }
                (Some(Arg::Value(_)), result, slot) => {
                    let read = take();
                    Some(named(result.unwrap_or(read), *slot, inst.width))
                }
                (Some(Arg::Mem(mem) | Arg::Broadcast(mem)), ..) => {
                    out.set_op_kind(operand, OpKind::Memory);
                    out.set_is_broadcast(matches!(arg, Some(Arg::Broadcast(_))));
                    self.memory(&mut out, mem, *slot, inst.width, &mut take);
                    None
                }
                (Some(Arg::Splat(bits)), ..) => {
                    out.set_op_kind(operand, OpKind::Memory);
                    out.set_is_broadcast(self.program.level != Level::Avx2);
                    out.set_memory_base(Register::RIP);
                    out.set_memory_displ_size(8);
                    out.set_memory_displacement64(self.splats[bits] as u64);
                    None
                }
                (Some(Arg::Imm(value)), _, Slot::Imm(size)) => {
                    let kind = match size {
                        1 => OpKind::Immediate8,
                        4 => OpKind::Immediate32to64,
                        _ => OpKind::Immediate64,
                    };
                    out.set_op_kind(operand, kind);
                    match size {
                        1 => out.set_immediate8(*value as u8),
                        4 => out.set_immediate32to64(*value),
                        _ => out.set_immediate64(*value as u64),
                    }
                    None
                }
                (Some(Arg::Tile(n)), ..) => Some(Register::TMM0 + u32::from(*n)),
                (None, Some(result), slot) => Some(named(result, *slot, inst.width)),
                _ => None,
            };
            if !slot.encoded() {
                continue;
            }
            if let Some(register) = register {
                out.set_op_kind(operand, OpKind::Register);
                out.set_op_register(operand, register);
            }
            operand += 1;
        }
        if let Some(masking) = inst.masking {
            out.set_op_mask(mask(take()));
            let ties =
                row.slots.iter().any(|slot| matches!(slot, Slot::Tied(..) | Slot::Def(Class::Mask, _)));
            out.set_zeroing_masking(masking.merge.is_none() && !ties && !row.stores());
        }
        self.put(row.name, &out)?;
        if let Some((cond, status)) = inst.exit {
            let number = self.exits.iter().position(|exit| *exit == status).unwrap_or_else(|| {
                self.exits.push(status);
                self.exits.len() - 1
            });
            self.jump_if(cond, Label::Exit(number));
        }
        Ok(())
    }

    fn memory(
        &self,
        out: &mut Instruction,
        mem: &Mem,
        slot: Slot,
        width: Width,
        take: &mut impl FnMut() -> Allocation,
    ) {
        match mem.base {
            Base::Value(_) => {
                out.set_memory_base(general(take(), 8));
                out.set_memory_displ_size(u32::from(mem.offset != 0));
                out.set_memory_displacement64(i64::from(mem.offset) as u64);
            }
            Base::Constant(id) => {
                out.set_memory_base(Register::RIP);
                out.set_memory_displ_size(8);
                let at = self.constants[id.0 as usize] as i64 + i64::from(mem.offset);
                out.set_memory_displacement64(at as u64);
            }
        }
        if let Some((_, scale)) = mem.index {
            let index = take();
            out.set_memory_index(match slot {
                Slot::Lanes(span) => vector(index, span.bytes(width)),
                _ => general(index, 8),
            });
            out.set_memory_index_scale(scale.into());
        }
    }
}

fn number(allocation: Allocation) -> u32 {
    allocation.as_reg().map_or(0, PReg::hw_enc) as u32
}

fn general(allocation: Allocation, bytes: usize) -> Register {
    const BYTES: [Register; 8] = [
        Register::AL,
        Register::CL,
        Register::DL,
        Register::BL,
        Register::SPL,
        Register::BPL,
        Register::SIL,
        Register::DIL,
    ];
    let n = number(allocation);
    match bytes {
        1 if n < 8 => BYTES[n as usize],
        1 => Register::R8L + (n - 8),
        2 => Register::AX + n,
        4 => Register::EAX + n,
        _ => Register::RAX + n,
    }
}

fn vector(allocation: Allocation, bytes: usize) -> Register {
    let first = match bytes {
        0..=16 => Register::XMM0,
        32 => Register::YMM0,
        _ => Register::ZMM0,
    };
    first + number(allocation)
}

fn mask(allocation: Allocation) -> Register {
    Register::K0 + number(allocation)
}

/// The name of the register that a slot wants.
fn named(allocation: Allocation, slot: Slot, width: Width) -> Register {
    let (class, span) = match slot {
        Slot::Def(class, span) | Slot::Use(class, span) | Slot::Late(class, span) => (class, span),
        Slot::Tied(class, span) | Slot::Either(class, span) => (class, span),
        Slot::Lost => (Class::Vector, Span::Full),
        _ => (Class::General, Span::Bytes(8)),
    };
    match class {
        Class::General => general(allocation, span.bytes(width)),
        Class::Vector => vector(allocation, span.bytes(width)),
        Class::Mask => mask(allocation),
    }
}
