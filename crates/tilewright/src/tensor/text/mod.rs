//! The text form of tensor programs: `*.tensor`.
//!
//! ```text
//! file      = function* program
//! function  = "fn" NAME "(" params ")" "->" types body
//! program   = "program" NAME "(" params ")" "->" types ["where" facts] body
//! params    = [param ("," param)* [","]]         param = NAME ":" [kind] type      (a kind in the program only)
//! kind      = "weight" | "plan" | "state"        (no kind: an input of each run)
//! types     = type ("," type)*                   type  = ELEMENT [axes]            (no axes: a scalar)
//! axes      = "[" [axis ("," axis)* [","]] "]"   axis  = NAME [":" dim]            (`S` is `S: S`)
//! body      = "{" statement* "return" (NAME ("," NAME)* | op) "}"
//! statement = NAME ("," NAME)* "=" op            (one name for each result)
//!
//! op        = FUNCTION operand* ["to" ELEMENT] ["->" axes]                          (elementwise)
//!           | MONOID operand "over" labels ["where" guard] ["accumulate" ELEMENT] ["->" axes]
//!           | "contract" operand* ["where" guard] ["accumulate" ELEMENT] ["to" ELEMENT] "->" axes
//!           | OPERATOR operand* (KEYWORD attribute)* ["->" axes ("," axes)*]        (`tensor/ops`)
//!           | NAME "(" [NAME ("," NAME)* [","]] ")"                                 (a call)
//!           | "repeat" NAME "in" dim ("," NAME "=" NAME)*
//!                 "{" NAME "(" [argument ("," argument)*] ")" "->" next ("," next)* "}"
//! operand   = NAME ["[" [label ("," label)*] "]"] | NUMBER | "true" | "false" | "(" dim ")"
//! label     = NAME | "_"
//! guard     = part ("and" part)*                 part = NAME "[" labels "]" | cond-part
//! argument  = NAME ["[" NAME "]"]                next = NAME | "[" NAME "]"
//! attribute = labels | dim | NUMBER | ELEMENT | WORD | NUMBER ("," NUMBER)*         (by the operator's keyword)
//! ```
//!
//! `dim`, `cond-part` and `facts` are those of [`crate::dim::text`]; a comment runs from `#` to the end of its line.
//!
//! - **Lines.** A statement ends with its line, outside brackets; the next line still belongs to it where it begins
//!   with `->` or with one of the operator's keywords that is not followed by `=` or `,`. Operands stand on the line of
//!   their operator. Keywords and `->` may come in any order, each once; the printer has one order.
//! - **Names.** A value has one name in its function, unlike every size. `over`, `where`, `to`,
//!   `accumulate`, `return`, `inf`, `nan`, `true`, `false`, `and`, `or`, `not` and `_` name nothing; the keyword of an
//!   operator names none of its operands. An operator's name is no function's name, but may be a value's.
//! - **Operands.** `x` reads a value under its axis names, `x[i, j]` under labels; a name that is no value is a size,
//!   as a number. In an elementwise function `_` stands for an axis of the result that the operand lacks; it is
//!   checked and says nothing more.
//! - **Axes of a result.** For elementwise functions, reductions and contractions an axis behind `->` is a label and
//!   keeps its name, or `name: label`, which renames it. Without `->` an elementwise function has the axes of its first
//!   operand that has all labels, and a reduction those that it does not reduce. For other operators they are names and
//!   extents.
//! - **Reductions.** `max x y` is elementwise, `max x over i` a reduction.
//! - **Guards.** `mask[i, j]` alone is a boolean tensor under labels; with an arithmetic or comparison sign behind it,
//!   an element of an integer tensor. All conditions come before all masks in print.
//! - **Repeats.** `repeat l in L, h = x { layer(h, w[l], c) -> h, [l] }` applies `layer` for `l` = 0, …, `L` - 1. `h` is
//!   `x` at first and then what `layer` gives for it; `w[l]` is the slice of `w` along its first axis; `c` is passed
//!   whole. A result goes to a carried value, whose last one is the statement's result, or is stacked along a new
//!   first axis `l`.
//! - **Results.** The types behind the function's `->` must be those of what it returns: element type, names, and
//!   provably equal extents. `return op` returns all results of an operator.
//! - **Sizes.** Every size is declared behind the program's `where`, also those that only a `fn` uses. In an extent, the
//!   name of an earlier axis of the same type is the index along it; an earlier axis with the name of a size may not
//!   be mentioned.

mod elaborate;
mod parse;
mod print;
mod syntax;

pub use crate::text::Error;
pub use print::scalar_text;

use super::ir::Program;
use crate::text::Parser;

/// Reads a program; `file` is the name that errors show. What it gives is legal (`tensor::verify`).
///
/// # Errors
/// At the first place that does not parse or has no meaning, with what would work.
pub fn parse(file: &str, text: &str) -> Result<Program, Error> {
    let mut p = Parser::new(file, text)?;
    let syntax = parse::file(&mut p)?;
    elaborate::program(&p, syntax)
}
