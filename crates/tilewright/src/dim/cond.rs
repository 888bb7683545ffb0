//! [`Cond`]: comparisons of dims under `and`, `or` and `not`.
//!
//! The constructors flatten, fold what holds for all integers, and keep the order in which a person wrote the
//! parts. A cond made by them prints to text that reads back to the same cond.

use super::{Dim, Env, EvalError, Symbol};
use std::collections::BTreeSet;

/// How two integers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `==`
    Eq,
    /// `!=`
    Ne,
}

impl Relation {
    /// All of them.
    pub const ALL: [Relation; 6] =
        [Relation::Lt, Relation::Le, Relation::Gt, Relation::Ge, Relation::Eq, Relation::Ne];

    /// The text.
    pub fn as_str(self) -> &'static str {
        match self {
            Relation::Lt => "<",
            Relation::Le => "<=",
            Relation::Gt => ">",
            Relation::Ge => ">=",
            Relation::Eq => "==",
            Relation::Ne => "!=",
        }
    }

    /// Whether it holds.
    pub fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Relation::Lt => a < b,
            Relation::Le => a <= b,
            Relation::Gt => a > b,
            Relation::Ge => a >= b,
            Relation::Eq => a == b,
            Relation::Ne => a != b,
        }
    }

    /// What holds where this does not.
    pub fn negated(self) -> Relation {
        match self {
            Relation::Lt => Relation::Ge,
            Relation::Le => Relation::Gt,
            Relation::Gt => Relation::Le,
            Relation::Ge => Relation::Lt,
            Relation::Eq => Relation::Ne,
            Relation::Ne => Relation::Eq,
        }
    }

    /// What holds of `b, a` where this holds of `a, b`.
    pub fn swapped(self) -> Relation {
        match self {
            Relation::Lt => Relation::Gt,
            Relation::Le => Relation::Ge,
            Relation::Gt => Relation::Lt,
            Relation::Ge => Relation::Le,
            Relation::Eq | Relation::Ne => self,
        }
    }
}

/// A condition over symbols. The variants are for reading; the constructors keep the invariants.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cond {
    /// Always.
    #[default]
    True,
    /// Never.
    False,
    /// Two dims that do not differ by a constant.
    Compare(Dim, Relation, Dim),
    /// Two or more, all of them; none is `True`, `False` or `And`.
    And(Vec<Cond>),
    /// Two or more, any of them; none is `True`, `False` or `Or`.
    Or(Vec<Cond>),
    /// Not an `And` or an `Or`.
    Not(Box<Cond>),
}

impl Cond {
    /// `a relation b`, folded where `a - b` is an integer.
    pub fn compare(a: impl Into<Dim>, relation: Relation, b: impl Into<Dim>) -> Cond {
        let (a, b) = (a.into(), b.into());
        match (&a - &b).as_constant() {
            Some(difference) => Cond::from(relation.holds(difference, 0)),
            None => Cond::Compare(a, relation, b),
        }
    }

    /// `a < b`
    pub fn lt(a: impl Into<Dim>, b: impl Into<Dim>) -> Cond {
        Cond::compare(a, Relation::Lt, b)
    }

    /// `a <= b`
    pub fn le(a: impl Into<Dim>, b: impl Into<Dim>) -> Cond {
        Cond::compare(a, Relation::Le, b)
    }

    /// `a > b`
    pub fn gt(a: impl Into<Dim>, b: impl Into<Dim>) -> Cond {
        Cond::compare(a, Relation::Gt, b)
    }

    /// `a >= b`
    pub fn ge(a: impl Into<Dim>, b: impl Into<Dim>) -> Cond {
        Cond::compare(a, Relation::Ge, b)
    }

    /// `a == b`
    pub fn equal(a: impl Into<Dim>, b: impl Into<Dim>) -> Cond {
        Cond::compare(a, Relation::Eq, b)
    }

    /// `a != b`
    pub fn differ(a: impl Into<Dim>, b: impl Into<Dim>) -> Cond {
        Cond::compare(a, Relation::Ne, b)
    }

    /// All of them; `True` of none.
    pub fn all(conds: impl IntoIterator<Item = Cond>) -> Cond {
        let mut parts: Vec<Cond> = Vec::new();
        for cond in conds {
            match cond {
                Cond::True => {}
                Cond::False => return Cond::False,
                Cond::And(inner) => inner.into_iter().for_each(|c| push_new(&mut parts, c)),
                cond => push_new(&mut parts, cond),
            }
        }
        single(parts, Cond::True, Cond::And)
    }

