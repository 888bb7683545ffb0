//! The compiler, top to bottom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::executable::{Executable, Unit};
use crate::interpreter::Interpreter;
use crate::journal::Journal;
use crate::runtime::Runtime;
use crate::target::Target;
use crate::{block, fuse, kernel, task, tensor};

/// How to compile.
#[derive(Clone)]
pub struct Options {
    /// The back end.
    pub runtime: Arc<dyn Runtime>,
    /// Whether the program of every level is verified before the next arrow. What a verifier refuses never runs.
    pub verify: bool,
    /// Whether block programs are fused. Not the default yet: see `docs/fusion.md`.
    pub fuse: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { runtime: Arc::new(Interpreter), verify: true, fuse: false }
    }
}

/// How many programs this process has compiled or tried to.
static COMPILES: AtomicU64 = AtomicU64::new(0);

/// How many times this process has called [`compile`].
pub fn compiles() -> u64 {
    COMPILES.load(Ordering::Relaxed)
}

/// Compiles a program for every size that its facts admit.
///
/// # Errors
/// [`Error::Program`] if the program is not legal, [`Error::Unsupported`] if it says what this version cannot
/// compile, [`Error::Bug`] if a stage makes a program that its verifier refuses.
pub fn compile(program: &tensor::Program, target: &Target, options: &Options) -> Result<Executable, Error> {
    COMPILES.fetch_add(1, Ordering::Relaxed);
    tensor::verify::verify(program).map_err(|violation| Error::Program {
        place: violation.place.clone(),
        message: violation.message.clone(),
    })?;
    let mut journal = Journal::new();
    let (prepare, main) = tensor::prepare::split(program);
    let prepare = prepare.map(|prepare| Unit::new(prepare, target, options, &mut journal)).transpose()?;
    let main = Unit::new(main, target, options, &mut journal)?;
    Ok(Executable { given: program.clone(), prepare, main, journal })
}

/// One program at every level: what each arrow made.
#[derive(Clone, Debug)]
pub struct Stages {
    /// What to compute.
    pub tensor: tensor::Program,
    /// Where values live: each operator on its own.
    pub block: block::Program,
    /// Where values live after fusion; as before where nothing is fused.
    pub fused: block::Program,
    /// Who waits for whom.
    pub task: task::Program,
    /// Code.
    pub kernel: Arc<kernel::Program>,
}

impl Stages {
    /// Lowers a program through all levels, verified and fused as the options say.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn lower(
        tensor: tensor::Program,
        target: &Target,
        options: &Options,
        journal: &mut Journal,
    ) -> Result<Stages, Error> {
        let verify = options.verify;
        let bug = |stage, message: String| Error::Bug { stage, message };

        // Each operator becomes maps over blocks; values between operators go through slow memory.
        let block = block::lower::lower(&tensor, target, journal)?;
        if verify {
            block::verify::verify(&block).map_err(|violation| bug("block", violation.to_string()))?;
        }

        // Maps that follow one another become one; what they hand on stays near.
        let fused = if options.fuse { fuse::fuse(&block, target, journal)? } else { block.clone() };
        if verify && options.fuse {
            block::verify::verify(&fused).map_err(|violation| bug("fuse", violation.to_string()))?;
        }

        // Each map becomes a family of tasks; events are derived from what the tasks read and write.
        let task = task::lower::lower(&fused, target, journal)?;

        // Each body becomes code over tiles. Verifying that verifies the order of tasks too, with what the kernels touch,
        // so that it is verified once.
        let kernel = kernel::lower::lower(&task, target, journal)?;
        if verify {
            kernel::verify::verify(&kernel, target).map_err(refused)?;
        }

        Ok(Stages { tensor, block, fused, task, kernel: Arc::new(kernel) })
    }
}

/// What the verifier of kernels refuses is a bug, unless it found nothing that it can look at.
fn refused(violation: kernel::verify::Violation) -> Error {
    let stage = match violation.reason {
        kernel::verify::Reason::Task(reason) if reason.is_limit() => {
            return Error::Unsupported {
                place: violation.place,
                what: format!("a program that cannot be verified: {}", violation.message),
                instead: "sizes as symbols with a range are checked at small values".into(),
            };
        }
        kernel::verify::Reason::Task(_) => "task",
        _ => "kernel",
    };
    Error::Bug { stage, message: violation.to_string() }
}
