//! Order: happens-before from events alone, and whether it orders all that conflicts.
//!
//! A wait on a cell whose threshold equals the number of its notifies orders all notifiers before it; any other
//! threshold is refused, since a smaller one may be met by the wrong notifiers and a larger one never is. Every edge
//! goes up in rank, so one pass in rank order closes the relation transitively: `before(task)` is the union over
//! awaited cells of `{n} ∪ before(n)` for each notifier `n`.

use super::instance::{Instance, Touches};
use super::sample::Notifies;
use super::{Checked, Reason, Violation, memory};
use crate::dim::{Scope, Symbol};
use crate::target::Target;
use crate::task::ir::Program;

/// Rows of bits.
struct Bits {
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    fn new(rows: usize, columns: usize) -> Bits {
        let words = columns.div_ceil(64);
        Bits { words, bits: vec![0; rows * words] }
    }

    fn row(&self, row: usize) -> &[u64] {
        &self.bits[row * self.words..(row + 1) * self.words]
    }

    fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.bits[row * self.words..(row + 1) * self.words]
    }

    fn has(&self, row: usize, column: usize) -> bool {
        self.row(row)[column / 64] >> (column % 64) & 1 == 1
    }
}

fn add(into: &mut [u64], from: &[u64]) {
    into.iter_mut().zip(from).for_each(|(a, b)| *a |= b);
}

/// Which tasks happen before which.
pub(super) struct Order {
    /// Per task, those before its body.
    before: Bits,
    /// Per awaited cell, its notifiers and those before them.
    cells: Bits,
    /// The row of a cell, for awaited cells.
    rows: Vec<Option<usize>>,
}

impl Order {
    /// Whether task `first` is over when task `second` has done its first `waits` waits.
    pub(super) fn holds(&self, instance: &Instance<'_>, first: usize, second: usize, waits: usize) -> bool {
        let edges = &instance.tasks[second].waits;
        if waits >= edges.len() {
            return self.before.has(second, first);
        }
        let awaited = edges.iter().take(waits).flatten();
        awaited.filter_map(|&cell| self.rows[cell]).any(|row| self.cells.has(row, first))
    }

    /// The relation, or a cell whose threshold is wrong or an edge that does not go up in rank.
    fn build<B>(
        program: &Program<B>,
        instance: &Instance<'_>,
        thresholds: &[Checked],
    ) -> Result<Order, Violation> {
        let tasks = &instance.tasks;
        let mut notifies = vec![0i64; instance.cells];
        tasks.iter().flat_map(|task| &task.notifies).for_each(|&cell| notifies[cell] += 1);
        let mut rows = vec![None; instance.cells];
        let mut awaited = 0;
        for &cell in tasks.iter().flat_map(|task| &task.waits).flatten() {
            if rows[cell].is_none() {
                match instance.notifies_of(cell, notifies[cell], thresholds) {
                    Notifies::Unknown => continue,
                    Notifies::Proved => {}
                    Notifies::Counted(count) => check_threshold(program, instance, cell, Some(count))?,
                }
                rows[cell] = Some(awaited);
                awaited += 1;
            }
        }
        for cell in (0..instance.cells).filter(|&cell| rows[cell].is_none()) {
            check_threshold(program, instance, cell, None)?;
        }
        let (before, cells) = (Bits::new(tasks.len(), tasks.len()), Bits::new(awaited, tasks.len()));
        let mut order = Order { before, cells, rows };
        let mut seen = vec![0i64; instance.cells];
        for (index, task) in tasks.iter().enumerate() {
            for &cell in task.waits.iter().flatten() {
                if seen[cell] < notifies[cell] {
                    return Err(rank_violation(program, instance, index, cell));
                }
                if let Some(row) = order.rows[cell] {
                    add(order.before.row_mut(index), order.cells.row(row));
                }
            }
            for &cell in &task.notifies {
                seen[cell] += 1;
                if let Some(row) = order.rows[cell] {
                    let into = order.cells.row_mut(row);
                    add(into, order.before.row(index));
                    into[index / 64] |= 1 << (index % 64);
                }
            }
        }
        Ok(order)
    }
}

/// A cell's `wait` is a number of notifies, and those it gets where they are given.
fn check_threshold<B>(
    program: &Program<B>,
    instance: &Instance<'_>,
    cell: usize,
    notifies: Option<i64>,
) -> Result<(), Violation> {
    let (event, at) = instance.cell(cell);
    let event = &program.events[event];
    let place = format!("event {}", event.name);
    let names: Vec<Symbol> = event.axes.iter().map(|(name, _)| name.clone()).collect();
    let scope = Scope { parent: instance.sizes, names: &names, values: &at };
    let sizes = instance.sizes;
    let wait = event
        .wait
        .eval(&scope)
        .map_err(|error| Violation::new(Reason::Value, &place, format!("{error} (at {sizes})")))?;
    if wait < 0 {
        let message = format!("cell {at:?} waits for {wait} notifies (at {sizes})");
        return Err(Violation::new(Reason::Value, place, message));
    }
    let Some(notifies) = notifies.filter(|&notifies| notifies != wait) else { return Ok(()) };
    let effect =
        if wait > notifies { "so its consumers never start" } else { "so its consumers may start too early" };
    let message = format!("cell {at:?} waits for {wait} notifies and gets {notifies}, {effect} (at {sizes})");
    Err(Violation::new(Reason::Threshold, place, message))
}

fn rank_violation<B>(program: &Program<B>, instance: &Instance<'_>, waiter: usize, cell: usize) -> Violation {
    let late = (waiter..instance.tasks.len()).find(|&task| instance.tasks[task].notifies.contains(&cell));
    let (event, at) = instance.cell(cell);
    let message = format!(
        "{} waits for cell {at:?} of `{}`, which {} notifies later in rank (at {})",
        instance.name(program, waiter),
        program.events[event].name,
        late.map_or("a task".to_string(), |task| instance.name(program, task)),
        instance.sizes
    );
    Violation::new(Reason::Rank, format!("event {}", program.events[event].name), message)
}

/// Checks an instance: thresholds, ranks, and everything about memory.
pub(super) fn check<B: Touches>(
    program: &Program<B>,
    target: &Target,
    instance: &Instance<'_>,
    thresholds: &[Checked],
) -> Result<(), Violation> {
    let order = Order::build(program, instance, thresholds)?;
    memory::check(program, target, instance, &order)
}
