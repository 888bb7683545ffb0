//! Fusion: data that would go through slow memory between two maps stays near the core.
//!
//! [`fuse`] rewrites a block program by rules, each of which takes two maps of one function and gives an equal function in
//! which a tensor between them, or a second load of one, is gone. The rules run to a fixed point; after each step what
//! nobody needs any more is removed (`tidy`). A rule that does not apply says which premise failed: the journal holds,
//! for every pair of neighbours that stay apart, the reason of each rule.
//!
//! All rules here are *exact*: every element is computed by the same operations in the same order as before, so that
//! evaluation agrees bit for bit.

mod function;
mod peak;
mod pointwise;
mod rules;
mod tidy;

use crate::block::ir::{Function, Node, Program};
use crate::error::Error;
use crate::journal::{Journal, Kind};
use crate::target::Target;
use function::Fusing;
pub use rules::RULES;

/// A rule: takes the nodes at two places of a function, the first before the second, both maps.
pub struct Rule {
    /// The name: that of its file and of its filetest.
    pub name: &'static str,
    /// The algebra, in one line.
    pub algebra: &'static str,
    /// Whether the second map reads what the first defines; else both read the same.
    pub joins_neighbours: bool,
    /// The function after it, or the premise that failed.
    apply: fn(&Fusing<'_>, usize, usize) -> Result<Function, String>,
}

/// The fused form of a block program: the same functions over the same symbols. `journal` records each step and, for
/// maps that stay apart, why.
///
/// # Errors
/// [`Error::Bug`] where the program is not a legal one.
pub fn fuse(program: &Program, target: &Target, journal: &mut Journal) -> Result<Program, Error> {
    // Half of the near tier, so that the next block's loads fit beside what is computed.
    let near = target.tiers.first().map_or(u64::MAX, |tier| tier.bytes) / 2;
    let functions = program.functions.iter().map(|function| {
        let facts = crate::block::eval::facts_in(function, &program.facts)
            .map_err(|message| Error::Bug { stage: "fuse", message })?;
        let mut function = function.clone();
        tidied(&mut function);
        let mut fusing = Fusing::new(function, &facts, near);
        while step(&mut fusing, journal) {}
        refusals(&fusing, journal);
        Ok(fusing.function)
    });
    let functions = functions.collect::<Result<_, Error>>()?;
    Ok(Program { functions, facts: program.facts.clone() })
}

/// Pairs of maps of which the second reads what the first defines, or both read the same.
fn pairs(fusing: &Fusing<'_>) -> Vec<(usize, usize)> {
    let maps: Vec<usize> = (0..fusing.function.body.len()).filter(|at| fusing.map(*at).is_some()).collect();
    let pair = |first: &usize| {
        let first = *first;
        maps.iter().filter(move |second| **second > first).map(move |second| (first, *second))
    };
    maps.iter().flat_map(pair).filter(|(first, second)| fusing.meet(*first, *second)).collect()
}

/// Applies the first rule that fits a pair of maps; whether there was one.
fn step(fusing: &mut Fusing<'_>, journal: &mut Journal) -> bool {
    for rule in RULES {
        for (first, second) in pairs(fusing) {
            if rule.joins_neighbours != fusing.feeds(first, second) {
                continue;
            }
            if let Ok(function) = attempt(rule, fusing, first, second) {
                journal.record("fuse", Kind::Rewrote, fusing.subject(first, second), rule.name);
                *fusing = Fusing::new(function, fusing.facts, fusing.near);
                return true;
            }
        }
    }
    false
}

/// Removes what nobody needs.
fn tidied(function: &mut Function) {
    tidy::tidy(function);
    function.renumber();
}

/// The function after a rule, tidied; its maps must not need more near memory than there is.
fn attempt(rule: &Rule, fusing: &Fusing<'_>, first: usize, second: usize) -> Result<Function, String> {
    let mut function = (rule.apply)(fusing, first, second)?;
    tidied(&mut function);
    let most = |function: &Function| {
        let maps = function.body.iter().filter_map(|node| match node {
            Node::Map(map) => Some(peak::bytes(map, &function.values)),
            _ => None,
        });
        maps.max().unwrap_or(0)
    };
    let bytes = most(&function);
    if bytes > fusing.near && bytes > most(&fusing.function) {
        return Err(format!("{bytes} bytes would be near at once, more than {}", fusing.near));
    }
    Ok(function)
}

/// Says for maps that stay apart which premise of each rule failed.
fn refusals(fusing: &Fusing<'_>, journal: &mut Journal) {
    for (first, second) in pairs(fusing) {
        for rule in RULES.iter().filter(|rule| rule.joins_neighbours == fusing.feeds(first, second)) {
            if let Err(reason) = attempt(rule, fusing, first, second) {
                let reason = format!("{}: {reason}", rule.name);
                journal.record("fuse", Kind::Refused, fusing.subject(first, second), reason);
            }
        }
    }
}
