//! Arithmetic of 32-bit floats. Results of NaN are those of the processor: the first operand that is one, made quiet;
//! `0xffc00000` for an invalid operation.

use crate::machine::eval::{Datum, Fault, Step, lane, set_lane};
use crate::machine::ir::Class::{General, Mask, Vector};
use crate::machine::row::Meaning::{Lanes1, Lanes1Imm, Lanes2, Lanes3, Whole};
use crate::machine::row::Row;
use crate::machine::row::Slot::{Def, Either, Imm, Tied, Use};
use crate::machine::row::Span::{Bytes, Full};
use iced_x86::Code::*;

const QUIET: u32 = 0x0040_0000;
const INVALID_RESULT: u32 = 0xffc0_0000;

fn is_nan(bits: u32) -> bool {
    f32::from_bits(bits).is_nan()
}

fn first_nan<const N: usize>(operands: [u32; N], result: f32) -> u32 {
    match operands.into_iter().find(|bits| is_nan(*bits)) {
        Some(bits) => bits | QUIET,
        None if result.is_nan() => INVALID_RESULT,
        None => result.to_bits(),
    }
}

fn arith(a: u32, b: u32, f: fn(f32, f32) -> f32) -> u32 {
    first_nan([a, b], f(f32::from_bits(a), f32::from_bits(b)))
}

fn fma(a: u32, b: u32, c: u32) -> u32 {
    first_nan([a, b, c], f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)))
}

fn fma_negated(a: u32, b: u32, c: u32) -> u32 {
    first_nan([a, b, c], (-f32::from_bits(a)).mul_add(f32::from_bits(b), f32::from_bits(c)))
}

/// The second operand where either is NaN, or where both are zeros.
fn min_ps(a: u32, b: u32) -> u32 {
    if f32::from_bits(a) < f32::from_bits(b) { a } else { b }
}

/// The second operand where either is NaN, or where both are zeros.
fn max_ps(a: u32, b: u32) -> u32 {
    if f32::from_bits(a) > f32::from_bits(b) { a } else { b }
}

fn sqrt_ps(a: u32) -> u32 {
    first_nan([a], f32::from_bits(a).sqrt())
}

/// To an integer: 0 nearest even, 1 down, 2 up, 3 towards 0 (in the low two bits of `how`).
fn round_ps(a: u32, how: u8) -> u32 {
    let x = f32::from_bits(a);
    let rounded = match how & 3 {
        0 => x.round_ties_even(),
        1 => x.floor(),
        2 => x.ceil(),
        _ => x.trunc(),
    };
    first_nan([a], rounded)
}

/// The predicates of `vcmpps` that are used: 0 `=`, 1 `<`, 2 `≤`, 3 unordered, 4 not `=`, 5 not `<`, 6 not `≤`,
/// 7 ordered; 13 `≥`, 14 `>`.
fn compare(a: u32, b: u32, how: i64) -> bool {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    let unordered = x.is_nan() || y.is_nan();
    match how {
        0 => x == y,
        1 => x < y,
        2 => x <= y,
        3 => unordered,
        4 => x != y,
        5 => unordered || x >= y,
        6 => unordered || x > y,
        7 => !unordered,
        13 => x >= y,
        14 => x > y,
        _ => false,
    }
}

fn compare_to_lanes(step: &mut Step<'_>) -> Result<(), Fault> {
    let (a, b, how) = (step.vector(0)?, step.vector(1)?, step.imm(2)?);
    let mut out = [0; 64];
    for i in 0..step.width.lanes() {
        set_lane(&mut out, i, if compare(lane(&a, i), lane(&b, i), how) { u32::MAX } else { 0 });
    }
    step.give(out);
    Ok(())
}

fn compare_to_bits(step: &mut Step<'_>) -> Result<(), Fault> {
    let (a, b, how) = (step.vector(0)?, step.vector(1)?, step.imm(2)?);
    let bits = (0..step.width.lanes()).map(|i| u64::from(compare(lane(&a, i), lane(&b, i), how)) << i).sum();
    step.out.push(Datum::Mask(bits));
    Ok(())
}

fn sign_bits(step: &mut Step<'_>) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let bits = (0..step.width.lanes()).map(|i| u64::from(lane(&a, i) >> 31) << i).sum();
    step.out.push(Datum::General(bits));
    Ok(())
}

