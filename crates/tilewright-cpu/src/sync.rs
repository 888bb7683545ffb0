//! Threads, locks and atomics: those of `std`, or, in a build with `--cfg loom`, those of the model checker, which runs the
//! protocol of [`crate::workers`] and [`crate::pool`] in every interleaving that it can tell apart.

#[cfg(not(loom))]
pub use std::{
    hint,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread,
};

#[cfg(loom)]
pub use loom::{
    hint,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread,
};
