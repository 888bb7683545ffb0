//! What `run` and `verify` have in common: a program, its sizes, its inputs, and what runs it.

use super::{Failure, show};
use crate::engine::{self, Engine, Runtime};
use crate::inputs::{Fill, Inputs, SEED};
use crate::npy;
use crate::sizes::{self, Size, parse_size};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tilewright::Control;
use tilewright::dim::Symbol;
use tilewright::host::HostTensor;
use tilewright::tensor::storage::Storage;
use tilewright::tensor::{DType, ParamKind, Program};
use tilewright_cpu::machine::Level;

/// The arguments that `run` and `verify` share.
#[derive(Debug, Args)]
pub struct Given {
    /// The program, a text file (docs/text.md tells the language)
    pub program: PathBuf,
    /// A size, such as S=128
    #[arg(long = "set", value_name = "NAME=SIZE", value_parser = parse_size)]
    pub sizes: Vec<(Symbol, i64)>,
    /// A parameter's contents: NAME=@FILE.npy, NAME=random:SEED or NAME=zeros
    #[arg(long = "input", value_name = "NAME=SOURCE", value_parser = parse_input)]
    pub inputs: Vec<(Symbol, Source)>,
    /// The seed of random inputs for which none is given
    #[arg(long, default_value_t = SEED)]
    pub seed: u64,
    #[command(flatten)]
    pub runtime: RuntimeChoice,
    /// How many workers [default: one for each processor, affinity and cgroup quota counted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// The most memory that a run may allocate, such as 512M or 2G [default: what is available]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory_limit: Option<u64>,
}

/// Where a parameter's contents come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An npy file.
    File(PathBuf),
    /// Made here, from this seed or the command's.
    Fill(fn(u64) -> Fill, Option<u64>),
}

/// What runs programs.
#[derive(Clone, Copy, Debug, Args)]
pub struct RuntimeChoice {
    /// What runs the program (`tilewright list runtimes`)
    #[arg(long, default_value = Runtime::default().name(), value_parser = runtime_parser())]
    pub runtime: Runtime,
    /// The highest level of machine code: avx2, avx512, avx512dot or amx [default: what the processor has, or
    /// TILEWRIGHT_LEVEL]
    #[arg(long)]
    pub level: Option<Level>,
}

impl RuntimeChoice {
    /// What runs compiled programs, and how many workers that is.
    pub fn compiled(&self, threads: Option<usize>) -> Result<engine::Workers, Failure> {
        let compiled = engine::compiled(self.runtime, threads, self.level)?;
        compiled
            .ok_or_else(|| Failure::usage(format!("--runtime {}: nothing is compiled there", self.runtime)))
    }
}

fn runtime_parser() -> impl TypedValueParser<Value = Runtime> {
    PossibleValuesParser::new(Runtime::ALL.map(Runtime::name))
        .map(|name| Runtime::ALL.into_iter().find(|runtime| runtime.name() == name).unwrap_or_default())
}

/// A program with all that it runs on.
pub struct Bound {
    /// The sizes and where they come from.
    pub sizes: BTreeMap<Symbol, Size>,
    /// The parameters' contents, where something is said of them.
    pub inputs: Inputs,
}

impl Given {
    /// The runtime with the program loaded.
    pub fn engine(&self, program: &Program) -> Result<Engine, Failure> {
        Ok(Engine::with(
            program,
            self.runtime.runtime,
            self.threads.map(usize::from),
            self.runtime.level,
            false,
        )?)
    }

    /// How a run is steered. Without a limit on memory, the limit is what the machine has left.
    pub fn control(&self) -> Control {
        let mut control = Control::default();
        control.memory_limit = self.memory_limit.or_else(|| show::Memory::detect().free());
        control
    }

