//! Walks over functions and bodies: names, uses, and the expressions at each node.

use super::dims::{Var, visit_elements};
use crate::block::{Function, Node, Program, Range, Value, ValueId, ValueType};
use crate::dim::{Dim, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// The ranges of an item; none for a tensor.
pub(super) fn ranges(values: &[Value], id: ValueId) -> &[Range] {
    match values.get(id.0 as usize).map(|value| &value.ty) {
        Some(ValueType::Item(ty)) => &ty.ranges,
        _ => &[],
    }
}

/// The names that mean something in index expressions of functions that may run inside a repeat: labels, coordinates,
/// sizes. (The program itself is never repeated.)
pub(super) fn names(program: &Program) -> BTreeSet<Symbol> {
    let mut names: BTreeSet<Symbol> = program.facts.symbols().cloned().collect();
    let inner = program.functions.split_last().map_or(&[][..], |(_, inner)| inner);
    for function in inner {
        for value in &function.values {
            let mut ty = value.ty.clone();
            ty.map_dims(&mut |dim| {
                names.extend(dim.symbols());
                dim.clone()
            });
            if let ValueType::Item(item) = &value.ty {
                names.extend(item.ranges.iter().map(|range| range.label.clone()));
            }
        }
        for node in &function.body {
            coordinates(node, &mut names);
            node.clone().map_dims(&mut |dim| {
                names.extend(dim.symbols());
                dim.clone()
            });
        }
    }
    names
}

fn coordinates(node: &Node, names: &mut BTreeSet<Symbol>) {
    if let Node::Map(map) = node {
        names.insert(map.coordinate.clone());
        map.body.iter().for_each(|node| coordinates(node, names));
    }
}

/// For each tensor the position of the last node that names it, as a value or as a table; past all for a result.
pub(super) fn last_uses(function: &Function) -> BTreeMap<ValueId, usize> {
    let mut last = BTreeMap::new();
    let by_name = |name: &Symbol| {
        function.values.iter().position(|value| value.name == *name).map(|at| ValueId(at as u32))
    };
    let mut see = |node: &Node, position: usize| {
        let mut ids = Vec::new();
        let mut tables = BTreeSet::new();
        let mut node = node.clone();
        node.for_each_value(&mut |id| ids.push(*id));
        let mut note = |dim: &Dim| {
            tables.append(&mut dim.tables());
            dim.clone()
        };
        node.map_dims(&mut note);
        for id in &ids {
            if let Some(value) = function.values.get(id.0 as usize) {
                value.ty.clone().map_dims(&mut note);
            }
        }
        ids.extend(tables.iter().filter_map(by_name));
        last.extend(ids.into_iter().map(|id| (id, position)));
    };
    function.body.iter().enumerate().for_each(|(position, node)| see(node, position));
    for &id in &function.results {
        last.insert(id, usize::MAX);
        if let Some(value) = function.values.get(id.0 as usize) {
            value.ty.clone().map_dims(&mut |dim| {
                last.extend(dim.tables().iter().filter_map(by_name).map(|id| (id, usize::MAX)));
                dim.clone()
            });
        }
    }
    last
}

/// A place in a body where index expressions are evaluated: the variables in scope, outer first, and the expressions.
pub(super) struct Site<'b> {
    pub vars: Vec<Var>,
    pub node: &'b Node,
}

/// Calls `f` at every node of a body with the coordinates of the maps around it and the labels of its items.
pub(super) fn visit_sites<'b>(
    values: &[Value],
    nodes: &'b [Node],
    outer: &[Var],
    f: &mut dyn FnMut(Site<'b>),
) {
    for node in nodes {
        let mut vars = outer.to_vec();
        let mut add = |id: &ValueId| {
            let Some(ValueType::Item(ty)) = values.get(id.0 as usize).map(|value| &value.ty) else { return };
            for range in &ty.ranges {
                if !vars.iter().any(|var| var.name == range.label) {
                    vars.push(Var {
                        name: range.label.clone(),
                        first: range.start.clone(),
                        end: range.stop(),
                    });
                }
            }
        };
        match node {
            Node::Map(map) => {
                let mut inner = outer.to_vec();
                inner.push(Var {
                    name: map.coordinate.clone(),
                    first: Dim::constant(0),
                    end: map.extent.clone(),
                });
                map.carries.iter().flat_map(|carry| &carry.state).for_each(add);
                f(Site { vars, node });
                visit_sites(values, &map.body, &inner, f);
            }
            _ => {
                node.clone().for_each_value(&mut |id| add(id));
                f(Site { vars, node });
            }
        }
    }
}

/// Every index expression that is evaluated at a node, those in the types of its items included.
pub(super) fn dims_at(values: &[Value], node: &Node) -> Vec<Dim> {
    let mut dims = Vec::new();
    let mut note = |dim: &Dim| {
        dims.push(dim.clone());
        dim.clone()
    };
    let mut ids = Vec::new();
    match node {
        Node::Map(map) => {
            note(&map.extent);
            ids.extend(map.carries.iter().flat_map(|carry| carry.state.iter().copied()));
        }
        _ => {
            let mut node = node.clone();
            node.map_dims(&mut note);
            node.for_each_value(&mut |id| ids.push(*id));
        }
    }
    for id in ids {
        if let Some(value @ Value { ty: ValueType::Item(_), .. }) = values.get(id.0 as usize) {
            value.ty.clone().map_dims(&mut note);
        }
    }
    dims
}

/// Calls `f` with each table and index that a node reads.
pub(super) fn visit_tables(values: &[Value], node: &Node, f: &mut dyn FnMut(&Symbol, &[Dim])) {
    dims_at(values, node).iter().for_each(|dim| visit_elements(dim, f));
}
