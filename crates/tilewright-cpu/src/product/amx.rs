//! Products in AMX tiles: 2 × 2 of them, 32 rows by 32 columns, read back through a near buffer.
//!
//! A chunk of depth is 64 bytes of a row: 32 bf16 or 64 signed bytes. A panel of `a` holds, for each chunk, 32 rows of 64 bytes; a
//! panel of `b`, for each chunk, two tiles of 16 columns, each 16 rows of 16 units (4 bytes along the depth: a VNNI pair or quad).

use super::format::{Element, Format};
use super::pack::Matrix;
use crate::machine::rows::tile::*;
use crate::machine::{Arg, Builder, Class, Cond, Illegal, Level, Mem, Program, TileConfig, Width};

/// Rows, and columns, of a product of tiles.
pub const AMX_TILE: usize = 32;

/// What [`amx_program`] is given.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AmxContext {
    /// A panel of `a`.
    pub a: *const u32,
    /// A panel of `b`.
    pub b: *const u32,
    /// The first element of `c`.
    pub c: *mut u32,
    /// Chunks of depth, at least 0.
    pub chunks: i64,
    /// Bytes from one row of `c` to the next.
    pub row_bytes: i64,
    /// Rows that exist, at least 0.
    pub rows: i64,
    /// Columns that exist.
    pub columns: i64,
    /// 0: `c` is written, and not read. Else what is computed is added to it.
    pub add: i64,
    /// 4096 bytes of the worker.
    pub near: *mut u32,
}

/// `c[m, n] (+)= Σ_k a[m, k] · b[k, n]` over one panel of each, in f32 of bf16 (`Format::Bf16`) or i32 of signed bytes
/// (`Format::Bytes`). With `configure`, the tiles are configured before and released behind; else the worker has done it.
///
/// # Errors
/// Never for these two formats.
pub fn amx_program(format: Format, configure: bool) -> Result<Program, Illegal> {
    let mut b = Builder::new(&format!("product_amx_{}", format.name()), Level::Amx);
    let [context, _] = b.entry();
    let word = |b: &mut Builder, n: i32| b.load64(Mem::at(context, 8 * n));
    let (left, right, chunks) = (word(&mut b, 0), word(&mut b, 1), word(&mut b, 3));
    let near = word(&mut b, 8);
    let tile = |b: &mut Builder, row, args: &[Arg]| {
        b.inst(row, Width::V128, args, None);
    };
    if configure {
        let config = b.constant(TileConfig::FULL.to_bytes().to_vec());
        tile(&mut b, &LDTILECFG, &[Mem::constant(config).into()]);
    }
    for n in 0..4 {
        tile(&mut b, &TILEZERO, &[Arg::Tile(n)]);
    }
    let (start, stride) = (b.imm(0), b.imm(64));
    let product = if format.is_float() { &TDPBF16PS } else { &TDPBSSD };
    b.count(start, chunks, 1, &[left, right], |b, _, at| {
        for half in 0..2 {
            let load = |b: &mut Builder, to: u8, from| {
                let from = Mem::indexed(from, stride, 1, 1024 * i32::from(half));
                tile(b, &TILELOADD, &[Arg::Tile(to + half), from.into()]);
            };
            load(b, 4, at[0]);
            load(b, 6, at[1]);
        }
        for n in 0..4 {
            tile(b, product, &[Arg::Tile(n), Arg::Tile(4 + n / 2), Arg::Tile(6 + n % 2)]);
        }
        vec![b.add_imm(at[0], 2048), b.add_imm(at[1], 2048)]
    });
    // Tile (i, j) lies in the near buffer in rows of 128 bytes.
    let row = b.imm(128);
    for n in 0..4_u8 {
        let offset = i32::from(n / 2) * 16 * 128 + i32::from(n % 2) * 64;
        tile(&mut b, &TILESTORED, &[Mem::indexed(near, row, 1, offset).into(), Arg::Tile(n)]);
    }
    if configure {
        tile(&mut b, &TILERELEASE, &[]);
    }
    let (c, row_bytes, rows) = (word(&mut b, 2), word(&mut b, 4), word(&mut b, 5));
    let (columns, add) = (word(&mut b, 6), word(&mut b, 7));
    let masks = [0, 1].map(|v| {
        let exist = b.add_imm(columns, -16 * v);
        b.first_lanes(exist)
    });
    b.count(start, rows, 1, &[c, near], |b, _, at| {
        let values = [0, 1].map(|v| b.load(Mem::at(at[1], 64 * v)));
        let vectors = [Class::Vector; 2];
        let (adding, write) = (b.block("add", &[]), b.block("write", &vectors));
        b.branch(Cond::NotEqual, add, 0, adding, &[], write, &values);
        b.switch_to(adding);
        let sums = [0, 1].map(|v| {
            let old = b.load_masked(Mem::at(at[0], 64 * v), masks[v as usize]);
            let value = values[v as usize];
            if format.is_float() { b.add_f32(old, value) } else { b.add_i32(old, value) }
        });
        b.jump(write, &sums);
        b.switch_to(write);
        for (v, value) in b.params(write).into_iter().enumerate() {
            b.store_masked(Mem::at(at[0], 64 * v as i32), value, masks[v]);
        }
        vec![b.add(at[0], row_bytes), b.add_imm(at[1], 128)]
    });
    let ok = b.imm(0);
    b.ret(ok);
    b.finish()
}

/// Appends the panel of 32 lines from `line` on to `out`, all of its depth, padded with 0 to whole chunks; of `b` if `right`. `data`
/// has what `Matrix::needs` says. Bytes of both factors stay signed.
pub fn pack_amx<T: Element>(
    format: Format,
    matrix: &Matrix<'_, T>,
    right: bool,
    line: usize,
    out: &mut Vec<u32>,
) {
    let group = format.depth();
    let unit = |line: usize, unit: usize| {
        let mut run = [T::default(); 4];
        let steps = (unit * group..((unit + 1) * group).min(matrix.depth)).take(4);
        if line < matrix.lines {
            for (slot, k) in run.iter_mut().zip(steps) {
                *slot = matrix.data[line * matrix.line_step + k * matrix.depth_step];
            }
        }
        T::unit(format, &run[..group], false)
    };
    for chunk in 0..matrix.depth.div_ceil(16 * group) {
        for i in 0..AMX_TILE {
            for j in 0..16 {
                // Rows of `a` are lines; rows of `b` are units of depth, first of one tile, then of the other.
                let (m, k) = if right { (line + i / 16 * 16 + j, i % 16) } else { (line + i, j) };
                out.push(unit(m, 16 * chunk + k));
            }
        }
    }
}
