//! The portable executor: runs kernel programs anywhere, on a pool of workers with event counters.
//!
//! Every worker runs its queue of tasks in rank order: prologue, waits, body, notifies. An event cell is an atomic counter;
//! a wait spins a little, then yields. An abort word stops every loop; a run in which all workers wait and none makes
//! progress is given up with the state of its counters.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tilewright::dim::{Env, EvalError, Symbol};
use tilewright::error::Error;
use tilewright::kernel::tile::{Compiled, Frame, Step};
use tilewright::kernel::{self, Statement, WorkerStep};
use tilewright::runtime::{Control, Loaded, Memory, Runtime, Slot};
use tilewright::task::{BufferId, BufferKind, Cells, Plan, TaskRef};
use tilewright::tensor::DType;
use tilewright::tensor::eval::Numerics;

use crate::memory::{Buffers, Bytes, Worker, useful_workers};
use crate::pool::Pool;

/// Polls of a counter before a waiting worker yields its processor.
const SPINS: u32 = 200;

/// Yields between two looks at the clock.
const YIELDS: u32 = 100;

/// Runs kernel programs in plain Rust.
#[derive(Clone)]
pub struct Portable {
    pool: Arc<Pool>,
}

impl Portable {
    /// An executor with `workers` workers.
    pub fn new(workers: usize) -> Portable {
        Portable { pool: Arc::new(Pool::new(workers)) }
    }

    /// An executor with as many workers as this process has processors, affinity and cgroup quota counted.
    pub fn detect() -> Portable {
        Portable::new(crate::cores::Cores::detect().available)
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.pool.workers()
    }
}

impl Runtime for Portable {
    fn name(&self) -> &str {
        "portable"
    }

    fn load(&self, program: &Arc<kernel::Program>) -> Result<Arc<dyn Loaded>, Error> {
        for family in &program.tasks.families {
            let kernel = &family.body;
            let inner =
                kernel.roles.iter().any(|role| orders_tasks(&role.body)) || orders_tasks(&kernel.prologue);
            if kernel.roles.len() > 1 || !kernel.channels.is_empty() || inner {
                return Err(Error::Unsupported {
                    place: family.name.to_string(),
                    what:
                        "a kernel of several roles, or with events inside its body, in the portable executor"
                            .into(),
                    instead: "the interpreter runs it".into(),
                });
            }
        }
        Ok(Arc::new(Ready {
            program: Arc::clone(program),
            pool: Arc::clone(&self.pool),
            bound: Mutex::new(None),
        }))
    }
}

/// Whether statements wait for or notify events.
fn orders_tasks(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Wait(_) | Statement::Notify(_) => true,
        Statement::Loop { body, .. } => orders_tasks(body),
        _ => false,
    })
}

/// A loaded program, with what it was bound to last.
struct Ready {
    program: Arc<kernel::Program>,
    pool: Arc<Pool>,
    bound: Mutex<Option<Arc<Bound>>>,
}

/// A program bound to sizes.
struct Bound {
    symbols: BTreeMap<Symbol, i64>,
    families: Vec<BoundFamily>,
}

struct BoundFamily {
    kernel: Compiled,
    waits: Vec<Cells>,
    notifies: Vec<Cells>,
}

/// What the workers of one run share.
struct Run<'a> {
    program: &'a kernel::Program,
    bound: &'a Bound,
    plan: &'a Plan,
    control: &'a Control,
    buffers: Buffers,
    tables: BTreeMap<&'a Symbol, (BufferId, &'a [usize])>,
    counters: Vec<AtomicU32>,
    workers: usize,
    abort: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// Tasks finished.
    finished: AtomicU64,
    /// Workers that wait or have nothing left to do.
    idle: AtomicUsize,
}

