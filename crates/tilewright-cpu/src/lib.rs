//! Runs Tilewright's kernel programs on the cores of a machine.

pub mod cores;
pub mod pool;
