//! Wrong task programs, made from right ones by named mutations: each is refused with a reason that the mutation
//! explains. A mutation states where it makes no difference, and makes no mutant there; nothing is waved through.

mod task_programs;

use std::collections::{BTreeMap, BTreeSet};
use task_programs::{parse, texts};
use tilewright::block::Node;
use tilewright::dim::{Dim, Symbol};
use tilewright::target::Target;
use tilewright::task::verify::{Reason, verify};
use tilewright::task::{
    Access, Body, BufferId, BufferKind, Edge, EdgeIndex, Event, EventId, Family, FamilyId, Interval, Program,
    Scope, Step, Tier, text,
};
use tilewright::tensor::ParamKind;

/// A wrong program.
struct Mutant {
    /// What was done, and where.
    name: String,
    program: Program,
    /// Why it may be refused.
    reasons: &'static [Reason],
}

/// Everything that a missing order may show as.
const UNORDERED: &[Reason] =
    &[Reason::ReadUnordered, Reason::TableUnordered, Reason::WriteAfterRead, Reason::WriteAfterWrite];

/// What memory that is taken over too early may show as.
const TAKEN_OVER: &[Reason] = &[
    Reason::ReadUnordered,
    Reason::TableUnordered,
    Reason::WriteAfterRead,
    Reason::WriteAfterWrite,
    Reason::Clobbered,
];

/// What a family with too few tasks may show as.
const TOO_FEW: &[Reason] = &[
    Reason::Threshold,
    Reason::Unwritten,
    Reason::Uninitialised,
    Reason::Cell,
    Reason::Undeclared,
    Reason::ReadUnordered,
    Reason::WrittenTwice,
];

type Operator = fn(&Program) -> Vec<(String, Program)>;

/// A named mutation: its mutants of a program, and why they may be refused.
struct Mutation {
    name: &'static str,
    mutants: Operator,
    reasons: &'static [Reason],
}

const MUTATIONS: &[Mutation] = &[
    Mutation { name: "missing notify", mutants: missing_notify, reasons: &[Reason::Threshold] },
    Mutation { name: "notify twice", mutants: notify_twice, reasons: &[Reason::Threshold] },
    Mutation { name: "missing wait", mutants: missing_wait, reasons: UNORDERED },
    Mutation { name: "event removed", mutants: event_removed, reasons: UNORDERED },
    Mutation { name: "wait one more", mutants: wait_more, reasons: &[Reason::Threshold] },
    Mutation { name: "wait one less", mutants: wait_less, reasons: &[Reason::Threshold, Reason::Value] },
    Mutation { name: "wait zero", mutants: wait_zero, reasons: &[Reason::Threshold] },
    Mutation { name: "wait at least one", mutants: wait_at_least_one, reasons: &[Reason::Threshold] },
    Mutation { name: "wait doubled", mutants: wait_doubled, reasons: &[Reason::Threshold] },
    Mutation { name: "ragged end of a family", mutants: ragged_family, reasons: TOO_FEW },
    Mutation { name: "ragged end of an event", mutants: ragged_event, reasons: &[Reason::Cell] },
    Mutation {
        name: "ragged end in a wait",
        mutants: ragged_wait,
        reasons: &[Reason::Threshold, Reason::Value],
    },
    Mutation { name: "larger tiles in a family", mutants: larger_tiles, reasons: TOO_FEW },
    Mutation { name: "one task less", mutants: one_task_less, reasons: TOO_FEW },
    Mutation {
        name: "one task more",
        mutants: one_task_more,
        reasons: &[Reason::Cell, Reason::Threshold, Reason::Undeclared, Reason::Bounds, Reason::Value],
    },
    Mutation {
        name: "wait index shifted",
        mutants: wait_shifted,
        reasons: &[Reason::Cell, Reason::ReadUnordered, Reason::WriteAfterRead, Reason::Rank],
    },
    Mutation { name: "wait index shifted inside", mutants: wait_shifted_inside, reasons: UNORDERED },
    Mutation {
        name: "notify index shifted",
        mutants: notify_shifted,
        reasons: &[Reason::Cell, Reason::Threshold],
    },
    Mutation { name: "wait for fewer cells", mutants: fewer_cells, reasons: UNORDERED },
    Mutation { name: "notify fewer cells", mutants: fewer_notified, reasons: &[Reason::Threshold] },
    Mutation { name: "rank order swapped", mutants: rank_swapped, reasons: &[Reason::Rank] },
    Mutation { name: "cycle", mutants: cycle, reasons: &[Reason::Rank] },
    Mutation { name: "waits for itself", mutants: waits_for_itself, reasons: &[Reason::Rank] },
    Mutation { name: "narrow scope", mutants: narrow_scope, reasons: &[Reason::Scope] },
    Mutation {
        name: "read region understated",
        mutants: |p| understated(p, false),
        reasons: &[Reason::Undeclared],
    },
    Mutation {
        name: "write region understated",
        mutants: |p| understated(p, true),
        reasons: &[Reason::Undeclared],
    },
    Mutation { name: "access undeclared", mutants: undeclared, reasons: &[Reason::Undeclared] },
    Mutation {
        name: "overlapping writes",
        mutants: overlapping_writes,
        reasons: &[Reason::WrittenTwice, Reason::Threshold, Reason::WriteAfterRead, Reason::ReadUnordered],
    },
    Mutation { name: "early reuse of memory", mutants: early_reuse, reasons: TAKEN_OVER },
    Mutation { name: "arena too small", mutants: arena_small, reasons: &[Reason::Arena] },
    Mutation { name: "before the arena", mutants: before_arena, reasons: &[Reason::Arena] },
    Mutation { name: "unaligned", mutants: unaligned, reasons: &[Reason::Alignment] },
    Mutation { name: "near memory shared", mutants: near_shared, reasons: &[Reason::Tier] },
    Mutation {
        name: "read in the prologue",
        mutants: hoisted,
        reasons: &[Reason::ReadUnordered, Reason::TableUnordered, Reason::Uninitialised],
    },
    Mutation { name: "waits in another order", mutants: waits_reversed, reasons: &[Reason::TableUnordered] },
    Mutation { name: "form of an edge", mutants: edge_forms, reasons: &[Reason::EdgeForm] },
    Mutation { name: "family left out", mutants: family_left_out, reasons: &[Reason::Steps] },
    Mutation { name: "family run twice", mutants: family_twice, reasons: &[Reason::Steps] },
    Mutation { name: "repeat unrolled by hand", mutants: repeat_dropped, reasons: &[Reason::Steps] },
    Mutation { name: "family removed", mutants: family_removed, reasons: TOO_FEW },
    Mutation { name: "parameter written", mutants: parameter_written, reasons: &[Reason::ReadOnly] },
    Mutation { name: "unknown symbol", mutants: unknown_symbol, reasons: &[Reason::Symbol] },
    Mutation { name: "indices missing", mutants: indices_missing, reasons: &[Reason::Malformed] },
    Mutation { name: "two of one name", mutants: same_names, reasons: &[Reason::Malformed] },
];

