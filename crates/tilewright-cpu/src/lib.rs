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

use std::sync::Arc;

/// What runs programs best on this machine: machine code where it has a level of instructions, else plain Rust; on
/// `workers` workers, or as many as there are processors.
pub fn best(workers: Option<usize>) -> Arc<dyn tilewright::runtime::Runtime> {
    match workers.map_or_else(Native::detect, Native::new) {
        Some(native) => Arc::new(native),
        None => Arc::new(workers.map_or_else(Portable::detect, Portable::new)),
    }
}
