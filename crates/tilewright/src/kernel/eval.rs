//! What a kernel program means: its tasks run by workers as those of a task program, and inside each task roles take
//! turns and asynchronous statements take effect at any time before their await.
//!
//! Tiles, and memory that no task has written, hold garbage until they are written; so does what an asynchronous
//! statement writes until it takes effect. A use that comes too early shows in the results.

use super::ir::{Kernel, Program};
use super::progress::{Part, Progress, Running};
use super::tile::{Compiled, EdgeAt, Elements, ElementsMut, Machine};
use crate::dim::Symbol;
use crate::error::Error;
use crate::task::eval::{Choice, Events, Memory, Outcome, Runs, Schedule};
use crate::task::{BufferId, Cells, Plan};
use crate::tensor::eval::{Bindings, Numerics};
use crate::tensor::{Array, Scalar};
use std::sync::Arc;

/// A program's results in order, in storage order.
///
/// # Errors
/// Those of [`crate::task::eval::eval`]; also [`Error::Stuck`] for roles that wait for each other, and [`Error::Bug`]
/// for a token or a page that is used against its protocol.
pub fn eval(
    program: &Program,
    bindings: &Bindings,
    numerics: Numerics,
    schedule: &mut Schedule,
) -> Result<Vec<Array>, Error> {
    let bound = bind(program, bindings, schedule.choice)?;
    crate::task::eval::eval(&bound, bindings, numerics, schedule)
}

/// The task program whose bodies are the kernels bound to sizes.
fn bind(
    program: &Program,
    bindings: &Bindings,
    choice: Choice,
) -> Result<crate::task::Program<Bound>, Error> {
    let plan = Arc::new(Plan::new(&program.tasks, &bindings.symbols, &())?);
    let mut failed = None;
    let tasks = program.tasks.clone();
    let buffers = tasks.buffers.clone();
    let bound = tasks.with_bodies(|_, family, kernel: Kernel| {
        let names: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
        let compiled = Compiled::new(&family.name, &names, &kernel, &buffers, &bindings.symbols);
        let kernel = compiled.map_err(|error| failed = Some(error)).ok().map(Arc::new);
        Bound { kernel, plan: plan.clone(), choice, symbols: bindings.symbols.clone() }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(bound),
    }
}

/// A kernel bound to sizes.
#[derive(Clone, Debug)]
struct Bound {
    kernel: Option<Arc<Compiled>>,
    plan: Arc<Plan>,
    choice: Choice,
    symbols: std::collections::BTreeMap<Symbol, i64>,
}

/// A task in progress, and the state of the choices in it.
#[derive(Clone, Debug)]
struct Task {
    running: Option<Running>,
    random: u64,
}

impl Runs for Bound {
    type Task<'a> = Task;

    fn begin(&self, coordinates: &[(Symbol, i64)], _: &Memory) -> Task {
        let values: Vec<i64> = coordinates.iter().map(|(_, value)| *value).collect();
        let seed = match self.choice {
            Choice::Random(seed) => seed,
            _ => 0,
        };
        let mix =
            |seed: u64, value: &i64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(*value as u64 + 1);
        let random = values.iter().fold(mix(seed, &7), mix) | 1;
        let running = self.kernel.as_ref().map(|kernel| Running::new(kernel.clone(), &values, true));
        Task { running, random }
    }

    fn prologue(&self, task: &mut Task, memory: &mut Memory) -> Result<(), Error> {
        let Some(running) = &mut task.running else { return Ok(()) };
        let numerics = memory.numerics();
        let mut machine = Buffers { memory, refused: None };
        loop {
            let progress = running.advance(Part::Prologue, &mut machine, numerics)?;
            if let Some(error) = machine.refused.take() {
                return Err(error);
            }
            match progress {
                Progress::Ran => {}
                Progress::Done => return Ok(()),
                _ => return Err(bug("a prologue does not wait".into())),
            }
        }
    }

    fn body(&self, task: &mut Task, memory: &mut Memory, events: &mut dyn Events) -> Result<Outcome, Error> {
        let Task { running: Some(running), random } = task else { return Ok(Outcome::Done) };
        let numerics = memory.numerics();
        let mut machine = Buffers { memory, refused: None };
        // The roles in a chosen order, until one can step; completions come in between, or only where nothing else can.
        let roles = running.roles();
        let eager = matches!(self.choice, Choice::First | Choice::Earliest);
        let first = if matches!(self.choice, Choice::Random(_)) { draw(random, roles) } else { 0 };
        if running.pending() > 0
            && (eager || (matches!(self.choice, Choice::Random(_)) && draw(random, 3) == 0))
        {
            let index = draw(random, running.pending());
            running.complete(index, &mut machine, numerics)?;
            return machine.outcome(Outcome::More);
        }
        let mut done = true;
        for k in 0..roles {
            let turn = if self.choice == Choice::Last { roles - 1 - k } else { (first + k) % roles };
            let part = Part::Role(turn);
            match running.advance(part, &mut machine, numerics)? {
                Progress::Done => {}
                Progress::Blocked => done = false,
                Progress::Ran => return machine.outcome(Outcome::More),
                Progress::Notify(edge) => {
                    self.cells(running, part, &edge, machine.memory)?
                        .into_iter()
                        .for_each(|cell| events.notify(cell));
                    return Ok(Outcome::More);
                }
                Progress::Wait(edge) => {
                    let cells = self.cells(running, part, &edge, machine.memory)?;
                    if cells.into_iter().all(|cell| events.satisfied(cell)) {
                        running.pass(part);
                        return Ok(Outcome::More);
                    }
                    done = false;
                }
            }
        }
        if done {
            running.check_finished()?;
            return Ok(Outcome::Done);
        }
        if running.pending() > 0 {
            running.complete(draw(random, running.pending()), &mut machine, numerics)?;
            return machine.outcome(Outcome::More);
        }
        Ok(Outcome::Blocked)
    }

    fn held(task: &Task) -> String {
        format!("{:?}", task.running)
    }
}

impl Bound {
    /// The cells of an edge at a part's coordinates.
    fn cells(
        &self,
        running: &Running,
        part: Part,
        at: &EdgeAt,
        memory: &Memory,
    ) -> Result<Vec<usize>, Error> {
        let undefined = |error: crate::dim::EvalError| bug(format!("an edge inside a body: {error}"));
        let cells = Cells::new(&at.edge, &at.coordinates, &self.plan, &self.symbols).map_err(undefined)?;
        let mut found = Vec::new();
        let slots = running.slots(part).get(..at.coordinates.len()).unwrap_or_default();
        cells.each(slots, memory, |cell| found.push(cell)).map_err(undefined)?;
        Ok(found)
    }
}

/// A number below `count`, which is positive.
fn draw(random: &mut u64, count: usize) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    (*random >> 11) as usize % count.max(1)
}

