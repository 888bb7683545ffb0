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
//!
//! Where sizes that cannot be lowered give too many tasks, a *sample* of them stands for all (`sample`).
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
mod sample;
mod sizes;

pub(crate) use block::body_toucher;
pub use cuboid::Cuboid;
pub use instance::{Site, Touch, Toucher, Touches};
pub use sizes::Sizes;

use super::ir::{Program, Step};
use crate::target::Target;
use sample::Sample;
use std::fmt;

/// The most size assignments that are enumerated.
pub const MAX_ASSIGNMENTS: usize = 24;

/// The most tasks of one assignment; sizes are lowered until it is met.
pub const MAX_TASKS: usize = 600;

/// The most tasks that are listed where sizes cannot be lowered; beyond it a sample is.
pub const MAX_TASKS_AT_ALL: usize = 1 << 12;

/// The most tasks of a sample.
pub const MAX_SAMPLE: usize = 1 << 10;

/// The least tasks of a sample; a program of which not even these can be looked at is refused.
pub const MIN_SAMPLE: usize = 1 << 6;

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
    /// Facts for which no sizes and tables were found that fulfil them all.
    NoSizes,
    /// A program of which not even a sample can be looked at.
    TooLarge,
}

impl Reason {
    /// Whether it says that the verifier found nothing that it can look at, and nothing of the program.
    pub fn is_limit(self) -> bool {
        matches!(self, Reason::NoSizes | Reason::TooLarge)
    }
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
    /// How many of them have too many tasks, so that a sample of these was checked.
    pub sampled: usize,
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
    let mut report = Report { thresholds, arena, assignments: Vec::new(), sampled: 0, tasks: 0 };
    for sizes in sizes::assignments(program) {
        let fits = sizes.tasks(program) <= MAX_TASKS_AT_ALL as i64;
        let tasks = match fits.then(|| check(program, target, &sizes, None, &report.thresholds)) {
            Some(Err(Violation { reason: Reason::TooLarge, .. })) | None => {
                report.sampled += 1;
                check_samples(program, target, &sizes, &report.thresholds)?
            }
            Some(tasks) => tasks?,
        };
        let Some(tasks) = tasks else { continue };
        report.tasks += tasks;
        report.assignments.push(sizes.to_string());
        if report.tasks > MAX_TASKS_TOGETHER {
            break;
        }
    }
    if report.assignments.is_empty() {
        let message = "no sizes and tables that the facts allow were found, so that nothing could be checked";
        return Err(Violation::new(Reason::NoSizes, &program.name, message));
    }
    Ok(report)
}

/// Checks the tasks at some sizes, or a sample of them, and says how many they are; none where a buffer would have a
/// negative extent.
fn check<B: Touches>(
    program: &Program<B>,
    target: &Target,
    sizes: &Sizes,
    sample: Option<Sample>,
    thresholds: &[Checked],
) -> Result<Option<usize>, Violation> {
    let Some(instance) = instance::Instance::build(program, sizes, sample, thresholds)? else {
        return Ok(None);
    };
    order::check(program, target, &instance, thresholds)?;
    Ok(Some(instance.tasks.len()))
}

/// Checks two samples: the first iterations of repeats, and the last ones. They are made smaller where their accesses cut
/// a buffer into too many parts.
fn check_samples<B: Touches>(
    program: &Program<B>,
    target: &Target,
    sizes: &Sizes,
    thresholds: &[Checked],
) -> Result<Option<usize>, Violation> {
    let mut budget = MAX_SAMPLE;
    loop {
        let first = Sample::within(program, budget as i64, &|extent| sizes.extent(extent));
        let both = || {
            let count = check(program, target, sizes, Some(first), thresholds)?;
            let last = Sample { last: true, ..first };
            let more = if program.steps.iter().any(|step| matches!(step, Step::Repeat { .. })) {
                check(program, target, sizes, Some(last), thresholds)?
            } else {
                Some(0)
            };
            Ok(count.zip(more).map(|(count, more)| count + more))
        };
        match both() {
            Err(Violation { reason: Reason::TooLarge, .. }) if budget > MIN_SAMPLE => budget /= 4,
            done => return done,
        }
    }
}
