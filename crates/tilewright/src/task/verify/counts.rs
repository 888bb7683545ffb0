//! Counts: the number of tasks that notify a cell, as an expression, and whether it is the cell's `wait` at all sizes.
//!
//! An edge map is a product of indices, one per axis of the event. Where each index depends on at most one coordinate,
//! and no coordinate on two indices, the coordinates that mean a given cell form a box, and their number is the product
//! of its sides times the extents of the coordinates that no index depends on. Everything else is left to enumeration.

use super::Checked;
use crate::dim::{Atom, Dim, Facts, Symbol};
use crate::task::ir::{Edge, EdgeIndex, Event, EventId, Family, Program};

/// For each event whether all its thresholds are proved.
pub(super) fn check<B>(program: &Program<B>) -> Vec<Checked> {
    let proved = |(index, event): (usize, &Event)| {
        if is_proved(program, EventId(index as u32), event) { Checked::Proved } else { Checked::Enumerated }
    };
    program.events.iter().enumerate().map(proved).collect()
}

fn is_proved<B>(program: &Program<B>, id: EventId, event: &Event) -> bool {
    // Cells are named apart from the coordinates of families, which may have the same names.
    let cell_name = |name: &Symbol| Symbol::new(&format!("cell {name}"));
    let axes: Vec<(Symbol, Dim)> = event.axes.iter().map(|(name, n)| (cell_name(name), n.clone())).collect();
    let is_axis = |symbol: &Symbol| event.axes.iter().any(|(name, _)| name == symbol);
    let wait = event.wait.substitute(&|symbol| is_axis(symbol).then(|| Dim::symbol(cell_name(symbol))));
    let claim = Claim { program, id, axes: &axes, wait };
    claim.holds(&program.facts, &mut Vec::new())
}

/// How many first cells of an axis are looked at one by one, where there is no proof for all at once.
const SINGLE_CELLS: i64 = 2;

/// That the tasks that notify a cell of an event are as many as it waits for.
struct Claim<'a, B> {
    program: &'a Program<B>,
    id: EventId,
    axes: &'a [(Symbol, Dim)],
    wait: Dim,
}

impl<B> Claim<'_, B> {
    /// Whether it holds for the cells whose first coordinates are given, by cases where need be.
    fn holds(&self, facts: &Facts, cells: &mut Vec<Dim>) -> bool {
        let Some((name, extent)) = self.axes.get(cells.len()) else { return self.is_proved(facts, cells) };
        let mut holds = |facts: &Facts, cell: Dim| {
            cells.push(cell);
            let holds = self.holds(facts, cells);
            cells.pop();
            holds
        };
        let from = |first: i64| facts.assume(name, Dim::constant(first), extent.clone());
        holds(&from(0), Dim::symbol(name))
            || ((0..SINGLE_CELLS).all(|cell| holds(facts, Dim::constant(cell)))
                && holds(&from(SINGLE_CELLS), Dim::symbol(name)))
    }

    fn is_proved(&self, facts: &Facts, cells: &[Dim]) -> bool {
        let at = |symbol: &Symbol| {
            let axis = self.axes.iter().position(|(name, _)| name == symbol)?;
            cells.get(axis).cloned()
        };
        let wait = self.wait.substitute(&at);
        [Form::Ends, Form::Differences].into_iter().any(|form| {
            let mut total = Dim::constant(0);
            for family in &self.program.families {
                for edge in family.notifies.iter().filter(|edge| edge.event == self.id) {
                    match count(facts, family, edge, cells, form) {
                        Some(count) => total = total + count,
                        None => return false,
                    }
                }
            }
            facts.equal(&total, &wait).is_yes()
        })
    }
}

/// How the length of the interval from the greatest of some dims to the least of others is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `min(ends) - max(starts)`
    Ends,
    /// `min(end - start, …)` over all pairs
    Differences,
}

/// The tasks of a family that an edge lets notify the given cell.
fn count<B>(facts: &Facts, family: &Family<B>, edge: &Edge, cells: &[Dim], form: Form) -> Option<Dim> {
    let names: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
    let mut starts: Vec<Vec<Dim>> = vec![vec![Dim::constant(0)]; names.len()];
    let mut ends: Vec<Vec<Dim>> = family.coordinates.iter().map(|(_, extent)| vec![extent.clone()]).collect();
    for (index, cell) in edge.index.iter().zip(cells) {
        for condition in conditions(index, cell)? {
            match condition.bound(facts, &names)? {
                Bound::Always => {}
                Bound::Never => return Some(Dim::constant(0)),
                Bound::From(at, start) => starts.get_mut(at)?.push(start),
                Bound::Below(at, end) => ends.get_mut(at)?.push(end),
            }
        }
    }
    let length = |(starts, ends): (Vec<Dim>, Vec<Dim>)| length(facts, starts, ends, form);
    starts.into_iter().zip(ends).map(length).product()
}

/// The number of integers from all of `starts` on and below all of `ends`.
fn length(facts: &Facts, starts: Vec<Dim>, ends: Vec<Dim>, form: Form) -> Option<Dim> {
    let starts = undominated(starts, |a, b| facts.le(a, b).is_yes());
    let ends = undominated(ends, |a, b| facts.le(b, a).is_yes());
    let pairs: Vec<Dim> = starts.iter().flat_map(|start| ends.iter().map(move |end| end - start)).collect();
    let never_negative = pairs.iter().all(|pair| facts.nonneg(pair).is_yes());
    let length = match form {
        Form::Ends => Dim::min_of(ends)? - Dim::max_of(starts)?,
        Form::Differences => Dim::min_of(pairs)?,
    };
    if never_negative { Some(length) } else { Dim::max_of([length, Dim::constant(0)]) }
}

