//! Memory: each element written before it is read, by whom it must be, and never overwritten too early.
//!
//! Accesses of one buffer are compared on a grid: the boundaries of all boxes cut each axis into segments, so that the
//! elements of a grid cell are touched alike. Walking the accesses in rank order, a cell remembers its last writer and
//! the readers since; it is enough to order each access after those, the rest follows by transitivity. Temporaries that
//! share bytes of the arena are compared box by box.

use super::cuboid::Cuboid;
use super::grid::Grid;
use super::instance::{Instance, Moment};
use super::order::Order;
use super::{Checked, MAX_GRID, Reason, Violation, results};
use crate::dim::{Dim, Proof};
use crate::target::Target;
use crate::task::ir::{Buffer, BufferKind, Program, Tier};
use std::collections::BTreeMap;

type Result<T = ()> = std::result::Result<T, Violation>;

/// The most contiguous runs of a box that are compared one by one.
const MAX_RUNS: usize = 256;

/// The bytes of a buffer, over symbols.
fn bytes(buffer: &Buffer) -> Dim {
    let elements: Dim = buffer.extents.iter().cloned().product();
    elements * buffer.dtype.bytes() as i64
}

/// Every temporary lies inside the arena and is aligned, unless sizes must decide.
pub(super) fn check_arena<B>(program: &Program<B>) -> Result<Checked> {
    let mut checked = Checked::Proved;
    let facts = &program.facts;
    for buffer in &program.buffers {
        let BufferKind::Temporary { offset } = &buffer.kind else { continue };
        let place = format!("buffer {}", buffer.name);
        let width = buffer.dtype.bytes() as i64;
        let aligned = facts.divides(width, offset);
        if aligned == Proof::No {
            let message = format!("its offset {offset} is no multiple of {width} bytes");
            return Err(Violation::new(Reason::Alignment, place, message));
        }
        let end = offset + bytes(buffer);
        let inside = facts.le(&end, &program.arena);
        let starts = facts.nonneg(offset);
        if inside == Proof::No || starts == Proof::No {
            let message =
                format!("its bytes {offset}..{end} lie outside the arena of {} bytes", program.arena);
            return Err(Violation::new(Reason::Arena, place, message));
        }
        if [aligned, inside, starts].contains(&Proof::Unknown) {
            checked = Checked::Enumerated;
        }
    }
    Ok(checked)
}

/// The bytes of each nonempty temporary, first and first behind.
fn place_temporaries<B>(program: &Program<B>, instance: &Instance<'_>) -> Result<Vec<Option<(i128, i128)>>> {
    let sizes = instance.sizes;
    let value = |dim: &Dim, place: &str| {
        dim.eval(sizes).map_err(|error| Violation::new(Reason::Value, place, format!("{error} (at {sizes})")))
    };
    let arena = i128::from(value(&program.arena, "arena")?);
    let mut places = Vec::with_capacity(program.buffers.len());
    for (buffer, extents) in program.buffers.iter().zip(&instance.extents) {
        let BufferKind::Temporary { offset } = &buffer.kind else {
            places.push(None);
            continue;
        };
        let place = format!("buffer {}", buffer.name);
        let first = i128::from(value(offset, &place)?);
        let width = buffer.dtype.bytes() as i128;
        let length = extents.iter().map(|&n| i128::from(n)).product::<i128>() * width;
        if length == 0 {
            places.push(None);
            continue;
        }
        if first % width != 0 {
            let message = format!("its offset {first} is no multiple of {width} bytes (at {sizes})");
            return Err(Violation::new(Reason::Alignment, place, message));
        }
        if first < 0 || first + length > arena {
            let message = format!(
                "its bytes {first}..{} lie outside the arena of {arena} bytes (at {sizes})",
                first + length
            );
            return Err(Violation::new(Reason::Arena, place, message));
        }
        places.push(Some((first, first + length)));
    }
    Ok(places)
}

/// A moment of a task, in the order of ranks and, within a task, of execution.
#[derive(Clone, Copy)]
struct Event<'a> {
    task: usize,
    /// Its position among all.
    time: usize,
    moment: &'a Moment,
}