/// Mutations of the text: what is replaced, in which program, and why that is refused.
const REPLACEMENTS: &[(&str, &str, &str, &[Reason])] = &[
    // Slot parity of a carried value.
    ("layers", "h[mod(l, 2)", "h[mod(l + 1, 2)", &[Reason::Uninitialised, Reason::ReadUnordered]),
    ("layers", "h[mod(L, 2)", "h[mod(L + 1, 2)", &[Reason::Uninitialised, Reason::ReadUnordered]),
    ("layers", "h[mod(l + 1, 2)", "h[mod(l, 2)", &[Reason::Uninitialised, Reason::ReadUnordered]),
    ("layers", "h[0, ", "h[1, ", &[Reason::Uninitialised, Reason::ReadUnordered]),
    // Distances in a repeat.
    ("layers", "carried[l + 1, m]", "carried[l, m]", &[Reason::Threshold]),
    ("layers", "waits loaded[m], carried[l, m]", "waits loaded[m], carried[0, m]", UNORDERED),
    ("layers", "waits scaled[l, m]", "waits scaled[0, m]", UNORDERED),
    ("layers", "notifies scaled[l, m]", "notifies scaled[0, m]", &[Reason::Threshold]),
    ("layers", "wait L scope", "wait max(L, 1) scope", &[Reason::Threshold]),
    ("layers", "wait L scope", "wait min(L, 1) scope", &[Reason::Threshold]),
    ("layers", "wait min(1, l)", "wait 1", &[Reason::Threshold]),
    ("layers", "carried[l: L + 1", "carried[l: L", &[Reason::Cell]),
    // Blocks of 64 that become blocks of 96: in a body, its regions and its family, but not in the event.
    ("nested", "4*p +: 4", "6*p +: 6", &[Reason::Undeclared]),
    ("nested", "floordiv(p, 2)", "p", &[Reason::Cell]),
    ("nested", "min(2*c + 2, ceildiv(S, 4)) - 2*c", "2", &[Reason::Threshold]),
    ("nested", "min(2*c + 2, ceildiv(S, 4)) - 2*c", "min(2, ceildiv(S, 4))", &[Reason::Threshold]),
    ("tiles", "6*p +: 6", "4*p +: 4", &[Reason::Unwritten, Reason::Uninitialised, Reason::Undeclared]),
    (
        "tiles",
        "ceildiv(6*p + 6, 4), ceildiv(S, 4)",
        "floordiv(6*p + 6, 4), ceildiv(S, 4)",
        &[Reason::Threshold],
    ),
    ("tiles", "notifies E1[floordiv(6*p, 4)..", "notifies E1[ceildiv(6*p, 4)..", &[Reason::Threshold]),
    ("tiles", "ceildiv(S, 6)) - floordiv", "ceildiv(S, 6)) - ceildiv", &[Reason::Threshold]),
    ("window", "floordiv(4*c - 1, 4), 0)", "floordiv(4*c, 4), 0)", &[Reason::ReadUnordered]),
    ("window", "ceildiv(4*c + 5, 4)", "ceildiv(4*c + 4, 4)", &[Reason::ReadUnordered]),
    ("window", "t[i + 1]", "t[i + 2]", &[Reason::Undeclared]),
    ("window", "t[i - 1]", "t[i - 2]", &[Reason::Undeclared]),
    // Counts of none.
    ("total", "parts[] wait ceildiv(S, 4)", "parts[] wait max(ceildiv(S, 4), 1)", &[Reason::Threshold]),
    ("total", "parts[] wait ceildiv(S, 4)", "parts[] wait floordiv(S, 4)", &[Reason::Threshold]),
    ("total", "parts[] wait ceildiv(S, 4)", "parts[] wait S", &[Reason::Threshold]),
    ("total", "part[m]", "part[0]", &[Reason::Undeclared, Reason::WrittenTwice]),
    ("total", "store one -> part[j]", "store one -> part[j - m]", &[Reason::Undeclared]),
    // Index tensors.
    ("gather", "waits indices[m], rows", "waits rows", &[Reason::TableUnordered]),
    ("gather", "reads ids[4*m..min(4*m + 4, S)], t", "reads t", &[Reason::Undeclared]),
    (
        "gather",
        "waits indices[m], rows[0..ceildiv(V, 4)]",
        "waits indices[m], rows[0..1]",
        &[Reason::ReadUnordered],
    ),
    ("gather", "waits indices[m], rows[0..ceildiv(V, 4)]", "waits indices[m], rows[0..V]", &[Reason::Cell]),
    ("paged", "for i in 0..2", "for i in 0..1", &[Reason::ReadUnordered]),
    ("paged", "{page[b, i] for", "{page[0, i] for", &[Reason::ReadUnordered, Reason::Undeclared]),
    ("paged", "reads page[b, 0..2], t", "reads page[b, 0..1], t", &[Reason::Undeclared]),
    ("paged", "{page[b, i] for", "{page[b, i] + 1 for", &[Reason::Cell]),
    ("ragged", "ceildiv(off[e + 1], 4)]", "floordiv(off[e + 1], 4)]", &[Reason::ReadUnordered]),
    ("ragged", "floordiv(off[e], 4)..", "ceildiv(off[e], 4)..", &[Reason::ReadUnordered]),
    ("ragged", "reads off[e..e + 2]", "reads off[e]", &[Reason::Undeclared]),
    (
        "ragged",
        "waits rows[floordiv(off[e], 4)..ceildiv(off[e + 1], 4)]",
        "waits rows[e]",
        &[Reason::Cell, Reason::ReadUnordered],
    ),
    ("routed", "waits offsets[], rows", "waits rows", &[Reason::TableUnordered]),
    ("routed", "notifies offsets[]", "notifies rows[0]", &[Reason::Cell, Reason::Threshold]),
    (
        "routed",
        "off: i32[E + 1] at 4*T",
        "off: i32[E + 1] at 0",
        &[Reason::WriteAfterWrite, Reason::Clobbered],
    ),
    // Bodies that go outside.
    ("chain", "store b -> t[i]", "store b -> t[i + 1]", &[Reason::Undeclared]),
    ("chain", "store b -> y[i]", "store b -> y[i - 4*m]", &[Reason::Undeclared]),
    ("chain", "4*m +: 4 < S} = load t", "4*m +: 6 < S} = load t", &[Reason::Undeclared]),
    ("matmul", "store sum -> y[i, j]", "store sum -> y[j, i]", &[Reason::Undeclared]),
    ("matmul", "waits E1[m]", "waits E1[n]", &[Reason::Cell, Reason::ReadUnordered]),
    ("matmul", "wait 2 scope", "wait 1 scope", &[Reason::Threshold]),
    ("matmul", "wait 2 scope", "wait ceildiv(N, 4) scope", &[Reason::Threshold]),
    ("matmul", "notifies E1[m]", "notifies E1[0]", &[Reason::Threshold]),
    ("matmul", "d in 2]", "d in 1]", TOO_FEW),
    ("cache", "waits old[m]", "waits old[0]", &[Reason::WriteAfterRead]),
    ("cache", "state c", "weight c", &[Reason::ReadOnly, Reason::Malformed]),
    ("arena", "waits E2[m]", "waits E1[m]", &[Reason::ReadUnordered, Reason::WriteAfterRead]),
    ("arena", "waits E3[m]", "waits E2[m]", &[Reason::ReadUnordered]),
    ("arena", "v: f32[S] at 0", "v: f32[S] at 4", TAKEN_OVER),
    ("arena", "v: f32[S] at 0", "v: f32[S] at 8*S", &[Reason::Arena]),
    ("arena", "reads v[4*m..min(4*m + 4, S)]", "reads t[4*m..min(4*m + 4, S)]", &[Reason::Undeclared]),
];

