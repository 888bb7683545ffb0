//! The whole pipeline, checked arrow by arrow.
//!
//! [`Levels::lower`] lowers a program, and at every level verifies it and takes it through its text; [`Levels::eval`]
//! evaluates every level at given sizes in both numerics and compares bit for bit, tasks under several orders.

use std::collections::BTreeMap;
use std::fmt;
use tilewright::dim::Symbol;
use tilewright::error::Error;
use tilewright::host::HostTensor;
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::task::eval::{Choice, Schedule, same};
use tilewright::tensor::eval::{Bindings, Numerics};
use tilewright::tensor::{self, Array, DType, Op, Program};
use tilewright::{Control, block, fuse, kernel, task};

use crate::compare;
use crate::engine::Engine;

/// What went wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The level: `tensor`, `block`, `fuse`, `task`, `kernel`, or a runtime.
    pub level: &'static str,
    /// What was done there: `verify`, `text`, `lower`, `eval`.
    pub step: &'static str,
    /// What happened.
    pub message: String,
    /// Whether the compiler says that it does not support the program.
    pub unsupported: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level, self.step, self.message)
    }
}

fn failure(level: &'static str, step: &'static str, message: impl fmt::Display) -> Failure {
    Failure { level, step, message: message.to_string(), unsupported: false }
}

/// A program that an arrow did not take.
fn not_lowered(level: &'static str, error: &Error) -> Failure {
    Failure { unsupported: matches!(error, Error::Unsupported { .. }), ..failure(level, "lower", error) }
}

/// What evaluation at some sizes gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The results, which all levels agree on.
    Results {
        /// In f64.
        exact: Vec<Array>,
        /// In the program's own types.
        own: Vec<Array>,
    },
    /// The program has no value at these sizes, for this reason; no level has one.
    Refused(String),
}

/// A program at every level.
pub struct Levels {
    /// What to compute.
    pub tensor: Program,
    /// Where values live: each operator on its own.
    pub block: block::Program,
    /// Where values live after fusion, if it is wanted.
    pub fused: Option<block::Program>,
    /// Who waits for whom.
    pub task: task::Program,
    /// Code.
    pub kernel: kernel::Program,
    /// What the arrows did.
    pub journal: Journal,
}

impl Levels {
    /// Lowers a program through all levels, with or without fusion; each is verified and read back from its text.
    ///
    /// # Errors
    /// The first failure.
    pub fn lower(program: &Program, target: &Target, fused: bool) -> Result<Levels, Failure> {
        let mut journal = Journal::new();
        tensor::verify::verify(program).map_err(|violation| failure("tensor", "verify", violation))?;
        round_trip("tensor", program, |text| tensor::text::parse("round_trip.tensor", text))?;

        let block = block::lower::lower(program, target, &mut journal)
            .map_err(|error| not_lowered("block", &error))?;
        block::verify::verify(&block).map_err(|violation| failure("block", "verify", violation))?;
        round_trip("block", &block, |text| block::text::parse("round_trip.block", text))?;

        let fused = if fused {
            let fused =
                fuse::fuse(&block, target, &mut journal).map_err(|error| not_lowered("fuse", &error))?;
            block::verify::verify(&fused).map_err(|violation| failure("fuse", "verify", violation))?;
            round_trip("fuse", &fused, |text| block::text::parse("round_trip.block", text))?;
            Some(fused)
        } else {
            None
        };

        let source = fused.as_ref().unwrap_or(&block);
        let task =
            task::lower::lower(source, target, &mut journal).map_err(|error| not_lowered("task", &error))?;
        task::verify::verify(&task, target).map_err(|violation| Failure {
            unsupported: violation.reason.is_limit(),
            ..failure("task", "verify", violation)
        })?;
        round_trip("task", &task, |text| task::text::parse("round_trip.task", text))?;

        let kernel = kernel::lower::lower(&task, target, &mut journal)
            .map_err(|error| not_lowered("kernel", &error))?;
        kernel::verify::verify(&kernel, target)
            .map_err(|violation| failure("kernel", "verify", violation))?;
        round_trip("kernel", &kernel, |text| kernel::text::parse("round_trip.kernel", text))?;
        Ok(Levels { tensor: program.clone(), block, fused, task, kernel, journal })
    }

    /// Evaluates every level and compares with the tensor level; `seed` chooses the orders of tasks.
    ///
    /// # Errors
    /// The first failure.
    pub fn eval(&self, bindings: &Bindings, seed: u64) -> Result<Outcome, Failure> {
        let mut results = Vec::new();
        for numerics in [Numerics::F64, Numerics::Own] {
            let expected = match tensor::eval::eval(&self.tensor, bindings, numerics) {
                Ok(results) => Ok(results),
                Err(error @ (Error::Input { .. } | Error::Memory { .. })) => Err(error.to_string()),
                Err(error) => return Err(failure("tensor", "eval", error)),
            };
            let found = block::eval::eval(&self.block, bindings, numerics);
            agree("block", &format!("{numerics:?}"), &expected, found)?;
            if let Some(fused) = &self.fused {
                let found = block::eval::eval(fused, bindings, numerics);
                agree("fuse", &format!("{numerics:?}"), &expected, found)?;
            }
            for (workers, choice) in schedules(seed) {
                let order = format!("{numerics:?}, {workers} workers, {choice:?}");
                let mut schedule = Schedule::new(workers, choice);
                let found = task::eval::eval(&self.task, bindings, numerics, &mut schedule);
                agree("task", &order, &expected, found)?;
                let mut schedule = Schedule::new(workers, choice);
                let found = kernel::eval::eval(&self.kernel, bindings, numerics, &mut schedule);
                agree("kernel", &order, &expected, found)?;
            }
            match expected {
                Ok(expected) => results.push(expected),
                Err(reason) => return Ok(Outcome::Refused(reason)),
            }
        }
        let own = results.pop().unwrap_or_default();
        Ok(Outcome::Results { exact: results.pop().unwrap_or_default(), own })
    }

