//! Inputs from public bugs that must come out right, each under its number, on the portable executor and by evaluation
//! in f64 and in the program's own types, with symbolic and with fixed sizes.
//!
//! Not sayable at this level: C30 (arrays of other libraries; a tensor here is dense and row-major), C31 (checkpoint
//! files), C32 (a search for kernels), C34 (threads under a quota: a matter of the pool). Of C25 the guard bytes behind an
//! output: an output is a vector of its own, so that what must stay untouched is shown beside a window of a state. Of C21
//! and C14 the contract `fast`: what there is is `strict`.

mod common;

use common::*;
use std::collections::BTreeMap;
use tilewright::tensor::eval::Numerics;
use tilewright::tensor::{Array, DType, Data, Scalar};
use tilewright::{Arguments, Control, HostTensor, Weights};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

const SOFTMAX: &str = include_str!("../../../programs/softmax.tensor");
const CAUSAL: &str = include_str!("../../../programs/attention_causal.tensor");
const GROUPED: &str = include_str!("../../../programs/attention_gqa.tensor");
const MASKED: &str = include_str!("../../../programs/attention_masked.tensor");
const PAGED: &str = include_str!("../../../programs/attention_paged.tensor");
const RAGGED: &str = include_str!("../../../programs/attention_ragged.tensor");
const WINDOWED: &str = include_str!("../../../programs/attention_windowed.tensor");
const RMSNORM: &str = include_str!("../../../programs/rmsnorm_matmul.tensor");
const SWIGLU: &str = include_str!("../../../programs/swiglu.tensor");
const MOE: &str = include_str!("../../../programs/moe.tensor");

/// Who computed results.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Executor,
    Evaluation(Numerics),
}

impl By {
    /// `exact` for evaluation in f64, else `rounded`.
    fn tolerance(self, exact: f64, rounded: f64) -> f64 {
        if self == By::Evaluation(Numerics::F64) { exact } else { rounded }
    }
}

/// Checks the results of a compiled program by all who compute.
#[track_caller]
fn at(subject: &Subject, sizes: &[(&str, i64)], arrays: &[Array], check: impl Fn(By, &[Array])) {
    check(By::Executor, &subject.run(sizes, arrays));
    for numerics in [Numerics::F64, Numerics::Own] {
        check(By::Evaluation(numerics), &subject.eval(sizes, arrays, numerics));
    }
}

/// As [`at`], with symbolic and with fixed sizes.
#[track_caller]
fn everywhere(text: &str, sizes: &[(&str, i64)], arrays: &[Array], check: impl Fn(By, &[Array])) {
    for text in [text.to_string(), fixed(text, sizes)] {
        at(&Subject::new(&text), sizes, arrays, &check);
    }
}

fn f32s(extents: &[usize], values: &[f64]) -> Array {
    floats(DType::F32, extents, values)
}

fn bf16s(extents: &[usize], values: &[f64]) -> Array {
    floats(DType::Bf16, extents, values)
}

fn round(dtype: DType, x: f64) -> f64 {
    dtype.round(Scalar::Float(x)).as_f64()
}

/// One query's attention by its definition; 0 without keys. Keys and values are rows of one matrix each.
fn attend(q: &[f64], seen: &[usize], keys: &[f64], values: &[f64], width: usize) -> Vec<f64> {
    let score = |j: usize| q.iter().zip(&keys[j * q.len()..]).map(|(a, b)| a * b).sum::<f64>();
    let scores: Vec<f64> = seen.iter().map(|&j| score(j) / (q.len() as f64).sqrt()).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    (0..width)
        .map(|e| {
            let sum: f64 = seen.iter().zip(&weights).map(|(&j, w)| w * values[j * width + e]).sum();
            if seen.is_empty() { 0.0 } else { sum / total }
        })
        .collect()
}

fn random_bf16(random: &mut Random, extents: &[usize]) -> Array {
    let count = extents.iter().product();
    bf16s(extents, &random.normals(count))
}

#[test]
fn c01_rows_that_see_nothing_are_zero() {
    let mut random = Random::new(1);
    let qkv: Vec<Array> = (0..3).map(|_| random_bf16(&mut random, &[8, 1, 8])).collect();
    let mask: Vec<bool> = (0..64).map(|k| k < 32).collect();
    let arrays = [qkv.clone(), vec![bools(&[8, 8], &mask)]].concat();
    let sizes = [("S", 8), ("T", 8), ("H", 1), ("K", 8), ("V", 8)];
    let all: Vec<usize> = (0..8).collect();
    let [q, k, v] = [values(&qkv[0]), values(&qkv[1]), values(&qkv[2])];
    let mut expected: Vec<f64> = q[..32].chunks(8).flat_map(|q| attend(q, &all, &k, &v, 8)).collect();
    expected.resize(64, 0.0);
    everywhere(MASKED, &sizes, &arrays, |by, results| {
        close(&results[0], &expected, by.tolerance(1e-12, 2e-2));
        assert!(same(&values(&results[0])[32..], &[0.0; 32]));
    });
}

#[test]
fn c02_softmax_of_minus_infinity_inf_or_nan_is_nan() {
    let rows = [-INF, -INF, -INF, INF, 1.0, 2.0, 1.0, NAN, 3.0];
    everywhere(SOFTMAX, &[("R", 3), ("C", 3)], &[f32s(&[3, 3], &rows)], |_, results| {
        exact(&results[0], &[NAN; 9]);
    });
}

#[test]
fn c03_a_ragged_batch_with_empty_requests() {
    let mut random = Random::new(3);
    let (q, k, v) = (random.normals(4 * 4), random.normals(6 * 4), random.normals(6 * 4));
    let (q, k, v) = (bf16s(&[4, 1, 4], &q), bf16s(&[6, 1, 4], &k), bf16s(&[6, 1, 4], &v));
    let (qs, ks, vs) = (values(&q), values(&k), values(&v));
    let mut expected = vec![0.0; 16];
    expected[4..8].copy_from_slice(&attend(&qs[4..8], &[0, 1, 2, 3, 4], &ks, &vs, 4));
    expected[12..16].copy_from_slice(&attend(&qs[12..16], &[5], &ks, &vs, 4));
    let check = |by: By, results: &[Array]| {
        close(&results[0], &expected, by.tolerance(1e-12, 2e-2));
        let got = values(&results[0]);
        assert!(same(&got[..4], &[0.0; 4]) && same(&got[8..12], &[0.0; 4]), "{got:?}");
    };
    let tables = [ints(&[5], &[0, 1, 2, 3, 4]), ints(&[5], &[0, 0, 5, 5, 6])];
    let sizes = [("B", 4), ("S", 4), ("T", 6), ("H", 1), ("K", 4), ("V", 4)];
    let arrays = [tables.to_vec(), vec![q.clone(), k, v]].concat();
    everywhere(RAGGED, &sizes, &arrays, check);

    // The same keys in pages of 4 rows; what lies behind a length is NaN.
    let page = |rows: &[f64], b: usize, n: usize, r: usize, d: usize| match (b, 4 * n + r) {
        (1, row @ 0..5) => rows[row * 4 + d],
        (3, 0) => rows[5 * 4 + d],
        _ => NAN,
    };
    let pages = |rows: &[f64]| {
        let at = |k: usize| page(rows, k / 32, k / 16 % 2, k / 4 % 4, k % 4);
        bf16s(&[8, 4, 1, 4], &(0..128).map(at).collect::<Vec<f64>>())
    };
    let q = bf16s(&[4, 1, 1, 4], &qs);
    let table = ints(&[4, 2], &[0, 1, 2, 3, 4, 5, 6, 7]);
    let arrays = [q, pages(&ks), pages(&vs), table, ints(&[4], &[0, 5, 0, 1])];
    let sizes = [("B", 4), ("P", 8), ("R", 4), ("N", 2), ("H", 1), ("G", 1), ("K", 4), ("V", 4)];
    everywhere(PAGED, &sizes, &arrays, check);
}

