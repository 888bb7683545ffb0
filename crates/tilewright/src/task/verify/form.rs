//! Form: what can be said of a program without sizes.

use super::{Reason, Violation};
use crate::dim::{Atom, Dim, Symbol};
use crate::target::Target;
use crate::task::ir::{
    Access, Buffer, BufferId, BufferKind, Edge, EdgeIndex, EventId, Family, FamilyId, Program, Step,
};
use crate::tensor::ParamKind;
use std::collections::BTreeSet;

type Result<T = ()> = std::result::Result<T, Violation>;

fn refuse<T>(reason: Reason, place: impl std::fmt::Display, message: impl std::fmt::Display) -> Result<T> {
    Err(Violation::new(reason, place, message))
}

/// Ids, names, arities, symbols, forms of edge maps, and steps.
pub(super) fn check<B>(program: &Program<B>) -> Result {
    check_names(program)?;
    for buffer in &program.buffers {
        check_buffer(program, buffer)?;
    }
    check_dim(program, &program.arena, &[], false, "arena")?;
    for id in &program.results {
        check_result(program, *id)?;
    }
    for event in &program.events {
        let place = format!("event {}", event.name);
        let axes: Vec<Symbol> = event.axes.iter().map(|(name, _)| name.clone()).collect();
        check_distinct(axes.iter(), &place, "axes")?;
        for (_, extent) in &event.axes {
            check_dim(program, extent, &[], false, &place)?;
        }
        check_dim(program, &event.wait, &axes, false, &place)?;
    }
    for family in &program.families {
        check_family(program, family)?;
    }
    check_steps(program)
}

fn check_names<B>(program: &Program<B>) -> Result {
    check_distinct(program.buffers.iter().map(|buffer| &buffer.name), &program.name, "buffers")?;
    check_distinct(program.events.iter().map(|event| &event.name), &program.name, "events")?;
    check_distinct(program.families.iter().map(|family| &family.name), &program.name, "task families")
}

fn check_distinct<'a>(
    names: impl Iterator<Item = &'a Symbol>,
    place: impl std::fmt::Display,
    what: &str,
) -> Result {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return refuse(Reason::Malformed, place, format!("two {what} are named `{name}`"));
        }
    }
    Ok(())
}

fn check_buffer<B>(program: &Program<B>, buffer: &Buffer) -> Result {
    let place = format!("buffer {}", buffer.name);
    if buffer.padded.len() != buffer.extents.len() {
        return refuse(Reason::Malformed, place, "each axis has padding or not, and no other does");
    }
    for extent in &buffer.extents {
        check_dim(program, extent, &[], false, &place)?;
    }
    match &buffer.kind {
        BufferKind::Temporary { offset } => check_dim(program, offset, &[], false, &place),
        BufferKind::Param(_) | BufferKind::Output => Ok(()),
    }
}

fn check_result<B>(program: &Program<B>, id: BufferId) -> Result {
    match program.buffers.get(id.0 as usize) {
        None => refuse(Reason::Malformed, "results", format!("there is no buffer {}", id.0)),
        Some(Buffer { kind: BufferKind::Output | BufferKind::Param(ParamKind::State), .. }) => Ok(()),
        Some(buffer) => {
            let message = format!("`{}` is neither an output nor a state", buffer.name);
            refuse(Reason::Malformed, "results", message)
        }
    }
}

/// Every symbol of the dim is a size or one of `names`; every table an integer buffer, where tables are allowed.
fn check_dim<B>(program: &Program<B>, dim: &Dim, names: &[Symbol], tables: bool, place: &str) -> Result {
    for symbol in dim.symbols() {
        if !names.contains(&symbol) && program.facts.range(&symbol).is_none() {
            return refuse(Reason::Symbol, place, format!("`{symbol}` in `{dim}` means nothing here"));
        }
    }
    for table in dim.tables() {
        if !tables {
            return refuse(
                Reason::Symbol,
                place,
                format!("`{dim}` may not read a table, but reads `{table}`"),
            );
        }
        match program.find_buffer(&table).map(|id| program.buffer(id)) {
            None => return refuse(Reason::Symbol, place, format!("the table `{table}` is no buffer")),
            Some(buffer) if !buffer.dtype.is_int() => {
                return refuse(Reason::Symbol, place, format!("the table `{table}` does not hold integers"));
            }
            Some(buffer) => check_table_indices(dim, &table, buffer.extents.len(), place)?,
        }
    }
    Ok(())
}