fn each<T>(
    items: &[T],
    mut f: impl FnMut(usize, &T) -> Option<Program>,
    name: impl Fn(&T) -> String,
) -> Vec<(String, Program)> {
    let mutant = |(index, item): (usize, &T)| Some((name(item), f(index, item)?));
    items.iter().enumerate().filter_map(mutant).collect()
}

fn awaited(program: &Program, id: EventId) -> bool {
    program.families.iter().flat_map(|family| &family.waits).any(|edge| edge.event == id)
}

/// A program for each edge of one side, changed by `f`; none where it gives none.
fn edges(
    program: &Program,
    side: fn(&mut Family) -> &mut Vec<Edge>,
    f: impl Fn(&Program, &Family, usize, &mut Vec<Edge>) -> bool,
) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for index in 0..program.families.len() {
        let mut family = program.families[index].clone();
        let count = side(&mut family).len();
        for at in 0..count {
            let mut mutant = program.clone();
            let before = program.families[index].clone();
            if f(program, &before, at, side(&mut mutant.families[index])) {
                found.push((format!("{} edge {at}", before.name), mutant));
            }
        }
    }
    found
}

fn waits(family: &mut Family) -> &mut Vec<Edge> {
    &mut family.waits
}

fn notifies(family: &mut Family) -> &mut Vec<Edge> {
    &mut family.notifies
}

fn missing_notify(program: &Program) -> Vec<(String, Program)> {
    edges(program, notifies, |program, _, at, edges| {
        let edge = edges.remove(at);
        awaited(program, edge.event)
    })
}

fn notify_twice(program: &Program) -> Vec<(String, Program)> {
    edges(program, notifies, |program, _, at, edges| {
        edges.push(edges[at].clone());
        awaited(program, edges[at].event)
    })
}

