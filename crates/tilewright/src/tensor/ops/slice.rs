//! `slice x over a from e size n`: the `n` elements from position `e` on along axis `a`. The position may depend on
//! other axes; what lies outside the operand is 0.

use super::site::{index_of, pointwise, read, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::Dim;
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;

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
