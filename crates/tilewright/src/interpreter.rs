//! The back end that the core itself offers: evaluation of the kernel program.

use std::sync::Arc;

use crate::error::Error;
use crate::host::HostTensor;
use crate::kernel;
use crate::runtime::{Control, Loaded, Memory, Runtime, Slot};
use crate::task::eval::{Choice, Schedule};
use crate::task::{BufferKind, Plan};
use crate::tensor::eval::{Bindings, Numerics};

/// Runs programs by evaluating them in their own types, one task after another: slow, obvious, everywhere. A run is
/// cancelled before it starts or not at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interpreter;

struct Interpreted(Arc<kernel::Program>);

impl Runtime for Interpreter {
    fn name(&self) -> &str {
        "interpreter"
    }

    fn load(&self, program: &Arc<kernel::Program>) -> Result<Arc<dyn Loaded>, Error> {
        Ok(Arc::new(Interpreted(Arc::clone(program))))
    }
}

impl Loaded for Interpreted {
    fn run(&self, plan: &Plan, memory: &mut Memory<'_>, control: &Control) -> Result<(), Error> {
        if control.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let buffers = &self.0.tasks.buffers;
        let params =
            buffers.iter().zip(&memory.slots).filter(|(b, _)| matches!(b.kind, BufferKind::Param(_)));
        let arrays = params
            .map(|(_, slot)| match slot {
                Slot::Read(tensor) => tensor.to_array(),
                Slot::Write(tensor) => tensor.to_array(),
            })
            .collect();
        let bindings = Bindings { symbols: plan.symbols.clone(), arrays };
        let mut schedule = Schedule::new(1, Choice::First);
        let results = kernel::eval::eval(&self.0, &bindings, Numerics::Own, &mut schedule)?;
        for (id, array) in self.0.tasks.results.iter().zip(&results) {
            if let Some(Slot::Write(tensor)) = memory.slots.get_mut(id.0 as usize) {
                **tensor = HostTensor::from_array(array)?;
            }
        }
        Ok(())
    }
}
