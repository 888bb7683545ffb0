//! Who waits for whom: families of tasks ordered by event tensors.

pub mod cells;
pub mod eval;
pub mod ir;
pub mod lower;
pub mod plan;
pub mod text;
pub mod verify;

pub use cells::Cells;
pub use ir::*;
pub use plan::{BufferPlan, EventPlan, FamilyPlan, Plan, TaskRef};
