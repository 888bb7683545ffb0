//! Symbolic integers: sizes, coordinates and offsets.
//!
//! A [`Dim`] is an expression over named [`Symbol`]s and elements of integer tensors, kept in one normal form:
//! a sum of products with integer coefficients. A [`Cond`] compares dims. [`Facts`] say what is known about
//! symbols and tables, and prove comparisons, or answer [`Proof::Unknown`]. [`Code`] is a dim compiled for
//! repeated evaluation.
//!
//! Meaning: division rounds to minus infinity, `mod(a, b)` is `a - b*floordiv(a, b)`, and both fail where `b` is
//! zero. Values are 64-bit; a result beyond them is an error, never a wrapped number. Rewriting keeps the value
//! wherever the original has one; it may give a value where a part of the original that does not matter fails
//! (`0*floordiv(1, x)` is `0`).

mod bounds;
mod code;
mod cond;
mod expr;
mod facts;
mod prover;
pub mod text;

pub use code::{Code, CondCode};
pub use cond::{Cond, Relation};
pub use expr::{Affine, Atom, Dim};
pub use facts::{FactError, Facts, Interval, Proof};
pub use text::{parse_cond, parse_dim, parse_facts};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The name of an integer: a size, a coordinate, or (where it names a table) an integer tensor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(Arc<str>);

impl Symbol {
    /// The symbol of this name.
    pub fn new(name: &str) -> Symbol {
        Symbol(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Symbol {
    fn from(name: &str) -> Symbol {
        Symbol::new(name)
    }
}

impl From<String> for Symbol {
    fn from(name: String) -> Symbol {
        Symbol(name.into())
    }
}

impl From<&Symbol> for Symbol {
    fn from(symbol: &Symbol) -> Symbol {
        symbol.clone()
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Values for symbols and tables.
pub trait Env {
    /// The value of a symbol, if it has one here.
    fn symbol(&self, symbol: &Symbol) -> Option<i64>;

    /// The element of a table, if the table is known and the index is inside it.
    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64>;
}

impl Env for BTreeMap<Symbol, i64> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.get(symbol).copied()
    }

    fn element(&self, _: &Symbol, _: &[i64]) -> Option<i64> {
        None
    }
}

impl Env for () {
    fn symbol(&self, _: &Symbol) -> Option<i64> {
        None
    }

    fn element(&self, _: &Symbol, _: &[i64]) -> Option<i64> {
        None
    }
}

impl<E: Env + ?Sized> Env for &E {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        (**self).symbol(symbol)
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        (**self).element(table, index)
    }
}

/// Bindings layered over another environment: `names[i]` has `values[i]`, the last of equal names wins, and a
/// name without a value falls through to the parent.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Asked for everything that is not bound here.
    pub parent: &'a dyn Env,
    /// The names bound here.
    pub names: &'a [Symbol],
    /// Their values.
    pub values: &'a [i64],
}

impl Env for Scope<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        let bound = self.names.iter().zip(self.values).rev().find(|(name, _)| *name == symbol);
        bound.map(|(_, value)| *value).or_else(|| self.parent.symbol(symbol))
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        self.parent.element(table, index)
    }
}

/// Why a dim has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A symbol that the environment does not bind.
    #[error("`{0}` has no value")]
    Unbound(Symbol),
    /// An element that the environment does not have.
    #[error("`{table}` has no element {index:?}")]
    NoElement {
        /// The table asked.
        table: Symbol,
        /// The index asked for.
        index: Vec<i64>,
    },
    /// A division or remainder by zero.
    #[error("`{0}` divides by zero")]
    DivisionByZero(Dim),
    /// A value beyond 64 bits.
    #[error("`{0}` is beyond 64 bits")]
    Overflow(Dim),
}
