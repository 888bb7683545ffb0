//! Code of task bodies and of the worker loop.

pub mod ir;
pub mod layout;

pub use ir::*;
pub use layout::Layout;
