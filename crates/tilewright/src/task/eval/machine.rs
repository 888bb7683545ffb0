//! Workers and counters.

use super::memory::Memory;
use super::{Events, Outcome, Runs, bug};
use crate::dim::{EvalError, Symbol};
use crate::error::Error;
use crate::task::cells::Cells;
use crate::task::ir::Program;
use crate::task::plan::{Plan, TaskRef};
use crate::tensor::Array;
use crate::tensor::eval::{Bindings, Numerics};
use std::sync::Arc;

/// The next step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Prologue,
    /// The wait with this index.
    Wait(usize),
    Body,
    /// The notify with this index.
    Notify(usize),
}

/// A task in progress.
struct Running<'a, B: Runs + 'a> {
    task: TaskRef,
    rank: u64,
    stage: Stage,
    /// How many notifies there had been when the body could not go on.
    blocked: Option<u64>,
    state: B::Task<'a>,
}

impl<'a, B: Runs + 'a> Clone for Running<'a, B> {
    fn clone(&self) -> Self {
        Running {
            task: self.task.clone(),
            rank: self.rank,
            stage: self.stage,
            blocked: self.blocked,
            state: self.state.clone(),
        }
    }
}

struct Worker<'a, B: Runs + 'a> {
    /// How many tasks of its queue it has taken.
    taken: u64,
    running: Option<Running<'a, B>>,
}

impl<'a, B: Runs + 'a> Clone for Worker<'a, B> {
    fn clone(&self) -> Self {
        Worker { taken: self.taken, running: self.running.clone() }
    }
}

/// The edges of a family, bound to sizes.
struct Edges {
    waits: Vec<Cells>,
    notifies: Vec<Cells>,
}

/// What does not change while a program runs.
struct Fixed<'a, B> {
    program: &'a Program<B>,
    plan: Plan,
    edges: Vec<Edges>,
}

/// A program being run.
pub(super) struct Machine<'a, B: Runs + 'a> {
    fixed: Arc<Fixed<'a, B>>,
    pub(super) memory: Memory,
    counters: Vec<u64>,
    epoch: u64,
    /// How many notifies there have been.
    notified: u64,
    workers: Vec<Worker<'a, B>>,
}

/// The counters of all events in an epoch.
struct Counters<'a> {
    counters: &'a mut [u64],
    waits: &'a [u32],
    epoch: u64,
    notified: &'a mut u64,
}

impl Events for Counters<'_> {
    fn satisfied(&self, cell: usize) -> bool {
        let threshold = self.waits.get(cell).map_or(0, |wait| self.epoch * u64::from(*wait));
        self.counters.get(cell).is_none_or(|count| *count >= threshold)
    }

    fn notify(&mut self, cell: usize) {
        if let Some(count) = self.counters.get_mut(cell) {
            *count += 1;
        }
        *self.notified += 1;
    }
}

impl<'a, B: Runs + 'a> Clone for Machine<'a, B> {
    fn clone(&self) -> Self {
        Machine {
            fixed: self.fixed.clone(),
            memory: self.memory.clone(),
            counters: self.counters.clone(),
            epoch: self.epoch,
            notified: self.notified,
            workers: self.workers.clone(),
        }
    }
}

fn undefined(place: &Symbol, error: EvalError) -> Error {
    bug(format!("an edge of `{place}`: {error}"))
}