fn missing_wait(program: &Program) -> Vec<(String, Program)> {
    edges(program, waits, |_, _, at, edges| {
        edges.remove(at);
        true
    })
}

fn event_removed(program: &Program) -> Vec<(String, Program)> {
    events(program, |_, id, mutant| {
        for family in &mut mutant.families {
            family.waits.retain(|edge| edge.event != id);
            family.notifies.retain(|edge| edge.event != id);
        }
        true
    })
}

/// A program for each event, changed by `f`.
fn events(program: &Program, f: impl Fn(&Program, EventId, &mut Program) -> bool) -> Vec<(String, Program)> {
    each(
        &program.events,
        |index, _| {
            let mut mutant = program.clone();
            f(program, EventId(index as u32), &mut mutant).then_some(mutant)
        },
        |event| event.name.to_string(),
    )
}

/// A program for each event whose `wait` is `f` of itself, where that is another expression.
fn wait_changed(program: &Program, f: impl Fn(&Dim) -> Dim) -> Vec<(String, Program)> {
    events(program, |program, id, mutant| {
        let wait = f(&program.event(id).wait);
        let event = &mut mutant.events[id.0 as usize];
        std::mem::replace(&mut event.wait, wait) != event.wait
    })
}

fn wait_more(program: &Program) -> Vec<(String, Program)> {
    wait_changed(program, |wait| wait + 1)
}

fn wait_less(program: &Program) -> Vec<(String, Program)> {
    wait_changed(program, |wait| wait - 1)
}

fn wait_zero(program: &Program) -> Vec<(String, Program)> {
    wait_changed(program, |_| Dim::constant(0))
}

/// Where `wait` cannot be 0 this changes nothing.
fn wait_at_least_one(program: &Program) -> Vec<(String, Program)> {
    let may_be_zero = |wait: &Dim| ["L", "min(1, l)", "ceildiv(S, 4)"].contains(&wait.to_string().as_str());
    wait_changed(program, |wait| if may_be_zero(wait) { wait.max(1) } else { wait.clone() })
}

fn wait_doubled(program: &Program) -> Vec<(String, Program)> {
    wait_changed(program, |wait| wait * 2)
}

/// The dim with each rounding up as a rounding down.
fn rounded_down(dim: &Dim) -> Dim {
    dim.to_string().replace("ceildiv(", "floordiv(").parse().expect("a dim")
}

/// A program for each coordinate of a family that no repeat has, its extent changed by `f`, where that differs.
fn extents(program: &Program, f: impl Fn(&Dim) -> Dim) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for (index, family) in program.families.iter().enumerate() {
        for (at, (name, extent)) in family.coordinates.iter().enumerate() {
            let changed = f(extent);
            // An update of a part of a state is an ordinary program.
            let updates = family.notifies.is_empty()
                && family.writes.iter().all(|access| {
                    matches!(program.buffer(access.buffer).kind, BufferKind::Param(ParamKind::State))
                });
            if changed != *extent && name.as_str() != "l" && !(updates && is_less(&changed, extent)) {
                let mut mutant = program.clone();
                mutant.families[index].coordinates[at].1 = changed;
                found.push((format!("{} {name}", family.name), mutant));
            }
        }
    }
    found
}

fn ragged_family(program: &Program) -> Vec<(String, Program)> {
    extents(program, rounded_down)
}

fn ragged_event(program: &Program) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for (index, event) in program.events.iter().enumerate() {
        for (at, (name, extent)) in event.axes.iter().enumerate() {
            let changed = rounded_down(extent);
            if changed != *extent {
                let mut mutant = program.clone();
                mutant.events[index].axes[at].1 = changed;
                found.push((format!("{} {name}", event.name), mutant));
            }
        }
    }
    found
}

fn ragged_wait(program: &Program) -> Vec<(String, Program)> {
    wait_changed(program, rounded_down)
}

fn larger_tiles(program: &Program) -> Vec<(String, Program)> {
    extents(program, |extent| extent.to_string().replace(", 4)", ", 6)").parse().expect("a dim"))
}

fn one_task_less(program: &Program) -> Vec<(String, Program)> {
    extents(program, |extent| extent - 1)
}

/// Whether the first is below the second where the second is large.
fn is_less(a: &Dim, b: &Dim) -> bool {
    let at = |dim: &Dim| {
        let sizes: BTreeMap<Symbol, i64> = dim.symbols().into_iter().map(|symbol| (symbol, 61)).collect();
        dim.eval(&sizes).expect("a value")
    };
    at(a) < at(b)
}

/// Where a task past the end touches nothing, notifies nothing, and waits for the cells of the task before, it makes no
/// difference.
fn one_task_more(program: &Program) -> Vec<(String, Program)> {
    let mut found = extents(program, |extent| extent + 1);
    let idle = |name: &str| {
        let (family, coordinate) = name.split_once(' ').expect("two names");
        let family = program.families.iter().find(|other| other.name.as_str() == family).expect("a family");
        family.notifies.is_empty() && waits_within(family, &Symbol::new(coordinate))
    };
    found.retain(|(name, _)| !idle(name));
    found
}

/// Whether all waits of a family mean cells that exist, or none, for one value more of a coordinate.
fn waits_within(family: &Family, coordinate: &Symbol) -> bool {
    family.waits.iter().flat_map(|edge| &edge.index).all(|index| match index {
        EdgeIndex::Range { hi, .. } => hi.to_string().starts_with("min(") || !hi.mentions(coordinate),
        EdgeIndex::Affine(cell) => !cell.mentions(coordinate),
        _ => false,
    })
}

