//! `packed x`: the inverse of `ragged`: the axis of parts and the ragged axis as the one axis `[T]` in which they lie.
//! Elements of `T` that belong to no part of the operand are 0.

use super::site::{index_of, single};
use super::{Meaning, Problem, Site, Special};
use crate::dim::{Cond, Dim};
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::{Expr, Nest, Read};
use crate::tensor::storage::{Storage, depends_on};

/// The operator.
pub static PACKED: Special = Special {
    name: "packed",
    operands: (1, 1),
    keywords: &[],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "packed x -> [T, D]: the parts of a ragged value one behind the other; 0 where there is none",
};

/// The position of the axis of parts and of the ragged axis.
fn parts(site: &Site) -> Result<(usize, usize, Storage), Problem> {
    let ty = site.tensor(0)?;
    let storage = Storage::with(ty, site.facts)?;
    let Some((part, axis, _)) = storage.packed() else { return Err("the operand is not ragged".into()) };
    let other = |k: &usize| *k != axis && !depends_on(ty, *k, site.facts).is_empty();
    if let Some(k) = (0..ty.axes.len()).find(other) {
        return Err(format!("the extent of `{}` depends on another axis too", ty.axes[k].name));
    }
    Ok((part, axis, storage))
}

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let ty = site.tensor(0)?;
    let (part, _, storage) = parts(site)?;
    let names = ty.axes.iter().enumerate().filter(|(k, _)| *k != part).map(|(_, axis)| axis.name.clone());
    site.settle(vec![TensorType::new(ty.dtype, names.zip(storage.extents))], stated)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let ty = site.tensor(0)?;
    let (part, _, storage) = parts(site)?;
    let result = single(results)?;
    let table = storage.packed().map(|(_, _, table)| table);
    let all = table.and_then(|table| site.facts.splits(table)).map(|(parts, _)| parts.clone());
    let all = all.ok_or("nothing says what the offsets split")?;
    let index = index_of(ty);
    let own = &ty.axes[part].extent;
    let when = if site.facts.equal(own, &all).is_yes() { Cond::True } else { Cond::lt(&index[part], own) };
    let mut axes = ty.axes.clone();
    axes[part].extent = Dim::from(&all);
    Ok(Meaning::Nests(vec![Nest {
        rank: axes.len(),
        axes,
        write: storage.index(&index),
        reads: vec![Read { operand: 0, index, when }],
        guard: Cond::True,
        masks: Vec::new(),
        body: Expr::Read(0),
        dtype: result.dtype,
        reduction: None,
        overwrites: None,
    }]))
}
