//! What binding sizes produces: extents, bytes, offsets, thresholds, and queues as index arithmetic.

use super::ir::{Buffer, BufferKind, FamilyId, Program, Step};
use crate::dim::{Code, Dim, Env, EvalError, Facts, Symbol};
use crate::error::Error;
use std::collections::BTreeMap;

/// A task program at given sizes. Making it takes time in proportion to the program's text and to the number of event
/// cells; tasks are never listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The sizes that it binds.
    pub symbols: BTreeMap<Symbol, i64>,
    /// One per buffer of the program.
    pub buffers: Vec<BufferPlan>,
    /// Bytes of the arena of temporaries; at most `isize::MAX`.
    pub arena_bytes: u64,
    /// One per event of the program.
    pub events: Vec<EventPlan>,
    /// The notifies after which each cell is satisfied, for the cells of all events one after another.
    pub waits: Vec<u32>,
    /// One per family of the program.
    pub families: Vec<FamilyPlan>,
    /// The number of tasks.
    pub tasks: u64,
    steps: Vec<StepPlan>,
}

/// A buffer at given sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// The extents in storage order.
    pub extents: Vec<usize>,
    /// All elements, in bytes; at most `isize::MAX`.
    pub bytes: usize,
    /// The first byte in the arena, of a temporary.
    pub offset: Option<usize>,
}

/// An event tensor at given sizes: its cells are `waits[base..base + cells]`, row-major over its axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPlan {
    /// The extents of the axes.
    pub extents: Vec<usize>,
    /// The position of the first cell among the cells of all events.
    pub base: usize,
    /// The number of cells.
    pub cells: usize,
}

/// A family at given sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyPlan {
    /// The extents of all coordinates, those of enclosing repeats included.
    pub extents: Vec<u64>,
    /// The number of tasks, over all iterations of enclosing repeats.
    pub tasks: u64,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRef {
    /// Its family.
    pub family: FamilyId,
    /// Its coordinates, those of enclosing repeats first.
    pub coordinates: Vec<i64>,
}

/// A step with the number of tasks in it; `before` counts the tasks of the steps that precede it in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StepPlan {
    before: u64,
    tasks: u64,
    kind: StepKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum StepKind {
    /// The extents of the family's own coordinates.
    Family(FamilyId, Vec<u64>),
    /// The steps of one iteration and the number of tasks in them.
    Repeat(Vec<StepPlan>, u64),
}

