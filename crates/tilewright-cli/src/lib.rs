//! What the `tilewright` command is made of: its subcommands, the filetest runner, the generator of programs.
#![forbid(unsafe_code)]

pub mod check;
pub mod command;
pub mod compare;
pub mod engine;
pub mod filetest;
pub mod generate;
pub mod inputs;
pub mod npy;
pub mod random;
pub mod sizes;