/// Attention from its scores.
const SCORES: &str = "program p(x: f32[R, C], v: f32[C, D]) -> f32[R, C], f32[R, D]
where R in 0..=64, C in 0..=64, D in 0..=64
{
  m = max x over C
  d = sub x m[R, _]
  e = exp d
  t = sum e over C
  w = div e t[R, _]
  o = contract w[R, C] v[C, D] -> [R, D]
  return w, o
}";

#[test]
fn c04_c05_scores_far_from_zero() {
    let scores = [-60000.0, -60001.0, 2000.0, 1999.0, 0.0, -1.0];
    let arrays = [f32s(&[3, 2], &scores), f32s(&[2, 2], &[1., 10., 2., 30.])];
    everywhere(SCORES, &[("R", 3), ("C", 2), ("D", 2)], &arrays, |_, results| {
        let weights = [0.731_058_6, 0.268_941_4];
        close(&results[0], &weights.repeat(3), 1e-7);
        let rows: Vec<f64> = values(&results[0]);
        assert!(same(&rows[..2], &rows[4..]) && same(&rows[2..4], &rows[4..]), "{rows:?}");
        close(&results[1], &[1.268_941_4, 15.378_828].repeat(3), 2e-6);
    });
}

#[test]
fn c06_products_beyond_the_range_of_f16() {
    let text = CAUSAL.replace("bf16", "f16");
    let f16s = |extents: &[usize], values: &[f64]| floats(DType::F16, extents, values);
    let v: Vec<f64> = [1.0, 2.0, 3.0, 6.0].iter().flat_map(|x| [*x, -x]).collect();
    let arrays = [f16s(&[1, 1, 1, 64], &[40.0; 64]), f16s(&[4, 1, 64], &[40.0; 256]), f16s(&[4, 1, 2], &v)];
    let sizes = [("S", 1), ("T", 4), ("H", 1), ("G", 1), ("K", 64), ("V", 2)];
    everywhere(&text, &sizes, &arrays, |_, results| exact(&results[0], &[3.0, -3.0]));
}

#[test]
fn c07_soft_cap() {
    let text = "program p(x: f32[S]) -> f32[S]
where S in 0..=99
{
  a = div x 50.0
  b = tanh a
  return mul b 50.0
}";
    let x = [1., 100., 1000., 3000., 5000., 1e4, -1., -1e4, 4400.];
    let expected = [0.99987, 48.2014, 50., 50., 50., 50., -0.99987, -50., 50.];
    everywhere(text, &[("S", 9)], &[f32s(&[9], &x)], |_, results| close(&results[0], &expected, 5e-5));
}

#[test]
fn c08_both_alignments_of_causal() {
    let text = "program p(one: f32[i: S, j: T]) -> f32[i: S, j: T], f32[i: S, j: T]
where S in 0..=64, T in 0..=64
{
  a = contract one where j <= i + T - S -> [i, j]
  b = contract one where j <= i -> [i, j]
  return a, b
}";
    let one = |s: usize, t: usize| [f32s(&[s, t], &vec![1.0; s * t])];
    everywhere(text, &[("S", 2), ("T", 5)], &one(2, 5), |_, results| {
        exact(&results[0], &[1., 1., 1., 1., 0., 1., 1., 1., 1., 1.]);
        exact(&results[1], &[1., 0., 0., 0., 0., 1., 1., 0., 0., 0.]);
    });
    everywhere(text, &[("S", 5), ("T", 2)], &one(5, 2), |_, results| {
        exact(&results[0], &[0., 0., 0., 0., 0., 0., 1., 0., 1., 1.]);
        exact(&results[1], &[1., 0., 1., 1., 1., 1., 1., 1., 1., 1.]);
    });
    let mut random = Random::new(8);
    let (q, k) = (random_bf16(&mut random, &[5, 1, 1, 4]), random_bf16(&mut random, &[2, 1, 4]));
    let v = bf16s(&[2, 1, 1], &[3.0, 5.0]);
    let (qs, ks) = (values(&q), values(&k));
    let last = attend(&qs[16..], &[0, 1], &ks, &[3.0, 5.0], 1);
    let sizes = [("S", 5), ("T", 2), ("H", 1), ("G", 1), ("K", 4), ("V", 1)];
    everywhere(CAUSAL, &sizes, &[q, k, v], |by, results| {
        let got = values(&results[0]);
        assert!(same(&got[..4], &[0., 0., 0., 3.]), "{got:?}");
        assert!((got[4] - last[0]).abs() <= by.tolerance(1e-12, 5e-2), "{got:?} {last:?}");
    });
}

/// Causal attention with a cache that is kept by the caller; `start` is how many keys it holds.
const CACHED: &str = "program p(
  q: bf16[i: S, h: H, d: K],
  k: bf16[j: S, h: H, d: K],
  v: bf16[j: S, h: H, d: K],
  keys: state bf16[j: C, h: H, d: K],
  values: state bf16[j: C, h: H, d: K],
  start: plan i32[one: 1],
) -> bf16[i: S, h: H, d: K], bf16[j: C, h: H, d: K], bf16[j: C, h: H, d: K]
where S in 0..=64, C in 0..=64, H in 1..=8, K in 1..=64, start elements 0..=C
{
  ks = update keys k over j at start[0]
  vs = update values v over j at start[0]
  s = contract q[i, h, d] ks[j, h, d] where j <= i + start[0] to f32 -> [i, h, j]
  width = cast K to f32
  scale = rsqrt width
  z = mul s scale
  m = max z over j where j <= i + start[0]
  a = sub z m[i, h, _]
  p = exp a
  total = sum p over j where j <= i + start[0]
  b = cast p to bf16
  o = contract b[i, h, j] vs[j, h, d] where j <= i + start[0] to f32 -> [i, h, d]
  y = div o total[i, h, _]
  out = cast y to bf16
  return out, ks, vs
}";

/// Rows `from` .. `to` of an array of floats.
fn rows(array: &Array, from: usize, to: usize) -> Array {
    let width: usize = array.extents[1..].iter().product();
    let extents = [&[to - from], &array.extents[1..]].concat();
    let data = Data::Float(values(array)[from * width..to * width].to_vec());
    Array { dtype: array.dtype, extents, data }
}

/// Gives results for sizes and arrays.
type Run<'a> = dyn Fn(&[(&str, i64)], &[Array]) -> Vec<Array> + 'a;

