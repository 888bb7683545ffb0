//! Small sizes: values for the symbols, and contents for the integer tables, that the facts allow.

use super::form::visit_atoms;
use super::{MAX_ASSIGNMENTS, MAX_TASKS};
use crate::dim::{Atom, Dim, Env, Symbol};
use crate::task::ir::{EdgeIndex, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The largest block size around which sizes are drawn.
const MAX_BLOCK: i64 = 512;

/// The most elements of a table whose contents are drawn.
const MAX_TABLE: i64 = 1 << 20;

/// An integer tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    extents: Vec<i64>,
    values: Vec<i64>,
}

/// A value for every symbol and contents for every integer buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    symbols: BTreeMap<Symbol, i64>,
    tables: BTreeMap<Symbol, Table>,
}

impl Env for Sizes {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let table = self.tables.get(table)?;
        let mut at = 0usize;
        for (&i, &n) in index.iter().zip(&table.extents) {
            if i < 0 || i >= n {
                return None;
            }
            at = at * n as usize + i as usize;
        }
        table.values.get(at).copied()
    }
}

impl Sizes {
    /// An extent; 0 where it is negative or has no value.
    pub(super) fn extent(&self, dim: &Dim) -> i64 {
        dim.eval(self).unwrap_or(0).max(0)
    }

    /// The number of tasks.
    pub(super) fn tasks<B>(&self, program: &Program<B>) -> i64 {
        count_tasks(program, &self.symbols)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items: Vec<String> =
            self.symbols.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        for (name, table) in &self.tables {
            if table.values.len() <= 8 {
                items.push(format!("{name} = {:?}", table.values));
            }
        }
        f.write_str(&items.join(", "))
    }
}

/// A small deterministic source of numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if end <= 1 { 0 } else { (self.0 >> 16) as i64 % end }
    }
}

/// The assignments to enumerate, most telling first; none repeats another.
pub(super) fn assignments<B>(program: &Program<B>) -> Vec<Sizes> {
    let symbols: Vec<Symbol> = program.facts.symbols().cloned().collect();
    let blocks = block_sizes(program);
    let pools: Vec<Vec<i64>> = symbols.iter().map(|symbol| candidates(program, symbol, &blocks)).collect();
    let picks = picks(&pools);
    let has_tables = program.buffers.iter().any(|buffer| buffer.dtype.is_int());
    let draws = if has_tables { 2 } else { 1 };
    let mut found: Vec<Sizes> = Vec::new();
    for (round, pick) in picks.into_iter().enumerate() {
        for draw in 0..draws {
            let Some(symbols) = lowered(program, &symbols, &pools, &pick) else { continue };
            let Some(sizes) = with_tables(program, symbols, round * draws + draw) else { continue };
            if !found.contains(&sizes) {
                found.push(sizes);
            }
        }
        if found.len() >= MAX_ASSIGNMENTS {
            break;
        }
    }
    found
}

/// Which candidate each symbol takes, for one assignment after another: all large; one small and the others large;
/// then all candidates in turn, at different paces; all least; and some at random.
fn picks(pools: &[Vec<i64>]) -> Vec<Vec<usize>> {
    let at = |pool: &Vec<i64>, value: i64| pool.iter().position(|&other| other == value).unwrap_or(0);
    let large = |pool: &Vec<i64>| (0..pool.len()).max_by_key(|&i| pool[i]).unwrap_or(0);
    let mut picks: Vec<Vec<usize>> = vec![pools.iter().map(large).collect()];
    let free: Vec<usize> = (0..pools.len()).filter(|&i| pools[i].len() > 1).collect();
    if free.len() > 1 {
        for small in [0, 1] {
            for &i in free.iter().take(MAX_ASSIGNMENTS / 4) {
                let pick = |(k, pool): (usize, &Vec<i64>)| {
                    if k == i { at(pool, pool[0].max(small)) } else { large(pool) }
                };
                picks.push(pools.iter().enumerate().map(pick).collect());
            }
        }
    }
    let longest = pools.iter().map(Vec::len).max().unwrap_or(1);
    for pattern in 0..longest.max(3) {
        let pick = |(i, pool): (usize, &Vec<i64>)| (pattern * (2 * i + 1) + i) % pool.len().max(1);
        picks.push(pools.iter().enumerate().map(pick).collect());
    }
    picks.push(pools.iter().map(|_| 0).collect());
    let mut random = Random::new(picks.len() as u64);
    if free.len() > 1 {
        let mut pick = || pools.iter().map(|pool| random.below(pool.len() as i64) as usize).collect();
        picks.extend((0..MAX_ASSIGNMENTS).map(|_| pick()));
    }
    picks
}

