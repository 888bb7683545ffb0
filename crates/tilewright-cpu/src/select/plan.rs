//! What selection decides before it writes code: which statements share a loop, and which tiles need scratch.

use std::collections::{BTreeMap, BTreeSet};

use tilewright::dim::{Dim, Symbol};
use tilewright::kernel::{Kernel, Statement, Tile, TileId};
use tilewright::task::BufferId;
use tilewright::tensor::DType;

use super::code::{Lack, lack};
use super::index::split;
use super::place::{Place, inner};
use super::product::form;

/// The most statements in one loop.
const GROUP: usize = 64;

/// The most reductions in one loop.
const REDUCTIONS: usize = 4;

/// A part of a body.
pub enum Item<'a> {
    /// A loop over a coordinate.
    Loop(&'a Symbol, &'a Dim, Vec<Item<'a>>),
    /// Statements over the same index tuples, in one loop.
    Group(Vec<&'a Statement>),
    /// A load of a tile that only products read.
    Operand(&'a Statement),
    /// A reduction element by element.
    InOrder(&'a Statement),
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

/// The parts of a body, in order.
///
/// # Errors
/// A statement that no part has.
pub fn items<'a>(
    kernel: &'a Kernel,
    statements: impl IntoIterator<Item = &'a Statement>,
    factors: &BTreeMap<TileId, usize>,
) -> Result<Vec<Item<'a>>, Lack> {
    let mut items = Vec::new();
    for statement in statements {
        match statement {
            Statement::Loop { coordinate, extent, body } => {
                items.push(Item::Loop(coordinate, extent, self::items(kernel, body, factors)?));
            }
            Statement::Load { tile, .. } if factors.contains_key(tile) => {
                items.push(Item::Operand(statement))
            }
            // Whatever gives a token has completed when the next statement runs.
            Statement::Await { .. } => {}
            Statement::Mma { .. } | Statement::Contract { .. } => items.push(Item::Product(statement)),
            Statement::Reduce { .. } if in_order(kernel, statement) => items.push(Item::InOrder(statement)),
            _ if space(statement).is_some() => match items.last_mut() {
                Some(Item::Group(group)) if joins(kernel, group, statement) => group.push(statement),
                _ => items.push(Item::Group(vec![statement])),
            },
            other => return lack(format!("the statement `{}`", name(other))),
        }
    }
    Ok(items)
}

/// The tiles that are loaded by one statement and read by products only, each with the axis along which its elements are
/// neighbours in memory.
pub fn factors<'a>(
    kernel: &Kernel,
    statements: impl IntoIterator<Item = &'a Statement>,
) -> BTreeMap<TileId, usize> {
    let (mut loaded, mut other) = (BTreeMap::new(), BTreeSet::new());
    look(kernel, &mut statements.into_iter(), &mut loaded, &mut other);
    loaded
        .into_iter()
        .filter(|(id, _)| !other.contains(id))
        .filter_map(|(id, axis)| Some((id, axis?)))
        .collect()
}

/// The factors of products that have no form.
pub fn formless<'a>(
    kernel: &Kernel,
    statements: impl IntoIterator<Item = &'a Statement>,
    places: &[Place],
) -> BTreeSet<TileId> {
    let mut found = BTreeSet::new();
    for statement in statements {
        match statement {
            Statement::Loop { body, .. } => found.extend(formless(kernel, body, places)),
            Statement::Mma { a, b, c, mask, .. } if form(kernel, places, [*a, *b, *c], mask).is_none() => {
                found.extend([*a, *b]);
            }
            Statement::Contract { factors, sum, mask } => {
                let has = match factors.as_slice() {
                    [a, b] => form(kernel, places, [*a, *b, *sum], mask).is_some(),
                    _ => false,
                };
                if !has {
                    found.extend(factors);
                }
            }
            _ => {}
        }
    }
    found
}

/// Collects what is loaded, and what is read or written in any other way than by a product's factor.
fn look(
    kernel: &Kernel,
    statements: &mut dyn Iterator<Item = &Statement>,
    loaded: &mut BTreeMap<TileId, Option<usize>>,
    other: &mut BTreeSet<TileId>,
) {
    for statement in statements {
        let names = tables(kernel, statement);
        let named = kernel.tiles.iter().enumerate().filter(|(_, tile)| names.contains(&tile.name));
        other.extend(named.map(|(id, _)| TileId(id as u32)));
        match statement {
            Statement::Loop { body, .. } => look(kernel, &mut body.iter(), loaded, other),
            Statement::Load { tile, index, .. } => {
                if loaded.insert(*tile, neighbours(&kernel.tiles[tile.0 as usize], index)).is_some() {
                    other.insert(*tile);
                }
            }
            Statement::Mma { c, mask, .. } => other.extend(mask.tiles.iter().chain([c])),
            Statement::Contract { sum, mask, .. } => other.extend(mask.tiles.iter().chain([sum])),
            statement => other.extend(statement.reads().into_iter().chain(statement.writes())),
        }
    }
}

