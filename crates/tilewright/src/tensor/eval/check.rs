//! Whether sizes and arrays fit a program: the facts are checked here, so that everything else may rely on them.

use super::Frame;
use crate::dim::{Env, Facts, Symbol};
use crate::error::Error;
use crate::tensor::array::{Array, Data};
use crate::tensor::ir::Value;
use std::collections::BTreeMap;

fn input(subject: &Symbol, message: String) -> Error {
    Error::Input { subject: subject.to_string(), message }
}

/// Every declared symbol has a value in its range, and nothing else has one.
pub(super) fn symbols(facts: &Facts, values: &BTreeMap<Symbol, i64>) -> Result<(), Error> {
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

/// An array fits its parameter: element type, extents, elements of the type, and the facts on its elements.
pub(super) fn parameter(frame: &Frame, value: &Value, array: &Array) -> Result<(), Error> {
    let name = &value.name;
    if array.dtype != value.ty.dtype {
        return Err(input(name, format!("the elements are {}, and must be {}", array.dtype, value.ty.dtype)));
    }
    let extents = frame.extents(name.as_str(), &value.ty)?;
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
    splits(frame, name, elements)?;
    range(frame, name, elements)
}

fn bound(frame: &Frame, name: &Symbol, dim: &crate::dim::Dim) -> Result<i64, Error> {
    dim.eval(frame as &dyn Env).map_err(|error| input(name, error.to_string()))
}

/// The elements split what the facts say.
fn splits(frame: &Frame, name: &Symbol, elements: &[i64]) -> Result<(), Error> {
    let Some((parts, total)) = frame.facts.splits(name) else { return Ok(()) };
    let (parts, total) = (bound(frame, name, parts)?, bound(frame, name, total)?);
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
fn range(frame: &Frame, name: &Symbol, elements: &[i64]) -> Result<(), Error> {
    let Some((lo, hi)) = frame.facts.table_range(name) else { return Ok(()) };
    if elements.is_empty() {
        return Ok(());
    }
    let (lo, hi) = (bound(frame, name, lo)?, bound(frame, name, hi)?);
    match elements.iter().enumerate().find(|(_, x)| **x < lo || **x > hi) {
        Some((k, x)) => Err(input(name, format!("element {k} is {x}, and must be in {lo}..={hi}"))),
        None => Ok(()),
    }
}
