//! Code of task bodies and of the worker loop.

pub mod eval;
pub mod ir;
pub mod layout;
pub mod lower;
pub mod progress;
pub mod text;
pub mod tile;
pub mod verify;

pub use ir::*;
pub use layout::Layout;
