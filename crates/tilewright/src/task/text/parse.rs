//! Reads task programs.

use super::{BodyText, Context, KINDS, SCOPES, TIERS, take_word, whole_region};
use crate::dim::{Dim, Facts, Symbol, parse_dim, parse_facts};
use crate::task::ir::{
    Access, Buffer, BufferId, BufferKind, Edge, EdgeIndex, Event, EventId, Family, FamilyId, Interval,
    Program, Step, Tier,
};
use crate::tensor::DType;
use crate::text::{Error, Parser, Span};
use std::collections::BTreeSet;

/// Reads a whole text as a program.
pub fn parse<B: BodyText>(file: &str, text: &str) -> Result<Program<B>, Error> {
    let mut p = Parser::new(file, text)?;
    let program = parse_program(&mut p)?;
    if p.is_end() {
        Ok(program)
    } else {
        Err(p.expected("`tasks`, `repeat`, `steps` or the end of the text"))
    }
}

/// Reads a program up to the first token that continues none.
pub fn parse_program<B: BodyText>(p: &mut Parser<'_>) -> Result<Program<B>, Error> {
    p.expect("program")?;
    let name = Symbol::new(p.ident("the name of the program")?.0);
    let facts = if p.eat("where") { parse_facts(p)? } else { Facts::default() };
    p.expect("arena")?;
    let arena = parse_dim(p)?;
    let mut program = Program {
        name,
        facts,
        buffers: Vec::new(),
        results: Vec::new(),
        arena,
        events: Vec::new(),
        families: Vec::new(),
        steps: Vec::new(),
    };
    let mut names = Names::default();
    p.expect("buffers")?;
    p.expect("{")?;
    while !p.eat("}") {
        let (buffer, span) = parse_buffer(p)?;
        names.declare(p, &buffer.name, span, "buffers")?;
        program.buffers.push(buffer);
    }
    if p.eat("results") {
        loop {
            program.results.push(find_buffer(p, &program.buffers)?);
            if !p.eat(",") {
                break;
            }
        }
    }
    while p.at("event") {
        let (event, span) = parse_event(p)?;
        names.declare(p, &event.name, span, "events")?;
        program.events.push(event);
    }
    let mut repeated = None;
    program.steps = parse_steps(p, &mut program, &mut names, &mut Vec::new(), &mut repeated)?;
    if p.at("steps") {
        if let Some(span) = repeated {
            return Err(p.error(span, "a program that ends in `steps` states its repeats there"));
        }
        p.next();
        p.expect("{")?;
        program.steps = parse_step_names(p, &program)?;
        p.expect("}")?;
    }
    Ok(program)
}

