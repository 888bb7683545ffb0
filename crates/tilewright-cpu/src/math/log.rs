//! Logarithms.

use super::exp::scale;
use super::fma_of;
use crate::machine::{Builder, Compare, ValueId};

/// The natural logarithm: −∞ at ±0, NaN below 0.
pub fn log(b: &mut Builder, x: ValueId) -> ValueId {
    let least = b.compare_f32(Compare::Less, x, f32::MIN_POSITIVE);
    // Subnormals times 2^24.
    let scaled = b.mul_f32(x, 16_777_216.0);
    let normal = b.blend(least, scaled, x);
    let (zero, shift) = (b.splat(0.0), b.splat(-24.0));
    let offset = b.blend(least, shift, zero);
    let (m, k) = split(b, normal);
    let k = b.i32_to_f32(k);
    let k = b.add_f32(k, offset);
    let f = b.sub_f32(m, 1.0);
    let value = log_of_parts(b, f, k);
    ends(b, value, x, x)
}

/// `log(1 + x)`: exact near 0, −∞ at −1, NaN below.
pub fn log1p(b: &mut Builder, x: ValueId) -> ValueId {
    let one = b.splat(1.0);
    let u = b.add_f32(x, one);
    let (m, k) = split(b, u);
    let f = b.sub_f32(m, 1.0);
    // What rounding 1 + x has lost, in the scale of m.
    let above = b.sub_f32(u, x);
    let above = b.sub_f32(one, above);
    let below = b.sub_f32(u, one);
    let below = b.sub_f32(x, below);
    let large = b.compare_f32(Compare::Greater, x, 1.0);
    let lost = b.blend(large, above, below);
    let zero = b.splat_bits(0);
    let minus = b.sub_i32(zero, k);
    let most = b.splat_bits(-126_i32 as u32);
    let minus = b.max_i32(minus, most);
    let lost = scale(b, lost, minus);
    let f = b.add_f32(f, lost);
    let k = b.i32_to_f32(k);
    let value = log_of_parts(b, f, k);
    let value = ends(b, value, u, x);
    // Keeps the sign of 0.
    let nothing = b.compare_f32(Compare::Equal, x, 0.0);
    b.blend(nothing, x, value)
}

/// `x = m · 2^k` with `m` in √½..√2, for normal positive `x`.
fn split(b: &mut Builder, x: ValueId) -> (ValueId, ValueId) {
    let root = b.splat(std::f32::consts::FRAC_1_SQRT_2);
    let above = b.sub_i32(x, root);
    let k = b.sar_i32(above, 23);
    let exponent = b.shl_i32(k, 23);
    (b.sub_i32(x, exponent), k)
}

/// `log(1 + f) + k · log 2`, with log 2 in two parts; `k` times the first is exact.
fn log_of_parts(b: &mut Builder, f: ValueId, k: ValueId) -> ValueId {
    let mut p = b.splat(6.750_459e-2);
    let tail = [
        -1.167_127_3e-1,
        1.188_366_7e-1,
        -1.240_606_6e-1,
        1.422_032_3e-1,
        -1.666_799_5e-1,
        2.000_207_3e-1,
        -2.500_001e-1,
        3.333_331_3e-1,
    ];
    for c in tail {
        p = b.fma_mul(p, f, c);
    }
    let square = b.mul_f32(f, f);
    let cube = b.mul_f32(square, f);
    let low = b.mul_f32(k, -2.121_944_4e-4);
    let p = b.fma_mul(p, cube, low);
    let p = fma_of(b, square, -0.5, p);
    let p = b.add_f32(p, f);
    fma_of(b, k, 0.693_359_4, p)
}

/// The logarithm of `u` where it is no positive number: −∞ at 0, +∞ at +∞, NaN below 0 and where `x` is NaN.
fn ends(b: &mut Builder, value: ValueId, u: ValueId, x: ValueId) -> ValueId {
    let infinite = b.compare_f32(Compare::Equal, u, f32::INFINITY);
    let value = b.blend(infinite, u, value);
    let (zero, lowest) = (b.compare_f32(Compare::Equal, u, 0.0), b.splat(f32::NEG_INFINITY));
    let value = b.blend(zero, lowest, value);
    let (negative, nan) = (b.compare_f32(Compare::Less, u, 0.0), b.splat(f32::NAN));
    let value = b.blend(negative, nan, value);
    let unordered = b.compare_f32(Compare::Unordered, x, x);
    b.blend(unordered, x, value)
}
