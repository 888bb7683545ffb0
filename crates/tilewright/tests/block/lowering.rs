//! Tensor programs and their block programs agree bit for bit, in both numerics, at sizes around the blocks.

use crate::support::agree;

const SQUARE: &[&[(&str, i64)]] = &[
    &[("S", 0), ("D", 0)],
    &[("S", 0), ("D", 3)],
    &[("S", 3), ("D", 0)],
    &[("S", 1), ("D", 1)],
    &[("S", 7), ("D", 5)],
    &[("S", 63), ("D", 257)],
    &[("S", 65), ("D", 255)],
    &[("S", 64), ("D", 256)],
];

#[test]
fn elementwise_with_broadcast_sizes_and_literals() {
    agree(
        "program p(x: bf16[S, D], r: bf16[S], c: bf16[D]) -> bf16[S, D], bool[S, D]
         where S in 0..=4096, D in 0..=4096
         {
           a = mul x r[S, _]
           b = add a c[_, D]
           d = mul b 0.3
           e = div d D
           f = exp e
           g = lt f 1.0
           h = select g f e
           return h, g
         }",
        SQUARE,
    );
}

#[test]
fn reductions_in_every_position() {
    agree(
        "program p(x: f32[S, D]) -> f32[S], f32[D], f32[], i32[S], i32[], f32[S], bf16[D]
         where S in 0..=4096, D in 0..=4096
         {
           a = sum x over D
           b = max x over S
           c = sum x over S, D
           d = argmax x over D
           e = argmin x over S, D
           f = prod x over D
           g = cast x to bf16
           h = sum g over S
           return a, b, c, d, e, f, h
         }",
        SQUARE,
    );
}

#[test]
fn products() {
    let sizes: &[&[(&str, i64)]] = &[
        &[("B", 0), ("M", 3), ("N", 2), ("K", 5)],
        &[("B", 1), ("M", 0), ("N", 2), ("K", 5)],
        &[("B", 2), ("M", 3), ("N", 2), ("K", 0)],
        &[("B", 1), ("M", 1), ("N", 1), ("K", 1)],
        &[("B", 2), ("M", 65), ("N", 3), ("K", 257)],
        &[("B", 1), ("M", 5), ("N", 67), ("K", 300)],
    ];
    agree(
        "program p(a: bf16[B, M, K], b: bf16[B, N, K]) -> bf16[B, M, N], f32[M, N], f32[B, M, K]
         where B in 0..=64, M in 0..=4096, N in 0..=4096, K in 0..=4096
         {
           c = contract a[i, m, k] b[i, n, k] -> [B: i, M: m, N: n]
           d = contract a[i, m, k] b[i, n, k] to f32 where k <= m + n -> [M: m, N: n]
           e = contract a[i, m, k] a[i, m, k] accumulate f64 to f32 -> [B: i, M: m, K: k]
           return c, d, e
         }",
        sizes,
    );
}

#[test]
fn several_reduced_axes_keep_their_order() {
    agree(
        "program p(a: bf16[i: M, h: 3, k: K], b: bf16[k: K, h: 3, j: N], c: f32[i: M, x: K, y: 5]) -> bf16[i: M, j: N], f32[i: M], f32[i: M]
         where M in 0..=512, N in 0..=512, K in 0..=512
         {
           o = contract a[i, h, k] b[k, h, j] -> [i, j]
           s = sum c over x, y
           d = cast c to bf16
           t = contract a[i, h, k] a[i, h, l] d[i, k, y] to f32 where l < 2 -> [i]
           return o, s, t
         }",
        &[
            &[("M", 2), ("N", 3), ("K", 4)],
            &[("M", 1), ("N", 1), ("K", 258)],
            &[("M", 0), ("N", 1), ("K", 2)],
            &[("M", 1), ("N", 1), ("K", 0)],
        ],
    );
}