/// Runs [`CACHED`] on `q`, `k`, `v` in chunks; gives the outputs and the cache's keys.
fn in_chunks(run: &Run, qkv: &[Array], capacity: usize, chunks: &[usize]) -> (Vec<f64>, Vec<f64>) {
    let [heads, width] = [qkv[0].extents[1], qkv[0].extents[2]];
    let empty = bf16s(&[capacity, heads, width], &vec![NAN; capacity * heads * width]);
    let (mut keys, mut kept, mut start, mut out) = (empty.clone(), empty, 0, Vec::new());
    for &count in chunks {
        let part = |k: usize| rows(&qkv[k], start, start + count);
        let arrays = [part(0), part(1), part(2), keys, kept, ints(&[1], &[start as i64])];
        let sizes = [("S", count as i64), ("C", capacity as i64), ("H", heads as i64), ("K", width as i64)];
        let mut results = run(&sizes, &arrays);
        kept = results.swap_remove(2);
        keys = results.swap_remove(1);
        out.extend(values(&results[0]));
        start += count;
    }
    (out, values(&keys))
}

#[test]
fn c09_prefill_at_once_and_in_two_parts() {
    let mut random = Random::new(9);
    let qkv: Vec<Array> = (0..3).map(|_| random_bf16(&mut random, &[8, 2, 16])).collect();
    let subject = Subject::new(CACHED);
    let check = |run: &Run| {
        let (whole, keys) = in_chunks(run, &qkv, 12, &[8]);
        let (parts, also) = in_chunks(run, &qkv, 12, &[3, 5]);
        assert!(same(&whole, &parts) && same(&keys, &also));
        assert!(whole.iter().all(|x| x.is_finite()));
        assert!(same(&keys[..8 * 32], &values(&qkv[1])));
        assert!(keys[8 * 32..].iter().all(|x| x.is_nan()));
    };
    check(&|sizes, arrays| subject.run(sizes, arrays));
    check(&|sizes, arrays| Subject::new(&fixed(CACHED, sizes)).run(sizes, arrays));
    check(&|sizes, arrays| subject.eval(sizes, arrays, Numerics::F64));
    check(&|sizes, arrays| subject.eval(sizes, arrays, Numerics::Own));
}

#[test]
fn c10_a_window_of_four() {
    // Equal scores; the value of key j is the unit vector j.
    let unit: Vec<f64> = (0..100).map(|k| f64::from(k / 10 == k % 10)).collect();
    let zero = bf16s(&[10, 1, 2], &[0.0; 20]);
    let arrays = [zero.clone(), zero, bf16s(&[10, 1, 10], &unit)];
    let sizes = [("S", 10), ("T", 10), ("W", 4), ("H", 1), ("K", 2), ("V", 10)];
    everywhere(WINDOWED, &sizes, &arrays, |_, results| {
        let got = values(&results[0]);
        assert!(same(&got[90..], &[0., 0., 0., 0., 0., 0., 0.25, 0.25, 0.25, 0.25]), "{got:?}");
        assert!(same(&got[10..20], &[0.5, 0.5, 0., 0., 0., 0., 0., 0., 0., 0.]), "{got:?}");
    });
}

#[test]
fn c11_groups_of_heads() {
    let (s, t, d) = (3, 5, 8);
    let mut random = Random::new(11);
    let subject = Subject::new(GROUPED);
    for (query_heads, heads) in [(28, 4), (24, 4), (40, 8), (64, 4)] {
        let group = query_heads / heads;
        let q = random_bf16(&mut random, &[s, query_heads, d]);
        let (k, v) = (random_bf16(&mut random, &[t, heads, d]), random_bf16(&mut random, &[t, heads, d]));
        let repeated = |x: &Array| {
            let own = values(x);
            let at =
                |k: usize| own[(k / (query_heads * d) * heads + k / d % query_heads / group) * d + k % d];
            bf16s(&[t, query_heads, d], &(0..t * query_heads * d).map(at).collect::<Vec<f64>>())
        };
        let sizes = |heads: usize, group: usize| {
            [("S", 3), ("T", 5), ("H", heads as i64), ("G", group as i64), ("K", 8), ("V", 8)]
        };
        let plain = [q.clone(), repeated(&k), repeated(&v)];
        let grouped = [q, k, v];
        let whole = subject.run(&sizes(query_heads, 1), &plain);
        let exactly = values(&subject.eval(&sizes(query_heads, 1), &plain, Numerics::F64)[0]);
        let check = |by: By, results: &[Array]| match by {
            By::Evaluation(Numerics::F64) => close(&results[0], &exactly, 1e-12),
            _ => {
                close(&results[0], &exactly, 2e-2);
                if by == By::Executor {
                    exact(&results[0], &values(&whole[0]));
                }
            }
        };
        at(&subject, &sizes(heads, group), &grouped, check);
        let fixed = Subject::new(&fixed(GROUPED, &sizes(heads, group)));
        at(&fixed, &sizes(heads, group), &grouped, check);
    }
    assert_eq!(subject.compiles(), 1);
}

#[test]
fn c12_head_sizes() {
    let mut random = Random::new(12);
    let symbolic = Subject::new(CAUSAL);
    for (d, e) in [(80, 80), (96, 96), (160, 160), (192, 192), (256, 256), (512, 512), (192, 128)] {
        let q = random_bf16(&mut random, &[3, 1, 1, d]);
        let (k, v) = (random_bf16(&mut random, &[5, 1, d]), random_bf16(&mut random, &[5, 1, e]));
        let (qs, ks, vs) = (values(&q), values(&k), values(&v));
        let expected: Vec<f64> = (0..3)
            .flat_map(|i| attend(&qs[i * d..(i + 1) * d], &(0..i + 3).collect::<Vec<_>>(), &ks, &vs, e))
            .collect();
        let sizes = [("S", 3), ("T", 5), ("H", 1), ("G", 1), ("K", d as i64), ("V", e as i64)];
        let arrays = [q, k, v];
        for subject in [&symbolic, &Subject::new(&fixed(CAUSAL, &sizes))] {
            at(subject, &sizes, &arrays, |by, results| {
                close(&results[0], &expected, by.tolerance(1e-12, 2e-2));
            });
        }
    }
    assert_eq!(symbolic.compiles(), 1);
}

/// Rotary embedding of rows of four; the angles are computed in the program.
const ROTARY: &str = "program p(x: f32[s: S, d: 4], first: i32) -> f32[s: S, d: 4]
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
PARTS
  ac = mul a c
  bs = mul b w
  left = sub ac bs
  bc = mul b c
  aw = mul a w
  right = add bc aw
JOIN
}";

