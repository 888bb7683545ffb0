//! Phases: loads that depend on no event, moved before the waits; and names in bodies.

use super::flatten::{Flat, Kind, fresh};
use super::region::Accesses;
use super::visit::visit_tables;
use crate::block::{Node, ValueType};
use crate::dim::Symbol;
use crate::task::ir::Body;
use std::collections::BTreeSet;

/// The names of the parameters that no task writes.
pub(super) fn constants(flat: &Flat, accesses: &[Accesses]) -> BTreeSet<Symbol> {
    let written: BTreeSet<usize> =
        accesses.iter().flat_map(|access| access.writes.iter().map(|region| region.buffer)).collect();
    let constant = |(at, buffer): (usize, &super::flatten::FlatBuffer)| {
        let is_param = matches!(buffer.kind, Kind::Param(_));
        (is_param && !written.contains(&at)).then(|| buffer.name.clone())
    };
    flat.buffers.iter().enumerate().filter_map(constant).collect()
}

/// Moves the loads at the head of the body that read `constants` alone to the prologue.
pub(super) fn split(body: &mut Body, constants: &BTreeSet<Symbol>) {
    let values = &body.values;
    let early = |node: &Node| {
        let Node::Load(load) = node else { return false };
        let source = values.get(load.source.0 as usize).is_some_and(|value| constants.contains(&value.name));
        let mut known = source;
        visit_tables(values, node, &mut |table, _| known &= constants.contains(table));
        known
    };
    let head = body.nodes.iter().take_while(|node| matches!(node, Node::Load(_))).count();
    let mut rest = body.nodes.split_off(head);
    let (prologue, mut kept): (Vec<Node>, Vec<Node>) =
        std::mem::take(&mut body.nodes).into_iter().partition(early);
    kept.append(&mut rest);
    body.prologue = prologue;
    body.nodes = kept;
    body.renumber();
}

/// Renames items that have the name of a buffer.
pub(super) fn rename_items(body: &mut Body, buffers: &BTreeSet<Symbol>) {
    let mut taken = buffers.clone();
    taken.extend(body.values.iter().map(|value| value.name.clone()));
    for value in &mut body.values {
        if matches!(value.ty, ValueType::Item(_)) && buffers.contains(&value.name) {
            value.name = fresh(&mut taken, &value.name.clone());
        }
    }
}
