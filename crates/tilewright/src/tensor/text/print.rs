//! From programs to text: one canonical form, which reads back to the same program.
//!
//! Printing is total: an id that nothing has is written `?7`, which does not read back.

use crate::dim::{Cond, Symbol};
use crate::tensor::dtype::Scalar;
use crate::tensor::infer::axes::{axes_text, axis_text};
use crate::tensor::infer::default_accumulate;
use crate::tensor::ir::{
    Attribute, Axis, Function, FunctionId, Guard, Node, Op, Operand, ParamKind, Program, RepeatArgument,
    RepeatResult, TensorType, ValueId,
};
use crate::tensor::ops::{Operands, Special};
use crate::tensor::{DType, storage};
use crate::text::format_float;
use std::fmt;

/// The widest head of a function that stays on one line, in bytes.
const HEAD: usize = 100;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, function) in self.functions.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let is_program = index + 1 == self.functions.len();
            Printer { program: self, function }.function(f, is_program)?;
        }
        Ok(())
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, axes_text(&self.axes))
    }
}

/// A number as the text writes it.
pub fn scalar_text(scalar: Scalar) -> String {
    match scalar {
        Scalar::Float(value) => format_float(value),
        Scalar::Int(value) => value.to_string(),
        Scalar::Bool(value) => value.to_string(),
    }
}

struct Printer<'a> {
    program: &'a Program,
    function: &'a Function,
}

