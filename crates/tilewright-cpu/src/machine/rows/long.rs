//! Arithmetic of 64-bit integers, in lanes of 8 bytes. Bits are combined by the rows of 32-bit lanes.

use crate::machine::eval::{Datum, Fault, Step, lane, set_lane, set_wide, wide};
use crate::machine::ir::Class::{General, Mask, Vector};
use crate::machine::row::Meaning::{Whole, Wide1Imm, Wide2};
use crate::machine::row::Row;
use crate::machine::row::Slot::{Def, Either, Imm, Use};
use crate::machine::row::Span::{Bytes, Full, Half};
use iced_x86::Code::*;

/// Signed: 0 `=`, 1 `<`, 2 `≤`, 4 `≠`, 5 `≥`, 6 `>`.
fn compare_signed(step: &mut Step<'_>) -> Result<(), Fault> {
    let (a, b, how) = (step.vector(0)?, step.vector(1)?, step.imm(2)?);
    let holds = |x: i64, y: i64| match how {
        0 => x == y,
        1 => x < y,
        2 => x <= y,
        4 => x != y,
        5 => x >= y,
        6 => x > y,
        _ => how == 7,
    };
    let bit = |i: usize| u64::from(holds(wide(&a, i) as i64, wide(&b, i) as i64)) << i;
    step.out.push(Datum::Mask((0..step.width.lanes() / 2).map(bit).sum()));
    Ok(())
}

/// The low 32 bits of each lane, both signed.
fn multiply_signed(a: u64, b: u64) -> u64 {
    (i64::from(a as i32) * i64::from(b as i32)) as u64
}

/// The low 32 bits of each lane, both unsigned.
fn multiply_unsigned(a: u64, b: u64) -> u64 {
    (a & 0xffff_ffff) * (b & 0xffff_ffff)
}

fn widen(step: &mut Step<'_>, signed: bool) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let mut out = [0; 64];
    for i in 0..step.width.lanes() / 2 {
        let value = lane(&a, i);
        set_wide(&mut out, i, if signed { i64::from(value as i32) as u64 } else { value.into() });
    }
    step.give(out);
    Ok(())
}

fn narrow(step: &mut Step<'_>) -> Result<(), Fault> {
    let a = step.vector(0)?;
    let mut out = [0; 64];
    (0..step.width.lanes() / 2).for_each(|i| set_lane(&mut out, i, wide(&a, i) as u32));
    step.give(out);
    Ok(())
}

fn general_to_lane(step: &mut Step<'_>) -> Result<(), Fault> {
    let mut out = [0; 64];
    set_wide(&mut out, 0, step.bits(0)?);
    step.give(out);
    Ok(())
}

fn lane_to_general(step: &mut Step<'_>) -> Result<(), Fault> {
    let bits = wide(&step.vector(0)?, 0);
    step.out.push(Datum::General(bits));
    Ok(())
}

