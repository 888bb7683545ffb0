//! Elements of 1 and 2 bytes: repeated, looked up, interleaved, narrowed into memory; and tables of lanes.

use super::convert::{f32_to_f16, narrow};
use crate::machine::eval::{Fault, Step, lane, set_lane};
use crate::machine::ir::Class::Vector;
use crate::machine::row::Meaning::{Lanes1, Lanes2, Whole};
use crate::machine::row::Row;
use crate::machine::row::Slot::{Def, Either, Imm, Load, Store, Tied, Use};
use crate::machine::row::Span::{Bytes, Full, Half, Quarter};
use iced_x86::Code::*;

fn repeat(step: &mut Step<'_>, bytes: usize) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let mut out = [0; 64];
    (0..step.width.bytes()).for_each(|i| out[i] = a[i % bytes]);
    step.give(out);
    Ok(())
}

/// Bytes of the first operand, chosen by the low four bits of the second within each 16; 0 where its highest bit is 1.
fn look_up_bytes(step: &mut Step<'_>) -> Result<(), Fault> {
    let (table, index) = (step.vector(0)?, step.vector(1)?);
    let mut out = [0; 64];
    for i in 0..step.width.bytes() {
        out[i] = if index[i] < 128 { table[i / 16 * 16 + usize::from(index[i] & 15)] } else { 0 };
    }
    step.give(out);
    Ok(())
}

/// Lanes of the first (tied) and third operands, one table, chosen by those of the second.
fn look_up_lanes(step: &mut Step<'_>) -> Result<(), Fault> {
    let (low, index, high, lanes) = (step.vector(0)?, step.vector(1)?, step.vector(2)?, step.width.lanes());
    let mut out = [0; 64];
    for i in 0..lanes {
        let from = lane(&index, i) as usize % (2 * lanes);
        set_lane(&mut out, i, if from < lanes { lane(&low, from) } else { lane(&high, from - lanes) });
    }
    step.give(out);
    Ok(())
}

/// In each 16 bytes, those of the lower (0) or upper (1) half of both operands in turn.
fn interleave(step: &mut Step<'_>, which: usize) -> Result<(), Fault> {
    let (a, b) = (step.vector(0)?, step.vector(1)?);
    let mut out = [0; 64];
    for i in 0..step.width.bytes() / 2 {
        let from = i / 8 * 16 + 8 * which + i % 8;
        (out[2 * i], out[2 * i + 1]) = (a[from], b[from]);
    }
    step.give(out);
    Ok(())
}

fn pass(step: &mut Step<'_>, n: usize) -> Result<(), Fault> {
    let vector = step.vector(n)?;
    step.give(vector);
    Ok(())
}

fn each_byte(a: u32, b: u32, f: fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|i| f(a[i], b[i])))
}

