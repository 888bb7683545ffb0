//! Layouts: which hardware location holds which element of a tile, as an algebra of digits.
//!
//! A hardware location is a tuple of coordinates (lane, register, thread, byte offset of a page). Each coordinate is
//! written in mixed radix; every digit moves along one axis of the tile by a stride:
//!
//! ```text
//! index[axis] = Σ over digits of that axis of digit · stride
//! ```
//!
//! Row-major order, register tiles, VNNI pairs and matrix fragments are all of this form. A layout is *total* if every
//! element has a location, and *injective* if it has one only.

/// A coordinate of hardware locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coordinate {
    /// Element offset in a page or in memory.
    Offset,
    /// Lane of a vector register, or column of a tile register.
    Lane,
    /// Number of the register, or row of a tile register.
    Register,
    /// Thread of a block.
    Thread,
}

/// One digit of a hardware coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digit {
    /// Which coordinate it is a digit of; the first digit listed for a coordinate varies fastest.
    pub coordinate: Coordinate,
    /// How many values it takes.
    pub size: i64,
    /// The axis of the tile along which it moves.
    pub axis: usize,
    /// By how much.
    pub stride: i64,
}

/// A layout of a tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The digits, fastest first within each coordinate.
    pub digits: Vec<Digit>,
}
