//! Dense arrays for evaluation.

use super::dtype::{DType, Scalar};
use super::eval::Numerics;

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
    /// An array of one value; empty where the extents have no product in 64 bits.
    pub fn filled(dtype: DType, extents: &[usize], value: Scalar) -> Array {
        let count = count(extents).unwrap_or(0);
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

    /// Whether there are as many elements as the extents say, of the class of the element type.
    pub fn is_consistent(&self) -> bool {
        let class = match &self.data {
            Data::Float(_) => self.dtype.is_float(),
            Data::Int(_) => self.dtype.is_int(),
            Data::Bool(_) => self.dtype == DType::Bool,
        };
        class && count(&self.extents) == Some(self.len())
    }

    /// Rounds every element to the element type as `numerics` says.
    pub fn round(&mut self, numerics: Numerics) {
        let dtype = self.dtype;
        match &mut self.data {
            Data::Float(v) if numerics == Numerics::Own && dtype != DType::F64 => {
                v.iter_mut().for_each(|x| *x = dtype.round(Scalar::Float(*x)).as_f64());
            }
            Data::Int(v) => v.iter_mut().for_each(|x| *x = dtype.round(Scalar::Int(*x)).as_i64()),
            Data::Float(_) | Data::Bool(_) => {}
        }
    }

    /// The elements at index `l` of the first axis, if there is one.
    pub fn slice(&self, l: usize) -> Option<Array> {
        let (first, rest) = self.extents.split_first()?;
        let size = count(rest)?;
        if l >= *first {
            return None;
        }
        let range = l.checked_mul(size)?..(l + 1).checked_mul(size)?;
        let data = match &self.data {
            Data::Float(v) => Data::Float(v.get(range)?.to_vec()),
            Data::Int(v) => Data::Int(v.get(range)?.to_vec()),
            Data::Bool(v) => Data::Bool(v.get(range)?.to_vec()),
        };
        Some(Array { dtype: self.dtype, extents: rest.to_vec(), data })
    }

    /// Puts `slice` at index `l` of the first axis; false, and nothing done, where it does not fit.
    pub fn set_slice(&mut self, l: usize, slice: &Array) -> bool {
        let Some((first, rest)) = self.extents.split_first() else { return false };
        let size = slice.len();
        if l >= *first || rest != slice.extents || self.dtype != slice.dtype {
            return false;
        }
        let range = l * size..(l + 1) * size;
        match (&mut self.data, &slice.data) {
            (Data::Float(v), Data::Float(s)) => v.get_mut(range).map(|v| v.copy_from_slice(s)),
            (Data::Int(v), Data::Int(s)) => v.get_mut(range).map(|v| v.copy_from_slice(s)),
            (Data::Bool(v), Data::Bool(s)) => v.get_mut(range).map(|v| v.copy_from_slice(s)),
            _ => None,
        }
        .is_some()
    }
}

/// The number of elements, if it fits.
fn count(extents: &[usize]) -> Option<usize> {
    if extents.contains(&0) { Some(0) } else { extents.iter().try_fold(1usize, |n, &e| n.checked_mul(e)) }
}
