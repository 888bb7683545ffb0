//! Kernels that block bodies become mean the same, bit for bit.

use crate::common::{Random, agree, ints, random};
use tilewright::tensor::{Array, DType};

const SIZES: [i64; 6] = [0, 1, 3, 7, 8, 19];

fn usizes(extents: &[i64]) -> Vec<usize> {
    extents.iter().map(|extent| *extent as usize).collect()
}

fn array(dtype: DType, extents: &[i64], seed: u64) -> Array {
    random(dtype, &usizes(extents), &mut Random(seed | 1))
}

/// The root mean square of rows, then the rows divided by it: a carry, computes, an index as a number.
#[test]
fn normalized_rows() {
    let text = "
program norm
where S in 0..=64, D in 0..=64
arena 0
buffers {
  input x: bf16[S, D]
  output y: bf16[S, D]
}
results y
tasks rows [m in ceildiv(S, 4)]
  reads x[4*m..min(S, 4*m + 4), 0..D]
  writes y[4*m..min(S, 4*m + 4), 0..D]
{
  q: f32{i: 4*m +: 4 < S} = map k in ceildiv(D, 8) sequential carry sum bf16 (so: f32{i: 4*m +: 4 < S}) {
    a: bf16{i: 4*m +: 4 < S, d: 8*k +: 8 < D} = load x[i, d]
    s: bf16 = mul a a
    more: f32 = reduce sum s into so
    next more
  }
  size: f32{i: 4*m +: 4 < S} = cast index(D + i)
  n: f32{i: 4*m +: 4 < S} = div q size
  e: f32 = add n 0.5
  r: f32 = rsqrt e
  c: bf16 = cast r
  map k2 in ceildiv(D, 8) parallel {
    b: bf16{i: 4*m +: 4 < S, d: 8*k2 +: 8 < D} = load x[i, d]
    h: bf16{i: 4*m +: 4 < S, d: 8*k2 +: 8 < D} = mul b c
    store h -> y[i, d]
  }
}
";
    for s in SIZES {
        for d in SIZES {
            agree(text, &[("S", s), ("D", d)], &[array(DType::Bf16, &[s, d], 3)]);
        }
    }
}

/// A product with a causal guard and a mask, with NaN where neither admits a term.
#[test]
fn guarded_product() {
    let text = "
program product
where M in 0..=64, N in 0..=64, K in 0..=64
arena 0
buffers {
  input a: f32[M, K]
  input b: f32[N, K]
  input mask: bool[M, K]
  output c: f32[M, N]
}
results c
tasks cells [m in ceildiv(M, 4), n in ceildiv(N, 8)]
  reads a, b, mask
  writes c[4*m..min(M, 4*m + 4), 8*n..min(N, 8*n + 8)]
{
  z: f32{i: 4*m +: 4 < M, j: 8*n +: 8 < N} = map k in ceildiv(K, 4) sequential carry sum f32 (so: f32{i: 4*m +: 4 < M, j: 8*n +: 8 < N}) {
    x: f32{i: 4*m +: 4 < M, d: 4*k +: 4 < K} = load a[i, d]
    y: f32{j: 8*n +: 8 < N, d: 4*k +: 4 < K} = load b[j, d]
    u: bool{i: 4*m +: 4 < M, d: 4*k +: 4 < K} = load mask[i, d]
    more: f32 = contract x y into so where d <= i + 1 masks u
    next more
  }
  store z -> c[i, j]
}
";
    for m in SIZES {
        for k in SIZES {
            let mut a = array(DType::F32, &[m, k], 5);
            let mask = array(DType::Bool, &[m, k], 9);
            for position in 0..a.len() {
                let (row, column) = (position as i64 / k, position as i64 % k);
                if column > row + 1 || !mask.get(position).as_bool() {
                    a.set(position, tilewright::tensor::Scalar::Float(f64::NAN));
                }
            }
            let b = array(DType::F32, &[7, k], 6);
            let results = agree(text, &[("M", m), ("N", 7), ("K", k)], &[a, b, mask]);
            let result = results.first().expect("one result");
            assert!((0..result.len()).all(|position| !result.get(position).as_f64().is_nan()));
        }
    }
}

