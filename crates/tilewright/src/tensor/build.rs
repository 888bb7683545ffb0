//! Building programs from Rust, with inference of types.
//!
//! ```
//! use tilewright::dim::Facts;
//! use tilewright::tensor::build::ProgramBuilder;
//! use tilewright::tensor::{DType, ParamKind, TensorType};
//!
//! let facts: Facts = "S in 0..=8192, D = 64, N = 32".parse()?;
//! let mut program = ProgramBuilder::new(facts);
//! let mut f = program.start("scaled_matmul");
//! let x = f.param("x", TensorType::new(DType::F32, [("S", "S"), ("D", "D")]), ParamKind::Input)?;
//! let w = f.param("w", TensorType::new(DType::F32, [("N", "N"), ("D", "D")]), ParamKind::Weight)?;
//! let h = f.elementwise("h", "mul", [x.into(), 0.5.into()])?;
//! let y = f.contract("y", [f.at(h, ["s", "d"]), f.at(w, ["n", "d"])], ["S: s", "N: n"])?;
//! let function = f.finish(&[y])?;
//! program.function(function)?;
//! let program = program.finish()?;
//! # assert_eq!(program.main().nodes.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Functions are built callees first; the last one is the program itself. A builder that reports a [`Problem`] is
//! unchanged, so that a caller may try something else.

mod shorthand;

pub use shorthand::label_axes;

use super::dtype::DType;
use super::infer::axes::check_name;
use super::infer::{self, At, Problem, Reason, Scope, Signature};
use super::ir::{
    Axis, Function, FunctionId, Node, Op, Operand, Param, ParamKind, Program, TensorType, Value, ValueId,
};
use super::names::did_you_mean;
use super::{elementwise, monoid, ops};
use crate::dim::{Facts, Symbol};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A program in the making: facts and finished functions.
#[derive(Clone, Debug)]
pub struct ProgramBuilder {
    facts: Arc<Facts>,
    functions: Vec<Function>,
    signatures: Vec<Arc<Signature>>,
}

impl ProgramBuilder {
    /// No functions yet. Every size that a type mentions must be declared in `facts`.
    pub fn new(facts: Facts) -> ProgramBuilder {
        ProgramBuilder { facts: Arc::new(facts), functions: Vec::new(), signatures: Vec::new() }
    }

    /// What is known of sizes and tables.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// A new function that can call those finished before.
    pub fn start(&self, name: &str) -> FunctionBuilder {
        FunctionBuilder::new(name, self)
    }

    /// Adds a finished function.
    ///
    /// # Errors
    /// If its name is taken or is an operator's.
    pub fn function(&mut self, function: Function) -> Result<FunctionId, Problem> {
        check_function_name(&function.name, self.signatures.iter().map(|signature| &signature.name))?;
        let id = FunctionId(self.functions.len() as u32);
        self.signatures.push(Arc::new(Signature::of(&function)));
        self.functions.push(function);
        Ok(id)
    }

    /// The function with this name.
    pub fn find(&self, name: &str) -> Option<FunctionId> {
        let at = self.functions.iter().position(|function| function.name.as_str() == name)?;
        Some(FunctionId(at as u32))
    }

    /// The names of the functions so far.
    pub fn function_names(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|function| function.name.as_str())
    }

    /// The program, whose last function is the program itself.
    ///
    /// # Errors
    /// If there is no function, or facts and kinds of parameters do not fit the functions.
    pub fn finish(self) -> Result<Program, Problem> {
        let program = Program {
            functions: self.functions,
            facts: Arc::try_unwrap(self.facts).unwrap_or_else(|shared| (*shared).clone()),
        };
        super::verify::check_whole(&program)?;
        Ok(program)
    }
}

/// Whether a function may have this name beside `others`.
pub fn check_function_name<'a>(
    name: &Symbol,
    others: impl IntoIterator<Item = &'a Symbol>,
) -> Result<(), Problem> {
    check_name(name, "a function")?;
    if is_operator(name.as_str()) {
        let message = format!("`{name}` is an operator; call the function differently");
        return Err(Problem::new(Reason::Name, message));
    }
    if others.into_iter().any(|other| other == name) {
        return Err(Problem::new(
            Reason::Name,
            format!("there are two functions `{name}`; name one differently"),
        ));
    }
    Ok(())
}

