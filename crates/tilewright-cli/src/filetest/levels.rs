//! Commands on the program at a level.

use super::{Case, Command};
use std::fmt::Display;
use tilewright::compile::Stages;
use tilewright::journal::Journal;
use tilewright::{Options, Target, block, fuse, kernel, task, tensor};

/// Prints the tensor program.
pub const TENSOR: Command = Command {
    name: "tensor",
    doc: "parses, verifies and prints the program",
    run: |case| Ok(text(&parsed(case)?)),
};

/// Prints the block program.
pub const BLOCK: Command =
    Command { name: "block", doc: "prints the block program", run: |case| Ok(text(&lowered(case)?.0.block)) };

/// Prints the task program.
pub const TASK: Command =
    Command { name: "task", doc: "prints the task program", run: |case| Ok(text(&lowered(case)?.0.task)) };

/// Prints the kernel program.
pub const KERNEL: Command = Command {
    name: "kernel",
    doc: "prints the kernel program",
    run: |case| Ok(text(&*lowered(case)?.0.kernel)),
};

/// Prints the block program after fusion.
pub const FUSE: Command = Command {
    name: "fuse",
    doc: "prints the block program after fusion, and what was fused and refused",
    run: |case| {
        let mut journal = Journal::new();
        let plain = lowered(case)?.0.block;
        let fused = fuse::fuse(&plain, &Target::portable(), &mut journal).map_err(|error| text(&error))?;
        block::verify::verify(&fused).map_err(|violation| text(&violation))?;
        Ok(format!("{journal}{fused}"))
    },
};

/// Prints what was decided on the way.
pub const JOURNAL: Command = Command {
    name: "journal",
    doc: "prints the journal of all arrows",
    run: |case| Ok(text(&lowered(case)?.1)),
};

/// Prints the two parts of a program with weights.
pub const PREPARE: Command = Command {
    name: "prepare",
    doc: "prints the work on weights alone, then the rest",
    run: |case| {
        let (prepare, rest) = tensor::prepare::split(&parsed(case)?);
        let prepare = prepare.map_or("nothing to prepare\n".to_string(), |program| text(&program));
        Ok(format!("{prepare}\n{rest}"))
    },
};

/// Verifies a block program.
pub const VERIFY_BLOCK: Command = Command {
    name: "verify-block",
    doc: "parses and verifies a block program",
    run: |case| {
        let program = block::text::parse(case.file, case.program).map_err(|error| text(&error))?;
        block::verify::verify(&program).map_err(|violation| text(&violation))?;
        Ok("legal".into())
    },
};

/// Verifies a task program.
pub const VERIFY_TASK: Command = Command {
    name: "verify-task",
    doc: "parses and verifies a task program for the portable target",
    run: |case| {
        let program: task::Program =
            task::text::parse(case.file, case.program).map_err(|error| text(&error))?;
        task::verify::verify(&program, &Target::portable()).map_err(|violation| text(&violation))?;
        Ok("legal".into())
    },
};

/// Verifies a kernel program.
pub const VERIFY_KERNEL: Command = Command {
    name: "verify-kernel",
    doc: "parses and verifies a kernel program for the portable target",
    run: |case| {
        let program = kernel::text::parse(case.file, case.program).map_err(|error| text(&error))?;
        kernel::verify::verify(&program, &Target::portable()).map_err(|violation| text(&violation))?;
        Ok("legal".into())
    },
};

fn text(what: &impl Display) -> String {
    what.to_string()
}

/// The case's tensor program.
pub(super) fn parsed(case: &Case<'_>) -> Result<tensor::Program, String> {
    tensor::text::parse(case.file, case.program).map_err(|error| error.to_string())
}

/// The stages of the case's program, nothing fused.
fn lowered(case: &Case<'_>) -> Result<(Stages, Journal), String> {
    let mut journal = Journal::new();
    let stages = Stages::lower(parsed(case)?, &Target::portable(), &Options::default(), &mut journal);
    Ok((stages.map_err(|error| error.to_string())?, journal))
}
