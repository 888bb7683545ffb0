//! Who waits for whom: families of tasks ordered by event tensors.

pub mod ir;
pub mod text;

pub use ir::*;
