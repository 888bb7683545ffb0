//! Sibling maps: two maps over the same blocks that read the same become one, which reads it once.

use crate::block::ir::{Function, Map, Node, Order, ValueId};
use crate::dim::{Dim, Symbol};
use crate::fuse::Rule;
use crate::fuse::function::{Fusing, for_each};
use std::collections::BTreeSet;

pub const RULE: Rule = Rule {
    name: "sibling_maps",
    algebra: "map i { t[i] = f(x[i]) }; map i { u[i] = g(x[i]) }  =  map i { t[i] = f(x[i]); u[i] = g(x[i]) }",
    joins_neighbours: false,
    apply,
};

fn apply(fusing: &Fusing<'_>, first: usize, second: usize) -> Result<Function, String> {
    let (Some(left), Some(right)) = (fusing.map(first), fusing.map(second)) else {
        return Err("both must be maps".to_string());
    };
    if fusing.feeds(first, second) {
        return Err("the second reads what the first defines".to_string());
    }
    let place = fusing.place(first, second).ok_or("a node between needs the one before the other")?;
    let mut result = fusing.function.clone();
    let mut merged = left.clone();
    let mut right = right.clone();
    let defines = std::mem::take(&mut right.defines);
    if !merge(&mut result, &mut merged, right) {
        return Err("they have other blocks, or no load in common".to_string());
    }
    merged.defines.extend(defines);
    result.body[place] = Node::Map(merged);
    result.body.remove(if place == first { second } else { first });
    Ok(result)
}

/// Merges a map into another of the same extent and order; whether that saves a load.
fn merge(function: &mut Function, left: &mut Map, mut right: Map) -> bool {
    if left.extent != right.extent || left.order != right.order {
        return false;
    }
    if left.coordinate != right.coordinate {
        let clashes = names(function, &right).contains(&left.coordinate);
        if clashes {
            return false;
        }
        rename(function, &mut right, &left.coordinate.clone());
    }
    // Maps inside merge where both bodies have one of a kind.
    let mut saved = shares(function, &left.body, &right.body);
    let inner = |map: &Map, order: Order| {
        let fits = |node: &Node| matches!(node, Node::Map(inner) if inner.order == order);
        let mut found = map.body.iter().enumerate().filter(|(_, node)| fits(node)).map(|(at, _)| at);
        found.next().filter(|_| found.next().is_none())
    };
    for order in [Order::Parallel, Order::Sequential] {
        let (Some(a), Some(b)) = (inner(left, order), inner(&right, order)) else { continue };
        let (Node::Map(mine), Node::Map(other)) = (left.body[a].clone(), right.body[b].clone()) else {
            continue;
        };
        // Nothing of the left that stands behind its loop is needed by the right's, nor the other way round: they share
        // no items yet.
        let mut joined = mine;
        let before = function.clone();
        if merge(function, &mut joined, other) {
            let tail = left.body.split_off(a + 1);
            left.body.pop();
            let mut rest = right.body.split_off(b + 1);
            right.body.pop();
            left.body.append(&mut right.body);
            left.body.push(Node::Map(joined));
            left.body.extend(tail);
            left.body.append(&mut rest);
            left.carries.append(&mut right.carries);
            return true;
        }
        *function = before;
        if order == Order::Parallel {
            // Side by side inside one task they would run one after the other.
            return false;
        }
    }
    saved &= left.order == Order::Sequential || !matches!(left.body.as_slice(), [Node::Map(_)]);
    left.body.append(&mut right.body);
    left.carries.append(&mut right.carries);
    saved
}

/// Whether two bodies load the same.
fn shares(function: &Function, left: &[Node], right: &[Node]) -> bool {
    let same = |a: &Node, b: &Node| match (a, b) {
        (Node::Load(a), Node::Load(b)) => {
            (a.source, &a.index, &a.when) == (b.source, &b.index, &b.when)
                && function.item(a.result).is_some_and(|ty| !ty.ranges.is_empty())
                && function.item(a.result) == function.item(b.result)
        }
        _ => false,
    };
    left.iter().any(|a| right.iter().any(|b| same(a, b)))
}

/// The items of a map, states and results of loops included.
fn items(map: &Map) -> Vec<ValueId> {
    let mut ids: Vec<ValueId> = map.carries.iter().flat_map(|carry| carry.state.iter().copied()).collect();
    for_each(&map.body, &mut |node| {
        ids.extend(node.defines());
        if let Node::Map(inner) = node {
            ids.extend(inner.carries.iter().flat_map(|carry| carry.state.iter().copied()));
        }
    });
    ids
}

/// The labels and coordinates inside a map.
fn names(function: &Function, map: &Map) -> BTreeSet<Symbol> {
    let mut names: BTreeSet<Symbol> = items(map)
        .iter()
        .filter_map(|id| function.item(*id))
        .flat_map(|ty| ty.ranges.iter().map(|range| range.label.clone()))
        .collect();
    for_each(&map.body, &mut |node| {
        if let Node::Map(inner) = node {
            names.insert(inner.coordinate.clone());
        }
    });
    names
}

/// Gives a map's coordinate another name.
fn rename(function: &mut Function, map: &mut Map, name: &Symbol) {
    let old = std::mem::replace(&mut map.coordinate, name.clone());
    let mut renamed =
        |dim: &Dim| dim.substitute(&|symbol| (*symbol == old).then(|| Dim::symbol(name.clone())));
    map.body.iter_mut().for_each(|node| node.map_dims(&mut renamed));
    for id in items(map) {
        function.values[id.0 as usize].ty.map_dims(&mut renamed);
    }
}
