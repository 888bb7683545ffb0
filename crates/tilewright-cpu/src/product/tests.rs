//! Products against sums in order, at every size of the edges, with nothing else touched.

use super::*;
use crate::machine::{CodePages, Level, Memory, check_allocation, emit, eval};
use half::bf16;
use tilewright::tensor::DType;

/// Small numbers, exact in every type, so that sums are exact too.
fn small(i: usize) -> i32 {
    (i * 31 % 101) as i32 % 17 - 8
}

/// A product of matrices of a type at a level, against plain sums; the type's widest values are among them if `extreme`.
fn whole<T: Element>(
    level: Level,
    element: impl Fn(i32) -> T,
    value: impl Fn(T) -> i32,
    (m, n, k): (usize, usize, usize),
) {
    let product = Product::new(level, T::TYPE, 4096, 1 << 15).unwrap();
    let a: Vec<T> = (0..m * k).map(|i| element(small(i))).collect();
    let b: Vec<T> = (0..n * k).map(|i| element(small(i + 7))).collect();
    let rows = product.pack_rows(&Matrix::rows(&a, m, k)).unwrap();
    let columns = product.pack_columns(&Matrix::rows(&b, n, k)).unwrap();
    // The same factor stored the other way gives the same panels.
    let turned: Vec<T> = (0..n * k).map(|i| b[i % n.max(1) * k + i / n.max(1)]).collect();
    let other = product.pack_columns(&Matrix::columns(&turned, n, k)).unwrap();
    let step = n + 3;
    let poison = f32::NAN.to_bits();
    for packed in [&columns, &other] {
        let mut c = vec![poison; m * step + 5];
        product.run(&rows, packed, (0, n), &mut c, step).unwrap();
        for (at, got) in c.iter().enumerate() {
            let (i, j) = (at / step, at % step);
            if i >= m || j >= n {
                assert_eq!(*got, poison, "{level} {m}x{k}x{n} at {i}, {j} is outside");
                continue;
            }
            let sum: i32 = (0..k).map(|d| value(a[i * k + d]) * value(b[j * k + d])).sum();
            let bits = if product.format().is_float() { (sum as f32).to_bits() } else { sum as u32 };
            assert_eq!(*got, bits, "{level} {:?} {m}x{k}x{n} at {i}, {j}: not {sum}", product.format());
        }
    }
}

#[test]
fn whole_products_are_exact_at_every_edge() {
    for level in Level::available() {
        for sizes in [
            (1, 1, 1),
            (14, 32, 64),
            (15, 33, 3),
            (37, 70, 301),
            (3, 5, 0),
            (0, 4, 4),
            (5, 0, 9),
            (28, 64, 130),
        ] {
            whole(level, |x| x as f32, |x| x as i32, sizes);
            whole(level, |x| bf16::from_f32(x as f32), |x| x.to_f32() as i32, sizes);
            whole(level, |x| x as i8, i32::from, sizes);
            // The ends of the range: 128 too large is 0 and 255.
            whole(level, |x| if x < 0 { -128 } else { 127_i8 }, i32::from, sizes);
        }
    }
}

#[test]
fn a_part_of_the_columns_is_what_it_is_in_the_whole() {
    let Some(level) = Level::detect() else { return };
    let product = Product::new(level, DType::F32, 4096, 1 << 15).unwrap();
    let (m, n, k) = (9, 100, 50);
    let a: Vec<f32> = (0..m * k).map(|i| small(i) as f32 / 7.0).collect();
    let b: Vec<f32> = (0..n * k).map(|i| small(i) as f32 / 3.0).collect();
    let rows = product.pack_rows(&Matrix::rows(&a, m, k)).unwrap();
    let columns = product.pack_columns(&Matrix::rows(&b, n, k)).unwrap();
    let (mut all, mut part) = (vec![0; m * n], vec![0; m * 36]);
    product.run(&rows, &columns, (0, n), &mut all, n).unwrap();
    product.run(&rows, &columns, (64, 36), &mut part, 36).unwrap();
    for i in 0..m {
        assert_eq!(all[i * n + 64..][..36], part[i * 36..][..36]);
    }
    assert!(matches!(product.run(&rows, &columns, (3, 36), &mut part, 36), Err(ProductError::Shapes(_))));
    assert!(matches!(product.run(&rows, &columns, (64, 37), &mut part, 37), Err(ProductError::Shapes(_))));
    assert!(matches!(product.run(&rows, &columns, (0, n), &mut part, n), Err(ProductError::Shapes(_))));
    let short = Matrix::rows(&a[1..], m, k);
    assert!(matches!(product.pack_rows(&short), Err(ProductError::Small { .. })));
    assert!(matches!(product.pack_rows(&Matrix::rows(&[1_i8], 1, 1)), Err(ProductError::Type(DType::I8))));
    assert!(matches!(Product::new(level, DType::F64, 4096, 1 << 15), Err(ProductError::Type(DType::F64))));
}

