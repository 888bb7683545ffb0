//! The bytes of a block and what is made of them: integers are `i32`, numbers `f32`.

use super::Format;
use crate::dim::{Cond, Dim};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::meaning::apply;
use crate::tensor::nest::{Expr, Read};
use crate::tensor::ops::Problem;

/// The block of one element.
pub(super) struct Block {
    /// The bytes read so far.
    pub reads: Vec<Read>,
    /// The position of the element in its block.
    pub element: Dim,
    outer: Vec<Dim>,
    start: Dim,
}

impl Block {
    /// The block of the element `at` along the last axis; `outer` is the index along the others.
    pub fn new(outer: Vec<Dim>, at: &Dim, format: &Format) -> Block {
        Block {
            reads: Vec::new(),
            element: at.modulo(format.elements),
            start: at.floor_div(format.elements) * format.bytes,
            outer,
        }
    }

    /// A byte of the block, 0..=255; 0 where `when` is false.
    pub fn byte_when(&mut self, at: impl Into<Dim>, when: Cond) -> Result<Expr, Problem> {
        let mut index = self.outer.clone();
        index.push(&self.start + at.into());
        let read = Read { operand: 0, index, when };
        let k = self.reads.iter().position(|known| *known == read).unwrap_or_else(|| {
            self.reads.push(read);
            self.reads.len() - 1
        });
        apply("cast", vec![Expr::Read(k)], DType::I32)
    }

    /// A byte of the block, 0..=255.
    pub fn byte(&mut self, at: impl Into<Dim>) -> Result<Expr, Problem> {
        self.byte_when(at, Cond::True)
    }

    /// A byte of the block as a signed integer.
    pub fn signed(&mut self, at: impl Into<Dim>) -> Result<Expr, Problem> {
        let byte = self.byte(at)?;
        int(apply("cast", vec![byte], DType::I8)?)
    }

    /// The half-precision number at two bytes of the block, as `f32`.
    pub fn half(&mut self, at: i64) -> Result<Expr, Problem> {
        let (low, high) = (self.byte(at)?, self.byte(at + 1)?);
        let bits = bits_or(low, times(high, 256)?)?;
        apply("from_f16_bits", vec![bits], DType::F32)
    }
}

pub(super) fn constant(value: i64) -> Expr {
    Expr::Literal(Scalar::Int(value))
}

fn int(value: Expr) -> Result<Expr, Problem> {
    apply("cast", vec![value], DType::I32)
}

pub(super) fn times(value: Expr, by: i64) -> Result<Expr, Problem> {
    apply("mul", vec![value, constant(by)], DType::I32)
}

pub(super) fn minus(value: Expr, by: i64) -> Result<Expr, Problem> {
    apply("sub", vec![value, constant(by)], DType::I32)
}

pub(super) fn bits_and(value: Expr, mask: i64) -> Result<Expr, Problem> {
    apply("bit_and", vec![value, constant(mask)], DType::I32)
}

pub(super) fn bits_or(a: Expr, b: Expr) -> Result<Expr, Problem> {
    apply("bit_or", vec![a, b], DType::I32)
}

/// The bits from `by` on.
pub(super) fn shifted(value: Expr, by: impl Into<Dim>) -> Result<Expr, Problem> {
    let by = apply("cast", vec![Expr::Index(by.into())], DType::I32)?;
    apply("shift_right", vec![value, by], DType::I32)
}

pub(super) fn choose(when: Cond, yes: Expr, no: Expr) -> Result<Expr, Problem> {
    apply("select", vec![Expr::Holds(when), yes, no], DType::I32)
}

/// An integer as `f32`, exactly.
pub(super) fn number(value: Expr) -> Result<Expr, Problem> {
    apply("cast", vec![value], DType::F32)
}

pub(super) fn product(a: Expr, b: Expr) -> Result<Expr, Problem> {
    apply("mul", vec![a, b], DType::F32)
}

pub(super) fn sum(a: Expr, b: Expr) -> Result<Expr, Problem> {
    apply("add", vec![a, b], DType::F32)
}

pub(super) fn difference(a: Expr, b: Expr) -> Result<Expr, Problem> {
    apply("sub", vec![a, b], DType::F32)
}
