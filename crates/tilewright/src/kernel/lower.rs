//! From block bodies to kernels: every item becomes a tile of its padded shape in near memory.

use super::ir::Program;
use crate::error::Error;
use crate::journal::Journal;
use crate::target::Target;
use crate::task;

/// The kernel program of a task program.
pub fn lower(program: &task::Program, target: &Target, journal: &mut Journal) -> Result<Program, Error> {
    let _ = (target, journal);
    Err(Error::Unsupported {
        place: program.name.to_string(),
        what: "lowering to kernels".into(),
        instead: "evaluate the task program".into(),
    })
}
