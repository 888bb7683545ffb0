//! An instance: all tasks of a program at one assignment of sizes, in rank order, with the cells they wait for and
//! notify and the elements they touch.

use super::compiled::{Compiled, CompiledEdge, CompiledIndex};
use super::cuboid::Cuboid;
use super::sample::Sample;
use super::sizes::Sizes;
use super::{Checked, Reason, Violation};
use crate::dim::{Dim, EvalError, Symbol};
use crate::task::ir::{Buffer, BufferId, FamilyId, Program, Step};

/// The most cells of all events together.
pub(super) const MAX_CELLS: i64 = 1 << 20;

/// Elements that a task touches, one box of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The buffer.
    pub buffer: BufferId,
    /// The elements.
    pub elements: Cuboid,
    /// Whether they are written; else they are read.
    pub write: bool,
    /// Whether that happens in the prologue.
    pub prologue: bool,
    /// Whether they are read to find an index or an extent.
    pub table: bool,
    /// Whether every element of the box is touched; else some of them may not be.
    pub exact: bool,
}

/// What a body is asked about.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The buffers of the program.
    pub buffers: &'a [Buffer],
    /// Their extents.
    pub extents: &'a [Vec<i64>],
    /// The coordinates of the family and their extents.
    pub coordinates: &'a [(Symbol, Dim)],
    /// The sizes.
    pub sizes: &'a Sizes,
}

/// Appends what the task at the given coordinates touches, in the order in which it does; false, and nothing appended,
/// where that is too much to list.
pub type Toucher<'a> = Box<dyn Fn(&[i64], &mut Vec<Touch>) -> Result<bool, EvalError> + 'a>;

/// A kind of body that can say what it touches.
pub trait Touches {
    /// The body at one assignment of sizes; none where the declared regions are all that is known.
    fn toucher<'a>(&'a self, site: &Site<'a>) -> Result<Option<Toucher<'a>>, Violation>;
}

/// A body without contents: the declared regions are what it touches.
impl Touches for () {
    fn toucher<'a>(&'a self, _: &Site<'a>) -> Result<Option<Toucher<'a>>, Violation> {
        Ok(None)
    }
}

/// A touch and when it happens.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) touch: Touch,
    /// How many of the task's waits come before it.
    pub(super) waits: usize,
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) family: usize,
    pub(super) coordinates: Vec<i64>,
    /// How many of the coordinates are those of repeats.
    pub(super) repeats: usize,
    /// The cells of each wait.
    pub(super) waits: Vec<Vec<usize>>,
    /// The cells it notifies, as often as it does.
    pub(super) notifies: Vec<usize>,
    /// What it touches, in order.
    pub(super) moments: Vec<Moment>,
    /// What it declares to write.
    pub(super) writes: Vec<(BufferId, Cuboid)>,
}

/// All tasks at one assignment of sizes.
pub(super) struct Instance<'a> {
    pub(super) sizes: &'a Sizes,
    /// The extents of each buffer.
    pub(super) extents: Vec<Vec<i64>>,
    /// The tasks in rank order.
    pub(super) tasks: Vec<Task>,
    /// For each event the first of its cells, and its extents.
    pub(super) events: Vec<(usize, Vec<i64>)>,
    /// The number of cells.
    pub(super) cells: usize,
    /// The tasks that are listed, if not all.
    pub(super) sample: Option<Sample>,
    /// Of a sample, each cell that its tasks mean, by the number that stands for it in the tasks.
    pub(super) numbered: Option<Vec<usize>>,
    /// Of a sample, how often all tasks of the program notify each cell, where that was counted.
    pub(super) totals: Option<Vec<Option<i64>>>,
}

pub(super) fn value_error(place: impl std::fmt::Display, sizes: &Sizes, error: EvalError) -> Violation {
    Violation::new(Reason::Value, place, format!("{error} (at {sizes})"))
}

