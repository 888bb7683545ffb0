//! Programs with loops, spills, exits and masks: machine code against the evaluator.

use crate::machine::*;

/// Runs a program both ways on copies of the same buffers; the context is a table of their addresses. Gives the
/// status and the buffers, which are equal.
pub(super) fn both(program: &Program, buffers: &[Vec<u8>]) -> (i64, Vec<Vec<u8>>) {
    check_allocation(program).unwrap();
    let emitted = emit(program).unwrap();
    let code = CodePages::new(&[&emitted]).unwrap();
    let mut native = buffers.to_vec();
    let mut table: Vec<u64> = native.iter_mut().map(|buffer| buffer.as_mut_ptr() as u64).collect();
    let entry = code.entry(0).unwrap();
    // SAFETY: the level is one that the machine has; the evaluator below checks every access of the same program.
    let mut memory = Memory::default();
    let bases: Vec<u64> = buffers.iter().map(|buffer| memory.add(buffer.clone())).collect();
    let context = memory.add(bases.iter().flat_map(|base| base.to_le_bytes()).collect());
    let expected = eval(program, &mut memory, [context, 0], 10_000_000).unwrap();
    // SAFETY: the machine has the level, and the evaluation above found every access inside the buffers.
    let status = unsafe { entry(table.as_mut_ptr().cast(), std::ptr::null()) };
    assert_eq!(status, expected, "{program}\n{}", emitted.listing());
    for (i, (base, buffer)) in bases.iter().zip(&native).enumerate() {
        assert_eq!(
            memory.region(*base).unwrap(),
            &buffer[..],
            "buffer {i}\n{program}\n{}",
            emitted.listing()
        );
    }
    (status, native)
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn row_sum(level: Level, n: i64) -> Program {
    let mut b = Builder::new("row_sum", level);
    let [context, _] = b.entry();
    let (x, out) = (b.load64(Mem::at(context, 0)), b.load64(Mem::at(context, 8)));
    let (start, limit, lanes) = (b.imm(0), b.imm(n), b.lanes());
    let zero = b.splat(0.0);
    let sums = b.count(start, limit, lanes as i32, &[zero], |b, i, carried| {
        let left = b.sub(limit, i);
        let on = b.first_lanes(left);
        let value = b.load_masked(Mem::indexed(x, i, 4, 0), on);
        vec![b.add_f32(carried[0], value)]
    });
    let sum = b.fold(sums[0], |b, x, y| b.add_f32(x, y));
    b.store_lane(Mem::at(out, 0), sum);
    let ok = b.imm(0);
    b.ret(ok);
    b.finish().unwrap()
}

#[test]
fn a_row_is_summed_at_every_level_and_size() {
    for level in Level::available() {
        for n in [0, 1, 7, 8, 16, 17, 31, 100] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let (status, out) = both(&row_sum(level, n), &[floats(&x), vec![0xff; 4]]);
            assert_eq!(status, 0);
            assert_eq!(out[1], floats(&[x.iter().fold(0.0, |sum, x| sum + x)]), "{level} {n}");
        }
    }
}

#[test]
fn more_values_than_registers_are_spilled_and_the_sum_is_right() {
    for level in Level::available() {
        let count = 3 * level.vector_registers();
        let mut b = Builder::new("spills", level);
        let [context, _] = b.entry();
        let (x, out) = (b.load64(Mem::at(context, 0)), b.load64(Mem::at(context, 8)));
        let size = 4 * b.lanes() as i32;
        let values: Vec<ValueId> = (0..count as i32).map(|i| b.load(Mem::at(x, i * size))).collect();
        // Each is read twice, far apart, so that all live at once.
        let mut sum = values[0];
        for value in values.iter().skip(1).chain(values.iter().rev()) {
            sum = b.fma_add(sum, *value, *value);
        }
        b.store(Mem::at(out, 0), sum);
        let ok = b.imm(7);
        b.ret(ok);
        let program = b.finish().unwrap();
        assert!(!emit(&program).unwrap().spills.is_empty());
        let x: Vec<f32> = (0..count * level.width().lanes()).map(|i| (i % 17) as f32 * 0.25).collect();
        assert_eq!(both(&program, &[floats(&x), vec![0; 64]]).0, 7);
    }
}