#[test]
fn c13_rotary_embedding() {
    let halves = ROTARY
        .replace(
            "PARTS",
            "  a = slice x[s, k] over k from 0 size 2\n  b = slice x[s, k] over k from 2 size 2",
        )
        .replace("JOIN", "  return concat left right over k -> [s, d: 4]");
    let pairs = ROTARY
        .replace(
            "PARTS",
            "  pairs = reshape x -> [s, k: 2, z: 2]
  a0 = slice pairs over z from 0 size 1
  b0 = slice pairs over z from 1 size 1
  a = reshape a0 -> [s, k: 2]
  b = reshape b0 -> [s, k: 2]",
        )
        .replace(
            "JOIN",
            "  l = reshape left -> [s, k: 2, z: 1]
  r = reshape right -> [s, k: 2, z: 1]
  both = concat l r over z
  return reshape both -> [s, d: 4]",
        );
    for (text, expected) in [
        (halves, [-1.984_111, 1.959_901, 2.462_378, 4.019_800]),
        (pairs, [-1.142_640, 1.922_076, 2.959_851, 4.029_800]),
    ] {
        let x = [1., 2., 3., 4.];
        let row = f32s(&[1, 4], &x);
        let check = |_: By, results: &[Array]| close(&results[0], &expected, 2e-6);
        everywhere(&text, &[("S", 1)], &[row.clone(), ints(&[], &[1])], check);
        everywhere(&text, &[("S", 1)], &[row, ints(&[], &[0])], |_, results| exact(&results[0], &x));
        // Two rows from position 0: the second is at position 1.
        let two = [f32s(&[2, 4], &[x, x].concat()), ints(&[], &[0])];
        everywhere(&text, &[("S", 2)], &two, |_, results| {
            close(&results[0], &[&x[..], &expected[..]].concat(), 2e-6);
        });
    }
}

#[test]
fn c14_rotary_embedding_rounds_after_each_operation() {
    let text = "program p(q: bf16[h: H, s: S, d: D * 2], k: bf16[g: G, s: S, d: D * 2], c: bf16[s: S, d: D], w: bf16[s: S, d: D])
  -> bf16[h: H, s: S, d: D * 2], bf16[g: G, s: S, d: D * 2]
where H in 0..=64, G in 0..=64, S in 0..=64, D in 0..=64
{
  q1 = slice q over d from 0 size D
  q2 = slice q over d from D size D
  q1c = mul q1 c
  q2w = mul q2 w
  ql = sub q1c q2w
  q2c = mul q2 c
  q1w = mul q1 w
  qr = add q2c q1w
  qo = concat ql qr over d -> [h, s, d: D * 2]
  k1 = slice k over d from 0 size D
  k2 = slice k over d from D size D
  k1c = mul k1 c
  k2w = mul k2 w
  kl = sub k1c k2w
  k2c = mul k2 c
  k1w = mul k1 w
  kr = add k2c k1w
  ko = concat kl kr over d -> [g, s, d: D * 2]
  return qo, ko
}";
    let mut random = Random::new(14);
    let (q, k) = (random_bf16(&mut random, &[2, 7, 16]), random_bf16(&mut random, &[1, 7, 16]));
    let angle = |at: usize| (at / 8) as f64 * 10000f64.powf(-((at % 8) as f64) / 8.0);
    let c = bf16s(&[7, 8], &(0..56).map(|at| angle(at).cos()).collect::<Vec<f64>>());
    let w = bf16s(&[7, 8], &(0..56).map(|at| angle(at).sin()).collect::<Vec<f64>>());
    let (cs, ws) = (values(&c), values(&w));
    let rotated = |x: &Array, round: &dyn Fn(f64) -> f64| -> Vec<f64> {
        let x = values(x);
        let at = |k: usize| {
            let (row, d) = (k / 16, k % 16);
            let angle = row % 7 * 8 + d % 8;
            let (a, b) = (x[row * 16 + d % 8], x[row * 16 + 8 + d % 8]);
            if d < 8 {
                round(round(a * cs[angle]) - round(b * ws[angle]))
            } else {
                round(round(b * cs[angle]) + round(a * ws[angle]))
            }
        };
        (0..x.len()).map(at).collect()
    };
    let strict = |x: f64| round(DType::Bf16, x);
    let expected = [rotated(&q, &strict), rotated(&k, &strict)];
    let exactly = [rotated(&q, &|x| x), rotated(&k, &|x| x)];
    let sizes = [("H", 2), ("G", 1), ("S", 7), ("D", 8)];
    everywhere(text, &sizes, &[q.clone(), k.clone(), c.clone(), w.clone()], |by, results| {
        for (result, (expected, exactly)) in results.iter().zip(expected.iter().zip(&exactly)) {
            exact(result, if by == By::Evaluation(Numerics::F64) { exactly } else { expected });
        }
    });
}

#[test]
fn c15_a_cast_is_a_rounding_step() {
    let text = "program p(a: f32[M, K], b: f32[N, K], c: f32[M, N]) -> f32[M, N]
where M in 0..=64, N in 0..=64, K in 0..=64
{
  y = contract a[M, K] b[N, K] -> [M, N]
  h = cast y to bf16
  g = cast h to f32
  return add g c
}";
    // Multiples of 2^-8 below 4: products of three terms are exact in f32, and need rounding to bf16.
    let mut random = Random::new(15);
    let mut exactly = |count: usize| -> Vec<f64> {
        (0..count).map(|_| (random.below(2048) as f64 - 1024.0) / 256.0).collect()
    };
    let (a, b, c) = (exactly(5 * 3), exactly(4 * 3), exactly(5 * 4));
    let product = |k: usize| (0..3).map(|t| a[k / 4 * 3 + t] * b[k % 4 * 3 + t]).sum::<f64>();
    let rounded: Vec<f64> =
        (0..20).map(|k| round(DType::F32, round(DType::Bf16, product(k)) + c[k])).collect();
    let unrounded: Vec<f64> = (0..20).map(|k| product(k) + c[k]).collect();
    assert!(rounded != unrounded);
    let arrays = [f32s(&[5, 3], &a), f32s(&[4, 3], &b), f32s(&[5, 4], &c)];
    everywhere(text, &[("M", 5), ("N", 4), ("K", 3)], &arrays, |by, results| {
        exact(&results[0], if by == By::Evaluation(Numerics::F64) { &unrounded } else { &rounded });
    });
}

const NORM: &str = "program p(x: ELEMENT[S, D], w: weight ELEMENT[D], eps: f32) -> ELEMENT[S, D]
where S in 0..=9, D in 1..=4096
{
  f = cast x to f32
  y = mul f f
  q = sum y over D
  m = div q D
  e = add m eps
  r = rsqrt e
  n = mul f r[S, _]
  g = cast w to f32
  u = mul n g[_, D]
  return cast u to ELEMENT
}";

#[test]
fn c16_the_square_overflows_f16() {
    let text = NORM.replace("ELEMENT", "f16");
    let x = floats(DType::F16, &[1, 4096], &[300.0; 4096]);
    let weight: Vec<f64> = (0..4096).map(|k| f64::from(k % 7) - 3.0).collect();
    let arrays = [x, floats(DType::F16, &[4096], &weight), f32s(&[], &[1e-6])];
    everywhere(&text, &[("S", 1), ("D", 4096)], &arrays, |by, results| {
        close(&results[0], &weight, by.tolerance(1e-9, 0.0));
    });
}

#[test]
fn c17_a_small_epsilon_counts() {
    let text = NORM.replace("ELEMENT", "f32");
    let x = 2e-4f64.sqrt();
    let arrays = [f32s(&[1, 4], &[x, -x, x, -x]), f32s(&[4], &[1.0; 4]), f32s(&[], &[1e-6])];
    everywhere(&text, &[("S", 1), ("D", 4)], &arrays, |_, results| {
        close(&results[0], &[0.99751, -0.99751, 0.99751, -0.99751], 1e-5);
    });
}

