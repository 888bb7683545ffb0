//! Reductions and contractions: what is summed away, under which guard, in which type.

use super::axes::{self, LabelTable, check_index, operand_type};
use super::{At, Problem, Reason, Scope, Typed, count, different_types};
use crate::dim::Symbol;
use crate::tensor::dtype::DType;
use crate::tensor::ir::{Axis, Guard, Operand};
use crate::tensor::monoid::Monoid;

/// The parts of `Op::Reduce`.
pub(super) struct Reduce<'a> {
    /// The table row.
    pub monoid: &'static Monoid,
    /// The labels that are reduced.
    pub over: &'a [Symbol],
    /// Which elements take part.
    pub guard: &'a Guard,
    /// The type in which the state accumulates.
    pub accumulate: DType,
}

pub(super) fn reduce(
    scope: &Scope<'_>,
    reduce: &Reduce<'_>,
    operands: &[Operand],
    stated: Option<&[Vec<Axis>]>,
) -> Result<Typed, Problem> {
    let Reduce { monoid, over, guard, accumulate } = *reduce;
    let operand = match operands {
        [operand @ Operand::Value { .. }] => operand,
        [_] => {
            let message = format!("`{}` takes a tensor, not a number or a size", monoid.name);
            return Err(Problem::new(Reason::Count, message).at(At::Operand(0)));
        }
        _ => return Err(count(monoid.name, "one tensor", operands.len())),
    };
    let dtype = operand_type(scope, operand)?.dtype;
    if !(monoid.accepts)(dtype) {
        let message = format!("`{}` does not take elements of type {dtype}", monoid.name);
        return Err(Problem::new(Reason::DType, message).at(At::Operand(0)));
    }
    accumulation(dtype, accumulate, monoid.rounds)?;
    let labels = LabelTable::of(scope, operands)?;
    if over.is_empty() {
        let message = format!("`{}` reduces nothing; name the axes behind `over`", monoid.name);
        return Err(Problem::new(Reason::Label, message).at(At::Over));
    }
    for (k, label) in over.iter().enumerate() {
        labels.index(label).map_err(|problem| problem.at(At::Over))?;
        if over[..k].contains(label) {
            return Err(Problem::new(Reason::Label, format!("`{label}` is reduced twice")).at(At::Over));
        }
    }
    let in_order = over.windows(2).all(|pair| match pair {
        [a, b] => labels.index(a).ok() < labels.index(b).ok(),
        _ => true,
    });
    if !in_order {
        let message = "the reduced axes are not in the order of the operand; name them in its order";
        return Err(Problem::new(Reason::Label, message).at(At::Over));
    }
    let kept: Vec<Symbol> = labels.names().filter(|label| !over.contains(label)).cloned().collect();
    let result = labels.result(stated, Some(&kept))?;
    if let Some(label) = kept.iter().find(|label| !result.labels.contains(label)) {
        let message =
            format!("`{label}` is neither reduced nor an axis of the result; name it in `->` or `over`");
        return Err(Problem::new(Reason::Label, message).at(At::Stated));
    }
    if let Some(label) = result.labels.iter().find(|label| over.contains(label)) {
        let message = format!("`{label}` is reduced, so that the result has no such axis");
        return Err(Problem::new(Reason::Label, message).at(At::Stated));
    }
    check_guard(scope, guard, &labels).map_err(|problem| problem.at(At::Guard))?;
    result.finish(scope, &labels, (monoid.result_type)(dtype))
}

pub(super) fn contract(
    scope: &Scope<'_>,
    guard: &Guard,
    accumulate: DType,
    operands: &[Operand],
    stated: Option<&[Vec<Axis>]>,
    to: Option<DType>,
) -> Result<Typed, Problem> {
    if operands.is_empty() || operands.len() > 3 {
        return Err(count("contract", "one to three tensors", operands.len()));
    }
    let mut dtype = None;
    for (index, operand) in operands.iter().enumerate() {
        let at = |problem: Problem| problem.at(At::Operand(index));
        if !matches!(operand, Operand::Value { .. }) {
            let message = "`contract` takes tensors only; multiply its result by the number instead";
            return Err(at(Problem::new(Reason::DType, message)));
        }
        let this = operand_type(scope, operand)?.dtype;
        if !this.is_float() && !this.is_int() {
            let message = format!("`contract` does not take elements of type {this}; `cast` them");
            return Err(at(Problem::new(Reason::DType, message)));
        }
        let first = *dtype.get_or_insert(this);
        if first != this {
            return Err(at(different_types("contract", first, this)));
        }
    }
    let dtype = dtype.unwrap_or(DType::F32);
    accumulation(dtype, accumulate, true)?;
    let to = to.unwrap_or(dtype);
    if to.is_float() != dtype.is_float() || to.is_int() != dtype.is_int() {
        let message = format!("a contraction of {dtype} cannot give {to}; `cast` its result");
        return Err(Problem::new(Reason::DType, message).at(At::DType));
    }
    let labels = LabelTable::of(scope, operands)?;
    if stated.is_none() {
        let message = "`contract` needs the axes of its result behind `->`, such as `-> [i, j]`";
        return Err(Problem::new(Reason::Label, message));
    }
    let result = labels.result(stated, None)?;
    check_guard(scope, guard, &labels).map_err(|problem| problem.at(At::Guard))?;
    result.finish(scope, &labels, to)
}

fn check_guard(scope: &Scope<'_>, guard: &Guard, labels: &LabelTable) -> Result<(), Problem> {
    let names: Vec<Symbol> = labels.names().cloned().collect();
    let mut problem = None;
    guard.condition.visit_dims(&mut |dim| {
        if problem.is_none() {
            problem = check_index(scope, dim, &names).err();
        }
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    for (value, mask) in &guard.masks {
        let value = scope.value(*value)?;
        if value.ty.dtype != DType::Bool {
            let message = format!("the mask `{}` has type {}; a mask is bool", value.name, value.ty.dtype);
            return Err(Problem::new(Reason::Mask, message));
        }
        axes::check_labels(scope, &value.ty, mask)?;
        labels.agrees(scope, &value.name, &value.ty, mask)?;
    }
    Ok(())
}

/// Whether a state of type `accumulate` can take elements of type `dtype`.
fn accumulation(dtype: DType, accumulate: DType, rounds: bool) -> Result<(), Problem> {
    let fits = if rounds {
        accumulate.is_float() == dtype.is_float() && accumulate.is_int() == dtype.is_int()
    } else {
        accumulate == dtype
    };
    if fits {
        return Ok(());
    }
    let message = if rounds {
        format!("elements of type {dtype} cannot accumulate in {accumulate}; take {}", dtype.accumulator())
    } else {
        format!("this reduction selects an element and does not round; leave out `accumulate {accumulate}`")
    };
    Err(Problem::new(Reason::DType, message).at(At::DType))
}
