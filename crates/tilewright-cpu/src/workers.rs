//! The loop that every worker runs over its queue of tasks, whatever runs their bodies.
//!
//! A worker takes its tasks in rank order: prologue, waits, body, notifies. An event cell is an atomic counter on a cache
//! line of its own that only rises; a wait spins a little, then yields. An abort word stops every worker before its next
//! step. A run in which all workers wait and none finishes a task is given up, with the tasks that wait and the counters
//! short of their threshold. A panic of a body stops the run and leaves the pool usable.
//!
//! A notify releases what its task wrote, a satisfied wait acquires it. All notifies of a cell are read-modify-writes, so
//! that a wait which sees the last of them has seen the writes of every task that notified the cell before.

use std::sync::PoisonError;
use std::thread::panicking;
use std::time::Instant;

use tilewright::dim::{Env, EvalError, Symbol};
use tilewright::error::Error;
use tilewright::kernel::WorkerStep;
use tilewright::runtime::Control;
use tilewright::task::{Cells, Plan, TaskRef};

use crate::pool::Pool;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, hint, thread};

/// Polls of a counter before a waiting worker yields its processor. The model checker tries every outcome of each.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };

/// Yields between two looks at the clock.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 100 };

/// What runs the code of tasks on one worker.
pub trait Body {
    /// Runs what comes before the waits of a task.
    fn prologue(&mut self, task: &TaskRef) -> Result<(), Error>;

    /// Runs what comes after them.
    fn body(&mut self, task: &TaskRef) -> Result<(), Error>;
}

/// The edges of a family, bound to sizes.
pub struct FamilyEdges {
    /// The name of the family.
    pub name: Symbol,
    /// The cells that a task awaits, edge by edge.
    pub waits: Vec<Cells>,
    /// The cells that it notifies.
    pub notifies: Vec<Cells>,
}

/// One run of a program.
pub struct Work<'a> {
    /// The steps for each task.
    pub steps: &'a [WorkerStep],
    /// The families, by id.
    pub families: &'a [FamilyEdges],
    /// Queues and thresholds.
    pub plan: &'a Plan,
    /// How the caller steers the run.
    pub control: &'a Control,
    /// Symbols and elements of integer buffers, for edges that read them.
    pub tables: &'a (dyn Env + Sync),
    /// How many workers of the pool take part.
    pub workers: usize,
    /// The counters of a run that is over.
    pub counters: &'a Counters,
}

/// Event counters that no run uses, for the next one.
pub struct Counters(Mutex<Vec<Counter>>);

impl Default for Counters {
    fn default() -> Counters {
        Counters(Mutex::new(Vec::new()))
    }
}

/// An event cell, two cache lines from its neighbours, which processors fetch in pairs.
#[repr(align(128))]
struct Counter(AtomicU32);

/// What a worker waits for.
#[derive(Clone)]
struct Waiting {
    task: TaskRef,
    cell: usize,
}

/// What the workers of a run share.
struct Shared<'a> {
    work: &'a Work<'a>,
    counters: Vec<Counter>,
    abort: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// Tasks finished.
    finished: AtomicU64,
    /// Workers that wait or have nothing left to do.
    idle: AtomicUsize,
    /// One per worker: what it has waited for long enough to yield.
    waiting: Vec<Mutex<Option<Waiting>>>,
}

/// The run has been given up; the reason stands in [`Shared::failure`].
struct Stopped;

/// Stops the other workers if this one panics.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// What these locks guard is replaced as a whole, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs every task of a plan. `start` makes what runs bodies, once per worker that takes part, on that worker.
///
/// # Errors
/// The first error of a body or an edge; [`Error::Cancelled`]; [`Error::Stuck`]; [`Error::Bug`] if a body panicked.
pub fn run<B: Body>(pool: &Pool, work: &Work<'_>, start: impl Fn(usize) -> B + Sync) -> Result<(), Error> {
    let shared = Shared {
        work,
        counters: work.counters.take(work.plan.cells()),
        abort: AtomicBool::new(false),
        failure: Mutex::new(None),
        finished: AtomicU64::new(0),
        idle: AtomicUsize::new(0),
        waiting: (0..work.workers).map(|_| Mutex::new(None)).collect(),
    };
    let outcome = pool.run(&|worker| {
        if worker < work.workers {
            let _guard = StopOnPanic(&shared.abort);
            shared.queue(worker, &mut start(worker));
        }
    });
    *lock(&work.counters.0) = shared.counters;
    if let Some(error) = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    outcome.map_err(|_| Error::Bug { stage: "kernel", message: "a task panicked".into() })
}

/// An edge without a value, as an error of the program's inputs.
pub fn fault(place: &Symbol, error: &EvalError) -> Error {
    Error::Input { subject: place.to_string(), message: error.to_string() }
}

