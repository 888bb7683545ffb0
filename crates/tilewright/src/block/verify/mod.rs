//! What is a legal block program.
//!
//! - Names: of functions, of values in a function; coordinates along the nesting; labels, coordinates and sizes are
//!   apart. Every value is defined once, before its uses, and an item is seen only inside the map that defines it.
//! - Ranges have a positive block size and expressions over what is in sight; items that meet in one node have one
//!   range per label.
//! - A carry's state fits its monoid, and stays of one type from `from` to the result; only sequential maps carry.
//! - A store goes to a tensor that the enclosing function-level map defines. Iterations of parallel maps write
//!   different elements (`writes`).
//! - A tensor is read after the node that defines it, never inside it; one whose memory another took over is read no
//!   more.
//!
//! The verifier never panics, whatever the program.

mod function;
mod nodes;
mod scope;
mod writes;

pub(crate) use nodes::elementwise_types;

use super::ir::{Node, Program, Value, ValueId};
use crate::dim::{Facts, Symbol};
use scope::Checker;
use std::fmt;

/// The kind of law that a program breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// An id that nothing has.
    Id,
    /// A name that two things have, or that the text form cannot say.
    Name,
    /// A coordinate that is not its map's own, or is a size or a label.
    Coordinate,
    /// A node, a carry or a definition where it cannot stand.
    Place,
    /// An item where a tensor must be, or the other way round.
    Kind,
    /// A value that is not defined before its use, or out of sight.
    Undefined,
    /// A value that is defined twice, or a tensor that nothing stores to.
    Defined,
    /// A size, coordinate or label that is not in sight.
    Symbol,
    /// An integer tensor in an index expression that is unknown, has another type or is not defined yet.
    Table,
    /// A range without elements, or two ranges of one label.
    Range,
    /// An index with another number of parts than its tensor has axes.
    Rank,
    /// An element type that does not fit.
    DType,
    /// A number of arguments, results or components that does not fit.
    Count,
    /// A label that the result must have.
    Labels,
    /// A carry whose state changes its type.
    Carry,
    /// A store into a tensor that the enclosing function-level map does not define.
    Store,
    /// Two iterations of a parallel map that may write one element.
    Overlap,
    /// Memory that is taken over from a tensor that cannot give it, or read afterwards.
    Alias,
    /// A call or a repeat that does not fit its function.
    Call,
    /// An operator that is not opaque, or works along an axis that is not there.
    Opaque,
}

/// What is wrong with a block program: a mistake of whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kind of law.
    pub reason: Reason,
    /// The function and the value or node.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for Violation {}

/// Whether a program is legal.
pub fn verify(program: &Program) -> Result<(), Violation> {
    let violation = |message: &str, place: &str| Violation {
        reason: Reason::Name,
        place: place.to_string(),
        message: message.to_string(),
    };
    if program.functions.is_empty() {
        return Err(Violation { reason: Reason::Count, ..violation("there is no function", "program") });
    }
    for (index, function) in program.functions.iter().enumerate() {
        if program.functions.iter().take(index).any(|earlier| earlier.name == function.name) {
            return Err(violation("two functions have this name", function.name.as_str()));
        }
        function::verify(program, index, function)?;
    }
    Ok(())
}

/// The nodes of a task's body, as far as they can be judged alone.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// Where errors are.
    pub place: &'a str,
    /// What is known of the symbols.
    pub facts: &'a Facts,
    /// The coordinates in sight.
    pub coordinates: &'a [Symbol],
    /// The tensors and items.
    pub values: &'a [Value],
    /// The tensors that may be stored to; all others may be read.
    pub written: &'a [ValueId],
}

/// Whether lists of nodes, run one after the other, are legal as the body of a task: the laws of a map's body. That
/// different tasks write different elements is not looked at, nor whether a tensor that is written is read too.
pub fn verify_body<'n>(
    body: &Body<'_>,
    lists: impl IntoIterator<Item = &'n [Node]>,
) -> Result<(), Violation> {
    let mut checker = Checker::new(body.place.to_string(), body.facts, body.values);
    checker.names()?;
    checker.enter(body)?;
    for nodes in lists {
        checker.nodes(nodes)?;
    }
    Ok(())
}
