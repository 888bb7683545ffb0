//! `transpose x -> [j, i]`: the axes in another order. Each axis of the result has the label of one of the operand.

use super::site::{index_of, one, pointwise, position, read, single};
use super::{Meaning, Problem, Site, Special};
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;

/// The operator.
pub static TRANSPOSE: Special = Special {
    name: "transpose",
    operands: (1, 1),
    keywords: &[],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "transpose x[i, j] -> [j, i]: the axes in another order",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let ty = site.tensor(0)?;
    let stated = one(stated)?;
    if stated.len() != ty.axes.len() {
        return Err(format!("{} axes are stated; the operand has {}", stated.len(), ty.axes.len()));
    }
    let mut axes = Vec::with_capacity(stated.len());
    for axis in stated {
        axes.push(ty.axes[position(ty, &axis.name)?].clone());
    }
    site.settle(vec![TensorType { dtype: ty.dtype, axes }], Some(&[stated.to_vec()]))
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let result = single(results)?;
    let index = index_of(site.tensor(0)?);
    Ok(pointwise(result, vec![read(0, index)], Expr::Read(0)))
}