impl Loaded for Ready {
    fn run(&self, plan: &Plan, memory: &mut Memory<'_>, control: &Control) -> Result<(), Error> {
        let tasks = &self.program.tasks;
        let bound = self.bind(plan)?;
        let mut arena = Arena::new(plan.arena_bytes)?;
        let mut slots = memory.slots.iter_mut();
        let mut buffers = Vec::new();
        for (buffer, size) in tasks.buffers.iter().zip(&plan.buffers) {
            let start = match &buffer.kind {
                BufferKind::Temporary { .. } => arena.at(size.offset.unwrap_or(0), size.bytes)?,
                kind => match slots.next() {
                    // A parameter that is only read: no task writes it, which the kernel verifier has proved.
                    Some(Slot::Read(tensor)) if tensor.bytes().len() == size.bytes => {
                        tensor.bytes().as_ptr().cast_mut()
                    }
                    Some(Slot::Write(tensor)) if tensor.bytes().len() == size.bytes => {
                        if *kind == BufferKind::Output {
                            tensor.bytes_mut().fill(POISON);
                        }
                        tensor.bytes_mut().as_mut_ptr()
                    }
                    _ => {
                        return Err(Error::Input {
                            subject: buffer.name.to_string(),
                            message: format!("the run needs {} bytes here", size.bytes),
                        });
                    }
                },
            };
            let elements = size.bytes / buffer.dtype.bytes();
            buffers.push(Bytes { start, elements, dtype: buffer.dtype });
        }
        let integer = |dtype: DType| dtype.is_int() || dtype == DType::Bool;
        let run = Run {
            program: &self.program,
            bound: &bound,
            plan,
            control,
            buffers: Buffers(buffers),
            tables: (tasks.buffers.iter().zip(&plan.buffers).enumerate())
                .filter(|(_, (buffer, _))| integer(buffer.dtype))
                .map(|(k, (buffer, size))| (&buffer.name, (BufferId(k as u32), size.extents.as_slice())))
                .collect(),
            counters: (0..plan.cells()).map(|_| AtomicU32::new(0)).collect(),
            workers: useful_workers(&self.pool, plan.tasks),
            abort: AtomicBool::new(false),
            failure: Mutex::new(None),
            finished: AtomicU64::new(0),
            idle: AtomicUsize::new(0),
        };
        let outcome = self.pool.run(&|worker| run.work(worker));
        if let Some(error) = run.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        outcome.map_err(|_| Error::Bug { stage: "kernel", message: "a task panicked".into() })
    }
}

impl Ready {
    /// The program bound to the sizes of a plan; kept until another plan is run.
    fn bind(&self, plan: &Plan) -> Result<Arc<Bound>, Error> {
        let mut last = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = last.as_ref().filter(|bound| bound.symbols == plan.symbols) {
            return Ok(Arc::clone(bound));
        }
        let tasks = &self.program.tasks;
        let mut families = Vec::new();
        for family in &tasks.families {
            let coordinates: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
            let cells = |edges: &[tilewright::task::Edge]| {
                let bind = |edge| Cells::new(edge, &coordinates, plan, &plan.symbols);
                edges
                    .iter()
                    .map(bind)
                    .collect::<Result<Vec<_>, EvalError>>()
                    .map_err(|error| fault(&family.name, &error))
            };
            families.push(BoundFamily {
                kernel: Compiled::new(
                    &family.name,
                    &coordinates,
                    &family.body,
                    &tasks.buffers,
                    &plan.symbols,
                )?,
                waits: cells(&family.waits)?,
                notifies: cells(&family.notifies)?,
            });
        }
        let bound = Arc::new(Bound { symbols: plan.symbols.clone(), families });
        *last = Some(Arc::clone(&bound));
        Ok(bound)
    }
}

fn fault(place: &Symbol, error: &EvalError) -> Error {
    Error::Input { subject: place.to_string(), message: error.to_string() }
}

/// What memory holds before it is written: NaN in every float type, so that an element nobody wrote shows.
const POISON: u8 = 0xff;

/// Temporaries.
struct Arena(Vec<u8>);

impl Arena {
    fn new(bytes: u64) -> Result<Arena, Error> {
        let mut arena = Vec::new();
        let count = usize::try_from(bytes).ok().filter(|&count| arena.try_reserve_exact(count).is_ok());
        let Some(count) = count else {
            let table = "the system gives no more memory for temporaries".into();
            return Err(Error::Memory { needed: bytes, limit: 0, table });
        };
        arena.resize(count, POISON);
        Ok(Arena(arena))
    }

    fn at(&mut self, offset: usize, bytes: usize) -> Result<*mut u8, Error> {
        let range = offset..offset.saturating_add(bytes);
        let message = || format!("temporary at {range:?} of {} bytes", self.0.len());
        match self.0.get(range.clone()) {
            Some(_) => Ok(self.0.as_mut_ptr().wrapping_add(offset)),
            None => Err(Error::Bug { stage: "task", message: message() }),
        }
    }
}

/// Elements of the run's integer buffers, by name.
struct Tables<'a>(&'a Run<'a>);

impl Env for Tables<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.0.plan.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let &(buffer, extents) = self.0.tables.get(table)?;
        if index.len() != extents.len() {
            return None;
        }
        let mut position = 0usize;
        for (&i, &extent) in index.iter().zip(extents) {
            position = position * extent + usize::try_from(i).ok().filter(|&i| i < extent)?;
        }
        Some(self.0.buffers.integer(buffer, position))
    }
}

/// Stops the other workers if this one panics.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The run has been given up; the reason stands in [`Run::failure`].
struct Stopped;

