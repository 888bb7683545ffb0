//! Formats with blocks of 32 elements and one scale.
//!
//! ```text
//! q8_0: d[2] qs[32]           q4_0: d[2] qs[16]           q4_1: d[2] m[2] qs[16]
//!                             q5_0: d[2] qh[4] qs[16]     q5_1: d[2] m[2] qh[4] qs[16]
//! ```
//! Element `i < 16` has the low four bits of `qs[i]`, element `i + 16` the high ones; the fifth bit of element `i` is
//! bit `i` of `qh`, which is little-endian.

use super::block::{Block, bits_and, bits_or, minus, number, product, shifted, sum, times};
use crate::tensor::nest::Expr;
use crate::tensor::ops::Problem;

pub(super) fn q8_0(block: &mut Block) -> Result<Expr, Problem> {
    let q = block.signed(2 + &block.element.clone())?;
    product(number(q)?, block.half(0)?)
}

pub(super) fn q4_0(block: &mut Block) -> Result<Expr, Problem> {
    let q = low_bits(block, 2)?;
    product(number(minus(q, 8)?)?, block.half(0)?)
}

pub(super) fn q4_1(block: &mut Block) -> Result<Expr, Problem> {
    let q = low_bits(block, 4)?;
    sum(product(number(q)?, block.half(0)?)?, block.half(2)?)
}

pub(super) fn q5_0(block: &mut Block) -> Result<Expr, Problem> {
    let q = bits_or(low_bits(block, 6)?, high_bit(block, 2)?)?;
    product(number(minus(q, 16)?)?, block.half(0)?)
}

pub(super) fn q5_1(block: &mut Block) -> Result<Expr, Problem> {
    let q = bits_or(low_bits(block, 8)?, high_bit(block, 4)?)?;
    sum(product(number(q)?, block.half(0)?)?, block.half(2)?)
}

/// The four bits of the element in `qs`.
fn low_bits(block: &mut Block, qs: i64) -> Result<Expr, Problem> {
    let i = block.element.clone();
    let byte = block.byte(i.modulo(16) + qs)?;
    bits_and(shifted(byte, i.floor_div(16) * 4)?, 15)
}

/// The fifth bit of the element, in place.
fn high_bit(block: &mut Block, qh: i64) -> Result<Expr, Problem> {
    let i = block.element.clone();
    let byte = block.byte(i.floor_div(8) + qh)?;
    times(bits_and(shifted(byte, i.modulo(8))?, 1)?, 16)
}