/// The buffers of a program as the memory of kernels.
struct Buffers<'a> {
    memory: &'a mut Memory,
    /// The first store that was refused.
    refused: Option<Error>,
}

impl Buffers<'_> {
    fn outcome(&mut self, outcome: Outcome) -> Result<Outcome, Error> {
        self.refused.take().map_or(Ok(outcome), Err)
    }
}

impl Machine for Buffers<'_> {
    fn read(&self, buffer: BufferId, start: usize, step: isize, out: ElementsMut<'_>) {
        if let Some(array) = self.memory.array(buffer.0 as usize) {
            out.read_from(array, start, step);
        }
    }

    fn write(&mut self, buffer: BufferId, start: usize, step: isize, values: Elements<'_>) {
        for k in 0..values.len() {
            let position = start.wrapping_add_signed(step * k as isize);
            let value = match values {
                Elements::Float(v) => v.get(k).map(|x| Scalar::Float(*x)),
                Elements::Int(v) => v.get(k).map(|x| Scalar::Int(*x)),
                Elements::Bool(v) => v.get(k).map(|x| Scalar::Bool(*x)),
            };
            let Some(value) = value else { continue };
            if let Err(error) = self.memory.write(buffer.0 as usize, position, value) {
                self.refused.get_or_insert(error);
                return;
            }
        }
    }

    fn integer(&self, buffer: BufferId, position: usize) -> i64 {
        self.memory.read(buffer.0 as usize, position).map_or(0, Scalar::as_i64)
    }
}

fn bug(message: String) -> Error {
    Error::Bug { stage: "kernel", message }
}
