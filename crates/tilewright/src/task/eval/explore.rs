//! All interleavings of a tiny program.

use super::machine::Machine;
use super::{Runs, bug, same};
use crate::error::Error;
use crate::task::ir::Program;
use crate::tensor::Array;
use crate::tensor::eval::{Bindings, Numerics};
use std::collections::BTreeSet;

/// What was explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// The different states seen.
    pub states: usize,
    /// Whether those are all.
    pub complete: bool,
}

/// Runs every interleaving of the workers' steps, up to `most` different states, and gives the results, which are
/// the same in all of them.
///
/// # Errors
/// Those of [`eval`](super::eval), and [`Error::Bug`] where two interleavings give different results.
pub fn explore<B: Runs>(
    program: &Program<B>,
    bindings: &Bindings,
    numerics: Numerics,
    workers: usize,
    most: usize,
) -> Result<(Vec<Array>, Explored), Error> {
    let mut start = Machine::new(program, bindings, numerics, workers)?;
    start.start_epoch(bindings, 1)?;
    let mut seen = BTreeSet::from([start.state()]);
    let mut open = vec![start];
    let mut results: Option<Vec<Array>> = None;
    let mut complete = true;
    while let Some(machine) = open.pop() {
        let ready = machine.ready()?;
        if ready.is_empty() {
            machine.check_finished()?;
            let found = machine.results()?;
            match &results {
                Some(first) if !same(first, &found) => {
                    return Err(bug("two interleavings give different results"));
                }
                Some(_) => {}
                None => results = Some(found),
            }
        }
        for (worker, _) in ready {
            let mut next = machine.clone();
            next.step(worker)?;
            if seen.len() >= most {
                complete = false;
            } else if seen.insert(next.state()) {
                open.push(next);
            }
        }
    }
    let explored = Explored { states: seen.len(), complete };
    results.map(|results| (results, explored)).ok_or_else(|| bug("no interleaving came to its end"))
}
