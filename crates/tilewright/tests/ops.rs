//! The operators of `tensor/ops`, each under its own name, against plain loops.

mod tensor_tools;

use tensor_tools::*;
use tilewright::tensor::DType;
use tilewright::tensor::eval::{Bindings, Numerics, eval, unwritten};
use tilewright::tensor::ops;

/// `0.0, 1.0, …`
fn count(n: usize) -> Vec<f64> {
    (0..n).map(|k| k as f64).collect()
}

#[test]
fn reshape() {
    let split = "program p(x: f32[S, D: H * K]) -> f32[S, h: H, k: K]
where S in 0..=64, H in 1..=8, K in 1..=64
{ 
  return reshape x -> [S, h: H, k: K]
}";
    for (s, h, k) in [(0, 2, 3), (1, 1, 1), (5, 3, 7)] {
        let x = f32s(&[s, h * k], &count(s * h * k));
        for numerics in BOTH {
            let y = run(
                split,
                &[("S", s as i64), ("H", h as i64), ("K", k as i64)],
                std::slice::from_ref(&x),
                numerics,
            );
            assert_eq!(y.extents, [s, h, k]);
            exact(&y, &count(s * h * k));
        }
    }
    let merge = "program p(x: f32[A, B, C: 6, D: 4], y: f32[n: 6, m: 4]) -> f32[A, bc: B * 6, d: 2, e: 2, z: 1], f32[n: 4, m: 6]
where A in 0..=9, B in 0..=9
{
  u = reshape x -> [A, bc: B * 6, d: 2, e: 2, z: 1]
  v = reshape y -> [n: 4, m: 6]
  return u, v
}";
    for (a, b) in [(0, 3), (2, 0), (1, 1), (3, 5)] {
        let x = f32s(&[a, b, 6, 4], &count(a * b * 24));
        let results = run_all(
            merge,
            &[("A", a as i64), ("B", b as i64)],
            &[x, f32s(&[6, 4], &count(24))],
            Numerics::Own,
        );
        exact(&results[0], &count(a * b * 24));
        exact(&results[1], &count(24));
    }
    // Extents of nothing have one product, however they are split.
    for (t, a) in [(0, 2), (3, 0), (0, 0)] {
        let empty = format!(
            "program p(x: f32[T, A], y: f32[A, T]) -> f32[r: T * A], f32[r: 1, s: A * T], f32[A, T]
where T = {t}, A = {a}
{{
  u = reshape x -> [r: T * A]
  v = reshape y -> [r: 1, s: A * T]
  w = reshape x -> [A, T]
  return u, v, w
}}"
        );
        let arrays = [f32s(&[t, a], &[]), f32s(&[a, t], &[])];
        let results = run_all(&empty, &[("T", t as i64), ("A", a as i64)], &arrays, Numerics::Own);
        assert!(results.iter().all(|result| result.is_empty()));
        assert_eq!(results[2].extents, [a, t]);
    }
    let message = refusal(
        "program p(x: f32[S]) -> f32[T] where S in 0..=9, T in 0..=9 {\n  return reshape x -> [T]\n}",
    );
    assert!(message.contains("not known to have one product"), "{message}");
}

#[test]
fn reshape_keeps_a_ragged_axis() {
    let source = "program p(off: plan i32[P: E + 1], x: f32[e: E, t: off[e + 1] - off[e], D: H * K]) -> f32[b: E, u: off[b + 1] - off[b], h: H, k: K]
where E in 0..=9, T in 0..=99, H in 1..=8, K in 1..=8, off splits T over E
{
  return reshape x -> [b: E, u: off[b + 1] - off[b], h: H, k: K]
}";
    let x = f32s(&[5, 6], &count(30));
    let y = run(
        source,
        &[("E", 3), ("T", 5), ("H", 2), ("K", 3)],
        &[ints(&[4], &[0, 2, 2, 5]), x],
        Numerics::Own,
    );
    assert_eq!(y.extents, [5, 2, 3]);
    exact(&y, &count(30));
}

