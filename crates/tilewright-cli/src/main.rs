//! The `tilewright` command.
#![forbid(unsafe_code)]

use std::io::{stderr, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    let status = tilewright_cli::command::execute(std::env::args_os(), &mut stdout(), &mut stderr());
    ExitCode::from(status.code())
}
