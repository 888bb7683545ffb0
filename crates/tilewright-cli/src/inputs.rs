//! The arrays that a program is run on: from files, random, adversarial or zero, within what the program states.

use crate::random::Random;
use std::collections::BTreeMap;
use tilewright::dim::{Dim, Env, EvalError, Facts, Symbol};
use tilewright::error::Error;
use tilewright::host::{HostTensor, byte_size};
use tilewright::tensor::storage::Storage;
use tilewright::tensor::{Array, DType, Data, Program, Scalar, Value};

/// The seed of inputs for which nothing else is said.
pub const SEED: u64 = 1;

/// How a parameter for which there is no file gets its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Floats of mean 0 and deviation 1, integers from 0 to 9, truth values of both kinds.
    Random(u64),
    /// Ordinary numbers mixed with NaN, infinities, the greatest and the least of the type, and zeros of both signs.
    Adversarial(u64),
    /// Zeros.
    Zeros,
}

/// What is said about a program's inputs.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Tensors as they are.
    pub given: BTreeMap<Symbol, HostTensor>,
    /// How the others are filled; [`Fill::Random`] with [`SEED`] where nothing is said.
    pub fill: BTreeMap<Symbol, Fill>,
    /// How those that `fill` does not name are filled.
    pub default: Option<Fill>,
}

impl Inputs {
    /// The parameters of the program itself, in order and in storage order. Integer tensors of which the program
    /// states something are filled so that it holds.
    ///
    /// # Errors
    /// [`Error::Input`] for a name that no parameter has, and where no tensor can be what the program states of it at
    /// these sizes. Tensors that are given are not looked at.
    pub fn arrays(&self, program: &Program, sizes: &BTreeMap<Symbol, i64>) -> Result<Vec<Array>, Error> {
        let main = program.main();
        let params: Vec<&Value> = main.params.iter().map(|param| main.value(param.value)).collect();
        for name in self.given.keys().chain(self.fill.keys()) {
            if !params.iter().any(|value| value.name == *name) {
                return Err(unknown_parameter(program, name));
            }
        }
        let mut made = Tables { sizes, arrays: BTreeMap::new() };
        let mut open: Vec<&Value> = Vec::new();
        for value in &params {
            match self.given.get(&value.name) {
                Some(tensor) => drop(made.arrays.insert(value.name.clone(), tensor.to_array())),
                None => open.push(value),
            }
        }
        // An extent may need the elements of a tensor that comes later.
        while !open.is_empty() {
            let before = open.len();
            let mut waiting = Vec::new();
            let mut reason = None;
            for value in open {
                let storage = Storage::of(main, &value.ty, &program.facts)
                    .map_err(|message| input(&value.name, message))?;
                match extents(&storage, &made) {
                    Ok(extents) => {
                        let array = self.fill(&program.facts, value, &extents, &made)?;
                        made.arrays.insert(value.name.clone(), array);
                    }
                    Err(error) => {
                        reason = Some(input(&value.name, error.to_string()));
                        waiting.push(value);
                    }
                }
            }
            open = waiting;
            if let (true, Some(reason)) = (open.len() == before, reason) {
                return Err(reason);
            }
        }
        let take = |value: &&Value| made.arrays.get(&value.name).cloned();
        params
            .iter()
            .map(|value| take(value).ok_or_else(|| unknown_parameter(program, &value.name)))
            .collect()
    }