    /// Any of them; `False` of none.
    pub fn any(conds: impl IntoIterator<Item = Cond>) -> Cond {
        let mut parts: Vec<Cond> = Vec::new();
        for cond in conds {
            match cond {
                Cond::False => {}
                Cond::True => return Cond::True,
                Cond::Or(inner) => inner.into_iter().for_each(|c| push_new(&mut parts, c)),
                cond => push_new(&mut parts, cond),
            }
        }
        single(parts, Cond::False, Cond::Or)
    }

    /// Both.
    pub fn and(self, other: Cond) -> Cond {
        Cond::all([self, other])
    }

    /// One or both.
    pub fn or(self, other: Cond) -> Cond {
        Cond::any([self, other])
    }

    /// Whether it is `True`.
    pub fn is_true(&self) -> bool {
        *self == Cond::True
    }

    /// Whether it holds in `env`. Parts are looked at from the left until one decides.
    pub fn eval(&self, env: &dyn Env) -> Result<bool, EvalError> {
        match self {
            Cond::True => Ok(true),
            Cond::False => Ok(false),
            Cond::Compare(a, relation, b) => Ok(relation.holds(a.eval(env)?, b.eval(env)?)),
            Cond::And(parts) => {
                for part in parts {
                    if !part.eval(env)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Cond::Or(parts) => {
                for part in parts {
                    if part.eval(env)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Cond::Not(inner) => Ok(!inner.eval(env)?),
        }
    }

    /// Calls `f` on each dim, from the left.
    pub fn visit_dims(&self, f: &mut dyn FnMut(&Dim)) {
        match self {
            Cond::True | Cond::False => {}
            Cond::Compare(a, _, b) => {
                f(a);
                f(b);
            }
            Cond::And(parts) | Cond::Or(parts) => parts.iter().for_each(|part| part.visit_dims(f)),
            Cond::Not(inner) => inner.visit_dims(f),
        }
    }

    /// The same condition on `f` of each dim.
    pub fn map_dims(&self, f: &mut dyn FnMut(&Dim) -> Dim) -> Cond {
        match self {
            Cond::True | Cond::False => self.clone(),
            Cond::Compare(a, relation, b) => Cond::compare(f(a), *relation, f(b)),
            Cond::And(parts) => Cond::all(parts.iter().map(|part| part.map_dims(f)).collect::<Vec<_>>()),
            Cond::Or(parts) => Cond::any(parts.iter().map(|part| part.map_dims(f)).collect::<Vec<_>>()),
            Cond::Not(inner) => !inner.map_dims(f),
        }
    }

    /// The symbols of all dims.
    pub fn symbols(&self) -> BTreeSet<Symbol> {
        let mut found = BTreeSet::new();
        self.visit_dims(&mut |dim| found.append(&mut dim.symbols()));
        found
    }

    /// The tables of all dims.
    pub fn tables(&self) -> BTreeSet<Symbol> {
        let mut found = BTreeSet::new();
        self.visit_dims(&mut |dim| found.append(&mut dim.tables()));
        found
    }

    /// Whether the symbol occurs.
    pub fn mentions(&self, symbol: &Symbol) -> bool {
        let mut found = false;
        self.visit_dims(&mut |dim| found = found || dim.mentions(symbol));
        found
    }

    /// [`Dim::substitute`] on each dim.
    pub fn substitute(&self, f: &dyn Fn(&Symbol) -> Option<Dim>) -> Cond {
        self.map_dims(&mut |dim| dim.substitute(f))
    }

    /// [`Dim::rename_tables`] on each dim.
    pub fn rename_tables(&self, f: &dyn Fn(&Symbol) -> Option<Symbol>) -> Cond {
        self.map_dims(&mut |dim| dim.rename_tables(f))
    }
}

fn push_new(parts: &mut Vec<Cond>, cond: Cond) {
    if !parts.contains(&cond) {
        parts.push(cond);
    }
}

fn single(mut parts: Vec<Cond>, none: Cond, many: fn(Vec<Cond>) -> Cond) -> Cond {
    match parts.len() {
        0 => none,
        1 => parts.remove(0),
        _ => many(parts),
    }
}

impl From<bool> for Cond {
    fn from(value: bool) -> Cond {
        if value { Cond::True } else { Cond::False }
    }
}

impl std::ops::Not for Cond {
    type Output = Cond;

    fn not(self) -> Cond {
        match self {
            Cond::True => Cond::False,
            Cond::False => Cond::True,
            Cond::Compare(a, relation, b) => Cond::Compare(a, relation.negated(), b),
            Cond::Not(inner) => *inner,
            cond => Cond::Not(Box::new(cond)),
        }
    }
}