struct Checker<'a, B> {
    program: &'a Program<B>,
    instance: &'a Instance<'a>,
    order: &'a Order,
    places: Vec<Option<(i128, i128)>>,
    /// The events of each buffer.
    events: Vec<Vec<Event<'a>>>,
}

/// Checks all accesses of an instance.
pub(super) fn check<B>(
    program: &Program<B>,
    target: &Target,
    instance: &Instance<'_>,
    order: &Order,
) -> Result {
    let places = place_temporaries(program, instance)?;
    let mut events: Vec<Vec<Event<'_>>> = program.buffers.iter().map(|_| Vec::new()).collect();
    let mut time = 0;
    for (task, moments) in instance.tasks.iter().enumerate().map(|(index, task)| (index, &task.moments)) {
        for moment in moments {
            events[moment.touch.buffer.0 as usize].push(Event { task, time, moment });
            time += 1;
        }
    }
    let checker = Checker { program, instance, order, places, events };
    for index in 0..program.buffers.len() {
        checker.check_tier(target, index)?;
        checker.check_buffer(index)?;
    }
    // Who writes the rest of a result may be outside a sample.
    if instance.sample.is_some() { Ok(()) } else { results::check(program, instance) }
}

/// The state of a grid cell: the last write and the reads since.
#[derive(Clone, Default)]
struct Cell<'a> {
    writer: Option<Event<'a>>,
    readers: Vec<Event<'a>>,
}

impl<'a, B> Checker<'a, B> {
    fn name(&self, event: Event<'_>) -> String {
        self.instance.name(self.program, event.task)
    }

    fn buffer(&self, index: usize) -> &Buffer {
        &self.program.buffers[index]
    }

    fn refuse<T>(&self, reason: Reason, event: Event<'_>, message: String) -> Result<T> {
        let family = &self.program.families[self.instance.tasks[event.task].family];
        Err(Violation::new(
            reason,
            format!("tasks {}", family.name),
            format!("{message} (at {})", self.instance.sizes),
        ))
    }

    /// A buffer near one worker is touched by one task only, unless there is only one worker.
    fn check_tier(&self, target: &Target, index: usize) -> Result {
        let buffer = self.buffer(index);
        let first = self.events[index].first().map(|event| event.task);
        let shared = self.events[index].iter().find(|event| Some(event.task) != first);
        match shared {
            Some(event) if buffer.tier != Tier::Memory && target.workers > 1 => {
                let message = format!("`{}` lies near one worker, but several tasks use it", buffer.name);
                self.refuse(Reason::Tier, *event, message)
            }
            _ => Ok(()),
        }
    }

    fn check_buffer(&self, index: usize) -> Result {
        let events = &self.events[index];
        let buffer = self.buffer(index);
        let filled = matches!(buffer.kind, BufferKind::Param(_));
        let partners: Vec<usize> =
            (0..self.program.buffers.len()).filter(|&other| self.share(index, other)).collect();
        let written = events.iter().any(|event| event.moment.touch.write);
        if filled && !written {
            return Ok(());
        }
        let extents = &self.instance.extents[index];
        let Some(grid) = Grid::new(extents, events.iter().map(|event| &event.moment.touch.elements)) else {
            let message = format!(
                "`{}` is cut into more than {MAX_GRID} parts (at {})",
                buffer.name, self.instance.sizes
            );
            return Err(Violation::new(Reason::TooLarge, format!("buffer {}", buffer.name), message));
        };
        let mut cells: Vec<Cell<'a>> = vec![Cell::default(); grid.count().unwrap_or(0)];
        for event in events {
            for at in grid.cells(&event.moment.touch.elements) {
                if event.moment.touch.write {
                    self.write(index, &grid, at, &mut cells[at], *event)?;
                } else {
                    self.read(index, &grid, at, &mut cells[at], *event, filled)?;
                    for &partner in &partners {
                        self.check_clobber(index, partner, &grid, at, &cells[at], *event)?;
                    }
                }
            }
        }
        for &partner in partners.iter().filter(|&&partner| partner > index) {
            self.check_shared(index, partner)?;
        }
        Ok(())
    }

    /// Whether two different temporaries share bytes.
    fn share(&self, a: usize, b: usize) -> bool {
        match (self.places[a], self.places[b]) {
            (Some(x), Some(y)) => a != b && x.0 < y.1 && y.0 < x.1,
            _ => false,
        }
    }

