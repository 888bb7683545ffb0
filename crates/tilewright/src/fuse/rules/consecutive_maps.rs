//! Consecutive maps: what a map computes is used at once by the elementwise map that reads it.

use crate::block::ir::{Function, ItemType, Map, Node, Order, Store, ValueId};
use crate::dim::{Cond, Dim, Proof, Symbol};
use crate::fuse::Rule;
use crate::fuse::function::{Fusing, loads};
use crate::fuse::pointwise::{Place, Pointwise, plain_index};
use std::collections::BTreeMap;

pub const RULE: Rule = Rule {
    name: "consecutive_maps",
    algebra: "map i { t[i] = f(i) }; map i { u[i] = g(t[i]) }  =  map i { t[i] = f(i); u[i] = g(f(i)) }",
    joins_neighbours: true,
    apply,
};

/// A block that the first map stores.
struct Stored {
    item: ValueId,
    ty: ItemType,
    labels: Vec<Symbol>,
}

fn apply(fusing: &Fusing<'_>, first: usize, second: usize) -> Result<Function, String> {
    let (Some(producer), Some(consumer)) = (fusing.map(first), fusing.map(second)) else {
        return Err("both must be maps".to_string());
    };
    if !fusing.feeds(first, second) {
        return Err("the second does not read what the first defines".to_string());
    }
    let function = &fusing.function;
    let pointwise = Pointwise::of(function, consumer).map_err(|reason| format!("the second: {reason}"))?;
    if fusing.needs_as_table(second, &producer.defines) {
        return Err("the second reads in its index expressions what the first defines".to_string());
    }
    let shared: Vec<ValueId> = producer
        .defines
        .iter()
        .copied()
        .filter(|tensor| !loads(&consumer.body, *tensor, &[]).is_empty())
        .collect();
    let mut stored: BTreeMap<ValueId, Stored> = BTreeMap::new();
    for tensor in &shared {
        if fusing.takes_over(*tensor) {
            return Err("the first updates a tensor in part".to_string());
        }
        let store =
            find_store(&producer.body, *tensor).ok_or("the first stores inside a loop, or more than once")?;
        let labels = plain_index(function, store.item, &store.index)
            .ok_or("the first stores to an index that is not one label per axis")?;
        let ty = function.item(store.item).cloned().ok_or("the first stores no item")?;
        stored.insert(*tensor, Stored { item: store.item, ty, labels });
    }
    let (base, block) = stored.iter().next().ok_or("the second does not read what the first defines")?;
    if stored.values().any(|other| other.ty.ranges != block.ty.ranges) {
        return Err("the first stores blocks of different shapes".to_string());
    }
    // What each label of the second is in the first.
    let mut names: BTreeMap<Symbol, Symbol> = BTreeMap::new();
    for (tensor, own) in &stored {
        for (load, _) in loads(&consumer.body, *tensor, &[]) {
            if load.when != Cond::True {
                return Err("the second reads under a condition".to_string());
            }
            for (dim, label) in load.index.iter().zip(&own.labels) {
                let name =
                    dim.as_symbol().ok_or("the second reads at an index that is not one label per axis")?;
                if names.insert(name.clone(), label.clone()).is_some_and(|known| known != *label) {
                    return Err("the second reads elements that belong to different blocks".to_string());
                }
            }
        }
    }
    let distinct =
        names.values().enumerate().all(|(k, label)| !names.values().take(k).any(|other| other == label));
    if !distinct {
        return Err("the second reads a diagonal".to_string());
    }
    for target in pointwise.targets() {
        let labels = pointwise.labels(target);
        let matches = labels.len() == names.len() && labels.iter().all(|label| names.contains_key(label));
        if !matches {
            return Err("the second has other axes than what it reads".to_string());
        }
        if !same_extents(fusing, target, labels, *base, &names, &block.labels) {
            return Err("the second has other extents than what it reads".to_string());
        }
    }
    let place = fusing.place(first, second).ok_or("a node between needs the one before the other")?;

    let mut result = function.clone();
    let mut added = Vec::new();
    let known = |load: &crate::block::ir::Load| stored.get(&load.source).map(|own| own.item);
    let labels: BTreeMap<Symbol, Dim> =
        names.iter().map(|(own, label)| (own.clone(), Dim::symbol(label.clone()))).collect();
    for target in pointwise.targets() {
        let place =
            Place { labels: labels.clone(), ranges: &block.ty.ranges, when: Cond::True, known: &known };
        let (nodes, item) =
            pointwise.instantiate(&mut result, target, &place).ok_or("the second cannot be moved")?;
        added.extend(nodes);
        let index = pointwise.labels(target).iter().map(|label| labels[label].clone()).collect();
        added.push(Node::Store(Store { item, target, index }));
    }
    let mut map = producer.clone();
    if !append(&mut map, &shared, added) {
        return Err("what the second reads is stored at different places".to_string());
    }
    map.defines.extend(&consumer.defines);
    result.body[place] = Node::Map(map);
    result.body.remove(if place == first { second } else { first });
    Ok(result)
}

/// The only store to a tensor, if no sequential map is around it.
fn find_store(nodes: &[Node], tensor: ValueId) -> Option<&Store> {
    let mut found = nodes.iter().filter_map(|node| match node {
        Node::Store(store) if store.target == tensor => Some(store),
        Node::Map(map) if map.order == Order::Parallel => find_store(&map.body, tensor),
        _ => None,
    });
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Adds nodes behind the body in which all of these tensors are stored.
fn append(map: &mut Map, tensors: &[ValueId], nodes: Vec<Node>) -> bool {
    let stores = |tensor: &ValueId| {
        map.body.iter().any(|node| matches!(node, Node::Store(store) if store.target == *tensor))
    };
    if tensors.iter().all(stores) {
        map.body.extend(nodes);
        return true;
    }
    let mut inner = map.body.iter_mut().filter_map(|node| match node {
        Node::Map(inner) if inner.order == Order::Parallel => Some(inner),
        _ => None,
    });
    match (inner.next(), inner.next()) {
        (Some(only), None) => append(only, tensors, nodes),
        _ => false,
    }
}

/// Whether a tensor has along each label the extent that what is read has.
fn same_extents(
    fusing: &Fusing<'_>,
    target: ValueId,
    labels: &[Symbol],
    source: ValueId,
    names: &BTreeMap<Symbol, Symbol>,
    source_labels: &[Symbol],
) -> bool {
    let (Some(own), Some(other)) = (fusing.function.tensor(target), fusing.function.tensor(source)) else {
        return false;
    };
    labels.iter().zip(&own.axes).all(|(label, axis)| {
        let at = source_labels.iter().position(|known| Some(known) == names.get(label));
        let Some(other) = at.and_then(|at| other.axes.get(at)) else { return false };
        let is_plain = |dim: &Dim| {
            dim.tables().is_empty() && dim.symbols().iter().all(|symbol| fusing.facts.range(symbol).is_some())
        };
        let ragged = !is_plain(&axis.extent) || !is_plain(&other.extent);
        if ragged { false } else { fusing.facts.equal(&axis.extent, &other.extent) == Proof::Yes }
    })
}
