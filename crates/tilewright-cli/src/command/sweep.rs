//! The sizes at which `verify` runs a program when it is told none: small ones, odd ones, and those around block sizes.

use std::collections::{BTreeMap, BTreeSet};
use tilewright::Target;
use tilewright::dim::{Facts, Symbol};
use tilewright::schedule::Plain;

/// What the other sizes are while one varies; different from each other as far as possible.
const BASE: [i64; 5] = [5, 3, 7, 4, 2];

/// Combinations of sizes for `free` symbols, cheap ones first: each symbol at 0, 1, 3 and around block sizes with the
/// others small; all at their least; all at 1; two beyond a block at once. Only values that the facts admit.
pub fn default(facts: &Facts, free: &[Symbol]) -> Vec<BTreeMap<Symbol, i64>> {
    let base: BTreeMap<Symbol, i64> = free
        .iter()
        .zip(BASE.iter().cycle())
        .map(|(symbol, &value)| (symbol.clone(), nearest(facts, symbol, value)))
        .collect();
    let with = |changes: &[(&Symbol, i64)]| {
        let mut sizes = base.clone();
        for (symbol, value) in changes {
            sizes.insert((*symbol).clone(), *value);
        }
        sizes
    };
    let all = |value: i64| {
        free.iter().map(|symbol| (symbol.clone(), nearest(facts, symbol, value))).collect::<BTreeMap<_, _>>()
    };
    let plain = Plain::of(&Target::portable());
    let blocks: BTreeSet<i64> =
        plain.contraction.into_iter().chain(plain.reduction).chain(plain.elementwise).collect();
    let mut found: BTreeSet<BTreeMap<Symbol, i64>> = BTreeSet::from([base.clone(), all(0), all(1)]);
    for symbol in free {
        let around = blocks.iter().flat_map(|block| [block - 1, *block, block + 1]);
        for value in [0, 1, 3].into_iter().chain(around) {
            let value = nearest(facts, symbol, value);
            found.insert(with(&[(symbol, value)]));
        }
    }
    if let ([first, second, ..], Some(block)) = (free, blocks.first()) {
        let beyond = |symbol: &Symbol, more: i64| nearest(facts, symbol, block + more);
        found.insert(with(&[(first, beyond(first, 1)), (second, beyond(second, 6))]));
    }
    let mut found: Vec<_> = found.into_iter().collect();
    let volume = |sizes: &BTreeMap<Symbol, i64>| {
        sizes.values().fold(1i64, |product, size| product.saturating_mul((*size).max(1)))
    };
    found.sort_by_key(volume);
    found
}

/// The value nearest to `wanted` that the facts admit.
fn nearest(facts: &Facts, symbol: &Symbol, wanted: i64) -> i64 {
    let (lo, hi) = facts.range(symbol).unwrap_or((0, None));
    let by = facts.divisor(symbol).unwrap_or(1).max(1);
    let floor = |x: i64| x.div_euclid(by).saturating_mul(by);
    let ceil = |x: i64| floor(x.saturating_add(by - 1));
    let value = ceil(wanted.max(lo));
    match hi {
        Some(hi) if value > hi => floor(hi),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_one_odd_and_around_blocks() {
        let facts: Facts = "S in 0..=8192, T in 0..=8192 by 8, H in 1..=64".parse().expect("facts");
        let free: Vec<Symbol> = facts.symbols().cloned().collect();
        let all = default(&facts, &free);
        let values = |name: &str| {
            let symbol = Symbol::new(name);
            all.iter().filter_map(|sizes| sizes.get(&symbol).copied()).collect::<BTreeSet<_>>()
        };
        assert_eq!(Vec::from_iter(values("S")), [0, 1, 3, 63, 64, 65, 70, 255, 256, 257]);
        assert_eq!(Vec::from_iter(values("H")), [1, 3, 5, 63, 64]);
        assert!(values("T").iter().all(|t| t % 8 == 0) && values("T").contains(&0));
        assert!(all.iter().all(|sizes| facts.verify_env(sizes).is_ok()));
        assert!(all.len() < 40, "{}", all.len());
        assert_eq!(default(&facts, &[]), [BTreeMap::new()]);
    }
}
