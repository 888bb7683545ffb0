//! Proofs from facts.
//!
//! A proof about `a <= b` bounds the difference `b - a` from below: in normal form equal parts have cancelled.
//! The bound of a sum is the best of two: the sum of its terms' intervals (rounded to what the known divisors
//! allow), and the bound of a simpler sum that is not greater, made by replacing one atom: a coordinate by the end
//! of its range where the sum is monotone in it, `min` by its operands, `k*floordiv(a, k)` by `a - mod(a, k)`,
//! `off[x] - off[y]` by 0 where `x >= y`. Upper bounds are lower bounds of the negation.
//!
//! Invariants: each step is sound for all values that satisfy the facts and for which both sides have a value;
//! the number of steps of one question is at most [`FUEL`], and a question that needs more is not answered.

use super::bounds::{Bounds, Direction, Residue, greater, lesser, quotient_bounds, remainder_bounds};
use super::expr::{ceil_div, floor_div, gcd, modulo};
use super::facts::Facts;
use super::{Atom, Dim, Symbol};
use std::cell::Cell;

/// The most steps that one question takes.
pub const FUEL: u32 = 400;

/// The most nested steps.
const DEPTH: u32 = 40;

/// One question: the facts and the steps left.
pub(super) struct Prover<'f> {
    facts: &'f Facts,
    fuel: Cell<u32>,
}

