//! Arithmetic of 32-bit integers, and dot products of short ones.

use crate::machine::eval::{Datum, Fault, Step, lane};
use crate::machine::ir::Class::{Mask, Vector};
use crate::machine::level::Level;
use crate::machine::row::Meaning::{Lanes1Imm, Lanes2, Lanes3, Whole};
use crate::machine::row::Row;
use crate::machine::row::Slot::{Def, Either, Imm, Tied, Use};
use crate::machine::row::Span::Full;
use iced_x86::Code::*;

/// Signed: 0 `=`, 1 `<`, 2 `≤`, 4 `≠`, 5 `≥`, 6 `>`.
fn compare_signed(step: &mut Step<'_>) -> Result<(), Fault> {
    let (a, b, how) = (step.vector(0)?, step.vector(1)?, step.imm(2)?);
    let holds = |x: i32, y: i32| match how {
        0 => x == y,
        1 => x < y,
        2 => x <= y,
        4 => x != y,
        5 => x >= y,
        6 => x > y,
        _ => how == 7,
    };
    let bit = |i: usize| u64::from(holds(lane(&a, i) as i32, lane(&b, i) as i32)) << i;
    step.out.push(Datum::Mask((0..step.width.lanes()).map(bit).sum()));
    Ok(())
}

/// `c + Σ a[i] · b[i]` over four bytes, `a` unsigned and `b` signed, modulo 2³².
pub(super) fn dot_u8_i8(c: u32, a: u32, b: u32) -> u32 {
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| sum.wrapping_add((i32::from(a) * i32::from(b as i8)) as u32))
}

/// `c + Σ a[i] · b[i]` over four bytes, both signed, modulo 2³².
pub(super) fn dot_i8_i8(c: u32, a: u32, b: u32) -> u32 {
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| sum.wrapping_add((i32::from(a as i8) * i32::from(b as i8)) as u32))
}

/// `c + a[1] · b[1] + a[0] · b[0]` over two bf16, the odd product first, each fused into the sum; subnormal operands
/// and results count as 0.
pub(super) fn dot_bf16(c: u32, a: u32, b: u32) -> u32 {
    let flush = |bits: u32| if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits };
    let odd = |x: u32| flush(x & 0xffff_0000);
    let even = |x: u32| flush(x << 16);
    let fused = |a: u32, b: u32, c: u32| {
        let sum = f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c));
        match [a, b, c].into_iter().find(|bits| f32::from_bits(*bits).is_nan()) {
            Some(bits) => bits | 0x0040_0000,
            None if sum.is_nan() => 0xffc0_0000,
            None => flush(sum.to_bits()),
        }
    };
    let first = fused(odd(a), odd(b), flush(c));
    fused(even(a), even(b), first)
}

/// Two 16-bit sums of two products, `a` unsigned and `b` signed bytes, saturated.
fn madd_bytes(a: u32, b: u32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    let product = |i: usize| i32::from(a[i]) * i32::from(b[i] as i8);
    let pair = |i: usize| (product(i) + product(i + 1)).clamp(-32768, 32767) as u32 & 0xffff;
    pair(0) | pair(2) << 16
}

/// The sum of two products of signed 16-bit integers, modulo 2³².
fn madd_words(a: u32, b: u32) -> u32 {
    let product = |a: u32, b: u32| i32::from(a as i16) * i32::from(b as i16);
    product(a, b).wrapping_add(product(a >> 16, b >> 16)) as u32
}

