//! The checker of `superopt`: the laws of `docs/checker.md`, wrong candidates and right ones.

mod laws;
mod mutate;
mod random;
mod rewrite;
mod right;
mod subjects;
mod support;
mod wrong;
