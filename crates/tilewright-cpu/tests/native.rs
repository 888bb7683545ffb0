//! Machine code against the portable executor: every program at many sizes, and functions on special values.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Random, distance, floats, parse, sizes};
use tilewright::runtime::{Control, Runtime};
use tilewright::tensor::{Array, DType, Data, ParamKind};
use tilewright::{Arguments, Error, Executable, HostTensor, Options, Target, compile};
use tilewright_cpu::machine::Level;
use tilewright_cpu::{Native, Portable};

/// A program on both runtimes; none where the processor has no machine code.
struct Pair {
    native: Executable,
    portable: Executable,
}

impl Pair {
    /// A program on this machine's levels.
    fn all(text: &str) -> Vec<Pair> {
        Level::available().into_iter().filter_map(|level| Pair::new(text, level)).collect()
    }

    fn new(text: &str, level: Level) -> Option<Pair> {
        let native = Native::new(3)?.at_most(level);
        let program = parse(text);
        let on = |runtime: Arc<dyn Runtime>| {
            let options = Options { runtime, ..Options::default() };
            compile(&program, &Target::portable(), &options).unwrap_or_else(|error| panic!("{error}"))
        };
        Some(Pair { native: on(Arc::new(native)), portable: on(Arc::new(Portable::new(2))) })
    }

    /// How many families have machine code, and how many there are.
    fn covered(&self) -> (usize, usize) {
        let notes = self.native.journal().entries.iter().filter(|entry| entry.stage == "emit");
        let notes: Vec<_> = notes.collect();
        let chosen = notes.iter().filter(|entry| entry.kind == tilewright::journal::Kind::Chose).count();
        (chosen, notes.len())
    }
}

/// The outputs of a program without states.
fn outputs(executable: &Executable, at: &[(&str, i64)], arrays: &[Array]) -> Result<Vec<Array>, Error> {
    let main = executable.program().main();
    let tensors = arrays.iter().map(HostTensor::from_array).collect::<Result<Vec<_>, _>>()?;
    let (mut weights, mut tables) = (BTreeMap::new(), BTreeMap::new());
    let mut arguments = Arguments::new();
    for (param, tensor) in main.params.iter().zip(&tensors) {
        let name = main.value(param.value).name.clone();
        match param.kind {
            ParamKind::Weight => drop(weights.insert(name, tensor.clone())),
            ParamKind::Plan => drop(tables.insert(name, tensor.clone())),
            _ => arguments = arguments.input(name.as_str(), tensor),
        }
    }
    let plan = executable.plan(&sizes(at), tables)?;
    let weights = executable.prepare(weights)?;
    let outputs = executable.run(&plan, &weights, arguments, &Control::default())?;
    Ok(outputs.iter().map(HostTensor::to_array).collect())
}

/// Random arrays for the parameters of a program at sizes; float parameters only.
fn arrays(executable: &Executable, at: &[(&str, i64)], random: &mut Random) -> Vec<Array> {
    let (main, symbols) = (executable.program().main(), sizes(at));
    let array = |param: &tilewright::tensor::Param| {
        let ty = &main.value(param.value).ty;
        let extents: Vec<usize> =
            ty.axes.iter().map(|axis| axis.extent.eval(&symbols).expect("an extent") as usize).collect();
        floats(ty.dtype, &extents, &random.normals(extents.iter().product()))
    };
    main.params.iter().map(array).collect()
}

/// The budget for two orders of accumulation, by type of the result.
fn budget(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 2e-5,
        DType::F16 => 4e-3,
        _ => 2e-2,
    }
}

#[track_caller]
fn check(text: &str, all: &[&[(&str, i64)]], least: usize) {
    Pair::all(text).iter().for_each(|pair| check_pair(pair, all, least));
}

#[track_caller]
fn check_pair(pair: &Pair, all: &[&[(&str, i64)]], least: usize) {
    let (chosen, of) = pair.covered();
    assert!(chosen >= least, "{chosen} of {of} families have machine code\n{}", pair.native.journal());
    let mut random = Random::new(7);
    for at in all {
        let arrays = arrays(&pair.native, at, &mut random);
        let run =
            |executable| outputs(executable, at, &arrays).unwrap_or_else(|error| panic!("{at:?}: {error}"));
        for (got, expected) in run(&pair.native).iter().zip(&run(&pair.portable)) {
            let far = distance(got, expected);
            assert!(far <= budget(got.dtype), "{at:?}: {far}");
        }
    }
}

