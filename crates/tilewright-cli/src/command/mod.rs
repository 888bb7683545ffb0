//! The `tilewright` command: one file for each subcommand. A subcommand gives a `Report` or a `Failure`; what is printed, where, and the
//! exit status are decided here.

mod doctor;
mod dump;
mod generate;
mod given;
mod list;
mod run;
mod show;
mod sweep;
mod verify;

use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use tilewright::error::Error;
use tilewright::tensor::{self, Program};

/// Compiles tensor programs with symbolic sizes; one compile serves every size.
#[derive(Debug, Parser)]
#[command(name = "tilewright", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON object on one line instead of text
    #[arg(long, global = true, display_order = 100)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tilewright run programs/softmax.tensor                     random inputs, sizes by default
  tilewright run programs/softmax.tensor --set R=2 --set C=5
  tilewright verify programs/softmax.tensor                  many sizes after one compile
  tilewright dump programs/softmax.tensor --after task       the program at a level
  tilewright list operators                                  what a program can say
  tilewright generate model.gguf --prompt 'Who are you?'     text from a language model
  tilewright doctor                                          the machine as found

Exit status: 0 good, 1 mismatch or a bug in tilewright, 2 usage, bad program or input, 3 unsupported.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile a program and run it
    Run(run::Run),
    /// Compile a program once and compare its results with evaluation, at many sizes
    Verify(verify::Verify),
    /// Print a program at a level
    Dump(dump::Dump),
    /// Continue a text, or answer a message, with a language model
    Generate(generate::Generate),
    /// Show the machine as found
    Doctor,
    /// List what a program can say and what it can run on
    List(list::List),
}

/// What the exit status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All is good.
    Good,
    /// A result is not what it should be, or the compiler has a bug.
    Mismatch,
    /// The command, the program or its inputs are not right.
    Usage,
    /// This version or this machine cannot do it.
    Unsupported,
}

impl Status {
    /// The exit status as a number.
    pub fn code(self) -> u8 {
        match self {
            Status::Good => 0,
            Status::Mismatch => 1,
            Status::Usage => 2,
            Status::Unsupported => 3,
        }
    }
}

/// What a subcommand has to say, for people and for programs.
struct Report {
    /// Whole lines.
    text: String,
    json: Value,
    status: Status,
    /// What is wrong, for the error stream.
    complaint: Option<String>,
}

impl Report {
    fn good(text: String, json: Value) -> Report {
        Report { text, json, status: Status::Good, complaint: None }
    }
}

/// Why a subcommand could not do what it was asked to.
struct Failure {
    status: Status,
    /// One word.
    kind: &'static str,
    /// What is wrong and what would work, without a line break at the end.
    message: String,
}

impl Failure {
    /// A mistake in the arguments.
    fn usage(message: impl Into<String>) -> Failure {
        Failure { status: Status::Usage, kind: "usage", message: message.into() }
    }

    /// Sizes, shapes or elements that the program does not admit.
    fn input(message: impl Into<String>) -> Failure {
        Failure { status: Status::Usage, kind: "input", message: message.into() }
    }

    /// A file that cannot be read or written.
    fn file(path: &Path, error: &io::Error) -> Failure {
        let reason = match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_string(),
            ErrorKind::PermissionDenied => "permission denied".to_string(),
            ErrorKind::IsADirectory => "this is a folder, not a file".to_string(),
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => "this is a file, not a folder".to_string(),
            _ => error.to_string(),
        };
        Failure { status: Status::Usage, kind: "file", message: format!("{}: {reason}", path.display()) }
    }

    /// The same failure, with what was going on before its message.
    fn at(mut self, what: &str) -> Failure {
        self.message = format!("at {what}: {}", self.message);
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (status, kind) = match &error {
            Error::Text(_) => (Status::Usage, "text"),
            Error::Program { .. } => (Status::Usage, "program"),
            Error::Input { .. } => (Status::Usage, "input"),
            Error::Memory { .. } => (Status::Usage, "memory"),
            Error::Unsupported { .. } => (Status::Unsupported, "unsupported"),
            Error::Cancelled => (Status::Usage, "cancelled"),
            Error::Stuck { .. } => (Status::Mismatch, "stuck"),
            Error::Bug { .. } => (Status::Mismatch, "bug"),
        };
        let message = match &error {
            Error::Memory { needed, limit, table } => {
                let (needed, limit) = (show::bytes(*needed), show::bytes(*limit));
                format!("{needed} of memory needed, {limit} allowed; give smaller sizes\n{table}")
            }
            // A text error is a block of lines with a caret, which begins with the word itself.
            error => error.to_string().trim_start_matches("error: ").to_string(),
        };
        Failure { status, kind, message: message.trim_end().to_string() }
    }
}

