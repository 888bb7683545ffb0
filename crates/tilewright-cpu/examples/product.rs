//! The f32 product of one register tile against the rate of multiply-adds alone, taking turns in one process.

use std::time::Instant;
use tilewright_cpu::machine::{Builder, CodePages, Entry, Level, Mem, emit};
use tilewright_cpu::product::{Tile, TileContext, f32_tile};

const TURNS: usize = 60;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for level in Level::available() {
        let (tile, lanes, depth) = (Tile::of(level), level.width().lanes(), 256);
        let start = Instant::now();
        let product = emit(&f32_tile(level, tile)?)?;
        let emission = start.elapsed();
        let count = if level == Level::Avx2 { 12 } else { 24 };
        let mut b = Builder::new("ceiling", level);
        let [context, _] = b.entry();
        let (begin, turns) = (b.imm(0), b.load64(Mem::at(context, 0)));
        let x = b.splat(0.0);
        let sums = vec![x; count];
        b.count(begin, turns, 1, &sums, |b, _, sums| sums.iter().map(|sum| b.fma_add(*sum, x, x)).collect());
        b.ret(begin);
        let ceiling = emit(&b.finish()?)?;
        let code = CodePages::new(&[&product, &ceiling])?;
        let width = tile.vectors * lanes;
        let (a, panel) = (vec![0.5_f32; depth * tile.rows], vec![0.25_f32; depth * width]);
        let mut c = vec![0.0_f32; tile.rows * width];
        let mut given = TileContext {
            a: a.as_ptr(),
            b: panel.as_ptr(),
            c: c.as_mut_ptr(),
            depth: depth as i64,
            row_bytes: 4 * width as i64,
            columns: width as i64,
        };
        let mut loops = 40_000_i64;
        let mut rates = [Vec::new(), Vec::new()];
        let entries: Vec<Entry> = (0..2).filter_map(|n| code.entry(n)).collect();
        for _ in 0..TURNS {
            let start = Instant::now();
            for _ in 0..400 {
                // SAFETY: the machine has the level, and buffers have the sizes that the context says.
                unsafe { entries[0]((&raw mut given).cast(), std::ptr::null()) };
            }
            rates[0].push((400 * depth * tile.rows * width * 2) as f64 / start.elapsed().as_secs_f64() / 1e9);
            let start = Instant::now();
            // SAFETY: the machine has the level, and the context is one integer.
            unsafe { entries[1]((&raw mut loops).cast(), std::ptr::null()) };
            rates[1].push((loops as usize * count * lanes * 2) as f64 / start.elapsed().as_secs_f64() / 1e9);
        }
        rates.iter_mut().for_each(|rates| rates.sort_by(f64::total_cmp));
        let (median, best) = (TURNS / 2, TURNS - 1);
        println!(
            "{level}: {}x{width} f32, median {:.1} of {:.1} GFLOP/s ({:.1} %), best {:.1} of {:.1} ({:.1} %); emitted in {emission:?}",
            tile.rows,
            rates[0][median],
            rates[1][median],
            100.0 * rates[0][median] / rates[1][median],
            rates[0][best],
            rates[1][best],
            100.0 * rates[0][best] / rates[1][best],
        );
    }
    Ok(())
}
