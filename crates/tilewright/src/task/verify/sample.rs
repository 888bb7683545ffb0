//! Samples: some tasks of a program that has too many to list.
//!
//! A sample is, of every family, the tasks whose coordinates all lie near one end or the other, in a few iterations of
//! each repeat. It is checked as if it were all there is, with two differences. A cell orders its notifiers before its
//! waiters only if *all* tasks that notify it, those outside the sample included, are as many as it waits for: proved
//! for all sizes (`counts`) or counted here. And what nobody in the sample writes is no violation. So an order that a
//! sample shows holds in the program; a chain that goes through tasks outside is not seen.

use super::Checked;
use super::compiled::{Compiled, CompiledEdge};
use super::instance::Instance;
use super::{Reason, Violation};
use crate::dim::Dim;
use crate::task::ir::{Program, Step};
use std::collections::HashMap;

/// The most tuples of coordinates that are gone through to count the notifies of one event.
const MAX_COUNTED: i64 = 1 << 22;

/// The most cells that the edges of a sample's tasks mean.
const MAX_MEANT: usize = 1 << 22;

/// The iterations of a repeat in a sample.
const ITERATIONS: i64 = 3;

/// Which tasks are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// The values of a coordinate, half of them the first ones and half the last ones.
    pub window: i64,
    /// Whether the iterations of repeats are the last ones.
    pub last: bool,
}

impl Sample {
    /// The values of a coordinate with this extent.
    pub(super) fn values(self, extent: i64) -> impl Iterator<Item = i64> {
        let first = (self.window - self.window / 2).min(extent.max(0));
        let last = (extent - self.window / 2).max(first);
        (0..first).chain(last..extent)
    }

    /// The iterations of a repeat.
    pub(super) fn iterations(self, extent: i64) -> std::ops::Range<i64> {
        let start = if self.last { (extent - ITERATIONS).max(0) } else { 0 };
        start..extent.min(start + ITERATIONS)
    }

    /// The number of tasks; the largest number where it is none.
    fn count<B>(self, program: &Program<B>, steps: &[Step], value: &dyn Fn(&Dim) -> i64) -> i64 {
        let of_step = |step: &Step| match step {
            Step::Family(id) => match program.families.get(id.0 as usize) {
                Some(family) => {
                    let own = family.coordinates.iter().skip(self.repeats_around(program, id.0));
                    own.fold(1i64, |n, (_, extent)| n.saturating_mul(value(extent).min(self.window)))
                }
                None => 0,
            },
            Step::Repeat { extent, steps, .. } => {
                self.count(program, steps, value).saturating_mul(value(extent).min(ITERATIONS))
            }
        };
        steps.iter().map(of_step).fold(0, i64::saturating_add)
    }

    /// How many repeats are around a family.
    fn repeats_around<B>(self, program: &Program<B>, family: u32) -> usize {
        fn depth(steps: &[Step], family: u32) -> Option<usize> {
            steps.iter().find_map(|step| match step {
                Step::Family(id) => (id.0 == family).then_some(0),
                Step::Repeat { steps, .. } => depth(steps, family).map(|depth| depth + 1),
            })
        }
        depth(&program.steps, family).unwrap_or(0)
    }

    /// The widest sample of at most `budget` tasks; as narrow as can be where there is none.
    pub(super) fn within<B>(program: &Program<B>, budget: i64, value: &dyn Fn(&Dim) -> i64) -> Sample {
        let at = |window: i64| Sample { window, last: false };
        let (mut fits, mut too_wide) = (2, budget.max(3));
        while too_wide - fits > 1 {
            let middle = (fits + too_wide) / 2;
            if at(middle).count(program, &program.steps, value) <= budget {
                fits = middle;
            } else {
                too_wide = middle;
            }
        }
        at(fits)
    }
}

