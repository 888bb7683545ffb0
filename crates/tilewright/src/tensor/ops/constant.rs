//! `const values 1.0, 2.0 to f32 -> [i: 2]`: a list of numbers along one axis.

use super::site::{index_of, one, pointwise, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::{Cond, Dim};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::meaning::{apply, literal};
use crate::tensor::nest::Expr;

/// The most numbers in a list.
pub const MAX_VALUES: usize = 4096;

/// The operator.
pub static CONST: Special = Special {
    name: "const",
    operands: (0, 0),
    keywords: &[("values", AttributeKind::Scalars), ("to", AttributeKind::DType)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "const values 1.0, 2.0 to f32 -> [i: 2]: a list of numbers along one axis",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let values = site.scalars(0)?;
    if values.len() > MAX_VALUES {
        return Err(format!(
            "{} numbers; at most {MAX_VALUES} can be listed, give more as a parameter",
            values.len()
        ));
    }
    let dtype = site.dtype(1, values)?;
    let [axis] = one(stated)? else { return Err("a list of numbers has one axis".into()) };
    let count = Dim::constant(values.len() as i64);
    if !site.facts.equal(&axis.extent, &count).is_yes() {
        return Err(format!("{count} numbers are listed, and `{}` has extent `{}`", axis.name, axis.extent));
    }
    site.settle(vec![TensorType { dtype, axes: vec![axis.clone()] }], None)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let result = single(results)?;
    let at = index_of(result).pop().unwrap_or_else(|| Dim::constant(0));
    Ok(pointwise(result, Vec::new(), choose(site.scalars(0)?, 0, &at, result.dtype)?))
}

/// `values[at - first]`, by halves.
fn choose(values: &[Scalar], first: i64, at: &Dim, dtype: DType) -> Result<Expr, Problem> {
    match values {
        [] => literal(Scalar::Int(0), dtype),
        [value] => literal(*value, dtype),
        _ => {
            let (low, high) = values.split_at(values.len() / 2);
            let middle = first + low.len() as i64;
            let left = choose(low, first, at, dtype)?;
            let right = choose(high, middle, at, dtype)?;
            apply("select", vec![Expr::Holds(Cond::lt(at, middle)), left, right], dtype)
        }
    }
}
