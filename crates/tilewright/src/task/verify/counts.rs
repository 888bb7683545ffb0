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
    let cells: Vec<Dim> = event.axes.iter().map(|(name, _)| Dim::symbol(cell_name(name))).collect();
    let facts = event.axes.iter().fold(program.facts.clone(), |facts, (name, extent)| {
        facts.assume(cell_name(name), Dim::constant(0), extent.clone())
    });
    let is_axis = |symbol: &Symbol| event.axes.iter().any(|(name, _)| name == symbol);
    let wait = event.wait.substitute(&|symbol| is_axis(symbol).then(|| Dim::symbol(cell_name(symbol))));
    let mut total = Dim::constant(0);
    for family in &program.families {
        for edge in family.notifies.iter().filter(|edge| edge.event == id) {
            match count(&facts, family, edge, &cells) {
                Some(count) => total = total + count,
                None => return false,
            }
        }
    }
    facts.equal(&total, &wait).is_yes()
}

/// The tasks of a family that an edge lets notify the given cell.
fn count<B>(facts: &Facts, family: &Family<B>, edge: &Edge, cells: &[Dim]) -> Option<Dim> {
    let names: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
    let mut bounds: Vec<(Dim, Dim)> =
        family.coordinates.iter().map(|(_, extent)| (Dim::constant(0), extent.clone())).collect();
    for (index, cell) in edge.index.iter().zip(cells) {
        for condition in conditions(index, cell)? {
            match condition.bound(facts, &names)? {
                Bound::Always => {}
                Bound::Never => return Some(Dim::constant(0)),
                Bound::Coordinate(at, lo, hi) => {
                    let (old_lo, old_hi) = bounds.get(at)?.clone();
                    *bounds.get_mut(at)? = (greater(facts, old_lo, lo), lesser(facts, old_hi, hi));
                }
            }
        }
    }
    Some(bounds.into_iter().map(|(lo, hi)| greater(facts, hi - lo, Dim::constant(0))).product())
}

fn greater(facts: &Facts, a: Dim, b: Dim) -> Dim {
    if facts.le(&a, &b).is_yes() {
        b
    } else if facts.le(&b, &a).is_yes() {
        a
    } else {
        Dim::max_of([a.clone(), b]).unwrap_or(a)
    }
}

fn lesser(facts: &Facts, a: Dim, b: Dim) -> Dim {
    if facts.le(&a, &b).is_yes() {
        a
    } else if facts.le(&b, &a).is_yes() {
        b
    } else {
        Dim::min_of([a.clone(), b]).unwrap_or(a)
    }
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
    /// It holds for the values `lo..hi` of a coordinate; a missing end is that of the coordinate.
    Coordinate(usize, Dim, Dim),
}

/// When an index means the cell: all of these hold.
fn conditions(index: &EdgeIndex, cell: &Dim) -> Option<Vec<Condition>> {
    let (lo, hi) = match index {
        EdgeIndex::Affine(only) | EdgeIndex::Quotient(only) => (only.clone(), only + 1),
        EdgeIndex::Range { lo, hi } => (lo.clone(), hi.clone()),
        EdgeIndex::TableRange { .. } | EdgeIndex::Gather { .. } => return None,
    };
    let mut all = Vec::new();
    for value in parts(&lo, |atom| if let Atom::Max(args) = atom { Some(args) } else { None }) {
        all.push(Condition { value, limit: cell.clone(), at_most: true });
    }
    for value in parts(&hi, |atom| if let Atom::Min(args) = atom { Some(args) } else { None }) {
        all.push(Condition { value, limit: cell.clone(), at_most: false });
    }
    Some(all)
}

/// The operands of a minimum or maximum plus a constant, or the dim itself.
fn parts(dim: &Dim, operands: impl Fn(&Atom) -> Option<&Vec<Dim>>) -> Vec<Dim> {
    let offset = dim.constant_part();
    let rest = dim - offset;
    match rest.as_atom().and_then(operands) {
        Some(args) => args.iter().map(|arg| arg + offset).collect(),
        None => vec![dim.clone()],
    }
}

impl Condition {
    /// The values of the one coordinate that decides; none where it is not of that kind.
    fn bound(&self, facts: &Facts, names: &[Symbol]) -> Option<Bound> {
        let used: Vec<usize> = (0..names.len()).filter(|&at| self.value.mentions(&names[at])).collect();
        match used.as_slice() {
            [] => self.decide(facts),
            [at] => self.solve(facts, *at, &names[*at]),
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
    fn solve(&self, facts: &Facts, at: usize, name: &Symbol) -> Option<Bound> {
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
        let _ = facts;
        Some(if self.at_most {
            Bound::Coordinate(at, Dim::constant(0), end)
        } else {
            Bound::Coordinate(at, end, Dim::constant(i64::MAX))
        })
    }
}

fn positive(dim: &Dim) -> Option<i64> {
    dim.as_constant().filter(|k| *k > 0)
}
