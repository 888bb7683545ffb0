//! Random facts, extents, positions and conditions, and sizes within the facts.

use crate::random::Random;
use std::collections::BTreeMap;
use tilewright::dim::{Cond, Dim, Facts, Relation, Symbol};
use tilewright::tensor::{Axis, DType, FunctionId, Op, Operand, Program, TensorType};

use super::DTYPES;

/// The name of the offsets of ragged axes.
const OFFSETS: &str = "off";

/// What extents are made of.
pub(super) struct Sizes {
    symbols: Vec<Symbol>,
    /// Integer tensors with facts, and their types.
    pub tables: Vec<(Symbol, TensorType)>,
    /// The parts and the total of [`OFFSETS`], if there are any.
    pub splits: Option<(Dim, Dim)>,
}

/// Facts on one to four sizes, and on tables over them.
pub(super) fn random_facts(random: &mut Random) -> Facts {
    let mut facts = Facts::new();
    let count = 1 + random.below(4);
    for name in ["S", "T", "N", "D"].into_iter().take(count) {
        let (lo, hi) = match random.below(9) {
            0 => (0, Some(0)),
            1 => (1, Some(1)),
            2 => {
                let value = random.between(2, 6);
                (value, Some(value))
            }
            3 => (0, Some(1)),
            4 => (1, Some(random.between(1, 70))),
            5 => (0, None),
            6 => (random.between(0, 3), Some(8192)),
            _ => (0, Some(random.between(2, 300))),
        };
        // Each name is declared once, with a range that is not empty.
        let _ = facts.declare(name, lo, hi);
        if random.one_in(4) {
            let _ = facts.declare_divisor(name, random.between(2, 4));
        }
    }
    // Something is split only where there are parts, and nothing may be there to split otherwise.
    let has_parts = within(&facts, &Symbol::new("S"), i64::MAX) > 0;
    let may_be_empty = within(&facts, &Symbol::new("T"), 0) == 0;
    if count > 1 && (has_parts || may_be_empty) && random.one_in(2) {
        let _ = facts.declare_splits(OFFSETS, "S", "T");
    }
    // Indices exist only where there is something to index.
    let filled = facts.range(&Symbol::new("N")).is_some_and(|(lo, _)| lo > 0);
    if filled && random.one_in(2) {
        let _ = facts.declare_range("ids", 0, Dim::symbol("N") - 1);
    }
    if random.one_in(5) {
        let _ = facts.declare_range("lens", 0, Dim::symbol("S"));
    }
    facts
}

impl Sizes {
    pub fn of(facts: &Facts) -> Sizes {
        let symbols: Vec<Symbol> = facts.symbols().cloned().collect();
        let tables = facts.tables().map(|table| {
            let extent = match facts.splits(table) {
                Some((parts, _)) => parts + 1,
                None => Dim::symbol(if table.as_str() == "ids" { "T" } else { "S" }),
            };
            (table.clone(), TensorType::new(DType::I32, [("z", extent)]))
        });
        let splits = facts.splits(&Symbol::new(OFFSETS)).map(|(parts, total)| (parts.clone(), total.clone()));
        Sizes { tables: tables.collect(), symbols, splits }
    }

    /// An extent: mostly a size, sometimes a small number or an expression.
    pub fn extent(&self, random: &mut Random) -> Dim {
        match random.below(10) {
            0 => Dim::constant(random.between(0, 4)),
            1 => Dim::max(&self.expression(random), 0),
            _ => self.symbol(random),
        }
    }

    pub fn symbol(&self, random: &mut Random) -> Dim {
        random.pick(&self.symbols).map_or(Dim::constant(3), Dim::symbol)
    }

    /// Any integer: a position, an amount, a part size.
    pub fn expression(&self, random: &mut Random) -> Dim {
        let a = self.symbol(random);
        match random.below(9) {
            0..=2 => Dim::constant(random.between(0, 3)),
            3 => a,
            4 => a + 1,
            5 => a.floor_div(2),
            6 => a.ceil_div(random.between(2, 4)),
            7 => Dim::min(&a, self.symbol(random)),
            _ => a * 2,
        }
    }

    /// A ragged type.
    pub fn ragged(&self, random: &mut Random) -> Option<TensorType> {
        let (parts, _) = self.splits.as_ref()?;
        let at = |index: Dim| Dim::element(OFFSETS, vec![index]);
        let length = at(Dim::symbol("e") + 1) - at(Dim::symbol("e"));
        let mut axes = vec![
            Axis { name: Symbol::new("e"), extent: parts.clone() },
            Axis { name: Symbol::new("t"), extent: length },
        ];
        if random.one_in(2) {
            axes.push(Axis { name: Symbol::new("r"), extent: self.extent(random) });
        }
        let dtype = random.pick(&DTYPES).copied().unwrap_or(DType::F32);
        Some(TensorType { dtype, axes })
    }

