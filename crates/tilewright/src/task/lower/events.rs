//! Events, derived from what tasks touch: `docs/events.md` states the laws and the table that this file follows.

use super::flatten::{Flat, FlatFamily, fresh, slot};
use super::grid::{self, Side};
use super::region::{Accesses, Region, facts_of};
use crate::dim::{Dim, Facts, Symbol};
use crate::task::ir::{Edge, EdgeIndex, Event, EventId, Scope};
use std::collections::BTreeSet;

/// Events, and the edges of each family.
#[derive(Debug, Default)]
pub(super) struct Edges {
    pub events: Vec<Event>,
    pub waits: Vec<Vec<Edge>>,
    pub notifies: Vec<Vec<Edge>>,
}

/// How far apart in the repeats around both the two ends of an edge are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distance {
    /// The same iteration of all of them.
    Same,
    /// The same iteration of the first `level` of them, and this many iterations of the next.
    Carried { level: usize, by: i64 },
    /// The same iteration of the first `level` of them, and any later one of the next.
    Later { level: usize },
}

/// An access of a family.
#[derive(Clone, Copy)]
struct Touch<'a> {
    family: usize,
    region: &'a Region,
    writes: bool,
}

/// An event with both of its ends.
#[derive(Clone, Debug, PartialEq)]
struct Derived {
    axes: Vec<(Symbol, Dim)>,
    wait: Dim,
    notify: Vec<EdgeIndex>,
    await_at: Vec<EdgeIndex>,
    /// Whether a cell counts all tasks of the earlier side in an iteration.
    counts_all: bool,
}

/// Derives the events of a program; `accesses` are those of its families.
pub(super) fn derive(flat: &Flat, accesses: &[Accesses], scope: Scope) -> Edges {
    let count = flat.families.len();
    let mut edges =
        Edges { events: Vec::new(), waits: vec![Vec::new(); count], notifies: vec![Vec::new(); count] };
    let mut names = BTreeSet::new();
    let pairs = dependences(flat, accesses);
    let mut at = 0;
    while at < pairs.len() {
        let (earlier, later, distance) = (pairs[at].0.family, pairs[at].1.family, pairs[at].2);
        let same = |p: &&(Touch<'_>, Touch<'_>, Distance)| {
            (p.0.family, p.1.family, p.2) == (earlier, later, distance)
        };
        let group: Vec<_> = pairs[at..].iter().take_while(same).collect();
        at += group.len();
        let mut derived: Vec<Derived> = Vec::new();
        for (a, b, _) in group {
            let event = derive_one(flat, a, b, distance);
            if !derived.contains(&event) {
                derived.push(event);
            }
        }
        // Who waits for all tasks of the other side needs no finer event beside.
        if let Some(all) = derived.iter().position(|event| event.counts_all) {
            derived = vec![derived.swap_remove(all)];
        }
        for event in derived {
            add(flat, &mut edges, &mut names, scope, (earlier, later), event);
        }
    }
    for waits in &mut edges.waits {
        waits.sort_by_key(|edge| edge.index.iter().any(reads_table));
    }
    edges
}

/// Adds the event, or the later side to an event of the same cells.
fn add(
    flat: &Flat,
    edges: &mut Edges,
    names: &mut BTreeSet<Symbol>,
    scope: Scope,
    (earlier, later): (usize, usize),
    derived: Derived,
) {
    let known = edges.notifies[earlier].iter().find(|edge| {
        let event = &edges.events[edge.event.0 as usize];
        edge.index == derived.notify && event.axes == derived.axes && event.wait == derived.wait
    });
    let id = match known {
        Some(edge) => edge.event,
        None => {
            let id = EventId(edges.events.len() as u32);
            let name = fresh(names, &Symbol::from(format!("{}_done", flat.families[earlier].name)));
            edges.events.push(Event { name, axes: derived.axes, wait: derived.wait, scope });
            edges.notifies[earlier].push(Edge { event: id, index: derived.notify });
            id
        }
    };
    let edge = Edge { event: id, index: derived.await_at };
    if !edges.waits[later].contains(&edge) {
        edges.waits[later].push(edge);
    }
}

fn reads_table(index: &EdgeIndex) -> bool {
    matches!(index, EdgeIndex::TableRange { .. } | EdgeIndex::Gather { .. })
}

