//! The error function.

use super::exp::exp;
use super::{SIGN, magnitude};
use crate::machine::{Builder, Compare, ValueId};

/// The error function: an odd polynomial below 0.98, else `1 − e^(t · Q(t))`, which is 1 from 4 on.
pub fn erf(b: &mut Builder, x: ValueId) -> ValueId {
    let t = magnitude(b, x);
    let sign = b.and_bits(x, SIGN);
    let square = b.mul_f32(t, t);
    let mut p = b.splat(7.806_903e-5);
    let tail =
        [-7.997_853e-4, 5.187_162e-3, -2.685_334_7e-2, 1.128_357_9e-1, -3.761_262_6e-1, 1.283_791_7e-1];
    for c in tail {
        p = b.fma_mul(p, square, c);
    }
    let small = b.fma_mul(p, t, t);
    let most = b.splat(4.0);
    // A NaN is the second operand and passes.
    let near = b.min_f32(most, t);
    let mut q = b.splat(-3.947_139e-6);
    let tail = [
        3.332_793e-5,
        1.130_287_1e-4,
        -3.108_516_8e-3,
        2.296_83e-2,
        -1.055_474e-1,
        -6.354_754e-1,
        -1.128_584_9,
    ];
    for c in tail {
        q = b.fma_mul(q, near, c);
    }
    let q = b.mul_f32(q, near);
    let e = exp(b, q);
    let one = b.splat(1.0);
    let large = b.sub_f32(one, e);
    let limit = b.compare_f32(Compare::Less, t, 0.98);
    let value = b.blend(limit, small, large);
    b.or_bits(value, sign)
}
