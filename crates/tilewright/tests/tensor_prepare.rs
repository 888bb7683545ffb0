//! The split into `prepare` and the rest: both are legal, what is hoisted is what the rule says, and together they
//! give bit for bit what the whole program gives.

use std::collections::BTreeMap;
use tilewright::dim::Symbol;
use tilewright::tensor::eval::{Bindings, Numerics, eval};
use tilewright::tensor::prepare::split;
use tilewright::tensor::text::parse;
use tilewright::tensor::verify::verify;
use tilewright::tensor::{Array, Data, Program};

fn program(text: &str) -> Program {
    parse("p.tensor", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The elements `seed`, `seed + 1`, … in small steps, of the class of the parameter.
fn array(ty: &tilewright::tensor::TensorType, extents: &[usize], seed: usize) -> Array {
    let count: usize = extents.iter().product();
    let data = if ty.dtype.is_float() {
        Data::Float((0..count).map(|k| ((k * 7 + seed * 3) % 11) as f64 * 0.375 - 1.5).collect())
    } else if ty.dtype.is_int() {
        Data::Int((0..count).map(|k| ((k * 5 + seed) % 3) as i64).collect())
    } else {
        Data::Bool((0..count).map(|k| !(k + seed).is_multiple_of(3)).collect())
    };
    Array { dtype: ty.dtype, extents: extents.to_vec(), data }
}

/// Evaluates the program whole, and `prepare` and the rest, at sizes given for all symbols.
fn check(text: &str, sizes: &[(&str, i64)], given: &[(&str, Array)]) -> (Option<Program>, Program) {
    let whole = program(text);
    let (prepare, rest) = split(&whole);
    for part in prepare.iter().chain([&rest]) {
        verify(part).unwrap_or_else(|violation| panic!("{violation}\n{part}"));
        let printed = part.to_string();
        assert_eq!(parse("p", &printed).unwrap_or_else(|error| panic!("{error}\n{printed}")), *part);
    }
    let symbols: BTreeMap<Symbol, i64> =
        sizes.iter().map(|(name, size)| (Symbol::new(name), *size)).collect();
    let main = whole.main();
    let mut arrays: BTreeMap<Symbol, Array> = BTreeMap::new();
    for (seed, param) in main.params.iter().enumerate() {
        let value = main.value(param.value);
        let extents: Vec<usize> = value
            .ty
            .axes
            .iter()
            .filter_map(|axis| axis.extent.eval(&symbols).ok())
            .map(|extent| usize::try_from(extent).expect("no negative extent"))
            .collect();
        let array = match given.iter().find(|(name, _)| *name == value.name.as_str()) {
            Some((_, array)) => array.clone(),
            None => array(&value.ty, &extents, seed),
        };
        arrays.insert(value.name.clone(), array);
    }
    for numerics in [Numerics::F64, Numerics::Own] {
        let run = |program: &Program, arrays: &BTreeMap<Symbol, Array>| {
            let main = program.main();
            let arrays =
                main.params.iter().map(|param| arrays[&main.value(param.value).name].clone()).collect();
            let bindings = Bindings { symbols: symbols.clone(), arrays };
            eval(program, &bindings, numerics).unwrap_or_else(|error| panic!("{error}\n{program}"))
        };
        let expected = run(&whole, &arrays);
        let mut all = arrays.clone();
        if let Some(prepare) = &prepare {
            let derived = run(prepare, &arrays);
            let names = prepare.main().results.iter().map(|id| prepare.main().value(*id).name.clone());
            all.extend(names.zip(derived));
        }
        assert_eq!(run(&rest, &all), expected, "{numerics:?}\n{rest}");
    }
    (prepare, rest)
}

fn values(program: &Program) -> Vec<&str> {
    program.main().values.iter().map(|value| value.name.as_str()).collect()
}

#[test]
fn work_on_weights_is_hoisted() {
    let text = "
program p(x: bf16[S, D], g: weight f32[D], w: weight bf16[N, D], b: weight f32[N]) -> f32[S, N], f32[N]
where S in 0..=8, D in 1..=8, N in 0..=8
{
  wide = cast w to f32
  scaled = mul wide[n, d] g[d] -> [N: n, D: d]
  gw = cast scaled to bf16
  sums = sum wide over D
  size = cast D to f32
  mean = div sums size
  y = contract x[s, d] gw[n, d] to f32 -> [S: s, N: n]
  z = add y b[N]
  return z, mean
}
";
    for (s, d, n) in [(0, 1, 0), (1, 3, 2), (5, 8, 1), (3, 1, 7)] {
        let (prepare, rest) = check(text, &[("S", s), ("D", d), ("N", n)], &[]);
        let prepare = prepare.expect("there is work on weights");
        assert_eq!(values(&prepare), ["g", "w", "wide", "scaled", "gw", "sums", "size", "mean"]);
        let results: Vec<&str> =
            prepare.main().results.iter().map(|id| prepare.main().value(*id).name.as_str()).collect();
        assert_eq!(results, ["gw", "mean"]);
        assert_eq!(values(&rest), ["x", "b", "gw", "mean", "y", "z"]);
        assert_eq!(prepare.main().name.as_str(), "p_prepare");
    }
}

#[test]
fn nothing_to_hoist_leaves_the_program_alone() {
    let text = "
program p(x: f32[S, D], w: weight f32[D]) -> f32[S, D]
where S in 0..=8, D in 1..=8
{
  n = cast S to f32
  y = mul x w[D]
  z = mul y n
  return z
}
";
    let (prepare, rest) = check(text, &[("S", 2), ("D", 3)], &[]);
    assert!(prepare.is_none());
    assert_eq!(rest, program(text));
}

#[test]
fn a_pure_broadcast_stays_and_is_repeated_where_something_hoisted_reads_it() {
    let text = "
program p(x: f32[S, D], w: weight f32[D], v: weight f32[R, D]) -> f32[S, D], f32[R, D]
where S in 0..=8, D in 1..=8, R in 1..=4
{
  wide = broadcast w -> [r: R, D]
  both = mul wide[r, D] v[r, D] -> [R: r, D]
  pos = iota to i32 -> [D: D]
  at = cast pos to f32
  angle = mul at 0.1
  turn = cos angle
  narrow = slice wide[q, d] over q from 0 size 1
  a = mul x turn[D]
  b = max narrow[q, d] over q
  c = mul a b[d] -> [S, D: d]
  return c, both
}
"
    .replace("mul a b[d] -> [S, D: d]", "mul a[S, d] b[d] -> [S, D: d]");
    let (prepare, rest) = check(&text, &[("S", 2), ("D", 3), ("R", 2)], &[]);
    let prepare = prepare.expect("there is work on weights");
    let results: Vec<&str> =
        prepare.main().results.iter().map(|id| prepare.main().value(*id).name.as_str()).collect();
    assert_eq!(results, ["both", "turn", "b"]);
    assert_eq!(values(&rest), ["x", "both", "turn", "b", "a", "c"]);

    let text = "
program p(x: f32[S, D], w: weight f32[D], v: weight f32[R, D]) -> f32[r: R, S, D], f32[r: R, D]
where S in 0..=8, D in 1..=8, R in 1..=4
{
  twice = mul w 2.0
  wide = broadcast twice -> [r: R, D]
  both = mul wide v[r, D]
  y = mul x[S, D] wide[r, D] -> [r, S, D]
  return y, both
}
";
    let (prepare, rest) = check(text, &[("S", 2), ("D", 3), ("R", 2)], &[]);
    assert_eq!(values(&prepare.expect("work")), ["w", "v", "twice", "wide", "both"]);
    assert_eq!(values(&rest), ["x", "twice", "both", "wide", "y"]);
}

#[test]
fn functions_and_repeats_on_weights_go_to_prepare() {
    let text = "
fn scale(w: f32[D], g: f32[D]) -> f32[D] {
  y = mul w g
  return y
}
fn unused(w: f32[D]) -> f32[D] {
  return mul w w
}
fn layer(h: f32[S, D], w: f32[D]) -> f32[S, D] {
  z = mul h w
  return z
}
program p(x: f32[S, D], w: weight f32[L, D], g: weight f32[D]) -> f32[S, D]
where S in 0..=8, D in 1..=8, L in 0..=4
{
  gw = repeat l in L { scale(w[l], g) -> [l] }
  y = repeat l in L, h = x { layer(h, gw[l]) -> h }
  return y
}
";
    for l in [0, 1, 3] {
        let (prepare, rest) = check(text, &[("S", 2), ("D", 3), ("L", l)], &[]);
        let prepare = prepare.expect("work");
        let names = |p: &Program| p.functions.iter().map(|f| f.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&prepare), ["scale", "p_prepare"]);
        assert_eq!(names(&rest), ["layer", "p"]);
    }
}

#[test]
fn tables_go_with_what_they_shape() {
    let text = "
program p(x: f32[E, D], off: weight i32[E1: E + 1], w: weight f32[e: E, t: off[e + 1] - off[e], D]) -> f32[e: E, t: off[e + 1] - off[e]], f32[E]
where E in 0..=4, T in 0..=9, D in 1..=4, off splits T over E
{
  double = mul w 2.0
  y = contract double[e, t, d] x[e, d] where t + off[e] < T -> [e, t]
  n = sum double over t, D
  m = add n 1.0 -> [E: e]
  return y, m
}
";
    let off =
        Array { dtype: tilewright::tensor::DType::I32, extents: vec![4], data: Data::Int(vec![0, 2, 2, 5]) };
    let w = Array {
        dtype: tilewright::tensor::DType::F32,
        extents: vec![5, 2],
        data: Data::Float((0..10).map(f64::from).collect()),
    };
    let sizes = [("E", 3), ("T", 5), ("D", 2)];
    let (prepare, rest) = check(text, &sizes, &[("off", off), ("w", w)]);
    let prepare = prepare.expect("work");
    assert_eq!(values(&rest), ["x", "off", "double", "m", "y"]);
    assert!(prepare.facts.splits(&Symbol::new("off")).is_some());
    assert!(rest.facts.splits(&Symbol::new("off")).is_some());
}

#[test]
fn computed_offsets_keep_their_fact_as_a_weight() {
    let text = "
program p(x: f32[T, D], keys: weight i32[T], w: weight f32[E, D]) -> f32[T, D]
where T in 0..=9, D in 1..=4, E in 1..=3
{
  perm, offsets = group keys size E
  rows = gather x perm[r] over T
  parts = ragged rows -> [e: E, t: offsets[e + 1] - offsets[e], d: D]
  y = mul parts w[e, d]
  flat = packed y
  back = scatter_add flat[r, d] perm[r] over r size T
  out = add x[r, d] back[r, d] -> [T: r, D: d]
  return out
}
";
    for t in [0, 1, 7] {
        let (prepare, rest) = check(text, &[("T", t), ("D", 2), ("E", 3)], &[]);
        assert!(prepare.expect("work").main().results.len() >= 2);
        assert!(rest.facts.splits(&Symbol::new("offsets")).is_some());
        assert!(
            rest.main().params.iter().all(|param| rest.main().value(param.value).name.as_str() != "keys")
        );
    }
}
