//! Evaluation of tensor programs: meanings, numerics, sizes, and what is refused.

mod tensor_tools;

use tensor_tools::*;
use tilewright::error::Error;
use tilewright::tensor::eval::{MAX_ELEMENTS, Numerics};
use tilewright::tensor::{Array, DType, Data, Scalar};

const SOFTMAX: &str = include_str!("../../../programs/softmax.tensor");
const ATTENTION: &str = include_str!("../../../programs/attention_causal.tensor");
const MATMUL: &str = "program p(a: f32[M, K], b: f32[N, K]) -> f32[M, N]
where M in 0..=4096, N in 0..=4096, K in 0..=4096
{
  return contract a[m, k] b[n, k] -> [M: m, N: n]
}";
const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
fn a_large_product_takes_about_a_second() {
    let (m, n, k) = (256, 512, 1024);
    let mut random = Random::new(1);
    let (x, y) = (random.floats(m * k), random.floats(n * k));
    let arrays = [f32s(&[m, k], &x), f32s(&[n, k], &y)];
    let symbols = [("M", m as i64), ("N", n as i64), ("K", k as i64)];
    for numerics in BOTH {
        let start = std::time::Instant::now();
        let c = run(MATMUL, &symbols, &arrays, numerics);
        let seconds = start.elapsed().as_secs_f64();
        assert!(seconds < 20.0, "{numerics:?}: {seconds} s");
        for (row, column) in [(0, 0), (3, 5), (m - 1, n - 1)] {
            let terms = (0..k).map(|i| x[row * k + i] * y[column * k + i]);
            let expected = match numerics {
                Numerics::F64 => terms.fold(0.0, |sum, term| sum + term),
                Numerics::Own => f64::from(terms.fold(0f32, |sum, term| sum + term as f32)),
            };
            assert_eq!(c.get(row * n + column).as_f64(), expected);
        }
    }
}

#[test]
fn accumulation_rounds_in_index_order() {
    let source = "program p(x: bf16[R, D]) -> bf16[R], bf16[R], bf16[R]
where R in 0..=9, D in 0..=999
{
  a = sum x over D
  b = sum x over D accumulate bf16
  c = contract x[R, D] x[R, D] accumulate bf16 -> [R]
  return a, b, c
}";
    // In bf16 a running sum of ones stops at 256.
    let x = floats(DType::Bf16, &[1, 300], &[1.0; 300]);
    let results = run_all(source, &[("R", 1), ("D", 300)], std::slice::from_ref(&x), Numerics::Own);
    exact(&results[0], &[300.0]);
    exact(&results[1], &[256.0]);
    exact(&results[2], &[256.0]);
    let results = run_all(source, &[("R", 1), ("D", 300)], &[x], Numerics::F64);
    exact(&results[1], &[300.0]);
    // Each product is rounded before it is added: 1.0078125² = 1.01568603515625 rounds to 1.015625.
    let x = floats(DType::Bf16, &[1, 1], &[1.007_812_5]);
    let results = run_all(source, &[("R", 1), ("D", 1)], &[x], Numerics::Own);
    exact(&results[2], &[1.015_625]);
}

#[test]
fn elementwise_results_are_rounded_once() {
    let source = "program p(x: bf16[i: 3], y: u8[i: 3], z: i32[i: 3]) -> bf16[i: 3], u8[i: 3], i32[i: 3], bool[i: 3], bf16[i: 3]
{
  a = mul x 0.1
  b = add y 200
  c = mul z z
  d = lt x 0.1
  e = cast z to bf16
  return a, b, c, d, e
}";
    let arrays = [
        floats(DType::Bf16, &[3], &[1.0, 3.0, 0.100_097_656_25]),
        bytes(&[3], &[1, 55, 56]),
        ints(&[3], &[3, -2, 65536 + 1]),
    ];
    let results = run_all(source, &[], &arrays, Numerics::Own);
    // 0.1 is 0.10009765625 in bf16, in the comparison too; 3 times that is 0.30029296875, which rounds to even.
    exact(&results[0], &[0.100_097_656_25, 0.300_781_25, 0.010_009_765_625]);
    exact(&results[1], &[201., 255., 0.]);
    exact(&results[2], &[9., 4., 131_073.]);
    exact(&results[3], &[0., 0., 0.]);
    exact(&results[4], &[3., -2., 65536.]);
    let results = run_all(source, &[], &arrays, Numerics::F64);
    close(&results[0], &[0.1, 0.3, 0.010_009_765_625], 1e-15);
    exact(&results[1], &[201., 255., 0.]);
    exact(&results[3], &[0., 0., 0.]);
    exact(&results[4], &[3., -2., 65537.]);
}