#[test]
fn transpose() {
    let source = "program p(x: f32[A, B, C]) -> f32[C, A, B]
where A in 0..=9, B in 0..=9, C in 0..=9
{
  return transpose x -> [C, A, B]
}";
    for (a, b, c) in [(2, 3, 4), (1, 1, 1), (0, 3, 2), (7, 1, 5)] {
        let x = f32s(&[a, b, c], &count(a * b * c));
        let y = run(source, &[("A", a as i64), ("B", b as i64), ("C", c as i64)], &[x], Numerics::Own);
        let mut expected = Vec::new();
        for k in 0..c {
            for i in 0..a {
                for j in 0..b {
                    expected.push(((i * b + j) * c + k) as f64);
                }
            }
        }
        exact(&y, &expected);
    }
    let square = "program p(x: f32[i: S, j: S]) -> f32[b: S, a: S]
where S in 0..=9
{
  return transpose x[a, b] -> [b, a]
}";
    exact(&run(square, &[("S", 2)], &[f32s(&[2, 2], &[0., 1., 2., 3.])], Numerics::Own), &[0., 2., 1., 3.]);
    let message =
        refusal("program p(x: f32[i: 2, j: 2]) -> f32[j: 2, i: 2] {\n  return transpose x -> [j, k]\n}");
    assert!(message.contains('k'), "{message}");
}

#[test]
fn broadcast() {
    let source = "program p(x: f32[i: A, j: B]) -> f32[t: T, j: B, i: A]
where A in 0..=9, B in 0..=9, T in 0..=9
{
  return broadcast x -> [t: T, j, i]
}";
    let y = run(source, &[("A", 2), ("B", 2), ("T", 2)], &[f32s(&[2, 2], &count(4))], Numerics::Own);
    exact(&y, &[0., 2., 1., 3., 0., 2., 1., 3.]);
    let y = run(source, &[("A", 2), ("B", 2), ("T", 0)], &[f32s(&[2, 2], &count(4))], Numerics::Own);
    assert_eq!(y.extents, [0, 2, 2]);
}

