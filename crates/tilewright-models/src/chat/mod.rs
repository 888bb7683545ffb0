//! Chat templates: from messages to the text that a model continues.
//!
//! A template is a program, in the language of Jinja, from a file that nobody vouches for. It runs in an interpreter of
//! its own kind, in which every step, every byte made or looked at and every place in a list is paid for from a budget that
//! grows with the messages: time, memory and output are bounded whatever the template does. It can include nothing, and
//! sees nothing but the messages, the switches, and the texts of the BOS and EOS tokens.
//!
//! The language is the part of Jinja that chat templates use, set up as the `transformers` package does: `if`, `for` with
//! `break` and `continue`, `set`, `with`, `macro`, `raw`, namespaces, and common filters, tests and methods. What is missing
//! is refused by name.

mod ast;
mod eval;
mod filters;
mod json;
mod lex;
mod methods;
mod operate;
mod parse;
mod value;

use std::collections::BTreeMap;
use std::fmt;

use crate::gguf::{self, Gguf};
use crate::tokenizer::Tokenizer;
use value::Value;

/// The key of the template that a file uses unless told otherwise.
const TEMPLATE_KEY: &str = "tokenizer.chat_template";
/// The most bytes of a template.
const LONGEST_TEMPLATE: usize = 1 << 18;
/// The most bytes of all messages together.
const MOST_INPUT: usize = 1 << 24;
/// The budget with no messages, and for each byte of them: a byte costs one, a step sixteen.
const BUDGET: (u64, u64) = (1 << 25, 64);
/// Bytes of output allowed with no messages, and for each byte of them.
const OUTPUT: (usize, usize) = (1 << 20, 16);

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// What a template is told besides the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether the text ends with the beginning of an answer (`add_generation_prompt`).
    pub answer: bool,
    /// Truth values by name, such as `enable_thinking`.
    pub switches: BTreeMap<String, bool>,
}

/// Why there is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The template is wrong, or does something that is not supported.
    Template {
        /// The line, from 1, if known.
        line: Option<usize>,
        /// What is wrong.
        message: String,
    },
    /// The template refuses the messages.
    Refused(String),
    /// The template needs more time, memory or output than is allowed, or is too long.
    Limit(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("chat template")?;
        match self {
            Error::Template { line: Some(line), message } => write!(f, ", line {line}: {message}"),
            Error::Template { line: None, message } => write!(f, ": {message}"),
            Error::Refused(message) => write!(f, " refuses the messages: {message}"),
            Error::Limit(message) => write!(f, ": {message}"),
        }
    }
}

impl std::error::Error for Error {}

/// A chat template.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    source: String,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// The template of a file, if it has one. An error if the template does not parse; it names the key.
    pub fn from_gguf(gguf: &Gguf, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, gguf::Error> {
        let Some(source) = gguf.str(TEMPLATE_KEY)? else { return Ok(None) };
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.text(id)).unwrap_or("");
        match ChatTemplate::new(source, text(tokenizer.bos()), text(tokenizer.eos())) {
            Ok(template) => Ok(Some(template)),
            Err(error) => Err(gguf.key_error(TEMPLATE_KEY, error.to_string())),
        }
    }

    /// A template from its text, and the texts of the tokens that it knows as `bos_token` and `eos_token`.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, Error> {
        if source.len() > LONGEST_TEMPLATE {
            let message = format!("{} bytes; at most {LONGEST_TEMPLATE} are allowed", source.len());
            return Err(Error::Limit(message));
        }
        parse::parse(source)?;
        Ok(ChatTemplate { source: source.into(), bos: bos.into(), eos: eos.into() })
    }

    /// The text of a conversation.
    pub fn render(&self, messages: &[Message], request: &Request) -> Result<String, Error> {
        let sizes = messages.iter().map(|m| m.role.len() + m.content.len() + 64);
        let input = sizes.chain(request.switches.keys().map(String::len)).fold(0, usize::saturating_add);
        if input > MOST_INPUT {
            return Err(Error::Limit(format!("messages of {input} bytes; at most {MOST_INPUT} are allowed")));
        }
        let statements = parse::parse(&self.source)?;
        let budget = BUDGET.0 + BUDGET.1 * input as u64;
        let text = eval::run(&statements, self.variables(messages, request), budget)?;
        let most = OUTPUT.0 + OUTPUT.1 * input;
        if text.len() > most {
            let message =
                format!("{} bytes of output; {most} are allowed for messages of this size", text.len());
            return Err(Error::Limit(message));
        }
        Ok(text)
    }

    /// The variables of a template.
    fn variables(&self, messages: &[Message], request: &Request) -> BTreeMap<String, Value> {
        let message = |m: &Message| {
            let fields = [("role", &m.role), ("content", &m.content)];
            Value::dict(fields.map(|(name, text)| (Value::text(name), Value::text(text))).into())
        };
        let mut variables = BTreeMap::from([
            ("messages".to_string(), Value::list(messages.iter().map(message).collect())),
            ("add_generation_prompt".to_string(), Value::Bool(request.answer)),
            ("bos_token".to_string(), Value::text(&self.bos)),
            ("eos_token".to_string(), Value::text(&self.eos)),
            ("tools".to_string(), Value::None),
            ("documents".to_string(), Value::None),
        ]);
        variables.extend(request.switches.iter().map(|(name, &on)| (name.clone(), Value::Bool(on))));
        variables
    }
}