/// Every element of the table has as many indices as the table has axes.
fn check_table_indices(dim: &Dim, table: &Symbol, rank: usize, place: &str) -> Result {
    let mut wrong = false;
    visit_atoms(dim, &mut |atom| {
        if let Atom::Element(name, index) = atom {
            wrong |= name == table && index.len() != rank;
        }
    });
    if wrong { refuse(Reason::Malformed, place, format!("`{table}` has {rank} axes")) } else { Ok(()) }
}

/// Calls `f` on every atom of the dim, those inside others included.
pub(super) fn visit_atoms(dim: &Dim, f: &mut dyn FnMut(&Atom)) {
    for (_, factors) in dim.terms() {
        for atom in factors {
            f(atom);
            for operand in atom.operands() {
                visit_atoms(operand, f);
            }
        }
    }
}

fn check_family<B>(program: &Program<B>, family: &Family<B>) -> Result {
    let place = format!("tasks {}", family.name);
    let names: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
    check_distinct(names.iter(), &place, "coordinates")?;
    for (name, extent) in &family.coordinates {
        if program.facts.range(name).is_some() {
            return refuse(
                Reason::Malformed,
                &place,
                format!("the coordinate `{name}` is the name of a size"),
            );
        }
        check_dim(program, extent, &[], false, &place)?;
    }
    for access in &family.reads {
        check_access(program, access, &names, &place)?;
    }
    for access in &family.writes {
        check_access(program, access, &names, &place)?;
        let buffer = program.buffer(access.buffer);
        if let BufferKind::Param(ParamKind::Input | ParamKind::Weight | ParamKind::Plan) = buffer.kind {
            return refuse(
                Reason::ReadOnly,
                &place,
                format!("`{}` is only read, but is written", buffer.name),
            );
        }
    }
    for edge in family.waits.iter().chain(&family.notifies) {
        check_edge(program, edge, &names, &place)?;
    }
    Ok(())
}

fn check_access<B>(program: &Program<B>, access: &Access, names: &[Symbol], place: &str) -> Result {
    let Some(buffer) = program.buffers.get(access.buffer.0 as usize) else {
        return refuse(Reason::Malformed, place, format!("there is no buffer {}", access.buffer.0));
    };
    if access.region.len() != buffer.extents.len() {
        let (name, rank) = (&buffer.name, buffer.extents.len());
        let message = format!("`{name}` has {rank} axes, but a region has {}", access.region.len());
        return refuse(Reason::Malformed, place, message);
    }
    for interval in &access.region {
        check_dim(program, &interval.lo, names, true, place)?;
        check_dim(program, &interval.hi, names, true, place)?;
    }
    Ok(())
}

fn check_edge<B>(program: &Program<B>, edge: &Edge, names: &[Symbol], place: &str) -> Result {
    let Some(event) = program.events.get(edge.event.0 as usize) else {
        return refuse(Reason::Malformed, place, format!("there is no event {}", edge.event.0));
    };
    if edge.index.len() != event.axes.len() {
        let (name, rank) = (&event.name, event.axes.len());
        let message = format!("`{name}` has {rank} axes, but an edge has {} indices", edge.index.len());
        return refuse(Reason::Malformed, place, message);
    }
    edge.index.iter().try_for_each(|index| check_index(program, index, names, place))
}

fn check_index<B>(program: &Program<B>, index: &EdgeIndex, names: &[Symbol], place: &str) -> Result {
    let form = |holds: bool, what: &str| {
        if holds { Ok(()) } else { refuse(Reason::EdgeForm, place, what) }
    };
    match index {
        EdgeIndex::Affine(cell) => {
            check_dim(program, cell, names, true, place)?;
            let affine = cell.tables().is_empty() && cell.affine(names).is_some();
            form(affine, &format!("`{cell}` is not affine in the coordinates"))
        }
        EdgeIndex::Quotient(cell) => {
            check_dim(program, cell, names, true, place)?;
            let quotient = cell.tables().is_empty() && is_quotient(cell, names);
            form(quotient, &format!("`{cell}` is no floor or ceiling division of an affine expression"))
        }
        EdgeIndex::Range { lo, hi } => {
            check_dim(program, lo, names, true, place)?;
            check_dim(program, hi, names, true, place)?;
            let plain = lo.tables().is_empty() && hi.tables().is_empty();
            let bounds = plain && is_bound(lo, names) && is_bound(hi, names);
            form(bounds, &format!("`{lo}..{hi}` is no range of affine expressions and quotients"))
        }
        EdgeIndex::TableRange { lo, hi } => {
            check_dim(program, lo, names, true, place)?;
            check_dim(program, hi, names, true, place)?;
            let reads = !lo.tables().is_empty() || !hi.tables().is_empty();
            let bounds = reads && is_bound(lo, names) && is_bound(hi, names);
            form(bounds, &format!("`{lo}..{hi}` is no range that a table gives"))
        }
        EdgeIndex::Gather { label, lo, hi, cell } => {
            if names.contains(label) || program.facts.range(label).is_some() {
                let message = format!("the label `{label}` of a gather has a meaning already");
                return refuse(Reason::Malformed, place, message);
            }
            check_dim(program, lo, names, true, place)?;
            check_dim(program, hi, names, true, place)?;
            let inner: Vec<Symbol> = names.iter().chain([label]).cloned().collect();
            check_dim(program, cell, &inner, true, place)?;
            let gather = !cell.tables().is_empty() && is_bound(lo, names) && is_bound(hi, names);
            form(gather && is_bound(cell, &inner), &format!("`{cell}` is no gather through a table"))
        }
    }
}

