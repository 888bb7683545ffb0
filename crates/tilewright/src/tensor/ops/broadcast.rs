//! `broadcast x -> [i, j: T]`: the same elements along new axes. Axes of the result that have a label of the operand
//! are the operand's; the others are new.

use super::site::{index_of, one, pointwise, read, single};
use super::{Meaning, Problem, Site, Special};
use crate::dim::Symbol;
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;

/// The operator.
pub static BROADCAST: Special = Special {
    name: "broadcast",
    operands: (1, 1),
    keywords: &[],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "broadcast x[i] -> [i, j: T]: the same elements along new axes",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let ty = site.tensor(0)?;
    let stated = one(stated)?;
    if let Some(lost) = ty.axes.iter().find(|axis| !stated.iter().any(|s| s.name == axis.name)) {
        return Err(format!("the result lacks the axis `{}` of the operand", lost.name));
    }
    let own = |name: &Symbol| ty.axes.iter().find(|axis| axis.name == *name);
    let axes = stated.iter().map(|axis| own(&axis.name).unwrap_or(axis).clone()).collect();
    site.settle(vec![TensorType { dtype: ty.dtype, axes }], Some(&[stated.to_vec()]))
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let index = index_of(site.tensor(0)?);
    Ok(pointwise(single(results)?, vec![read(0, index)], Expr::Read(0)))
}