    /// Reads files; binds sizes to what is given, to shapes, to facts and to defaults.
    pub fn bind(&self, program: &Program) -> Result<Bound, Failure> {
        let mut inputs = Inputs { default: Some(Fill::Random(self.seed)), ..Inputs::default() };
        for (name, source) in &self.inputs {
            if inputs.given.contains_key(name) || inputs.fill.contains_key(name) {
                return Err(Failure::usage(format!("{name}: given twice by --input")));
            }
            if !program.main().params.iter().any(|param| program.main().value(param.value).name == *name) {
                return Err(crate::inputs::unknown_parameter(program, name).into());
            }
            match source {
                Source::File(path) => {
                    let tensor = npy::read_file(path).map_err(|error| match error {
                        npy::Error::Io(error) => Failure::file(path, &error),
                        error => Failure::input(format!("{}: {error}", path.display())),
                    })?;
                    check_type(program, name, &tensor)?;
                    inputs.given.insert(name.clone(), tensor);
                }
                Source::Fill(fill, seed) => {
                    inputs.fill.insert(name.clone(), fill(seed.unwrap_or(self.seed)));
                }
            }
        }
        let mut given = BTreeMap::new();
        for (name, value) in &self.sizes {
            if given.insert(name.clone(), *value).is_some_and(|other| other != *value) {
                return Err(Failure::usage(format!("{name}: given twice by --set")));
            }
        }
        let sizes = sizes::bind(program, &given, &inputs.given)?;
        Ok(Bound { sizes, inputs })
    }

    /// The parameters in order, at these sizes; tensors from files must have the shape that the sizes ask for.
    pub fn tensors(
        &self,
        program: &Program,
        inputs: &Inputs,
        sizes: &BTreeMap<Symbol, i64>,
    ) -> Result<Vec<HostTensor>, Failure> {
        check_shapes(program, inputs, sizes)?;
        let arrays = inputs.arrays(program, sizes)?;
        let tensors = arrays.iter().map(HostTensor::from_array).collect::<Result<Vec<_>, _>>()?;
        Ok(tensors)
    }
}

/// Refuses files of another shape, and parameters that memory cannot hold.
fn check_shapes(program: &Program, inputs: &Inputs, sizes: &BTreeMap<Symbol, i64>) -> Result<(), Failure> {
    let main = program.main();
    let mut needed = 0u64;
    for param in &main.params {
        let value = main.value(param.value);
        let Ok(storage) = Storage::of(main, &value.ty, &program.facts) else { continue };
        // An extent that is read from a table is checked when the table is bound.
        let Ok(extents) =
            storage.extents.iter().map(|extent| extent.eval(sizes)).collect::<Result<Vec<_>, _>>()
        else {
            continue;
        };
        if let Some(tensor) = inputs.given.get(&value.name) {
            let same = tensor.extents().iter().zip(&extents).all(|(&a, &b)| i64::try_from(a) == Ok(b));
            if !same || tensor.extents().len() != extents.len() {
                let message = format!(
                    "{}: the program needs a {}{extents:?} at these sizes, a {} was given",
                    value.name,
                    value.ty.dtype,
                    show::shape(tensor)
                );
                return Err(Failure::input(message));
            }
        }
        // Elements are 8 bytes wide while they are made, and are made for evaluation and for running.
        let each = 8 + value.ty.dtype.bytes() as u64;
        let count = extents.iter().map(|&extent| extent.max(0) as u64);
        needed = needed.saturating_add(count.fold(each, u64::saturating_mul));
    }
    let free = show::Memory::detect().free().unwrap_or(u64::MAX);
    if needed > free {
        let (needed, free) = (show::bytes(needed), show::bytes(free));
        let message = format!("the parameters take {needed} of memory, {free} are free; give smaller sizes");
        return Err(Failure { kind: "memory", ..Failure::input(message) });
    }
    Ok(())
}

/// A file has elements of the type that the program states.
fn check_type(program: &Program, name: &Symbol, tensor: &HostTensor) -> Result<(), Failure> {
    let main = program.main();
    let Some(id) = main.find(name) else { return Ok(()) };
    let wanted = main.value(id).ty.dtype;
    if tensor.dtype() == wanted {
        return Ok(());
    }
    let numpy = match wanted {
        DType::Bool => "bool",
        DType::U8 => "uint8",
        DType::I8 => "int8",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::F16 => "float16",
        DType::Bf16 => "ml_dtypes.bfloat16",
        DType::F32 => "float32",
        DType::F64 | DType::ScaledF32 => "float64",
    };
    let found = tensor.dtype();
    Err(Failure::input(format!(
        "{name}: the program needs elements of type {wanted}, the file has {found}; in NumPy, `.astype({numpy})` converts"
    )))
}