impl Printer<'_> {
    fn function(&self, f: &mut fmt::Formatter<'_>, is_program: bool) -> fmt::Result {
        let function = self.function;
        let params: Vec<String> = function
            .params
            .iter()
            .map(|param| {
                let kind = match param.kind {
                    ParamKind::Input => "",
                    ParamKind::Weight => "weight ",
                    ParamKind::Plan => "plan ",
                    ParamKind::State => "state ",
                };
                format!("{}: {kind}{}", self.name(param.value), self.ty(param.value))
            })
            .collect();
        let results: Vec<String> = function.results.iter().map(|id| self.ty(*id)).collect();
        let results = results.join(", ");
        let word = if is_program { "program" } else { "fn" };
        let head = format!("{word} {}({}) -> {results}", function.name, params.join(", "));
        if head.len() <= HEAD {
            write!(f, "{head}")?;
        } else {
            writeln!(f, "{word} {}(", function.name)?;
            for param in &params {
                writeln!(f, "  {param},")?;
            }
            write!(f, ") -> {results}")?;
        }
        let facts = if is_program { self.program.facts.to_string() } else { String::new() };
        if facts.is_empty() {
            writeln!(f, " {{")?;
        } else {
            writeln!(f, "\nwhere {facts}\n{{")?;
        }
        let facts = storage::facts_in(function, &self.program.facts);
        let facts = facts.unwrap_or_else(|_| self.program.facts.clone());
        for node in &function.nodes {
            let names: Vec<String> = node.results.iter().map(|id| self.name(*id)).collect();
            writeln!(f, "  {} = {}", names.join(", "), self.node(node, &facts))?;
        }
        let names: Vec<String> = function.results.iter().map(|id| self.name(*id)).collect();
        writeln!(f, "  return {}\n}}", names.join(", "))
    }

    fn name(&self, id: ValueId) -> String {
        match self.function.values.get(id.0 as usize) {
            Some(value) => value.name.to_string(),
            None => format!("?{}", id.0),
        }
    }

    fn ty(&self, id: ValueId) -> String {
        match self.function.values.get(id.0 as usize) {
            Some(value) => value.ty.to_string(),
            None => format!("?{}", id.0),
        }
    }

    fn dtype(&self, operand: Option<&Operand>) -> Option<DType> {
        match operand {
            Some(Operand::Value { value, .. }) => {
                self.function.values.get(value.0 as usize).map(|value| value.ty.dtype)
            }
            _ => None,
        }
    }

    fn result(&self, node: &Node) -> Option<&TensorType> {
        let id = node.results.first()?;
        self.function.values.get(id.0 as usize).map(|value| &value.ty)
    }

    fn node(&self, node: &Node, facts: &crate::dim::Facts) -> String {
        let mut text = String::new();
        let operands = node.operands.iter().map(|operand| format!(" {}", self.operand(operand)));
        match &node.op {
            Op::Elementwise { function } => {
                text += function.name;
                text.extend(operands);
                if function.types == crate::tensor::elementwise::TypeRule::To
                    && let Some(ty) = self.result(node)
                {
                    text += &format!(" to {}", ty.dtype);
                }
                text += &self.labelled(node, default_elementwise(&node.operands).as_deref());
            }
            Op::Reduce { monoid, over, guard, accumulate } => {
                text += monoid.name;
                text.extend(operands);
                text += &format!(" over {}", list(over));
                text += &self.guard(guard);
                let operand = node.operands.first();
                if self.dtype(operand).map(|dtype| default_accumulate(monoid, dtype)) != Some(*accumulate) {
                    text += &format!(" accumulate {accumulate}");
                }
                let kept: Option<Vec<Symbol>> = match operand {
                    Some(Operand::Value { labels, .. }) => {
                        Some(labels.iter().filter(|label| !over.contains(label)).cloned().collect())
                    }
                    _ => None,
                };
                text += &self.labelled(node, kept.as_deref());
            }
            Op::Contract { guard, accumulate } => {
                text += "contract";
                text.extend(operands);
                text += &self.guard(guard);
                let dtype = self.dtype(node.operands.first());
                if dtype.map(DType::accumulator) != Some(*accumulate) {
                    text += &format!(" accumulate {accumulate}");
                }
                if let Some(ty) = self.result(node)
                    && dtype != Some(ty.dtype)
                {
                    text += &format!(" to {}", ty.dtype);
                }
                text += &self.labelled(node, None);
            }
            Op::Special { operator, attributes } => {
                text += operator.name;
                for operand in &node.operands {
                    let plain = self.operand(operand);
                    let is_keyword = operator.keywords.iter().any(|(keyword, _)| *keyword == plain);
                    text += &if is_keyword { format!(" ({plain})") } else { format!(" {plain}") };
                }
                for (attribute, (keyword, _)) in attributes.iter().zip(operator.keywords) {
                    text += &format!(" {keyword} {}", attribute_text(attribute));
                }
                text += &self.stated(node, operator, attributes, facts);
            }
            Op::Call { function } => {
                let arguments: Vec<String> =
                    node.operands.iter().map(|operand| self.operand(operand)).collect();
                text += &format!("{}({})", self.function_name(*function), arguments.join(", "));
            }
            Op::Repeat { coordinate, extent, function, arguments, results } => {
                text += &format!("repeat {coordinate} in {extent}");
                let mut inner = Vec::new();
                for (operand, argument) in node.operands.iter().zip(arguments) {
                    let name = self.operand(operand);
                    inner.push(match argument {
                        RepeatArgument::Shared => name,
                        RepeatArgument::Sliced => format!("{name}[{coordinate}]"),
                        RepeatArgument::Carried { name: inner } => {
                            text += &format!(", {inner} = {name}");
                            inner.to_string()
                        }
                    });
                }
                let results: Vec<String> = results
                    .iter()
                    .map(|result| match result {
                        RepeatResult::Stacked => format!("[{coordinate}]"),
                        RepeatResult::Carried(at) => match arguments.get(*at) {
                            Some(RepeatArgument::Carried { name }) => name.to_string(),
                            _ => format!("?{at}"),
                        },
                    })
                    .collect();
                let function = self.function_name(*function);
                text += &format!(" {{ {function}({}) -> {} }}", inner.join(", "), results.join(", "));
            }
        }
        text
    }

    fn function_name(&self, id: FunctionId) -> String {
        match self.program.functions.get(id.0 as usize) {
            Some(function) => function.name.to_string(),
            None => format!("?{}", id.0),
        }
    }

    fn operand(&self, operand: &Operand) -> String {
        match operand {
            Operand::Value { value, labels } => {
                let own = self.function.values.get(value.0 as usize).map(|value| value.ty.labels());
                let labels =
                    if own.as_ref() == Some(labels) { String::new() } else { format!("[{}]", list(labels)) };
                format!("{}{labels}", self.name(*value))
            }
            Operand::Literal(scalar) => scalar_text(*scalar),
            Operand::Dim(dim) => match dim.as_symbol() {
                Some(symbol) => symbol.to_string(),
                None => format!("({dim})"),
            },
        }
    }

    fn guard(&self, guard: &Guard) -> String {
        let mut parts = Vec::new();
        match &guard.condition {
            Cond::True => {}
            condition @ Cond::Or(_) => parts.push(format!("({condition})")),
            condition => parts.push(condition.to_string()),
        }
        parts.extend(guard.masks.iter().map(|(id, labels)| format!("{}[{}]", self.name(*id), list(labels))));
        if parts.is_empty() { String::new() } else { format!(" where {}", parts.join(" and ")) }
    }

    /// The axes of a result that carry labels, unless they are the default under their own names.
    fn labelled(&self, node: &Node, default: Option<&[Symbol]>) -> String {
        let Some(ty) = self.result(node) else { return String::new() };
        let names = ty.labels();
        if default == Some(&node.result_labels) && names == node.result_labels {
            return String::new();
        }
        let axes = names
            .iter()
            .zip(&node.result_labels)
            .map(|(name, label)| axis_text(&Axis { name: name.clone(), extent: label.into() }));
        format!(" -> [{}]", axes.collect::<Vec<_>>().join(", "))
    }

    /// The axes of the results of an operator of `tensor/ops`, unless its shape rule gives them.
    fn stated(
        &self,
        node: &Node,
        operator: &Special,
        attributes: &[Attribute],
        facts: &crate::dim::Facts,
    ) -> String {
        let value = |id: &ValueId| self.function.values.get(id.0 as usize).map(|value| value.ty.clone());
        let types: Vec<TensorType> = node.results.iter().filter_map(value).collect();
        if attributes.len() == operator.keywords.len()
            && let Ok(operands) = Operands::of(self.function, &node.operands, facts)
        {
            let (least, most) = operator.operands;
            let fits = (least..=most).contains(&node.operands.len());
            let site = operands.site(&node.operands, attributes, facts);
            if fits && (operator.infer)(&site, None).is_ok_and(|inferred| inferred == types) {
                return String::new();
            }
        }
        let lists: Vec<String> = types.iter().map(|ty| axes_text(&ty.axes)).collect();
        format!(" -> {}", lists.join(", "))
    }
}

