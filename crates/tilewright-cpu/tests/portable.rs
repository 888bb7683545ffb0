//! The portable executor against evaluation in f64, and how it behaves under several callers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright::dim::Symbol;
use tilewright::tensor::eval::{Bindings, Numerics, eval};
use tilewright::tensor::{self, Data};
use tilewright::{Arguments, Control, Error, Executable, HostTensor, Options, Target, Weights, compile};
use tilewright_cpu::Portable;

const ATTENTION: &str = include_str!("../../../programs/attention_causal.tensor");
const SOFTMAX: &str = include_str!("../../../programs/softmax.tensor");
const STATE: &str = "
program append(cache: state f32[C, D], new: f32[N, D], start: plan i32[one: 1]) -> f32[C, D], f32[D]
where C in 0..=64, N in 0..=64, D in 0..=64, start elements 0..=C
{
  full = update cache new over C at start[0]
  total = sum full over C
  return full, total
}";

fn build(text: &str, workers: usize) -> Executable {
    let program = tensor::text::parse("test.tensor", text).unwrap_or_else(|error| panic!("{error}"));
    let options = Options { runtime: Arc::new(Portable::new(workers)), ..Options::default() };
    compile(&program, &Target::portable(), &options).expect("a legal program")
}

fn sizes(pairs: &[(&str, i64)]) -> BTreeMap<Symbol, i64> {
    pairs.iter().map(|&(name, value)| (Symbol::new(name), value)).collect()
}

/// Values in -2..2 that repeat with no period of a power of two.
fn filled(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 101) % 89) as f32 / 22.25 - 2.0).collect()
}

/// Runs a program whose parameters are all inputs on made values and gives the largest error against f64, in units of
/// the largest value of the result.
fn error_at(executable: &Executable, at: &[(&str, i64)]) -> f64 {
    let sizes = sizes(at);
    let main = executable.program().main();
    let mut inputs = Vec::new();
    for (seed, param) in main.params.iter().enumerate() {
        let value = main.value(param.value);
        let extents: Vec<usize> =
            value.ty.axes.iter().map(|axis| axis.extent.eval(&sizes).expect("a size") as usize).collect();
        let values = HostTensor::from_f32(extents, &filled(seed, executable_len(&value.ty, &sizes)));
        let mut array = values.expect("a tensor").to_array();
        array.dtype = value.ty.dtype;
        let tensor = HostTensor::from_array(&array).expect("a tensor");
        inputs.push((value.name.clone(), tensor));
    }
    let plan = executable.plan(&sizes, BTreeMap::new()).expect("sizes within the facts");
    let mut arguments = Arguments::new();
    for (name, tensor) in &inputs {
        arguments = arguments.input(name.as_str(), tensor);
    }
    let outputs = executable.run(&plan, &Weights::default(), arguments, &Control::default()).expect("a run");
    let arrays = inputs.iter().map(|(_, tensor)| tensor.to_array()).collect();
    let bindings = Bindings { symbols: sizes, arrays };
    let expected = eval(executable.program(), &bindings, Numerics::F64).expect("an evaluation");
    let mut worst = 0.0f64;
    for (output, expected) in outputs.iter().zip(&expected) {
        assert_eq!(output.extents(), expected.extents);
        let (Data::Float(got), Data::Float(expected)) = (output.to_array().data, &expected.data) else {
            panic!("results of these programs are floats");
        };
        let scale = expected.iter().fold(1e-30f64, |scale, x| scale.max(x.abs()));
        for (got, expected) in got.iter().zip(expected) {
            assert_eq!(got.is_nan(), expected.is_nan());
            worst = worst.max((got - expected).abs() / scale);
        }
    }
    worst
}

fn executable_len(ty: &tensor::TensorType, sizes: &BTreeMap<Symbol, i64>) -> usize {
    ty.axes.iter().map(|axis| axis.extent.eval(sizes).expect("a size") as usize).product()
}

#[test]
fn softmax_is_right_at_every_size_after_one_compile() {
    let executable = build(SOFTMAX, 3);
    for (rows, columns) in [(0, 1), (1, 1), (3, 7), (65, 300), (130, 1000)] {
        let error = error_at(&executable, &[("R", rows), ("C", columns)]);
        assert!(error < 1e-6, "{rows} x {columns}: {error}");
    }
}

#[test]
fn attention_is_right_at_every_size_after_one_compile() {
    let executable = build(ATTENTION, 2);
    for (s, t) in [(0, 0), (0, 3), (3, 0), (1, 1), (5, 2), (2, 5), (67, 67), (1, 129)] {
        let at = [("S", s), ("T", t), ("H", 2), ("G", 3), ("K", 40), ("V", 24)];
        let error = error_at(&executable, &at);
        assert!(error < 2e-2, "{s} x {t}: {error}");
    }
}

#[test]
fn a_state_is_updated_in_place_and_not_among_the_outputs() -> Result<(), Error> {
    let executable = build(STATE, 2);
    let mut cache = HostTensor::from_f32(vec![4, 2], &[1., 2., 3., 4., 5., 6., 7., 8.])?;
    let new = HostTensor::from_f32(vec![2, 2], &[10., 20., 30., 40.])?;
    let start = HostTensor::from_i32(vec![1], &[1])?;
    let tables = BTreeMap::from([(Symbol::new("start"), start)]);
    let plan = executable.plan(&sizes(&[("C", 4), ("N", 2), ("D", 2)]), tables)?;
    let arguments = Arguments::new().state("cache", &mut cache).input("new", &new);
    let outputs = executable.run(&plan, &Weights::default(), arguments, &Control::default())?;
    assert_eq!(cache.to_f32(), [1., 2., 10., 20., 30., 40., 7., 8.]);
    assert_eq!(outputs.len(), 1);
    assert_eq!(outputs[0].to_f32(), [48., 70.]);
    Ok(())
}