rows! {
    VPBROADCASTB = Row::lanes(
        "vpbroadcastb",
        &[Def(Vector, Full), Load(Bytes(1))],
        [VEX_Vpbroadcastb_xmm_xmmm8, VEX_Vpbroadcastb_ymm_xmmm8],
        [EVEX_Vpbroadcastb_xmm_k1z_xmmm8, EVEX_Vpbroadcastb_ymm_k1z_xmmm8, EVEX_Vpbroadcastb_zmm_k1z_xmmm8],
        Whole(|s| repeat(s, 1)),
    ).masks(0).whole();
    VPBROADCASTB_REG = Row::lanes(
        "vpbroadcastb.reg",
        &[Def(Vector, Full), Use(Vector, Bytes(16))],
        [VEX_Vpbroadcastb_xmm_xmmm8, VEX_Vpbroadcastb_ymm_xmmm8],
        [EVEX_Vpbroadcastb_xmm_k1z_xmmm8, EVEX_Vpbroadcastb_ymm_k1z_xmmm8, EVEX_Vpbroadcastb_zmm_k1z_xmmm8],
        Whole(|s| repeat(s, 1)),
    ).masks(0).whole();
    VPBROADCASTW = Row::lanes(
        "vpbroadcastw",
        &[Def(Vector, Full), Load(Bytes(2))],
        [VEX_Vpbroadcastw_xmm_xmmm16, VEX_Vpbroadcastw_ymm_xmmm16],
        [EVEX_Vpbroadcastw_xmm_k1z_xmmm16, EVEX_Vpbroadcastw_ymm_k1z_xmmm16, EVEX_Vpbroadcastw_zmm_k1z_xmmm16],
        Whole(|s| repeat(s, 2)),
    ).masks(0).whole();
    VPBROADCASTW_REG = Row::lanes(
        "vpbroadcastw.reg",
        &[Def(Vector, Full), Use(Vector, Bytes(16))],
        [VEX_Vpbroadcastw_xmm_xmmm16, VEX_Vpbroadcastw_ymm_xmmm16],
        [EVEX_Vpbroadcastw_xmm_k1z_xmmm16, EVEX_Vpbroadcastw_ymm_k1z_xmmm16, EVEX_Vpbroadcastw_zmm_k1z_xmmm16],
        Whole(|s| repeat(s, 2)),
    ).masks(0).whole();
    VPSHUFB = Row::lanes(
        "vpshufb",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpshufb_xmm_xmm_xmmm128, VEX_Vpshufb_ymm_ymm_ymmm256],
        [EVEX_Vpshufb_xmm_k1z_xmm_xmmm128, EVEX_Vpshufb_ymm_k1z_ymm_ymmm256, EVEX_Vpshufb_zmm_k1z_zmm_zmmm512],
        Whole(look_up_bytes),
    ).masks(0).whole();
    VPERMT2D = Row::lanes(
        "vpermt2d",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpermt2d_xmm_k1z_xmm_xmmm128b32, EVEX_Vpermt2d_ymm_k1z_ymm_ymmm256b32, EVEX_Vpermt2d_zmm_k1z_zmm_zmmm512b32],
        Whole(look_up_lanes),
    ).masks(0).whole();
    VPUNPCKLBW = Row::lanes(
        "vpunpcklbw",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpunpcklbw_xmm_xmm_xmmm128, VEX_Vpunpcklbw_ymm_ymm_ymmm256],
        [EVEX_Vpunpcklbw_xmm_k1z_xmm_xmmm128, EVEX_Vpunpcklbw_ymm_k1z_ymm_ymmm256, EVEX_Vpunpcklbw_zmm_k1z_zmm_zmmm512],
        Whole(|s| interleave(s, 0)),
    ).masks(0).whole();
    VPUNPCKHBW = Row::lanes(
        "vpunpckhbw",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpunpckhbw_xmm_xmm_xmmm128, VEX_Vpunpckhbw_ymm_ymm_ymmm256],
        [EVEX_Vpunpckhbw_xmm_k1z_xmm_xmmm128, EVEX_Vpunpckhbw_ymm_k1z_ymm_ymmm256, EVEX_Vpunpckhbw_zmm_k1z_zmm_zmmm512],
        Whole(|s| interleave(s, 1)),
    ).masks(0).whole();
    VPADDB = Row::lanes(
        "vpaddb",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpaddb_xmm_xmm_xmmm128, VEX_Vpaddb_ymm_ymm_ymmm256],
        [EVEX_Vpaddb_xmm_k1z_xmm_xmmm128, EVEX_Vpaddb_ymm_k1z_ymm_ymmm256, EVEX_Vpaddb_zmm_k1z_zmm_zmmm512],
        Lanes2(|a, b| each_byte(a, b, u8::wrapping_add)),
    ).masks(0).whole();
    VPSUBB = Row::lanes(
        "vpsubb",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpsubb_xmm_xmm_xmmm128, VEX_Vpsubb_ymm_ymm_ymmm256],
        [EVEX_Vpsubb_xmm_k1z_xmm_xmmm128, EVEX_Vpsubb_ymm_k1z_ymm_ymmm256, EVEX_Vpsubb_zmm_k1z_zmm_zmmm512],
        Lanes2(|a, b| each_byte(a, b, u8::wrapping_sub)),
    ).masks(0).whole();
    VPABSD = Row::lanes(
        "vpabsd",
        &[Def(Vector, Full), Either(Vector, Full)],
        [VEX_Vpabsd_xmm_xmmm128, VEX_Vpabsd_ymm_ymmm256],
        [EVEX_Vpabsd_xmm_k1z_xmmm128b32, EVEX_Vpabsd_ymm_k1z_ymmm256b32, EVEX_Vpabsd_zmm_k1z_zmmm512b32],
        Lanes1(|a| (a as i32).unsigned_abs()),
    );
    VPMINUD = Row::lanes(
        "vpminud",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpminud_xmm_xmm_xmmm128, VEX_Vpminud_ymm_ymm_ymmm256],
        [EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32, EVEX_Vpminud_ymm_k1z_ymm_ymmm256b32, EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32],
        Lanes2(u32::min),
    );
    VPMAXUD = Row::lanes(
        "vpmaxud",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpmaxud_xmm_xmm_xmmm128, VEX_Vpmaxud_ymm_ymm_ymmm256],
        [EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32, EVEX_Vpmaxud_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32],
        Lanes2(u32::max),
    );
    VPMOVDB_STORE = Row::lanes(
        "vpmovdb.store",
        &[Store(Quarter), Use(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpmovdb_xmmm32_k1z_xmm, EVEX_Vpmovdb_xmmm64_k1z_ymm, EVEX_Vpmovdb_xmmm128_k1z_zmm],
        Whole(|s| narrow(s, 1, 1, |x| x)),
    ).whole().effect();
    VPMOVDW_STORE = Row::lanes(
        "vpmovdw.store",
        &[Store(Half), Use(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpmovdw_xmmm64_k1z_xmm, EVEX_Vpmovdw_xmmm128_k1z_ymm, EVEX_Vpmovdw_ymmm256_k1z_zmm],
        Whole(|s| narrow(s, 1, 2, |x| x)),
    ).whole().effect();
    VCVTPS2PH_STORE = Row::lanes(
        "vcvtps2ph.store",
        &[Store(Half), Use(Vector, Full), Imm(1)],
        [VEX_Vcvtps2ph_xmmm64_xmm_imm8, VEX_Vcvtps2ph_xmmm128_ymm_imm8],
        [EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8, EVEX_Vcvtps2ph_xmmm128_k1z_ymm_imm8, EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae],
        Whole(|s| f32_to_f16(s, 1)),
    ).whole().effect();
    VMOVLO_STORE = Row::lanes(
        "vmovlo.store",
        &[Store(Half), Use(Vector, Half)],
        [VEX_Vmovq_xmmm64_xmm, VEX_Vmovups_xmmm128_xmm],
        [EVEX_Vmovq_xmmm64_xmm, EVEX_Vmovups_xmmm128_k1z_xmm, EVEX_Vmovups_ymmm256_k1z_ymm],
        Whole(|s| pass(s, 1)),
    ).masks(0).whole().effect();
    VMOVQUARTER_STORE = Row::lanes(
        "vmovquarter.store",
        &[Store(Quarter), Use(Vector, Quarter)],
        [VEX_Vmovd_rm32_xmm, VEX_Vmovq_xmmm64_xmm],
        [EVEX_Vmovd_rm32_xmm, EVEX_Vmovq_xmmm64_xmm, EVEX_Vmovups_xmmm128_k1z_xmm],
        Whole(|s| pass(s, 1)),
    ).masks(0).whole().effect();
}
