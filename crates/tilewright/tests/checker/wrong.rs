//! Planted faults: every wrong candidate is refused, with the reason. How many of them others would have let through:
//! a single trial over a small ring, as Mirage's, and a tolerance of 0.5 in floats, as Cleave's.

use super::mutate::{MUTATIONS, Mutation, exchanged, mutant};
use super::random::Random;
use super::subjects::subjects;
use std::cell::Cell;
use std::collections::BTreeMap;
use tilewright::superopt::check::evaluate::{Machine, Tensor};
use tilewright::superopt::check::inputs::{Data, Planting, floats, residues};
use tilewright::superopt::check::interpretation::{Interpretation, Value};
use tilewright::superopt::check::scaled::{Number, Scaled};
use tilewright::superopt::check::sizes::{self, Sizes};
use tilewright::superopt::check::tower::Tower;
use tilewright::superopt::check::{Law, Options, Verdict, check};
use tilewright::tensor::eval::{Bindings, Numerics, eval};
use tilewright::tensor::{Array, Program};

fn wanted() -> usize {
    std::env::var("TILEWRIGHT_CANDIDATES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

fn array(tensor: &Tensor<Scaled>, scaled: &Scaled) -> Array {
    let mut array = Array::filled(tensor.dtype, &tensor.extents, tilewright::tensor::Scalar::Int(0));
    for (k, element) in tensor.elements.iter().enumerate() {
        array.set(
            k,
            match element {
                Value::Real(x) => tilewright::tensor::Scalar::Float(Number::value(*x)),
                Value::Int(x) => tilewright::tensor::Scalar::Int(*x),
                Value::Truth(x) => tilewright::tensor::Scalar::Bool(scaled.known(*x).0),
            },
        );
    }
    array
}

/// Results of both by the evaluator of the tensor level, which shares nothing with the checker.
fn plain(
    program: &Program,
    candidate: &Program,
    sizes: &Sizes,
    data: Data,
    seed: u64,
) -> Option<Vec<(f64, f64)>> {
    let scaled = Scaled::new(Numerics::F64);
    let parameters = floats(program, sizes, seed, &scaled, data).ok()?;
    let arrays: Vec<Array> = parameters.iter().map(|tensor| array(tensor, &scaled)).collect();
    let bindings = Bindings { symbols: sizes.clone(), arrays };
    let ours = eval(program, &bindings, Numerics::F64).ok()?;
    let theirs = eval(candidate, &bindings, Numerics::F64).ok()?;
    let pair = |(a, b): (&Array, &Array)| -> Vec<(f64, f64)> {
        (0..a.len()).map(|k| (a.get(k).as_f64(), b.get(k).as_f64())).collect()
    };
    Some(ours.iter().zip(&theirs).flat_map(pair).collect())
}

/// Whether plain evaluation shows that a candidate is wrong.
fn is_wrong(program: &Program, candidate: &Program) -> bool {
    (0..12).any(|round| {
        let data = [Data::Ordinary, Data::Ordinary, Data::Negative, Data::Repeats][round % 4];
        let sizes = sizes::original(&program.facts, 4 + round as i64, round as u64);
        let Some(pairs) = plain(program, candidate, &sizes, data, round as u64) else { return false };
        let scale = pairs.iter().filter(|(x, _)| x.is_finite()).fold(1e-3f64, |m, (x, _)| m.max(x.abs()));
        pairs.iter().any(|(x, y)| {
            let differs = x.is_finite() != y.is_finite() || (x - y).abs() > 1e-6 * scale;
            differs && !(x.is_nan() && y.is_nan())
        })
    })
}

/// Whether a single trial over the ring of 83 and 167, at one small instantiation, lets a candidate through. A root or a
/// quotient without a value there has some value in Mirage's ring, so a trial in which nothing is defined is repeated.
fn passes_small_ring(program: &Program, candidate: &Program, seed: u64) -> bool {
    let sizes = sizes::twos(&program.facts);
    for attempt in 0..16 {
        let seed = seed * 16 + attempt;
        let tower = Tower::of(vec![83, 167], seed);
        let Ok(parameters) = residues(program, &sizes, seed, &tower, Planting::Generic) else { return false };
        let run = |program, side| {
            Machine { interpretation: &tower, program, side, symbols: &sizes, budget: Cell::new(1 << 20) }
                .run(&parameters)
        };
        let (Ok(ours), Ok(theirs)) = (run(program, 0), run(candidate, 1)) else { return false };
        let undefined = tower.undefined();
        let (mut defined, mut equal) = (false, true);
        for (a, b) in ours.iter().zip(&theirs) {
            for (x, y) in a.elements.iter().zip(&b.elements) {
                equal &= match (x, y) {
                    (Value::Real(x), Value::Real(y)) => {
                        defined |= !tower.agree(x, &undefined).0;
                        tower.agree(x, y).0
                    }
                    (Value::Int(x), Value::Int(y)) => x == y,
                    (Value::Truth(x), Value::Truth(y)) => tower.agree_truth(*x, *y).0,
                    _ => false,
                };
            }
        }
        if defined || !equal {
            return equal;
        }
    }
    false
}

/// Whether a relative and absolute tolerance of 0.5 on ordinary data lets a candidate through.
fn passes_half(program: &Program, candidate: &Program, seed: u64) -> bool {
    let sizes = sizes::original(&program.facts, 8, seed);
    let pairs = plain(program, candidate, &sizes, Data::Ordinary, seed);
    pairs.is_some_and(|pairs| {
        pairs
            .iter()
            .all(|(x, y)| (x - y).abs() <= 0.5 + 0.5 * x.abs() || (x.is_nan() && y.is_nan()) || x == y)
    })
}

#[test]
fn planted_faults_are_refused() {
    let subjects = subjects();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let mut laws: BTreeMap<Law, usize> = BTreeMap::new();
    let (mut wrong, mut equal, mut refused_unseen, mut ring, mut half) = (0, 0, 0, 0, 0);
    let exchange: Mutation = |_, _, _| None;
    let operators: Vec<(&str, Mutation)> =
        MUTATIONS.iter().copied().chain([("exchanged order", exchange)]).collect();
    let mut seed = 0;
    while wrong < wanted() && seed < 400 * wanted() as u64 {
        seed += 1;
        let mut random = Random::new(seed);
        let (name, mutation) = operators[seed as usize % operators.len()];
        let (subject, program) = &subjects[random.below(subjects.len())];
        let candidate = match name {
            "exchanged order" => exchanged(program, &mut random),
            _ => mutant(program, mutation, &mut random),
        };
        let Some(candidate) = candidate else { continue };
        let is_wrong = is_wrong(program, &candidate);
        if !is_wrong && equal + refused_unseen > wanted() / 4 {
            continue;
        }
        match check(program, &candidate, &Options { seed, ..Options::default() }) {
            Verdict::Accept(evidence) => {
                assert!(!is_wrong, "{name} of {subject} is accepted: {evidence}\n{candidate}");
                equal += 1;
            }
            Verdict::Refuse(refusal) => {
                assert!(!refusal.message.is_empty());
                if is_wrong {
                    wrong += 1;
                    *by_name.entry(name).or_default() += 1;
                    *laws.entry(refusal.law).or_default() += 1;
                    ring += usize::from(passes_small_ring(program, &candidate, seed));
                    half += usize::from(passes_half(program, &candidate, seed));
                } else {
                    refused_unseen += 1;
                }
            }
        }
    }
    println!("{wrong} wrong candidates refused, by {} mutation operators: {by_name:?}", by_name.len());
    println!("by law: {laws:?}");
    println!("of them a single trial in a small ring accepts {ring}, a tolerance of 0.5 accepts {half}");
    println!("not shown to be wrong by plain evaluation: {equal} accepted, {refused_unseen} refused");
    assert_eq!(wrong, wanted());
    assert!(by_name.len() >= 20, "{by_name:?}");
    assert!(ring + half > 0, "others would have caught all");
}