/// The labels of the first operand that has all of them.
fn default_elementwise(operands: &[Operand]) -> Option<Vec<Symbol>> {
    let mut all: Vec<&Symbol> = Vec::new();
    for operand in operands {
        if let Operand::Value { labels, .. } = operand {
            for label in labels {
                if !all.contains(&label) {
                    all.push(label);
                }
            }
        }
    }
    if all.is_empty() {
        return Some(Vec::new());
    }
    operands.iter().find_map(|operand| match operand {
        Operand::Value { labels, .. } if labels.len() == all.len() => Some(labels.clone()),
        _ => None,
    })
}

fn attribute_text(attribute: &Attribute) -> String {
    match attribute {
        Attribute::Labels(labels) => list(labels),
        Attribute::Dim(dim) => dim.to_string(),
        Attribute::Scalar(scalar) => scalar_text(*scalar),
        Attribute::DType(dtype) => dtype.to_string(),
        Attribute::Word(word) => word.to_string(),
        Attribute::Scalars(scalars) => {
            scalars.iter().map(|scalar| scalar_text(*scalar)).collect::<Vec<_>>().join(", ")
        }
    }
}

fn list(symbols: &[Symbol]) -> String {
    symbols.iter().map(Symbol::as_str).collect::<Vec<_>>().join(", ")
}
