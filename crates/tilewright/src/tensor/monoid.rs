//! The monoids of reductions: one table row each, and no other list of them anywhere.
//!
//! A monoid has a *state* of one or two components, an identity, a way to absorb one element, a way to
//! combine two states, and the component that is the result. `absorb` in index order is the meaning of a
//! reduction; `combine` joins the states of two parts and agrees with `absorb` over the reals.
//!
//! NaN propagates: to `max` and `min` it is the extreme, and the first NaN is what `argmax` and `argmin` find. Of
//! equal elements (0 and -0 are) the first wins.

use super::dtype::{DType, Scalar};
use super::elementwise::Algebra;
use std::cmp::Ordering;

/// The most components that a state has.
pub const MAX_COMPONENTS: usize = 2;

/// A reduction's monoid: a row of [`TABLE`], compared by name.
#[derive(Debug)]
pub struct Monoid {
    /// The text name.
    pub name: &'static str,
    /// What it does with two elements in algebra; where [`result`](Self::result) is 1, the result is a position instead.
    pub algebra: Algebra,
    /// The types of the state's components, for elements of type `dtype`; the last argument is the accumulation
    /// type, which replaces the element type where the monoid does arithmetic.
    pub state: fn(dtype: DType, accumulate: DType) -> Vec<DType>,
    /// The state of an empty reduction over elements of type `dtype`.
    pub identity: fn(dtype: DType) -> Vec<Scalar>,
    /// The state after one more element; `index` is its position in the row-major order of the reduced axes.
    pub absorb: fn(state: &mut [Scalar], value: Scalar, index: i64),
    /// The state of a part followed by another part.
    pub combine: fn(state: &mut [Scalar], later: &[Scalar]),
    /// Which component is the result.
    pub result: usize,
    /// The type of the result, for elements of type `dtype`.
    pub result_type: fn(dtype: DType) -> DType,
    /// Whether elements of this type can be reduced.
    pub accepts: fn(dtype: DType) -> bool,
    /// Whether accumulation rounds at each step (sums and products do; a selection such as max is exact).
    pub rounds: bool,
    /// One line for the documentation.
    pub doc: &'static str,
}