impl Run<'_> {
    /// The loop of one worker.
    fn work(&self, worker: usize) {
        let _guard = StopOnPanic(&self.abort);
        if worker < self.workers {
            let mut machine = Worker::new(&self.buffers);
            let mut frames: Vec<Option<Frame>> = self.bound.families.iter().map(|_| None).collect();
            let mut k = 0;
            while let Some(task) = self.plan.task(worker, self.workers, k) {
                if self.task(&task, &mut frames, &mut machine).is_err() {
                    return;
                }
                k += 1;
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn stop(&self, error: Error) -> Stopped {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.abort.store(true, Ordering::Relaxed);
        Stopped
    }

    fn task(
        &self,
        task: &TaskRef,
        frames: &mut [Option<Frame>],
        machine: &mut Worker<'_>,
    ) -> Result<(), Stopped> {
        if self.control.is_cancelled() {
            return Err(self.stop(Error::Cancelled));
        }
        let index = task.family.0 as usize;
        let family = &self.bound.families[index];
        let frame = frames[index].get_or_insert_with(|| family.kernel.frame());
        let mut slots = vec![0; family.kernel.slots];
        slots[..task.coordinates.len()].copy_from_slice(&task.coordinates);
        for step in &self.program.worker {
            if self.abort.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            match step {
                WorkerStep::Fetch => {}
                WorkerStep::Prologue => self.steps(&family.kernel.prologue, &mut slots, frame, machine)?,
                WorkerStep::Wait => self.wait(family, task)?,
                WorkerStep::Body => {
                    for (_, body) in &family.kernel.roles {
                        self.steps(body, &mut slots, frame, machine)?;
                    }
                }
                WorkerStep::Notify => self.notify(family, task)?,
            }
        }
        self.finished.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn steps(
        &self,
        steps: &[Step],
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &mut Worker<'_>,
    ) -> Result<(), Stopped> {
        for step in steps {
            match step {
                Step::Loop { slot, extent, body } => {
                    let count = extent.eval(slots, frame, machine).map_err(|error| self.stop(error))?;
                    for k in 0..count {
                        slots[*slot] = k;
                        self.steps(body, slots, frame, machine)?;
                    }
                }
                // A statement that gives a token completes at once here, so that an await has nothing to wait for.
                Step::Near(near) => {
                    near.run(slots, frame, machine, Numerics::Own).map_err(|error| self.stop(error))?;
                }
                Step::Await(_) => {}
                Step::Acquire(_)
                | Step::Commit(..)
                | Step::Receive(_)
                | Step::Release(_)
                | Step::Wait(_)
                | Step::Notify(_) => {
                    let message = "a statement that `load` refuses".to_string();
                    return Err(self.stop(Error::Bug { stage: "kernel", message }));
                }
            }
        }
        Ok(())
    }

    fn wait(&self, family: &BoundFamily, task: &TaskRef) -> Result<(), Stopped> {
        let mut cells = Vec::new();
        for edge in &family.waits {
            cells.clear();
            edge.each(&task.coordinates, &Tables(self), |cell| cells.push(cell))
                .map_err(|error| self.stop(fault(&family.kernel.name, &error)))?;
            for &cell in &cells {
                self.wait_for(cell, family, task)?;
            }
        }
        Ok(())
    }

    fn wait_for(&self, cell: usize, family: &BoundFamily, task: &TaskRef) -> Result<(), Stopped> {
        let satisfied = || self.counters[cell].load(Ordering::Acquire) >= self.plan.waits[cell];
        for _ in 0..SPINS {
            if satisfied() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.idle.fetch_add(1, Ordering::Relaxed);
        let outcome = self.wait_long(satisfied, || {
            let have = self.counters[cell].load(Ordering::Relaxed);
            format!(
                "{}{:?} has {have} of {} notifies",
                family.kernel.name, task.coordinates, self.plan.waits[cell]
            )
        });
        self.idle.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    fn wait_long(&self, satisfied: impl Fn() -> bool, state: impl Fn() -> String) -> Result<(), Stopped> {
        let mut since = Instant::now();
        let mut finished = self.finished.load(Ordering::Relaxed);
        loop {
            for _ in 0..YIELDS {
                if satisfied() {
                    return Ok(());
                }
                std::thread::yield_now();
            }
            if self.abort.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            if self.control.is_cancelled() {
                return Err(self.stop(Error::Cancelled));
            }
            let now = self.finished.load(Ordering::Relaxed);
            let working = self.idle.load(Ordering::Relaxed) < self.workers;
            if now != finished || working {
                (since, finished) = (Instant::now(), now);
            } else if since.elapsed() > self.control.watchdog {
                let seconds = self.control.watchdog.as_secs();
                return Err(self.stop(Error::Stuck { seconds, state: state() }));
            }
        }
    }

    fn notify(&self, family: &BoundFamily, task: &TaskRef) -> Result<(), Stopped> {
        for edge in &family.notifies {
            let notify = |cell: usize| {
                self.counters[cell].fetch_add(1, Ordering::Release);
            };
            edge.each(&task.coordinates, &Tables(self), notify)
                .map_err(|error| self.stop(fault(&family.kernel.name, &error)))?;
        }
        Ok(())
    }
}