#[test]
fn reductions_over_several_axes() {
    let source = "program p(x: f32[r: R, i: I, j: J]) -> f32[r: R], f32[r: R], f32[r: R], f32[r: R], i32[r: R], i32[r: R], i32[i: I]
where R in 0..=9, I in 0..=9, J in 0..=9
{
  a = sum x over i, j
  b = prod x over i, j
  c = max x over i, j
  d = min x over i, j
  e = argmax x over i, j
  f = argmin x over i, j
  g = argmax x over r, j
  return a, b, c, d, e, f, g
}";
    let x = [1., 2., 5., 4., 5., -3., 2., -4., 2., 0., 0., NAN];
    let results = run_all(source, &[("R", 2), ("I", 2), ("J", 3)], &[f32s(&[2, 2, 3], &x)], Numerics::Own);
    exact(&results[0], &[14., NAN]);
    exact(&results[1], &[-600., NAN]);
    exact(&results[2], &[5., NAN]);
    exact(&results[3], &[-3., NAN]);
    exact(&results[4], &[2., 5.]);
    exact(&results[5], &[5., 5.]);
    exact(&results[6], &[2., 5.]);
    // C24: empty reductions.
    let results = run_all(source, &[("R", 1), ("I", 0), ("J", 3)], &[f32s(&[1, 0, 3], &[])], Numerics::Own);
    for (k, identity) in [0., 1., -INF, INF, -1., -1.].into_iter().enumerate() {
        exact(&results[k], &[identity]);
    }
    assert!(results[6].is_empty());
}

#[test]
fn c24_logsumexp_of_nothing_and_reduction_of_a_scalar() {
    let source = "program p(x: f32[r: R, d: D], i: i32[r: R, d: D], s: f32) -> f32[r: R], i32[r: R], f32
where R in 0..=9, D in 0..=9
{
  e = exp x
  t = sum e over d
  l = log t
  m = max i over d
  w = mul s 2.0
  return l, m, w
}";
    let arrays = [f32s(&[2, 0], &[]), ints(&[2, 0], &[]), f32s(&[], &[3.0])];
    let results = run_all(source, &[("R", 2), ("D", 0)], &arrays, Numerics::Own);
    exact(&results[0], &[-INF, -INF]);
    exact(&results[1], &[f64::from(i32::MIN); 2]);
    exact(&results[2], &[6.0]);
}

#[test]
fn c23_empty_products() {
    for (m, n, k) in [(16, 16, 0), (0, 1, 2), (3, 0, 0), (0, 0, 5), (1, 1, 1)] {
        let (a, b) = (f32s(&[m, k], &vec![2.0; m * k]), f32s(&[n, k], &vec![3.0; n * k]));
        let c = run(MATMUL, &[("M", m as i64), ("N", n as i64), ("K", k as i64)], &[a, b], Numerics::Own);
        assert_eq!(c.extents, [m, n]);
        exact(&c, &vec![6.0 * k as f64; m * n]);
    }
}

#[test]
fn c02_softmax_of_infinities_and_nan_is_nan() {
    for row in [[-INF, -INF, -INF], [INF, 1.0, 2.0], [1.0, NAN, 3.0]] {
        for numerics in BOTH {
            let y = run(SOFTMAX, &[("R", 1), ("C", 3)], &[f32s(&[1, 3], &row)], numerics);
            exact(&y, &[NAN; 3]);
        }
    }
    // C4, C5.
    for row in [[-60000.0, -60001.0], [2000.0, 1999.0], [0.0, -1.0]] {
        let y = run(SOFTMAX, &[("R", 1), ("C", 2)], &[f32s(&[1, 2], &row)], Numerics::Own);
        close(&y, &[0.731_058_6, 0.268_941_4], 1e-6);
    }
}

/// Attention by its definition; a row that sees no key is 0.
fn attention(s: usize, t: usize, d: usize, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; s * d];
    for i in 0..s {
        let seen: Vec<usize> = (0..t).filter(|&j| (j as i64) <= i as i64 + t as i64 - s as i64).collect();
        let score = |j: usize| (0..d).map(|c| q[i * d + c] * k[j * d + c]).sum::<f64>() / (d as f64).sqrt();
        let weights: Vec<f64> = seen.iter().map(|&j| score(j).exp()).collect();
        let total: f64 = weights.iter().sum();
        for c in 0..d {
            if !seen.is_empty() {
                out[i * d + c] =
                    seen.iter().zip(&weights).map(|(&j, w)| w * v[j * d + c]).sum::<f64>() / total;
            }
        }
    }
    out
}

