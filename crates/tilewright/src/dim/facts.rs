//! [`Facts`]: what is known of symbols and tables, and the proofs that follow from it.
//!
//! The proofs themselves are in `prover`.

use super::bounds::Residue;
use super::expr::{ceil_div, floor_div, gcd};
use super::prover::Prover;
use super::{Atom, Cond, Dim, Env, Relation, Symbol};
use std::collections::BTreeMap;
use std::fmt;

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
pub(super) struct Range {
    pub(super) lo: i64,
    pub(super) hi: Option<i64>,
    pub(super) divisor: Option<i64>,
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
    pub(super) fn least(&self) -> i128 {
        let k = i128::from(self.divisor.unwrap_or(1));
        ceil_div(self.lo.into(), k).unwrap_or(0) * k
    }

    /// The greatest value, given the divisor.
    pub(super) fn greatest(&self) -> Option<i128> {
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
pub(super) struct Table {
    /// Parts and total.
    pub(super) splits: Option<(Dim, Dim)>,
    /// Least and greatest.
    pub(super) range: Option<(Dim, Dim)>,
}

/// A coordinate between dims, the upper one exclusive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Assumption {
    pub(super) symbol: Symbol,
    pub(super) lo: Dim,
    pub(super) end: Dim,
}

/// What is known of symbols and tables. A fact is merged with an equal one and refused beside a different one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    pub(super) symbols: BTreeMap<Symbol, Range>,
    pub(super) tables: BTreeMap<Symbol, Table>,
    pub(super) assumptions: Vec<Assumption>,
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
    pub(super) fn normalize(&self, dim: &Dim) -> Dim {
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
