//! What else computes the same: algebra on tensor programs, sizes symbolic.
//!
//! [`check`] decides whether a candidate is equal to a program; `docs/checker.md` is its law.

pub mod check;
