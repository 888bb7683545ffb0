//! From the syntax tree to a program: names are looked up, and the builder infers the types.

use super::syntax::*;
use crate::dim::{Dim, Symbol};
use crate::tensor::build::{FunctionBuilder, ProgramBuilder, check_function_name, unknown_operator};
use crate::tensor::dtype::DType;
use crate::tensor::infer::axes::{axes_text, check_labels, same_extents};
use crate::tensor::infer::{At, Problem, Reason, default_accumulate};
use crate::tensor::ir::{
    Function, Guard, Op, Operand, ParamKind, Program, RepeatArgument, RepeatResult, TensorType, ValueId,
};
use crate::tensor::names::did_you_mean;
use crate::tensor::{elementwise, monoid, ops};
use crate::text::{Error, Parser, Span};

type Result<T> = std::result::Result<T, Error>;

/// The program of a syntax tree; `p` knows the text for errors.
pub fn program(p: &Parser<'_>, file: File) -> Result<Program> {
    let mut program = ProgramBuilder::new(file.facts.item);
    let last = file.functions.len().saturating_sub(1);
    let mut main = file.facts.span;
    for (index, syntax) in file.functions.iter().enumerate() {
        let earlier = file.functions.iter().take(index).map(|function| &function.name.item);
        let at_name = |problem: Problem| p.error(syntax.name.span, problem.message);
        check_function_name(&syntax.name.item, earlier).map_err(at_name)?;
        let elaborated = Elaborator { p, program: &program, f: program.start(syntax.name.item.as_str()) }
            .function(syntax, index == last)?;
        program.function(elaborated).map_err(at_name)?;
        main = syntax.name.span;
    }
    program.finish().map_err(|problem| {
        let span = if problem.reason == Reason::Fact { file.facts.span } else { main };
        p.error(span, problem.message)
    })
}

struct Elaborator<'a, 't> {
    p: &'a Parser<'t>,
    program: &'a ProgramBuilder,
    f: FunctionBuilder,
}

/// An operator ready for the builder, and where its parts stand.
struct Ready {
    op: Op,
    operands: Vec<Operand>,
    stated: Option<Vec<Vec<crate::tensor::ir::Axis>>>,
    to: Option<DType>,
}

impl Elaborator<'_, '_> {
    fn function(mut self, syntax: &FunctionSyntax, is_program: bool) -> Result<Function> {
        for param in &syntax.params {
            let kind = param.kind.as_ref().map_or(ParamKind::Input, |kind| kind.item);
            if let (Some(kind), false) = (&param.kind, is_program) {
                let message = "only parameters of `program` have a kind; leave it out";
                return Err(self.p.error(kind.span, message));
            }
            let span = |problem: &Problem| match problem.reason {
                Reason::Name if self.f.find(param.name.item.as_str()).is_some() => param.name.span,
                Reason::Name if self.f.scope().facts.range(&param.name.item).is_some() => param.name.span,
                _ => param.ty.span,
            };
            let mut f = self.f.clone();
            let added = f.param(param.name.item.as_str(), param.ty.item.clone(), kind);
            added.map_err(|problem| self.p.error(span(&problem), problem.message.clone()))?;
            self.f = f;
        }
        for statement in &syntax.body {
            self.statement(&statement.names, &statement.op)?;
        }
        let (values, spans) = match &syntax.returns {
            Returns::Values(names) => {
                let ids = names.iter().map(|name| self.value(name, &[])).collect::<Result<Vec<_>>>()?;
                (ids, names.iter().map(|name| name.span).collect::<Vec<_>>())
            }
            Returns::Op(op) => {
                let mut names: Vec<Spanned<Symbol>> = Vec::new();
                for _ in &syntax.results {
                    let fresh = self.fresh("result", &names);
                    names.push(Spanned { item: fresh, span: op.head.span });
                }
                let ids = self.statement(&names, op)?;
                let spans = vec![op.head.span; ids.len()];
                (ids, spans)
            }
        };
        self.check_results(syntax, &values, &spans)?;
        self.f.finish(&values).map_err(|problem| self.p.error(syntax.name.span, problem.message))
    }

    /// A name that is neither a value, nor a size, nor one of `taken`.
    fn fresh(&self, name: &str, taken: &[Spanned<Symbol>]) -> Symbol {
        let mut fresh = self.f.fresh(name);
        let mut count = 0u64;
        while taken.iter().any(|other| other.item.as_str() == fresh) {
            count += 1;
            fresh = self.f.fresh(&format!("{name}_{count}"));
        }
        Symbol::new(&fresh)
    }

