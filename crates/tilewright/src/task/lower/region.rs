//! What a task touches: for every load, store and table of a body, an interval per storage axis over the coordinates.

use super::dims::{Bounder, Var, simplify};
use super::flatten::{Flat, FlatFamily};
use super::visit::{visit_sites, visit_tables};
use crate::block::{Node, ValueId};
use crate::dim::{Dim, Facts, Symbol};
use crate::task::ir::Interval;

/// A region of a buffer: at least what a body touches, clipped to the buffer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Region {
    pub buffer: usize,
    pub intervals: Vec<Interval>,
}

/// What the tasks of a family read and write.
#[derive(Clone, Debug, Default)]
pub(super) struct Accesses {
    pub reads: Vec<Region>,
    pub writes: Vec<Region>,
}

/// What is known of the coordinates of a family.
pub(super) fn facts_of(flat: &Flat, family: &FlatFamily) -> Facts {
    family.coordinates.iter().fold(flat.facts.clone(), |facts, (name, extent)| facts.assume(name, 0, extent))
}

/// The accesses of a family.
pub(super) fn accesses(flat: &Flat, family: &FlatFamily) -> Accesses {
    let facts = facts_of(flat, family);
    let body = &family.body;
    let mut found = Accesses::default();
    let find = |name: &Symbol| flat.buffers.iter().position(|buffer| buffer.name == *name);
    let of_tensor = |id: ValueId| body.values.get(id.0 as usize).and_then(|value| find(&value.name));
    for nodes in [&body.prologue, &body.nodes] {
        visit_sites(&body.values, nodes, &[], &mut |site| {
            let add = |regions: &mut Vec<Region>, buffer: Option<usize>, index: &[Dim]| {
                let Some(buffer) = buffer else { return };
                let region = Region { buffer, intervals: intervals(flat, buffer, index, &site.vars, &facts) };
                if !regions.contains(&region) {
                    regions.push(region);
                }
            };
            match site.node {
                Node::Load(load) => add(&mut found.reads, of_tensor(load.source), &load.index),
                Node::Store(store) => add(&mut found.writes, of_tensor(store.target), &store.index),
                Node::Opaque(opaque) => {
                    opaque.operands.iter().for_each(|id| add(&mut found.reads, of_tensor(*id), &[]));
                    opaque.results.iter().for_each(|id| add(&mut found.writes, of_tensor(*id), &[]));
                }
                _ => {}
            }
            visit_tables(&body.values, site.node, &mut |table, index| {
                add(&mut found.reads, find(table), index)
            });
        });
    }
    found
}

/// The intervals of an index over variables that are to go; the whole axis where an index is missing or has no bounds.
fn intervals(flat: &Flat, buffer: usize, index: &[Dim], vars: &[Var], facts: &Facts) -> Vec<Interval> {
    let bounder = Bounder { facts, vars, tables_go: false };
    let axis = |(k, extent): (usize, &Dim)| {
        let whole = Interval { lo: Dim::constant(0), hi: extent.clone() };
        let Some(at) = index.get(k) else { return whole };
        let (Some(lo), Some(last)) = (bounder.bound(at, false), bounder.bound(at, true)) else {
            return whole;
        };
        let lo = simplify(facts, &lo);
        let lo = if facts.nonneg(&lo).is_yes() { lo } else { simplify(facts, &lo.max(Dim::constant(0))) };
        let hi = simplify(facts, &(last + 1));
        let hi = if facts.le(&hi, extent).is_yes() { hi } else { simplify(facts, &hi.min(extent.clone())) };
        if lo.is_overflow() || hi.is_overflow() { whole } else { Interval { lo, hi } }
    };
    flat.buffers[buffer].extents.iter().enumerate().map(axis).collect()
}