/// The names declared so far, by what has them.
#[derive(Default)]
struct Names(BTreeSet<(&'static str, Symbol)>);

impl Names {
    fn declare(
        &mut self,
        p: &Parser<'_>,
        name: &Symbol,
        span: Span,
        kind: &'static str,
    ) -> Result<(), Error> {
        if self.0.insert((kind, name.clone())) {
            Ok(())
        } else {
            Err(p.error(span, format!("there are two {kind} named `{name}`")))
        }
    }
}

fn parse_buffer(p: &mut Parser<'_>) -> Result<(Buffer, Span), Error> {
    let param = KINDS.iter().find(|(_, word)| p.at(word)).map(|(kind, _)| *kind);
    let (output, temporary) = (p.at("output"), p.at("temporary"));
    if param.is_none() && !output && !temporary {
        return Err(p.expected("`input`, `weight`, `plan`, `state`, `output`, `temporary` or `}`"));
    }
    p.next();
    let (name, span) = p.ident("the name of a buffer")?;
    p.expect(":")?;
    let dtype = parse_dtype(p)?;
    let axes = p.list("[", "]", |p| Ok((p.eat("padded"), parse_dim(p)?)))?;
    let (padded, extents) = axes.into_iter().unzip();
    let kind = match param {
        Some(kind) => BufferKind::Param(kind),
        None if output => BufferKind::Output,
        None => {
            p.expect("at")?;
            BufferKind::Temporary { offset: parse_dim(p)? }
        }
    };
    let tier = if p.eat("in") { take_word(p, &TIERS, "a level of memory")? } else { Tier::Memory };
    Ok((Buffer { name: Symbol::new(name), kind, dtype, extents, padded, tier }, span))
}

fn parse_dtype(p: &mut Parser<'_>) -> Result<DType, Error> {
    let (name, span) = p.ident("an element type")?;
    DType::from_name(name).ok_or_else(|| {
        let all: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        p.error(span, format!("`{name}` is no element type; there are {}", all.join(", ")))
    })
}

fn parse_event(p: &mut Parser<'_>) -> Result<(Event, Span), Error> {
    p.expect("event")?;
    let (name, span) = p.ident("the name of an event")?;
    let axes = p.list("[", "]", |p| {
        let name = Symbol::new(p.ident("the name of an axis")?.0);
        p.expect(":")?;
        Ok((name, parse_dim(p)?))
    })?;
    p.expect("wait")?;
    let wait = parse_dim(p)?;
    p.expect("scope")?;
    let scope = take_word(p, &SCOPES, "a scope")?;
    Ok((Event { name: Symbol::new(name), axes, wait, scope }, span))
}

fn parse_steps<B: BodyText>(
    p: &mut Parser<'_>,
    program: &mut Program<B>,
    names: &mut Names,
    enclosing: &mut Vec<(Symbol, Dim)>,
    repeated: &mut Option<Span>,
) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    loop {
        if p.at("tasks") {
            let (family, span) = parse_family(p, program)?;
            names.declare(p, &family.name, span, "task families")?;
            steps.push(Step::Family(FamilyId(program.families.len() as u32)));
            program.families.push(family);
        } else if p.at("repeat") {
            *repeated = Some(p.next().1);
            let (coordinate, extent) = parse_coordinate(p)?;
            p.expect("{")?;
            enclosing.push((coordinate.clone(), extent.clone()));
            let inner = p.nested(|p| parse_steps(p, program, names, enclosing, repeated))?;
            enclosing.pop();
            if !p.at("}") {
                return Err(p.expected("`tasks`, `repeat` or `}`"));
            }
            p.next();
            steps.push(Step::Repeat { coordinate, extent, steps: inner });
        } else {
            return Ok(steps);
        }
    }
}

fn parse_step_names<B>(p: &mut Parser<'_>, program: &Program<B>) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    while !p.at("}") {
        if p.eat("repeat") {
            let (coordinate, extent) = parse_coordinate(p)?;
            p.expect("{")?;
            let inner = p.nested(|p| parse_step_names(p, program))?;
            p.expect("}")?;
            steps.push(Step::Repeat { coordinate, extent, steps: inner });
        } else {
            let (name, span) = p.ident("the name of a task family, `repeat` or `}`")?;
            let found = program.families.iter().position(|family| family.name.as_str() == name);
            let index =
                found.ok_or_else(|| p.error(span, format!("there is no task family named `{name}`")))?;
            steps.push(Step::Family(FamilyId(index as u32)));
        }
    }
    Ok(steps)
}

fn parse_coordinate(p: &mut Parser<'_>) -> Result<(Symbol, Dim), Error> {
    let name = Symbol::new(p.ident("the name of a coordinate")?.0);
    p.expect("in")?;
    Ok((name, parse_dim(p)?))
}

fn parse_family<B: BodyText>(p: &mut Parser<'_>, program: &Program<B>) -> Result<(Family<B>, Span), Error> {
    p.expect("tasks")?;
    let (name, span) = p.ident("the name of a task family")?;
    let coordinates = p.list("[", "]", parse_coordinate)?;
    let reads = parse_accesses(p, "reads", &program.buffers)?;
    let writes = parse_accesses(p, "writes", &program.buffers)?;
    let waits = parse_edges(p, "waits", &program.events, &coordinates)?;
    let notifies = parse_edges(p, "notifies", &program.events, &coordinates)?;
    if !p.at("{") {
        return Err(p.expected("`reads`, `writes`, `waits`, `notifies` (in this order) or `{`"));
    }
    p.next();
    let context = Context {
        facts: &program.facts,
        buffers: &program.buffers,
        events: &program.events,
        coordinates: &coordinates,
    };
    let body = p.nested(|p| B::parse(p, &context))?;
    p.expect("}")?;
    Ok((Family { name: Symbol::new(name), coordinates, reads, writes, waits, notifies, body }, span))
}

