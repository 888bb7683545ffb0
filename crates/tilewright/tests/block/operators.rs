//! The operators of `tensor/ops` at the block level.

use crate::support::{agree, bindings, lowered, same, symbols, tensor};
use tilewright::block::{Node, ValueType};
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::task::eval::{Choice, Schedule};
use tilewright::tensor::eval::Numerics;
use tilewright::{kernel, task};

const TWO: &[&[(&str, i64)]] = &[
    &[("S", 0), ("D", 0)],
    &[("S", 0), ("D", 4)],
    &[("S", 4), ("D", 0)],
    &[("S", 1), ("D", 1)],
    &[("S", 7), ("D", 5)],
    &[("S", 66), ("D", 258)],
];

#[test]
fn shapes() {
    agree(
        "program p(x: f32[S, D], y: f32[S2: 3, D]) -> f32[D, S], f32[f: S * D], f32[s: S, D, n: 3], f32[S: 2, D], f32[a: S + 3, D], f32[S: S + 3, D]
         where S in 0..=128, D in 0..=512
         {
           a = transpose x -> [D, S]
           b = reshape x -> [f: S * D]
           c = broadcast x[s, D] -> [s, D, n: 3]
           d = slice x over S from 1 size 2
           e = concat x[a, D] y[a, D] over a
           g = pad x over S before 1 after 2 with -1.5
           return a, b, c, d, e, g
         }",
        TWO,
    );
}

#[test]
fn numbers() {
    agree(
        "program p(x: i32[S, D]) -> i32[i: S], f32[i: D], bf16[i: 3], i32[S, D], f32[], i64[S, D]
         where S in 0..=128, D in 0..=512
         {
           a = iota to i32 -> [i: S]
           b = iota to f32 -> [i: D]
           c = const values 0.1, 2.0, -3.5 to bf16 -> [i: 3]
           d = add x a[S]
           e = full S to f32 -> []
           f = cast x to i64
           g = mul f D
           return a, b, c, d, e, g
         }",
        TWO,
    );
}

#[test]
fn data_dependent() {
    agree(
        "program p(table: bf16[V, D], ids: i32[S], x: f32[S, E]) -> bf16[S, D], f32[S, E: 2], i32[S, E: 2], f32[V: V, E], i32[S], i32[part: E + 2]
         where S in 0..=128, D in 0..=512, V in 1..=64, E in 1..=16, ids elements -1..=V
         {
           a = gather table ids over V
           v, i = topk x over E size 2
           s = scatter_add x[V, E] ids over V size V
           k = cast x to i32
           first = max k over E
           perm, offsets = group first size E
           return a, v, i, s, perm, offsets
         }",
        &[
            &[("S", 0), ("D", 3), ("V", 2), ("E", 4)],
            &[("S", 1), ("D", 0), ("V", 1), ("E", 1)],
            &[("S", 9), ("D", 5), ("V", 3), ("E", 3)],
        ],
    );
}

#[test]
fn experts() {
    agree(
        "program p(x: f32[T, D], e: i32[T], w: f32[E, n: N, D]) -> f32[T, n: N]
         where T in 0..=512, D in 0..=64, N in 0..=64, E in 1..=8
         {
           perm, off = group e size E
           sorted = gather x[t, d] perm[i] over t
           parts = ragged sorted[i, d] -> [g: E, t: off[g + 1] - off[g], d: D]
           y = contract parts[g, t, d] w[g, n, d] -> [g, t, n]
           flat = packed y
           out = scatter_add flat[T, n] perm over T size T
           return out
         }",
        &[
            &[("T", 0), ("D", 3), ("N", 2), ("E", 4)],
            &[("T", 1), ("D", 3), ("N", 2), ("E", 1)],
            &[("T", 20), ("D", 5), ("N", 3), ("E", 3)],
            &[("T", 130), ("D", 2), ("N", 64), ("E", 2)],
        ],
    );
}

#[test]
fn splits_and_decoding() {
    agree(
        "program p(x: f32[S, K], w: u8[N, b: 68]) -> f32[S], f32[N, b: 64]
         where S in 0..=64, K in 0..=600, N in 0..=64
         {
           y = split x over K by 100
           p = sum y over r
           t = sum p over s
           d = decode w as q8_0
           return t, d
         }",
        &[
            &[("S", 3), ("K", 0), ("N", 1)],
            &[("S", 1), ("K", 250), ("N", 0)],
            &[("S", 2), ("K", 600), ("N", 3)],
        ],
    );
}