    /// A condition over labels, each with its extent, that reads the given integer tensors of one axis.
    pub fn condition(&self, random: &mut Random, labels: &[(Symbol, Dim)], tables: &[(Symbol, Dim)]) -> Cond {
        let first = self.comparison(random, labels, tables);
        match random.below(5) {
            0 => first.and(self.comparison(random, labels, tables)),
            1 => first.or(self.comparison(random, labels, tables)),
            _ => first,
        }
    }

    fn comparison(&self, random: &mut Random, labels: &[(Symbol, Dim)], tables: &[(Symbol, Dim)]) -> Cond {
        let Some((a, _)) = random.pick(labels) else { return Cond::True };
        let (b, extent) = random.pick(labels).cloned().unwrap_or((a.clone(), Dim::constant(1)));
        let (a, b) = (Dim::symbol(a), Dim::symbol(b));
        match random.below(8) {
            // Causal, with the ends aligned by a difference of sizes.
            0 => Cond::le(a, b + self.symbol(random) - self.symbol(random)),
            1 => Cond::le(a, b),
            // A window.
            2 => Cond::gt(a, b - random.between(1, 4)),
            3 => Cond::lt(a, self.expression(random)),
            4 => Cond::equal(a.modulo(random.between(1, 3)), random.between(0, 1)),
            5 => {
                let relation = random.pick(&Relation::ALL).copied().unwrap_or(Relation::Le);
                Cond::compare(a * random.between(-1, 2), relation, b + random.between(-2, 2))
            }
            _ => {
                // A length by an integer tensor that has an element for each index of the label.
                let known: Vec<&(Symbol, Dim)> =
                    tables.iter().filter(|(_, count)| *count == extent).collect();
                match random.pick(&known) {
                    Some((table, _)) => Cond::lt(a, Dim::element(table, vec![b])),
                    None => Cond::ge(a, random.between(0, 2)),
                }
            }
        }
    }
}

/// The most index tuples that a program goes through at random sizes, where smaller sizes are allowed.
const MAX_WORK: u64 = 40_000;

/// Sizes within the facts of a program, mostly small; `large` puts one of them beyond a block. All are smaller where the
/// program would go through too many index tuples.
pub fn random_sizes(program: &Program, random: &mut Random, large: bool) -> BTreeMap<Symbol, i64> {
    let facts = &program.facts;
    let count = facts.symbols().count();
    let long = random.below(count.max(1));
    let mut wanted: Vec<i64> = (0..count)
        .map(|k| {
            let choices: &[i64] = if large && k == long {
                &[63, 64, 65, 67, 128, 131, 257, 300]
            } else {
                &[0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]
            };
            random.pick(choices).copied().unwrap_or(1)
        })
        .collect();
    loop {
        let sizes: BTreeMap<Symbol, i64> = (facts.symbols().zip(&wanted))
            .map(|(symbol, &wanted)| (symbol.clone(), within(facts, symbol, wanted)))
            .collect();
        let most = wanted.iter_mut().max().filter(|most| **most > 1);
        match most {
            Some(most) if work(program, &sizes) > MAX_WORK => *most = *most * 3 / 4,
            _ => return sizes,
        }
    }
}

/// The allowed value next to the wanted one.
fn within(facts: &Facts, symbol: &Symbol, wanted: i64) -> i64 {
    let (lo, hi) = facts.range(symbol).unwrap_or((0, None));
    let by = facts.divisor(symbol).unwrap_or(1).max(1);
    let floor = |x: i64| x.div_euclid(by) * by;
    let least = floor(lo.saturating_add(by - 1));
    let most = hi.map_or(i64::MAX, floor);
    floor(wanted).max(least).min(most)
}

/// How many index tuples a program goes through, roughly: ragged extents count as a few.
fn work(program: &Program, sizes: &BTreeMap<Symbol, i64>) -> u64 {
    const RAGGED: u64 = 4;
    let value = |dim: &Dim| dim.eval(sizes).map_or(RAGGED, |value| u64::try_from(value).unwrap_or(0));
    let mut totals: Vec<u64> = Vec::new();
    for function in &program.functions {
        let mut total = 0u64;
        for node in &function.nodes {
            let mut extents: BTreeMap<&Symbol, u64> = BTreeMap::new();
            for operand in &node.operands {
                let Operand::Value { value: id, labels } = operand else { continue };
                for (label, axis) in labels.iter().zip(&function.value(*id).ty.axes) {
                    extents.insert(label, value(&axis.extent));
                }
            }
            let read = extents.values().fold(1u64, |n, extent| n.saturating_mul(*extent));
            let written = node.results.iter().map(|id| {
                let axes = &function.value(*id).ty.axes;
                axes.iter().fold(1u64, |n, axis| n.saturating_mul(value(&axis.extent)))
            });
            let own = written.max().unwrap_or(0).max(read);
            let inner = |id: &FunctionId| totals.get(id.0 as usize).copied().unwrap_or(0);
            total = total.saturating_add(own).saturating_add(match &node.op {
                Op::Call { function } => inner(function),
                Op::Repeat { function, extent, .. } => inner(function).saturating_mul(value(extent)),
                _ => 0,
            });
        }
        totals.push(total);
    }
    totals.pop().unwrap_or(0)
}