fn is_free(dim: &Dim, names: &[Symbol]) -> bool {
    !names.iter().any(|name| dim.mentions(name))
}

/// A sum of multiples of coordinates, of quotients of affine expressions, and of what is the same for all tasks.
fn is_quotient(dim: &Dim, names: &[Symbol]) -> bool {
    is_sum(dim, names, &|atom| match atom {
        Atom::Symbol(_) => true,
        Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) => a.affine(names).is_some() && is_free(b, names),
        _ => false,
    })
}

/// A sum of multiples of coordinates, quotients, minima and maxima of such, and table elements.
fn is_bound(dim: &Dim, names: &[Symbol]) -> bool {
    is_sum(dim, names, &|atom| match atom {
        Atom::Symbol(_) => true,
        Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) => is_bound(a, names) && is_free(b, names),
        Atom::Min(args) | Atom::Max(args) | Atom::Element(_, args) => {
            args.iter().all(|arg| is_bound(arg, names))
        }
        Atom::Mod(..) | Atom::Overflow => false,
    })
}

/// Each term has at most one factor that varies with the coordinates, and that one is allowed.
fn is_sum(dim: &Dim, names: &[Symbol], allowed: &dyn Fn(&Atom) -> bool) -> bool {
    dim.terms().all(|(_, factors)| {
        let varying: Vec<&Atom> =
            factors.iter().filter(|atom| names.iter().any(|name| atom.mentions(name))).collect();
        varying.len() <= 1 && varying.into_iter().all(allowed)
    })
}

/// Steps run every family once, inside the repeats whose coordinates it starts with.
fn check_steps<B>(program: &Program<B>) -> Result {
    let mut runs = vec![0usize; program.families.len()];
    walk_steps(program, &program.steps, &mut Vec::new(), &mut runs)?;
    for (family, count) in program.families.iter().zip(runs) {
        if count != 1 {
            let message = format!("the steps run it {count} times");
            return refuse(Reason::Steps, format!("tasks {}", family.name), message);
        }
    }
    Ok(())
}

fn walk_steps<B>(
    program: &Program<B>,
    steps: &[Step],
    repeats: &mut Vec<(Symbol, Dim)>,
    runs: &mut [usize],
) -> Result {
    for step in steps {
        match step {
            Step::Family(FamilyId(id)) => {
                let (Some(family), Some(count)) =
                    (program.families.get(*id as usize), runs.get_mut(*id as usize))
                else {
                    return refuse(Reason::Malformed, "steps", format!("there is no task family {id}"));
                };
                *count += 1;
                if !family.coordinates.starts_with(repeats) {
                    let message = "its first coordinates are not those of the repeats around it";
                    return refuse(Reason::Steps, format!("tasks {}", family.name), message);
                }
            }
            Step::Repeat { coordinate, extent, steps } => {
                let place = format!("repeat {coordinate}");
                check_dim(program, extent, &[], false, &place)?;
                repeats.push((coordinate.clone(), extent.clone()));
                walk_steps(program, steps, repeats, runs)?;
                repeats.pop();
            }
        }
    }
    Ok(())
}

/// An event that orders tasks of different workers reaches all workers of the target.
pub(super) fn check_scopes<B>(program: &Program<B>, target: &Target) -> Result {
    let uses = |edges: fn(&Family<B>) -> &Vec<Edge>, id: EventId| {
        program.families.iter().any(|family| edges(family).iter().any(|edge| edge.event == id))
    };
    for (index, event) in program.events.iter().enumerate() {
        let id = EventId(index as u32);
        let orders = uses(|family| &family.waits, id) && uses(|family| &family.notifies, id);
        if orders && target.workers > 1 && event.scope < target.scope {
            let (have, want) = (event.scope, target.scope);
            let message =
                format!("its scope {have:?} does not span the workers of `{}` ({want:?})", target.name);
            return refuse(Reason::Scope, format!("event {}", event.name), message);
        }
    }
    Ok(())
}