#[test]
fn c01_c08_causal_attention() {
    let mut random = Random::new(5);
    for (s, t) in [(2, 5), (5, 2), (1, 1), (0, 3), (3, 0), (7, 7)] {
        let d = 4;
        let (q, k, v) = (random.floats(s * d), random.floats(t * d), random.floats(t * d));
        let round = |x: &[f64]| -> Vec<f64> {
            x.iter().map(|x| DType::Bf16.round(Scalar::Float(*x)).as_f64()).collect()
        };
        let (q, k, v) = (round(&q), round(&k), round(&v));
        let expected = attention(s, t, d, &q, &k, &v);
        let arrays = [
            floats(DType::Bf16, &[s, 1, 1, d], &q),
            floats(DType::Bf16, &[t, 1, d], &k),
            floats(DType::Bf16, &[t, 1, d], &v),
        ];
        let symbols = [("S", s as i64), ("T", t as i64), ("H", 1), ("G", 1), ("K", 4), ("V", 4)];
        close(&run(ATTENTION, &symbols, &arrays, Numerics::F64), &expected, 1e-12);
        close(&run(ATTENTION, &symbols, &arrays, Numerics::Own), &expected, 2e-2);
    }
}

#[test]
fn c22_what_a_guard_drops_is_not_read() {
    let source = "program p(x: f32[i: I, j: J], y: f32[j: J, k: K], m: bool[i: I, j: J]) -> f32[i: I, k: K], f32[i: I], i32[i: I], f32[i: I, j: J]
where I in 0..=9, J in 0..=9, K in 0..=9
{
  a = contract x[i, j] y[j, k] where j < i + 1 and m[i, j] -> [i, k]
  b = max x over j where m[i, j]
  c = argmin x over j where j >= 1 and m[i, j]
  d = contract x[i, j] where m[i, j] and i < 1 -> [i, j]
  return a, b, c, d
}";
    let x = f32s(&[2, 3], &[1., NAN, 3., 4., 5., NAN]);
    let y = f32s(&[3, 1], &[10., 100., NAN]);
    let m = bools(&[2, 3], &[true, false, true, true, true, false]);
    for numerics in BOTH {
        let results =
            run_all(source, &[("I", 2), ("J", 3), ("K", 1)], &[x.clone(), y.clone(), m.clone()], numerics);
        exact(&results[0], &[10., 540.]);
        exact(&results[1], &[3., 5.]);
        exact(&results[2], &[2., 1.]);
        exact(&results[3], &[1., 0., 3., 0., 0., 0.]);
    }
}

#[test]
fn c13_rotary_embedding() {
    let half_split = "program p(x: f32[s: S, d: 4], first: i32) -> f32[s: S, d: 4]
where S in 0..=9
{
  n = iota to f32 -> [s: S]
  start = cast first to f32
  pos = add n start
  k = iota to f32 -> [k: 2]
  u = mul k -2.0
  e = div u 4.0
  base = full 10000.0 to f32 -> [k: 2]
  freq = pow base e
  angle = mul pos[s] freq[k] -> [s, k]
  c = cos angle
  w = sin angle
  a = SLICE0
  b = SLICE1
  ac = mul a c
  bs = mul b w
  left = sub ac bs
  bc = mul b c
  as_ = mul a w
  right = add bc as_
  JOIN
}";
    let halves = half_split
        .replace("SLICE0", "slice x[s, k] over k from 0 size 2")
        .replace("SLICE1", "slice x[s, k] over k from 2 size 2")
        .replace("JOIN", "return concat left right over k -> [s, d: 4]");
    let pairs = half_split
        .replace("a = SLICE0", "p = reshape x -> [s, k: 2, z: 2]\n  a0 = slice p over z from 0 size 1\n  a = reshape a0 -> [s, k: 2]")
        .replace("b = SLICE1", "b0 = slice p over z from 1 size 1\n  b = reshape b0 -> [s, k: 2]")
        .replace("JOIN", "l = reshape left -> [s, k: 2, z: 1]\n  r = reshape right -> [s, k: 2, z: 1]\n  j = concat l r over z\n  return reshape j -> [s, d: 4]");
    for (source, expected) in [
        (halves, [-1.984_111, 1.959_901, 2.462_378, 4.019_800]),
        (pairs, [-1.142_640, 1.922_076, 2.959_851, 4.029_800]),
    ] {
        let x = [1., 2., 3., 4.];
        for numerics in BOTH {
            let y = run(&source, &[("S", 1)], &[f32s(&[1, 4], &x), ints(&[], &[1])], numerics);
            close(&y, &expected, 2e-6);
            let y = run(&source, &[("S", 1)], &[f32s(&[1, 4], &x), ints(&[], &[0])], numerics);
            close(&y, &x, 1e-12);
        }
    }
}

