//! What the tests of kernels share.

use std::collections::BTreeMap;
use tilewright::dim::Symbol;
use tilewright::journal::Journal;
use tilewright::kernel;
use tilewright::target::Target;
use tilewright::task;
use tilewright::task::eval::{Choice, Schedule};
use tilewright::tensor::eval::{Bindings, Numerics};
use tilewright::tensor::{Array, DType, Data, Scalar};

/// A sequence of numbers that looks random.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// An array of random elements of the type; floats are values of the type, some of them special.
pub fn random(dtype: DType, extents: &[usize], random: &mut Random) -> Array {
    let mut array = Array::filled(dtype, extents, Scalar::zero(dtype));
    for position in 0..array.len() {
        let draw = random.below(2000) as f64 / 250.0 - 4.0;
        let value = match dtype {
            DType::Bool => Scalar::Bool(draw > 0.0),
            t if t.is_int() => Scalar::Int(draw as i64),
            t => t.round(Scalar::Float(draw)),
        };
        array.set(position, value);
    }
    array
}

pub fn floats(dtype: DType, extents: &[usize], values: &[f64]) -> Array {
    Array { dtype, extents: extents.to_vec(), data: Data::Float(values.to_vec()) }
}

pub fn ints(dtype: DType, extents: &[usize], values: &[i64]) -> Array {
    Array { dtype, extents: extents.to_vec(), data: Data::Int(values.to_vec()) }
}

pub fn symbols(pairs: &[(&str, i64)]) -> BTreeMap<Symbol, i64> {
    pairs.iter().map(|(name, value)| (Symbol::new(name), *value)).collect()
}

/// Lowers a task program, and checks that the kernel program reads back from its text.
pub fn lower(tasks: &task::Program) -> kernel::Program {
    let lowered = kernel::lower::lower(tasks, &Target::portable(), &mut Journal::new()).expect("lowers");
    round_trip(&lowered);
    lowered
}

pub fn round_trip(program: &kernel::Program) {
    let text = program.to_string();
    let read = kernel::text::parse("lowered.kernel", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read.to_string(), text);
    assert_eq!(read, *program, "{text}");
}

/// Runs a task program and its kernel program in both numerics and several orders; all must agree bit for bit.
pub fn agree(text: &str, sizes: &[(&str, i64)], arrays: &[Array]) -> Vec<Array> {
    let tasks = task::text::parse("test.task", text).unwrap_or_else(|error| panic!("{error}"));
    let lowered = lower(&tasks);
    let bindings = Bindings { symbols: symbols(sizes), arrays: arrays.to_vec() };
    let mut last = Vec::new();
    for numerics in [Numerics::F64, Numerics::Own] {
        let mut schedule = Schedule::new(2, Choice::Earliest);
        let want =
            task::eval::eval(&tasks, &bindings, numerics, &mut schedule).expect("the task program runs");
        for choice in [Choice::Earliest, Choice::Latest, Choice::Random(5)] {
            let mut schedule = Schedule::new(3, choice);
            let have = kernel::eval::eval(&lowered, &bindings, numerics, &mut schedule)
                .unwrap_or_else(|error| panic!("{error}\n{lowered}"));
            assert!(
                task::eval::same(&want, &have),
                "{numerics:?} {choice:?} {sizes:?}\nwant {want:?}\nhave {have:?}\n{lowered}"
            );
        }
        last = want;
    }
    last
}