#[test]
fn f32_sums_are_in_order_within_a_block_of_depth() {
    for level in Level::available() {
        let product = Product::new(level, DType::F32, 4096, 1 << 15).unwrap();
        let (m, n, block) = (6, 11, product.blocking().depth);
        let k = 2 * block + 5;
        let a: Vec<f32> = (0..m * k).map(|i| small(i) as f32 / 7.0).collect();
        let b: Vec<f32> = (0..n * k).map(|i| small(i + 3) as f32 / 3.0).collect();
        let rows = product.pack_rows(&Matrix::rows(&a, m, k)).unwrap();
        let columns = product.pack_columns(&Matrix::rows(&b, n, k)).unwrap();
        let mut c = vec![0; m * n];
        product.run(&rows, &columns, (0, n), &mut c, n).unwrap();
        for i in 0..m {
            for j in 0..n {
                let blocks = (0..k).step_by(block).map(|from| {
                    let steps = from..(from + block).min(k);
                    steps.fold(0.0_f32, |sum, d| a[i * k + d].mul_add(b[j * k + d], sum))
                });
                let expected = blocks.reduce(|sum, part| sum + part).unwrap();
                assert_eq!(f32::from_bits(c[i * n + j]), expected, "{level} at {i}, {j}");
            }
        }
    }
}

#[test]
fn tiles_do_not_spill_and_pass_the_checker() {
    for level in Level::available() {
        for dtype in [DType::F32, DType::Bf16, DType::I8] {
            let format = Format::of(level, dtype).unwrap();
            let program = program(level, format, Tile::of(level, format)).unwrap();
            check_allocation(&program).unwrap();
            let emitted = emit(&program).unwrap();
            // From the head of each loop over depth to its first jump nothing moves through memory.
            let listing = emitted.listing();
            let mut lines = listing.lines();
            let mut loops = 0;
            while let Some(line) = lines.next() {
                if line.starts_with("whole") || line.starts_with("single") {
                    loops += 1;
                    let body = lines.by_ref().take_while(|line| !line.contains(" j"));
                    let moves: Vec<&str> = body.filter(|line| line.contains("[rsp")).collect();
                    assert!(moves.is_empty(), "{moves:?}\n{listing}");
                }
            }
            assert_eq!(loops, 2, "{listing}");
        }
    }
}

#[test]
fn the_evaluator_agrees_with_the_machine() {
    for level in Level::available() {
        for dtype in [DType::F32, DType::Bf16, DType::I8] {
            let format = Format::of(level, dtype).unwrap();
            let shape = Tile { rows: 4, vectors: 2 };
            let (program, depth) = (program(level, format, shape).unwrap(), 7);
            let (height, width) = (shape.rows, shape.columns(level));
            let value = |i: usize| match format {
                Format::F32 => (small(i) as f32 / 3.0).to_bits(),
                Format::Bf16 => {
                    let half = |i| u32::from(bf16::from_f32(small(i) as f32 / 3.0).to_bits());
                    half(i) | half(i + 50) << 16
                }
                _ => (i as u32).wrapping_mul(0x9e37_79b9),
            };
            let a: Vec<u32> = (0..2 * (depth + format.head()) * height).map(value).collect();
            let b: Vec<u32> = (0..2 * depth * width).map(|i| value(i + 5)).collect();
            let (rows, columns) = (7, width + 3);
            let mut c: Vec<u32> = (0..rows * (columns + 2)).map(|i| (small(i) as f32).to_bits()).collect();
            let mut memory = Memory::default();
            let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            let at = [&a, &b, &c].map(|words| memory.add(bytes(words)));
            let rest = [depth as u64, 4 * (columns as u64 + 2), rows as u64, columns as u64, 1];
            let context = at.iter().chain(&rest).flat_map(|word| word.to_le_bytes()).collect();
            let context = memory.add(context);
            assert_eq!(eval(&program, &mut memory, [context, 0], 1 << 20), Ok(0));
            let emitted = emit(&program).unwrap();
            let code = CodePages::new(&[&emitted]).unwrap();
            let mut context = PanelContext {
                a: a.as_ptr(),
                b: b.as_ptr(),
                c: c.as_mut_ptr(),
                depth: depth as i64,
                row_bytes: rest[1] as i64,
                rows: rows as i64,
                columns: columns as i64,
                add: 1,
            };
            // SAFETY: the machine has the level, and the evaluator found every access inside the same buffers.
            unsafe { code.entry(0).unwrap()((&raw mut context).cast(), std::ptr::null()) };
            assert_eq!(memory.region(at[2]).unwrap(), bytes(&c), "{level} {format:?}");
        }
    }
}

