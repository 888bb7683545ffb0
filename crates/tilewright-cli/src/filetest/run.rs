//! Running a program on small tensors that stand in the file.
//!
//! ```text
//! # set S = 2
//! # give x = 1.0 2.0 nan
//! ```
//!
//! Sizes by `set`, tensors by `give`, row-major in storage order. The portable executor and the interpreter both run it; what
//! comes out is the results in order, one a line, and the states after the run.

use super::{Case, Command, levels};
use std::collections::BTreeMap;
use std::sync::Arc;
use tilewright::dim::Symbol;
use tilewright::interpreter::Interpreter;
use tilewright::runtime::Runtime;
use tilewright::tensor::storage::Storage;
use tilewright::tensor::{Array, DType, ParamKind, Program, Scalar};
use tilewright::{Arguments, Control, HostTensor, Options, Target, compile};
use tilewright_cpu::Portable;

/// Runs the program.
pub const RUN: Command = Command {
    name: "run",
    doc: "runs the program on given tensors, by the portable executor and the interpreter",
    run: |case| {
        let program = levels::parsed(case)?;
        let portable = run(case, &program, Arc::new(Portable::new(2)))?;
        let interpreted = run(case, &program, Arc::new(Interpreter))?;
        if portable != interpreted {
            return Err(format!(
                "the portable executor gives\n{portable}the interpreter gives\n{interpreted}"
            ));
        }
        Ok(portable)
    },
};

fn run(case: &Case<'_>, program: &Program, runtime: Arc<dyn Runtime>) -> Result<String, String> {
    let text = |error: tilewright::Error| error.to_string();
    let options = Options { runtime, ..Options::default() };
    let executable = compile(program, &Target::portable(), &options).map_err(text)?;
    let sizes = sizes(case)?;
    let main = program.main();
    let mut tensors: [BTreeMap<Symbol, HostTensor>; 4] = Default::default();
    let place = |kind: ParamKind| match kind {
        ParamKind::Input => 0,
        ParamKind::Weight => 1,
        ParamKind::Plan => 2,
        ParamKind::State => 3,
    };
    for (name, tensor) in given(case, program, &sizes)? {
        let param = main.params.iter().find(|param| main.value(param.value).name == name);
        tensors[param.map_or(0, |param| place(param.kind))].insert(name, tensor);
    }
    let [inputs, weights, tables, mut states] = tensors;
    let weights = executable.prepare(weights).map_err(text)?;
    let plan = executable.plan(&sizes, tables).map_err(text)?;
    let mut arguments = Arguments::new();
    for (name, tensor) in &inputs {
        arguments = arguments.input(name.as_str(), tensor);
    }
    for (name, tensor) in &mut states {
        arguments = arguments.state(name.as_str(), tensor);
    }
    let outputs = executable.run(&plan, &weights, arguments, &Control::default()).map_err(text)?;
    let outputs = outputs.iter().map(|tensor| shown("result", tensor));
    let states = states.iter().map(|(name, tensor)| shown(name.as_str(), tensor));
    Ok(outputs.chain(states).collect())
}

fn setting<'a>(line: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let (name, value) = line.strip_prefix(word)?.split_once('=')?;
    Some((name.trim(), value.trim()))
}

fn sizes(case: &Case<'_>) -> Result<BTreeMap<Symbol, i64>, String> {
    let lines = case.settings.iter().filter_map(|line| setting(line, "set "));
    lines
        .map(|(name, value)| {
            let value = value.parse().map_err(|_| format!("`{value}` is no size"))?;
            Ok((Symbol::new(name), value))
        })
        .collect()
}

/// The tensors behind `give`; one that is no parameter is taken as singles along one axis.
fn given(
    case: &Case<'_>,
    program: &Program,
    sizes: &BTreeMap<Symbol, i64>,
) -> Result<Vec<(Symbol, HostTensor)>, String> {
    let main = program.main();
    let lines = case.settings.iter().filter_map(|line| setting(line, "give "));
    lines
        .map(|(name, values)| {
            let values: Vec<&str> = values.split_whitespace().collect();
            let mut dtype = DType::F32;
            let mut extents = vec![values.len()];
            if let Some(id) = main.find(&Symbol::new(name)) {
                let ty = &main.value(id).ty;
                let storage = Storage::of(main, ty, &program.facts).map_err(|problem| problem.to_string())?;
                let size =
                    |dim| program.facts.resolve(dim).eval(sizes).ok().and_then(|n| usize::try_from(n).ok());
                let sized = storage.extents.iter().map(size);
                dtype = ty.dtype;
                if let Some(sized) = sized.collect::<Option<Vec<usize>>>() {
                    extents = sized;
                }
            }
            if extents.iter().product::<usize>() != values.len() {
                extents = vec![values.len()];
            }
            let mut array = Array::filled(dtype, &extents, Scalar::Int(0));
            for (position, value) in values.iter().enumerate() {
                let number: f64 = value.parse().map_err(|_| format!("`{value}` is no number"))?;
                array.set(position, Scalar::Float(number));
            }
            Ok((Symbol::new(name), HostTensor::from_array(&array).map_err(|error| error.to_string())?))
        })
        .collect()
}

fn shown(name: &str, tensor: &HostTensor) -> String {
    let array = tensor.to_array();
    let values = (0..array.len()).map(|position| match array.get(position) {
        Scalar::Float(x) => format!(" {}", x as f32),
        Scalar::Int(x) => format!(" {x}"),
        Scalar::Bool(x) => format!(" {x}"),
    });
    format!("{name}: {}{:?} ={}\n", tensor.dtype(), tensor.extents(), values.collect::<String>())
}
