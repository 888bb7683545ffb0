//! The cells of one axis: whose tiles they are, who notifies and who awaits which, and how many notify each.

use super::dims::{simplify, visit_elements};
use super::events::cell_facts;
use super::flatten::fresh;
use crate::dim::{Atom, Dim, Facts, Symbol};
use crate::task::ir::{EdgeIndex, Interval};
use std::collections::BTreeSet;

/// One side of a dependence.
pub(super) struct Side<'a> {
    /// The coordinates of the family, with their extents.
    pub coordinates: &'a [(Symbol, Dim)],
    /// How many of them are the same on both sides, or have axes of their own.
    pub fixed: usize,
    /// What is known of them.
    pub facts: &'a Facts,
}

/// An axis of an event.
pub(super) struct Axis {
    pub name: Symbol,
    pub extent: Dim,
    pub notify: EdgeIndex,
    pub await_at: EdgeIndex,
    /// How many values of the earlier side's coordinate notify a cell, over the axis's name.
    pub factor: Dim,
    /// The coordinate of the earlier side that the axis accounts for.
    pub coordinate: usize,
}

/// What an interval says of the coordinates that are free.
enum Form {
    /// The whole axis.
    Whole,
    /// The same for all values of them.
    Fixed,
    /// Inside `[size·c + offset, size·c + size + offset)` for one of them, and starting there.
    Tile { coordinate: usize, size: i64, offset: Dim },
    /// Anything else.
    Other,
}

/// The axes that a storage axis stands for, with the two intervals and the extent: itself, or the part and the index within
/// it where both intervals lie in parts of one offsets table.
pub(super) fn axes(
    earlier: &Side<'_>,
    later: &Side<'_>,
    a: &Interval,
    b: &Interval,
    extent: &Dim,
) -> Vec<(Interval, Interval, Dim)> {
    match (packed(earlier.facts, a), packed(later.facts, b)) {
        (Some(x), Some(y)) if x.table == y.table => {
            let splits = earlier.facts.splits(&x.table);
            let parts = splits.map_or_else(|| extent.clone(), |(parts, _)| parts.clone());
            vec![(x.part, y.part, parts), (x.within, y.within, extent.clone())]
        }
        _ => vec![(a.clone(), b.clone(), extent.clone())],
    }
}

/// An interval of a packed axis: which parts, and what within them (from 0 to `extent` where it is all).
struct Packed {
    table: Symbol,
    part: Interval,
    within: Interval,
}

fn packed(facts: &Facts, interval: &Interval) -> Option<Packed> {
    let (table, part) = offset(facts, &interval.lo)?;
    let (_, total) = facts.splits(&table)?;
    let start = Dim::element(table.clone(), vec![part.clone()]);
    let one = Interval { lo: part.clone(), hi: &part + 1 };
    let from = &interval.lo - &start;
    let to = &interval.hi - &start;
    let length = Dim::element(table.clone(), vec![&part + 1]) - &start;
    if from.is_zero() && to == length {
        return Some(Packed { table, part: one, within: Interval { lo: from, hi: total.clone() } });
    }
    if from.is_zero()
        && let Some((other, last)) = offset(facts, &interval.hi)
        && other == table
        && interval.hi == Dim::element(table.clone(), vec![last.clone()])
    {
        let within = Interval { lo: from, hi: total.clone() };
        return Some(Packed { table, part: Interval { lo: part, hi: last }, within });
    }
    // `min(v, length)` within part `e`: the bound by the length keeps it in the part.
    let Some(Atom::Min(args)) = to.as_atom() else { return None };
    let rest: Vec<Dim> = args.iter().filter(|arg| **arg != length).cloned().collect();
    let inside = rest.len() < args.len() && facts.nonneg(&from).is_yes();
    let hi = Dim::min_of(rest)?;
    let free = |dim: &Dim| dim.tables().is_empty();
    (inside && free(&from) && free(&hi)).then_some(Packed {
        table,
        part: one,
        within: Interval { lo: from, hi },
    })
}

/// The table and the index of the one element of an offsets table among the terms.
fn offset(facts: &Facts, dim: &Dim) -> Option<(Symbol, Dim)> {
    let mut found = None;
    for (coefficient, factors) in dim.terms() {
        if let ([Atom::Element(table, index)], 1) = (factors, coefficient)
            && let [index] = index.as_slice()
            && facts.splits(table).is_some()
            && found.replace((table.clone(), index.clone())).is_some()
        {
            return None;
        }
    }
    found
}

