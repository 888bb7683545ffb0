//! Conversions between element types.

use crate::machine::eval::{Fault, Step, lane, set_lane};
use crate::machine::ir::Class::Vector;
use crate::machine::row::Meaning::{Lanes1, Whole};
use crate::machine::row::Row;
use crate::machine::row::Slot::{Def, Either, Imm, Use};
use crate::machine::row::Span::{Full, Half, Quarter};
use half::f16;
use iced_x86::Code::*;

fn to_i32(x: f32) -> u32 {
    if (-2147483648.0..2147483648.0).contains(&x) { x as i32 as u32 } else { 0x8000_0000 }
}

/// To the nearest, ties to even; `0x80000000` where it does not fit.
fn round_to_i32(a: u32) -> u32 {
    to_i32(f32::from_bits(a).round_ties_even())
}

/// Towards 0; `0x80000000` where it does not fit.
fn truncate_to_i32(a: u32) -> u32 {
    to_i32(f32::from_bits(a))
}

fn f16_to_f32(step: &mut Step<'_>) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let mut out = [0; 64];
    for i in 0..step.width.lanes() {
        let value = f16::from_le_bytes([a[2 * i], a[2 * i + 1]]);
        let quiet = if value.is_nan() { 0x0040_0000 } else { 0 };
        set_lane(&mut out, i, value.to_f32().to_bits() | quiet);
    }
    step.give(out);
    Ok(())
}

/// To the nearest, ties to even: immediate 0 only, the argument after the vector, argument `n`.
pub(super) fn f32_to_f16(step: &mut Step<'_>, n: usize) -> Result<(), Fault> {
    let a = step.vector(n)?;
    if step.imm(n + 1)? != 0 {
        return Err(Fault::Malformed(step.name));
    }
    let mut out = [0; 64];
    for i in 0..step.width.lanes() {
        let bytes = f16::from_f32(f32::from_bits(lane(&a, i))).to_le_bytes();
        out[2 * i..2 * i + 2].copy_from_slice(&bytes);
    }
    step.give(out);
    Ok(())
}

fn widen(step: &mut Step<'_>, bytes: usize, signed: bool) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let mut out = [0; 64];
    for i in 0..step.width.lanes() {
        let value = match (bytes, signed) {
            (1, false) => a[i].into(),
            (1, true) => i32::from(a[i] as i8) as u32,
            (_, false) => u16::from_le_bytes([a[2 * i], a[2 * i + 1]]).into(),
            (_, true) => i32::from(i16::from_le_bytes([a[2 * i], a[2 * i + 1]])) as u32,
        };
        set_lane(&mut out, i, value);
    }
    step.give(out);
    Ok(())
}

/// The low `bytes` of what `f` makes of each lane of argument `n`.
pub(super) fn narrow(step: &mut Step<'_>, n: usize, bytes: usize, f: fn(u32) -> u32) -> Result<(), Fault> {
    let a = step.vector(n)?;
    let mut out = [0; 64];
    for i in 0..step.width.lanes() {
        out[bytes * i..bytes * (i + 1)].copy_from_slice(&f(lane(&a, i)).to_le_bytes()[..bytes]);
    }
    step.give(out);
    Ok(())
}

/// Elements of `bytes` to half of them: in each 16 bytes, first those of the first operand, then of the second.
fn pack(step: &mut Step<'_>, bytes: usize, f: fn(u32) -> u32) -> Result<(), Fault> {
    let sources = [step.vector(0)?, step.vector(1)?];
    let mut out = [0; 64];
    for part in (0..step.width.bytes()).step_by(16) {
        for (which, source) in sources.iter().enumerate() {
            for i in 0..16 / bytes {
                let mut word = [0; 4];
                word[..bytes].copy_from_slice(&source[part + i * bytes..part + (i + 1) * bytes]);
                let half = bytes / 2;
                let to = part + 8 * which + i * half;
                out[to..to + half].copy_from_slice(&f(u32::from_le_bytes(word)).to_le_bytes()[..half]);
            }
        }
    }
    step.give(out);
    Ok(())
}

