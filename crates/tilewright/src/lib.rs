//! Tilewright: a compiler for tensor programs with symbolic sizes.
#![forbid(unsafe_code)]

pub mod block;
pub mod dim;
pub mod error;
pub mod host;
pub mod journal;
pub mod kernel;
pub mod runtime;
pub mod schedule;
pub mod target;
pub mod task;
pub mod tensor;
pub mod text;
