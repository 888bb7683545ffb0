//! Calls and repeats: whether operands fit a function, and the types of what it gives.
//!
//! Extents of a function mention its own tables, by the names of its values. At a call each such table is renamed:
//! a parameter to the argument, a result to the caller's name for it. A table that has facts is called the same in
//! every function, so that one fact holds wherever the name stands.

use super::axes::{axis_text, check_dim, check_name, check_type, same_extents};
use super::{At, Problem, Reason, Scope};
use crate::dim::{Dim, Proof, Symbol};
use crate::tensor::ir::{
    Axis, Function, FunctionId, Operand, RepeatArgument, RepeatResult, TensorType, Value,
};

/// What a caller sees of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The name.
    pub name: Symbol,
    /// The parameters.
    pub params: Vec<Value>,
    /// The results, under the names that they have inside.
    pub results: Vec<Value>,
}

impl Signature {
    /// The signature of a function; ids that nothing has are left out.
    pub fn of(function: &Function) -> Signature {
        let value = |id: &crate::tensor::ir::ValueId| function.values.get(id.0 as usize).cloned();
        Signature {
            name: function.name.clone(),
            params: function.params.iter().filter_map(|param| value(&param.value)).collect(),
            results: function.results.iter().filter_map(value).collect(),
        }
    }
}

fn problem<T>(message: String) -> Result<T, Problem> {
    Err(Problem::new(Reason::Call, message))
}

fn signature<'a>(scope: &Scope<'a>, function: FunctionId) -> Result<&'a Signature, Problem> {
    let unknown = || Problem::new(Reason::Id, format!("there is no function {} before this one", function.0));
    scope.signatures.get(function.0 as usize).map(|signature| &**signature).ok_or_else(unknown)
}

/// The arguments of a call: values under their own labels, as many as parameters.
fn arguments<'a>(
    scope: &Scope<'a>,
    signature: &Signature,
    operands: &[Operand],
) -> Result<Vec<&'a Value>, Problem> {
    if operands.len() != signature.params.len() {
        let message = format!(
            "`{}` takes {} argument{}, and is given {}",
            signature.name,
            signature.params.len(),
            if signature.params.len() == 1 { "" } else { "s" },
            operands.len()
        );
        return Err(Problem::new(Reason::Count, message));
    }
    let mut values = Vec::with_capacity(operands.len());
    for (index, operand) in operands.iter().enumerate() {
        let Operand::Value { value, labels } = operand else {
            let message = "an argument is a tensor; make one of a number with `const`, of a size with `cast`";
            return problem(message.to_string()).map_err(|problem| problem.at(At::Operand(index)));
        };
        let value = scope.value(*value)?;
        if *labels != value.ty.labels() {
            let message = format!("the argument `{}` is passed whole, under its own labels", value.name);
            return problem(message).map_err(|problem| problem.at(At::Operand(index)));
        }
        values.push(value);
    }
    Ok(values)
}

/// A table with facts must be called the same on both sides.
fn same_facts(scope: &Scope<'_>, param: &Value, argument: &Value) -> Result<(), Problem> {
    if !param.ty.dtype.is_int() || param.name == argument.name {
        return Ok(());
    }
    let has_facts =
        |name: &Symbol| scope.facts.splits(name).is_some() || scope.facts.table_range(name).is_some();
    for name in [&argument.name, &param.name] {
        if has_facts(name) {
            return problem(format!(
                "there are facts on `{name}`, so that argument and parameter must have one name; they are `{}` and `{}`",
                argument.name, param.name
            ));
        }
    }
    Ok(())
}

/// Puts the caller's names for tables. `names` gives the caller's name for a value of the function, if it has one.
fn rename(
    signature: &Signature,
    axes: &[Axis],
    names: &dyn Fn(&Symbol) -> Option<Symbol>,
) -> Result<Vec<Axis>, Problem> {
    let mut renamed = Vec::with_capacity(axes.len());
    for axis in axes {
        if let Some(table) = axis.extent.tables().into_iter().find(|table| names(table).is_none()) {
            return problem(format!(
                "the axis `{}` of `{}` depends on `{table}`, which the caller does not see as one tensor; \
                 pass it whole or return it",
                axis_text(axis),
                signature.name
            ));
        }
        renamed.push(Axis { name: axis.name.clone(), extent: axis.extent.rename_tables(names) });
    }
    Ok(renamed)
}

