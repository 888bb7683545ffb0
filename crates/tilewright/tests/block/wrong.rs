//! Wrong block programs are refused with the right reason: one legal program, one change each.

use tilewright::block::verify::{Reason, verify};
use tilewright::block::{self, Node, ValueId};

const GOOD: &str = "fn twice(x: f32[S, D]) {
  y: f32[S, D] = map i_block in ceildiv(S, 8) parallel {
    map j_block in ceildiv(D, 16) parallel {
      a: f32{i: 8*i_block +: 8 < S, j: 16*j_block +: 16 < D} = load x[i, j]
      b: f32 = add a a
      store b -> y[i, j]
    }
  }
  return y
}

program p(x: f32[S, D], w: weight f32[N, D], c: state f32[C, D], ids: plan i32[S], m: bool[S])
where C in 0..=64, D in 0..=64, N in 0..=64, S in 0..=64
{
  h: f32[S, D] = call twice(x)
  y: f32[S, N] = map i_block in ceildiv(S, 8) parallel {
    map n_block in ceildiv(N, 4) parallel {
      mask: bool{i: 8*i_block +: 8 < S} = load m[i]
      total: f32 = map k_block in ceildiv(D, 16) sequential carry sum f32 (sum: f32{i: 8*i_block +: 8 < S, n: 4*n_block +: 4 < N}) {
        a: f32{i: 8*i_block +: 8 < S, k: 16*k_block +: 16 < D} = load h[i, k] when ids[i] >= 0
        b: f32{n: 4*n_block +: 4 < N, k: 16*k_block +: 16 < D} = load w[n, k]
        more: f32 = contract a b into sum where k <= n masks mask
        next more
      }
      store total -> y[i, n]
    }
  }
  d: f32[C, D] overwrites c = map i_block in ceildiv(S, 8) parallel {
    e: f32{i: 8*i_block +: 8 < S, k: 0 +: 64 < D} = load h[i, k]
    store e -> d[i, k]
  }
  best: i32[] = map once in 1 parallel {
    f: f32{n: 0 +: 64 < N} = load y[0, n]
    g: f32, place: i32 = reduce argmax f at n
    store place -> best[]
  }
  u: f32[S, D] = repeat l in C { twice(z = h) -> z }
  return y, d
}
";

