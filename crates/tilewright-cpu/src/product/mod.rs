//! Register-tiled products over packed panels, as machine programs.

use crate::machine::{Arg, Builder, Class, Cond, Illegal, Level, Mem, Program, ValueId};

#[cfg(test)]
mod tests;

/// A register tile of an f32 product: `rows` of `a` by `vectors` of the level's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows.
    pub rows: usize,
    /// Vectors of columns.
    pub vectors: usize,
}

impl Tile {
    /// The largest tile whose accumulators, one row of `b` and one element of `a` are in registers.
    pub fn of(level: Level) -> Tile {
        if level == Level::Avx2 { Tile { rows: 6, vectors: 2 } } else { Tile { rows: 14, vectors: 2 } }
    }
}

/// What an f32 tile program is given: its context.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TileContext {
    /// Panel of `a`: for each k, `rows` elements.
    pub a: *const f32,
    /// Panel of `b`: for each k, `vectors` times the level's lanes elements, padded.
    pub b: *const f32,
    /// First element of the tile of `c`.
    pub c: *mut f32,
    /// Depth, at least 0.
    pub depth: i64,
    /// Bytes from one row of `c` to the next.
    pub row_bytes: i64,
    /// Columns of the tile that exist; the others are neither read nor written.
    pub columns: i64,
}

/// How many steps of depth one turn of the loop does.
const UNROLL: i32 = 4;

/// `c[m, n] += Σ_k a[k, m] · b[k, n]`, k ascending, one fused multiply-add each, from 0; then added to `c`. The
/// program's context is a [`TileContext`].
///
/// # Errors
/// A tile that makes no legal program.
pub fn f32_tile(level: Level, tile: Tile) -> Result<Program, Illegal> {
    let mut b = Builder::new(&format!("product_f32_{}x{}", tile.rows, tile.vectors), level);
    let [context, _] = b.entry();
    let (left, right) = (b.load64(Mem::at(context, 0)), b.load64(Mem::at(context, 8)));
    let depth = b.load64(Mem::at(context, 24));
    let (lanes, count) = (b.lanes() as i32, tile.rows * tile.vectors);
    let (left_step, right_step) = (4 * tile.rows as i32, 4 * lanes * tile.vectors as i32);
    let zero = b.splat(0.0);
    let mut first = vec![left, right, depth];
    first.extend(vec![zero; count]);
    let mut classes = vec![Class::General; 3];
    classes.extend(vec![Class::Vector; count]);
    let (whole, check, single) =
        (b.block("whole", &classes), b.block("check", &classes), b.block("single", &classes));
    let done = b.block("done", &vec![Class::Vector; count]);
    b.branch(Cond::GreaterEqual, depth, UNROLL, whole, &first, check, &first);
    for (block, steps) in [(whole, UNROLL), (single, 1)] {
        b.switch_to(block);
        let params = b.params(block);
        let mut sums = params[3..].to_vec();
        for k in 0..steps {
            step(&mut b, tile, [params[0], params[1]], [k * left_step, k * right_step], &mut sums);
        }
        let mut next = vec![
            b.add_imm(params[0], steps * left_step),
            b.add_imm(params[1], steps * right_step),
            b.add_imm(params[2], -steps),
        ];
        let left = next[2];
        if steps == 1 {
            next.extend(&sums);
            b.branch(Cond::Greater, left, 0, single, &next, done, &sums);
        } else {
            next.extend(&sums);
            b.branch(Cond::GreaterEqual, left, UNROLL, whole, &next, check, &next);
        }
    }
    b.switch_to(check);
    let params = b.params(check);
    b.branch(Cond::Greater, params[2], 0, single, &params, done, &params[3..]);
    b.switch_to(done);
    let sums = b.params(done);
    let (row_bytes, columns) = (b.load64(Mem::at(context, 32)), b.load64(Mem::at(context, 40)));
    let masks: Vec<_> = (0..tile.vectors as i32)
        .map(|v| {
            let exist = b.add_imm(columns, -v * lanes);
            b.first_lanes(exist)
        })
        .collect();
    let mut row = b.load64(Mem::at(context, 16));
    for sums in sums.chunks(tile.vectors) {
        for (v, (sum, on)) in sums.iter().zip(&masks).enumerate() {
            let at = Mem::at(row, 4 * lanes * v as i32);
            let old = b.load_masked(at, *on);
            let new = b.add_f32(old, *sum);
            b.store_masked(at, new, *on);
        }
        row = b.add(row, row_bytes);
    }
    let ok = b.imm(0);
    b.ret(ok);
    b.finish()
}

/// One step of depth: each element of `a` times one row of `b`.
fn step(b: &mut Builder, tile: Tile, [left, right]: [ValueId; 2], at: [i32; 2], sums: &mut [ValueId]) {
    let size = b.width().bytes() as i32;
    let row: Vec<ValueId> =
        (0..tile.vectors as i32).map(|v| b.load(Mem::at(right, at[1] + v * size))).collect();
    for m in 0..tile.rows {
        let element = Mem::at(left, at[0] + 4 * m as i32);
        // AVX-512 repeats the element within the multiply-add; AVX2 needs a register for it.
        let element: Arg =
            if b.level() == Level::Avx2 { b.broadcast(element).into() } else { Arg::Broadcast(element) };
        for (v, row) in row.iter().enumerate() {
            let sum = &mut sums[m * tile.vectors + v];
            *sum = b.fma_add(*sum, *row, element);
        }
    }
}
