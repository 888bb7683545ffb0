//! Lowering to task programs: derived events, counts at many sizes, memory, and equal results under every order.

#[path = "task_lower/brute.rs"]
mod brute;

use brute::World;
use std::collections::BTreeMap;
use tilewright::dim::Symbol;
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::task::eval::{Choice, Schedule};
use tilewright::task::{BufferKind, Family, Plan, Program};
use tilewright::tensor::eval::{Bindings, Numerics};
use tilewright::tensor::{Array, Data, ParamKind};
use tilewright::{block, task, tensor};

fn block_of(source: &str) -> block::Program {
    let tensor = tensor::text::parse("test.tensor", source).unwrap_or_else(|error| panic!("{error}"));
    block::lower::lower(&tensor, &Target::portable(), &mut Journal::new())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn lower_block(program: &block::Program) -> Program {
    task::lower::lower(program, &Target::portable(), &mut Journal::new())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn parse_block(source: &str) -> block::Program {
    block::text::parse("test.block", source).unwrap_or_else(|error| panic!("{error}"))
}

fn family<'p>(program: &'p Program, name: &str) -> &'p Family {
    let found = program.families.iter().find(|family| family.name.as_str() == name);
    found.unwrap_or_else(|| panic!("no family {name}:\n{}", task::text::print(program)))
}

/// The events that a family waits for: axes, wait, and where it waits.
fn waits(program: &Program, name: &str) -> Vec<String> {
    let family = family(program, name);
    let edge = |edge: &task::Edge| {
        let event = program.event(edge.event);
        let at = task::text::print_edge(&program.events, &family.coordinates, edge);
        let axes: Vec<String> = event.axes.iter().map(|(_, extent)| extent.to_string()).collect();
        format!("{at} of [{}] wait {}", axes.join(", "), event.wait)
    };
    family.waits.iter().map(edge).collect()
}

fn notifies(program: &Program, name: &str) -> Vec<String> {
    let family = family(program, name);
    family.notifies.iter().map(|e| task::text::print_edge(&program.events, &family.coordinates, e)).collect()
}

