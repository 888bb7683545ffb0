//! A function that is being fused: who reads what, and what may stand where.

use crate::block::ir::{Function, ItemType, Load, Map, Node, Value, ValueId, ValueType};
use crate::dim::{Dim, Facts, Symbol};
use std::collections::BTreeSet;

/// A function with what its rules need to know.
pub(super) struct Fusing<'a> {
    pub function: Function,
    pub facts: &'a Facts,
    /// Bytes that the items of a map may take.
    pub near: u64,
    nodes: Vec<Uses>,
}

/// The tensors that a function-level node names.
#[derive(Default)]
struct Uses {
    /// Read: by loads, or whole.
    reads: BTreeSet<ValueId>,
    /// Read by index expressions and extents.
    tables: BTreeSet<ValueId>,
    defines: BTreeSet<ValueId>,
    /// Whose memory it takes over.
    overwrites: BTreeSet<ValueId>,
}

impl<'a> Fusing<'a> {
    pub fn new(function: Function, facts: &'a Facts, near: u64) -> Fusing<'a> {
        let nodes = function.body.iter().map(|node| uses(&function, node)).collect();
        Fusing { function, facts, near, nodes }
    }

    /// The map at a place.
    pub fn map(&self, at: usize) -> Option<&Map> {
        match self.function.body.get(at) {
            Some(Node::Map(map)) => Some(map),
            _ => None,
        }
    }

    /// What the journal calls a pair.
    pub fn subject(&self, first: usize, second: usize) -> String {
        let named = |at: usize| {
            let ids = self.function.body.get(at).map(Node::defines).unwrap_or_default();
            let names = ids.iter().map(|id| self.function.value(*id).name.to_string());
            names.collect::<Vec<_>>().join(", ")
        };
        format!("{}: {} -> {}", self.function.name, named(first), named(second))
    }

    /// Whether the second reads what the first defines.
    pub fn feeds(&self, first: usize, second: usize) -> bool {
        !self.nodes[first].defines.is_disjoint(&self.nodes[second].reads)
    }

    /// Whether the second reads what the first defines or reads.
    pub fn meet(&self, first: usize, second: usize) -> bool {
        self.feeds(first, second) || !self.nodes[first].reads.is_disjoint(&self.nodes[second].reads)
    }

    /// Whether the node reads a tensor of the set in an index expression or an extent.
    pub fn needs_as_table(&self, at: usize, tensors: &[ValueId]) -> bool {
        tensors.iter().any(|tensor| self.nodes[at].tables.contains(tensor))
    }

    /// Whether the node defines a tensor that takes over the memory of this one.
    pub fn overwrites(&self, at: usize, tensor: ValueId) -> bool {
        self.nodes[at].overwrites.contains(&tensor)
    }

    /// The places of the nodes that need a tensor, in any way.
    pub fn readers(&self, tensor: ValueId) -> Vec<usize> {
        let needs = |uses: &Uses| {
            uses.reads.contains(&tensor) || uses.tables.contains(&tensor) || uses.overwrites.contains(&tensor)
        };
        (0..self.nodes.len()).filter(|at| needs(&self.nodes[*at])).collect()
    }

    /// Whether what the first node reads can still be read by the second.
    pub fn survives(&self, first: usize, second: usize) -> bool {
        let (own, later) = (&self.nodes[first], &self.nodes[first + 1..=second]);
        later
            .iter()
            .all(|node| node.overwrites.iter().all(|id| !own.reads.contains(id) && !own.tables.contains(id)))
    }

    /// Where one node can stand that does the work of both: in place of the second, or of the first.
    pub fn place(&self, first: usize, second: usize) -> Option<usize> {
        let (a, b) = (&self.nodes[first], &self.nodes[second]);
        let between = &self.nodes[first + 1..second];
        let uses = |node: &Uses, ids: &BTreeSet<ValueId>| {
            [&node.reads, &node.tables, &node.overwrites].iter().any(|own| !own.is_disjoint(ids))
        };
        if !b.tables.is_disjoint(&a.defines)
            || !b.overwrites.is_disjoint(&a.defines)
            || uses(a, &b.overwrites)
            || uses(b, &a.overwrites)
        {
            return None;
        }
        if self.survives(first, second) && !between.iter().any(|node| uses(node, &a.defines)) {
            return Some(second);
        }
        let is_free = |node: &Uses| !uses(b, &node.defines) && !uses(node, &b.overwrites);
        between.iter().all(is_free).then_some(first)
    }

    /// Whether a tensor takes over the memory of another.
    pub fn takes_over(&self, tensor: ValueId) -> bool {
        matches!(self.function.value(tensor).ty, ValueType::Tensor { alias: Some(_), .. })
    }
}

/// The loads of a tensor in nodes, wherever they stand, with the coordinates around.
pub(super) fn loads<'n>(
    nodes: &'n [Node],
    tensor: ValueId,
    around: &[Symbol],
) -> Vec<(&'n Load, Vec<Symbol>)> {
    let mut found = Vec::new();
    for node in nodes {
        match node {
            Node::Load(load) if load.source == tensor => found.push((load, around.to_vec())),
            Node::Map(map) => {
                let around: Vec<Symbol> = around.iter().chain([&map.coordinate]).cloned().collect();
                found.extend(loads(&map.body, tensor, &around));
            }
            _ => {}
        }
    }
    found
}

