//! The checker of `superopt`: the laws of `docs/checker.md`, wrong candidates and right ones.

mod laws;
mod right;
mod support;
