//! What to compute: operators over tensors with symbolic extents and named axes.

pub mod array;
pub mod bind;
pub mod build;
pub mod dtype;
pub mod elementwise;
pub mod eval;
pub mod infer;
pub mod ir;
pub mod meaning;
pub mod monoid;
pub mod names;
pub mod nest;
pub mod ops;
pub mod prepare;
pub mod storage;
pub mod text;
pub mod verify;

pub use array::{Array, Data};
pub use dtype::{DType, Scalar};
pub use elementwise::Elementwise;
pub use ir::*;
pub use monoid::Monoid;
pub use nest::{Expr, Nest, Read, Reduction};
pub use ops::Special;
pub use storage::Storage;
