//! From tokens to the syntax tree. The grammar stands in the head of `tensor::text`.

use super::syntax::*;
use crate::dim::text::parse_cond_part;
use crate::dim::{Cond, Dim, Facts, Symbol, parse_cond, parse_dim, parse_facts};
use crate::tensor::build::{is_operator, unknown_operator};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Attribute, Axis, ParamKind, TensorType};
use crate::tensor::names::{did_you_mean, is_reserved};
use crate::tensor::ops::{self, AttributeKind, Special};
use crate::text::{Error, Parser, Span, Token};

type Result<T> = std::result::Result<T, Error>;

/// The keywords of elementwise functions, reductions and contractions.
const KEYWORDS: [&str; 4] = ["over", "where", "accumulate", "to"];

/// Reads a whole text.
pub fn file(p: &mut Parser<'_>) -> Result<File> {
    let mut functions = Vec::new();
    while p.eat("fn") {
        functions.push(function(p, None)?);
    }
    if !p.at("program") {
        return Err(p.expected("`fn` or `program`"));
    }
    p.next();
    let mut facts = Spanned { item: Facts::default(), span: p.span() };
    functions.push(function(p, Some(&mut facts))?);
    if p.at("fn") || p.at("program") {
        return Err(p.error(p.span(), "the program must be the last function and the only `program`"));
    }
    if !p.is_end() {
        return Err(p.expected("the end of the text"));
    }
    Ok(File { functions, facts })
}

/// Reads a function behind its first word; `facts` are those of the program.
fn function(p: &mut Parser<'_>, facts: Option<&mut Spanned<Facts>>) -> Result<FunctionSyntax> {
    let name = name(p, "the function's name")?;
    let params = p.list("(", ")", param)?;
    p.expect("->")?;
    let mut results = vec![tensor_type(p)?];
    while p.eat(",") {
        results.push(tensor_type(p)?);
    }
    if p.at("where") {
        let span = p.next().1;
        match facts {
            Some(facts) => *facts = Spanned { item: parse_facts(p)?, span: span.to(p.previous_span()) },
            None => return Err(p.error(span, "facts are stated once, behind the results of `program`")),
        }
    }
    p.expect("{")?;
    let mut body = Vec::new();
    let returns = loop {
        if p.at("}") {
            return Err(
                p.error(p.span(), "the function returns nothing; end it with `return` and its results")
            );
        }
        if !p.on_new_line() && !body.is_empty() {
            return Err(p.expected("the end of the line"));
        }
        if p.eat("return") {
            break returns(p)?;
        }
        body.push(statement(p)?);
    };
    p.expect("}")?;
    Ok(FunctionSyntax { name, params, results, body, returns })
}

fn name(p: &mut Parser<'_>, what: &str) -> Result<Spanned<Symbol>> {
    let (word, span) = p.ident(what)?;
    if word == "_" || is_reserved(word) {
        let message = format!("expected {what}, found `{word}`, which is a keyword and names nothing");
        return Err(p.error(span, message));
    }
    Ok(Spanned { item: Symbol::new(word), span })
}

fn param(p: &mut Parser<'_>) -> Result<ParamSyntax> {
    let name = name(p, "a parameter")?;
    p.expect(":")?;
    let kind = match p.peek() {
        Token::Ident("weight") => Some(ParamKind::Weight),
        Token::Ident("plan") => Some(ParamKind::Plan),
        Token::Ident("state") => Some(ParamKind::State),
        _ => None,
    };
    let kind = kind.map(|item| Spanned { item, span: p.next().1 });
    Ok(ParamSyntax { name, kind, ty: tensor_type(p)? })
}

fn tensor_type(p: &mut Parser<'_>) -> Result<Spanned<TensorType>> {
    let dtype = dtype(p)?;
    let axes = if p.at("[") && !p.on_new_line() { axes(p)? } else { Vec::new() };
    let span = dtype.span.to(p.previous_span());
    Ok(Spanned { item: TensorType { dtype: dtype.item, axes }, span })
}

