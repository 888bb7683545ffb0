//! The portable executor: runs kernel programs anywhere, on a pool of workers with event counters.
//!
//! The workers follow the loop of [`crate::workers`]; a body is interpreted statement by statement.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tilewright::dim::{Env, EvalError, Symbol};
use tilewright::error::Error;
use tilewright::journal::Entry;
use tilewright::kernel::tile::{Compiled, Frame, Step};
use tilewright::kernel::{self, Statement};
use tilewright::runtime::{Control, Loaded, Memory, Runtime, Slot};
use tilewright::task::{BufferId, BufferKind, Cells, Plan, TaskRef};
use tilewright::tensor::DType;
use tilewright::tensor::eval::Numerics;

use crate::memory::{Buffers, Bytes, Worker, useful_workers};
use crate::native::{Context, Families, FamilyCode, Scratch};
use crate::pool::Pool;
use crate::workers::{self, Body, FamilyEdges, Work, fault};

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
        self.load_with(program, None)
    }
}

impl Portable {
    /// Makes a program runnable; families with code run as machine code.
    pub(crate) fn load_with(
        &self,
        program: &Arc<kernel::Program>,
        code: Option<Families>,
    ) -> Result<Arc<dyn Loaded>, Error> {
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
            arenas: Mutex::new(Vec::new()),
            counters: workers::Counters::default(),
            code,
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
    /// Temporaries of runs that are over.
    arenas: Mutex<Vec<Arena>>,
    counters: workers::Counters,
    code: Option<Families>,
}

/// A program bound to sizes.
struct Bound {
    symbols: BTreeMap<Symbol, i64>,
    /// By family; made when one is interpreted for the first time.
    kernels: Vec<OnceLock<Compiled>>,
    edges: Vec<FamilyEdges>,
}

/// What the workers of one run share.
struct Run<'a> {
    program: &'a kernel::Program,
    bound: &'a Bound,
    symbols: &'a BTreeMap<Symbol, i64>,
    buffers: Buffers,
    tables: BTreeMap<&'a Symbol, (BufferId, &'a [usize])>,
}

impl Loaded for Ready {
    fn notes(&self) -> &[Entry] {
        self.code.as_ref().map_or(&[], |code| &code.notes)
    }

    fn run(&self, plan: &Plan, memory: &mut Memory<'_>, control: &Control) -> Result<(), Error> {
        let tasks = &self.program.tasks;
        let bound = self.bind(plan)?;
        let spare = self.arenas.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut arena = Arena::new(plan.arena_bytes, spare)?;
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
                        if POISONED && *kind == BufferKind::Output {
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
            symbols: &plan.symbols,
            buffers: Buffers(buffers),
            tables: (tasks.buffers.iter().zip(&plan.buffers).enumerate())
                .filter(|(_, (buffer, _))| integer(buffer.dtype))
                .map(|(k, (buffer, size))| (&buffer.name, (BufferId(k as u32), size.extents.as_slice())))
                .collect(),
        };
        let listed = self.code.as_ref().map(|code| Listed::new(code, plan, &run.buffers)).transpose()?;
        let work = Work {
            steps: &self.program.worker,
            families: &bound.edges,
            plan,
            control,
            tables: &Tables(&run),
            workers: useful_workers(&self.pool, plan.tasks),
            counters: &self.counters,
        };
        let outcome = workers::run(&self.pool, &work, |_| Bodies {
            run: &run,
            frames: run.bound.kernels.iter().map(|_| None).collect(),
            code: self.code.as_ref().zip(listed.as_ref()),
            scratch: run.bound.kernels.iter().map(|_| None).collect(),
            machine: Worker::new(&run.buffers),
        });
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner).push(arena);
        outcome
    }
}

impl Run<'_> {
    /// The kernel of a family, bound to sizes.
    fn kernel(&self, index: usize) -> Result<&Compiled, Error> {
        if let Some(kernel) = self.bound.kernels[index].get() {
            return Ok(kernel);
        }
        let tasks = &self.program.tasks;
        let family = &tasks.families[index];
        let coordinates: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
        let kernel =
            Compiled::new(&family.name, &coordinates, &family.body, &tasks.buffers, &self.bound.symbols)?;
        Ok(self.bound.kernels[index].get_or_init(|| kernel))
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
        let mut edges = Vec::new();
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
            edges.push(FamilyEdges {
                name: family.name.clone(),
                waits: cells(&family.waits)?,
                notifies: cells(&family.notifies)?,
            });
        }
        let kernels = tasks.families.iter().map(|_| OnceLock::new()).collect();
        let bound = Arc::new(Bound { symbols: plan.symbols.clone(), kernels, edges });
        *last = Some(Arc::clone(&bound));
        Ok(bound)
    }
}

/// What memory holds before it is written, where runs are checked for it: NaN in every float type, so that an element
/// nobody wrote shows.
const POISON: u8 = 0xff;

/// Whether memory is filled before a run. A write of everything costs as much as many programs do.
const POISONED: bool = cfg!(debug_assertions);

/// Temporaries.
struct Arena(Vec<u8>);

