//! [`Facts`]: what is known of symbols and tables, and the proofs that follow from it.
//!
//! A proof about `a <= b` bounds the difference `b - a` from below: in normal form equal parts have cancelled.
//! The bound of a sum is the best of two: the sum of its terms' intervals (rounded to what the known divisors
//! allow), and the bound of a simpler sum that is not greater, made by replacing one atom: a coordinate by the end
//! of its range where the sum is monotone in it, `min` by its operands, `k*floordiv(a, k)` by `a - mod(a, k)`,
//! `off[x] - off[y]` by 0 where `x >= y`. Upper bounds are lower bounds of the negation.
//!
//! Invariants: each step is sound for all values that satisfy the facts and for which both sides have a value;
//! the number of steps of one question is at most [`FUEL`], and a question that needs more is `Unknown`.

use super::expr::{ceil_div, floor_div, gcd, modulo};
use super::{Atom, Cond, Dim, Env, Relation, Symbol};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

/// The most steps that one question takes.
pub const FUEL: u32 = 400;

/// The most nested steps.
const DEPTH: u32 = 40;

/// The answer to a question about all values that satisfy the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// It holds for all of them.
    Yes,
    /// It fails for all of them.
    No,
    /// Neither is known.
    Unknown,
}

impl Proof {
    /// Whether it is [`Proof::Yes`].
    pub fn is_yes(self) -> bool {
        self == Proof::Yes
    }

    /// Whether it is [`Proof::No`].
    pub fn is_no(self) -> bool {
        self == Proof::No
    }

    /// The answer about the opposite.
    pub fn negated(self) -> Proof {
        match self {
            Proof::Yes => Proof::No,
            Proof::No => Proof::Yes,
            Proof::Unknown => Proof::Unknown,
        }
    }
}

/// Bounds of a dim, both inclusive; an absent one is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// No value is below.
    pub lo: Option<i64>,
    /// No value is above.
    pub hi: Option<i64>,
}

impl Interval {
    /// Whether the value may lie in the interval.
    pub fn contains(&self, value: i64) -> bool {
        self.lo.is_none_or(|lo| lo <= value) && self.hi.is_none_or(|hi| value <= hi)
    }
}

/// Why a fact was refused, or which fact a value breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactError {
    /// A second, different fact of one kind.
    #[error("`{symbol}` is {have} already, so it cannot be {want}")]
    Redeclared {
        /// What the facts are about.
        symbol: Symbol,
        /// The fact that stands.
        have: String,
        /// The fact that was refused.
        want: String,
    },
    /// A second fact of one kind in a text.
    #[error("`{0}` is declared twice")]
    Twice(Symbol),
    /// A range that no value is in.
    #[error("`{symbol}` in {range} has no value")]
    Empty {
        /// The symbol.
        symbol: Symbol,
        /// Its range and divisor.
        range: String,
    },
    /// A divisor that is not positive.
    #[error("the divisor {divisor} of `{symbol}` is not positive")]
    Divisor {
        /// The symbol.
        symbol: Symbol,
        /// The divisor.
        divisor: i64,
    },
    /// A divisor of a symbol without a range.
    #[error("`{0}` has no range yet")]
    Undeclared(Symbol),
    /// A value outside its symbol's range.
    #[error("{symbol} = {value} is outside {range}")]
    Outside {
        /// The symbol.
        symbol: Symbol,
        /// Its value.
        value: i64,
        /// Its range.
        range: String,
    },
    /// A value that its symbol's divisor does not divide.
    #[error("{symbol} = {value} is not a multiple of {divisor}")]
    NotMultiple {
        /// The symbol.
        symbol: Symbol,
        /// Its value.
        value: i64,
        /// The divisor.
        divisor: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Range {
    lo: i64,
    hi: Option<i64>,
    divisor: Option<i64>,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hi {
            Some(hi) => write!(f, "{}..={hi}", self.lo)?,
            None => write!(f, "{}..", self.lo)?,
        }
        self.divisor.map_or(Ok(()), |k| write!(f, " by {k}"))
    }
}

