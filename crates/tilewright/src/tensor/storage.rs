//! How values with dependent extents lie in memory.
//!
//! An axis with extent `off[e + 1] - off[e]`, where `e` is the name of an earlier axis of the type and `off splits T
//! over P` is a fact, is *ragged*. The first ragged axis of a type is *packed*: its storage extent is the total `T`,
//! axis `e` has no storage of its own, and the index is `off[e] + t`. Every other axis whose extent depends on an
//! earlier one is *padded* to a bound free of axis names. All other axes are dense. Storage is row-major over storage
//! axes; arrays in evaluation, buffers in tasks and files on disk are all in storage order.
//!
//! In an extent, a name that the facts declare is a size; any other name of an earlier axis is the index along it.

use super::ir::{Axis, Function, Op, TensorType};
use super::ops::{Operands, Problem};
use crate::dim::{Atom, Dim, Facts, Symbol};

/// The storage of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The storage extents, outermost first, over symbols of the program.
    pub extents: Vec<Dim>,
    /// For each of them whether it may exceed what the elements take: a padded axis, and every axis where a packed one
    /// has fewer parts than its table.
    pub padded: Vec<bool>,
    packed: Option<Packed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Packed {
    /// The position of `e` among the axes.
    part: usize,
    /// The position of the ragged axis.
    axis: usize,
    /// `off`.
    table: Symbol,
}

impl Storage {
    /// The storage of a value of `function`; an error says which extent has no bound.
    pub fn of(function: &Function, ty: &TensorType, facts: &Facts) -> Result<Storage, Problem> {
        Storage::with(ty, &facts_in(function, facts)?)
    }

    /// The storage of a type, with all facts at hand ([`facts_in`]).
    pub fn with(ty: &TensorType, facts: &Facts) -> Result<Storage, Problem> {
        let packed = find_packed(ty, facts)?;
        let mut extents = Vec::with_capacity(ty.axes.len());
        let mut padded = Vec::with_capacity(ty.axes.len());
        let parts_missing = packed.as_ref().is_some_and(|p| {
            let parts = facts.splits(&p.table).map(|(parts, _)| parts);
            parts.is_none_or(|parts| !facts.equal(parts, &ty.axes[p.part].extent).is_yes())
        });
        for (k, axis) in ty.axes.iter().enumerate() {
            let is_packed = packed.as_ref().is_some_and(|p| p.axis == k);
            if packed.as_ref().is_some_and(|p| p.part == k) {
                continue;
            }
            padded.push(parts_missing || (!is_packed && !depends_on(ty, k, facts).is_empty()));
            extents.push(match &packed {
                Some(p) if is_packed => total(&p.table, facts)?,
                _ => bound(ty, k, facts).ok_or_else(|| {
                    format!(
                        "the extent `{}` of axis `{}` depends on an index and has no bound that does not; \
                         bound it by `min`, or declare what its table splits",
                        axis.extent, axis.name
                    )
                })?,
            });
        }
        Ok(Storage { extents, padded, packed })
    }

    /// The storage index of an element, given the index along each axis of the type.
    pub fn index(&self, index: &[Dim]) -> Vec<Dim> {
        let at = |k: usize| index.get(k).cloned().unwrap_or_else(|| Dim::constant(0));
        (0..index.len())
            .filter_map(|k| match &self.packed {
                Some(p) if p.part == k => None,
                Some(p) if p.axis == k => Some(Dim::element(p.table.clone(), vec![at(p.part)]) + at(k)),
                _ => Some(at(k)),
            })
            .collect()
    }

    /// The extents, and for each whether it has padding.
    pub fn axes(&self) -> Vec<(Dim, bool)> {
        self.extents.iter().cloned().zip(self.padded.iter().copied()).collect()
    }

    /// The packed axis: the position of the axis of parts, of the ragged axis, and the offsets table.
    pub fn packed(&self) -> Option<(usize, usize, &Symbol)> {
        self.packed.as_ref().map(|p| (p.part, p.axis, &p.table))
    }
}

/// The facts of a program and those of the offsets that operators of `function` compute.
pub fn facts_in(function: &Function, facts: &Facts) -> Result<Facts, Problem> {
    let mut all = facts.clone();
    for node in &function.nodes {
        let Op::Special { operator, .. } = &node.op else { continue };
        let Some(rule) = operator.splits else { continue };
        let operands = Operands::of(function, &node.operands, facts)?;
        let results: Option<Vec<_>> =
            node.results.iter().map(|id| function.values.get(id.0 as usize)).collect();
        let results = results.ok_or_else(|| "a value is missing".to_string())?;
        let types: Vec<TensorType> = results.iter().map(|value| value.ty.clone()).collect();
        let Some(splits) = rule(&operands.types, &types) else { continue };
        let Some(value) = results.get(splits.result) else { continue };
        all.declare_splits(value.name.clone(), splits.parts, splits.total).map_err(|e| e.to_string())?;
    }
    Ok(all)
}

