//! Runs of elements of one class: what a machine moves between tiles and buffers.

use crate::tensor::eval::Numerics;
use crate::tensor::{Array, DType, Data, Scalar};
use std::ops::Range;

/// Elements to be written.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// Of a float type.
    Float(&'a [f64]),
    /// Of an integer type.
    Int(&'a [i64]),
    /// Truth values.
    Bool(&'a [bool]),
}

/// Elements to be read into.
#[derive(Debug)]
pub enum ElementsMut<'a> {
    /// Of a float type.
    Float(&'a mut [f64]),
    /// Of an integer type.
    Int(&'a mut [i64]),
    /// Truth values.
    Bool(&'a mut [bool]),
}

impl Elements<'_> {
    /// The elements `from..to` of an array; none where it has fewer.
    pub fn of(array: &Array, from: usize, to: usize) -> Elements<'_> {
        match &array.data {
            Data::Float(v) => Elements::Float(v.get(from..to).unwrap_or_default()),
            Data::Int(v) => Elements::Int(v.get(from..to).unwrap_or_default()),
            Data::Bool(v) => Elements::Bool(v.get(from..to).unwrap_or_default()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Elements::Float(v) => v.len(),
            Elements::Int(v) => v.len(),
            Elements::Bool(v) => v.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes to elements `start`, `start + step`, … of an array of the same class; what lies outside is not written.
    pub fn write_to(self, array: &mut Array, start: usize, step: isize) {
        match (self, &mut array.data) {
            (Elements::Float(v), Data::Float(to)) => scatter(v, to, start, step),
            (Elements::Int(v), Data::Int(to)) => scatter(v, to, start, step),
            (Elements::Bool(v), Data::Bool(to)) => scatter(v, to, start, step),
            _ => {}
        }
    }
}

impl ElementsMut<'_> {
    /// The elements `from..to` of an array; none where it has fewer.
    pub fn of(array: &mut Array, from: usize, to: usize) -> ElementsMut<'_> {
        match &mut array.data {
            Data::Float(v) => ElementsMut::Float(v.get_mut(from..to).unwrap_or_default()),
            Data::Int(v) => ElementsMut::Int(v.get_mut(from..to).unwrap_or_default()),
            Data::Bool(v) => ElementsMut::Bool(v.get_mut(from..to).unwrap_or_default()),
        }
    }

    /// Reads elements `start`, `start + step`, … of an array of the same class; what lies outside stays as it is.
    pub fn read_from(self, array: &Array, start: usize, step: isize) {
        match (self, &array.data) {
            (ElementsMut::Float(v), Data::Float(from)) => gather(v, from, start, step),
            (ElementsMut::Int(v), Data::Int(from)) => gather(v, from, start, step),
            (ElementsMut::Bool(v), Data::Bool(from)) => gather(v, from, start, step),
            _ => {}
        }
    }
}

fn scatter<T: Copy>(values: &[T], to: &mut [T], start: usize, step: isize) {
    if step == 1
        && let Some(to) = to.get_mut(start..start.saturating_add(values.len()))
    {
        to.copy_from_slice(values);
        return;
    }
    for (k, value) in values.iter().enumerate() {
        if let Some(element) = start.checked_add_signed(step * k as isize).and_then(|at| to.get_mut(at)) {
            *element = *value;
        }
    }
}

fn gather<T: Copy>(values: &mut [T], from: &[T], start: usize, step: isize) {
    if step == 1
        && let Some(from) = from.get(start..start.saturating_add(values.len()))
    {
        values.copy_from_slice(from);
        return;
    }
    for (k, value) in values.iter_mut().enumerate() {
        if let Some(element) = start.checked_add_signed(step * k as isize).and_then(|at| from.get(at)) {
            *value = *element;
        }
    }
}

/// Sets the elements at these positions, as far as they are there.
pub(super) fn fill(array: &mut Array, positions: Range<usize>, value: Scalar) {
    match &mut array.data {
        Data::Float(v) => v.get_mut(positions).unwrap_or_default().fill(value.as_f64()),
        Data::Int(v) => v.get_mut(positions).unwrap_or_default().fill(value.as_i64()),
        Data::Bool(v) => v.get_mut(positions).unwrap_or_default().fill(value.as_bool()),
    }
}

/// The element at a position, which lies inside.
#[inline(always)]
pub(super) fn get(array: &Array, position: i64) -> Scalar {
    array.get(position as usize)
}

/// How a float is rounded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    None,
    Single,
    To(DType),
}

impl Rounding {
    pub fn of(numerics: Numerics, dtype: DType) -> Rounding {
        match (numerics, dtype) {
            (Numerics::F64, _) | (Numerics::Own, DType::F64) => Rounding::None,
            (Numerics::Own, DType::F32) => Rounding::Single,
            (Numerics::Own, dtype) => Rounding::To(dtype),
        }
    }

    /// The nearest value.
    #[inline(always)]
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Rounding::None => x,
            Rounding::Single => f64::from(x as f32),
            Rounding::To(dtype) => dtype.round(Scalar::Float(x)).as_f64(),
        }
    }
}