    /// Whether `first` is over before `second` happens; a task is in order with itself.
    fn ordered(&self, first: Event<'_>, second: Event<'_>) -> bool {
        first.task == second.task
            || self.order.holds(self.instance, first.task, second.task, second.moment.waits)
    }

    fn read(
        &self,
        index: usize,
        grid: &Grid,
        at: usize,
        cell: &mut Cell<'a>,
        event: Event<'a>,
        filled: bool,
    ) -> Result {
        let name = &self.buffer(index).name;
        match cell.writer {
            None if !filled && event.moment.touch.exact && self.instance.sample.is_none() => {
                let message = format!(
                    "{} reads `{name}{}`, which no task writes before",
                    self.name(event),
                    grid.elements(at)
                );
                return self.refuse(Reason::Uninitialised, event, message);
            }
            Some(writer) if !self.ordered(writer, event) => {
                let table = event.moment.touch.table;
                let reason = if table { Reason::TableUnordered } else { Reason::ReadUnordered };
                let message = format!(
                    "no event orders {}, which reads `{name}{}`, after {}, which writes it",
                    self.name(event),
                    grid.elements(at),
                    self.name(writer)
                );
                return self.refuse(reason, event, message);
            }
            _ => {}
        }
        if cell.readers.last().is_none_or(|reader| reader.task != event.task) {
            cell.readers.push(event);
        }
        Ok(())
    }

    fn write(&self, index: usize, grid: &Grid, at: usize, cell: &mut Cell<'a>, event: Event<'a>) -> Result {
        let name = &self.buffer(index).name;
        if let Some(writer) = cell.writer.filter(|writer| writer.task != event.task) {
            let (a, b) = (&self.instance.tasks[writer.task], &self.instance.tasks[event.task]);
            let exact = writer.moment.touch.exact && event.moment.touch.exact;
            let version = |task: &super::instance::Task| task.coordinates[..task.repeats].to_vec();
            if a.family == b.family && exact && version(a) == version(b) {
                let message = format!(
                    "{} and {} both write `{name}{}`",
                    self.name(writer),
                    self.name(event),
                    grid.elements(at)
                );
                return self.refuse(Reason::WrittenTwice, event, message);
            }
            if !self.ordered(writer, event) {
                let message = format!(
                    "no event orders {}, which overwrites `{name}{}`, after {}, which writes it",
                    self.name(event),
                    grid.elements(at),
                    self.name(writer)
                );
                return self.refuse(Reason::WriteAfterWrite, event, message);
            }
        }
        if let Some(reader) = cell.readers.iter().find(|reader| !self.ordered(**reader, event)) {
            let message = format!(
                "no event orders {}, which overwrites `{name}{}`, after {}, which reads it",
                self.name(event),
                grid.elements(at),
                self.name(*reader)
            );
            return self.refuse(Reason::WriteAfterRead, event, message);
        }
        cell.readers.clear();
        cell.writer = Some(event);
        Ok(())
    }

    /// The element that is read has not been overwritten through another buffer since it was written.
    fn check_clobber(
        &self,
        index: usize,
        partner: usize,
        grid: &Grid,
        at: usize,
        cell: &Cell<'a>,
        event: Event<'a>,
    ) -> Result {
        let Some(writer) = cell.writer else { return Ok(()) };
        let others = &self.events[partner];
        let from = others.partition_point(|other| other.time <= writer.time);
        let to = others.partition_point(|other| other.time < event.time);
        let mut elements = None;
        for other in others.get(from..to).unwrap_or_default().iter().filter(|other| other.moment.touch.write)
        {
            let elements = elements.get_or_insert_with(|| grid.elements(at));
            if self.overlap(index, elements, partner, &other.moment.touch.elements) {
                let message = format!(
                    "{} reads `{}{elements}`, whose memory {} has overwritten with `{}{}`",
                    self.name(event),
                    self.buffer(index).name,
                    self.name(*other),
                    self.buffer(partner).name,
                    other.moment.touch.elements
                );
                return self.refuse(Reason::Clobbered, event, message);
            }
        }
        Ok(())
    }

