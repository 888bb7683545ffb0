//! The elementwise functions: one table row each, and no other list of them anywhere.
//!
//! A row holds the text name, the number of arguments, the rule for the type of the result, and the meaning
//! on scalars. Parser, verifier, evaluators, lowerings, executors and the command's `list` read this table.
//! Every meaning is total: no argument panics. Floats are `f64` here; whoever evaluates in a program's own
//! types rounds the result once (`DType::round`).

use super::dtype::{DType, Scalar};

/// How the type of the result follows from the types of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRule {
    /// All arguments and the result have one type, a float.
    Float,
    /// All arguments and the result have one type, an integer.
    Int,
    /// All arguments and the result have one type, a float or an integer.
    Number,
    /// All arguments have one type, a float or an integer; the result is `bool`.
    Compare,
    /// All arguments and the result are `bool`.
    Bool,
    /// The first argument is `bool`, the others and the result have one type.
    Select,
    /// One argument of any type; the result type is stated by the operator (`to`).
    To,
}

/// An elementwise function: a row of [`TABLE`], compared by name.
#[derive(Debug)]
pub struct Elementwise {
    /// The text name.
    pub name: &'static str,
    /// The number of arguments, 1 to 3.
    pub arity: usize,
    /// The type of the result.
    pub types: TypeRule,
    /// The value at one element; `to` is the type of the result. Arguments are of the class that `types` asks for.
    pub eval: fn(args: &[Scalar], to: DType) -> Scalar,
    /// One line for the documentation, such as `e^x`.
    pub doc: &'static str,
}

impl PartialEq for Elementwise {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Elementwise {}

impl std::hash::Hash for Elementwise {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The function with this text name.
pub fn find(name: &str) -> Option<&'static Elementwise> {
    TABLE.iter().find(|row| row.name == name)
}

/// Every elementwise function, once.
pub static TABLE: &[Elementwise] = &[Elementwise {
    name: "add",
    arity: 2,
    types: TypeRule::Number,
    eval: |a, _| match (a[0], a[1]) {
        (Scalar::Int(x), Scalar::Int(y)) => Scalar::Int(x.wrapping_add(y)),
        (x, y) => Scalar::Float(x.as_f64() + y.as_f64()),
    },
    doc: "a + b",
}];
