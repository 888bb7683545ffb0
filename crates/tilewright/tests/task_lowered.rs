//! Task programs that were lowered from tensor programs: the verifier accepts them, they read back from their text,
//! and in every order they compute what the tensor program means, bit for bit.

use std::collections::BTreeMap;
use std::time::Instant;
use tilewright::dim::{Env, Symbol};
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::task::eval::{Choice, Schedule, eval, same};
use tilewright::task::verify::{Checked, verify};
use tilewright::task::{self, BufferKind, EventId, Program, text};
use tilewright::tensor::eval::{Bindings, Numerics};
use tilewright::tensor::{self, Array, DType, Scalar};
use tilewright::{block, tensor::array::Data};

type Sizes = &'static [&'static [(&'static str, i64)]];

/// Tensor programs, and sizes at which they are run.
const PROGRAMS: &[(&str, &str, Sizes)] = &[
    (
        "elementwise",
        "program p(x: bf16[S, D], r: bf16[S]) -> bf16[S, D]
         where S in 0..=512, D in 0..=512
         {
           a = mul x r[S, _]
           b = exp a
           c = add b x
           return c
         }",
        &[&[("S", 0), ("D", 3)], &[("S", 70), ("D", 5)], &[("S", 1), ("D", 300)]],
    ),
    (
        "norm",
        "program p(x: bf16[S, D], w: weight bf16[N, D]) -> bf16[S, N]
         where S in 0..=8192, D in 1..=512, N in 0..=512
         {
           f = cast x to f32
           y = mul f f
           q = sum y over D
           m = div q D
           e = add m 1e-6
           r = rsqrt e
           g = mul f r[S, _]
           h = cast g to bf16
           return contract h[S, D] w[N, D] -> [S, N]
         }",
        &[&[("S", 0), ("D", 3), ("N", 2)], &[("S", 66), ("D", 5), ("N", 67)], &[("S", 1), ("D", 130), ("N", 1)]],
    ),
    (
        "shapes",
        "program p(x: f32[S, D], y: f32[S2: 3, D]) -> f32[D, S], f32[f: S * D], f32[s: S, D, n: 3], f32[S: 2, D], f32[a: S + 3, D], f32[S: S + 3, D]
         where S in 3..=128, D in 0..=512
         {
           a = transpose x -> [D, S]
           b = reshape x -> [f: S * D]
           c = broadcast x[s, D] -> [s, D, n: 3]
           d = slice x over S from 1 size 2
           e = concat x[a, D] y[a, D] over a
           g = pad x over S before 1 after 2 with -1.5
           return a, b, c, d, e, g
         }",
        &[&[("S", 3), ("D", 0)], &[("S", 7), ("D", 5)], &[("S", 66), ("D", 70)]],
    ),
    (
        "data",
        "program p(table: bf16[V, D], ids: i32[S], x: f32[S, E]) -> bf16[S, D], f32[S, E: 2], i32[S, E: 2], f32[V: V, E], i32[S], i32[part: E + 2]
         where S in 0..=128, D in 0..=512, V in 1..=64, E in 2..=16, ids elements -1..=V
         {
           a = gather table ids over V
           v, i = topk x over E size 2
           s = scatter_add x[V, E] ids over V size V
           k = cast x to i32
           first = max k over E
           perm, offsets = group first size E
           return a, v, i, s, perm, offsets
         }",
        &[&[("S", 0), ("D", 3), ("V", 2), ("E", 4)], &[("S", 9), ("D", 5), ("V", 3), ("E", 3)]],
    ),
    (
        "experts",
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
            &[("T", 20), ("D", 5), ("N", 3), ("E", 3)],
            &[("T", 70), ("D", 2), ("N", 5), ("E", 2)],
        ],
    ),
    (
        "ragged",
        "program p(off: plan i32[o: E + 1], x: f32[e: E, t: off[e + 1] - off[e], D], w: f32[e: E, n: 3, D]) -> f32[e: E, t: off[e + 1] - off[e], n: 3], f32[e: E, D]
         where E in 1..=16, T in 0..=4096, D in 0..=512, off splits T over E
         {
           z = exp x
           y = contract z[e, t, D] w[e, n, D] -> [e, t, n]
           s = sum z over t
           return y, s
         }",
        &[&[("E", 1), ("T", 0), ("D", 3)], &[("E", 5), ("T", 9), ("D", 4)], &[("E", 3), ("T", 150), ("D", 2)]],
    ),
    (
        "dependent",
        "program p(x: f32[i: S, j: min(i + 1, S)]) -> f32[i: S], f32[i: S, j: min(i + 1, S)]
         where S in 0..=512
         {
           z = exp x
           s = sum z over j
           return s, z
         }",
        &[&[("S", 0)], &[("S", 1)], &[("S", 5)], &[("S", 70)]],
    ),
    (
        "update",
        "program p(c: state f32[B, C, D], x: f32[B, S, D], len: plan i32[B]) -> f32[b: B, C, D], f32[b: B, C, D]
         where B in 0..=8, C in 0..=512, D in 0..=300, S in 0..=512, len elements 0..=C
         {
           old = exp c
           z = mul old[b, C, D] 2.0
           y = update c[b, C, D] x[b, S, D] over C at len[b]
           return y, z
         }",
        &[&[("B", 0), ("C", 4), ("D", 2), ("S", 1)], &[("B", 2), ("C", 70), ("D", 3), ("S", 66)]],
    ),
    (
        "layers",
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
            &[("S", 3), ("D", 70), ("L", 3)],
            &[("S", 0), ("D", 4), ("L", 2)],
            &[("S", 66), ("D", 1), ("L", 4)],
        ],
    ),
    (
        "caches",
        "fn layer(x: f32[S, D], c: f32[C, D]) -> f32[S, D], f32[C, D] {
           n = update c[C, D] x[S, D] over C at 1
           t = sum n over C
           y = mul x t[_, D]
           return y, n
         }
         program p(x: f32[S, D], c: state f32[L, C, D]) -> f32[S, D], f32[l: L, C, D]
         where S in 0..=64, D in 0..=512, C in 0..=128, L in 0..=4
         {
           y, n = repeat l in L, h = x { layer(h, c[l]) -> h, [l] }
           return y, n
         }",
        &[&[("S", 3), ("D", 4), ("C", 6), ("L", 0)], &[("S", 3), ("D", 70), ("C", 5), ("L", 3)]],
    ),
];

