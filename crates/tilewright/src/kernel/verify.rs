//! What is legal at the kernel level.
//!
//! 1. *Order between tasks* is the task program's: [`crate::task::verify`] runs on it, with what the kernels touch
//!    (`touches`), so that loads and stores stay inside what their family declares.
//! 2. *Form* (`form`): ids, names, symbols in sight, labels and their ranges, element types, homes and instruction rows
//!    of the target, layouts that hold every element of their tile exactly once.
//! 3. *Flow* (`flow`), along every path of a role: a tile is written before it is read; a token is given, then awaited
//!    exactly once; what its statement writes is not touched, and what it reads is not overwritten, before that; a page
//!    is touched only by the role that holds it; roles share no tile and no buffer that one of them writes.
//! 4. *Channels* (`channels`): as many pages are received as are committed, at all sizes; the roles never wait for each
//!    other at the number of pages that there are, simulated at many small sizes.
//! 5. *Capacity* (`capacity`): what lives at the same time in near memory fits, pages and the prologue of the next
//!    task included; pages and temporaries are aligned.
//!
//! A wait or a notify inside a body is refused unless it waits for what the whole task has waited for: who orders tasks
//! sees the edges of families only.

pub(super) mod capacity;
mod channels;
mod flow;
mod form;
mod touches;

use super::ir::{Kernel, Program};
use super::lower::worker_loop;
use crate::dim::{Facts, Symbol};
use crate::target::Target;
use crate::task::{self, Family};
use std::fmt;

/// Why a kernel program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The task program is not legal, or a kernel touches memory that its family does not declare.
    Task(task::verify::Reason),
    /// A worker loop that is not fetch, prologue, wait, body, notify.
    WorkerLoop,
    /// An id that nothing has.
    Id,
    /// A name that two things have, or that means something else there.
    Name,
    /// A symbol that means nothing there.
    Symbol,
    /// A table that is no integer buffer or tile, or is read with a wrong number of indices.
    Table,
    /// A number of indices, arguments or parts that does not fit.
    Count,
    /// A range of no elements, or one that starts at labels.
    Range,
    /// A label that the result must have, that two axes have, or that has different ranges in one statement.
    Label,
    /// An element type that does not fit.
    Type,
    /// A home that the target does not have, or that a statement cannot use.
    Home,
    /// An instruction row that the target does not have, or that does not do this product.
    Row,
    /// A layout that does not hold every element of its tile exactly once.
    Layout,
    /// More bytes near than there are.
    Capacity,
    /// A page or a temporary that is not aligned.
    Alignment,
    /// A token that is not awaited exactly once on every path.
    Token,
    /// A tile or buffer that is used before the await of what touches it.
    Early,
    /// A tile that is read before it is written.
    Undefined,
    /// A tile in a page that is not held.
    Page,
    /// A channel that is used against its protocol.
    Channel,
    /// Roles that wait for each other.
    Deadlock,
    /// A tile or buffer that two roles share while one writes it.
    Race,
    /// A prologue that does more than load what no task writes.
    Prologue,
    /// An edge inside a body.
    Edge,
    /// An operator that is no function of whole buffers.
    Operator,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Violation {
    /// Why, for programs.
    pub reason: Reason,
    /// The family, the role and the statement.
    pub place: String,
    /// Why, for people.
    pub message: String,
}

type Outcome<T = ()> = Result<T, Violation>;

/// Whether a program is legal for a target.
pub fn verify(program: &Program, target: &Target) -> Result<(), Violation> {
    kernels(program, target)?;
    match task::verify::verify(&program.tasks, target) {
        Ok(_) => Ok(()),
        Err(task::verify::Violation { reason, place, message }) => {
            Err(Violation { reason: Reason::Task(reason), place, message })
        }
    }
}

/// Whether the kernels and the worker loop are legal, each for itself: everything but the order between tasks.
pub fn kernels(program: &Program, target: &Target) -> Result<(), Violation> {
    if program.worker != worker_loop() {
        let message =
            "a worker fetches a task, runs its prologue, waits, runs its body, notifies".to_string();
        return Err(Violation { reason: Reason::WorkerLoop, place: "worker".into(), message });
    }
    for family in &program.tasks.families {
        let site = Site::new(program, family, target);
        form::check(&site)?;
        flow::check(&site)?;
        channels::check(&site)?;
    }
    capacity::check(program, target)
}

/// A family's kernel, and what it is judged by.
struct Site<'a> {
    program: &'a task::Program<Kernel>,
    family: &'a Family<Kernel>,
    kernel: &'a Kernel,
    target: &'a Target,
    /// What is known of the symbols and of the family's coordinates.
    facts: Facts,
}

impl<'a> Site<'a> {
    fn new(program: &'a Program, family: &'a Family<Kernel>, target: &'a Target) -> Site<'a> {
        let mut facts = program.tasks.facts.clone();
        for (name, extent) in &family.coordinates {
            facts = facts.assume(name.clone(), 0, extent.clone());
        }
        Site { program: &program.tasks, family, kernel: &family.body, target, facts }
    }

    /// A refusal at a part of the kernel.
    fn refuse<T>(&self, reason: Reason, part: &str, message: impl fmt::Display) -> Outcome<T> {
        let place = match part {
            "" => format!("tasks {}", self.family.name),
            part => format!("tasks {}, {part}", self.family.name),
        };
        Err(Violation { reason, place, message: message.to_string() })
    }

    /// The integer tile or the integer buffer that a table's name means, tiles first.
    fn table(&self, name: &Symbol) -> Option<Table> {
        let tile = self.kernel.tiles.iter().position(|tile| tile.name == *name);
        match tile {
            Some(index) => Some(Table::Tile(super::ir::TileId(index as u32))),
            None => self.program.find_buffer(name).map(Table::Buffer),
        }
    }
}

/// What an index expression reads.
enum Table {
    Tile(super::ir::TileId),
    Buffer(task::BufferId),
}