impl Plan {
    /// Binds `symbols`, and the integer tensors known by now, to a program.
    ///
    /// # Errors
    /// [`Error::Input`] for a symbol that has no value or breaks a fact, for a table that breaks a fact, and for an extent that is
    /// negative or beyond 64 bits; [`Error::Memory`] for a buffer or an arena of more than `isize::MAX` bytes.
    pub fn new<B>(
        program: &Program<B>,
        symbols: &BTreeMap<Symbol, i64>,
        plan_tables: &dyn Env,
    ) -> Result<Plan, Error> {
        program.facts.verify_env(symbols).map_err(|fact| input(program.name.as_str(), fact.to_string()))?;
        let extents = (program.buffers.iter())
            .map(|buffer| buffer_extents(buffer, symbols))
            .collect::<Result<Vec<_>, _>>()?;
        check_tables(program, &extents, symbols, plan_tables)?;

        let sizes: Vec<u64> =
            program.buffers.iter().zip(&extents).map(|(b, e)| saturating_bytes(b, e)).collect();
        let table = || memory_table(&program.buffers, &extents, &sizes);
        let mut buffers = Vec::with_capacity(extents.len());
        for (buffer, (extents, &bytes)) in program.buffers.iter().zip(extents.iter().zip(&sizes)) {
            let fits = |bytes: u64| {
                usize::try_from(bytes)
                    .ok()
                    .filter(|&bytes| bytes <= isize::MAX as usize)
                    .ok_or_else(|| Error::Memory { needed: bytes, limit: isize::MAX as u64, table: table() })
            };
            let offset = match &buffer.kind {
                BufferKind::Temporary { offset } => Some(fits(bytes_of(&buffer.name, offset, symbols)?)?),
                _ => None,
            };
            buffers.push(BufferPlan { extents: extents.clone(), bytes: fits(bytes)?, offset });
        }
        let arena_bytes = bytes_of(&program.name, &program.arena, symbols)?;
        if arena_bytes > isize::MAX as u64 {
            return Err(Error::Memory { needed: arena_bytes, limit: isize::MAX as u64, table: table() });
        }

        let mut waits = Vec::new();
        let events = (program.events.iter())
            .map(|event| event_plan(event, symbols, &mut waits))
            .collect::<Result<Vec<_>, _>>()?;
        let families = (program.families.iter())
            .map(|family| {
                let extents = counts(&family.name, family.coordinates.iter().map(|(_, n)| n), symbols)?;
                Ok(FamilyPlan { tasks: product(&family.name, &extents)?, extents })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let (steps, tasks) = step_plans(program, &families, &program.steps, 0, symbols)?;
        Ok(Plan { symbols: symbols.clone(), buffers, arena_bytes, events, waits, families, tasks, steps })
    }

    /// The task at a position of the rank order; none past the last.
    pub fn task_at(&self, position: u64) -> Option<TaskRef> {
        let mut coordinates = Vec::new();
        let mut steps = &self.steps;
        let mut left = position;
        loop {
            let after = steps.partition_point(|step| step.before <= left);
            // Steps without tasks share their `before` with the next one; the last of them holds the position, if any.
            let step = steps.get(after.checked_sub(1)?)?;
            left -= step.before;
            if left >= step.tasks {
                return None;
            }
            match &step.kind {
                StepKind::Repeat(inner, each) => {
                    coordinates.push(i64::try_from(left.checked_div(*each)?).ok()?);
                    left = left.checked_rem(*each)?;
                    steps = inner;
                }
                StepKind::Family(family, extents) => {
                    let at = coordinates.len();
                    for &extent in extents.iter().rev() {
                        coordinates.insert(at, i64::try_from(left.checked_rem(extent)?).ok()?);
                        left = left.checked_div(extent)?;
                    }
                    return Some(TaskRef { family: *family, coordinates });
                }
            }
        }
    }

    /// The `k`-th task of a worker's queue: tasks are dealt to `workers` one by one in rank order. None past the last.
    pub fn task(&self, worker: usize, workers: usize, k: u64) -> Option<TaskRef> {
        if worker >= workers {
            return None;
        }
        let position =
            k.checked_mul(u64::try_from(workers).ok()?)?.checked_add(u64::try_from(worker).ok()?)?;
        self.task_at(position)
    }

    /// The length of a worker's queue.
    pub fn queue_length(&self, worker: usize, workers: usize) -> u64 {
        let (worker, workers) = (worker as u64, workers as u64);
        if worker >= workers { 0 } else { self.tasks.saturating_sub(worker).div_ceil(workers) }
    }

    /// The number of cells of all events.
    pub fn cells(&self) -> usize {
        self.waits.len()
    }

    /// Checks what the program's facts say of the integer tensors that `tables` gives.
    ///
    /// # Errors
    /// [`Error::Input`] for an element that breaks a fact.
    pub fn check_tables<B>(&self, program: &Program<B>, tables: &dyn Env) -> Result<(), Error> {
        let extents: Vec<Vec<usize>> = self.buffers.iter().map(|b| b.extents.clone()).collect();
        check_tables(program, &extents, &self.symbols, tables)
    }

    /// The buffers and their bytes, largest first, a line each.
    pub fn memory_table<B>(&self, program: &Program<B>) -> String {
        let extents: Vec<Vec<usize>> = self.buffers.iter().map(|b| b.extents.clone()).collect();
        let sizes: Vec<u64> = self.buffers.iter().map(|b| b.bytes as u64).collect();
        memory_table(&program.buffers, &extents, &sizes)
    }
}

fn input(subject: &str, message: impl Into<String>) -> Error {
    Error::Input { subject: subject.to_string(), message: message.into() }
}

fn value(subject: &Symbol, dim: &Dim, symbols: &BTreeMap<Symbol, i64>) -> Result<i64, Error> {
    dim.eval(symbols).map_err(|error| match error {
        EvalError::Unbound(symbol) => input(symbol.as_str(), "this size has no value; bind it"),
        other => input(subject.as_str(), format!("`{dim}` has no value: {other}")),
    })
}

fn bytes_of(subject: &Symbol, dim: &Dim, symbols: &BTreeMap<Symbol, i64>) -> Result<u64, Error> {
    let bytes = value(subject, dim, symbols)?;
    u64::try_from(bytes)
        .map_err(|_| input(subject.as_str(), format!("`{dim}` is {bytes}, which is negative")))
}

fn buffer_extents(buffer: &Buffer, symbols: &BTreeMap<Symbol, i64>) -> Result<Vec<usize>, Error> {
    let extent = |dim: &Dim| {
        let extent = value(&buffer.name, dim, symbols)?;
        usize::try_from(extent).map_err(|_| {
            input(buffer.name.as_str(), format!("the extent `{dim}` is {extent}, which is negative"))
        })
    };
    buffer.extents.iter().map(extent).collect()
}

/// The bytes of a buffer, `u64::MAX` where they do not fit.
fn saturating_bytes(buffer: &Buffer, extents: &[usize]) -> u64 {
    if extents.contains(&0) {
        return 0;
    }
    extents.iter().fold(buffer.dtype.bytes() as u64, |bytes, &extent| bytes.saturating_mul(extent as u64))
}

/// Extents that count: a negative one is 0.
fn counts<'a>(
    subject: &Symbol,
    dims: impl Iterator<Item = &'a Dim>,
    symbols: &BTreeMap<Symbol, i64>,
) -> Result<Vec<u64>, Error> {
    dims.map(|dim| Ok(u64::try_from(value(subject, dim, symbols)?).unwrap_or(0))).collect()
}

fn product(subject: &Symbol, extents: &[u64]) -> Result<u64, Error> {
    if extents.contains(&0) {
        return Ok(0);
    }
    (extents.iter())
        .try_fold(1u64, |product, &extent| product.checked_mul(extent))
        .filter(|&product| product <= i64::MAX as u64)
        .ok_or_else(|| input(subject.as_str(), "it has more than 2^63 tasks; use smaller sizes"))
}

fn event_plan(
    event: &super::ir::Event,
    symbols: &BTreeMap<Symbol, i64>,
    waits: &mut Vec<u32>,
) -> Result<EventPlan, Error> {
    let extents = counts(&event.name, event.axes.iter().map(|(_, n)| n), symbols)?;
    let cells = product(&event.name, &extents)?;
    let cells =
        usize::try_from(cells).ok().filter(|cells| cells.saturating_add(waits.len()) <= u32::MAX as usize);
    let cells =
        cells.ok_or_else(|| input(event.name.as_str(), "it has more than 2^32 cells; use smaller sizes"))?;
    let base = waits.len();
    let names: Vec<Symbol> = event.axes.iter().map(|(name, _)| name.clone()).collect();
    let wrong = |error: EvalError| match error {
        EvalError::Unbound(symbol) => input(symbol.as_str(), "this size has no value; bind it"),
        other => input(event.name.as_str(), format!("its wait `{}` has no value: {other}", event.wait)),
    };
    let narrow = |wait: i64| {
        u32::try_from(wait).map_err(|_| {
            input(event.name.as_str(), format!("a cell waits for {wait} notifies; use smaller sizes"))
        })
    };
    if cells > 0 {
        let code = Code::dim(&event.wait, &names, symbols).map_err(wrong)?;
        waits.reserve(cells);
        match code.as_constant() {
            Some(wait) => waits.resize(base + cells, narrow(wait)?),
            None => {
                let mut cell = vec![0i64; extents.len()];
                for _ in 0..cells {
                    waits.push(narrow(code.eval(&cell, &()).map_err(wrong)?)?);
                    step(&mut cell, &extents);
                }
            }
        }
    }
    let extents = extents.into_iter().map(|extent| extent as usize).collect();
    Ok(EventPlan { extents, base, cells })
}

/// The next index in row-major order.
fn step(index: &mut [i64], extents: &[u64]) {
    for (i, &extent) in index.iter_mut().zip(extents).rev() {
        *i += 1;
        if (*i as u64) < extent {
            return;
        }
        *i = 0;
    }
}

fn step_plans<B>(
    program: &Program<B>,
    families: &[FamilyPlan],
    steps: &[Step],
    depth: usize,
    symbols: &BTreeMap<Symbol, i64>,
) -> Result<(Vec<StepPlan>, u64), Error> {
    let mut plans = Vec::with_capacity(steps.len());
    let mut before = 0u64;
    for step in steps {
        let (kind, tasks) = match step {
            Step::Family(id) => {
                let name = program.families.get(id.0 as usize).map_or(&program.name, |family| &family.name);
                let own =
                    families.get(id.0 as usize).and_then(|plan| plan.extents.get(depth..)).unwrap_or(&[]);
                (StepKind::Family(*id, own.to_vec()), product(name, own)?)
            }
            Step::Repeat { coordinate, extent, steps } => {
                let (inner, each) = step_plans(program, families, steps, depth + 1, symbols)?;
                let times = counts(coordinate, std::iter::once(extent), symbols)?;
                (StepKind::Repeat(inner, each), product(coordinate, &[times[0], each])?)
            }
        };
        plans.push(StepPlan { before, tasks, kind });
        before = (before.checked_add(tasks).filter(|&sum| sum <= i64::MAX as u64))
            .ok_or_else(|| input(program.name.as_str(), "it has more than 2^63 tasks; use smaller sizes"))?;
    }
    Ok((plans, before))
}

/// Checks what the facts say of the tables that are known.
fn check_tables<B>(
    program: &Program<B>,
    extents: &[Vec<usize>],
    symbols: &BTreeMap<Symbol, i64>,
    tables: &dyn Env,
) -> Result<(), Error> {
    for name in program.facts.tables() {
        let Some(id) = program.find_buffer(name) else { continue };
        let extents: Vec<u64> = extents[id.0 as usize].iter().map(|&extent| extent as u64).collect();
        let count = product(name, &extents)?;
        let mut index = vec![0i64; extents.len()];
        if count == 0 || tables.element(name, &index).is_none() {
            continue;
        }
        let bounds = match program.facts.table_range(name) {
            Some((lo, hi)) => Some((value(name, lo, symbols)?, value(name, hi, symbols)?)),
            None => None,
        };
        for _ in 0..count {
            let element = tables.element(name, &index);
            if let (Some(element), Some((lo, hi))) = (element, bounds)
                && !(lo..=hi).contains(&element)
            {
                let message = format!("element {index:?} is {element}, which is outside {lo}..={hi}");
                return Err(input(name.as_str(), message));
            }
            step(&mut index, &extents);
        }
        check_splits(name, &program.facts, symbols, tables)?;
    }
    Ok(())
}

fn check_splits(
    name: &Symbol,
    facts: &Facts,
    symbols: &BTreeMap<Symbol, i64>,
    tables: &dyn Env,
) -> Result<(), Error> {
    let Some((parts, total)) = facts.splits(name) else { return Ok(()) };
    let (parts, total) = (value(name, parts, symbols)?, value(name, total, symbols)?);
    let offset = |part: i64| {
        tables.element(name, &[part]).ok_or_else(|| input(name.as_str(), format!("it has no element {part}")))
    };
    let mut last = offset(0)?;
    if last != 0 {
        return Err(input(name.as_str(), format!("offsets start at 0, but element 0 is {last}")));
    }
    for part in 1..=parts {
        let next = offset(part)?;
        if next < last {
            let message = format!("offsets do not decrease, but element {part} is {next}, after {last}");
            return Err(input(name.as_str(), message));
        }
        last = next;
    }
    if last != total {
        let message = format!("the last offset is the total, {total}, but element {parts} is {last}");
        return Err(input(name.as_str(), message));
    }
    Ok(())
}

fn memory_table(buffers: &[Buffer], extents: &[Vec<usize>], sizes: &[u64]) -> String {
    let mut rows: Vec<(u64, &Buffer, &Vec<usize>)> = buffers
        .iter()
        .zip(extents)
        .zip(sizes)
        .map(|((buffer, extents), &bytes)| (bytes, buffer, extents))
        .collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    let lines: Vec<String> = (rows.iter())
        .map(|(bytes, buffer, extents)| format!("{bytes:>20}  {}: {}{extents:?}", buffer.name, buffer.dtype))
        .collect();
    lines.join("\n")
}