impl Range {
    /// The least value, given the divisor.
    fn least(&self) -> i128 {
        let k = i128::from(self.divisor.unwrap_or(1));
        ceil_div(self.lo.into(), k).unwrap_or(0) * k
    }

    /// The greatest value, given the divisor.
    fn greatest(&self) -> Option<i128> {
        let k = i128::from(self.divisor.unwrap_or(1));
        Some(floor_div(self.hi?.into(), k)? * k)
    }

    fn is_empty(&self) -> bool {
        self.greatest().is_some_and(|hi| hi < self.least())
    }

    /// The only value, if there is one.
    fn single(&self) -> Option<i64> {
        let least = self.least();
        if self.greatest() == Some(least) { i64::try_from(least).ok() } else { None }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Table {
    /// Parts and total.
    splits: Option<(Dim, Dim)>,
    /// Least and greatest.
    range: Option<(Dim, Dim)>,
}

/// A coordinate between dims, the upper one exclusive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Assumption {
    symbol: Symbol,
    lo: Dim,
    end: Dim,
}

/// What is known of symbols and tables. A fact is merged with an equal one and refused beside a different one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    symbols: BTreeMap<Symbol, Range>,
    tables: BTreeMap<Symbol, Table>,
    assumptions: Vec<Assumption>,
}

fn redeclared(symbol: &Symbol, have: impl fmt::Display, want: impl fmt::Display) -> FactError {
    FactError::Redeclared { symbol: symbol.clone(), have: have.to_string(), want: want.to_string() }
}

/// Sets an absent fact; accepts an equal one, refuses a different one.
fn merge(
    symbol: &Symbol,
    slot: &mut Option<(Dim, Dim)>,
    want: (Dim, Dim),
    show: fn(&(Dim, Dim)) -> String,
) -> Result<(), FactError> {
    match slot {
        Some(have) if *have != want => Err(redeclared(symbol, show(have), show(&want))),
        _ => {
            *slot = Some(want);
            Ok(())
        }
    }
}

impl Facts {
    /// No facts.
    pub fn new() -> Facts {
        Facts::default()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty() && self.tables.is_empty() && self.assumptions.is_empty()
    }

    /// `lo <= symbol <= hi`; without `hi` there is no upper bound.
    pub fn declare(
        &mut self,
        symbol: impl Into<Symbol>,
        lo: i64,
        hi: impl Into<Option<i64>>,
    ) -> Result<(), FactError> {
        let (symbol, hi) = (symbol.into(), hi.into());
        let want = Range { lo, hi, divisor: None };
        match self.symbols.get(&symbol) {
            Some(have) if (have.lo, have.hi) == (lo, hi) => Ok(()),
            Some(have) => Err(redeclared(&symbol, have, want)),
            None if want.is_empty() => Err(FactError::Empty { symbol, range: want.to_string() }),
            None => {
                self.symbols.insert(symbol, want);
                Ok(())
            }
        }
    }

    /// `divisor` divides the symbol, which has a range already.
    pub fn declare_divisor(&mut self, symbol: impl Into<Symbol>, divisor: i64) -> Result<(), FactError> {
        let symbol = symbol.into();
        if divisor <= 0 {
            return Err(FactError::Divisor { symbol, divisor });
        }
        let Some(range) = self.symbols.get_mut(&symbol) else { return Err(FactError::Undeclared(symbol)) };
        let want = Range { divisor: (divisor != 1).then_some(divisor), ..*range };
        if range.divisor.is_some() && range.divisor != want.divisor {
            return Err(redeclared(&symbol, *range, want));
        }
        if want.is_empty() {
            return Err(FactError::Empty { symbol, range: want.to_string() });
        }
        *range = want;
        Ok(())
    }

