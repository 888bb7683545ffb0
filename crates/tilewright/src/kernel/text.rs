//! The text form of kernel programs: the worker loop, then a task program whose bodies are kernels.
//!
//! ```text
//! worker fetch, prologue, wait, body, notify
//! program double
//! …
//! tasks first [m in ceildiv(S, 64)]
//!   reads x[64*m..min(S, 64*m + 64)]
//!   writes y[64*m..min(S, 64*m + 64)]
//! {
//!   channel c pages 2 bytes 256 from loader to worker
//!   tile a: f32{i: 64*m +: 64 < S} in page c
//!   tile b: f32{i: 64*m +: 64 < S}
//!   tokens 1
//!   role loader {
//!     acquire c
//!     a = load x[i] gives t0
//!     commit c after t0
//!   }
//!   role worker {
//!     receive c
//!     b = mul a 2.0
//!     release c
//!     store b -> y[i]
//!   }
//! }
//! ```
//!
//! A tile is held near and row-major unless its line says otherwise: `in` a home (`registers`, `tile_registers`, `near`,
//! `cluster`, `memory`, `page` and a channel), then a [layout](super::layout).
//!
//! ```text
//! program   = "worker" step ("," step)* tasks         step = "fetch" | "prologue" | "wait" | "body" | "notify"
//! kernel    = channel* tile* ["tokens" integer] ["prologue" "{" statement* "}"] ("role" name "{" statement* "}")*
//! channel   = "channel" name "pages" integer "bytes" integer "from" role "to" role
//! tile      = "tile" name ":" dtype ["{" [range ("," range)*] "}"] ["in" home] [layout]
//! range     = label ":" dim "+:" size "<" dim
//! statement = "for" coordinate "in" dim "{" statement* "}"
//!           | name "=" "fill" number
//!           | name "=" "load" buffer "[" dims "]" ["when" cond] ["gives" token]
//!           | "store" name "->" buffer "[" dims "]" ["gives" token]
//!           | name "=" function argument*             argument = name | number | "index" "(" dim ")" | "holds" "(" cond ")"
//!           | name "=" "convert" name
//!           | "reduce" monoid name ["at" dim] "into" names mask
//!           | "contract" names "into" name mask       mask = ["where" cond] ["masks" names]
//!           | "mma" row name "," name "into" name mask ["gives" token]
//!           | name "=" "bits" name offset width ["signed"]
//!           | name "=" "align" name "," name          # significands, their exponents
//!           | name "=" "rescale" name "," name "," name
//!           | "opaque" operator "(" [buffers] ")" "axis" integer "->" buffers
//!           | "await" token | "acquire" channel | "commit" channel ["after" token] | "receive" channel
//!           | "release" channel | "wait" edge | "notify" edge
//! ```
//!
//! Tokens are `t0`, `t1`, …. Tiles, channels and buffers have names of their own; a name that is also a keyword is a
//! name wherever a name is expected.

mod parse;
mod print;

use super::ir::{Kernel, Program, WorkerStep};
use crate::task::text::{BodyText, Context};
use crate::text::{Error, Parser};
use std::fmt;

/// Reads a program; `file` is the name that errors show.
pub fn parse(file: &str, text: &str) -> Result<Program, Error> {
    let mut p = Parser::new(file, text)?;
    p.expect("worker")?;
    let mut worker = vec![parse_step(&mut p)?];
    while p.eat(",") {
        worker.push(parse_step(&mut p)?);
    }
    let tasks = crate::task::text::parse_program(&mut p)?;
    if p.is_end() { Ok(Program { tasks, worker }) } else { Err(p.expected("the end of the text")) }
}

const STEPS: [(WorkerStep, &str); 5] = [
    (WorkerStep::Fetch, "fetch"),
    (WorkerStep::Prologue, "prologue"),
    (WorkerStep::Wait, "wait"),
    (WorkerStep::Body, "body"),
    (WorkerStep::Notify, "notify"),
];

fn parse_step(p: &mut Parser<'_>) -> Result<WorkerStep, Error> {
    match STEPS.into_iter().find(|(_, word)| p.at(word)) {
        Some((step, _)) => {
            p.next();
            Ok(step)
        }
        None => Err(p.expected("`fetch`, `prologue`, `wait`, `body` or `notify`")),
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word =
            |step: &WorkerStep| STEPS.iter().find(|(other, _)| other == step).map_or("?", |(_, word)| word);
        let steps: Vec<&str> = self.worker.iter().map(word).collect();
        writeln!(f, "worker {}", steps.join(", "))?;
        write!(f, "{}", self.tasks)
    }
}

impl BodyText for Kernel {
    fn print(&self, context: &Context<'_>, indent: usize, out: &mut String) {
        print::kernel(self, context, indent, out);
    }

    fn parse(parser: &mut Parser<'_>, context: &Context<'_>) -> Result<Kernel, Error> {
        parse::kernel(parser, context)
    }
}
