//! Renders a chat template; `scripts/check_chat.py` compares what it prints.
//!
//! `render TEMPLATE_FILE [--answer] [NAME=true ...] < MESSAGES`: roles and contents in turn, each a line with its length in
//! bytes, then its bytes. The BOS and EOS tokens are `<bos>` and `<eos>`.

use std::error::Error;
use std::io::{self, BufRead, Read, Write};

use tilewright_models::chat::{ChatTemplate, Message, Request};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let source = std::fs::read_to_string(args.next().ok_or("the name of a template file expected")?)?;
    let mut request = Request::default();
    for arg in args {
        match arg.split_once('=') {
            Some((name, value)) => {
                request.switches.insert(name.to_string(), value == "true");
            }
            None => request.answer |= arg == "--answer",
        }
    }
    let (mut input, mut line, mut parts) = (io::stdin().lock(), String::new(), Vec::new());
    while input.read_line(&mut line)? > 0 {
        let mut text = Vec::new();
        input.by_ref().take(line.trim().parse()?).read_to_end(&mut text)?;
        line.clear();
        parts.push(String::from_utf8(text)?);
    }
    let messages: Vec<Message> = parts.chunks_exact(2).map(|m| Message::new(&m[0], &m[1])).collect();
    let text = ChatTemplate::new(&source, "<bos>", "<eos>")?.render(&messages, &request)?;
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
