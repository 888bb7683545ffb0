//! The text form of dims, conds and facts.
//!
//! ```text
//! dim   = product (("+" | "-") product)*          product = "-"* unary ("*" "-"* unary)*
//! unary = integer | symbol | table "[" dims "]" | function "(" dims ")" | "(" dim ")"
//! cond  = all ("or" all)*     all = part ("and" part)*     part = "not" part | "true" | "false"
//!       | dim relation dim | "(" cond ")"
//! facts = fact ("," fact)*
//! fact  = symbol "in" lo "..=" hi ["by" k] | symbol "in" lo ".." ["by" k] | symbol "=" value
//!       | table "splits" dim "over" dim | table "elements" dim "..=" dim
//! ```
//!
//! Functions are `floordiv ceildiv mod` of two, `min max` of two or more, and `overflow` of none. A bracket or
//! parenthesis belongs to the word before it only on the same line.

use super::{Atom, Cond, Dim, FactError, Facts, Relation, Symbol};
use crate::text::{Error, Parser, Token};
use std::fmt;
use std::str::FromStr;

/// Words that are no symbols.
const RESERVED: [&str; 5] = ["and", "or", "not", "true", "false"];

/// Reads a dim as far as it goes.
pub fn parse_dim(p: &mut Parser<'_>) -> Result<Dim, Error> {
    let mut sum = product(p)?;
    loop {
        if p.eat("+") {
            sum = sum + product(p)?;
        } else if p.eat("-") {
            sum = sum - product(p)?;
        } else {
            return Ok(sum);
        }
    }
}

fn product(p: &mut Parser<'_>) -> Result<Dim, Error> {
    let mut product = signed(p)?;
    while p.eat("*") {
        product = product * signed(p)?;
    }
    Ok(product)
}

fn signed(p: &mut Parser<'_>) -> Result<Dim, Error> {
    let mut negative = false;
    while p.eat("-") {
        negative = !negative;
    }
    let dim = unary(p)?;
    Ok(if negative { -dim } else { dim })
}

fn unary(p: &mut Parser<'_>) -> Result<Dim, Error> {
    match p.peek() {
        Token::Int(value) => {
            p.next();
            Ok(Dim::constant(value))
        }
        Token::Least => Err(p.out_of_range()),
        Token::Punct("(") => {
            p.next();
            let dim = p.nested(parse_dim)?;
            p.expect(")")?;
            Ok(dim)
        }
        Token::Ident(name) if !RESERVED.contains(&name) => {
            let span = p.next().1;
            if p.on_new_line() {
                return Ok(Dim::symbol(name));
            }
            if p.at("[") {
                return Ok(Dim::element(name, p.nested(|p| p.list("[", "]", parse_dim))?));
            }
            if !p.at("(") {
                return Ok(Dim::symbol(name));
            }
            let arguments = p.nested(|p| p.list("(", ")", parse_dim))?;
            call(name, &arguments).map_err(|message| p.error(span, message))
        }
        _ => Err(p.expected("a dim")),
    }
}

fn call(name: &str, arguments: &[Dim]) -> Result<Dim, String> {
    match (name, arguments) {
        ("floordiv", [a, b]) => Ok(a.floor_div(b)),
        ("ceildiv", [a, b]) => Ok(a.ceil_div(b)),
        ("mod", [a, b]) => Ok(a.modulo(b)),
        ("overflow", []) => Ok(Dim::overflow()),
        ("min", [_, _, ..]) => Dim::min_of(arguments.iter().cloned()).ok_or_else(String::new),
        ("max", [_, _, ..]) => Dim::max_of(arguments.iter().cloned()).ok_or_else(String::new),
        ("floordiv" | "ceildiv" | "mod", _) => Err(format!("`{name}` takes two dims")),
        ("min" | "max", _) => Err(format!("`{name}` takes two or more dims")),
        ("overflow", _) => Err("`overflow` takes no dims".to_string()),
        _ => Err(format!("unknown function `{name}` of dims")),
    }
}

/// Reads a cond as far as it goes.
pub fn parse_cond(p: &mut Parser<'_>) -> Result<Cond, Error> {
    let mut parts = vec![conjunction(p)?];
    while p.eat("or") {
        parts.push(conjunction(p)?);
    }
    Ok(Cond::any(parts))
}

fn conjunction(p: &mut Parser<'_>) -> Result<Cond, Error> {
    let mut parts = vec![parse_cond_part(p)?];
    while p.eat("and") {
        parts.push(parse_cond_part(p)?);
    }
    Ok(Cond::all(parts))
}

