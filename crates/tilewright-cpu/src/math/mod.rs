//! Functions of f32 as machine instructions: polynomials over fused multiply-adds, one program for every level, so that
//! results are bit-identical at all of them. NaN gives NaN.
//!
//! | function | largest error, over all f32 | method |
//! | --- | --- | --- |
//! | [`exp`] | 1 ulp | Cody–Waite reduction, degree 6 |
//! | [`sigmoid`] | 2.5 ulp | by `exp(−\|x\|)` |
//! | [`tanh`] | 2.5 ulp | odd polynomial below 0.625, else by `exp(2\|x\|)` |
//!
//! An ulp of a subnormal result is 2⁻¹⁴⁹. Coefficients are those of the Cephes library (`expf`, `tanhf`).

use crate::machine::{Builder, Compare, ValueId};

#[cfg(test)]
mod tests;

const SIGN: f32 = -0.0;

/// `e^x`: 0 below about −103.97, subnormals where the result is one, +∞ above about 88.72.
pub fn exp(b: &mut Builder, x: ValueId) -> ValueId {
    let (low, high) = (b.splat(-104.0), b.splat(89.0));
    // A NaN is the second operand and passes.
    let x = b.max_f32(low, x);
    let x = b.min_f32(high, x);
    let scaled = b.mul_f32(x, std::f32::consts::LOG2_E);
    let n = b.round_f32(scaled, 0);
    // ln 2 in two parts; n times the first is exact.
    let r = b.fma_mul_of(n, -0.693_359_4, x);
    let r = b.fma_mul_of(n, 2.121_944_4e-4, r);
    let mut p = b.splat(1.987_569_2e-4);
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = b.fma_mul(p, r, c);
    }
    let square = b.mul_f32(r, r);
    let p = b.fma_mul(p, square, r);
    let p = b.add_f32(p, 1.0);
    // 2^n in two factors, so that neither leaves the range and a subnormal result is rounded once.
    let n = b.f32_to_i32(n);
    let half = b.sar_i32(n, 1);
    let rest = b.sub_i32(n, half);
    let p = scale(b, p, half);
    scale(b, p, rest)
}

/// `p · 2^n` for `n` in −126..=127.
fn scale(b: &mut Builder, p: ValueId, n: ValueId) -> ValueId {
    let one = b.splat(1.0);
    let bits = b.shl_i32(n, 23);
    let factor = b.add_i32(bits, one);
    b.mul_f32(p, factor)
}

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

impl Builder {
    /// `a · factor + c`, with the factor a constant.
    fn fma_mul_of(&mut self, a: ValueId, factor: f32, c: ValueId) -> ValueId {
        self.fma_add(c, a, factor)
    }
}
