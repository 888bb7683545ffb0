//! Building machine programs: blocks, and instructions on general registers.

use super::ir::*;
use super::level::Level;
use super::row::{Row, Slot};
use super::rows::general::*;
use super::verify::{Illegal, verify};

/// Builds a program, one block after another. Instructions go to the current block, which starts as the entry.
#[derive(Debug)]
pub struct Builder {
    pub(super) program: Program,
    ends: Vec<Option<Terminator>>,
    current: BlockId,
}

impl Builder {
    /// A program with an empty entry.
    pub fn new(name: &str, level: Level) -> Builder {
        let program = Program {
            name: name.to_owned(),
            level,
            values: Vec::new(),
            names: Vec::new(),
            blocks: Vec::new(),
            constants: Vec::new(),
        };
        let mut builder = Builder { program, ends: Vec::new(), current: BlockId(0) };
        builder.block("entry", &[Class::General, Class::General]);
        builder
    }

    /// The two arguments: the context and the coordinates.
    pub fn entry(&self) -> [ValueId; 2] {
        [ValueId(0), ValueId(1)]
    }

    /// The level that is built for.
    pub fn level(&self) -> Level {
        self.program.level
    }

    /// The width of the level's vectors.
    pub fn width(&self) -> Width {
        self.program.level.width()
    }

    /// 32-bit lanes in a vector.
    pub fn lanes(&self) -> usize {
        self.width().lanes()
    }

    pub(super) fn value(&mut self, class: Class) -> ValueId {
        self.program.values.push(class);
        ValueId(self.program.values.len() as u32 - 1)
    }

    /// The class of a value.
    pub fn class(&self, value: ValueId) -> Class {
        self.program.class(value)
    }

    /// Names a value in texts.
    pub fn name(&mut self, value: ValueId, name: &str) {
        self.program.names.push((value, name.to_owned()));
    }

    /// Keeps bytes beside the code.
    pub fn constant(&mut self, bytes: Vec<u8>) -> ConstantId {
        let found = self.program.constants.iter().position(|old| *old == bytes);
        let at = found.unwrap_or_else(|| {
            self.program.constants.push(bytes);
            self.program.constants.len() - 1
        });
        ConstantId(at as u32)
    }

    /// Adds a block with parameters of these classes; the current block stays.
    pub fn block(&mut self, name: &str, params: &[Class]) -> BlockId {
        let params = params.iter().map(|class| self.value(*class)).collect();
        let id = BlockId(self.program.blocks.len() as u32);
        let name = if id.0 == 0 { name.to_owned() } else { format!("{name}{}", id.0) };
        self.program.blocks.push(Block {
            name,
            params,
            insts: Vec::new(),
            end: Terminator::Return(ValueId(0)),
        });
        self.ends.push(None);
        id
    }

    /// The parameters of a block.
    pub fn params(&self, block: BlockId) -> Vec<ValueId> {
        self.program.block(block).params.clone()
    }

    /// Makes a block the current one.
    pub fn switch_to(&mut self, block: BlockId) {
        self.current = block;
    }

    /// Adds an instruction of any row, at a width, and gives its results.
    pub fn inst(
        &mut self,
        row: &'static Row,
        width: Width,
        args: &[Arg],
        masking: Option<Masking>,
    ) -> Vec<ValueId> {
        let classes = row.slots.iter().filter_map(|slot| Slot::gives(*slot));
        let results: Vec<ValueId> = classes.map(|class| self.value(class)).collect();
        let inst = Inst { row, width, results: results.clone(), args: args.to_vec(), masking, exit: None };
        self.program.blocks[self.current.0 as usize].insts.push(inst);
        results
    }

    fn one(&mut self, row: &'static Row, args: &[Arg]) -> ValueId {
        self.inst(row, Width::V128, args, None)[0]
    }

    fn exit(&mut self, cond: Cond, status: i32) {
        if let Some(inst) = self.program.blocks[self.current.0 as usize].insts.last_mut() {
            inst.exit = Some((cond, status));
        }
    }

    /// Goes on at a block.
    pub fn jump(&mut self, block: BlockId, args: &[ValueId]) {
        self.ends[self.current.0 as usize] = Some(Terminator::Jump(Target { block, args: args.to_vec() }));
    }

    /// Goes on at one block where a comparison holds and at another where it does not.
    #[allow(clippy::too_many_arguments)]
    pub fn branch(
        &mut self,
        cond: Cond,
        left: ValueId,
        right: impl Into<Right>,
        then: BlockId,
        then_args: &[ValueId],
        otherwise: BlockId,
        otherwise_args: &[ValueId],
    ) {
        self.ends[self.current.0 as usize] = Some(Terminator::Branch {
            cond,
            left,
            right: right.into(),
            then: Target { block: then, args: then_args.to_vec() },
            otherwise: Target { block: otherwise, args: otherwise_args.to_vec() },
        });
    }