fn dtype(p: &mut Parser<'_>) -> Result<Spanned<DType>> {
    let (word, span) = p.ident("an element type")?;
    let unknown = || {
        let names: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        let hint = did_you_mean(word, names.iter().copied());
        let hint = if hint.is_empty() { format!("; there are {}", names.join(", ")) } else { hint };
        p.error(span, format!("unknown element type `{word}`{hint}"))
    };
    Ok(Spanned { item: DType::from_name(word).ok_or_else(unknown)?, span })
}

fn axes(p: &mut Parser<'_>) -> Result<Vec<Axis>> {
    p.list("[", "]", |p| {
        let name = name(p, "an axis")?.item;
        let extent = if p.eat(":") { parse_dim(p)? } else { Dim::symbol(name.clone()) };
        Ok(Axis { name, extent })
    })
}

fn statement(p: &mut Parser<'_>) -> Result<Statement> {
    let mut names = vec![name(p, "a value's name or `return`")?];
    while p.eat(",") {
        names.push(name(p, "a value's name")?);
    }
    if !p.eat("=") {
        let first = names.first().map_or(p.span(), |name| name.span);
        if names.len() == 1 && p.on_new_line() {
            let message = "this line is no statement; the operands of an operator stand on its own line";
            return Err(p.error(first, message));
        }
        return Err(p.expected("`=`"));
    }
    Ok(Statement { names, op: op(p)? })
}

fn returns(p: &mut Parser<'_>) -> Result<Returns> {
    let position = p.position();
    let first = head(p, "a value or an operator")?;
    let op_follows = !(p.at(",") || p.at("}") || p.on_new_line());
    if op_follows || first.item.as_str() == "repeat" && !p.at(",") && !p.at("}") {
        p.rewind(position);
        return Ok(Returns::Op(Box::new(op(p)?)));
    }
    let mut values = vec![first];
    while p.eat(",") {
        values.push(name(p, "a value")?);
    }
    Ok(Returns::Values(values))
}

/// The word that an operator begins with: a name, or one of the keywords that are operators too (`and`, `not`).
fn head(p: &mut Parser<'_>, what: &str) -> Result<Spanned<Symbol>> {
    match p.peek() {
        Token::Ident(word) if is_operator(word) => Ok(Spanned { item: Symbol::new(word), span: p.next().1 }),
        _ => name(p, what),
    }
}

fn op(p: &mut Parser<'_>) -> Result<OpSyntax> {
    let head = head(p, "an operator or a function")?;
    let word = head.item.as_str().to_string();
    let form = if word == "repeat" {
        Form::Repeat(repeat(p)?)
    } else if is_operator(&word) {
        Form::Plain(plain(p, ops::find(&word))?)
    } else if p.at("(") && !p.on_new_line() {
        Form::Call(p.list("(", ")", |p| name(p, "an argument"))?)
    } else {
        return Err(p.error(head.span, unknown_operator(&word, []).message));
    };
    Ok(OpSyntax { head, form })
}

fn plain(p: &mut Parser<'_>, special: Option<&'static Special>) -> Result<Plain> {
    let keywords: Vec<&str> = match special {
        Some(special) => special.keywords.iter().map(|(keyword, _)| *keyword).collect(),
        None => KEYWORDS.to_vec(),
    };
    let mut plain = Plain { attributes: keywords.iter().map(|_| None).collect(), ..Plain::default() };
    while let Some(operand) = operand(p, &keywords)? {
        plain.operands.push(operand);
    }
    loop {
        if p.at("->") {
            let span = p.next().1;
            if plain.stated.is_some() {
                return Err(p.error(span, "the axes of the result are stated twice"));
            }
            let mut lists = vec![axes(p)?];
            while p.at(",") {
                p.next();
                lists.push(axes(p)?);
            }
            plain.stated = Some(Spanned { item: lists, span: span.to(p.previous_span()) });
            continue;
        }
        let Token::Ident(word) = p.peek() else { break };
        if p.on_new_line() && (p.is_at(1, "=") || p.is_at(1, ",")) {
            break;
        }
        let Some(index) = keywords.iter().position(|keyword| *keyword == word) else {
            if p.on_new_line() && !is_reserved(word) || word == "return" {
                break;
            }
            let hint = did_you_mean(word, keywords.iter().copied());
            let message = format!("`{word}` is no keyword of this operator{hint}");
            return Err(p.error(p.span(), message));
        };
        let keyword = p.next().1;
        let twice = match special {
            Some(special) => {
                let kind = special.keywords[index].1;
                let attribute = attribute(p, kind)?;
                let span = keyword.to(p.previous_span());
                plain.attributes[index].replace(Spanned { item: attribute, span }).is_some()
            }
            None => clause(p, word, keyword, &mut plain)?,
        };
        if twice {
            return Err(p.error(keyword, format!("`{word}` is stated twice")));
        }
    }
    if !p.on_new_line() && !p.at("}") {
        return Err(p.expected("an operand, a keyword or the end of the line"));
    }
    Ok(plain)
}

