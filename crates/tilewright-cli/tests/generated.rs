//! Generated programs through the whole pipeline. `TILEWRIGHT_PROGRAMS` says how many, `TILEWRIGHT_SEED` from which
//! seed on. A program that fails is made smaller and written to `target/reproducers`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tilewright::error::Error;
use tilewright::journal::Kind;
use tilewright::target::Target;
use tilewright::tensor::eval::Bindings;
use tilewright::tensor::{Op, Program};
use tilewright_cli::check::{Failure, Levels, Outcome, runtime};
use tilewright_cli::engine::{Engine, Runtime};
use tilewright_cli::generate::{random_program, random_sizes, shrink};
use tilewright_cli::inputs::{Fill, Inputs};
use tilewright_cli::random::Random;
use tilewright_cpu::machine::Level;

/// What one program may take before it is mentioned.
const SLOW: Duration = Duration::from_secs(5);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What the bindings of a program gave.
#[derive(Default)]
struct Counts {
    results: usize,
    /// Sizes at which a program has no value.
    refused: BTreeMap<String, usize>,
    /// Programs that the compiler does not take.
    unsupported: BTreeMap<String, usize>,
    /// Families with machine code, and why others have none.
    native: usize,
    interpreted: BTreeMap<String, usize>,
}

/// The portable executor, and machine code for each width of vectors that this machine has.
fn runtimes() -> Vec<(Runtime, Option<Level>)> {
    let mut levels = Level::available();
    levels.dedup_by_key(|level| level.width());
    let native = levels.into_iter().map(|level| (Runtime::Native, Some(level)));
    std::iter::once((Runtime::Portable, None)).chain(native).collect()
}

/// Runs a program at several sizes; `seed` says which.
fn check(program: &Program, seed: u64, counts: &mut Counts) -> Result<(), String> {
    // Most programs are fused, as users run them; the others show what the plain lowering does.
    let fuse = !seed.is_multiple_of(4);
    let levels = match Levels::lower(program, &Target::portable(), fuse) {
        Ok(levels) => levels,
        Err(failure) if failure.unsupported => {
            *counts.unsupported.entry(kind(&failure.message)).or_default() += 1;
            return Ok(());
        }
        Err(failure) => return Err(failure.to_string()),
    };
    // The engine computes from weights alone once, ahead: its programs are other ones.
    let mut engines = Vec::new();
    for (runtime, level) in runtimes() {
        match Engine::with(program, runtime, Some(2), level, fuse) {
            Ok(engine) => engines.push((runtime, level, engine)),
            Err(error @ Error::Unsupported { .. }) => {
                *counts.unsupported.entry(kind(&error.to_string())).or_default() += 1;
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    let last = engines.last().and_then(|(.., engine)| engine.executable());
    for entry in last.iter().flat_map(|executable| &executable.journal().entries) {
        match (entry.stage, entry.kind) {
            ("emit", Kind::Chose) => counts.native += 1,
            ("emit", _) => *counts.interpreted.entry(entry.reason.clone()).or_default() += 1,
            _ => {}
        }
    }
    let mut random = Random::new(seed);
    for k in 0..3 {
        let symbols = random_sizes(program, &mut random, k == 2);
        let fill = if k == 1 { Fill::Adversarial(seed) } else { Fill::Random(seed) };
        let inputs = Inputs { default: Some(fill), ..Inputs::default() };
        // Sizes at which no offsets or indices exist.
        let Ok(arrays) = inputs.arrays(program, &symbols) else { continue };
        let at = |failure: Failure| format!("{failure}\nat {symbols:?}, {fill:?}");
        let bindings = Bindings { symbols: symbols.clone(), arrays };
        match levels.eval(&bindings, seed + k).map_err(at)? {
            Outcome::Results { own, .. } => {
                for (name, level, engine) in &engines {
                    let on = level.map_or_else(String::new, |level| format!(" for {level}"));
                    runtime(engine, program, &bindings, &own)
                        .map_err(at)
                        .map_err(|message| format!("{name}{on}: {message}"))?;
                }
                counts.results += 1;
            }
            Outcome::Refused(reason) => {
                *counts.refused.entry(kind(&reason)).or_default() += 1;
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
    let first = message.lines().next().unwrap_or_default();
    first.chars().filter(|c| !c.is_ascii_digit()).take(70).collect()
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
        let start = Instant::now();
        let outcome = caught(&program, seed, &mut counts);
        if start.elapsed() > SLOW {
            eprintln!("seed {seed} took {:.1} s", start.elapsed().as_secs_f64());
        }
        if let Err(message) = outcome {
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
    eprintln!("{count} programs, {} runs", counts.results);
    eprintln!("refused: {:#?}\nunsupported: {:#?}", counts.refused, counts.unsupported);
    eprintln!("{} families have machine code; not: {:#?}", counts.native, counts.interpreted);
    eprintln!("operators: {operators:?}");
    assert!(failures.is_empty(), "{kinds:#?}\n{}", failures.join("\n"));
}

/// Runs the program in the file that `TILEWRIGHT_REPRODUCER` names, at the sizes of `TILEWRIGHT_SEED`.
#[test]
fn a_reproducer_runs() {
    let Ok(file) = std::env::var("TILEWRIGHT_REPRODUCER") else { return };
    let text = std::fs::read_to_string(&file).expect("the file can be read");
    let program = tilewright::tensor::text::parse(&file, &text).unwrap_or_else(|error| panic!("{error}"));
    let seed = number("TILEWRIGHT_SEED", 0);
    let levels = Levels::lower(&program, &Target::portable(), !seed.is_multiple_of(4))
        .unwrap_or_else(|failure| panic!("{failure}"));
    if std::env::var("TILEWRIGHT_SHOW").is_ok() {
        println!("{}\n{}\n{}", levels.fused.as_ref().unwrap_or(&levels.block), levels.task, levels.kernel);
    }
    check(&program, seed, &mut Counts::default()).unwrap_or_else(|message| panic!("{message}"));
}
