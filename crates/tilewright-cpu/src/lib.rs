//! Runs Tilewright's kernel programs on the cores of a machine.

pub mod cores;
pub mod machine;
pub mod math;
mod memory;
pub mod native;
pub mod pool;
pub mod portable;
pub mod product;
mod select;
mod sync;
pub mod workers;

pub use native::Native;
pub use portable::Portable;