/// The constants that the program divides by or multiplies coordinates with.
fn block_sizes<B>(program: &Program<B>) -> Vec<i64> {
    let mut found = BTreeSet::new();
    let mut see = |dim: &Dim| {
        let mut keep = |value: i64| {
            if (2..=MAX_BLOCK).contains(&value) {
                found.insert(value);
            }
        };
        dim.terms().for_each(|(coefficient, _)| keep(coefficient.saturating_abs()));
        visit_atoms(dim, &mut |atom| {
            if let Atom::FloorDiv(_, k) | Atom::CeilDiv(_, k) | Atom::Mod(_, k) = atom {
                k.as_constant().into_iter().for_each(&mut keep);
            }
        });
    };
    for event in &program.events {
        event.axes.iter().for_each(|(_, extent)| see(extent));
        see(&event.wait);
    }
    for family in &program.families {
        family.coordinates.iter().for_each(|(_, extent)| see(extent));
        for access in family.reads.iter().chain(&family.writes) {
            access
                .region
                .iter()
                .for_each(|interval| [&interval.lo, &interval.hi].into_iter().for_each(&mut see));
        }
        for index in family.waits.iter().chain(&family.notifies).flat_map(|edge| &edge.index) {
            match index {
                EdgeIndex::Affine(cell) | EdgeIndex::Quotient(cell) => see(cell),
                EdgeIndex::Range { lo, hi }
                | EdgeIndex::TableRange { lo, hi }
                | EdgeIndex::Gather { lo, hi, .. } => {
                    see(lo);
                    see(hi);
                }
            }
        }
    }
    let all: Vec<i64> = found.into_iter().collect();
    let mut some: Vec<i64> = all.iter().copied().rev().take(2).collect();
    some.extend(all.first());
    some.sort_unstable();
    some.dedup();
    some
}

/// Values of a symbol: the least, then small ones and those on both sides of each block size.
fn candidates<B>(program: &Program<B>, symbol: &Symbol, blocks: &[i64]) -> Vec<i64> {
    let (lo, hi) = program.facts.range(symbol).unwrap_or((0, None));
    let divisor = program.facts.divisor(symbol).unwrap_or(1).max(1);
    let hi = hi.unwrap_or(i64::MAX);
    let multiple = |value: i64| value.checked_add(divisor - 1).map(|v| v.div_euclid(divisor) * divisor);
    let mut pool = Vec::new();
    let mut keep = |value: i64| {
        let value = multiple(value).filter(|v| (lo..=hi).contains(v) && !pool.contains(v));
        pool.extend(value);
    };
    keep(lo);
    [0, 1, 2].into_iter().for_each(&mut keep);
    for &block in blocks {
        [block - 1, block, block + 1, 2 * block, 2 * block + 1].into_iter().for_each(&mut keep);
    }
    [3, 5, 17, 40, lo.saturating_add(1)].into_iter().for_each(&mut keep);
    pool
}