fn form(side: &Side<'_>, interval: &Interval, extent: &Dim) -> Form {
    let Interval { lo, hi } = interval;
    if lo.is_zero() && hi == extent {
        return Form::Whole;
    }
    // A coordinate that has an axis of its own moves, and none of its moves is a tile.
    let free: Vec<Symbol> = side.coordinates.iter().skip(side.fixed).map(|(name, _)| name.clone()).collect();
    let moves = |dim: &Dim| free.iter().any(|name| dim.mentions(name));
    if !moves(lo) && !moves(hi) {
        return Form::Fixed;
    }
    let Some(affine) = lo.affine(&free) else { return Form::Other };
    let mut moving = affine.coefficients.iter().enumerate().filter(|(_, c)| !c.is_zero());
    let (Some((at, coefficient)), None) = (moving.next(), moving.next()) else { return Form::Other };
    let Some(size) = coefficient.as_constant().filter(|&size| size > 0) else { return Form::Other };
    let end = lo + size;
    let ends = *hi == end
        || matches!(hi.as_atom(), Some(Atom::Min(args)) if args.contains(&end))
        || side.facts.le(hi, &end).is_yes();
    if ends { Form::Tile { coordinate: side.fixed + at, size, offset: affine.constant } } else { Form::Other }
}

/// The cells of an axis, or none where one cell counts everyone.
pub(super) fn cells(
    earlier: &Side<'_>,
    later: &Side<'_>,
    first: &Interval,
    second: &Interval,
    extent: &Dim,
    used: &BTreeSet<usize>,
    names: &mut BTreeSet<Symbol>,
) -> Option<Axis> {
    let later_form = form(later, second, extent);
    let Form::Tile { coordinate, size, offset } = form(earlier, first, extent) else { return None };
    if used.contains(&coordinate) || matches!(later_form, Form::Whole) {
        return None;
    }
    let fixed = |side: &Side<'_>, dim: &Dim| !side.coordinates.iter().any(|(name, _)| dim.mentions(name));
    if !fixed(earlier, &offset) || !offset.tables().is_empty() {
        return None;
    }
    if let Form::Tile { coordinate: c, size: later_size, offset: later_offset } = &later_form
        && offset.is_zero()
        && later_offset.is_zero()
    {
        return later_tiles(earlier, later, (coordinate, size), (*c, *later_size), extent, names);
    }
    earlier_tiles(earlier, later, (coordinate, size, &offset), second, names)
}

/// The later side's tiles as cells.
fn later_tiles(
    earlier: &Side<'_>,
    later: &Side<'_>,
    (p, a): (usize, i64),
    (c, b): (usize, i64),
    extent: &Dim,
    names: &mut BTreeSet<Symbol>,
) -> Option<Axis> {
    let (p_name, p_extent) = earlier.coordinates.get(p)?;
    let (c_name, c_extent) = later.coordinates.get(c)?;
    let name = fresh(names, c_name);
    let (tile, cell) = (Dim::symbol(p_name.clone()), Dim::symbol(name.clone()));
    let facts = cell_facts(later.facts, &name, c_extent);
    // Both sides' tiles cover the same: the last of one ends with the last of the other.
    let nested = match (b % a, a % b) {
        (0, _) => p_extent.ceil_div(b / a) == *c_extent,
        (_, 0) => c_extent.ceil_div(a / b) == *p_extent,
        _ => false,
    };

    // All of an axis, so that every tile begins inside it.
    let covered = extent.ceil_div(a) == *p_extent && extent.ceil_div(b) == *c_extent;

    let lo = (&tile * a).floor_div(b);
    let hi = (&tile * a + a).ceil_div(b);
    let single = hi == &lo + 1;
    let notify = if single && ((nested && b % a == 0) || earlier.facts.lt(&lo, c_extent).is_yes()) {
        EdgeIndex::cell(earlier.coordinates, lo)
    } else if covered {
        EdgeIndex::range(lo, Dim::min(&(&tile * a + a), extent).ceil_div(b))
    } else {
        EdgeIndex::range(lo, simplify(earlier.facts, &hi.min(c_extent.clone())))
    };

    let from = (&cell * b).floor_div(a);
    let to = (&cell * b + b).ceil_div(a);
    let one = to == &from + 1;
    let factor = if one && ((nested && a % b == 0) || facts.lt(&from, p_extent).is_yes()) {
        Dim::constant(1)
    } else if covered && b % a != 0 {
        Dim::min(&(&cell * b + b), extent).ceil_div(a) - &from
    } else {
        let count = simplify(&facts, &to.min(p_extent.clone())) - &from;
        let counted = (nested && b % a == 0) || facts.nonneg(&count).is_yes();
        if counted { count } else { Dim::max(&count, 0) }
    };
    Some(Axis {
        name,
        extent: c_extent.clone(),
        notify,
        await_at: EdgeIndex::Affine(Dim::symbol(c_name.clone())),
        factor,
        coordinate: p,
    })
}

