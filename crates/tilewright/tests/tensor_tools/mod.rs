//! Running tensor programs in tests. Small ones run at the block level too, and must agree there bit for bit.
#![allow(dead_code)]

use std::collections::BTreeMap;
use tilewright::block;
use tilewright::dim::Symbol;
use tilewright::error::Error;
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::tensor::eval::{Bindings, Numerics, eval};
use tilewright::tensor::{Array, DType, Data, Program, text};

pub const BOTH: [Numerics; 2] = [Numerics::F64, Numerics::Own];

/// The program of a text, which prints and parses to itself.
pub fn parse(source: &str) -> Program {
    let program = text::parse("test.tensor", source).unwrap_or_else(|error| panic!("{error}"));
    let printed = program.to_string();
    let again = text::parse("printed.tensor", &printed).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.to_string(), printed);
    assert!(again == program || printed.contains("nan"), "{printed}");
    program
}

/// The message with which a text is refused.
pub fn refusal(source: &str) -> String {
    match text::parse("test.tensor", source) {
        Ok(program) => panic!("accepted:\n{program}"),
        Err(error) => error.to_string(),
    }
}

pub fn sizes(sizes: &[(&str, i64)]) -> BTreeMap<Symbol, i64> {
    sizes.iter().map(|(name, value)| (Symbol::new(name), *value)).collect()
}

pub fn floats(dtype: DType, extents: &[usize], data: &[f64]) -> Array {
    Array { dtype, extents: extents.to_vec(), data: Data::Float(data.to_vec()) }
}

pub fn f32s(extents: &[usize], data: &[f64]) -> Array {
    floats(DType::F32, extents, data)
}

pub fn ints(extents: &[usize], data: &[i64]) -> Array {
    Array { dtype: DType::I32, extents: extents.to_vec(), data: Data::Int(data.to_vec()) }
}

pub fn bytes(extents: &[usize], data: &[u8]) -> Array {
    let data = data.iter().map(|byte| i64::from(*byte)).collect();
    Array { dtype: DType::U8, extents: extents.to_vec(), data: Data::Int(data) }
}

pub fn bools(extents: &[usize], data: &[bool]) -> Array {
    Array { dtype: DType::Bool, extents: extents.to_vec(), data: Data::Bool(data.to_vec()) }
}

pub fn try_run(
    source: &str,
    symbols: &[(&str, i64)],
    arrays: &[Array],
    numerics: Numerics,
) -> Result<Vec<Array>, Error> {
    let bindings = Bindings { symbols: sizes(symbols), arrays: arrays.to_vec() };
    let program = parse(source);
    let results = eval(&program, &bindings, numerics)?;
    if arrays.iter().chain(&results).map(Array::len).sum::<usize>() <= 10_000 {
        agrees_lowered(&program, &bindings, numerics, &results);
    }
    Ok(results)
}

/// The lowered program has the same results, bit for bit.
#[track_caller]
fn agrees_lowered(program: &Program, bindings: &Bindings, numerics: Numerics, results: &[Array]) {
    let (target, mut journal) = (Target::portable(), Journal::default());
    let lowered =
        block::lower::lower(program, &target, &mut journal).unwrap_or_else(|error| panic!("{error}"));
    let below = block::eval::eval(&lowered, bindings, numerics);
    let below = below.unwrap_or_else(|error| panic!("{error}\n{lowered}"));
    assert_eq!(below.len(), results.len());
    for (above, below) in results.iter().zip(&below) {
        let equal = above.extents == below.extents && same(&values(above), &values(below));
        assert!(equal, "{:?}\n{:?}\n{lowered}", values(above), values(below));
    }
}

pub fn run_all(source: &str, symbols: &[(&str, i64)], arrays: &[Array], numerics: Numerics) -> Vec<Array> {
    try_run(source, symbols, arrays, numerics).unwrap_or_else(|error| panic!("{error}"))
}

pub fn run(source: &str, symbols: &[(&str, i64)], arrays: &[Array], numerics: Numerics) -> Array {
    run_all(source, symbols, arrays, numerics).swap_remove(0)
}

pub fn values(array: &Array) -> Vec<f64> {
    (0..array.len()).map(|k| array.get(k).as_f64()).collect()
}

/// Equal bit for bit, all NaN being one.
pub fn same(got: &[f64], expected: &[f64]) -> bool {
    let equal = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    got.len() == expected.len() && got.iter().zip(expected).all(equal)
}

#[track_caller]
pub fn exact(array: &Array, expected: &[f64]) {
    let got = values(array);
    assert!(same(&got, expected), "{got:?} is not {expected:?}");
}

#[track_caller]
pub fn close(array: &Array, expected: &[f64], tolerance: f64) {
    let got = values(array);
    assert_eq!(got.len(), expected.len(), "{got:?}");
    for (x, y) in got.iter().zip(expected) {
        let near = (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= tolerance;
        assert!(near, "{got:?} is not {expected:?}");
    }
}

/// A reproducible sequence of 64-bit numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    /// In -1..1, a multiple of 2^-12: exact in f32.
    pub fn float(&mut self) -> f64 {
        (self.below(8192) as f64 - 4096.0) / 4096.0
    }

    pub fn floats(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.float()).collect()
    }
}
