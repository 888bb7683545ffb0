//! Arithmetic of 64-bit floats, in lanes of 8 bytes, and their conversions. Results of NaN are those of the processor: the
//! first operand that is one, made quiet; `0xfff8000000000000` for an invalid operation.

use crate::machine::eval::{Datum, Fault, Step, lane, set_lane, set_wide, wide};
use crate::machine::ir::Class::{General, Mask, Vector};
use crate::machine::row::Meaning::{Whole, Wide1, Wide1Imm, Wide2, Wide3};
use crate::machine::row::Row;
use crate::machine::row::Slot::{Address, Def, Either, Imm, Load, Store, Tied, Use};
use crate::machine::row::Span::{Bytes, Full, Half};
use iced_x86::Code::*;

const QUIET: u64 = 1 << 51;
const INVALID_RESULT: u64 = 0xfff8 << 48;

fn first_nan<const N: usize>(operands: [u64; N], result: f64) -> u64 {
    match operands.into_iter().find(|bits| f64::from_bits(*bits).is_nan()) {
        Some(bits) => bits | QUIET,
        None if result.is_nan() => INVALID_RESULT,
        None => result.to_bits(),
    }
}

fn arith(a: u64, b: u64, f: fn(f64, f64) -> f64) -> u64 {
    first_nan([a, b], f(f64::from_bits(a), f64::from_bits(b)))
}

fn fma(a: u64, b: u64, c: u64) -> u64 {
    first_nan([a, b, c], f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)))
}

fn fma_negated(a: u64, b: u64, c: u64) -> u64 {
    first_nan([a, b, c], (-f64::from_bits(a)).mul_add(f64::from_bits(b), f64::from_bits(c)))
}

/// To an integer: 0 nearest even, 1 down, 2 up, 3 towards 0 (in the low two bits of `how`).
fn round(a: u64, how: u8) -> u64 {
    let x = f64::from_bits(a);
    let rounded = match how & 3 {
        0 => x.round_ties_even(),
        1 => x.floor(),
        2 => x.ceil(),
        _ => x.trunc(),
    };
    first_nan([a], rounded)
}

/// The predicates of `vcmppd` that are used, as those of `vcmpps`.
fn compare(a: u64, b: u64, how: i64) -> bool {
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
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
    for i in 0..step.width.lanes() / 2 {
        set_wide(&mut out, i, if compare(wide(&a, i), wide(&b, i), how) { u64::MAX } else { 0 });
    }
    step.give(out);
    Ok(())
}

fn compare_to_bits(step: &mut Step<'_>) -> Result<(), Fault> {
    let (a, b, how) = (step.vector(0)?, step.vector(1)?, step.imm(2)?);
    let bit = |i: usize| u64::from(compare(wide(&a, i), wide(&b, i), how)) << i;
    step.out.push(Datum::Mask((0..step.width.lanes() / 2).map(bit).sum()));
    Ok(())
}

fn sign_bits(step: &mut Step<'_>) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let bits = (0..step.width.lanes() / 2).map(|i| (wide(&a, i) >> 63) << i).sum();
    step.out.push(Datum::General(bits));
    Ok(())
}

fn from_f32(bits: u32) -> u64 {
    if f32::from_bits(bits).is_nan() {
        let (sign, payload) = (u64::from(bits >> 31) << 63, u64::from(bits & 0x007f_ffff) << 29);
        return sign | 0x7ff0 << 48 | QUIET | payload;
    }
    f64::from(f32::from_bits(bits)).to_bits()
}

fn to_f32(bits: u64) -> u32 {
    if f64::from_bits(bits).is_nan() {
        let (sign, payload) = (((bits >> 63) as u32) << 31, (bits >> 29) as u32 & 0x003f_ffff);
        return sign | 0x7fc0_0000 | payload;
    }
    (f64::from_bits(bits) as f32).to_bits()
}

/// Towards 0; `0x80000000` where it does not fit.
fn truncate_to_i32(bits: u64) -> u32 {
    let x = f64::from_bits(bits);
    if x > -2147483649.0 && x < 2147483648.0 { x as i32 as u32 } else { 0x8000_0000 }
}

/// Towards 0; `0x8000000000000000` where it does not fit.
fn truncate_to_i64(bits: u64) -> u64 {
    let x = f64::from_bits(bits);
    let limit = -(i64::MIN as f64);
    if x >= -limit && x < limit { x as i64 as u64 } else { 1 << 63 }
}

