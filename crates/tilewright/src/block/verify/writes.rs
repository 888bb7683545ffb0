//! Iterations of parallel maps write different elements: a proof by structure.
//!
//! A name is *determined* by a store if the element that is written tells its value: a part of the index that is
//! linear in one name not yet determined determines it; a label that is determined, over a range `b·c + rest +: size`
//! with `size ≤ b`, determines the coordinate `c`. The law: every parallel coordinate around a store is determined
//! (or takes one value at most), and so is every label of the item, so that no element is written twice. Several
//! stores of one map into one tensor must be at the same index over the same ranges.

use super::Reason;
use super::scope::{Checker, Outcome};
use crate::block::ir::{ItemType, Map, Node, Order, Range, Store, ValueId, ValueType};
use crate::dim::{Dim, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// A map around a store.
#[derive(Clone, Copy)]
struct Around<'a> {
    coordinate: &'a Symbol,
    extent: &'a Dim,
    order: Order,
}

/// Checks the stores of a function-level map, or of a map at the top of a task's body.
pub(super) fn in_map(checker: &Checker<'_>, map: &Map) -> Outcome {
    if checker.is_inside() {
        return Ok(());
    }
    let mut first: BTreeMap<ValueId, (&Store, Vec<Range>)> = BTreeMap::new();
    let mut around = Vec::new();
    walk(checker, map, &mut around, &mut first)
}

fn walk<'m>(
    checker: &Checker<'_>,
    map: &'m Map,
    around: &mut Vec<Around<'m>>,
    first: &mut BTreeMap<ValueId, (&'m Store, Vec<Range>)>,
) -> Outcome {
    around.push(Around { coordinate: &map.coordinate, extent: &map.extent, order: map.order });
    for node in &map.body {
        match node {
            Node::Map(inner) => walk(checker, inner, around, first)?,
            Node::Store(store) => {
                let ValueType::Item(item) = &checker.value(store.item)?.ty else { continue };
                determined(checker, store, item, around)?;
                let ranges = item.ranges.clone();
                let (known, known_ranges) = first.entry(store.target).or_insert((store, ranges.clone()));
                if known.index != store.index || *known_ranges != ranges {
                    let name = &checker.value(store.target)?.name;
                    let message = format!("`{name}` is stored to at two indices of one map");
                    return checker.fail(Reason::Overlap, message);
                }
            }
            _ => {}
        }
    }
    around.pop();
    Ok(())
}

fn determined(checker: &Checker<'_>, store: &Store, item: &ItemType, around: &[Around<'_>]) -> Outcome {
    let mut unknown: BTreeSet<Symbol> = around.iter().map(|map| map.coordinate.clone()).collect();
    unknown.extend(item.ranges.iter().map(|range| range.label.clone()));
    loop {
        let before = unknown.len();
        for part in &store.index {
            if let Some((symbol, coefficient)) = single(part, &unknown)
                && moves(checker, &coefficient)
            {
                unknown.remove(&symbol);
            }
        }
        for range in &item.ranges {
            if unknown.contains(&range.label) {
                let fixed = range.size == 1 && range.start.symbols().is_disjoint(&unknown);
                if fixed {
                    unknown.remove(&range.label);
                }
            } else if let Some((symbol, coefficient)) = single(&range.start, &unknown)
                && coefficient
                    .as_constant()
                    .is_some_and(|step| step.unsigned_abs() >= range.size.unsigned_abs())
            {
                unknown.remove(&symbol);
            }
        }
        if unknown.len() == before {
            break;
        }
    }
    let name = &checker.value(store.target)?.name;
    for map in around.iter().filter(|map| map.order == Order::Parallel && unknown.contains(map.coordinate)) {
        if !checker.facts.le(map.extent, &Dim::constant(1)).is_yes() {
            let message =
                format!("iterations of the parallel `{}` may write one element of `{name}`", map.coordinate);
            return checker.fail(Reason::Overlap, message);
        }
    }
    match item.ranges.iter().find(|range| range.size > 1 && unknown.contains(&range.label)) {
        Some(range) => {
            let message = format!("several `{}` may write one element of `{name}`", range.label);
            checker.fail(Reason::Overlap, message)
        }
        None => Ok(()),
    }
}

/// The one unknown name in a dim and its coefficient, if the dim is linear in it.
fn single(dim: &Dim, unknown: &BTreeSet<Symbol>) -> Option<(Symbol, Dim)> {
    let mut found = dim.symbols().into_iter().filter(|symbol| unknown.contains(symbol));
    let symbol = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let affine = dim.affine(std::slice::from_ref(&symbol))?;
    let coefficient = affine.coefficients.into_iter().next()?;
    Some((symbol, coefficient))
}

/// Whether a coefficient is not 0.
fn moves(checker: &Checker<'_>, coefficient: &Dim) -> bool {
    let zero = Dim::constant(0);
    match coefficient.as_constant() {
        Some(value) => value != 0,
        None => {
            checker.facts.lt(&zero, coefficient).is_yes() || checker.facts.lt(coefficient, &zero).is_yes()
        }
    }
}
