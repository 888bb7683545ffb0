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
//! An extent may be `padded`: the buffer's [`padded`](Buffer::padded).
//!
//! A region `x` alone is the whole buffer, `x[m]` one index, `x[lo..hi]` an interval. An edge `E[c]` is one cell,
//! `E[lo..hi]` a range, `E[{c for i in lo..hi}]` a gather; which of the five forms an index has follows from its
//! expressions, and a word (`affine:`, `quotient:`, `range:`, `table:`) states it where it does not. Families stand in
//! the order in which they run, inside `repeat l in L { … }` where they are repeated. A program whose steps are in
//! another order, which no verifier accepts, ends in a line `steps …`.
//!
//! What a body looks like is the business of its type: [`BodyText`].

mod parse;
mod print;

pub use parse::{parse, parse_access, parse_edge, parse_program};
pub use print::{print, print_access, print_edge, whole_region};

use super::ir::{Body, Buffer, Event, Program, Scope, Tier};
use crate::block;
use crate::dim::{Dim, Facts, Symbol};
use crate::tensor::ParamKind;
use crate::text::{Error, Parser};
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

/// The text of [`print()`].
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
