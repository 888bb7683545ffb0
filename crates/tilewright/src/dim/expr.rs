//! [`Dim`]: an integer expression in normal form.
//!
//! The form is a constant plus a sum of terms; a term is a nonzero coefficient times a product of [`Atom`]s.
//! Terms are sorted and distinct, the atoms of a term are sorted, and the operands of an atom are in normal form
//! again, so equality of dims is equality of forms. Each rewrite below holds for all integers.
//!
//! Quotients by a constant `k > 1`: every coefficient of the numerator is smaller than `k`, has no factor common
//! with `k` and all others, and the numerator's constant is in `0..k - 1`; where it would be `k - 1` the atom is
//! `ceildiv` with constant 0. A constant that does not fit 64 bits, or a product of more than [`MAX_TERMS`]
//! terms, makes the whole dim the single atom `overflow()`.

use super::{Env, EvalError, Symbol};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

/// The most terms that one dim may have.
pub const MAX_TERMS: usize = 1024;

/// What a term multiplies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A named integer.
    Symbol(Symbol),
    /// An element of an integer tensor.
    Element(Symbol, Vec<Dim>),
    /// The quotient rounded down.
    FloorDiv(Dim, Dim),
    /// The quotient rounded up.
    CeilDiv(Dim, Dim),
    /// `a - b*floordiv(a, b)`.
    Mod(Dim, Dim),
    /// The least of two or more.
    Min(Vec<Dim>),
    /// The greatest of two or more.
    Max(Vec<Dim>),
    /// A constant beyond 64 bits.
    Overflow,
}

