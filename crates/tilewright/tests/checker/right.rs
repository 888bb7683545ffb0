//! Candidates that are right and must be accepted.

use super::random::Random;
use super::rewrite::{REWRITINGS, rewritten};
use super::subjects::subjects;
use super::support::*;
use std::collections::BTreeMap;
use tilewright::superopt::check::{Law, Options, Verdict, check};

#[test]
fn every_program_is_equal_to_itself() {
    for (name, program) in programs() {
        match check(&program, &program, &Options::default()) {
            Verdict::Accept(evidence) => {
                assert!(evidence.bound.is_some_and(|bound| bound <= -40.0), "{name}: {evidence}");
                assert!(evidence.floats > 100, "{name}: {evidence}");
            }
            Verdict::Refuse(refusal) => {
                assert_eq!((name.as_str(), refusal.law), ("moe", Law::Unsupported), "{refusal}");
            }
        }
    }
}

fn wanted() -> usize {
    std::env::var("TILEWRIGHT_CANDIDATES").ok().and_then(|n| n.parse().ok()).unwrap_or(30)
}

/// One to three right rewritings, one after the other, of every program and subject.
#[test]
fn right_candidates_are_accepted() {
    let subjects = subjects();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut accepted, mut seed) = (0, 0);
    let mut refused = Vec::new();
    while accepted < wanted() && seed < 200 * wanted() as u64 {
        seed += 1;
        let mut random = Random::new(seed);
        let (subject, program) = &subjects[random.below(subjects.len())];
        let mut candidate = program.clone();
        let mut names = Vec::new();
        for step in 0..1 + random.below(3) {
            let (name, rewriting) = REWRITINGS[(seed as usize + 7 * step) % REWRITINGS.len()];
            let next = (0..20).find_map(|_| rewritten(&candidate, rewriting, &mut random));
            if let Some(next) = next {
                candidate = next;
                names.push(name);
            }
        }
        if names.is_empty() {
            continue;
        }
        match check(program, &candidate, &Options { seed, ..Options::default() }) {
            Verdict::Accept(_) => {
                accepted += 1;
                names.iter().for_each(|name| *by_name.entry(name).or_default() += 1);
            }
            Verdict::Refuse(refusal) => {
                refused.push(format!("{names:?} of {subject}: {refusal}\n{candidate}"))
            }
        }
    }
    println!("{accepted} right candidates accepted: {by_name:?}");
    assert!(
        refused.is_empty(),
        "{} of {} refused\n{}",
        refused.len(),
        accepted + refused.len(),
        refused.join("\n\n")
    );
    assert_eq!(accepted, wanted());
    assert!(by_name.len() >= 8, "{by_name:?}");
}

const ATTENTION: &str =
    "program attention(q: bf16[i: S, d: D], k: bf16[j: T, d: D], v: bf16[j: T, e: E]) -> bf16[i: S, e: E]
    where S in 0..=8192, T in 0..=8192, D in 1..=512, E in 1..=512, C in 1..=1024 {
      s = contract q k to f32 -> [i, j]
      m = max s over j
      a = sub s m[i, _]
      p = exp a
      l = sum p over j
      b = cast p to bf16
      o = contract b v to f32 -> [i, e]
      y = div o l[i, _]
      return cast y to bf16 }";

/// Attention in parts of C keys, each with a maximum of its own, and the combination of the parts.
fn flash(pivot: &str) -> String {
    format!(
        "program attention(q: bf16[i: S, d: D], k: bf16[j: T, d: D], v: bf16[j: T, e: E]) -> bf16[i: S, e: E]
    where S in 0..=8192, T in 0..=8192, D in 1..=512, E in 1..=512, C in 1..=1024 {{
      s = contract q k to f32 -> [i, j]
      t = split s over j by C -> [i: S, s: ceildiv(T, C), r: min(C, T - s * C)]
      u = split v over j by C -> [s: ceildiv(T, C), r: min(C, T - s * C), e: E]
      n = max t over r
      {pivot}
      a = sub t f[i, s, _]
      p = exp a
      l = sum p over r
      b = cast p to bf16
      o = contract b[i, s, r] u[s, r, e] to f32 -> [i, s, e]
      m = max n over s
      d = sub n m[i, _]
      w = exp d
      lw = mul l w
      whole = sum lw over s
      ow = contract o[i, s, e] w[i, s] -> [i, e]
      y = div ow whole[i, _]
      return cast y to bf16 }}"
    )
}

#[test]
fn flash_attention_is_attention() {
    let evidence = accepted(ATTENTION, &flash("z = eq n -inf\nf = select z 0.0 n"));
    assert!(evidence.bound.is_some_and(|bound| bound <= -40.0), "{evidence}");
    // A part of -inf alone, in a row that is not: without the pivot it is undefined.
    let refusal = refused(ATTENTION, &flash("f = max n n"));
    assert_eq!(refusal.law, Law::Definition, "{refusal}");
    // The parts' own maxima forgotten in the combination.
    let wrong = flash("z = eq n -inf\nf = select z 0.0 n").replace("d = sub n m[i, _]", "d = sub n n");
    refused(ATTENTION, &wrong);
    // Without a maximum, in scaled numbers.
    let plain = ATTENTION.replace("p = exp a", "p = exp s");
    accepted(ATTENTION, &plain);
}

#[test]
fn log_sum_exp_and_the_greatest_in_parts() {
    let program = |lines: &str| {
        format!(
            "program p(x: f32[r: R, c: C]) -> f32[r: R] where R in 0..=64, C in 2..=64, P in 1..=64 {{\n{lines}\n}}"
        )
    };
    let shifted = program(
        "m = max x over c\nd = sub x m[r, _]\ne = exp d\ns = sum e over c\nl = log s\nreturn add l m",
    );
    accepted(&shifted, &program("e = exp x\ns = sum e over c\nreturn log s"));
    let parts = "y = split x over c by P -> [r: R, s: ceildiv(C, P), t: min(P, C - s * P)]\n";
    accepted(
        &program("return max x over c"),
        &program(&format!("{parts}m = max y over t\nreturn max m over s")),
    );
    accepted(
        &program("return sum x over c"),
        &program(&format!("{parts}m = sum y over t\nreturn sum m over s")),
    );
    // The ragged end cut off, the last part forgotten.
    for guard in ["where s * P + t < C - 1", "where s < ceildiv(C, P) - 1"] {
        let wrong = format!("{parts}m = sum y over t {guard}\nreturn sum m over s");
        refused(&program("return sum x over c"), &program(&wrong));
    }
}
