//! Powers of e and of 2.

use super::fma_of;
use crate::machine::{Builder, ValueId};

/// `e^x`: 0 below about −103.97, subnormals where the result is one, +∞ above about 88.72.
pub fn exp(b: &mut Builder, x: ValueId) -> ValueId {
    let (low, high) = (b.splat(-104.0), b.splat(89.0));
    // A NaN is the second operand and passes.
    let x = b.max_f32(low, x);
    let x = b.min_f32(high, x);
    let scaled = b.mul_f32(x, std::f32::consts::LOG2_E);
    let n = b.round_f32(scaled, 0);
    // ln 2 in two parts; n times the first is exact.
    let r = fma_of(b, n, -0.693_359_4, x);
    let r = fma_of(b, n, 2.121_944_4e-4, r);
    let mut p = b.splat(1.987_569_2e-4);
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = b.fma_mul(p, r, c);
    }
    let square = b.mul_f32(r, r);
    let p = b.fma_mul(p, square, r);
    let p = b.add_f32(p, 1.0);
    times_power_of_2(b, p, n)
}

/// `2^x`: 0 below −150, subnormals where the result is one, +∞ from 128 on.
pub fn exp2(b: &mut Builder, x: ValueId) -> ValueId {
    let (low, high) = (b.splat(-151.0), b.splat(128.0));
    let x = b.max_f32(low, x);
    let x = b.min_f32(high, x);
    let n = b.round_f32(x, 0);
    let r = b.sub_f32(x, n);
    let mut p = b.splat(1.432_141_7e-5);
    let tail = [1.545_220_3e-4, 1.333_796_5e-3, 9.618_087e-3, 5.550_405e-2, 2.402_265e-1, 6.931_472e-1];
    for c in tail {
        p = b.fma_mul(p, r, c);
    }
    let one = b.splat(1.0);
    let p = b.fma_mul(p, r, one);
    times_power_of_2(b, p, n)
}

/// `p · 2^n` for whole `n` in −151..=128, in two factors, so that neither leaves the range and a subnormal result is rounded
/// once.
fn times_power_of_2(b: &mut Builder, p: ValueId, n: ValueId) -> ValueId {
    let n = b.f32_to_i32(n);
    let half = b.sar_i32(n, 1);
    let rest = b.sub_i32(n, half);
    let p = scale(b, p, half);
    scale(b, p, rest)
}

/// `p · 2^n` for `n` in −126..=127.
pub(super) fn scale(b: &mut Builder, p: ValueId, n: ValueId) -> ValueId {
    let one = b.splat(1.0);
    let bits = b.shl_i32(n, 23);
    let factor = b.add_i32(bits, one);
    b.mul_f32(p, factor)
}