fn fits(
    scope: &Scope<'_>,
    signature: &Signature,
    param: &Value,
    name: &Symbol,
    axes: &[Axis],
    dtype: crate::tensor::DType,
    names: &dyn Fn(&Symbol) -> Option<Symbol>,
) -> Result<(), Problem> {
    if dtype != param.ty.dtype {
        return problem(format!(
            "`{name}` is {dtype}, and the parameter `{}` of `{}` is {}; `cast` it",
            param.name, signature.name, param.ty.dtype
        ));
    }
    let wants = rename(signature, &param.ty.axes, names)?;
    same_extents(scope.facts, &wants, axes).or_else(|message| {
        problem(format!("`{name}` as parameter `{}` of `{}` {message}", param.name, signature.name))
    })
}

/// The types of the results of a call, which get the given names.
pub fn call(
    scope: &Scope<'_>,
    function: FunctionId,
    operands: &[Operand],
    names: &[Symbol],
) -> Result<Vec<TensorType>, Problem> {
    let signature = signature(scope, function)?;
    let arguments = arguments(scope, signature, operands)?;
    let by_param = |name: &Symbol| {
        let at = signature.params.iter().position(|param| param.name == *name)?;
        arguments.get(at).map(|argument| argument.name.clone())
    };
    for (index, (param, argument)) in signature.params.iter().zip(&arguments).enumerate() {
        let ty = &argument.ty;
        same_facts(scope, param, argument)
            .and_then(|()| fits(scope, signature, param, &argument.name, &ty.axes, ty.dtype, &by_param))
            .map_err(|problem| problem.at(At::Operand(index)))?;
    }
    let by_result = |name: &Symbol| {
        let at = signature.results.iter().position(|result| result.name == *name)?;
        names.get(at).cloned()
    };
    let mut types: Vec<TensorType> = Vec::with_capacity(signature.results.len());
    for result in &signature.results {
        let axes = rename(signature, &result.ty.axes, &|name| by_param(name).or_else(|| by_result(name)))?;
        let earlier: Vec<(Symbol, &TensorType)> = names.iter().cloned().zip(&types).collect();
        let ty = TensorType { dtype: result.ty.dtype, axes };
        check_type(scope, &ty, &earlier)?;
        types.push(ty);
    }
    Ok(types)
}

/// The parts of `Op::Repeat`.
pub struct Repeat<'a> {
    /// The coordinate's name.
    pub coordinate: &'a Symbol,
    /// The number of iterations.
    pub extent: &'a Dim,
    /// Which function.
    pub function: FunctionId,
    /// How operands become arguments.
    pub arguments: &'a [RepeatArgument],
    /// What becomes of results.
    pub results: &'a [RepeatResult],
}