rows! {
    VPADDQ = Row::wide(
        "vpaddq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpaddq_xmm_xmm_xmmm128, VEX_Vpaddq_ymm_ymm_ymmm256],
        [EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpaddq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64],
        Wide2(u64::wrapping_add),
    );
    VPSUBQ = Row::wide(
        "vpsubq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpsubq_xmm_xmm_xmmm128, VEX_Vpsubq_ymm_ymm_ymmm256],
        [EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpsubq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64],
        Wide2(u64::wrapping_sub),
    );
    VPMULLQ = Row::wide(
        "vpmullq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpmullq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64],
        Wide2(u64::wrapping_mul),
    );
    VPMULDQ = Row::wide(
        "vpmuldq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpmuldq_xmm_xmm_xmmm128, VEX_Vpmuldq_ymm_ymm_ymmm256],
        [EVEX_Vpmuldq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpmuldq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64],
        Wide2(multiply_signed),
    );
    VPMULUDQ = Row::wide(
        "vpmuludq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpmuludq_xmm_xmm_xmmm128, VEX_Vpmuludq_ymm_ymm_ymmm256],
        [EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpmuludq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64],
        Wide2(multiply_unsigned),
    );
    VPSLLQ = Row::wide(
        "vpsllq",
        &[Def(Vector, Full), Use(Vector, Full), Imm(1)],
        [VEX_Vpsllq_xmm_xmm_imm8, VEX_Vpsllq_ymm_ymm_imm8],
        [EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8, EVEX_Vpsllq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8],
        Wide1Imm(|a, n| a.checked_shl(n.into()).unwrap_or(0)),
    ).whole();
    VPSRLQ = Row::wide(
        "vpsrlq",
        &[Def(Vector, Full), Use(Vector, Full), Imm(1)],
        [VEX_Vpsrlq_xmm_xmm_imm8, VEX_Vpsrlq_ymm_ymm_imm8],
        [EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8, EVEX_Vpsrlq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8],
        Wide1Imm(|a, n| a.checked_shr(n.into()).unwrap_or(0)),
    ).whole();
    VPSRAQ = Row::wide(
        "vpsraq",
        &[Def(Vector, Full), Use(Vector, Full), Imm(1)],
        [INVALID, INVALID],
        [EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8, EVEX_Vpsraq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8],
        Wide1Imm(|a, n| ((a as i64) >> n.min(63)) as u64),
    ).whole();
    VPSLLVQ = Row::wide(
        "vpsllvq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpsllvq_xmm_xmm_xmmm128, VEX_Vpsllvq_ymm_ymm_ymmm256],
        [EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpsllvq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64],
        Wide2(|a, n| if n < 64 { a << n } else { 0 }),
    );
    VPSRLVQ = Row::wide(
        "vpsrlvq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpsrlvq_xmm_xmm_xmmm128, VEX_Vpsrlvq_ymm_ymm_ymmm256],
        [EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpsrlvq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64],
        Wide2(|a, n| if n < 64 { a >> n } else { 0 }),
    );
    VPCMPEQQ = Row::wide(
        "vpcmpeqq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpcmpeqq_xmm_xmm_xmmm128, VEX_Vpcmpeqq_ymm_ymm_ymmm256],
        [INVALID, INVALID, INVALID],
        Wide2(|a, b| if a == b { u64::MAX } else { 0 }),
    ).masks(0).whole();
    VPCMPGTQ = Row::wide(
        "vpcmpgtq",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vpcmpgtq_xmm_xmm_xmmm128, VEX_Vpcmpgtq_ymm_ymm_ymmm256],
        [INVALID, INVALID, INVALID],
        Wide2(|a, b| if (a as i64) > (b as i64) { u64::MAX } else { 0 }),
    ).masks(0).whole();
    VPCMPQ_K = Row::wide(
        "vpcmpq.k",
        &[Def(Mask, Full), Use(Vector, Full), Either(Vector, Full), Imm(1)],
        [INVALID, INVALID],
        [EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8, EVEX_Vpcmpq_kr_k1_ymm_ymmm256b64_imm8, EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8],
        Whole(compare_signed),
    );
    VPMOVSXDQ = Row::wide(
        "vpmovsxdq",
        &[Def(Vector, Full), Either(Vector, Half)],
        [VEX_Vpmovsxdq_xmm_xmmm64, VEX_Vpmovsxdq_ymm_xmmm128],
        [EVEX_Vpmovsxdq_xmm_k1z_xmmm64, EVEX_Vpmovsxdq_ymm_k1z_xmmm128, EVEX_Vpmovsxdq_zmm_k1z_ymmm256],
        Whole(|s| widen(s, true)),
    ).whole();
    VPMOVZXDQ = Row::wide(
        "vpmovzxdq",
        &[Def(Vector, Full), Either(Vector, Half)],
        [VEX_Vpmovzxdq_xmm_xmmm64, VEX_Vpmovzxdq_ymm_xmmm128],
        [EVEX_Vpmovzxdq_xmm_k1z_xmmm64, EVEX_Vpmovzxdq_ymm_k1z_xmmm128, EVEX_Vpmovzxdq_zmm_k1z_ymmm256],
        Whole(|s| widen(s, false)),
    ).whole();
    VPMOVQD = Row::wide(
        "vpmovqd",
        &[Def(Vector, Half), Use(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vpmovqd_xmmm64_k1z_xmm, EVEX_Vpmovqd_xmmm128_k1z_ymm, EVEX_Vpmovqd_ymmm256_k1z_zmm],
        Whole(narrow),
    ).masks(0).whole();
    VMOVQ = Row::wide(
        "vmovq",
        &[Def(Vector, Bytes(16)), Use(General, Bytes(8))],
        [VEX_Vmovq_xmm_rm64, INVALID],
        [EVEX_Vmovq_xmm_rm64, INVALID, INVALID],
        Whole(general_to_lane),
    ).masks(0).whole();
    VMOVQ_OUT = Row::wide(
        "vmovq.out",
        &[Def(General, Bytes(8)), Use(Vector, Bytes(16))],
        [VEX_Vmovq_rm64_xmm, INVALID],
        [EVEX_Vmovq_rm64_xmm, INVALID, INVALID],
        Whole(lane_to_general),
    ).masks(0).whole();
}