    /// `table` holds `parts + 1` offsets that do not decrease, from 0 to `total`.
    pub fn declare_splits(
        &mut self,
        table: impl Into<Symbol>,
        parts: impl Into<Dim>,
        total: impl Into<Dim>,
    ) -> Result<(), FactError> {
        let table = table.into();
        let slot = &mut self.tables.entry(table.clone()).or_default().splits;
        let show = |(parts, total): &(Dim, Dim)| format!("splits of {total} over {parts}");
        merge(&table, slot, (parts.into(), total.into()), show)
    }

    /// Every element of `table` is in `lo..=hi`.
    pub fn declare_range(
        &mut self,
        table: impl Into<Symbol>,
        lo: impl Into<Dim>,
        hi: impl Into<Dim>,
    ) -> Result<(), FactError> {
        let table = table.into();
        let slot = &mut self.tables.entry(table.clone()).or_default().range;
        merge(&table, slot, (lo.into(), hi.into()), |(lo, hi)| format!("of elements {lo}..={hi}"))
    }

    /// These facts and `lo <= symbol < end`. All bounds of one symbol hold together.
    pub fn assume(&self, symbol: impl Into<Symbol>, lo: impl Into<Dim>, end: impl Into<Dim>) -> Facts {
        let mut facts = self.clone();
        facts.assumptions.push(Assumption { symbol: symbol.into(), lo: lo.into(), end: end.into() });
        facts
    }

    /// Adds all declared facts of `other`, each merged or refused; assumptions stay apart.
    pub fn merge(&mut self, other: &Facts) -> Result<(), FactError> {
        for (symbol, range) in &other.symbols {
            self.declare(symbol, range.lo, range.hi)?;
            range.divisor.map_or(Ok(()), |k| self.declare_divisor(symbol, k))?;
        }
        for (name, table) in &other.tables {
            if let Some((parts, total)) = &table.splits {
                self.declare_splits(name, parts, total)?;
            }
            if let Some((lo, hi)) = &table.range {
                self.declare_range(name, lo, hi)?;
            }
        }
        Ok(())
    }