type Sizes<'a> = &'a [(&'a str, i64)];
type Tables<'a> = &'a [(&'a str, &'a [i64])];

fn symbols(sizes: Sizes<'_>) -> BTreeMap<Symbol, i64> {
    sizes.iter().map(|(name, value)| (Symbol::new(name), *value)).collect()
}

/// Arrays for all parameters: those of `tables`, or numbers that follow from the position.
fn arrays(program: &Program, sizes: Sizes<'_>, tables: Tables<'_>) -> Vec<Array> {
    let plan = Plan::new(program, &symbols(sizes), &()).unwrap_or_else(|error| panic!("{error}"));
    let mut found = Vec::new();
    for (buffer, planned) in program.buffers.iter().zip(&plan.buffers) {
        if !matches!(buffer.kind, BufferKind::Param(_)) {
            continue;
        }
        let count: usize = planned.extents.iter().product();
        let table = tables.iter().find(|(name, _)| *name == buffer.name.as_str());
        let seed = buffer.name.as_str().bytes().fold(7usize, |seed, byte| seed * 31 + byte as usize);
        let data = match table {
            Some((_, values)) => Data::Int(values.to_vec()),
            None if buffer.dtype.is_int() => Data::Int((0..count as i64).map(|k| k % 3).collect()),
            None => Data::Float(
                (0..count).map(|k| (((k + 1) * (seed % 97 + 3)) % 17) as f64 / 8.0 - 1.0).collect(),
            ),
        };
        assert_eq!(
            count,
            match &data {
                Data::Int(v) => v.len(),
                Data::Float(v) => v.len(),
                Data::Bool(v) => v.len(),
            }
        );
        found.push(Array { dtype: buffer.dtype, extents: planned.extents.clone(), data });
    }
    found
}

/// Verifies a program, checks it by brute force at these sizes, and runs it under several orders against the block program.
fn check(blocks: &block::Program, cases: &[(Sizes<'_>, Tables<'_>)]) -> Program {
    block::verify::verify(blocks).unwrap_or_else(|violation| panic!("{violation}\n{blocks}"));
    let program = lower_block(blocks);
    let text = task::text::print(&program);
    let again = task::text::parse("test.task", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again, program, "{text}");
    task::verify::verify(&program, &Target::portable())
        .unwrap_or_else(|violation| panic!("{:?} {violation}\n{text}", violation.reason));
    for (sizes, tables) in cases {
        let bindings = Bindings { symbols: symbols(sizes), arrays: arrays(&program, sizes, tables) };
        let expected =
            block::eval::eval(blocks, &bindings, Numerics::Own).unwrap_or_else(|error| panic!("{error}"));
        let params = program.buffers.iter().filter(|b| matches!(b.kind, BufferKind::Param(_)));
        let mut world = World { symbols: bindings.symbols.clone(), tables: BTreeMap::new() };
        world.tables.extend(params.map(|buffer| buffer.name.clone()).zip(bindings.arrays.iter().cloned()));
        for (id, array) in program.results.iter().zip(&expected) {
            world.tables.entry(program.buffer(*id).name.clone()).or_insert_with(|| array.clone());
        }
        brute::check(&program, &world);
        for (workers, choice) in
            [(1, Choice::First), (3, Choice::Latest), (4, Choice::Random(5)), (2, Choice::Starve(0))]
        {
            let mut schedule = Schedule::new(workers, choice);
            let results = task::eval::eval(&program, &bindings, Numerics::Own, &mut schedule)
                .unwrap_or_else(|error| panic!("{error} at {sizes:?}\n{text}"));
            assert!(
                task::eval::same(&results, &expected),
                "other results at {sizes:?} under {choice:?}\n{text}"
            );
        }
    }
    program
}

fn check_tensor(source: &str, cases: &[(Sizes<'_>, Tables<'_>)]) -> Program {
    check(&block_of(source), cases)
}

const NORM: &str = "program norm(x: f32[S, D], w: weight f32[N, D]) -> f32[S, N]
where S in 0..=8192, D in 0..=4096, N in 0..=4096
{
  y = mul x x
  q = sum y over D
  h = add x q[S, _]
  return contract h[S, D] w[N, D] -> [S, N]
}";

#[test]
fn a_row_of_tiles_is_one_cell() {
    let sizes: &[(Sizes<'_>, Tables<'_>)] = &[
        (&[("S", 0), ("D", 3), ("N", 2)], &[]),
        (&[("S", 1), ("D", 0), ("N", 1)], &[]),
        (&[("S", 65), ("D", 257), ("N", 3)], &[]),
        (&[("S", 129), ("D", 7), ("N", 65)], &[]),
        (&[("S", 3), ("D", 513), ("N", 0)], &[]),
    ];
    let program = check_tensor(NORM, sizes);
    assert_eq!(waits(&program, "q"), ["y_done[s_block] of [ceildiv(S, 64)] wait ceildiv(D, 256)"]);
    assert_eq!(waits(&program, "h"), ["q_done[s_block] of [ceildiv(S, 64)] wait 1"]);
    assert_eq!(waits(&program, "result"), ["h_done[s_block] of [ceildiv(S, 64)] wait ceildiv(D, 256)"]);
    assert_eq!(notifies(&program, "y"), ["y_done[s_block]"]);
    // The weight is loaded before the wait, the input of `y` too.
    assert_eq!(family(&program, "y").body.prologue.len(), 2);
    assert_eq!(family(&program, "y").body.nodes.len(), 2);
}

/// Two maps over one axis with tiles of two sizes.
fn two_tilings(first: i64, second: i64) -> block::Program {
    parse_block(&format!(
        "program two(x: f32[S])
        where S in 0..=8192
        {{
          y: f32[S] = map m in ceildiv(S, {first}) parallel {{
            a: f32{{i: {first}*m +: {first} < S}} = load x[i]
            b: f32 = add a 1.0
            store b -> y[i]
          }}
          z: f32[S] = map n in ceildiv(S, {second}) parallel {{
            c: f32{{i: {second}*n +: {second} < S}} = load y[i]
            d: f32 = mul c 2.0
            store d -> z[i]
          }}
          return z
        }}"
    ))
}

#[test]
fn tiles_of_two_sizes_count_the_tiles_that_exist() {
    for (first, second) in [(4, 4), (4, 12), (12, 4), (4, 6), (6, 4), (1, 5), (7, 3), (5, 1)] {
        let blocks = two_tilings(first, second);
        let sizes: Vec<[(&str, i64); 1]> = (0..=40).map(|s| [("S", s)]).collect();
        let cases: Vec<(Sizes<'_>, Tables<'_>)> = sizes.iter().map(|s| (s.as_slice(), &[][..])).collect();
        check(&blocks, &cases);
    }
    let wait = |first, second| waits(&lower_block(&two_tilings(first, second)), "z");
    assert_eq!(wait(64, 64), ["y_done[n] of [ceildiv(S, 64)] wait 1"]);
    assert_eq!(wait(64, 128), ["y_done[n] of [ceildiv(S, 128)] wait min(2*n + 2, ceildiv(S, 64)) - 2*n"]);
    assert_eq!(wait(128, 64), ["y_done[n] of [ceildiv(S, 64)] wait 1"]);
    let notify = |first, second| notifies(&lower_block(&two_tilings(first, second)), "y");
    assert_eq!(notify(64, 128), ["y_done[floordiv(m, 2)]"]);
    assert_eq!(notify(128, 64), ["y_done[2*m..ceildiv(min(S, 128*m + 128), 64)]"]);
}

#[test]
fn a_window_waits_for_a_range_of_the_earlier_tiles() {
    let blocks = parse_block(
        "program window(x: f32[S])
        where S in 0..=8192
        {
          y: f32[S] = map m in ceildiv(S, 4) parallel {
            a: f32{i: 4*m +: 4 < S} = load x[i]
            b: f32 = add a 1.0
            store b -> y[i]
          }
          z: f32[S] = map n in ceildiv(S, 4) parallel {
            c: f32{i: 4*n +: 4 < S} = load y[i - 3]
            d: f32{i: 4*n +: 4 < S} = load y[S - 1 - i]
            e: f32 = mul c d
            store e -> z[i]
          }
          return z
        }",
    );
    let sizes: Vec<[(&str, i64); 1]> = (0..=21).map(|s| [("S", s)]).collect();
    let cases: Vec<(Sizes<'_>, Tables<'_>)> = sizes.iter().map(|s| (s.as_slice(), &[][..])).collect();
    let program = check(&blocks, &cases);
    assert_eq!(family(&program, "z").waits.len(), 2);
    assert_eq!(notifies(&program, "y"), ["y_done[m]"]);
}

const STACK: &str = "fn layer(h: f32[S, D], w: f32[E: D, D], c: f32[C: S, D]) -> f32[S, D], f32[C: S, D] {
  p = contract h[s, d] w[e, d] -> [S: s, D: e]
  q = add p h
  c2 = update c q at 0 over C
  return q, c2
}
program stack(x: f32[S, D], w: weight f32[L, E: D, D], c: state f32[L, C: S, D]) -> f32[S, D], f32[l: L, C: S, D]
where S in 0..=512, D in 0..=256, L in 0..=8
{
  h, c2 = repeat l in L, h = x { layer(h, w[l], c[l]) -> h, [l] }
  return h, c2
}";

const REPEATS: &[(Sizes<'_>, Tables<'_>)] = &[
    (&[("S", 3), ("D", 2), ("L", 0)], &[]),
    (&[("S", 65), ("D", 1), ("L", 1)], &[]),
    (&[("S", 2), ("D", 65), ("L", 2)], &[]),
    (&[("S", 67), ("D", 2), ("L", 5)], &[]),
    (&[("S", 0), ("D", 2), ("L", 3)], &[]),
    (&[("S", 2), ("D", 0), ("L", 3)], &[]),
];

#[test]
fn a_repeat_updates_the_slices_of_a_state_in_place() {
    let program = check_tensor(STACK, REPEATS);
    let second = program.buffer(program.results[1]);
    assert_eq!((second.name.as_str(), &second.kind), ("c", &BufferKind::Param(ParamKind::State)));
    assert_eq!(program.families.len(), 5, "{}", task::text::print(&program));
    let carried = program.buffer(program.find_buffer(&"h".into()).expect("slots"));
    assert_eq!(carried.extents[0].as_constant(), Some(2));
}

#[test]
fn a_state_that_is_still_wanted_is_copied_before_it_is_updated() {
    let both = STACK.replace(
        "-> f32[S, D], f32[l: L, C: S, D]\nwhere",
        "-> f32[S, D], f32[l: L, C: S, D], f32[L, C: S, D]\nwhere",
    );
    let both = both.replace("return h, c2\n}", "return h, c2, c\n}");
    let program = check_tensor(&both, REPEATS);
    assert!(program.families.iter().any(|family| family.name.as_str().starts_with("copy_")));
    let names: Vec<&str> = program.results.iter().map(|id| program.buffer(*id).name.as_str()).collect();
    assert!(!names.contains(&"c"), "{names:?}");
    // An input is never written.
    check_tensor(&STACK.replace("c: state", "c:"), REPEATS);
}

#[test]
fn carried_values_may_swap_and_repeats_may_nest() {
    check_tensor(
        "fn turn(a: f32[S], b: f32[S]) -> f32[S], f32[S] {
          s = add a b
          return b, s
        }
        fn half(u: f32[S], a: f32[S]) -> f32[S] {
          t = mul u 0.5
          return add t a
        }
        fn twice(a: f32[S], b: f32[S], u: f32[M, S]) -> f32[S], f32[S], f32[m: M, S] {
          a2, b2 = repeat m in M, p = a, q = b { turn(p, q) -> p, q }
          d = repeat m in M { half(u[m], a2) -> [m] }
          return a2, b2, d
        }
        program nest(x: f32[S], y: f32[S], u: f32[L, M, S]) -> f32[S], f32[S], f32[l: L, m: M, S], f32[S]
        where S in 0..=512, L in 0..=4, M in 0..=4
        {
          a, b, d = repeat l in L, p = x, q = y { twice(p, q, u[l]) -> p, q, [l] }
          return a, b, d, a
        }",
        &[
            (&[("S", 5), ("L", 0), ("M", 2)], &[]),
            (&[("S", 5), ("L", 2), ("M", 0)], &[]),
            (&[("S", 65), ("L", 1), ("M", 1)], &[]),
            (&[("S", 3), ("L", 3), ("M", 2)], &[]),
            (&[("S", 3), ("L", 4), ("M", 3)], &[]),
            (&[("S", 0), ("L", 2), ("M", 2)], &[]),
        ],
    );
}

