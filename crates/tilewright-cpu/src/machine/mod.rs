//! Machine programs: virtual registers, blocks with parameters, instructions of x86-64; and their way to machine code.
//!
//! [`Builder`] makes a [`Program`], [`verify`] says whether it is legal, [`eval`] what it means, [`emit`] gives it registers
//! and encodes it, [`CodePages`] makes it callable. Each instruction is described once, by its [`row::Row`].

mod allocate;
mod build;
mod emit;
mod eval;
mod ir;
mod lanes;
mod level;
mod memory;
mod narrow;
mod pages;
pub mod row;
pub mod rows;
mod text;
mod tiles;
mod vector;
mod verify;
mod wide;

#[cfg(test)]
mod tests;

pub use allocate::check_allocation;
pub use build::Builder;
pub use emit::{EmitError, Emitted, Spill, emit};
pub use eval::{Datum, Fault, Flags, In, LaneIndex, Step, eval};
pub use ir::*;
pub use level::{Level, UnknownLevel};
pub use memory::Memory;
pub use narrow::Narrow;
pub use pages::{CodePages, Context, Entry};
pub use tiles::{TileConfig, Tiles};
pub use vector::{Compare, Mask};
pub use verify::{Illegal, verify};
