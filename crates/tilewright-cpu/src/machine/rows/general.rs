//! General registers.

use crate::machine::eval::{Datum, Fault, Flags, Step};
use crate::machine::ir::Class::General;
use crate::machine::ir::Cond;
use crate::machine::row::FlagUse::{Keeps, Reads, Sets, Spoils};
use crate::machine::row::Meaning::{Compare, General1, General2, Whole};
use crate::machine::row::Row;
use crate::machine::row::Slot::{
    self, Address, Def, Either, FixedDef, FixedUse, Imm, Late, Load, Store, Tied, Use,
};
use crate::machine::row::Span::Bytes;
use iced_x86::Code::*;

/// The numbers of `rax` and `rdx`.
const RAX: u8 = 0;
const RDX: u8 = 2;

const DEF: Slot = Def(General, Bytes(8));
const USE: Slot = Use(General, Bytes(8));
const TIED: Slot = Tied(General, Bytes(8));
const EITHER: Slot = Either(General, Bytes(8));

fn flags(value: i64, carry: bool, overflow: bool) -> Flags {
    Flags { zero: value == 0, sign: value < 0, carry, overflow }
}

fn add(a: u64, b: u64) -> (u64, Flags) {
    let (value, overflow) = (a as i64).overflowing_add(b as i64);
    (value as u64, flags(value, a.overflowing_add(b).1, overflow))
}

fn subtract(a: u64, b: u64) -> (u64, Flags) {
    (a.wrapping_sub(b), Flags::difference(a, b))
}

/// Of the flags, only overflow is defined; the others are what an overflow makes of carry, and false.
fn multiply(a: u64, b: u64) -> (u64, Flags) {
    let (value, overflow) = (a as i64).overflowing_mul(b as i64);
    (value as u64, Flags { carry: overflow, overflow, ..Flags::default() })
}

fn logic(value: u64) -> (u64, Flags) {
    (value, flags(value as i64, false, false))
}

fn shift(step: &mut Step<'_>, f: fn(u64, u32) -> u64) -> Result<(), Fault> {
    let count = step.imm(1).or_else(|_| step.bits(1).map(|bits| bits as i64))? as u32 & 63;
    let value = f(step.bits(0)?, count);
    step.out.push(Datum::General(value));
    Ok(())
}

fn give(step: &mut Step<'_>, value: u64) -> Result<(), Fault> {
    step.out.push(Datum::General(value));
    Ok(())
}

fn pick(step: &mut Step<'_>, cond: Cond) -> Result<(), Fault> {
    let value = if step.flags.holds(cond) { step.bits(1)? } else { step.bits(0)? };
    give(step, value)
}

fn divide(step: &mut Step<'_>) -> Result<(), Fault> {
    let (divisor, low, high) = (step.bits(0)? as i64, step.bits(1)?, step.bits(2)?);
    let dividend = (i128::from(high as i64) << 64) | i128::from(low);
    let (quotient, rest) = match divisor {
        0 => return Err(Fault::Division),
        divisor => (dividend / i128::from(divisor), dividend % i128::from(divisor)),
    };
    step.out.push(Datum::General(i64::try_from(quotient).map_err(|_| Fault::Division)? as u64));
    step.out.push(Datum::General(rest as u64));
    Ok(())
}