#[test]
fn ragged_parts_wait_for_themselves() {
    let source = "program parts(off: plan i32[P: E + 1], x: f32[e: E, t: off[e + 1] - off[e], D], w: f32[e: E, n: N, D]) -> f32[e: E, t: off[e + 1] - off[e], n: N], f32[e: E, D]
    where E in 0..=64, T in 0..=1024, D in 0..=64, N in 0..=64, off splits T over E
    {
      h = mul x 2.0
      g = contract h[e, t, d] w[e, n, d] -> [e, t, n]
      s = sum h over t
      return g, s
    }";
    let program = check_tensor(
        source,
        &[
            (&[("E", 0), ("T", 0), ("D", 2), ("N", 3)], &[("off", &[0])]),
            (&[("E", 1), ("T", 70), ("D", 2), ("N", 1)], &[("off", &[0, 70])]),
            (&[("E", 4), ("T", 5), ("D", 1), ("N", 3)], &[("off", &[0, 0, 3, 3, 5])]),
            (&[("E", 3), ("T", 130), ("D", 0), ("N", 2)], &[("off", &[0, 65, 130, 130])]),
        ],
    );
    assert!(waits(&program, "g")[0].starts_with("h_done[e_block, t_block]"), "{:?}", waits(&program, "g"));
}