    /// Leaves the function with a status.
    pub fn ret(&mut self, status: ValueId) {
        self.ends[self.current.0 as usize] = Some(Terminator::Return(status));
    }

    /// A loop: `body(builder, i, carried)` for `i` from `start` on while `i < limit`, `step` further each time; gives
    /// what is carried after the last, or `init` if there is none.
    pub fn count(
        &mut self,
        start: ValueId,
        limit: ValueId,
        step: i32,
        init: &[ValueId],
        body: impl FnOnce(&mut Builder, ValueId, &[ValueId]) -> Vec<ValueId>,
    ) -> Vec<ValueId> {
        let carried: Vec<Class> = init.iter().map(|value| self.program.class(*value)).collect();
        let mut classes = vec![Class::General];
        classes.extend(&carried);
        let head = self.block("loop", &classes);
        let done = self.block("done", &carried);
        let mut first = vec![start];
        first.extend(init);
        self.branch(Cond::Less, start, limit, head, &first, done, init);
        self.switch_to(head);
        let params = self.params(head);
        let out = body(self, params[0], &params[1..]);
        let next = self.add_imm(params[0], step);
        let mut again = vec![next];
        again.extend(&out);
        self.branch(Cond::Less, next, limit, head, &again, done, &out);
        self.switch_to(done);
        self.params(done)
    }

    /// The program, if it is legal.
    ///
    /// # Errors
    /// What makes it illegal; a block without an end among it.
    pub fn finish(mut self) -> Result<Program, Illegal> {
        for (block, end) in self.program.blocks.iter_mut().zip(self.ends) {
            let Some(end) = end else {
                let (program, block) = (self.program.name.clone(), block.name.clone());
                return Err(Illegal { program, block, inst: None, what: "it has no end".to_owned() });
            };
            block.end = end;
        }
        verify(&self.program)?;
        Ok(self.program)
    }

    /// A constant.
    pub fn imm(&mut self, value: i64) -> ValueId {
        let row = if i32::try_from(value).is_ok() { &MOV_IMM32 } else { &MOV_IMM };
        self.one(row, &[Arg::Imm(value)])
    }

