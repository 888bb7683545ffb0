//! Kernel programs: statements one by one, roles and tokens, lowering, text, legality.

#[path = "kernel/common.rs"]
mod common;
#[path = "kernel/lowering.rs"]
mod lowering;
#[path = "kernel/machine.rs"]
mod machine;
#[path = "kernel/pipeline.rs"]
mod pipeline;
#[path = "kernel/roles.rs"]
mod roles;
#[path = "kernel/statements.rs"]
mod statements;
#[path = "kernel/text.rs"]
mod text;
#[path = "kernel/wrong.rs"]
mod wrong;