/// In the evaluator: the machine may have no AMX.
fn amx<T: Element>(format: Format, element: impl Fn(i32) -> T, value: impl Fn(T) -> i32) {
    for (m, n, k, add) in [(32, 32, 64, 0), (17, 5, 70, 1), (32, 20, 1, 0), (1, 32, 0, 1)] {
        let a: Vec<T> = (0..m * k).map(|i| element(small(i))).collect();
        let b: Vec<T> = (0..n * k).map(|i| element(small(i + 7))).collect();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        pack_amx(format, &Matrix::rows(&a, m, k), false, 0, &mut left);
        pack_amx(format, &Matrix::rows(&b, n, k), true, 0, &mut right);
        let step = n + 1;
        let number = |x: i32| if format.is_float() { (x as f32).to_bits() } else { x as u32 };
        let c: Vec<u32> = (0..m * step).map(|i| number(small(i))).collect();
        let mut memory = Memory::default();
        let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let at = [&left, &right, &c].map(|words| memory.add(bytes(words)));
        let near = memory.add(vec![0xff; 4096]);
        let chunks = k.div_ceil(16 * format.depth());
        let rest = [chunks, 4 * step, m, n, add].map(|x| x as u64);
        let words = at.iter().chain(&rest).chain(std::iter::once(&near));
        let context = memory.add(words.flat_map(|word| word.to_le_bytes()).collect());
        let program = amx_program(format, true).unwrap();
        assert_eq!(eval(&program, &mut memory, [context, 0], 1 << 20), Ok(0));
        let got = memory.region(at[2]).unwrap();
        for i in 0..m * step {
            let (row, column) = (i / step, i % step);
            let old = small(i);
            let sum: i32 = if column < n {
                let terms = (0..k).map(|d| value(a[row * k + d]) * value(b[column * k + d]));
                terms.sum::<i32>() + if add == 1 { old } else { 0 }
            } else {
                old
            };
            assert_eq!(got[4 * i..4 * i + 4], number(sum).to_le_bytes(), "{format:?} at {row}, {column}");
        }
    }
}

#[test]
fn amx_products_are_exact_in_the_evaluator_and_encoded() {
    amx(Format::Bf16, |x| bf16::from_f32(x as f32), |x| x.to_f32() as i32);
    amx(Format::Bytes, |x| x as i8, i32::from);
    for (format, name) in [(Format::Bf16, "tdpbf16ps"), (Format::Bytes, "tdpbssd")] {
        let program = amx_program(format, true).unwrap();
        check_allocation(&program).unwrap();
        let emitted = emit(&program).unwrap();
        assert_eq!(emitted.spills, []);
        let listing = emitted.listing();
        for (tile, a, b) in [(0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7)] {
            assert!(listing.contains(&format!("{name} tmm{tile},tmm{a},tmm{b}")), "{listing}");
        }
        assert!(listing.contains("ldtilecfg") && listing.contains("tilerelease"), "{listing}");
        let bare = emit(&amx_program(format, false).unwrap()).unwrap().listing();
        assert!(!bare.contains("ldtilecfg") && !bare.contains("tilerelease"), "{bare}");
    }
}
