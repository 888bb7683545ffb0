//! `tilewright run`: compiles a program and runs it once.

use super::given::{Given, describe, kind};
use super::{Failure, Report, load, show};
use crate::engine::Runtime;
use crate::npy;
use crate::sizes::{self, Size};
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;
use tilewright::dim::Symbol;
use tilewright::host::HostTensor;
use tilewright::tensor::{Data, Program};

/// How many elements of a result are printed.
const SHOWN: usize = 8;

/// The arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Run {
    #[command(flatten)]
    given: Given,
    /// Write each result to DIR/NAME.npy
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

const HELP: &str = "\
Sizes follow from --set, from files and from the program's facts; any other size is 16, or the nearest \
that the program admits. A parameter that is not given is random from a fixed seed; offsets, indices and \
lengths of which the program states something are made so that it holds.

  x=@x.npy         a NumPy file; bf16 as uint16 (its bits) or as ml_dtypes.bfloat16
  x=random:7       numbers of mean 0 and deviation 1, integers 0 to 9, from seed 7
  x=adversarial:7  with NaN, infinities, the greatest and the least numbers, zeros of both signs
  x=zeros

Examples:
  tilewright run programs/softmax.tensor
  tilewright run programs/softmax.tensor --set R=3 --set C=1000 --input x=random:7
  python3 -c 'import numpy; numpy.save(\"x.npy\", numpy.ones((2, 5), \"float32\"))'
  tilewright run programs/softmax.tensor --input x=@x.npy --output results";

pub fn run(arguments: &Run) -> Result<Report, Failure> {
    let given = &arguments.given;
    let (program, parsed) = load(&given.program)?;
    let bound = given.bind(&program)?;
    let values = sizes::values(&bound.sizes);
    let tensors = given.tensors(&program, &bound.inputs, &values)?;

    let start = Instant::now();
    let engine = given.engine(&program)?;
    let compiled = start.elapsed();
    let (results, phases) = engine.run_timed(&values, &tensors, &given.control())?;

    let names = result_names(&program);
    let files = match &arguments.output {
        Some(folder) => write_results(folder, &names, &results)?,
        None => Vec::new(),
    };

    let main = program.main();
    let mut text = format!("{} on {}, {}\n", main.name, given.runtime.runtime, workers(engine.workers()));
    let mut parameters = Vec::new();
    let mut rows = Vec::new();
    for (param, tensor) in main.params.iter().zip(&tensors) {
        let name = &main.value(param.value).name;
        let source = describe(given, &bound.inputs, name);
        parameters.push(json!({
            "name": name.as_str(), "kind": kind(param.kind), "dtype": tensor.dtype().name(),
            "shape": tensor.extents(), "source": source,
        }));
        rows.push(vec![name.to_string(), kind(param.kind).to_string(), show::shape(tensor), source]);
    }
    // Writing to a string does not fail.
    let _ = write!(text, "{}parameters\n{}results\n", sizes_text(&bound.sizes), show::table(&rows, &[]));
    let mut described = Vec::new();
    for (k, (name, tensor)) in names.iter().zip(&results).enumerate() {
        let file = files.get(k).map(|path| path.display().to_string());
        text.push_str(&result_text(name, tensor, file.as_deref()));
        let array = tensor.to_array();
        let head = (0..array.len().min(SHOWN)).map(|position| show::json_scalar(array.get(position)));
        described.push(json!({
            "name": name, "dtype": tensor.dtype().name(), "shape": tensor.extents(),
            "first": head.collect::<Vec<_>>(), "file": file,
        }));
    }
    let mut times = vec![("parse", parsed)];
    if given.runtime.runtime != Runtime::Eval {
        times.extend([("compile", compiled), ("prepare", phases.prepare), ("plan", phases.plan)]);
    }
    times.push(("run", phases.run));
    let shown: Vec<String> =
        times.iter().map(|(name, time)| format!("{name} {}", show::time(*time))).collect();
    if given.runtime.runtime != Runtime::Eval {
        let _ = writeln!(text, "tasks  {}", phases.tasks);
    }
    let _ = writeln!(text, "times  {}", shown.join(", "));

    let milliseconds: Map<String, Value> =
        times.iter().map(|(name, time)| (name.to_string(), show::json_time(*time))).collect();
    let json = json!({
        "program": main.name.as_str(),
        "runtime": given.runtime.runtime.name(),
        "workers": engine.workers(),
        "sizes": sizes_json(&bound.sizes),
        "parameters": parameters,
        "results": described,
        "tasks": phases.tasks,
        "milliseconds": milliseconds,
    });
    Ok(Report::good(text, json))
}