    /// Whether the results are what the head of the function says.
    fn check_results(&self, syntax: &FunctionSyntax, values: &[ValueId], spans: &[Span]) -> Result<()> {
        if values.len() != syntax.results.len() {
            let span = spans.first().copied().unwrap_or(syntax.name.span);
            let message = format!(
                "`{}` is said to give {} and returns {}",
                syntax.name.item,
                plural(syntax.results.len(), "result"),
                values.len()
            );
            return Err(self.p.error(span, message));
        }
        for ((id, stated), span) in values.iter().zip(&syntax.results).zip(spans) {
            if let Some(unknown) = self.unknown_size(&stated.item) {
                let known: Vec<&str> = self.f.scope().facts.symbols().map(|size| size.as_str()).collect();
                let message =
                    format!("unknown size `{unknown}`; the program's sizes are {}", known.join(", "));
                return Err(self.p.error(stated.span, message));
            }
            let ty = self.f.ty(*id);
            let problem = result_problem(&self.f, ty, &stated.item);
            if let Some(message) = problem {
                let name = &self.f.values()[id.0 as usize].name;
                return Err(self.p.error(*span, format!("`{name}` {message}")));
            }
        }
        Ok(())
    }

    /// A name in the extents of a type that is neither a size nor an earlier axis.
    fn unknown_size(&self, ty: &TensorType) -> Option<Symbol> {
        let facts = self.f.scope().facts;
        let known = |k: usize, name: &Symbol| {
            facts.range(name).is_some() || ty.axes[..k].iter().any(|axis| axis.name == *name)
        };
        let mut unknown = (ty.axes.iter().enumerate())
            .flat_map(|(k, axis)| axis.extent.symbols().into_iter().filter(move |name| !known(k, name)));
        unknown.next()
    }

    fn value(&self, name: &Spanned<Symbol>, keywords: &[&str]) -> Result<ValueId> {
        self.f.find(name.item.as_str()).ok_or_else(|| self.unknown(name, keywords))
    }

    fn unknown(&self, name: &Spanned<Symbol>, keywords: &[&str]) -> Error {
        let word = name.item.as_str();
        if self.program.find(word).is_some() {
            return self.p.error(
                name.span,
                format!("`{word}` is a function; apply it as `{word}(...)` in its own line"),
            );
        }
        let values = self.f.values().iter().map(|value| value.name.as_str());
        let sizes = self.f.scope().facts.symbols().map(Symbol::as_str).collect::<Vec<_>>();
        let hint = did_you_mean(word, values.chain(sizes).chain(keywords.iter().copied()));
        self.p.error(name.span, format!("unknown value `{word}`{hint}"))
    }

    fn statement(&mut self, names: &[Spanned<Symbol>], op: &OpSyntax) -> Result<Vec<ValueId>> {
        let ready = match &op.form {
            Form::Plain(plain) => self.plain(op, plain)?,
            Form::Call(arguments) => {
                let function = self.function_id(&op.head)?;
                let operands = arguments
                    .iter()
                    .map(|argument| self.value(argument, &[]).map(Operand::from))
                    .collect::<Result<Vec<_>>>()?;
                Ready { op: Op::Call { function }, operands, stated: None, to: None }
            }
            Form::Repeat(repeat) => self.repeat(repeat)?,
        };
        let texts: Vec<&str> = names.iter().map(|name| name.item.as_str()).collect();
        let added = self.f.op(&texts, ready.op, ready.operands, ready.stated, ready.to);
        let ids = added.map_err(|problem| self.p.error(place(names, op, problem.at), problem.message))?;
        if let Form::Plain(plain) = &op.form {
            self.check_placeholders(op, plain)?;
        }
        Ok(ids)
    }

    fn function_id(&self, name: &Spanned<Symbol>) -> Result<crate::tensor::ir::FunctionId> {
        self.program.find(name.item.as_str()).ok_or_else(|| {
            let functions = self.program.function_names();
            let problem = unknown_operator(name.item.as_str(), functions);
            self.p.error(name.span, problem.message.replacen("operator", "operator or function", 1))
        })
    }

