//! From tensor text to kernels: all four levels agree bit for bit.

use crate::common::{Random, lower, random, symbols};
use tilewright::journal::Journal;
use tilewright::kernel;
use tilewright::target::Target;
use tilewright::task::eval::{Choice, Schedule};
use tilewright::tensor::eval::{Bindings, Numerics};
use tilewright::tensor::{Array, Storage};
use tilewright::{block, task, tensor};

/// Runs a tensor program at all levels, for several sizes; `tables` are the contents of its integer parameters.
fn levels(text: &str, sizes: &[&[(&str, i64)]], tables: &dyn Fn(&str, &[usize]) -> Option<Array>) {
    let program = tensor::text::parse("test.tensor", text).unwrap_or_else(|error| panic!("{error}"));
    let (target, mut journal) = (Target::portable(), Journal::new());
    let blocks = block::lower::lower(&program, &target, &mut journal).expect("lowers to blocks");
    let tasks = task::lower::lower(&blocks, &target, &mut journal).expect("lowers to tasks");
    let kernels = lower(&tasks);
    for sizes in sizes {
        let symbols = symbols(sizes);
        let main = program.main();
        let mut rng = Random(41);
        let mut arrays: Vec<Array> = Vec::new();
        for param in &main.params {
            let value = main.value(param.value);
            let storage = Storage::of(main, &value.ty, &program.facts).expect("has a storage");
            let extent = |dim: &tilewright::dim::Dim| dim.eval(&symbols).expect("an extent") as usize;
            let extents: Vec<usize> = storage.extents.iter().map(extent).collect();
            let table = tables(value.name.as_str(), &extents);
            arrays.push(table.unwrap_or_else(|| random(value.ty.dtype, &extents, &mut rng)));
        }
        let bindings = Bindings { symbols: symbols.clone(), arrays };
        for numerics in [Numerics::F64, Numerics::Own] {
            let want = tensor::eval::eval(&program, &bindings, numerics).expect("the tensor program runs");
            for choice in [Choice::Latest, Choice::Random(3)] {
                let have = kernel::eval::eval(&kernels, &bindings, numerics, &mut Schedule::new(3, choice))
                    .unwrap_or_else(|error| panic!("{sizes:?} {error}\n{kernels}"));
                assert!(
                    task::eval::same(&want, &have),
                    "{numerics:?} {sizes:?}\n{want:?}\n{have:?}\n{kernels}"
                );
            }
        }
    }
}

fn none(_: &str, _: &[usize]) -> Option<Array> {
    None
}

#[test]
fn normalized_matmul() {
    let text = "
program norm(x: bf16[S, D], w: bf16[N, D]) -> bf16[S, N]
where S in 0..=256, D in 1..=512, N in 0..=256
{
  y = mul x x
  q = sum y over D
  n = cast D to bf16
  m = div q n
  e = add m 1e-3
  r = rsqrt e
  h = mul x r[S, _]
  z = contract h[S, D] w[N, D] -> [S, N]
  return z
}
";
    levels(
        text,
        &[
            &[("S", 0), ("D", 1), ("N", 3)],
            &[("S", 1), ("D", 300), ("N", 65)],
            &[("S", 67), ("D", 5), ("N", 2)],
        ],
        &none,
    );
}

#[test]
fn attention_with_a_mask() {
    let text = include_str!("../../../../programs/attention_causal.tensor");
    let size = |s, t, h, g, k, v| [("S", s), ("T", t), ("H", h), ("G", g), ("K", k), ("V", v)];
    let all =
        [size(0, 3, 1, 1, 2, 3), size(3, 0, 1, 2, 2, 3), size(5, 70, 2, 1, 3, 1), size(7, 3, 1, 3, 2, 5)];
    let all: Vec<&[(&str, i64)]> = all.iter().map(|sizes| sizes.as_slice()).collect();
    levels(text, &all, &none);
}

#[test]
fn ragged_rows() {
    let text = "
program rows(off: plan i32[n: E + 1], x: f32[e: E, t: off[e + 1] - off[e], D], w: f32[e: E, D]) -> f32[e: E, t: off[e + 1] - off[e]], f32[E]
where E in 0..=64, T in 0..=512, D in 1..=64, off splits T over E
{
  y = contract x[e, t, d] w[e, d] -> [e, t]
  m = max y over t
  return y, m
}
"
    .replace("f32[E]\n", "f32[e: E]\n");
    let cuts: &[&[i64]] = &[&[0], &[0, 0], &[0, 3, 3, 80, 81]];
    for cuts in cuts {
        let (e, t) = (cuts.len() as i64 - 1, cuts.last().copied().unwrap_or(0));
        let off = |name: &str, _: &[usize]| {
            (name == "off").then(|| crate::common::ints(tensor::DType::I32, &[cuts.len()], cuts))
        };
        levels(&text, &[&[("E", e), ("T", t), ("D", 3)]], &off);
    }
}

#[test]
fn names_do_not_clash() {
    // A value is called like a statement, and an axis like a size of another one.
    let text = "
program names(load: f32[S, T], fill: f32[T: S]) -> f32[S]
where S in 0..=64, T in 0..=64
{
  into = sum load over T
  where_ = add into fill[S]
  return where_
}
"
    .replace("fill: f32[T: S]", "fill: f32[S]")
    .replace("add into fill[S]", "add into fill");
    levels(&text, &[&[("S", 3), ("T", 5)], &[("S", 0), ("T", 0)]], &none);
}

#[test]
fn opaque_results_are_rounded() {
    let text = "
program scattered(x: f16[n: N], ids: i32[n: N]) -> f16[S]
where N in 0..=64, S in 0..=64
{
  o = scatter_add x ids over n size S
  return o
}
"
    .replace("-> f16[S]", "-> f16[n: S]");
    let ids = |name: &str, extents: &[usize]| {
        let values: Vec<i64> = (0..extents[0] as i64).map(|i| i % 3 - 1).collect();
        (name == "ids").then(|| crate::common::ints(tensor::DType::I32, extents, &values))
    };
    levels(&text, &[&[("N", 40), ("S", 2)], &[("N", 0), ("S", 3)]], &ids);
}
