//! The task programs of `tests/tasks`, right ones, written by hand.

use std::path::Path;
use tilewright::task::{Program, text};

/// The name and the text of every program, by name.
pub fn texts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tasks");
    let mut found: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).expect("a text"))
        })
        .collect();
    found.sort();
    assert!(found.len() >= 12, "programs are missing");
    found
}

/// A program of `texts`.
pub fn parse(name: &str, text: &str) -> Program {
    text::parse(&format!("{name}.task"), text).unwrap_or_else(|error| panic!("{error}"))
}
