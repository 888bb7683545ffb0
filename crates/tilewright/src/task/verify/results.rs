//! Results: every element that is not padding is written.

use super::cuboid::Cuboid;
use super::grid::Grid;
use super::instance::Instance;
use super::{Reason, Violation};
use crate::task::ir::{BufferId, BufferKind, Program};
use std::collections::BTreeSet;

/// Every element of an output that is a result is written, as far as the families declare.
pub(super) fn check<B>(program: &Program<B>, instance: &Instance<'_>) -> Result<(), Violation> {
    let results: BTreeSet<BufferId> = program.results.iter().copied().collect();
    for id in results {
        if program.buffer(id).kind == BufferKind::Output {
            check_written(program, instance, id)?;
        }
    }
    Ok(())
}

fn check_written<B>(program: &Program<B>, instance: &Instance<'_>, id: BufferId) -> Result<(), Violation> {
    let buffer = program.buffer(id);
    let whole = Cuboid::whole(&instance.extents[id.0 as usize]);
    if whole.is_empty() {
        return Ok(());
    }
    let padded = &buffer.padded;
    if !padded.is_empty() && padded.iter().all(|padded| *padded) {
        return Ok(());
    }
    let dense = |elements: &Cuboid| {
        let axes = elements.axes.iter().zip(padded).filter(|(_, padded)| !**padded);
        Cuboid { axes: axes.map(|(axis, _)| *axis).collect() }
    };
    let written = instance.tasks.iter().flat_map(|task| &task.writes);
    // A part of no elements along an axis with padding is written: all there is of it is padding.
    let parts = written.filter(|(buffer, _)| *buffer == id).map(|(_, elements)| dense(elements));
    let parts: Vec<Cuboid> = parts.filter(|elements| !elements.is_empty()).collect();
    let extents: Vec<i64> = dense(&whole).axes.iter().map(|(_, end)| *end).collect();
    let Some(grid) = Grid::new(&extents, parts.iter()) else { return Ok(()) };
    let mut seen = vec![false; grid.count().unwrap_or(0)];
    parts.iter().flat_map(|part| grid.cells(part)).for_each(|at| seen[at] = true);
    let Some(at) = seen.iter().position(|seen| !seen) else { return Ok(()) };
    let along = if padded.contains(&true) { " (along its axes without padding)" } else { "" };
    let (elements, sizes) = (grid.elements(at), instance.sizes);
    let message = format!("no task writes `{}{elements}`{along} (at {sizes})", buffer.name);
    Err(Violation::new(Reason::Unwritten, format!("buffer {}", buffer.name), message))
}
