//! The monoids of reductions: one table row each, and no other list of them anywhere.
//!
//! A monoid has a *state* of one or two components, an identity, a way to absorb one element, a way to
//! combine two states, and the component that is the result. `absorb` in index order is the meaning of a
//! reduction; `combine` joins the states of two parts and agrees with `absorb` over the reals.

use super::dtype::{DType, Scalar};

/// The most components that a state has.
pub const MAX_COMPONENTS: usize = 2;

/// A reduction's monoid: a row of [`TABLE`], compared by name.
#[derive(Debug)]
pub struct Monoid {
    /// The text name.
    pub name: &'static str,
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
pub static TABLE: &[Monoid] = &[Monoid {
    name: "sum",
    state: |_, accumulate| vec![accumulate],
    identity: |dtype| vec![Scalar::zero(dtype)],
    absorb: |state, value, _| state[0] = add(state[0], value),
    combine: |state, later| state[0] = add(state[0], later[0]),
    result: 0,
    result_type: |dtype| dtype,
    accepts: |dtype| dtype.is_float() || dtype.is_int(),
    rounds: true,
    doc: "the sum; 0 if empty",
}];

fn add(a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::Int(x), Scalar::Int(y)) => Scalar::Int(x.wrapping_add(y)),
        (x, y) => Scalar::Float(x.as_f64() + y.as_f64()),
    }
}