/// The earlier side's tiles as cells, of which the later side awaits a range.
fn earlier_tiles(
    earlier: &Side<'_>,
    later: &Side<'_>,
    (p, a, offset): (usize, i64, &Dim),
    touched: &Interval,
    names: &mut BTreeSet<Symbol>,
) -> Option<Axis> {
    let (p_name, p_extent) = earlier.coordinates.get(p)?;
    let zero = Dim::constant(0);
    let lo = (&touched.lo - offset).floor_div(a);
    let hi = (&touched.hi - offset).ceil_div(a);
    let lo = if later.facts.nonneg(&lo).is_yes() { lo } else { simplify(later.facts, &lo.max(zero)) };
    let covered = later.facts.le(&(&touched.hi - offset), &(p_extent * a)).is_yes();
    let hi = if covered || later.facts.le(&hi, p_extent).is_yes() {
        hi
    } else {
        simplify(later.facts, &hi.min(p_extent.clone()))
    };
    let coordinates: Vec<Symbol> = later.coordinates.iter().map(|(name, _)| name.clone()).collect();
    if !is_bound(&lo, &coordinates) || !is_bound(&hi, &coordinates) {
        return None;
    }
    let name = fresh(names, p_name);
    let await_at = if hi == &lo + 1 && lo.tables().is_empty() && is_cell(&lo, &coordinates) {
        EdgeIndex::cell(later.coordinates, lo)
    } else {
        EdgeIndex::range(lo, hi)
    };
    Some(Axis {
        name,
        extent: p_extent.clone(),
        notify: EdgeIndex::Affine(Dim::symbol(p_name.clone())),
        await_at,
        factor: Dim::constant(1),
        coordinate: p,
    })
}

/// Whether a dim is a bound of an edge: a sum of multiples of coordinates, of quotients, minima, maxima and elements of
/// tables over such, and of what is the same for all tasks.
fn is_bound(dim: &Dim, names: &[Symbol]) -> bool {
    let free = |dim: &Dim| !names.iter().any(|name| dim.mentions(name));
    let mut elements_fit = true;
    visit_elements(dim, &mut |_, index| elements_fit &= index.iter().all(|dim| dim.tables().is_empty()));
    elements_fit
        && dim.terms().all(|(_, factors)| {
            let varies = |atom: &&Atom| names.iter().any(|name| mentions(atom, name));
            let varying: Vec<&Atom> = factors.iter().filter(varies).collect();
            varying.len() <= 1
                && varying.into_iter().all(|atom| match atom {
                    Atom::Symbol(_) => true,
                    Atom::FloorDiv(a, k) | Atom::CeilDiv(a, k) => is_bound(a, names) && free(k),
                    Atom::Min(args) | Atom::Max(args) | Atom::Element(_, args) => {
                        args.iter().all(|arg| is_bound(arg, names))
                    }
                    Atom::Mod(..) | Atom::Overflow => false,
                })
        })
}

/// Whether a dim is one cell of an edge: affine, or a sum of quotients of affine dims.
fn is_cell(dim: &Dim, names: &[Symbol]) -> bool {
    dim.terms().all(|(_, factors)| {
        let varies = |atom: &&Atom| names.iter().any(|name| mentions(atom, name));
        let varying: Vec<&Atom> = factors.iter().filter(varies).collect();
        varying.len() <= 1
            && varying.into_iter().all(|atom| match atom {
                Atom::Symbol(_) => true,
                Atom::FloorDiv(a, k) | Atom::CeilDiv(a, k) => {
                    a.affine(names).is_some() && !names.iter().any(|name| k.mentions(name))
                }
                _ => false,
            })
    })
}

fn mentions(atom: &Atom, name: &Symbol) -> bool {
    match atom {
        Atom::Symbol(symbol) => symbol == name,
        _ => atom.operands().into_iter().any(|dim| dim.mentions(name)),
    }
}
