//! What a tensor program means: evaluation, slow and obvious.

use super::array::Array;
use super::dtype::{DType, Scalar};
use super::ir::Program;
use crate::dim::Symbol;
use crate::error::Error;
use std::collections::BTreeMap;

/// The most elements of one array in evaluation.
pub const MAX_ELEMENTS: u64 = 1 << 27;

/// In which numbers a program is evaluated. The level does not matter: the results of tensor, block, task and kernel
/// programs agree bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// Floats of every type are `f64` and never rounded to a narrower one; integers wrap at their type.
    F64,
    /// Each elementwise result is rounded once to its type. A sum or product accumulates in its stated type, rounded
    /// after each product and each addition, in index order; then it is rounded to the result's type.
    Own,
}

impl Numerics {
    /// The value as an element of type `dtype`.
    pub fn round(self, dtype: DType, value: Scalar) -> Scalar {
        match value {
            Scalar::Float(_) if self == Numerics::F64 => value,
            _ => dtype.round(value),
        }
    }
}

/// What a run is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    /// The value of every symbol.
    pub symbols: BTreeMap<Symbol, i64>,
    /// The parameters of the program itself in order, in storage order.
    pub arrays: Vec<Array>,
}

/// The results of a program in order, in storage order. The bindings are checked against its facts.
pub fn eval(program: &Program, bindings: &Bindings, numerics: Numerics) -> Result<Vec<Array>, Error> {
    let _ = (bindings, numerics);
    Err(Error::Unsupported {
        place: program.main().name.to_string(),
        what: "evaluation".into(),
        instead: "run the compiled program".into(),
    })
}
