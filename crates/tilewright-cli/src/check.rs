//! The whole pipeline, checked arrow by arrow.
//!
//! [`Levels::lower`] lowers a program and at every level verifies it and takes it through its text; [`Levels::eval`]
//! evaluates every level at given sizes in both numerics and compares bit for bit.

use std::fmt;
use tilewright::block;
use tilewright::error::Error;
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::task::eval::same;
use tilewright::tensor::eval::{Bindings, Numerics};
use tilewright::tensor::{self, Array, Program};

/// What went wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The level: `tensor`, `block`, `task`, `kernel`, `portable`.
    pub level: &'static str,
    /// What was done there: `verify`, `text`, `lower`, `eval`.
    pub step: &'static str,
    /// What happened.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level, self.step, self.message)
    }
}

fn failure(level: &'static str, step: &'static str, message: impl fmt::Display) -> Failure {
    Failure { level, step, message: message.to_string() }
}

/// What evaluation at some sizes gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The results in f64 and in the program's own types, which all levels agree on.
    Results(Vec<Array>, Vec<Array>),
    /// The program has no value at these sizes, for this reason, and every level says so.
    Refused(String),
}

/// A program at every level.
pub struct Levels {
    /// What to compute.
    pub tensor: Program,
    /// Where values live.
    pub block: block::Program,
    /// What the arrows did.
    pub journal: Journal,
}

impl Levels {
    /// Lowers a program through all levels; each is verified and read back from its text.
    ///
    /// # Errors
    /// The first failure.
    pub fn lower(program: &Program, target: &Target) -> Result<Levels, Failure> {
        let mut journal = Journal::new();
        tensor::verify::verify(program).map_err(|violation| failure("tensor", "verify", violation))?;
        round_trip("tensor", program, |text| tensor::text::parse("round_trip.tensor", text))?;
        let block = block::lower::lower(program, target, &mut journal)
            .map_err(|error| failure("block", "lower", error))?;
        block::verify::verify(&block).map_err(|violation| failure("block", "verify", violation))?;
        round_trip("block", &block, |text| block::text::parse("round_trip.block", text))?;
        Ok(Levels { tensor: program.clone(), block, journal })
    }

    /// Evaluates every level and compares with the tensor level.
    ///
    /// # Errors
    /// The first failure.
    pub fn eval(&self, bindings: &Bindings) -> Result<Outcome, Failure> {
        let mut results = Vec::new();
        for numerics in [Numerics::F64, Numerics::Own] {
            let expected = match tensor::eval::eval(&self.tensor, bindings, numerics) {
                Ok(results) => Ok(results),
                Err(error @ (Error::Input { .. } | Error::Memory { .. })) => Err(error.to_string()),
                Err(error) => return Err(failure("tensor", "eval", error)),
            };
            let block = block::eval::eval(&self.block, bindings, numerics);
            compare("block", numerics, &expected, block)?;
            match expected {
                Ok(expected) => results.push(expected),
                Err(reason) => return Ok(Outcome::Refused(reason)),
            }
        }
        let own = results.pop().unwrap_or_default();
        Ok(Outcome::Results(results.pop().unwrap_or_default(), own))
    }
}

/// What a level gives is what the tensor level gives; where that has no value, it may give anything but a bug.
fn compare(
    level: &'static str,
    numerics: Numerics,
    expected: &Result<Vec<Array>, String>,
    found: Result<Vec<Array>, Error>,
) -> Result<(), Failure> {
    match (expected, found) {
        (Ok(expected), Ok(found)) if same(expected, &found) => Ok(()),
        (Ok(expected), Ok(found)) => {
            let message = format!("in {numerics:?} {}", difference(expected, &found));
            Err(failure(level, "eval", message))
        }
        (Ok(_), Err(error)) => Err(failure(level, "eval", format!("in {numerics:?}: {error}"))),
        (Err(_), Err(error @ (Error::Bug { .. } | Error::Stuck { .. }))) => {
            Err(failure(level, "eval", error))
        }
        (Err(_), _) => Ok(()),
    }
}

/// The first element that differs.
pub fn difference(expected: &[Array], found: &[Array]) -> String {
    if expected.len() != found.len() {
        return format!("there are {} results instead of {}", found.len(), expected.len());
    }
    for (k, (a, b)) in expected.iter().zip(found).enumerate() {
        if a.extents != b.extents || a.dtype != b.dtype {
            return format!("result {k} is {}{:?}, not {}{:?}", b.dtype, b.extents, a.dtype, a.extents);
        }
        for position in 0..a.len().min(b.len()) {
            let one = |array: &Array| Array {
                dtype: array.dtype,
                extents: Vec::new(),
                ..Array::filled(array.dtype, &[], array.get(position))
            };
            if !same(&[one(a)], &[one(b)]) {
                return format!(
                    "element {position} of result {k}, {}{:?}, is {:?}, not {:?}",
                    a.dtype,
                    a.extents,
                    b.get(position),
                    a.get(position)
                );
            }
        }
    }
    "nothing differs".to_string()
}

/// A program is what its text says, and its text is stable.
fn round_trip<P: PartialEq + fmt::Display>(
    level: &'static str,
    program: &P,
    parse: impl Fn(&str) -> Result<P, tilewright::text::Error>,
) -> Result<(), Failure> {
    let text = program.to_string();
    let again = parse(&text).map_err(|error| failure(level, "text", error))?;
    if again != *program {
        return Err(failure(
            level,
            "text",
            format!("what is read back is another program:\n{text}\n{again}"),
        ));
    }
    let twice = again.to_string();
    if twice == text {
        Ok(())
    } else {
        Err(failure(level, "text", format!("{text}\nis printed as\n{twice}")))
    }
}