rows! {
    MOV_IMM = Row::plain("mov.imm", &[DEF, Imm(8)], Mov_r64_imm64, Keeps, Whole(|s| { let v = s.imm(0)? as u64; give(s, v) }));
    MOV_IMM32 = Row::plain("mov.imm32", &[DEF, Imm(4)], Mov_rm64_imm32, Keeps, Whole(|s| { let v = s.imm(0)? as u64; give(s, v) }));
    MOV = Row::plain("mov", &[DEF, USE], Mov_r64_rm64, Keeps, General1(|a| a));
    LEA = Row::plain("lea", &[DEF, Address], Lea_r64_m, Keeps, Whole(|s| { let v = s.address(0)?.0; give(s, v) }));
    ADD = Row::plain("add", &[TIED, EITHER], Add_r64_rm64, Sets, General2(add));
    ADD_IMM = Row::plain("add.imm", &[TIED, Imm(4)], Add_rm64_imm32, Sets, General2(add));
    SUB = Row::plain("sub", &[TIED, EITHER], Sub_r64_rm64, Sets, General2(subtract));
    IMUL = Row::plain("imul", &[TIED, EITHER], Imul_r64_rm64, Sets, General2(multiply));
    IMUL_IMM = Row::plain("imul.imm", &[DEF, USE, Imm(4)], Imul_r64_rm64_imm32, Sets, General2(multiply));
    AND = Row::plain("and", &[TIED, EITHER], And_r64_rm64, Sets, General2(|a, b| logic(a & b)));
    AND_IMM = Row::plain("and.imm", &[TIED, Imm(4)], And_rm64_imm32, Sets, General2(|a, b| logic(a & b)));
    OR = Row::plain("or", &[TIED, EITHER], Or_r64_rm64, Sets, General2(|a, b| logic(a | b)));
    XOR = Row::plain("xor", &[TIED, EITHER], Xor_r64_rm64, Sets, General2(|a, b| logic(a ^ b)));
    SHL_IMM = Row::plain("shl.imm", &[TIED, Imm(1)], Shl_rm64_imm8, Spoils, Whole(|s| shift(s, |a, n| a << n)));
    SHR_IMM = Row::plain("shr.imm", &[TIED, Imm(1)], Shr_rm64_imm8, Spoils, Whole(|s| shift(s, |a, n| a >> n)));
    SAR_IMM = Row::plain("sar.imm", &[TIED, Imm(1)], Sar_rm64_imm8, Spoils, Whole(|s| shift(s, |a, n| ((a as i64) >> n) as u64)));
    SHLX = Row::plain("shlx", &[DEF, USE, USE], VEX_Shlx_r64_rm64_r64, Keeps, Whole(|s| shift(s, |a, n| a << n)));
    SHRX = Row::plain("shrx", &[DEF, USE, USE], VEX_Shrx_r64_rm64_r64, Keeps, Whole(|s| shift(s, |a, n| a >> n)));
    SARX = Row::plain("sarx", &[DEF, USE, USE], VEX_Sarx_r64_rm64_r64, Keeps, Whole(|s| shift(s, |a, n| ((a as i64) >> n) as u64)));
    BZHI = Row::plain("bzhi", &[DEF, USE, USE], VEX_Bzhi_r64_rm64_r64, Spoils, Whole(|s| {
        let (value, count) = (s.bits(0)?, s.bits(1)? as u8);
        give(s, if count < 64 { value & ((1 << count) - 1) } else { value })
    }));
    CMP = Row::plain("cmp", &[USE, EITHER], Cmp_r64_rm64, Sets, Compare(Flags::difference));
    CMP_IMM = Row::plain("cmp.imm", &[USE, Imm(4)], Cmp_rm64_imm32, Sets, Compare(Flags::difference));
    CMOVE = Row::plain("cmove", &[TIED, EITHER], Cmove_r64_rm64, Reads, Whole(|s| pick(s, Cond::Equal)));
    CMOVNE = Row::plain("cmovne", &[TIED, EITHER], Cmovne_r64_rm64, Reads, Whole(|s| pick(s, Cond::NotEqual)));
    CMOVL = Row::plain("cmovl", &[TIED, EITHER], Cmovl_r64_rm64, Reads, Whole(|s| pick(s, Cond::Less)));
    CMOVLE = Row::plain("cmovle", &[TIED, EITHER], Cmovle_r64_rm64, Reads, Whole(|s| pick(s, Cond::LessEqual)));
    CMOVG = Row::plain("cmovg", &[TIED, EITHER], Cmovg_r64_rm64, Reads, Whole(|s| pick(s, Cond::Greater)));
    CMOVGE = Row::plain("cmovge", &[TIED, EITHER], Cmovge_r64_rm64, Reads, Whole(|s| pick(s, Cond::GreaterEqual)));
    CMOVB = Row::plain("cmovb", &[TIED, EITHER], Cmovb_r64_rm64, Reads, Whole(|s| pick(s, Cond::Below)));
    CMOVAE = Row::plain("cmovae", &[TIED, EITHER], Cmovae_r64_rm64, Reads, Whole(|s| pick(s, Cond::AboveEqual)));
    CMOVO = Row::plain("cmovo", &[TIED, EITHER], Cmovo_r64_rm64, Reads, Whole(|s| pick(s, Cond::Overflow)));
    CQO = Row::plain("cqo", &[FixedUse(RAX), FixedDef(RDX)], Cqo, Keeps, Whole(|s| {
        let v = ((s.bits(0)? as i64) >> 63) as u64;
        give(s, v)
    }));
    IDIV = Row::plain("idiv", &[Late(General, Bytes(8)), FixedUse(RAX), FixedUse(RDX), FixedDef(RAX), FixedDef(RDX)], Idiv_rm64, Spoils, Whole(divide)).effect();
    LOAD64 = Row::plain("mov.load", &[DEF, Load(Bytes(8))], Mov_r64_rm64, Keeps, General1(|a| a));
    LOAD32 = Row::plain("mov.load32", &[Def(General, Bytes(4)), Load(Bytes(4))], Mov_r32_rm32, Keeps, General1(|a| a));
    LOAD32S = Row::plain("movsxd", &[DEF, Load(Bytes(4))], Movsxd_r64_rm32, Keeps, General1(|a| i64::from(a as i32) as u64));
    LOAD16 = Row::plain("movzx.w", &[Def(General, Bytes(4)), Load(Bytes(2))], Movzx_r32_rm16, Keeps, General1(|a| a));
    LOAD8 = Row::plain("movzx.b", &[Def(General, Bytes(4)), Load(Bytes(1))], Movzx_r32_rm8, Keeps, General1(|a| a));
    LOAD8S = Row::plain("movsx.b", &[DEF, Load(Bytes(1))], Movsx_r64_rm8, Keeps, General1(|a| i64::from(a as i8) as u64));
    STORE64 = Row::plain("mov.store", &[Store(Bytes(8)), USE], Mov_rm64_r64, Keeps, Whole(|s| { let v = s.bits(1)?; give(s, v) })).effect();
    STORE32 = Row::plain("mov.store32", &[Store(Bytes(4)), Use(General, Bytes(4))], Mov_rm32_r32, Keeps, Whole(|s| { let v = s.bits(1)?; give(s, v) })).effect();
    STORE16 = Row::plain("mov.store16", &[Store(Bytes(2)), Use(General, Bytes(2))], Mov_rm16_r16, Keeps, Whole(|s| { let v = s.bits(1)?; give(s, v) })).effect();
    STORE8 = Row::plain("mov.store8", &[Store(Bytes(1)), Use(General, Bytes(1))], Mov_rm8_r8, Keeps, Whole(|s| { let v = s.bits(1)?; give(s, v) })).effect();
    PREFETCH0 = Row::plain("prefetcht0", &[Address], Prefetcht0_m8, Keeps, Whole(|_| Ok(()))).effect();
    PREFETCH1 = Row::plain("prefetcht1", &[Address], Prefetcht1_m8, Keeps, Whole(|_| Ok(()))).effect();
}