#[test]
fn c18_layer_norm_far_from_zero() {
    let text = "program p(x: f32[S, D]) -> f32[S, D]
where S in 0..=9, D in 1..=4096
{
  t = sum x over D
  mean = div t D
  c = sub x mean[S, _]
  y = mul c c
  q = sum y over D
  variance = div q D
  e = add variance 1e-5
  r = rsqrt e
  return mul c r[S, _]
}";
    let x = f32s(&[1, 4], &[40000., 40001., 40002., 40003.]);
    everywhere(text, &[("S", 1), ("D", 4)], &[x], |_, results| {
        close(&results[0], &[-1.341_635, -0.447_212, 0.447_212, 1.341_635], 2e-6);
    });
    let x = f32s(&[1, 256], &[1234.0; 256]);
    everywhere(text, &[("S", 1), ("D", 256)], &[x], |_, results| exact(&results[0], &[0.0; 256]));
}

#[test]
fn c19_long_sums_of_products() {
    let text = "program p(a: bf16[M, K], b: bf16[K, N]) -> bf16[M, N]
where M in 0..=4096, N in 0..=4096, K in 0..=65536
{
  return contract a[m, k] b[k, n] -> [M: m, N: n]
}";
    let subject = Subject::new(text);
    let ones = |m: usize, n: usize| bf16s(&[m, n], &vec![1.0; m * n]);
    let check = |_: By, results: &[Array]| assert!(values(&results[0]).iter().all(|x| *x == 1024.0));
    let sizes = |m, n| [("M", m), ("N", n), ("K", 1024)];
    check(By::Executor, &subject.run(&sizes(1024, 1024), &[ones(1024, 1024), ones(1024, 1024)]));
    everywhere(text, &sizes(65, 33), &[ones(65, 1024), ones(1024, 33)], check);

    // The second half cancels the first but for a few terms; all sums are integers below 2^24, hence exact in f32.
    let split = "program p(a: bf16[M, K], b: bf16[K, N]) -> bf16[M, N]
where M in 0..=4096, N in 0..=4096, K in 0..=65536
{
  x = split a[m, k] over k by 1024 -> [m: M, s: ceildiv(K, 1024), r: min(1024, K - s * 1024)]
  y = split b[k, n] over k by 1024 -> [s: ceildiv(K, 1024), r: min(1024, K - s * 1024), n: N]
  part = contract x[m, s, r] y[s, r, n] to f32 -> [m, n, s]
  whole = sum part over s -> [M: m, N: n]
  return cast whole to bf16
}";
    let (m, n, k) = (3, 2, 14336);
    let mut random = Random::new(19);
    let mut whole =
        |count: usize| -> Vec<f64> { (0..count).map(|_| random.below(33) as f64 - 16.0).collect() };
    let (mut a, mut b) = (whole(m * k), whole(k * n));
    for t in 0..k / 2 {
        (0..n).for_each(|j| b[(k / 2 + t) * n + j] = b[t * n + j]);
        (0..m).for_each(|i| a[i * k + k / 2 + t] = if t % 1000 == 7 { 5.0 } else { -a[i * k + t] });
    }
    let sum = |at: usize| (0..k).map(|t| a[at / n * k + t] * b[t * n + at % n]).sum::<f64>();
    let expected: Vec<f64> = (0..m * n).map(sum).collect();
    let rounded: Vec<f64> = expected.iter().map(|x| round(DType::Bf16, *x)).collect();
    let arrays = [bf16s(&[m, k], &a), bf16s(&[k, n], &b)];
    for text in [text, split] {
        everywhere(text, &[("M", m as i64), ("N", n as i64), ("K", k as i64)], &arrays, |by, results| {
            exact(&results[0], if by == By::Evaluation(Numerics::F64) { &expected } else { &rounded });
        });
    }
}

#[test]
fn c20_c21_nan_and_negative_zero() {
    let text = "program p(x: f32[S]) -> f32[S], f32[S], f32[S], f32[S], f32
where S in 0..=99
{
  relu = max x 0.0
  low = max x 0.0
  clamp = min low 1.0
  right = max x 1.0
  one = full 1.0 to f32 -> [S]
  left = max one x
  most = max x over S
  return relu, clamp, right, left, most
}";
    let x = f32s(&[4], &[NAN, -0.0, -5.0, 7.0]);
    everywhere(text, &[("S", 4)], &[x], |_, results| {
        exact(&results[0], &[NAN, -0.0, 0.0, 7.0]);
        exact(&results[1], &[NAN, -0.0, 0.0, 1.0]);
        exact(&results[2], &[NAN, 1.0, 1.0, 7.0]);
        exact(&results[3], &[NAN, 1.0, 1.0, 7.0]);
        exact(&results[4], &[NAN]);
    });
    // NaN last, and far from the first block.
    let mut long = vec![1.0; 99];
    long[98] = NAN;
    everywhere(text, &[("S", 99)], &[f32s(&[99], &long)], |_, results| exact(&results[4], &[NAN]));
}

#[test]
fn c22_nan_at_masked_places() {
    let mut random = Random::new(22);
    let q = random_bf16(&mut random, &[3, 2, 8]);
    let (k, v) = (random.normals(5 * 16), random.normals(5 * 16));
    // Nobody sees key 1; the last row alone sees key 3.
    let mask = bools(
        &[3, 5],
        &[true, false, true, false, true, false, false, true, false, true, true, false, false, true, true],
    );
    let hidden = |x: &[f64], fill: f64| {
        let x: Vec<f64> = x.iter().enumerate().map(|(k, x)| if k / 16 == 1 { fill } else { *x }).collect();
        bf16s(&[5, 2, 8], &x)
    };
    let sizes = [("S", 3), ("T", 5), ("H", 2), ("K", 8), ("V", 8)];
    let given = |fill: f64| [q.clone(), hidden(&k, fill), hidden(&v, fill), mask.clone()];
    let subject = Subject::new(MASKED);
    let run = |by: By, arrays: &[Array]| match by {
        By::Executor => values(&subject.run(&sizes, arrays)[0]),
        By::Evaluation(numerics) => values(&subject.eval(&sizes, arrays, numerics)[0]),
    };
    for fill in [NAN, INF] {
        everywhere(MASKED, &sizes, &given(fill), |by, results| {
            exact(&results[0], &run(by, &given(0.0)));
            assert!(values(&results[0]).iter().all(|x| x.is_finite()));
        });
    }
    // A key that one row sees makes that row NaN and no other.
    let nan = |x: &[f64]| {
        let x: Vec<f64> = x.iter().enumerate().map(|(k, x)| if k / 16 == 3 { NAN } else { *x }).collect();
        bf16s(&[5, 2, 8], &x)
    };
    everywhere(MASKED, &sizes, &[q.clone(), nan(&k), nan(&v), mask.clone()], |by, results| {
        let (got, plain) =
            (values(&results[0]), run(by, &[q.clone(), hidden(&k, 0.5), hidden(&v, 0.5), mask.clone()]));
        assert!(same(&got[..32], &plain[..32]));
        assert!(got[32..].iter().all(|x| x.is_nan()));
    });
}

