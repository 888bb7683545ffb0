//! Compiling programs, running them on the portable executor and comparing arrays, for tests.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tilewright::dim::Symbol;
use tilewright::runtime::{Control, Loaded, Memory, Runtime};
use tilewright::task::{BufferKind, Plan};
use tilewright::tensor::eval::{Bindings, Numerics, eval};
use tilewright::tensor::{self, Array, DType, Data, ParamKind, Program};
use tilewright::{Arguments, Error, Executable, HostTensor, Options, Target, compile, kernel};
use tilewright_cpu::Portable;

/// The portable executor with one worker and with three, under one compile; counts how many programs it was given.
struct TwoPools {
    one: Portable,
    three: Portable,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    single: AtomicBool,
    loads: AtomicUsize,
}

struct TwoLoaded {
    one: Arc<dyn Loaded>,
    three: Arc<dyn Loaded>,
    state: Arc<State>,
}

impl Runtime for TwoPools {
    fn name(&self) -> &str {
        "portable, twice"
    }

    fn load(&self, program: &Arc<kernel::Program>) -> Result<Arc<dyn Loaded>, Error> {
        self.state.loads.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(TwoLoaded {
            one: self.one.load(program)?,
            three: self.three.load(program)?,
            state: Arc::clone(&self.state),
        }))
    }
}

impl Loaded for TwoLoaded {
    fn run(&self, plan: &Plan, memory: &mut Memory<'_>, control: &Control) -> Result<(), Error> {
        let loaded = if self.state.single.load(Ordering::Relaxed) { &self.one } else { &self.three };
        loaded.run(plan, memory, control)
    }
}

/// A program, compiled once.
pub struct Subject {
    pub executable: Executable,
    state: Arc<State>,
}

impl Subject {
    /// Compiles a program text, which prints and parses to itself.
    #[track_caller]
    pub fn new(text: &str) -> Subject {
        let program = parse(text);
        let state = Arc::new(State::default());
        let (one, three) = (Portable::new(1), Portable::new(3));
        let runtime = Arc::new(TwoPools { one, three, state: Arc::clone(&state) });
        let options = Options { runtime, ..Options::default() };
        let executable = compile(&program, &Target::portable(), &options)
            .unwrap_or_else(|error| panic!("{}: {error}", program.main().name));
        Subject { executable, state }
    }

    /// How many programs were compiled: 1, and 1 more where there is work on weights alone.
    pub fn compiles(&self) -> usize {
        self.state.loads.load(Ordering::Relaxed)
    }

    /// The results in order, on `workers` workers: 1 or 3. Arrays are those of all parameters in order.
    pub fn try_run(&self, at: &[(&str, i64)], arrays: &[Array], workers: usize) -> Result<Vec<Array>, Error> {
        assert!(workers == 1 || workers == 3);
        self.state.single.store(workers == 1, Ordering::Relaxed);
        let main = self.executable.program().main();
        assert_eq!(main.params.len(), arrays.len(), "arrays of all parameters");
        let (mut weights, mut tables, mut inputs, mut states) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (param, array) in main.params.iter().zip(arrays) {
            let name = main.value(param.value).name.clone();
            let tensor = HostTensor::from_array(array)?;
            match param.kind {
                ParamKind::Weight => weights.insert(name, tensor),
                ParamKind::Plan => tables.insert(name, tensor),
                ParamKind::State => states.insert(name, tensor),
                _ => inputs.insert(name, tensor),
            };
        }
        let plan = self.executable.plan(&sizes(at), tables)?;
        let weights = self.executable.prepare(weights)?;
        let mut arguments = Arguments::new();
        for (name, tensor) in &inputs {
            arguments = arguments.input(name.as_str(), tensor);
        }
        for (name, tensor) in &mut states {
            arguments = arguments.state(name.as_str(), tensor);
        }
        let outputs = self.executable.run(&plan, &weights, arguments, &Control::default())?;
        let mut outputs = outputs.iter().map(HostTensor::to_array);
        let tasks = &self.executable.stages().kernel.tasks;
        let result = |&id| {
            let buffer = tasks.buffer(id);
            match buffer.kind {
                BufferKind::Param(ParamKind::State) => states.get(&buffer.name).map(HostTensor::to_array),
                _ => outputs.next(),
            }
        };
        let results = tasks.results.iter().map(result).collect::<Option<Vec<Array>>>();
        Ok(results.expect("an output for each result"))
    }

    /// As [`Subject::try_run`]; one worker and three give the same bits.
    #[track_caller]
    pub fn run(&self, at: &[(&str, i64)], arrays: &[Array]) -> Vec<Array> {
        let run = |workers| {
            self.try_run(at, arrays, workers)
                .unwrap_or_else(|error| panic!("{at:?}, {workers} workers: {error}"))
        };
        let (three, one) = (run(3), run(1));
        for (three, one) in three.iter().zip(&one) {
            assert!(same(&values(three), &values(one)), "{at:?}: one worker and three differ");
        }
        three
    }

