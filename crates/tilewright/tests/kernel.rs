//! Kernel programs: statements one by one, roles and tokens, lowering, text, legality.

#[path = "kernel/common.rs"]
mod common;
#[path = "kernel/lowering.rs"]
mod lowering;
#[path = "kernel/pipeline.rs"]
mod pipeline;