    /// Accesses of two buffers that share bytes are ordered where one of them writes.
    fn check_shared(&self, a: usize, b: usize) -> Result {
        let (left, right) = (self.hulls(a), self.hulls(b));
        for (x, xs) in &left {
            for (y, ys) in &right {
                let apart = x.1.1 < y.1.0 || y.1.1 < x.1.0;
                if x.0 == y.0 || apart || !(x.2 || y.2) {
                    continue;
                }
                for &first in xs {
                    for &second in ys {
                        self.check_pair(a, first, b, second)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn check_pair(&self, a: usize, x: Event<'a>, b: usize, y: Event<'a>) -> Result {
        let (first, second) = if x.time < y.time { (x, y) } else { (y, x) };
        let (one, other) = (&x.moment.touch, &y.moment.touch);
        if !(one.write || other.write)
            || self.ordered(first, second)
            || !self.overlap(a, &one.elements, b, &other.elements)
        {
            return Ok(());
        }
        let reason = match (first.moment.touch.write, second.moment.touch.write) {
            (true, true) => Reason::WriteAfterWrite,
            (true, false) => Reason::ReadUnordered,
            _ => Reason::WriteAfterRead,
        };
        let show = |event: Event<'_>| {
            let touch = &event.moment.touch;
            let verb = if touch.write { "writes" } else { "reads" };
            let name = &self.buffer(touch.buffer.0 as usize).name;
            format!("{}, which {verb} `{name}{}`", self.name(event), touch.elements)
        };
        let message =
            format!("no event orders {}, after {}, which shares its memory", show(second), show(first));
        self.refuse(reason, second, message)
    }

    /// The events of a buffer by task: the task, the bytes from the first to the last that it touches, and whether it
    /// writes any.
    #[expect(clippy::type_complexity, reason = "used in one place")]
    fn hulls(&self, index: usize) -> Vec<((usize, (i128, i128), bool), Vec<Event<'a>>)> {
        let mut tasks: BTreeMap<usize, Vec<Event<'a>>> = BTreeMap::new();
        for event in &self.events[index] {
            tasks.entry(event.task).or_default().push(*event);
        }
        let hull = |events: &[Event<'a>]| {
            let bytes = events.iter().map(|event| self.bytes(index, &event.moment.touch.elements));
            bytes.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, -1))
        };
        let row = |(task, events): (usize, Vec<Event<'a>>)| {
            let writes = events.iter().any(|event| event.moment.touch.write);
            ((task, hull(&events), writes), events)
        };
        tasks.into_iter().map(row).collect()
    }

    /// The first and the last byte of the arena that elements of a temporary take.
    fn bytes(&self, index: usize, elements: &Cuboid) -> (i128, i128) {
        let width = self.buffer(index).dtype.bytes() as i128;
        let base = self.places[index].map_or(0, |(first, _)| first);
        let (first, last) = elements.hull(&self.instance.extents[index]);
        (base + first * width, base + (last + 1) * width - 1)
    }

    /// Whether elements of two temporaries share a byte; their hulls decide where there are too many runs.
    fn overlap(&self, a: usize, x: &Cuboid, b: usize, y: &Cuboid) -> bool {
        let meets = |p: &(i128, i128), q: &(i128, i128)| p.0 <= q.1 && q.0 <= p.1;
        if x.is_empty() || y.is_empty() || !meets(&self.bytes(a, x), &self.bytes(b, y)) {
            return false;
        }
        let runs = |index: usize, elements: &Cuboid| {
            let width = self.buffer(index).dtype.bytes() as i128;
            let base = self.places[index].map_or(0, |(first, _)| first);
            let runs = elements.runs(&self.instance.extents[index], MAX_RUNS)?;
            let scaled = runs.into_iter().map(|(lo, hi)| (base + lo * width, base + (hi + 1) * width - 1));
            Some(scaled.collect::<Vec<_>>())
        };
        let (Some(xs), Some(ys)) = (runs(a, x), runs(b, y)) else { return true };
        let (mut i, mut j) = (0, 0);
        while let (Some(p), Some(q)) = (xs.get(i), ys.get(j)) {
            if meets(p, q) {
                return true;
            }
            if p.1 < q.0 { i += 1 } else { j += 1 }
        }
        false
    }
}
