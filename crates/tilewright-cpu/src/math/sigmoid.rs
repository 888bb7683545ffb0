//! The logistic function and the hyperbolic tangent.

use super::SIGN;
use super::exp::exp;
use crate::machine::{Builder, Compare, ValueId};

/// `1 / (1 + e^−x)`.
pub fn sigmoid(b: &mut Builder, x: ValueId) -> ValueId {
    let below = b.or_bits(x, SIGN);
    let e = exp(b, below);
    let one = b.splat(1.0);
    let positive = b.compare_f32(Compare::GreaterEqual, x, 0.0);
    let above = b.blend(positive, one, e);
    let sum = b.add_f32(e, 1.0);
    b.div_f32(above, sum)
}

/// The hyperbolic tangent.
pub fn tanh(b: &mut Builder, x: ValueId) -> ValueId {
    let sign_bit = b.splat(SIGN);
    let magnitude = b.andn_bits(sign_bit, x);
    let sign = b.and_bits(x, SIGN);
    let double = b.add_f32(magnitude, magnitude);
    let e = exp(b, double);
    let sum = b.add_f32(e, 1.0);
    let two = b.splat(2.0);
    let part = b.div_f32(two, sum);
    let one = b.splat(1.0);
    let large = b.sub_f32(one, part);
    let square = b.mul_f32(magnitude, magnitude);
    let mut p = b.splat(-5.704_988_7e-3);
    for c in [2.063_908_8e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        p = b.fma_mul(p, square, c);
    }
    let p = b.mul_f32(p, square);
    let small = b.fma_mul(p, magnitude, magnitude);
    let limit = b.compare_f32(Compare::Less, magnitude, 0.625);
    let value = b.blend(limit, small, large);
    b.or_bits(value, sign)
}