fn parse(text: &str) -> block::Program {
    block::text::parse("test.block", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The reason for which the good program is refused after a change of its text.
#[track_caller]
fn changed(from: &str, to: &str) -> Reason {
    let text = GOOD;
    assert_eq!(text.matches(from).count(), 1, "`{from}` must occur once");
    let violation = verify(&parse(&text.replace(from, to))).expect_err(&format!("`{to}` is accepted"));
    assert!(!violation.message.is_empty() && !violation.place.is_empty());
    violation.reason
}

#[test]
fn the_program_is_legal_before_it_is_changed() {
    let program = parse(GOOD);
    verify(&program).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(program.to_string(), GOOD);
}

#[test]
fn names_and_sight() {
    assert_eq!(
        changed("map k_block in ceildiv(D, 16) sequential", "map n_block in ceildiv(D, 16) sequential"),
        Reason::Coordinate
    );
    assert_eq!(changed("map once in 1", "map S in 1"), Reason::Coordinate);
    assert_eq!(changed("map once in 1", "map once in Q"), Reason::Symbol);
    assert_eq!(changed("map once in 1", "map once in i_block"), Reason::Symbol);
    assert_eq!(changed("load h[i, k]\n", "load h[i, q]\n"), Reason::Symbol);
    assert_eq!(changed("when ids[i] >= 0", "when ids[n] >= 0"), Reason::Symbol);
    assert_eq!(changed("when ids[i] >= 0", "when ids[i, k] >= 0"), Reason::Table);
    assert_eq!(changed("when ids[i] >= 0", "when m[i] >= 0"), Reason::Table);
    assert_eq!(changed("when ids[i] >= 0", "when best[] >= 0"), Reason::Table);
    assert_eq!(changed("when ids[i] >= 0", "when nobody[i] >= 0"), Reason::Table);
    assert_eq!(changed("store total -> y[i, n]", "store more -> y[i, n]"), Reason::Undefined);
    assert_eq!(changed("load h[i, k] when", "load y[i, k] when"), Reason::Undefined);
}

#[test]
fn ranges_and_types() {
    assert_eq!(
        changed("{i: 8*i_block +: 8 < S} = load m", "{i: 8*i_block +: 0 < S} = load m"),
        Reason::Range
    );
    assert_eq!(
        changed("{i: 8*i_block +: 8 < S} = load m", "{i: 8*i_block +: 9 < S} = load m"),
        Reason::Range
    );
    assert_eq!(
        changed("e: f32{i: 8*i_block +: 8 < S, k: 0", "e: f32{i: 8*i_block +: 8 < S, i: 0"),
        Reason::Range
    );
    assert_eq!(changed("load y[0, n]", "load y[n]"), Reason::Rank);
    assert_eq!(changed("store e -> d[i, k]", "store e -> d[i]"), Reason::Rank);
    assert_eq!(changed("e: f32{", "e: f64{"), Reason::DType);
    assert_eq!(changed("b: f32 = add a a", "b: bool = eq a a"), Reason::DType);
    assert_eq!(changed("b: f32 = add a a", "b: f32 = add a 2"), Reason::DType);
    assert_eq!(changed("b: f32 = add a a", "b: i32 = add a a"), Reason::DType);
    assert_eq!(changed("b: f32 = add a a", "b: f32{i: 8*i_block +: 8 < S} = add a a"), Reason::Labels);
    assert_eq!(
        changed("g: f32, place: i32 = reduce argmax f", "g: f32, place: f32 = reduce argmax f"),
        Reason::DType
    );
    assert_eq!(
        changed(
            "contract a b into sum where k <= n masks mask",
            "contract a into sum where k <= n masks mask"
        ),
        Reason::Labels
    );
    assert_eq!(changed("masks mask", "masks a"), Reason::DType);
}

#[test]
fn carries() {
    assert_eq!(changed("sequential carry", "parallel carry"), Reason::Place);
    assert_eq!(
        changed("sum: f32{i: 8*i_block +: 8 < S, n", "sum: f64{i: 8*i_block +: 8 < S, n"),
        Reason::Carry
    );
    assert_eq!(changed("more: f32 = contract", "more: f32{i: 8*i_block +: 8 < S} = contract"), Reason::Carry);
    assert_eq!(changed("next more", "next a"), Reason::Carry);
    assert_eq!(changed("{\n        a: f32{", "from mask {\n        a: f32{"), Reason::Carry);
}

#[test]
fn stores() {
    assert_eq!(changed("store e -> d[i, k]", "store e -> h[i, k]"), Reason::Store);
    assert_eq!(changed("store e -> d[i, k]\n", ""), Reason::Defined);
    assert_eq!(changed("store e -> d[i, k]", "store e -> d[0, k]"), Reason::Overlap);
    assert_eq!(changed("store e -> d[i, k]", "store e -> d[k, i - i]"), Reason::Overlap);
    assert_eq!(changed("store e -> d[i, k]", "store e -> d[ids[i], k]"), Reason::Overlap);
    assert_eq!(
        changed("store e -> d[i, k]", "store e -> d[i, k]\n    store e -> d[i + 1, k]"),
        Reason::Overlap
    );
    assert_eq!(changed("store e -> d[i, k]", "store e -> d[floordiv(i, 2), k]"), Reason::Overlap);
    assert_eq!(changed("map once in 1 parallel", "map once in S parallel"), Reason::Overlap);
    // Blocks that lie apart by less than their size.
    let text = GOOD.replace(
        "{i: 8*i_block +: 8 < S, k: 0 +: 64 < D} = load h",
        "{i: 7*i_block +: 8 < S, k: 0 +: 64 < D} = load h",
    );
    assert_eq!(verify(&parse(&text)).unwrap_err().reason, Reason::Overlap);
}

#[test]
fn memory_taken_over() {
    assert_eq!(changed("overwrites c", "overwrites w"), Reason::Alias);
    assert_eq!(changed("overwrites c", "overwrites x"), Reason::Alias);
    assert_eq!(changed("  return y, d", "  return y, c"), Reason::Alias);
    assert_eq!(changed("load h[i, k]\n", "load c[i, k]\n"), Reason::Alias);
    assert_eq!(changed("best: i32[] =", "best: i32[] overwrites ids ="), Reason::Alias);
    assert_eq!(changed("y: f32[S, D] = map", "y: f32[S, D] overwrites x = map"), Reason::Alias);
    assert_eq!(changed("h: f32[S, D] = call", "h: f32[S, D] overwrites x = call"), Reason::Alias);
}

#[test]
fn calls() {
    assert_eq!(changed("call twice(x)", "call twice(x, x)"), Reason::Call);
    assert_eq!(changed("call twice(x)", "call twice(m)"), Reason::Call);
    assert_eq!(changed("twice(z = h) -> z", "twice(h[l]) -> [l]"), Reason::Call);
    assert_eq!(changed("{ twice(z = h) -> z }", "{ twice(z = h) -> [l] }"), Reason::Call);
}

#[test]
fn malformed_programs_do_not_panic() {
    let program = parse(GOOD);
    let ids = program.main().values.len() as u32;
    // Every value id in turn becomes every other, and one that nothing has.
    let mut count = 0;
    let mut walk = program.functions[1].clone();
    for node in &mut walk.body {
        node.for_each_value(&mut |_| count += 1);
    }
    for place in 0..count {
        for id in (0..ids).step_by(3).chain([ids, u32::MAX]) {
            let mut broken = program.clone();
            let mut at = 0;
            for node in &mut broken.functions[1].body {
                node.for_each_value(&mut |value| {
                    if at == place {
                        *value = ValueId(id);
                    }
                    at += 1;
                });
            }
            let _ = verify(&broken);
            let _ = broken.to_string();
        }
    }
    // Nodes in the wrong order, and inside out.
    let mut broken = program.clone();
    broken.functions[1].body.reverse();
    assert!(verify(&broken).is_err());
    let mut broken = program.clone();
    let inner = match &broken.functions[1].body[2] {
        Node::Map(map) => map.body.clone(),
        _ => Vec::new(),
    };
    broken.functions[1].body.extend(inner);
    assert_eq!(verify(&broken).unwrap_err().reason, Reason::Place);
    broken.functions.clear();
    assert_eq!(verify(&broken).unwrap_err().reason, Reason::Count);
}
