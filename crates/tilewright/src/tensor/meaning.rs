//! The meaning of a node: nests or an opaque function.

use super::ir::{Function, Node, Program};
use super::ops::{Meaning, Problem};

/// What a node of `function` means; calls and repeats have no meaning of their own.
pub fn meaning(program: &Program, function: &Function, node: &Node) -> Result<Meaning, Problem> {
    let _ = (program, function, node);
    Err("this operator has no nest yet".into())
}