#[test]
fn c22_nan_in_slots_of_a_cache_that_nobody_wrote() {
    let mut random = Random::new(122);
    let qkv: Vec<Array> = (0..3).map(|_| random_bf16(&mut random, &[5, 1, 8])).collect();
    let plan = ints(&[1], &[2]);
    // Keys 0 and 1 are in the cache, 3 come with the run, slots 5 to 8 were never written.
    let cache = |k: usize, fill: f64| {
        let mut own = values(&rows(&qkv[k], 0, 2));
        own.resize(9 * 8, fill);
        bf16s(&[9, 1, 8], &own)
    };
    let given = |fill: f64| {
        let new = |k: usize| rows(&qkv[k], 2, 5);
        [new(0), new(1), new(2), cache(1, fill), cache(2, fill), plan.clone()]
    };
    let sizes = [("S", 3), ("C", 9), ("H", 1), ("K", 8)];
    let subject = Subject::new(CACHED);
    everywhere(CACHED, &sizes, &given(NAN), |by, results| {
        let plain = match by {
            By::Executor => subject.run(&sizes, &given(0.0)),
            By::Evaluation(numerics) => subject.eval(&sizes, &given(0.0), numerics),
        };
        exact(&results[0], &values(&plain[0]));
        assert!(values(&results[0]).iter().all(|x| x.is_finite()));
    });
}

#[test]
fn c23_products_of_empty_matrices() {
    let text = "program p(a: f32[B, M, K], b: f32[one: 1, K, N]) -> f32[B, M, N]
where B in 0..=64, M in 0..=64, N in 0..=64, K in 0..=64
{
  return contract a[B, M, K] b[one, K, N] -> [B, M, N]
}";
    let symbolic = Subject::new(text);
    for (b, m, k, n) in [(1, 16, 0, 16), (1, 0, 2, 1), (3, 0, 0, 0), (0, 2, 3, 2), (0, 0, 0, 0)] {
        let sizes = [("B", b as i64), ("M", m as i64), ("K", k as i64), ("N", n as i64)];
        let arrays = [f32s(&[b, m, k], &vec![2.0; b * m * k]), f32s(&[1, k, n], &vec![3.0; k * n])];
        for subject in [&symbolic, &Subject::new(&fixed(text, &sizes))] {
            at(subject, &sizes, &arrays, |_, results| {
                assert_eq!(results[0].extents, [b, m, n]);
                exact(&results[0], &vec![0.0; b * m * n]);
            });
        }
    }
    let vector = "program p(a: f32[M, K], x: f32[K]) -> f32[M]
where M in 0..=64, K in 0..=64
{
  return contract a[M, K] x[K] -> [M]
}";
    let arrays = [f32s(&[0, 2], &[]), f32s(&[2], &[1.0, 2.0])];
    everywhere(vector, &[("M", 0), ("K", 2)], &arrays, |_, results| assert_eq!(results[0].extents, [0]));
}

#[test]
fn c24_reductions_of_nothing_and_of_a_scalar() {
    let text = "program p(x: f32[R, D]) -> f32[R], f32[R], f32[R], f32[R], f32[R]
where R in 0..=9, D in 0..=9
{
  total = sum x over D
  product = prod x over D
  most = max x over D
  e = exp x
  t = sum e over D
  plain = log t
  shifted = sub x most[R, _]
  es = exp shifted
  ts = sum es over D
  ls = log ts
  stable = add ls most
  return total, product, most, plain, stable
}";
    everywhere(text, &[("R", 2), ("D", 0)], &[f32s(&[2, 0], &[])], |_, results| {
        for (result, expected) in results.iter().zip([0.0, 1.0, -INF, -INF, -INF]) {
            exact(result, &[expected; 2]);
        }
    });
    let scalar = "program p(x: f32) -> f32, f32, f32[i: 1]
{
  one = reshape x -> [i: 1]
  total = sum one over i
  most = max one over i
  weight = full 1.0 to f32 -> [i: 1]
  running = contract weight[i] one[j] where j <= i -> [i]
  return total, most, running
}";
    at(&Subject::new(scalar), &[], &[f32s(&[], &[-2.5])], |_, results| {
        results.iter().for_each(|result| exact(result, &[-2.5]));
    });
}

#[test]
fn c25_sizes_beside_the_size_of_tiles() {
    // A window of a state that is 3 rows longer on each side, which stay as they are.
    let text = "program p(x: f32[n: R, c: C], out: state f32[n: R + 6, c: C]) -> f32[n: R + 6, c: C], f32[n: R], f32[c: C]
where R in 0..=16384, C in 0..=16384
{
  y = mul x 2.0
  z = update out y over n at 3
  across = sum x over c
  down = sum x over n
  return z, across, down
}";
    let symbolic = Subject::new(text);
    let check = |subject: &Subject, r: usize, c: usize| {
        // Small integers: all sums are exact.
        let x: Vec<f64> = (0..r * c).map(|k| ((k * 7 + 3) % 13) as f64).collect();
        let arrays = [f32s(&[r, c], &x), f32s(&[r + 6, c], &vec![-7.0; (r + 6) * c])];
        let guard = vec![-7.0; 3 * c];
        let twice: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
        let across: Vec<f64> = (0..r).map(|i| x[i * c..(i + 1) * c].iter().fold(0.0, |a, b| a + b)).collect();
        let down: Vec<f64> = (0..c).map(|j| (0..r).fold(0.0, |sum, i| sum + x[i * c + j])).collect();
        at(subject, &[("R", r as i64), ("C", c as i64)], &arrays, |_, results| {
            exact(&results[0], &[guard.clone(), twice.clone(), guard.clone()].concat());
            exact(&results[1], &across);
            exact(&results[2], &down);
        });
    };
    for n in [1, 7, 63, 127, 129, 1000, 13243] {
        for (r, c) in [(n, 1), (1, n), (n, 3)] {
            check(&symbolic, r, c);
        }
    }
    for (r, c) in [(1024, 2), (2048, 1), (129, 127), (63, 1000)] {
        check(&symbolic, r, c);
        check(&Subject::new(&fixed(text, &[("R", r as i64), ("C", c as i64)])), r, c);
    }
    assert_eq!(symbolic.compiles(), 1);
}

#[test]
fn c26_one_compile_for_all_sizes_and_equal_sizes_stay_two() {
    let text = "program p(x: f32[n: N], y: f32[m: M]) -> f32[n: N], f32, f32[n: N, m: M]
where N in 0..=8192, M in 0..=8192
{
  total = sum y over m
  a = add x total[]
  most = max x over n
  outer = mul x[n] y[m] -> [n, m]
  return a, most, outer
}";
    let subject = Subject::new(text);
    for (n, m) in [(8, 8), (1, 1), (0, 0), (8192, 3), (3, 8192), (8, 5), (0, 7), (7, 0)] {
        let x: Vec<f64> = (0..n).map(|k| (k % 11) as f64).collect();
        let y: Vec<f64> = (0..m).map(|k| (k % 5) as f64 - 2.0).collect();
        let total = y.iter().fold(0.0, |a, b| a + b);
        let arrays = [f32s(&[n], &x), f32s(&[m], &y)];
        at(&subject, &[("N", n as i64), ("M", m as i64)], &arrays, |_, results| {
            exact(&results[0], &x.iter().map(|x| x + total).collect::<Vec<f64>>());
            exact(&results[1], &[x.iter().copied().fold(-INF, f64::max)]);
            exact(&results[2], &x.iter().flat_map(|x| y.iter().map(move |y| x * y)).collect::<Vec<f64>>());
        });
    }
    assert_eq!(subject.compiles(), 1);
}

