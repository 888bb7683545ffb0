//! The text form of task programs, for any kind of body.
//!
//! ```text
//! program double
//! where S in 0..=8192
//! arena 4*S
//! buffers {
//!   input x: f32[S]
//!   output y: f32[S]
//!   temporary t: f32[S] at 0 in memory
//! }
//! results y
//! event E1[m: ceildiv(S, 64)] wait 1 scope chip
//! tasks first [m in ceildiv(S, 64)]
//!   reads x[64*m..min(S, 64*m + 64)]
//!   writes t[64*m..min(S, 64*m + 64)]
//!   notifies E1[m]
//! {
//!   ...
//! }
//! ```
//!
//! A region `x` alone is the whole buffer, `x[m]` one index, `x[lo..hi]` an interval. An edge `E[c]` is one cell,
//! `E[lo..hi]` a range, `E[{c for i in lo..hi}]` a gather; which of the five forms an index has follows from its
//! expressions, and a word (`affine:`, `quotient:`, `range:`, `table:`) states it where it does not. Families stand in
//! the order in which they run, inside `repeat l in L { … }` where they are repeated. A program whose steps are in
//! another order, which no verifier accepts, ends in a line `steps …`.
//!
//! What a body looks like is the business of its type: [`BodyText`].

use super::ir::{
    Access, Body, Buffer, BufferId, BufferKind, Edge, EdgeIndex, Event, EventId, Family, FamilyId, Interval,
    Program, Scope, Step, Tier,
};
use crate::block;
use crate::dim::{Dim, Facts, Symbol, parse_dim, parse_facts};
use crate::tensor::{DType, ParamKind};
use crate::text::{Error, Parser, Span};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// What the text of a body may refer to.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What is known of the symbols.
    pub facts: &'a Facts,
    /// The buffers of the program.
    pub buffers: &'a [Buffer],
    /// The event tensors of the program.
    pub events: &'a [Event],
    /// The coordinates of the family.
    pub coordinates: &'a [(Symbol, Dim)],
}

/// A kind of body that has a text form.
pub trait BodyText: Sized {
    /// Appends what stands between the braces of a family: whole lines, each behind `indent` spaces.
    fn print(&self, context: &Context<'_>, indent: usize, out: &mut String);

    /// Reads what [`BodyText::print`] wrote, up to the closing brace, which stays.
    fn parse(parser: &mut Parser<'_>, context: &Context<'_>) -> Result<Self, Error>;
}

/// A body without contents: a skeleton of families and events alone.
impl BodyText for () {
    fn print(&self, _: &Context<'_>, _: usize, _: &mut String) {}

    fn parse(_: &mut Parser<'_>, _: &Context<'_>) -> Result<(), Error> {
        Ok(())
    }
}

/// Block nodes, and those of the prologue in `prologue { … }` before them.
impl BodyText for Body {
    fn print(&self, _: &Context<'_>, indent: usize, out: &mut String) {
        let printer = block::text::Printer { values: &self.values, functions: &[] };
        if !self.prologue.is_empty() {
            let _ = writeln!(out, "{:indent$}prologue {{", "");
            printer.nodes(&self.prologue, indent + 2, out);
            let _ = writeln!(out, "{:indent$}}}", "");
        }
        printer.nodes(&self.nodes, indent, out);
    }

    fn parse(p: &mut Parser<'_>, context: &Context<'_>) -> Result<Body, Error> {
        let outside =
            |name: &Symbol| context.buffers.iter().find(|buffer| buffer.name == *name).map(Buffer::ty);
        let mut reader = block::text::Reader::new(&[], Some(&outside));
        let mut prologue = Vec::new();
        if p.at("prologue") && p.is_at(1, "{") {
            p.next();
            p.next();
            prologue = reader.nodes(p)?;
            p.expect("}")?;
        }
        let nodes = reader.nodes(p)?;
        Ok(Body { values: reader.into_values(), prologue, nodes })
    }
}

/// The text of [`print`].
impl<B: BodyText> fmt::Display for Program<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self))
    }
}

const TIERS: [(Tier, &str); 3] = [(Tier::Near, "near"), (Tier::Cluster, "cluster"), (Tier::Memory, "memory")];

const SCOPES: [(Scope, &str); 5] = [
    (Scope::Core, "core"),
    (Scope::Cluster, "cluster"),
    (Scope::Chip, "chip"),
    (Scope::Device, "device"),
    (Scope::System, "system"),
];

const KINDS: [(ParamKind, &str); 4] = [
    (ParamKind::Input, "input"),
    (ParamKind::Weight, "weight"),
    (ParamKind::Plan, "plan"),
    (ParamKind::State, "state"),
];