/// Every pair of accesses that must be ordered, with its distance; pairs of the same families and distance are
/// neighbours.
fn dependences<'a>(flat: &Flat, accesses: &'a [Accesses]) -> Vec<(Touch<'a>, Touch<'a>, Distance)> {
    let touches: Vec<Vec<Touch<'a>>> = (accesses.iter().enumerate())
        .map(|(family, accesses)| {
            let touch = |writes| move |region| Touch { family, region, writes };
            accesses.reads.iter().map(touch(false)).chain(accesses.writes.iter().map(touch(true))).collect()
        })
        .collect();
    let mut found = Vec::new();
    for (later, later_touches) in touches.iter().enumerate() {
        for (earlier, earlier_touches) in touches.iter().enumerate() {
            let common = common_repeats(&flat.families[earlier], &flat.families[later]);
            let mut here = Vec::new();
            for a in earlier_touches {
                for b in later_touches {
                    if a.region.buffer == b.region.buffer && (a.writes || b.writes) {
                        let distances = distances(flat, a, b, common);
                        here.extend(distances.into_iter().map(|distance| (*a, *b, distance)));
                    }
                }
            }
            let order = |distance: &Distance| match distance {
                Distance::Same => (0, 0),
                Distance::Carried { level, by } => (1 + level, *by),
                Distance::Later { level } => (1 + level, i64::MAX),
            };
            here.sort_by_key(|(_, _, distance)| order(distance));
            found.extend(here);
        }
    }
    found
}

/// How many repeats are around both.
fn common_repeats(a: &FlatFamily, b: &FlatFamily) -> usize {
    a.repeats.iter().zip(&b.repeats).take_while(|(a, b)| a == b).count()
}

/// At which distances `a` must come before `b`.
fn distances(flat: &Flat, a: &Touch<'_>, b: &Touch<'_>, common: usize) -> Vec<Distance> {
    let mut found = Vec::new();
    if a.family < b.family && !are_apart(flat, a, b, common, None) {
        found.push(Distance::Same);
    }
    for level in 0..common {
        if are_apart(flat, a, b, level, Some(level)) {
            continue;
        }
        let coordinates = &flat.families[a.family].coordinates;
        let (repeat, _) = &coordinates[level];
        if !mentions(a.region, repeat) && !mentions(b.region, repeat) {
            let inner = coordinates[level..common]
                .iter()
                .any(|(name, _)| mentions(a.region, name) || mentions(b.region, name));
            // In the same iteration `a` comes before `b`, and who writes comes before itself in the next.
            let implied = a.family < b.family && !inner;
            if !implied {
                found.push(Distance::Carried { level, by: 1 });
            }
        } else {
            match slot_distance(a.region, b.region, repeat) {
                // The same slot: as for memory that does not move, but every second iteration.
                Some(2) if a.family < b.family && level + 1 == common => {}
                Some(by) => found.push(Distance::Carried { level, by }),
                None => found.push(Distance::Later { level }),
            }
        }
    }
    found
}

fn mentions(region: &Region, name: &Symbol) -> bool {
    region.intervals.iter().any(|interval| interval.lo.mentions(name) || interval.hi.mentions(name))
}

/// The least distance at which slots `mod(repeat + a, 2)` meet, where the regions depend on the repeat by slots alone.
fn slot_distance(a: &Region, b: &Region, repeat: &Symbol) -> Option<i64> {
    let mut distance = None;
    for (a, b) in a.intervals.iter().zip(&b.intervals) {
        let touched = [&a.lo, &a.hi, &b.lo, &b.hi].into_iter().any(|dim| dim.mentions(repeat));
        if !touched {
            continue;
        }
        let single = a.hi == &a.lo + 1 && b.hi == &b.lo + 1;
        let (x, y) = (slot(&a.lo)?, slot(&b.lo)?);
        let shift = |x: &Dim| (x - Dim::symbol(repeat.clone())).as_constant();
        let here = match (shift(&x)? - shift(&y)?).rem_euclid(2) {
            1 => 1,
            _ => 2,
        };
        if !single || distance.is_some_and(|known| known != here) {
            return None;
        }
        distance = Some(here);
    }
    distance
}

