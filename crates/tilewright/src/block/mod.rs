//! Where values live: maps over blocks, with explicit movement between memory tiers.

pub mod eval;
pub mod interpreter;
pub mod ir;
pub mod lower;
pub mod near;
pub mod text;
pub mod verify;
pub mod visit;

pub use interpreter::{Interpreter, Memory};
pub use ir::*;