fn widen(step: &mut Step<'_>, f: fn(u32) -> u64) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let mut out = [0; 64];
    (0..step.width.lanes() / 2).for_each(|i| set_wide(&mut out, i, f(lane(&a, i))));
    step.give(out);
    Ok(())
}

fn narrow(step: &mut Step<'_>, f: fn(u64) -> u32) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let mut out = [0; 64];
    (0..step.width.lanes() / 2).for_each(|i| set_lane(&mut out, i, f(wide(&a, i))));
    step.give(out);
    Ok(())
}

fn repeat(step: &mut Step<'_>) -> Result<(), Fault> {
    let one = wide(&step.vector(0)?, 0);
    let mut out = [0; 64];
    (0..step.width.lanes() / 2).for_each(|i| set_wide(&mut out, i, one));
    step.give(out);
    Ok(())
}

fn pass(step: &mut Step<'_>, n: usize) -> Result<(), Fault> {
    let vector = step.vector(n)?;
    step.give(vector);
    Ok(())
}

fn masked_load(step: &mut Step<'_>) -> Result<(), Fault> {
    let (mask, (address, _)) = (step.vector(0)?, step.address(1)?);
    let mut out = [0; 64];
    for i in (0..step.width.lanes() / 2).filter(|i| wide(&mask, *i) >> 63 == 1) {
        out[8 * i..8 * i + 8].copy_from_slice(step.memory.read(address.wrapping_add(8 * i as u64), 8)?);
    }
    step.give(out);
    Ok(())
}

fn masked_store(step: &mut Step<'_>) -> Result<(), Fault> {
    let ((address, _), mask, value) = (step.address(0)?, step.vector(1)?, step.vector(2)?);
    for i in (0..step.width.lanes() / 2).filter(|i| wide(&mask, *i) >> 63 == 1) {
        step.memory.write(address.wrapping_add(8 * i as u64), &value[8 * i..8 * i + 8])?;
    }
    Ok(())
}