/// Where a parameter's contents come from, for people.
pub fn describe(given: &Given, inputs: &Inputs, name: &Symbol) -> String {
    let file = given.inputs.iter().find_map(|(other, source)| match source {
        Source::File(path) if other == name => Some(path.display().to_string()),
        _ => None,
    });
    let fill = inputs.fill.get(name).copied().or(inputs.default).unwrap_or(Fill::Random(given.seed));
    match (file, fill) {
        (Some(file), _) => format!("from {file}"),
        (None, Fill::Zeros) => "zeros".to_string(),
        (None, Fill::Adversarial(seed)) => format!("adversarial, seed {seed}"),
        (None, Fill::Random(seed)) => format!("random, seed {seed}"),
    }
}

/// What a kind of parameter is called.
pub fn kind(kind: ParamKind) -> &'static str {
    match kind {
        ParamKind::Input => "input",
        ParamKind::Weight => "weight",
        ParamKind::Plan => "plan",
        ParamKind::State => "state",
    }
}

/// Reads `x=@x.npy`, `x=random`, `x=random:7`, `x=adversarial:7`, `x=zeros`.
fn parse_input(text: &str) -> Result<(Symbol, Source), String> {
    let forms = "NAME=@FILE.npy, NAME=random, NAME=random:SEED, NAME=adversarial:SEED or NAME=zeros is";
    let (name, source) = text.split_once('=').ok_or_else(|| format!("{forms} expected"))?;
    let name = name.trim();
    if name.is_empty() {
        return Err(format!("{forms} expected"));
    }
    let name = Symbol::new(name);
    if let Some(file) = source.strip_prefix('@') {
        let file = if file.is_empty() { None } else { Some(file) };
        let file = file.ok_or_else(|| "a file's name is expected behind `@`".to_string())?;
        return Ok((name, Source::File(file.into())));
    }
    let (kind, seed) = match source.split_once(':') {
        Some((kind, seed)) => {
            let number = seed.parse::<u64>();
            (kind, Some(number.map_err(|_| format!("the seed `{seed}` is not a number"))?))
        }
        None => (source, None),
    };
    let fill: fn(u64) -> Fill = match kind {
        "random" => Fill::Random,
        "adversarial" => Fill::Adversarial,
        "zeros" if seed.is_none() => |_| Fill::Zeros,
        _ if source.ends_with(".npy") => return Err(format!("write a file as `{name}=@{source}`")),
        _ => return Err(format!("`{source}` is no source; {forms} expected")),
    };
    Ok((name, Source::Fill(fill, seed)))
}

/// Reads `4096`, `64K`, `512M`, `2G`, in powers of 1024.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit {
        "" | "B" => Some(0),
        "K" | "KiB" => Some(10),
        "M" | "MiB" => Some(20),
        "G" | "GiB" => Some(30),
        "T" | "TiB" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| number.parse::<u64>().ok()?.checked_mul(1 << shift));
    bytes.ok_or_else(|| "a number of bytes is expected, such as 4096, 512M or 2G".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn bytes_and_inputs() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("2G"), Ok(2 << 30));
        assert!(
            parse_bytes("2X").is_err() && parse_bytes("99999999999T").is_err() && parse_bytes("").is_err()
        );
        let made = |text: &str| match parse_input(text) {
            Ok((name, Source::Fill(fill, seed))) => (name.to_string(), fill(seed.unwrap_or(3))),
            other => panic!("{other:?}"),
        };
        assert_eq!(made("x=random:7"), ("x".to_string(), Fill::Random(7)));
        assert_eq!(made("x=random"), ("x".to_string(), Fill::Random(3)));
        assert_eq!(made("y=adversarial"), ("y".to_string(), Fill::Adversarial(3)));
        assert_eq!(made("x=zeros"), ("x".to_string(), Fill::Zeros));
        assert!(
            matches!(parse_input("x=@a=b.npy"), Ok((_, Source::File(path))) if path == Path::new("a=b.npy"))
        );
        for wrong in ["x", "=zeros", "x=ones", "x=random:", "x=zeros:1", "x=x.npy", "x=@"] {
            assert!(parse_input(wrong).is_err(), "{wrong}");
        }
    }
}
