//! `iota to i32 -> [i: S]`: 0, 1, 2, … along one axis.

use super::site::{index_of, one, pointwise, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::Dim;
use crate::tensor::dtype::DType;
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::meaning::index;

/// The operator.
pub static IOTA: Special = Special {
    name: "iota",
    operands: (0, 0),
    keywords: &[("to", AttributeKind::DType)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "iota to i32 -> [i: S]: 0, 1, 2, … along one axis",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let axes = one(stated)?;
    let dtype = site.dtype(0, &[])?;
    if dtype == DType::Bool {
        return Err("positions are no truth values; compare them".into());
    }
    match axes {
        [axis] => site.settle(vec![TensorType { dtype, axes: vec![axis.clone()] }], None),
        _ => Err("`iota` has one axis; `broadcast` it to others".into()),
    }
}

fn meaning(_: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let result = single(results)?;
    let at = index_of(result).pop().unwrap_or_else(|| Dim::constant(0));
    Ok(pointwise(result, Vec::new(), index(at, result.dtype)?))
}
