//! Near operators: what [`super::Compute`], [`super::Reduce`] and [`super::Contract`] mean on items, slow and obvious.
//!
//! An [`Item`] holds one element per position of its padded block, the element of label value `v` at `v - start`.
//! Only positions inside the clipped ranges are ever read or written; the others keep what [`unwritten`] says, so
//! that a use of one shows. Operators take the environment of the enclosing coordinates and know nothing of programs or memory.

use super::ir::{Argument, ItemType, Range};
use crate::dim::{Code, Cond, CondCode, Dim, Env, EvalError, Symbol};
use crate::error::Error;
use crate::tensor::eval::{Numerics, unwritten};
use crate::tensor::{Array, DType, Elementwise, Monoid, Scalar, elementwise};

/// The most elements that one item may have.
const MAX_ELEMENTS: usize = 1 << 28;

/// A block of elements at fixed coordinates.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Element type and ranges.
    pub ty: ItemType,
    /// The elements; its extents are the ranges' block sizes.
    pub array: Array,
}

/// A failed evaluation of an index expression as an error of the program.
pub fn undefined(error: EvalError) -> Error {
    match error {
        EvalError::Unbound(_) => bug(error.to_string()),
        EvalError::NoElement { ref table, .. } => {
            Error::Input { subject: table.to_string(), message: error.to_string() }
        }
        error => Error::Input { subject: "index".to_string(), message: error.to_string() },
    }
}

/// The error of a block program that its verifier should have refused.
pub fn bug(message: impl Into<String>) -> Error {
    Error::Bug { stage: "block", message: message.into() }
}

impl Item {
    /// An item whose every position holds `value`.
    pub fn filled(ty: &ItemType, value: Scalar) -> Result<Item, Error> {
        let mut extents = Vec::with_capacity(ty.ranges.len());
        let mut count = 1usize;
        for range in &ty.ranges {
            let size = usize::try_from(range.size).map_err(|_| bug("a negative block size"))?;
            count = count.saturating_mul(size);
            extents.push(size);
        }
        if count > MAX_ELEMENTS {
            return Err(bug(format!("an item of {count} elements")));
        }
        Ok(Item { ty: ty.clone(), array: Array::filled(ty.dtype, &extents, value) })
    }

    /// An item that nothing has written yet.
    pub fn fresh(ty: &ItemType) -> Result<Item, Error> {
        Item::filled(ty, unwritten(ty.dtype))
    }

    /// The element at offsets from the starts of its ranges.
    pub fn get(&self, offsets: &[usize]) -> Result<Scalar, Error> {
        Ok(self.array.get(self.place(offsets)?))
    }

    /// Sets the element at offsets from the starts of its ranges.
    pub fn set(&mut self, offsets: &[usize], value: Scalar) -> Result<(), Error> {
        let place = self.place(offsets)?;
        self.array.set(place, value);
        Ok(())
    }

    fn place(&self, offsets: &[usize]) -> Result<usize, Error> {
        let mut place = 0;
        for (offset, extent) in offsets.iter().zip(&self.array.extents) {
            if offset >= extent {
                return Err(bug("an element outside its item"));
            }
            place = place * extent + offset;
        }
        if offsets.len() == self.array.extents.len() {
            Ok(place)
        } else {
            Err(bug("an index of another rank"))
        }
    }

    /// For each label of a space, by how many positions of the item a step along it moves: 0 where the item lacks it.
    fn strides(&self, space: &Space) -> Result<Vec<usize>, Error> {
        let mut strides = vec![0; space.labels.len()];
        let mut stride = 1;
        for (range, extent) in self.ty.ranges.iter().zip(&self.array.extents).rev() {
            let axis = space.labels.iter().position(|label| *label == range.label);
            let axis = axis.ok_or_else(|| bug(format!("label `{}` is not in the result", range.label)))?;
            strides[axis] = stride;
            stride *= extent;
        }
        Ok(strides)
    }
}

/// The element at the offsets of a walk.
fn at(offsets: &[usize], strides: &[usize]) -> usize {
    offsets.iter().zip(strides).map(|(offset, stride)| offset * stride).sum()
}

/// What a walk calls: the label values, and their offsets from the starts.
pub type Visit<'a> = &'a mut dyn FnMut(&[i64], &[usize]) -> Result<(), Error>;

/// Ranges bound to an environment: the index tuples over which an operator runs.
pub struct Space {
    labels: Vec<Symbol>,
    bounds: Vec<(Code, i64, Code)>,
}