impl<'f> Prover<'f> {
    pub(super) fn new(facts: &'f Facts) -> Prover<'f> {
        Prover { facts, fuel: Cell::new(FUEL) }
    }

    /// Takes one step; false where none is left.
    fn step(&self, depth: u32) -> bool {
        let left = self.fuel.get();
        self.fuel.set(left.saturating_sub(1));
        left > 0 && depth < DEPTH
    }

    pub(super) fn bounds(&self, dim: &Dim, depth: u32) -> Bounds {
        if let Some(value) = dim.as_constant() {
            return Bounds::exactly(value.into());
        }
        let lo = self.lower(dim, i128::MAX, depth);
        let hi = self.lower(&-dim, i128::MAX, depth).and_then(i128::checked_neg);
        Bounds { lo, hi }
    }

    fn is_at_least(&self, dim: &Dim, bound: i128, depth: u32) -> bool {
        self.lower(dim, bound, depth).is_some_and(|lo| lo >= bound)
    }

    /// A value that the dim is never below; the search ends early at `goal`.
    pub(super) fn lower(&self, dim: &Dim, goal: i128, depth: u32) -> Option<i128> {
        if let Some(value) = dim.as_constant() {
            return Some(value.into());
        }
        if dim.is_overflow() || !self.step(depth) {
            return None;
        }
        let residue = self.residue(dim, depth);
        let round = |bound: Option<i128>| bound.map(|bound| residue.round_up(bound));
        let direct = round(self.term_by_term(dim, depth + 1));
        if direct.is_some_and(|bound| bound >= goal) {
            return direct;
        }
        direct.max(round(self.by_replacing(dim, goal, depth + 1)))
    }

    /// The sum of the terms' lower bounds.
    fn term_by_term(&self, dim: &Dim, depth: u32) -> Option<i128> {
        let mut sum = i128::from(dim.constant_part());
        for (coefficient, factors) in dim.terms() {
            let scale = Bounds::exactly(coefficient.into());
            sum = sum.checked_add(self.product_bounds(factors, depth).times(scale).lo?)?;
        }
        Some(sum)
    }

    fn product_bounds(&self, factors: &[Atom], depth: u32) -> Bounds {
        let mut product = Bounds::exactly(1);
        for group in factors.chunk_by(|a, b| a == b) {
            let one = group.first().map_or(Bounds::ALL, |atom| self.atom_bounds(atom, depth));
            let mut power = group.iter().fold(Bounds::exactly(1), |power, _| power.times(one));
            if group.len().is_multiple_of(2) {
                power.lo = power.lo.max(Some(0));
            }
            product = product.times(power);
        }
        product
    }

    fn atom_bounds(&self, atom: &Atom, depth: u32) -> Bounds {
        if !self.step(depth) {
            return Bounds::ALL;
        }
        let of = |dim: &Dim| self.bounds(dim, depth + 1);
        match atom {
            Atom::Overflow => Bounds::ALL,
            Atom::Symbol(symbol) => self.symbol_bounds(symbol, depth),
            Atom::Element(table, index) => self.element_bounds(table, index, depth),
            Atom::Min(args) => args.iter().map(of).reduce(lesser).unwrap_or(Bounds::ALL),
            Atom::Max(args) => args.iter().map(of).reduce(greater).unwrap_or(Bounds::ALL),
            Atom::FloorDiv(a, b) => quotient_bounds(of(a), of(b), floor_div),
            Atom::CeilDiv(a, b) => quotient_bounds(of(a), of(b), ceil_div),
            Atom::Mod(a, b) => remainder_bounds(of(a), of(b)),
        }
    }

    fn symbol_bounds(&self, symbol: &Symbol, depth: u32) -> Bounds {
        let declared = self.facts.symbols.get(symbol);
        let mut bounds =
            declared.map_or(Bounds::ALL, |range| Bounds { lo: Some(range.least()), hi: range.greatest() });
        for assumption in self.facts.assumptions.iter().filter(|a| a.symbol == *symbol) {
            let lo = self.lower(&self.facts.normalize(&assumption.lo), i128::MAX, depth + 1);
            let last = self.facts.normalize(&(&assumption.end - 1));
            let hi = self.lower(&-last, i128::MAX, depth + 1).and_then(i128::checked_neg);
            bounds = bounds.meet(Bounds { lo, hi });
        }
        bounds
    }

    fn element_bounds(&self, table: &Symbol, index: &[Dim], depth: u32) -> Bounds {
        let mut bounds = Bounds::ALL;
        for (lo, hi) in self.element_ends(table, index) {
            let lo = self.lower(&lo, i128::MAX, depth + 1);
            let hi = self.lower(&-hi, i128::MAX, depth + 1).and_then(i128::checked_neg);
            bounds = bounds.meet(Bounds { lo, hi });
        }
        bounds
    }

    /// Dims that an element lies between, both inclusive.
    fn element_ends(&self, table: &Symbol, index: &[Dim]) -> Vec<(Dim, Dim)> {
        let splits = self.facts.splits(table).filter(|_| index.len() == 1);
        let splits = splits.map(|(_, total)| (Dim::constant(0), self.facts.normalize(total)));
        let range = self.facts.table_range(table);
        let range = range.map(|(lo, hi)| (self.facts.normalize(lo), self.facts.normalize(hi)));
        splits.into_iter().chain(range).collect()
    }

    /// The bound of a simpler dim that is nowhere greater.
    fn by_replacing(&self, dim: &Dim, goal: i128, depth: u32) -> Option<i128> {
        let best = self.by_coordinate(dim, goal, depth);
        if best.is_some_and(|bound| bound >= goal) {
            return best;
        }
        for (i, (coefficient, factors)) in dim.terms().enumerate() {
            let (scale, atom) = match factors {
                [atom] => (coefficient, atom),
                _ => continue,
            };
            let found = match atom {
                Atom::Min(args) => self.by_operands(dim, i, scale > 0, args, goal, depth),
                Atom::Max(args) => self.by_operands(dim, i, scale < 0, args, goal, depth),
                _ => continue,
            };
            return best.max(found);
        }
        if let Some(found) = self.by_quotient(dim, goal, depth) {
            return best.max(found);
        }
        if let Some(found) = self.by_remainder(dim, goal, depth) {
            return best.max(found);
        }
        if let Some(simpler) = self.without_ordered_elements(dim, depth) {
            return best.max(self.lower(&simpler, goal, depth));
        }
        best.max(self.by_element(dim, goal, depth))
    }

    /// Replaces a symbol by an end of its range, the symbols assumed last first.
    fn by_coordinate(&self, dim: &Dim, goal: i128, depth: u32) -> Option<i128> {
        let assumed = self.facts.assumptions.iter().rev().map(|a| &a.symbol).filter(|s| dim.mentions(s));
        let declared = dim.symbols();
        let declared =
            declared.iter().filter(|s| self.facts.symbols.contains_key(s) && !is_linear_in(dim, s));
        for symbol in assumed.chain(declared) {
            let ends: Vec<Dim> = match self.direction(dim, symbol, depth) {
                Some(Direction::Up) => self.least_values(symbol),
                Some(Direction::Down) => self.greatest_values(symbol),
                Some(Direction::Constant) | None => continue,
            };
            let mut best = None;
            for end in ends.iter().filter(|end| !end.mentions(symbol)) {
                let simpler = dim.substitute(&|s| (s == symbol).then(|| end.clone()));
                best = best.max(self.lower(&self.facts.normalize(&simpler), goal, depth));
                if best.is_some_and(|bound| bound >= goal) {
                    break;
                }
            }
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// Dims that the symbol is never below.
    fn least_values(&self, symbol: &Symbol) -> Vec<Dim> {
        let assumed = self.facts.assumptions.iter().filter(|a| a.symbol == *symbol);
        let declared = self.facts.symbols.get(symbol).and_then(|range| i64::try_from(range.least()).ok());
        assumed.map(|a| self.facts.normalize(&a.lo)).chain(declared.map(Dim::constant)).collect()
    }

    /// Dims that the symbol is never above.
    fn greatest_values(&self, symbol: &Symbol) -> Vec<Dim> {
        let assumed = self.facts.assumptions.iter().filter(|a| a.symbol == *symbol);
        let declared = self.facts.symbols.get(symbol).and_then(|range| i64::try_from(range.greatest()?).ok());
        assumed.map(|a| self.facts.normalize(&(&a.end - 1))).chain(declared.map(Dim::constant)).collect()
    }

    /// Replaces term `i`, a scaled `min` or `max`, by each operand: all must do where the dim is the least over
    /// them, one where it is the greatest.
    fn by_operands(
        &self,
        dim: &Dim,
        i: usize,
        least: bool,
        args: &[Dim],
        goal: i128,
        depth: u32,
    ) -> Option<i128> {
        let with = |arg: &Dim| self.lower(&replace(dim, i, arg), goal, depth);
        if least {
            let mut bound = i128::MAX;
            for arg in args {
                bound = bound.min(with(arg)?);
            }
            return Some(bound);
        }
        let mut best = None;
        for arg in args {
            best = best.max(with(arg));
            if best.is_some_and(|bound| bound >= goal) {
                break;
            }
        }
        best
    }

    /// `k*floordiv(a, k)` as `a - mod(a, k)`, and `k*ceildiv(a, k)` as `a + mod(-a, k)`; the whole is scaled by
    /// a constant `k` where the term is not.
    fn by_quotient(&self, dim: &Dim, goal: i128, depth: u32) -> Option<Option<i128>> {
        for (i, (coefficient, factors)) in dim.terms().enumerate() {
            for (j, atom) in factors.iter().enumerate() {
                let (exact, divisor) = match atom {
                    Atom::FloorDiv(a, k) => (a - a.modulo(k), k),
                    Atom::CeilDiv(a, k) => (a + (-a).modulo(k), k),
                    _ => continue,
                };
                let mut others = factors.to_vec();
                others.remove(j);
                if let Some(k) = divisor.as_constant().filter(|k| *k > 0) {
                    let scale = if coefficient % k == 0 { 1 } else { k };
                    let others =
                        product(i128::from(coefficient) * i128::from(scale) / i128::from(k), &others)?;
                    let scaled = replace(&(dim * scale), i, &Dim::constant(0)) + others * exact;
                    let goal = goal.saturating_mul(scale.into());
                    let bound = self.lower(&self.facts.normalize(&scaled), goal, depth);
                    return Some(bound.and_then(|bound| ceil_div(bound, scale.into())));
                }
                let Some(at) = others.iter().position(|other| divisor.as_atom() == Some(other)) else {
                    continue;
                };
                others.remove(at);
                let others = product(coefficient.into(), &others)?;
                let simpler = replace(dim, i, &Dim::constant(0)) + others * exact;
                return Some(self.lower(&self.facts.normalize(&simpler), goal, depth));
            }
        }
        None
    }

    /// `mod(a, b)` for `b > 0` as `a` where `0 <= a < b`, else as one of its ends: 0, `b - 1`, or an `a >= 0`.
    fn by_remainder(&self, dim: &Dim, goal: i128, depth: u32) -> Option<Option<i128>> {
        for (i, (coefficient, factors)) in dim.terms().enumerate() {
            let [Atom::Mod(a, b)] = factors else { continue };
            if !self.is_at_least(b, 1, depth) {
                continue;
            }
            let with = |value: &Dim| self.lower(&replace(dim, i, value), goal, depth);
            if !self.is_at_least(a, 0, depth) {
                let end = if coefficient > 0 { Dim::constant(0) } else { b - 1 };
                return Some(with(&end));
            }
            if coefficient < 0 {
                return Some(with(&(b - 1)).max(with(a)));
            }
            let within = self.is_at_least(&(b - a), 1, depth);
            return Some(if within { with(a) } else { with(&Dim::constant(0)) });
        }
        None
    }

    /// The dim without `off[x] - off[y]`, as often as it occurs, where `x >= y` and `off` splits something.
    fn without_ordered_elements(&self, dim: &Dim, depth: u32) -> Option<Dim> {
        let element = |factors: &[Atom]| match factors {
            [Atom::Element(table, index)] if self.facts.splits(table).is_some() => match index.as_slice() {
                [index] => Some((table.clone(), index.clone())),
                _ => None,
            },
            _ => None,
        };
        let elements: Vec<(i64, Symbol, Dim)> = dim
            .terms()
            .filter_map(|(c, factors)| element(factors).map(|(table, index)| (c, table, index)))
            .collect();
        for (c, table, x) in elements.iter().filter(|(c, ..)| *c > 0) {
            for (d, _, y) in elements.iter().filter(|(d, other, _)| *d < 0 && other == table) {
                if self.is_at_least(&(x - y), 0, depth) {
                    let times = i64::try_from(c.unsigned_abs().min(d.unsigned_abs())).ok()?;
                    let of = |index: &Dim| Dim::element(table.clone(), vec![index.clone()]);
                    return Some(dim - (of(x) - of(y)) * times);
                }
            }
        }
        None
    }

    /// Replaces an element by the dims it lies between.
    fn by_element(&self, dim: &Dim, goal: i128, depth: u32) -> Option<i128> {
        for (i, (coefficient, factors)) in dim.terms().enumerate() {
            let [Atom::Element(table, index)] = factors else { continue };
            let mut best = None;
            for (lo, hi) in self.element_ends(table, index) {
                let end = if coefficient > 0 { lo } else { hi };
                best = best.max(self.lower(&replace(dim, i, &end), goal, depth));
            }
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// How the dim moves when the symbol grows and all else stays.
    fn direction(&self, dim: &Dim, symbol: &Symbol, depth: u32) -> Option<Direction> {
        if !dim.mentions(symbol) {
            return Some(Direction::Constant);
        }
        if !self.step(depth) {
            return None;
        }
        if let Some(linear) = dim.affine(std::slice::from_ref(symbol)) {
            let slope = linear.coefficients.first()?;
            return match self.is_at_least(slope, 0, depth + 1) {
                true => Some(Direction::Up),
                false => self.is_at_least(&-slope, 0, depth + 1).then_some(Direction::Down),
            };
        }
        let mut all = Direction::Constant;
        for (coefficient, factors) in dim.terms() {
            let direction = self.product_direction(factors, symbol, depth + 1)?;
            all = all.join(if coefficient < 0 { direction.reversed() } else { direction })?;
        }
        Some(all)
    }

    /// The direction of a product of one moving factor and factors that are not negative. Two moving factors
    /// have no known direction: they need not be positive on the way to a symbol's bound.
    fn product_direction(&self, factors: &[Atom], symbol: &Symbol, depth: u32) -> Option<Direction> {
        let (moving, still): (Vec<&Atom>, Vec<&Atom>) =
            factors.iter().partition(|atom| atom.mentions(symbol));
        let positive = |atom: &Atom| self.atom_bounds(atom, depth).lo.is_some_and(|lo| lo >= 0);
        match moving.as_slice() {
            [] => Some(Direction::Constant),
            [atom] if still.into_iter().all(positive) => self.atom_direction(atom, symbol, depth),
            _ => None,
        }
    }

    fn atom_direction(&self, atom: &Atom, symbol: &Symbol, depth: u32) -> Option<Direction> {
        if !atom.mentions(symbol) {
            return Some(Direction::Constant);
        }
        match atom {
            Atom::Symbol(_) => Some(Direction::Up),
            Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) => {
                let steady = !b.mentions(symbol) && self.is_at_least(b, 1, depth + 1);
                if steady { self.direction(a, symbol, depth + 1) } else { None }
            }
            Atom::Min(args) | Atom::Max(args) => args.iter().try_fold(Direction::Constant, |all, arg| {
                all.join(self.direction(arg, symbol, depth + 1)?)
            }),
            Atom::Element(table, index) => {
                self.facts.splits(table)?;
                let [index] = index.as_slice() else { return None };
                self.direction(index, symbol, depth + 1)
            }
            Atom::Mod(..) | Atom::Overflow => None,
        }
    }

    pub(super) fn residue(&self, dim: &Dim, depth: u32) -> Residue {
        self.sum_residue(dim, depth).unwrap_or(Residue::ANY)
    }

    fn sum_residue(&self, dim: &Dim, depth: u32) -> Option<Residue> {
        let mut sum = Residue::new(0, dim.constant_part().into());
        for (coefficient, factors) in dim.terms() {
            let mut product = Residue::new(0, coefficient.into());
            for atom in factors {
                product = product.times(self.atom_residue(atom, depth + 1).unwrap_or(Residue::ANY))?;
            }
            sum = sum.plus(product)?;
        }
        Some(sum)
    }

    fn atom_residue(&self, atom: &Atom, depth: u32) -> Option<Residue> {
        if depth > DEPTH {
            return None;
        }
        let of = |dim: &Dim| self.sum_residue(dim, depth);
        let whole = |a: &Dim, k: &Dim, divide: fn(i128, i128) -> Option<i128>| {
            let (a, k) = (of(a)?, i128::from(k.as_constant()?));
            let exact = k > 0 && a.modulus % k == 0;
            if exact { Some(Residue::new(a.modulus / k, divide(a.remainder, k)?)) } else { None }
        };
        match atom {
            Atom::Symbol(symbol) => Some(Residue::new(self.facts.divisor(symbol)?.into(), 0)),
            Atom::FloorDiv(a, k) => whole(a, k, floor_div),
            Atom::CeilDiv(a, k) => whole(a, k, ceil_div),
            Atom::Mod(a, k) => {
                let (a, k) = (of(a)?, i128::from(k.as_constant().filter(|k| *k > 0)?));
                if a.modulus % k == 0 {
                    return Some(Residue::new(0, modulo(a.remainder, k)?));
                }
                Some(Residue::new(gcd(a.modulus, k), a.remainder))
            }
            Atom::Min(args) | Atom::Max(args) => {
                let mut all = args.iter().map(of);
                let first = all.next()??;
                all.try_fold(first, |all, next| all.either(next?))
            }
            Atom::Element(..) | Atom::Overflow => None,
        }
    }
}

/// The dim with term `i` as `coefficient * value`.
fn replace(dim: &Dim, i: usize, value: &Dim) -> Dim {
    match dim.terms().nth(i) {
        Some((coefficient, factors)) => match product(coefficient.into(), factors) {
            Some(term) => dim - term + value * coefficient,
            None => Dim::overflow(),
        },
        None => dim.clone(),
    }
}

/// A term as a dim; none where the coefficient does not fit.
fn product(coefficient: i128, factors: &[Atom]) -> Option<Dim> {
    let coefficient = Dim::constant(i64::try_from(coefficient).ok()?);
    Some(factors.iter().fold(coefficient, |product, atom| product * Dim::from_atom(atom)))
}

/// Whether the symbol occurs only as a term with a constant coefficient.
fn is_linear_in(dim: &Dim, symbol: &Symbol) -> bool {
    dim.terms().all(|(_, factors)| {
        let alone = matches!(factors, [Atom::Symbol(s)] if s == symbol);
        alone || !factors.iter().any(|atom| atom.mentions(symbol))
    })
}
