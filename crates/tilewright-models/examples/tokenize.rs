//! Encodes and decodes texts with the tokenizer of a GGUF file; `scripts/check_tokenizer.py` compares what it prints.
//!
//! `tokenize FILE [--control] [--boundaries] < TEXTS`: each text is a line with its length in bytes, then its bytes. For
//! each it prints a line: the ids, a tab, and the text decoded from them (control tokens shown) in hexadecimal digits.

use std::error::Error;
use std::io::{self, BufRead, Read, Write};

use tilewright_models::gguf::Gguf;
use tilewright_models::tokenizer::{Options, Tokenizer};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("the name of a GGUF file expected")?;
    let flags: Vec<String> = args.collect();
    let flag = |name: &str| flags.iter().any(|f| f == name);
    let options = Options { control: flag("--control"), boundaries: flag("--boundaries") };
    let start = std::time::Instant::now();
    let tokenizer = Tokenizer::from_gguf(&Gguf::open(file)?)?;
    let loaded = start.elapsed();

    let (mut input, mut output) = (io::stdin().lock(), io::BufWriter::new(io::stdout().lock()));
    let (mut line, mut bytes, mut time) = (String::new(), 0, std::time::Duration::ZERO);
    while input.read_line(&mut line)? > 0 {
        let mut text = Vec::new();
        input.by_ref().take(line.trim().parse()?).read_to_end(&mut text)?;
        line.clear();
        let text = String::from_utf8(text)?;
        let start = std::time::Instant::now();
        let ids = tokenizer.encode(&text, options).ids;
        time += start.elapsed();
        bytes += text.len();
        let numbers: Vec<String> = ids.iter().map(u32::to_string).collect();
        let decoded: String = tokenizer.decode(&ids, true)?.bytes().map(|b| format!("{b:02x}")).collect();
        writeln!(output, "{}\t{decoded}", numbers.join(" "))?;
    }
    eprintln!("{tokenizer:?}: loaded in {loaded:?}, {bytes} bytes encoded in {time:?}");
    Ok(())
}
