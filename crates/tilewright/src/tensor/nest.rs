//! One form for what every structured operator means: a loop nest over axes.
//!
//! Elementwise functions, reductions, contractions and all shape operators are nests; what is not (sorting,
//! grouping, scattering) is opaque. The evaluator runs nests and the block level lowers nests, so an operator
//! states its meaning once:
//!
//! ```text
//! result[write(i)] = ⊕ over r, where guard(i, r), of body(reads at index(i, r))      i in axes[..rank], r in axes[rank..]
//! ```

use super::dtype::{DType, Scalar};
use super::elementwise::Elementwise;
use super::ir::Axis;
use super::monoid::Monoid;
use crate::dim::{Cond, Dim};

/// A loop nest. Index expressions are over the axes' names, the program's symbols, and elements of integer tensors;
/// no axis has the name of a symbol.
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    /// The axes: the first `rank` are those of the result, in its order (or those of what is written); the others are
    /// reduced. The extent of an
    /// axis may mention the names of earlier ones.
    pub axes: Vec<Axis>,
    /// How many axes the result has.
    pub rank: usize,
    /// What is read. An element that lies outside its operand, or whose `when` is false, is not read and is 0.
    pub reads: Vec<Read>,
    /// Which index tuples take part.
    pub guard: Cond,
    /// Indices into `reads` of boolean elements that must all be true for an index tuple to take part.
    pub masks: Vec<usize>,
    /// The value at an index tuple.
    pub body: Expr,
    /// The element type of `body`.
    pub dtype: DType,
    /// How the values over the reduced axes become one; none exactly if nothing is reduced.
    pub reduction: Option<Reduction>,
    /// The index along each axis of the result's type at which an element goes, over the first `rank` axes; what lies
    /// outside the result is dropped. It is the axes' names except where an update writes a window in place
    /// (`overwrites`) and where a ragged value is written out packed.
    pub write: Vec<Dim>,
    /// The operand whose contents the result starts from; where none, every element of the result is written.
    pub overwrites: Option<usize>,
}

/// A reduction over the trailing axes of a nest.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// The monoid.
    pub monoid: &'static Monoid,
    /// The type in which its state accumulates.
    pub accumulate: DType,
}

/// An element of an operand at an index tuple.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// Which operand of the node; the masks of its guard count on after the operands.
    pub operand: usize,
    /// The index along each axis of the operand.
    pub index: Vec<Dim>,
    /// Where it is read; elsewhere it is 0.
    pub when: Cond,
}

/// The value of a nest at an index tuple.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// The element of `reads[k]`.
    Read(usize),
    /// A number.
    Literal(Scalar),
    /// An index expression, as a number.
    Index(Dim),
    /// A condition, as a truth value.
    Holds(Cond),
    /// A function of values, rounded to `dtype` in the program's own types.
    Apply {
        /// The table row.
        function: &'static Elementwise,
        /// Its arguments.
        arguments: Vec<Expr>,
        /// The type of the value.
        dtype: DType,
    },
}

impl Nest {
    /// The position of an index tuple in the row-major order of the reduced axes: what `argmax` and `argmin` give.
    pub fn position(&self) -> Dim {
        let mut position = Dim::constant(0);
        for axis in self.axes.iter().skip(self.rank) {
            position = position * &axis.extent + Dim::symbol(axis.name.clone());
        }
        position
    }
}
