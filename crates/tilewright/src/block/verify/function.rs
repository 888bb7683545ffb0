//! The laws of functions: parameters, the order of tensors, memory that is taken over, calls and repeats.

use super::scope::{Checker, Outcome, Tensor};
use super::{Reason, Violation};
use crate::block::eval::facts_in;
use crate::block::ir::{Call, Function, Map, Node, Opaque, Program, Repeat, Value, ValueId, ValueType};
use crate::dim::{Dim, Proof, Symbol};
use crate::tensor::{FunctionId, ParamKind, RepeatArgument, RepeatResult, TensorType};
use std::collections::BTreeSet;

/// Whether the function at `index` of a program is legal.
pub(super) fn verify(program: &Program, index: usize, function: &Function) -> Outcome {
    let facts = facts_in(function, &program.facts).map_err(|message| Violation {
        reason: Reason::Opaque,
        place: function.name.to_string(),
        message,
    })?;
    let mut checker = Checker::new(function.name.to_string(), &facts, &function.values);
    checker.names()?;
    let mut walk = Walk {
        program,
        index,
        function,
        is_main: index + 1 == program.functions.len(),
        checker: &mut checker,
    };
    walk.params()?;
    for node in &function.body {
        walk.node(node)?;
    }
    for id in &function.results {
        walk.checker.readable(*id)?;
    }
    Ok(())
}

struct Walk<'w, 'a> {
    program: &'a Program,
    index: usize,
    function: &'a Function,
    is_main: bool,
    checker: &'w mut Checker<'a>,
}