rows! {
    VCVTDQ2PS = Row::lanes(
        "vcvtdq2ps",
        &[Def(Vector, Full), Either(Vector, Full)],
        [VEX_Vcvtdq2ps_xmm_xmmm128, VEX_Vcvtdq2ps_ymm_ymmm256],
        [EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32, EVEX_Vcvtdq2ps_ymm_k1z_ymmm256b32, EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er],
        Lanes1(|a| (a as i32 as f32).to_bits()),
    );
    VCVTPS2DQ = Row::lanes(
        "vcvtps2dq",
        &[Def(Vector, Full), Either(Vector, Full)],
        [VEX_Vcvtps2dq_xmm_xmmm128, VEX_Vcvtps2dq_ymm_ymmm256],
        [EVEX_Vcvtps2dq_xmm_k1z_xmmm128b32, EVEX_Vcvtps2dq_ymm_k1z_ymmm256b32, EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er],
        Lanes1(round_to_i32),
    );
    VCVTTPS2DQ = Row::lanes(
        "vcvttps2dq",
        &[Def(Vector, Full), Either(Vector, Full)],
        [VEX_Vcvttps2dq_xmm_xmmm128, VEX_Vcvttps2dq_ymm_ymmm256],
        [EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32, EVEX_Vcvttps2dq_ymm_k1z_ymmm256b32, EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae],
        Lanes1(truncate_to_i32),
    );
    VCVTPH2PS = Row::lanes(
        "vcvtph2ps",
        &[Def(Vector, Full), Either(Vector, Half)],
        [VEX_Vcvtph2ps_xmm_xmmm64, VEX_Vcvtph2ps_ymm_xmmm128],
        [EVEX_Vcvtph2ps_xmm_k1z_xmmm64, EVEX_Vcvtph2ps_ymm_k1z_xmmm128, EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae],
        Whole(f16_to_f32),
    ).whole();
    VCVTPS2PH = Row::lanes(
        "vcvtps2ph",
        &[Def(Vector, Half), Use(Vector, Full), Imm(1)],
        [VEX_Vcvtps2ph_xmmm64_xmm_imm8, VEX_Vcvtps2ph_xmmm128_ymm_imm8],
        [EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8, EVEX_Vcvtps2ph_xmmm128_k1z_ymm_imm8, EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae],
        Whole(|s| f32_to_f16(s, 0)),
    ).masks(0).whole();
    VPMOVZXWD = Row::lanes(
        "vpmovzxwd",
        &[Def(Vector, Full), Either(Vector, Half)],
        [VEX_Vpmovzxwd_xmm_xmmm64, VEX_Vpmovzxwd_ymm_xmmm128],
        [EVEX_Vpmovzxwd_xmm_k1z_xmmm64, EVEX_Vpmovzxwd_ymm_k1z_xmmm128, EVEX_Vpmovzxwd_zmm_k1z_ymmm256],
        Whole(|s| widen(s, 2, false)),
    ).whole();
    VPMOVSXWD = Row::lanes(
        "vpmovsxwd",
        &[Def(Vector, Full), Either(Vector, Half)],
        [VEX_Vpmovsxwd_xmm_xmmm64, VEX_Vpmovsxwd_ymm_xmmm128],
        [EVEX_Vpmovsxwd_xmm_k1z_xmmm64, EVEX_Vpmovsxwd_ymm_k1z_xmmm128, EVEX_Vpmovsxwd_zmm_k1z_ymmm256],
        Whole(|s| widen(s, 2, true)),
    ).whole();
    VPMOVZXBD = Row::lanes(
        "vpmovzxbd",
        &[Def(Vector, Full), Either(Vector, Quarter)],
        [VEX_Vpmovzxbd_xmm_xmmm32, VEX_Vpmovzxbd_ymm_xmmm64],
        [EVEX_Vpmovzxbd_xmm_k1z_xmmm32, EVEX_Vpmovzxbd_ymm_k1z_xmmm64, EVEX_Vpmovzxbd_zmm_k1z_xmmm128],
        Whole(|s| widen(s, 1, false)),
    ).whole();
    VPMOVSXBD = Row::lanes(
        "vpmovsxbd",
        &[Def(Vector, Full), Either(Vector, Quarter)],
        [VEX_Vpmovsxbd_xmm_xmmm32, VEX_Vpmovsxbd_ymm_xmmm64],
        [EVEX_Vpmovsxbd_xmm_k1z_xmmm32, EVEX_Vpmovsxbd_ymm_k1z_xmmm64, EVEX_Vpmovsxbd_zmm_k1z_xmmm128],
        Whole(|s| widen(s, 1, true)),
    ).whole();
    VPMOVDW = Row::lanes(
        "vpmovdw",
        &[Def(Vector, Half), Use(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpmovdw_xmmm64_k1z_xmm, EVEX_Vpmovdw_xmmm128_k1z_ymm, EVEX_Vpmovdw_ymmm256_k1z_zmm],
        Whole(|s| narrow(s, 0, 2, |x| x)),
    ).masks(0).whole();
    VPMOVDB = Row::lanes(
        "vpmovdb",
        &[Def(Vector, Quarter), Use(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpmovdb_xmmm32_k1z_xmm, EVEX_Vpmovdb_xmmm64_k1z_ymm, EVEX_Vpmovdb_xmmm128_k1z_zmm],
        Whole(|s| narrow(s, 0, 1, |x| x)),
    ).masks(0).whole();
    VPMOVSDB = Row::lanes(
        "vpmovsdb",
        &[Def(Vector, Quarter), Use(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpmovsdb_xmmm32_k1z_xmm, EVEX_Vpmovsdb_xmmm64_k1z_ymm, EVEX_Vpmovsdb_xmmm128_k1z_zmm],
        Whole(|s| narrow(s, 0, 1, |x| (x as i32).clamp(-128, 127) as u32)),
    ).masks(0).whole();
    VPACKUSDW = Row::lanes(
        "vpackusdw",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpackusdw_xmm_xmm_xmmm128, VEX_Vpackusdw_ymm_ymm_ymmm256],
        [EVEX_Vpackusdw_xmm_k1z_xmm_xmmm128b32, EVEX_Vpackusdw_ymm_k1z_ymm_ymmm256b32, EVEX_Vpackusdw_zmm_k1z_zmm_zmmm512b32],
        Whole(|s| pack(s, 4, |x| (x as i32).clamp(0, 65535) as u32)),
    ).masks(0).whole();
    VPACKSSDW = Row::lanes(
        "vpackssdw",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpackssdw_xmm_xmm_xmmm128, VEX_Vpackssdw_ymm_ymm_ymmm256],
        [EVEX_Vpackssdw_xmm_k1z_xmm_xmmm128b32, EVEX_Vpackssdw_ymm_k1z_ymm_ymmm256b32, EVEX_Vpackssdw_zmm_k1z_zmm_zmmm512b32],
        Whole(|s| pack(s, 4, |x| (x as i32).clamp(-32768, 32767) as u32)),
    ).masks(0).whole();
    VPACKSSWB = Row::lanes(
        "vpacksswb",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpacksswb_xmm_xmm_xmmm128, VEX_Vpacksswb_ymm_ymm_ymmm256],
        [EVEX_Vpacksswb_xmm_k1z_xmm_xmmm128, EVEX_Vpacksswb_ymm_k1z_ymm_ymmm256, EVEX_Vpacksswb_zmm_k1z_zmm_zmmm512],
        Whole(|s| pack(s, 2, |x| (x as i16).clamp(-128, 127) as u32)),
    ).masks(0).whole();
    VPACKUSWB = Row::lanes(
        "vpackuswb",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpackuswb_xmm_xmm_xmmm128, VEX_Vpackuswb_ymm_ymm_ymmm256],
        [EVEX_Vpackuswb_xmm_k1z_xmm_xmmm128, EVEX_Vpackuswb_ymm_k1z_ymm_ymmm256, EVEX_Vpackuswb_zmm_k1z_zmm_zmmm512],
        Whole(|s| pack(s, 2, |x| i32::from(x as i16).clamp(0, 255) as u32)),
    ).masks(0).whole();
}
