//! The register tile, and the loops over panels around it.

use super::format::{Format, Tile};
use crate::machine::rows::integer;
use crate::machine::{Arg, Builder, Class, Cond, Illegal, Level, Mem, Program, ValueId};

/// How many units of depth one turn of the loop does.
const UNROLL: i32 = 4;

/// What a tile, or the loops over panels, work on: general registers.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The first byte of the panel of `a`.
    pub a: ValueId,
    /// The first byte of the panel of `b`.
    pub b: ValueId,
    /// The first element of `c`: f32 or i32, its columns one behind another.
    pub c: ValueId,
    /// Units of depth, at least 0.
    pub depth: ValueId,
    /// Bytes from one row of `c` to the next.
    pub row_bytes: ValueId,
    /// Rows that exist, at least 1.
    pub rows: ValueId,
    /// Columns that exist, at least 1. What does not exist is neither read nor written in `c`; in panels it does.
    pub columns: ValueId,
    /// 0: `c` is written, and not read. Else what is computed is added to it.
    pub add: ValueId,
}

/// What [`program`] is given: its context, with the meaning of [`Operands`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PanelContext {
    /// Panels of `a`, one behind another.
    pub a: *const u32,
    /// Panels of `b`, one behind another.
    pub b: *const u32,
    /// The first element of `c`.
    pub c: *mut u32,
    /// Units of depth.
    pub depth: i64,
    /// Bytes from one row of `c` to the next.
    pub row_bytes: i64,
    /// Rows, at least 0.
    pub rows: i64,
    /// Columns, at least 0.
    pub columns: i64,
    /// Whether to add to `c`.
    pub add: i64,
}

/// A program that runs [`panels`] on a [`PanelContext`].
///
/// # Errors
/// A format that the level lacks, or a tile that makes no legal program.
pub fn program(level: Level, format: Format, shape: Tile) -> Result<Program, Illegal> {
    let name = format!("product_{}_{}x{}", format.name(), shape.rows, shape.vectors);
    let mut b = Builder::new(&name, level);
    let [context, _] = b.entry();
    let mut word = |n: i32| b.load64(Mem::at(context, 8 * n));
    let operands = Operands {
        a: word(0),
        b: word(1),
        c: word(2),
        depth: word(3),
        row_bytes: word(4),
        rows: word(5),
        columns: word(6),
        add: word(7),
    };
    panels(&mut b, format, shape, &operands);
    let ok = b.imm(0);
    b.ret(ok);
    b.finish()
}

/// All panels of `b` times all of `a`: for each panel of `b`, which stays in the nearest cache, every panel of `a`.
pub fn panels(b: &mut Builder, format: Format, shape: Tile, given: &Operands) {
    let (height, width) = (shape.rows as i32, shape.columns(b.level()) as i32);
    let left_bytes = b.mul_imm(given.depth, 4 * height);
    let left_bytes = b.add_imm(left_bytes, 4 * height * format.head() as i32);
    let right_bytes = b.mul_imm(given.depth, 4 * width);
    let down = b.mul_imm(given.row_bytes, height);
    let start = b.imm(0);
    b.count(start, given.columns, width, &[given.b, given.c], |b, j, right| {
        let columns = b.sub(given.columns, j);
        let start = b.imm(0);
        b.count(start, given.rows, height, &[given.a, right[1]], |b, i, left| {
            let rows = b.sub(given.rows, i);
            tile(
                b,
                format,
                shape,
                &Operands { a: left[0], b: right[0], c: left[1], rows, columns, ..*given },
            );
            vec![b.add(left[0], left_bytes), b.add(left[1], down)]
        });
        vec![b.add(right[0], right_bytes), b.add_imm(right[1], 4 * width)]
    });
}

