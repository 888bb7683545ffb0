//! Reads block programs.

use super::inferred;
use crate::block::ir::{
    Argument, Call, Carry, Compute, Contract, Function, Guard, ItemType, Load, Map, Node, Opaque, Order,
    Param, Program, Range, Reduce, Repeat, Store, Value, ValueId, ValueType,
};
use crate::dim::{Cond, Dim, Facts, Symbol, parse_cond, parse_dim, parse_facts};
use crate::tensor::{
    Axis, DType, FunctionId, Monoid, ParamKind, RepeatArgument, RepeatResult, Scalar, TensorType,
    elementwise, monoid, ops,
};
use crate::text::{Error, Parser, Span, Token};
use std::collections::BTreeMap;

/// A tensor that a text may name without defining it.
pub type Outside<'a> = &'a dyn Fn(&Symbol) -> Option<TensorType>;

/// Reads nodes, and collects the values that they define or name.
pub struct Reader<'a> {
    values: Vec<Value>,
    names: BTreeMap<Symbol, ValueId>,
    functions: &'a [Function],
    outside: Option<Outside<'a>>,
}

/// `name: type` as written; an item's ranges may be left out.
struct Definition {
    id: ValueId,
    span: Span,
    stated: bool,
}

pub(super) fn program(p: &mut Parser<'_>) -> Result<Program, Error> {
    let mut functions: Vec<Function> = Vec::new();
    while p.at("fn") {
        p.next();
        let header = header(p, &functions)?;
        let function = function(p, header)?;
        functions.push(function);
    }
    if !p.eat("program") {
        return Err(p.expected("`fn` or `program`"));
    }
    let header = header(p, &functions)?;
    let facts = if p.eat("where") { parse_facts(p)? } else { Facts::default() };
    let main = function(p, header)?;
    functions.push(main);
    Ok(Program { functions, facts })
}

fn header<'a>(
    p: &mut Parser<'_>,
    functions: &'a [Function],
) -> Result<(Symbol, Vec<Param>, Reader<'a>), Error> {
    let (name, span) = p.ident("the name of a function")?;
    let name = Symbol::new(name);
    if functions.iter().any(|function| function.name == name) {
        return Err(p.error(span, format!("function `{name}` is defined twice")));
    }
    let mut reader = Reader::new(functions, None);
    let params = p.list("(", ")", |p| {
        let (name, span) = p.ident("the name of a parameter")?;
        p.expect(":")?;
        let kinds = [("weight", ParamKind::Weight), ("plan", ParamKind::Plan), ("state", ParamKind::State)];
        let kind = kinds.into_iter().find(|(word, _)| p.eat(word)).map_or(ParamKind::Input, |(_, kind)| kind);
        let dtype = dtype(p)?;
        let axes = p.list("[", "]", axis)?;
        let ty = ValueType::Tensor { ty: TensorType { dtype, axes }, alias: None };
        Ok(Param { value: reader.add(p, name, span, ty)?, kind })
    })?;
    Ok((name, params, reader))
}

