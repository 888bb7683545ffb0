//! What is legal: exactly what the builder could have built.
//!
//! - Functions have names of their own; each calls earlier ones only; the last is the program.
//! - Values are numbered in order of definition: parameters, then results of operators. An operator reads values
//!   defined before it. Names are words, unique in the function, and no sizes.
//! - The type of each result is the one that [`infer`](super::infer) gives for the operator.
//! - Kinds of parameters stand in the program only. Facts on tables are about integer tensors of the program, and
//!   offsets have one element more than the parts that they split.
//!
//! No program makes [`verify`] panic.

use super::build::{check_function_name, check_value_name};
use super::infer::axes::{check_dim, check_name};
use super::infer::{At, Problem, Scope, Signature, infer};
use super::ir::{Axis, Function, Node, Op, ParamKind, Program, TensorType, Value, ValueId};
use crate::dim::{Dim, Facts, Symbol};
use crate::error::Error;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use super::infer::Reason;

/// A rule that a program breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kind of rule.
    pub reason: Reason,
    /// The function, and the operator by its first result, as far as there are any.
    pub place: String,
    /// What is wrong and what would work.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for Violation {}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Error {
        Error::Program { place: violation.place, message: violation.message }
    }
}

fn violation(place: impl Into<String>) -> impl FnOnce(Problem) -> Violation {
    let place = place.into();
    move |problem| Violation { reason: problem.reason, place, message: problem.message }
}

/// Whether a program is legal.
///
/// # Errors
/// The first rule that it breaks, in the order of its functions and operators.
pub fn verify(program: &Program) -> Result<(), Violation> {
    let mut signatures: Vec<Arc<Signature>> = Vec::with_capacity(program.functions.len());
    for function in &program.functions {
        let place = format!("function `{}`", function.name);
        check_function_name(&function.name, signatures.iter().map(|signature| &signature.name))
            .map_err(violation(place))?;
        FunctionVerifier {
            function,
            signatures: &signatures,
            facts: program.facts.clone(),
            names: BTreeMap::new(),
        }
        .run()?;
        signatures.push(Arc::new(Signature::of(function)));
    }
    check_whole(program).map_err(violation("the program"))
}

struct FunctionVerifier<'a> {
    function: &'a Function,
    signatures: &'a [Arc<Signature>],
    facts: Facts,
    /// The values defined so far: those with ids below its length.
    names: BTreeMap<Symbol, ValueId>,
}

impl<'a> FunctionVerifier<'a> {
    fn run(mut self) -> Result<(), Violation> {
        let function = self.function;
        let place = format!("function `{}`", function.name);
        for param in &function.params {
            let value = self.next(param.value, &[]).map_err(violation(place.clone()))?;
            super::infer::check_type(&self.scope(), &value.ty, &[])
                .map_err(violation(format!("{place}, parameter `{}`", value.name)))?;
            self.names.insert(value.name.clone(), param.value);
        }
        for (index, node) in function.nodes.iter().enumerate() {
            let first = node.results.first().and_then(|id| function.values.get(id.0 as usize));
            let name = first.map_or(format!("operator {index}"), |value| format!("`{}`", value.name));
            self.node(node).map_err(violation(format!("{place}, {name}")))?;
        }
        let problem = |reason, message: String| Err(violation(place.clone())(Problem::new(reason, message)));
        if self.names.len() != function.values.len() {
            let message =
                format!("there are {} values, and {} are defined", function.values.len(), self.names.len());
            return problem(Reason::Order, message);
        }
        if function.results.is_empty() {
            return problem(Reason::Count, "nothing is returned; a function has at least one result".into());
        }
        match function.results.iter().find(|id| id.0 as usize >= function.values.len()) {
            Some(id) => problem(Reason::Id, format!("the result {} is no value", id.0)),
            None => Ok(()),
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            facts: &self.facts,
            values: self.function.values.get(..self.names.len()).unwrap_or_default(),
            names: &self.names,
            signatures: self.signatures,
        }
    }

