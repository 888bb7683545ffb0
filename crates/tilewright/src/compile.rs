//! The compiler, top to bottom, and the library's face: [`compile`] → [`Executable`] → `prepare`, `plan`, `run`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dim::{Env, Symbol};
use crate::error::Error;
use crate::host::{HostTensor, byte_size};
use crate::interpreter::Interpreter;
use crate::journal::Journal;
use crate::runtime::{Control, Loaded, Memory, Runtime, Slot};
use crate::target::Target;
use crate::task::{self, BufferKind};
use crate::tensor::{self, ParamKind};
use crate::{block, kernel};

/// How to compile.
#[derive(Clone)]
pub struct Options {
    /// The back end.
    pub runtime: Arc<dyn Runtime>,
    /// Whether the program of every level is verified before the next arrow. What a verifier refuses never runs.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { runtime: Arc::new(Interpreter), verify: true }
    }
}

/// Compiles a program for every size that its facts admit.
///
/// # Errors
/// [`Error::Program`] if the program is not legal, [`Error::Unsupported`] if it says what this version cannot
/// compile, [`Error::Bug`] if a stage makes a program that its verifier refuses.
pub fn compile(program: &tensor::Program, target: &Target, options: &Options) -> Result<Executable, Error> {
    tensor::verify::verify(program).map_err(|violation| Error::Program {
        place: violation.place.clone(),
        message: violation.message.clone(),
    })?;
    let mut journal = Journal::new();
    let (prepare, main) = tensor::prepare::split(program);
    let prepare = prepare.map(|prepare| Unit::new(prepare, target, options, &mut journal)).transpose()?;
    let main = Unit::new(main, target, options, &mut journal)?;
    Ok(Executable { given: program.clone(), prepare, main, journal })
}

/// One program at every level: what each arrow made.
#[derive(Clone, Debug)]
pub struct Stages {
    /// What to compute.
    pub tensor: tensor::Program,
    /// Where values live.
    pub block: block::Program,
    /// Who waits for whom.
    pub task: task::Program,
    /// Code.
    pub kernel: Arc<kernel::Program>,
}

impl Stages {
    /// Lowers a program through all levels; with `verify`, each is verified before the next arrow.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn lower(
        tensor: tensor::Program,
        target: &Target,
        verify: bool,
        journal: &mut Journal,
    ) -> Result<Stages, Error> {
        let bug = |stage, message: String| Error::Bug { stage, message };

        // Each operator becomes maps over blocks; values between operators go through slow memory.
        let block = block::lower::lower(&tensor, target, journal)?;
        if verify {
            block::verify::verify(&block).map_err(|violation| bug("block", violation.to_string()))?;
        }

        // Each map becomes a family of tasks; events are derived from what the tasks read and write.
        let task = task::lower::lower(&block, target, journal)?;
        if verify {
            task::verify::verify(&task, target).map_err(|violation| bug("task", violation.to_string()))?;
        }

        // Each body becomes code over tiles.
        let kernel = kernel::lower::lower(&task, target, journal)?;
        if verify {
            kernel::verify::verify(&kernel, target)
                .map_err(|violation| bug("kernel", violation.to_string()))?;
        }

        Ok(Stages { tensor, block, task, kernel: Arc::new(kernel) })
    }
}

/// A compiled program: serves every size, from any number of threads.
pub struct Executable {
    given: tensor::Program,
    prepare: Option<Unit>,
    main: Unit,
    journal: Journal,
}

/// A program that is loaded into a back end.
struct Unit {
    stages: Stages,
    loaded: Arc<dyn Loaded>,
}

/// Weights as the program wants them: those given, and those computed from them once.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    tensors: BTreeMap<Symbol, HostTensor>,
}

/// Sizes and lengths bound to a program: microseconds to make, never compiles.
#[derive(Clone, Debug)]
pub struct Plan {
    sizes: BTreeMap<Symbol, i64>,
    tables: BTreeMap<Symbol, HostTensor>,
    tasks: task::Plan,
}

/// What a run is given beside its weights: inputs by name, and states that it updates in place.
#[derive(Default)]
pub struct Arguments<'a> {
    inputs: BTreeMap<Symbol, &'a HostTensor>,
    states: BTreeMap<Symbol, &'a mut HostTensor>,
}