#[test]
fn c16_c17_rms_norm() {
    let source = "program p(x: f16[s: S, d: D], eps: f32) -> f16[s: S, d: D]
where S in 0..=9, D in 1..=4096
{
  f = cast x to f32
  y = mul f f
  q = sum y over d
  m = div q D
  e = add m eps
  r = rsqrt e
  g = mul f r[s, _]
  return cast g to f16
}";
    let x = floats(DType::F16, &[1, 4096], &[300.0; 4096]);
    let y = run(source, &[("S", 1), ("D", 4096)], &[x, f32s(&[], &[f64::from(1e-6f32)])], Numerics::Own);
    exact(&y, &[1.0; 4096]);
    // A mean square of 2e-4: the factor against rsqrt(2e-4) is 0.99751 with this epsilon.
    let small = 2e-4f64.sqrt();
    let x = floats(DType::F16, &[1, 4], &[small; 4]);
    let y = run(source, &[("S", 1), ("D", 4)], &[x, f32s(&[], &[1e-6])], Numerics::F64);
    close(&y, &[0.99751; 4], 1e-5);
}

#[test]
fn c18_layer_norm_in_two_passes() {
    let source = "program p(x: f32[s: S, d: D]) -> f32[s: S, d: D]
where S in 0..=9, D in 1..=4096
{
  t = sum x over d
  mean = div t D
  c = sub x mean[s, _]
  v = mul c c
  w = sum v over d
  var = div w D
  e = add var 1e-5
  r = rsqrt e
  return mul c r[s, _]
}";
    let x = f32s(&[1, 4], &[40000., 40001., 40002., 40003.]);
    let y = run(source, &[("S", 1), ("D", 4)], &[x], Numerics::Own);
    close(&y, &[-1.341_635, -0.447_212, 0.447_212, 1.341_635], 2e-6);
    let x = f32s(&[1, 256], &[1234.0; 256]);
    exact(&run(source, &[("S", 1), ("D", 256)], &[x], Numerics::Own), &[0.0; 256]);
}

#[test]
fn c20_c21_relu_and_clamp() {
    let source = "program p(x: f32[i: 4]) -> f32[i: 4], f32[i: 4], f32
{
  r = max x 0.0
  a = max x 0.0
  b = min a 1.0
  m = max x over i
  return r, b, m
}";
    let results = run_all(source, &[], &[f32s(&[4], &[NAN, -0.0, -5.0, 7.0])], Numerics::Own);
    exact(&results[0], &[NAN, -0.0, 0.0, 7.0]);
    exact(&results[1], &[NAN, -0.0, 0.0, 1.0]);
    exact(&results[2], &[NAN]);
}

#[test]
fn calls_and_repeats() {
    let source = "fn step(x: f32[d: D], w: f32[e: D, d: D], bias: f32[d: D]) -> f32[d: D], f32
{
  y = contract w[d, c] x[c] -> [d]
  z = add y bias
  n = sum z over d
  return z, n
}

program p(x: f32[d: D], w: f32[L, e: D, d: D], bias: f32[d: D]) -> f32[d: D], f32[l: L], f32[d: D]
where D in 0..=9, L in 0..=9
{
  y, norms = repeat l in L, h = x { step(h, w[l], bias) -> h, [l] }
  once, n = step(y, y2, bias)
  return y, norms, once
}";
    // A call takes whole tensors; the second layer's matrix is a slice.
    let source = source.replace(
        "  once, n",
        "  w0 = slice w over L from 0 size 1\n  y2 = reshape w0 -> [e: D, d: D]\n  once, n",
    );
    let w = [1., 2., 3., 4., 0., 1., -1., 0.];
    let arrays = [f32s(&[2], &[1., -1.]), f32s(&[2, 2, 2], &w), f32s(&[2], &[10., 20.])];
    for numerics in BOTH {
        let results = run_all(&source, &[("D", 2), ("L", 2)], &arrays, numerics);
        // h1 = [9, 19], h2 = [19, -9] + [10, 20].
        exact(&results[0], &[29., 11.]);
        exact(&results[1], &[28., 40.]);
        exact(&results[2], &[29. + 22. + 10., 87. + 44. + 20.]);
    }
    let arrays = [f32s(&[2], &[1., -1.]), f32s(&[0, 2, 2], &[]), f32s(&[2], &[10., 20.])];
    let results = run_all(&source, &[("D", 2), ("L", 0)], &arrays, Numerics::Own);
    exact(&results[0], &[1., -1.]);
    assert!(results[1].is_empty());
    exact(&results[2], &[10., 20.]);
}

