//! `full 0.0 to f32 -> [i: S]`: one number or size everywhere; `-> []` makes a scalar.

use super::site::{one, pointwise, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Axis, Operand, TensorType};
use crate::tensor::meaning::{index, literal};

/// The operator.
pub static FULL: Special = Special {
    name: "full",
    operands: (1, 1),
    keywords: &[("to", AttributeKind::DType)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "full 0.0 to f32 -> [i: S]: one number or size everywhere",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let dtype = match site.operands.first() {
        Some(Operand::Literal(value)) => site.dtype(0, &[*value])?,
        Some(Operand::Dim(_)) => site.dtype(0, &[Scalar::Int(0)])?,
        _ => return Err("`full` takes a number or a size; `broadcast` a tensor".into()),
    };
    site.settle(vec![TensorType { dtype, axes: one(stated)?.to_vec() }], None)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let result = single(results)?;
    let body = match site.operands.first() {
        Some(Operand::Literal(value)) => literal(*value, result.dtype)?,
        Some(Operand::Dim(dim)) if result.dtype != DType::Bool => index(dim.clone(), result.dtype)?,
        _ => return Err("`full` takes a number or a size".into()),
    };
    Ok(pointwise(result, Vec::new(), body))
}
