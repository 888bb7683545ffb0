//! `ragged x -> [e: E, t: off[e + 1] - off[e], d: D]`: the axis `[T]` of the operand, which `off` splits, as one axis of
//! parts and one ragged axis. The elements stay where they are.

use super::site::{index_of, one, pointwise, read, single};
use super::{Meaning, Problem, Site, Special};
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;
use crate::tensor::storage::Storage;

/// The operator.
pub static RAGGED: Special = Special {
    name: "ragged",
    operands: (1, 1),
    keywords: &[],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "ragged x[T, D] -> [e: E, t: off[e + 1] - off[e], D]: an axis that off splits, as parts and a ragged axis",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let ty = site.tensor(0)?;
    let mut result = TensorType { dtype: ty.dtype, axes: one(stated)?.to_vec() };
    for axis in &mut result.axes {
        let label = axis.extent.as_symbol().filter(|symbol| site.facts.range(symbol).is_none());
        if let Some(own) = label.and_then(|label| ty.axes.iter().find(|own| own.name == *label)) {
            axis.extent = own.extent.clone();
        }
    }
    let storage = Storage::with(&result, site.facts)?;
    if storage.packed().is_none() {
        return Err("the result has no ragged axis, such as `t: off[e + 1] - off[e]`".into());
    }
    if storage.extents.len() != ty.axes.len() {
        return Err(format!(
            "{} axes give {}; the operand has {}",
            storage.extents.len(),
            result.axes.len(),
            ty.axes.len()
        ));
    }
    for (packed, axis) in storage.extents.iter().zip(&ty.axes) {
        if !site.facts.equal(packed, &axis.extent).is_yes() {
            return Err(format!(
                "axis `{}` has extent `{}`, and `{packed}` is needed",
                axis.name, axis.extent
            ));
        }
    }
    site.settle(vec![result], None)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let result = single(results)?;
    let index = Storage::with(result, site.facts)?.index(&index_of(result));
    Ok(pointwise(result, vec![read(0, index)], Expr::Read(0)))
}