/// Reads what stands behind a keyword; whether the keyword stood there before.
fn clause(p: &mut Parser<'_>, word: &str, keyword: Span, plain: &mut Plain) -> Result<bool> {
    Ok(match word {
        "over" => {
            let labels = labels(p)?;
            plain.over.replace(Spanned { item: labels, span: keyword.to(p.previous_span()) }).is_some()
        }
        "where" => {
            let guard = guard(p)?;
            plain.guard.replace(Spanned { item: guard, span: keyword.to(p.previous_span()) }).is_some()
        }
        "accumulate" => plain.accumulate.replace(dtype(p)?).is_some(),
        _ => plain.to.replace(dtype(p)?).is_some(),
    })
}

fn labels(p: &mut Parser<'_>) -> Result<Vec<Symbol>> {
    let mut labels = vec![name(p, "a label")?.item];
    while p.eat(",") {
        labels.push(name(p, "a label")?.item);
    }
    Ok(labels)
}

/// Reads an operand if one starts here, on this line.
fn operand(p: &mut Parser<'_>, keywords: &[&str]) -> Result<Option<Spanned<OperandSyntax>>> {
    if p.on_new_line() {
        return Ok(None);
    }
    let start = p.span();
    let item = match p.peek() {
        Token::Punct("(") => {
            p.next();
            let dim = p.nested(parse_dim)?;
            p.expect(")")?;
            OperandSyntax::Dim(dim)
        }
        Token::Int(_) | Token::Least | Token::Float(_) | Token::Punct("-") => {
            OperandSyntax::Literal(scalar(p)?)
        }
        Token::Ident("inf" | "nan" | "true" | "false") => OperandSyntax::Literal(scalar(p)?),
        Token::Ident(word) if !is_reserved(word) && !keywords.contains(&word) => {
            p.next();
            let labels = if p.at("[") && !p.on_new_line() {
                Some(p.list("[", "]", |p| {
                    if p.eat("_") { Ok(None) } else { Ok(Some(name(p, "a label")?.item)) }
                })?)
            } else {
                None
            };
            OperandSyntax::Name { name: Symbol::new(word), labels }
        }
        _ => return Ok(None),
    };
    Ok(Some(Spanned { item, span: start.to(p.previous_span()) }))
}

fn scalar(p: &mut Parser<'_>) -> Result<Scalar> {
    let start = p.span();
    let minus = p.eat("-");
    let value = match p.peek() {
        Token::Int(value) => Scalar::Int(if minus { -value } else { value }),
        Token::Least if minus => Scalar::Int(i64::MIN),
        Token::Least => return Err(p.out_of_range()),
        Token::Float(value) => Scalar::Float(if minus { -value } else { value }),
        Token::Ident("inf") => Scalar::Float(if minus { f64::NEG_INFINITY } else { f64::INFINITY }),
        Token::Ident("nan") => Scalar::Float(f64::NAN),
        Token::Ident("true") if !minus => Scalar::Bool(true),
        Token::Ident("false") if !minus => Scalar::Bool(false),
        _ => return Err(p.error(start.to(p.span()), "expected a number")),
    };
    p.next();
    Ok(value)
}