impl Space {
    /// The space of these ranges, outermost first; each label once, the first of its ranges counting.
    pub fn new<'r>(ranges: impl IntoIterator<Item = &'r Range>, env: &dyn Env) -> Result<Space, Error> {
        let mut distinct: Vec<&Range> = Vec::new();
        for range in ranges {
            if !distinct.iter().any(|other| other.label == range.label) {
                distinct.push(range);
            }
        }
        let labels: Vec<Symbol> = distinct.iter().map(|range| range.label.clone()).collect();
        let mut bounds = Vec::with_capacity(distinct.len());
        for (axis, range) in distinct.iter().enumerate() {
            let earlier = &labels[..axis];
            let start = Code::dim(&range.start, earlier, env).map_err(undefined)?;
            let end = Code::dim(&range.end, earlier, env).map_err(undefined)?;
            bounds.push((start, range.size, end));
        }
        Ok(Space { labels, bounds })
    }

    /// The labels, outermost first.
    pub fn labels(&self) -> &[Symbol] {
        &self.labels
    }

    /// Calls `f` for each index tuple in row-major order, with the label values and their offsets from the starts.
    pub fn walk(&self, env: &dyn Env, f: Visit<'_>) -> Result<(), Error> {
        let mut labels = vec![0; self.labels.len()];
        let mut offsets = vec![0; self.labels.len()];
        self.walk_from(0, &mut labels, &mut offsets, env, f)
    }

    fn walk_from(
        &self,
        axis: usize,
        labels: &mut [i64],
        offsets: &mut [usize],
        env: &dyn Env,
        f: Visit<'_>,
    ) -> Result<(), Error> {
        let Some((start, size, end)) = self.bounds.get(axis) else { return f(labels, offsets) };
        let first = start.eval(&labels[..axis], env).map_err(undefined)?;
        let end = end.eval(&labels[..axis], env).map_err(undefined)?;
        let stop = first.saturating_add(*size).min(end);
        for (offset, value) in (first..stop).enumerate() {
            labels[axis] = value;
            offsets[axis] = offset;
            self.walk_from(axis + 1, labels, offsets, env, f)?;
        }
        Ok(())
    }
}

/// `result[labels] = function(arguments)`.
pub fn compute(
    function: &Elementwise,
    arguments: &[Argument<&Item>],
    result: &ItemType,
    env: &dyn Env,
    numerics: Numerics,
) -> Result<Item, Error> {
    enum Source<'a> {
        Item(&'a Item, Vec<usize>),
        Literal(Scalar),
        Index(Code),
        Holds(CondCode),
    }
    let space = Space::new(&result.ranges, env)?;
    let mut sources = Vec::with_capacity(arguments.len());
    for argument in arguments {
        sources.push(match argument {
            Argument::Item(item) => Source::Item(item, item.strides(&space)?),
            Argument::Literal(value) => Source::Literal(*value),
            Argument::Index(dim) => Source::Index(Code::dim(dim, &space.labels, env).map_err(undefined)?),
            Argument::Holds(cond) => {
                Source::Holds(CondCode::cond(cond, &space.labels, env).map_err(undefined)?)
            }
        });
    }
    let mut output = Item::fresh(result)?;
    let strides = output.strides(&space)?;
    let mut values = vec![Scalar::Bool(false); sources.len()];
    space.walk(env, &mut |labels, offsets| {
        for (value, source) in values.iter_mut().zip(&sources) {
            *value = match source {
                Source::Item(item, strides) => item.array.get(at(offsets, strides)),
                Source::Literal(value) => *value,
                Source::Index(code) => Scalar::Int(code.eval(labels, env).map_err(undefined)?),
                Source::Holds(code) => Scalar::Bool(code.eval(labels, env).map_err(undefined)?),
            };
        }
        let value = numerics.round(result.dtype, (function.eval)(&values, result.dtype));
        output.array.set(at(offsets, &strides), value);
        Ok(())
    })?;
    Ok(output)
}

/// Which index tuples of a space take part.
struct Admission<'a> {
    /// None where it always holds.
    condition: Option<CondCode>,
    masks: Vec<(&'a Item, Vec<usize>)>,
}

impl<'a> Admission<'a> {
    fn new(
        condition: &Cond,
        masks: &[&'a Item],
        space: &Space,
        env: &dyn Env,
    ) -> Result<Admission<'a>, Error> {
        let condition = CondCode::cond(condition, &space.labels, env).map_err(undefined)?;
        let masks =
            masks.iter().map(|mask| Ok((*mask, mask.strides(space)?))).collect::<Result<_, Error>>()?;
        let condition = Some(condition).filter(|condition| condition.as_constant() != Some(true));
        Ok(Admission { condition, masks })
    }