#[test]
fn softmax() {
    let all: &[&[(&str, i64)]] = &[
        &[("R", 0), ("C", 5)],
        &[("R", 5), ("C", 1)],
        &[("R", 1), ("C", 16)],
        &[("R", 3), ("C", 17)],
        &[("R", 64), ("C", 256)],
        &[("R", 65), ("C", 257)],
        &[("R", 130), ("C", 1000)],
    ];
    check(include_str!("../../../programs/softmax.tensor"), all, 5);
}

#[test]
fn rmsnorm_matmul() {
    let all: &[&[(&str, i64)]] = &[
        &[("S", 0), ("D", 5), ("N", 7)],
        &[("S", 1), ("D", 1), ("N", 1)],
        &[("S", 3), ("D", 15), ("N", 5)],
        &[("S", 64), ("D", 256), ("N", 64)],
        &[("S", 65), ("D", 300), ("N", 67)],
        &[("S", 130), ("D", 513), ("N", 129)],
    ];
    check(include_str!("../../../programs/rmsnorm_matmul.tensor"), all, 9);
}

#[test]
fn other_programs() {
    let all: &[&[(&str, i64)]] = &[
        &[("S", 1), ("D", 3), ("F", 5)],
        &[("S", 70), ("D", 130), ("F", 260)],
        &[("S", 3), ("D", 65), ("F", 31)],
    ];
    check(include_str!("../../../programs/swiglu.tensor"), all, 5);
    let all: &[&[(&str, i64)]] = &[
        &[("S", 1), ("T", 1), ("H", 1), ("G", 1), ("K", 1), ("V", 1)],
        &[("S", 5), ("T", 9), ("H", 2), ("G", 2), ("K", 17), ("V", 33)],
        &[("S", 70), ("T", 130), ("H", 2), ("G", 1), ("K", 64), ("V", 64)],
    ];
    check(include_str!("../../../programs/attention_causal.tensor"), all, 5);
}

/// One function of one array, on values where it is special.
#[test]
fn functions_of_special_values() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.7,
        88.7,
        88.8,
        -87.0,
        -100.0,
        -103.9,
        -110.0,
        1e-40,
        1e30,
        -1e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        65504.0,
        65520.0,
        1.00390625,
        1.01171875,
        3e38,
    ];
    let exact = ["neg", "abs", "sqrt", "floor", "ceil", "round", "trunc"];
    let near = ["exp", "exp2", "log", "log1p", "sigmoid", "tanh", "sin", "cos", "erf", "rsqrt"];
    for name in exact.into_iter().chain(near) {
        for dtype in ["f32", "bf16", "f16"] {
            let text = format!(
                "program p(x: {dtype}[N]) -> {dtype}[N]\nwhere N in 0..=1000\n{{\n  return {name} x\n}}\n"
            );
            for pair in Pair::all(&text) {
                assert_eq!(pair.covered(), (1, 1), "{name}: {}", pair.native.journal());
                let x = floats(DType::from_name(dtype).expect("a type"), &[special.len()], &special);
                let at: &[(&str, i64)] = &[("N", special.len() as i64)];
                let got = outputs(&pair.native, at, std::slice::from_ref(&x)).expect("a run");
                let expected = outputs(&pair.portable, at, std::slice::from_ref(&x)).expect("a run");
                let (Data::Float(got), Data::Float(expected)) = (&got[0].data, &expected[0].data) else {
                    panic!()
                };
                for ((x, got), expected) in special.iter().zip(got).zip(expected) {
                    let ulp = match dtype {
                        "f32" => 3e-7,
                        "bf16" => 8e-3,
                        _ => 1e-3,
                    };
                    let right = (got.is_nan() && expected.is_nan())
                        || got.to_bits() == expected.to_bits()
                        || (!exact.contains(&name) && (got - expected).abs() <= ulp * expected.abs() + 3e-45);
                    assert!(right, "{name} {x} in {dtype}: {got}, not {expected}");
                }
            }
        }
    }
}