/// Runs the command with these arguments, its own name first.
pub fn execute(
    arguments: impl IntoIterator<Item = OsString>,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Status {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => return finish(&error.to_string(), Status::Good, stdout, stderr),
        Err(error) => {
            let message = error.to_string();
            let message = message.trim_start_matches("error: ").trim_end();
            let json = arguments.iter().any(|argument| argument == "--json");
            if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !json {
                let _ = writeln!(stderr, "{message}");
                return Status::Usage;
            }
            return fail(&Failure::usage(message), json, stdout, stderr);
        }
    };
    let done = match &cli.command {
        Command::Generate(arguments) => {
            return match generate::generate(arguments, cli.json, stdout, stderr) {
                Ok(status) => status,
                Err(failure) => fail(&failure, cli.json, stdout, stderr),
            };
        }
        Command::Run(arguments) => run::run(arguments),
        Command::Verify(arguments) => verify::verify(arguments),
        Command::Dump(arguments) => dump::dump(arguments),
        Command::Doctor => Ok(doctor::doctor()),
        Command::List(arguments) => Ok(list::list(arguments)),
    };
    match done {
        Ok(report) => {
            let text = if cli.json { format!("{}\n", report.json) } else { report.text };
            let status = finish(&text, report.status, stdout, stderr);
            if let Some(complaint) = report.complaint {
                let _ = writeln!(stderr, "error: {complaint}");
            }
            status
        }
        Err(failure) => fail(&failure, cli.json, stdout, stderr),
    }
}

/// Writes what there is to say. A reader who has gone away has seen enough; anything else that prevents writing is a
/// failure.
fn finish(text: &str, status: Status, stdout: &mut dyn Write, stderr: &mut dyn Write) -> Status {
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // Where even the error stream is closed, the exit status is all that is left.
            let _ = writeln!(stderr, "error: standard output: {error}");
            Status::Usage
        }
        _ => status,
    }
}

fn fail(failure: &Failure, json: bool, stdout: &mut dyn Write, stderr: &mut dyn Write) -> Status {
    let _ = writeln!(stderr, "error: {}", failure.message);
    if json {
        let error = json!({ "error": { "kind": failure.kind, "message": failure.message } });
        return finish(&format!("{error}\n"), failure.status, stdout, stderr);
    }
    failure.status
}

/// Reads and checks a program; gives also how long that took, without reading the file.
fn load(path: &Path) -> Result<(Program, Duration), Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::file(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| Failure {
        status: Status::Usage,
        kind: "text",
        message: format!("{}: this is not text: {}", path.display(), error.utf8_error()),
    })?;
    let start = Instant::now();
    let program = tensor::text::parse(&path.display().to_string(), &text).map_err(Error::Text)?;
    tensor::verify::verify(&program)
        .map_err(|violation| Error::Program { place: violation.place, message: violation.message })?;
    Ok((program, start.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    /// Fails with one kind of error.
    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        let list = || ["tilewright", "list", "types"].map(OsString::from);
        let mut complaints = Vec::new();
        assert_eq!(execute(list(), &mut Broken(ErrorKind::BrokenPipe), &mut complaints), Status::Good);
        assert_eq!(complaints, b"");
        assert_eq!(execute(list(), &mut Broken(ErrorKind::StorageFull), &mut complaints), Status::Usage);
        assert!(String::from_utf8_lossy(&complaints).starts_with("error: standard output: "));
    }
}
