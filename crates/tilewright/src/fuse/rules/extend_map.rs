//! Extend map: an elementwise map is computed anew inside each map that reads it, and is gone.

use crate::block::ir::{Argument, Function, ItemType, Load, Map, Node, ValueId};
use crate::dim::{Cond, Dim, Facts, Symbol};
use crate::fuse::Rule;
use crate::fuse::function::{Fusing, loads, replace};
use crate::fuse::pointwise::{Place, Pointwise};
use crate::tensor::storage;
use std::collections::BTreeMap;

pub const RULE: Rule = Rule {
    name: "extend_map",
    algebra: "map i { t[i] = f(i) }; map j { u[j] = g(t[e(j)]) }  =  map j { u[j] = g(f(e(j))) }",
    joins_neighbours: true,
    apply,
};

/// From this many operations per element on, an element is not computed more than once.
const COSTLY: u32 = 16;

fn apply(fusing: &Fusing<'_>, first: usize, second: usize) -> Result<Function, String> {
    let producer = fusing.map(first).ok_or("both must be maps")?;
    if !fusing.feeds(first, second) {
        return Err("the second does not read what the first defines".to_string());
    }
    let function = &fusing.function;
    let pointwise = Pointwise::of(function, producer).map_err(|reason| format!("the first: {reason}"))?;
    let mut result = function.clone();
    for tensor in pointwise.targets() {
        if function.results.contains(&tensor) {
            return Err("the first defines a result".to_string());
        }
        let readers = fusing.readers(tensor);
        let mut places = 0;
        for at in &readers {
            let reader = fusing.map(*at).ok_or("what the first defines is needed whole")?;
            if fusing.needs_as_table(*at, &[tensor]) {
                return Err("what the first defines is read in index expressions".to_string());
            }
            if fusing.overwrites(*at, tensor) {
                return Err("another tensor takes over the memory of what the first defines".to_string());
            }
            if !fusing.survives(first, *at) {
                return Err("what the first reads is overwritten before the second".to_string());
            }
            places += loads(std::slice::from_ref(&Node::Map(reader.clone())), tensor, &[]).len();
        }
        for at in readers {
            let Some(Node::Map(reader)) = function.body.get(at) else { continue };
            let whole = Node::Map(reader.clone());
            for (load, around) in loads(std::slice::from_ref(&whole), tensor, &[]) {
                let ty = function.item(load.result).ok_or("a load without an item")?;
                let repeated = places > 1 || around.iter().any(|coordinate| !mentions(ty, load, coordinate));
                worth(function, &pointwise, tensor, repeated)?;
            }
            let Some(Node::Map(map)) = result.body.get(at).cloned() else { continue };
            let mut map = map;
            let facts = fusing.facts.assume(map.coordinate.clone(), 0, map.extent.clone());
            inline(&mut result, &mut map.body, &facts, &pointwise, tensor)?;
            result.body[at] = Node::Map(map);
        }
    }
    result.body.remove(first);
    Ok(result)
}

fn mentions(ty: &ItemType, load: &Load, coordinate: &Symbol) -> bool {
    ty.ranges.iter().any(|range| range.start.mentions(coordinate))
        || load.index.iter().any(|dim| dim.mentions(coordinate))
}

/// Whether computing an element anew costs less than it saves.
fn worth(function: &Function, pointwise: &Pointwise, tensor: ValueId, repeated: bool) -> Result<(), String> {
    if !repeated {
        return Ok(());
    }
    let rank = pointwise.labels(tensor).len();
    let (mut operations, mut bytes) = (0, 0);
    for node in pointwise.slice(tensor) {
        let [result] = node.defines()[..] else { continue };
        let Some(ty) = function.item(result).filter(|ty| ty.ranges.len() == rank) else { continue };
        match node {
            Node::Compute(compute) => operations += compute.function.operations,
            _ => bytes += ty.dtype.bytes(),
        }
    }
    // A number that is the same everywhere is computed once per block.
    if rank > 0 && operations >= COSTLY {
        return Err(format!("{operations} operations for an element that is needed more than once"));
    }
    let own = function.tensor(tensor).map_or(0, |ty| ty.dtype.bytes());
    if rank > 0 && bytes > own {
        return Err(format!("{bytes} bytes would be read instead of {own}, more than once"));
    }
    Ok(())
}

/// Replaces every load of a tensor in nodes by what defines it.
fn inline(
    function: &mut Function,
    nodes: &mut Vec<Node>,
    facts: &Facts,
    pointwise: &Pointwise,
    tensor: ValueId,
) -> Result<(), String> {
    let mut at = 0;
    while at < nodes.len() {
        match &mut nodes[at] {
            Node::Map(map) => {
                let facts = facts.assume(map.coordinate.clone(), 0, map.extent.clone());
                let mut map: Map = map.clone();
                inline(function, &mut map.body, &facts, pointwise, tensor)?;
                nodes[at] = Node::Map(map);
            }
            Node::Load(load) if load.source == tensor => {
                let load = load.clone();
                let (added, item) = definition(function, &load, facts, pointwise)?;
                let count = added.len();
                nodes.splice(at..=at, added);
                replace(&mut nodes[at + count..], load.result, item);
                at += count;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// The nodes that give what a load reads.
fn definition(
    function: &mut Function,
    load: &Load,
    facts: &Facts,
    pointwise: &Pointwise,
) -> Result<(Vec<Node>, ValueId), String> {
    let ranges = function.item(load.result).ok_or("a load without an item")?.ranges.clone();
    let ty = function.tensor(load.source).ok_or("a load of no tensor")?.clone();
    let mut known = facts.clone();
    for range in &ranges {
        known = known.assume(range.label.clone(), range.start.clone(), range.stop());
        known = known.assume(range.label.clone(), 0, range.end.clone());
    }
    let extents = storage::extents_at(&ty, &load.index, facts);
    let mut when = load.when.clone();
    for (dim, extent) in load.index.iter().zip(extents) {
        if !known.nonneg(dim).is_yes() {
            when = when.and(Cond::ge(dim.clone(), 0));
        }
        if !known.lt(dim, &extent).is_yes() {
            when = when.and(Cond::lt(dim.clone(), extent));
        }
    }
    if !when.is_true() && pointwise.slice(load.source).iter().any(|node| computes_with_tables(node)) {
        return Err("its index expressions may have no value where the second reads nothing".to_string());
    }
    if !when.tables().is_empty() {
        return Err("the second reads under a condition on a table".to_string());
    }
    let labels: BTreeMap<Symbol, Dim> =
        pointwise.labels(load.source).iter().cloned().zip(load.index.iter().cloned()).collect();
    let place = Place { labels, ranges: &ranges, when, known: &|_| None };
    let found = pointwise.instantiate(function, load.source, &place);
    found.ok_or_else(|| "the first cannot be moved".to_string())
}

fn computes_with_tables(node: &Node) -> bool {
    let Node::Compute(compute) = node else { return false };
    compute.arguments.iter().any(|argument| match argument {
        Argument::Index(dim) => !dim.tables().is_empty(),
        Argument::Holds(cond) => !cond.tables().is_empty(),
        Argument::Item(_) | Argument::Literal(_) => false,
    })
}
