//! Sine and cosine of radians, right for every f32.
//!
//! `|x| = q · π/2 + r` with `r` in −π/4..π/4. Below 2¹⁶, π/2 is three singles, of which each product with `q` is exact inside a
//! fused multiply-add. From 2¹⁶ on the bits of 2/π that matter for the exponent of `x`, 96 of them, are multiplied by its 24-bit
//! significand in integers (Payne and Hanek, 1983): the product modulo 4 has 62 bits behind the point, and no single is nearer
//! to a multiple of π/2 than about 2⁻³⁰.

use super::{SIGN, magnitude};
use crate::machine::{Builder, Compare, Cond, Mem, ValueId};

/// The first single that takes the long way.
const LARGE: f32 = 65536.0;

/// 32 zeros, and the first 224 bits of 2/π.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];

/// The sine; NaN at ±∞.
pub fn sin(b: &mut Builder, x: ValueId) -> ValueId {
    let (quadrant, r) = reduce(b, x);
    let value = by_quadrant(b, quadrant, r);
    let sign = b.and_bits(x, SIGN);
    let value = b.xor_bits(value, sign);
    ends(b, value, x)
}

/// The cosine; NaN at ±∞.
pub fn cos(b: &mut Builder, x: ValueId) -> ValueId {
    let (quadrant, r) = reduce(b, x);
    let one = b.splat_bits(1);
    let quadrant = b.add_i32(quadrant, one);
    let value = by_quadrant(b, quadrant, r);
    ends(b, value, x)
}

/// NaN where `x` is infinite or one.
fn ends(b: &mut Builder, value: ValueId, x: ValueId) -> ValueId {
    let size = magnitude(b, x);
    let finite = b.compare_f32(Compare::Less, size, f32::INFINITY);
    let nan = b.sub_f32(x, x);
    b.blend(finite, value, nan)
}

/// The sine of `quadrant · π/2 + r`.
fn by_quadrant(b: &mut Builder, quadrant: ValueId, r: ValueId) -> ValueId {
    let z = b.mul_f32(r, r);
    let mut s = b.splat(2.837_513_2e-6);
    for c in [-1.985_351e-4, 8.333_38e-3, -1.666_666_7e-1] {
        s = b.fma_mul(s, z, c);
    }
    let s = b.mul_f32(s, z);
    let s = b.fma_mul(s, r, r);
    let mut c = b.splat(-2.888_089e-7);
    for k in [2.482_202e-5, -1.388_898e-3, 4.166_666_8e-2, -0.5] {
        c = b.fma_mul(c, z, k);
    }
    let one = b.splat(1.0);
    let c = b.fma_mul(c, z, one);
    let bit = b.splat_bits(1);
    let odd = b.and_bits(quadrant, bit);
    let odd = b.nonzero_i32(odd);
    let value = b.blend(odd, c, s);
    // Bit 1 of the quadrant is the sign.
    let sign = b.shl_i32(quadrant, 30);
    let sign = b.and_bits(sign, SIGN);
    b.xor_bits(value, sign)
}

/// The quadrant, modulo 4 in its low bits, and what is left, of `|x|`.
fn reduce(b: &mut Builder, x: ValueId) -> (ValueId, ValueId) {
    let x = magnitude(b, x);
    let q = b.mul_f32(x, std::f32::consts::FRAC_2_PI);
    let q = b.round_f32(q, 0);
    let r = b.fnma_add(x, q, std::f32::consts::FRAC_PI_2);
    let r = b.fnma_add(r, q, -4.371_139e-8);
    let r = b.fnma_add(r, q, -1.715_124_5e-15);
    let q = b.f32_to_i32(q);
    let large = b.compare_f32(Compare::GreaterEqual, x, LARGE);
    let any = b.mask_bits(large);
    let classes = [b.class(q), b.class(r)];
    let (long, joined) = (b.block("large", &[]), b.block("reduced", &classes));
    b.branch(Cond::NotEqual, any, 0, long, &[], joined, &[q, r]);
    b.switch_to(long);
    let (long_q, long_r) = reduce_large(b, x);
    let (q, r) = (b.blend(large, long_q, q), b.blend(large, long_r, r));
    b.jump(joined, &[q, r]);
    b.switch_to(joined);
    let out = b.params(joined);
    (out[0], out[1])
}

/// The same for lanes from `LARGE` on; what it gives for others is of no use.
fn reduce_large(b: &mut Builder, x: ValueId) -> (ValueId, ValueId) {
    let exponent = b.shr_u32(x, 23);
    let (field, implied) = (b.splat_bits(0x007f_ffff), b.splat_bits(0x0080_0000));
    let m = b.and_bits(x, field);
    let m = b.or_bits(m, implied);
    // The first bit that matters: with x = m · 2^(exponent − 150), bits of a weight of 4 and above drop out.
    let offset = b.splat_bits(120);
    let first = b.sub_i32(exponent, offset);
    let index = b.sar_i32(first, 5);
    let low = b.splat_bits(31);
    let left = b.and_bits(first, low);
    let all = b.splat_bits(32);
    let right = b.sub_i32(all, left);
    let table: Vec<u8> = TWO_OVER_PI.iter().chain(&TWO_OVER_PI).flat_map(|word| word.to_le_bytes()).collect();
    let table = b.constant(table);
    let table = b.load(Mem::constant(table));
    let word = |b: &mut Builder, k: u32| {
        let k = b.splat_bits(k);
        let at = b.add_i32(index, k);
        b.permute(table, at)
    };
    let words: Vec<ValueId> = (0..4).map(|k| word(b, k)).collect();
    let windows: Vec<ValueId> = words
        .windows(2)
        .map(|pair| {
            let high = b.shl_each(pair[0], left);
            let low = b.shr_each(pair[1], right);
            b.or_bits(high, low)
        })
        .collect();
    let halves: Vec<(ValueId, ValueId)> = (0..2)
        .map(|which| {
            let part = |b: &mut Builder, value| {
                let half = b.half(value, which);
                b.u32_to_i64(half)
            };
            let m = part(b, m);
            let windows = [0, 1, 2].map(|k| part(b, windows[k]));
            remainder(b, m, windows)
        })
        .collect();
    (b.join_halves(halves[0].0, halves[1].0), b.join_halves(halves[0].1, halves[1].1))
}

/// In lanes of 64 bits: the quadrant and the rest, each as half a vector, of `m` times a number of 96 bits, modulo 2⁹⁶.
fn remainder(b: &mut Builder, m: ValueId, words: [ValueId; 3]) -> (ValueId, ValueId) {
    let [high, middle, low] = words.map(|word| b.mul_low_u32(m, word));
    let high = b.shl_i64(high, 32);
    let low = b.shr_u64(low, 32);
    let sum = b.add_i64(high, middle);
    let sum = b.add_i64(sum, low);
    let half = b.splat_bits64(1 << 61);
    let rounded = b.add_i64(sum, half);
    let quadrant = b.shr_u64(rounded, 62);
    let whole = b.shl_i64(quadrant, 62);
    let rest = b.sub_i64(sum, whole);
    let rest = b.i64_to_f64(rest);
    let unit = b.splat_f64(std::f64::consts::FRAC_PI_2 / (1_u64 << 62) as f64);
    let rest = b.mul_f64(rest, unit);
    (b.narrow_to_32(quadrant), b.f64_to_f32(rest))
}