rows! {
    VADDPD = Row::wide(
        "vaddpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vaddpd_xmm_xmm_xmmm128, VEX_Vaddpd_ymm_ymm_ymmm256],
        [EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vaddpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er],
        Wide2(|a, b| arith(a, b, |x, y| x + y)),
    );
    VSUBPD = Row::wide(
        "vsubpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vsubpd_xmm_xmm_xmmm128, VEX_Vsubpd_ymm_ymm_ymmm256],
        [EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vsubpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er],
        Wide2(|a, b| arith(a, b, |x, y| x - y)),
    );
    VMULPD = Row::wide(
        "vmulpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vmulpd_xmm_xmm_xmmm128, VEX_Vmulpd_ymm_ymm_ymmm256],
        [EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vmulpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er],
        Wide2(|a, b| arith(a, b, |x, y| x * y)),
    );
    VDIVPD = Row::wide(
        "vdivpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vdivpd_xmm_xmm_xmmm128, VEX_Vdivpd_ymm_ymm_ymmm256],
        [EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vdivpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er],
        Wide2(|a, b| arith(a, b, |x, y| x / y)),
    );
    VMINPD = Row::wide(
        "vminpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vminpd_xmm_xmm_xmmm128, VEX_Vminpd_ymm_ymm_ymmm256],
        [EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vminpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae],
        Wide2(|a, b| if f64::from_bits(a) < f64::from_bits(b) { a } else { b }),
    );
    VMAXPD = Row::wide(
        "vmaxpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vmaxpd_xmm_xmm_xmmm128, VEX_Vmaxpd_ymm_ymm_ymmm256],
        [EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vmaxpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae],
        Wide2(|a, b| if f64::from_bits(a) > f64::from_bits(b) { a } else { b }),
    );
    VSQRTPD = Row::wide(
        "vsqrtpd",
        &[Def(Vector, Full), Either(Vector, Full)],
        [VEX_Vsqrtpd_xmm_xmmm128, VEX_Vsqrtpd_ymm_ymmm256],
        [EVEX_Vsqrtpd_xmm_k1z_xmmm128b64, EVEX_Vsqrtpd_ymm_k1z_ymmm256b64, EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er],
        Wide1(|a| first_nan([a], f64::from_bits(a).sqrt())),
    );
    VFMADD213PD = Row::wide(
        "vfmadd213pd",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vfmadd213pd_xmm_xmm_xmmm128, VEX_Vfmadd213pd_ymm_ymm_ymmm256],
        [EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfmadd213pd_ymm_k1z_ymm_ymmm256b64, EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er],
        Wide3(|d, a, b| fma(a, d, b)),
    );
    VFMADD231PD = Row::wide(
        "vfmadd231pd",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vfmadd231pd_xmm_xmm_xmmm128, VEX_Vfmadd231pd_ymm_ymm_ymmm256],
        [EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfmadd231pd_ymm_k1z_ymm_ymmm256b64, EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er],
        Wide3(|d, a, b| fma(a, b, d)),
    );
    VFNMADD213PD = Row::wide(
        "vfnmadd213pd",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vfnmadd213pd_xmm_xmm_xmmm128, VEX_Vfnmadd213pd_ymm_ymm_ymmm256],
        [EVEX_Vfnmadd213pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfnmadd213pd_ymm_k1z_ymm_ymmm256b64, EVEX_Vfnmadd213pd_zmm_k1z_zmm_zmmm512b64_er],
        Wide3(|d, a, b| fma_negated(a, d, b)),
    );
    VFNMADD231PD = Row::wide(
        "vfnmadd231pd",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vfnmadd231pd_xmm_xmm_xmmm128, VEX_Vfnmadd231pd_ymm_ymm_ymmm256],
        [EVEX_Vfnmadd231pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfnmadd231pd_ymm_k1z_ymm_ymmm256b64, EVEX_Vfnmadd231pd_zmm_k1z_zmm_zmmm512b64_er],
        Wide3(|d, a, b| fma_negated(a, b, d)),
    );
    VROUNDPD = Row::wide(
        "vroundpd",
        &[Def(Vector, Full), Either(Vector, Full), Imm(1)],
        [VEX_Vroundpd_xmm_xmmm128_imm8, VEX_Vroundpd_ymm_ymmm256_imm8],
        [EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8, EVEX_Vrndscalepd_ymm_k1z_ymmm256b64_imm8, EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae],
        Wide1Imm(round),
    );
    VCMPPD = Row::wide(
        "vcmppd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full), Imm(1)],
        [VEX_Vcmppd_xmm_xmm_xmmm128_imm8, VEX_Vcmppd_ymm_ymm_ymmm256_imm8],
        [INVALID, INVALID, INVALID],
        Whole(compare_to_lanes),
    ).masks(0).whole();
    VCMPPD_K = Row::wide(
        "vcmppd.k",
        &[Def(Mask, Full), Use(Vector, Full), Either(Vector, Full), Imm(1)],
        [INVALID, INVALID],
        [EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8, EVEX_Vcmppd_kr_k1_ymm_ymmm256b64_imm8, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae],
        Whole(compare_to_bits),
    );
    VBLENDVPD = Row::wide(
        "vblendvpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full), Use(Vector, Full)],
        [VEX_Vblendvpd_xmm_xmm_xmmm128_xmm, VEX_Vblendvpd_ymm_ymm_ymmm256_ymm],
        [INVALID, INVALID, INVALID],
        Wide3(|off, on, mask| if mask >> 63 == 1 { on } else { off }),
    ).masks(0).whole();
    VMOVMSKPD = Row::wide(
        "vmovmskpd",
        &[Def(General, Bytes(4)), Use(Vector, Full)],
        [VEX_Vmovmskpd_r32_xmm, VEX_Vmovmskpd_r32_ymm],
        [INVALID, INVALID, INVALID],
        Whole(sign_bits),
    ).masks(0).whole();
    VCVTPS2PD = Row::wide(
        "vcvtps2pd",
        &[Def(Vector, Full), Either(Vector, Half)],
        [VEX_Vcvtps2pd_xmm_xmmm64, VEX_Vcvtps2pd_ymm_xmmm128],
        [EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32, EVEX_Vcvtps2pd_ymm_k1z_xmmm128b32, EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae],
        Whole(|s| widen(s, from_f32)),
    ).whole();
    VCVTPD2PS = Row::wide(
        "vcvtpd2ps",
        &[Def(Vector, Half), Use(Vector, Full)],
        [VEX_Vcvtpd2ps_xmm_xmmm128, VEX_Vcvtpd2ps_xmm_ymmm256],
        [EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64, EVEX_Vcvtpd2ps_xmm_k1z_ymmm256b64, EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er],
        Whole(|s| narrow(s, to_f32)),
    ).masks(0).whole();
    VCVTDQ2PD = Row::wide(
        "vcvtdq2pd",
        &[Def(Vector, Full), Either(Vector, Half)],
        [VEX_Vcvtdq2pd_xmm_xmmm64, VEX_Vcvtdq2pd_ymm_xmmm128],
        [EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32, EVEX_Vcvtdq2pd_ymm_k1z_xmmm128b32, EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er],
        Whole(|s| widen(s, |a| f64::from(a as i32).to_bits())),
    ).whole();
    VCVTTPD2DQ = Row::wide(
        "vcvttpd2dq",
        &[Def(Vector, Half), Use(Vector, Full)],
        [VEX_Vcvttpd2dq_xmm_xmmm128, VEX_Vcvttpd2dq_xmm_ymmm256],
        [EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64, EVEX_Vcvttpd2dq_xmm_k1z_ymmm256b64, EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae],
        Whole(|s| narrow(s, truncate_to_i32)),
    ).masks(0).whole();
    VCVTQQ2PD = Row::wide(
        "vcvtqq2pd",
        &[Def(Vector, Full), Either(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64, EVEX_Vcvtqq2pd_ymm_k1z_ymmm256b64, EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er],
        Wide1(|a| (a as i64 as f64).to_bits()),
    );
    VCVTTPD2QQ = Row::wide(
        "vcvttpd2qq",
        &[Def(Vector, Full), Either(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64, EVEX_Vcvttpd2qq_ymm_k1z_ymmm256b64, EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae],
        Wide1(truncate_to_i64),
    );
    VMOVUPD = Row::wide(
        "vmovupd",
        &[Def(Vector, Full), Either(Vector, Full)],
        [VEX_Vmovupd_xmm_xmmm128, VEX_Vmovupd_ymm_ymmm256],
        [EVEX_Vmovupd_xmm_k1z_xmmm128, EVEX_Vmovupd_ymm_k1z_ymmm256, EVEX_Vmovupd_zmm_k1z_zmmm512],
        Wide1(|a| a),
    ).whole();
    VMOVUPD_STORE = Row::wide(
        "vmovupd.store",
        &[Store(Full), Use(Vector, Full)],
        [VEX_Vmovupd_xmmm128_xmm, VEX_Vmovupd_ymmm256_ymm],
        [EVEX_Vmovupd_xmmm128_k1z_xmm, EVEX_Vmovupd_ymmm256_k1z_ymm, EVEX_Vmovupd_zmmm512_k1z_zmm],
        Whole(|s| pass(s, 1)),
    ).whole().effect();
    VMASKMOVPD = Row::wide(
        "vmaskmovpd",
        &[Def(Vector, Full), Use(Vector, Full), Address],
        [VEX_Vmaskmovpd_xmm_xmm_m128, VEX_Vmaskmovpd_ymm_ymm_m256],
        [INVALID, INVALID, INVALID],
        Whole(masked_load),
    ).masks(0).whole();
    VMASKMOVPD_STORE = Row::wide(
        "vmaskmovpd.store",
        &[Address, Use(Vector, Full), Use(Vector, Full)],
        [VEX_Vmaskmovpd_m128_xmm_xmm, VEX_Vmaskmovpd_m256_ymm_ymm],
        [INVALID, INVALID, INVALID],
        Whole(masked_store),
    ).masks(0).whole().effect();
    VBROADCASTSD = Row::wide(
        "vbroadcastsd",
        &[Def(Vector, Full), Load(Bytes(8))],
        [INVALID, VEX_Vbroadcastsd_ymm_m64],
        [INVALID, EVEX_Vbroadcastsd_ymm_k1z_xmmm64, EVEX_Vbroadcastsd_zmm_k1z_xmmm64],
        Whole(repeat),
    ).masks(0).whole();
    VBROADCASTSD_REG = Row::wide(
        "vbroadcastsd.reg",
        &[Def(Vector, Full), Use(Vector, Bytes(16))],
        [INVALID, VEX_Vbroadcastsd_ymm_xmm],
        [INVALID, EVEX_Vbroadcastsd_ymm_k1z_xmmm64, EVEX_Vbroadcastsd_zmm_k1z_xmmm64],
        Whole(repeat),
    ).masks(0).whole();
}