/// Calls `f` with every node, outer ones first.
pub(super) fn for_each(nodes: &[Node], f: &mut dyn FnMut(&Node)) {
    for node in nodes {
        f(node);
        if let Node::Map(map) = node {
            for_each(&map.body, f);
        }
    }
}

/// The integer tensors, by name, that a node's index expressions and the types of what it defines read.
pub(super) fn tables(values: &[Value], node: &Node) -> BTreeSet<Symbol> {
    let mut names = BTreeSet::new();
    let mut add = |dim: &Dim| {
        names.extend(dim.tables());
        dim.clone()
    };
    node.clone().map_dims(&mut add);
    let mut types = Vec::new();
    for_each(std::slice::from_ref(node), &mut |node| {
        types.extend(node.defines());
        if let Node::Map(map) = node {
            types.extend(map.carries.iter().flat_map(|carry| &carry.state));
        }
    });
    for id in types {
        values[id.0 as usize].ty.clone().map_dims(&mut add);
    }
    names
}

fn uses(function: &Function, node: &Node) -> Uses {
    let mut uses = Uses { defines: node.defines().into_iter().collect(), ..Uses::default() };
    for_each(std::slice::from_ref(node), &mut |node| match node {
        Node::Load(load) => uses.reads.extend([load.source]),
        Node::Opaque(opaque) => uses.reads.extend(&opaque.operands),
        Node::Call(call) => uses.reads.extend(&call.arguments),
        Node::Repeat(repeat) => uses.reads.extend(repeat.arguments.iter().map(|(id, _)| *id)),
        _ => {}
    });
    let names = tables(&function.values, node);
    if !names.is_empty() {
        let ids = (0..function.values.len() as u32).map(ValueId);
        uses.tables = ids.filter(|id| names.contains(&function.value(*id).name)).collect();
    }
    for id in &uses.defines {
        if let ValueType::Tensor { alias: Some(older), .. } = function.value(*id).ty {
            uses.overwrites.insert(older);
        }
    }
    uses
}

/// Adds an item to a function, under a name that it has not yet.
pub(super) fn add_item(function: &mut Function, hint: &str, ty: ItemType) -> ValueId {
    let is_taken = |name: &Symbol| function.values.iter().any(|value| value.name == *name);
    let base = hint.trim_end_matches(|c: char| c.is_ascii_digit());
    let hint = base.strip_suffix('_').filter(|base| !base.is_empty()).unwrap_or(hint);
    let mut name = Symbol::new(hint);
    let mut number = 2;
    while is_taken(&name) {
        name = Symbol::new(&format!("{hint}_{number}"));
        number += 1;
    }
    function.values.push(Value { name, ty: ValueType::Item(ty) });
    ValueId(function.values.len() as u32 - 1)
}

/// Lets everything that names `from` name `to`.
pub(super) fn replace(nodes: &mut [Node], from: ValueId, to: ValueId) {
    for node in nodes {
        node.for_each_value(&mut |id| {
            if *id == from {
                *id = to;
            }
        });
    }
}