/// The positions of the earlier axes that the extent of axis `k` depends on.
pub fn depends_on(ty: &TensorType, k: usize, facts: &Facts) -> Vec<usize> {
    let Some(axis) = ty.axes.get(k) else { return Vec::new() };
    (0..k).filter(|&i| is_index(&ty.axes[i].name, facts) && axis.extent.mentions(&ty.axes[i].name)).collect()
}

/// Whether the name of an axis means the index along it in the extents of later axes.
fn is_index(name: &Symbol, facts: &Facts) -> bool {
    facts.range(name).is_none()
}

/// The type with its axes named by `labels`, in extents too.
pub fn relabel(ty: &TensorType, labels: &[Symbol], facts: &Facts) -> Result<TensorType, Problem> {
    if labels.len() != ty.axes.len() {
        return Err(format!("{} labels for {} axes; each axis has one label", labels.len(), ty.axes.len()));
    }
    let mut axes = Vec::with_capacity(labels.len());
    for (k, (axis, label)) in ty.axes.iter().zip(labels).enumerate() {
        let earlier = depends_on(ty, k, facts);
        if let Some(&i) = earlier.iter().find(|&&i| !is_index(&labels[i], facts)) {
            return Err(format!(
                "the label `{}` is a size, but an extent depends on it; use another label",
                labels[i]
            ));
        }
        let extent = axis.extent.substitute(&|symbol| {
            earlier.iter().find(|&&i| ty.axes[i].name == *symbol).map(|&i| Dim::symbol(labels[i].clone()))
        });
        axes.push(Axis { name: label.clone(), extent });
    }
    Ok(TensorType { dtype: ty.dtype, axes })
}

/// The extents of the axes at an index: names of axes replaced by the index along them.
pub fn extents_at(ty: &TensorType, index: &[Dim], facts: &Facts) -> Vec<Dim> {
    let at = |k: usize| {
        let earlier = depends_on(ty, k, facts);
        ty.axes[k].extent.substitute(&|symbol| {
            earlier.iter().find(|&&i| ty.axes[i].name == *symbol).and_then(|&i| index.get(i).cloned())
        })
    };
    (0..ty.axes.len()).map(at).collect()
}

