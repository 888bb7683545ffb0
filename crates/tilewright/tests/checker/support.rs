//! Programs by text, and verdicts on them.

use tilewright::superopt::check::{Contract, Evidence, Options, Refusal, Verdict, check};
use tilewright::tensor::{Program, text};

#[track_caller]
pub fn parse(source: &str) -> Program {
    text::parse("test.tensor", source).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
pub fn accepted(program: &str, candidate: &str) -> Evidence {
    accepted_under(Contract::Fast, program, candidate)
}

#[track_caller]
pub fn accepted_under(contract: Contract, program: &str, candidate: &str) -> Evidence {
    let options = Options { contract, ..Options::default() };
    match check(&parse(program), &parse(candidate), &options) {
        Verdict::Accept(evidence) => evidence,
        Verdict::Refuse(refusal) => panic!("{refusal}\n{candidate}"),
    }
}

#[track_caller]
pub fn refused(program: &str, candidate: &str) -> Refusal {
    refused_under(Contract::Fast, program, candidate)
}

#[track_caller]
pub fn refused_under(contract: Contract, program: &str, candidate: &str) -> Refusal {
    let options = Options { contract, ..Options::default() };
    match check(&parse(program), &parse(candidate), &options) {
        Verdict::Accept(evidence) => panic!("accepted: {evidence}\n{candidate}"),
        Verdict::Refuse(refusal) => refusal,
    }
}

/// The programs of the folder `programs`, by name.
pub fn programs() -> Vec<(String, Program)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of programs")
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tensor"))
        .collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let source = std::fs::read_to_string(path).expect("a readable program");
        (name, parse(&source))
    };
    files.iter().map(read).collect()
}
