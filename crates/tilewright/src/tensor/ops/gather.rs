//! `gather table ids over V`: axis `V` of the table replaced by the axes of `ids`, whose elements choose the index
//! along it. A label that both have means the same index, so that `gather cache[b, p, d] ids[b, s] over p` is one
//! gather per `b`. Where an id lies outside the table, the result is 0.

use super::site::{index_of, pointwise, read, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::Dim;
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;
use crate::tensor::storage::depends_on;

/// The operator.
pub static GATHER: Special = Special {
    name: "gather",
    operands: (2, 2),
    keywords: &[("over", AttributeKind::Labels)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "gather table ids over V: axis V of the table chosen by the elements of ids; 0 where an id is outside",
};

/// The axes of the result, in order: those of the table, with those of `ids` that the table lacks in place of `over`.
fn axes<'a>(table: &'a TensorType, ids: &'a TensorType, over: usize) -> Vec<&'a Axis> {
    let lacks = |axis: &&Axis| !table.axes.iter().any(|own| own.name == axis.name);
    let mut found: Vec<&Axis> = Vec::new();
    for (k, axis) in table.axes.iter().enumerate() {
        if k == over {
            found.extend(ids.axes.iter().filter(lacks));
        } else {
            found.push(axis);
        }
    }
    found
}

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (table, ids, over) = (site.tensor(0)?, site.tensor(1)?, site.axis(0, 0)?);
    site.table(1)?;
    if ids.axes.iter().any(|axis| axis.name == table.axes[over].name) {
        return Err(format!("`{}` labels both the chosen axis and one of the ids", table.axes[over].name));
    }
    if let Some(k) = (0..table.axes.len()).find(|&k| depends_on(table, k, site.facts).contains(&over)) {
        return Err(format!("the extent of `{}` depends on the chosen axis", table.axes[k].name));
    }
    for axis in &ids.axes {
        let Some(own) = table.axes.iter().find(|own| own.name == axis.name) else { continue };
        if !site.facts.equal(&own.extent, &axis.extent).is_yes() {
            return Err(format!("axis `{}` has extents `{}` and `{}`", axis.name, own.extent, axis.extent));
        }
    }
    let axes = axes(table, ids, over).into_iter().cloned().collect();
    site.settle(vec![TensorType { dtype: table.dtype, axes }], stated)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let (table, ids, over) = (site.tensor(0)?, site.tensor(1)?, site.axis(0, 0)?);
    let result = single(results)?;
    let (order, names) = (axes(table, ids, over), index_of(result));
    let at = |axis: &Axis| {
        let k = order.iter().position(|known| known.name == axis.name);
        k.and_then(|k| names.get(k).cloned()).ok_or_else(|| format!("the result lacks `{}`", axis.name))
    };
    let id = ids.axes.iter().map(at).collect::<Result<Vec<_>, _>>()?;
    let mut index = Vec::with_capacity(table.axes.len());
    for (k, axis) in table.axes.iter().enumerate() {
        index.push(if k == over { Dim::element(site.table(1)?.clone(), id.clone()) } else { at(axis)? });
    }
    Ok(pointwise(result, vec![read(0, index)], Expr::Read(0)))
}