/// The table and the index expression of an extent `off[x + 1] - off[x]`.
pub fn as_ragged(extent: &Dim) -> Option<(&Symbol, Dim)> {
    let terms: Vec<_> = extent.terms().collect();
    let [first, second] = terms.as_slice() else { return None };
    let (low, high) = match (first.0, second.0) {
        (-1, 1) => (first.1, second.1),
        (1, -1) => (second.1, first.1),
        _ => return None,
    };
    match (low, high) {
        ([Atom::Element(table, low)], [Atom::Element(other, high)]) => {
            match (low.as_slice(), high.as_slice()) {
                ([low], [high]) if table == other && *high == low + 1 && extent.constant_part() == 0 => {
                    Some((table, low.clone()))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn find_packed(ty: &TensorType, facts: &Facts) -> Result<Option<Packed>, Problem> {
    for (k, axis) in ty.axes.iter().enumerate() {
        let Some((table, part)) = as_ragged(&axis.extent) else { continue };
        let earlier = depends_on(ty, k, facts);
        let Some(&part) = earlier.iter().find(|&&i| part.as_symbol() == Some(&ty.axes[i].name)) else {
            continue;
        };
        let Some((parts, _)) = facts.splits(table) else {
            return Err(format!(
                "nothing says what `{table}` splits; declare `{table} splits T over {}`",
                ty.axes[part].extent
            ));
        };
        if !facts.le(&ty.axes[part].extent, parts).is_yes() {
            return Err(format!(
                "axis `{}` has extent `{}`, but `{table}` has `{parts}` parts",
                ty.axes[part].name, ty.axes[part].extent
            ));
        }
        return Ok(Some(Packed { part, axis: k, table: table.clone() }));
    }
    Ok(None)
}

fn total(table: &Symbol, facts: &Facts) -> Result<Dim, Problem> {
    let splits = facts.splits(table).ok_or_else(|| format!("nothing says what `{table}` splits"))?;
    Ok(splits.1.clone())
}

/// A dim that the extent of axis `k` never exceeds and that mentions no index; the extent itself where it is free.
pub fn bound(ty: &TensorType, k: usize, facts: &Facts) -> Option<Dim> {
    let extent = &ty.axes[k].extent;
    if depends_on(ty, k, facts).is_empty() {
        return Some(extent.clone());
    }
    let bound = Bounds { ty, rank: k, facts }.upper(extent)?;
    Some(if facts.nonneg(&bound).is_yes() { bound } else { Dim::max(&bound, 0) })
}

/// Bounds of dims over the indices of the first `rank` axes of a type.
struct Bounds<'a> {
    ty: &'a TensorType,
    rank: usize,
    facts: &'a Facts,
}

impl Bounds<'_> {
    fn axis(&self, symbol: &Symbol) -> Option<usize> {
        (0..self.rank).find(|&i| self.ty.axes[i].name == *symbol && is_index(symbol, self.facts))
    }

    fn is_free(&self, dim: &Dim) -> bool {
        !(0..self.rank).any(|i| {
            let name = &self.ty.axes[i].name;
            is_index(name, self.facts) && dim.mentions(name)
        })
    }

    fn upper(&self, dim: &Dim) -> Option<Dim> {
        if let Some((table, part)) = as_ragged(dim)
            && !self.is_free(&part)
            && let Some((_, total)) = self.facts.splits(table)
        {
            return Some(total.clone());
        }
        self.sum(dim, true)
    }

    fn lower(&self, dim: &Dim) -> Option<Dim> {
        self.sum(dim, false)
    }

    fn sum(&self, dim: &Dim, upper: bool) -> Option<Dim> {
        let mut sum = Dim::constant(dim.constant_part());
        for (coefficient, factors) in dim.terms() {
            let mut free = Dim::constant(coefficient);
            let mut dependent = None;
            for atom in factors {
                let as_dim = of_atom(atom);
                if self.is_free(&as_dim) {
                    free = free * as_dim;
                } else if dependent.replace(atom).is_some() {
                    return None;
                }
            }
            sum = sum
                + match dependent {
                    None => free,
                    Some(atom) if self.facts.nonneg(&free).is_yes() => free * self.atom(atom, upper)?,
                    Some(atom) if self.facts.nonneg(&-&free).is_yes() => free * self.atom(atom, !upper)?,
                    Some(_) => return None,
                };
        }
        Some(sum)
    }

    fn atom(&self, atom: &Atom, upper: bool) -> Option<Dim> {
        let side = |dim: &Dim| if upper { self.upper(dim) } else { self.lower(dim) };
        let positive =
            |dim: &Dim| (self.is_free(dim) && self.facts.lt(&Dim::constant(0), dim).is_yes()).then_some(());
        match atom {
            Atom::Symbol(symbol) => {
                let k = self.axis(symbol)?;
                if !upper {
                    return Some(Dim::constant(0));
                }
                Some(Bounds { rank: k, ..*self }.upper(&self.ty.axes[k].extent)? - 1)
            }
            Atom::Element(table, _) => {
                if let Some((lo, hi)) = self.facts.table_range(table) {
                    return Some(if upper { hi.clone() } else { lo.clone() });
                }
                let (_, total) = self.facts.splits(table)?;
                Some(if upper { total.clone() } else { Dim::constant(0) })
            }
            Atom::FloorDiv(a, b) => positive(b).and_then(|()| Some(side(a)?.floor_div(b))),
            Atom::CeilDiv(a, b) => positive(b).and_then(|()| Some(side(a)?.ceil_div(b))),
            Atom::Mod(_, b) => positive(b).map(|()| if upper { b - 1 } else { Dim::constant(0) }),
            Atom::Min(args) if upper => {
                let free = args.iter().filter(|arg| self.is_free(arg)).cloned();
                Dim::min_of(free).or_else(|| args.iter().find_map(|arg| self.upper(arg)))
            }
            Atom::Min(args) => {
                Dim::min_of(args.iter().map(|arg| self.lower(arg)).collect::<Option<Vec<_>>>()?)
            }
            Atom::Max(args) if upper => {
                Dim::max_of(args.iter().map(|arg| self.upper(arg)).collect::<Option<Vec<_>>>()?)
            }
            Atom::Max(args) => args.iter().find_map(|arg| self.lower(arg)),
            Atom::Overflow => None,
        }
    }
}

/// The dim that is this atom.
fn of_atom(atom: &Atom) -> Dim {
    let all = |args: &[Dim]| args.to_vec();
    match atom {
        Atom::Symbol(symbol) => Dim::symbol(symbol.clone()),
        Atom::Element(table, index) => Dim::element(table.clone(), all(index)),
        Atom::FloorDiv(a, b) => a.floor_div(b),
        Atom::CeilDiv(a, b) => a.ceil_div(b),
        Atom::Mod(a, b) => a.modulo(b),
        Atom::Min(args) => Dim::min_of(all(args)).unwrap_or_else(Dim::overflow),
        Atom::Max(args) => Dim::max_of(all(args)).unwrap_or_else(Dim::overflow),
        Atom::Overflow => Dim::overflow(),
    }
}