#[test]
fn dependent_extents() {
    let source = "program p(x: f32[i: S, j: min(i + 1, T)]) -> f32[i: S], f32[i: S, j: min(i + 1, T)]
where S in 0..=9, T in 0..=9
{
  s = sum x over j
  y = mul x s[i, _]
  return s, y
}";
    let x = f32s(&[3, 2], &[1., NAN, 2., 3., 4., 5.]);
    let results = run_all(source, &[("S", 3), ("T", 2)], &[x], Numerics::Own);
    exact(&results[0], &[1., 5., 9.]);
    exact(&results[1], &[1., NAN, 10., 15., 36., 45.]);
    let results = run_all(source, &[("S", 2), ("T", 0)], &[f32s(&[2, 0], &[])], Numerics::Own);
    exact(&results[0], &[0., 0.]);
}

#[test]
fn c03_ragged_attention_scores() {
    // Key lengths 0, 5, 0, 1: sums and products over each sequence's own rows.
    let source = "program p(off: plan i32[P: B + 1], q: f32[b: B, d: D], k: f32[b: B, j: off[b + 1] - off[b], d: D]) -> f32[b: B, j: off[b + 1] - off[b]], f32[b: B], f32[b: B, d: D]
where B in 0..=9, D in 0..=9, T in 0..=99, off splits T over B
{
  s = contract q[b, d] k[b, j, d] -> [b, j]
  m = max s over j
  o = contract s[b, j] k[b, j, d] -> [b, d]
  return s, m, o
}";
    let k: Vec<f64> = (1..=6).map(f64::from).collect();
    let arrays = [ints(&[5], &[0, 0, 5, 5, 6]), f32s(&[4, 1], &[NAN, 2., NAN, 3.]), f32s(&[6, 1], &k)];
    for numerics in BOTH {
        let results = run_all(source, &[("B", 4), ("D", 1), ("T", 6)], &arrays, numerics);
        exact(&results[0], &[2., 4., 6., 8., 10., 18.]);
        exact(&results[1], &[-INF, 10., -INF, 18.]);
        exact(&results[2], &[0., 110., 0., 108.]);
    }
}

#[test]
fn axis_names_that_are_sizes() {
    let source = "program p(x: f32[S, T]) -> f32[S], f32[T, S], f32[S, T]
where S in 0..=9, T in 0..=9
{
  a = sum x[S, t] over t where t >= S
  b = mul x[S, T] 1.0 -> [T, S]
  c = sub x a[S, _]
  return a, b, c
}";
    // A guard that mentions a size which is also a label is refused.
    assert!(refusal(source).contains('S'));
    let source = source.replace("x[S, t] over t where t >= S", "x[s, t] over t where t >= S -> [S: s]");
    let x = f32s(&[2, 4], &[1., 2., 3., 4., 5., 6., 7., 8.]);
    let results = run_all(&source, &[("S", 2), ("T", 4)], &[x], Numerics::Own);
    exact(&results[0], &[7., 15.]);
    exact(&results[1], &[1., 5., 2., 6., 3., 7., 4., 8.]);
    exact(&results[2], &[-6., -5., -4., -3., -10., -9., -8., -7.]);
}