/// Whether the word is the text name of an operator.
pub fn is_operator(word: &str) -> bool {
    word == "contract"
        || word == "repeat"
        || elementwise::find(word).is_some()
        || monoid::find(word).is_some()
        || ops::find(word).is_some()
}

/// The text names of all operators, sorted, each once.
pub fn operator_names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = vec!["contract", "repeat"];
    names.extend(elementwise::TABLE.iter().map(|row| row.name));
    names.extend(monoid::TABLE.iter().map(|row| row.name));
    names.extend(ops::TABLE.iter().map(|row| row.name));
    names.sort_unstable();
    names.dedup();
    names
}

/// A function in the making.
#[derive(Clone, Debug)]
pub struct FunctionBuilder {
    facts: Arc<Facts>,
    signatures: Vec<Arc<Signature>>,
    names: BTreeMap<Symbol, ValueId>,
    function: Function,
}

impl FunctionBuilder {
    /// A function without parameters yet, which can call the functions of `program`.
    pub fn new(name: &str, program: &ProgramBuilder) -> FunctionBuilder {
        FunctionBuilder {
            facts: Arc::clone(&program.facts),
            signatures: program.signatures.clone(),
            names: BTreeMap::new(),
            function: Function {
                name: Symbol::new(name),
                params: Vec::new(),
                values: Vec::new(),
                nodes: Vec::new(),
                results: Vec::new(),
            },
        }
    }