rows! {
    VPADDD = Row::lanes(
        "vpaddd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpaddd_xmm_xmm_xmmm128, VEX_Vpaddd_ymm_ymm_ymmm256],
        [EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpaddd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(u32::wrapping_add),
    );
    VPSUBD = Row::lanes(
        "vpsubd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpsubd_xmm_xmm_xmmm128, VEX_Vpsubd_ymm_ymm_ymmm256],
        [EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpsubd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(u32::wrapping_sub),
    );
    VPMULLD = Row::lanes(
        "vpmulld",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpmulld_xmm_xmm_xmmm128, VEX_Vpmulld_ymm_ymm_ymmm256],
        [EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32, EVEX_Vpmulld_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32],
        Lanes2(u32::wrapping_mul),
    );
    VPAND = Row::lanes(
        "vpand",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpand_xmm_xmm_xmmm128, VEX_Vpand_ymm_ymm_ymmm256],
        [EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, b| a & b),
    );
    VPOR = Row::lanes(
        "vpor",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpor_xmm_xmm_xmmm128, VEX_Vpor_ymm_ymm_ymmm256],
        [EVEX_Vpord_xmm_k1z_xmm_xmmm128b32, EVEX_Vpord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, b| a | b),
    );
    VPXOR = Row::lanes(
        "vpxor",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpxor_xmm_xmm_xmmm128, VEX_Vpxor_ymm_ymm_ymmm256],
        [EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32, EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, b| a ^ b),
    );
    VPANDN = Row::lanes(
        "vpandn",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpandn_xmm_xmm_xmmm128, VEX_Vpandn_ymm_ymm_ymmm256],
        [EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpandnd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, b| !a & b),
    );
    VPMINSD = Row::lanes(
        "vpminsd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpminsd_xmm_xmm_xmmm128, VEX_Vpminsd_ymm_ymm_ymmm256],
        [EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpminsd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, b| (a as i32).min(b as i32) as u32),
    );
    VPMAXSD = Row::lanes(
        "vpmaxsd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpmaxsd_xmm_xmm_xmmm128, VEX_Vpmaxsd_ymm_ymm_ymmm256],
        [EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpmaxsd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, b| (a as i32).max(b as i32) as u32),
    );
    VPSLLVD = Row::lanes(
        "vpsllvd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpsllvd_xmm_xmm_xmmm128, VEX_Vpsllvd_ymm_ymm_ymmm256],
        [EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpsllvd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, n| a.checked_shl(n).unwrap_or(0)),
    );
    VPSRLVD = Row::lanes(
        "vpsrlvd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpsrlvd_xmm_xmm_xmmm128, VEX_Vpsrlvd_ymm_ymm_ymmm256],
        [EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpsrlvd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, n| a.checked_shr(n).unwrap_or(0)),
    );
    VPSRAVD = Row::lanes(
        "vpsravd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpsravd_xmm_xmm_xmmm128, VEX_Vpsravd_ymm_ymm_ymmm256],
        [EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpsravd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32],
        Lanes2(|a, n| ((a as i32) >> n.min(31)) as u32),
    );
    VPSLLD = Row::lanes(
        "vpslld",
        &[Def(Vector, Full), Use(Vector, Full), Imm(1)],
        [VEX_Vpslld_xmm_xmm_imm8, VEX_Vpslld_ymm_ymm_imm8],
        [EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8, EVEX_Vpslld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8],
        Lanes1Imm(|a, n| a.checked_shl(n.into()).unwrap_or(0)),
    ).whole();
    VPSRLD = Row::lanes(
        "vpsrld",
        &[Def(Vector, Full), Use(Vector, Full), Imm(1)],
        [VEX_Vpsrld_xmm_xmm_imm8, VEX_Vpsrld_ymm_ymm_imm8],
        [EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8, EVEX_Vpsrld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8],
        Lanes1Imm(|a, n| a.checked_shr(n.into()).unwrap_or(0)),
    ).whole();
    VPSRAD = Row::lanes(
        "vpsrad",
        &[Def(Vector, Full), Use(Vector, Full), Imm(1)],
        [VEX_Vpsrad_xmm_xmm_imm8, VEX_Vpsrad_ymm_ymm_imm8],
        [EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8, EVEX_Vpsrad_ymm_k1z_ymmm256b32_imm8, EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8],
        Lanes1Imm(|a, n| ((a as i32) >> n.min(31)) as u32),
    ).whole();
    VPCMPEQD = Row::lanes(
        "vpcmpeqd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpcmpeqd_xmm_xmm_xmmm128, VEX_Vpcmpeqd_ymm_ymm_ymmm256],
        [INVALID, INVALID, INVALID],
        Lanes2(|a, b| if a == b { u32::MAX } else { 0 }),
    ).masks(0).whole();
    VPCMPGTD = Row::lanes(
        "vpcmpgtd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpcmpgtd_xmm_xmm_xmmm128, VEX_Vpcmpgtd_ymm_ymm_ymmm256],
        [INVALID, INVALID, INVALID],
        Lanes2(|a, b| if (a as i32) > (b as i32) { u32::MAX } else { 0 }),
    ).masks(0).whole();
    VPCMPD_K = Row::lanes(
        "vpcmpd.k",
        &[Def(Mask, Full), Use(Vector, Full), Either(Vector, Full), Imm(1)],
        [INVALID, INVALID],
        [EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8, EVEX_Vpcmpd_kr_k1_ymm_ymmm256b32_imm8, EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8],
        Whole(compare_signed),
    );
    VPDPBUSD = Row::lanes(
        "vpdpbusd",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpdpbusd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpdpbusd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32],
        Lanes3(dot_u8_i8),
    ).from(Level::Avx512Dot);
    VDPBF16PS = Row::lanes(
        "vdpbf16ps",
        &[Tied(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vdpbf16ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vdpbf16ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vdpbf16ps_zmm_k1z_zmm_zmmm512b32],
        Lanes3(dot_bf16),
    ).from(Level::Avx512Dot);
    VPMADDUBSW = Row::lanes(
        "vpmaddubsw",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpmaddubsw_xmm_xmm_xmmm128, VEX_Vpmaddubsw_ymm_ymm_ymmm256],
        [EVEX_Vpmaddubsw_xmm_k1z_xmm_xmmm128, EVEX_Vpmaddubsw_ymm_k1z_ymm_ymmm256, EVEX_Vpmaddubsw_zmm_k1z_zmm_zmmm512],
        Lanes2(madd_bytes),
    ).masks(0).whole();
    VPMADDWD = Row::lanes(
        "vpmaddwd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpmaddwd_xmm_xmm_xmmm128, VEX_Vpmaddwd_ymm_ymm_ymmm256],
        [EVEX_Vpmaddwd_xmm_k1z_xmm_xmmm128, EVEX_Vpmaddwd_ymm_k1z_ymm_ymmm256, EVEX_Vpmaddwd_zmm_k1z_zmm_zmmm512],
        Lanes2(madd_words),
    ).masks(0).whole();
}
