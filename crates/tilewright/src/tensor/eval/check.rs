//! Whether sizes and arrays fit a program: the facts are checked here, so that everything else may rely on them.

use super::illegal;
use crate::dim::{Dim, Env, Facts, Symbol};
use crate::error::Error;
use crate::tensor::array::{Array, Data};
use crate::tensor::ir::TensorType;
use crate::tensor::storage::Storage;
use std::collections::BTreeMap;

fn input(subject: &Symbol, message: String) -> Error {
    Error::Input { subject: subject.to_string(), message }
}

/// Every declared symbol has a value in its range, and nothing else has one.
pub fn symbols(facts: &Facts, values: &BTreeMap<Symbol, i64>) -> Result<(), Error> {
    if let Some(missing) = facts.symbols().find(|symbol| !values.contains_key(symbol)) {
        return Err(input(missing, "this size has no value; give it one".into()));
    }
    if let Some(unknown) = values.keys().find(|symbol| facts.range(symbol).is_none()) {
        return Err(input(unknown, "the program has no such size".into()));
    }
    for (symbol, value) in values {
        let one = BTreeMap::from([(symbol.clone(), *value)]);
        facts.verify_env(&one).map_err(|error| input(symbol, error.to_string()))?;
    }
    Ok(())
}

/// The storage extents of the value called `name`, at the sizes of `env`.
pub fn extents(facts: &Facts, env: &dyn Env, name: &Symbol, ty: &TensorType) -> Result<Vec<usize>, Error> {
    let storage = Storage::with(ty, facts).map_err(|message| illegal(name.as_str(), message))?;
    storage.extents.iter().map(|extent| size(env, name.as_str(), extent)).collect()
}

/// The value of a dim that must be a size.
pub fn size(env: &dyn Env, subject: &str, dim: &Dim) -> Result<usize, Error> {
    let input = |message: String| Error::Input { subject: subject.to_string(), message };
    let size = dim.eval(env).map_err(|error| input(error.to_string()))?;
    usize::try_from(size).map_err(|_| input(format!("the extent `{dim}` is {size}; sizes are not negative")))
}

/// An array fits the parameter called `name`: element type, extents, elements of the type, and the facts on its
/// elements.
pub fn parameter(
    facts: &Facts,
    env: &dyn Env,
    name: &Symbol,
    ty: &TensorType,
    array: &Array,
) -> Result<(), Error> {
    if array.dtype != ty.dtype {
        return Err(input(name, format!("the elements are {}, and must be {}", array.dtype, ty.dtype)));
    }
    let extents = extents(facts, env, name, ty)?;
    if array.extents != extents {
        return Err(input(name, format!("the shape is {:?}, and must be {extents:?}", array.extents)));
    }
    let fits = array.is_consistent();
    if !fits {
        return Err(input(name, "the elements do not match the shape and the element type".into()));
    }
    let (Data::Int(elements), Some((lo, hi))) = (&array.data, array.dtype.int_range()) else { return Ok(()) };
    if let Some((k, x)) = elements.iter().enumerate().find(|(_, x)| **x < lo || **x > hi) {
        return Err(input(name, format!("element {k} is {x}, which is no {}", array.dtype)));
    }
    splits(facts, env, name, elements)?;
    range(facts, env, name, elements)
}

fn bound(env: &dyn Env, name: &Symbol, dim: &Dim) -> Result<i64, Error> {
    dim.eval(env).map_err(|error| input(name, error.to_string()))
}

/// The elements split what the facts say.
fn splits(facts: &Facts, env: &dyn Env, name: &Symbol, elements: &[i64]) -> Result<(), Error> {
    let Some((parts, total)) = facts.splits(name) else { return Ok(()) };
    let (parts, total) = (bound(env, name, parts)?, bound(env, name, total)?);
    if i64::try_from(elements.len()).ok() != parts.checked_add(1) {
        return Err(input(
            name,
            format!("{} offsets for {parts} parts; there is one more than parts", elements.len()),
        ));
    }
    if let Some(first) = elements.first().filter(|first| **first != 0) {
        return Err(input(name, format!("the first offset is {first}, and must be 0")));
    }
    if let Some(k) = elements.windows(2).position(|pair| pair[0] > pair[1]) {
        let (a, b) = (elements[k], elements[k + 1]);
        return Err(input(name, format!("offset {k} is {a} and the next is {b}; offsets must not decrease")));
    }
    match elements.last() {
        Some(last) if *last != total => {
            Err(input(name, format!("the last offset is {last}, and must be {total}")))
        }
        _ => Ok(()),
    }
}

/// The elements lie where the facts say.
fn range(facts: &Facts, env: &dyn Env, name: &Symbol, elements: &[i64]) -> Result<(), Error> {
    let Some((lo, hi)) = facts.table_range(name) else { return Ok(()) };
    if elements.is_empty() {
        return Ok(());
    }
    let (lo, hi) = (bound(env, name, lo)?, bound(env, name, hi)?);
    match elements.iter().enumerate().find(|(_, x)| **x < lo || **x > hi) {
        Some((k, x)) => Err(input(name, format!("element {k} is {x}, and must be in {lo}..={hi}"))),
        None => Ok(()),
    }
}
