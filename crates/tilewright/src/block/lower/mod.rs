//! The arrow from tensor programs to block programs: every nest becomes maps over blocks, nothing is fused.
//!
//! Function by function and node by node: a structured operator becomes one map per result (`nest`), an opaque one
//! an opaque node, calls and repeats stay. Tensors keep their names and types. An update that overwrites its operand
//! takes over the operand's memory where nobody needs the old contents, and a copy of it otherwise (`update`).
//!
//! Reductions accumulate in the order of the nest, so that evaluation agrees with the tensor program bit for bit.

mod nest;
mod update;

use super::ir::{Call, Function, Node, Opaque, Param, Program, Repeat, Value, ValueId, ValueType};
use crate::dim::{Facts, Symbol};
use crate::error::Error;
use crate::journal::Journal;
use crate::schedule::Plain;
use crate::target::Target;
use crate::tensor::ops::Meaning;
use crate::tensor::{self, Op, Operand, TensorType, meaning, storage};
use std::collections::BTreeSet;

/// The plain block program of a tensor program, for a target: the same functions over the same symbols.
///
/// Fails where an operator has no meaning at this level; `journal` records the block sizes that were chosen.
pub fn lower(program: &tensor::Program, target: &Target, journal: &mut Journal) -> Result<Program, Error> {
    let schedule = Plain::of(target);
    let mut functions = Vec::with_capacity(program.functions.len());
    for (index, source) in program.functions.iter().enumerate() {
        let is_main = index + 1 == program.functions.len();
        functions.push(Lowering::new(program, source, is_main, schedule)?.run(journal)?);
    }
    Ok(Program { functions, facts: program.facts.clone() })
}

/// A function being lowered. Tensors keep their ids; items and copies are appended.
struct Lowering<'a> {
    source: &'a tensor::Function,
    facts: Facts,
    symbols: BTreeSet<Symbol>,
    is_main: bool,
    schedule: Plain,
    values: Vec<Value>,
    names: BTreeSet<Symbol>,
    body: Vec<Node>,
}

impl<'a> Lowering<'a> {
    fn new(
        program: &'a tensor::Program,
        source: &'a tensor::Function,
        is_main: bool,
        schedule: Plain,
    ) -> Result<Lowering<'a>, Error> {
        let tensor = |value: &tensor::Value| Value {
            name: value.name.clone(),
            ty: ValueType::Tensor { ty: value.ty.clone(), alias: None },
        };
        let facts = storage::facts_in(source, &program.facts)
            .map_err(|message| Error::Program { place: source.name.to_string(), message })?;
        Ok(Lowering {
            source,
            symbols: program.facts.symbols().cloned().collect(),
            facts,
            is_main,
            schedule,
            values: source.values.iter().map(tensor).collect(),
            names: source.values.iter().map(|value| value.name.clone()).collect(),
            body: Vec::new(),
        })
    }

    fn run(mut self, journal: &mut Journal) -> Result<Function, Error> {
        for (index, node) in self.source.nodes.iter().enumerate() {
            match &node.op {
                Op::Call { function } => {
                    let (arguments, results) = (self.whole(node)?, ids(&node.results));
                    self.body.push(Node::Call(Call { function: *function, arguments, results }));
                }
                Op::Repeat { coordinate, extent, function, arguments, results } => {
                    let operands = self.whole(node)?;
                    self.body.push(Node::Repeat(Repeat {
                        coordinate: coordinate.clone(),
                        extent: extent.clone(),
                        function: *function,
                        arguments: operands.into_iter().zip(arguments.iter().cloned()).collect(),
                        results: ids(&node.results).into_iter().zip(results.iter().cloned()).collect(),
                    }));
                }
                _ => self.operator(index, node, journal)?,
            }
        }
        let params = self
            .source
            .params
            .iter()
            .map(|param| Param { value: id(param.value), kind: param.kind })
            .collect();
        let mut function = Function {
            name: self.source.name.clone(),
            params,
            values: self.values,
            body: self.body,
            results: ids(&self.source.results),
        };
        function.renumber();
        Ok(function)
    }

    /// An operator that is no call.
    fn operator(&mut self, index: usize, node: &tensor::Node, journal: &mut Journal) -> Result<(), Error> {
        let problem =
            |lowering: &Lowering<'_>, message| Error::Program { place: lowering.place(node), message };
        let meaning = meaning::meaning_with(&self.facts, self.source, node);
        match meaning.map_err(|message| problem(self, message))? {
            Meaning::Opaque { axis, .. } => {
                let Op::Special { operator, .. } = &node.op else {
                    return Err(problem(self, "this operator has no loops".to_string()));
                };
                let (operands, results) = (self.whole(node)?, ids(&node.results));
                self.body.push(Node::Opaque(Opaque { operator, axis, operands, results }));
            }
            Meaning::Nests(nests) => {
                if nests.len() != node.results.len() {
                    let message = format!("{} loop nests for {} results", nests.len(), node.results.len());
                    return Err(problem(self, message));
                }
                for (nest, result) in nests.iter().zip(&node.results) {
                    if let Some(operand) = nest.overwrites {
                        self.take_over(index, node, &nests, operand, id(*result), journal)?;
                    }
                    let map = self.nest(node, nest, id(*result), journal)?;
                    self.body.push(map);
                }
            }
        }
        Ok(())
    }

    /// The operands of a node that reads tensors whole.
    fn whole(&self, node: &tensor::Node) -> Result<Vec<ValueId>, Error> {
        let value = |operand: &Operand| match operand {
            Operand::Value { value, .. } => Ok(id(*value)),
            Operand::Literal(_) | Operand::Dim(_) => Err(Error::Unsupported {
                place: self.place(node),
                what: "a number as a whole operand".to_string(),
                instead: "make it a tensor with `const` first".to_string(),
            }),
        };
        node.operands.iter().map(value).collect()
    }

    /// Where an error is: the function and what the node defines.
    fn place(&self, node: &tensor::Node) -> String {
        let results = node.results.iter().filter_map(|id| self.source.values.get(id.0 as usize));
        let names: Vec<&str> = results.map(|value| value.name.as_str()).collect();
        format!("{}: {}", self.source.name, names.join(", "))
    }

    /// A name that no value has: the hint itself or with a number behind.
    fn fresh(&mut self, hint: &str) -> Symbol {
        let mut name = Symbol::new(hint);
        let mut number = 2;
        while !self.names.insert(name.clone()) {
            name = Symbol::new(&format!("{hint}_{number}"));
            number += 1;
        }
        name
    }

    fn add(&mut self, hint: &str, ty: ValueType) -> ValueId {
        let name = self.fresh(hint);
        let id = ValueId(self.values.len() as u32);
        self.values.push(Value { name, ty });
        id
    }

    fn name(&self, id: ValueId) -> String {
        self.values.get(id.0 as usize).map_or_else(String::new, |value| value.name.to_string())
    }

    fn tensor_type(&self, id: ValueId) -> Option<&TensorType> {
        match self.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Tensor { ty, .. }) => Some(ty),
            _ => None,
        }
    }
}

fn id(id: tensor::ValueId) -> ValueId {
    ValueId(id.0)
}

fn ids(ids: &[tensor::ValueId]) -> Vec<ValueId> {
    ids.iter().map(|value| id(*value)).collect()
}