/// Reads one part of a conjunction: no `and` or `or` outside parentheses.
pub fn parse_cond_part(p: &mut Parser<'_>) -> Result<Cond, Error> {
    if p.eat("not") {
        return p.nested(|p| Ok(!parse_cond_part(p)?));
    }
    if p.eat("true") {
        return Ok(Cond::True);
    }
    if p.eat("false") {
        return Ok(Cond::False);
    }
    if !p.at("(") {
        return comparison(p);
    }
    let start = p.position();
    let as_comparison = match comparison(p) {
        Ok(cond) => return Ok(cond),
        Err(error) => error,
    };
    p.rewind(start);
    let as_group = p.expect("(").and_then(|_| {
        let cond = p.nested(parse_cond)?;
        p.expect(")")?;
        Ok(cond)
    });
    as_group.map_err(|error| {
        let place = |e: &Error| (e.line, e.column);
        if place(&as_comparison) > place(&error) { as_comparison } else { error }
    })
}

fn comparison(p: &mut Parser<'_>) -> Result<Cond, Error> {
    let left = parse_dim(p)?;
    let relation = Relation::ALL.into_iter().find(|relation| p.at(relation.as_str()));
    let Some(relation) = relation else { return Err(p.expected("a comparison")) };
    p.next();
    Ok(Cond::compare(left, relation, parse_dim(p)?))
}

/// Reads the facts after `where`, up to a token that continues none. A symbol has one fact, a table one of each
/// kind; more, or ones that nothing satisfies, are errors.
pub fn parse_facts(p: &mut Parser<'_>) -> Result<Facts, Error> {
    let mut facts = Facts::default();
    loop {
        parse_fact(p, &mut facts)?;
        if !p.eat(",") {
            return Ok(facts);
        }
    }
}

fn parse_fact(p: &mut Parser<'_>, facts: &mut Facts) -> Result<(), Error> {
    let (name, span) = p.ident("a symbol or a table")?;
    let symbol = Symbol::new(name);
    let twice = |known: bool| if known { Err(FactError::Twice(symbol.clone())) } else { Ok(()) };
    let declared = if p.eat("in") {
        let lo = parse_integer(p)?;
        let hi = parse_end(p)?;
        let divisor = if p.eat("by") { Some(parse_integer(p)?) } else { None };
        twice(facts.range(&symbol).is_some())
            .and_then(|()| facts.declare(symbol.clone(), lo, hi))
            .and_then(|()| divisor.map_or(Ok(()), |k| facts.declare_divisor(symbol.clone(), k)))
    } else if p.eat("=") {
        let value = parse_integer(p)?;
        twice(facts.range(&symbol).is_some()).and_then(|()| facts.declare(symbol.clone(), value, Some(value)))
    } else if p.eat("splits") {
        let total = parse_dim(p)?;
        p.expect("over")?;
        let parts = parse_dim(p)?;
        twice(facts.splits(&symbol).is_some())
            .and_then(|()| facts.declare_splits(symbol.clone(), parts, total))
    } else if p.eat("elements") {
        let lo = parse_dim(p)?;
        p.expect("..=")?;
        let hi = parse_dim(p)?;
        twice(facts.table_range(&symbol).is_some()).and_then(|()| facts.declare_range(symbol.clone(), lo, hi))
    } else {
        return Err(p.expected("`in`, `=`, `splits` or `elements`"));
    };
    declared.map_err(|error| p.error(span, error.to_string()))
}

fn parse_end(p: &mut Parser<'_>) -> Result<Option<i64>, Error> {
    if p.eat("..=") {
        return parse_integer(p).map(Some);
    }
    if !p.at("..") {
        return Err(p.expected("`..=` or `..`"));
    }
    p.next();
    if matches!(p.peek(), Token::Int(_)) && !p.on_new_line() {
        let span = p.previous_span();
        return Err(p.error(span, "a range with an upper bound is written `lo..=hi`"));
    }
    Ok(None)
}

fn parse_integer(p: &mut Parser<'_>) -> Result<i64, Error> {
    let start = p.span();
    let dim = parse_dim(p)?;
    let span = start.to(p.previous_span());
    dim.as_constant().ok_or_else(|| p.error(span, "expected an integer"))
}