impl Atom {
    /// The dims directly inside.
    pub fn operands(&self) -> Vec<&Dim> {
        match self {
            Atom::Symbol(_) | Atom::Overflow => Vec::new(),
            Atom::Element(_, operands) | Atom::Min(operands) | Atom::Max(operands) => {
                operands.iter().collect()
            }
            Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) => vec![a, b],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Term {
    factors: Vec<Atom>,
    coefficient: i64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Sum {
    terms: Vec<Term>,
    constant: i64,
}

/// An integer expression in normal form; cheap to clone.
///
/// `==`, hashing and ordering are those of the form. `a.min(b)` and `a.max(b)` are the symbolic minimum and
/// maximum, whether `a` is a dim or a reference to one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Dim(Arc<Sum>);

impl PartialOrd for Dim {
    fn partial_cmp(&self, other: &Dim) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of normal forms. `min` and `max` are overridden because method lookup prefers them to the inherent
/// ones on an owned dim: they too give the symbolic minimum and maximum.
impl Ord for Dim {
    fn cmp(&self, other: &Dim) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }

    fn min(self, other: Dim) -> Dim {
        extremum(End::Min, [self, other])
    }

    fn max(self, other: Dim) -> Dim {
        extremum(End::Max, [self, other])
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A dim as a linear form: `constant + sum of coefficients[i]*vars[i]`, all parts free of the vars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// One per var.
    pub coefficients: Vec<Dim>,
    /// What is left where all vars are zero.
    pub constant: Dim,
}

/// Terms being summed; wide, so that only the result must fit.
#[derive(Default)]
struct Builder {
    terms: BTreeMap<Vec<Atom>, i128>,
    constant: i128,
    overflow: bool,
}

impl Builder {
    fn add_term(&mut self, factors: Vec<Atom>, coefficient: i128) {
        if factors.is_empty() {
            self.add_constant(coefficient);
            return;
        }
        let entry = self.terms.entry(factors).or_insert(0);
        match entry.checked_add(coefficient) {
            Some(sum) => *entry = sum,
            None => self.overflow = true,
        }
    }

    fn add_constant(&mut self, value: i128) {
        match self.constant.checked_add(value) {
            Some(sum) => self.constant = sum,
            None => self.overflow = true,
        }
    }

    fn add_scaled(&mut self, dim: &Dim, scale: i128) {
        for (coefficient, factors) in dim.terms() {
            self.add_term(factors.to_vec(), i128::from(coefficient) * scale);
        }
        self.add_constant(i128::from(dim.constant_part()) * scale);
    }

    fn finish(self) -> Dim {
        let narrow = |value: i128| i64::try_from(value).ok();
        let terms: Option<Vec<Term>> = (self.terms.into_iter())
            .filter(|(_, coefficient)| *coefficient != 0)
            .map(|(factors, c)| Some(Term { factors, coefficient: narrow(c)? }))
            .collect();
        match (terms, narrow(self.constant)) {
            (Some(terms), Some(constant)) if !self.overflow && terms.len() <= MAX_TERMS => {
                Dim(Arc::new(Sum { terms, constant }))
            }
            _ => Dim::overflow(),
        }
    }
}

impl Dim {
    /// An integer.
    pub fn constant(value: i64) -> Dim {
        Dim(Arc::new(Sum { terms: Vec::new(), constant: value }))
    }

    /// A named integer.
    pub fn symbol(name: impl Into<Symbol>) -> Dim {
        Dim::atom(Atom::Symbol(name.into()))
    }

    /// An element of an integer tensor.
    pub fn element(table: impl Into<Symbol>, index: Vec<Dim>) -> Dim {
        if index.iter().any(Dim::is_overflow) {
            return Dim::overflow();
        }
        Dim::atom(Atom::Element(table.into(), index))
    }

    /// The dim that has no value, because a constant in it does not fit 64 bits.
    pub fn overflow() -> Dim {
        Dim::atom(Atom::Overflow)
    }

    /// The dim of an atom that stands in some dim.
    pub(super) fn from_atom(atom: &Atom) -> Dim {
        Dim::atom(atom.clone())
    }

    fn atom(atom: Atom) -> Dim {
        Dim(Arc::new(Sum { terms: vec![Term { factors: vec![atom], coefficient: 1 }], constant: 0 }))
    }

    /// The terms in order: coefficient and factors.
    pub fn terms(&self) -> impl Iterator<Item = (i64, &[Atom])> {
        self.0.terms.iter().map(|term| (term.coefficient, term.factors.as_slice()))
    }

    /// The constant that the terms are added to.
    pub fn constant_part(&self) -> i64 {
        self.0.constant
    }

    /// The value, if the dim is an integer.
    pub fn as_constant(&self) -> Option<i64> {
        self.0.terms.is_empty().then_some(self.0.constant)
    }

    /// The atom, if the dim is one.
    pub fn as_atom(&self) -> Option<&Atom> {
        if self.0.constant == 0 { self.as_offset_atom() } else { None }
    }

    /// The atom, if the dim is one plus a constant.
    fn as_offset_atom(&self) -> Option<&Atom> {
        match self.0.terms.as_slice() {
            [Term { factors, coefficient: 1 }] if factors.len() == 1 => factors.first(),
            _ => None,
        }
    }

    /// The symbol, if the dim is one.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match self.as_atom() {
            Some(Atom::Symbol(symbol)) => Some(symbol),
            _ => None,
        }
    }

    /// The table and the index, if the dim is an element.
    pub fn as_element(&self) -> Option<(&Symbol, &[Dim])> {
        match self.as_atom() {
            Some(Atom::Element(table, index)) => Some((table, index)),
            _ => None,
        }
    }

    /// Whether the dim is the integer 0.
    pub fn is_zero(&self) -> bool {
        self.as_constant() == Some(0)
    }

    /// Whether the dim is the integer 1.
    pub fn is_one(&self) -> bool {
        self.as_constant() == Some(1)
    }

    /// Whether the dim is [`Dim::overflow`].
    pub fn is_overflow(&self) -> bool {
        self.as_atom() == Some(&Atom::Overflow)
    }

    fn scaled(&self, scale: i64) -> Dim {
        if self.is_overflow() {
            return Dim::overflow();
        }
        let mut sum = Builder::default();
        sum.add_scaled(self, i128::from(scale));
        sum.finish()
    }

    fn plus(&self, other: &Dim, scale: i64) -> Dim {
        if self.is_overflow() || other.is_overflow() {
            return Dim::overflow();
        }
        let mut sum = Builder::default();
        sum.add_scaled(self, 1);
        sum.add_scaled(other, i128::from(scale));
        sum.finish()
    }

    fn times(&self, other: &Dim) -> Dim {
        if let Some(value) = other.as_constant() {
            return self.scaled(value);
        }
        if let Some(value) = self.as_constant() {
            return other.scaled(value);
        }
        let expanded = (self.0.terms.len() + 1).saturating_mul(other.0.terms.len() + 1);
        if self.is_overflow() || other.is_overflow() || expanded > MAX_TERMS * 4 {
            return Dim::overflow();
        }
        let mut sum = Builder::default();
        for (c, factors) in self.parts() {
            for (d, others) in other.parts() {
                let mut product = [factors, others].concat();
                product.sort();
                sum.add_term(product, i128::from(c) * i128::from(d));
            }
        }
        sum.finish()
    }

    /// The terms, and the constant as a term without factors.
    fn parts(&self) -> impl Iterator<Item = (i64, &[Atom])> {
        self.terms().chain(std::iter::once((self.0.constant, [].as_slice())))
    }

    /// The quotient rounded down.
    pub fn floor_div(&self, divisor: impl Into<Dim>) -> Dim {
        quotient(self, &divisor.into(), Rounding::Down)
    }

    /// The quotient rounded up.
    pub fn ceil_div(&self, divisor: impl Into<Dim>) -> Dim {
        quotient(self, &divisor.into(), Rounding::Up)
    }

    /// The remainder of [`Dim::floor_div`]; it has the divisor's sign.
    pub fn modulo(&self, divisor: impl Into<Dim>) -> Dim {
        remainder(self, &divisor.into())
    }

    /// The lesser of two.
    pub fn min(&self, other: impl Into<Dim>) -> Dim {
        extremum(End::Min, [self.clone(), other.into()])
    }

    /// The greater of two.
    pub fn max(&self, other: impl Into<Dim>) -> Dim {
        extremum(End::Max, [self.clone(), other.into()])
    }

    /// The least of all; none has no least.
    pub fn min_of(dims: impl IntoIterator<Item = Dim>) -> Option<Dim> {
        dims.into_iter().reduce(|a, b| Dim::min(&a, b))
    }

    /// The greatest of all; none has no greatest.
    pub fn max_of(dims: impl IntoIterator<Item = Dim>) -> Option<Dim> {
        dims.into_iter().reduce(|a, b| Dim::max(&a, b))
    }

    /// Calls `f` on each atom, outside in.
    fn visit(&self, f: &mut dyn FnMut(&Atom)) {
        for atom in self.0.terms.iter().flat_map(|term| &term.factors) {
            f(atom);
            atom.operands().into_iter().for_each(|dim| dim.visit(f));
        }
    }

    /// The symbols, those inside elements' indices included; tables are not symbols.
    pub fn symbols(&self) -> BTreeSet<Symbol> {
        let mut found = BTreeSet::new();
        self.visit(&mut |atom| {
            if let Atom::Symbol(symbol) = atom {
                found.insert(symbol.clone());
            }
        });
        found
    }

    /// The tables whose elements occur.
    pub fn tables(&self) -> BTreeSet<Symbol> {
        let mut found = BTreeSet::new();
        self.visit(&mut |atom| {
            if let Atom::Element(table, _) = atom {
                found.insert(table.clone());
            }
        });
        found
    }

    /// Whether the symbol occurs, inside elements' indices included.
    pub fn mentions(&self, symbol: &Symbol) -> bool {
        let atoms = self.0.terms.iter().flat_map(|term| &term.factors);
        atoms.into_iter().any(|atom| atom.mentions(symbol))
    }

    /// Puts `f(s)` for each symbol `s` that has one, all at once, inside elements' indices too.
    pub fn substitute(&self, f: &dyn Fn(&Symbol) -> Option<Dim>) -> Dim {
        self.rewrite(&mut |leaf| match leaf {
            Atom::Symbol(symbol) => f(symbol),
            _ => None,
        })
    }

    /// Puts elements of table `f(t)` for those of each table `t` that has one.
    pub fn rename_tables(&self, f: &dyn Fn(&Symbol) -> Option<Symbol>) -> Dim {
        self.rewrite(&mut |leaf| match leaf {
            Atom::Element(table, index) => f(table).map(|table| Dim::element(table, index.clone())),
            _ => None,
        })
    }

    /// Puts `f(a)` for each symbol or element `a` that has one; an element's index is rewritten before.
    pub(super) fn rewrite(&self, f: &mut dyn FnMut(&Atom) -> Option<Dim>) -> Dim {
        let mut sum = Dim::constant(self.0.constant);
        for (coefficient, factors) in self.terms() {
            let mut product = Dim::constant(coefficient);
            for atom in factors {
                product = product.times(&atom.rewrite(f));
            }
            sum = sum.plus(&product, 1);
        }
        sum
    }

    /// The one symbol that the value of this dim determines: it is linear in it with constant coefficients, and
    /// mentions nothing else. With it the coefficient and the constant.
    fn linear(&self) -> Option<(Symbol, i64, i64)> {
        let symbols = self.symbols();
        let symbol = symbols.first().filter(|_| symbols.len() == 1 && self.tables().is_empty())?;
        let affine = self.affine(std::slice::from_ref(symbol))?;
        let factor = affine.coefficients.first()?.as_constant().filter(|factor| *factor != 0)?;
        Some((symbol.clone(), factor, affine.constant.as_constant()?))
    }

    /// The symbol whose value follows from that of this dim: `S`, `E + 1` and `4*H` determine one, `S*T` none.
    pub fn determines(&self) -> Option<Symbol> {
        self.linear().map(|(symbol, ..)| symbol)
    }

    /// The symbol that this dim determines, and its value where that of the dim is `actual`; none where no integer
    /// gives it.
    pub fn solve(&self, actual: i64) -> Option<(Symbol, i64)> {
        let (symbol, factor, rest) = self.linear()?;
        let product = actual.checked_sub(rest)?;
        let value = product.checked_div(factor).filter(|value| value.checked_mul(factor) == Some(product))?;
        Some((symbol, value))
    }

    /// The dim as a linear form in `vars`, if it is one.
    pub fn affine(&self, vars: &[Symbol]) -> Option<Affine> {
        let mut coefficients: Vec<Builder> = vars.iter().map(|_| Builder::default()).collect();
        let mut rest = Builder { constant: i128::from(self.0.constant), ..Builder::default() };
        for (coefficient, factors) in self.terms() {
            let mut var = None;
            let mut others = Vec::with_capacity(factors.len());
            for atom in factors {
                match vars.iter().position(|v| matches!(atom, Atom::Symbol(s) if s == v)) {
                    Some(i) if var.is_none() => var = Some(i),
                    Some(_) => return None,
                    None if vars.iter().any(|v| atom.mentions(v)) => return None,
                    None => others.push(atom.clone()),
                }
            }
            let into = var.map_or(&mut rest, |i| &mut coefficients[i]);
            into.add_term(others, i128::from(coefficient));
        }
        let coefficients = coefficients.into_iter().map(Builder::finish).collect();
        Some(Affine { coefficients, constant: rest.finish() })
    }

    /// The value in `env`. Only the result and the indices must fit 64 bits, not what is computed on the way.
    pub fn eval(&self, env: &dyn Env) -> Result<i64, EvalError> {
        i64::try_from(self.eval_wide(env)?).map_err(|_| EvalError::Overflow(self.clone()))
    }

    fn eval_wide(&self, env: &dyn Env) -> Result<i128, EvalError> {
        let overflow = || EvalError::Overflow(self.clone());
        let mut sum = i128::from(self.0.constant);
        for (coefficient, factors) in self.terms() {
            let mut product = i128::from(coefficient);
            for atom in factors {
                product = product.checked_mul(atom.eval(env)?).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(product).ok_or_else(overflow)?;
        }
        Ok(sum)
    }
}

impl Atom {
    /// Whether the symbol occurs.
    pub fn mentions(&self, symbol: &Symbol) -> bool {
        match self {
            Atom::Symbol(s) => s == symbol,
            _ => self.operands().into_iter().any(|dim| dim.mentions(symbol)),
        }
    }

    fn rewrite(&self, f: &mut dyn FnMut(&Atom) -> Option<Dim>) -> Dim {
        let mut all = |dims: &[Dim]| dims.iter().map(|dim| dim.rewrite(f)).collect::<Vec<_>>();
        match self {
            Atom::Symbol(_) => f(self).unwrap_or_else(|| Dim::atom(self.clone())),
            Atom::Element(table, index) => {
                let leaf = Dim::element(table.clone(), all(index));
                leaf.as_atom().and_then(f).unwrap_or(leaf)
            }
            Atom::FloorDiv(a, b) => quotient(&a.rewrite(f), &b.rewrite(f), Rounding::Down),
            Atom::CeilDiv(a, b) => quotient(&a.rewrite(f), &b.rewrite(f), Rounding::Up),
            Atom::Mod(a, b) => remainder(&a.rewrite(f), &b.rewrite(f)),
            Atom::Min(args) => extremum(End::Min, all(args)),
            Atom::Max(args) => extremum(End::Max, all(args)),
            Atom::Overflow => Dim::overflow(),
        }
    }

    fn eval(&self, env: &dyn Env) -> Result<i128, EvalError> {
        let divide = |a: &Dim, b: &Dim, f: fn(i128, i128) -> Option<i128>| {
            let (a, b) = (a.eval_wide(env)?, b.eval_wide(env)?);
            let whole = || Dim::atom(self.clone());
            if b == 0 {
                return Err(EvalError::DivisionByZero(whole()));
            }
            f(a, b).ok_or_else(|| EvalError::Overflow(whole()))
        };
        let fold = |args: &[Dim], f: fn(i128, i128) -> i128| {
            let mut values = args.iter().map(|dim| dim.eval_wide(env));
            let first = values.next().unwrap_or_else(|| Err(EvalError::Overflow(Dim::atom(self.clone()))))?;
            values.try_fold(first, |best, value| Ok(f(best, value?)))
        };
        match self {
            Atom::Symbol(symbol) => {
                env.symbol(symbol).map(i128::from).ok_or_else(|| EvalError::Unbound(symbol.clone()))
            }
            Atom::Element(table, index) => {
                let index = index.iter().map(|dim| dim.eval(env)).collect::<Result<Vec<_>, _>>()?;
                let value = env.element(table, &index).map(i128::from);
                value.ok_or_else(|| EvalError::NoElement { table: table.clone(), index })
            }
            Atom::FloorDiv(a, b) => divide(a, b, floor_div),
            Atom::CeilDiv(a, b) => divide(a, b, ceil_div),
            Atom::Mod(a, b) => divide(a, b, modulo),
            Atom::Min(args) => fold(args, i128::min),
            Atom::Max(args) => fold(args, i128::max),
            Atom::Overflow => Err(EvalError::Overflow(Dim::overflow())),
        }
    }
}

/// `a/b` rounded to minus infinity; none where `b` is zero or the result does not fit.
pub(super) fn floor_div(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let inexact = a.checked_rem(b)? != 0;
    Some(if inexact && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// `a/b` rounded to plus infinity; none where `b` is zero or the result does not fit.
pub(super) fn ceil_div(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let inexact = a.checked_rem(b)? != 0;
    Some(if inexact && (a < 0) == (b < 0) { quotient + 1 } else { quotient })
}

/// `a - b*floor_div(a, b)`; none where `b` is zero or the quotient does not fit.
pub(super) fn modulo(a: i128, b: i128) -> Option<i128> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// The greatest common divisor, not negative; `gcd(0, b)` is `|b|`.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Down,
    Up,
}

/// A numerator over a constant `k > 1`, split as `k*whole + g*rest`, `g` the greatest common divisor of `k` and
/// the coefficients; the constant goes apart.
struct Reduced {
    whole: Builder,
    rest: Dim,
    common: i128,
}

fn reduce(a: &Dim, k: i128) -> Reduced {
    let mut whole = Builder::default();
    let common = a.terms().fold(k, |g, (c, _)| gcd(g, i128::from(c) % k));
    let mut rest = Builder::default();
    for (c, factors) in a.terms() {
        let c = i128::from(c);
        whole.add_term(factors.to_vec(), c / k);
        rest.add_term(factors.to_vec(), c % k / common);
    }
    Reduced { whole, rest: rest.finish(), common }
}

fn quotient(a: &Dim, b: &Dim, rounding: Rounding) -> Dim {
    let as_is = || match rounding {
        Rounding::Down => Dim::atom(Atom::FloorDiv(a.clone(), b.clone())),
        Rounding::Up => Dim::atom(Atom::CeilDiv(a.clone(), b.clone())),
    };
    if a.is_overflow() || b.is_overflow() {
        return Dim::overflow();
    }
    match b.as_constant() {
        None | Some(0) => as_is(),
        Some(k) if k < 0 => {
            let (a, b) = (a.scaled(-1), b.scaled(-1));
            if a.is_overflow() || b.is_overflow() { as_is() } else { quotient(&a, &b, rounding) }
        }
        Some(1) => a.clone(),
        Some(k) => {
            floor_quotient(a, if rounding == Rounding::Up { i128::from(k) - 1 } else { 0 }, i128::from(k))
        }
    }
}

/// `floordiv(a + extra, k)` for `k > 1`.
fn floor_quotient(a: &Dim, extra: i128, k: i128) -> Dim {
    let Reduced { mut whole, rest, common } = reduce(a, k);
    let constant = i128::from(a.constant_part()) + extra;
    whole.add_constant(constant.div_euclid(k));
    let (constant, k) = (constant.rem_euclid(k) / common, k / common);
    let part = if rest.is_zero() { rest } else { proper_quotient(&rest, constant, k) };
    whole.add_scaled(&part, 1);
    if part.is_overflow() { Dim::overflow() } else { whole.finish() }
}

/// `floordiv(rest + constant, k)` for a reduced `rest` that is no constant, and `0 <= constant < k`.
fn proper_quotient(rest: &Dim, constant: i128, k: i128) -> Dim {
    let positive = |m: &Dim| m.as_constant().map(i128::from).filter(|m| *m > 0);
    match rest.as_atom() {
        Some(Atom::Mod(_, m)) if positive(m).is_some_and(|m| m - 1 + constant < k) => {
            return Dim::constant(0);
        }
        Some(inner @ (Atom::FloorDiv(x, m) | Atom::CeilDiv(x, m))) => {
            if let Some(m) = positive(m) {
                let up = if matches!(inner, Atom::CeilDiv(..)) { m - 1 } else { 0 };
                let extra = m.checked_mul(constant).and_then(|e| e.checked_add(up));
                let k = m.checked_mul(k).filter(|k| i64::try_from(*k).is_ok());
                if let (Some(extra), Some(k)) = (extra, k) {
                    return floor_quotient(x, extra, k);
                }
            }
        }
        _ => {}
    }
    let (Ok(narrow), Ok(k64)) = (i64::try_from(constant), i64::try_from(k)) else { return Dim::overflow() };
    if constant == k - 1 {
        return Dim::atom(Atom::CeilDiv(rest.clone(), Dim::constant(k64)));
    }
    Dim::atom(Atom::FloorDiv(rest.plus(&Dim::constant(narrow), 1), Dim::constant(k64)))
}

fn remainder(a: &Dim, b: &Dim) -> Dim {
    let as_is = || Dim::atom(Atom::Mod(a.clone(), b.clone()));
    if a.is_overflow() || b.is_overflow() {
        return Dim::overflow();
    }
    match b.as_constant() {
        None | Some(0) => as_is(),
        Some(k) if k < 0 => {
            let (a, b) = (a.scaled(-1), b.scaled(-1));
            if a.is_overflow() || b.is_overflow() { as_is() } else { remainder(&a, &b).scaled(-1) }
        }
        Some(1) => Dim::constant(0),
        Some(k) => floor_remainder(&without_inner_mods(a, k), i128::from(k)),
    }
}

/// `a` with `c*x` for each term `c*mod(x, m)` where `k` divides `c*m`: the same modulo `k`.
fn without_inner_mods(a: &Dim, k: i64) -> Dim {
    let mut sum = Builder { constant: i128::from(a.constant_part()), ..Builder::default() };
    for (c, factors) in a.terms() {
        let c = i128::from(c);
        match factors {
            [Atom::Mod(x, m)]
                if m.as_constant().is_some_and(|m| m > 0 && c * i128::from(m) % i128::from(k) == 0) =>
            {
                sum.add_scaled(x, c % i128::from(k));
            }
            _ => sum.add_term(factors.to_vec(), c % i128::from(k)),
        }
    }
    sum.finish()
}

/// `mod(a, k)` for `k > 1`.
fn floor_remainder(a: &Dim, k: i128) -> Dim {
    let Reduced { rest, common, .. } = reduce(a, k);
    let constant = i128::from(a.constant_part()).rem_euclid(k);
    let mut sum = Builder::default();
    if rest.is_zero() {
        sum.add_constant(constant);
        return sum.finish();
    }
    sum.add_constant(constant % common);
    let (inner, k) = (constant / common, k / common);
    let small = matches!(rest.as_atom(), Some(Atom::Mod(_, m))
        if m.as_constant().is_some_and(|m| m > 0 && i128::from(m) - 1 + inner < k));
    let (Ok(inner), Ok(k)) = (i64::try_from(inner), i64::try_from(k)) else { return Dim::overflow() };
    let numerator = rest.plus(&Dim::constant(inner), 1);
    let part = if small { numerator } else { Dim::atom(Atom::Mod(numerator, Dim::constant(k))) };
    sum.add_scaled(&part, common);
    sum.finish()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

/// The operands of a nested `end`, moved by the constant that is added to it.
fn flatten(end: End, dim: Dim) -> Vec<Dim> {
    let moved = |args: &[Dim]| -> Option<Vec<Dim>> {
        let args: Vec<Dim> = args.iter().map(|arg| arg + dim.constant_part()).collect();
        (!args.iter().any(Dim::is_overflow)).then_some(args)
    };
    let nested = match (end, dim.as_offset_atom()) {
        (End::Min, Some(Atom::Min(args))) | (End::Max, Some(Atom::Max(args))) => moved(args),
        _ => None,
    };
    nested.unwrap_or_else(|| vec![dim])
}

/// The least or greatest; of operands that differ by a constant only one is kept.
fn extremum(end: End, dims: impl IntoIterator<Item = Dim>) -> Dim {
    let mut kept: BTreeMap<Vec<Term>, i64> = BTreeMap::new();
    for dim in dims.into_iter().flat_map(|dim| flatten(end, dim)) {
        if dim.is_overflow() {
            return dim;
        }
        let constant = dim.constant_part();
        let best = kept.entry(dim.0.terms.clone()).or_insert(constant);
        *best = if end == End::Min { constant.min(*best) } else { constant.max(*best) };
    }
    let mut dims: Vec<Dim> =
        kept.into_iter().map(|(terms, constant)| Dim(Arc::new(Sum { terms, constant }))).collect();
    dims.sort();
    match (dims.len(), end) {
        (0, _) => Dim::overflow(),
        (1, _) => dims.remove(0),
        (_, End::Min) => Dim::atom(Atom::Min(dims)),
        (_, End::Max) => Dim::atom(Atom::Max(dims)),
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim::constant(value)
    }
}

impl From<Symbol> for Dim {
    fn from(symbol: Symbol) -> Dim {
        Dim::symbol(symbol)
    }
}

impl From<&Symbol> for Dim {
    fn from(symbol: &Symbol) -> Dim {
        Dim::symbol(symbol.clone())
    }
}

impl From<&str> for Dim {
    fn from(name: &str) -> Dim {
        Dim::symbol(name)
    }
}

impl From<&Dim> for Dim {
    fn from(dim: &Dim) -> Dim {
        dim.clone()
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, |$a:ident, $b:ident| $body:expr) => {
        operator!(@ $trait, $method, Dim, Dim, |$a, $b| $body);
        operator!(@ $trait, $method, Dim, &Dim, |$a, $b| $body);
        operator!(@ $trait, $method, &Dim, Dim, |$a, $b| $body);
        operator!(@ $trait, $method, &Dim, &Dim, |$a, $b| $body);
        operator!(@ $trait, $method, Dim, i64, |$a, $b| $body);
        operator!(@ $trait, $method, &Dim, i64, |$a, $b| $body);
        operator!(@ $trait, $method, i64, Dim, |$a, $b| $body);
        operator!(@ $trait, $method, i64, &Dim, |$a, $b| $body);
    };
    (@ $trait:ident, $method:ident, $left:ty, $right:ty, |$a:ident, $b:ident| $body:expr) => {
        impl $trait<$right> for $left {
            type Output = Dim;

            fn $method(self, other: $right) -> Dim {
                let ($a, $b): (Dim, Dim) = (self.into(), other.into());
                $body
            }
        }
    };
}

operator!(Add, add, |a, b| a.plus(&b, 1));
operator!(Sub, sub, |a, b| a.plus(&b, -1));
operator!(Mul, mul, |a, b| a.times(&b));

impl Neg for Dim {
    type Output = Dim;

    fn neg(self) -> Dim {
        self.scaled(-1)
    }
}

impl Neg for &Dim {
    type Output = Dim;

    fn neg(self) -> Dim {
        self.scaled(-1)
    }
}

impl std::iter::Sum for Dim {
    fn sum<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.fold(Dim::constant(0), |a, b| a + b)
    }
}

impl std::iter::Product for Dim {
    fn product<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.fold(Dim::constant(1), |a, b| a * b)
    }
}