impl<'a> Arguments<'a> {
    /// No arguments.
    pub fn new() -> Arguments<'a> {
        Arguments::default()
    }

    /// Adds an input.
    #[must_use]
    pub fn input(mut self, name: &str, tensor: &'a HostTensor) -> Arguments<'a> {
        self.inputs.insert(Symbol::new(name), tensor);
        self
    }

    /// Adds a state, updated in place.
    #[must_use]
    pub fn state(mut self, name: &str, tensor: &'a mut HostTensor) -> Arguments<'a> {
        self.states.insert(Symbol::new(name), tensor);
        self
    }
}

impl Unit {
    fn new(
        program: tensor::Program,
        target: &Target,
        options: &Options,
        journal: &mut Journal,
    ) -> Result<Unit, Error> {
        let stages = Stages::lower(program, target, options.verify, journal)?;
        let loaded = options.runtime.load(&stages.kernel)?;
        Ok(Unit { stages, loaded })
    }

    /// Runs the unit; `find` gives the tensor of a read-only parameter, `states` those that it updates.
    fn run<'a>(
        &self,
        plan: &task::Plan,
        find: impl Fn(&Symbol) -> Option<&'a HostTensor>,
        states: &'a mut BTreeMap<Symbol, &mut HostTensor>,
        control: &Control,
    ) -> Result<Vec<HostTensor>, Error> {
        let tasks = &self.stages.kernel.tasks;
        let mut needed = plan.arena_bytes;
        let mut outputs = BTreeMap::new();
        for (buffer, size) in tasks.buffers.iter().zip(&plan.buffers) {
            if buffer.kind == BufferKind::Output {
                needed = needed.saturating_add(byte_size(buffer.dtype, &size.extents)? as u64);
            }
        }
        if let Some(limit) = control.memory_limit.filter(|&limit| needed > limit) {
            return Err(Error::Memory { needed, limit, table: plan.memory_table(tasks) });
        }
        for (buffer, size) in tasks.buffers.iter().zip(&plan.buffers) {
            if buffer.kind == BufferKind::Output {
                outputs.insert(buffer.name.clone(), HostTensor::zeros(buffer.dtype, size.extents.clone())?);
            }
        }

        let mut slots = Vec::new();
        let mut outputs_left: BTreeMap<_, _> = outputs.iter_mut().collect();
        let mut states_left: BTreeMap<_, _> = states.iter_mut().collect();
        for (buffer, size) in tasks.buffers.iter().zip(&plan.buffers) {
            let name = &buffer.name;
            let slot = match &buffer.kind {
                BufferKind::Temporary { .. } => continue,
                BufferKind::Output => outputs_left.remove(name).map(Slot::Write),
                BufferKind::Param(ParamKind::State) => {
                    states_left.remove(name).map(|tensor| Slot::Write(&mut **tensor))
                }
                BufferKind::Param(_) => find(name).map(Slot::Read),
            };
            let slot = slot.ok_or_else(|| Error::Input {
                subject: name.to_string(),
                message: format!("the program needs a {}{:?}; none was given", buffer.dtype, size.extents),
            })?;
            let tensor: &HostTensor = match &slot {
                Slot::Read(tensor) => tensor,
                Slot::Write(tensor) => tensor,
            };
            if tensor.dtype() != buffer.dtype || tensor.extents() != size.extents {
                return Err(Error::Input {
                    subject: name.to_string(),
                    message: format!(
                        "the program needs a {}{:?}, a {}{:?} was given",
                        buffer.dtype,
                        size.extents,
                        tensor.dtype(),
                        tensor.extents()
                    ),
                });
            }
            slots.push(slot);
        }
        let params = tasks.buffers.iter().zip(&slots).filter_map(|(buffer, slot)| match slot {
            Slot::Read(tensor) => Some((&buffer.name, *tensor)),
            Slot::Write(_) => None,
        });
        plan.check_tables(tasks, &Tables(params.collect()))?;
        self.loaded.run(plan, &mut Memory { slots }, control)?;

        // A result that is returned twice has a buffer of its own each time, so each is taken once.
        Ok(tasks.results.iter().filter_map(|&id| outputs.remove(&tasks.buffer(id).name)).collect())
    }
}

impl Executable {
    /// The program as it was given.
    pub fn program(&self) -> &tensor::Program {
        &self.given
    }

    /// The program at every level, without the work on weights alone.
    pub fn stages(&self) -> &Stages {
        &self.main.stages
    }

    /// The work on weights alone at every level, if there is any.
    pub fn prepare_stages(&self) -> Option<&Stages> {
        self.prepare.as_ref().map(|unit| &unit.stages)
    }