    /// `a + b`, modulo 2⁶⁴.
    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.one(&ADD, &[a.into(), b.into()])
    }

    /// `a + constant`, modulo 2⁶⁴.
    pub fn add_imm(&mut self, a: ValueId, value: i32) -> ValueId {
        self.one(&ADD_IMM, &[a.into(), Arg::Imm(value.into())])
    }

    /// `a − b`, modulo 2⁶⁴.
    pub fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.one(&SUB, &[a.into(), b.into()])
    }

    /// `a · b`, modulo 2⁶⁴.
    pub fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.one(&IMUL, &[a.into(), b.into()])
    }

    /// `a · constant`, modulo 2⁶⁴.
    pub fn mul_imm(&mut self, a: ValueId, value: i32) -> ValueId {
        self.one(&IMUL_IMM, &[a.into(), Arg::Imm(value.into())])
    }

    /// `a + b`; leaves with `status` where that is not a 64-bit integer.
    pub fn add_or(&mut self, a: ValueId, b: ValueId, status: i32) -> ValueId {
        let value = self.add(a, b);
        self.exit(Cond::Overflow, status);
        value
    }

    /// `a − b`; leaves with `status` where that is not a 64-bit integer.
    pub fn sub_or(&mut self, a: ValueId, b: ValueId, status: i32) -> ValueId {
        let value = self.sub(a, b);
        self.exit(Cond::Overflow, status);
        value
    }

    /// `a · b`; leaves with `status` where that is not a 64-bit integer.
    pub fn mul_or(&mut self, a: ValueId, b: ValueId, status: i32) -> ValueId {
        let value = self.mul(a, b);
        self.exit(Cond::Overflow, status);
        value
    }

    /// Leaves with `status` where `a cond b`.
    pub fn exit_if(&mut self, cond: Cond, a: ValueId, b: impl Into<Right>, status: i32) {
        self.compare(a, b);
        self.exit(cond, status);
    }

    fn compare(&mut self, a: ValueId, b: impl Into<Right>) {
        match b.into() {
            Right::Value(b) => self.inst(&CMP, Width::V128, &[a.into(), b.into()], None),
            Right::Imm(b) => self.inst(&CMP_IMM, Width::V128, &[a.into(), Arg::Imm(b.into())], None),
        };
    }

    /// `x` where `a cond b`, else `y`; for every condition but `Overflow`.
    pub fn select(&mut self, cond: Cond, a: ValueId, b: impl Into<Right>, x: ValueId, y: ValueId) -> ValueId {
        self.compare(a, b);
        let row = match cond {
            Cond::Equal => &CMOVE,
            Cond::NotEqual => &CMOVNE,
            Cond::Less => &CMOVL,
            Cond::LessEqual => &CMOVLE,
            Cond::Greater => &CMOVG,
            Cond::GreaterEqual => &CMOVGE,
            Cond::Below => &CMOVB,
            Cond::AboveEqual => &CMOVAE,
            Cond::Overflow => &CMOVO,
        };
        self.one(row, &[y.into(), x.into()])
    }

    /// The smaller, signed.
    pub fn min(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.select(Cond::Less, a, b, a, b)
    }

    /// The larger, signed.
    pub fn max(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.select(Cond::Greater, a, b, a, b)
    }

    /// Bits in both.
    pub fn and(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.one(&AND, &[a.into(), b.into()])
    }

    /// Bits in one or both.
    pub fn or(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.one(&OR, &[a.into(), b.into()])
    }

    /// Bits in one of both.
    pub fn xor(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.one(&XOR, &[a.into(), b.into()])
    }

    /// `a · 2^count`, modulo 2⁶⁴; `count` below 64.
    pub fn shl(&mut self, a: ValueId, count: u8) -> ValueId {
        self.one(&SHL_IMM, &[a.into(), Arg::Imm(count.into())])
    }

    /// `⌊a / 2^count⌋`, signed; `count` below 64.
    pub fn sar(&mut self, a: ValueId, count: u8) -> ValueId {
        self.one(&SAR_IMM, &[a.into(), Arg::Imm(count.into())])
    }

    /// `⌊a / 2^count⌋`, unsigned; `count` below 64.
    pub fn shr(&mut self, a: ValueId, count: u8) -> ValueId {
        self.one(&SHR_IMM, &[a.into(), Arg::Imm(count.into())])
    }

    /// Quotient and rest, the quotient rounded towards 0. The processor raises a fault where `b` is 0, or where `a` is
    /// −2⁶³ and `b` is −1: check before.
    pub fn divide(&mut self, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
        let high = self.one(&CQO, &[a.into()]);
        let out = self.inst(&IDIV, Width::V128, &[b.into(), a.into(), high.into()], None);
        (out[0], out[1])
    }

    /// `⌊a / b⌋` and `a − b ⌊a / b⌋`; the faults of `divide`.
    pub fn divide_floor(&mut self, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
        let (quotient, rest) = self.divide(a, b);
        let zero = self.imm(0);
        // The rest has the sign of `a`: where it is not 0 and differs from that of `b`, the quotient was rounded up.
        let signs = self.xor(rest, b);
        let differs = self.sar(signs, 63);
        let fix = self.select(Cond::NotEqual, rest, 0, differs, zero);
        let floor = self.add(quotient, fix);
        let back = self.and(fix, b);
        let rest = self.add(rest, back);
        (floor, rest)
    }

    /// The address itself.
    pub fn lea(&mut self, mem: Mem) -> ValueId {
        self.one(&LEA, &[mem.into()])
    }

    /// 8 bytes.
    pub fn load64(&mut self, mem: Mem) -> ValueId {
        self.one(&LOAD64, &[mem.into()])
    }

    /// 4 bytes, unsigned.
    pub fn load32(&mut self, mem: Mem) -> ValueId {
        self.one(&LOAD32, &[mem.into()])
    }

    /// 4 bytes, signed.
    pub fn load32s(&mut self, mem: Mem) -> ValueId {
        self.one(&LOAD32S, &[mem.into()])
    }

    /// 2 bytes, unsigned.
    pub fn load16(&mut self, mem: Mem) -> ValueId {
        self.one(&LOAD16, &[mem.into()])
    }

    /// 1 byte, unsigned.
    pub fn load8(&mut self, mem: Mem) -> ValueId {
        self.one(&LOAD8, &[mem.into()])
    }

    /// Stores all, or the low 4, 2 or 1 bytes.
    pub fn store_general(&mut self, bytes: u8, mem: Mem, value: ValueId) {
        let row = match bytes {
            1 => &STORE8,
            2 => &STORE16,
            4 => &STORE32,
            _ => &STORE64,
        };
        self.inst(row, Width::V128, &[mem.into(), value.into()], None);
    }

    /// Asks for the line of an address.
    pub fn prefetch(&mut self, mem: Mem) {
        self.inst(&PREFETCH0, Width::V128, &[mem.into()], None);
    }
}
