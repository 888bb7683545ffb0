//! Powers, in lanes of 64 bits: `|x|^y = 2^(y · log2 |x|)` with both functions in doubles, rounded once more at the end.

use super::{SIGN, magnitude};
use crate::machine::{Builder, Compare, ValueId};

/// `x^y`: 1 where `x` is 1 or `y` is 0, whatever the other is; NaN where `x` is negative and finite and `y` is not whole.
pub fn pow(b: &mut Builder, x: ValueId, y: ValueId) -> ValueId {
    let size = magnitude(b, x);
    let halves = [0, 1].map(|which| {
        let (x, y) = (b.half(size, which), b.half(y, which));
        let (x, y) = (b.f32_to_f64(x), b.f32_to_f64(y));
        let log = log2(b, x);
        let exponent = b.mul_f64(y, log);
        // 1 to any power, ∞ too, is 1.
        let (one, zero) = (b.splat_f64(1.0), b.splat_f64(0.0));
        let unit = b.compare_f64(Compare::Equal, x, one);
        let exponent = b.blend_wide(unit, zero, exponent);
        // NaN stays one.
        let unordered = b.compare_f64(Compare::Unordered, y, y);
        let exponent = b.blend_wide(unordered, y, exponent);
        let power = exp2(b, exponent);
        b.f64_to_f32(power)
    });
    let value = b.join_halves(halves[0], halves[1]);
    let cut = b.round_f32(y, 3);
    let whole = b.compare_f32(Compare::Equal, cut, y);
    let half = b.mul_f32(y, 0.5);
    let cut = b.round_f32(half, 3);
    let uneven = b.compare_f32(Compare::NotEqual, cut, half);
    let odd = b.mask_and(whole, uneven);
    let (sign, zero) = (b.and_bits(x, SIGN), b.splat(0.0));
    let sign = b.blend(odd, sign, zero);
    let value = b.xor_bits(value, sign);
    let negative = b.compare_f32(Compare::Less, x, 0.0);
    let finite = b.compare_f32(Compare::Greater, x, f32::NEG_INFINITY);
    let negative = b.mask_and(negative, finite);
    let bad = b.mask_without(negative, whole);
    let nan = b.splat(f32::NAN);
    let value = b.blend(bad, nan, value);
    let first = b.compare_f32(Compare::Equal, x, 1.0);
    let second = b.compare_f32(Compare::Equal, y, 0.0);
    let always = b.mask_or(first, second);
    let one = b.splat(1.0);
    b.blend(always, one, value)
}

/// The binary logarithm of doubles that are singles not below 0: by the series of the area tangent, to about 2⁻⁴⁰.
fn log2(b: &mut Builder, x: ValueId) -> ValueId {
    let root = b.splat_f64(std::f64::consts::FRAC_1_SQRT_2);
    let above = b.sub_i64(x, root);
    let k = b.sar_i64(above, 52);
    let exponent = b.shl_i64(k, 52);
    let m = b.sub_i64(x, exponent);
    let k = b.i64_to_f64(k);
    let one = b.splat_f64(1.0);
    let (below, above) = (b.sub_f64(m, one), b.add_f64(m, one));
    let s = b.div_f64(below, above);
    let square = b.mul_f64(s, s);
    let mut p = b.splat_f64(1.0 / 15.0);
    for n in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        let c = b.splat_f64(1.0 / n);
        p = b.fma_mul_f64(p, square, c);
    }
    let twice = b.splat_f64(2.0 * std::f64::consts::LOG2_E);
    let s = b.mul_f64(s, twice);
    let value = b.fma_mul_f64(p, s, k);
    let (zero, infinity, lowest) =
        (b.splat_f64(0.0), b.splat_f64(f64::INFINITY), b.splat_f64(f64::NEG_INFINITY));
    let at_zero = b.compare_f64(Compare::Equal, x, zero);
    let value = b.blend_wide(at_zero, lowest, value);
    let finite = b.compare_f64(Compare::Less, x, infinity);
    b.blend_wide(finite, value, x)
}

/// `2^e` in doubles: by its series to about 2⁻³⁸, clamped where a single is 0 or infinite; NaN stays one.
fn exp2(b: &mut Builder, e: ValueId) -> ValueId {
    let (low, high) = (b.splat_f64(-160.0), b.splat_f64(130.0));
    let e = b.max_f64(low, e);
    let e = b.min_f64(high, e);
    let n = b.round_f64(e, 0);
    let r = b.sub_f64(e, n);
    let mut term = 1.0;
    let series: Vec<f64> = (1..=10)
        .map(|k| {
            term *= std::f64::consts::LN_2 / f64::from(k);
            term
        })
        .collect();
    let mut p = b.splat_f64(series[9]);
    for c in series[..9].iter().rev().chain(&[1.0]) {
        let c = b.splat_f64(*c);
        p = b.fma_mul_f64(p, r, c);
    }
    // The significand of 1.5 · 2⁵² + n ends in n, which is added to the exponent.
    let bias = b.splat_f64(6_755_399_441_055_744.0);
    let n = b.add_f64(n, bias);
    let n = b.shl_i64(n, 52);
    b.add_i64(p, n)
}