impl<'a, B: Runs + 'a> Machine<'a, B> {
    pub(super) fn new(
        program: &'a Program<B>,
        bindings: &Bindings,
        numerics: Numerics,
        workers: usize,
    ) -> Result<Machine<'a, B>, Error> {
        let plan = Plan::new(program, &bindings.symbols, &())?;
        let mut edges = Vec::with_capacity(program.families.len());
        for family in &program.families {
            let names: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
            let bind = |edges: &[crate::task::ir::Edge]| {
                let bound = edges.iter().map(|edge| Cells::new(edge, &names, &plan, &bindings.symbols));
                bound
                    .collect::<Result<Vec<Cells>, EvalError>>()
                    .map_err(|error| undefined(&family.name, error))
            };
            edges.push(Edges { waits: bind(&family.waits)?, notifies: bind(&family.notifies)? });
        }
        let memory = Memory::new(program, &plan, numerics);
        let counters = vec![0; plan.cells()];
        let fixed = Arc::new(Fixed { program, plan, edges });
        let workers = (0..workers.max(1)).map(|_| Worker { taken: 0, running: None }).collect();
        let mut machine = Machine { fixed, memory, counters, epoch: 0, notified: 0, workers };
        machine.memory.fill(bindings)?;
        // The tables that are known by now must keep their facts.
        Plan::new(program, &bindings.symbols, &machine.memory.parameters())?;
        Ok(machine)
    }

    /// Fills memory, rewinds queues, raises thresholds.
    pub(super) fn start_epoch(&mut self, bindings: &Bindings, epoch: u32) -> Result<(), Error> {
        self.memory.fill(bindings)?;
        self.epoch = epoch.into();
        let count = self.workers.len();
        for (index, worker) in self.workers.iter_mut().enumerate() {
            worker.taken = 0;
            worker.running = self.fixed.take(&self.memory, index, count, 0);
        }
        Ok(())
    }

    /// The workers that can step, each with the rank of its task.
    pub(super) fn ready(&self) -> Result<Vec<(usize, u64)>, Error> {
        let mut ready = Vec::new();
        for (index, worker) in self.workers.iter().enumerate() {
            let Some(running) = &worker.running else { continue };
            let blocked = running.blocked == Some(self.notified);
            if !blocked && self.short(running)?.is_none() {
                ready.push((index, running.rank));
            }
        }
        Ok(ready)
    }

    /// The first cell that a task waits for in vain, if its next step is a wait.
    fn short(&self, running: &Running<'a, B>) -> Result<Option<usize>, Error> {
        let Stage::Wait(edge) = running.stage else { return Ok(None) };
        let Some(cells) = self.fixed.edges(running).waits.get(edge) else { return Ok(None) };
        let mut short = None;
        let waits = &self.fixed.plan.waits;
        cells
            .each(&running.task.coordinates, &self.memory, |cell| {
                let threshold = waits.get(cell).map_or(0, |wait| self.epoch * u64::from(*wait));
                if self.counters.get(cell).is_some_and(|count| *count < threshold) && short.is_none() {
                    short = Some(cell);
                }
            })
            .map_err(|error| undefined(self.fixed.name(running), error))?;
        Ok(short)
    }

    /// Takes the next step of a worker that can.
    pub(super) fn step(&mut self, worker: usize) -> Result<(), Error> {
        let fixed = self.fixed.clone();
        let count = self.workers.len();
        let Some(at) = self.workers.get_mut(worker) else { return Ok(()) };
        let Some(running) = &mut at.running else { return Ok(()) };
        let family = fixed.program.family(running.task.family);
        let failed = |error: Error| match error {
            Error::Bug { stage, message } => {
                let place = format!("{}{:?}", family.name, running.task.coordinates);
                Error::Bug { stage, message: format!("{place}: {message}") }
            }
            other => other,
        };
        match running.stage {
            Stage::Prologue => family.body.prologue(&mut running.state, &mut self.memory).map_err(failed)?,
            Stage::Wait(_) => {}
            Stage::Body => {
                let Machine { counters, epoch, notified, .. } = self;
                let mut events = Counters { waits: &fixed.plan.waits, counters, epoch: *epoch, notified };
                let body = family.body.body(&mut running.state, &mut self.memory, &mut events);
                match body.map_err(failed)? {
                    Outcome::Done => {}
                    Outcome::More => return Ok(()),
                    Outcome::Blocked => {
                        running.blocked = Some(self.notified);
                        return Ok(());
                    }
                }
            }
            Stage::Notify(edge) => {
                if let Some(cells) = fixed.edges(running).notifies.get(edge) {
                    let Machine { counters, epoch, notified, .. } = self;
                    let mut events = Counters { waits: &fixed.plan.waits, counters, epoch: *epoch, notified };
                    cells
                        .each(&running.task.coordinates, &self.memory, |cell| events.notify(cell))
                        .map_err(|error| undefined(&family.name, error))?;
                }
            }
        }
        let (waits, notifies) = (family.waits.len(), family.notifies.len());
        let next = match running.stage {
            Stage::Prologue => Stage::Wait(0),
            Stage::Wait(edge) => Stage::Wait(edge + 1),
            Stage::Body => Stage::Notify(0),
            Stage::Notify(edge) => Stage::Notify(edge + 1),
        };
        running.stage = if matches!(next, Stage::Wait(edge) if edge >= waits) { Stage::Body } else { next };
        if matches!(running.stage, Stage::Notify(edge) if edge >= notifies) {
            at.taken += 1;
            at.running = fixed.take(&self.memory, worker, count, at.taken);
        }
        Ok(())
    }

    /// No worker has anything left, or else which tasks wait for what.
    pub(super) fn check_finished(&self) -> Result<(), Error> {
        let mut waiting = Vec::new();
        for worker in &self.workers {
            let Some(running) = &worker.running else { continue };
            if running.stage == Stage::Body {
                waiting.push(format!(
                    "{}{:?} waits inside its body",
                    self.fixed.name(running),
                    running.task.coordinates
                ));
            }
            let Some(cell) = self.short(running)? else { continue };
            let (event, at) = self.fixed.cell(cell);
            let have = self.counters.get(cell).copied().unwrap_or(0);
            let want = self.fixed.plan.waits.get(cell).map_or(0, |wait| self.epoch * u64::from(*wait));
            let name = self.fixed.name(running);
            waiting.push(format!(
                "{name}{:?} waits for {event}{at:?}, which has {have} of {want}",
                running.task.coordinates
            ));
        }
        if waiting.is_empty() { Ok(()) } else { Err(Error::Stuck { seconds: 0, state: waiting.join("; ") }) }
    }

    /// The arrays of the program's results.
    pub(super) fn results(&self) -> Result<Vec<Array>, Error> {
        let array = |id: &crate::task::ir::BufferId| {
            let found = self.memory.arrays.get(id.0 as usize).cloned();
            found.ok_or_else(|| bug(format!("there is no buffer {}", id.0)))
        };
        self.fixed.program.results.iter().map(array).collect()
    }

    /// Everything that decides how the run goes on, for comparison with other states of the same program.
    pub(super) fn state(&self) -> Vec<u64> {
        let mut state: Vec<u64> = self.counters.clone();
        for worker in &self.workers {
            state.push(worker.taken);
            let Some(running) = &worker.running else { continue };
            state.push(match running.stage {
                Stage::Prologue => 0,
                Stage::Body => 1,
                Stage::Wait(edge) => 2 + 2 * edge as u64,
                Stage::Notify(edge) => 3 + 2 * edge as u64,
            });
            if matches!(running.stage, Stage::Wait(_) | Stage::Body) {
                let held = B::held(&running.state);
                state.push(held.len() as u64);
                state.extend(held.bytes().map(u64::from));
            }
        }
        for array in &self.memory.arrays {
            state.extend((0..array.len()).map(|at| match array.get(at) {
                crate::tensor::Scalar::Float(x) => x.to_bits(),
                other => other.as_i64() as u64,
            }));
        }
        state
    }
}