#[test]
fn a_routed_layer_orders_its_tables() {
    check_tensor(
        "program routed(x: f32[t: T, d: D], key: i32[T], w: f32[e: E, n: N, d: D])
          -> f32[t: T, n: N], i32[T], i32[part: E + 2], f32[e: E, n: N]
        where T in 0..=512, D in 0..=64, N in 0..=64, E in 0..=16
        {
          perm, off = group key size E
          scaled = mul x 2.0
          y = gather scaled perm[u] over t
          z = ragged y -> [e: E, u: off[e + 1] - off[e], d]
          p = contract z[e, u, d] w[e, n, d] -> [e, u, n]
          m = max p over u
          a = mul p 2.0
          back = packed a -> [t: T, n: N]
          return back, perm, off, m
        }",
        &[
            (&[("T", 6), ("D", 2), ("N", 3), ("E", 3)], &[("key", &[1, 0, 7, 1, -1, 1])]),
            (&[("T", 0), ("D", 2), ("N", 3), ("E", 2)], &[("key", &[])]),
            (&[("T", 3), ("D", 1), ("N", 1), ("E", 1)], &[("key", &[0, 0, 0])]),
            (&[("T", 2), ("D", 1), ("N", 1), ("E", 0)], &[("key", &[0, 1])]),
            (&[("T", 5), ("D", 1), ("N", 64), ("E", 4)], &[("key", &[3, 0, 3, 0, 1])]),
        ],
    );
}

