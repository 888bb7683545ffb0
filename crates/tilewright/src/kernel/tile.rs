//! What the statements of a kernel mean, as functions on tiles: the one meaning that the evaluator and the portable
//! executor share.
//!
//! A kernel is compiled once per binding of sizes ([`Compiled::new`]): index expressions become [`crate::dim::Code`]
//! over *slots* (the coordinates, then the labels of a statement), tiles become dense padded row-major arrays
//! ([`TileData`]). [`Near::run`] then runs one statement at the coordinates in the slots. Nothing is looked up by name
//! or allocated per element, except that an index expression which reads a table asks for it by name.
//!
//! What differs between an evaluator and an executor is behind [`Machine`]: how elements of buffers are stored, and
//! whether a product is done by a library. Rounding follows [`Numerics`].
//!
//! Positions at or past the end of a range are padding. No statement reads them into a result or stores them; what they
//! hold is unspecified.

mod access;
mod compile;
mod elements;
mod elementwise;
mod product;
mod reduce;
mod space;

pub use compile::{Compiled, EdgeAt, Near, Step, TileShape};
pub use elements::{Elements, ElementsMut};
pub use product::{Factor, Product};

use crate::dim::EvalError;
use crate::error::Error;
use crate::task::BufferId;
use crate::tensor::Array;
use crate::tensor::eval::Numerics;

/// The elements of a tile: dense, row-major over its padded shape; floats as `f64`, integers as `i64`.
pub type TileData = Array;

/// The memory that kernels work on, and the products it can do better than one element after the other.
pub trait Machine {
    /// Reads elements `start`, `start + step`, … of a buffer, as many as `out` holds. They lie inside the buffer.
    fn read(&self, buffer: BufferId, start: usize, step: isize, out: ElementsMut<'_>);

    /// Writes elements `start`, `start + step`, … of a buffer. They lie inside the buffer; values are already rounded
    /// as [`Numerics`] says.
    fn write(&mut self, buffer: BufferId, start: usize, step: isize, values: Elements<'_>);

    /// An element of an integer buffer that an index expression reads, at a position inside the buffer.
    fn integer(&self, buffer: BufferId, position: usize) -> i64;

    /// Adds a product to `c`, in any order of accumulation. False if it was not done: then the products are added one
    /// after the other in index order, each rounded, which is their meaning. The answer depends on the types only.
    fn multiply(&mut self, product: Product<'_>) -> bool {
        let _ = product;
        false
    }
}

/// The tiles of a kernel in progress. One frame serves one task at a time; it may be used again for the next task of
/// the same kernel.
#[derive(Clone, Debug)]
pub struct Frame {
    /// One per tile of the kernel.
    pub tiles: Vec<TileData>,
    bounds: space::Bounds,
    bits: Vec<bool>,
}

impl Near {
    /// Runs the statement at the coordinates in `slots`, of which there are [`Compiled::slots`].
    pub fn run(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &mut impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        compile::run(self, slots, frame, machine, numerics)
    }
}

/// An index expression without a value, as an error of the program's inputs.
pub(crate) fn fault(error: EvalError) -> Error {
    let subject = match &error {
        EvalError::NoElement { table, .. } => table.to_string(),
        EvalError::Unbound(symbol) => symbol.to_string(),
        _ => "index".to_string(),
    };
    Error::Input { subject, message: error.to_string() }
}

/// An error about a position that does not fit where it must.
pub(crate) fn overflow(what: &str) -> Error {
    Error::Input { subject: "index".into(), message: format!("{what} is out of range") }
}