impl<'a, B: Runs + 'a> Fixed<'a, B> {
    fn edges(&self, running: &Running<'a, B>) -> &Edges {
        &self.edges[running.task.family.0 as usize]
    }

    fn name(&self, running: &Running<'a, B>) -> &'a Symbol {
        &self.program.family(running.task.family).name
    }

    /// The task of a queue, at its start.
    fn take(&self, memory: &Memory, worker: usize, workers: usize, at: u64) -> Option<Running<'a, B>> {
        let task = self.plan.task(worker, workers, at)?;
        let family = self.program.family(task.family);
        let names = family.coordinates.iter().map(|(name, _)| name.clone());
        let bound: Vec<(Symbol, i64)> = names.zip(task.coordinates.iter().copied()).collect();
        let state = family.body.begin(&bound, memory);
        Some(Running {
            task,
            rank: at * workers as u64 + worker as u64,
            stage: Stage::Prologue,
            blocked: None,
            state,
        })
    }

    /// The event and the coordinates of a cell.
    fn cell(&self, cell: usize) -> (Symbol, Vec<usize>) {
        for (event, at) in self.program.events.iter().zip(&self.plan.events) {
            let Some(mut rest) = cell.checked_sub(at.base).filter(|rest| *rest < at.cells) else { continue };
            let mut index = vec![0; at.extents.len()];
            for (i, &extent) in index.iter_mut().zip(&at.extents).rev() {
                *i = rest % extent.max(1);
                rest /= extent.max(1);
            }
            return (event.name.clone(), index);
        }
        (Symbol::new("?"), Vec::new())
    }
}