/// The picked values; picks are moved down, but not to 0, until there are few enough tasks. Where that does not help they
/// stay, and a sample of the tasks is looked at. None where the facts contradict each other.
fn lowered<B>(
    program: &Program<B>,
    symbols: &[Symbol],
    pools: &[Vec<i64>],
    pick: &[usize],
) -> Option<BTreeMap<Symbol, i64>> {
    let values = |pick: &[usize]| {
        let value =
            |((symbol, pool), &at): ((&Symbol, &Vec<i64>), &usize)| Some((symbol.clone(), *pool.get(at)?));
        symbols.iter().zip(pools).zip(pick).map(value).collect::<Option<BTreeMap<Symbol, i64>>>()
    };
    let mut lower = pick.to_vec();
    loop {
        let found = values(&lower)?;
        if count_tasks(program, &found) <= MAX_TASKS as i64 {
            return Some(found);
        }
        let next = |(i, at): (usize, &usize)| {
            let pool = pools.get(i)?;
            let value = *pool.get(*at)?;
            let smaller = (0..pool.len()).filter(|&other| (1..value).contains(&pool[other]));
            Some((value, i, smaller.max_by_key(|&other| pool[other])?))
        };
        match lower.iter().enumerate().filter_map(next).max() {
            Some((_, i, smaller)) => lower[i] = smaller,
            None => return values(pick),
        }
    }
}

/// The number of tasks.
fn count_tasks<B>(program: &Program<B>, values: &BTreeMap<Symbol, i64>) -> i64 {
    let mut tasks = 0i64;
    for family in &program.families {
        let extents = family.coordinates.iter().map(|(_, extent)| extent.eval(values).unwrap_or(0).max(0));
        tasks = tasks.saturating_add(extents.fold(1, i64::saturating_mul));
    }
    tasks
}

/// Contents for the integer buffers; none where the facts allow none at these sizes. Draws of the same symbols with
/// different `draw` differ.
fn with_tables<B>(program: &Program<B>, symbols: BTreeMap<Symbol, i64>, draw: usize) -> Option<Sizes> {
    let mut sizes = Sizes { symbols, tables: BTreeMap::new() };
    let mut random = Random::new(draw as u64 + 1);
    for buffer in program.buffers.iter().filter(|buffer| buffer.dtype.is_int()) {
        let extents: Option<Vec<i64>> =
            buffer.extents.iter().map(|extent| extent.eval(&sizes).ok()).collect();
        let Some(extents) = extents else { continue };
        let count = extents.iter().try_fold(1i64, |n, &extent| n.checked_mul(extent.max(0)));
        let Some(count) = count.filter(|&count| count <= MAX_TABLE) else { continue };
        let values = if let Some((parts, total)) = program.facts.splits(&buffer.name) {
            splits(count, parts.eval(&sizes).ok()?, total.eval(&sizes).ok()?, draw, &mut random)?
        } else {
            let bounds = match program.facts.table_range(&buffer.name) {
                Some((lo, hi)) => (lo.eval(&sizes).ok()?, hi.eval(&sizes).ok()?),
                None => (-1, 3),
            };
            if count > 0 && bounds.0 > bounds.1 {
                return None;
            }
            elements(count, bounds, draw, &mut random)
        };
        sizes.tables.insert(buffer.name.clone(), Table { extents, values });
    }
    Some(sizes)
}

/// Offsets from 0 to `total` in `count` elements, `parts` steps; the last element repeats beyond them.
fn splits(count: i64, parts: i64, total: i64, draw: usize, random: &mut Random) -> Option<Vec<i64>> {
    if total < 0 || (parts <= 0 && total > 0) {
        return None;
    }
    let mut inner: Vec<i64> = (1..parts)
        .map(|part| match draw % 4 {
            0 => random.below(total + 1),
            1 => 0,
            2 => total,
            _ => total * part / parts.max(1),
        })
        .collect();
    inner.sort_unstable();
    let offset = |at: i64| match at {
        0 => 0,
        at if at >= parts => total,
        at => inner.get(at as usize - 1).copied().unwrap_or(total),
    };
    Some((0..count).map(offset).collect())
}

/// Elements between bounds, both inclusive: drawn, or all the least, or all the greatest.
fn elements(count: i64, (lo, hi): (i64, i64), draw: usize, random: &mut Random) -> Vec<i64> {
    (0..count)
        .map(|at| match draw % 4 {
            0 | 3 => lo.saturating_add(random.below(hi.saturating_sub(lo).saturating_add(1))),
            1 if at % 2 == 0 => lo,
            _ => hi,
        })
        .collect()
}
