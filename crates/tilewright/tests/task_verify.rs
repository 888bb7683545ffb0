//! The verifier of task programs: right programs pass at all the sizes it draws, and give the same results in every
//! order; wrong ones are refused with a reason.

mod task_programs;

use std::collections::BTreeMap;
use std::time::Instant;
use task_programs::{parse, texts};
use tilewright::dim::Symbol;
use tilewright::target::Target;
use tilewright::task::eval::{Choice, Schedule, eval, explore, same};
use tilewright::task::verify::{Checked, verify};
use tilewright::task::{BufferKind, Program};
use tilewright::tensor::eval::{Bindings, Numerics};
use tilewright::tensor::{Array, Scalar};

/// Sizes, and contents for the parameters that keep the facts.
fn bindings(program: &Program, sizes: &[(&str, i64)], seed: u64) -> Bindings {
    let mut state = seed * 2 + 1;
    let mut next = move |end: i64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as i64 % end.max(1)
    };
    let mut symbols: BTreeMap<Symbol, i64> =
        sizes.iter().map(|(name, value)| (Symbol::new(name), *value)).collect();
    for symbol in program.facts.symbols() {
        if let Some((lo, Some(hi))) = program.facts.range(symbol).filter(|(lo, hi)| Some(*lo) == *hi) {
            assert_eq!(lo, hi);
            symbols.insert(symbol.clone(), lo);
        }
    }
    let mut arrays = Vec::new();
    for buffer in &program.buffers {
        if !matches!(buffer.kind, BufferKind::Param(_)) {
            continue;
        }
        let extents: Vec<usize> =
            buffer.extents.iter().map(|n| n.eval(&symbols).expect("an extent") as usize).collect();
        let mut array = Array::filled(buffer.dtype, &extents, Scalar::zero(buffer.dtype));
        if let Some((parts, total)) = program.facts.splits(&buffer.name) {
            let (parts, total) =
                (parts.eval(&symbols).expect("parts"), total.eval(&symbols).expect("a total"));
            let mut inner: Vec<i64> = (1..parts).map(|_| next(total + 1)).collect();
            inner.sort_unstable();
            let all: Vec<i64> = [0].into_iter().chain(inner).chain([total]).collect();
            (0..array.len()).for_each(|at| array.set(at, Scalar::Int(all[at])));
        } else if let Some((lo, hi)) = program.facts.table_range(&buffer.name) {
            let (lo, hi) = (lo.eval(&symbols).expect("a bound"), hi.eval(&symbols).expect("a bound"));
            (0..array.len()).for_each(|at| array.set(at, Scalar::Int(lo + next(hi - lo + 1))));
        } else {
            (0..array.len()).for_each(|at| array.set(at, Scalar::Float(next(1000) as f64 / 64.0)));
        }
        arrays.push(array);
    }
    Bindings { symbols, arrays }
}

/// Sizes at which a program is run: every symbol that is free, unequal values, 0 and 1 included.
fn some_sizes(program: &Program) -> Vec<Vec<(String, i64)>> {
    let mut all = Vec::new();
    for round in 0..6i64 {
        let mut sizes = Vec::new();
        for (index, symbol) in program.facts.symbols().enumerate() {
            let (lo, hi) = program.facts.range(symbol).expect("a range");
            let wanted = [0, 1, 5, 9, 11, 2][(round as usize + index) % 6];
            sizes.push((symbol.to_string(), wanted.clamp(lo, hi.unwrap_or(wanted).max(lo))));
        }
        all.push(sizes);
    }
    all
}

fn bound(program: &Program, sizes: &[(String, i64)], seed: u64) -> Bindings {
    let sizes: Vec<(&str, i64)> = sizes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    bindings(program, &sizes, seed)
}

const CHOICES: [Choice; 7] = [
    Choice::First,
    Choice::Last,
    Choice::Earliest,
    Choice::Latest,
    Choice::Starve(0),
    Choice::Starve(1),
    Choice::Random(11),
];

#[test]
fn right_programs_pass() {
    for (name, source) in texts() {
        let program = parse(&name, &source);
        let start = Instant::now();
        let report = verify(&program, &Target::portable()).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("{name}: {report:?} in {:?}", start.elapsed());
        assert!(report.assignments.len() >= 6, "{name}: {report:?}");
        assert!(start.elapsed().as_millis() < 2000, "{name} takes {:?}", start.elapsed());
    }
}

#[test]
fn thresholds_of_plain_edges_are_proved_for_all_sizes() {
    for (name, source) in texts() {
        let program = parse(&name, &source);
        let report = verify(&program, &Target::portable()).expect("it passes");
        for (event, checked) in program.events.iter().zip(&report.thresholds) {
            // Tile sizes of which neither divides the other are beyond the prover.
            let want = if name == "tiles" { Checked::Enumerated } else { Checked::Proved };
            assert_eq!(*checked, want, "{name}: {}", event.name);
        }
        assert_eq!(report.arena, Checked::Proved, "{name}");
    }
}

#[test]
fn all_orders_give_the_same_results() {
    for (name, source) in texts() {
        let program = parse(&name, &source);
        for (seed, sizes) in some_sizes(&program).iter().enumerate() {
            let bindings = bound(&program, sizes, seed as u64);
            let one = eval(&program, &bindings, Numerics::Own, &mut Schedule::new(1, Choice::First));
            let one = one.unwrap_or_else(|error| panic!("{name} {sizes:?}: {error}"));
            for workers in [2, 3, 7, 40] {
                for choice in CHOICES {
                    let mut schedule = Schedule { epochs: 2, ..Schedule::new(workers, choice) };
                    let many = eval(&program, &bindings, Numerics::Own, &mut schedule);
                    let many = many.unwrap_or_else(|error| panic!("{name} {sizes:?} {schedule:?}: {error}"));
                    assert!(same(&one, &many), "{name} {sizes:?} {schedule:?}\n{one:?}\n{many:?}");
                }
            }
        }
    }
}

#[test]
fn tiny_programs_are_explored_exhaustively() {
    let mut complete = 0;
    for (name, source) in texts() {
        let program = parse(&name, &source);
        let sizes: Vec<(String, i64)> = program
            .facts
            .symbols()
            .map(|symbol| {
                let (lo, hi) = program.facts.range(symbol).expect("a range");
                (symbol.to_string(), (if symbol.as_str() == "L" { 2 } else { 5 }).clamp(lo, hi.unwrap_or(5)))
            })
            .collect();
        let bindings = bound(&program, &sizes, 3);
        let one =
            eval(&program, &bindings, Numerics::Own, &mut Schedule::new(1, Choice::First)).expect("it runs");
        let (all, explored) = explore(&program, &bindings, Numerics::Own, 3, 4000)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(same(&one, &all), "{name}");
        complete += usize::from(explored.complete);
        println!("{name}: {explored:?}");
    }
    assert!(complete >= 6, "only {complete} programs were explored completely");
}
