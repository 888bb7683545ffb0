//! `topk x over E size k`: the `k` greatest elements along axis `E`, descending, and their indices. NaN counts as the
//! greatest; of equal elements (0 and -0 are) the one with the lower index comes first. Where there are fewer than `k`
//! elements, the rest is what an empty `max` and `argmax` give: -inf or the least integer, and -1.

use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::tensor::array::Array;
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::monoid;
use std::cmp::Ordering;

/// The operator.
pub static TOPK: Special = Special {
    name: "topk",
    operands: (1, 1),
    keywords: &[("over", AttributeKind::Labels), ("size", AttributeKind::Dim)],
    infer,
    meaning: |site, _| Ok(Meaning::Opaque { axis: site.storage_axis(site.tensor(0)?, site.axis(0, 0)?)? }),
    opaque: Some(topk),
    splits: None,
    doc: "values, indices = topk x over E size k: the k greatest along E, descending; equal ones by index, NaN first",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (ty, over) = (site.tensor(0)?, site.axis(0, 0)?);
    if ty.dtype == DType::Bool {
        return Err("truth values have no order; `cast` them".into());
    }
    site.storage_axis(ty, over)?;
    let mut axes = ty.axes.clone();
    axes[over].extent = site.dim(1)?.clone();
    let of = |dtype| TensorType { dtype, axes: axes.clone() };
    site.settle(vec![of(ty.dtype), of(DType::I32)], stated)
}

/// The order of descent: NaN first, then from great to small.
fn descending(a: Scalar, b: Scalar) -> Ordering {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => b.cmp(&a),
        (a, b) => {
            let (a, b) = (a.as_f64(), b.as_f64());
            b.partial_cmp(&a).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
        }
    }
}

fn topk(operands: &[&Array], axis: usize, results: &[(DType, Vec<usize>)]) -> Vec<Array> {
    let make = || {
        let x = operands.first()?;
        let [(dtype, extents), (index_type, _)] = results else { return None };
        let least = *(monoid::find("max")?.identity)(*dtype).first()?;
        let mut values = Array::filled(*dtype, extents, least);
        let mut indices = Array::filled(*index_type, extents, Scalar::Int(-1));
        let (count, size) = (*x.extents.get(axis)?, *extents.get(axis)?);
        let inner: usize = x.extents.get(axis + 1..)?.iter().product();
        let outer: usize = x.extents.get(..axis)?.iter().product();
        for o in 0..outer {
            for i in 0..inner {
                let at = |e: usize| x.get((o * count + e) * inner + i);
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by(|&a, &b| descending(at(a), at(b)));
                for (rank, &e) in order.iter().take(size).enumerate() {
                    let to = (o * size + rank) * inner + i;
                    values.set(to, at(e));
                    indices.set(to, Scalar::Int(e as i64));
                }
            }
        }
        Some(vec![values, indices])
    };
    make().unwrap_or_default()
}