    /// The symbols with a range, by name.
    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.keys()
    }

    /// The tables with a fact, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Symbol> {
        self.tables.keys()
    }

    /// The declared bounds, both inclusive.
    pub fn range(&self, symbol: &Symbol) -> Option<(i64, Option<i64>)> {
        self.symbols.get(symbol).map(|range| (range.lo, range.hi))
    }

    /// The declared divisor, if it is not 1.
    pub fn divisor(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol)?.divisor
    }

    /// The parts and the total that the table splits.
    pub fn splits(&self, table: &Symbol) -> Option<(&Dim, &Dim)> {
        self.tables.get(table)?.splits.as_ref().map(|(parts, total)| (parts, total))
    }

    /// The bounds of all elements of the table, both inclusive.
    pub fn table_range(&self, table: &Symbol) -> Option<(&Dim, &Dim)> {
        self.tables.get(table)?.range.as_ref().map(|(lo, hi)| (lo, hi))
    }

    /// The dim with each symbol of one possible value as that value.
    pub fn resolve(&self, dim: &Dim) -> Dim {
        dim.substitute(&|symbol| self.symbols.get(symbol)?.single().map(Dim::constant))
    }

    /// Bounds of the dim.
    pub fn interval(&self, dim: &Dim) -> Interval {
        let bounds = Prover::new(self).bounds(&self.normalize(dim), 0);
        let clamp = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Interval {
            lo: bounds.lo.filter(|lo| *lo >= i64::MIN.into()).map(clamp),
            hi: bounds.hi.filter(|hi| *hi <= i64::MAX.into()).map(clamp),
        }
    }

    /// `a <= b`
    pub fn le(&self, a: &Dim, b: &Dim) -> Proof {
        self.at_least(&(b - a), 0)
    }

    /// `a < b`
    pub fn lt(&self, a: &Dim, b: &Dim) -> Proof {
        self.at_least(&(b - a), 1)
    }

    /// `0 <= dim`
    pub fn nonneg(&self, dim: &Dim) -> Proof {
        self.at_least(dim, 0)
    }

    /// `dim >= bound`
    fn at_least(&self, dim: &Dim, bound: i128) -> Proof {
        let dim = self.normalize(dim);
        if Prover::new(self).lower(&dim, bound, 0).is_some_and(|lo| lo >= bound) {
            return Proof::Yes;
        }
        let goal = 1 - bound;
        match Prover::new(self).lower(&-&dim, goal, 0) {
            Some(lo) if lo >= goal => Proof::No,
            _ => Proof::Unknown,
        }
    }

    /// `a == b`
    pub fn equal(&self, a: &Dim, b: &Dim) -> Proof {
        if a == b {
            return Proof::Yes;
        }
        let difference = self.normalize(&(a - b));
        let lo = Prover::new(self).lower(&difference, 1, 0);
        let hi = Prover::new(self).lower(&-&difference, 1, 0);
        if lo.is_some_and(|lo| lo >= 1) || hi.is_some_and(|hi| hi >= 1) {
            return Proof::No;
        }
        if (lo, hi) == (Some(0), Some(0)) {
            return Proof::Yes;
        }
        let congruent = Prover::new(self).residue(&difference, 0);
        if congruent.remainder != 0 { Proof::No } else { Proof::Unknown }
    }

    /// `k` divides the dim; zero divides only zero.
    pub fn divides(&self, k: i64, dim: &Dim) -> Proof {
        if k == 0 {
            return self.equal(dim, &Dim::constant(0));
        }
        let Residue { modulus, remainder } = Prover::new(self).residue(&self.normalize(dim), 0);
        let k = i128::from(k).abs();
        let common = gcd(modulus, k);
        match (common == k, remainder % common == 0) {
            (true, true) => Proof::Yes,
            (_, false) => Proof::No,
            (false, true) => Proof::Unknown,
        }
    }

    /// The cond.
    pub fn holds(&self, cond: &Cond) -> Proof {
        match cond {
            Cond::True => Proof::Yes,
            Cond::False => Proof::No,
            Cond::Compare(a, Relation::Lt, b) | Cond::Compare(b, Relation::Gt, a) => self.lt(a, b),
            Cond::Compare(a, Relation::Le, b) | Cond::Compare(b, Relation::Ge, a) => self.le(a, b),
            Cond::Compare(a, Relation::Eq, b) => self.equal(a, b),
            Cond::Compare(a, Relation::Ne, b) => self.equal(a, b).negated(),
            Cond::And(parts) => self.all(parts.iter().map(|part| self.holds(part))),
            Cond::Or(parts) => self.all(parts.iter().map(|part| self.holds(part).negated())).negated(),
            Cond::Not(inner) => self.holds(inner).negated(),
        }
    }

    fn all(&self, proofs: impl Iterator<Item = Proof>) -> Proof {
        let mut all = Proof::Yes;
        for proof in proofs {
            match proof {
                Proof::No => return Proof::No,
                Proof::Unknown => all = Proof::Unknown,
                Proof::Yes => {}
            }
        }
        all
    }

    /// Checks the value of every declared symbol that `env` binds.
    pub fn verify_env(&self, env: &dyn Env) -> Result<(), FactError> {
        for (symbol, range) in &self.symbols {
            let Some(value) = env.symbol(symbol) else { continue };
            if value < range.lo || range.hi.is_some_and(|hi| value > hi) {
                let range = Range { divisor: None, ..*range }.to_string();
                return Err(FactError::Outside { symbol: symbol.clone(), value, range });
            }
            if let Some(divisor) = range.divisor.filter(|k| value % k != 0) {
                return Err(FactError::NotMultiple { symbol: symbol.clone(), value, divisor });
            }
        }
        Ok(())
    }

    /// [`Facts::resolve`], and the ends of split tables as 0 and the total.
    fn normalize(&self, dim: &Dim) -> Dim {
        let resolved = self.resolve(dim);
        if self.tables.is_empty() {
            return resolved;
        }
        let ends = resolved.rewrite(&mut |leaf| {
            let Atom::Element(table, index) = leaf else { return None };
            let ((parts, total), [index]) = (self.splits(table)?, index.as_slice()) else { return None };
            match index.is_zero() {
                true => Some(Dim::constant(0)),
                false => (self.resolve(parts) == *index).then(|| self.resolve(total)),
            }
        });
        if ends == resolved { resolved } else { self.resolve(&ends) }
    }
}

