//! Where values live: maps over blocks, with explicit movement between memory tiers.

pub mod ir;

pub use ir::*;