    fn admits(&self, labels: &[i64], offsets: &[usize], env: &dyn Env) -> Result<bool, Error> {
        let masked = |(mask, strides): &(&Item, Vec<usize>)| mask.array.get(at(offsets, strides)).as_bool();
        if !self.masks.iter().all(masked) {
            return Ok(false);
        }
        match &self.condition {
            Some(condition) => condition.eval(labels, env).map_err(undefined),
            None => Ok(true),
        }
    }
}

/// The state of an empty reduction: one item per component, each with the type given for it.
pub fn identity(monoid: &Monoid, dtype: DType, types: &[&ItemType]) -> Result<Vec<Item>, Error> {
    let values = (monoid.identity)(dtype);
    if values.len() != types.len() {
        return Err(bug(format!("`{}` has a state of {} components", monoid.name, values.len())));
    }
    types.iter().zip(values).map(|(ty, value)| Item::filled(ty, value)).collect()
}

/// `state[kept] ⊕= argument`, in index order over the argument's labels that the state lacks: row-major in the
/// argument's order. `position` is an element's position in the whole reduction.
#[expect(clippy::too_many_arguments, reason = "the parts of a reduction, each of its own kind")]
pub fn reduce(
    monoid: &Monoid,
    argument: &Item,
    position: &Dim,
    condition: &Cond,
    masks: &[&Item],
    state: &mut [Item],
    env: &dyn Env,
    numerics: Numerics,
) -> Result<(), Error> {
    let kept = state.first().map(|item| item.ty.ranges.clone()).unwrap_or_default();
    let space = Space::new(kept.iter().chain(&argument.ty.ranges), env)?;
    let strides = argument.strides(&space)?;
    let targets = state.iter().map(|item| item.strides(&space)).collect::<Result<Vec<_>, _>>()?;
    let admission = Admission::new(condition, masks, &space, env)?;
    let position = Code::dim(position, &space.labels, env).map_err(undefined)?;
    let mut components = vec![Scalar::Bool(false); state.len()];
    space.walk(env, &mut |labels, offsets| {
        if !admission.admits(labels, offsets, env)? {
            return Ok(());
        }
        for ((component, item), strides) in components.iter_mut().zip(state.iter()).zip(&targets) {
            *component = item.array.get(at(offsets, strides));
        }
        let index = position.eval(labels, env).map_err(undefined)?;
        (monoid.absorb)(&mut components, argument.array.get(at(offsets, &strides)), index);
        for ((component, item), strides) in components.iter().zip(state.iter_mut()).zip(&targets) {
            item.array.set(at(offsets, strides), numerics.round(item.ty.dtype, *component));
        }
        Ok(())
    })
}

/// `sum[kept] += Π arguments`, over the labels that the sum lacks, row-major in the order of their first appearance.
/// Products and sums are rounded to the type of `sum`.
pub fn contract(
    arguments: &[&Item],
    condition: &Cond,
    masks: &[&Item],
    sum: &mut Item,
    env: &dyn Env,
    numerics: Numerics,
) -> Result<(), Error> {
    let ranges = sum.ty.ranges.clone();
    let space = Space::new(ranges.iter().chain(arguments.iter().flat_map(|item| &item.ty.ranges)), env)?;
    let factors =
        arguments.iter().map(|item| Ok((*item, item.strides(&space)?))).collect::<Result<Vec<_>, Error>>()?;
    let target = sum.strides(&space)?;
    let admission = Admission::new(condition, masks, &space, env)?;
    let row = |name| elementwise::find(name).ok_or_else(|| bug(format!("no elementwise function `{name}`")));
    let (mul, add) = (row("mul")?, row("add")?);
    let dtype = sum.ty.dtype;
    space.walk(env, &mut |labels, offsets| {
        if !admission.admits(labels, offsets, env)? {
            return Ok(());
        }
        let mut values = factors.iter().map(|(item, strides)| item.array.get(at(offsets, strides)));
        let Some(first) = values.next() else { return Err(bug("a contraction of nothing")) };
        let first = if factors.len() == 1 { numerics.round(dtype, first.carry(dtype)) } else { first };
        let product =
            values.fold(first, |product, value| numerics.round(dtype, (mul.eval)(&[product, value], dtype)));
        let place = at(offsets, &target);
        let total = (add.eval)(&[sum.array.get(place), product], dtype);
        sum.array.set(place, numerics.round(dtype, total));
        Ok(())
    })
}