fn mentions(family: &Family, dim: &Dim) -> bool {
    family.coordinates.iter().any(|(name, _)| dim.mentions(name))
}

/// An index that varies with the task's own coordinates, moved by one.
fn shifted(index: &EdgeIndex, by: i64) -> Option<EdgeIndex> {
    match index {
        EdgeIndex::Affine(cell) if cell.as_constant().is_none() => Some(EdgeIndex::Affine(cell + by)),
        EdgeIndex::Quotient(cell) => Some(EdgeIndex::Quotient(cell + by)),
        _ => None,
    }
}

fn shift_edges(program: &Program, side: fn(&mut Family) -> &mut Vec<Edge>) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for by in [1, -1] {
        for axis in 0..2 {
            found.extend(edges(program, side, |_, _, at, edges| {
                let Some(index) = edges[at].index.get_mut(axis) else { return false };
                let Some(moved) = shifted(index, by) else { return false };
                *index = moved;
                true
            }));
        }
    }
    found
}

fn wait_shifted(program: &Program) -> Vec<(String, Program)> {
    shift_edges(program, waits)
}

fn notify_shifted(program: &Program) -> Vec<(String, Program)> {
    shift_edges(program, notifies)
}

/// The neighbouring cell, but for the first or last one the cell itself, so that no cell lies outside.
fn wait_shifted_inside(program: &Program) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for up in [true, false] {
        found.extend(edges(program, waits, |program, family, at, edges| {
            let extent = |axis: usize| program.event(edges[at].event).axes[axis].1.clone();
            let moving = edges[at].index.iter().rposition(|index| match index {
                EdgeIndex::Affine(cell) => mentions(family, cell),
                _ => false,
            });
            let Some(axis) = moving else { return false };
            let EdgeIndex::Affine(cell) = edges[at].index[axis].clone() else { return false };
            let other =
                if up { (&cell + 1).min(extent(axis) - 1) } else { (&cell - 1).max(Dim::constant(0)) };
            edges[at].index[axis] = EdgeIndex::Range { lo: other.clone(), hi: other + 1 };
            true
        }));
    }
    found
}

/// A range without its last cell, or without its first.
fn shorter(index: &EdgeIndex) -> Vec<EdgeIndex> {
    match index {
        EdgeIndex::Range { lo, hi } => vec![
            EdgeIndex::Range { lo: lo.clone(), hi: hi - 1 },
            EdgeIndex::Range { lo: lo + 1, hi: hi.clone() },
        ],
        EdgeIndex::TableRange { lo, hi } => vec![
            EdgeIndex::TableRange { lo: lo.clone(), hi: hi - 1 },
            EdgeIndex::TableRange { lo: lo + 1, hi: hi.clone() },
        ],
        EdgeIndex::Gather { label, lo, hi, cell } => {
            let part =
                |lo: Dim, hi: Dim| EdgeIndex::Gather { label: label.clone(), lo, hi, cell: cell.clone() };
            vec![part(lo.clone(), hi - 1), part(lo + 1, hi.clone())]
        }
        EdgeIndex::Affine(_) | EdgeIndex::Quotient(_) => Vec::new(),
    }
}

fn shorter_edges(program: &Program, side: fn(&mut Family) -> &mut Vec<Edge>) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for end in 0..2 {
        found.extend(edges(program, side, |_, _, at, edges| {
            let Some(axis) = edges[at].index.iter().position(|index| !shorter(index).is_empty()) else {
                return false;
            };
            let index = shorter(&edges[at].index[axis]).swap_remove(end);
            edges[at].index[axis] = index;
            true
        }));
    }
    found
}

fn fewer_cells(program: &Program) -> Vec<(String, Program)> {
    shorter_edges(program, waits)
}

fn fewer_notified(program: &Program) -> Vec<(String, Program)> {
    shorter_edges(program, notifies)
}

/// Neighbouring steps of which the second waits for the first.
fn rank_swapped(program: &Program) -> Vec<(String, Program)> {
    fn swapped(program: &Program, steps: &[Step]) -> Vec<Vec<Step>> {
        let mut found = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            if let Step::Repeat { coordinate, extent, steps: inner } = step {
                for inner in swapped(program, inner) {
                    let mut new = steps.to_vec();
                    new[at] =
                        Step::Repeat { coordinate: coordinate.clone(), extent: extent.clone(), steps: inner };
                    found.push(new);
                }
            }
            let Some(next) = steps.get(at + 1) else { continue };
            let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
            collect(program, step, &mut |family| {
                before.extend(family.notifies.iter().map(|edge| edge.event))
            });
            collect(program, next, &mut |family| after.extend(family.waits.iter().map(|edge| edge.event)));
            if before.intersection(&after).next().is_some() {
                let mut new = steps.to_vec();
                new.swap(at, at + 1);
                found.push(new);
            }
        }
        found
    }
    fn collect(program: &Program, step: &Step, f: &mut dyn FnMut(&Family)) {
        match step {
            Step::Family(id) => f(program.family(*id)),
            Step::Repeat { steps, .. } => steps.iter().for_each(|step| collect(program, step, f)),
        }
    }
    let mutant = |(index, steps)| (format!("steps {index}"), Program { steps, ..program.clone() });
    swapped(program, &program.steps).into_iter().enumerate().map(mutant).collect()
}

/// The number of tasks of a family.
fn tasks(family: &Family) -> Dim {
    family.coordinates.iter().map(|(_, extent)| extent.clone()).product()
}

