//! From tensor text to kernels: all four levels agree bit for bit.

use crate::common::{Random, lower, random, round_trip, symbols};
use std::path::Path;
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::task::eval::{Choice, Schedule};
use tilewright::tensor::eval::{Bindings, Numerics};
use tilewright::tensor::{Array, DType, ParamKind};
use tilewright::{block, kernel, task, tensor};

/// The kernel program of a tensor program.
fn pipeline(program: &tensor::Program) -> (task::Program, kernel::Program) {
    let (target, mut journal) = (Target::portable(), Journal::new());
    let blocks = block::lower::lower(program, &target, &mut journal).expect("lowers to blocks");
    let tasks = task::lower::lower(&blocks, &target, &mut journal).expect("lowers to tasks");
    let kernels = lower(&tasks);
    (tasks, kernels)
}

#[test]
fn show() {
    let Ok(path) = std::env::var("SHOW") else { return };
    let text = std::fs::read_to_string(Path::new(&path)).expect("a file");
    let program = tensor::text::parse(&path, &text).unwrap_or_else(|error| panic!("{error}"));
    let (tasks, kernels) = pipeline(&program);
    println!("{tasks}\n{kernels}");
}