    /// What the compiler did, and why.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Takes the weights and does once what depends on them alone.
    ///
    /// # Errors
    /// [`Error::Input`] for a weight that is missing, unknown, or has another type or shape than the program states.
    pub fn prepare(&self, weights: BTreeMap<Symbol, HostTensor>) -> Result<Weights, Error> {
        let params = self.given.main().params.iter().filter(|param| param.kind == ParamKind::Weight);
        let names: Vec<&Symbol> = params.map(|param| &self.given.main().value(param.value).name).collect();
        for name in weights.keys() {
            if !names.contains(&name) {
                let known = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
                let message = if known.is_empty() {
                    "the program has no weights".to_string()
                } else {
                    format!("no weight has this name; there are {known}")
                };
                return Err(Error::Input { subject: name.to_string(), message });
            }
        }
        if let Some(name) = names.iter().find(|name| !weights.contains_key(**name)) {
            return Err(Error::Input {
                subject: name.to_string(),
                message: "the program needs this weight; none was given".into(),
            });
        }
        let mut tensors = weights;
        if let Some(unit) = &self.prepare {
            let sizes = self.sizes(tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)))?;
            let plan = task::Plan::new(&unit.stages.kernel.tasks, &sizes, &())?;
            let made =
                unit.run(&plan, |name| tensors.get(name), &mut BTreeMap::new(), &Control::default())?;
            let main = unit.stages.tensor.main();
            let names: Vec<Symbol> = main.results.iter().map(|&id| main.value(id).name.clone()).collect();
            tensors.extend(names.into_iter().zip(made));
        }
        Ok(Weights { tensors })
    }

    /// The sizes that follow from tensors: every parameter axis whose extent is a single symbol binds it, and every
    /// symbol with one possible value has that.
    ///
    /// # Errors
    /// [`Error::Input`] if two tensors disagree, or a tensor has another rank than its parameter.
    pub fn sizes<'a>(
        &self,
        tensors: impl IntoIterator<Item = (&'a str, &'a HostTensor)>,
    ) -> Result<BTreeMap<Symbol, i64>, Error> {
        let facts = &self.given.facts;
        let main = self.given.main();
        let mut sizes = BTreeMap::new();
        for symbol in facts.symbols() {
            if let Some((lo, Some(hi))) = facts.range(&symbol).filter(|&(lo, hi)| Some(lo) == hi) {
                debug_assert_eq!(lo, hi);
                sizes.insert(symbol.clone(), lo);
            }
        }
        for (name, tensor) in tensors {
            let Some(id) = main.find(&Symbol::new(name)) else { continue };
            let storage = tensor::storage::Storage::of(main, &main.value(id).ty, facts)
                .map_err(|message| Error::Input { subject: name.into(), message: message.to_string() })?;
            if storage.extents.len() != tensor.extents().len() {
                return Err(Error::Input {
                    subject: name.into(),
                    message: format!(
                        "the program needs {} axes, a tensor with {} was given",
                        storage.extents.len(),
                        tensor.extents().len()
                    ),
                });
            }
            for (extent, &actual) in storage.extents.iter().zip(tensor.extents()) {
                let Some(symbol) = extent.as_symbol() else { continue };
                let actual = actual as i64;
                match sizes.insert(symbol.clone(), actual) {
                    Some(other) if other != actual => {
                        return Err(Error::Input {
                            subject: name.into(),
                            message: format!("{symbol} is {actual} here and {other} elsewhere"),
                        });
                    }
                    _ => {}
                }
            }
        }
        Ok(sizes)
    }

    /// Binds sizes and, for parameters of kind `plan`, integer tensors.
    ///
    /// # Errors
    /// [`Error::Input`] for a size that is missing, unknown, or outside its facts; for a tensor that is missing or breaks
    /// what the program states of it; and for sizes whose buffers exceed what memory can have.
    pub fn plan(
        &self,
        sizes: &BTreeMap<Symbol, i64>,
        tables: BTreeMap<Symbol, HostTensor>,
    ) -> Result<Plan, Error> {
        let mut sizes = sizes.clone();
        for (symbol, value) in self.sizes(tables.iter().map(|(name, tensor)| (name.as_str(), tensor)))? {
            sizes.entry(symbol).or_insert(value);
        }
        let tasks =
            task::Plan::new(&self.main.stages.kernel.tasks, &sizes, &Tables(tables.iter().collect()))?;
        Ok(Plan { sizes, tables, tasks })
    }

    /// Runs the program once. The outputs come in the order of the program's results; a result that is a state updated
    /// in place is in the caller's tensor and not among them.
    ///
    /// # Errors
    /// [`Error::Input`] for an argument that is missing, unknown, or has another type or shape than the plan says;
    /// [`Error::Memory`] beyond `control.memory_limit`; [`Error::Cancelled`]; [`Error::Stuck`]. After an error states
    /// are unspecified.
    pub fn run(
        &self,
        plan: &Plan,
        weights: &Weights,
        arguments: Arguments<'_>,
        control: &Control,
    ) -> Result<Vec<HostTensor>, Error> {
        let Arguments { inputs, mut states } = arguments;
        let main = self.given.main();
        for name in inputs.keys().chain(states.keys()) {
            let known = main.params.iter().any(|param| main.value(param.value).name == *name);
            if !known {
                let names: Vec<_> =
                    main.params.iter().map(|param| main.value(param.value).name.as_str()).collect();
                return Err(Error::Input {
                    subject: name.to_string(),
                    message: format!("no parameter has this name; there are {}", names.join(", ")),
                });
            }
        }
        let find = |name: &Symbol| {
            inputs.get(name).copied().or_else(|| weights.tensors.get(name)).or_else(|| plan.tables.get(name))
        };
        self.main.run(&plan.tasks, find, &mut states, control)
    }
}

impl Plan {
    /// The sizes that the plan binds.
    pub fn sizes(&self) -> &BTreeMap<Symbol, i64> {
        &self.sizes
    }

    /// How many tasks a run has.
    pub fn tasks(&self) -> u64 {
        self.tasks.tasks
    }
}

/// Elements of integer tensors by name.
struct Tables<'a>(BTreeMap<&'a Symbol, &'a HostTensor>);

impl Env for Tables<'_> {
    fn symbol(&self, _: &Symbol) -> Option<i64> {
        None
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        self.0.get(table)?.integer(index)
    }
}