/// A new event without axes that the second family notifies and the first waits for; where the second may have no
/// task while the first has one, nothing closes, but the edge still goes down in rank wherever both have tasks.
fn cycle(program: &Program) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for first in 0..program.families.len() {
        for second in first + 1..program.families.len() {
            let mut mutant = program.clone();
            let event = EventId(program.events.len() as u32);
            mutant.events.push(Event {
                name: Symbol::new("back"),
                axes: Vec::new(),
                wait: tasks(&program.families[second]),
                scope: Scope::System,
            });
            mutant.families[first].waits.push(Edge { event, index: Vec::new() });
            mutant.families[second].notifies.push(Edge { event, index: Vec::new() });
            let (a, b) = (&program.families[first].name, &program.families[second].name);
            found.push((format!("{a} waits for {b}"), mutant));
        }
    }
    found
}

fn waits_for_itself(program: &Program) -> Vec<(String, Program)> {
    each(
        &program.families,
        |index, family| {
            let mut mutant = program.clone();
            let event = EventId(program.events.len() as u32);
            mutant.events.push(Event {
                name: Symbol::new("own"),
                axes: Vec::new(),
                wait: tasks(family),
                scope: Scope::System,
            });
            mutant.families[index].waits.push(Edge { event, index: Vec::new() });
            mutant.families[index].notifies.push(Edge { event, index: Vec::new() });
            Some(mutant)
        },
        |family| family.name.to_string(),
    )
}

fn narrow_scope(program: &Program) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for scope in [Scope::Core, Scope::Cluster] {
        found.extend(events(program, |_, id, mutant| {
            mutant.events[id.0 as usize].scope = scope;
            true
        }));
    }
    found
}

/// Every access of a family that its body makes, each axis one index shorter at either end. A single index of two
/// ends has one shorter form.
fn understated(program: &Program, write: bool) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for (index, family) in program.families.iter().enumerate() {
        let accesses = if write { &family.writes } else { &family.reads };
        for (at, access) in accesses.iter().enumerate() {
            for (axis, Interval { lo, hi }) in access.region.iter().enumerate() {
                let mut parts = vec![Interval { lo: lo.clone(), hi: hi - 1 }];
                if *hi != lo + 1 {
                    parts.push(Interval { lo: lo + 1, hi: hi.clone() });
                }
                for part in parts {
                    let mut mutant = program.clone();
                    let family = &mut mutant.families[index];
                    let accesses = if write { &mut family.writes } else { &mut family.reads };
                    accesses[at].region[axis] = part;
                    found.push((format!("{} access {at} axis {axis}", family.name), mutant));
                }
            }
        }
    }
    found
}

fn undeclared(program: &Program) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for (index, family) in program.families.iter().enumerate() {
        for at in 0..family.reads.len() {
            let mut mutant = program.clone();
            mutant.families[index].reads.remove(at);
            found.push((format!("{} read {at}", family.name), mutant));
        }
        for at in 0..family.writes.len() {
            let mut mutant = program.clone();
            mutant.families[index].writes.remove(at);
            found.push((format!("{} write {at}", family.name), mutant));
        }
    }
    found
}

/// Every task of a family twice.
fn overlapping_writes(program: &Program) -> Vec<(String, Program)> {
    each(
        &program.families,
        |index, _| {
            let mut mutant = program.clone();
            mutant.families[index].coordinates.push((Symbol::new("twice"), Dim::constant(2)));
            Some(mutant)
        },
        |family| family.name.to_string(),
    )
}

/// A temporary one element into another, so that no tile lies on a tile. The single elements of `total` and the
/// offsets of `routed` are alone in their families and in order with everything.
fn early_reuse(program: &Program) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for (a, buffer) in program.buffers.iter().enumerate() {
        for (b, other) in program.buffers.iter().enumerate() {
            let (BufferKind::Temporary { .. }, BufferKind::Temporary { offset }) =
                (&buffer.kind, &other.kind)
            else {
                continue;
            };
            if a == b || program.name.as_str() == "total" {
                continue;
            }
            let mut mutant = program.clone();
            mutant.buffers[a].kind = BufferKind::Temporary { offset: offset + 4 };
            mutant.arena = &program.arena + 4 + &program.arena;
            found.push((format!("{} over {}", buffer.name, other.name), mutant));
        }
    }
    found
}

fn temporaries(program: &Program, f: impl Fn(&mut Dim, &mut Tier)) -> Vec<(String, Program)> {
    each(
        &program.buffers,
        |index, _| {
            let mut mutant = program.clone();
            let buffer = &mut mutant.buffers[index];
            let BufferKind::Temporary { offset } = &mut buffer.kind else { return None };
            f(offset, &mut buffer.tier);
            Some(mutant)
        },
        |buffer| buffer.name.to_string(),
    )
}

fn arena_small(program: &Program) -> Vec<(String, Program)> {
    let has = program.buffers.iter().any(|buffer| matches!(buffer.kind, BufferKind::Temporary { .. }));
    let mutant = Program { arena: &program.arena - 1, ..program.clone() };
    let half = Program { arena: program.arena.floor_div(2), ..program.clone() };
    if has { vec![("by one".to_string(), mutant), ("by half".to_string(), half)] } else { Vec::new() }
}

fn before_arena(program: &Program) -> Vec<(String, Program)> {
    temporaries(program, |offset, _| *offset = &*offset - 4096)
}

/// One byte further; a buffer of bytes is aligned anywhere.
fn unaligned(program: &Program) -> Vec<(String, Program)> {
    let mut found = temporaries(program, |offset, _| *offset = &*offset + 1);
    found.retain(|(name, _)| {
        let id = program.find_buffer(&Symbol::new(name)).expect("a buffer of this name");
        program.buffer(id).dtype.bytes() > 1
    });
    found.iter_mut().for_each(|(_, mutant)| mutant.arena = &mutant.arena + 4);
    found
}

