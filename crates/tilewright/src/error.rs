//! The errors of the crate.

use crate::text;

/// Why a program could not be compiled or run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A text does not parse, or says something that no program can mean.
    #[error("{0}")]
    Text(#[from] text::Error),
    /// A program is not legal: the caller's mistake.
    #[error("{place}: {message}")]
    Program {
        /// Function and operator.
        place: String,
        /// What is wrong and what would work.
        message: String,
    },
    /// A program is legal, but this version does not compile it.
    #[error("{place}: {what} is not supported; {instead}")]
    Unsupported {
        /// Where.
        place: String,
        /// What.
        what: String,
        /// What would work.
        instead: String,
    },
    /// Sizes, shapes or types that do not fit the program.
    #[error("{subject}: {message}")]
    Input {
        /// The symbol or the parameter.
        subject: String,
        /// What is wrong and what would work.
        message: String,
    },
    /// More memory is needed than the caller allows.
    #[error("{needed} bytes needed, {limit} allowed\n{table}")]
    Memory {
        /// Bytes needed.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
        /// The buffers and their bytes, largest first, a line each.
        table: String,
    },
    /// The caller cancelled the run.
    #[error("cancelled")]
    Cancelled,
    /// No task made progress for as long as the watchdog allows.
    #[error("no progress for {seconds} s: {state}")]
    Stuck {
        /// The watchdog's time, in seconds.
        seconds: u64,
        /// The waiting tasks, and the counters short of their thresholds.
        state: String,
    },
    /// A stage made a program that its verifier refuses: a bug in Tilewright.
    #[error("bug in tilewright: the {stage} program is not legal: {message}")]
    Bug {
        /// The stage.
        stage: &'static str,
        /// What the verifier says.
        message: String,
    },
}
