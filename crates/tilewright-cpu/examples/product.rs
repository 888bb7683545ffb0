//! Products against what bounds them, taking turns in one process: register tiles against the rate of their instruction, and
//! whole products on all cores, packing of the left factor included, in a form that a peer's script can read.

use std::sync::Barrier;
use std::time::{Duration, Instant};
use tilewright::tensor::DType;
use tilewright_cpu::machine::{Builder, CodePages, Entry, Level, Mem, emit};
use tilewright_cpu::product::{Element, Format, Matrix, PanelContext, Product, Tile, program};

const TURNS: usize = 40;

type Failure = Box<dyn std::error::Error>;

/// The instruction of a format alone, on as many independent sums as its tile has, or fewer where a register is missing.
fn ceiling(level: Level, format: Format) -> Result<tilewright_cpu::machine::Emitted, Failure> {
    let mut b = Builder::new("ceiling", level);
    let [context, _] = b.entry();
    let (begin, turns) = (b.imm(0), b.load64(Mem::at(context, 0)));
    let x = b.splat(0.0);
    let sums = vec![x; chains(level)];
    b.count(begin, turns, 1, &sums, |b, _, sums| {
        let one = |b: &mut Builder, sum| match format {
            Format::F32 => b.fma_add(sum, x, x),
            Format::Bf16 => b.dot_bf16(sum, x, x),
            Format::Bytes => b.dot_u8_i8(sum, x, x),
            Format::I16 => {
                let width = b.width();
                let row = &tilewright_cpu::machine::rows::integer::VPMADDWD;
                let pair = b.inst(row, width, &[x.into(), x.into()], None)[0];
                b.add_i32(sum, pair)
            }
        };
        sums.iter().map(|sum| one(b, *sum)).collect()
    });
    b.ret(begin);
    Ok(emit(&b.finish()?)?)
}

fn chains(level: Level) -> usize {
    if level == Level::Avx2 { 12 } else { 24 }
}

fn tiles(level: Level, dtype: DType) -> Result<(), Failure> {
    let Some(format) = Format::of(level, dtype) else { return Ok(()) };
    let (tile, depth) = (Tile::of(level, format), 192);
    let start = Instant::now();
    let product = emit(&program(level, format, tile)?)?;
    let emission = start.elapsed();
    let code = CodePages::new(&[&product, &ceiling(level, format)?])?;
    let (width, lanes) = (tile.columns(level), level.width().lanes());
    let (a, panel) = (vec![0_u32; (depth + format.head()) * tile.rows], vec![0_u32; depth * width]);
    let mut c = vec![0_u32; tile.rows * width];
    let mut given = PanelContext {
        a: a.as_ptr(),
        b: panel.as_ptr(),
        c: c.as_mut_ptr(),
        depth: depth as i64,
        row_bytes: 4 * width as i64,
        rows: tile.rows as i64,
        columns: width as i64,
        add: 1,
    };
    let mut loops = 20_000_i64;
    let mut rates = [Vec::new(), Vec::new()];
    let entries: Vec<Entry> = (0..2).filter_map(|n| code.entry(n)).collect();
    let work = 2 * format.depth();
    for _ in 0..TURNS {
        let start = Instant::now();
        for _ in 0..300 {
            // SAFETY: the machine has the level, and buffers have the sizes that the context says.
            unsafe { entries[0]((&raw mut given).cast(), std::ptr::null()) };
        }
        rates[0].push((300 * depth * tile.rows * width * work) as f64 / start.elapsed().as_secs_f64() / 1e9);
        let start = Instant::now();
        // SAFETY: the machine has the level, and the context is one integer.
        unsafe { entries[1]((&raw mut loops).cast(), std::ptr::null()) };
        let done = loops as usize * chains(level) * lanes * work;
        rates[1].push(done as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    rates.iter_mut().for_each(|rates| rates.sort_by(f64::total_cmp));
    let (median, best) = (TURNS / 2, TURNS - 1);
    println!(
        "{level} {dtype} as {}: {}x{width}, median {:.1} of {:.1} Gop/s ({:.1} %), best {:.1} of {:.1} ({:.1} %); emitted in {emission:?}",
        format.name(),
        tile.rows,
        rates[0][median],
        rates[1][median],
        100.0 * rates[0][median] / rates[1][median],
        rates[0][best],
        rates[1][best],
        100.0 * rates[0][best] / rates[1][best],
    );
    Ok(())
}

/// The time of `turns` products, the columns shared by `threads` threads that stay; rows are packed each time, by all of them.
fn whole<T: Element>(
    level: Level,
    one: T,
    (m, k, n): (usize, usize, usize),
    threads: usize,
    turns: usize,
) -> Result<Vec<Duration>, Failure> {
    let product = Product::new(level, T::TYPE, 32 << 10, 1 << 20)?;
    let (a, b) = (vec![one; m * k], vec![one; n * k]);
    let columns = product.pack_columns(&Matrix::rows(&b, n, k))?;
    let width = Tile::of(level, product.format()).columns(level);
    let share = n.div_ceil(threads).next_multiple_of(width);
    let barrier = Barrier::new(threads);
    let times = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                let (product, columns, a, barrier) = (&product, &columns, &a, &barrier);
                scope.spawn(move || {
                    let first = (t * share).min(n);
                    let mine = share.min(n - first);
                    let mut c = vec![0_u32; m * mine];
                    let mut times = Vec::new();
                    for _ in 0..turns {
                        barrier.wait();
                        let start = Instant::now();
                        let rows = product.pack_rows(&Matrix::rows(a, m, k)).map_err(|e| e.to_string())?;
                        if mine > 0 {
                            product
                                .run(&rows, columns, (first, mine), &mut c, mine)
                                .map_err(|e| e.to_string())?;
                        }
                        barrier.wait();
                        times.push(start.elapsed());
                    }
                    Ok::<_, String>(times)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|_| Err("a panic".into())))
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(times.into_iter().next().unwrap_or_default())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [dtype, m, k, n, threads, turns] = &arguments[..] {
        let level = Level::detect().ok_or("no level of this machine is known")?;
        let number = |text: &String| text.parse::<usize>();
        let (sizes, threads) = ((number(m)?, number(k)?, number(n)?), number(threads)?.max(1));
        let times = match dtype.as_str() {
            "f32" => whole(level, 1.0_f32, sizes, threads, number(turns)?)?,
            "bf16" => whole(level, half::bf16::from_f32(1.0), sizes, threads, number(turns)?)?,
            "i8" => whole(level, 1_i8, sizes, threads, number(turns)?)?,
            other => return Err(format!("`{other}` is none of f32, bf16 and i8").into()),
        };
        let milliseconds: Vec<String> =
            times.iter().map(|t| format!("{:.4}", t.as_secs_f64() * 1e3)).collect();
        println!("{}", milliseconds.join(" "));
        return Ok(());
    }
    for level in Level::available() {
        for dtype in [DType::F32, DType::Bf16, DType::I8] {
            tiles(level, dtype)?;
        }
    }
    Ok(())
}
