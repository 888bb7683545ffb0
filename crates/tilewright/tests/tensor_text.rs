//! The text form of tensor programs: round trips, messages, and texts that are broken at random.
//!
//! `tensor_text/samples.txt` holds programs between `== name` lines; `tensor_text/errors.txt` holds texts and, behind
//! `--`, the exact message of each, written anew where `TILEWRIGHT_BLESS=1`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tilewright::tensor::Program;
use tilewright::tensor::text::parse;
use tilewright::tensor::verify::verify;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tensor_text")
}

/// The texts between `== name` lines.
fn sections(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("== ") {
            Some(name) => found.push((name.to_string(), String::new())),
            None => {
                let (_, section) = found.last_mut().expect("a text starts with `== name`");
                section.push_str(line);
                section.push('\n');
            }
        }
    }
    found
}

/// The samples and the programs of the repository, by name.
fn programs() -> Vec<(String, String)> {
    let samples = std::fs::read_to_string(folder().join("samples.txt")).expect("readable");
    let mut found = sections(&samples);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    for entry in std::fs::read_dir(folder).expect("programs/ is there") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "tensor") {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_string();
            found.push((name, std::fs::read_to_string(&path).expect("readable")));
        }
    }
    found.sort();
    found
}

fn check_round_trip(name: &str, program: &Program) {
    let printed = program.to_string();
    let again = parse(name, &printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again, *program, "{printed}");
    assert_eq!(again.to_string(), printed);
}

#[test]
fn programs_round_trip() {
    let programs = programs();
    assert!(programs.len() > 10, "the samples are not there");
    for (name, text) in programs {
        let program = parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        verify(&program).unwrap_or_else(|violation| panic!("{name}: {violation}"));
        check_round_trip(&name, &program);
    }
}

#[test]
fn printing_keeps_what_matters_and_drops_what_does_not() {
    let text = "program p(x: f32[ S , D],r: f32[D,]) -> f32[S, D: D]\n where D = 4 , S in 0 ..= 8 {\n\
                y = mul x[S, D] r[_, D] -> [S, D: D] # scale\n  z = sum y over D accumulate f32\n\
                w = mul y[a, b] z[a]\n return w}";
    let printed = "program p(x: f32[S, D], r: f32[D]) -> f32[S, D]\nwhere D = 4, S in 0..=8\n{\n  y = mul x r\n  \
                   z = sum y over D\n  w = mul y[a, b] z[a] -> [S: a, D: b]\n  return w\n}\n";
    let text = text.replace("z[a]\n", "z[a] -> [S: a, D: b]\n");
    let program = parse("p", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(program.to_string(), printed);
}

#[test]
fn errors_say_where_and_what_would_work() {
    let path = folder().join("errors.txt");
    let file = std::fs::read_to_string(&path).expect("readable");
    let bless = std::env::var_os("TILEWRIGHT_BLESS").is_some();
    let mut blessed = String::new();
    let mut wrong = Vec::new();
    for (name, section) in sections(&file) {
        let (text, expected) = section.split_once("--\n").unwrap_or((&section, ""));
        let message = match parse(&name, text) {
            Ok(program) => format!("no error:\n{program}"),
            Err(error) => format!("{error}\n"),
        };
        assert!(!message.starts_with("no error"), "{name} is legal:\n{message}");
        if message != expected {
            wrong.push(format!("{name}:\n{message}"));
        }
        writeln!(blessed, "== {name}\n{text}--\n{}", message.trim_end()).expect("memory");
    }
    if bless {
        std::fs::write(&path, blessed).expect("writable");
    } else {
        assert!(wrong.is_empty(), "messages differ:\n{}", wrong.join("\n"));
    }
}

/// A generator with a fixed seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        bits as usize % end.max(1)
    }
}

/// Pieces of a text: words, numbers, single other characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let length =
            if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        found.push(&rest[..length]);
        rest = &rest[length..];
    }
    found
}

fn mutate(random: &mut Random, text: &str, words: &[&str]) -> String {
    const SIGNS: [&str; 24] = [
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "=",
        "->",
        "-",
        "+",
        "*",
        "..=",
        "..",
        "<",
        "\n",
        " ",
        "_",
        "0",
        "9223372036854775807",
        "1e999",
        "\"",
        "é",
    ];
    let mut pieces: Vec<String> = pieces(text).into_iter().map(str::to_string).collect();
    let is_word = |piece: &String| piece.chars().all(|c| c.is_alphanumeric() || c == '_');
    for _ in 0..1 + random.below(4) * random.below(2) {
        let at = random.below(pieces.len());
        let other = random.below(pieces.len());
        match random.below(11) {
            0 => pieces.truncate(at),
            1 => pieces.swap(at, other),
            2 => drop(pieces.remove(at)),
            3 => pieces.insert(at, SIGNS[random.below(SIGNS.len())].to_string()),
            4 => pieces.insert(at, format!(" {} ", words[random.below(words.len())])),
            5 => pieces[at] = words[random.below(words.len())].to_string(),
            6 => pieces[at] = pieces[other].clone(),
            7..10 => {
                let places: Vec<usize> = (0..pieces.len()).filter(|k| is_word(&pieces[*k])).collect();
                if !places.is_empty() {
                    let word = pieces[places[random.below(places.len())]].clone();
                    pieces[places[random.below(places.len())]] = word;
                }
            }
            _ => {
                let mut bytes = pieces.concat().into_bytes();
                if !bytes.is_empty() {
                    let at = random.below(bytes.len());
                    bytes[at] = random.below(256) as u8;
                }
                pieces = vec![String::from_utf8_lossy(&bytes).into_owned()];
            }
        }
        if pieces.is_empty() {
            break;
        }
    }
    pieces.concat()
}

#[test]
fn broken_texts_never_panic() {
    let programs = programs();
    let mut words: Vec<&str> = programs.iter().flat_map(|(_, text)| pieces(text)).collect();
    words.retain(|word| !word.trim().is_empty());
    words.sort_unstable();
    words.dedup();
    let mut random = Random(0x5EED);
    let mut legal = 0;
    for _ in 0..10_000 {
        let (name, text) = &programs[random.below(programs.len())];
        let mutated = mutate(&mut random, text, &words);
        match parse(name, &mutated) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(program) => {
                legal += 1;
                verify(&program).unwrap_or_else(|violation| panic!("{violation}\n{mutated}"));
                check_round_trip(name, &program);
            }
        }
    }
    assert!((500..9_000).contains(&legal), "{legal} of 10000 mutated texts are legal");
}
