//! Where tiles are in scratch, and what their elements are there.

use tilewright::kernel::{Kernel, Tile};
use tilewright::tensor::DType;

use super::code::{Lack, lack};

/// The most bytes of scratch that a family may take.
const MAX_SCRATCH: usize = 1 << 26;

/// The most lanes of a vector: rows of tiles are padded to a multiple of it at every level.
pub const PADDED: i64 = 16;

/// What lanes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// f32, or a narrower float as the single that it is.
    Float,
    /// An integer of up to 32 bits, extended by its sign.
    Int,
    /// A truth value: 1 or 0 in scratch.
    Bool,
    /// f64.
    Double,
    /// i64.
    Long,
}

impl Kind {
    /// What elements of a type are.
    ///
    /// # Errors
    /// A type that lanes do not hold.
    pub fn of(dtype: DType) -> Result<Kind, Lack> {
        match dtype {
            DType::F32 | DType::F16 | DType::Bf16 => Ok(Kind::Float),
            DType::U8 | DType::I8 | DType::I32 => Ok(Kind::Int),
            DType::Bool => Ok(Kind::Bool),
            DType::F64 => Ok(Kind::Double),
            DType::I64 => Ok(Kind::Long),
            DType::ScaledF32 => lack(format!("lanes of type {dtype}")),
        }
    }

    /// Bytes of an element in scratch.
    pub fn bytes(self) -> i64 {
        match self {
            Kind::Double | Kind::Long => 8,
            _ => 4,
        }
    }
}

/// Where a tile is in scratch.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its first byte.
    pub offset: usize,
    /// Bytes per step, by axis.
    pub strides: Vec<i64>,
    /// The axis along which its rows run; none for a single element.
    pub inner: Option<usize>,
}

/// Scratch being handed out.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: usize,
}

impl Scratch {
    /// Space for elements of a kind, at an offset divisible by 64.
    ///
    /// # Errors
    /// More than a family may take.
    pub fn take(&mut self, elements: i64, kind: Kind) -> Result<usize, Lack> {
        let bytes = usize::try_from(elements.saturating_mul(kind.bytes())).ok();
        let end = bytes.and_then(|bytes| self.bytes.checked_add(bytes)).map(|end| end.next_multiple_of(64));
        match end {
            Some(end) if end <= MAX_SCRATCH => Ok(std::mem::replace(&mut self.bytes, end)),
            _ => lack(format!("tiles of more than {MAX_SCRATCH} bytes")),
        }
    }

    /// How many bytes were taken.
    pub fn bytes(&self) -> usize {
        self.bytes.max(64)
    }
}

/// The axis along which rows of a tile run unless something else is wanted: the last one whose size is not 1.
pub fn inner(tile: &Tile) -> Option<usize> {
    let last = tile.ranges.len().checked_sub(1);
    tile.ranges.iter().rposition(|range| range.size != 1).or(last)
}

/// Elements that a row of this many takes.
pub fn pitch(size: i64) -> i64 {
    size.max(1).saturating_add(PADDED - 1) / PADDED * PADDED
}

/// Where the tiles are, each with its rows along the axis that `wanted` names, or else [`inner`].
///
/// # Errors
/// Tiles that no scratch holds.
pub fn places(
    kernel: &Kernel,
    scratch: &mut Scratch,
    wanted: &dyn Fn(usize) -> Option<usize>,
) -> Result<Vec<Place>, Lack> {
    let mut places = Vec::new();
    for (id, tile) in kernel.tiles.iter().enumerate() {
        let inner = wanted(id).or_else(|| inner(tile));
        let kind = Kind::of(tile.dtype)?;
        let mut strides = vec![0; tile.ranges.len()];
        let mut stride = 1i64;
        if let Some(axis) = inner {
            strides[axis] = 1;
            stride = pitch(tile.ranges[axis].size);
        }
        for (axis, range) in tile.ranges.iter().enumerate().rev().filter(|(axis, _)| Some(*axis) != inner) {
            strides[axis] = stride;
            stride = stride.saturating_mul(range.size);
        }
        let offset = scratch.take(stride.max(PADDED), kind)?;
        strides.iter_mut().for_each(|stride| *stride = stride.saturating_mul(kind.bytes()));
        places.push(Place { offset, strides, inner });
    }
    Ok(places)
}