fn parse_accesses(p: &mut Parser<'_>, keyword: &str, buffers: &[Buffer]) -> Result<Vec<Access>, Error> {
    let mut accesses = Vec::new();
    if p.eat(keyword) {
        loop {
            accesses.push(parse_access(p, buffers)?);
            if !p.eat(",") {
                break;
            }
        }
    }
    Ok(accesses)
}

fn parse_edges(
    p: &mut Parser<'_>,
    keyword: &str,
    events: &[Event],
    coordinates: &[(Symbol, Dim)],
) -> Result<Vec<Edge>, Error> {
    let mut edges = Vec::new();
    if p.eat(keyword) {
        loop {
            edges.push(parse_edge(p, events, coordinates)?);
            if !p.eat(",") {
                break;
            }
        }
    }
    Ok(edges)
}

fn find_buffer(p: &mut Parser<'_>, buffers: &[Buffer]) -> Result<BufferId, Error> {
    let (name, span) = p.ident("the name of a buffer")?;
    let found = buffers.iter().position(|buffer| buffer.name.as_str() == name);
    let index = found.ok_or_else(|| p.error(span, format!("there is no buffer named `{name}`")))?;
    Ok(BufferId(index as u32))
}

/// Reads an access as `print_access` writes it.
pub fn parse_access(p: &mut Parser<'_>, buffers: &[Buffer]) -> Result<Access, Error> {
    let buffer = find_buffer(p, buffers)?;
    if !p.at("[") || p.on_new_line() {
        let region = buffers.get(buffer.0 as usize).map(whole_region).unwrap_or_default();
        return Ok(Access { buffer, region });
    }
    let region = p.list("[", "]", |p| {
        let lo = parse_dim(p)?;
        let hi = if p.eat("..") { parse_dim(p)? } else { &lo + 1 };
        Ok(Interval { lo, hi })
    })?;
    Ok(Access { buffer, region })
}

/// Reads an edge of a task with these coordinates as `print_edge` writes it.
pub fn parse_edge(
    p: &mut Parser<'_>,
    events: &[Event],
    coordinates: &[(Symbol, Dim)],
) -> Result<Edge, Error> {
    let (name, span) = p.ident("the name of an event")?;
    let found = events.iter().position(|event| event.name.as_str() == name);
    let event = found.ok_or_else(|| p.error(span, format!("there is no event named `{name}`")))?;
    let index = p.list("[", "]", |p| parse_index(p, coordinates))?;
    Ok(Edge { event: EventId(event as u32), index })
}

fn parse_index(p: &mut Parser<'_>, coordinates: &[(Symbol, Dim)]) -> Result<EdgeIndex, Error> {
    if p.eat("{") {
        let cell = parse_dim(p)?;
        p.expect("for")?;
        let label = Symbol::new(p.ident("a label")?.0);
        p.expect("in")?;
        let lo = parse_dim(p)?;
        p.expect("..")?;
        let hi = parse_dim(p)?;
        p.expect("}")?;
        return Ok(EdgeIndex::Gather { label, lo, hi, cell });
    }
    let form =
        ["affine", "quotient", "range", "table"].into_iter().find(|word| p.at(word) && p.is_at(1, ":"));
    let stated = p.span();
    if form.is_some() {
        p.next();
        p.next();
    }
    let lo = parse_dim(p)?;
    let hi = if p.eat("..") { Some(parse_dim(p)?) } else { None };
    match (form, hi) {
        (None, None) => Ok(EdgeIndex::cell(coordinates, lo)),
        (None, Some(hi)) => Ok(EdgeIndex::range(lo, hi)),
        (Some("affine"), None) => Ok(EdgeIndex::Affine(lo)),
        (Some("quotient"), None) => Ok(EdgeIndex::Quotient(lo)),
        (Some("range"), Some(hi)) => Ok(EdgeIndex::Range { lo, hi }),
        (Some("table"), Some(hi)) => Ok(EdgeIndex::TableRange { lo, hi }),
        (Some("affine" | "quotient"), Some(_)) => {
            Err(p.error(stated, "`affine` and `quotient` are of one cell"))
        }
        (Some(_), _) => Err(p.error(stated, "`range` and `table` are of cells `lo..hi`")),
    }
}
