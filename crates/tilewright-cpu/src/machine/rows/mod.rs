//! The rows of the instruction table, by what they work on.

macro_rules! rows {
    ($($id:ident = $row:expr;)*) => {
        $(#[doc = concat!("The row `", stringify!($id), "`.")] pub static $id: Row = $row;)*
        /// The rows of this module.
        pub static ALL: &[&Row] = &[$(&$id),*];
    };
}

pub mod bytes;
pub mod convert;
pub mod double;
pub mod float;
pub mod gather;
pub mod general;
pub mod integer;
pub mod long;
pub mod mask;
pub mod moves;
pub mod tile;

use super::row::Row;

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    let lanes = [float::ALL, integer::ALL, convert::ALL, bytes::ALL, double::ALL, long::ALL];
    let others = [general::ALL, moves::ALL, gather::ALL, mask::ALL, tile::ALL];
    lanes.into_iter().chain(others).flatten().copied()
}