#[test]
fn a_table_that_breaks_its_fact_is_refused() -> Result<(), Error> {
    let executable = build(STATE, 1);
    let start = HostTensor::from_i32(vec![1], &[5])?;
    let tables = BTreeMap::from([(Symbol::new("start"), start)]);
    let error =
        executable.plan(&sizes(&[("C", 4), ("N", 2), ("D", 2)]), tables).expect_err("5 is outside 0..=4");
    assert_eq!(error.to_string(), "start: element [0] is 5, which is outside 0..=4");
    Ok(())
}

#[test]
fn one_executable_serves_several_callers_at_once() {
    let executable = Arc::new(build(SOFTMAX, 2));
    let callers: Vec<_> = (1..5)
        .map(|caller| {
            let executable = Arc::clone(&executable);
            std::thread::spawn(move || {
                for round in 0..5 {
                    let error = error_at(&executable, &[("R", caller * 11 + round), ("C", caller * 50)]);
                    assert!(error < 1e-6);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().expect("no panic");
    }
}

#[test]
fn a_cancelled_run_says_so() -> Result<(), Error> {
    let executable = build(SOFTMAX, 2);
    let plan = executable.plan(&sizes(&[("R", 8), ("C", 8)]), BTreeMap::new())?;
    let x = HostTensor::zeros(tensor::DType::F32, vec![8, 8])?;
    let control = Control::default();
    control.cancel();
    let outcome = executable.run(&plan, &Weights::default(), Arguments::new().input("x", &x), &control);
    assert_eq!(outcome, Err(Error::Cancelled));
    Ok(())
}

#[test]
fn a_memory_limit_is_kept_and_explained() -> Result<(), Error> {
    let executable = build(SOFTMAX, 2);
    let plan = executable.plan(&sizes(&[("R", 100), ("C", 100)]), BTreeMap::new())?;
    let x = HostTensor::zeros(tensor::DType::F32, vec![100, 100])?;
    let mut control = Control::default();
    control.memory_limit = Some(10_000);
    let outcome = executable.run(&plan, &Weights::default(), Arguments::new().input("x", &x), &control);
    let Err(Error::Memory { needed, limit, table }) = outcome else { panic!("{outcome:?}") };
    assert!(needed > 40_000 && limit == 10_000, "{needed} {limit}");
    assert!(table.contains("40000"), "{table}");
    Ok(())
}

#[test]
fn a_wrong_shape_is_named() -> Result<(), Error> {
    let executable = build(SOFTMAX, 1);
    let plan = executable.plan(&sizes(&[("R", 2), ("C", 3)]), BTreeMap::new())?;
    let x = HostTensor::zeros(tensor::DType::F32, vec![3, 2])?;
    let run = |arguments| executable.run(&plan, &Weights::default(), arguments, &Control::default());
    let message =
        |outcome: Result<_, Error>| outcome.map(|_: Vec<HostTensor>| ()).expect_err("refused").to_string();
    let wrong = message(run(Arguments::new().input("x", &x)));
    assert_eq!(wrong, "x: the program needs a f32[2, 3], a f32[3, 2] was given");
    let missing = message(run(Arguments::new()));
    assert_eq!(missing, "x: the program needs a f32[2, 3]; none was given");
    let unknown = message(run(Arguments::new().input("y", &x)));
    assert_eq!(unknown, "y: no parameter has this name; there are x");
    Ok(())
}

#[test]
fn a_run_that_cannot_go_on_is_given_up_and_the_pool_lives() -> Result<(), Error> {
    use tilewright::runtime::{Loaded, Memory, Runtime, Slot};
    use tilewright::task::Plan;

    let runtime = Portable::new(2);
    let options = Options { runtime: Arc::new(runtime.clone()), ..Options::default() };
    let program = tensor::text::parse("softmax.tensor", SOFTMAX)?;
    let executable = compile(&program, &Target::portable(), &options)?;

    let mut wrong = (*executable.stages().kernel).clone();
    let event = &mut wrong.tasks.events[0];
    event.wait = event.wait.clone() + 1;
    let wrong = Arc::new(wrong);
    let plan = Plan::new(&wrong.tasks, &sizes(&[("R", 70), ("C", 3)]), &())?;
    let x = HostTensor::zeros(tensor::DType::F32, vec![70, 3])?;
    let mut y = x.clone();
    let mut control = Control::default();
    control.watchdog = std::time::Duration::from_millis(200);
    let mut memory = Memory { slots: vec![Slot::Read(&x), Slot::Write(&mut y)] };
    let loaded: Arc<dyn Loaded> = runtime.load(&wrong)?;
    let outcome = loaded.run(&plan, &mut memory, &control);
    let Err(Error::Stuck { state, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(state.contains("of 2 notifies"), "{state}");

    assert!(error_at(&executable, &[("R", 70), ("C", 3)]) < 1e-6);
    Ok(())
}

#[test]
fn a_run_is_cancelled_from_another_thread() -> Result<(), Error> {
    let executable = build(SOFTMAX, 2);
    let plan = executable.plan(&sizes(&[("R", 16384), ("C", 1000)]), BTreeMap::new())?;
    let x = HostTensor::zeros(tensor::DType::F32, vec![16384, 1000])?;
    let control = Control::default();
    let canceller = {
        let control = control.clone();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            control.cancel();
        })
    };
    let outcome = executable.run(&plan, &Weights::default(), Arguments::new().input("x", &x), &control);
    assert_eq!(outcome, Err(Error::Cancelled));
    canceller.join().expect("no panic");
    Ok(())
}
