//! What is legal.

use super::infer::{Problem, Reason};
use super::ir::Program;

/// What holds of a program beyond each function: there is one, and facts fit.
pub fn check_whole(program: &Program) -> Result<(), Problem> {
    if program.functions.is_empty() {
        return Err(Problem::new(Reason::Count, "there is no function; a program has at least one"));
    }
    Ok(())
}
