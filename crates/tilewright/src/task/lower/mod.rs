//! From block programs to task programs: families, regions, events, memory, phases.
//!
//! 1. `flatten`: calls are inlined, repeats stay, tensors become buffers in storage order, each map nest at function
//!    level a family.
//! 2. `region`: what a task of each family touches.
//! 3. `events`: from what two families touch, who waits for whom (`docs/events.md`).
//! 4. `memory`: which buffers are the caller's, and where the others lie.
//! 5. `phases`: what a task may load before its waits.

mod body;
mod dims;
mod events;
mod flatten;
mod grid;
mod memory;
mod narrow;
mod phases;
mod region;
mod repeat;
mod summary;
mod visit;

use super::ir::{Access, BufferId, Family, Program};
use crate::block;
use crate::error::Error;
use crate::journal::{Journal, Kind};
use crate::target::Target;
use region::{Accesses, Region};
use std::collections::BTreeSet;

/// Lowers a block program that its verifier accepts.
///
/// # Errors
/// [`Error::Program`] for a tensor whose storage has no bound, [`Error::Unsupported`] for a map whose extent has none,
/// and [`Error::Bug`] for a block program that is not legal.
pub fn lower(program: &block::Program, target: &Target, journal: &mut Journal) -> Result<Program, Error> {
    let mut flat = flatten::flatten(program, journal)?;
    let names: BTreeSet<_> = flat.buffers.iter().map(|buffer| buffer.name.clone()).collect();
    for family in &mut flat.families {
        phases::rename_items(&mut family.body, &names);
    }
    let accesses: Vec<Accesses> =
        flat.families.iter().map(|family| region::accesses(&flat, family)).collect();
    let edges = events::derive(&flat, &accesses, target.scope);
    let constants = phases::constants(&flat, &accesses);
    let (buffers, ids, arena) = memory::buffers(&flat)?;

    let access = |region: Region| Access { buffer: ids[region.buffer], region: region.intervals };
    let mut families = Vec::with_capacity(flat.families.len());
    let parts = flat.families.into_iter().zip(accesses).zip(edges.waits).zip(edges.notifies);
    for (((family, accesses), waits), notifies) in parts {
        let mut body = family.body;
        phases::split(&mut body, &constants);
        families.push(Family {
            name: family.name,
            coordinates: family.coordinates,
            reads: accesses.reads.into_iter().map(access).collect(),
            writes: accesses.writes.into_iter().map(access).collect(),
            waits,
            notifies,
            body,
        });
    }
    let results: Vec<BufferId> = flat.results.iter().map(|&at| ids[at]).collect();
    let name = program.functions.last().map(|main| main.name.clone()).unwrap_or_else(|| "main".into());
    let summary =
        format!("{} families, {} events, {} buffers", families.len(), edges.events.len(), buffers.len());
    journal.record("task", Kind::Noted, name.to_string(), summary);
    Ok(Program {
        name,
        facts: flat.facts,
        buffers,
        results,
        arena,
        events: edges.events,
        families,
        steps: flat.steps,
    })
}