rows! {
    VADDPS = Row::lanes(
        "vaddps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vaddps_xmm_xmm_xmmm128, VEX_Vaddps_ymm_ymm_ymmm256],
        [EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32, EVEX_Vaddps_ymm_k1z_ymm_ymmm256b32, EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er],
        Lanes2(|a, b| arith(a, b, |x, y| x + y)),
    );
    VSUBPS = Row::lanes(
        "vsubps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vsubps_xmm_xmm_xmmm128, VEX_Vsubps_ymm_ymm_ymmm256],
        [EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32, EVEX_Vsubps_ymm_k1z_ymm_ymmm256b32, EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er],
        Lanes2(|a, b| arith(a, b, |x, y| x - y)),
    );
    VMULPS = Row::lanes(
        "vmulps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vmulps_xmm_xmm_xmmm128, VEX_Vmulps_ymm_ymm_ymmm256],
        [EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32, EVEX_Vmulps_ymm_k1z_ymm_ymmm256b32, EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er],
        Lanes2(|a, b| arith(a, b, |x, y| x * y)),
    );
    VDIVPS = Row::lanes(
        "vdivps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vdivps_xmm_xmm_xmmm128, VEX_Vdivps_ymm_ymm_ymmm256],
        [EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32, EVEX_Vdivps_ymm_k1z_ymm_ymmm256b32, EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er],
        Lanes2(|a, b| arith(a, b, |x, y| x / y)),
    );
    VMINPS = Row::lanes(
        "vminps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vminps_xmm_xmm_xmmm128, VEX_Vminps_ymm_ymm_ymmm256],
        [EVEX_Vminps_xmm_k1z_xmm_xmmm128b32, EVEX_Vminps_ymm_k1z_ymm_ymmm256b32, EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae],
        Lanes2(min_ps),
    );
    VMAXPS = Row::lanes(
        "vmaxps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vmaxps_xmm_xmm_xmmm128, VEX_Vmaxps_ymm_ymm_ymmm256],
        [EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32, EVEX_Vmaxps_ymm_k1z_ymm_ymmm256b32, EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae],
        Lanes2(max_ps),
    );
    VSQRTPS = Row::lanes(
        "vsqrtps",
        &[Def(Vector, Full), Either(Vector, Full)],
        [VEX_Vsqrtps_xmm_xmmm128, VEX_Vsqrtps_ymm_ymmm256],
        [EVEX_Vsqrtps_xmm_k1z_xmmm128b32, EVEX_Vsqrtps_ymm_k1z_ymmm256b32, EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er],
        Lanes1(sqrt_ps),
    );
    VFMADD213PS = Row::lanes(
        "vfmadd213ps",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vfmadd213ps_xmm_xmm_xmmm128, VEX_Vfmadd213ps_ymm_ymm_ymmm256],
        [EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfmadd213ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er],
        Lanes3(|d, a, b| fma(a, d, b)),
    );
    VFMADD231PS = Row::lanes(
        "vfmadd231ps",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vfmadd231ps_xmm_xmm_xmmm128, VEX_Vfmadd231ps_ymm_ymm_ymmm256],
        [EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfmadd231ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er],
        Lanes3(|d, a, b| fma(a, b, d)),
    );
    VFNMADD213PS = Row::lanes(
        "vfnmadd213ps",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vfnmadd213ps_xmm_xmm_xmmm128, VEX_Vfnmadd213ps_ymm_ymm_ymmm256],
        [EVEX_Vfnmadd213ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfnmadd213ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er],
        Lanes3(|d, a, b| fma_negated(a, d, b)),
    );
    VFNMADD231PS = Row::lanes(
        "vfnmadd231ps",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vfnmadd231ps_xmm_xmm_xmmm128, VEX_Vfnmadd231ps_ymm_ymm_ymmm256],
        [EVEX_Vfnmadd231ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfnmadd231ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er],
        Lanes3(|d, a, b| fma_negated(a, b, d)),
    );
    VROUNDPS = Row::lanes(
        "vroundps",
        &[Def(Vector, Full), Either(Vector, Full), Imm(1)],
        [VEX_Vroundps_xmm_xmmm128_imm8, VEX_Vroundps_ymm_ymmm256_imm8],
        [EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8, EVEX_Vrndscaleps_ymm_k1z_ymmm256b32_imm8, EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae],
        Lanes1Imm(round_ps),
    );
    VCMPPS = Row::lanes(
        "vcmpps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full), Imm(1)],
        [VEX_Vcmpps_xmm_xmm_xmmm128_imm8, VEX_Vcmpps_ymm_ymm_ymmm256_imm8],
        [INVALID, INVALID, INVALID],
        Whole(compare_to_lanes),
    ).masks(0).whole();
    VCMPPS_K = Row::lanes(
        "vcmpps.k",
        &[Def(Mask, Full), Use(Vector, Full), Either(Vector, Full), Imm(1)],
        [INVALID, INVALID],
        [EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8, EVEX_Vcmpps_kr_k1_ymm_ymmm256b32_imm8, EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae],
        Whole(compare_to_bits),
    );
    VBLENDVPS = Row::lanes(
        "vblendvps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full), Use(Vector, Full)],
        [VEX_Vblendvps_xmm_xmm_xmmm128_xmm, VEX_Vblendvps_ymm_ymm_ymmm256_ymm],
        [INVALID, INVALID, INVALID],
        Lanes3(|off, on, mask| if mask >> 31 == 1 { on } else { off }),
    ).masks(0).whole();
    VMOVMSKPS = Row::lanes(
        "vmovmskps",
        &[Def(General, Bytes(4)), Use(Vector, Full)],
        [VEX_Vmovmskps_r32_xmm, VEX_Vmovmskps_r32_ymm],
        [INVALID, INVALID, INVALID],
        Whole(sign_bits),
    ).masks(0).whole();
}