/// Wide bounds; an absent one is infinite.
#[derive(Clone, Copy)]
struct Bounds {
    lo: Option<i128>,
    hi: Option<i128>,
}

/// An end of [`Bounds`] in a product; the order is that of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Extended {
    NegInf,
    Finite(i128),
    PosInf,
}

impl Extended {
    fn sign(self) -> i128 {
        match self {
            Extended::NegInf => -1,
            Extended::Finite(value) => value.signum(),
            Extended::PosInf => 1,
        }
    }

    fn times(self, other: Extended) -> Extended {
        if let (Extended::Finite(a), Extended::Finite(b)) = (self, other)
            && let Some(product) = a.checked_mul(b)
        {
            return Extended::Finite(product);
        }
        match self.sign() * other.sign() {
            0 => Extended::Finite(0),
            1 => Extended::PosInf,
            _ => Extended::NegInf,
        }
    }
}

impl Bounds {
    const ALL: Bounds = Bounds { lo: None, hi: None };

    fn exactly(value: i128) -> Bounds {
        Bounds { lo: Some(value), hi: Some(value) }
    }

    fn ends(self) -> [Extended; 2] {
        [
            self.lo.map_or(Extended::NegInf, Extended::Finite),
            self.hi.map_or(Extended::PosInf, Extended::Finite),
        ]
    }

    /// The bounds of a product. An end that does not fit is cut toward zero, which still bounds.
    fn times(self, other: Bounds) -> Bounds {
        let corners = self.ends().map(|a| other.ends().map(|b| a.times(b)));
        let corners = corners.as_flattened();
        let least = corners.iter().copied().min().unwrap_or(Extended::NegInf);
        let greatest = corners.iter().copied().max().unwrap_or(Extended::PosInf);
        let lo = match least {
            Extended::NegInf => None,
            Extended::Finite(value) => Some(value),
            Extended::PosInf => Some(i128::MAX),
        };
        let hi = match greatest {
            Extended::NegInf => Some(i128::MIN),
            Extended::Finite(value) => Some(value),
            Extended::PosInf => None,
        };
        Bounds { lo, hi }
    }

    /// What both allow.
    fn meet(self, other: Bounds) -> Bounds {
        Bounds { lo: self.lo.max(other.lo), hi: least(self.hi, other.hi) }
    }
}

/// The lesser upper bound, where an absent one is infinite.
fn least(a: Option<i128>, b: Option<i128>) -> Option<i128> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// All values are `remainder` modulo `modulus`; modulus 0 means exactly the remainder.
#[derive(Clone, Copy)]
struct Residue {
    modulus: i128,
    remainder: i128,
}

impl Residue {
    const ANY: Residue = Residue { modulus: 1, remainder: 0 };

    fn new(modulus: i128, remainder: i128) -> Residue {
        Residue { modulus, remainder: modulo(remainder, modulus).unwrap_or(remainder) }
    }

    fn plus(self, other: Residue) -> Option<Residue> {
        let sum = self.remainder.checked_add(other.remainder)?;
        Some(Residue::new(gcd(self.modulus, other.modulus), sum))
    }

