//! The sizes at which two programs are compared; section 6 of `docs/checker.md`.

use super::hash::mix_all;
use crate::dim::{Facts, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// A value for every size.
pub type Sizes = BTreeMap<Symbol, i64>;

/// The most by which facts are shrunk and small sizes go up.
const RANDOM: usize = 8;

/// The size nearest to `value`, from above, that facts allow if a lower bound above 1, an upper bound and a fixed value are
/// forgotten; what divides it is kept, and so is that it is not 0.
fn admitted(facts: &Facts, symbol: &Symbol, value: i64) -> i64 {
    let (least, most) = facts.range(symbol).unwrap_or((0, None));
    let value = value.max(least.min(1));
    let value = match most {
        Some(most) if most >= least.max(1) && most < value => most,
        _ => value,
    };
    value * facts.divisor(symbol).unwrap_or(1).max(1)
}

fn vector(facts: &Facts, value: impl Fn(&Symbol) -> i64) -> Sizes {
    facts.symbols().map(|symbol| (symbol.clone(), admitted(facts, symbol, value(symbol)))).collect()
}

/// Every size is 2, or what facts leave of it.
pub fn twos(facts: &Facts) -> Sizes {
    vector(facts, |_| 2)
}

/// The size vectors that section 6 asks for, without [`twos`], each once; `degree` is that of the results.
pub fn vectors(facts: &Facts, degree: i64, seed: u64) -> Vec<Sizes> {
    let enough = (degree + 1).max(3);
    let mut found = BTreeSet::from([twos(facts)]);
    let mut vectors = Vec::new();
    let mut push = |sizes: Sizes| {
        if found.insert(sizes.clone()) {
            vectors.push(sizes);
        }
    };
    for value in [0, 1, 3] {
        push(vector(facts, |_| value));
    }
    for symbol in facts.symbols() {
        for value in [0, 1, 3, enough] {
            push(vector(facts, |other| if other == symbol { value } else { 2 }));
        }
    }
    let choices = [1, 2, 3, enough];
    let names: Vec<&Symbol> = facts.symbols().collect();
    for round in 0..RANDOM {
        push(vector(facts, |symbol| {
            let at = names.iter().position(|name| *name == symbol).unwrap_or(0);
            choices[(mix_all([seed, round as u64, at as u64]) % 4) as usize]
        }));
    }
    push(vector(facts, |_| enough));
    vectors
}

/// Sizes that the facts admit, the smaller ones about `scale`; for evaluation in floats.
pub fn original(facts: &Facts, scale: i64, seed: u64) -> Sizes {
    let size = |(at, symbol): (usize, &Symbol)| {
        let (least, most) = facts.range(symbol).unwrap_or((0, None));
        let divisor = facts.divisor(symbol).unwrap_or(1).max(1);
        let value = 1 + (mix_all([seed, at as u64, 1]) % scale.max(1) as u64) as i64;
        let value = value.max(least).min(most.unwrap_or(i64::MAX));
        let multiple = (value + divisor - 1) / divisor * divisor;
        (symbol.clone(), if most.is_some_and(|most| multiple > most) { multiple - divisor } else { multiple })
    };
    facts.symbols().enumerate().map(size).collect()
}

/// The sizes as text.
pub fn text(sizes: &Sizes) -> String {
    sizes.iter().map(|(symbol, value)| format!("{symbol}={value}")).collect::<Vec<_>>().join(" ")
}
