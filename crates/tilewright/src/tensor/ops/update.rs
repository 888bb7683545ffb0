//! `update cache new over C at pos`: the cache with a window overwritten: the elements of `new` from position `pos` on
//! along axis `C`. The position may depend on other axes and read integer tensors, such as `len[b]`; elements that
//! would fall outside the cache are dropped. A value at this level, in place below.

use super::site::{index_of, read, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::Cond;
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::{Expr, Nest};
use crate::tensor::storage::extents_at;

/// The operator.
pub static UPDATE: Special = Special {
    name: "update",
    operands: (2, 2),
    keywords: &[("over", AttributeKind::Labels), ("at", AttributeKind::Dim)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "update cache new over C at p: the cache with new written from position p on along C; dropped outside",
};

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (cache, new, over) = (site.tensor(0)?, site.tensor(1)?, site.axis(0, 0)?);
    if cache.dtype != new.dtype {
        return Err(format!("the cache is {} and what is written {}; `cast` it", cache.dtype, new.dtype));
    }
    site.independent(cache, over)?;
    if new.axes.len() != cache.axes.len() {
        return Err(format!("{} axes are written into {}", new.axes.len(), cache.axes.len()));
    }
    site.independent(new, over)?;
    for (k, (own, written)) in cache.axes.iter().zip(&new.axes).enumerate() {
        if k == over {
            continue;
        }
        if own.name != written.name || !site.facts.equal(&own.extent, &written.extent).is_yes() {
            return Err(format!(
                "axis {} is `{}: {}` in the cache and `{}: {}` in what is written; they must be one",
                k + 1,
                own.name,
                own.extent,
                written.name,
                written.extent
            ));
        }
    }
    site.position_along(1, cache, over)?;
    site.settle(vec![cache.clone()], stated)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let (cache, new, over) = (site.tensor(0)?, site.tensor(1)?, site.axis(0, 0)?);
    let result = single(results)?;
    let names = index_of(result);
    let mut axes: Vec<Axis> = Vec::with_capacity(result.axes.len());
    for (axis, extent) in result.axes.iter().zip(extents_at(new, &names, site.facts)) {
        axes.push(Axis { name: axis.name.clone(), extent });
    }
    let mut write = names.clone();
    write[over] = site.at(site.dim(1)?, cache, &names) + &names[over];
    Ok(Meaning::Nests(vec![Nest {
        rank: axes.len(),
        axes,
        reads: vec![read(1, names)],
        guard: Cond::True,
        masks: Vec::new(),
        body: Expr::Read(0),
        dtype: result.dtype,
        reduction: None,
        write,
        overwrites: Some(0),
    }]))
}