    fn times(self, other: Residue) -> Option<Residue> {
        let both = self.modulus.checked_mul(other.modulus)?;
        let left = self.modulus.checked_mul(other.remainder)?;
        let right = other.modulus.checked_mul(self.remainder)?;
        Some(Residue::new(gcd(both, gcd(left, right)), self.remainder.checked_mul(other.remainder)?))
    }

    /// What holds of a value that satisfies one of the two.
    fn either(self, other: Residue) -> Option<Residue> {
        let apart = self.remainder.checked_sub(other.remainder)?;
        Some(Residue::new(gcd(gcd(self.modulus, other.modulus), apart), self.remainder))
    }

    /// The least value that is not below `bound`.
    fn round_up(self, bound: i128) -> i128 {
        let up = self.remainder.checked_sub(bound).and_then(|apart| modulo(apart, self.modulus));
        up.and_then(|up| bound.checked_add(up)).unwrap_or(bound)
    }
}

/// How a dim moves when one symbol grows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Constant,
    Up,
    Down,
}

impl Direction {
    fn reversed(self) -> Direction {
        match self {
            Direction::Constant => Direction::Constant,
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }

    fn join(self, other: Direction) -> Option<Direction> {
        match (self, other) {
            (Direction::Constant, d) | (d, Direction::Constant) => Some(d),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// One question: the facts and the steps left.
struct Prover<'f> {
    facts: &'f Facts,
    fuel: Cell<u32>,
}

impl<'f> Prover<'f> {
    fn new(facts: &'f Facts) -> Prover<'f> {
        Prover { facts, fuel: Cell::new(FUEL) }
    }

    /// Takes one step; false where none is left.
    fn step(&self, depth: u32) -> bool {
        let left = self.fuel.get();
        self.fuel.set(left.saturating_sub(1));
        left > 0 && depth < DEPTH
    }

    fn bounds(&self, dim: &Dim, depth: u32) -> Bounds {
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
    fn lower(&self, dim: &Dim, goal: i128, depth: u32) -> Option<i128> {
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

    fn residue(&self, dim: &Dim, depth: u32) -> Residue {
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

fn lesser(a: Bounds, b: Bounds) -> Bounds {
    let lo = a.lo.zip(b.lo).map(|(a, b)| a.min(b));
    Bounds { lo, hi: least(a.hi, b.hi) }
}

fn greater(a: Bounds, b: Bounds) -> Bounds {
    let hi = a.hi.zip(b.hi).map(|(a, b)| a.max(b));
    Bounds { lo: a.lo.max(b.lo), hi }
}

/// Bounds of a quotient by a positive divisor. It is monotone in the numerator; in the divisor it moves toward
/// zero, or toward the rounding's end of the unit interval.
fn quotient_bounds(a: Bounds, b: Bounds, divide: fn(i128, i128) -> Option<i128>) -> Bounds {
    let Some(small) = b.lo.filter(|lo| *lo > 0) else { return Bounds::ALL };
    let by = |a: i128, large: bool| match (large, b.hi) {
        (false, _) => divide(a, small),
        (true, Some(large)) => divide(a, large.max(small)),
        (true, None) => divide(a.signum(), 2),
    };
    Bounds { lo: a.lo.and_then(|lo| by(lo, lo >= 0)), hi: a.hi.and_then(|hi| by(hi, hi < 0)) }
}

/// Bounds of a remainder by a positive divisor.
fn remainder_bounds(a: Bounds, b: Bounds) -> Bounds {
    let Some(small) = b.lo.filter(|lo| *lo > 0) else { return Bounds::ALL };
    let below = Bounds { lo: Some(0), hi: b.hi.map(|hi| hi - 1) };
    match (a.lo, a.hi) {
        (Some(lo), Some(hi)) if lo >= 0 && hi < small => a,
        (Some(lo), hi) if lo >= 0 => Bounds { lo: Some(0), hi: least(below.hi, hi) },
        _ => below,
    }
}
