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

/// Lowers a task program, and checks that the kernel program is legal and reads back from its text.
pub fn lower(tasks: &task::Program) -> kernel::Program {
    let target = Target::portable();
    let lowered = kernel::lower::lower(tasks, &target, &mut Journal::new()).expect("lowers");
    round_trip(&lowered);
    let legal = kernel::verify::verify(&lowered, &target);
    assert!(legal.is_ok(), "{}\n{lowered}", legal.err().map_or(String::new(), |error| error.to_string()));
    lowered
}

pub fn round_trip(program: &kernel::Program) {
    let text = program.to_string();
    let read = kernel::text::parse("lowered.kernel", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read.to_string(), text);
    // NaN is no number's equal, but prints alike.
    assert!(read == *program || format!("{read:?}") == format!("{program:?}"), "{text}");
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

/// A kernel program from its text.
pub fn parse(text: &str) -> kernel::Program {
    let program = kernel::text::parse("test.kernel", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    round_trip(&program);
    program
}

/// A program of one family, `only`, with these coordinates, regions and this kernel.
pub fn one(facts: &str, buffers: &str, header: &str, kernel: &str) -> String {
    let outputs: Vec<&str> = (buffers.lines())
        .filter_map(|line| line.trim().strip_prefix("output "))
        .filter_map(|line| line.split(':').next())
        .collect();
    format!(
        "worker fetch, prologue, wait, body, notify\nprogram test\nwhere {facts}\narena 0\nbuffers {{\n{buffers}\n}}\n\
         results {}\ntasks only {header}\n{{\n{kernel}\n}}\n",
        outputs.join(", ")
    )
}

/// Runs a legal program under many orders and in both numerics; the results are the same in all orders.
pub fn run_all(program: &kernel::Program, sizes: &[(&str, i64)], arrays: &[Array], seeds: u64) -> Vec<Array> {
    let legal = kernel::verify::verify(program, &Target::portable());
    assert!(legal.is_ok(), "{}\n{program}", legal.err().map_or(String::new(), |error| error.to_string()));
    let bindings = Bindings { symbols: symbols(sizes), arrays: arrays.to_vec() };
    let mut first: Option<Vec<Array>> = None;
    let fixed = [Choice::First, Choice::Last, Choice::Earliest, Choice::Latest, Choice::Starve(0)];
    for choice in fixed.into_iter().chain((0..seeds).map(Choice::Random)) {
        let mut schedule = Schedule::new(2, choice);
        let have = kernel::eval::eval(program, &bindings, Numerics::Own, &mut schedule)
            .unwrap_or_else(|error| panic!("{choice:?}: {error}\n{program}"));
        match &first {
            Some(first) => {
                assert!(task::eval::same(first, &have), "{choice:?}\n{first:?}\n{have:?}\n{program}")
            }
            None => first = Some(have),
        }
    }
    first.expect("it has run")
}
