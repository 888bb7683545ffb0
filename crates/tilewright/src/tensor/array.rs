//! Dense arrays for evaluation.

use super::dtype::{DType, Scalar};

/// The elements of an array, row-major. Floats of every type are `f64`, integers of every type are `i64`.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Elements of a float type.
    Float(Vec<f64>),
    /// Elements of an integer type.
    Int(Vec<i64>),
    /// Truth values.
    Bool(Vec<bool>),
}

/// A dense row-major array.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The element type.
    pub dtype: DType,
    /// The extents, outermost first.
    pub extents: Vec<usize>,
    /// The elements.
    pub data: Data,
}

impl Array {
    /// An array of one value.
    pub fn filled(dtype: DType, extents: &[usize], value: Scalar) -> Array {
        let count = extents.iter().product();
        let data = match value.carry(dtype) {
            Scalar::Float(x) => Data::Float(vec![x; count]),
            Scalar::Int(x) => Data::Int(vec![x; count]),
            Scalar::Bool(x) => Data::Bool(vec![x; count]),
        };
        Array { dtype, extents: extents.to_vec(), data }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.data {
            Data::Float(v) => v.len(),
            Data::Int(v) => v.len(),
            Data::Bool(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a row-major position.
    pub fn get(&self, position: usize) -> Scalar {
        match &self.data {
            Data::Float(v) => Scalar::Float(v[position]),
            Data::Int(v) => Scalar::Int(v[position]),
            Data::Bool(v) => Scalar::Bool(v[position]),
        }
    }

    /// Sets the element at a row-major position to `value`, converted to the class of the element type but not
    /// rounded.
    pub fn set(&mut self, position: usize, value: Scalar) {
        match &mut self.data {
            Data::Float(v) => v[position] = value.as_f64(),
            Data::Int(v) => v[position] = value.as_i64(),
            Data::Bool(v) => v[position] = value.as_bool(),
        }
    }

    /// The row-major position of an index, or none where it lies outside.
    pub fn position(&self, index: &[i64]) -> Option<usize> {
        let mut position = 0usize;
        for (&i, &n) in index.iter().zip(&self.extents) {
            let i = usize::try_from(i).ok().filter(|&i| i < n)?;
            position = position * n + i;
        }
        Some(position)
    }
}
