//! The operators that are neither elementwise, nor a reduction, nor a contraction: one file each.
//!
//! A [`Special`] holds all that the rest of the compiler asks of such an operator: its text name, keywords, shape rule
//! and meaning. [`TABLE`] lists them once.

use crate::dim::Facts;
use crate::tensor::array::Array;
use crate::tensor::dtype::DType;
use crate::tensor::ir::{Attribute, Axis, Operand, TensorType};
use crate::tensor::nest::Nest;

/// The kind of value that follows a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeKind {
    /// `Attribute::Labels`.
    Labels,
    /// `Attribute::Dim`.
    Dim,
    /// `Attribute::Scalar`.
    Scalar,
    /// `Attribute::DType`.
    DType,
    /// `Attribute::Word`.
    Word,
    /// `Attribute::Scalars`.
    Scalars,
}

/// What an operator can see when its shape or meaning is asked for.
pub struct Site<'a> {
    /// The operands as written.
    pub operands: &'a [Operand],
    /// The type of each operand, its axes renamed to the operand's labels; literals and sizes are scalars.
    pub types: &'a [TensorType],
    /// The attributes, in the order of `Special::keywords`.
    pub attributes: &'a [Attribute],
    /// What is known of sizes.
    pub facts: &'a Facts,
}

/// A problem found by a shape rule: what is wrong, in one sentence that says what would work.
pub type Problem = String;

/// What an operator means.
pub enum Meaning {
    /// One nest per result.
    Nests(Vec<Nest>),
    /// A function of whole operands to whole results, along one storage axis of the first operand; ends fusion.
    Opaque {
        /// The function.
        function: Opaque,
        /// The axis.
        axis: usize,
    },
}

/// A function of whole operands: given arrays in storage order, an axis of the first, and the element type and
/// storage extents of each result, it gives the results. Total: indices outside a tensor take no part.
pub type Opaque = fn(operands: &[&Array], axis: usize, results: &[(DType, Vec<usize>)]) -> Vec<Array>;

/// An operator of its own file; compared by name.
pub struct Special {
    /// The text name.
    pub name: &'static str,
    /// How many operands it takes, least and most.
    pub operands: (usize, usize),
    /// Its keywords, in the order in which they are printed; all are required.
    pub keywords: &'static [(&'static str, AttributeKind)],
    /// The types of the results. `stated` are the axes that the text gives behind `->`, one list per result, if any.
    pub infer: fn(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem>,
    /// The meaning, for results of these types.
    pub meaning: fn(site: &Site, results: &[TensorType]) -> Meaning,
    /// One line for the documentation.
    pub doc: &'static str,
}

impl PartialEq for Special {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Special {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every such operator, once.
pub static TABLE: &[&Special] = &[];

/// The operator with this text name.
pub fn find(name: &str) -> Option<&'static Special> {
    TABLE.iter().copied().find(|row| row.name == name)
}
