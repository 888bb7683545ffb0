//! `reshape x -> [axes]`: splits and merges axes, row-major.
//!
//! Axes of the operand and of the result are grouped from the left: the shortest groups whose extents have provably
//! equal products. Within a group an index is a quotient and a remainder of the position; between groups nothing
//! moves. An axis whose extent depends on another stands in a group of its own. Axes that are known to hold nothing are
//! one group: there, any split of the extents has the right product.

use super::site::{index_of, one, pointwise, read, single};
use super::{Meaning, Problem, Site, Special};
use crate::dim::{Dim, Symbol};
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;
use crate::tensor::storage::depends_on;
use std::ops::Range;

/// The operator.
pub static RESHAPE: Special = Special {
    name: "reshape",
    operands: (1, 1),
    keywords: &[],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "reshape x -> [i: S, h: H, d: floordiv(D, H)]: splits and merges axes, row-major",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let ty = site.tensor(0)?;
    let mut result = TensorType { dtype: ty.dtype, axes: one(stated)?.to_vec() };
    // A bare label that is no size is the operand's axis of that name.
    for axis in &mut result.axes {
        let label = axis.extent.as_symbol().filter(|symbol| site.facts.range(symbol).is_none());
        if let Some(own) = label.and_then(|label| ty.axes.iter().find(|own| own.name == *label)) {
            axis.extent = own.extent.clone();
        }
    }
    groups(site, ty, &result)?;
    site.settle(vec![result], None)
}

/// Axes of the operand and of the result whose extents have one product.
type Group = (Range<usize>, Range<usize>);

/// The axes of the operand and of the result that belong together, from the left.
fn groups(site: &Site, from: &TensorType, to: &TensorType) -> Result<Vec<Group>, Problem> {
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    let mut names: Vec<(Symbol, Symbol)> = Vec::new();
    while i < from.axes.len() || j < to.axes.len() {
        let (a, b) = next(site, from, to, i, j, &names).ok_or_else(|| {
            let list = |axes: &[Axis]| {
                axes.iter().map(|axis| format!("`{}`", axis.extent)).collect::<Vec<_>>().join(", ")
            };
            format!(
                "extents {} of the operand and {} of the result are not known to have one product",
                list(&from.axes[i..]),
                list(&to.axes[j..])
            )
        })?;
        if (a, b) == (1, 1) {
            names.push((from.axes[i].name.clone(), to.axes[j].name.clone()));
        }
        found.push((i..i + a, j..j + b));
        (i, j) = (i + a, j + b);
    }
    Ok(found)
}

/// The product of the extents of axes.
fn product(axes: &[Axis]) -> Dim {
    axes.iter().map(|axis| axis.extent.clone()).product()
}

/// Whether axes are known to hold no element.
fn is_empty(site: &Site, axes: &[Axis]) -> bool {
    site.facts.equal(&product(axes), &Dim::constant(0)).is_yes()
}

/// The sizes of the next group: the fewest axes, of the operand first.
fn next(
    site: &Site,
    from: &TensorType,
    to: &TensorType,
    i: usize,
    j: usize,
    names: &[(Symbol, Symbol)],
) -> Option<(usize, usize)> {
    let (m, n) = (from.axes.len() - i, to.axes.len() - j);
    let dependent = |ty: &TensorType, k: usize| !depends_on(ty, k, site.facts).is_empty();
    let renamed = |extent: &Dim| {
        extent.substitute(&|symbol| {
            let new = names.iter().find(|(old, _)| old == symbol).map(|(_, new)| new);
            new.filter(|_| site.facts.range(symbol).is_none()).map(|new| Dim::symbol(new.clone()))
        })
    };
    let independent = (i..i + m).all(|k| !dependent(from, k)) && (j..j + n).all(|k| !dependent(to, k));
    if independent && is_empty(site, &from.axes[i..]) && is_empty(site, &to.axes[j..]) {
        return Some((m, n));
    }
    for total in 1..=m + n {
        for a in (total.saturating_sub(n)..=total.min(m)).rev() {
            let b = total - a;
            let alone = (a, b) == (1, 1);
            let depends = (i..i + a).any(|k| dependent(from, k)) || (j..j + b).any(|k| dependent(to, k));
            if depends && !alone {
                continue;
            }
            let left: Dim = from.axes[i..i + a].iter().map(|axis| renamed(&axis.extent)).product();
            let right = product(&to.axes[j..j + b]);
            if left == right || site.facts.equal(&left, &right).is_yes() {
                return Some((a, b));
            }
        }
    }
    None
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let (from, to) = (site.tensor(0)?, single(results)?);
    let names = index_of(to);
    let mut index = vec![Dim::constant(0); from.axes.len()];
    for (own, result) in groups(site, from, to)? {
        if own.len() > 1 && is_empty(site, &from.axes[own.clone()]) {
            continue;
        }
        let mut position = Dim::constant(0);
        for k in result {
            position = position * &to.axes[k].extent + &names[k];
        }
        let first = own.start;
        for k in own.rev() {
            let extent = &from.axes[k].extent;
            if k == first {
                index[k] = position.clone();
            } else {
                index[k] = position.modulo(extent);
                position = position.floor_div(extent);
            }
        }
    }
    Ok(pointwise(to, vec![read(0, index)], Expr::Read(0)))
}
