//! Products of tiles: bit-equal to fused multiply-adds in order, at every size of the edge, with nothing else touched.

use super::*;
use crate::machine::{CodePages, check_allocation, emit};

#[test]
fn a_tile_is_the_sum_in_order_and_touches_nothing_else() {
    for level in Level::available() {
        let (tile, lanes) = (Tile::of(level), level.width().lanes());
        let program = f32_tile(level, tile).unwrap();
        check_allocation(&program).unwrap();
        let emitted = emit(&program).unwrap();
        assert_eq!(emitted.spills, [], "{}", emitted.listing());
        let code = CodePages::new(&[&emitted]).unwrap();
        let width = tile.vectors * lanes;
        for depth in [0, 1, 3, 4, 5, 64, 67] {
            for columns in [0, 1, lanes - 1, lanes, lanes + 1, width] {
                let value = |i: usize| ((i * 31 % 101) as f32 - 50.0) / 7.0;
                let a: Vec<f32> = (0..depth * tile.rows).map(value).collect();
                let b: Vec<f32> = (0..depth * width).map(|i| value(i + 5)).collect();
                let stride = width + 3;
                let before: Vec<f32> = (0..tile.rows * stride).map(|i| value(i + 9)).collect();
                let mut c = before.clone();
                let mut context = TileContext {
                    a: a.as_ptr(),
                    b: b.as_ptr(),
                    c: c.as_mut_ptr(),
                    depth: depth as i64,
                    row_bytes: 4 * stride as i64,
                    columns: columns as i64,
                };
                let entry = code.entry(0).unwrap();
                // SAFETY: the machine has the level, and panels and tile have the sizes that the context says.
                unsafe { entry((&raw mut context).cast(), std::ptr::null()) };
                for (i, (old, new)) in before.iter().zip(&c).enumerate() {
                    let (m, n) = (i / stride, i % stride);
                    let sum = (0..depth).fold(0.0, |sum: f32, k| {
                        a[k * tile.rows + m].mul_add(b[k * width + n.min(width - 1)], sum)
                    });
                    let expected = if n < columns { old + sum } else { *old };
                    assert_eq!(
                        expected.to_bits(),
                        new.to_bits(),
                        "{level} depth {depth} columns {columns} at {m}, {n}"
                    );
                }
            }
        }
    }
}
