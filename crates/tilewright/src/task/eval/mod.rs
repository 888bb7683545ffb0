//! What a task program means: its tasks run by workers, in any order that the events allow.
//!
//! The tasks are dealt to the workers' queues one by one in rank order. A worker takes its task through separate
//! steps: prologue, each wait, body, each notify. Between two steps any other worker may step, and a [`Choice`] says
//! which one does, so that evaluation under adversarial choices shows what a missing event lets happen.
//!
//! Memory that no task has written holds [`unwritten`](crate::tensor::eval::unwritten), and so does a temporary whose
//! bytes another one has taken over: a read that comes too early or too late gives NaN. Counters rise from epoch to epoch and nothing resets them; all epochs must give the same results.

mod explore;
mod machine;
mod memory;

pub use explore::{Explored, explore};
pub use memory::Memory;

use super::ir::{Body, Program};
use crate::block::{Interpreter, Node, ValueId};
use crate::dim::{Env, Symbol};
use crate::error::Error;
use crate::tensor::array::Data;
use crate::tensor::eval::{Bindings, Numerics};
use crate::tensor::{Array, Scalar};
use machine::Machine;

/// Which worker steps next, among those that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A random one; the number is the seed.
    Random(u64),
    /// The first one: later workers run only when earlier ones wait.
    First,
    /// The last one.
    Last,
    /// The one whose task has the lowest rank: as near to one worker as it gets.
    Earliest,
    /// The one whose task has the highest rank: everything as early as the events allow.
    Latest,
    /// Any but this worker, as long as another can.
    Starve(usize),
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The number of workers, at least 1.
    pub workers: usize,
    /// Which worker steps next.
    pub choice: Choice,
    /// How often the program is run, at least once, on the same counters.
    pub epochs: u32,
    /// The steps taken, all epochs together.
    pub steps: u64,
}

impl Schedule {
    /// A schedule of one epoch.
    pub fn new(workers: usize, choice: Choice) -> Schedule {
        Schedule { workers, choice, epochs: 1, steps: 0 }
    }
}

/// What a part of a body came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The body's end.
    Done,
    /// There is more to do.
    More,
    /// Nothing can be done before another task notifies something.
    Blocked,
}

/// The counters of events, for bodies that wait or notify inside. Cells are positions among the cells of all events.
pub trait Events {
    /// Whether a cell has been notified as often as it is to be.
    fn satisfied(&self, cell: usize) -> bool;

    /// Notifies a cell.
    fn notify(&mut self, cell: usize);
}

/// A kind of body that can be run on [`Memory`].
pub trait Runs {
    /// A task between its prologue and its end.
    type Task<'a>: Clone
    where
        Self: 'a;

    /// A task at these coordinates that has done nothing yet.
    fn begin<'a>(&'a self, coordinates: &[(Symbol, i64)], memory: &Memory) -> Self::Task<'a>;

    /// Runs the prologue.
    fn prologue<'a>(&'a self, task: &mut Self::Task<'a>, memory: &mut Memory) -> Result<(), Error>;

    /// Runs the rest, or a part of it: other workers may step before the next part.
    fn body<'a>(
        &'a self,
        task: &mut Self::Task<'a>,
        memory: &mut Memory,
        events: &mut dyn Events,
    ) -> Result<Outcome, Error>;

    /// What a task holds, if its prologue did anything, as text: two tasks of one place with equal texts go on alike.
    fn held(task: &Self::Task<'_>) -> String;
}

/// A program's results in order, in storage order.
///
/// # Errors
/// [`Error::Input`] where the bindings do not fit; [`Error::Stuck`] where no worker can step, with the waiting tasks
/// and the counters short of their thresholds; [`Error::Bug`] where the program does what no legal one does: writes
/// what is only read, gives other results in another epoch.
pub fn eval<B: Runs>(
    program: &Program<B>,
    bindings: &Bindings,
    numerics: Numerics,
    schedule: &mut Schedule,
) -> Result<Vec<Array>, Error> {
    let mut machine = Machine::new(program, bindings, numerics, schedule.workers)?;
    let mut random = match schedule.choice {
        Choice::Random(seed) => seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        _ => 1,
    };
    let mut first: Option<Vec<Array>> = None;
    for epoch in 1..=schedule.epochs.max(1) {
        machine.start_epoch(bindings, epoch)?;
        loop {
            let ready = machine.ready()?;
            if ready.is_empty() {
                break;
            }
            let worker = pick(schedule.choice, &ready, &mut random);
            machine.step(worker)?;
            schedule.steps += 1;
        }
        machine.check_finished()?;
        let results = machine.results()?;
        match &first {
            Some(first) if !same(first, &results) => {
                return Err(bug(format!("epoch {epoch} gives other results than epoch 1")));
            }
            Some(_) => {}
            None => first = Some(results),
        }
    }
    first.ok_or_else(|| bug("no epoch was run"))
}

