//! What a rule leaves behind: stores and nodes that nobody needs, work inside a loop that does not depend on it, and the
//! same load or compute twice.

use super::function::{for_each, replace, tables};
use crate::block::ir::{Function, ItemType, Node, Order, Value, ValueId, ValueType};
use crate::dim::Symbol;
use std::collections::BTreeSet;

/// Tidies a function; it means the same as before.
pub(super) fn tidy(function: &mut Function) {
    loop {
        let before = function.body.clone();
        drop_tensors(function);
        for node in &mut function.body {
            if let Node::Map(map) = node {
                let outside = Vec::new();
                share(&mut map.body, &function.values, &outside);
                hoist(&mut map.body, &function.values);
                drop_items(&mut map.body, &[]);
            }
        }
        if function.body == before {
            return;
        }
    }
}

/// Removes stores to tensors that nobody reads, and maps that define nothing.
fn drop_tensors(function: &mut Function) {
    let mut needed: BTreeSet<ValueId> = function.results.iter().copied().collect();
    let mut names: BTreeSet<Symbol> = BTreeSet::new();
    for_each(&function.body, &mut |node| match node {
        Node::Load(load) => needed.extend([load.source]),
        Node::Opaque(opaque) => needed.extend(&opaque.operands),
        Node::Call(call) => needed.extend(&call.arguments),
        Node::Repeat(repeat) => needed.extend(repeat.arguments.iter().map(|(id, _)| *id)),
        _ => {}
    });
    for node in &function.body {
        names.extend(tables(&function.values, node));
    }
    let defined: BTreeSet<ValueId> = function.body.iter().flat_map(Node::defines).collect();
    for (id, value) in function.values.iter().enumerate() {
        if let ValueType::Tensor { ty, alias } = &value.ty {
            needed.extend(alias.filter(|_| defined.contains(&ValueId(id as u32))));
            names.extend(ty.axes.iter().flat_map(|axis| axis.extent.tables()));
        }
    }
    let values = &function.values;
    let is_needed = |id: &ValueId| needed.contains(id) || names.contains(&values[id.0 as usize].name);
    for node in &mut function.body {
        if let Node::Map(map) = node
            && !map.defines.iter().all(is_needed)
        {
            map.defines.retain(is_needed);
            drop_stores(&mut map.body, &is_needed);
        }
    }
    function.body.retain(|node| !matches!(node, Node::Map(map) if map.defines.is_empty()));
}

fn drop_stores(nodes: &mut Vec<Node>, is_needed: &dyn Fn(&ValueId) -> bool) {
    for node in nodes.iter_mut() {
        if let Node::Map(map) = node {
            drop_stores(&mut map.body, is_needed);
        }
    }
    nodes.retain(|node| !matches!(node, Node::Store(store) if !is_needed(&store.target)));
}

/// Removes nodes whose items nobody names: neither later ones nor `ends`.
fn drop_items(nodes: &mut Vec<Node>, ends: &[ValueId]) {
    let mut used: BTreeSet<ValueId> = ends.iter().copied().collect();
    let mut kept = Vec::with_capacity(nodes.len());
    for mut node in std::mem::take(nodes).into_iter().rev() {
        let is_used = match &mut node {
            Node::Store(_) => true,
            Node::Map(map) => {
                map.carries.retain(|carry| {
                    carry.result.iter().any(|id| used.contains(id)) || is_read(&map.body, carry)
                });
                let ends: Vec<ValueId> = map.carries.iter().flat_map(|carry| carry.next.clone()).collect();
                drop_items(&mut map.body, &ends);
                let mut stores = false;
                for_each(&map.body, &mut |node| stores |= matches!(node, Node::Store(_)));
                stores || !map.carries.is_empty()
            }
            node => node.defines().iter().any(|id| used.contains(id)),
        };
        if is_used {
            node.for_each_value(&mut |id| used.extend([*id]));
            kept.push(node);
        }
    }
    kept.reverse();
    *nodes = kept;
}

/// Whether a carry's state is read by more than the nodes that give its next one.
fn is_read(nodes: &[Node], carry: &crate::block::ir::Carry) -> bool {
    let mut reads = 0;
    for_each(nodes, &mut |node| {
        let own = carry.next.iter().any(|id| node.defines().contains(id));
        if !own && !matches!(node, Node::Map(_)) {
            node.clone().for_each_value(&mut |id| reads += usize::from(carry.state.contains(id)));
        }
    });
    reads > 0
}

/// Moves loads and computes that do not depend on a sequential map before it.
fn hoist(nodes: &mut Vec<Node>, values: &[Value]) {
    let mut kept: Vec<Node> = Vec::with_capacity(nodes.len());
    for mut node in std::mem::take(nodes) {
        if let Node::Map(map) = &mut node {
            hoist(&mut map.body, values);
            if map.order == Order::Sequential {
                let mut inside: BTreeSet<ValueId> =
                    map.carries.iter().flat_map(|carry| carry.state.iter().copied()).collect();
                let body = std::mem::take(&mut map.body);
                for inner in body {
                    if matches!(inner, Node::Load(_) | Node::Compute(_))
                        && !depends(&inner, &map.coordinate, &inside, values)
                        && tables(values, &inner).is_empty()
                    {
                        kept.push(inner);
                    } else {
                        inside.extend(inner.defines());
                        map.body.push(inner);
                    }
                }
            }
        }
        kept.push(node);
    }
    *nodes = kept;
}

fn depends(node: &Node, coordinate: &Symbol, inside: &BTreeSet<ValueId>, values: &[Value]) -> bool {
    let mut found = false;
    let mut node = node.clone();
    node.for_each_value(&mut |id| found |= inside.contains(id));
    let mut mentions = |dim: &crate::dim::Dim| {
        found |= dim.mentions(coordinate);
        dim.clone()
    };
    node.map_dims(&mut mentions);
    for id in node.defines() {
        values[id.0 as usize].ty.clone().map_dims(&mut mentions);
    }
    found
}

/// Lets a load or compute that stands above, or before, stand for the same one later.
fn share(nodes: &mut Vec<Node>, values: &[Value], outside: &[Node]) {
    let mut seen: Vec<Node> = outside.to_vec();
    let mut at = 0;
    while at < nodes.len() {
        if let Node::Map(map) = &mut nodes[at] {
            share(&mut map.body, values, &seen);
        } else if matches!(nodes[at], Node::Load(_) | Node::Compute(_)) {
            if let Some(known) = seen.iter().find(|known| same(known, &nodes[at], values)) {
                let (from, to) = (nodes[at].defines()[0], known.defines()[0]);
                nodes.remove(at);
                // Nodes later in this body, and those inside them, are all that sees the item.
                replace(&mut nodes[at..], from, to);
                continue;
            }
            seen.push(nodes[at].clone());
        }
        at += 1;
    }
}

/// Whether two nodes give the same item.
fn same(a: &Node, b: &Node, values: &[Value]) -> bool {
    let item = |id: ValueId| -> Option<&ItemType> {
        match &values[id.0 as usize].ty {
            ValueType::Item(ty) => Some(ty),
            ValueType::Tensor { .. } => None,
        }
    };
    match (a, b) {
        (Node::Load(a), Node::Load(b)) => {
            (a.source, &a.index, &a.when) == (b.source, &b.index, &b.when) && item(a.result) == item(b.result)
        }
        (Node::Compute(a), Node::Compute(b)) => {
            a.function == b.function && a.arguments == b.arguments && item(a.result) == item(b.result)
        }
        _ => false,
    }
}
