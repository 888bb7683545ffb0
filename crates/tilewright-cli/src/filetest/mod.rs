//! Filetests: a program, what to do with it, and what comes out, in one file.
//!
//! ```text
//! # test task                        what to do: a name of [`COMMANDS`]
//! # set S = 3                        more lines for the command, in its own words
//! program … { … }
//! # ---
//! what comes out, exactly
//! ```
//!
//! With `TILEWRIGHT_BLESS=1` what comes out replaces what stands behind the mark, so that an update is a diff to be read.

mod levels;
mod run;

use std::path::{Path, PathBuf};

/// The line before what comes out.
const MARK: &str = "# ---\n";

/// What a filetest says.
pub struct Case<'a> {
    /// The name of the file, without its folder.
    pub file: &'a str,
    /// The header's lines after the first, without `# `.
    pub settings: Vec<&'a str>,
    /// The file up to the mark: the header's lines are comments of the program.
    pub program: &'a str,
}

/// A command of filetests.
pub struct Command {
    /// The name in the header.
    pub name: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// What comes out. An error comes out as its text.
    pub run: fn(&Case<'_>) -> Result<String, String>,
}

/// Every command, once.
pub const COMMANDS: &[Command] = &[
    levels::TENSOR,
    levels::BLOCK,
    levels::FUSE,
    levels::TASK,
    levels::KERNEL,
    levels::JOURNAL,
    levels::PREPARE,
    levels::VERIFY_BLOCK,
    levels::VERIFY_TASK,
    levels::VERIFY_KERNEL,
    run::RUN,
];

/// Runs the filetests below a folder, in order of their paths.
///
/// # Errors
/// One message for each file that does not read, names no command, or gives something else than it says.
pub fn run_folder(folder: &Path, bless: bool) -> Result<usize, Vec<String>> {
    let mut failures = Vec::new();
    let files = files(folder).map_err(|error| vec![format!("{}: {error}", folder.display())])?;
    for path in &files {
        if let Err(message) = run_file(path, bless) {
            failures.push(format!("{}\n{message}", path.display()));
        }
    }
    if failures.is_empty() { Ok(files.len()) } else { Err(failures) }
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn run_file(path: &Path, bless: bool) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (program, expected) = text.split_once(MARK).unwrap_or((&text, ""));
    let mut header = program.lines().map_while(|line| line.strip_prefix("# "));
    let name = header.next().and_then(|line| line.strip_prefix("test ")).unwrap_or_default();
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
        return Err(format!("the first line must be `# test NAME` with one of {}", names.join(", ")));
    };
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let case = Case { file, settings: header.collect(), program };
    let mut actual = (command.run)(&case).unwrap_or_else(|error| error);
    if !actual.ends_with('\n') {
        actual.push('\n');
    }
    if actual == expected {
        return Ok(());
    }
    if bless {
        return std::fs::write(path, format!("{program}{MARK}{actual}")).map_err(|error| error.to_string());
    }
    Err(format!("expected\n{expected}\ncame out\n{actual}\nTILEWRIGHT_BLESS=1 accepts it"))
}