    /// What the program means, by evaluation.
    #[track_caller]
    pub fn eval(&self, at: &[(&str, i64)], arrays: &[Array], numerics: Numerics) -> Vec<Array> {
        let bindings = Bindings { symbols: sizes(at), arrays: arrays.to_vec() };
        eval(self.executable.program(), &bindings, numerics).unwrap_or_else(|error| panic!("{at:?}: {error}"))
    }
}

/// The program of a text, which prints and parses to itself.
#[track_caller]
pub fn parse(text: &str) -> Program {
    let program = tensor::text::parse("test.tensor", text).unwrap_or_else(|error| panic!("{error}"));
    let printed = program.to_string();
    let again = tensor::text::parse("printed.tensor", &printed).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again, program, "{printed}");
    assert_eq!(again.to_string(), printed);
    program
}

/// The program with every size fixed to its value.
#[track_caller]
pub fn fixed(text: &str, sizes: &[(&str, i64)]) -> String {
    let Some((head, tail)) = text.split_once("\nwhere ") else { return text.into() };
    let (facts, body) = tail.split_once("\n{").expect("a body");
    let facts = facts.replace('\n', " ");
    let facts: Vec<String> = facts
        .split(',')
        .map(|fact| match fact.trim().split_once(" in ") {
            Some((name, _)) => {
                let (_, value) = sizes.iter().find(|(own, _)| *own == name).expect("a value for each size");
                format!("{name} = {value}")
            }
            None => fact.trim().to_string(),
        })
        .collect();
    format!("{head}\nwhere {}\n{{{body}", facts.join(", "))
}

/// Sizes by name.
pub fn sizes(at: &[(&str, i64)]) -> BTreeMap<Symbol, i64> {
    at.iter().map(|&(name, value)| (Symbol::new(name), value)).collect()
}

/// Floats of a type, each rounded to it.
pub fn floats(dtype: DType, extents: &[usize], values: &[f64]) -> Array {
    assert_eq!(extents.iter().product::<usize>(), values.len());
    let mut array = Array { dtype, extents: extents.to_vec(), data: Data::Float(values.to_vec()) };
    array.round(Numerics::Own);
    array
}

/// 32-bit integers.
pub fn ints(extents: &[usize], values: &[i64]) -> Array {
    Array { dtype: DType::I32, extents: extents.to_vec(), data: Data::Int(values.to_vec()) }
}

/// Truth values.
pub fn bools(extents: &[usize], values: &[bool]) -> Array {
    Array { dtype: DType::Bool, extents: extents.to_vec(), data: Data::Bool(values.to_vec()) }
}

/// The elements as numbers.
pub fn values(array: &Array) -> Vec<f64> {
    (0..array.len()).map(|k| array.get(k).as_f64()).collect()
}

/// Equal bit for bit, all NaN being one.
pub fn same(got: &[f64], expected: &[f64]) -> bool {
    let equal = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    got.len() == expected.len() && got.iter().zip(expected).all(equal)
}

/// The elements are `expected`, bit for bit.
#[track_caller]
pub fn exact(array: &Array, expected: &[f64]) {
    let got = values(array);
    assert!(same(&got, expected), "{got:?} is not {expected:?}");
}

/// The elements are `expected`, up to `tolerance`; what is NaN or infinite is so on both sides.
#[track_caller]
pub fn close(array: &Array, expected: &[f64], tolerance: f64) {
    let got = values(array);
    assert_eq!(got.len(), expected.len(), "{got:?} is not {expected:?}");
    for (x, y) in got.iter().zip(expected) {
        let near = (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= tolerance;
        assert!(near, "{got:?} is not {expected:?}");
    }
}

/// The greatest distance between elements of two arrays, in units of the greatest finite element expected. Element
/// type, extents, the places of NaN and infinities, and everything that is no float must be equal.
#[track_caller]
pub fn distance(got: &Array, expected: &Array) -> f64 {
    assert_eq!((got.dtype, &got.extents), (expected.dtype, &expected.extents));
    let (Data::Float(got), Data::Float(expected)) = (&got.data, &expected.data) else {
        assert_eq!(got.data, expected.data);
        return 0.0;
    };
    let finite = expected.iter().filter(|x| x.is_finite());
    let scale = finite.fold(1e-30f64, |scale, x| scale.max(x.abs()));
    let mut worst = 0.0f64;
    for (k, (x, y)) in got.iter().zip(expected).enumerate() {
        assert_eq!(x.is_nan(), y.is_nan(), "element {k} is {x}, {y} expected");
        if x.is_finite() && y.is_finite() {
            worst = worst.max((x - y).abs() / scale);
        } else if !x.is_nan() {
            assert_eq!(x, y, "element {k}");
        }
    }
    worst
}

/// A reproducible sequence of numbers.
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

    /// In `0..n`, for `n` of at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    /// About normal: mean 0, deviation 1, at most 3.5.
    pub fn normal(&mut self) -> f64 {
        let sum: f64 = (0..4).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum();
        (sum - 2.0) * 3f64.sqrt()
    }

    pub fn normals(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.normal()).collect()
    }
}