    /// The value with this id, if it is the one after those defined and `pending`, and its name is new.
    fn next(&self, id: ValueId, pending: &[Symbol]) -> Result<&'a Value, Problem> {
        let next = self.names.len() + pending.len();
        let Some(value) = self.function.values.get(id.0 as usize) else {
            return Err(Problem::new(Reason::Id, format!("there is no value {}", id.0)));
        };
        if id.0 as usize != next {
            let message = format!("value {} is defined where value {next} is the next one", id.0);
            return Err(Problem::new(Reason::Order, message));
        }
        check_value_name(&value.name, &self.facts)?;
        if self.names.contains_key(&value.name) || pending.contains(&value.name) {
            let message = format!("`{}` is already defined; give this value another name", value.name);
            return Err(Problem::new(Reason::Name, message));
        }
        Ok(value)
    }

    fn node(&mut self, node: &Node) -> Result<(), Problem> {
        let mut names: Vec<Symbol> = Vec::with_capacity(node.results.len());
        let mut types: Vec<&TensorType> = Vec::with_capacity(node.results.len());
        for id in &node.results {
            let value = self.next(*id, &names)?;
            names.push(value.name.clone());
            types.push(&value.ty);
        }
        self.inferred(node, &names, &types)?;
        let owned: Vec<TensorType> = types.into_iter().cloned().collect();
        if let Some(facts) =
            super::infer::facts_after(&self.scope(), &node.op, &node.operands, &names, &owned)?
        {
            self.facts = facts;
        }
        self.names.extend(names.into_iter().zip(node.results.iter().copied()));
        Ok(())
    }

    /// Whether the results have the types that the operator gives.
    fn inferred(&self, node: &Node, names: &[Symbol], types: &[&TensorType]) -> Result<(), Problem> {
        let scope = self.scope();
        let labelled = matches!(node.op, Op::Elementwise { .. } | Op::Reduce { .. } | Op::Contract { .. });
        let rank = types.first().map_or(0, |ty| ty.axes.len());
        if node.result_labels.len() != if labelled { rank } else { 0 } {
            let message = format!("{} labels for the {rank} axes of the result", node.result_labels.len());
            return Err(Problem::new(Reason::Label, message));
        }
        let stated: Vec<Vec<Axis>> = match types {
            [ty] if labelled => {
                let axis =
                    |(axis, label): (&Axis, &Symbol)| Axis { name: axis.name.clone(), extent: label.into() };
                vec![ty.axes.iter().zip(&node.result_labels).map(axis).collect()]
            }
            _ => types.iter().map(|ty| ty.axes.clone()).collect(),
        };
        let to = types.first().map(|ty| ty.dtype).filter(|_| super::infer::has_to(&node.op));
        let infer = |stated| infer(&scope, &node.op, &node.operands, names, stated, to);
        let equal = |typed: &super::infer::Typed| {
            typed.types.len() == types.len()
                && typed.types.iter().zip(types).all(|(inferred, ty)| inferred == *ty)
                && typed.result_labels == node.result_labels
        };
        let typed = match node.op {
            Op::Elementwise { .. } | Op::Reduce { .. } | Op::Contract { .. } => infer(Some(&stated))?,
            Op::Call { .. } | Op::Repeat { .. } => infer(None)?,
            // A shape rule may need the stated axes, or may refuse them where they say nothing new.
            Op::Special { .. } => match infer(None) {
                Ok(typed) if equal(&typed) => typed,
                _ => infer(Some(&stated))?,
            },
        };
        if equal(&typed) {
            return Ok(());
        }
        if typed.types.len() != types.len() {
            let message =
                format!("the operator gives {} results, and defines {}", typed.types.len(), types.len());
            return Err(Problem::new(Reason::Count, message));
        }
        let (index, (inferred, ty)) = typed
            .types
            .iter()
            .zip(types)
            .enumerate()
            .find(|(_, (inferred, ty))| inferred != *ty)
            .ok_or_else(|| {
                Problem::new(Reason::Label, "the labels of the result are not those of its axes")
            })?;
        let message = format!("`{}` is {ty}, and the operator gives {inferred}", names[index]);
        Err(Problem::new(Reason::Result, message).at(At::Result(index)))
    }
}

/// What holds of a program beyond each function: there is one, kinds stand where they may, and facts are about what
/// it has.
pub fn check_whole(program: &Program) -> Result<(), Problem> {
    let Some((main, callees)) = program.functions.split_last() else {
        return Err(Problem::new(Reason::Count, "there is no function; a program has at least one"));
    };
    let facts = &program.facts;
    for symbol in facts.symbols() {
        check_name(symbol, "a size").map_err(|problem| Problem { reason: Reason::Fact, ..problem })?;
    }
    for function in callees {
        if function.params.iter().any(|param| param.kind != ParamKind::Input) {
            let message =
                format!("a parameter of `{}` has a kind; only those of the program do", function.name);
            return Err(Problem::new(Reason::Param, message));
        }
        let params = function.params.len();
        let local = function
            .values
            .iter()
            .skip(params)
            .find(|value| facts.tables().any(|table| *table == value.name));
        if let Some(value) = local {
            let message = format!(
                "`{}` has facts, which are about a tensor of the program, and is computed in `{}`; name it differently",
                value.name, function.name
            );
            return Err(Problem::new(Reason::Fact, message));
        }
    }
    for param in main.params.iter().filter(|param| param.kind == ParamKind::Plan) {
        if let Some(value) = main.values.get(param.value.0 as usize).filter(|value| !value.ty.dtype.is_int())
        {
            let message =
                format!("`{}` is {}; what a plan is made from is integers", value.name, value.ty.dtype);
            return Err(Problem::new(Reason::Param, message));
        }
    }
    let names: BTreeMap<Symbol, ValueId> =
        (0u32..).map(ValueId).zip(&main.values).map(|(id, value)| (value.name.clone(), id)).collect();
    let scope = Scope { facts, values: &main.values, names: &names, signatures: &[] };
    for table in facts.tables() {
        check_facts(&scope, table)?;
    }
    Ok(())
}

/// Whether the facts on a table fit the tensor of the program that has its name.
fn check_facts(scope: &Scope<'_>, table: &Symbol) -> Result<(), Problem> {
    let problem = |message: String| Err(Problem::new(Reason::Fact, message));
    let Some(value) = scope.find(table) else {
        let hint = super::names::did_you_mean(table.as_str(), scope.names.keys().map(Symbol::as_str));
        return problem(format!("there are facts on `{table}`, and the program has no such tensor{hint}"));
    };
    if !value.ty.dtype.is_int() {
        return problem(format!(
            "there are facts on `{table}`, which is {} and not of integers",
            value.ty.dtype
        ));
    }
    let dims: Vec<&Dim> = [scope.facts.splits(table), scope.facts.table_range(table)]
        .into_iter()
        .flatten()
        .flat_map(|(a, b)| [a, b])
        .collect();
    for dim in dims {
        check_dim(scope, dim, &[]).map_err(|problem| Problem { reason: Reason::Fact, ..problem })?;
    }
    if let Some((parts, total)) = scope.facts.splits(table) {
        let offsets = parts + 1;
        match value.ty.axes.as_slice() {
            [axis] if scope.facts.equal(&axis.extent, &offsets).is_yes() => {}
            axes => {
                return problem(format!(
                    "`{table}` splits {total} over {parts} and so has one axis of extent `{offsets}`; it has axes {}",
                    super::infer::axes::axes_text(axes)
                ));
            }
        }
    }
    Ok(())
}