#[test]
fn an_update_waits_for_the_readers_of_what_it_overwrites() {
    let source = "program cache(c: state f32[C, D], x: f32[S: S, D]) -> f32[C, D], f32[C, D], f32[C]
    where C in 0..=512, S in 0..=512, D in 0..=64, p in 0..=512
    {
      old = mul c 2.0
      c2 = update c x at p over C
      total = sum c2 over D
      return old, c2, total
    }";
    let program = check_tensor(
        &source.replace("x: f32[S: S, D]", "x: f32[C: S, D]"),
        &[
            (&[("C", 5), ("S", 2), ("D", 3), ("p", 1)], &[]),
            (&[("C", 130), ("S", 70), ("D", 1), ("p", 100)], &[]),
            (&[("C", 3), ("S", 0), ("D", 1), ("p", 0)], &[]),
            (&[("C", 0), ("S", 2), ("D", 1), ("p", 0)], &[]),
        ],
    );
    assert_eq!(program.buffer(program.results[1]).name.as_str(), "c");
    assert!(
        waits(&program, "c2").iter().any(|wait| wait.starts_with("old_done")),
        "{:?}",
        waits(&program, "c2")
    );
}

#[test]
fn what_an_update_reads_of_its_own_cache_is_read_before() {
    let source = "program shift(c: state f32[S]) -> f32[S]
    where S in 0..=1024
    {
      c2 = update c c at 1 over S
      return c2
    }";
    let program = check_tensor(source, &[(&[("S", 0)], &[]), (&[("S", 5)], &[]), (&[("S", 600)], &[])]);
    assert!(program.families.len() >= 2, "{}", task::text::print(&program));
}

#[test]
fn a_store_never_leaves_its_tensor() {
    let blocks = parse_block(
        "program place(c: state f32[C, D], x: f32[S, D])
        where C in 0..=64, S in 0..=64, D in 0..=8, p in -64..=64
        {
          y: f32[C, D] overwrites c = map m in ceildiv(S, 4) parallel {
            a: f32{i: 4*m +: 4 < S, d: 0 +: 8 < D} = load x[i, d]
            store a -> y[i + p, d]
          }
          return y
        }",
    );
    check(
        &blocks,
        &[
            (&[("C", 7), ("S", 9), ("D", 2), ("p", -3)], &[]),
            (&[("C", 7), ("S", 9), ("D", 2), ("p", 3)], &[]),
            (&[("C", 20), ("S", 9), ("D", 1), ("p", 5)], &[]),
            (&[("C", 7), ("S", 9), ("D", 1), ("p", -20)], &[]),
            (&[("C", 0), ("S", 9), ("D", 1), ("p", 0)], &[]),
        ],
    );
}