/// Maxima and their positions; a state that is still read after it has been updated.
#[test]
fn old_states_are_kept() {
    let text = "
program old
where S in 0..=64, D in 0..=64
arena 0
buffers {
  input x: f32[S, D]
  output y: f32[S]
  output p: i32[S]
}
results y, p
tasks rows [m in ceildiv(S, 4)]
  reads x
  writes y[4*m..min(S, 4*m + 4)], p[4*m..min(S, 4*m + 4)]
{
  top: f32{i: 4*m +: 4 < S}, moved: f32{i: 4*m +: 4 < S}, best: f32{i: 4*m +: 4 < S}, where_: i32{i: 4*m +: 4 < S} = map k in ceildiv(D, 8) sequential carry max f32 (t: f32{i: 4*m +: 4 < S}) carry sum f32 (w: f32{i: 4*m +: 4 < S}) carry argmax f32 (b: f32{i: 4*m +: 4 < S}, q: i32{i: 4*m +: 4 < S}) {
    a: f32{i: 4*m +: 4 < S, d: 8*k +: 8 < D} = load x[i, d]
    t2: f32 = reduce max a into t
    d1: f32 = eq_or_less t t2
    w2: f32 = add w d1
    b2: f32, q2: i32 = reduce argmax a at d into b, q
    next t2, w2, b2, q2
  }
  s: f32 = add top moved
  store s -> y[i]
  store where_ -> p[i]
}
"
    .replace("eq_or_less", "min");
    for s in SIZES {
        for d in SIZES {
            agree(&text, &[("S", s), ("D", d)], &[array(DType::F32, &[s, d], 11)]);
        }
    }
}

/// Carries that exchange their states at the end of each iteration.
#[test]
fn exchanged_states() {
    let text = "
program swap
where S in 0..=64, D in 0..=64
arena 0
buffers {
  input x: f32[S]
  output y: f32[S]
  output z: f32[S]
}
results y, z
tasks rows [m in ceildiv(S, 4)]
  reads x
  writes y[4*m..min(S, 4*m + 4)], z[4*m..min(S, 4*m + 4)]
{
  a: f32{i: 4*m +: 4 < S} = load x[i]
  first: f32{i: 4*m +: 4 < S}, second: f32{i: 4*m +: 4 < S} = map k in D sequential carry sum f32 (p: f32{i: 4*m +: 4 < S}) from a carry sum f32 (q: f32{i: 4*m +: 4 < S}) {
    r: f32 = add p 1.0
    next q, r
  }
  store first -> y[i]
  store second -> z[i]
  t: f32 = add a first
  store t -> z[i]
}
";
    for s in SIZES {
        for d in [0, 1, 2, 5] {
            agree(text, &[("S", s), ("D", d)], &[array(DType::F32, &[s], 13)]);
        }
    }
}

/// Rows picked by a table, halves by division, elements outside as 0, stores at an offset.
#[test]
fn access_functions() {
    let text = "
program access
where S in 0..=64, D in 0..=64, R in 1..=64, ids elements 0..=R - 1
arena 0
buffers {
  input x: f32[R, D]
  plan ids: i32[S]
  output y: f32[S, 2*D + 2]
}
results y
tasks rows [m in ceildiv(S, 4), k in ceildiv(2*D + 2, 8)]
  reads x, ids
  writes y[4*m..min(S, 4*m + 4), 8*k..min(2*D + 2, 8*k + 8)]
{
  a: f32{i: 4*m +: 4 < S, d: 8*k +: 8 < 2*D + 2} = load x[ids[i], floordiv(d, 2)]
  b: f32{i: 4*m +: 4 < S, d: 8*k +: 8 < 2*D + 2} = load x[0, d - 1] when d != 3 and i >= 1
  c: f32 = add a b
  f: f32 = select holds(mod(d, 2) == 0) c 7.0
  store f -> y[i, d]
}
";
    for s in SIZES {
        for d in SIZES {
            let r = 5;
            let ids: Vec<i64> = (0..s).map(|i| (i * 7 + 3) % r).collect();
            let arrays = [array(DType::F32, &[r, d], 17), ints(DType::I32, &[s as usize], &ids)];
            agree(text, &[("S", s), ("D", d), ("R", r)], &arrays);
        }
    }
}

/// Three factors, a label of one factor alone, integers, and two reduced labels.
#[test]
fn general_contractions() {
    let text = "
program general
where S in 0..=64, D in 0..=64
arena 0
buffers {
  input x: TYPE[S, D]
  input y: TYPE[D, S]
  input z: TYPE[D]
  output o: ACC[S]
}
results o
tasks rows [m in ceildiv(S, 4)]
  reads x, y, z
  writes o[4*m..min(S, 4*m + 4)]
{
  a: TYPE{i: 4*m +: 4 < S, d: 0 +: 32 < D} = load x[i, d]
  b: TYPE{e: 0 +: 32 < D, i: 4*m +: 4 < S} = load y[e, i]
  c: TYPE{d: 0 +: 32 < D} = load z[d]
  r: ACC{i: 4*m +: 4 < S} = contract a b c where d + e <= 20 and d != 2
  store r -> o[i]
}
";
    let kinds = [
        ("f32", "f32", DType::F32),
        ("bf16", "f32", DType::Bf16),
        ("i8", "i32", DType::I8),
        ("f16", "f16", DType::F16),
    ];
    for (name, accumulate, dtype) in kinds {
        let text = text.replace("TYPE", name).replace("ACC", accumulate);
        for s in SIZES {
            for d in SIZES {
                let arrays = [array(dtype, &[s, d], 19), array(dtype, &[d, s], 20), array(dtype, &[d], 21)];
                agree(&text, &[("S", s), ("D", d)], &arrays);
            }
        }
    }
}