    /// The orders of tasks that a seed stands for: the natural one and one that is meant to break things.
    fn orders(seed: u64) -> Choice {
        match seed % 5 {
            0 => Choice::Last,
            1 => Choice::Latest,
            2 => Choice::Starve((seed % 3) as usize),
            _ => Choice::Random(seed),
        }
    }
}

fn schedules(seed: u64) -> [(usize, Choice); 2] {
    [(1, Choice::First), (2 + (seed % 3) as usize, Levels::orders(seed))]
}

/// What a level gives is what the tensor level gives; where that has no value, it may give anything but a bug.
fn agree(
    level: &'static str,
    how: &str,
    expected: &Result<Vec<Array>, String>,
    found: Result<Vec<Array>, Error>,
) -> Result<(), Failure> {
    match (expected, found) {
        (Ok(expected), Ok(found)) if same(expected, &found) => Ok(()),
        (Ok(expected), Ok(found)) => {
            Err(failure(level, "eval", format!("in {how} {}", difference(expected, &found))))
        }
        (Ok(_), Err(error)) => Err(failure(level, "eval", format!("in {how}: {error}"))),
        (Err(_), Err(error @ (Error::Bug { .. } | Error::Stuck { .. }))) => {
            Err(failure(level, "eval", error))
        }
        (Err(_), _) => Ok(()),
    }
}

/// Runs a compiled program and compares with evaluation in the program's own types: equal bit for bit, or within what
/// rounding at other places can do (`spread`).
///
/// # Errors
/// The failure.
pub fn runtime(
    engine: &Engine,
    program: &Program,
    bindings: &Bindings,
    own: &[Array],
) -> Result<(), Failure> {
    let mut found = run(engine, &bindings.symbols, &bindings.arrays, &Control::default())
        .map_err(|error| failure("runtime", "run", error))?;
    for (k, (found, own)) in found.iter_mut().zip(own).enumerate() {
        compare::settle_padding(program, k, found, own);
    }
    if same(own, &found) {
        return Ok(());
    }
    let spread = spread(program, bindings, own, engine.reassociates())
        .map_err(|error| failure("tensor", "eval", error))?;
    for (k, ((found, own), spread)) in found.iter().zip(own).zip(spread).enumerate() {
        let difference = compare::compare(found, own, None);
        let allowed = compare::budget(own.dtype, &spread);
        if difference.error > allowed {
            let message = format!(
                "result {k} is off by {:e} where {allowed:e} is allowed: {}",
                difference.error,
                self::difference(std::slice::from_ref(own), std::slice::from_ref(found))
            );
            return Err(failure("runtime", "run", message));
        }
    }
    Ok(())
}

/// How far each result moves where products accumulate in f64, or, where other sums may move too, where everything does.
fn spread(
    program: &Program,
    bindings: &Bindings,
    own: &[Array],
    all: bool,
) -> Result<Vec<compare::Difference>, Error> {
    if all {
        let results = tensor::eval::eval(program, bindings, Numerics::F64)?;
        return Ok(results.iter().zip(own).map(|(wide, own)| compare::compare(own, wide, None)).collect());
    }
    let mut wide = program.clone();
    for node in wide.functions.iter_mut().flat_map(|function| &mut function.nodes) {
        if let Op::Contract { accumulate, .. } = &mut node.op
            && accumulate.is_float()
        {
            *accumulate = DType::F64;
        }
    }
    let results = tensor::eval::eval(&wide, bindings, Numerics::Own)?;
    Ok(results.iter().zip(own).map(|(wide, own)| compare::compare(own, wide, None)).collect())
}

/// Runs a compiled program; its parameters are arrays whose elements are values of their types.
///
/// # Errors
/// As [`Engine::run`].
pub fn run(
    engine: &Engine,
    sizes: &BTreeMap<Symbol, i64>,
    arrays: &[Array],
    control: &Control,
) -> Result<Vec<Array>, Error> {
    let tensors = arrays.iter().map(HostTensor::from_array).collect::<Result<Vec<_>, _>>()?;
    let results = engine.run(sizes, &tensors, control)?;
    Ok(results.iter().map(HostTensor::to_array).collect())
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
            let one = |array: &Array| Array::filled(array.dtype, &[], array.get(position));
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
        let message = format!("what is read back is another program:\n{text}\n{again}");
        return Err(failure(level, "text", message));
    }
    let twice = again.to_string();
    if twice == text {
        Ok(())
    } else {
        Err(failure(level, "text", format!("{text}\nis printed as\n{twice}")))
    }
}
