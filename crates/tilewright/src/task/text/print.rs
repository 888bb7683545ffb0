//! Prints task programs.

use super::{BodyText, Context, KINDS, SCOPES, TIERS, word};
use crate::dim::{Dim, Symbol};
use crate::task::ir::{
    Access, Buffer, BufferId, BufferKind, Edge, EdgeIndex, Event, Family, FamilyId, Interval, Program, Step,
    Tier,
};
use std::fmt::Write;

/// The text of a program; `parse(print(p)) == p` where ids are in range and names are unique.
pub fn print<B: BodyText>(program: &Program<B>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "program {}", program.name);
    let facts = program.facts.to_string();
    if !facts.is_empty() {
        let _ = writeln!(out, "where {facts}");
    }
    let _ = writeln!(out, "arena {}", program.arena);
    out.push_str("buffers {\n");
    for buffer in &program.buffers {
        print_buffer(buffer, &mut out);
    }
    out.push_str("}\n");
    if !program.results.is_empty() {
        let names: Vec<String> =
            program.results.iter().map(|id| buffer_name(&program.buffers, *id)).collect();
        let _ = writeln!(out, "results {}", names.join(", "));
    }
    for event in &program.events {
        print_event(event, &mut out);
    }
    let mut order = Vec::new();
    flatten(&program.steps, &mut order);
    if order.iter().copied().eq((0..program.families.len() as u32).map(FamilyId)) {
        print_steps(program, &program.steps, 0, &mut out);
    } else {
        for family in &program.families {
            print_family(program, family, 0, &mut out);
        }
        out.push_str("\nsteps {\n");
        print_step_names(program, &program.steps, 2, &mut out);
        out.push_str("}\n");
    }
    out
}

/// The families of steps, in order.
fn flatten(steps: &[Step], order: &mut Vec<FamilyId>) {
    for step in steps {
        match step {
            Step::Family(id) => order.push(*id),
            Step::Repeat { steps, .. } => flatten(steps, order),
        }
    }
}

fn print_steps<B: BodyText>(program: &Program<B>, steps: &[Step], indent: usize, out: &mut String) {
    for step in steps {
        match step {
            Step::Family(id) => {
                if let Some(family) = program.families.get(id.0 as usize) {
                    print_family(program, family, indent, out);
                }
            }
            Step::Repeat { coordinate, extent, steps } => {
                let _ = writeln!(out, "\n{:indent$}repeat {coordinate} in {extent} {{", "");
                print_steps(program, steps, indent + 2, out);
                let _ = writeln!(out, "{:indent$}}}", "");
            }
        }
    }
}

fn print_step_names<B>(program: &Program<B>, steps: &[Step], indent: usize, out: &mut String) {
    for step in steps {
        match step {
            Step::Family(id) => {
                let name =
                    program.families.get(id.0 as usize).map_or("?".to_string(), |f| f.name.to_string());
                let _ = writeln!(out, "{:indent$}{name}", "");
            }
            Step::Repeat { coordinate, extent, steps } => {
                let _ = writeln!(out, "{:indent$}repeat {coordinate} in {extent} {{", "");
                print_step_names(program, steps, indent + 2, out);
                let _ = writeln!(out, "{:indent$}}}", "");
            }
        }
    }
}

fn print_buffer(buffer: &Buffer, out: &mut String) {
    let kind = match &buffer.kind {
        BufferKind::Param(kind) => word(&KINDS, kind),
        BufferKind::Output => "output",
        BufferKind::Temporary { .. } => "temporary",
    };
    let padded = buffer.padded.iter().map(|padded| if *padded { "padded " } else { "" });
    let extents: Vec<String> =
        buffer.extents.iter().zip(padded).map(|(extent, padded)| format!("{padded}{extent}")).collect();
    let _ = write!(out, "  {kind} {}: {}[{}]", buffer.name, buffer.dtype, extents.join(", "));
    if let BufferKind::Temporary { offset } = &buffer.kind {
        let _ = write!(out, " at {offset}");
    }
    if buffer.tier != Tier::Memory || matches!(buffer.kind, BufferKind::Temporary { .. }) {
        let _ = write!(out, " in {}", word(&TIERS, &buffer.tier));
    }
    out.push('\n');
}