    fn plain(&self, op: &OpSyntax, plain: &Plain) -> Result<Ready> {
        let head = op.head.item.as_str();
        let special = ops::find(head);
        let keywords: Vec<&str> = match special {
            Some(special) => special.keywords.iter().map(|(keyword, _)| *keyword).collect(),
            None => vec!["over", "where", "accumulate", "to"],
        };
        let operands = plain
            .operands
            .iter()
            .map(|operand| self.operand(operand, &keywords))
            .collect::<Result<Vec<_>>>()?;
        let dtype = operands.iter().find_map(|operand| match operand {
            Operand::Value { value, .. } => Some(self.f.ty(*value).dtype),
            _ => None,
        });
        let dtype = dtype.unwrap_or(DType::F32);
        let refuse = |clause: Option<Span>, message: &str| match clause {
            Some(span) => Err(self.p.error(span, message.to_string())),
            None => Ok(()),
        };
        let guard_span = plain.guard.as_ref().map(|guard| guard.span);
        let accumulate_span = plain.accumulate.as_ref().map(|dtype| dtype.span);
        let accumulate = plain.accumulate.as_ref().map(|dtype| dtype.item);
        let op = if let Some(operator) = special {
            let mut attributes = Vec::with_capacity(operator.keywords.len());
            for (attribute, (keyword, _)) in plain.attributes.iter().zip(operator.keywords) {
                let Some(attribute) = attribute else {
                    return Err(self
                        .p
                        .error(op.head.span, format!("`{head}` needs `{keyword}` behind its operands")));
                };
                attributes.push(attribute.item.clone());
            }
            Op::Special { operator, attributes }
        } else if head == "contract" {
            refuse(
                plain.over.as_ref().map(|over| over.span),
                "`contract` sums over every label that `->` lacks; leave out `over`",
            )?;
            Op::Contract { guard: self.guard(plain)?, accumulate: accumulate.unwrap_or(dtype.accumulator()) }
        } else if let (Some(over), Some(monoid)) = (&plain.over, monoid::find(head)) {
            let accumulate = accumulate.unwrap_or(default_accumulate(monoid, dtype));
            Op::Reduce { monoid, over: over.item.clone(), guard: self.guard(plain)?, accumulate }
        } else if let Some(function) = elementwise::find(head) {
            let message = format!("`{head}` is elementwise and reduces nothing; leave out `over`");
            refuse(plain.over.as_ref().map(|over| over.span), &message)?;
            refuse(guard_span, "only reductions and contractions have a guard; use `select` here")?;
            refuse(accumulate_span, "only reductions and contractions accumulate; leave out `accumulate`")?;
            Op::Elementwise { function }
        } else {
            return Err(self
                .p
                .error(op.head.span, format!("`{head}` needs `over` and the axes that it reduces")));
        };
        Ok(Ready {
            op,
            operands,
            stated: plain.stated.as_ref().map(|stated| stated.item.clone()),
            to: plain.to.as_ref().map(|dtype| dtype.item),
        })
    }

    fn operand(&self, operand: &Spanned<OperandSyntax>, keywords: &[&str]) -> Result<Operand> {
        let (name, labels) = match &operand.item {
            OperandSyntax::Literal(scalar) => return Ok(Operand::Literal(*scalar)),
            OperandSyntax::Dim(dim) => return Ok(Operand::Dim(dim.clone())),
            OperandSyntax::Name { name, labels } => (name, labels),
        };
        let Some(value) = self.f.find(name.as_str()) else {
            if self.f.scope().facts.range(name).is_some() && labels.is_none() {
                return Ok(Operand::Dim(Dim::symbol(name.clone())));
            }
            return Err(self.unknown(&Spanned { item: name.clone(), span: operand.span }, keywords));
        };
        let labels: Vec<Symbol> = match labels {
            None => return Ok(Operand::from(value)),
            Some(labels) => labels.iter().flatten().cloned().collect(),
        };
        check_labels(&self.f.scope(), self.f.ty(value), &labels)
            .map_err(|problem| self.p.error(operand.span, problem.message))?;
        Ok(Operand::Value { value, labels })
    }

    fn guard(&self, plain: &Plain) -> Result<Guard> {
        let Some(syntax) = &plain.guard else { return Ok(Guard::always()) };
        let mut masks = Vec::with_capacity(syntax.item.masks.len());
        for (name, labels) in &syntax.item.masks {
            masks.push((self.value(name, &[])?, labels.clone()));
        }
        Ok(Guard { condition: syntax.item.condition.clone(), masks })
    }

    /// Whether each `_` stands where the result has an axis that the operand lacks.
    fn check_placeholders(&self, op: &OpSyntax, plain: &Plain) -> Result<()> {
        for operand in &plain.operands {
            let OperandSyntax::Name { labels: Some(labels), .. } = &operand.item else { continue };
            if labels.iter().all(Option::is_some) {
                continue;
            }
            if elementwise::find(op.head.item.as_str()).is_none() || plain.over.is_some() {
                let message =
                    "`_` stands for an axis of the result of an elementwise function; name the labels only";
                return Err(self.p.error(operand.span, message));
            }
            let result = self.f.last_result_labels();
            let fits = labels.len() == result.len()
                && labels
                    .iter()
                    .zip(result)
                    .all(|(label, axis)| label.as_ref().is_none_or(|label| label == axis));
            if !fits {
                let result: Vec<&str> = result.iter().map(Symbol::as_str).collect();
                let message = format!(
                    "the result has axes [{}], which these labels do not line up with",
                    result.join(", ")
                );
                return Err(self.p.error(operand.span, message));
            }
        }
        Ok(())
    }

