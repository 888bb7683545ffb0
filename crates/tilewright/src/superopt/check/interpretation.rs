//! What an interpretation of reals has to say; integers, positions and index conditions are exact in all of them.

use crate::dim::Relation;
use crate::tensor::dtype::DType;
use crate::tensor::elementwise::{Algebra, Elementwise};

/// Which operator of a program asks: evidence about comparisons is kept for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// 0 for the program, 1 for the candidate.
    pub side: u8,
    /// The function.
    pub function: u32,
    /// The node.
    pub node: u32,
}

/// A meaning of floats and of what is true about them.
pub trait Interpretation {
    /// What stands for an element of a float type.
    type Real: Clone;
    /// What stands for a truth value.
    type Truth: Copy;

    /// A literal.
    fn number(&self, value: f64) -> Self::Real;
    /// An integer, as a float.
    fn integer(&self, value: i64) -> Self::Real;
    /// 1 where true, else 0.
    fn indicator(&self, truth: Self::Truth) -> Self::Real;
    /// What nothing has written, or an operator does not define.
    fn undefined(&self) -> Self::Real;
    /// The value rounded to a type, as far as the interpretation rounds.
    fn round(&self, value: Self::Real, dtype: DType) -> Self::Real;
    /// A float made an integer of type `dtype`.
    fn to_integer(&self, value: &Self::Real, dtype: DType) -> i64;

    /// A truth value that is known.
    fn truth(&self, value: bool) -> Self::Truth;
    /// One answer, where only one is possible: a position or an integer depends on it.
    fn decide(&self, truth: Self::Truth) -> bool;
    /// Both.
    fn and(&self, a: Self::Truth, b: Self::Truth) -> Self::Truth;
    /// The opposite.
    fn not(&self, a: Self::Truth) -> Self::Truth;
    /// A comparison.
    fn compare(&self, site: Site, relation: Relation, a: &Self::Real, b: &Self::Real) -> Self::Truth;
    /// `a` where true, else `b`; the other is not looked at.
    fn select(&self, truth: Self::Truth, a: &Self::Real, b: &Self::Real) -> Self::Real;

    /// A function of floats to a float of type `dtype`: none of those above.
    fn apply(&self, function: &'static Elementwise, arguments: &[Self::Real], dtype: DType) -> Self::Real;
    /// The sum, product, greatest or least of values; the identity if there are none.
    fn reduce(&self, algebra: Algebra, values: Vec<Self::Real>, accumulate: DType) -> Self::Real;
    /// Numbers in the order in which the values are, equal for equal values, NaN for what is undefined.
    fn order(&self, values: &[Self::Real]) -> Vec<f64>;
}

/// One element.
#[derive(Clone, Debug)]
pub enum Value<R, T> {
    /// Of a float type.
    Real(R),
    /// Of an integer type.
    Int(i64),
    /// A truth value.
    Truth(T),
}
