//! The types of results: which labels, element types and extents an operator may be applied to, and what it gives.
//!
//! One function, [`infer`], answers for every operator. The builder asks it for the types, the verifier asks it
//! again and compares, so that a program is legal exactly if it could have been built. `axes` holds the laws of
//! labels and extents, `apply` those of calls and repeats.
//!
//! **Stated axes.** What the text writes behind `->` is one list of [`Axis`] per result. For an elementwise function,
//! a reduction or a contraction the extent of a stated axis is the *label* that the axis carries, as a symbol:
//! `-> [rows: i, j]` is `rows: i` and `j: j`. For other operators it is the extent itself.
//!
//! **Order.** An operator iterates over the labels of its result, in the order of the result's axes, then over the
//! other labels in the order of their first appearance in the operands (`over`, for a reduction). An extent depends
//! on labels that come earlier in this order only. A label may have the name of a size, but then no extent of a
//! later label and no guard may mention that size: it would be unclear which of the two is meant.

mod apply;
pub mod axes;
mod elementwise;
mod special;
mod sums;

pub use apply::Signature;
pub use axes::{check_type, operand_type};
pub use elementwise::{adapt, elementwise_types};
pub use special::kind_of;

use super::dtype::DType;
use super::elementwise::TypeRule;
use super::ir::{Attribute, Axis, Op, Operand, TensorType, Value, ValueId};
use super::monoid::Monoid;
use crate::dim::{Dim, Facts, Symbol};
use axes::check_dim;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The kind of rule that a program breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// An id that nothing has.
    Id,
    /// Something stands before what it needs, or values are not numbered in order of definition.
    Order,
    /// A name that is taken, not a word, or reserved.
    Name,
    /// A size or a label that is not known.
    Symbol,
    /// A number of operands, results, attributes or labels that does not fit.
    Count,
    /// An element type that does not fit.
    DType,
    /// Labels or axis names that do not fit.
    Label,
    /// An extent that does not fit.
    Extent,
    /// An integer tensor in an index expression that is unknown or has another type.
    Table,
    /// A mask that is not a boolean tensor under the operator's labels.
    Mask,
    /// An attribute, or the shape rule of an operator of `tensor/ops`.
    Operator,
    /// A call or a repeat that does not fit its function.
    Call,
    /// A kind of parameter where it cannot stand.
    Param,
    /// What the function says of itself and what it is differ.
    Result,
    /// A fact about something that the program does not have.
    Fact,
}

/// The part of an operator that a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The operator as a whole.
    Whole,
    /// The operand with this index.
    Operand(usize),
    /// The guard.
    Guard,
    /// The labels that are reduced.
    Over,
    /// `accumulate` or `to`.
    DType,
    /// The attribute with this index.
    Attribute(usize),
    /// The stated axes.
    Stated,
    /// The result with this index.
    Result(usize),
}

/// What is wrong with an operator or a type, in one sentence that says what would work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of rule.
    pub reason: Reason,
    /// The part of the operator.
    pub at: At,
    /// The sentence.
    pub message: String,
}

impl Problem {
    /// A problem of an operator as a whole.
    pub fn new(reason: Reason, message: impl Into<String>) -> Problem {
        Problem { reason, at: At::Whole, message: message.into() }
    }

    /// The same problem about a part, unless it already is about one.
    pub fn at(mut self, at: At) -> Problem {
        if self.at == At::Whole {
            self.at = at;
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// What an operator of a function can see.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// What is known of sizes and tables.
    pub facts: &'a Facts,
    /// The values that are defined before the operator.
    pub values: &'a [Value],
    /// Their ids by name.
    pub names: &'a BTreeMap<Symbol, ValueId>,
    /// The functions that it can call, by id.
    pub signatures: &'a [Arc<Signature>],
}

impl<'a> Scope<'a> {
    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> Result<&'a Value, Problem> {
        let unknown = || Problem::new(Reason::Id, format!("there is no value {} before this", id.0));
        self.values.get(id.0 as usize).ok_or_else(unknown)
    }

    /// The value with a name.
    pub fn find(&self, name: &Symbol) -> Option<&'a Value> {
        self.names.get(name).and_then(|id| self.values.get(id.0 as usize))
    }
}

/// What an operator gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    /// `Node::result_labels`.
    pub result_labels: Vec<Symbol>,
    /// The types of the results.
    pub types: Vec<TensorType>,
}