impl<'a> Walk<'_, 'a> {
    fn params(&mut self) -> Outcome {
        for param in &self.function.params {
            let (value, _, _) = self.checker.tensor(param.value)?;
            if let ValueType::Tensor { alias: Some(_), .. } = &value.ty {
                return self
                    .checker
                    .fail(Reason::Alias, format!("the parameter `{}` takes over memory", value.name));
            }
            self.checker.define(param.value)?;
            self.set(param.value, Tensor::Ready);
        }
        // Extents of parameters may read each other's elements.
        for param in &self.function.params {
            let (value, ty, _) = self.checker.tensor(param.value)?;
            self.checker.axes(&value.name, ty)?;
            self.tables(ty)?;
        }
        Ok(())
    }

    fn set(&mut self, id: ValueId, state: Tensor) {
        if let Some(slot) = self.checker.tensors.get_mut(id.0 as usize) {
            *slot = state;
        }
    }

    /// The integer tensors that the extents of a type read.
    fn tables(&self, ty: &TensorType) -> Outcome {
        let labels = ty.labels();
        ty.axes.iter().try_for_each(|axis| self.checker.dim(&axis.extent, &labels))
    }

    /// A tensor that a node is about to define.
    fn new_tensor(&mut self, id: ValueId) -> Outcome<(&'a Value, &'a TensorType, Option<ValueId>)> {
        let (value, ty, _) = self.checker.tensor(id)?;
        self.checker.define(id)?;
        self.checker.axes(&value.name, ty)?;
        self.tables(ty)?;
        let alias = match &value.ty {
            ValueType::Tensor { alias, .. } => *alias,
            ValueType::Item(_) => None,
        };
        Ok((value, ty, alias))
    }

    /// The results of a node that gives whole tensors with memory of their own.
    fn results(&mut self, ids: impl IntoIterator<Item = ValueId>) -> Outcome {
        for id in ids {
            let (value, _, alias) = self.new_tensor(id)?;
            if alias.is_some() {
                let message = format!("`{}` takes over memory, and no map defines it", value.name);
                return self.checker.fail(Reason::Alias, message);
            }
            self.set(id, Tensor::Ready);
        }
        Ok(())
    }

    fn node(&mut self, node: &'a Node) -> Outcome {
        let named = node.defines().first().and_then(|id| self.function.values.get(id.0 as usize));
        self.checker.place = match named {
            Some(value) => format!("{}: {}", self.function.name, value.name),
            None => self.function.name.to_string(),
        };
        match node {
            Node::Map(map) => self.map(map),
            Node::Opaque(opaque) => self.opaque(opaque),
            Node::Call(call) => self.call(call),
            Node::Repeat(repeat) => self.repeat(repeat),
            Node::Load(_) | Node::Store(_) | Node::Compute(_) | Node::Reduce(_) | Node::Contract(_) => {
                self.checker.fail(Reason::Place, "a node on items outside a map")
            }
        }
    }

    fn map(&mut self, map: &'a Map) -> Outcome {
        for id in &map.defines {
            let (value, ty, alias) = self.new_tensor(*id)?;
            if let Some(older) = alias {
                self.take_over(value, ty, older)?;
            }
            self.set(*id, Tensor::Open);
        }
        self.checker.map(map)?;
        for id in &map.defines {
            if !self.checker.stored.contains(id) {
                let message = format!("nothing is stored to `{}`", self.checker.value(*id)?.name);
                return self.checker.fail(Reason::Defined, message);
            }
            self.set(*id, Tensor::Ready);
        }
        Ok(())
    }

    /// Whether a tensor can take over the memory of an older one, which is dead from here on.
    fn take_over(&mut self, value: &Value, ty: &TensorType, older: ValueId) -> Outcome {
        let (old_value, old_type) = self.checker.readable(older)?;
        let kind = self.function.params.iter().find(|param| param.value == older).map(|param| param.kind);
        if kind.is_some_and(|kind| !self.is_main || kind != ParamKind::State) {
            let message =
                format!("`{}` belongs to the caller and is not state; copy it first", old_value.name);
            return self.checker.fail(Reason::Alias, message);
        }
        if ty.dtype != old_type.dtype || self.differ(&ty.axes, &old_type.axes) {
            let message = format!("`{}` and `{}` have different types", value.name, old_value.name);
            return self.checker.fail(Reason::Alias, message);
        }
        self.set(older, Tensor::Dead);
        Ok(())
    }

    /// Whether axes differ in number or in an extent, as far as is known.
    fn differ(&self, a: &[crate::tensor::Axis], b: &[crate::tensor::Axis]) -> bool {
        a.len() != b.len()
            || a.iter().zip(b).any(|(a, b)| {
                let whole = |dim: &Dim| {
                    dim.tables().is_empty()
                        && dim.symbols().iter().all(|symbol| self.checker.facts.range(symbol).is_some())
                };
                whole(&a.extent)
                    && whole(&b.extent)
                    && self.checker.facts.equal(&a.extent, &b.extent) == Proof::No
            })
    }

    fn opaque(&mut self, opaque: &Opaque) -> Outcome {
        let operator = opaque.operator;
        if operator.opaque.is_none() {
            return self.checker.fail(Reason::Opaque, format!("`{}` is not opaque", operator.name));
        }
        let (least, most) = operator.operands;
        if !(least..=most).contains(&opaque.operands.len()) {
            let message = format!("`{}` takes {least} to {most} operands", operator.name);
            return self.checker.fail(Reason::Count, message);
        }
        for (k, id) in opaque.operands.iter().enumerate() {
            let (value, ty) = self.checker.readable(*id)?;
            if k == 0 && opaque.axis >= ty.axes.len() {
                let message = format!("`{}` has no axis {}", value.name, opaque.axis);
                return self.checker.fail(Reason::Opaque, message);
            }
        }
        self.results(opaque.results.iter().copied())
    }

    fn callee(&self, id: FunctionId) -> Outcome<&'a Function> {
        match self.program.functions.get(id.0 as usize) {
            Some(function) if (id.0 as usize) < self.index => Ok(function),
            Some(function) => self
                .checker
                .fail(Reason::Call, format!("`{}` does not stand before its caller", function.name)),
            None => self.checker.fail(Reason::Id, format!("there is no function {}", id.0)),
        }
    }

    /// Whether a tensor fits a tensor of a callee, given what lies before the callee's axes.
    fn fits(&self, own: &TensorType, callee: &Function, id: ValueId, leading: Option<&Dim>) -> Outcome {
        let Some(ValueType::Tensor { ty, .. }) = callee.values.get(id.0 as usize).map(|value| &value.ty)
        else {
            return self.checker.fail(
                Reason::Call,
                format!("`{}` has a parameter or result that is no tensor", callee.name),
            );
        };
        let axes = match leading {
            None => own.axes.as_slice(),
            Some(extent) => match own.axes.split_first() {
                Some((first, rest)) if self.checker.facts.equal(&first.extent, extent) != Proof::No => rest,
                _ => {
                    let message =
                        format!("a sliced or stacked tensor has no first axis of extent `{extent}`");
                    return self.checker.fail(Reason::Call, message);
                }
            },
        };
        if own.dtype != ty.dtype || self.differ(axes, &ty.axes) {
            return self.checker.fail(Reason::Call, format!("a tensor does not fit `{}`", callee.name));
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) -> Outcome {
        let callee = self.callee(call.function)?;
        if call.arguments.len() != callee.params.len() || call.results.len() != callee.results.len() {
            return self
                .checker
                .fail(Reason::Call, format!("`{}` takes or gives another number", callee.name));
        }
        for (id, param) in call.arguments.iter().zip(&callee.params) {
            let (_, ty) = self.checker.readable(*id)?;
            self.fits(ty, callee, param.value, None)?;
        }
        self.results(call.results.iter().copied())?;
        for (id, result) in call.results.iter().zip(&callee.results) {
            let (_, ty, _) = self.checker.tensor(*id)?;
            self.fits(ty, callee, *result, None)?;
        }
        Ok(())
    }

    fn repeat(&mut self, repeat: &Repeat) -> Outcome {
        let callee = self.callee(repeat.function)?;
        self.checker.coordinate(&repeat.coordinate)?;
        self.checker.dim(&repeat.extent, &[])?;
        if repeat.arguments.len() != callee.params.len() || repeat.results.len() != callee.results.len() {
            return self
                .checker
                .fail(Reason::Call, format!("`{}` takes or gives another number", callee.name));
        }
        let mut names: BTreeSet<&Symbol> = BTreeSet::new();
        let mut carried: BTreeSet<usize> = BTreeSet::new();
        for (k, ((id, kind), param)) in repeat.arguments.iter().zip(&callee.params).enumerate() {
            let (_, ty) = self.checker.readable(*id)?;
            let leading = match kind {
                RepeatArgument::Sliced => Some(&repeat.extent),
                RepeatArgument::Shared => None,
                RepeatArgument::Carried { name } => {
                    if !names.insert(name) {
                        return self
                            .checker
                            .fail(Reason::Name, format!("two carried arguments are called `{name}`"));
                    }
                    carried.insert(k);
                    None
                }
            };
            self.fits(ty, callee, param.value, leading)?;
        }
        self.results(repeat.results.iter().map(|(id, _)| *id))?;
        for ((id, kind), result) in repeat.results.iter().zip(&callee.results) {
            let (_, ty, _) = self.checker.tensor(*id)?;
            let leading = match kind {
                RepeatResult::Stacked => Some(&repeat.extent),
                RepeatResult::Carried(k) if carried.remove(k) => None,
                RepeatResult::Carried(k) => {
                    let message = format!("argument {k} is not carried, or carried by two results");
                    return self.checker.fail(Reason::Call, message);
                }
            };
            self.fits(ty, callee, *result, leading)?;
        }
        if let Some(k) = carried.first() {
            return self.checker.fail(Reason::Call, format!("no result carries argument {k}"));
        }
        Ok(())
    }
}