impl<'a> Instance<'a> {
    /// All tasks, or those of a sample; none where a buffer would have a negative extent.
    pub(super) fn build<B: Touches>(
        program: &'a Program<B>,
        sizes: &'a Sizes,
        sample: Option<Sample>,
        thresholds: &[Checked],
    ) -> Result<Option<Instance<'a>>, Violation> {
        let mut extents = Vec::with_capacity(program.buffers.len());
        for buffer in &program.buffers {
            let found: Result<Vec<i64>, EvalError> =
                buffer.extents.iter().map(|extent| extent.eval(sizes)).collect();
            let found =
                found.map_err(|error| value_error(format!("buffer {}", buffer.name), sizes, error))?;
            if found.iter().any(|&extent| extent < 0) {
                return Ok(None);
            }
            extents.push(found);
        }
        let mut instance = Instance {
            sizes,
            extents,
            tasks: Vec::new(),
            events: Vec::new(),
            cells: 0,
            sample,
            numbered: None,
            totals: None,
        };
        instance.lay_out_events(program)?;
        let extents = instance.extents.clone();
        let mut families = Vec::with_capacity(program.families.len());
        for family in &program.families {
            families.push(Compiled::new(program, family, sizes, &extents)?);
        }
        instance.run(program, &families, &program.steps, &mut Vec::new())?;
        if sample.is_some() {
            instance.complete(program, &families, thresholds)?;
        }
        Ok(Some(instance))
    }

    fn lay_out_events<B>(&mut self, program: &Program<B>) -> Result<(), Violation> {
        for event in &program.events {
            let place = || format!("event {}", event.name);
            let found: Result<Vec<i64>, EvalError> =
                event.axes.iter().map(|(_, n)| Ok(n.eval(self.sizes)?.max(0))).collect();
            let found = found.map_err(|error| value_error(place(), self.sizes, error))?;
            let count = found.iter().try_fold(1i64, |n, &extent| n.checked_mul(extent));
            let most = if self.sample.is_some() { i64::MAX } else { MAX_CELLS };
            let Some(count) = count.filter(|count| *count <= most - self.cells as i64) else {
                let message = format!("more than {most} cells (at {})", self.sizes);
                return Err(Violation::new(Reason::TooLarge, place(), message));
            };
            self.events.push((self.cells, found));
            self.cells += count as usize;
        }
        Ok(())
    }

    /// Appends the tasks of the steps.
    fn run<B>(
        &mut self,
        program: &Program<B>,
        families: &[Compiled<'_>],
        steps: &[Step],
        repeats: &mut Vec<(Symbol, i64)>,
    ) -> Result<(), Violation> {
        for step in steps {
            match step {
                Step::Family(FamilyId(id)) => {
                    if let Some(family) = families.get(*id as usize) {
                        self.run_family(program, *id as usize, family, repeats)?;
                    }
                }
                Step::Repeat { coordinate, extent, steps } => {
                    let place = || format!("repeat {coordinate}");
                    let count =
                        extent.eval(self.sizes).map_err(|error| value_error(place(), self.sizes, error))?;
                    for value in self.sample.map_or(0..count, |sample| sample.iterations(count)) {
                        repeats.push((coordinate.clone(), value));
                        self.run(program, families, steps, repeats)?;
                        repeats.pop();
                    }
                }
            }
        }
        Ok(())
    }

    fn run_family<B>(
        &mut self,
        program: &Program<B>,
        id: usize,
        family: &Compiled<'_>,
        repeats: &[(Symbol, i64)],
    ) -> Result<(), Violation> {
        let outer = repeats.len();
        let mut at: Vec<i64> = repeats.iter().map(|(_, value)| *value).collect();
        at.resize(family.extents.len().max(outer), 0);
        self.run_axis(program, id, family, outer, outer, &mut at)
    }

    /// The tasks whose first `axis` coordinates are those of `at`.
    fn run_axis<B>(
        &mut self,
        program: &Program<B>,
        id: usize,
        family: &Compiled<'_>,
        axis: usize,
        repeats: usize,
        at: &mut Vec<i64>,
    ) -> Result<(), Violation> {
        let Some(&count) = family.extents.get(axis) else {
            let task = self.task(program, id, family, repeats, at)?;
            self.tasks.push(task);
            return Ok(());
        };
        let all = Sample { window: i64::MAX, last: false };
        for value in self.sample.unwrap_or(all).values(count) {
            at[axis] = value;
            self.run_axis(program, id, family, axis + 1, repeats, at)?;
        }
        at[axis] = 0;
        Ok(())
    }

    fn task<B>(
        &self,
        program: &Program<B>,
        id: usize,
        family: &Compiled<'_>,
        repeats: usize,
        at: &[i64],
    ) -> Result<Task, Violation> {
        let place = || format!("tasks {}{at:?}", family.name);
        let failed = |error| value_error(place(), self.sizes, error);
        let mut moments = Vec::new();
        let mut waits = Vec::with_capacity(family.waits.len());
        for (index, edge) in family.waits.iter().enumerate() {
            edge.tables(at, self, index, &mut moments).map_err(failed)?;
            waits.push(self.cells_of(program, family, edge, at)?);
        }
        let mut body = Vec::new();
        let listed = match &family.toucher {
            Some(toucher) => toucher(at, &mut body).map_err(failed)?,
            None => false,
        };
        let mut touches = Vec::new();
        if !listed {
            // Nothing reads a region when the task runs, but what the body reads to find its elements is not known.
            for table in family.reads.iter().chain(&family.writes).flat_map(|region| &region.tables) {
                table.touch(at, self, &mut touches).map_err(failed)?;
            }
        }
        touches.append(&mut body);
        let mut notifies = Vec::new();
        let mut late = Vec::new();
        for edge in &family.notifies {
            edge.tables(at, self, waits.len(), &mut late).map_err(failed)?;
            notifies.extend(self.cells_of(program, family, edge, at)?);
        }
        let reads = family.regions(&family.reads, at, self, listed).map_err(failed)?;
        let writes = family.regions(&family.writes, at, self, listed).map_err(failed)?;
        if !listed {
            let declared = |regions: &[(BufferId, Cuboid)], write: bool| -> Vec<Touch> {
                let touch = |(buffer, elements): &(BufferId, Cuboid)| Touch {
                    buffer: *buffer,
                    elements: elements.clone(),
                    write,
                    prologue: false,
                    table: false,
                    exact: write,
                };
                regions.iter().map(touch).collect()
            };
            touches.extend(declared(&reads, false));
            touches.extend(declared(&writes, true));
        }
        let moment = |touch: Touch| Moment { waits: if touch.prologue { 0 } else { waits.len() }, touch };
        let (early, body): (Vec<Touch>, Vec<Touch>) = touches.into_iter().partition(|touch| touch.prologue);
        let mut all: Vec<Moment> = early.into_iter().map(moment).collect();
        all.extend(moments);
        all.extend(body.into_iter().map(moment));
        all.extend(late);
        all.retain(|moment| !moment.touch.elements.is_empty());
        for moment in &all {
            let declared = if moment.touch.write { &writes } else { &reads };
            self.check_touch(program, &moment.touch, declared, &place())?;
        }
        Ok(Task { family: id, coordinates: at.to_vec(), repeats, waits, notifies, moments: all, writes })
    }

    /// A touch lies inside its buffer and inside what the family declares.
    fn check_touch<B>(
        &self,
        program: &Program<B>,
        touch: &Touch,
        declared: &[(BufferId, Cuboid)],
        place: &str,
    ) -> Result<(), Violation> {
        let buffer = program.buffer(touch.buffer);
        let inside = Cuboid::whole(&self.extents[touch.buffer.0 as usize]);
        if !inside.contains(&touch.elements) {
            let message = format!(
                "it {} `{}{}`, which has only {inside} (at {})",
                verb(touch),
                buffer.name,
                touch.elements,
                self.sizes
            );
            return Err(Violation::new(Reason::Bounds, place, message));
        }
        let own: Vec<Cuboid> =
            declared.iter().filter(|(id, _)| *id == touch.buffer).map(|(_, region)| region.clone()).collect();
        if touch.exact && !touch.elements.is_covered(&own) {
            let declared: Vec<String> = own.iter().map(|region| format!("{}{region}", buffer.name)).collect();
            let declared =
                if declared.is_empty() { "nothing of it".to_string() } else { declared.join(", ") };
            let message = format!(
                "it {} `{}{}`, but declares {declared} (at {})",
                verb(touch),
                buffer.name,
                touch.elements,
                self.sizes
            );
            return Err(Violation::new(Reason::Undeclared, place, message));
        }
        Ok(())
    }

    /// The cells that an edge means, each once.
    pub(super) fn cells_of<B>(
        &self,
        program: &Program<B>,
        family: &Compiled<'_>,
        edge: &CompiledEdge,
        at: &[i64],
    ) -> Result<Vec<usize>, Violation> {
        let Some((base, extents)) = self.events.get(edge.event) else { return Ok(Vec::new()) };
        let mut cells = vec![0usize];
        for (index, &extent) in edge.index.iter().zip(extents) {
            let along = self.cells_along(program, family, edge.event, index, extent, at)?;
            let next =
                |cell: &usize| along.iter().map(|&i| cell * extent as usize + i as usize).collect::<Vec<_>>();
            cells = cells.iter().flat_map(next).collect();
        }
        cells.iter_mut().for_each(|cell| *cell += base);
        Ok(cells)
    }

    /// The cells that an index of an edge means, along an axis of the event with this extent.
    pub(super) fn cells_along<B>(
        &self,
        program: &Program<B>,
        family: &Compiled<'_>,
        event: usize,
        index: &CompiledIndex,
        extent: i64,
        at: &[i64],
    ) -> Result<Vec<i64>, Violation> {
        let place = || format!("tasks {}{at:?}", family.name);
        let along = index.cells(at, self.sizes).map_err(|error| value_error(place(), self.sizes, error))?;
        if let Some(outside) = along.iter().find(|&&cell| cell < 0 || cell >= extent) {
            let name = &program.events[event].name;
            let message = format!(
                "an edge means cell {outside} of {extent} along an axis of `{name}` (at {})",
                self.sizes
            );
            return Err(Violation::new(Reason::Cell, place(), message));
        }
        Ok(along)
    }

    /// The event of a cell, and the cell's coordinates.
    pub(super) fn cell(&self, cell: usize) -> (usize, Vec<i64>) {
        let cell = self.numbered.as_ref().and_then(|cells| cells.get(cell)).map_or(cell, |cell| *cell);
        let event = self.events.iter().rposition(|(base, _)| *base <= cell).unwrap_or(0);
        let Some((base, extents)) = self.events.get(event) else { return (0, Vec::new()) };
        let mut rest = (cell - base) as i64;
        let mut at = vec![0; extents.len()];
        for (i, &extent) in at.iter_mut().zip(extents).rev() {
            *i = rest % extent.max(1);
            rest /= extent.max(1);
        }
        (event, at)
    }

    /// The name of a task, such as `attn[m = 2, h = 0]`.
    pub(super) fn name<B>(&self, program: &Program<B>, task: usize) -> String {
        let Some(task) = self.tasks.get(task) else { return "a task".to_string() };
        let family = &program.families[task.family];
        let at: Vec<String> = family
            .coordinates
            .iter()
            .zip(&task.coordinates)
            .map(|((name, _), value)| format!("{name} = {value}"))
            .collect();
        format!("{}[{}]", family.name, at.join(", "))
    }
}

fn verb(touch: &Touch) -> &'static str {
    if touch.write { "writes" } else { "reads" }
}