impl Arena {
    /// This many bytes at least, in the memory of another run where there is one.
    fn new(bytes: u64, spare: Option<Arena>) -> Result<Arena, Error> {
        let Arena(mut arena) = spare.unwrap_or(Arena(Vec::new()));
        let has = arena.len();
        let count = usize::try_from(bytes).ok();
        let count = count.filter(|&count| arena.try_reserve_exact(count.saturating_sub(has)).is_ok());
        let Some(count) = count else {
            let table = "the system gives no more memory for temporaries".into();
            return Err(Error::Memory { needed: bytes, limit: 0, table });
        };
        if POISONED {
            arena.fill(POISON);
        }
        if arena.len() < count {
            arena.resize(count, POISON);
        }
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
        self.0.symbols.get(symbol).copied()
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

/// Runs bodies on one worker.
struct Bodies<'a> {
    run: &'a Run<'a>,
    frames: Vec<Option<Frame>>,
    machine: Worker<'a>,
    code: Option<(&'a Families, &'a Listed)>,
    /// By family; machine code works on it.
    scratch: Vec<Option<Scratch>>,
}

/// What machine code reads of a run.
struct Listed {
    symbols: Vec<i64>,
    buffers: Vec<*mut u8>,
    extents: Vec<i64>,
}

// SAFETY: the pointers are those of `Buffers`, which workers share under the same rules.
unsafe impl Sync for Listed {}

impl Listed {
    fn new(code: &Families, plan: &Plan, buffers: &Buffers) -> Result<Listed, Error> {
        let value = |symbol: &Symbol| {
            let message = || format!("machine code reads `{symbol}`, which the plan does not bind");
            plan.symbols.get(symbol).copied().ok_or_else(|| Error::Bug { stage: "emit", message: message() })
        };
        Ok(Listed {
            symbols: code.symbols.iter().map(value).collect::<Result<_, _>>()?,
            buffers: buffers.0.iter().map(|buffer| buffer.start).collect(),
            extents: plan.buffers.iter().flat_map(|buffer| &buffer.extents).map(|&n| n as i64).collect(),
        })
    }
}

impl Body for Bodies<'_> {
    fn prologue(&mut self, task: &TaskRef) -> Result<(), Error> {
        // Machine code has what comes before the waits in its body.
        match self.family_code(task) {
            Some(_) => Ok(()),
            None => self.interpret_prologue(task),
        }
    }

    fn body(&mut self, task: &TaskRef) -> Result<(), Error> {
        if let Some(code) = self.family_code(task) {
            if self.call(task, code) == 0 {
                return Ok(());
            }
            // An index expression has no value: the interpreter says which.
            self.interpret_prologue(task)?;
        }
        self.interpret_body(task)
    }
}

impl<'a> Bodies<'a> {
    fn family_code(&self, task: &TaskRef) -> Option<&'a FamilyCode> {
        self.code.and_then(|(families, _)| families.code[task.family.0 as usize].as_ref())
    }

    /// Calls a family's code on a task; 0 if it has done it.
    fn call(&mut self, task: &TaskRef, code: &FamilyCode) -> i64 {
        let Some((families, listed)) = self.code else { return 1 };
        let Some(entry) = families.entry(code) else { return 1 };
        let scratch = self.scratch[task.family.0 as usize].get_or_insert_with(|| Scratch::new(code.scratch));
        let mut context = Context {
            symbols: listed.symbols.as_ptr(),
            buffers: listed.buffers.as_ptr(),
            extents: listed.extents.as_ptr(),
            scratch: scratch.start(),
        };
        // SAFETY: the code was made for this program and a level of this machine: it reads the context as laid out,
        // touches elements inside the buffers only, and scratch of the size that it asked for. Events order its accesses,
        // as the verifier has proved.
        unsafe { entry((&raw mut context).cast(), task.coordinates.as_ptr()) }
    }

    fn interpret_prologue(&mut self, task: &TaskRef) -> Result<(), Error> {
        self.enter(task, |kernel, slots, frame, machine| steps(&kernel.prologue, slots, frame, machine))
    }

    fn interpret_body(&mut self, task: &TaskRef) -> Result<(), Error> {
        self.enter(task, |kernel, slots, frame, machine| {
            kernel.roles.iter().try_for_each(|(_, body)| steps(body, slots, frame, machine))
        })
    }
}

impl Bodies<'_> {
    /// Calls `f` with the kernel of a task, its coordinates in the slots, and its tiles.
    fn enter(
        &mut self,
        task: &TaskRef,
        f: impl FnOnce(&Compiled, &mut [i64], &mut Frame, &mut Worker<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let index = task.family.0 as usize;
        let run = self.run;
        let kernel = run.kernel(index)?;
        let frame = self.frames[index].get_or_insert_with(|| kernel.frame());
        let mut slots = vec![0; kernel.slots];
        slots[..task.coordinates.len()].copy_from_slice(&task.coordinates);
        f(kernel, &mut slots, frame, &mut self.machine)
    }
}

fn steps(
    steps: &[Step],
    slots: &mut [i64],
    frame: &mut Frame,
    machine: &mut Worker<'_>,
) -> Result<(), Error> {
    for step in steps {
        match step {
            Step::Loop { slot, extent, body } => {
                for k in 0..extent.eval(slots, frame, machine)? {
                    slots[*slot] = k;
                    self::steps(body, slots, frame, machine)?;
                }
            }
            // A statement that gives a token completes at once here, so that an await has nothing to wait for.
            Step::Near(near) => near.run(slots, frame, machine, Numerics::Own)?,
            Step::Await(_) => {}
            Step::Acquire(_)
            | Step::Commit(..)
            | Step::Receive(_)
            | Step::Release(_)
            | Step::Wait(_)
            | Step::Notify(_) => {
                let message = "a statement that `load` refuses".to_string();
                return Err(Error::Bug { stage: "kernel", message });
            }
        }
    }
    Ok(())
}