/// The word of a table row.
fn word<T: PartialEq>(rows: &[(T, &'static str)], value: &T) -> &'static str {
    rows.iter().find(|(row, _)| row == value).map_or("?", |(_, word)| word)
}

/// Takes a word of a table.
fn take_word<T: Copy>(p: &mut Parser<'_>, rows: &[(T, &'static str)], what: &str) -> Result<T, Error> {
    match rows.iter().find(|(_, word)| p.at(word)) {
        Some((value, _)) => {
            p.next();
            Ok(*value)
        }
        None => {
            let words: Vec<&str> = rows.iter().map(|(_, word)| *word).collect();
            Err(p.expected(&format!("{what} ({})", words.join(", "))))
        }
    }
}

// ---- printing ----

/// The text of a program; `parse(print(p)) == p` where ids are in range and names are unique.
pub fn print<B: BodyText>(program: &Program<B>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "program {}", program.name);
    let facts = program.facts.to_string();
    if !facts.is_empty() {
        let _ = writeln!(out, "where {facts}");
    }
    let _ = writeln!(out, "arena {}", program.arena);
    out.push_str("buffers {\n");
    for buffer in &program.buffers {
        print_buffer(buffer, &mut out);
    }
    out.push_str("}\n");
    if !program.results.is_empty() {
        let names: Vec<String> =
            program.results.iter().map(|id| buffer_name(&program.buffers, *id)).collect();
        let _ = writeln!(out, "results {}", names.join(", "));
    }
    for event in &program.events {
        print_event(event, &mut out);
    }
    let mut order = Vec::new();
    flatten(&program.steps, &mut order);
    if order.iter().copied().eq((0..program.families.len() as u32).map(FamilyId)) {
        print_steps(program, &program.steps, 0, &mut out);
    } else {
        for family in &program.families {
            print_family(program, family, 0, &mut out);
        }
        out.push_str("\nsteps {\n");
        print_step_names(program, &program.steps, 2, &mut out);
        out.push_str("}\n");
    }
    out
}

/// The families of steps, in order.
fn flatten(steps: &[Step], order: &mut Vec<FamilyId>) {
    for step in steps {
        match step {
            Step::Family(id) => order.push(*id),
            Step::Repeat { steps, .. } => flatten(steps, order),
        }
    }
}

fn print_steps<B: BodyText>(program: &Program<B>, steps: &[Step], indent: usize, out: &mut String) {
    for step in steps {
        match step {
            Step::Family(id) => {
                if let Some(family) = program.families.get(id.0 as usize) {
                    print_family(program, family, indent, out);
                }
            }
            Step::Repeat { coordinate, extent, steps } => {
                let _ = writeln!(out, "\n{:indent$}repeat {coordinate} in {extent} {{", "");
                print_steps(program, steps, indent + 2, out);
                let _ = writeln!(out, "{:indent$}}}", "");
            }
        }
    }
}

fn print_step_names<B>(program: &Program<B>, steps: &[Step], indent: usize, out: &mut String) {
    for step in steps {
        match step {
            Step::Family(id) => {
                let name =
                    program.families.get(id.0 as usize).map_or("?".to_string(), |f| f.name.to_string());
                let _ = writeln!(out, "{:indent$}{name}", "");
            }
            Step::Repeat { coordinate, extent, steps } => {
                let _ = writeln!(out, "{:indent$}repeat {coordinate} in {extent} {{", "");
                print_step_names(program, steps, indent + 2, out);
                let _ = writeln!(out, "{:indent$}}}", "");
            }
        }
    }
}

fn print_buffer(buffer: &Buffer, out: &mut String) {
    let kind = match &buffer.kind {
        BufferKind::Param(kind) => word(&KINDS, kind),
        BufferKind::Output => "output",
        BufferKind::Temporary { .. } => "temporary",
    };
    let extents: Vec<String> = buffer.extents.iter().map(Dim::to_string).collect();
    let _ = write!(out, "  {kind} {}: {}[{}]", buffer.name, buffer.dtype, extents.join(", "));
    if let BufferKind::Temporary { offset } = &buffer.kind {
        let _ = write!(out, " at {offset}");
    }
    if buffer.tier != Tier::Memory || matches!(buffer.kind, BufferKind::Temporary { .. }) {
        let _ = write!(out, " in {}", word(&TIERS, &buffer.tier));
    }
    out.push('\n');
}

fn print_event(event: &Event, out: &mut String) {
    let axes: Vec<String> = event.axes.iter().map(|(name, extent)| format!("{name}: {extent}")).collect();
    let scope = word(&SCOPES, &event.scope);
    let _ = writeln!(out, "event {}[{}] wait {} scope {scope}", event.name, axes.join(", "), event.wait);
}

