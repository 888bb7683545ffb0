//! Runs Tilewright's kernel programs on the cores of a machine.

pub mod cores;
pub mod machine;
mod memory;
pub mod pool;
pub mod portable;
mod sync;
pub mod workers;

pub use portable::Portable;
