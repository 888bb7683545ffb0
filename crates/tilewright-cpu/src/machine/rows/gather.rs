//! Gather and scatter, by indices of 32 bits. The predicate of an AVX-512 gather or scatter is used up, and so is the mask of
//! an AVX2 gather; AVX2 has no scatter.

use crate::machine::eval::{Fault, Step, lane};
use crate::machine::ir::Class::Vector;
use crate::machine::row::Meaning::Whole;
use crate::machine::row::Row;
use crate::machine::row::Slot::{Consumed, Lanes, Lost, Tied, Use};
use crate::machine::row::Span::{Full, Half};
use iced_x86::Code::*;

/// The address of lane `i`.
fn lane_address(step: &Step<'_>, n: usize, i: usize) -> Result<u64, Fault> {
    match step.address(n)? {
        (base, Some((lanes, scale))) => {
            Ok(base.wrapping_add_signed(i64::from(lane(&lanes, i) as i32) * i64::from(scale)))
        }
        _ => Err(Fault::Malformed(step.name)),
    }
}

fn gather(step: &mut Step<'_>, size: usize, on: impl Fn(usize) -> bool) -> Result<(), Fault> {
    let mut out = step.vector(0)?;
    out[step.width.bytes()..].fill(0);
    for i in (0..step.width.bytes() / size).filter(|i| on(*i)) {
        let address = lane_address(step, 1, i)?;
        out[size * i..size * (i + 1)].copy_from_slice(step.memory.read(address, size)?);
    }
    step.give(out);
    Ok(())
}

fn gather_by_lanes(step: &mut Step<'_>, size: usize) -> Result<(), Fault> {
    let mask = step.vector(2)?;
    gather(step, size, |i| mask[size * (i + 1) - 1] >> 7 == 1)
}

fn gather_by_bits(step: &mut Step<'_>, size: usize) -> Result<(), Fault> {
    let mask = step.bits(2)?;
    gather(step, size, |i| mask >> i & 1 == 1)
}

/// Lanes in order: of two at one address, the last stays.
fn scatter_by_bits(step: &mut Step<'_>, size: usize) -> Result<(), Fault> {
    let (value, mask) = (step.vector(1)?, step.bits(2)?);
    for i in (0..step.width.bytes() / size).filter(|i| mask >> i & 1 == 1) {
        let address = lane_address(step, 0, i)?;
        step.memory.write(address, &value[size * i..size * (i + 1)])?;
    }
    Ok(())
}

rows! {
    VGATHERDPS = Row::lanes(
        "vgatherdps",
        &[Tied(Vector, Full), Lanes(Full), Lost],
        [VEX_Vgatherdps_xmm_vm32x_xmm, VEX_Vgatherdps_ymm_vm32y_ymm],
        [INVALID, INVALID, INVALID],
        Whole(|s| gather_by_lanes(s, 4)),
    ).masks(0).whole();
    VGATHERDPS_K = Row::lanes(
        "vgatherdps.k",
        &[Tied(Vector, Full), Lanes(Full), Consumed],
        [INVALID, INVALID],
        [EVEX_Vgatherdps_xmm_k1_vm32x, EVEX_Vgatherdps_ymm_k1_vm32y, EVEX_Vgatherdps_zmm_k1_vm32z],
        Whole(|s| gather_by_bits(s, 4)),
    ).masks(0).whole();
    VSCATTERDPS_K = Row::lanes(
        "vscatterdps.k",
        &[Lanes(Full), Use(Vector, Full), Consumed],
        [INVALID, INVALID],
        [EVEX_Vscatterdps_vm32x_k1_xmm, EVEX_Vscatterdps_vm32y_k1_ymm, EVEX_Vscatterdps_vm32z_k1_zmm],
        Whole(|s| scatter_by_bits(s, 4)),
    ).masks(0).whole().effect();
    VGATHERDPD = Row::wide(
        "vgatherdpd",
        &[Tied(Vector, Full), Lanes(Half), Lost],
        [VEX_Vgatherdpd_xmm_vm32x_xmm, VEX_Vgatherdpd_ymm_vm32x_ymm],
        [INVALID, INVALID, INVALID],
        Whole(|s| gather_by_lanes(s, 8)),
    ).masks(0).whole();
    VGATHERDPD_K = Row::wide(
        "vgatherdpd.k",
        &[Tied(Vector, Full), Lanes(Half), Consumed],
        [INVALID, INVALID],
        [EVEX_Vgatherdpd_xmm_k1_vm32x, EVEX_Vgatherdpd_ymm_k1_vm32x, EVEX_Vgatherdpd_zmm_k1_vm32y],
        Whole(|s| gather_by_bits(s, 8)),
    ).masks(0).whole();
    VSCATTERDPD_K = Row::wide(
        "vscatterdpd.k",
        &[Lanes(Half), Use(Vector, Full), Consumed],
        [INVALID, INVALID],
        [EVEX_Vscatterdpd_vm32x_k1_xmm, EVEX_Vscatterdpd_vm32x_k1_ymm, EVEX_Vscatterdpd_vm32y_k1_zmm],
        Whole(|s| scatter_by_bits(s, 8)),
    ).masks(0).whole().effect();
}
