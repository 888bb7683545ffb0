//! Elementwise functions: one element type for all operands, and the union of their labels.

use super::axes::LabelTable;
use super::{At, Problem, Reason, Scope, Typed, count, different_types};
use crate::dim::Symbol;
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::elementwise::{Elementwise, TypeRule};
use crate::tensor::ir::{Axis, Operand};

pub(super) fn elementwise(
    scope: &Scope<'_>,
    function: &'static Elementwise,
    operands: &[Operand],
    stated: Option<&[Vec<Axis>]>,
    to: Option<DType>,
) -> Result<Typed, Problem> {
    let (types, result) = elementwise_types(scope, function, operands, to)?;
    for (index, (operand, dtype)) in operands.iter().zip(&types).enumerate() {
        let Operand::Literal(scalar) = operand else { continue };
        if *scalar != adapt(*scalar, *dtype).map_err(|problem| problem.at(At::Operand(index)))?
            && !matches!(scalar, Scalar::Float(x) if x.is_nan())
        {
            let message = format!("this number is not of the class of {dtype}");
            return Err(Problem::new(Reason::DType, message).at(At::Operand(index)));
        }
    }
    let labels = LabelTable::of(scope, operands)?;
    let all = operands.iter().find_map(|operand| match operand {
        Operand::Value { labels: own, .. } if own.len() == labels.count() => Some(own.clone()),
        _ => None,
    });
    let all = if labels.count() == 0 { Some(Vec::new()) } else { all };
    if stated.is_none() && all.is_none() {
        let names: Vec<&str> = labels.names().map(Symbol::as_str).collect();
        let message = format!(
            "no operand has all axes; state the order of the result's, such as `-> [{}]`",
            names.join(", ")
        );
        return Err(Problem::new(Reason::Label, message));
    }
    let shape = labels.result(stated, all.as_deref())?;
    if let Some(label) = labels.names().find(|label| !shape.labels.contains(label)) {
        let message =
            format!("the result lacks the axis `{label}`; an elementwise function keeps every axis");
        return Err(Problem::new(Reason::Label, message).at(At::Stated));
    }
    shape.finish(scope, &labels, result)
}

/// The element type in which an elementwise function reads each operand, and that of its result.
pub fn elementwise_types(
    scope: &Scope<'_>,
    function: &Elementwise,
    operands: &[Operand],
    to: Option<DType>,
) -> Result<(Vec<DType>, DType), Problem> {
    let name = function.name;
    if operands.len() != function.arity {
        let wants = match function.arity {
            1 => "one operand".to_string(),
            2 => "two operands".to_string(),
            n => format!("{n} operands"),
        };
        return Err(count(name, &wants, operands.len()));
    }
    let mut own = Vec::new();
    for operand in operands {
        own.push(match operand {
            Operand::Value { value, .. } => Some(scope.value(*value)?.ty.dtype),
            Operand::Literal(Scalar::Bool(_)) if function.types == TypeRule::Select => Some(DType::Bool),
            _ => None,
        });
    }
    if function.types == TypeRule::To {
        let Some(to) = to else {
            let message = format!("`{name}` needs the element type of its result, such as `to f32`");
            return Err(Problem::new(Reason::DType, message));
        };
        let class = |operand: &Operand| match operand {
            Operand::Literal(Scalar::Bool(_)) => DType::Bool,
            Operand::Literal(Scalar::Float(_)) => DType::F64,
            _ => DType::I64,
        };
        let types = own.iter().zip(operands).map(|(own, operand)| own.unwrap_or_else(|| class(operand)));
        return Ok((types.collect(), to));
    }
    let mut types = Vec::new();
    let flags = usize::from(function.types == TypeRule::Select);
    let mut shared = if function.types == TypeRule::Bool { Some(DType::Bool) } else { None };
    for (index, own) in own.iter().enumerate().skip(flags) {
        let Some(own) = *own else { continue };
        let fits = match function.types {
            TypeRule::Float => own.is_float(),
            TypeRule::Int => own.is_int(),
            TypeRule::Number | TypeRule::Compare => own.is_float() || own.is_int(),
            TypeRule::Bool => own == DType::Bool,
            TypeRule::Select | TypeRule::To => true,
        };
        if !fits {
            let wants = match function.types {
                TypeRule::Float => "floats",
                TypeRule::Int => "integers",
                TypeRule::Bool => "truth values",
                _ => "numbers",
            };
            let message = format!("`{name}` takes {wants}, and this is {own}; `cast` it");
            return Err(Problem::new(Reason::DType, message).at(At::Operand(index)));
        }
        let first = *shared.get_or_insert(own);
        if first != own {
            return Err(different_types(name, first, own).at(At::Operand(index)));
        }
    }
    let Some(shared) = shared else {
        let message =
            format!("`{name}` has numbers only and so no element type; one operand must be a tensor");
        return Err(Problem::new(Reason::DType, message));
    };
    for (index, own) in own.iter().enumerate() {
        let wants = if index < flags { DType::Bool } else { shared };
        if own.is_some_and(|own| own != wants) {
            let message =
                format!("the first operand of `{name}` is bool, and this is {}", own.unwrap_or(wants));
            return Err(Problem::new(Reason::DType, message).at(At::Operand(index)));
        }
        if matches!(operands[index], Operand::Dim(_)) && wants == DType::Bool {
            let message = "a size is a number, and this operand is bool; compare the size with something";
            return Err(Problem::new(Reason::DType, message).at(At::Operand(index)));
        }
        types.push(wants);
    }
    let result = if function.types == TypeRule::Compare { DType::Bool } else { shared };
    Ok((types, result))
}

/// Whether the text form can write a literal.
pub fn check_scalar(scalar: Scalar) -> Result<(), Problem> {
    if scalar == Scalar::Int(i64::MIN) {
        let message = format!("{} cannot be written as a literal; the least is {}", i64::MIN, -i64::MAX);
        return Err(Problem::new(Reason::DType, message));
    }
    Ok(())
}

/// A literal as an element of type `dtype`: an integer becomes a float where that is exact.
pub fn adapt(scalar: Scalar, dtype: DType) -> Result<Scalar, Problem> {
    const EXACT: u64 = 1 << 53;
    let problem = |message: String| Err(Problem::new(Reason::DType, message));
    check_scalar(scalar)?;
    match scalar {
        Scalar::Float(_) if dtype.is_float() => Ok(scalar),
        Scalar::Bool(_) if dtype == DType::Bool => Ok(scalar),
        Scalar::Int(x) if dtype.is_float() && x.unsigned_abs() <= EXACT => Ok(Scalar::Float(x as f64)),
        Scalar::Int(x) if dtype.is_float() => {
            problem(format!("{x} is no exact float; write it as one: `{x}.0`"))
        }
        Scalar::Int(x) if dtype.is_int() => match dtype.int_range() {
            Some((lo, hi)) if x < lo || x > hi => problem(format!("{x} does not fit {dtype} ({lo}..={hi})")),
            _ => Ok(scalar),
        },
        Scalar::Int(_) => problem(format!("the other operands are {dtype}; write `true` or `false`")),
        Scalar::Float(_) => problem(format!("the other operands are {dtype}, and this is a float")),
        Scalar::Bool(_) => problem(format!("the other operands are {dtype}, and this is a truth value")),
    }
}