#[test]
fn guards_and_masks() {
    agree(
        "program p(x: f32[i: S, j: D], m: bool[i: S, j: D], n: bool[j: D]) -> f32[i: S], f32[i: S], i32[i: S]
         where S in 0..=4096, D in 0..=4096
         {
           a = sum x over j where j <= i and m[i, j]
           b = max x over j where m[i, j] and n[j]
           c = argmax x over j where j > i
           return a, b, c
         }",
        SQUARE,
    );
}

#[test]
fn programs_of_the_repository() {
    agree(
        include_str!("../../../../programs/rmsnorm_matmul.tensor"),
        &[
            &[("S", 0), ("D", 3), ("N", 5)],
            &[("S", 3), ("D", 1), ("N", 1)],
            &[("S", 65), ("D", 17), ("N", 66)],
            &[("S", 2), ("D", 300), ("N", 3)],
        ],
    );
    agree(
        include_str!("../../../../programs/softmax.tensor"),
        &[&[("R", 0), ("C", 0)], &[("R", 3), ("C", 0)], &[("R", 70), ("C", 3)], &[("R", 3), ("C", 513)]],
    );
    agree(
        include_str!("../../../../programs/attention_causal.tensor"),
        &[
            &[("S", 1), ("T", 1), ("H", 1), ("G", 1), ("K", 1), ("V", 1)],
            &[("S", 5), ("T", 3), ("H", 2), ("G", 3), ("K", 4), ("V", 5)],
            &[("S", 0), ("T", 3), ("H", 2), ("G", 1), ("K", 4), ("V", 5)],
            &[("S", 3), ("T", 0), ("H", 2), ("G", 1), ("K", 4), ("V", 5)],
            &[("S", 7), ("T", 70), ("H", 1), ("G", 2), ("K", 8), ("V", 3)],
        ],
    );
}

#[test]
fn ragged_and_dependent_extents() {
    let sizes: &[&[(&str, i64)]] = &[
        &[("E", 1), ("T", 0), ("D", 3)],
        &[("E", 1), ("T", 1), ("D", 1)],
        &[("E", 5), ("T", 9), ("D", 4)],
        &[("E", 3), ("T", 300), ("D", 2)],
    ];
    agree(
        "program p(off: plan i32[o: E + 1], x: f32[e: E, t: off[e + 1] - off[e], D], w: f32[e: E, n: 3, D]) -> f32[e: E, t: off[e + 1] - off[e], n: 3], f32[e: E, D]
         where E in 1..=16, T in 0..=4096, D in 0..=512, off splits T over E
         {
           y = contract x[e, t, D] w[e, n, D] -> [e, t, n]
           s = sum x over t
           return y, s
         }",
        sizes,
    );
    agree(
        "program p(x: f32[i: S, j: min(i + 1, S)], y: f32[j: S]) -> f32[i: S], f32[i: S, j: min(i + 1, S)]
         where S in 0..=512
         {
           s = sum x over j
           z = exp x
           return s, z
         }",
        &[&[("S", 0)], &[("S", 1)], &[("S", 5)], &[("S", 70)], &[("S", 300)]],
    );
}

#[test]
fn calls_and_repeats() {
    agree(
        "fn layer(x: f32[S, D], w: f32[n: D, D], b: f32[D]) -> f32[S, D], f32[S] {
           p = contract x[s, d] w[n, d] -> [S: s, D: n]
           h = add p b[_, D]
           y = tanh h
           m = max y over D
           return y, m
         }
         program p(x: f32[S, D], w: f32[L, n: D, D], w0: f32[n: D, D], b: f32[D]) -> f32[S, D], f32[l: L, S], f32[S, D]
         where S in 0..=512, D in 0..=512, L in 0..=4
         {
           u, ms = repeat l in L, h = x { layer(h, w[l], b) -> h, [l] }
           v, k = layer(u, w0, b)
           return u, ms, v
         }",
        &[
            &[("S", 3), ("D", 4), ("L", 0)],
            &[("S", 3), ("D", 4), ("L", 3)],
            &[("S", 0), ("D", 4), ("L", 2)],
            &[("S", 66), ("D", 1), ("L", 1)],
        ],
    );
}