/// Reads all of `text` with `parse`.
fn whole<T>(text: &str, parse: impl FnOnce(&mut Parser<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let mut p = Parser::new("<text>", text)?;
    let value = parse(&mut p)?;
    if p.is_end() { Ok(value) } else { Err(p.expected("the end of the text")) }
}

impl FromStr for Dim {
    type Err = Error;

    fn from_str(text: &str) -> Result<Dim, Error> {
        whole(text, parse_dim)
    }
}

impl FromStr for Cond {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cond, Error> {
        whole(text, parse_cond)
    }
}

impl FromStr for Facts {
    type Err = Error;

    fn from_str(text: &str) -> Result<Facts, Error> {
        if text.trim().is_empty() { Ok(Facts::default()) } else { whole(text, parse_facts) }
    }
}

/// Items with `separator` between them.
struct List<'a, T>(&'a [T], &'static str);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(self.1)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Symbol(symbol) => write!(f, "{symbol}"),
            Atom::Element(table, index) => write!(f, "{table}[{}]", List(index, ", ")),
            Atom::FloorDiv(a, b) => write!(f, "floordiv({a}, {b})"),
            Atom::CeilDiv(a, b) => write!(f, "ceildiv({a}, {b})"),
            Atom::Mod(a, b) => write!(f, "mod({a}, {b})"),
            Atom::Min(args) => write!(f, "min({})", List(args, ", ")),
            Atom::Max(args) => write!(f, "max({})", List(args, ", ")),
            Atom::Overflow => write!(f, "overflow()"),
        }
    }
}

/// Writes one term after `first` ones; the sign is part of it.
fn write_term(f: &mut fmt::Formatter<'_>, first: bool, coefficient: i64, factors: &[Atom]) -> fmt::Result {
    if coefficient == i64::MIN {
        let plus = if first { "" } else { " + " };
        return write!(f, "{plus}({} - 1)*{}", -i64::MAX, List(factors, "*"));
    }
    f.write_str(match (first, coefficient < 0) {
        (true, true) => "-",
        (true, false) => "",
        (false, true) => " - ",
        (false, false) => " + ",
    })?;
    match coefficient.unsigned_abs() {
        1 => {}
        magnitude => write!(f, "{magnitude}*")?,
    }
    write!(f, "{}", List(factors, "*"))
}

/// Positive terms, then negative ones, then the constant; a positive constant leads if all terms are negative.
impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let constant = self.constant_part();
        let leads = constant > 0 && self.terms().all(|(coefficient, _)| coefficient < 0);
        let mut first = true;
        if leads {
            write!(f, "{constant}")?;
            first = false;
        }
        for negative in [false, true] {
            for (coefficient, factors) in self.terms().filter(|(c, _)| (*c < 0) == negative) {
                write_term(f, first, coefficient, factors)?;
                first = false;
            }
        }
        match (leads, first, constant) {
            (true, ..) | (_, false, 0) => Ok(()),
            (_, true, i64::MIN) => write!(f, "{} - 1", -i64::MAX),
            (_, true, _) => write!(f, "{constant}"),
            (_, false, i64::MIN) => write!(f, " - {} - 1", i64::MAX),
            (_, false, 1..) => write!(f, " + {constant}"),
            (_, false, _) => write!(f, " - {}", constant.unsigned_abs()),
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cond::True => f.write_str("true"),
            Cond::False => f.write_str("false"),
            Cond::Compare(a, relation, b) => write!(f, "{a} {relation} {b}"),
            Cond::Or(parts) => write!(f, "{}", List(parts, " or ")),
            Cond::Not(inner) => write!(f, "not ({inner})"),
            Cond::And(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    f.write_str(if i > 0 { " and " } else { "" })?;
                    match part {
                        Cond::Or(_) => write!(f, "({part})")?,
                        _ => write!(f, "{part}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// The declared facts as [`parse_facts`] reads them, sorted by name; assumptions are left out.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items: Vec<String> = Vec::new();
        for symbol in self.symbols() {
            let Some((lo, hi)) = self.range(symbol) else { continue };
            let by = self.divisor(symbol).map(|k| format!(" by {k}")).unwrap_or_default();
            let (lo_text, hi_text) = (Dim::constant(lo), hi.map(Dim::constant));
            items.push(match hi_text {
                Some(_) if hi == Some(lo) && by.is_empty() => format!("{symbol} = {lo_text}"),
                Some(hi_text) => format!("{symbol} in {lo_text}..={hi_text}{by}"),
                None => format!("{symbol} in {lo_text}..{by}"),
            });
        }
        for table in self.tables() {
            if let Some((parts, total)) = self.splits(table) {
                items.push(format!("{table} splits {total} over {parts}"));
            }
            if let Some((lo, hi)) = self.table_range(table) {
                items.push(format!("{table} elements {lo}..={hi}"));
            }
        }
        write!(f, "{}", List(&items, ", "))
    }
}
