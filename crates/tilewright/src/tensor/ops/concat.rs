//! `concat x y over a`: two or three operands one behind the other along axis `a`. All have the same labels.

use super::site::{index_of, pointwise, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::{Cond, Dim};
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::meaning::apply;
use crate::tensor::nest::{Expr, Read};

/// The operator.
pub static CONCAT: Special = Special {
    name: "concat",
    operands: (2, 3),
    keywords: &[("over", AttributeKind::Labels)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "concat x y over a: two or three operands one behind the other along axis a",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (first, over) = (site.tensor(0)?, site.axis(0, 0)?);
    site.independent(first, over)?;
    let mut total = Dim::constant(0);
    for k in 0..site.types.len() {
        let ty = site.tensor(k)?;
        if ty.dtype != first.dtype {
            return Err(format!("the operands are {} and {}; `cast` one", first.dtype, ty.dtype));
        }
        if ty.labels() != first.labels() {
            return Err("the operands must have the same labels in the same order; write `x[i, j]`".into());
        }
        let other = |(at, (a, b)): (usize, (&Axis, &Axis))| {
            (at != over && !site.facts.equal(&a.extent, &b.extent).is_yes()).then_some((a.clone(), b.clone()))
        };
        if let Some((a, b)) = first.axes.iter().zip(&ty.axes).enumerate().find_map(other) {
            return Err(format!("axis `{}` has extents `{}` and `{}`", a.name, a.extent, b.extent));
        }
        site.independent(ty, over)?;
        total = total + &ty.axes[over].extent;
    }
    let mut axes = first.axes.clone();
    axes[over].extent = total;
    site.settle(vec![TensorType { dtype: first.dtype, axes }], stated)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let (over, result) = (site.axis(0, 0)?, single(results)?);
    let index = index_of(result);
    let mut start = Dim::constant(0);
    let mut reads = Vec::new();
    let mut ends = Vec::new();
    for k in 0..site.types.len() {
        let end = &start + &site.tensor(k)?.axes[over].extent;
        let mut at = index.clone();
        at[over] = &index[over] - &start;
        let when = Cond::all([Cond::ge(&index[over], &start), Cond::lt(&index[over], &end)]);
        reads.push(Read { operand: k, index: at, when });
        ends.push(end.clone());
        start = end;
    }
    let mut body = Expr::Read(reads.len().saturating_sub(1));
    for k in (0..reads.len().saturating_sub(1)).rev() {
        let here = Expr::Holds(Cond::lt(&index[over], &ends[k]));
        body = apply("select", vec![here, Expr::Read(k), body], result.dtype)?;
    }
    Ok(pointwise(result, reads, body))
}
