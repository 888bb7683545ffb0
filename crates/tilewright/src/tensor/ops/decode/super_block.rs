//! Formats with blocks of 256 elements and a scale for each part of a block.
//!
//! ```text
//! q4_k: d[2] dmin[2] scales[12] qs[128]
//! q5_k: d[2] dmin[2] scales[12] qh[32] qs[128]
//! q6_k: ql[128] qh[64] scales[16] d[2]
//! ```

use super::block::{Block, bits_and, bits_or, choose, difference, minus, number, product, shifted, times};
use crate::dim::{Cond, Dim};
use crate::tensor::nest::Expr;
use crate::tensor::ops::Problem;

pub(super) fn q4_k(block: &mut Block) -> Result<Expr, Problem> {
    let q = low_bits(block, 16)?;
    scaled(block, number(q)?)
}

pub(super) fn q5_k(block: &mut Block) -> Result<Expr, Problem> {
    let i = block.element.clone();
    let low = low_bits(block, 48)?;
    let byte = block.byte(i.modulo(32) + 16)?;
    let high = times(bits_and(shifted(byte, i.floor_div(32))?, 1)?, 16)?;
    scaled(block, number(bits_or(low, high)?)?)
}

/// The four bits of the element in `qs`: 64 elements share 32 bytes, the first 32 of them the low bits.
fn low_bits(block: &mut Block, qs: i64) -> Result<Expr, Problem> {
    let i = block.element.clone();
    let byte = block.byte(i.floor_div(64) * 32 + i.modulo(32) + qs)?;
    bits_and(shifted(byte, i.floor_div(32).modulo(2) * 4)?, 15)
}

/// `d·scale·q − dmin·min`, with the six-bit scale and min of the element's 32.
fn scaled(block: &mut Block, q: Expr) -> Result<Expr, Problem> {
    let part = block.element.floor_div(32);
    let scale = product(block.half(0)?, number(six_bits(block, &part, false)?)?)?;
    let least = product(block.half(2)?, number(six_bits(block, &part, true)?)?)?;
    difference(product(scale, q)?, least)
}

/// The scale or the min of a part. Parts 0 to 3 have the low six bits of bytes `part` and `part + 4`; parts 4 to 7
/// have four bits in byte `part + 4`, low for the scale and high for the min, and the two high bits of bytes
/// `part - 4` and `part`.
fn six_bits(block: &mut Block, part: &Dim, min: bool) -> Result<Expr, Problem> {
    const SCALES: i64 = 4;
    let early = Cond::lt(part, 4);
    let late = Cond::ge(part, 4);
    let whole = block.byte_when(part + (SCALES + if min { 4 } else { 0 }), early.clone())?;
    let low = block.byte_when(part + (SCALES + 4), late.clone())?;
    let high = block.byte_when(part + (SCALES - if min { 0 } else { 4 }), late)?;
    let low = bits_and(shifted(low, if min { 4 } else { 0 })?, 15)?;
    let high = times(shifted(high, 6)?, 16)?;
    choose(early, bits_and(whole, 63)?, bits_or(low, high)?)
}

/// Half a block has 128 elements, in four quarters of 32: quarters 0 and 2 share 32 bytes of `ql`, 1 and 3 the next;
/// all four share 32 bytes of `qh`.
pub(super) fn q6_k(block: &mut Block) -> Result<Expr, Problem> {
    let i = block.element.clone();
    let (half, quarter, at) = (i.floor_div(128), i.floor_div(32).modulo(4), i.modulo(32));
    let byte = block.byte(&half * 64 + quarter.modulo(2) * 32 + &at)?;
    let low = bits_and(shifted(byte, quarter.floor_div(2) * 4)?, 15)?;
    let byte = block.byte(&half * 32 + &at + 128)?;
    let high = times(bits_and(shifted(byte, &quarter * 2)?, 3)?, 16)?;
    let q = minus(bits_or(low, high)?, 32)?;
    let scale = block.signed(half * 8 + quarter * 2 + at.floor_div(16) + 192)?;
    product(product(block.half(208)?, number(scale)?)?, number(q)?)
}
