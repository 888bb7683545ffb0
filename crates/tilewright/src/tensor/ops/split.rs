//! `split x over K by c`: axis `K` cut into parts of `c`: axes `s` of extent `ceildiv(K, c)` and `r` of extent
//! `min(c, K - s*c)`, the last part ragged.

use super::site::{index_of, pointwise, read, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::Dim;
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;
use crate::tensor::storage::depends_on;

/// The operator.
pub static SPLIT: Special = Special {
    name: "split",
    operands: (1, 1),
    keywords: &[("over", AttributeKind::Labels), ("by", AttributeKind::Dim)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "split x over K by c -> [s: ceildiv(K, c), r: min(c, K - s*c)]: an axis cut into parts of c",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (ty, over, by) = (site.tensor(0)?, site.axis(0, 0)?, site.dim(1)?);
    if !site.facts.lt(&Dim::constant(0), by).is_yes() {
        return Err(format!("the part size `{by}` is not known to be at least 1"));
    }
    if !depends_on(ty, over, site.facts).is_empty() {
        return Err(format!("the extent of `{}` depends on another axis", ty.axes[over].name));
    }
    let extent = &ty.axes[over].extent;
    let part = Dim::symbol("s");
    let position = &part * by + Dim::symbol("r");
    let mut index = index_of(ty);
    index[over] = position;
    let mut axes = ty.axes[..over].to_vec();
    axes.push(Axis { name: "s".into(), extent: extent.ceil_div(by) });
    axes.push(Axis { name: "r".into(), extent: Dim::min(by, extent - part * by) });
    for axis in &ty.axes[over + 1..] {
        axes.push(Axis { name: axis.name.clone(), extent: site.at(&axis.extent, ty, &index) });
    }
    site.settle(vec![TensorType { dtype: ty.dtype, axes }], stated)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let (over, by, result) = (site.axis(0, 0)?, site.dim(1)?, single(results)?);
    let mut index = index_of(result);
    let rest = index.remove(over + 1);
    index[over] = &index[over] * by + rest;
    Ok(pointwise(result, vec![read(0, index)], Expr::Read(0)))
}
