//! The programs that wrong and right candidates are made from.

use super::support::{parse, programs};
use tilewright::tensor::Program;

const TEXTS: &[(&str, &str)] = &[
    (
        "attention",
        "program attention(q: f32[i: L, d: K], k: f32[j: L, d: K], v: f32[j: L, e: K]) -> f32[i: L, e: K]
         where L in 0..=8192, K in 1..=512 {
          s = contract q[i, d] k[j, d] -> [i, j]
          w = cast K to f32
          c = rsqrt w
          z = mul s c
          m = max z over j
          a = sub z m[i, _]
          p = exp a
          l = sum p over j
          y = div p l[i, _]
          return contract y[i, j] v[j, e] -> [i, e] }",
    ),
    (
        "two_matmuls",
        "program two(a: f32[m: M, k: K], b: f32[k: K, n: N], c: f32[n: N, k: K]) -> f32[m: M, k: K]
         where M in 0..=4096, K in 0..=4096, N in 0..=4096 {
          x = contract a[m, k] b[k, n] -> [m, n]
          return contract x[m, n] c[n, k] -> [m, k] }",
    ),
    (
        "group_norm",
        "program group_norm(x: f32[b: B, g: G, c: C], s: f32[g: G, c: C]) -> f32[b: B, g: G, c: C]
         where B in 0..=64, G in 1..=32, C in 1..=1024 {
          t = sum x over c
          m = div t C
          d = sub x m[b, g, _]
          y = mul d d
          q = sum y over c
          v = div q C
          e = add v 1e-5
          r = rsqrt e
          n = mul d r[b, g, _]
          return mul n s[g, c] }",
    ),
    (
        "log_sum_exp",
        "program log_sum_exp(x: f32[r: R, c: C]) -> f32[r: R] where R in 0..=4096, C in 1..=65536 {
          m = max x over c
          d = sub x m[r, _]
          e = exp d
          s = sum e over c
          l = log s
          return add l m }",
    ),
    (
        "window",
        "program window(x: f32[r: R, c: C], w: f32[c: C], b: bool[r: R, c: C]) -> f32[r: R]
         where R in 0..=4096, C in 0..=4096 {
          y = mul x w[_, c]
          s = sum y over c where c <= r and b[r, c]
          m = max y over c where c > r - 4
          return add s m }",
    ),
    (
        "scaled_sum",
        "program scaled_sum(x: f32[r: R, c: C], w: f32[r: R]) -> f32[r: R]
         where R in 0..=4096, C in 1..=4096 {
          y = mul x w[r, _]
          s = sum y over c
          z = div x w[r, _]
          t = sum z over c
          return sub s t }",
    ),
    (
        "clamp",
        "program clamp(x: f32[r: R, c: C], lo: f32[c: C], hi: f32[c: C]) -> f32[r: R, c: C]
         where R in 0..=4096, C in 0..=4096 {
          a = max x lo[_, c]
          b = min a hi[_, c]
          g = gt x lo[_, c]
          n = neg b
          s = select g b n
          u = sqrt s
          return sub u b }",
    ),
];

/// Subjects with their names.
pub fn subjects() -> Vec<(String, Program)> {
    let mut all: Vec<(String, Program)> =
        programs().into_iter().filter(|(name, _)| name != "moe" && name != "attention_paged").collect();
    all.extend(TEXTS.iter().map(|(name, text)| (name.to_string(), parse(text))));
    all
}