fn function(
    p: &mut Parser<'_>,
    (name, params, mut reader): (Symbol, Vec<Param>, Reader<'_>),
) -> Result<Function, Error> {
    p.expect("{")?;
    let body = reader.nodes(p)?;
    p.expect("return")?;
    let results = if p.at("}") { Vec::new() } else { reader.name_list(p)? };
    p.expect("}")?;
    Ok(Function { name, params, values: reader.values, body, results })
}

fn dtype(p: &mut Parser<'_>) -> Result<DType, Error> {
    let (name, span) = p.ident("an element type")?;
    DType::from_name(name).ok_or_else(|| p.error(span, format!("`{name}` is not an element type")))
}

fn axis(p: &mut Parser<'_>) -> Result<Axis, Error> {
    let (name, _) = p.ident("the name of an axis")?;
    let extent = if p.eat(":") { parse_dim(p)? } else { Dim::symbol(name) };
    Ok(Axis { name: Symbol::new(name), extent })
}

fn range(p: &mut Parser<'_>) -> Result<Range, Error> {
    let (label, _) = p.ident("a label")?;
    p.expect(":")?;
    let start = parse_dim(p)?;
    p.expect("+:")?;
    let (size, _) = p.integer("a block size")?;
    p.expect("<")?;
    Ok(Range { label: Symbol::new(label), start, size, end: parse_dim(p)? })
}

fn monoid(p: &mut Parser<'_>) -> Result<&'static Monoid, Error> {
    let (name, span) = p.ident("a monoid")?;
    monoid::find(name).ok_or_else(|| p.error(span, format!("there is no monoid `{name}`")))
}

/// Takes a word that starts a clause, unless it is a name that the next line defines.
fn clause(p: &mut Parser<'_>, word: &str) -> bool {
    let found = p.at(word) && !p.is_at(1, ":");
    if found {
        p.next();
    }
    found
}

/// Whether the next tokens define a name.
fn at_definition(p: &Parser<'_>) -> bool {
    matches!(p.peek(), Token::Ident(_)) && p.is_at(1, ":")
}

impl<'a> Reader<'a> {
    /// A reader to which no name is known yet; `outside` gives the types of tensors that nodes may name.
    pub fn new(functions: &'a [Function], outside: Option<Outside<'a>>) -> Reader<'a> {
        Reader { values: Vec::new(), names: BTreeMap::new(), functions, outside }
    }

    /// The values in the order in which the text defines or first names them.
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }

    /// Reads nodes up to a `}`, a `next` or a `return`, which stays.
    pub fn nodes(&mut self, p: &mut Parser<'_>) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        loop {
            let ends = p.at("}") || p.is_end() || p.at("next") || p.at("return");
            if ends && !at_definition(p) {
                return Ok(nodes);
            }
            nodes.push(self.node(p)?);
        }
    }

    fn add(&mut self, p: &Parser<'_>, name: &str, span: Span, ty: ValueType) -> Result<ValueId, Error> {
        let name = Symbol::new(name);
        let id = ValueId(self.values.len() as u32);
        if self.names.insert(name.clone(), id).is_some() {
            return Err(p.error(span, format!("`{name}` is defined twice")));
        }
        self.values.push(Value { name, ty });
        Ok(id)
    }

    fn known(&mut self, p: &mut Parser<'_>) -> Result<ValueId, Error> {
        let (name, span) = p.ident("the name of a value")?;
        let symbol = Symbol::new(name);
        if let Some(id) = self.names.get(&symbol) {
            return Ok(*id);
        }
        let outside = self.outside.and_then(|outside| outside(&symbol));
        let ty = outside.ok_or_else(|| p.error(span, format!("`{name}` is not defined before this")))?;
        self.add(p, name, span, ValueType::Tensor { ty, alias: None })
    }

    fn name_list(&mut self, p: &mut Parser<'_>) -> Result<Vec<ValueId>, Error> {
        let mut ids = vec![self.known(p)?];
        while p.eat(",") {
            ids.push(self.known(p)?);
        }
        Ok(ids)
    }

    fn definition(&mut self, p: &mut Parser<'_>) -> Result<Definition, Error> {
        let (name, span) = p.ident("a name")?;
        p.expect(":")?;
        let dtype = dtype(p)?;
        let mut stated = true;
        let ty = if p.at("[") {
            let axes = p.list("[", "]", axis)?;
            let alias = if p.eat("overwrites") { Some(self.known(p)?) } else { None };
            ValueType::Tensor { ty: TensorType { dtype, axes }, alias }
        } else {
            // The `{` of a map's body follows a header, never a type.
            stated = p.at("{");
            let ranges = if stated { p.list("{", "}", range)? } else { Vec::new() };
            ValueType::Item(ItemType { dtype, ranges })
        };
        Ok(Definition { id: self.add(p, name, span, ty)?, span, stated })
    }

    fn is_item(&self, id: ValueId) -> bool {
        matches!(self.values.get(id.0 as usize), Some(Value { ty: ValueType::Item(_), .. }))
    }

    fn set_ranges(&mut self, id: ValueId, ranges: Vec<Range>) {
        if let Some(Value { ty: ValueType::Item(ty), .. }) = self.values.get_mut(id.0 as usize) {
            ty.ranges = ranges;
        }
    }

    fn node(&mut self, p: &mut Parser<'_>) -> Result<Node, Error> {
        let mut definitions = Vec::new();
        if at_definition(p) {
            definitions.push(self.definition(p)?);
            while p.eat(",") {
                definitions.push(self.definition(p)?);
            }
            p.expect("=")?;
        }
        let node = p.nested(|p| self.what(p, &definitions))?;
        let items = definitions.iter().filter(|definition| self.is_item(definition.id));
        let items: Vec<&Definition> = items.collect();
        for (definition, ranges) in items.into_iter().zip(inferred(&self.values, &node)) {
            if !definition.stated {
                self.set_ranges(definition.id, ranges);
            }
        }
        Ok(node)
    }

    /// The definitions of a node, where it defines `count` items or tensors and nothing else.
    fn results(
        &self,
        p: &Parser<'_>,
        definitions: &[Definition],
        items: bool,
        count: usize,
    ) -> Result<Vec<ValueId>, Error> {
        for definition in definitions {
            if self.is_item(definition.id) != items {
                let wants = if items {
                    "an item: its type is `f32{…}`"
                } else {
                    "a tensor: its type is `f32[…]`"
                };
                return Err(p.error(definition.span, format!("this node defines {wants}")));
            }
        }
        if definitions.len() != count {
            let span = definitions.first().map_or(p.previous_span(), |definition| definition.span);
            let plural = if count == 1 { "" } else { "s" };
            let message = format!("this node defines {count} value{plural}, not {}", definitions.len());
            return Err(p.error(span, message));
        }
        Ok(definitions.iter().map(|definition| definition.id).collect())
    }

    fn result(&self, p: &Parser<'_>, definitions: &[Definition]) -> Result<ValueId, Error> {
        let results = self.results(p, definitions, true, 1)?;
        results.first().copied().ok_or_else(|| p.expected("a definition"))
    }

    fn what(&mut self, p: &mut Parser<'_>, definitions: &[Definition]) -> Result<Node, Error> {
        let (word, span) = p.ident("a node")?;
        let node = match word {
            "map" => Node::Map(self.map(p, definitions)?),
            "load" => {
                let source = self.known(p)?;
                let index = p.list("[", "]", parse_dim)?;
                let when = if clause(p, "when") { parse_cond(p)? } else { Cond::True };
                Node::Load(Load { source, index, when, result: self.result(p, definitions)? })
            }
            "store" => {
                self.results(p, definitions, true, 0)?;
                let item = self.known(p)?;
                p.expect("->")?;
                let target = self.known(p)?;
                Node::Store(Store { item, target, index: p.list("[", "]", parse_dim)? })
            }
            "reduce" => {
                let monoid = monoid(p)?;
                let argument = self.known(p)?;
                let position = if clause(p, "at") { parse_dim(p)? } else { Dim::constant(0) };
                let into = if clause(p, "into") { self.name_list(p)? } else { Vec::new() };
                let guard = self.guard(p)?;
                let results = self.results(p, definitions, true, definitions.len())?;
                Node::Reduce(Reduce { monoid, argument, position, guard, into, results })
            }
            "contract" => {
                let mut arguments = Vec::new();
                let words = ["into", "where", "masks"];
                while matches!(p.peek(), Token::Ident(word) if !p.on_new_line() && !words.contains(&word)) {
                    arguments.push(self.known(p)?);
                }
                let into = if clause(p, "into") { Some(self.known(p)?) } else { None };
                let guard = self.guard(p)?;
                Node::Contract(Contract { arguments, guard, into, result: self.result(p, definitions)? })
            }
            "opaque" => {
                let (name, span) = p.ident("an operator")?;
                let operator =
                    ops::find(name).ok_or_else(|| p.error(span, format!("there is no operator `{name}`")))?;
                let operands = p.list("(", ")", |p| self.known(p))?;
                p.expect("axis")?;
                let (axis, span) = p.integer("the number of an axis")?;
                let axis = usize::try_from(axis).map_err(|_| p.error(span, "an axis is counted from 0"))?;
                let results = self.results(p, definitions, false, definitions.len())?;
                Node::Opaque(Opaque { operator, axis, operands, results })
            }
            "call" => {
                let (function, _) = self.function(p)?;
                let arguments = p.list("(", ")", |p| self.known(p))?;
                let results = self.results(p, definitions, false, definitions.len())?;
                Node::Call(Call { function, arguments, results })
            }
            "repeat" => Node::Repeat(self.repeat(p, definitions)?),
            _ => {
                let function = elementwise::find(word).ok_or_else(|| {
                    p.error(span, format!("`{word}` is neither a node nor an elementwise function"))
                })?;
                let mut arguments = Vec::with_capacity(function.arity);
                while arguments.len() < function.arity {
                    if p.on_new_line() {
                        let message = format!("`{word}` takes {} arguments", function.arity);
                        return Err(p.error(span, message));
                    }
                    arguments.push(self.argument(p)?);
                }
                Node::Compute(Compute { function, arguments, result: self.result(p, definitions)? })
            }
        };
        Ok(node)
    }

    fn argument(&mut self, p: &mut Parser<'_>) -> Result<Argument, Error> {
        let minus = usize::from(p.at("-"));
        match p.peek_at(minus) {
            Token::Int(_) | Token::Least => Ok(Argument::Literal(Scalar::Int(p.integer("a number")?.0))),
            Token::Float(_) | Token::Ident("inf" | "nan") => {
                Ok(Argument::Literal(Scalar::Float(p.number("a number")?.0)))
            }
            Token::Ident("true") if p.eat("true") => Ok(Argument::Literal(Scalar::Bool(true))),
            Token::Ident("false") if p.eat("false") => Ok(Argument::Literal(Scalar::Bool(false))),
            Token::Ident("index") if p.is_at(1, "(") => {
                p.next();
                p.expect("(")?;
                let dim = parse_dim(p)?;
                p.expect(")")?;
                Ok(Argument::Index(dim))
            }
            Token::Ident("holds") if p.is_at(1, "(") => {
                p.next();
                p.expect("(")?;
                let cond = parse_cond(p)?;
                p.expect(")")?;
                Ok(Argument::Holds(cond))
            }
            Token::Ident(_) if minus == 0 => Ok(Argument::Item(self.known(p)?)),
            _ => Err(p.expected("an item, a number, `index(…)` or `holds(…)`")),
        }
    }

    fn guard(&mut self, p: &mut Parser<'_>) -> Result<Guard, Error> {
        let condition = if clause(p, "where") { parse_cond(p)? } else { Cond::True };
        let masks = if clause(p, "masks") { self.name_list(p)? } else { Vec::new() };
        Ok(Guard { condition, masks })
    }

    fn map(&mut self, p: &mut Parser<'_>, definitions: &[Definition]) -> Result<Map, Error> {
        let (coordinate, _) = p.ident("a coordinate")?;
        p.expect("in")?;
        let extent = parse_dim(p)?;
        let order = if p.eat("parallel") {
            Order::Parallel
        } else if p.eat("sequential") {
            Order::Sequential
        } else {
            return Err(p.expected("`parallel` or `sequential`"));
        };
        let mut carries = Vec::new();
        while p.eat("carry") {
            carries.push(self.carry(p)?);
        }
        p.expect("{")?;
        let body = self.nodes(p)?;
        let span = p.span();
        let next = if p.eat("next") { self.name_list(p)? } else { Vec::new() };
        p.expect("}")?;
        let (items, defines): (Vec<&Definition>, Vec<&Definition>) =
            definitions.iter().partition(|definition| self.is_item(definition.id));
        let components: usize = carries.iter().map(|carry: &Carry| carry.state.len()).sum();
        if next.len() != components {
            return Err(p.error(span, format!("`next` gives {} items for {components} carried", next.len())));
        }
        if items.len() != components {
            let span = items.first().map_or(span, |definition| definition.span);
            return Err(p.error(span, format!("{components} items are carried, and {} named", items.len())));
        }
        let mut ends = next.into_iter().zip(items);
        for carry in &mut carries {
            for (next, definition) in ends.by_ref().take(carry.state.len()) {
                carry.next.push(next);
                carry.result.push(definition.id);
            }
        }
        let defines = defines.into_iter().map(|definition| definition.id).collect();
        Ok(Map { coordinate: Symbol::new(coordinate), extent, order, carries, body, defines })
    }

    fn carry(&mut self, p: &mut Parser<'_>) -> Result<Carry, Error> {
        let monoid = monoid(p)?;
        let dtype = dtype(p)?;
        let states = p.list("(", ")", |p| self.definition(p))?;
        let from = if p.eat("from") { self.name_list(p)? } else { Vec::new() };
        for (k, definition) in states.iter().enumerate().filter(|(_, definition)| !definition.stated) {
            let before = from.get(k).and_then(|id| self.values.get(id.0 as usize));
            if let Some(Value { ty: ValueType::Item(ty), .. }) = before {
                let ranges = ty.ranges.clone();
                self.set_ranges(definition.id, ranges);
            }
        }
        let state = states.iter().map(|definition| definition.id).collect();
        Ok(Carry { monoid, dtype, from, state, next: Vec::new(), result: Vec::new() })
    }

    fn function(&self, p: &mut Parser<'_>) -> Result<(FunctionId, Span), Error> {
        let (name, span) = p.ident("the name of a function")?;
        let found = self.functions.iter().position(|function| function.name.as_str() == name);
        let id =
            found.ok_or_else(|| p.error(span, format!("function `{name}` is not defined before this")))?;
        Ok((FunctionId(id as u32), span))
    }

    fn repeat(&mut self, p: &mut Parser<'_>, definitions: &[Definition]) -> Result<Repeat, Error> {
        let (coordinate, _) = p.ident("a coordinate")?;
        p.expect("in")?;
        let extent = parse_dim(p)?;
        p.expect("{")?;
        let (function, _) = self.function(p)?;
        let arguments = p.list("(", ")", |p| {
            if p.is_at(1, "=") {
                let (name, _) = p.ident("the name of a carried argument")?;
                p.expect("=")?;
                return Ok((self.known(p)?, RepeatArgument::Carried { name: Symbol::new(name) }));
            }
            let id = self.known(p)?;
            if !p.eat("[") {
                return Ok((id, RepeatArgument::Shared));
            }
            p.expect(coordinate)?;
            p.expect("]")?;
            Ok((id, RepeatArgument::Sliced))
        })?;
        p.expect("->")?;
        let mut outcomes = Vec::new();
        while !p.at("}") {
            if p.eat("[") {
                p.expect(coordinate)?;
                p.expect("]")?;
                outcomes.push(RepeatResult::Stacked);
            } else {
                let (name, span) = p.ident("a carried argument or `[…]`")?;
                let carried = arguments.iter().position(|(_, kind)| {
                    matches!(kind, RepeatArgument::Carried { name: carried } if carried.as_str() == name)
                });
                let index =
                    carried.ok_or_else(|| p.error(span, format!("no argument is called `{name}`")))?;
                outcomes.push(RepeatResult::Carried(index));
            }
            if !p.eat(",") {
                break;
            }
        }
        p.expect("}")?;
        let results =
            self.results(p, definitions, false, outcomes.len())?.into_iter().zip(outcomes).collect();
        Ok(Repeat { coordinate: Symbol::new(coordinate), extent, function, arguments, results })
    }
}