fn near_shared(program: &Program) -> Vec<(String, Program)> {
    temporaries(program, |_, tier| *tier = Tier::Near)
}

/// The first load of what a task writes, done before the waits.
fn hoisted(program: &Program) -> Vec<(String, Program)> {
    let written: BTreeSet<BufferId> =
        program.families.iter().flat_map(|family| &family.writes).map(|access| access.buffer).collect();
    let mut found = Vec::new();
    for (index, family) in program.families.iter().enumerate() {
        let load = family.body.nodes.iter().position(|node| match node {
            Node::Load(load) => {
                let name = &family.body.values[load.source.0 as usize].name;
                let id = program.find_buffer(name).expect("a buffer");
                let is_state = matches!(program.buffer(id).kind, BufferKind::Param(_));
                let by_table = load.index.iter().any(|dim| !dim.tables().is_empty());
                (written.contains(&id) && !is_state) || by_table
            }
            _ => false,
        });
        let Some(at) = load else { continue };
        let mut mutant = program.clone();
        let body: &mut Body = &mut mutant.families[index].body;
        let node = body.nodes.remove(at);
        body.prologue.push(node);
        // A table of the caller may be read at any time.
        let reads_parameters_only = family.waits.is_empty();
        if !reads_parameters_only {
            found.push((family.name.to_string(), mutant));
        }
    }
    found
}

/// An edge that reads a table that a task writes comes before the wait for that task.
fn waits_reversed(program: &Program) -> Vec<(String, Program)> {
    let written: BTreeSet<BufferId> =
        program.families.iter().flat_map(|family| &family.writes).map(|access| access.buffer).collect();
    let reads_written = |edge: &Edge| {
        edge.index.iter().any(|index| match index {
            EdgeIndex::TableRange { lo, .. } => lo
                .tables()
                .iter()
                .any(|table| program.find_buffer(table).is_some_and(|id| written.contains(&id))),
            _ => false,
        })
    };
    each(
        &program.families,
        |index, family| {
            let mut mutant = program.clone();
            mutant.families[index].waits.reverse();
            (family.waits.len() > 1 && family.waits.last().is_some_and(reads_written)).then_some(mutant)
        },
        |family| family.name.to_string(),
    )
}

fn edge_forms(program: &Program) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for side in [waits as fn(&mut Family) -> &mut Vec<Edge>, notifies] {
        for form in 0..3 {
            found.extend(edges(program, side, |_, family, at, edges| {
                let Some((name, _)) = family.coordinates.last() else { return false };
                let Some(index) = edges[at].index.last_mut() else { return false };
                *index = match form {
                    0 => EdgeIndex::Affine(Dim::symbol(name).floor_div(2)),
                    1 => EdgeIndex::Quotient(Dim::symbol(name).modulo(2)),
                    _ => EdgeIndex::TableRange { lo: Dim::symbol(name), hi: Dim::symbol(name) + 1 },
                };
                true
            }));
        }
    }
    found
}

fn family_left_out(program: &Program) -> Vec<(String, Program)> {
    each(
        &program.families,
        |index, _| {
            let mut mutant = program.clone();
            remove(&mut mutant.steps, FamilyId(index as u32));
            Some(mutant)
        },
        |family| family.name.to_string(),
    )
}

fn remove(steps: &mut Vec<Step>, id: FamilyId) {
    steps.retain(|step| *step != Step::Family(id));
    for step in steps {
        if let Step::Repeat { steps, .. } = step {
            remove(steps, id);
        }
    }
}

fn family_twice(program: &Program) -> Vec<(String, Program)> {
    each(
        &program.families,
        |index, _| {
            let mut mutant = program.clone();
            mutant.steps.push(Step::Family(FamilyId(index as u32)));
            Some(mutant)
        },
        |family| family.name.to_string(),
    )
}

/// The steps of a repeat without the repeat, and under another coordinate.
fn repeat_dropped(program: &Program) -> Vec<(String, Program)> {
    let mut found = Vec::new();
    for (at, step) in program.steps.iter().enumerate() {
        let Step::Repeat { extent, steps, .. } = step else { continue };
        let coordinate = Symbol::new("other");
        let renamed =
            Step::Repeat { coordinate: coordinate.clone(), extent: extent.clone(), steps: steps.clone() };
        let mut mutant = program.clone();
        mutant.steps[at] = renamed;
        found.push(("renamed".to_string(), mutant));
        let mut mutant = program.clone();
        let nested = Step::Repeat { coordinate, extent: Dim::constant(2), steps: vec![step.clone()] };
        mutant.steps[at] = nested;
        found.push(("nested".to_string(), mutant));
    }
    found
}

fn family_removed(program: &Program) -> Vec<(String, Program)> {
    each(
        &program.families,
        |index, _| {
            let mut mutant = program.clone();
            mutant.families.remove(index);
            remove(&mut mutant.steps, FamilyId(index as u32));
            renumber(&mut mutant.steps, index as u32);
            // The updated state of `cache` is a result that has contents without the update.
            let is_update = program.families[index].writes.iter().all(|access| {
                matches!(program.buffer(access.buffer).kind, BufferKind::Param(ParamKind::State))
            });
            (!is_update).then_some(mutant)
        },
        |family| family.name.to_string(),
    )
}

