//! The text form of block programs.
//!
//! ```text
//! program row_sums(x: bf16[S, D])
//! where S in 0..=8192, D in 1..=4096
//! {
//!   y: bf16[S] = map i_ in ceildiv(S, 64) parallel {
//!     sum: f32 = map d_ in ceildiv(D, 256) sequential carry sum f32 (so_far: f32{i: 64*i_ +: 64 < S}) {
//!       a: bf16{i: 64*i_ +: 64 < S, d: 256*d_ +: 256 < D} = load x[i, d]
//!       b: bf16 = mul a a
//!       more: f32 = reduce sum b into so_far
//!       next more
//!     }
//!     r: bf16 = cast sum
//!     store r -> y[i]
//!   }
//!   return y
//! }
//! ```
//!
//! A name is defined once, with its type: `f32[S, D]` is a tensor, in slow memory, and `f32{i: …, d: …}` an item, near.
//! `i: 64*m +: 64 < S` reads "label `i`, from `64*m` on, 64 of them, but below `S`". The braces are left out where the
//! ranges follow from the node: those of all items that it reads, in order of first appearance; for `reduce` and
//! `contract` those of the state that they start from; for a state those of the state before; for what a map gives
//! those of the state; else none, as for a scalar.
//!
//! ```text
//! program  = fn* "program" name "(" params ")" ["where" facts] body         fn = "fn" name "(" params ")" body
//! param    = name ":" ["weight" | "plan" | "state"] tensor                  tensor = dtype "[" [axis ("," axis)*] "]"
//! body     = "{" node* "return" [names] "}"                                 axis = size | name ":" dim
//! node     = [def ("," def)* "="] what
//! def      = name ":" (tensor ["overwrites" name] | item)                   item = dtype ["{" [range ("," range)*] "}"]
//! range    = label ":" dim "+:" size "<" dim
//! what     = "map" name "in" dim ("parallel" | "sequential") carry* "{" node* ["next" names] "}"
//!          | "load" name "[" dims "]" ["when" cond]      | "store" name "->" name "[" dims "]"
//!          | elementwise argument*
//!          | "reduce" monoid name ["at" dim] ["into" names] guard
//!          | "contract" name* ["into" name] guard
//!          | "opaque" operator "(" names ")" "axis" integer
//!          | "call" fn "(" names ")"
//!          | "repeat" name "in" dim "{" fn "(" [slot ("," slot)*] ")" "->" [outcome ("," outcome)*] "}"
//! carry    = "carry" monoid dtype "(" name ":" item ("," name ":" item)* ")" ["from" names]
//! argument = name | number | "true" | "false" | "index" "(" dim ")" | "holds" "(" cond ")"
//! guard    = ["where" cond] ["masks" names]
//! slot     = name | name "[" coordinate "]" | name "=" name                 outcome = name | "[" coordinate "]"
//! ```
//!
//! In a `repeat`, `h = x` is an argument called `h` that is `x` at first and what `h` gives behind `->` afterwards,
//! `w[l]` a slice along the first axis, and `[l]` a result that is stacked along a new first axis.
//!
//! Values are numbered in the order in which the text defines them ([`super::visit::renumber`]).

mod parse;
mod print;

use super::ir::{Node, Program, Range, Value, ValueId, ValueType};
use crate::text::{Error, Parser};

pub use parse::Reader;
pub use print::Printer;

/// Reads a program; `file` is the name that errors show.
pub fn parse(file: &str, text: &str) -> Result<Program, Error> {
    let mut parser = Parser::new(file, text)?;
    let program = parse::program(&mut parser)?;
    if parser.is_end() { Ok(program) } else { Err(parser.expected("the end of the text")) }
}

/// The ranges of each result of a node where its text states none.
fn inferred(values: &[Value], node: &Node) -> Vec<Vec<Range>> {
    let ranges = |id: &ValueId| match values.get(id.0 as usize).map(|value| &value.ty) {
        Some(ValueType::Item(ty)) => ty.ranges.clone(),
        _ => Vec::new(),
    };
    match node {
        Node::Compute(compute) => {
            let mut union: Vec<Range> = Vec::new();
            for argument in &compute.arguments {
                let super::Argument::Item(id) = argument else { continue };
                for range in ranges(id) {
                    if !union.iter().any(|known| known.label == range.label) {
                        union.push(range);
                    }
                }
            }
            vec![union]
        }
        Node::Reduce(reduce) => {
            let count = reduce.results.len();
            (0..count).map(|k| reduce.into.get(k).map(ranges).unwrap_or_default()).collect()
        }
        Node::Contract(contract) => vec![contract.into.as_ref().map(ranges).unwrap_or_default()],
        Node::Map(map) => map.carries.iter().flat_map(|carry| carry.state.iter().map(ranges)).collect(),
        Node::Load(_) => vec![Vec::new()],
        Node::Store(_) | Node::Opaque(_) | Node::Call(_) | Node::Repeat(_) => Vec::new(),
    }
}
