//! What a compile gives: `prepare` weights once, `plan` per binding of sizes, `run` many times.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compile::{Options, Stages};
use crate::dim::{Env, Symbol};
use crate::error::Error;
use crate::host::HostTensor;
use crate::journal::Journal;
use crate::runtime::{Control, Loaded, Memory, Slot};
use crate::target::Target;
use crate::task::{self, BufferKind};
use crate::tensor::{self, ParamKind};

/// A compiled program: serves every size, from any number of threads.
pub struct Executable {
    pub(crate) given: tensor::Program,
    pub(crate) prepare: Option<Unit>,
    pub(crate) main: Unit,
    pub(crate) journal: Journal,
}

/// A program that is loaded into a back end.
pub(crate) struct Unit {
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
    /// Lowers a program and loads it.
    pub(crate) fn new(
        program: tensor::Program,
        target: &Target,
        options: &Options,
        journal: &mut Journal,
    ) -> Result<Unit, Error> {
        let stages = Stages::lower(program, target, options, journal)?;
        let loaded = options.runtime.load(&stages.kernel)?;
        journal.entries.extend_from_slice(loaded.notes());
        Ok(Unit { stages, loaded })
    }

    /// Runs the unit; `find` gives the tensor of a read-only parameter, `states` those that it updates.
    fn run<'a>(
        &self,
        plan: &task::Plan,
        find: impl Fn(&Symbol) -> Option<&'a HostTensor>,
        states: &mut BTreeMap<Symbol, &mut HostTensor>,
        control: &Control,
    ) -> Result<Vec<HostTensor>, Error> {
        let tasks = &self.stages.kernel.tasks;
        let mut outputs = self.outputs(plan, control)?;
        let mut slots = Vec::new();
        let mut outputs_left: BTreeMap<_, _> = outputs.iter_mut().collect();
        let mut states_left: BTreeMap<_, _> = states.iter_mut().collect();
        for (buffer, size) in tasks.buffers.iter().zip(&plan.buffers) {
            let name = &buffer.name;
            let slot = match &buffer.kind {
                BufferKind::Temporary { .. } => continue,
                BufferKind::Output => outputs_left.remove(name).map(Slot::Write),
                BufferKind::Param(ParamKind::State) => {
                    states_left.remove(name).map(|tensor| Slot::Write(tensor))
                }
                BufferKind::Param(_) => find(name).map(Slot::Read),
            };
            slots.push(fitting(slot, buffer, size)?);
        }
        let tables = tasks.buffers.iter().zip(&slots).filter_map(|(buffer, slot)| match slot {
            Slot::Read(tensor) => Some((&buffer.name, *tensor)),
            Slot::Write(_) => None,
        });
        plan.check_tables(tasks, &Tables(tables.collect()))?;
        self.loaded.run(plan, &mut Memory { slots }, control)?;
        // Each result has a buffer of its own, so each is taken once; what is left out is a state.
        Ok(tasks.results.iter().filter_map(|&id| outputs.remove(&tasks.buffer(id).name)).collect())
    }

    /// Memory for the outputs, if it and the arena are within the limit.
    fn outputs(&self, plan: &task::Plan, control: &Control) -> Result<BTreeMap<Symbol, HostTensor>, Error> {
        let tasks = &self.stages.kernel.tasks;
        let outputs =
            || tasks.buffers.iter().zip(&plan.buffers).filter(|(b, _)| b.kind == BufferKind::Output);
        let needed = outputs().fold(plan.arena_bytes, |sum, (_, size)| sum.saturating_add(size.bytes as u64));
        if let Some(limit) = control.memory_limit.filter(|&limit| needed > limit) {
            return Err(Error::Memory { needed, limit, table: plan.memory_table(tasks) });
        }
        outputs()
            .map(|(buffer, size)| {
                Ok((buffer.name.clone(), HostTensor::zeros(buffer.dtype, size.extents.clone())?))
            })
            .collect()
    }
}

/// The tensor for a buffer, if it has the type and extents that the plan says.
fn fitting<'a>(
    slot: Option<Slot<'a>>,
    buffer: &task::Buffer,
    size: &task::BufferPlan,
) -> Result<Slot<'a>, Error> {
    let needs = format!("the program needs a {}{:?}", buffer.dtype, size.extents);
    let wrong = |message| Error::Input { subject: buffer.name.to_string(), message };
    let slot = slot.ok_or_else(|| wrong(format!("{needs}; none was given")))?;
    let tensor: &HostTensor = match &slot {
        Slot::Read(tensor) => tensor,
        Slot::Write(tensor) => tensor,
    };
    if tensor.dtype() == buffer.dtype && tensor.extents() == size.extents {
        Ok(slot)
    } else {
        Err(wrong(format!("{needs}, a {}{:?} was given", tensor.dtype(), tensor.extents())))
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

    /// The sizes that follow from tensors: every storage extent that determines a symbol ([`crate::dim::Dim::determines`])
    /// binds it, and every symbol with one possible value has that.
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
            if let Some((lo, _)) = facts.range(symbol).filter(|&(lo, hi)| Some(lo) == hi) {
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
                let Some((symbol, actual)) = extent.solve(actual as i64) else { continue };
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
        let facts = &self.given.facts;
        if let Some(unknown) = sizes.keys().find(|symbol| facts.range(symbol).is_none()) {
            let known: Vec<&str> = facts.symbols().map(Symbol::as_str).collect();
            let message = format!("the program has no such size; there are {}", known.join(", "));
            return Err(Error::Input { subject: unknown.to_string(), message });
        }
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