#[test]
fn an_overflow_leaves_with_its_status() {
    let mut b = Builder::new("overflow", Level::Avx2);
    let [context, _] = b.entry();
    let x = b.load64(Mem::at(context, 0));
    let (a, c) = (b.load64(Mem::at(x, 0)), b.load64(Mem::at(x, 8)));
    let sum = b.add_or(a, c, 11);
    let product = b.mul_or(sum, c, 12);
    b.exit_if(Cond::Equal, product, 42, 13);
    b.ret(product);
    let program = b.finish().unwrap();
    if Level::detect().is_none() {
        return;
    }
    for (a, c, expected) in [(i64::MAX, 1, 11), (i64::MAX - 2, 2, 12), (19, 2, 13), (1, 2, 6)] {
        let bytes = [a, c].iter().flat_map(|v: &i64| v.to_le_bytes()).collect();
        assert_eq!(both(&program, &[bytes]).0, expected);
    }
}

#[test]
fn division_floors_whatever_the_signs() {
    let mut b = Builder::new("floor", Level::Avx2);
    let [context, _] = b.entry();
    let (x, out) = (b.load64(Mem::at(context, 0)), b.load64(Mem::at(context, 8)));
    let (a, c) = (b.load64(Mem::at(x, 0)), b.load64(Mem::at(x, 8)));
    let (quotient, rest) = b.divide_floor(a, c);
    b.store_general(8, Mem::at(out, 0), rest);
    b.ret(quotient);
    let program = b.finish().unwrap();
    if Level::detect().is_none() {
        return;
    }
    for a in -9_i64..9 {
        for c in [-4_i64, -3, -1, 1, 3, 4] {
            let bytes = [a, c].iter().flat_map(|v| v.to_le_bytes()).collect();
            let (quotient, out) = both(&program, &[bytes, vec![0; 8]]);
            let floor = a.div_euclid(c) - i64::from(c < 0 && a.rem_euclid(c) != 0);
            assert_eq!((quotient, &out[1][..]), (floor, &(a - floor * c).to_le_bytes()[..]), "{a} / {c}");
        }
    }
}

#[test]
fn pages_of_code_are_never_writable_and_executable() {
    let Some(level) = Level::detect() else { return };
    let emitted = emit(&row_sum(level, 8)).unwrap();
    let code = CodePages::new(&[&emitted]).unwrap();
    let (start, size) = code.range();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut found = false;
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let (from, to) = (usize::from_str_radix(from, 16).unwrap(), usize::from_str_radix(to, 16).unwrap());
        let writable_and_executable = rest.as_bytes()[1] == b'w' && rest.as_bytes()[2] == b'x';
        assert!(!writable_and_executable, "{line}");
        if from < start + size && start < to {
            found = true;
            assert!(rest.starts_with("r-x"), "{line}");
        }
    }
    assert!(found);
    assert!(code.perf_map(&[&emitted]).ends_with("tilewright::row_sum\n"));
    assert!(emitted.listing().contains("vaddps"), "{}", emitted.listing());
}

#[test]
fn illegal_programs_are_refused() {
    let mut b = Builder::new("open", Level::Avx2);
    b.imm(1);
    assert_eq!(b.finish().unwrap_err().what, "it has no end");

    let mut b = Builder::new("class", Level::Avx2);
    let zero = b.splat(0.0);
    b.ret(zero);
    assert_eq!(b.finish().unwrap_err().what, "the end wants general registers");

    let mut b = Builder::new("paths", Level::Avx2);
    let [context, coordinates] = b.entry();
    let (left, right, join) = (b.block("left", &[]), b.block("right", &[]), b.block("join", &[]));
    b.branch(Cond::Less, context, coordinates, left, &[], right, &[]);
    b.switch_to(left);
    let only_here = b.imm(1);
    b.jump(join, &[]);
    b.switch_to(right);
    b.jump(join, &[]);
    b.switch_to(join);
    b.ret(only_here);
    assert!(b.finish().unwrap_err().what.ends_with("is not defined on every path"));

    let mut b = Builder::new("level", Level::Avx2);
    let zero = b.splat(0.0);
    b.inst(&rows::integer::VDPBF16PS, Width::V256, &[zero.into(), zero.into(), zero.into()], None);
    let ok = b.imm(0);
    b.ret(ok);
    assert!(b.finish().unwrap_err().what.contains("has no encoding at avx2"));
}

