//! Loads, stores and what moves lanes.

use crate::machine::eval::{Datum, Fault, Step, lane, set_lane};
use crate::machine::ir::Class::{General, Vector};
use crate::machine::row::Meaning::{Lanes1, Whole};
use crate::machine::row::Row;
use crate::machine::row::Slot::{Address, Def, Either, Imm, Load, Store, Use};
use crate::machine::row::Span::{Bytes, Full, Half};
use iced_x86::Code::*;

fn pass(step: &mut Step<'_>, n: usize) -> Result<(), Fault> {
    let vector = step.vector(n)?;
    step.give(vector);
    Ok(())
}

fn repeat(step: &mut Step<'_>) -> Result<(), Fault> {
    let one = lane(&step.vector(0)?, 0);
    let mut out = [0; 64];
    (0..step.width.lanes()).for_each(|i| set_lane(&mut out, i, one));
    step.give(out);
    Ok(())
}

fn general_to_lane(step: &mut Step<'_>) -> Result<(), Fault> {
    let mut out = [0; 64];
    set_lane(&mut out, 0, step.bits(0)? as u32);
    step.give(out);
    Ok(())
}

fn lane_to_general(step: &mut Step<'_>) -> Result<(), Fault> {
    let bits = lane(&step.vector(0)?, 0).into();
    step.out.push(Datum::General(bits));
    Ok(())
}

fn masked_load(step: &mut Step<'_>) -> Result<(), Fault> {
    let (mask, (address, _)) = (step.vector(0)?, step.address(1)?);
    let mut out = [0; 64];
    for i in (0..step.width.lanes()).filter(|i| lane(&mask, *i) >> 31 == 1) {
        out[4 * i..4 * i + 4].copy_from_slice(step.memory.read(address.wrapping_add(4 * i as u64), 4)?);
    }
    step.give(out);
    Ok(())
}

fn masked_store(step: &mut Step<'_>) -> Result<(), Fault> {
    let ((address, _), mask, value) = (step.address(0)?, step.vector(1)?, step.vector(2)?);
    for i in (0..step.width.lanes()).filter(|i| lane(&mask, *i) >> 31 == 1) {
        step.memory.write(address.wrapping_add(4 * i as u64), &value[4 * i..4 * i + 4])?;
    }
    Ok(())
}

fn extract_half(step: &mut Step<'_>) -> Result<(), Fault> {
    let (a, which, half) = (step.vector(0)?, step.imm(1)? as usize & 1, step.width.bytes() / 2);
    let mut out = [0; 64];
    out[..half].copy_from_slice(&a[which * half..(which + 1) * half]);
    step.give(out);
    Ok(())
}

fn insert_half(step: &mut Step<'_>) -> Result<(), Fault> {
    let (mut a, b) = (step.vector(0)?, step.vector(1)?);
    let (which, half) = (step.imm(2)? as usize & 1, step.width.bytes() / 2);
    a[which * half..(which + 1) * half].copy_from_slice(&b[..half]);
    a[step.width.bytes()..].fill(0);
    step.give(a);
    Ok(())
}

fn shuffle(step: &mut Step<'_>) -> Result<(), Fault> {
    let (a, how) = (step.vector(0)?, step.imm(1)?);
    let mut out = [0; 64];
    for i in 0..step.width.lanes() {
        set_lane(&mut out, i, lane(&a, i / 4 * 4 + (how >> (2 * (i % 4)) & 3) as usize));
    }
    step.give(out);
    Ok(())
}

/// In each 16 bytes, elements of the lower or upper half of both operands, in turn.
fn interleave(step: &mut Step<'_>, bytes: usize, upper: bool) -> Result<(), Fault> {
    let sources = [step.vector(0)?, step.vector(1)?];
    let mut out = [0; 64];
    for part in (0..step.width.bytes()).step_by(16) {
        for i in 0..16 / bytes {
            let from = part + 8 * usize::from(upper) + i / 2 * bytes;
            let to = part + i * bytes;
            out[to..to + bytes].copy_from_slice(&sources[i % 2][from..from + bytes]);
        }
    }
    step.give(out);
    Ok(())
}

fn permute_quads(step: &mut Step<'_>) -> Result<(), Fault> {
    let (a, how) = (step.vector(0)?, step.imm(1)?);
    let mut out = [0; 64];
    for i in 0..step.width.bytes() / 8 {
        let from = 8 * (i / 4 * 4 + (how >> (2 * (i % 4)) & 3) as usize);
        out[8 * i..8 * i + 8].copy_from_slice(&a[from..from + 8]);
    }
    step.give(out);
    Ok(())
}

fn permute_lanes(step: &mut Step<'_>) -> Result<(), Fault> {
    let (index, a) = (step.vector(0)?, step.vector(1)?);
    let mut out = [0; 64];
    for i in 0..step.width.lanes() {
        set_lane(&mut out, i, lane(&a, lane(&index, i) as usize % step.width.lanes()));
    }
    step.give(out);
    Ok(())
}

