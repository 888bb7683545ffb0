//! `tilewright dump`: a program at a level. The text reads back at that level.

use super::{Failure, Report, Status, load};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;
use tilewright::journal::Journal;
use tilewright::tensor::{self, Program};
use tilewright::{Target, block, fuse, kernel, task};

/// The arguments of `dump`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Dump {
    /// The program, a text file (docs/text.md tells the language)
    program: PathBuf,
    /// The level
    #[arg(long, value_enum, default_value_t = Stage::Kernel)]
    after: Stage,
    /// Print before the program, as comments, what was chosen, rewritten and refused on the way, and why
    #[arg(long)]
    journal: bool,
    /// Lower the fused block program to tasks and kernels
    #[arg(long)]
    fused: bool,
    /// Print what is done once when weights are loaded, instead of what each run does
    #[arg(long)]
    prepare: bool,
}

const HELP: &str = "\
The work on weights alone is a program of its own, done once: --prepare prints that one.

Examples:
  tilewright dump programs/softmax.tensor --after block
  tilewright dump programs/softmax.tensor --after fuse --journal
  tilewright dump programs/softmax.tensor --after task --journal
  diff <(tilewright dump a.tensor) <(tilewright dump b.tensor)";

/// A level of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// What to compute
    Tensor,
    /// Where values live
    Block,
    /// Where values live after fusion
    Fuse,
    /// Who waits for whom
    Task,
    /// Code
    Kernel,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Tensor => "tensor",
            Stage::Block => "block",
            Stage::Fuse => "fuse",
            Stage::Task => "task",
            Stage::Kernel => "kernel",
        }
    }
}

pub fn dump(arguments: &Dump) -> Result<Report, Failure> {
    let (program, _) = load(&arguments.program)?;
    let (prepare, main) = tensor::prepare::split(&program);
    let wanted = if arguments.prepare { prepare } else { Some(main) };
    let mut journal = Journal::new();
    let lowered =
        wanted.map(|program| lower(program, arguments.after, arguments.fused, &mut journal)).transpose()?;

    let mut text = String::new();
    if arguments.journal {
        text.extend(journal.to_string().lines().map(|line| format!("# {line}\n")));
    }
    let (shown, violation) = match lowered {
        Some((shown, violation)) => (Some(shown), violation),
        None => {
            text.push_str("# nothing depends on weights alone\n");
            (None, None)
        }
    };
    text.push_str(shown.as_deref().unwrap_or_default());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let entries: Vec<Value> = journal
        .entries
        .iter()
        .map(|entry| {
            let kind = format!("{:?}", entry.kind).to_lowercase();
            json!({ "stage": entry.stage, "kind": kind, "subject": entry.subject, "reason": entry.reason })
        })
        .collect();
    let stage = arguments.after.name();
    let json = json!({
        "stage": stage,
        "prepare": arguments.prepare,
        "program": shown,
        "violation": violation,
        "journal": if arguments.journal { json!(entries) } else { Value::Null },
    });
    let status = if violation.is_some() { Status::Mismatch } else { Status::Good };
    let complaint = violation
        .map(|violation| format!("bug in tilewright: the {stage} program is not legal: {violation}"));
    Ok(Report { text, json, status, complaint })
}

/// The program's text at a level, and what its verifier says against it. Later arrows are not taken, so that a program
/// that one of them refuses can be seen up to there.
fn lower(
    program: Program,
    stage: Stage,
    is_fused: bool,
    journal: &mut Journal,
) -> Result<(String, Option<String>), Failure> {
    let target = Target::portable();
    let said = |violation: &dyn std::fmt::Display| Some(violation.to_string());
    if stage == Stage::Tensor {
        return Ok((program.to_string(), None));
    }
    let block = block::lower::lower(&program, &target, journal)?;
    if stage == Stage::Block {
        let verdict = block::verify::verify(&block).err();
        return Ok((block.to_string(), verdict.and_then(|violation| said(&violation))));
    }
    let block = if is_fused || stage == Stage::Fuse { fuse::fuse(&block, &target, journal)? } else { block };
    if stage == Stage::Fuse {
        let verdict = block::verify::verify(&block).err();
        return Ok((block.to_string(), verdict.and_then(|violation| said(&violation))));
    }
    let task = task::lower::lower(&block, &target, journal)?;
    if stage == Stage::Task {
        let verdict = task::verify::verify(&task, &target).err();
        return Ok((task.to_string(), verdict.and_then(|violation| said(&violation))));
    }
    let kernel = kernel::lower::lower(&task, &target, journal)?;
    let verdict = kernel::verify::verify(&kernel, &target).err();
    Ok((kernel.to_string(), verdict.and_then(|violation| said(&violation))))
}