    /// What the next operator can see.
    pub fn scope(&self) -> Scope<'_> {
        Scope {
            facts: &self.facts,
            values: &self.function.values,
            names: &self.names,
            signatures: &self.signatures,
        }
    }

    /// The values so far: parameters and results of operators.
    pub fn values(&self) -> &[Value] {
        &self.function.values
    }

    /// `Node::result_labels` of the operator that was added last.
    pub fn last_result_labels(&self) -> &[Symbol] {
        self.function.nodes.last().map_or(&[], |node| &node.result_labels)
    }

    /// The type of a value of this function.
    ///
    /// # Panics
    /// If the id is not one that this builder gave.
    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.function.value(id).ty
    }

    /// The value with this name.
    pub fn find(&self, name: &str) -> Option<ValueId> {
        self.names.get(&Symbol::new(name)).copied()
    }

    /// `name`, or `name_1`, `name_2`, …: the first that is neither a value nor a size.
    pub fn fresh(&self, name: &str) -> String {
        let taken = |name: &str| {
            let symbol = Symbol::new(name);
            self.names.contains_key(&symbol) || self.facts.range(&symbol).is_some()
        };
        if !taken(name) {
            return name.to_string();
        }
        (1u64..).map(|k| format!("{name}_{k}")).find(|name| !taken(name)).unwrap_or_default()
    }

    /// Adds a parameter.
    ///
    /// # Errors
    /// If the name is taken or no name, operators have been added, or the type is not legal here.
    pub fn param(&mut self, name: &str, ty: TensorType, kind: ParamKind) -> Result<ValueId, Problem> {
        if !self.function.nodes.is_empty() {
            return Err(Problem::new(
                Reason::Order,
                format!("the parameter `{name}` must come before the operators"),
            ));
        }
        infer::check_type(&self.scope(), &ty, &[])?;
        let value = self.define(name, ty)?;
        self.function.params.push(Param { value, kind });
        Ok(value)
    }

    fn check_new(&self, name: &Symbol) -> Result<(), Problem> {
        check_value_name(name, &self.facts)?;
        if self.names.contains_key(name) {
            let message = format!("`{name}` is already defined; give this value another name");
            return Err(Problem::new(Reason::Name, message));
        }
        Ok(())
    }

    fn define(&mut self, name: &str, ty: TensorType) -> Result<ValueId, Problem> {
        let name = Symbol::new(name);
        self.check_new(&name)?;
        let id = ValueId(self.function.values.len() as u32);
        self.names.insert(name.clone(), id);
        self.function.values.push(Value { name, ty });
        Ok(id)
    }

    /// Adds an operator whose results get exactly these names.
    ///
    /// A literal becomes one of the element type that it meets, `over` is put in the order of the operand, and a
    /// tensor operand with no labels is read under its own axis names. `stated` are the axes behind `->`, one list
    /// per result, in the form that [`infer`] describes; `to` is the element type of the result of `contract` and of
    /// functions such as `cast`.
    ///
    /// # Errors
    /// If the operator cannot be applied this way.
    pub fn op(
        &mut self,
        names: &[&str],
        op: Op,
        operands: Vec<Operand>,
        stated: Option<Vec<Vec<Axis>>>,
        to: Option<DType>,
    ) -> Result<Vec<ValueId>, Problem> {
        let names: Vec<Symbol> = names.iter().map(|name| Symbol::new(name)).collect();
        for (index, name) in names.iter().enumerate() {
            let at = |problem: Problem| problem.at(At::Result(index));
            self.check_new(name).map_err(at)?;
            if names.iter().take(index).any(|earlier| earlier == name) {
                return Err(at(Problem::new(Reason::Name, format!("two results are called `{name}`"))));
            }
        }
        let operands = self.complete(&op, operands, to)?;
        let op = self.ordered(op, &operands);
        let typed = infer::infer(&self.scope(), &op, &operands, &names, stated.as_deref(), to)?;
        if typed.types.len() != names.len() {
            let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
            let message = format!(
                "this gives {}, and has {}",
                plural(typed.types.len(), "result"),
                plural(names.len(), "name")
            );
            return Err(Problem::new(Reason::Count, message));
        }
        let facts = infer::facts_after(&self.scope(), &op, &operands, &names, &typed.types)?;
        let mut results = Vec::with_capacity(names.len());
        for (name, ty) in names.iter().zip(typed.types) {
            results.push(self.define(name.as_str(), ty)?);
        }
        if let Some(facts) = facts {
            self.facts = Arc::new(facts);
        }
        self.function.nodes.push(Node {
            op,
            operands,
            result_labels: typed.result_labels,
            results: results.clone(),
        });
        Ok(results)
    }

    /// Operands with their labels, and literals of the element type that they meet.
    fn complete(&self, op: &Op, operands: Vec<Operand>, to: Option<DType>) -> Result<Vec<Operand>, Problem> {
        let mut operands = operands;
        for (index, operand) in operands.iter_mut().enumerate() {
            if let Operand::Value { value, labels } = operand
                && labels.is_empty()
            {
                let value = self.scope().value(*value).map_err(|problem| problem.at(At::Operand(index)))?;
                *labels = value.ty.labels();
            }
        }
        if let Op::Elementwise { function } = op {
            let (types, _) = infer::elementwise_types(&self.scope(), function, &operands, to)?;
            for (index, (operand, dtype)) in operands.iter_mut().zip(types).enumerate() {
                if let Operand::Literal(scalar) = operand {
                    *scalar =
                        infer::adapt(*scalar, dtype).map_err(|problem| problem.at(At::Operand(index)))?;
                }
            }
        }
        Ok(operands)
    }

    /// The operator with its reduced labels in the order of the operand.
    fn ordered(&self, mut op: Op, operands: &[Operand]) -> Op {
        if let (Op::Reduce { over, .. }, [Operand::Value { labels, .. }]) = (&mut op, operands) {
            over.sort_by_key(|label| labels.iter().position(|known| known == label));
        }
        op
    }

    /// The function, which returns these values.
    ///
    /// # Errors
    /// If an id is not one of this function, or nothing is returned.
    pub fn finish(self, results: &[ValueId]) -> Result<Function, Problem> {
        if results.is_empty() {
            let message =
                format!("`{}` returns nothing; a function has at least one result", self.function.name);
            return Err(Problem::new(Reason::Count, message));
        }
        for id in results {
            self.scope().value(*id)?;
        }
        let mut function = self.function;
        function.results = results.to_vec();
        Ok(function)
    }
}

/// Whether a value may have this name beside these sizes.
pub fn check_value_name(name: &Symbol, facts: &Facts) -> Result<(), Problem> {
    check_name(name, "a value")?;
    if facts.range(name).is_some() {
        let message = format!("`{name}` is a size; give this value another name");
        return Err(Problem::new(Reason::Name, message));
    }
    Ok(())
}

/// There is no operator of this name; `functions` could be called as well.
pub fn unknown_operator<'a>(name: &str, functions: impl IntoIterator<Item = &'a str>) -> Problem {
    let hint = did_you_mean(name, operator_names().into_iter().chain(functions));
    Problem::new(Reason::Operator, format!("unknown operator `{name}`{hint}"))
}
