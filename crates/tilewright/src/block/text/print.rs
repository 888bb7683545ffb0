//! Prints block programs.

use super::inferred;
use crate::block::ir::{
    Argument, Carry, Function, Guard, Map, Node, Order, Program, Range, Repeat, Value, ValueId, ValueType,
};
use crate::dim::{Cond, Dim};
use crate::tensor::{Axis, ParamKind, RepeatArgument, RepeatResult, Scalar, TensorType};
use crate::text::format_float;
use std::fmt::{self, Display, Write};

/// Prints nodes over a list of values.
pub struct Printer<'a> {
    /// The tensors and items that nodes name.
    pub values: &'a [Value],
    /// The functions that calls and repeats name; none in the bodies of tasks.
    pub functions: &'a [Function],
}

fn joined<T: Display>(parts: impl IntoIterator<Item = T>) -> String {
    let parts: Vec<String> = parts.into_iter().map(|part| part.to_string()).collect();
    parts.join(", ")
}

fn axis(axis: &Axis) -> String {
    match axis.extent.as_symbol() {
        Some(symbol) if *symbol == axis.name => axis.name.to_string(),
        _ => format!("{}: {}", axis.name, axis.extent),
    }
}

fn tensor(ty: &TensorType) -> String {
    format!("{}[{}]", ty.dtype, joined(ty.axes.iter().map(axis)))
}

impl Display for Range {
    /// `label: start +: size < end`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} +: {} < {}", self.label, self.start, self.size, self.end)
    }
}

fn literal(value: Scalar) -> String {
    match value {
        Scalar::Float(x) => format_float(x),
        Scalar::Int(x) => x.to_string(),
        Scalar::Bool(x) => x.to_string(),
    }
}