fn print_event(event: &Event, out: &mut String) {
    let axes: Vec<String> = event.axes.iter().map(|(name, extent)| format!("{name}: {extent}")).collect();
    let scope = word(&SCOPES, &event.scope);
    let _ = writeln!(out, "event {}[{}] wait {} scope {scope}", event.name, axes.join(", "), event.wait);
}

fn print_family<B: BodyText>(program: &Program<B>, family: &Family<B>, indent: usize, out: &mut String) {
    let coordinates: Vec<String> =
        family.coordinates.iter().map(|(name, n)| format!("{name} in {n}")).collect();
    let _ = writeln!(out, "\n{:indent$}tasks {} [{}]", "", family.name, coordinates.join(", "));
    let mut line = |name: &str, items: Vec<String>| {
        if !items.is_empty() {
            let _ = writeln!(out, "{:indent$}  {name} {}", "", items.join(", "));
        }
    };
    line("reads", family.reads.iter().map(|access| print_access(&program.buffers, access)).collect());
    line("writes", family.writes.iter().map(|access| print_access(&program.buffers, access)).collect());
    let edges = |edges: &[Edge]| -> Vec<String> {
        edges.iter().map(|edge| print_edge(&program.events, &family.coordinates, edge)).collect()
    };
    line("waits", edges(&family.waits));
    line("notifies", edges(&family.notifies));
    let _ = writeln!(out, "{:indent$}{{", "");
    let context = Context {
        facts: &program.facts,
        buffers: &program.buffers,
        events: &program.events,
        coordinates: &family.coordinates,
    };
    family.body.print(&context, indent + 2, out);
    let _ = writeln!(out, "{:indent$}}}", "");
}

/// The name of a buffer; an id that is out of range prints as text that no parser accepts.
fn buffer_name(buffers: &[Buffer], id: BufferId) -> String {
    buffers.get(id.0 as usize).map_or_else(|| format!("?{}", id.0), |buffer| buffer.name.to_string())
}

/// The text of an access: `x`, or `x[64*m..64*m + 64, d]`.
pub fn print_access(buffers: &[Buffer], access: &Access) -> String {
    let name = buffer_name(buffers, access.buffer);
    let whole =
        buffers.get(access.buffer.0 as usize).is_some_and(|buffer| access.region == whole_region(buffer));
    if whole {
        return name;
    }
    let intervals: Vec<String> = access.region.iter().map(print_interval).collect();
    format!("{name}[{}]", intervals.join(", "))
}

fn print_interval(interval: &Interval) -> String {
    if interval.hi == &interval.lo + 1 {
        interval.lo.to_string()
    } else {
        format!("{}..{}", interval.lo, interval.hi)
    }
}

/// Every element of a buffer.
pub fn whole_region(buffer: &Buffer) -> Vec<Interval> {
    buffer.extents.iter().map(|extent| Interval { lo: Dim::constant(0), hi: extent.clone() }).collect()
}

/// The text of an edge of a task with these coordinates: `E1[l, 2*m..2*m + 2]`.
pub fn print_edge(events: &[Event], coordinates: &[(Symbol, Dim)], edge: &Edge) -> String {
    let name = events
        .get(edge.event.0 as usize)
        .map_or_else(|| format!("?{}", edge.event.0), |e| e.name.to_string());
    let indices: Vec<String> = edge.index.iter().map(|index| print_index(coordinates, index)).collect();
    format!("{name}[{}]", indices.join(", "))
}

fn print_index(coordinates: &[(Symbol, Dim)], index: &EdgeIndex) -> String {
    let stated = |word: &str, natural: EdgeIndex, text: String| {
        if *index == natural { text } else { format!("{word}: {text}") }
    };
    match index {
        EdgeIndex::Affine(cell) => {
            stated("affine", EdgeIndex::cell(coordinates, cell.clone()), cell.to_string())
        }
        EdgeIndex::Quotient(cell) => {
            stated("quotient", EdgeIndex::cell(coordinates, cell.clone()), cell.to_string())
        }
        EdgeIndex::Range { lo, hi } => {
            stated("range", EdgeIndex::range(lo.clone(), hi.clone()), format!("{lo}..{hi}"))
        }
        EdgeIndex::TableRange { lo, hi } => {
            stated("table", EdgeIndex::range(lo.clone(), hi.clone()), format!("{lo}..{hi}"))
        }
        EdgeIndex::Gather { label, lo, hi, cell } => format!("{{{cell} for {label} in {lo}..{hi}}}"),
    }
}
