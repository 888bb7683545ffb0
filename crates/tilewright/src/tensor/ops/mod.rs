//! The operators that are neither elementwise, nor a reduction, nor a contraction: one file each.
//!
//! A [`Special`] holds all that the rest of the compiler asks of such an operator: its text name, keywords, shape rule
//! and meaning. [`TABLE`] lists them once.

mod broadcast;
mod concat;
mod constant;
pub mod decode;
mod full;
mod gather;
mod group;
mod iota;
mod packed;
mod pad;
mod ragged;
mod reshape;
mod scatter_add;
mod site;
mod slice;
mod split;
mod topk;
mod transpose;
mod update;

use crate::dim::{Dim, Facts, Symbol};
use crate::tensor::array::Array;
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Attribute, Axis, Function, Operand, TensorType};
use crate::tensor::nest::Nest;
use crate::tensor::storage;

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
    /// The name of each operand, by which index expressions read its elements; none for literals and sizes.
    pub names: &'a [Option<Symbol>],
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
    /// The operator's function of whole operands to whole results, [`Special::opaque`], along one storage axis of the
    /// first operand; ends fusion.
    Opaque {
        /// The axis.
        axis: usize,
    },
}

/// A function of whole operands: given arrays in storage order, an axis of the first, and the element type and
/// storage extents of each result, it gives the results. Total: indices outside a tensor take no part.
pub type Opaque = fn(operands: &[&Array], axis: usize, results: &[(DType, Vec<usize>)]) -> Vec<Array>;

/// A shape rule: see [`Special::infer`].
pub type Infer = fn(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem>;

/// See [`Special::splits`].
pub type SplitRule = fn(operands: &[TensorType], results: &[TensorType]) -> Option<Splits>;

/// An operator of its own file; compared by name.
pub struct Special {
    /// The text name.
    pub name: &'static str,
    /// How many operands it takes, least and most.
    pub operands: (usize, usize),
    /// Its keywords, in the order in which they are printed; all are required.
    pub keywords: &'static [(&'static str, AttributeKind)],
    /// The types of the results. `stated` are the axes that the text gives behind `->`, one list per result, if any.
    pub infer: Infer,
    /// The meaning, for results of these types. Nests have the results' axis names for axes; index expressions read
    /// operands by position, so that the names may be any that differ from the program's symbols.
    pub meaning: fn(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem>,
    /// The function, for an operator whose meaning is opaque; lower levels run it without a site.
    pub opaque: Option<Opaque>,
    /// Which result holds offsets, if one does, and the parts and the total that it splits, given the types of operands
    /// and results: the fact that `off splits total over parts` states for a parameter.
    pub splits: Option<SplitRule>,
    /// One line for the documentation.
    pub doc: &'static str,
}

/// See [`Special::splits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    /// The index of the result.
    pub result: usize,
    /// The number of parts, one less than the number of offsets.
    pub parts: Dim,
    /// The last offset.
    pub total: Dim,
}

/// The names and types of operands, from which a [`Site`] is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Operands {
    /// See [`Site::names`].
    pub names: Vec<Option<Symbol>>,
    /// See [`Site::types`].
    pub types: Vec<TensorType>,
}

impl Operands {
    /// The operands of a node of `function`.
    pub fn of(function: &Function, operands: &[Operand], facts: &Facts) -> Result<Operands, Problem> {
        let mut found = Operands { names: Vec::new(), types: Vec::new() };
        for operand in operands {
            let (name, ty) = match operand {
                Operand::Value { value, labels } => {
                    let value = function
                        .values
                        .get(value.0 as usize)
                        .ok_or_else(|| "an operand has no value".to_string())?;
                    (Some(value.name.clone()), storage::relabel(&value.ty, labels, facts)?)
                }
                Operand::Literal(Scalar::Bool(_)) => {
                    (None, TensorType { dtype: DType::Bool, axes: Vec::new() })
                }
                Operand::Literal(Scalar::Float(_)) => {
                    (None, TensorType { dtype: DType::F64, axes: Vec::new() })
                }
                Operand::Literal(Scalar::Int(_)) | Operand::Dim(_) => {
                    (None, TensorType { dtype: DType::I64, axes: Vec::new() })
                }
            };
            found.names.push(name);
            found.types.push(ty);
        }
        Ok(found)
    }

    /// What an operator with these operands and attributes can see.
    pub fn site<'a>(
        &'a self,
        operands: &'a [Operand],
        attributes: &'a [Attribute],
        facts: &'a Facts,
    ) -> Site<'a> {
        Site { operands, names: &self.names, types: &self.types, attributes, facts }
    }
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
pub static TABLE: &[&Special] = &[
    &reshape::RESHAPE,
    &transpose::TRANSPOSE,
    &broadcast::BROADCAST,
    &slice::SLICE,
    &pad::PAD,
    &concat::CONCAT,
    &iota::IOTA,
    &full::FULL,
    &constant::CONST,
    &split::SPLIT,
    &gather::GATHER,
    &scatter_add::SCATTER_ADD,
    &topk::TOPK,
    &group::GROUP,
    &ragged::RAGGED,
    &packed::PACKED,
    &update::UPDATE,
    &decode::DECODE,
];

/// The operator with this text name.
pub fn find(name: &str) -> Option<&'static Special> {
    TABLE.iter().copied().find(|row| row.name == name)
}