impl Counters {
    /// This many counters, all 0.
    fn take(&self, count: usize) -> Vec<Counter> {
        let mut counters = std::mem::take(&mut *lock(&self.0));
        counters.truncate(count);
        counters.iter().for_each(|counter| counter.0.store(0, Ordering::Relaxed));
        counters.resize_with(count, || Counter(AtomicU32::new(0)));
        counters
    }
}

impl Shared<'_> {
    /// The loop of one worker.
    fn queue(&self, worker: usize, body: &mut impl Body) {
        let mut cells = Vec::new();
        let mut k = 0;
        while let Some(task) = self.work.plan.task(worker, self.work.workers, k) {
            if self.task(worker, &task, body, &mut cells).is_err() {
                return;
            }
            k += 1;
        }
        self.idle.fetch_add(1, Ordering::Relaxed);
    }

    fn stop(&self, error: Error) -> Stopped {
        lock(&self.failure).get_or_insert(error);
        self.abort.store(true, Ordering::Relaxed);
        Stopped
    }

    fn task(
        &self,
        worker: usize,
        task: &TaskRef,
        body: &mut impl Body,
        cells: &mut Vec<usize>,
    ) -> Result<(), Stopped> {
        if self.work.control.is_cancelled() {
            return Err(self.stop(Error::Cancelled));
        }
        let family = &self.work.families[task.family.0 as usize];
        for step in self.work.steps {
            if self.abort.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            match step {
                WorkerStep::Fetch => {}
                WorkerStep::Prologue => body.prologue(task).map_err(|error| self.stop(error))?,
                WorkerStep::Wait => {
                    for edge in &family.waits {
                        self.cells(family, edge, task, cells)?;
                        cells.iter().try_for_each(|&cell| self.wait(worker, cell, task))?;
                    }
                }
                WorkerStep::Body => body.body(task).map_err(|error| self.stop(error))?,
                WorkerStep::Notify => {
                    for edge in &family.notifies {
                        self.cells(family, edge, task, cells)?;
                        for &cell in &*cells {
                            self.counters[cell].0.fetch_add(1, Ordering::Release);
                        }
                    }
                }
            }
        }
        self.finished.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Lists the cells that an edge means at a task.
    fn cells(
        &self,
        family: &FamilyEdges,
        edge: &Cells,
        task: &TaskRef,
        cells: &mut Vec<usize>,
    ) -> Result<(), Stopped> {
        cells.clear();
        edge.each(&task.coordinates, self.work.tables, |cell| cells.push(cell))
            .map_err(|error| self.stop(fault(&family.name, &error)))
    }

    fn satisfied(&self, cell: usize) -> bool {
        self.counters[cell].0.load(Ordering::Acquire) >= self.work.plan.waits[cell]
    }

    fn wait(&self, worker: usize, cell: usize, task: &TaskRef) -> Result<(), Stopped> {
        for _ in 0..SPINS {
            if self.satisfied(cell) {
                return Ok(());
            }
            hint::spin_loop();
        }
        *lock(&self.waiting[worker]) = Some(Waiting { task: task.clone(), cell });
        self.idle.fetch_add(1, Ordering::Relaxed);
        let outcome = self.wait_long(cell);
        self.idle.fetch_sub(1, Ordering::Relaxed);
        *lock(&self.waiting[worker]) = None;
        outcome
    }

    fn wait_long(&self, cell: usize) -> Result<(), Stopped> {
        let Work { control, workers, .. } = self.work;
        let mut since = Instant::now();
        let mut finished = self.finished.load(Ordering::Relaxed);
        loop {
            for _ in 0..YIELDS {
                if self.satisfied(cell) {
                    return Ok(());
                }
                thread::yield_now();
            }
            if self.abort.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            if control.is_cancelled() {
                return Err(self.stop(Error::Cancelled));
            }
            let now = self.finished.load(Ordering::Relaxed);
            let working = self.idle.load(Ordering::Relaxed) < *workers;
            if now != finished || working {
                (since, finished) = (Instant::now(), now);
            } else if since.elapsed() > control.watchdog {
                let seconds = control.watchdog.as_secs();
                return Err(self.stop(Error::Stuck { seconds, state: self.state() }));
            }
        }
    }

    /// The tasks that wait, each with the counter that it waits for.
    fn state(&self) -> String {
        let line = |slot: &Mutex<Option<Waiting>>| {
            let Waiting { task, cell } = lock(slot).clone()?;
            let name = &self.work.families[task.family.0 as usize].name;
            let (have, of) = (self.counters[cell].0.load(Ordering::Relaxed), self.work.plan.waits[cell]);
            Some(format!("{name}{:?} has {have} of {of} notifies", task.coordinates))
        };
        self.waiting.iter().filter_map(line).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(all(test, not(loom)))]
#[path = "workers_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "workers_model.rs"]
mod model;
