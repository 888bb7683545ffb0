//! The rules, in the order in which they are tried.

mod consecutive_maps;
mod extend_map;
mod sibling_maps;

use super::Rule;

/// Every rule.
pub static RULES: &[Rule] = &[sibling_maps::RULE, consecutive_maps::RULE, extend_map::RULE];