#[test]
fn slice() {
    let source = "program p(x: f32[R, C], start: i32[R]) -> f32[R, C: n], f32[R, C: 2]
where R in 0..=9, C in 0..=9, n in 0..=9
{
  a = slice x over C from 1 size n
  b = slice x over C from start[R] size 2
  return a, b
}";
    // A label cannot have the name of a size where the position depends on it.
    assert!(refusal(source).contains('R'));
    let source = "program p(x: f32[r: R, c: C], start: i32[R]) -> f32[r: R, c: n], f32[r: R, c: 2]
where R in 0..=9, C in 0..=9, n in 0..=9
{
  a = slice x over c from 1 size n
  b = slice x over c from start[r] size 2
  return a, b
}";
    let x = f32s(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let results = run_all(source, &[("R", 2), ("C", 3), ("n", 3)], &[x, ints(&[2], &[-1, 2])], Numerics::Own);
    exact(&results[0], &[2., 3., 0., 5., 6., 0.]);
    exact(&results[1], &[0., 1., 6., 0.]);
}

#[test]
fn pad() {
    let source = "program p(x: f32[r: R, c: C]) -> f32[r: R, c: C + n + 1]
where R in 0..=9, C in 0..=9, n in 0..=9
{
  return pad x over c before n after 1 with VALUE
}";
    let x = f32s(&[2, 2], &[1., f64::NAN, -0.0, 4.]);
    let inf = f64::NEG_INFINITY;
    let y = run(
        &source.replace("VALUE", "-inf"),
        &[("R", 2), ("C", 2), ("n", 2)],
        std::slice::from_ref(&x),
        Numerics::Own,
    );
    exact(&y, &[inf, inf, 1., f64::NAN, inf, inf, inf, -0.0, 4., inf]);
    let y = run(&source.replace("VALUE", "0.0"), &[("R", 2), ("C", 2), ("n", 1)], &[x], Numerics::Own);
    exact(&y, &[0., 1., f64::NAN, 0., 0., -0.0, 4., 0.]);
    let y = run(
        &source.replace("VALUE", "7"),
        &[("R", 1), ("C", 0), ("n", 0)],
        &[f32s(&[1, 0], &[])],
        Numerics::Own,
    );
    exact(&y, &[7.]);
}

#[test]
fn concat() {
    let source = "program p(x: f32[r: R, c: A], y: f32[r: R, c: B], z: f32[r: R, c: 1]) -> f32[r: R, c: A + B + 1], f32[r: R, c: A + B]
where R in 0..=9, A in 0..=9, B in 0..=9
{
  a = concat x y z over c
  b = concat x y over c
  return a, b
}";
    let nan = f64::NAN;
    let arrays = [f32s(&[2, 2], &[1., 2., 3., nan]), f32s(&[2, 1], &[5., -0.0]), f32s(&[2, 1], &[7., 8.])];
    let results = run_all(source, &[("R", 2), ("A", 2), ("B", 1)], &arrays, Numerics::Own);
    exact(&results[0], &[1., 2., 5., 7., 3., nan, -0.0, 8.]);
    exact(&results[1], &[1., 2., 5., 3., nan, -0.0]);
    let arrays = [f32s(&[1, 0], &[]), f32s(&[1, 0], &[]), f32s(&[1, 1], &[9.])];
    let results = run_all(source, &[("R", 1), ("A", 0), ("B", 0)], &arrays, Numerics::Own);
    exact(&results[0], &[9.]);
    assert!(results[1].is_empty());
}

#[test]
fn iota_full_and_const() {
    let source = "program p() -> i32[i: S], f32[i: S], bf16[i: S], bf16[a: 2, b: S], i32[], bool[b: 1], f32[i: 5], f32[]
where S in 0..=99
{
  a = iota to i32 -> [i: S]
  b = iota to f32 -> [i: S]
  c = iota to bf16 -> [i: S]
  d = full 0.1 to bf16 -> [a: 2, b: S]
  e = full (2 * S) to i32 -> []
  f = full true to bool -> [b: 1]
  g = const values 0.5, -1.0, inf, 3, nan to f32 -> [i: 5]
  h = full 1.0 to f32 -> []
  return a, b, c, d, e, f, g, h
}";
    let source = source.replace("i32[]", "i32").replace("f32[]", "f32");
    let results = run_all(&source, &[("S", 3)], &[], Numerics::Own);
    for result in &results[..3] {
        exact(result, &count(3));
    }
    exact(&results[3], &[0.100_097_656_25; 6]);
    exact(&results[4], &[6.]);
    exact(&results[5], &[1.]);
    exact(&results[6], &[0.5, -1., f64::INFINITY, 3., f64::NAN]);
    let results = run_all(&source, &[("S", 0)], &[], Numerics::F64);
    assert!(results[0].is_empty() && results[3].is_empty());
    let results = run_all(&source, &[("S", 1)], &[], Numerics::F64);
    exact(&results[3], &[0.1, 0.1]);
}

#[test]
fn gather() {
    let source = "program p(table: f32[V, D], ids: i32[b: B, s: S]) -> f32[b: B, s: S, D]
where V in 0..=99, D in 0..=9, B in 0..=9, S in 0..=9
{
  return gather table ids over V
}";
    let table = f32s(&[3, 2], &[1., 2., 3., 4., 5., 6.]);
    let symbols = [("V", 3), ("D", 2), ("B", 1), ("S", 4)];
    let y = run(source, &symbols, &[table, ints(&[1, 4], &[2, -1, 0, 3])], Numerics::Own);
    assert_eq!(y.extents, [1, 4, 2]);
    exact(&y, &[5., 6., 0., 0., 1., 2., 0., 0.]);
    let y = run(
        source,
        &[("V", 0), ("D", 2), ("B", 1), ("S", 1)],
        &[f32s(&[0, 2], &[]), ints(&[1, 1], &[0])],
        Numerics::Own,
    );
    exact(&y, &[0., 0.]);
    let batched = "program p(cache: f32[b: B, p: P, d: D], ids: i32[b: B, s: S]) -> f32[b: B, s: S, d: D]
where P in 0..=99, D in 0..=9, B in 0..=9, S in 0..=9
{
  return gather cache ids over p
}";
    let y = run(
        batched,
        &[("B", 2), ("P", 2), ("D", 1), ("S", 2)],
        &[f32s(&[2, 2, 1], &[1., 2., 3., 4.]), ints(&[2, 2], &[1, 1, 0, 1])],
        Numerics::Own,
    );
    exact(&y, &[2., 2., 3., 4.]);
}

#[test]
fn scatter_add() {
    let source = "program p(src: f32[h: H, t: T, d: D], ids: i32[T]) -> f32[h: H, t: N, d: D]
where H in 0..=9, T in 0..=9, D in 0..=9, N in 0..=9
{
  return scatter_add src ids over t size N
}";
    let src = f32s(&[2, 3, 2], &count(12));
    let symbols = [("H", 2), ("T", 3), ("D", 2), ("N", 2)];
    let y = run(source, &symbols, &[src, ints(&[3], &[1, 7, 1])], Numerics::Own);
    assert_eq!(y.extents, [2, 2, 2]);
    exact(&y, &[0., 0., 4., 6., 0., 0., 16., 18.]);
    let symbols = [("H", 1), ("T", 0), ("D", 1), ("N", 2)];
    let y = run(source, &symbols, &[f32s(&[1, 0, 1], &[]), ints(&[0], &[])], Numerics::Own);
    exact(&y, &[0., 0.]);
}

#[test]
fn topk() {
    let source = "program p(x: f32[r: R, e: E]) -> f32[r: R, e: k], i32[r: R, e: k]
where R in 0..=9, E in 0..=9, k in 0..=9
{
  v, i = topk x over e size k
  return v, i
}";
    let nan = f64::NAN;
    let x = f32s(&[2, 4], &[1., 3., 3., 2., 0., nan, -1., nan]);
    let results = run_all(source, &[("R", 2), ("E", 4), ("k", 3)], std::slice::from_ref(&x), Numerics::Own);
    exact(&results[0], &[3., 3., 2., nan, nan, 0.]);
    exact(&results[1], &[1., 2., 3., 1., 3., 0.]);
    let results = run_all(source, &[("R", 2), ("E", 4), ("k", 5)], &[x], Numerics::Own);
    let inf = f64::NEG_INFINITY;
    exact(&results[0], &[3., 3., 2., 1., inf, nan, nan, 0., -1., inf]);
    exact(&results[1], &[1., 2., 3., 0., -1., 1., 3., 0., 2., -1.]);
    let first = "program p(x: i32[e: E, r: R]) -> i32[top: 1, row: R], i32[top: 1, row: R]
where R in 0..=9, E in 0..=9
{
  v, i = topk x over e size 1 -> [top: 1, row: R], [top: 1, row: R]
  return v, i
}";
    let results = run_all(first, &[("R", 2), ("E", 2)], &[ints(&[2, 2], &[1, 9, 5, 9])], Numerics::Own);
    exact(&results[0], &[5., 9.]);
    exact(&results[1], &[1., 0.]);
}

const GROUPED: &str = "program p(x: f32[t: T, d: D], keys: i32[T]) -> f32[t: T, d: D], i32[T], i32[part: E + 2], f32[e: E, d: D]
where T in 0..=99, D in 0..=9, E in 0..=9
{
  perm, off = group keys size E
  y = gather x perm[u] over t
  z = ragged y -> [e: E, u: off[e + 1] - off[e], d]
  s = sum z over u
  a = mul z 2.0
  back = packed a -> [t: T, d: D]
  return back, perm, off, s
}";

#[test]
fn group_ragged_and_packed() {
    let keys = [1, 0, 7, 1, -1, 1];
    let x: Vec<f64> = (0..12).map(|k| f64::from(k) + 1.0).collect();
    let symbols = [("T", 6), ("D", 2), ("E", 3)];
    for numerics in BOTH {
        let results = run_all(GROUPED, &symbols, &[f32s(&[6, 2], &x), ints(&[6], &keys)], numerics);
        exact(&results[1], &[1., 0., 3., 5., 2., 4.]);
        exact(&results[2], &[0., 1., 4., 4., 6.]);
        exact(&results[0], &[6., 8., 2., 4., 14., 16., 22., 24., 0., 0., 0., 0.]);
        exact(&results[3], &[3., 4., 19., 22., 0., 0.]);
    }
}

#[test]
fn c29_groups_that_are_empty_or_take_all() {
    for (e, keys) in
        [(3, vec![]), (3, vec![2, 2, 2]), (1, vec![0; 5]), (0, vec![0, 1]), (4, vec![3, 0, 3, 0])]
    {
        let t = keys.len();
        let x: Vec<f64> = (0..t).map(|k| k as f64 + 1.0).collect();
        let symbols = [("T", t as i64), ("D", 1), ("E", e)];
        let results = run_all(GROUPED, &symbols, &[f32s(&[t, 1], &x), ints(&[t], &keys)], Numerics::Own);
        let mut order: Vec<usize> = (0..t).filter(|&k| keys[k] < e).collect();
        order.sort_by_key(|&k| keys[k]);
        let mut expected: Vec<f64> = order.iter().map(|&k| 2.0 * x[k]).collect();
        expected.resize(t, 0.0);
        exact(&results[0], &expected);
        let sums = (0..e).map(|g| (0..t).filter(|&k| keys[k] == g).map(|k| x[k]).fold(0.0, |a, b| a + b));
        exact(&results[3], &sums.collect::<Vec<f64>>());
    }
}

#[test]
fn ragged_by_given_offsets() {
    let source = "program p(x: f32[T, h: H], off: plan i32[P: B + 1]) -> f32[b: B, h: H], f32[T, h: H]
where T in 0..=99, H in 0..=9, B in 0..=9, off splits T over B
{
  r = ragged x[t, h] -> [b: B, t: off[b + 1] - off[b], h]
  m = max r over t
  d = sub r m[b, h]
  y = packed d -> [T, h: H]
  return m, y
}";
    let x = f32s(&[5, 1], &[1., 5., 2., 7., 3.]);
    let symbols = [("T", 5), ("H", 1), ("B", 4)];
    let results = run_all(source, &symbols, &[x.clone(), ints(&[5], &[0, 2, 2, 5, 5])], Numerics::Own);
    let inf = f64::NEG_INFINITY;
    exact(&results[0], &[5., inf, 7., inf]);
    exact(&results[1], &[-4., 0., -5., 0., -4.]);
    for (offsets, say) in [
        ([0, 2, 1, 5, 5], "must not decrease"),
        ([1, 2, 2, 5, 5], "first offset"),
        ([0, 2, 2, 5, 6], "last offset"),
    ] {
        let error = try_run(source, &symbols, &[x.clone(), ints(&[5], &offsets)], Numerics::Own).unwrap_err();
        assert!(error.to_string().contains(say), "{error}");
    }
}

#[test]
fn update() {
    let source = "program p(cache: state f32[b: B, c: C, k: K], new: f32[b: B, s: S, k: K], len: i32[B]) -> f32[b: B, c: C, k: K]
where B in 0..=9, C in 0..=9, S in 0..=9, K in 0..=9
{
  return update cache new over c at len[b]
}";
    let cache = f32s(&[3, 4, 1], &[0., 1., 2., 3., 10., 11., 12., 13., 20., 21., f64::NAN, 23.]);
    let new = f32s(&[3, 2, 1], &[-1., -2., -3., -4., -5., -6.]);
    let symbols = [("B", 3), ("C", 4), ("S", 2), ("K", 1)];
    // A position below 0 has a meaning, which only programs that rule it out can be lowered with.
    let arrays = vec![cache.clone(), new.clone(), ints(&[3], &[1, 3, -1])];
    let bindings = Bindings { symbols: sizes(&symbols), arrays };
    let y = eval(&parse(source), &bindings, Numerics::Own).expect("an evaluation").swap_remove(0);
    exact(&y, &[0., -1., -2., 3., 10., 11., 12., -3., -6., 21., f64::NAN, 23.]);
    let source = &source.replace("S in 0..=9,", "S in 0..=9, len elements 0..=C,");
    let y = run(source, &symbols, &[cache.clone(), new, ints(&[3], &[1, 3, 4])], Numerics::Own);
    exact(&y, &[0., -1., -2., 3., 10., 11., 12., -3., 20., 21., f64::NAN, 23.]);
    let symbols = [("B", 3), ("C", 4), ("S", 0), ("K", 1)];
    let y =
        run(source, &symbols, &[cache.clone(), f32s(&[3, 0, 1], &[]), ints(&[3], &[1, 3, 0])], Numerics::Own);
    exact(&y, &values(&cache));
}

#[test]
fn split() {
    let source =
        "program p(x: f32[m: M, k: K]) -> f32[m: M, s: ceildiv(K, c), r: min(c, K - s * c)], f32[m: M]
where M in 0..=9, K in 0..=99, c in 1..=99
{
  y = split x over k by c
  p = sum y over r
  t = sum p over s
  return y, t
}";
    for k in [0usize, 1, 3, 4, 5, 9] {
        for c in [1usize, 3, 4, 16] {
            let x = count(2 * k);
            let symbols = [("M", 2), ("K", k as i64), ("c", c as i64)];
            let results = run_all(source, &symbols, &[f32s(&[2, k], &x)], Numerics::Own);
            let parts = k.div_ceil(c);
            assert_eq!(results[0].extents, [2, parts, c]);
            for m in 0..2 {
                for s in 0..parts {
                    for r in 0..c {
                        let got = results[0].get((m * parts + s) * c + r).as_f64();
                        let at = s * c + r;
                        // What lies behind the last part is padding that nothing writes.
                        let expected = if at < k { x[m * k + at] } else { unwritten(DType::F32).as_f64() };
                        assert!(same(&[got], &[expected]), "{k} {c}: {got} is not {expected}");
                    }
                }
                assert_eq!(results[1].get(m).as_f64(), x[m * k..(m + 1) * k].iter().sum::<f64>());
            }
        }
    }
}

/// What `format` means, byte by byte, as its own C code computes it.
fn decode_block(format: &str, b: &[u8]) -> Vec<f32> {
    let half = |at: usize| half::f16::from_le_bytes([b[at], b[at + 1]]).to_f32();
    let nibble = |qs: usize, i: usize| i32::from(if i < 16 { b[qs + i] & 15 } else { b[qs + i - 16] >> 4 });
    let fifth = |qh: usize, i: usize| {
        let bits = u32::from_le_bytes([b[qh], b[qh + 1], b[qh + 2], b[qh + 3]]);
        (((bits >> i) & 1) << 4) as i32
    };
    let six = |q: &[u8], j: usize| {
        if j < 4 {
            (q[j] & 63, q[j + 4] & 63)
        } else {
            ((q[j + 4] & 15) | ((q[j - 4] >> 6) << 4), (q[j + 4] >> 4) | ((q[j] >> 6) << 4))
        }
    };
    let mut y = vec![0f32; if format.ends_with('k') { 256 } else { 32 }];
    match format {
        "q8_0" => (0..32).for_each(|i| y[i] = half(0) * f32::from(b[2 + i] as i8)),
        "q4_0" => (0..32).for_each(|i| y[i] = (nibble(2, i) - 8) as f32 * half(0)),
        "q4_1" => (0..32).for_each(|i| y[i] = nibble(4, i) as f32 * half(0) + half(2)),
        "q5_0" => (0..32).for_each(|i| y[i] = ((nibble(6, i) | fifth(2, i)) - 16) as f32 * half(0)),
        "q5_1" => (0..32).for_each(|i| y[i] = (nibble(8, i) | fifth(4, i)) as f32 * half(0) + half(2)),
        "q4_k" | "q5_k" => {
            let five = format == "q5_k";
            let qs = if five { 48 } else { 16 };
            for j in 0..4 {
                for l in 0..32 {
                    let byte = b[qs + 32 * j + l];
                    for (side, low) in [(0, byte & 15), (1, byte >> 4)] {
                        let part = 2 * j + side;
                        let (scale, least) = six(&b[4..16], part);
                        let high = if five && b[16 + l] & (1 << part) != 0 { 16 } else { 0 };
                        let d = half(0) * f32::from(scale);
                        let m = half(2) * f32::from(least);
                        y[64 * j + 32 * side + l] = d * f32::from(low + high) - m;
                    }
                }
            }
        }
        "q6_k" => {
            for n in 0..2 {
                let (ql, qh, sc) = (&b[64 * n..], &b[128 + 32 * n..], &b[192 + 8 * n..]);
                for l in 0..32 {
                    let two = |shift: u8| ((qh[l] >> shift) & 3) << 4;
                    let q = [
                        (ql[l] & 15) | two(0),
                        (ql[l + 32] & 15) | two(2),
                        (ql[l] >> 4) | two(4),
                        (ql[l + 32] >> 4) | two(6),
                    ];
                    for (k, q) in q.into_iter().enumerate() {
                        let scale = f32::from(sc[l / 16 + 2 * k] as i8);
                        y[128 * n + 32 * k + l] = half(208) * scale * (i32::from(q) - 32) as f32;
                    }
                }
            }
        }
        other => panic!("no independent decoder for {other}"),
    }
    y
}

#[test]
fn decode() {
    let mut random = Random::new(7);
    for format in ops::decode::TABLE {
        let (name, size) = (format.name, format.bytes as usize);
        let source = format!(
            "program p(w: u8[n: N, b: {size} * B]) -> f32[n: N, k: {} * B]
where N in 0..=9, B in 0..=9
{{
  return decode w as {name} -> [n: N, k: {} * B]
}}",
            format.elements, format.elements
        );
        for (n, blocks) in [(2usize, 3usize), (1, 1), (0, 1), (3, 0)] {
            let mut data: Vec<u8> = (0..n * blocks * size).map(|_| random.next() as u8).collect();
            for block in data.chunks_mut(size) {
                // Scales are finite: random bits of an f16 are NaN now and then, which tests nothing.
                let scales: &[usize] = match name {
                    "q6_k" => &[208],
                    "q4_1" | "q5_1" | "q4_k" | "q5_k" => &[0, 2],
                    _ => &[0],
                };
                for &at in scales {
                    block[at + 1] &= 0b1011_1111;
                }
            }
            let expected: Vec<f64> =
                data.chunks(size).flat_map(|block| decode_block(name, block)).map(f64::from).collect();
            let symbols = [("N", n as i64), ("B", blocks as i64)];
            let y = run(&source, &symbols, &[bytes(&[n, blocks * size], &data)], Numerics::Own);
            assert!(same(&values(&y), &expected), "{name}: {:?}\n{expected:?}", values(&y));
        }
    }
    let message = refusal("program p(w: u8[b: 35]) -> f32[k: 32] {\n  return decode w as q8_0\n}");
    assert!(message.contains("34"), "{message}");
    let message = refusal("program p(w: u8[b: 34]) -> f32[k: 32] {\n  return decode w as q9_0\n}");
    assert!(message.contains("q8_0"), "{message}");
}

#[test]
fn decode_known_block() {
    // d = 0.5, then -16 … 15.
    let mut block = vec![0x00, 0x38];
    block.extend((0..32).map(|k| (k - 16i32) as i8 as u8));
    let source = "program p(w: u8[b: 34]) -> f32[b: 32] {\n  return decode w as q8_0\n}";
    let expected: Vec<f64> = (0..32).map(|k| f64::from(k - 16) * 0.5).collect();
    exact(&run(source, &[], &[bytes(&[34], &block)], Numerics::Own), &expected);
}

#[test]
fn every_operator_says_what_it_does() {
    let mut names: Vec<&str> = ops::TABLE.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ops::TABLE.len());
    for row in ops::TABLE {
        assert!(row.doc.contains(row.name), "{}", row.name);
        assert!(ops::find(row.name).is_some_and(|found| found == *row));
    }
}