#[test]
fn arguments_that_a_function_updates_are_the_callers_still() {
    let source = "fn touch(c: f32[S], d: f32[S]) -> f32[S], f32[S] {
      c2 = update c d at 1 over S
      e = add c2 d
      return c2, e
    }
    program calls(c: state f32[S], x: f32[S]) -> f32[S], f32[S], f32[S], f32[l: L, S], f32[S], f32[S]
    where S in 0..=512, L in 0..=4
    {
      a, b = touch(c, c)
      u, v = repeat l in L { touch(c, x) -> [l], [l] }
      w, z = touch(c, x)
      return a, w, z, v, x, x
    }";
    let program = check_tensor(
        source,
        &[
            (&[("S", 5), ("L", 3)], &[]),
            (&[("S", 66), ("L", 0)], &[]),
            (&[("S", 1), ("L", 1)], &[]),
            (&[("S", 0), ("L", 2)], &[]),
        ],
    );
    // Only the last call may update the state itself.
    assert_eq!(program.buffer(program.results[1]).name.as_str(), "c");
    let kinds: Vec<&BufferKind> = program.results.iter().map(|id| &program.buffer(*id).kind).collect();
    assert_eq!(kinds.iter().filter(|kind| ***kind == BufferKind::Output).count(), 5);
}

#[test]
fn a_causal_end_waits_for_the_tiles_before_it() {
    let blocks = parse_block(
        "program causal(x: f32[T])
        where T in 0..=8192
        {
          y: f32[T] = map m in ceildiv(T, 4) parallel {
            a: f32{i: 4*m +: 4 < T} = load x[i]
            b: f32 = add a 1.0
            store b -> y[i]
          }
          z: f32[T] = map n in ceildiv(T, 6) parallel {
            sum: f32 = map k in ceildiv(min(6*n + 6, T), 4) sequential carry sum f32 (so_far: f32{i: 6*n +: 6 < T}) {
              c: f32{j: 4*k +: 4 < min(6*n + 6, T)} = load y[j]
              d: f32{i: 6*n +: 6 < T, j: 4*k +: 4 < min(6*n + 6, T)} = mul c 1.0
              more: f32 = reduce sum d into so_far where j <= i
              next more
            }
            store sum -> z[i]
          }
          return z
        }",
    );
    let sizes: Vec<[(&str, i64); 1]> = (0..=25).map(|s| [("T", s)]).collect();
    let cases: Vec<(Sizes<'_>, Tables<'_>)> = sizes.iter().map(|s| (s.as_slice(), &[][..])).collect();
    let program = check(&blocks, &cases);
    assert_eq!(waits(&program, "z"), ["y_done[0..ceildiv(min(T, 6*n + 6), 4)] of [ceildiv(T, 4)] wait 1"]);
}

