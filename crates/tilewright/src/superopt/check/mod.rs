//! Whether a candidate is equal to a program: sound interpretations, hard sizes, hard data. The law is `docs/checker.md`.
//!
//! [`check`] evaluates both under each interpretation and compares every element of every result. It accepts with the
//! [`Evidence`] that it has, or refuses with what differs and where.

mod compare;
pub mod evaluate;
pub mod hash;
pub mod inputs;
pub mod interpretation;
pub mod measure;
mod nest;
pub mod primes;
pub mod scaled;
pub mod sizes;
pub mod tower;

use crate::tensor::elementwise::Algebra;
use crate::tensor::ir::{Op, Operand, Program};
use std::fmt;

/// The numerics that a candidate has to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Contract {
    /// Every rounding step is kept.
    Strict,
    /// Equality over the reals, within an error budget.
    #[default]
    Fast,
}

/// How to check.
#[derive(Clone, Debug)]
pub struct Options {
    /// The numerics that have to be kept.
    pub contract: Contract,
    /// Where everything random comes from: equal seeds give equal verdicts.
    pub seed: u64,
    /// The most elements that one evaluation computes; larger size vectors are left out.
    pub work: u64,
    /// The most trials at the smallest sizes for the sake of the bound and of comparisons.
    pub trials: u32,
    /// The binary logarithm of the bound that trials go on for.
    pub bound: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { contract: Contract::Fast, seed: 0, work: 200_000, trials: 400, bound: -40.0 }
    }
}

/// What speaks for a candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The binary logarithm of a bound on the probability that a wrong candidate is accepted, by section 8 of
    /// `docs/checker.md`; none under `strict`, or where there are too many exponentials for one.
    pub bound: Option<f64>,
    /// Trials in a tower, each with fresh primes.
    pub trials: u32,
    /// Different size vectors.
    pub vectors: u32,
    /// Size vectors at which the program has no value, or which take too much work.
    pub skipped: u32,
    /// The degree of the difference of the results, and how many exponentials it has.
    pub degree: u64,
    /// How many different exponentials the difference has, if at most a few hundred.
    pub exponentials: Option<usize>,
    /// Comparisons of floats in both programs, and the smaller number of times that one was seen true or false.
    pub comparisons: usize,
    /// See [`comparisons`](Self::comparisons); none without comparisons.
    pub least_seen: Option<u64>,
    /// Elements compared in scaled floats, those that were unsure left out.
    pub floats: u64,
    /// Elements that were unsure.
    pub unsure: u64,
}

/// The law that a candidate breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Law {
    /// Parameters, results and sizes are the program's.
    Signature,
    /// The candidate has a value where the program has one.
    Value,
    /// Section 2: results agree in the tower.
    Tower,
    /// Section 3: a result is undefined where the program's is.
    Definition,
    /// Section 2.10: some level of the tower says something.
    Height,
    /// Section 7: results agree in floats.
    Floats,
    /// Section 7.4: results are NaN and infinite where the program's are.
    Class,
    /// Section 7.5: the error stays within the budget.
    Budget,
    /// Section 4.2: the same bits.
    Bits,
    /// Section 8: every comparison was seen both ways.
    Evidence,
    /// An operator has no meaning in the checker.
    Unsupported,
}

/// Why a candidate is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The law.
    pub law: Law,
    /// The sizes, as text; empty where they do not matter.
    pub sizes: String,
    /// The data, as text.
    pub data: String,
    /// What differs and where, in one sentence.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.law, self.message)?;
        if !self.sizes.is_empty() {
            write!(f, " (at {}; {})", self.sizes, self.data)?;
        }
        Ok(())
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bound {
            Some(bound) => write!(f, "wrong with probability at most 2^{bound:.0}")?,
            None => write!(f, "no bound")?,
        }
        write!(f, "; {} trials at {} size vectors ({} left out)", self.trials, self.vectors, self.skipped)?;
        write!(f, ", degree {}", self.degree)?;
        if let Some(count) = self.exponentials {
            write!(f, ", {count} exponentials")?;
        }
        if let Some(least) = self.least_seen {
            write!(f, ", {} comparisons seen both ways at least {least} times", self.comparisons)?;
        }
        write!(f, "; {} elements in floats, {} more unsure", self.floats, self.unsure)
    }
}