fn write_results(
    folder: &PathBuf,
    names: &[String],
    results: &[HostTensor],
) -> Result<Vec<PathBuf>, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
    let mut files = Vec::new();
    for (name, tensor) in names.iter().zip(results) {
        let path = folder.join(format!("{name}.npy"));
        npy::write_file(&path, tensor).map_err(|error| match error {
            npy::Error::Io(error) => Failure::file(&path, &error),
            error => Failure::input(format!("{}: {error}", path.display())),
        })?;
        files.push(path);
    }
    Ok(files)
}

/// The names of the results; one that is returned again gets a number.
pub fn result_names(program: &Program) -> Vec<String> {
    let main = program.main();
    let mut names: Vec<String> = Vec::new();
    let mut seen: BTreeMap<&Symbol, usize> = BTreeMap::new();
    for id in &main.results {
        let name = &main.value(*id).name;
        let count = seen.entry(name).or_insert(0);
        names.push(if *count == 0 { name.to_string() } else { format!("{name}.{count}") });
        *count += 1;
    }
    names
}

/// `2 workers`.
pub fn workers(count: usize) -> String {
    format!("{count} worker{}", if count == 1 { "" } else { "s" })
}

/// The sizes and where they come from, on one line; nothing where there are none.
fn sizes_text(sizes: &BTreeMap<Symbol, Size>) -> String {
    let all: Vec<String> =
        sizes.iter().map(|(symbol, size)| format!("{symbol} = {}", size.describe())).collect();
    if all.is_empty() { String::new() } else { format!("sizes\n  {}\n", all.join(", ")) }
}

fn sizes_json(sizes: &BTreeMap<Symbol, Size>) -> Value {
    sizes.iter().map(|(symbol, size)| (symbol.to_string(), json!(size.value))).collect::<Map<_, _>>().into()
}

/// A result's type, its first elements, and what is remarkable about all of them.
fn result_text(name: &str, tensor: &HostTensor, file: Option<&str>) -> String {
    let array = tensor.to_array();
    let head: Vec<String> = (0..array.len().min(SHOWN)).map(|k| show::scalar(array.get(k))).collect();
    let more = if array.len() > SHOWN { " …" } else { "" };
    let mut text = format!("  {name}  {}", show::shape(tensor));
    // Writing to a string does not fail.
    let _ = if array.is_empty() {
        writeln!(text, "  empty")
    } else {
        writeln!(text, "  {}{more}", head.join(" "))
    };
    if let Data::Float(values) = &array.data
        && !values.is_empty()
    {
        let nan = values.iter().filter(|x| x.is_nan()).count();
        let infinite = values.iter().filter(|x| x.is_infinite()).count();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if nan < values.len() && array.len() > SHOWN {
            let _ = writeln!(text, "    from {} to {}", show::number(least), show::number(greatest));
        }
        for (count, what) in
            [(nan, "NaN"), (infinite, "infinite")].into_iter().filter(|(count, _)| *count > 0)
        {
            let verb = if count == 1 { "is" } else { "are" };
            let _ = writeln!(text, "    {count} of {} {verb} {what}", values.len());
        }
    }
    if let Some(file) = file {
        let _ = writeln!(text, "    written to {file}");
    }
    text
}