#[test]
fn c27_growing_sizes_compile_once() {
    let mut random = Random::new(27);
    let subject = Subject::new(MASKED);
    for n in [3, 4, 5] {
        let qkv: Vec<Array> = (0..3).map(|_| random_bf16(&mut random, &[n, 1, 4])).collect();
        let mask: Vec<bool> = (0..n * n).map(|k| k % n <= k / n).collect();
        let [q, k, v] = [values(&qkv[0]), values(&qkv[1]), values(&qkv[2])];
        let expected: Vec<f64> = (0..n)
            .flat_map(|i| attend(&q[i * 4..(i + 1) * 4], &(0..=i).collect::<Vec<_>>(), &k, &v, 4))
            .collect();
        let arrays = [qkv, vec![bools(&[n, n], &mask)]].concat();
        let sizes = [("S", n as i64), ("T", n as i64), ("H", 1), ("K", 4), ("V", 4)];
        at(&subject, &sizes, &arrays, |by, results| {
            close(&results[0], &expected, by.tolerance(1e-12, 2e-2));
        });
    }
    assert_eq!(subject.compiles(), 1);

    let subject = Subject::new(CACHED);
    let qkv: Vec<Array> = (0..3).map(|_| random_bf16(&mut random, &[27, 2, 8])).collect();
    let run = |sizes: &[(&str, i64)], arrays: &[Array]| subject.run(sizes, arrays);
    let (whole, _) = in_chunks(&run, &qkv, 32, &[27]);
    let (steps, _) = in_chunks(&run, &qkv, 32, &[&[7][..], &[1; 20][..]].concat());
    assert!(same(&whole, &steps));
    assert_eq!(subject.compiles(), 1);
}

/// What a program gives for tensors of the caller; states are changed in place.
fn run_in_place(
    subject: &Subject,
    at: &[(&str, i64)],
    inputs: &[(&str, &HostTensor)],
    state: Option<(&str, &mut HostTensor)>,
) -> Vec<HostTensor> {
    let plan = subject.executable.plan(&sizes(at), BTreeMap::new()).expect("a plan");
    let mut arguments = Arguments::new();
    for (name, tensor) in inputs {
        arguments = arguments.input(name, tensor);
    }
    if let Some((name, tensor)) = state {
        arguments = arguments.state(name, tensor);
    }
    let run = subject.executable.run(&plan, &Weights::default(), arguments, &Control::default());
    run.unwrap_or_else(|error| panic!("{error}"))
}

/// A position that starts at 2^31, as a literal; memory that no one touches costs nothing.
const FAR: &str = "program p(x: u8[n: N], out: state i8[n: N], y: i8[n: 16]) -> u8[n: 16], i8[n: N]
where N in 2147483664..=4294967296
{
  a = slice x over n from 2147483648 size 16
  b = update out y over n at 2147483648
  return a, b
}";

#[test]
fn c28_elements_beyond_2_31() {
    // Rows of 131072 bytes, 16400 of them: row 16384 starts at element 2^31.
    let text = "program p(x: u8[r: R, c: C]) -> u8[r: 16, c: 3], i32[r: 16], i32[c: C]
where R in 0..=32768, C in 3..=131072
{
  rows = slice x over r from 16384 size 16
  part = slice rows over c from C - 3 size 3
  wide = cast rows to i32
  sums = sum wide over c
  down = sum wide over r
  return part, sums, down
}";
    let (height, width) = (16400usize, 131072usize);
    let sizes = [("R", height as i64), ("C", width as i64)];
    let mut x = HostTensor::zeros(DType::U8, vec![height, width]).expect("2 GiB");
    for (row, column, value) in [
        (16384, 0, 1),
        (16384, width - 1, 200),
        (16390, 5, 7),
        (16399, width - 1, 9),
        (16383, 0, 99),
        (0, 0, 55),
    ] {
        x.bytes_mut()[row * width + column] = value;
    }
    for text in [text.to_string(), fixed(text, &sizes)] {
        let results = run_in_place(&Subject::new(&text), &sizes, &[("x", &x)], None);
        let mut part = [0.0; 48];
        (part[2], part[47]) = (200.0, 9.0);
        exact(&results[0].to_array(), &part);
        let mut sums = [0.0; 16];
        (sums[0], sums[6], sums[15]) = (201.0, 7.0, 9.0);
        exact(&results[1].to_array(), &sums);
        let mut down = vec![0.0; width];
        (down[0], down[5], down[width - 1]) = (1.0, 7.0, 209.0);
        exact(&results[2].to_array(), &down);
    }

    drop(x);

    // One axis of 2^31 + 16: a slice and a window of a state behind a literal position.
    let n = (1usize << 31) + 16;
    let sizes = [("N", n as i64)];
    let new: Vec<u8> = (0..16).map(|k| (k as i8 - 8) as u8).collect();
    let y = HostTensor::new(DType::I8, vec![16], new.clone()).expect("sixteen bytes");
    for text in [FAR.to_string(), fixed(FAR, &sizes)] {
        let subject = Subject::new(&text);
        let mut x = HostTensor::zeros(DType::U8, vec![n]).expect("2 GiB");
        (0..32).for_each(|k| x.bytes_mut()[n - 32 + k] = k as u8 + 100);
        let mut out = HostTensor::zeros(DType::I8, vec![n]).expect("2 GiB");
        (0..32).for_each(|k| out.bytes_mut()[n - 32 + k] = 77);
        let results = run_in_place(&subject, &sizes, &[("x", &x), ("y", &y)], Some(("out", &mut out)));
        exact(&results[0].to_array(), &(0..16).map(|k| f64::from(k) + 116.0).collect::<Vec<f64>>());
        assert_eq!(out.bytes()[n - 32..n - 16], [77; 16]);
        assert_eq!(out.bytes()[n - 16..], new);
        assert_eq!(out.bytes()[..16], [0; 16]);
    }
}

/// Every one of 2^31 + 16 elements is read and written. It takes minutes, so that it runs only where the environment
/// variable `TILEWRIGHT_LARGE` is set; at 2^16 + 16 elements it always runs.
#[test]
fn c28_every_element_of_2_31_and_more() {
    let text = "program p(x: i8[n: N]) -> i8[n: N], i64
where N in 0..=4294967296
{
  y = neg x
  wide = cast x to i64
  total = sum wide over n
  return y, total
}";
    let large = std::env::var_os("TILEWRIGHT_LARGE").is_some();
    let n = if large { (1usize << 31) + 16 } else { (1 << 16) + 16 };
    let mut bytes = vec![0u8; n];
    for (k, byte) in bytes.iter_mut().enumerate() {
        *byte = (k % 100) as u8;
    }
    let total: i64 = bytes.iter().map(|&byte| i64::from(byte)).sum();
    let x = HostTensor::new(DType::I8, vec![n], bytes).expect("the elements");
    let results = run_in_place(&Subject::new(text), &[("N", n as i64)], &[("x", &x)], None);
    assert_eq!(results[1].integer(&[]), Some(total));
    let wrong =
        results[0].bytes().iter().enumerate().position(|(k, &y)| y != ((k % 100) as u8).wrapping_neg());
    assert_eq!(wrong, None);
}