/// What the checker says.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Equal, as far as the evidence goes.
    Accept(Evidence),
    /// Not equal, or not known to be.
    Refuse(Refusal),
}

impl Verdict {
    /// Whether the candidate is accepted.
    pub fn is_accept(&self) -> bool {
        matches!(self, Verdict::Accept(_))
    }
}

/// Whether `candidate` computes what `program` computes, for all sizes that the program's facts admit. Total: whatever the
/// programs are, it answers.
pub fn check(program: &Program, candidate: &Program, options: &Options) -> Verdict {
    let verdict = signature(program, candidate).and_then(|()| compare::run(program, candidate, options));
    match verdict {
        Ok(evidence) => Verdict::Accept(evidence),
        Err(refusal) => Verdict::Refuse(refusal),
    }
}

/// Whether parameters, results and sizes are the same.
fn signature(program: &Program, candidate: &Program) -> Result<(), Refusal> {
    let refuse = |message: String| {
        Err(Refusal { law: Law::Signature, sizes: String::new(), data: String::new(), message })
    };
    for program in [program, candidate] {
        if let Err(violation) = crate::tensor::verify::verify(program) {
            return refuse(violation.to_string());
        }
    }
    let (ours, theirs) = (program.main(), candidate.main());
    if program.facts != candidate.facts {
        return refuse("the facts on sizes differ".into());
    }
    if ours.params.len() != theirs.params.len() || ours.results.len() != theirs.results.len() {
        return refuse("the number of parameters or results differs".into());
    }
    for (a, b) in ours.params.iter().zip(&theirs.params) {
        if ours.value(a.value) != theirs.value(b.value) || a.kind != b.kind {
            return refuse(format!("the parameter `{}` differs", ours.value(a.value).name));
        }
    }
    for (k, (a, b)) in ours.results.iter().zip(&theirs.results).enumerate() {
        let (a, b) = (&ours.value(*a).ty, &theirs.value(*b).ty);
        let same = a.axes.len() == b.axes.len()
            && a.axes
                .iter()
                .zip(&b.axes)
                .all(|(x, y)| x.extent == y.extent || program.facts.equal(&x.extent, &y.extent).is_yes());
        if a.dtype != b.dtype || !same {
            return refuse(format!("result {k} has another type"));
        }
    }
    Ok(())
}

/// How many levels a program needs: one more than its exponentials are nested, and one for a logarithm.
fn height(program: &Program) -> usize {
    let main = program.main();
    let mut depths = vec![0usize; main.values.len()];
    let mut most = 0;
    for node in &main.nodes {
        let read = |operand: &Operand| match operand {
            Operand::Value { value, .. } => depths.get(value.0 as usize).copied().unwrap_or(0),
            _ => 0,
        };
        let depth = node.operands.iter().map(read).max().unwrap_or(0);
        let depth = match &node.op {
            Op::Call { .. } | Op::Repeat { .. } => return primes::HEIGHT,
            Op::Elementwise { function } => match function.algebra {
                Algebra::Exp | Algebra::Exp2 | Algebra::Sigmoid | Algebra::Tanh => depth + 1,
                Algebra::Pow => depth + 1,
                Algebra::Log | Algebra::Log1p => depth.max(1),
                _ => depth,
            },
            _ => depth,
        };
        most = most.max(depth);
        for result in &node.results {
            if let Some(slot) = depths.get_mut(result.0 as usize) {
                *slot = depth;
            }
        }
    }
    (most + 1).min(primes::HEIGHT)
}