/// One register tile: `c[m, n] (+)= Σ_k a[k, m] · b[k, n]`, units ascending, each unit's products added to the sum by one
/// instruction of the format, from 0.
pub fn tile(b: &mut Builder, format: Format, shape: Tile, given: &Operands) {
    let (lanes, count) = (b.lanes() as i32, shape.rows * shape.vectors);
    let (left_step, right_step) = (4 * shape.rows as i32, 4 * lanes * shape.vectors as i32);
    let mut first = vec![given.a, given.b, given.depth];
    if format.head() == 0 {
        let zero = b.splat(0.0);
        first.extend(vec![zero; count]);
    } else {
        for m in 0..shape.rows as i32 {
            let sum = b.broadcast(Mem::at(given.a, 4 * m));
            first.extend(vec![sum; shape.vectors]);
        }
        first[0] = b.add_imm(given.a, left_step);
    }
    let mut classes = vec![Class::General; 3];
    classes.extend(vec![Class::Vector; count]);
    let (whole, check, single) =
        (b.block("whole", &classes), b.block("check", &classes), b.block("single", &classes));
    let done = b.block("sums", &vec![Class::Vector; count]);
    b.branch(Cond::GreaterEqual, given.depth, UNROLL, whole, &first, check, &first);
    for (block, steps) in [(whole, UNROLL), (single, 1)] {
        b.switch_to(block);
        let params = b.params(block);
        let mut sums = params[3..].to_vec();
        for k in 0..steps {
            step(b, format, shape, [params[0], params[1]], [k * left_step, k * right_step], &mut sums);
        }
        let left = b.add_imm(params[2], -steps);
        let mut next =
            vec![b.add_imm(params[0], steps * left_step), b.add_imm(params[1], steps * right_step), left];
        next.extend(&sums);
        if steps == 1 {
            b.branch(Cond::Greater, left, 0, single, &next, done, &sums);
        } else {
            b.branch(Cond::GreaterEqual, left, UNROLL, whole, &next, check, &next);
        }
    }
    b.switch_to(check);
    let params = b.params(check);
    b.branch(Cond::Greater, params[2], 0, single, &params, done, &params[3..]);
    b.switch_to(done);
    let sums = b.params(done);
    store(b, format, shape, given, &sums);
}

/// Writes sums to the rows and columns of `c` that exist, or adds them there.
fn store(b: &mut Builder, format: Format, shape: Tile, given: &Operands, sums: &[ValueId]) {
    let lanes = b.lanes() as i32;
    let masks: Vec<_> = (0..shape.vectors as i32)
        .map(|v| {
            let exist = b.add_imm(given.columns, -v * lanes);
            b.first_lanes(exist)
        })
        .collect();
    let (adding, writing, end) = (b.block("add", &[]), b.block("write", &[]), b.block("end", &[]));
    b.branch(Cond::NotEqual, given.add, 0, adding, &[], writing, &[]);
    for block in [adding, writing] {
        b.switch_to(block);
        let mut row = given.c;
        for (m, sums) in sums.chunks(shape.vectors).enumerate() {
            if m > 0 {
                let next = b.block("row", &[]);
                b.branch(Cond::Greater, given.rows, m as i32, next, &[], end, &[]);
                b.switch_to(next);
                row = b.add(row, given.row_bytes);
            }
            for (v, (sum, on)) in sums.iter().zip(&masks).enumerate() {
                let at = Mem::at(row, 4 * lanes * v as i32);
                let mut value = *sum;
                if block == adding {
                    let old = b.load_masked(at, *on);
                    value = if format.is_float() { b.add_f32(old, value) } else { b.add_i32(old, value) };
                }
                b.store_masked(at, value, *on);
            }
        }
        b.jump(end, &[]);
    }
    b.switch_to(end);
}

/// One unit of depth: each of `a` times one row of `b`.
fn step(
    b: &mut Builder,
    format: Format,
    shape: Tile,
    [left, right]: [ValueId; 2],
    at: [i32; 2],
    sums: &mut [ValueId],
) {
    let size = b.width().bytes() as i32;
    let row: Vec<ValueId> =
        (0..shape.vectors as i32).map(|v| b.load(Mem::at(right, at[1] + v * size))).collect();
    for m in 0..shape.rows {
        let element = Mem::at(left, at[0] + 4 * m as i32);
        // AVX-512 repeats a unit within the multiplication; AVX2, and `vpmaddwd`, need a register for it.
        let apart = b.level() == Level::Avx2 || format == Format::I16;
        let element: Arg = if apart { b.broadcast(element).into() } else { Arg::Broadcast(element) };
        for (v, row) in row.iter().enumerate() {
            let sum = &mut sums[m * shape.vectors + v];
            *sum = match format {
                Format::F32 => b.fma_add(*sum, *row, element),
                Format::Bf16 => b.dot_bf16(*sum, *row, element),
                Format::Bytes => b.dot_u8_i8(*sum, *row, element),
                Format::I16 => {
                    let width = b.width();
                    let pair = b.inst(&integer::VPMADDWD, width, &[(*row).into(), element], None)[0];
                    b.add_i32(*sum, pair)
                }
            };
        }
    }
}
