//! `perm, offsets = group keys size E`: a stable counting sort of integer keys. `perm` lists the positions of the keys
//! 0, then of the keys 1, and so on to `E - 1`, then of all keys outside `0..E`. `offsets` has `E + 2` elements: where
//! each group starts, where the keys outside start, and the number of keys. So `offsets` splits the keys into `E + 1`
//! parts, which is a fact: an axis `offsets[e + 1] - offsets[e]` with `e` below `E` is ragged.

use super::{AttributeKind, Meaning, Problem, Site, Special, Splits};
use crate::dim::Dim;
use crate::tensor::array::{Array, Data};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Axis, TensorType};

/// The operator.
pub static GROUP: Special = Special {
    name: "group",
    operands: (1, 1),
    keywords: &[("size", AttributeKind::Dim)],
    infer,
    meaning: |_, _| Ok(Meaning::Opaque { axis: 0 }),
    opaque: Some(group),
    splits: Some(splits),
    doc: "perm, offsets = group keys size E: positions sorted by key, and where each of the E groups starts",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    site.table(0)?;
    let keys = site.tensor(0)?;
    let [axis] = keys.axes.as_slice() else { return Err("the keys have one axis; `reshape` them".into()) };
    if !site.facts.nonneg(site.dim(0)?).is_yes() {
        return Err(format!("`{}` is not known to be at least 0", site.dim(0)?));
    }
    let part = Axis { name: "part".into(), extent: site.dim(0)? + 2 };
    let of = |axis: &Axis| TensorType { dtype: DType::I32, axes: vec![axis.clone()] };
    site.settle(vec![of(axis), of(&part)], stated)
}

fn splits(operands: &[TensorType], results: &[TensorType]) -> Option<Splits> {
    let keys = operands.first()?.axes.first()?;
    let offsets = results.get(1)?.axes.first()?;
    Some(Splits { result: 1, parts: &offsets.extent - 1, total: Dim::from(&keys.extent) })
}

fn group(operands: &[&Array], _: usize, results: &[(DType, Vec<usize>)]) -> Vec<Array> {
    let make = || {
        let Data::Int(keys) = &operands.first()?.data else { return None };
        let [(perm_type, perm), (offsets_type, offsets)] = results else { return None };
        let groups = offsets.first()?.checked_sub(2)?;
        let group = |key: &i64| usize::try_from(*key).ok().filter(|key| *key < groups).unwrap_or(groups);
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|&position| group(&keys[position]));
        let mut starts = vec![0i64; groups + 2];
        for key in keys {
            starts[group(key) + 1] += 1;
        }
        for k in 0..=groups {
            starts[k + 1] += starts[k];
        }
        let mut permutation = Array::filled(*perm_type, perm, Scalar::Int(0));
        order.iter().enumerate().for_each(|(k, &p)| permutation.set(k, Scalar::Int(p as i64)));
        let offsets = Array { dtype: *offsets_type, extents: offsets.clone(), data: Data::Int(starts) };
        Some(vec![permutation, offsets])
    };
    make().unwrap_or_default()
}
