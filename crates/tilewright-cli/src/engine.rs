//! Running a program on one of the runtimes, all sizes after one compile.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tilewright::dim::Symbol;
use tilewright::error::Error;
use tilewright::host::HostTensor;
use tilewright::interpreter::Interpreter;
use tilewright::task::BufferKind;
use tilewright::tensor::eval::{Bindings, Numerics, eval};
use tilewright::tensor::{ParamKind, Program};
use tilewright::{Arguments, Control, Executable, Options, Target, compile};
use tilewright_cpu::machine::Level;
use tilewright_cpu::{Native, Portable};

/// What runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// The portable executor: compiled, on all cores.
    Portable,
    /// Machine code where there is some, else the portable executor.
    Native,
    /// Compiled, its kernels evaluated one after the other.
    Interpreter,
    /// The tensor program evaluated, nothing compiled.
    Eval,
}

impl Default for Runtime {
    /// Machine code where this machine has a level of instructions, else the portable executor.
    fn default() -> Runtime {
        if Level::detect().is_some() { Runtime::Native } else { Runtime::Portable }
    }
}

impl Runtime {
    /// Every runtime.
    pub const ALL: [Runtime; 4] = [Runtime::Portable, Runtime::Native, Runtime::Interpreter, Runtime::Eval];

    /// What the command calls it.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Portable => "portable",
            Runtime::Native => "native",
            Runtime::Interpreter => "interpreter",
            Runtime::Eval => "eval",
        }
    }

    /// One line for the documentation.
    pub fn doc(self) -> &'static str {
        match self {
            Runtime::Portable => "compiled; plain Rust on all cores that the process may use",
            Runtime::Native => "compiled; machine code (AVX2, AVX-512) where there is some, else plain Rust",
            Runtime::Interpreter => {
                "compiled; kernels evaluated one task after another, in the program's own types"
            }
            Runtime::Eval => "not compiled; the tensor program evaluated in its own types, slow and obvious",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Runtime {
    type Err = String;

    fn from_str(text: &str) -> Result<Runtime, String> {
        let names: Vec<&str> = Runtime::ALL.into_iter().map(Runtime::name).collect();
        let found = Runtime::ALL.into_iter().find(|runtime| runtime.name() == text);
        found.ok_or_else(|| format!("there is no runtime `{text}`; there are {}", names.join(", ")))
    }
}

/// What runs compiled programs, and with how many workers.
pub type Workers = (Arc<dyn tilewright::runtime::Runtime>, usize);

/// What runs compiled programs, and how many workers that is: `threads`, or as many as there are processors; none where
/// nothing is compiled. Machine code is for `level` at most, or for what the environment says.
///
/// # Errors
/// [`Error::Unsupported`] if this machine has no machine code; [`Error::Input`] if the environment names no level.
pub fn compiled(
    runtime: Runtime,
    threads: Option<usize>,
    level: Option<Level>,
) -> Result<Option<Workers>, Error> {
    Ok(match runtime {
        Runtime::Portable => {
            let portable = threads.map_or_else(Portable::detect, Portable::new);
            let workers = portable.workers();
            Some((Arc::new(portable), workers))
        }
        Runtime::Native => {
            let native = threads.map_or_else(Native::detect, Native::new);
            let mut native = native.ok_or_else(|| Error::Unsupported {
                place: "native".into(),
                what: "a processor without AVX2, FMA, F16C, BMI1 and BMI2".into(),
                instead: "the runtime `portable` runs everywhere".into(),
            })?;
            if let Some(level) = level.map_or_else(level_of_environment, |level| Ok(Some(level)))? {
                native = native.at_most(level);
            }
            let workers = native.workers();
            Some((Arc::new(native), workers))
        }
        Runtime::Interpreter => Some((Arc::new(Interpreter), 1)),
        Runtime::Eval => None,
    })
}

/// The variable that names the highest level of machine code.
pub const LEVEL: &str = "TILEWRIGHT_LEVEL";

fn level_of_environment() -> Result<Option<Level>, Error> {
    let Ok(name) = std::env::var(LEVEL) else { return Ok(None) };
    let level = name.parse::<Level>();
    level.map(Some).map_err(|error| Error::Input { subject: LEVEL.into(), message: error.to_string() })
}

/// A program that is ready to run at any size.
pub struct Engine {
    program: Program,
    executable: Option<Executable>,
    workers: usize,
    runtime: Runtime,
}

impl Engine {
    /// Compiles a program, where the runtime wants that; `threads` workers, or as many as there are cores.
    ///
    /// # Errors
    /// As `tilewright::compile`.
    pub fn new(program: &Program, runtime: Runtime, threads: Option<usize>) -> Result<Engine, Error> {
        Engine::with(program, runtime, threads, None, false)
    }

    /// [`Engine::new`], with machine code for `level` at most, and with or without fusion.
    ///
    /// # Errors
    /// As `tilewright::compile`.
    pub fn with(
        program: &Program,
        runtime: Runtime,
        threads: Option<usize>,
        level: Option<Level>,
        fuse: bool,
    ) -> Result<Engine, Error> {
        let (options, workers) = match compiled(runtime, threads, level)? {
            Some((runtime, workers)) => (Some(Options { runtime, fuse, ..Options::default() }), workers),
            None => (None, 1),
        };
        let executable =
            options.map(|options| compile(program, &Target::portable(), &options)).transpose()?;
        Ok(Engine { program: program.clone(), executable, workers, runtime })
    }

    /// Whether sums may be added in another order than that of their indices.
    pub fn reassociates(&self) -> bool {
        self.runtime == Runtime::Native
    }

    /// How many workers run it.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The compiled program; none where nothing is compiled.
    pub fn executable(&self) -> Option<&Executable> {
        self.executable.as_ref()
    }

    /// Runs the program on its parameters in order, in storage order. The results are those of the program in order,
    /// states that were updated in place among them; the caller's tensors stay as they are.
    ///
    /// # Errors
    /// As evaluation, or as `prepare`, `plan` and `run` of an executable.
    pub fn run(
        &self,
        sizes: &BTreeMap<Symbol, i64>,
        tensors: &[HostTensor],
        control: &Control,
    ) -> Result<Vec<HostTensor>, Error> {
        self.run_timed(sizes, tensors, control).map(|(results, _)| results)
    }

    /// [`Engine::run`], and how long its phases took.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn run_timed(
        &self,
        sizes: &BTreeMap<Symbol, i64>,
        tensors: &[HostTensor],
        control: &Control,
    ) -> Result<(Vec<HostTensor>, Phases), Error> {
        match &self.executable {
            Some(executable) => run(executable, sizes, tensors, control),
            None => {
                let arrays = tensors.iter().map(HostTensor::to_array).collect();
                let bindings = Bindings { symbols: sizes.clone(), arrays };
                let start = Instant::now();
                let results = eval(&self.program, &bindings, Numerics::Own)?;
                let phases = Phases { run: start.elapsed(), ..Phases::default() };
                let results = results.iter().map(HostTensor::from_array).collect::<Result<_, _>>()?;
                Ok((results, phases))
            }
        }
    }
}