/// The dims without those of which another says as much; of two that say the same, the later one stays.
fn undominated(dims: Vec<Dim>, is_dominated: impl Fn(&Dim, &Dim) -> bool) -> Vec<Dim> {
    let mut kept: Vec<Dim> = Vec::new();
    for dim in dims {
        kept.retain(|other| !is_dominated(other, &dim));
        if !kept.iter().any(|other| is_dominated(&dim, other)) {
            kept.push(dim);
        }
    }
    kept
}

/// `value <= limit` or `value > limit` for an expression of coordinates and a limit without any.
struct Condition {
    value: Dim,
    limit: Dim,
    at_most: bool,
}

/// What a condition says.
enum Bound {
    /// It always holds.
    Always,
    /// It never holds.
    Never,
    /// It holds where a coordinate is at least this.
    From(usize, Dim),
    /// It holds where a coordinate is below this.
    Below(usize, Dim),
}

/// When an index means the cell: all of these hold.
fn conditions(index: &EdgeIndex, cell: &Dim) -> Option<Vec<Condition>> {
    let (lo, hi) = match index {
        EdgeIndex::Affine(only) | EdgeIndex::Quotient(only) => (only.clone(), only + 1),
        EdgeIndex::Range { lo, hi } => (lo.clone(), hi.clone()),
        EdgeIndex::TableRange { .. } | EdgeIndex::Gather { .. } => return None,
    };
    let condition = |at_most: bool| move |value: Dim| Condition { value, limit: cell.clone(), at_most };
    let all = parts(&lo, true).into_iter().map(condition(true));
    Some(all.chain(parts(&hi, false).into_iter().map(condition(false))).collect())
}

/// The dims of which this one is the greatest (or the least): the operands of a maximum, also inside a quotient by a
/// positive constant, which rises with its numerator; or the dim itself.
fn parts(dim: &Dim, greatest: bool) -> Vec<Dim> {
    let offset = dim.constant_part();
    let rest = dim - offset;
    let inner: Vec<Dim> = match rest.as_atom() {
        Some(Atom::Max(args)) if greatest => args.iter().flat_map(|arg| parts(arg, greatest)).collect(),
        Some(Atom::Min(args)) if !greatest => args.iter().flat_map(|arg| parts(arg, greatest)).collect(),
        Some(Atom::FloorDiv(a, k)) if positive(k).is_some() => {
            parts(a, greatest).iter().map(|part| part.floor_div(k)).collect()
        }
        Some(Atom::CeilDiv(a, k)) if positive(k).is_some() => {
            parts(a, greatest).iter().map(|part| part.ceil_div(k)).collect()
        }
        _ => vec![rest],
    };
    inner.into_iter().map(|part| part + offset).collect()
}

impl Condition {
    /// The values of the one coordinate that decides; none where it is not of that kind.
    fn bound(&self, facts: &Facts, names: &[Symbol]) -> Option<Bound> {
        let used: Vec<usize> = (0..names.len()).filter(|&at| self.value.mentions(&names[at])).collect();
        match used.as_slice() {
            [] => self.decide(facts),
            [at] => self.solve(*at, &names[*at]),
            _ => None,
        }
    }

    fn decide(&self, facts: &Facts) -> Option<Bound> {
        let at_most = facts.le(&self.value, &self.limit);
        let holds = if self.at_most { at_most } else { at_most.negated() };
        if holds.is_yes() {
            Some(Bound::Always)
        } else if holds.is_no() {
            Some(Bound::Never)
        } else {
            None
        }
    }

    /// Solves for a coordinate with a positive constant coefficient, inside a quotient by a positive constant or not.
    fn solve(&self, at: usize, name: &Symbol) -> Option<Bound> {
        let names = std::slice::from_ref(name);
        let (inner, limit) = match self.value.affine(names) {
            Some(_) => (self.value.clone(), self.limit.clone()),
            None => {
                let offset = self.value.constant_part();
                let rest = &self.value - offset;
                let limit = &self.limit - offset;
                match rest.as_atom()? {
                    // floordiv(a, k) <= c exactly where a <= k*c + k - 1
                    Atom::FloorDiv(a, k) => (a.clone(), limit * positive(k)? + (positive(k)? - 1)),
                    // ceildiv(a, k) <= c exactly where a <= k*c
                    Atom::CeilDiv(a, k) => (a.clone(), limit * positive(k)?),
                    _ => return None,
                }
            }
        };
        let affine = inner.affine(names)?;
        let slope = positive(affine.coefficients.first()?)?;
        // slope*c + constant <= limit exactly where c < floordiv(limit - constant, slope) + 1
        let end = (limit - affine.constant).floor_div(slope) + 1;
        Some(if self.at_most { Bound::Below(at, end) } else { Bound::From(at, end) })
    }
}

fn positive(dim: &Dim) -> Option<i64> {
    dim.as_constant().filter(|k| *k > 0)
}