/// Whether no task of `a` meets a task of `b`, where they share the first `shared` coordinates and `b` is at a later
/// value of the coordinate `carried`.
fn are_apart(flat: &Flat, a: &Touch<'_>, b: &Touch<'_>, shared: usize, carried: Option<usize>) -> bool {
    let mut facts = facts_of(flat, &flat.families[a.family]);
    let prime = |name: &Symbol| Symbol::from(format!("{name}'"));
    let own = flat.families[b.family].coordinates.iter().enumerate().skip(shared);
    let mut renamed = BTreeSet::new();
    for (k, (name, extent)) in own {
        let first = match carried {
            Some(level) if level == k => Dim::symbol(name.clone()) + 1,
            _ => Dim::constant(0),
        };
        facts = facts.assume(prime(name), first, extent);
        renamed.insert(name.clone());
    }
    let there = |dim: &Dim| dim.substitute(&|name| renamed.contains(name).then(|| Dim::symbol(prime(name))));
    a.region.intervals.iter().zip(&b.region.intervals).any(|(a, b)| {
        let (lo, hi) = (there(&b.lo), there(&b.hi));
        let slots = match (slot(&a.lo), slot(&lo)) {
            (Some(x), Some(y)) if a.hi == &a.lo + 1 && hi == &lo + 1 => {
                (x - y).as_constant().is_some_and(|d| d.rem_euclid(2) == 1)
            }
            _ => false,
        };
        slots || facts.le(&a.hi, &lo).is_yes() || facts.le(&hi, &a.lo).is_yes()
    })
}

/// The event of one dependence.
fn derive_one(flat: &Flat, a: &Touch<'_>, b: &Touch<'_>, distance: Distance) -> Derived {
    let (earlier, later) = (&flat.families[a.family], &flat.families[b.family]);
    let common = common_repeats(earlier, later);
    let fixed = match distance {
        Distance::Same => common,
        Distance::Carried { level, .. } | Distance::Later { level } => level + 1,
    };
    let mut event = Derived {
        axes: Vec::new(),
        wait: Dim::constant(1),
        notify: Vec::new(),
        await_at: Vec::new(),
        counts_all: false,
    };
    let mut names = BTreeSet::new();
    for (k, (name, extent)) in earlier.coordinates.iter().take(fixed).enumerate() {
        let at = Dim::symbol(name.clone());
        names.insert(name.clone());
        let (extent, notify, factor) = match distance {
            Distance::Carried { level, by } if level == k => {
                let first = Dim::min(&at.floor_div(by), 1);
                (extent + by, EdgeIndex::Affine(&at + by), first)
            }
            Distance::Later { level } if level == k => {
                let range = EdgeIndex::Range { lo: &at + 1, hi: extent.clone() };
                (extent.clone(), range, at.clone())
            }
            _ => (extent.clone(), EdgeIndex::Affine(at.clone()), Dim::constant(1)),
        };
        event.axes.push((name.clone(), extent));
        event.notify.push(notify);
        event.await_at.push(EdgeIndex::Affine(at));
        event.wait = event.wait * factor;
    }

    let earlier_facts = facts_of(flat, earlier);
    let later_facts = facts_of(flat, later);
    let mut used = BTreeSet::new();
    let sides = (
        Side { coordinates: &earlier.coordinates, fixed, facts: &earlier_facts },
        Side { coordinates: &later.coordinates, fixed, facts: &later_facts },
    );
    let extents = &flat.buffers[a.region.buffer].extents;
    for ((first, second), extent) in a.region.intervals.iter().zip(&b.region.intervals).zip(extents) {
        for (first, second, extent) in grid::axes(&sides.0, &sides.1, first, second, extent) {
            let axis = grid::cells(&sides.0, &sides.1, &first, &second, &extent, &used, &mut names);
            let Some(axis) = axis else { continue };
            used.insert(axis.coordinate);
            event.axes.push((axis.name, axis.extent));
            event.notify.push(axis.notify);
            event.await_at.push(axis.await_at);
            event.wait = event.wait * axis.factor;
        }
    }
    event.counts_all = used.is_empty() && !matches!(distance, Distance::Later { .. });
    for (k, (_, extent)) in earlier.coordinates.iter().enumerate().skip(fixed) {
        if !used.contains(&k) {
            event.wait = event.wait * extent;
        }
    }
    event
}

/// The facts about cells of an event axis.
pub(super) fn cell_facts(facts: &Facts, name: &Symbol, extent: &Dim) -> Facts {
    facts.assume(name, 0, extent)
}