#[test]
fn a_ragged_axis_of_one_element_at_most() {
    let text = "program p(off: plan i32[edge: B + 1], x: f32[T, D]) -> f32[T, D], f32[b: B, D]
where B in 0..=8, D in 0..=8, T in 0..=8, off splits T over B
{
  parts = ragged x -> [b: B, t: off[b + 1] - off[b], D]
  y = add parts 1.0
  total = sum parts over t
  z = packed y -> [T, D]
  return z, total
}";
    for t in [0, 1] {
        let arrays = [ints(&[3], &[0, t, t]), f32s(&[t as usize, 2], &vec![4.0; 2 * t as usize])];
        everywhere(text, &[("B", 2), ("D", 2), ("T", t)], &arrays, |_, results| {
            exact(&results[0], &vec![5.0; 2 * t as usize]);
            exact(&results[1], &[4.0 * t as f64, 4.0 * t as f64, 0.0, 0.0]);
        });
    }
}

#[test]
fn c29_experts_without_tokens() {
    let (d, f, e) = (16, 8, 8);
    let mut random = Random::new(29);
    let weights: Vec<Array> = [[e, f, d], [e, f, d], [e, d, f]]
        .iter()
        .map(|extents| bf16s(extents, &random.normals(e * f * d).iter().map(|x| x / 4.0).collect::<Vec<_>>()))
        .collect();
    // The router reads the first `e` features, of which each token has one.
    let router = bf16s(&[e, d], &(0..e * d).map(|k| f64::from(k / d == k % d) * 8.0).collect::<Vec<_>>());
    let moe = Subject::new(MOE);
    let one = Subject::new(SWIGLU);
    let experts: [&dyn Fn(usize) -> usize; 4] =
        [&|t| t % e, &|_| 3, &|t| [0, 0, 5, 7][t % 4], &|t| e - 1 - t % 2];
    for tokens in [0, 1, 2, 63, 130] {
        for expert in experts {
            let x: Vec<f64> = (0..tokens * d)
                .map(|k| match k % d {
                    feature if feature < e => f64::from(feature == expert(k / d)),
                    _ => random.normal(),
                })
                .collect();
            let x = bf16s(&[tokens, d], &x);
            let arrays =
                [x.clone(), router.clone(), weights[0].clone(), weights[1].clone(), weights[2].clone()];
            let size = |n: usize| n as i64;
            let sizes = [("T", size(tokens)), ("D", size(d)), ("F", size(f)), ("E", size(e)), ("A", 1)];
            let check = |by: By, results: &[Array]| {
                assert_eq!(results[0].extents, [tokens, d]);
                // The share of the one chosen expert is 1, so that the row is that expert's alone.
                for t in 0..tokens {
                    let own = |w: &Array| w.slice(expert(t)).expect("an expert");
                    let arrays = [rows(&x, t, t + 1), own(&weights[0]), own(&weights[1]), own(&weights[2])];
                    let sizes = [("S", 1), ("D", size(d)), ("F", size(f))];
                    let row = match by {
                        By::Executor => one.run(&sizes, &arrays),
                        By::Evaluation(numerics) => one.eval(&sizes, &arrays, numerics),
                    };
                    exact(&rows(&results[0], t, t + 1), &values(&row[0]));
                }
            };
            at(&moe, &sizes, &arrays, check);
            if tokens < 3 {
                at(&Subject::new(&fixed(MOE, &sizes)), &sizes, &arrays, check);
            }
        }
    }
    assert_eq!(moe.compiles(), 1);
}

#[test]
fn c33_a_row_alone_and_among_others() {
    let mut random = Random::new(33);
    let norm = Subject::new(RMSNORM);
    let softmax = Subject::new(SOFTMAX);
    let paged = Subject::new(PAGED);
    let (d, n) = (300, 70);
    let x = random_bf16(&mut random, &[300, d]);
    let w = random_bf16(&mut random, &[n, d]);
    let alone = |at: usize| {
        let sizes = [("S", 1), ("D", d as i64), ("N", n as i64)];
        let product = norm.run(&sizes, &[rows(&x, at, at + 1), w.clone()]);
        let row = f32s(&[1, d], &values(&rows(&x, at, at + 1)));
        (values(&product[0]), values(&softmax.run(&[("R", 1), ("C", d as i64)], &[row])[0]))
    };
    let probes = [0, 1, 63, 64, 127, 200, 254];
    let expected: Vec<_> = probes.iter().map(|&at| alone(at)).collect();
    for count in [255, 256, 300] {
        let sizes = [("S", count as i64), ("D", d as i64), ("N", n as i64)];
        let given = rows(&x, 0, count);
        let product = norm.run(&sizes, &[given.clone(), w.clone()]);
        let wide = f32s(&[count, d], &values(&given));
        let soft = softmax.run(&[("R", count as i64), ("C", d as i64)], &[wide]);
        for (&at, (first, second)) in probes.iter().zip(&expected) {
            exact(&rows(&product[0], at, at + 1), first);
            exact(&rows(&soft[0], at, at + 1), second);
        }
    }
    // A sequence of 9 keys alone, and among 255 others of other lengths over the same pages.
    let (k, v) = (random_bf16(&mut random, &[6, 4, 1, 8]), random_bf16(&mut random, &[6, 4, 1, 8]));
    let q = random.normals(8);
    let run = |batch: usize| {
        let mut random = Random::new(batch as u64);
        let place = batch / 2;
        let mut queries = random.normals(batch * 8);
        queries[place * 8..(place + 1) * 8].copy_from_slice(&q);
        let mut pages: Vec<i64> = (0..batch * 3).map(|_| random.below(6) as i64).collect();
        pages[place * 3..(place + 1) * 3].copy_from_slice(&[4, 0, 5]);
        let mut lengths: Vec<i64> = (0..batch).map(|_| random.below(13) as i64).collect();
        lengths[place] = 9;
        let arrays = [
            bf16s(&[batch, 1, 1, 8], &queries),
            k.clone(),
            v.clone(),
            ints(&[batch, 3], &pages),
            ints(&[batch], &lengths),
        ];
        let sizes =
            [("B", batch as i64), ("P", 6), ("R", 4), ("N", 3), ("H", 1), ("G", 1), ("K", 8), ("V", 8)];
        values(&rows(&paged.run(&sizes, &arrays)[0], place, place + 1))
    };
    let alone = run(1);
    assert!(alone.iter().all(|x| x.is_finite()));
    for batch in [2, 255, 256] {
        assert!(same(&run(batch), &alone));
    }
}