impl Instance<'_> {
    /// Numbers the cells that the tasks mean, and finds how often each is notified by all tasks of the program.
    pub(super) fn complete<B>(
        &mut self,
        program: &Program<B>,
        families: &[Compiled<'_>],
        thresholds: &[Checked],
    ) -> Result<(), Violation> {
        let meant = self.tasks.iter().map(|task| task.waits.iter().map(Vec::len).sum::<usize>());
        let meant: usize =
            meant.sum::<usize>() + self.tasks.iter().map(|task| task.notifies.len()).sum::<usize>();
        if meant > MAX_MEANT {
            let message =
                format!("a sample whose tasks mean more than {MAX_MEANT} cells (at {})", self.sizes);
            return Err(Violation::new(Reason::TooLarge, &program.name, message));
        }
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut cells = Vec::new();
        for task in &mut self.tasks {
            for cell in task.waits.iter_mut().flatten().chain(&mut task.notifies) {
                let fresh = cells.len();
                let number = *numbers.entry(*cell).or_insert(fresh);
                if number == fresh {
                    cells.push(*cell);
                }
                *cell = number;
            }
        }
        self.cells = cells.len();
        self.numbered = Some(cells);
        let mut totals = vec![None; self.cells];
        let mut awaited = vec![false; program.events.len()];
        for &cell in self.tasks.iter().flat_map(|task| task.waits.iter().flatten()) {
            awaited[self.cell(cell).0] = true;
        }
        for (event, checked) in thresholds.iter().enumerate() {
            let needed = awaited.get(event).copied().unwrap_or(false);
            if needed && *checked == Checked::Enumerated {
                self.count(program, families, event, &numbers, &mut totals)?;
            }
        }
        self.totals = Some(totals);
        Ok(())
    }

    /// Counts the notifies of an event's cells, unless too many tasks notify it.
    fn count<B>(
        &self,
        program: &Program<B>,
        families: &[Compiled<'_>],
        event: usize,
        numbers: &HashMap<usize, usize>,
        totals: &mut [Option<i64>],
    ) -> Result<(), Violation> {
        let own: Vec<usize> =
            numbers.values().copied().filter(|&number| self.cell(number).0 == event).collect();
        let mut counts: HashMap<usize, i64> = HashMap::new();
        for family in families {
            for edge in family.notifies.iter().filter(|edge| edge.event == event) {
                match self.count_by_index(program, family, edge)? {
                    Some(along) => {
                        for &number in &own {
                            let (_, at) = self.cell(number);
                            let count = along.of(&at);
                            *counts.entry(number).or_default() += count;
                        }
                    }
                    None if tasks(&family.extents) > MAX_COUNTED => return Ok(()),
                    None => {
                        for_each(&family.extents, |at| {
                            let cells = self.cells_of(program, family, edge, at)?;
                            for number in cells.iter().filter_map(|cell| numbers.get(cell)) {
                                *counts.entry(*number).or_default() += 1;
                            }
                            Ok(())
                        })?;
                    }
                }
            }
        }
        for number in own {
            totals[number] = Some(counts.get(&number).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// How many tasks of a family an edge lets notify a cell, as a product over its coordinates; none where two indices
    /// depend on one coordinate of the family.
    fn count_by_index<B>(
        &self,
        program: &Program<B>,
        family: &Compiled<'_>,
        edge: &CompiledEdge,
    ) -> Result<Option<Along>, Violation> {
        let mut uses: Vec<usize> = edge.uses.iter().flatten().copied().collect();
        uses.sort_unstable();
        let all = uses.len();
        uses.dedup();
        let extents_of = |used: &[usize]| used.iter().map(|&at| family.extents[at]).collect::<Vec<i64>>();
        if uses.len() < all || edge.uses.iter().any(|used| tasks(&extents_of(used)) > MAX_COUNTED) {
            return Ok(None);
        }
        let free = (0..family.extents.len()).filter(|at| !uses.contains(at)).map(|at| family.extents[at]);
        let mut found = Along { free: free.fold(1, i64::saturating_mul), counts: Vec::new() };
        let extents = self.events.get(edge.event).map_or(&[][..], |(_, extents)| extents);
        for ((index, used), &extent) in edge.index.iter().zip(&edge.uses).zip(extents) {
            let mut counts: HashMap<i64, i64> = HashMap::new();
            let mut at = vec![0; family.extents.len()];
            for_each(&extents_of(used), |values| {
                used.iter().zip(values).for_each(|(&coordinate, &value)| at[coordinate] = value);
                for cell in self.cells_along(program, family, edge.event, index, extent, &at)? {
                    *counts.entry(cell).or_default() += 1;
                }
                Ok(())
            })?;
            found.counts.push(counts);
        }
        Ok(Some(found))
    }

    /// Whether the notifies of a cell, by all tasks of the program, are as many as it waits for where that was proved;
    /// else how many they are, if they were counted. `listed` is the number of those listed.
    pub(super) fn notifies_of(&self, cell: usize, listed: i64, thresholds: &[Checked]) -> Notifies {
        match &self.totals {
            None => Notifies::Counted(listed),
            Some(_) if thresholds.get(self.cell(cell).0) == Some(&Checked::Proved) => Notifies::Proved,
            Some(totals) => totals.get(cell).copied().flatten().map_or(Notifies::Unknown, Notifies::Counted),
        }
    }
}

/// How many tasks notify a cell: the product of a number for each of its coordinates.
struct Along {
    free: i64,
    counts: Vec<HashMap<i64, i64>>,
}

impl Along {
    fn of(&self, cell: &[i64]) -> i64 {
        let counts = self.counts.iter().zip(cell).map(|(counts, at)| counts.get(at).copied().unwrap_or(0));
        counts.fold(self.free, i64::saturating_mul)
    }
}

/// The number of tuples within extents.
fn tasks(extents: &[i64]) -> i64 {
    extents.iter().fold(1, |n, &extent| n.saturating_mul(extent))
}

/// Calls `f` with every tuple within extents.
fn for_each(extents: &[i64], mut f: impl FnMut(&[i64]) -> Result<(), Violation>) -> Result<(), Violation> {
    let mut at = vec![0; extents.len()];
    for _ in 0..tasks(extents) {
        f(&at)?;
        for (value, &extent) in at.iter_mut().zip(extents).rev() {
            *value += 1;
            if *value < extent {
                break;
            }
            *value = 0;
        }
    }
    Ok(())
}

/// How often a cell is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notifies {
    /// As often as it waits for, at all sizes.
    Proved,
    /// This often.
    Counted(i64),
    /// Too many tasks notify its event.
    Unknown,
}