fn print_family<B: BodyText>(program: &Program<B>, family: &Family<B>, indent: usize, out: &mut String) {
    let coordinates: Vec<String> =
        family.coordinates.iter().map(|(name, n)| format!("{name} in {n}")).collect();
    let _ = writeln!(out, "\n{:indent$}tasks {} [{}]", "", family.name, coordinates.join(", "));
    let mut line = |name: &str, items: Vec<String>| {
        if !items.is_empty() {
            let _ = writeln!(out, "{:indent$}  {name} {}", "", items.join(", "));
        }
    };
    line("reads", family.reads.iter().map(|access| print_access(&program.buffers, access)).collect());
    line("writes", family.writes.iter().map(|access| print_access(&program.buffers, access)).collect());
    let edges = |edges: &[Edge]| -> Vec<String> {
        edges.iter().map(|edge| print_edge(&program.events, &family.coordinates, edge)).collect()
    };
    line("waits", edges(&family.waits));
    line("notifies", edges(&family.notifies));
    let _ = writeln!(out, "{:indent$}{{", "");
    let context = Context {
        facts: &program.facts,
        buffers: &program.buffers,
        events: &program.events,
        coordinates: &family.coordinates,
    };
    family.body.print(&context, indent + 2, out);
    let _ = writeln!(out, "{:indent$}}}", "");
}

/// The name of a buffer; an id that is out of range prints as text that no parser accepts.
fn buffer_name(buffers: &[Buffer], id: BufferId) -> String {
    buffers.get(id.0 as usize).map_or_else(|| format!("?{}", id.0), |buffer| buffer.name.to_string())
}

/// The text of an access: `x`, or `x[64*m..64*m + 64, d]`.
pub fn print_access(buffers: &[Buffer], access: &Access) -> String {
    let name = buffer_name(buffers, access.buffer);
    let whole =
        buffers.get(access.buffer.0 as usize).is_some_and(|buffer| access.region == whole_region(buffer));
    if whole {
        return name;
    }
    let intervals: Vec<String> = access.region.iter().map(print_interval).collect();
    format!("{name}[{}]", intervals.join(", "))
}

fn print_interval(interval: &Interval) -> String {
    if interval.hi == &interval.lo + 1 {
        interval.lo.to_string()
    } else {
        format!("{}..{}", interval.lo, interval.hi)
    }
}

/// Every element of a buffer.
pub fn whole_region(buffer: &Buffer) -> Vec<Interval> {
    buffer.extents.iter().map(|extent| Interval { lo: Dim::constant(0), hi: extent.clone() }).collect()
}

/// The text of an edge of a task with these coordinates: `E1[l, 2*m..2*m + 2]`.
pub fn print_edge(events: &[Event], coordinates: &[(Symbol, Dim)], edge: &Edge) -> String {
    let name = events
        .get(edge.event.0 as usize)
        .map_or_else(|| format!("?{}", edge.event.0), |e| e.name.to_string());
    let indices: Vec<String> = edge.index.iter().map(|index| print_index(coordinates, index)).collect();
    format!("{name}[{}]", indices.join(", "))
}

fn print_index(coordinates: &[(Symbol, Dim)], index: &EdgeIndex) -> String {
    let stated = |word: &str, natural: EdgeIndex, text: String| {
        if *index == natural { text } else { format!("{word}: {text}") }
    };
    match index {
        EdgeIndex::Affine(cell) => {
            stated("affine", EdgeIndex::cell(coordinates, cell.clone()), cell.to_string())
        }
        EdgeIndex::Quotient(cell) => {
            stated("quotient", EdgeIndex::cell(coordinates, cell.clone()), cell.to_string())
        }
        EdgeIndex::Range { lo, hi } => {
            stated("range", EdgeIndex::range(lo.clone(), hi.clone()), format!("{lo}..{hi}"))
        }
        EdgeIndex::TableRange { lo, hi } => {
            stated("table", EdgeIndex::range(lo.clone(), hi.clone()), format!("{lo}..{hi}"))
        }
        EdgeIndex::Gather { label, lo, hi, cell } => format!("{{{cell} for {label} in {lo}..{hi}}}"),
    }
}

// ---- parsing ----

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
        names.declare(p, &buffer.name, span, "buffer")?;
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
        names.declare(p, &event.name, span, "event")?;
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
struct Names(BTreeMap<(&'static str, Symbol), ()>);

impl Names {
    fn declare(
        &mut self,
        p: &Parser<'_>,
        name: &Symbol,
        span: Span,
        what: &'static str,
    ) -> Result<(), Error> {
        match self.0.insert((what, name.clone()), ()) {
            None => Ok(()),
            Some(()) => Err(p.error(span, format!("there are two {}s named `{name}`", plural(what)))),
        }
    }
}

fn plural(what: &str) -> &str {
    if what == "family" { "task familie" } else { what }
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
    let extents = p.list("[", "]", parse_dim)?;
    let kind = match param {
        Some(kind) => BufferKind::Param(kind),
        None if output => BufferKind::Output,
        None => {
            p.expect("at")?;
            BufferKind::Temporary { offset: parse_dim(p)? }
        }
    };
    let tier = if p.eat("in") { take_word(p, &TIERS, "a level of memory")? } else { Tier::Memory };
    Ok((Buffer { name: Symbol::new(name), kind, dtype, extents, tier }, span))
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
            names.declare(p, &family.name, span, "family")?;
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

/// Reads an access as [`print_access`] writes it.
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

/// Reads an edge of a task with these coordinates as [`print_edge`] writes it.
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
