//! Whole products: cache blocks around the loops over panels.

use super::format::{Element, Format, Tile};
use super::pack::{Matrix, pack_panel};
use super::tile::{PanelContext, program};
use crate::machine::{CodePages, EmitError, Illegal, Level, emit};
use tilewright::tensor::DType;

/// Why a product cannot be made or run.
#[derive(Debug, thiserror::Error)]
pub enum ProductError {
    /// No format multiplies this type.
    #[error("no product of {0} is made by machine code; there are f32, bf16 and i8")]
    Type(DType),
    /// A tile makes no legal program: a bug in us.
    #[error("{0}")]
    Illegal(#[from] Illegal),
    /// A tile has no code: a bug in us.
    #[error("{0}")]
    Emit(#[from] EmitError),
    /// Pages of code are refused by the system.
    #[error("no pages for code: {0}")]
    Pages(#[from] std::io::Error),
    /// A matrix with fewer elements than its strides reach.
    #[error("a matrix of {lines} lines and depth {depth} needs {needs:?} elements, but has {has}")]
    Small {
        /// Lines.
        lines: usize,
        /// Depth.
        depth: usize,
        /// Elements wanted; `None` if that is no number.
        needs: Option<usize>,
        /// Elements there.
        has: usize,
    },
    /// Factors, or a result, that do not fit each other.
    #[error("{0}")]
    Shapes(String),
}

/// Sizes of cache blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocking {
    /// Units of depth: a panel of `b` takes half of the nearest cache.
    pub depth: usize,
    /// Rows: their panels of `a` take half of the next cache.
    pub rows: usize,
}

impl Blocking {
    /// For caches of these bytes.
    pub fn of(level: Level, tile: Tile, near: usize, next: usize) -> Blocking {
        let depth = (near / 2 / (4 * tile.columns(level))).next_multiple_of(4).max(4);
        let rows = (next / 2 / (4 * depth) / tile.rows).max(1) * tile.rows;
        Blocking { depth, rows }
    }
}

/// The right factor, packed: for each block of depth, panels of columns.
#[derive(Clone, Debug)]
pub struct PackedColumns {
    format: Format,
    width: usize,
    columns: usize,
    depth: usize,
    block: usize,
    units: Vec<u32>,
}

/// The left factor, packed: for each block of depth, panels of rows; the last may be of fewer rows than the tile.
#[derive(Clone, Debug)]
pub struct PackedRows {
    format: Format,
    height: usize,
    rows: usize,
    depth: usize,
    block: usize,
    units: Vec<u32>,
}

/// A product of one element type at one level: its code, and its blocks.
#[derive(Debug)]
pub struct Product {
    level: Level,
    format: Format,
    tile: Tile,
    blocking: Blocking,
    /// Rows of each program's tile, tallest first.
    heights: Vec<usize>,
    code: CodePages,
}

impl Product {
    /// Code for products of `dtype` at `level`, which the machine must have, with blocks for caches of `near` and `next` bytes.
    ///
    /// # Errors
    /// A type other than f32, bf16 and i8; no pages for code.
    pub fn new(level: Level, dtype: DType, near: usize, next: usize) -> Result<Product, ProductError> {
        let format = Format::of(level, dtype).ok_or(ProductError::Type(dtype))?;
        let tile = Tile::of(level, format);
        let heights: Vec<usize> =
            std::iter::once(tile.rows).chain([8, 4, 2, 1].into_iter().filter(|n| *n < tile.rows)).collect();
        let emitted = heights
            .iter()
            .map(|rows| Ok(emit(&program(level, format, Tile { rows: *rows, ..tile })?)?))
            .collect::<Result<Vec<_>, ProductError>>()?;
        let code = CodePages::new(&emitted.iter().collect::<Vec<_>>())?;
        Ok(Product { level, format, tile, blocking: Blocking::of(level, tile, near, next), heights, code })
    }

    /// What its panels are made of.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Its blocks.
    pub fn blocking(&self) -> Blocking {
        self.blocking
    }

    /// Packs the right factor, whose lines are columns of the result.
    ///
    /// # Errors
    /// A type of another format, or fewer elements than the strides reach.
    pub fn pack_columns<T: Element>(&self, matrix: &Matrix<'_, T>) -> Result<PackedColumns, ProductError> {
        self.check(matrix)?;
        let (width, block) = (self.tile.columns(self.level), self.blocking.depth);
        let mut units = Vec::new();
        for from in (0..matrix.depth).step_by(block * self.format.depth()) {
            let depth = (matrix.depth - from).min(block * self.format.depth());
            for line in (0..matrix.lines).step_by(width) {
                pack_panel(self.format, matrix, true, width, line, (from, depth), &mut units);
            }
        }
        let (format, columns, depth) = (self.format, matrix.lines, matrix.depth);
        Ok(PackedColumns { format, width, columns, depth, block, units })
    }

    /// Packs the left factor, whose lines are rows of the result.
    ///
    /// # Errors
    /// A type of another format, or fewer elements than the strides reach.
    pub fn pack_rows<T: Element>(&self, matrix: &Matrix<'_, T>) -> Result<PackedRows, ProductError> {
        self.check(matrix)?;
        let (height, block) = (self.tile.rows, self.blocking.depth);
        let mut units = Vec::new();
        for from in (0..matrix.depth).step_by(block * self.format.depth()) {
            let depth = (matrix.depth - from).min(block * self.format.depth());
            for line in (0..matrix.lines).step_by(height) {
                let height = self.height(matrix.lines - line);
                pack_panel(self.format, matrix, false, height, line, (from, depth), &mut units);
            }
        }
        let (format, rows, depth) = (self.format, matrix.lines, matrix.depth);
        Ok(PackedRows { format, height, rows, depth, block, units })
    }

    /// `c[m, n] = Σ_k a[m, k] · b[n, k]` for the columns from `first` on of as many as `c` has, rows `row_step` elements apart:
    /// f32 as bits, or i32. Columns from `first` on start at a multiple of the tile's columns.
    ///
    /// # Errors
    /// Factors of other formats, blocks or depths; a result that is too small.
    pub fn run(
        &self,
        a: &PackedRows,
        b: &PackedColumns,
        (first, columns): (usize, usize),
        c: &mut [u32],
        row_step: usize,
    ) -> Result<(), ProductError> {
        let same = (a.format, a.depth, a.block, a.height) == (b.format, b.depth, b.block, self.tile.rows)
            && (a.format, a.block, b.width)
                == (self.format, self.blocking.depth, self.tile.columns(self.level));
        let inside = first.checked_add(columns).is_some_and(|end| end <= b.columns)
            && first.is_multiple_of(b.width)
            && (a.rows == 0
                || columns == 0
                || (a.rows - 1).checked_mul(row_step).and_then(|at| at.checked_add(columns))
                    <= Some(c.len()))
            && (columns <= row_step || a.rows <= 1);
        if !same || !inside {
            return Err(ProductError::Shapes(format!(
                "{} × {} ({:?}) times {} × {} ({:?}), columns {first} and {columns} on, do not fit {} elements in rows of {row_step}",
                a.rows,
                a.depth,
                a.format,
                b.depth,
                b.columns,
                b.format,
                c.len()
            )));
        }
        if a.depth == 0 {
            for row in 0..a.rows {
                c[row * row_step..row * row_step + columns].fill(0);
            }
            return Ok(());
        }
        let units = a.depth.div_ceil(a.format.depth());
        let (mut left, mut right) = (0, 0);
        for from in (0..units).step_by(a.block) {
            let depth = (units - from).min(a.block);
            let full = a.rows / a.height * a.height;
            let row_units = depth + a.format.head();
            for start in (0..a.rows).step_by(self.blocking.rows) {
                // Whole panels, then the last one, which is of another height.
                let end = (start + self.blocking.rows).min(a.rows);
                for (from_row, to_row) in [(start, end.min(full)), (full.max(start), end)] {
                    if from_row >= to_row {
                        continue;
                    }
                    let rows = to_row - from_row;
                    let height = if from_row < full { a.height } else { self.height(rows) };
                    let at = left + from_row * row_units;
                    let which = self.heights.iter().position(|h| *h == height).unwrap_or(0);
                    let mut context = PanelContext {
                        a: a.units[at..].as_ptr(),
                        b: b.units[right + first * depth..].as_ptr(),
                        c: c[from_row * row_step..].as_mut_ptr(),
                        depth: depth as i64,
                        row_bytes: 4 * row_step as i64,
                        rows: rows as i64,
                        columns: columns as i64,
                        add: i64::from(from > 0),
                    };
                    let Some(entry) = self.code.entry(which) else { continue };
                    // SAFETY: panels were packed for this format, block and tile, with as many as rows and columns ask for;
                    // rows and columns of `c` lie inside it, as checked above; the machine has the level.
                    unsafe { entry((&raw mut context).cast(), std::ptr::null()) };
                }
            }
            left += (full + self.last_height(a.rows)) * row_units;
            right += b.columns.next_multiple_of(b.width) * depth;
        }
        Ok(())
    }

    /// The rows of the tile for a panel of which this many rows exist.
    fn height(&self, rows: usize) -> usize {
        let fits = self.heights.iter().copied().filter(|height| *height >= rows);
        fits.min().unwrap_or(self.tile.rows)
    }

    /// Rows of the panel behind the last whole one, 0 if there is none.
    fn last_height(&self, rows: usize) -> usize {
        match rows % self.tile.rows {
            0 => 0,
            rest => self.height(rest),
        }
    }

    fn check<T: Element>(&self, matrix: &Matrix<'_, T>) -> Result<(), ProductError> {
        if Format::of(self.level, T::TYPE) != Some(self.format) {
            return Err(ProductError::Type(T::TYPE));
        }
        let (needs, has) = (matrix.needs(), matrix.data.len());
        if needs.is_none_or(|needs| needs > has) {
            return Err(ProductError::Small { lines: matrix.lines, depth: matrix.depth, needs, has });
        }
        Ok(())
    }
}