/// How long the phases of a run took, and what it had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// What depends on weights alone.
    pub prepare: Duration,
    /// Binding sizes and tables.
    pub plan: Duration,
    /// The run itself.
    pub run: Duration,
    /// How many tasks the run had; 0 where nothing is compiled.
    pub tasks: u64,
}

fn run(
    executable: &Executable,
    sizes: &BTreeMap<Symbol, i64>,
    tensors: &[HostTensor],
    control: &Control,
) -> Result<(Vec<HostTensor>, Phases), Error> {
    let main = executable.program().main();
    let mut weights = BTreeMap::new();
    let mut tables = BTreeMap::new();
    let mut states: BTreeMap<Symbol, HostTensor> = BTreeMap::new();
    let mut inputs = Vec::new();
    for (param, tensor) in main.params.iter().zip(tensors) {
        let name = &main.value(param.value).name;
        match param.kind {
            ParamKind::Input => inputs.push((name, tensor)),
            ParamKind::Weight => drop(weights.insert(name.clone(), tensor.clone())),
            ParamKind::Plan => drop(tables.insert(name.clone(), tensor.clone())),
            ParamKind::State => drop(states.insert(name.clone(), tensor.clone())),
        }
    }
    let start = Instant::now();
    let weights = executable.prepare(weights)?;
    let prepare = start.elapsed();
    let start = Instant::now();
    let plan = executable.plan(sizes, tables)?;
    let mut phases = Phases { prepare, plan: start.elapsed(), tasks: plan.tasks(), ..Phases::default() };
    let mut arguments = Arguments::new();
    for (name, tensor) in inputs {
        arguments = arguments.input(name.as_str(), tensor);
    }
    for (name, tensor) in &mut states {
        arguments = arguments.state(name.as_str(), tensor);
    }
    let start = Instant::now();
    let mut outputs = executable.run(&plan, &weights, arguments, control)?.into_iter();
    phases.run = start.elapsed();
    let tasks = &executable.stages().task;
    let mut results = Vec::new();
    for id in &tasks.results {
        let buffer = tasks.buffer(*id);
        let state = match buffer.kind {
            BufferKind::Param(_) => states.get(&buffer.name).cloned(),
            _ => None,
        };
        let result = state.or_else(|| outputs.next());
        results.push(result.ok_or_else(|| Error::Bug {
            stage: "task",
            message: format!("the result `{}` has no buffer", buffer.name),
        })?);
    }
    Ok((results, phases))
}