impl PartialEq for Monoid {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Monoid {}

impl std::hash::Hash for Monoid {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The monoid with this text name.
pub fn find(name: &str) -> Option<&'static Monoid> {
    TABLE.iter().find(|row| row.name == name)
}

/// Every monoid, once.
pub static TABLE: &[Monoid] = &[
    Monoid {
        name: "sum",
        algebra: Algebra::Add,
        state: |_, accumulate| vec![accumulate],
        identity: |dtype| vec![Scalar::Int(0).carry(dtype)],
        absorb: |state, value, _| add(state, value),
        combine: |state, later| later.iter().take(1).for_each(|value| add(state, *value)),
        result: 0,
        result_type: |dtype| dtype,
        accepts: is_number,
        rounds: true,
        doc: "the sum; 0 if empty",
    },
    Monoid {
        name: "prod",
        algebra: Algebra::Mul,
        state: |_, accumulate| vec![accumulate],
        identity: |dtype| vec![Scalar::Int(1).carry(dtype)],
        absorb: |state, value, _| multiply(state, value),
        combine: |state, later| later.iter().take(1).for_each(|value| multiply(state, *value)),
        result: 0,
        result_type: |dtype| dtype,
        accepts: is_number,
        rounds: true,
        doc: "the product; 1 if empty",
    },
    Monoid {
        name: "max",
        algebra: Algebra::Max,
        state: |dtype, _| vec![dtype],
        identity: |dtype| vec![least(dtype)],
        absorb: |state, value, _| extreme(state, value, Ordering::Greater),
        combine: |state, later| {
            later.iter().take(1).for_each(|value| extreme(state, *value, Ordering::Greater))
        },
        result: 0,
        result_type: |dtype| dtype,
        accepts: is_number,
        rounds: false,
        doc: "the greatest; -inf or the least integer if empty",
    },
    Monoid {
        name: "min",
        algebra: Algebra::Min,
        state: |dtype, _| vec![dtype],
        identity: |dtype| vec![greatest(dtype)],
        absorb: |state, value, _| extreme(state, value, Ordering::Less),
        combine: |state, later| later.iter().take(1).for_each(|value| extreme(state, *value, Ordering::Less)),
        result: 0,
        result_type: |dtype| dtype,
        accepts: is_number,
        rounds: false,
        doc: "the least; inf or the greatest integer if empty",
    },
    Monoid {
        name: "argmax",
        algebra: Algebra::Max,
        state: |dtype, _| vec![dtype, DType::I32],
        identity: |dtype| vec![least(dtype), Scalar::Int(-1)],
        absorb: |state, value, index| locate(state, value, index, Ordering::Greater),
        combine: |state, later| {
            if let [value, Scalar::Int(index @ 0..)] = later {
                locate(state, *value, *index, Ordering::Greater);
            }
        },
        result: 1,
        result_type: |_| DType::I32,
        accepts: is_number,
        rounds: false,
        doc: "the first position of the greatest, in row-major order of the reduced axes; -1 if empty",
    },
    Monoid {
        name: "argmin",
        algebra: Algebra::Min,
        state: |dtype, _| vec![dtype, DType::I32],
        identity: |dtype| vec![greatest(dtype), Scalar::Int(-1)],
        absorb: |state, value, index| locate(state, value, index, Ordering::Less),
        combine: |state, later| {
            if let [value, Scalar::Int(index @ 0..)] = later {
                locate(state, *value, *index, Ordering::Less);
            }
        },
        result: 1,
        result_type: |_| DType::I32,
        accepts: is_number,
        rounds: false,
        doc: "the first position of the least, in row-major order of the reduced axes; -1 if empty",
    },
    Monoid {
        name: "any",
        algebra: Algebra::Or,
        state: |dtype, _| vec![dtype],
        identity: |_| vec![Scalar::Bool(false)],
        absorb: |state, value, _| either(state, value),
        combine: |state, later| later.iter().take(1).for_each(|value| either(state, *value)),
        result: 0,
        result_type: |dtype| dtype,
        accepts: |dtype| dtype == DType::Bool,
        rounds: false,
        doc: "whether one is true; false if empty",
    },
];

fn either(state: &mut [Scalar], value: Scalar) {
    if let Some(any) = state.first_mut() {
        *any = Scalar::Bool(any.as_bool() || value.as_bool());
    }
}

fn is_number(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_int()
}

fn add(state: &mut [Scalar], value: Scalar) {
    if let Some(sum) = state.first_mut() {
        *sum = match (*sum, value) {
            (Scalar::Int(x), Scalar::Int(y)) => Scalar::Int(x.wrapping_add(y)),
            (x, y) => Scalar::Float(x.as_f64() + y.as_f64()),
        };
    }
}

fn multiply(state: &mut [Scalar], value: Scalar) {
    if let Some(product) = state.first_mut() {
        *product = match (*product, value) {
            (Scalar::Int(x), Scalar::Int(y)) => Scalar::Int(x.wrapping_mul(y)),
            (x, y) => Scalar::Float(x.as_f64() * y.as_f64()),
        };
    }
}

/// The least value of a type.
fn least(dtype: DType) -> Scalar {
    dtype.int_range().map_or(Scalar::Float(f64::NEG_INFINITY), |(least, _)| Scalar::Int(least))
}

/// The greatest value of a type.
fn greatest(dtype: DType) -> Scalar {
    dtype.int_range().map_or(Scalar::Float(f64::INFINITY), |(_, greatest)| Scalar::Int(greatest))
}

/// Whether `value` replaces `best`: it lies beyond it on the side of `end`, or is the first NaN.
fn beats(value: Scalar, best: Scalar, end: Ordering) -> bool {
    match (value, best) {
        (Scalar::Int(x), Scalar::Int(y)) => x.cmp(&y) == end,
        (x, y) => match x.as_f64().partial_cmp(&y.as_f64()) {
            Some(order) => order == end,
            None => x.as_f64().is_nan() && !y.as_f64().is_nan(),
        },
    }
}

fn extreme(state: &mut [Scalar], value: Scalar, end: Ordering) {
    if let Some(best) = state.first_mut()
        && beats(value, *best, end)
    {
        *best = value;
    }
}

fn locate(state: &mut [Scalar], value: Scalar, index: i64, end: Ordering) {
    if let [best, position] = state
        && (position.as_i64() < 0 || beats(value, *best, end))
    {
        (*best, *position) = (value, Scalar::Int(index));
    }
}