/// The types of the results of a repeat.
pub fn repeat(
    scope: &Scope<'_>,
    repeat: &Repeat<'_>,
    operands: &[Operand],
) -> Result<Vec<TensorType>, Problem> {
    let signature = signature(scope, repeat.function)?;
    let values = arguments(scope, signature, operands)?;
    let is_size = |name: &Symbol| scope.facts.range(name).is_some();
    check_name(repeat.coordinate, "a coordinate")?;
    if is_size(repeat.coordinate) {
        let message =
            format!("the coordinate `{}` has the name of a size; name it differently", repeat.coordinate);
        return Err(Problem::new(Reason::Name, message));
    }
    check_dim(scope, repeat.extent, &[])?;
    if repeat.arguments.len() != operands.len() {
        let message = format!("{} operands, and {} arguments", operands.len(), repeat.arguments.len());
        return Err(Problem::new(Reason::Count, message));
    }
    if repeat.results.len() != signature.results.len() {
        let message = format!(
            "`{}` gives {} result{}, and the repeat says what becomes of {}",
            signature.name,
            signature.results.len(),
            if signature.results.len() == 1 { "" } else { "s" },
            repeat.results.len()
        );
        return Err(Problem::new(Reason::Count, message));
    }
    let mut carried_names: Vec<&Symbol> = Vec::new();
    for argument in repeat.arguments {
        let RepeatArgument::Carried { name } = argument else { continue };
        check_name(name, "a carried value")?;
        let taken = scope.find(name).is_some() || is_size(name) || carried_names.contains(&name);
        if taken || name == repeat.coordinate {
            let message = format!("the carried value `{name}` has a name that is taken; name it differently");
            return Err(Problem::new(Reason::Name, message));
        }
        carried_names.push(name);
    }
    // Only a table that is the same at each iteration can stand in an extent.
    let shared = |name: &Symbol| {
        let at = signature.params.iter().position(|param| param.name == *name)?;
        let same = repeat.arguments.get(at) == Some(&RepeatArgument::Shared);
        values.get(at).filter(|_| same).map(|value| value.name.clone())
    };
    for (index, ((param, value), argument)) in
        signature.params.iter().zip(&values).zip(repeat.arguments).enumerate()
    {
        let axes = match argument {
            RepeatArgument::Sliced => {
                sliced(scope, repeat, value).map_err(|problem| problem.at(At::Operand(index)))?
            }
            _ => &value.ty.axes,
        };
        let facts = same_facts(scope, param, value);
        facts
            .and_then(|()| fits(scope, signature, param, &value.name, axes, value.ty.dtype, &shared))
            .map_err(|problem| problem.at(At::Operand(index)))?;
    }
    let mut types = Vec::with_capacity(repeat.results.len());
    let mut returned = vec![false; operands.len()];
    for (index, (result, becomes)) in signature.results.iter().zip(repeat.results).enumerate() {
        let ty = match becomes {
            RepeatResult::Carried(at) => {
                let value = match (repeat.arguments.get(*at), values.get(*at)) {
                    (Some(RepeatArgument::Carried { .. }), Some(value)) => value,
                    _ => {
                        return problem(format!(
                            "result {index} is carried to argument {at}, which is not a carried one"
                        ));
                    }
                };
                if std::mem::replace(&mut returned[*at], true) {
                    return problem(format!("two results are carried to `{}`", signature.params[*at].name));
                }
                let param = Value { name: result.name.clone(), ty: result.ty.clone() };
                if value.ty.dtype != param.ty.dtype {
                    return problem(format!(
                        "`{}` is carried as {} and comes back as {}; `cast` it in `{}`",
                        value.name, value.ty.dtype, param.ty.dtype, signature.name
                    ));
                }
                let gives = rename(signature, &param.ty.axes, &shared)?;
                same_extents(scope.facts, &value.ty.axes, &gives).or_else(|message| {
                    problem(format!(
                        "the result `{}` of `{}`, which is carried, {message}",
                        param.name, signature.name
                    ))
                })?;
                value.ty.clone()
            }
            RepeatResult::Stacked => {
                let mut axes = vec![Axis { name: repeat.coordinate.clone(), extent: repeat.extent.clone() }];
                axes.extend(rename(signature, &result.ty.axes, &shared)?);
                let ty = TensorType { dtype: result.ty.dtype, axes };
                check_type(scope, &ty, &[]).map_err(|problem| problem.at(At::Result(index)))?;
                ty
            }
        };
        types.push(ty);
    }
    for (argument, returned) in repeat.arguments.iter().zip(returned) {
        if let (RepeatArgument::Carried { name }, false) = (argument, returned) {
            return problem(format!("`{name}` is carried, and no result gives its next value"));
        }
    }
    Ok(types)
}

/// The axes of a slice along the first axis.
fn sliced<'a>(scope: &Scope<'_>, repeat: &Repeat<'_>, value: &'a Value) -> Result<&'a [Axis], Problem> {
    let Some((first, rest)) = value.ty.axes.split_first() else {
        return problem(format!(
            "`{}` is a scalar and has no axis to slice along `{}`",
            value.name, repeat.coordinate
        ));
    };
    if scope.facts.equal(&first.extent, repeat.extent) != Proof::Yes {
        return problem(format!(
            "`{}` is sliced along its first axis, whose extent is `{}`, and `{}` runs over `{}`",
            value.name, first.extent, repeat.coordinate, repeat.extent
        ));
    }
    let depends =
        |axis: &&Axis| scope.facts.range(&first.name).is_none() && axis.extent.mentions(&first.name);
    if let Some(axis) = rest.iter().find(depends) {
        return problem(format!(
            "`{}` is sliced along `{}`, and the extent of `{}` depends on it; pad it to one extent",
            value.name, first.name, axis.name
        ));
    }
    Ok(rest)
}
