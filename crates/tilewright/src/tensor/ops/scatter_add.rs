//! `scatter_add src ids over T size N`: adds the element at each index along `T` to the one that `ids` names, in index
//! order; the axis has extent `N` afterwards. Ids outside `0..N` add nothing. Sums are made in `f64` (integers: exact
//! to 64 bits) and rounded once.

use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::tensor::array::{Array, Data};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Axis, TensorType};

/// The operator.
pub static SCATTER_ADD: Special = Special {
    name: "scatter_add",
    operands: (2, 2),
    keywords: &[("over", AttributeKind::Labels), ("size", AttributeKind::Dim)],
    infer,
    meaning: |site, _| Ok(Meaning::Opaque { axis: site.storage_axis(site.tensor(0)?, site.axis(0, 0)?)? }),
    opaque: Some(scatter_add),
    splits: None,
    doc: "scatter_add src ids over T size N: adds each element along T to the one that ids names; ids outside add nothing",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (src, ids, over) = (site.tensor(0)?, site.tensor(1)?, site.axis(0, 0)?);
    site.table(1)?;
    if src.dtype == DType::Bool {
        return Err("truth values are not added; `cast` them".into());
    }
    let [id] = ids.axes.as_slice() else {
        return Err("the ids have one axis, that of the chosen one".into());
    };
    if !site.facts.equal(&id.extent, &src.axes[over].extent).is_yes() {
        return Err(format!("there are `{}` ids for an extent of `{}`", id.extent, src.axes[over].extent));
    }
    site.storage_axis(src, over)?;
    let mut axes = src.axes.clone();
    axes[over].extent = site.dim(1)?.clone();
    site.settle(vec![TensorType { dtype: src.dtype, axes }], stated)
}

fn scatter_add(operands: &[&Array], axis: usize, results: &[(DType, Vec<usize>)]) -> Vec<Array> {
    let make = || {
        let (src, ids) = (operands.first()?, operands.get(1)?);
        let (dtype, extents) = results.first()?;
        let mut sums = Array::filled(*dtype, extents, Scalar::zero(*dtype));
        let (count, size) = (*src.extents.get(axis)?, *extents.get(axis)?);
        let inner: usize = src.extents.get(axis + 1..)?.iter().product();
        let outer: usize = src.extents.get(..axis)?.iter().product();
        let Data::Int(ids) = &ids.data else { return None };
        for o in 0..outer {
            for (t, id) in ids.iter().enumerate().take(count) {
                let Some(id) = usize::try_from(*id).ok().filter(|id| *id < size) else { continue };
                for i in 0..inner {
                    let (from, to) = ((o * count + t) * inner + i, (o * size + id) * inner + i);
                    match (&src.data, &mut sums.data) {
                        (Data::Float(x), Data::Float(sum)) => *sum.get_mut(to)? += x.get(from)?,
                        (Data::Int(x), Data::Int(sum)) => {
                            let sum = sum.get_mut(to)?;
                            *sum = sum.wrapping_add(*x.get(from)?);
                        }
                        _ => return None,
                    }
                }
            }
        }
        Some(sums)
    };
    make().into_iter().collect()
}