struct Known<'a>(&'a BTreeMap<Symbol, i64>);

impl Env for Known<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.0.get(symbol).copied()
    }

    fn element(&self, _: &Symbol, _: &[i64]) -> Option<i64> {
        None
    }
}

/// Contents for the parameters that keep the facts.
fn bindings(program: &Program, sizes: &[(&str, i64)], seed: u64) -> Bindings {
    let mut state = seed * 2 + 1;
    let mut next = move |end: i64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as i64 % end.max(1)
    };
    let symbols: BTreeMap<Symbol, i64> =
        sizes.iter().map(|(name, value)| (Symbol::new(name), *value)).collect();
    let env = Known(&symbols);
    let mut arrays = Vec::new();
    for buffer in program.buffers.iter().filter(|buffer| matches!(buffer.kind, BufferKind::Param(_))) {
        let extents: Vec<usize> =
            buffer.extents.iter().map(|n| n.eval(&env).expect("an extent") as usize).collect();
        let mut array = Array::filled(buffer.dtype, &extents, Scalar::zero(buffer.dtype));
        let count = array.len();
        if let Some((parts, total)) = program.facts.splits(&buffer.name) {
            let (parts, total) = (parts.eval(&env).expect("parts"), total.eval(&env).expect("a total"));
            let mut inner: Vec<i64> = (1..parts).map(|_| next(total + 1)).collect();
            inner.sort_unstable();
            let all: Vec<i64> = [0].into_iter().chain(inner).chain([total]).collect();
            (0..count).for_each(|at| array.set(at, Scalar::Int(all[at])));
        } else if buffer.dtype.is_int() {
            let (lo, hi) = match program.facts.table_range(&buffer.name) {
                Some((lo, hi)) => (lo.eval(&env).expect("a bound"), hi.eval(&env).expect("a bound")),
                None => (0, 3),
            };
            (0..count).for_each(|at| array.set(at, Scalar::Int(lo + next(hi - lo + 1))));
        } else if buffer.dtype != DType::Bool {
            let mut value = || buffer.dtype.round(Scalar::Float((next(2001) - 1000) as f64 / 512.0));
            (0..count).for_each(|at| array.set(at, value()));
        }
        arrays.push(array);
    }
    Bindings { symbols, arrays }
}

fn lowered(name: &str, source: &str) -> (tensor::Program, Program) {
    let tensor = tensor::text::parse(name, source).unwrap_or_else(|error| panic!("{error}"));
    let target = Target::portable();
    let mut journal = Journal::new();
    let block =
        block::lower::lower(&tensor, &target, &mut journal).unwrap_or_else(|error| panic!("{name}: {error}"));
    let task =
        task::lower::lower(&block, &target, &mut journal).unwrap_or_else(|error| panic!("{name}: {error}"));
    (tensor, task)
}

