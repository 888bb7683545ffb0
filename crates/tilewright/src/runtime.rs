//! What a back end must offer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::host::HostTensor;
use crate::journal::Entry;
use crate::kernel;
use crate::task::Plan;

/// Makes kernel programs runnable.
pub trait Runtime: Send + Sync {
    /// The name, such as `interpreter` or `portable`.
    fn name(&self) -> &str;

    /// Makes a program runnable. Called once per compile, never while running.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the program holds something that this back end cannot run.
    fn load(&self, program: &Arc<kernel::Program>) -> Result<Arc<dyn Loaded>, Error>;
}

/// A program that runs. Concurrent runs are independent of each other.
pub trait Loaded: Send + Sync {
    /// What was chosen and refused when the program was loaded.
    fn notes(&self) -> &[Entry] {
        &[]
    }

    /// Runs a program once: reads the parameters, updates states, fills outputs.
    ///
    /// # Errors
    /// [`Error::Cancelled`], [`Error::Stuck`], [`Error::Memory`], or [`Error::Input`] for an integer tensor that
    /// breaks what the program states of it. Outputs and states are then unspecified.
    fn run(&self, plan: &Plan, memory: &mut Memory<'_>, control: &Control) -> Result<(), Error>;
}

/// The caller's memory in a run.
pub struct Memory<'a> {
    /// One entry per buffer of the program that is not a temporary, in order.
    pub slots: Vec<Slot<'a>>,
}

/// A buffer of the caller. Extents and type are those of the program's buffer under the plan.
pub enum Slot<'a> {
    /// A parameter that is only read.
    Read(&'a HostTensor),
    /// A state or an output.
    Write(&'a mut HostTensor),
}

/// How the caller steers a run from outside.
#[derive(Clone, Debug)]
pub struct Control {
    cancelled: Arc<AtomicBool>,
    /// The most bytes that a run may allocate beside what the caller holds.
    pub memory_limit: Option<u64>,
    /// How long no task may finish before the run is given up.
    pub watchdog: Duration,
}

impl Default for Control {
    fn default() -> Control {
        Control { cancelled: Arc::default(), memory_limit: None, watchdog: Duration::from_secs(60) }
    }
}

impl Control {
    /// Asks the run to stop; it returns [`Error::Cancelled`] before its next task.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether someone asked the run to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