rows! {
    VMOVUPS = Row::lanes(
        "vmovups",
        &[Def(Vector, Full), Either(Vector, Full)],
        [VEX_Vmovups_xmm_xmmm128, VEX_Vmovups_ymm_ymmm256],
        [EVEX_Vmovups_xmm_k1z_xmmm128, EVEX_Vmovups_ymm_k1z_ymmm256, EVEX_Vmovups_zmm_k1z_zmmm512],
        Lanes1(|a| a),
    ).whole();
    VMOVUPS_STORE = Row::lanes(
        "vmovups.store",
        &[Store(Full), Use(Vector, Full)],
        [VEX_Vmovups_xmmm128_xmm, VEX_Vmovups_ymmm256_ymm],
        [EVEX_Vmovups_xmmm128_k1z_xmm, EVEX_Vmovups_ymmm256_k1z_ymm, EVEX_Vmovups_zmmm512_k1z_zmm],
        Whole(|s| pass(s, 1)),
    ).whole().effect();
    VMOVDQU16 = Row::lanes(
        "vmovdqu16",
        &[Def(Vector, Full), Either(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vmovdqu16_xmm_k1z_xmmm128, EVEX_Vmovdqu16_ymm_k1z_ymmm256, EVEX_Vmovdqu16_zmm_k1z_zmmm512],
        Lanes1(|a| a),
    ).whole().masks(2);
    VMOVDQU16_STORE = Row::lanes(
        "vmovdqu16.store",
        &[Store(Full), Use(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vmovdqu16_xmmm128_k1z_xmm, EVEX_Vmovdqu16_ymmm256_k1z_ymm, EVEX_Vmovdqu16_zmmm512_k1z_zmm],
        Whole(|s| pass(s, 1)),
    ).whole().masks(2).effect();
    VMOVDQU8 = Row::lanes(
        "vmovdqu8",
        &[Def(Vector, Full), Either(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vmovdqu8_xmm_k1z_xmmm128, EVEX_Vmovdqu8_ymm_k1z_ymmm256, EVEX_Vmovdqu8_zmm_k1z_zmmm512],
        Lanes1(|a| a),
    ).whole().masks(1);
    VMOVDQU8_STORE = Row::lanes(
        "vmovdqu8.store",
        &[Store(Full), Use(Vector, Full)],
        [INVALID, INVALID],
        [EVEX_Vmovdqu8_xmmm128_k1z_xmm, EVEX_Vmovdqu8_ymmm256_k1z_ymm, EVEX_Vmovdqu8_zmmm512_k1z_zmm],
        Whole(|s| pass(s, 1)),
    ).whole().masks(1).effect();
    VMASKMOVPS = Row::lanes(
        "vmaskmovps",
        &[Def(Vector, Full), Use(Vector, Full), Address],
        [VEX_Vmaskmovps_xmm_xmm_m128, VEX_Vmaskmovps_ymm_ymm_m256],
        [INVALID, INVALID, INVALID],
        Whole(masked_load),
    ).masks(0).whole();
    VMASKMOVPS_STORE = Row::lanes(
        "vmaskmovps.store",
        &[Address, Use(Vector, Full), Use(Vector, Full)],
        [VEX_Vmaskmovps_m128_xmm_xmm, VEX_Vmaskmovps_m256_ymm_ymm],
        [INVALID, INVALID, INVALID],
        Whole(masked_store),
    ).masks(0).whole().effect();
    VBROADCASTSS = Row::lanes(
        "vbroadcastss",
        &[Def(Vector, Full), Load(Bytes(4))],
        [VEX_Vbroadcastss_xmm_m32, VEX_Vbroadcastss_ymm_m32],
        [EVEX_Vbroadcastss_xmm_k1z_xmmm32, EVEX_Vbroadcastss_ymm_k1z_xmmm32, EVEX_Vbroadcastss_zmm_k1z_xmmm32],
        Whole(repeat),
    ).masks(0).whole();
    VBROADCASTSS_REG = Row::lanes(
        "vbroadcastss.reg",
        &[Def(Vector, Full), Use(Vector, Bytes(16))],
        [VEX_Vbroadcastss_xmm_xmm, VEX_Vbroadcastss_ymm_xmm],
        [EVEX_Vbroadcastss_xmm_k1z_xmmm32, EVEX_Vbroadcastss_ymm_k1z_xmmm32, EVEX_Vbroadcastss_zmm_k1z_xmmm32],
        Whole(repeat),
    ).masks(0).whole();
    VMOVD = Row::lanes(
        "vmovd",
        &[Def(Vector, Bytes(16)), Use(General, Bytes(4))],
        [VEX_Vmovd_xmm_rm32, INVALID],
        [EVEX_Vmovd_xmm_rm32, INVALID, INVALID],
        Whole(general_to_lane),
    ).masks(0).whole();
    VMOVD_OUT = Row::lanes(
        "vmovd.out",
        &[Def(General, Bytes(4)), Use(Vector, Bytes(16))],
        [VEX_Vmovd_rm32_xmm, INVALID],
        [EVEX_Vmovd_rm32_xmm, INVALID, INVALID],
        Whole(lane_to_general),
    ).masks(0).whole();
    VMOVSS = Row::lanes(
        "vmovss",
        &[Def(Vector, Bytes(16)), Load(Bytes(4))],
        [VEX_Vmovss_xmm_m32, INVALID],
        [EVEX_Vmovss_xmm_k1z_m32, INVALID, INVALID],
        Whole(|s| pass(s, 0)),
    ).masks(0).whole();
    VMOVSS_STORE = Row::lanes(
        "vmovss.store",
        &[Store(Bytes(4)), Use(Vector, Bytes(16))],
        [VEX_Vmovss_m32_xmm, INVALID],
        [EVEX_Vmovss_m32_k1_xmm, INVALID, INVALID],
        Whole(|s| pass(s, 1)),
    ).masks(0).whole().effect();
    VEXTRACT_HALF = Row::lanes(
        "vextract.half",
        &[Def(Vector, Half), Use(Vector, Full), Imm(1)],
        [INVALID, VEX_Vextracti128_xmmm128_ymm_imm8],
        [INVALID, EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8, EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8],
        Whole(extract_half),
    ).masks(0).whole();
    VINSERT_HALF = Row::lanes(
        "vinsert.half",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Half), Imm(1)],
        [INVALID, VEX_Vinsertf128_ymm_ymm_xmmm128_imm8],
        [INVALID, EVEX_Vinsertf32x4_ymm_k1z_ymm_xmmm128_imm8, EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8],
        Whole(insert_half),
    ).masks(0).whole();
    VPSHUFD = Row::lanes(
        "vpshufd",
        &[Def(Vector, Full), Either(Vector, Full), Imm(1)],
        [VEX_Vpshufd_xmm_xmmm128_imm8, VEX_Vpshufd_ymm_ymmm256_imm8],
        [EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8, EVEX_Vpshufd_ymm_k1z_ymmm256b32_imm8, EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8],
        Whole(shuffle),
    ).masks(0).whole();
    VUNPCKLPS = Row::lanes(
        "vunpcklps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vunpcklps_xmm_xmm_xmmm128, VEX_Vunpcklps_ymm_ymm_ymmm256],
        [EVEX_Vunpcklps_xmm_k1z_xmm_xmmm128b32, EVEX_Vunpcklps_ymm_k1z_ymm_ymmm256b32, EVEX_Vunpcklps_zmm_k1z_zmm_zmmm512b32],
        Whole(|s| interleave(s, 4, false)),
    ).masks(0).whole();
    VUNPCKHPS = Row::lanes(
        "vunpckhps",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vunpckhps_xmm_xmm_xmmm128, VEX_Vunpckhps_ymm_ymm_ymmm256],
        [EVEX_Vunpckhps_xmm_k1z_xmm_xmmm128b32, EVEX_Vunpckhps_ymm_k1z_ymm_ymmm256b32, EVEX_Vunpckhps_zmm_k1z_zmm_zmmm512b32],
        Whole(|s| interleave(s, 4, true)),
    ).masks(0).whole();
    VUNPCKLPD = Row::lanes(
        "vunpcklpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vunpcklpd_xmm_xmm_xmmm128, VEX_Vunpcklpd_ymm_ymm_ymmm256],
        [EVEX_Vunpcklpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vunpcklpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vunpcklpd_zmm_k1z_zmm_zmmm512b64],
        Whole(|s| interleave(s, 8, false)),
    ).masks(0).whole();
    VUNPCKHPD = Row::lanes(
        "vunpckhpd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [VEX_Vunpckhpd_xmm_xmm_xmmm128, VEX_Vunpckhpd_ymm_ymm_ymmm256],
        [EVEX_Vunpckhpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vunpckhpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vunpckhpd_zmm_k1z_zmm_zmmm512b64],
        Whole(|s| interleave(s, 8, true)),
    ).masks(0).whole();
    VPERMQ = Row::lanes(
        "vpermq",
        &[Def(Vector, Full), Either(Vector, Full), Imm(1)],
        [INVALID, VEX_Vpermq_ymm_ymmm256_imm8],
        [INVALID, EVEX_Vpermq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpermq_zmm_k1z_zmmm512b64_imm8],
        Whole(permute_quads),
    ).masks(0).whole();
    VPERMD = Row::lanes(
        "vpermd",
        &[Def(Vector, Full), Use(Vector, Full), Either(Vector, Full)],
        [INVALID, VEX_Vpermd_ymm_ymm_ymmm256],
        [INVALID, EVEX_Vpermd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32],
        Whole(permute_lanes),
    ).masks(0).whole();
}