fn attribute(p: &mut Parser<'_>, kind: AttributeKind) -> Result<Attribute> {
    Ok(match kind {
        AttributeKind::Labels => Attribute::Labels(labels(p)?),
        AttributeKind::Dim => Attribute::Dim(parse_dim(p)?),
        AttributeKind::Scalar => Attribute::Scalar(scalar(p)?),
        AttributeKind::DType => Attribute::DType(dtype(p)?.item),
        AttributeKind::Word => Attribute::Word(Symbol::new(p.ident("a word")?.0)),
        AttributeKind::Scalars => {
            let mut scalars = vec![scalar(p)?];
            while p.eat(",") {
                scalars.push(scalar(p)?);
            }
            Attribute::Scalars(scalars)
        }
    })
}

fn guard(p: &mut Parser<'_>) -> Result<GuardSyntax> {
    let position = p.position();
    let mut conditions = Vec::new();
    let mut masks: Vec<(Spanned<Symbol>, Vec<Symbol>)> = Vec::new();
    loop {
        if mask_follows(p) {
            let mask = name(p, "a mask")?;
            masks.push((mask, p.list("[", "]", |p| Ok(name(p, "a label")?.item))?));
        } else {
            conditions.push(parse_cond_part(p)?);
        }
        if !p.eat("and") {
            break;
        }
    }
    if !p.at("or") {
        return Ok(GuardSyntax { condition: Cond::all(conditions), masks });
    }
    if let Some((mask, _)) = masks.first() {
        let message = "a mask cannot stand beside `or`; make one boolean tensor of the alternatives";
        return Err(p.error(mask.span, message));
    }
    p.rewind(position);
    let condition = parse_cond(p)?;
    Ok(GuardSyntax { condition, masks })
}

/// Whether `name[...]` follows and no operator of dims behind it.
fn mask_follows(p: &mut Parser<'_>) -> bool {
    if !matches!(p.peek(), Token::Ident(_)) || !p.is_at(1, "[") {
        return false;
    }
    let position = p.position();
    p.next();
    let mut depth = 0usize;
    loop {
        match p.next().0 {
            Token::Punct("[") => depth += 1,
            Token::Punct("]") => depth = depth.saturating_sub(1),
            Token::End => break,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    let operator = ["+", "-", "*", "<", "<=", ">", ">=", "==", "!="].iter().any(|operator| p.at(operator));
    p.rewind(position);
    !operator
}

fn repeat(p: &mut Parser<'_>) -> Result<RepeatSyntax> {
    let coordinate = name(p, "a coordinate")?;
    p.expect("in")?;
    let start = p.span();
    let extent = parse_dim(p)?;
    let extent = Spanned { item: extent, span: start.to(p.previous_span()) };
    let mut carried = Vec::new();
    while p.eat(",") {
        let inner = name(p, "a carried value")?;
        p.expect("=")?;
        carried.push((inner, name(p, "the value that is carried in")?));
    }
    p.expect("{")?;
    let function = name(p, "a function")?;
    let at_coordinate = |p: &mut Parser<'_>| {
        let label = name(p, "the coordinate")?;
        if label.item != coordinate.item {
            let message = format!("only the coordinate `{}` can stand here", coordinate.item);
            return Err(p.error(label.span, message));
        }
        p.expect("]")
    };
    let arguments = p.list("(", ")", |p| {
        let argument = name(p, "an argument")?;
        let sliced = p.eat("[");
        if sliced {
            at_coordinate(p)?;
        }
        Ok((argument, sliced))
    })?;
    p.expect("->")?;
    let mut results = Vec::new();
    loop {
        let start = p.span();
        let item = if p.eat("[") {
            at_coordinate(p)?;
            None
        } else {
            Some(name(p, "a carried value or the coordinate in brackets")?.item)
        };
        results.push(Spanned { item, span: start.to(p.previous_span()) });
        if !p.eat(",") {
            break;
        }
    }
    p.expect("}")?;
    Ok(RepeatSyntax { coordinate, extent, carried, function, arguments, results })
}
