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

use super::dtype::{DType, Scalar};
use super::infer::axes::check_name;
use super::infer::{self, At, Problem, Reason, Scope, Signature};
use super::ir::{
    Attribute, Axis, Function, FunctionId, Guard, Node, Op, Operand, Param, ParamKind, Program,
    RepeatArgument, RepeatResult, TensorType, Value, ValueId,
};
use super::names::did_you_mean;
use super::{elementwise, monoid, ops};
use crate::dim::{Dim, Facts, Symbol};
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

    /// A value as an operand under labels; with none, under its own axis names.
    pub fn at<const N: usize>(&self, value: ValueId, labels: [&str; N]) -> Operand {
        Operand::Value { value, labels: labels.iter().map(|label| Symbol::new(label)).collect() }
    }

    /// An elementwise function by its text name. The result's name is made unique.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such function.
    pub fn elementwise(
        &mut self,
        name: &str,
        function: &str,
        operands: impl IntoIterator<Item = Operand>,
    ) -> Result<ValueId, Problem> {
        let op = Op::Elementwise { function: find(function, elementwise::find(function))? };
        self.single(name, op, operands, None, None)
    }

    /// An elementwise function whose result has these axes, each `label` or `name: label`.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such function.
    pub fn elementwise_to<'a>(
        &mut self,
        name: &str,
        function: &str,
        operands: impl IntoIterator<Item = Operand>,
        axes: impl IntoIterator<Item = &'a str>,
    ) -> Result<ValueId, Problem> {
        let op = Op::Elementwise { function: find(function, elementwise::find(function))? };
        self.single(name, op, operands, Some(vec![label_axes(axes)]), None)
    }

    /// `cast` to an element type.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn cast(&mut self, name: &str, operand: impl Into<Operand>, to: DType) -> Result<ValueId, Problem> {
        let op = Op::Elementwise { function: find("cast", elementwise::find("cast"))? };
        self.single(name, op, [operand.into()], None, Some(to))
    }

    /// A reduction of an operand over labels, without a guard, in the accumulation type of its elements.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such monoid.
    pub fn reduce<'a>(
        &mut self,
        name: &str,
        monoid: &str,
        operand: impl Into<Operand>,
        over: impl IntoIterator<Item = &'a str>,
    ) -> Result<ValueId, Problem> {
        self.reduce_where(name, monoid, operand, over, Guard::always())
    }

    /// A reduction under a guard.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such monoid.
    pub fn reduce_where<'a>(
        &mut self,
        name: &str,
        monoid: &str,
        operand: impl Into<Operand>,
        over: impl IntoIterator<Item = &'a str>,
        guard: Guard,
    ) -> Result<ValueId, Problem> {
        let monoid = find(monoid, monoid::find(monoid))?;
        let operand = operand.into();
        let accumulate = infer::default_accumulate(monoid, self.operand_dtype(&operand)?);
        let over = over.into_iter().map(Symbol::new).collect();
        self.single(name, Op::Reduce { monoid, over, guard, accumulate }, [operand], None, None)
    }

    /// A contraction to axes, each `label` or `name: label`, without a guard, in the accumulation type of its
    /// operands' elements; the result has their type.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn contract<'a>(
        &mut self,
        name: &str,
        operands: impl IntoIterator<Item = Operand>,
        axes: impl IntoIterator<Item = &'a str>,
    ) -> Result<ValueId, Problem> {
        self.contract_where(name, operands, axes, Guard::always(), None)
    }

    /// A contraction under a guard, with a result of element type `to` (that of the operands if none).
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn contract_where<'a>(
        &mut self,
        name: &str,
        operands: impl IntoIterator<Item = Operand>,
        axes: impl IntoIterator<Item = &'a str>,
        guard: Guard,
        to: Option<DType>,
    ) -> Result<ValueId, Problem> {
        let operands: Vec<Operand> = operands.into_iter().collect();
        let accumulate = match operands.first() {
            Some(operand) => self.operand_dtype(operand)?.accumulator(),
            None => DType::F32,
        };
        self.single(name, Op::Contract { guard, accumulate }, operands, Some(vec![label_axes(axes)]), to)
    }

    /// The element type of an operand, whose labels may still be left out.
    fn operand_dtype(&self, operand: &Operand) -> Result<DType, Problem> {
        match operand {
            Operand::Value { value, .. } => Ok(self.scope().value(*value)?.ty.dtype),
            _ => Ok(infer::operand_type(&self.scope(), operand)?.dtype),
        }
    }

    /// An operator of `tensor/ops` with one result.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such operator.
    pub fn special(
        &mut self,
        name: &str,
        operator: &str,
        operands: impl IntoIterator<Item = Operand>,
        attributes: Vec<Attribute>,
        stated: Option<Vec<Axis>>,
    ) -> Result<ValueId, Problem> {
        let op = Op::Special { operator: find(operator, ops::find(operator))?, attributes };
        self.single(name, op, operands, stated.map(|axes| vec![axes]), None)
    }

    /// An operator of `tensor/ops` with several results.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such operator.
    pub fn specials(
        &mut self,
        names: &[&str],
        operator: &str,
        operands: impl IntoIterator<Item = Operand>,
        attributes: Vec<Attribute>,
        stated: Option<Vec<Vec<Axis>>>,
    ) -> Result<Vec<ValueId>, Problem> {
        let op = Op::Special { operator: find(operator, ops::find(operator))?, attributes };
        self.several(names, op, operands, stated)
    }

    /// A function applied once; as many names as it has results.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn call(
        &mut self,
        names: &[&str],
        function: FunctionId,
        arguments: &[ValueId],
    ) -> Result<Vec<ValueId>, Problem> {
        self.several(names, Op::Call { function }, arguments.iter().map(|id| Operand::from(*id)), None)
    }

    /// A function applied for `coordinate` = 0, 1, … `extent` - 1; as many names as it has results. `arguments` says
    /// what is passed and how, `results` what becomes of each result.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn repeat(
        &mut self,
        names: &[&str],
        (coordinate, extent): (&str, impl Into<Dim>),
        function: FunctionId,
        arguments: &[(ValueId, RepeatArgument)],
        results: &[RepeatResult],
    ) -> Result<Vec<ValueId>, Problem> {
        let op = Op::Repeat {
            coordinate: Symbol::new(coordinate),
            extent: extent.into(),
            function,
            arguments: arguments.iter().map(|(_, argument)| argument.clone()).collect(),
            results: results.to_vec(),
        };
        self.several(names, op, arguments.iter().map(|(id, _)| Operand::from(*id)), None)
    }

    fn single(
        &mut self,
        name: &str,
        op: Op,
        operands: impl IntoIterator<Item = Operand>,
        stated: Option<Vec<Vec<Axis>>>,
        to: Option<DType>,
    ) -> Result<ValueId, Problem> {
        let name = self.fresh(name);
        let results = self.op(&[&name], op, operands.into_iter().collect(), stated, to)?;
        results.first().copied().ok_or_else(|| Problem::new(Reason::Count, "this gives no result"))
    }

    fn several(
        &mut self,
        names: &[&str],
        op: Op,
        operands: impl IntoIterator<Item = Operand>,
        stated: Option<Vec<Vec<Axis>>>,
    ) -> Result<Vec<ValueId>, Problem> {
        let names: Vec<String> = names.iter().map(|name| self.fresh(name)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.op(&names, op, operands.into_iter().collect(), stated, None)
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

/// Stated axes of an elementwise function, a reduction or a contraction from `label` or `name: label`.
pub fn label_axes<'a>(axes: impl IntoIterator<Item = &'a str>) -> Vec<Axis> {
    axes.into_iter()
        .map(|axis| {
            let (name, label) = axis.split_once(':').unwrap_or((axis, axis));
            Axis { name: Symbol::new(name.trim()), extent: Dim::symbol(label.trim()) }
        })
        .collect()
}

/// The table row, or the problem that there is none.
fn find<T: ?Sized>(name: &str, row: Option<&'static T>) -> Result<&'static T, Problem> {
    row.ok_or_else(|| unknown_operator(name, []))
}

/// There is no operator of this name; `functions` could be called as well.
pub fn unknown_operator<'a>(name: &str, functions: impl IntoIterator<Item = &'a str>) -> Problem {
    let hint = did_you_mean(name, operator_names().into_iter().chain(functions));
    Problem::new(Reason::Operator, format!("unknown operator `{name}`{hint}"))
}

impl From<ValueId> for Operand {
    /// The value under its own axis names, which the builder puts in.
    fn from(value: ValueId) -> Operand {
        Operand::Value { value, labels: Vec::new() }
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Operand {
        Operand::Literal(Scalar::Float(value))
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Operand {
        Operand::Literal(Scalar::Int(value))
    }
}

impl From<bool> for Operand {
    fn from(value: bool) -> Operand {
        Operand::Literal(Scalar::Bool(value))
    }
}

impl From<Dim> for Operand {
    fn from(value: Dim) -> Operand {
        Operand::Dim(value)
    }
}