/// The programs above, and those of the folder `programs`.
fn programs() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        PROGRAMS.iter().map(|(name, source, _)| (name.to_string(), source.to_string())).collect();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("a file").path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "tensor")) {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        all.push((name, std::fs::read_to_string(file).expect("a text")));
    }
    all
}

#[test]
fn lowered_programs_are_accepted() {
    let mut wrong = Vec::new();
    for (name, source) in programs() {
        let (_, program) = lowered(&name, &source);
        let start = Instant::now();
        match verify(&program, &Target::portable()) {
            Err(violation) => wrong.push(format!("{name}: {:?}: {violation}", violation.reason)),
            Ok(report) => {
                let proved = report.thresholds.iter().filter(|&&checked| checked == Checked::Proved).count();
                let (families, events) = (program.families.len(), program.events.len());
                let (sizes, tasks, took) = (report.assignments.len(), report.tasks, start.elapsed());
                println!(
                    "{name}: {families} families, {proved} of {events} events proved, {sizes} sizes, {tasks} tasks, {took:?}"
                );
                for (index, checked) in report.thresholds.iter().enumerate() {
                    if *checked == Checked::Enumerated {
                        let event = program.event(EventId(index as u32));
                        let notifies = program.families.iter().flat_map(|family| {
                            let own = family.notifies.iter().filter(|edge| edge.event.0 as usize == index);
                            own.map(|edge| {
                                let edge = text::print_edge(&program.events, &family.coordinates, edge);
                                format!("{}{:?} notifies {edge}", family.name, family.coordinates)
                            })
                        });
                        let notifies: Vec<String> = notifies.collect();
                        println!(
                            "    {}{:?} wait {}: {}",
                            event.name,
                            event.axes,
                            event.wait,
                            notifies.join(", ")
                        );
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lowered_programs_read_back_from_their_text() {
    for (name, source) in programs() {
        let (_, program) = lowered(&name, &source);
        let printed = program.to_string();
        let again: Program = text::parse(&name, &printed).unwrap_or_else(|error| panic!("{error}"));
        assert!(again == program, "{name} changes on its way through the text:\n{printed}\n{again}");
        assert_eq!(again.to_string(), printed, "{name}");
    }
}

#[test]
fn all_orders_compute_what_the_tensor_program_means() {
    for (name, source, all) in PROGRAMS {
        let (tensor, program) = lowered(name, source);
        for (seed, sizes) in all.iter().enumerate() {
            let bindings = bindings(&program, sizes, seed as u64 + 1);
            for numerics in [Numerics::F64, Numerics::Own] {
                let want = tensor::eval::eval(&tensor, &bindings, numerics);
                let want = want.unwrap_or_else(|error| panic!("{name} {sizes:?}: {error}"));
                for (workers, choice) in [
                    (1, Choice::First),
                    (3, Choice::Random(5)),
                    (64, Choice::Latest),
                    (64, Choice::Last),
                    (5, Choice::Starve(0)),
                ] {
                    let mut schedule = Schedule { epochs: 2, ..Schedule::new(workers, choice) };
                    let got = eval(&program, &bindings, numerics, &mut schedule);
                    let got = got
                        .unwrap_or_else(|error| panic!("{name} {sizes:?} {schedule:?}: {error}\n{program}"));
                    assert!(
                        same(&got, &want),
                        "{name} {sizes:?} {schedule:?} {numerics:?}\n{program}\n{}",
                        differences(&got, &want)
                    );
                }
            }
        }
    }
}

/// The first elements that differ, for the message of a failure.
fn differences(got: &[Array], want: &[Array]) -> String {
    let mut lines = Vec::new();
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        if got.extents != want.extents {
            lines.push(format!("result {k}: {:?} is not {:?}", got.extents, want.extents));
            continue;
        }
        let element = |array: &Array, at: usize| match &array.data {
            Data::Float(values) => format!("{:?}", values[at]),
            Data::Int(values) => format!("{:?}", values[at]),
            Data::Bool(values) => format!("{:?}", values[at]),
        };
        let different = (0..got.len()).filter(|&at| element(got, at) != element(want, at));
        lines.extend(different.take(3).map(|at| {
            format!("result {k}, element {at}: {} is not {}", element(got, at), element(want, at))
        }));
    }
    lines.join("\n")
}