#[test]
fn the_evaluator_refuses_what_is_outside_every_buffer() {
    let mut memory = Memory::default();
    let x = memory.add(vec![0; 60]);
    let context = memory.add(x.to_le_bytes().to_vec());
    let mut b = Builder::new("outside", Level::Avx512);
    let [table, _] = b.entry();
    let x = b.load64(Mem::at(table, 0));
    let value = b.load(Mem::at(x, 0));
    b.store(Mem::at(x, 0), value);
    b.ret(x);
    let fault = eval(&b.finish().unwrap(), &mut memory, [context, 0], 100).unwrap_err();
    assert!(matches!(fault, Fault::OutOfBounds { bytes: 64, write: false, .. }), "{fault}");
}

#[test]
fn tiles_are_multiplied_by_the_evaluator_and_encoded() {
    let mut b = Builder::new("tiles", Level::Amx);
    let [context, _] = b.entry();
    let config = b.constant(TileConfig::FULL.to_bytes().to_vec());
    let (a, c) = (b.load64(Mem::at(context, 0)), b.load64(Mem::at(context, 8)));
    let stride = b.imm(64);
    let mut tile = |row, args: &[Arg]| {
        b.inst(row, Width::V128, args, None);
    };
    tile(&rows::tile::LDTILECFG, &[Mem::constant(config).into()]);
    tile(&rows::tile::TILEZERO, &[Arg::Tile(0)]);
    tile(&rows::tile::TILELOADD, &[Arg::Tile(1), Mem::indexed(a, stride, 1, 0).into()]);
    tile(&rows::tile::TILELOADD, &[Arg::Tile(2), Mem::indexed(a, stride, 1, 1024).into()]);
    tile(&rows::tile::TDPBSSD, &[Arg::Tile(0), Arg::Tile(1), Arg::Tile(2)]);
    tile(&rows::tile::TILESTORED, &[Mem::indexed(c, stride, 1, 0).into(), Arg::Tile(0)]);
    tile(&rows::tile::TILERELEASE, &[]);
    let ok = b.imm(0);
    b.ret(ok);
    let program = b.finish().unwrap();
    let listing = emit(&program).unwrap().listing();
    for name in [
        "ldtilecfg",
        "tilezero tmm0",
        "tileloadd tmm1",
        "tdpbssd tmm0,tmm1,tmm2",
        "tilestored",
        "tilerelease",
    ] {
        assert!(listing.contains(name), "{name}\n{listing}");
    }
    let bytes: Vec<u8> = (0..2048).map(|i| (i * 37 % 251) as u8).collect();
    let mut memory = Memory::default();
    let (a, c) = (memory.add(bytes.clone()), memory.add(vec![0; 1024]));
    let context = memory.add([a, c].iter().flat_map(|at: &u64| at.to_le_bytes()).collect());
    assert_eq!(eval(&program, &mut memory, [context, 0], 100), Ok(0));
    let out = memory.region(c).unwrap();
    for m in 0..16 {
        for n in 0..16 {
            let term = |k: usize| {
                i32::from(bytes[64 * m + k] as i8)
                    * i32::from(bytes[1024 + 64 * (k / 4) + 4 * n + k % 4] as i8)
            };
            let expected: i32 = (0..64).map(term).sum();
            assert_eq!(out[64 * m + 4 * n..64 * m + 4 * n + 4], expected.to_le_bytes(), "{m} {n}");
        }
    }
}