/// The axis of a tile along which neighbours are neighbours in memory, if there is one.
fn neighbours(tile: &Tile, index: &[Dim]) -> Option<usize> {
    let (last, before) = index.split_last()?;
    let moves = |axis: &usize| {
        let label = &tile.ranges[*axis].label;
        tile.ranges[*axis].size != 1
            && split(last, label).is_some_and(|(_, step)| step == 1)
            && !before.iter().any(|dim| dim.mentions(label))
    };
    (0..tile.ranges.len()).rev().find(moves)
}

/// Whether a reduction goes through its elements one by one: one that gives a position, and one along rows whose result
/// another order could throw far off, which is a product that may overflow on the way and a sum that is rounded to few
/// bits at each step.
fn in_order(kernel: &Kernel, statement: &Statement) -> bool {
    let Statement::Reduce { monoid, argument, state, .. } = statement else { return false };
    let [state] = state.as_slice() else { return true };
    let (argument, state) = (&kernel.tiles[argument.0 as usize], &kernel.tiles[state.0 as usize]);
    let label = inner(argument).map(|axis| &argument.ranges[axis].label);
    let along = state.ranges.iter().any(|range| Some(&range.label) == label);
    let narrow = matches!(state.dtype, DType::F16 | DType::Bf16);
    !along && monoid.rounds && state.dtype.is_float() && (narrow || monoid.name == "prod")
}

/// The names of tables that a statement's own index expressions read, its tiles' ranges among them.
fn tables(kernel: &Kernel, statement: &Statement) -> BTreeSet<Symbol> {
    let mut names = BTreeSet::new();
    statement.visit_dims(&mut |dim| names.extend(dim.tables()));
    for id in statement.reads().into_iter().chain(statement.writes()) {
        for range in &kernel.tiles[id.0 as usize].ranges {
            names.extend(range.start.tables());
            names.extend(range.end.tables());
        }
    }
    names
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
    // A tile that is written twice, or written after it was read: its lanes are one value in the loop.
    let written = |tile: &TileId| group.iter().any(|s| s.writes().contains(tile) || s.reads().contains(tile));
    if !reduces(&statement) && statement.writes().iter().any(written) {
        return false;
    }
    // A table that the loop writes.
    let names = tables(kernel, statement);
    let writes_table = group.iter().any(|s| match s {
        Statement::Store { .. } if !names.is_empty() => true,
        s => s.writes().iter().any(|id| names.contains(&kernel.tiles[id.0 as usize].name)),
    });
    if writes_table {
        return false;
    }
    let access = |statement: &Statement| -> Option<(BufferId, bool, Vec<Dim>)> {
        match statement {
            Statement::Load { buffer, index, .. } => Some((*buffer, false, index.clone())),
            Statement::Store { buffer, index, .. } => Some((*buffer, true, index.clone())),
            _ => None,
        }
    };
    let Some((buffer, stores, index)) = access(statement) else { return true };
    let others = group.iter().filter_map(|other| access(other));
    others.into_iter().all(|(other, stored, at)| {
        let alone = !stores && !stored || other != buffer;
        // A load and then a store of the same elements: each is read before it is written.
        alone || (!stored && stores && at == index)
    })
}

/// The tiles that need scratch: those that something outside the loop that writes them reads.
pub fn kept(kernel: &Kernel, items: &[Item<'_>], kept: &mut BTreeSet<TileId>) {
    let by_name = |statement: &Statement| {
        let names = tables(kernel, statement);
        let tiles = kernel.tiles.iter().enumerate().filter(|(_, tile)| names.contains(&tile.name));
        tiles.map(|(id, _)| TileId(id as u32)).collect::<Vec<_>>()
    };
    for item in items {
        match item {
            Item::Loop(_, extent, body) => {
                let names = extent.tables();
                let tiles = kernel.tiles.iter().enumerate().filter(|(_, tile)| names.contains(&tile.name));
                kept.extend(tiles.map(|(id, _)| TileId(id as u32)));
                self::kept(kernel, body, kept);
            }
            Item::Operand(statement) | Item::Product(statement) | Item::InOrder(statement) => {
                kept.extend(by_name(statement));
                kept.extend(statement.reads());
                kept.extend(statement.writes());
            }
            Item::Group(group) => {
                let mut here = BTreeSet::new();
                for statement in group {
                    kept.extend(by_name(statement));
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
