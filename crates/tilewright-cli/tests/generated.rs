//! Generated programs through the whole pipeline. `TILEWRIGHT_PROGRAMS` says how many, `TILEWRIGHT_SEED` from which
//! seed on. A program that fails is made smaller and written to `target/reproducers`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tilewright::target::Target;
use tilewright::tensor::eval::Bindings;
use tilewright::tensor::{Op, Program};
use tilewright_cli::check::{Failure, Levels, Outcome};
use tilewright_cli::generate::{random_program, random_sizes, shrink};
use tilewright_cli::inputs::{Fill, Inputs};
use tilewright_cli::random::Random;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What the bindings of a program gave.
#[derive(Default)]
struct Counts {
    results: usize,
    refused: BTreeMap<String, usize>,
}

/// Runs a program at several sizes; `seed` says which.
fn check(program: &Program, seed: u64, counts: &mut Counts) -> Result<(), String> {
    let levels = Levels::lower(program, &Target::portable()).map_err(|failure| failure.to_string())?;
    let mut random = Random::new(seed);
    for k in 0..3 {
        let symbols = random_sizes(program, &mut random, k == 2);
        let fill = if k == 1 { Fill::Adversarial(seed) } else { Fill::Random(seed) };
        let inputs = Inputs { default: Some(fill), ..Inputs::default() };
        // Sizes at which no offsets or indices exist.
        let Ok(arrays) = inputs.arrays(program, &symbols) else { continue };
        let at = |failure: Failure| format!("{failure}\nat {symbols:?}, {fill:?}");
        match levels.eval(&Bindings { symbols: symbols.clone(), arrays }).map_err(at)? {
            Outcome::Results(..) => counts.results += 1,
            Outcome::Refused(reason) => {
                let kind: String = reason.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
                *counts.refused.entry(kind).or_default() += 1;
            }
        }
    }
    Ok(())
}

/// As [`check`], with a panic as a failure.
fn caught(program: &Program, seed: u64, counts: &mut Counts) -> Result<(), String> {
    let run = catch_unwind(AssertUnwindSafe(|| check(program, seed, counts)));
    run.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// The first words of a failure, which a smaller program must share.
fn kind(message: &str) -> String {
    message.split([':', '\n']).next().unwrap_or_default().to_string()
}

#[test]
fn generated_programs_agree_at_every_level() {
    let first = number("TILEWRIGHT_SEED", 0);
    let count = number("TILEWRIGHT_PROGRAMS", 200);
    let mut counts = Counts::default();
    let mut operators: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for seed in first..first + count {
        let program = random_program(seed).unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        for node in program.functions.iter().flat_map(|function| &function.nodes) {
            let name = match &node.op {
                Op::Elementwise { function } => function.name,
                Op::Reduce { monoid, .. } => monoid.name,
                Op::Contract { .. } => "contract",
                Op::Special { operator, .. } => operator.name,
                Op::Call { .. } => "call",
                Op::Repeat { .. } => "repeat",
            };
            *operators.entry(name).or_default() += 1;
        }
        if let Err(message) = caught(&program, seed, &mut counts) {
            let own = kind(&message);
            let seen = kinds.entry(own.clone()).or_default();
            *seen += 1;
            if *seen > 3 {
                continue;
            }
            let mut fails = |smaller: &Program| {
                caught(smaller, seed, &mut Counts::default()).is_err_and(|m| kind(&m) == own)
            };
            let small = shrink(&program, &mut fails);
            let message = caught(&small, seed, &mut Counts::default()).expect_err("it still fails");
            let text: String = message.lines().map(|line| format!("# {line}\n")).collect();
            let file = format!("{}/reproducers/generated_{seed}.tensor", env!("CARGO_TARGET_TMPDIR"));
            let folder = format!("{}/reproducers", env!("CARGO_TARGET_TMPDIR"));
            std::fs::create_dir_all(folder).expect("the target folder can be written");
            std::fs::write(&file, format!("# seed {seed}\n{text}{small}"))
                .expect("the target folder can be written");
            failures.push(format!("seed {seed}: {message}\n{small}{file}\n"));
        }
    }
    eprintln!("{count} programs, {} runs; refused: {:#?}", counts.results, counts.refused);
    eprintln!("operators: {operators:?}");
    assert!(failures.is_empty(), "{kinds:#?}\n{}", failures.join("\n"));
}
