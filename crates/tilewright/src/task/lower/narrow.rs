//! Stores that may leave their tensor: what falls outside is dropped, by narrower ranges.

use super::flatten::{Flattener, Frame};
use super::visit::ranges;
use crate::block::{Node, Range, Store, Value, ValueId, ValueType};
use crate::dim::{Dim, Facts, Symbol};
use crate::error::Error;
use crate::tensor::storage;
use std::collections::BTreeMap;

/// Where the indices of a label end that lie inside a tensor, as far as its range may pass them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Limits {
    first: Option<Dim>,
    end: Option<Dim>,
}

/// How far the labels of a stored item may go so that its index lies inside the tensor.
pub(super) fn limits(
    flattener: &Flattener<'_>,
    frame: &Frame<'_>,
    store: &Store,
    ranges: &[Range],
    facts: &Facts,
) -> Result<BTreeMap<Symbol, Limits>, Error> {
    let (ty, storage) = flattener.storage(frame, store.target)?;
    let facts = ranges
        .iter()
        .fold(facts.clone(), |facts, range| facts.assume(&range.label, range.start.clone(), range.stop()));
    let single = |symbol: &Symbol| {
        let range = ranges.iter().find(|range| range.label == *symbol && range.size == 1)?;
        Some(range.start.clone())
    };
    let mut found: BTreeMap<Symbol, Limits> = BTreeMap::new();
    for (k, (axis, index)) in ty.axes.iter().zip(&store.index).enumerate() {
        let packed = storage.packed().is_some_and(|(part, axis, _)| part == k || axis == k);
        if packed || !storage::depends_on(&ty, k, &flattener.facts).is_empty() {
            continue;
        }
        let index = flattener.dim(frame, index);
        let (below, above) = (!facts.nonneg(&index).is_yes(), !facts.lt(&index, &axis.extent).is_yes());
        if !below && !above {
            continue;
        }
        let place = || format!("{}: {}", frame.function.name, axis.name);
        let label = ranges.iter().map(|range| &range.label).find(|label| {
            let rest = &index - Dim::symbol((*label).clone());
            index.mentions(label) && !rest.mentions(label)
        });
        let Some(label) = label.filter(|label| !found.contains_key(*label)) else {
            return Err(Error::Unsupported {
                place: place(),
                what: format!("a store at `{index}`, which may lie outside"),
                instead: "write at a position plus the index along the axis".to_string(),
            });
        };
        let rest = (&index - Dim::symbol(label.clone())).substitute(&single);
        // Where a range starts is the same for all indices of the other labels.
        if below && ranges.iter().any(|range| rest.mentions(&range.label)) {
            return Err(Error::Unsupported {
                place: place(),
                what: format!("a store at `{index}`, which may lie before the first element"),
                instead: "say that no position is negative: `positions elements 0..=…`".to_string(),
            });
        }
        let limits = Limits { first: below.then(|| -&rest), end: above.then(|| &axis.extent - &rest) };
        found.insert(label.clone(), limits);
    }
    Ok(found)
}

/// Narrows the ranges of all items so that no store leaves its tensor. `stores` are the stored items of the body, each
/// with the labels that would.
pub(super) fn narrow(
    values: &mut [Value],
    stores: &[(ValueId, BTreeMap<Symbol, Limits>)],
    nodes: &[Node],
) -> Result<(), Error> {
    let mut limits: BTreeMap<&Symbol, &Limits> = BTreeMap::new();
    for (_, of_store) in stores {
        limits.extend(of_store);
    }
    let agree = stores.iter().all(|(item, of_store)| {
        let mut labels = ranges(values, *item).iter().map(|range| &range.label);
        labels.all(|label| of_store.get(label) == limits.get(label).copied())
    });
    if !agree || limits.keys().any(|label| is_reduced(values, nodes, label)) {
        return Err(Error::Unsupported {
            place: "an update".to_string(),
            what: "a map that stores outside one tensor and inside another".to_string(),
            instead: "bound the position by a fact".to_string(),
        });
    }
    for value in values.iter_mut().filter(|_| !limits.is_empty()) {
        let ValueType::Item(ty) = &mut value.ty else { continue };
        for range in &mut ty.ranges {
            let Some(Limits { first, end }) = limits.get(&range.label) else { continue };
            let stop = if first.is_some() { range.stop() } else { range.end.clone() };
            range.end = end.iter().fold(stop, |stop, end| Dim::min(&stop, end));
            range.start = first.iter().fold(range.start.clone(), |start, first| Dim::max(&start, first));
        }
        order_ranges(&mut ty.ranges);
    }
    Ok(())
}

/// Whether a node sums over the label.
fn is_reduced(values: &[Value], nodes: &[Node], label: &Symbol) -> bool {
    let has = |id: &ValueId| ranges(values, *id).iter().any(|range| range.label == *label);
    nodes.iter().any(|node| match node {
        Node::Map(map) => is_reduced(values, &map.body, label),
        Node::Reduce(reduce) => has(&reduce.argument) && !reduce.results.iter().any(has),
        Node::Contract(contract) => contract.arguments.iter().any(has) && !has(&contract.result),
        _ => false,
    })
}

/// Puts each range behind those whose labels it mentions.
fn order_ranges(ranges: &mut Vec<Range>) {
    let mut left = std::mem::take(ranges);
    while !left.is_empty() {
        let ready = |range: &Range| {
            !left.iter().any(|other| {
                other.label != range.label
                    && (range.start.mentions(&other.label) || range.end.mentions(&other.label))
            })
        };
        let at = left.iter().position(ready).unwrap_or(0);
        ranges.push(left.remove(at));
    }
}