/// One of the workers that can step, each with the rank of its task.
fn pick(choice: Choice, ready: &[(usize, u64)], random: &mut u64) -> usize {
    let found = match choice {
        Choice::Random(_) => {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            ready.get((*random >> 11) as usize % ready.len().max(1))
        }
        Choice::First => ready.first(),
        Choice::Last => ready.last(),
        Choice::Earliest => ready.iter().min_by_key(|(_, rank)| *rank),
        Choice::Latest => ready.iter().max_by_key(|(_, rank)| *rank),
        Choice::Starve(worker) => ready.iter().find(|(other, _)| *other != worker).or(ready.first()),
    };
    found.map_or(0, |(worker, _)| *worker)
}

/// Whether arrays are equal bit for bit, all NaNs taken as one.
pub fn same(a: &[Array], b: &[Array]) -> bool {
    let bits = |x: f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
    let equal = |a: &Array, b: &Array| {
        let data = match (&a.data, &b.data) {
            (Data::Float(x), Data::Float(y)) => {
                x.len() == y.len() && x.iter().zip(y).all(|(x, y)| bits(*x) == bits(*y))
            }
            (x, y) => x == y,
        };
        a.dtype == b.dtype && a.extents == b.extents && data
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
}

fn bug(message: impl Into<String>) -> Error {
    Error::Bug { stage: "task", message: message.into() }
}

impl Runs for Body {
    type Task<'a> = Interpreter<'a>;

    fn begin<'a>(&'a self, coordinates: &[(Symbol, i64)], memory: &Memory) -> Interpreter<'a> {
        let mut interpreter = Interpreter::new(&self.values, memory.numerics());
        coordinates.iter().for_each(|(name, value)| interpreter.bind(name.clone(), *value));
        interpreter
    }

    fn prologue<'a>(&'a self, task: &mut Interpreter<'a>, memory: &mut Memory) -> Result<(), Error> {
        task.run(&self.prologue, &mut View { body: self, memory })
    }

    fn body<'a>(
        &'a self,
        task: &mut Interpreter<'a>,
        memory: &mut Memory,
        _: &mut dyn Events,
    ) -> Result<Outcome, Error> {
        for node in &self.nodes {
            let mut view = View { body: self, memory };
            match node {
                Node::Opaque(opaque) => {
                    let operands = opaque.operands.iter().map(|&id| view.buffer(id));
                    let operands = operands.collect::<Result<Vec<_>, Error>>()?;
                    let results = opaque.results.iter().map(|&id| view.buffer(id));
                    let results = results.collect::<Result<Vec<_>, Error>>()?;
                    view.memory.apply(opaque.operator, opaque.axis, &operands, &results)?;
                }
                node => task.run(std::slice::from_ref(node), &mut view)?,
            }
        }
        Ok(Outcome::Done)
    }

    fn held(task: &Interpreter<'_>) -> String {
        task.held()
    }
}

/// The tensors of a body as buffers.
struct View<'a> {
    body: &'a Body,
    memory: &'a mut Memory,
}

impl View<'_> {
    fn buffer(&self, id: ValueId) -> Result<usize, Error> {
        let value =
            self.body.values.get(id.0 as usize).ok_or_else(|| bug(format!("there is no value {}", id.0)))?;
        self.memory.find(&value.name).ok_or_else(|| bug(format!("the tensor `{}` is no buffer", value.name)))
    }
}

impl Env for View<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.memory.symbol(symbol)
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        self.memory.element(table, index)
    }
}

impl crate::block::Memory for View<'_> {
    fn load(&self, tensor: ValueId, index: &[i64]) -> Result<Option<Scalar>, Error> {
        Ok(self.memory.load(self.buffer(tensor)?, index))
    }

    fn store(&mut self, tensor: ValueId, index: &[i64], value: Scalar) -> Result<(), Error> {
        let buffer = self.buffer(tensor)?;
        self.memory.store(buffer, index, value)
    }
}
