//! What selection decides before it writes code: which statements share a loop, and which tiles need scratch.

use std::collections::BTreeSet;

use tilewright::dim::{Dim, Symbol};
use tilewright::kernel::{Kernel, Statement, Tile, TileId};
use tilewright::task::BufferId;

use super::emit::Lack;

/// The most statements in one loop: each gives at most one value, and registers hold them.
const GROUP: usize = 20;

/// The most reductions in one loop.
pub const REDUCTIONS: usize = 3;

/// A part of a body.
pub enum Item<'a> {
    /// A loop over a coordinate.
    Loop(&'a Symbol, &'a Dim, Vec<Item<'a>>),
    /// Statements over the same index tuples, in one loop.
    Group(Vec<&'a Statement>),
    /// A load or store whose neighbours along the inner label are not neighbours in memory.
    Strided(&'a Statement),
    /// A product.
    Product(&'a Statement),
}

/// The tile whose ranges are the index tuples of a statement, if it is one that can share a loop.
pub fn space(statement: &Statement) -> Option<TileId> {
    match statement {
        Statement::Load { tile, .. } | Statement::Store { tile, .. } | Statement::Fill { tile, .. } => {
            Some(*tile)
        }
        Statement::Compute { result, .. } => Some(*result),
        Statement::Convert { to, .. } => Some(*to),
        Statement::Reduce { argument, .. } => Some(*argument),
        _ => None,
    }
}

/// The axis along which a tile's rows run: the last one whose size is not 1.
pub fn inner(tile: &Tile) -> Option<usize> {
    let last = tile.ranges.len().checked_sub(1);
    tile.ranges.iter().rposition(|range| range.size != 1).or(last)
}

/// The axis of a buffer along which an index moves with the inner label, by one element of that axis at a time; none
/// if it stays.
pub fn moving(tile: &Tile, index: &[Dim]) -> Result<Option<usize>, Lack> {
    let Some(inner) = inner(tile) else { return Ok(None) };
    let label = &tile.ranges[inner].label;
    let mut found = None;
    for (axis, dim) in index.iter().enumerate().filter(|(_, dim)| dim.mentions(label)) {
        let form = dim.affine(std::slice::from_ref(label));
        let step = form.and_then(|form| form.coefficients.first()?.as_constant());
        if step != Some(1) || found.is_some() {
            return Err(Lack(format!("the index `{dim}` along `{label}`")));
        }
        found = Some(axis);
    }
    Ok(found)
}

/// Whether neighbours along the inner label are neither neighbours nor one element in memory.
fn strided(kernel: &Kernel, statement: &Statement) -> Result<bool, Lack> {
    let (Statement::Load { tile, index, .. } | Statement::Store { tile, index, .. }) = statement else {
        return Ok(false);
    };
    let tile = &kernel.tiles[tile.0 as usize];
    let whole = inner(tile).is_some_and(|inner| tile.ranges[inner].size != 1);
    Ok(whole && moving(tile, index)?.is_some_and(|axis| axis + 1 != index.len()))
}

/// The parts of a body, in order.
pub fn items<'a>(kernel: &'a Kernel, statements: &'a [Statement]) -> Result<Vec<Item<'a>>, Lack> {
    let mut items = Vec::new();
    for statement in statements {
        match statement {
            Statement::Loop { coordinate, extent, body } => {
                items.push(Item::Loop(coordinate, extent, self::items(kernel, body)?));
            }
            // Whatever gives a token has completed when the next statement runs.
            Statement::Await { .. } => {}
            Statement::Mma { .. } | Statement::Contract { .. } => items.push(Item::Product(statement)),
            _ if strided(kernel, statement)? => items.push(Item::Strided(statement)),
            _ if space(statement).is_some() => match items.last_mut() {
                Some(Item::Group(group)) if joins(kernel, group, statement) => group.push(statement),
                _ => items.push(Item::Group(vec![statement])),
            },
            other => return Err(Lack(format!("the statement `{}`", name(other)))),
        }
    }
    Ok(items)
}

/// Whether a statement may run in the loop of the statements before it: vector by vector, all of them give what they
/// give one after the other.
fn joins(kernel: &Kernel, group: &[&Statement], statement: &Statement) -> bool {
    let ranges = |statement: &Statement| {
        space(statement).and_then(|tile| kernel.tiles.get(tile.0 as usize)).map(|tile| &tile.ranges)
    };
    let reduces = |statement: &&Statement| matches!(statement, Statement::Reduce { .. });
    if group.len() >= GROUP || group.first().is_none_or(|first| ranges(first) != ranges(statement)) {
        return false;
    }
    if reduces(&statement) && group.iter().copied().filter(|s| reduces(s)).count() >= REDUCTIONS {
        return false;
    }
    let states: Vec<TileId> = group.iter().filter(|s| reduces(s)).flat_map(|s| s.writes()).collect();
    if statement.reads().iter().chain(&statement.writes()).any(|tile| states.contains(tile)) {
        return false;
    }
    // A state that the loop has read or written as a tile of its own.
    if reduces(&statement) {
        let touched =
            |tile: &TileId| group.iter().any(|s| s.reads().contains(tile) || s.writes().contains(tile));
        if statement.writes().iter().any(touched) {
            return false;
        }
    }
    let access = |statement: &Statement| -> Option<(BufferId, bool, Vec<Dim>)> {
        match statement {
            Statement::Load { buffer, index, .. } => Some((*buffer, false, index.clone())),
            Statement::Store { buffer, index, .. } => Some((*buffer, true, index.clone())),
            _ => None,
        }
    };
    let Some((buffer, stores, index)) = access(statement) else { return true };
    group
        .iter()
        .filter_map(|other| access(other))
        .all(|(other, stored, at)| buffer != other || (!stored && (!stores || at == index)))
}

/// The tiles that are read where they are not in a register.
pub fn kept(items: &[Item<'_>], kept: &mut BTreeSet<TileId>) {
    for item in items {
        match item {
            Item::Loop(_, _, body) => self::kept(body, kept),
            Item::Strided(statement) | Item::Product(statement) => {
                kept.extend(statement.reads());
                kept.extend(statement.writes());
            }
            Item::Group(group) => {
                let mut here = BTreeSet::new();
                for statement in group {
                    kept.extend(statement.reads().into_iter().filter(|tile| !here.contains(tile)));
                    match statement {
                        Statement::Reduce { state, .. } => kept.extend(state.iter().copied()),
                        _ => here.extend(statement.writes()),
                    }
                }
            }
        }
    }
}

/// What a statement is called.
pub fn name(statement: &Statement) -> &'static str {
    match statement {
        Statement::Loop { .. } => "for",
        Statement::Fill { .. } => "fill",
        Statement::Load { .. } => "load",
        Statement::Store { .. } => "store",
        Statement::Compute { function, .. } => function.name,
        Statement::Convert { .. } => "convert",
        Statement::Reduce { .. } => "reduce",
        Statement::Contract { .. } => "contract",
        Statement::Mma { .. } => "mma",
        Statement::Bits { .. } => "bits",
        Statement::Align { .. } => "align",
        Statement::Rescale { .. } => "rescale",
        Statement::Opaque { .. } => "opaque",
        Statement::Await { .. } => "await",
        Statement::Acquire { .. } => "acquire",
        Statement::Commit { .. } => "commit",
        Statement::Receive { .. } => "receive",
        Statement::Release { .. } => "release",
        Statement::Wait(_) => "wait",
        Statement::Notify(_) => "notify",
    }
}