fn renumber(steps: &mut [Step], removed: u32) {
    for step in steps {
        match step {
            Step::Family(FamilyId(id)) if *id > removed => *id -= 1,
            Step::Family(_) => {}
            Step::Repeat { steps, .. } => renumber(steps, removed),
        }
    }
}

fn parameter_written(program: &Program) -> Vec<(String, Program)> {
    each(
        &program.buffers,
        |index, buffer| {
            let mut mutant = program.clone();
            let access = Access { buffer: BufferId(index as u32), region: text::whole_region(buffer) };
            mutant.families[0].writes.push(access);
            matches!(buffer.kind, BufferKind::Param(kind) if kind != ParamKind::State).then_some(mutant)
        },
        |buffer| buffer.name.to_string(),
    )
}

fn unknown_symbol(program: &Program) -> Vec<(String, Program)> {
    let mut found = wait_changed(program, |wait| wait + Dim::symbol("nobody"));
    found.extend(extents(program, |extent| extent + Dim::symbol("nobody")));
    found.extend(temporaries(program, |offset, _| *offset = &*offset + Dim::symbol("nobody")));
    found
}

fn indices_missing(program: &Program) -> Vec<(String, Program)> {
    let drop = |_: &Program, _: &Family, at: usize, edges: &mut Vec<Edge>| edges[at].index.pop().is_some();
    let mut found = edges(program, waits, drop);
    found.extend(edges(program, notifies, drop));
    found
}

fn same_names(program: &Program) -> Vec<(String, Program)> {
    let mut mutant = program.clone();
    if let [first, .., last] = &mut mutant.families[..] {
        last.name = first.name.clone();
    }
    let mut other = program.clone();
    if let [first, .., last] = &mut other.buffers[..] {
        last.name = first.name.clone();
    }
    vec![("families".to_string(), mutant), ("buffers".to_string(), other)]
}

/// The mutations that are wrong wherever they apply, whatever else orders a program.
const ALWAYS_WRONG: &[&str] = &[
    "missing notify",
    "notify twice",
    "wait one more",
    "wait one less",
    "wait doubled",
    "cycle",
    "waits for itself",
    "narrow scope",
    "arena too small",
    "unaligned",
    "form of an edge",
    "family left out",
    "family run twice",
    "parameter written",
    "unknown symbol",
    "indices missing",
    "two of one name",
];

/// The programs of the folder `programs`, lowered.
fn lowered() -> Vec<Program> {
    use tilewright::{block, journal::Journal, task, tensor};
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "tensor"));
    let lower = |file: &std::path::PathBuf| {
        let source = std::fs::read_to_string(file).expect("a text");
        let tensor =
            tensor::text::parse(&file.to_string_lossy(), &source).unwrap_or_else(|error| panic!("{error}"));
        let (target, mut journal) = (Target::portable(), Journal::new());
        let block =
            block::lower::lower(&tensor, &target, &mut journal).unwrap_or_else(|error| panic!("{error}"));
        task::lower::lower(&block, &target, &mut journal).unwrap_or_else(|error| panic!("{error}"))
    };
    files.iter().take(6).map(lower).collect()
}

#[test]
fn wrong_lowered_programs_are_refused_too() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for program in lowered() {
        for mutation in MUTATIONS.iter().filter(|mutation| ALWAYS_WRONG.contains(&mutation.name)) {
            // A few of each are enough: lowered programs have many edges.
            let mutants = (mutation.mutants)(&program);
            let every = mutants.len().div_ceil(6).max(1);
            for (place, mutant) in mutants.into_iter().step_by(every) {
                count += 1;
                match verify(&mutant, &Target::portable()) {
                    Err(violation) if mutation.reasons.contains(&violation.reason) => {}
                    other => wrong.push(format!("{}: {}, {place}: {other:?}", mutation.name, program.name)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 100, "only {count} mutants");
}

fn all_mutants() -> Vec<Mutant> {
    let mut found = Vec::new();
    for (name, source) in texts() {
        let program = parse(&name, &source);
        for mutation in MUTATIONS {
            for (place, mutant) in (mutation.mutants)(&program) {
                found.push(Mutant {
                    name: format!("{}: {name}, {place}", mutation.name),
                    program: mutant,
                    reasons: mutation.reasons,
                });
            }
        }
        for (of, from, to, reasons) in REPLACEMENTS {
            if *of == name {
                assert!(source.contains(from), "{name} does not contain {from}");
                let program = parse(&name, &source.replace(from, to));
                found.push(Mutant { name: format!("{from} -> {to}: {name}"), program, reasons });
            }
        }
    }
    found
}

#[test]
fn wrong_programs_are_refused_with_the_right_reason() {
    let mutants = all_mutants();
    let mut wrong = Vec::new();
    let mut reasons: BTreeMap<Reason, usize> = BTreeMap::new();
    for mutant in &mutants {
        match verify(&mutant.program, &Target::portable()) {
            Ok(_) => wrong.push(format!("ACCEPTED {}", mutant.name)),
            Err(violation) => {
                *reasons.entry(violation.reason).or_default() += 1;
                if !mutant.reasons.contains(&violation.reason) {
                    wrong
                        .push(format!("{} is refused with {:?}: {violation}", mutant.name, violation.reason));
                }
            }
        }
    }
    println!("{} mutants: {reasons:?}", mutants.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), mutants.len(), wrong.join("\n"));
    assert!(mutants.len() >= 300, "only {} mutants", mutants.len());
    let names: BTreeSet<&str> = MUTATIONS.iter().map(|mutation| mutation.name).collect();
    for name in names {
        assert!(mutants.iter().any(|mutant| mutant.name.starts_with(name)), "no mutant of `{name}`");
    }
}
