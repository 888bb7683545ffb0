//! `pad x over a before n after m with v`: `n` elements `v` before and `m` behind those of the operand along axis `a`.

use super::site::{index_of, pointwise, read, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::Cond;
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::meaning::{apply, literal};
use crate::tensor::nest::Expr;

/// The operator.
pub static PAD: Special = Special {
    name: "pad",
    operands: (1, 1),
    keywords: &[
        ("over", AttributeKind::Labels),
        ("before", AttributeKind::Dim),
        ("after", AttributeKind::Dim),
        ("with", AttributeKind::Scalar),
    ],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "pad x over a before n after m with v: n elements v before and m behind along axis a",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (ty, over) = (site.tensor(0)?, site.axis(0, 0)?);
    let (before, after) = (site.dim(1)?, site.dim(2)?);
    fits(site, ty.dtype)?;
    for amount in [before, after] {
        if !site.facts.nonneg(amount).is_yes() {
            return Err(format!("`{amount}` is not known to be at least 0"));
        }
    }
    site.independent(ty, over)?;
    let mut axes = ty.axes.clone();
    axes[over].extent = before + &axes[over].extent + after;
    site.settle(vec![TensorType { dtype: ty.dtype, axes }], stated)
}

/// The number as an element, if it is one.
fn fits(site: &Site, dtype: DType) -> Result<Scalar, Problem> {
    let value = site.scalar(3)?;
    let same_class = match value {
        Scalar::Bool(_) => dtype == DType::Bool,
        Scalar::Int(_) => dtype != DType::Bool,
        Scalar::Float(_) => dtype.is_float(),
    };
    if same_class { Ok(value) } else { Err(format!("{value:?} is no {dtype}")) }
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let (ty, over, result) = (site.tensor(0)?, site.axis(0, 0)?, single(results)?);
    let (before, value) = (site.dim(1)?, literal(fits(site, ty.dtype)?, ty.dtype)?);
    let mut index = index_of(result);
    let at = &index[over] - before;
    let extent = &ty.axes[over].extent;
    let inside = Cond::all([Cond::ge(&at, 0), Cond::lt(&at, extent)]);
    index[over] = at;
    let body = match value {
        Expr::Literal(Scalar::Float(zero)) if zero == 0.0 && zero.is_sign_positive() => Expr::Read(0),
        Expr::Literal(Scalar::Int(0) | Scalar::Bool(false)) => Expr::Read(0),
        value => apply("select", vec![Expr::Holds(inside), Expr::Read(0), value], ty.dtype)?,
    };
    Ok(pointwise(result, vec![read(0, index)], body))
}
