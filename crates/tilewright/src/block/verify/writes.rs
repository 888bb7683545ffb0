//! Iterations of parallel maps write different elements: a proof by structure.
//!
//! A name is *determined* by a store if the element that is written tells its value: a part of the index that is
//! linear in one name not yet determined determines it; a label that is determined, over a range `b·c + rest +: size`
//! with `size ≤ b`, determines the coordinate `c`; a part `off[x] + t`, the place of a ragged element, determines `x`
//! and `t`. The law: every parallel coordinate around a store is determined
//! (or takes one value at most), and so is every label of the item, so that no element is written twice. Several
//! stores of one map into one tensor must be at the same index over the same ranges.

use super::Reason;
use super::scope::{Checker, Outcome};
use crate::block::ir::{ItemType, Map, Node, Order, Range, Store, ValueId, ValueType};
use crate::dim::{Atom, Dim, Symbol};
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
    // A label of one value is its start.
    let mut ones: BTreeMap<Symbol, Dim> = BTreeMap::new();
    let mut all: Vec<Range> = Vec::new();
    for range in &item.ranges {
        let plain = |dim: &Dim| dim.substitute(&|symbol| ones.get(symbol).cloned());
        let (start, end) = (plain(&range.start), plain(&range.end));
        if range.size == 1 {
            ones.insert(range.label.clone(), start.clone());
        }
        all.push(Range { start, end, ..range.clone() });
    }
    let ranges: Vec<Range> = all.iter().filter(|range| range.size != 1).cloned().collect();
    let mut parts: Vec<Dim> =
        store.index.iter().map(|part| part.substitute(&|symbol| ones.get(symbol).cloned())).collect();
    for part in parts.clone() {
        parts.extend(packed(checker, &part, &all, around).into_iter().flatten());
    }
    let mut unknown: BTreeSet<Symbol> = around.iter().map(|map| map.coordinate.clone()).collect();
    unknown.extend(ranges.iter().map(|range| range.label.clone()));
    loop {
        let before = unknown.len();
        for part in &parts {
            if let Some((symbol, coefficient)) = single(part, &unknown)
                && moves(checker, &coefficient)
            {
                unknown.remove(&symbol);
            }
        }
        for range in ranges.iter().filter(|range| !unknown.contains(&range.label)).collect::<Vec<_>>() {
            if let Some((symbol, coefficient)) = single(&range.start, &unknown)
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
    match ranges.iter().find(|range| unknown.contains(&range.label)) {
        Some(range) => {
            let message = format!("several `{}` may write one element of `{name}`", range.label);
            checker.fail(Reason::Overlap, message)
        }
        None => Ok(()),
    }
}

/// For a part `off[x] + t` of an index, where `off` are offsets and `t` lies in `0..off[x + 1] - off[x]` (a label, or the
/// start of a range of one value): `x` and `t`, both of which the part determines, since the pieces between offsets are
/// disjoint.
fn packed(checker: &Checker<'_>, part: &Dim, ranges: &[Range], around: &[Around<'_>]) -> Option<[Dim; 2]> {
    let (table, x) = part.terms().find_map(|(coefficient, factors)| match factors {
        [Atom::Element(table, index)] if coefficient == 1 => Some((table, index.first()?.clone())),
        _ => None,
    })?;
    checker.facts.splits(table)?;
    let offset = |x: Dim| Dim::element(table.clone(), vec![x]);
    let rest = part - offset(x.clone());
    let piece = offset(&x + 1) - offset(x.clone());
    let is_rest = |range: &&Range| match range.size {
        1 => rest == range.start && range.end == piece,
        _ => rest.as_symbol() == Some(&range.label),
    };
    let range = ranges.iter().find(is_rest)?;
    let not_negative = |symbol: &Symbol| around.iter().any(|map| map.coordinate == symbol);
    let starts_inside = range.start.constant_part() >= 0
        && range.start.terms().all(|(coefficient, factors)| {
            coefficient > 0 && matches!(factors, [Atom::Symbol(symbol)] if not_negative(symbol))
        });
    (starts_inside && range.end == piece).then_some([x, rest])
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
