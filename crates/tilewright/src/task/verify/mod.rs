//! What is legal: whether the events of a task program order everything that must be ordered.
//!
//! The verifier trusts nothing that the derivation of events relied on. It reads edge maps, regions and bodies, and
//! shows that *any* schedule that respects the events computes what the tasks would compute one after another in rank
//! order, for any number of workers. Queues count for nothing: two tasks are ordered only if a chain of notifies and
//! waits orders them.
//!
//! 1. *Form* (`form`): ids, names, arities, symbols, the five forms of an edge map, steps that run every family once.
//! 2. *All sizes* (`counts`): for every event, that the tasks that notify a cell are as many as its `wait`, where the
//!    edge maps allow a proof; that every temporary lies inside the arena and is aligned.
//! 3. *Small sizes*, exhaustively (`sizes`, `instance`, `order`, `memory`): sizes and tables are drawn from the facts
//!    (0, 1, and both sides of every block size; different sizes for different symbols), all tasks and cells are listed,
//!    and the exact happens-before relation is built from events alone. Then each pair of conflicting accesses must be
//!    ordered, each read element must have been written, by the buffer it is read from, and every awaited cell must
//!    have exactly as many notifies as it waits for.
//!
//! What bodies touch comes from [`Touches`]; the declared regions are checked against it.

mod block;
mod compiled;
mod counts;
mod cuboid;
mod form;
mod grid;
mod instance;
mod memory;
mod order;
mod results;
mod sizes;

pub(crate) use block::body_toucher;
pub use cuboid::Cuboid;
pub use instance::{Site, Touch, Toucher, Touches};
pub use sizes::Sizes;

use super::ir::Program;
use crate::target::Target;
use std::fmt;

/// The most size assignments that are enumerated.
pub const MAX_ASSIGNMENTS: usize = 24;

/// The most tasks of one assignment; sizes are lowered until it is met.
pub const MAX_TASKS: usize = 600;

/// The most tasks of an assignment that cannot be lowered; a program beyond it is refused.
pub const MAX_TASKS_AT_ALL: usize = 1 << 14;

/// The most tasks of all assignments together; the rest of the assignments is left out.
pub const MAX_TASKS_TOGETHER: usize = 6000;

/// The most iterations and index tuples of all tasks of a family that are listed for one assignment; the other tasks
/// touch what they declare.
pub const MAX_STEPS: u64 = 1 << 18;

/// The most index tuples of one load or store that are listed one by one; beyond it their hull stands for them.
pub const MAX_TUPLES: usize = 1 << 14;

/// The most grid cells of one buffer.
pub const MAX_GRID: usize = 1 << 20;

/// Why a task program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// An id that is out of range, two things of one name, or a wrong number of indices.
    Malformed,
    /// A symbol that means nothing there, or a table that is no integer buffer.
    Symbol,
    /// An edge map that is of none of the five forms, or of another than it says.
    EdgeForm,
    /// Steps that do not run every family exactly once, under the repeats whose coordinates it has.
    Steps,
    /// An expression without a value at sizes that the facts allow, or an extent below 0.
    Value,
    /// An edge that means a cell its event does not have.
    Cell,
    /// An awaited cell that is notified another number of times than it waits for.
    Threshold,
    /// An event edge from a task to one that is not later in rank.
    Rank,
    /// An integer table read by an index, an extent or an edge without an event path from its writer.
    TableUnordered,
    /// A read without an event path from the write it must see.
    ReadUnordered,
    /// A write without an event path from an earlier read of what it overwrites.
    WriteAfterRead,
    /// A write without an event path from an earlier write of the same memory.
    WriteAfterWrite,
    /// An element that two tasks of one family write in the same iteration of its repeats.
    WrittenTwice,
    /// A read of an element that no task has written.
    Uninitialised,
    /// A read of memory that another buffer has taken over.
    Clobbered,
    /// An element of a result that no task writes.
    Unwritten,
    /// A write to a buffer that is only read.
    ReadOnly,
    /// A body that touches what its family does not declare.
    Undeclared,
    /// A body that states a touch outside a buffer.
    Bounds,
    /// An event that does not reach every worker that may wait for it.
    Scope,
    /// A temporary outside the arena.
    Arena,
    /// A temporary that is not aligned to its elements.
    Alignment,
    /// A buffer that several tasks share in memory that they do not.
    Tier,
    /// A program with too many tasks at its smallest sizes.
    TooLarge,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Violation {
    /// Why, for programs.
    pub reason: Reason,
    /// The family, event, buffer or step.
    pub place: String,
    /// Why, for people: with the tasks, cells and sizes of a counterexample.
    pub message: String,
}

impl Violation {
    fn new(reason: Reason, place: impl fmt::Display, message: impl fmt::Display) -> Violation {
        Violation { reason, place: place.to_string(), message: message.to_string() }
    }
}

/// How an event's thresholds were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checked {
    /// Proved for all sizes that the facts allow.
    Proved,
    /// Enumerated at the small sizes only.
    Enumerated,
}

/// What was checked, and how far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// For each event whether its thresholds hold at all sizes or only at those enumerated.
    pub thresholds: Vec<Checked>,
    /// Whether every temporary was proved to lie inside the arena at all sizes.
    pub arena: Checked,
    /// The size assignments that were enumerated, such as `S = 65, T = 3`.
    pub assignments: Vec<String>,
    /// The tasks of all of them together.
    pub tasks: usize,
}

/// Checks a program for a target, at all sizes where that can be proved and at small ones in any case.
///
/// `Err` is the first violation found, with a counterexample where sizes matter.
pub fn verify<B: Touches>(program: &Program<B>, target: &Target) -> Result<Report, Violation> {
    form::check(program)?;
    form::check_scopes(program, target)?;
    let arena = memory::check_arena(program)?;
    let thresholds = counts::check(program);
    let mut report = Report { thresholds, arena, assignments: Vec::new(), tasks: 0 };
    for sizes in sizes::assignments(program) {
        let instance = match instance::Instance::build(program, &sizes)? {
            Some(instance) => instance,
            None => continue,
        };
        report.tasks += instance.tasks.len();
        report.assignments.push(sizes.to_string());
        order::check(program, target, &instance)?;
        if report.tasks > MAX_TASKS_TOGETHER {
            break;
        }
    }
    if report.assignments.is_empty() {
        let message = format!(
            "more than {MAX_TASKS_AT_ALL} tasks at the smallest sizes, which is more than can be checked"
        );
        return Err(Violation::new(Reason::TooLarge, &program.name, message));
    }
    Ok(report)
}
