//! What a panel is made of.

use crate::machine::Level;
use tilewright::tensor::DType;

/// What a unit of 4 bytes holds, and the instruction that multiplies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One f32; a fused multiply-add.
    F32,
    /// Two bf16, added into an f32: `vdpbf16ps`. Subnormals count as 0.
    Bf16,
    /// Two i16, added into an i32: `vpmaddwd` and an addition.
    I16,
    /// Four bytes, added into an i32: `vpdpbusd`. Those of `a` are signed, those of `b` are 128 too large and unsigned. A panel
    /// of `a` starts with −128 Σ a of each row, from which its sums start.
    Bytes,
}

impl Format {
    /// The format in which a level multiplies elements of a type, if it is f32, bf16 or i8. Widened where the level has no
    /// product of the type: bf16 to f32, i8 to i16.
    pub fn of(level: Level, dtype: DType) -> Option<Format> {
        let dot = level >= Level::Avx512Dot;
        Some(match dtype {
            DType::F32 => Format::F32,
            DType::Bf16 if dot => Format::Bf16,
            DType::Bf16 => Format::F32,
            DType::I8 if dot => Format::Bytes,
            DType::I8 => Format::I16,
            _ => return None,
        })
    }

    /// Steps of depth in a unit.
    pub const fn depth(self) -> usize {
        match self {
            Format::F32 => 1,
            Format::Bf16 | Format::I16 => 2,
            Format::Bytes => 4,
        }
    }

    /// Whether sums are f32; else i32.
    pub const fn is_float(self) -> bool {
        matches!(self, Format::F32 | Format::Bf16)
    }

    /// Units before the first of depth in a panel of `a`, for each row.
    pub const fn head(self) -> usize {
        matches!(self, Format::Bytes) as usize
    }

    /// Its name in programs.
    pub const fn name(self) -> &'static str {
        match self {
            Format::F32 => "f32",
            Format::Bf16 => "bf16",
            Format::I16 => "i16",
            Format::Bytes => "bytes",
        }
    }
}

/// A register tile: `rows` of `a` by `vectors` of the level's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows.
    pub rows: usize,
    /// Vectors of columns.
    pub vectors: usize,
}

impl Tile {
    /// The largest tile whose accumulators, one row of `b`, and what an element of `a` needs are in registers.
    pub fn of(level: Level, format: Format) -> Tile {
        let rows = match (level, format) {
            (Level::Avx2, Format::I16) => 5,
            (Level::Avx2, _) => 6,
            (_, Format::I16) => 9,
            _ => 14,
        };
        Tile { rows, vectors: 2 }
    }

    /// Columns.
    pub fn columns(self, level: Level) -> usize {
        self.vectors * level.width().lanes()
    }
}

/// An element that panels are packed from.
pub trait Element: Copy + Default + Send + Sync {
    /// Its type in programs.
    const TYPE: DType;

    /// The units of a run of elements along the depth, as many as the format takes; those of `b` if `right`.
    fn unit(format: Format, run: &[Self], right: bool) -> u32;

    /// The element as an integer, for what panels of `Format::Bytes` start with; 0 for floats.
    fn integer(self) -> i32 {
        0
    }
}

impl Element for f32 {
    const TYPE: DType = DType::F32;

    fn unit(_: Format, run: &[f32], _: bool) -> u32 {
        run.first().map_or(0, |x| x.to_bits())
    }
}

impl Element for half::bf16 {
    const TYPE: DType = DType::Bf16;

    fn unit(format: Format, run: &[half::bf16], _: bool) -> u32 {
        let bits = |k: usize| run.get(k).map_or(0, |x| u32::from(x.to_bits()));
        if format == Format::F32 { bits(0) << 16 } else { bits(0) | bits(1) << 16 }
    }
}

impl Element for i8 {
    const TYPE: DType = DType::I8;

    fn unit(format: Format, run: &[i8], right: bool) -> u32 {
        let at = |k: usize| run.get(k).copied().unwrap_or(0);
        if format == Format::I16 {
            let word = |k: usize| u32::from(i16::from(at(k)) as u16);
            return word(0) | word(1) << 16;
        }
        let flip = if right { 0x80 } else { 0 };
        u32::from_le_bytes([0, 1, 2, 3].map(|k| at(k) as u8 ^ flip))
    }

    fn integer(self) -> i32 {
        self.into()
    }
}
