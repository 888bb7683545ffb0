//! The structure of the crate, read from its source: no arrow upwards, no operator listed twice.

use std::fs;
use std::path::{Path, PathBuf};

use tilewright::tensor::{elementwise, monoid, ops};

/// Lower levels first; a module may name those before it.
const LAYERS: [&str; 8] = ["text", "dim", "tensor", "superopt", "block", "fuse", "task", "kernel"];

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![source_folder()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The layer of a file, by its first folder or its own name.
fn layer(file: &Path) -> Option<usize> {
    let relative = file.strip_prefix(source_folder()).expect("a file of the crate");
    let first = relative.iter().next()?.to_str()?.trim_end_matches(".rs").to_string();
    LAYERS.iter().position(|name| *name == first)
}

/// Source without comments, so that prose may name any level.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("readable source");
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_layer_names_a_higher_one() {
    let mut wrong = Vec::new();
    for file in sources() {
        let Some(own) = layer(&file) else { continue };
        let code = code(&file);
        for higher in &LAYERS[own + 1..] {
            if code.contains(&format!("crate::{higher}::")) || code.contains(&format!("crate::{higher};")) {
                wrong.push(format!("{} names crate::{higher}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_operator_is_listed_twice() {
    let names: Vec<&str> = elementwise::TABLE
        .iter()
        .map(|row| row.name)
        .chain(monoid::TABLE.iter().map(|row| row.name))
        .chain(ops::TABLE.iter().map(|row| row.name))
        .collect();
    for name in &names {
        // `min` and `max` are both functions of two values and reductions; nothing else shares a name.
        let most = if ["min", "max"].contains(name) { 2 } else { 1 };
        let rows = names.iter().filter(|other| other == &name).count();
        assert!(rows <= most, "`{name}` stands in {rows} rows");
    }
    for file in sources() {
        let code = code(&file);
        let named: Vec<_> = names.iter().filter(|name| code.contains(&format!("\"{name}\""))).collect();
        let table = file.ends_with("tensor/elementwise.rs");
        assert!(table || named.len() < 12, "{} lists operators again: {named:?}", file.display());
    }
}

#[test]
fn every_level_has_the_same_files() {
    for level in LAYERS[2..].iter().filter(|name| !["fuse", "superopt"].contains(name)) {
        for part in ["ir", "text", "verify", "eval", "lower"] {
            let entry = *level == "tensor" && part == "lower";
            let folder = source_folder().join(level);
            let found = folder.join(format!("{part}.rs")).exists() || folder.join(part).is_dir();
            assert!(found != entry, "{level} has {}{part}", if entry { "a " } else { "no " });
        }
    }
}

#[test]
fn no_file_outgrows_its_idea() {
    for file in sources() {
        let lines = fs::read_to_string(&file).expect("readable source").lines().count();
        assert!(lines <= 900, "{} has {lines} lines", file.display());
    }
}

/// Every fusion rule has a filetest of its name where it fires, and at least one where it must not.
#[test]
fn every_fusion_rule_has_its_filetests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/fuse");
    let names: Vec<String> = fs::read_dir(folder)
        .expect("the filetests of fusion")
        .map(|entry| entry.expect("a readable entry").file_name().to_string_lossy().into_owned())
        .collect();
    for rule in tilewright::fuse::RULES {
        assert!(names.contains(&format!("{}.tensor", rule.name)), "{} has no filetest", rule.name);
        let refused = format!("{}_refused_", rule.name);
        assert!(names.iter().any(|name| name.starts_with(&refused)), "{} is never refused", rule.name);
    }
}
