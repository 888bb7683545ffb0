//! `slice x over a from e size n`: the `n` elements from position `e` on along axis `a`. The position may depend on
//! other axes; what lies outside the operand is 0.

use super::site::{index_of, pointwise, read, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::Dim;
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;
use crate::tensor::storage;

/// The operator.
pub static SLICE: Special = Special {
    name: "slice",
    operands: (1, 1),
    keywords: &[("over", AttributeKind::Labels), ("from", AttributeKind::Dim), ("size", AttributeKind::Dim)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "slice x over a from e size n: n elements from position e on along axis a; 0 outside",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (ty, over) = (site.tensor(0)?, site.axis(0, 0)?);
    let (from, size) = (site.position_along(1, ty, over)?, site.dim(2)?);
    let mut axes = ty.axes.clone();
    let label = Dim::symbol(axes[over].name.clone());
    let inside =
        || site.facts.nonneg(from).is_yes() && site.facts.le(&(from + size), &axes[over].extent).is_yes();
    let depends = |k: &usize| storage::depends_on(ty, *k, site.facts).contains(&over);
    if let Some(k) = (over + 1..axes.len()).find(depends)
        && !inside()
    {
        return Err(format!(
            "the extent of `{}` depends on `{}`, and `{from}` to `{}` is not known to lie inside `{}`",
            axes[k].name,
            axes[over].name,
            from + size,
            axes[over].extent
        ));
    }
    axes[over].extent = size.clone();
    let mut index = index_of(ty);
    index[over] = label + from;
    for axis in &mut axes[over + 1..] {
        axis.extent = site.at(&axis.extent, ty, &index);
    }
    site.settle(vec![TensorType { dtype: ty.dtype, axes }], stated)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let (ty, over, result) = (site.tensor(0)?, site.axis(0, 0)?, single(results)?);
    let mut index = index_of(result);
    index[over] = site.at(site.dim(1)?, ty, &index) + &index[over];
    Ok(pointwise(result, vec![read(0, index)], Expr::Read(0)))
}