/// The types of the results of an operator, which get the given names. `stated` are the axes behind `->`, one list
/// per result; `to` is the element type of the result where the operator leaves a choice (`cast`, `contract`).
pub fn infer(
    scope: &Scope<'_>,
    op: &Op,
    operands: &[Operand],
    names: &[Symbol],
    stated: Option<&[Vec<Axis>]>,
    to: Option<DType>,
) -> Result<Typed, Problem> {
    if to.is_some() && !has_to(op) {
        let message =
            "`to` belongs to `contract` and to functions such as `cast`; apply `cast` to the result";
        return Err(Problem::new(Reason::DType, message).at(At::DType));
    }
    for (index, operand) in operands.iter().enumerate() {
        check_operand(scope, operand).map_err(|problem| problem.at(At::Operand(index)))?;
    }
    match op {
        Op::Elementwise { function } => elementwise::elementwise(scope, function, operands, stated, to),
        Op::Reduce { monoid, over, guard, accumulate } => {
            let reduce = sums::Reduce { monoid, over, guard, accumulate: *accumulate };
            sums::reduce(scope, &reduce, operands, stated)
        }
        Op::Contract { guard, accumulate } => sums::contract(scope, guard, *accumulate, operands, stated, to),
        Op::Special { operator, attributes } => {
            special::special(scope, operator, attributes, operands, names, stated)
        }
        Op::Call { function } => {
            not_stated(stated)?;
            let types = apply::call(scope, *function, operands, names)?;
            Ok(Typed { result_labels: Vec::new(), types })
        }
        Op::Repeat { coordinate, extent, function, arguments, results } => {
            not_stated(stated)?;
            let repeat = apply::Repeat { coordinate, extent, function: *function, arguments, results };
            let types = apply::repeat(scope, &repeat, operands)?;
            Ok(Typed { result_labels: Vec::new(), types })
        }
    }
}

/// Whether the program states the element type of the operator's result.
pub fn has_to(op: &Op) -> bool {
    match op {
        Op::Elementwise { function } => function.types == TypeRule::To,
        Op::Contract { .. } => true,
        _ => false,
    }
}

fn not_stated(stated: Option<&[Vec<Axis>]>) -> Result<(), Problem> {
    match stated {
        None => Ok(()),
        Some(_) => {
            let message = "the axes of a function's results cannot be stated; they are those of the function";
            Err(Problem::new(Reason::Label, message).at(At::Stated))
        }
    }
}

fn count(name: &str, wants: &str, has: usize) -> Problem {
    let plural = if has == 1 { "" } else { "s" };
    Problem::new(Reason::Count, format!("`{name}` takes {wants}, and has {has} operand{plural}"))
}

fn different_types(name: &str, first: DType, other: DType) -> Problem {
    let message = format!("the operands of `{name}` have types {first} and {other}; `cast` one of them");
    Problem::new(Reason::DType, message)
}

fn check_operand(scope: &Scope<'_>, operand: &Operand) -> Result<(), Problem> {
    match operand {
        Operand::Value { value, labels } => axes::check_labels(scope, &scope.value(*value)?.ty, labels),
        Operand::Literal(_) => Ok(()),
        Operand::Dim(dim) => check_dim(scope, dim, &[]),
    }
}

/// The type in which a reduction accumulates unless the program says otherwise.
pub fn default_accumulate(monoid: &Monoid, dtype: DType) -> DType {
    if monoid.rounds { dtype.accumulator() } else { dtype }
}

/// The dims of an operator outside its operands: its guard's, its attributes', a repeat's extent.
pub fn dims_of(op: &Op) -> Vec<Dim> {
    let mut found = Vec::new();
    match op {
        Op::Reduce { guard, .. } | Op::Contract { guard, .. } => {
            guard.condition.visit_dims(&mut |dim| found.push(dim.clone()));
        }
        Op::Special { attributes, .. } => {
            found.extend(attributes.iter().filter_map(|attribute| match attribute {
                Attribute::Dim(dim) => Some(dim.clone()),
                _ => None,
            }))
        }
        Op::Repeat { extent, .. } => found.push(extent.clone()),
        Op::Elementwise { .. } | Op::Call { .. } => {}
    }
    found
}

/// The facts after an operator whose results have these names and types: an operator that computes offsets adds one.
pub fn facts_after(
    scope: &Scope<'_>,
    op: &Op,
    operands: &[Operand],
    names: &[Symbol],
    results: &[TensorType],
) -> Result<Option<Facts>, Problem> {
    let Op::Special { operator, .. } = op else { return Ok(None) };
    let Some(rule) = operator.splits else { return Ok(None) };
    let types = operands.iter().map(|operand| operand_type(scope, operand)).collect::<Result<Vec<_>, _>>()?;
    let Some(splits) = rule(&types, results) else { return Ok(None) };
    let Some(name) = names.get(splits.result) else { return Ok(None) };
    let mut facts = scope.facts.clone();
    let declared = facts.declare_splits(name.clone(), splits.parts, splits.total);
    declared.map_err(|error| Problem::new(Reason::Fact, error.to_string()).at(At::Result(splits.result)))?;
    Ok(Some(facts))
}