const UPDATE: &str = "program p(c: state f32[B, C, D], x: f32[B, S, D], len: plan i32[B]) -> f32[b: B, C, D]
 where B in 0..=8, C in 0..=512, D in 0..=300, S in 0..=512, len elements 0..=C
 {
   y = update c[b, C, D] x[b, S, D] over C at len[b]
   return y
 }";

#[test]
fn updates() {
    let sizes: &[&[(&str, i64)]] = &[
        &[("B", 0), ("C", 4), ("D", 2), ("S", 1)],
        &[("B", 2), ("C", 4), ("D", 2), ("S", 1)],
        &[("B", 2), ("C", 70), ("D", 3), ("S", 66)],
        &[("B", 2), ("C", 4), ("D", 0), ("S", 3)],
    ];
    agree(UPDATE, sizes);
    // The old contents are needed later: they are copied.
    let kept = UPDATE
        .replace("-> f32[b: B, C, D]\n", "-> f32[b: B, C, D], f32[B, C, D]\n")
        .replace("return y", "z = exp c\n return y, z");
    agree(&kept, sizes);
    let twice = UPDATE.replace("return y", "z = update y[b, C, D] x[b, S, D] over C at 1\n return z");
    agree(&twice, sizes);
}

#[test]
fn an_update_past_either_end_is_dropped_at_every_level() {
    let source = UPDATE.replace("elements 0..=C", "elements -4..=C + 2");
    let program = tensor(&source);
    let (target, mut journal) = (Target::portable(), Journal::new());
    let blocks = lowered(&program);
    let tasks = task::lower::lower(&blocks, &target, &mut journal).unwrap_or_else(|error| panic!("{error}"));
    let kernels =
        kernel::lower::lower(&tasks, &target, &mut journal).unwrap_or_else(|error| panic!("{error}"));
    for (seed, (c, s)) in [(4, 3), (70, 66), (1, 9), (0, 2), (130, 1)].into_iter().enumerate() {
        let sizes = symbols(&[("B", 5), ("C", c), ("D", 2), ("S", s)]);
        let bindings = bindings(&program, &sizes, seed as u64);
        for numerics in [Numerics::F64, Numerics::Own] {
            let want = tilewright::tensor::eval::eval(&program, &bindings, numerics).unwrap();
            let schedule = || Schedule::new(3, Choice::Random(seed as u64));
            let got = [
                tilewright::block::eval::eval(&blocks, &bindings, numerics).unwrap(),
                task::eval::eval(&tasks, &bindings, numerics, &mut schedule()).unwrap(),
                kernel::eval::eval(&kernels, &bindings, numerics, &mut schedule()).unwrap(),
            ];
            got.iter().for_each(|got| assert!(same(&got[0], &want[0]), "C = {c}, S = {s}: {got:?} {want:?}"));
        }
    }
}

#[test]
fn an_update_is_in_place_only_where_nobody_needs_the_old_contents() {
    let copies = |source: &str| {
        let program = lowered(&tensor(source));
        program.main().body.iter().filter(|node| matches!(node, Node::Map(_))).count() - 1
    };
    assert_eq!(copies(UPDATE), 0);
    assert_eq!(copies(&UPDATE.replace("state ", "")), 1, "an input belongs to the caller");
    let kept = UPDATE
        .replace("-> f32[b: B, C, D]\n", "-> f32[b: B, C, D], f32[B, C, D]\n")
        .replace("return y", "return y, c");
    assert_eq!(copies(&kept), 1, "the old contents are a result");
    let called = UPDATE
        .replace("program p", "fn same(c: f32[B, C, D]) -> f32[B, C, D] {\n return c\n}\nprogram p")
        .replace("y = update c", "k = same(c)\n y = update k");
    assert_eq!(copies(&called), 1, "a function may give what it was given");
    let program = lowered(&tensor(UPDATE));
    let aliases = program
        .main()
        .values
        .iter()
        .filter(|value| matches!(&value.ty, ValueType::Tensor { alias: Some(_), .. }));
    assert_eq!(aliases.count(), 1);
}