impl Printer<'_> {
    /// Appends the nodes, a line or more each, behind `indent` spaces.
    pub fn nodes(&self, nodes: &[Node], indent: usize, out: &mut String) {
        nodes.iter().for_each(|node| self.node(node, indent, out));
    }

    fn name(&self, id: ValueId) -> String {
        match self.values.get(id.0 as usize) {
            Some(value) => value.name.to_string(),
            None => format!("?{}", id.0),
        }
    }

    fn names(&self, ids: &[ValueId]) -> String {
        joined(ids.iter().map(|id| self.name(*id)))
    }

    /// `name: type`, without the ranges of an item that are those in `known`.
    fn definition(&self, id: ValueId, known: &[Range]) -> String {
        let name = self.name(id);
        match self.values.get(id.0 as usize).map(|value| &value.ty) {
            None => name,
            Some(ValueType::Tensor { ty, alias: None }) => format!("{name}: {}", tensor(ty)),
            Some(ValueType::Tensor { ty, alias: Some(older) }) => {
                format!("{name}: {} overwrites {}", tensor(ty), self.name(*older))
            }
            Some(ValueType::Item(ty)) if ty.ranges == known => format!("{name}: {}", ty.dtype),
            Some(ValueType::Item(ty)) => format!("{name}: {}{{{}}}", ty.dtype, joined(&ty.ranges)),
        }
    }

    fn node(&self, node: &Node, indent: usize, out: &mut String) {
        let mut known = inferred(self.values, node).into_iter();
        let defined = node.defines();
        let definitions = defined.iter().map(|id| {
            let is_item =
                matches!(self.values.get(id.0 as usize), Some(Value { ty: ValueType::Item(_), .. }));
            let known = if is_item { known.next().unwrap_or_default() } else { Vec::new() };
            self.definition(*id, &known)
        });
        let definitions = joined(definitions);
        let _ = write!(out, "{:indent$}", "");
        if !definitions.is_empty() {
            let _ = write!(out, "{definitions} = ");
        }
        match node {
            Node::Map(map) => self.map(map, indent, out),
            Node::Load(load) => {
                let _ = write!(out, "load {}[{}]", self.name(load.source), joined(&load.index));
                if load.when != Cond::True {
                    let _ = write!(out, " when {}", load.when);
                }
            }
            Node::Store(store) => {
                let (item, target) = (self.name(store.item), self.name(store.target));
                let _ = write!(out, "store {item} -> {target}[{}]", joined(&store.index));
            }
            Node::Compute(compute) => {
                out.push_str(compute.function.name);
                for argument in &compute.arguments {
                    let _ = match argument {
                        Argument::Item(id) => write!(out, " {}", self.name(*id)),
                        Argument::Literal(value) => write!(out, " {}", literal(*value)),
                        Argument::Index(dim) => write!(out, " index({dim})"),
                        Argument::Holds(cond) => write!(out, " holds({cond})"),
                    };
                }
            }
            Node::Reduce(reduce) => {
                let _ = write!(out, "reduce {} {}", reduce.monoid.name, self.name(reduce.argument));
                if reduce.position != Dim::constant(0) {
                    let _ = write!(out, " at {}", reduce.position);
                }
                if !reduce.into.is_empty() {
                    let _ = write!(out, " into {}", self.names(&reduce.into));
                }
                self.guard(&reduce.guard, out);
            }
            Node::Contract(contract) => {
                out.push_str("contract");
                contract.arguments.iter().for_each(|id| {
                    let _ = write!(out, " {}", self.name(*id));
                });
                if let Some(into) = contract.into {
                    let _ = write!(out, " into {}", self.name(into));
                }
                self.guard(&contract.guard, out);
            }
            Node::Opaque(opaque) => {
                let operands = self.names(&opaque.operands);
                let _ = write!(out, "opaque {}({operands}) axis {}", opaque.operator.name, opaque.axis);
            }
            Node::Call(call) => {
                let _ = write!(out, "call {}({})", self.function(call.function), self.names(&call.arguments));
            }
            Node::Repeat(repeat) => self.repeat(repeat, out),
        }
        out.push('\n');
    }

    fn map(&self, map: &Map, indent: usize, out: &mut String) {
        let order = match map.order {
            Order::Parallel => "parallel",
            Order::Sequential => "sequential",
        };
        let _ = write!(out, "map {} in {} {order}", map.coordinate, map.extent);
        for Carry { monoid, dtype, from, state, .. } in &map.carries {
            let states = state.iter().enumerate().map(|(k, id)| {
                let before = from.get(k).and_then(|id| self.values.get(id.0 as usize));
                match before.map(|value| &value.ty) {
                    Some(ValueType::Item(ty)) => self.definition(*id, &ty.ranges),
                    _ => self.definition(*id, &[]),
                }
            });
            let _ = write!(out, " carry {} {dtype} ({})", monoid.name, joined(states));
            if !from.is_empty() {
                let _ = write!(out, " from {}", self.names(from));
            }
        }
        out.push_str(" {\n");
        self.nodes(&map.body, indent + 2, out);
        let next: Vec<ValueId> = map.carries.iter().flat_map(|carry| carry.next.iter().copied()).collect();
        if !next.is_empty() {
            let _ = writeln!(out, "{:indent$}  next {}", "", self.names(&next));
        }
        let _ = write!(out, "{:indent$}}}", "");
    }

    fn guard(&self, guard: &Guard, out: &mut String) {
        if guard.condition != Cond::True {
            let _ = write!(out, " where {}", guard.condition);
        }
        if !guard.masks.is_empty() {
            let _ = write!(out, " masks {}", self.names(&guard.masks));
        }
    }

    fn function(&self, id: crate::tensor::FunctionId) -> String {
        self.functions
            .get(id.0 as usize)
            .map_or_else(|| format!("?{}", id.0), |function| function.name.to_string())
    }

    fn repeat(&self, repeat: &Repeat, out: &mut String) {
        let coordinate = &repeat.coordinate;
        let arguments = repeat.arguments.iter().map(|(id, kind)| match kind {
            RepeatArgument::Shared => self.name(*id),
            RepeatArgument::Sliced => format!("{}[{coordinate}]", self.name(*id)),
            RepeatArgument::Carried { name } => format!("{name} = {}", self.name(*id)),
        });
        let outcomes = repeat.results.iter().map(|(_, kind)| match kind {
            RepeatResult::Stacked => format!("[{coordinate}]"),
            RepeatResult::Carried(index) => match repeat.arguments.get(*index) {
                Some((_, RepeatArgument::Carried { name })) => name.to_string(),
                _ => format!("?{index}"),
            },
        });
        let function = self.function(repeat.function);
        let _ = write!(
            out,
            "repeat {coordinate} in {} {{ {function}({}) -> {} }}",
            repeat.extent,
            joined(arguments),
            joined(outcomes)
        );
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.functions.len().saturating_sub(1);
        for (index, function) in self.functions.iter().enumerate() {
            let printer = Printer { values: &function.values, functions: &self.functions };
            let params = function.params.iter().map(|param| {
                let kind = match param.kind {
                    ParamKind::Input => "",
                    ParamKind::Weight => "weight ",
                    ParamKind::Plan => "plan ",
                    ParamKind::State => "state ",
                };
                match function.tensor(param.value) {
                    Some(ty) => format!("{}: {kind}{}", printer.name(param.value), tensor(ty)),
                    None => printer.name(param.value),
                }
            });
            let word = if index == last { "program" } else { "fn" };
            write!(f, "{word} {}({})", function.name, joined(params))?;
            if index == last && !self.facts.is_empty() {
                write!(f, "\nwhere {}\n{{\n", self.facts)?;
            } else {
                f.write_str(" {\n")?;
            }
            let mut body = String::new();
            printer.nodes(&function.body, 2, &mut body);
            f.write_str(&body)?;
            let results = printer.names(&function.results);
            writeln!(f, "{}", format!("  return {results}").trim_end())?;
            f.write_str("}\n")?;
            if index != last {
                f.write_str("\n")?;
            }
        }
        Ok(())
    }
}