#[test]
fn whole_programs() {
    let read = |name: &str| {
        let path = format!("{}/../../programs/{name}.tensor", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    check_tensor(&read("softmax"), &[(&[("R", 65), ("C", 3)], &[]), (&[("R", 1), ("C", 257)], &[])]);
    let attention = read("attention_causal");
    check_tensor(
        &attention,
        &[
            (&[("S", 2), ("T", 5), ("H", 2), ("G", 2), ("K", 3), ("V", 2)], &[]),
            (&[("S", 5), ("T", 2), ("H", 1), ("G", 1), ("K", 1), ("V", 65)], &[]),
            (&[("S", 0), ("T", 2), ("H", 1), ("G", 3), ("K", 1), ("V", 1)], &[]),
            (&[("S", 2), ("T", 0), ("H", 1), ("G", 1), ("K", 1), ("V", 1)], &[]),
        ],
    );
}

#[test]
fn plans_deal_every_task_once_and_check_what_they_bind() {
    let program = lower_block(&block_of(STACK));
    let sizes = symbols(&[("S", 130), ("D", 70), ("L", 3)]);
    let plan = Plan::new(&program, &sizes, &()).unwrap_or_else(|error| panic!("{error}"));
    for workers in [1, 2, 3, 7] {
        let mut dealt = 0;
        for worker in 0..workers {
            let length = plan.queue_length(worker, workers);
            let mut last = None;
            for k in 0..length {
                let task = plan.task(worker, workers, k).expect("a task");
                assert_eq!(Some(&task), plan.task_at(worker as u64 + k * workers as u64).as_ref());
                assert_ne!(last.as_ref(), Some(&task));
                last = Some(task);
            }
            assert_eq!(plan.task(worker, workers, length), None);
            dealt += length;
        }
        assert_eq!(dealt, plan.tasks);
        assert_eq!(plan.task(workers, workers, 0), None);
    }
    for (buffer, planned) in program.buffers.iter().zip(&plan.buffers) {
        if let Some(offset) = planned.offset {
            assert_eq!(offset % 64, 0, "{}", buffer.name);
            assert!((offset + planned.bytes) as u64 <= plan.arena_bytes);
        }
    }
    assert!(plan.memory_table(&program).lines().next().is_some_and(|line| line.contains("f32[")));

    let fails =
        |sizes: Sizes<'_>| Plan::new(&program, &symbols(sizes), &()).expect_err("an error").to_string();
    assert!(fails(&[("S", 1), ("D", 1)]).contains("L"));
    assert!(fails(&[("S", 513), ("D", 1), ("L", 1)]).contains("513"));
}

#[test]
fn plans_refuse_what_does_not_fit() {
    let huge = parse_block(
        "program huge(x: f32[A, B])
        where A in 0..=1099511627776, B in 0..=1099511627776
        {
          y: f32[A, B] = map m in ceildiv(A, 64) parallel {
            map n in ceildiv(B, 64) parallel {
              a: f32{i: 64*m +: 64 < A, j: 64*n +: 64 < B} = load x[i, j]
              b: f32 = add a 1.0
              store b -> y[i, j]
            }
          }
          return y
        }",
    );
    let program = lower_block(&huge);
    let plan = |sizes: Sizes<'_>| Plan::new(&program, &symbols(sizes), &());
    let error = plan(&[("A", 1 << 40), ("B", 1 << 40)]).expect_err("too large");
    assert!(matches!(error, tilewright::error::Error::Memory { .. }), "{error}");
    // A buffer without elements takes nothing, however large its other extents.
    assert_eq!(plan(&[("A", 1 << 40), ("B", 0)]).expect("a plan").tasks, 0);
    assert_eq!(plan(&[("A", 0), ("B", 1)]).expect("a plan").tasks, 0);

    let ragged = lower_block(&block_of(
        "program parts(off: plan i32[P: E + 1], x: f32[e: E, t: off[e + 1] - off[e]]) -> f32[e: E]
        where E in 0..=64, T in 0..=1024, off splits T over E
        {
          return sum x over t
        }",
    ));
    let with = |offsets: &[i64]| {
        let world = World {
            symbols: symbols(&[("E", 2), ("T", 5)]),
            tables: [(
                Symbol::new("off"),
                Array { dtype: tensor::DType::I32, extents: vec![3], data: Data::Int(offsets.to_vec()) },
            )]
            .into(),
        };
        Plan::new(&ragged, &world.symbols, &world).map(|plan| plan.tasks)
    };
    assert!(with(&[0, 2, 5]).is_ok());
    for wrong in [[1, 2, 5], [0, 6, 5], [0, 2, 4]] {
        let error = with(&wrong).expect_err("wrong offsets").to_string();
        assert!(error.contains("off"), "{error}");
    }
}