    fn repeat(&self, syntax: &RepeatSyntax) -> Result<Ready> {
        let function = self.function_id(&syntax.function)?;
        for (index, (inner, _)) in syntax.carried.iter().enumerate() {
            if syntax.carried.iter().take(index).any(|(earlier, _)| earlier.item == inner.item) {
                return Err(self.p.error(inner.span, format!("`{}` is carried twice", inner.item)));
            }
            if self.f.find(inner.item.as_str()).is_some() {
                let message = format!("`{}` is a value already; carry it under another name", inner.item);
                return Err(self.p.error(inner.span, message));
            }
        }
        let carried = |name: &Symbol| syntax.carried.iter().find(|(inner, _)| inner.item == *name);
        let mut operands = Vec::new();
        let mut arguments = Vec::new();
        for (name, sliced) in &syntax.arguments {
            match carried(&name.item) {
                Some((inner, _)) if *sliced => {
                    let message = format!("`{}` is carried and cannot be sliced", inner.item);
                    return Err(self.p.error(name.span, message));
                }
                Some((inner, first)) => {
                    operands.push(Operand::from(self.value(first, &[])?));
                    arguments.push(RepeatArgument::Carried { name: inner.item.clone() });
                }
                None => {
                    operands.push(Operand::from(self.value(name, &[])?));
                    arguments.push(if *sliced { RepeatArgument::Sliced } else { RepeatArgument::Shared });
                }
            }
        }
        for (inner, _) in &syntax.carried {
            if !syntax.arguments.iter().any(|(name, _)| name.item == inner.item) {
                let message =
                    format!("`{}` is carried, and is no argument of `{}`", inner.item, syntax.function.item);
                return Err(self.p.error(inner.span, message));
            }
        }
        let mut results = Vec::new();
        for result in &syntax.results {
            let Some(name) = &result.item else {
                results.push(RepeatResult::Stacked);
                continue;
            };
            let at = syntax.arguments.iter().position(|(argument, _)| argument.item == *name);
            match at {
                Some(at) if carried(name).is_some() => results.push(RepeatResult::Carried(at)),
                _ => {
                    let hint = did_you_mean(
                        name.as_str(),
                        syntax.carried.iter().map(|(inner, _)| inner.item.as_str()),
                    );
                    let message = format!(
                        "`{name}` is not carried; a result goes to a carried value or is stacked as `[{}]`{hint}",
                        syntax.coordinate.item
                    );
                    return Err(self.p.error(result.span, message));
                }
            }
        }
        let op = Op::Repeat {
            coordinate: syntax.coordinate.item.clone(),
            extent: syntax.extent.item.clone(),
            function,
            arguments,
            results,
        };
        Ok(Ready { op, operands, stated: None, to: None })
    }
}

/// Where the part of an operator stands that a problem is about.
fn place(names: &[Spanned<Symbol>], op: &OpSyntax, at: At) -> Span {
    let plain = match &op.form {
        Form::Plain(plain) => Some(plain),
        _ => None,
    };
    let found = match at {
        At::Whole => None,
        At::Operand(index) => match &op.form {
            Form::Plain(plain) => plain.operands.get(index).map(|operand| operand.span),
            Form::Call(arguments) => arguments.get(index).map(|argument| argument.span),
            Form::Repeat(repeat) => repeat.arguments.get(index).map(|(argument, _)| argument.span),
        },
        At::Guard => plain.and_then(|plain| plain.guard.as_ref().map(|guard| guard.span)),
        At::Over => plain.and_then(|plain| plain.over.as_ref().map(|over| over.span)),
        At::DType => {
            plain.and_then(|plain| plain.accumulate.as_ref().or(plain.to.as_ref()).map(|dtype| dtype.span))
        }
        At::Attribute(index) => plain.and_then(|plain| plain.attributes.get(index)?.as_ref().map(|a| a.span)),
        At::Stated => plain.and_then(|plain| plain.stated.as_ref().map(|stated| stated.span)),
        At::Result(index) => names.get(index).map(|name| name.span),
    };
    found.unwrap_or(op.head.span)
}

/// What is wrong with a result of type `ty` that is said to be of type `stated`.
fn result_problem(f: &FunctionBuilder, ty: &TensorType, stated: &TensorType) -> Option<String> {
    if ty.dtype != stated.dtype {
        return Some(format!("is {}, and is said to be {}; `cast` it", ty.dtype, stated.dtype));
    }
    if let Err(message) = same_extents(f.scope().facts, &stated.axes, &ty.axes) {
        return Some(message);
    }
    if ty.labels() != stated.labels() {
        let message = format!(
            "has axes {}, and is said to have {}; name them behind `->`",
            axes_text(&ty.axes),
            axes_text(&stated.axes)
        );
        return Some(message);
    }
    None
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