#[test]
fn sizes_and_positions_as_numbers() {
    let source = "program p(x: bf16[i: S]) -> bf16[i: S], i32[i: S], bf16[i: S]
where S in 0..=9999, D in 0..=9999
{
  a = div x D
  n = iota to i32 -> [i: S]
  b = add n (D * 2 + 1)
  c = mul x 4097.0
  return a, b, c
}";
    let x = floats(DType::Bf16, &[1], &[1.0]);
    let results = run_all(source, &[("S", 1), ("D", 4097)], std::slice::from_ref(&x), Numerics::Own);
    // 4097 is 4096 in bf16.
    exact(&results[0], &[1.0 / 4096.0]);
    exact(&results[1], &[8195.0]);
    exact(&results[2], &[4096.0]);
    let results = run_all(source, &[("S", 1), ("D", 4097)], &[x], Numerics::F64);
    exact(&results[0], &[1.0 / 4097.0]);
    exact(&results[2], &[4097.0]);
}

fn message(source: &str, symbols: &[(&str, i64)], arrays: &[Array]) -> String {
    match try_run(source, symbols, arrays, Numerics::Own) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn bindings_that_do_not_fit() {
    let source = "program p(x: f32[S, d: D], ids: i32[S]) -> f32[S, d: D]
where S in 0..=8 by 2, D in 1..=4, V in 0..=9, ids elements 0..=V - 1
{
  return gather x ids[n] over S -> [S, d: D]
}";
    let x = f32s(&[2, 1], &[1., 2.]);
    let ids = ints(&[2], &[1, 0]);
    let good = [("S", 2), ("D", 1), ("V", 2)];
    exact(&run(source, &good, &[x.clone(), ids.clone()], Numerics::Own), &[2., 1.]);
    let says = |symbols: &[(&str, i64)], arrays: &[Array], expected: &str| {
        let message = message(source, symbols, arrays);
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    };
    says(&[("S", 2), ("D", 1)], &[x.clone(), ids.clone()], "V");
    says(&[("S", 2), ("D", 1), ("V", 2), ("Q", 1)], &[x.clone(), ids.clone()], "Q");
    says(&[("S", 10), ("D", 1), ("V", 2)], &[x.clone(), ids.clone()], "0..=8");
    says(&[("S", 3), ("D", 1), ("V", 2)], &[x.clone(), ids.clone()], "2");
    says(&[("S", 2), ("D", 0), ("V", 2)], &[x.clone(), ids.clone()], "D");
    says(&[("S", 4), ("D", 1), ("V", 2)], &[x.clone(), ids.clone()], "[2, 1], and must be [4, 1]");
    says(&good, std::slice::from_ref(&x), "1 arrays for 2 parameters");
    says(&good, &[floats(DType::Bf16, &[2, 1], &[1., 2.]), ids.clone()], "bf16, and must be f32");
    says(&good, &[x.clone(), ints(&[2], &[1, 2])], "element 1 is 2, and must be in 0..=1");
    says(&good, &[x.clone(), ints(&[2], &[-1, 0])], "element 0 is -1");
    says(&good, &[x.clone(), ints(&[2], &[1 << 40, 0])], "no i32");
    let broken = Array { dtype: DType::F32, extents: vec![2, 1], data: Data::Float(vec![1.0]) };
    says(&good, &[broken, ids.clone()], "do not match");
    let wrong = Array { dtype: DType::F32, extents: vec![2, 1], data: Data::Int(vec![1, 2]) };
    says(&good, &[wrong, ids], "do not match");
}

#[test]
fn sizes_beyond_memory_are_refused() {
    let source = "program p(x: f32[S]) -> f32[a: S, b: S], f32[c: S - 5]
where S in 0..=1000000000000
{
  y = broadcast x[a] -> [a, b: S]
  z = slice x[c] over c from 5 size S - 5
  return y, z
}";
    let n = 100_000usize;
    let arrays = [f32s(&[n], &vec![0.0; n])];
    match try_run(source, &[("S", n as i64)], &arrays, Numerics::Own) {
        Err(Error::Memory { needed, limit, .. }) => assert!(needed > limit && limit == MAX_ELEMENTS * 8),
        other => panic!("{:?}", other.map(|_| ())),
    }
    let text = message(source, &[("S", 3)], &[f32s(&[3], &[1., 2., 3.])]);
    assert!(text.contains("not negative"), "{text}");
}

#[test]
fn scaled_numbers_are_reserved() {
    let source = "program p(x: f32[i: 2]) -> f32[i: 2]
{
  s = cast x to scaled_f32
  return cast s to f32
}";
    match try_run(source, &[], &[f32s(&[2], &[1., 2.])], Numerics::Own) {
        Err(Error::Unsupported { place, .. }) => assert!(place.contains("`s`"), "{place}"),
        other => panic!("{other:?}"),
    }
}
