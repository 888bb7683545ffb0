//! The rows of the instruction table, by what they work on.

macro_rules! rows {
    ($($id:ident = $row:expr;)*) => {
        $(#[doc = concat!("The row `", stringify!($id), "`.")] pub static $id: Row = $row;)*
        /// The rows of this module.
        pub static ALL: &[&Row] = &[$(&$id),*];
    };
}

pub mod convert;
pub mod float;
pub mod general;
pub mod integer;
pub mod mask;
pub mod moves;
pub mod tile;

use super::row::Row;

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    let groups = [general::ALL, float::ALL, integer::ALL, convert::ALL, moves::ALL, mask::ALL, tile::ALL];
    groups.into_iter().flatten().copied()
}