    fn fill(&self, facts: &Facts, value: &Value, extents: &[usize], made: &Tables) -> Result<Array, Error> {
        let name = &value.name;
        let dtype = value.ty.dtype;
        byte_size(dtype, extents)?;
        let fill = self.fill.get(name).copied().or(self.default).unwrap_or(Fill::Random(SEED));
        let mut array = Array::filled(dtype, extents, Scalar::zero(dtype));
        let (seed, adversarial) = match fill {
            Fill::Random(seed) => (seed, false),
            Fill::Adversarial(seed) => (seed, true),
            Fill::Zeros => return Ok(array),
        };
        let mut random = Random::named(seed, name.as_str());
        let bound = |dim: &Dim| dim.eval(made).map_err(|error| input(name, error.to_string()));
        if let Some((parts, total)) = facts.splits(name) {
            let (parts, total) = (bound(parts)?, bound(total)?);
            if parts == 0 && total > 0 {
                return Err(input(
                    name,
                    format!("no offsets split {total} over 0 parts; give it another size"),
                ));
            }
            array.data = Data::Int(offsets(&mut random, array.len(), total, adversarial));
            return Ok(array);
        }
        let range = match facts.table_range(name) {
            Some((lo, hi)) => Some((bound(lo)?, bound(hi)?)),
            None => None,
        };
        if let Some((lo, hi)) = range
            && lo > hi
            && !array.is_empty()
        {
            return Err(input(name, format!("no element is in {lo}..={hi}; give it other sizes")));
        }
        for position in 0..array.len() {
            let scalar = match range {
                Some((lo, hi)) => Scalar::Int(random.between(lo, hi)),
                None if adversarial => adversarial_scalar(&mut random, dtype),
                None => ordinary_scalar(&mut random, dtype),
            };
            array.set(position, scalar.cast(dtype));
        }
        Ok(array)
    }
}

/// Sizes and the arrays made so far.
struct Tables<'a> {
    sizes: &'a BTreeMap<Symbol, i64>,
    arrays: BTreeMap<Symbol, Array>,
}

impl Env for Tables<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.sizes.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let array = self.arrays.get(table)?;
        match (&array.data, index.len() == array.extents.len()) {
            (Data::Int(elements), true) => elements.get(array.position(index)?).copied(),
            _ => None,
        }
    }
}

/// The storage extents of a parameter; a negative one counts as 0.
fn extents(storage: &Storage, env: &dyn Env) -> Result<Vec<usize>, EvalError> {
    storage.extents.iter().map(|extent| Ok(usize::try_from(extent.eval(env)?).unwrap_or(0))).collect()
}

fn input(name: &Symbol, message: impl Into<String>) -> Error {
    Error::Input { subject: name.to_string(), message: message.into() }
}

/// No parameter has this name.
pub fn unknown_parameter(program: &Program, name: &Symbol) -> Error {
    let main = program.main();
    let names: Vec<&str> = main.params.iter().map(|param| main.value(param.value).name.as_str()).collect();
    let message = if names.is_empty() {
        format!("`{}` has no parameters", main.name)
    } else {
        format!("no parameter has this name; there are {}", names.join(", "))
    };
    input(name, message)
}

/// `count` offsets from 0 to `total` that do not decrease; adversarial ones have everything in one part.
fn offsets(random: &mut Random, count: usize, total: i64, adversarial: bool) -> Vec<i64> {
    let whole = random.below(count.max(1));
    let mut cuts: Vec<i64> = (1..count.saturating_sub(1))
        .map(|k| if adversarial { if k > whole { total } else { 0 } } else { random.between(0, total) })
        .collect();
    cuts.sort_unstable();
    if count > 0 {
        cuts.insert(0, 0);
    }
    if count > 1 {
        cuts.push(total);
    }
    cuts
}

fn ordinary_scalar(random: &mut Random, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(!random.one_in(3)),
        dtype if dtype.is_int() => Scalar::Int(random.between(0, 9)),
        _ => Scalar::Float(random.normal()),
    }
}

fn adversarial_scalar(random: &mut Random, dtype: DType) -> Scalar {
    if random.one_in(2) {
        return ordinary_scalar(random, dtype);
    }
    match (dtype.int_range(), dtype) {
        (Some((lo, hi)), _) => {
            Scalar::Int(random.pick(&[lo, hi, lo + 1, hi - 1, 0, 1, -1, -3]).copied().unwrap_or(0))
        }
        (None, DType::Bool) => Scalar::Bool(false),
        (None, dtype) => {
            let (greatest, least) = match dtype {
                DType::F16 => (65504.0, 2f64.powi(-24)),
                DType::Bf16 | DType::F32 => (2f64.powi(127), 2f64.powi(-133)),
                _ => (f64::MAX, 5e-324),
            };
            let sign = if random.one_in(2) { 1.0 } else { -1.0 };
            let sizes =
                [f64::NAN, f64::INFINITY, f64::INFINITY, greatest, least, 0.0, 0.0, 100.0, 1e4, 1e-3, 1.0];
            Scalar::Float(sign * random.pick(&sizes).copied().unwrap_or(0.0))
        }
    }
}
