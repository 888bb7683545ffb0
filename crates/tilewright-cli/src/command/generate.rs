//! `tilewright generate`: text from a language model.

mod output;
mod sample;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tilewright::{Control, Options};
use tilewright_models::chat::{ChatTemplate, Message, Request};
use tilewright_models::family;
use tilewright_models::gguf::Gguf;
use tilewright_models::session::{LanguageModel, Session};
use tilewright_models::tokenizer::{self, Tokenizer};

use super::{Failure, Status};
use output::Output;
use sample::{Sampler, Sampling};

/// The arguments.
#[derive(Debug, Args)]
pub struct Generate {
    /// A model file (GGUF)
    model: PathBuf,
    /// A user's message, put through the model's chat template where it has one
    #[arg(long, short = 'p', conflicts_with_all = ["raw", "chat"])]
    prompt: Option<String>,
    /// The text to go on from, as it is; control tokens in it are recognised
    #[arg(long, conflicts_with = "chat")]
    raw: Option<String>,
    /// A conversation: one message a line from standard input
    #[arg(long)]
    chat: bool,
    /// The most tokens of an answer
    #[arg(short = 'n', long = "tokens", default_value_t = 256)]
    tokens: usize,
    #[command(flatten)]
    sampling: Sampling,
    /// The most tokens of prompt and answers together [default: what the model was made for]
    #[arg(long)]
    context: Option<usize>,
    /// How many workers run the model [default: the processors that the process may use]
    #[arg(long)]
    threads: Option<usize>,
    #[command(flatten)]
    runtime: super::given::RuntimeChoice,
}

/// What one turn took and gave.
#[derive(Default)]
struct Turn {
    ids: Vec<u32>,
    text: String,
    prompt: usize,
    prefill: Duration,
    decode: Duration,
    /// Steps after the first token.
    steps: usize,
    /// Why it ended.
    stop: &'static str,
}

/// Runs the command. Text streams to `stdout` as it comes, unless `as_json`: then it goes to the object of the end only.
pub fn generate(
    arguments: &Generate,
    as_json: bool,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Status, Failure> {
    let start = Instant::now();
    if arguments.prompt.is_none() && arguments.raw.is_none() && !arguments.chat {
        return Err(Failure::usage("nothing to answer: give --prompt TEXT, --raw TEXT or --chat"));
    }
    let mut sampler = Sampler::new(&arguments.sampling)?;
    let gguf = Gguf::open(&arguments.model).map_err(model_failure)?;
    let tokenizer = Tokenizer::from_gguf(&gguf).map_err(model_failure)?;
    let template = ChatTemplate::from_gguf(&gguf, &tokenizer).map_err(model_failure)?;
    let map = start.elapsed();
    if arguments.threads == Some(0) {
        return Err(Failure::usage("--threads 0: at least 1 is needed"));
    }
    let (runtime, threads) = arguments.runtime.compiled(arguments.threads)?;
    let options = Options { runtime, ..Options::default() };
    let loading = Instant::now();
    let model =
        LanguageModel::load(&gguf, family::Options::default(), &options).map_err(|error| match error {
            family::Error::File(error) => model_failure(error),
            family::Error::Compile(error) => error.into(),
            error @ family::Error::Bug { .. } => {
                Failure { status: Status::Mismatch, kind: "bug", message: error.to_string() }
            }
        })?;
    let loaded = loading.elapsed();
    let trained = usize::try_from(model.hyper().context).unwrap_or(usize::MAX);
    let context = arguments.context.unwrap_or(trained);
    if context == 0 || context > trained {
        return Err(Failure::usage(format!(
            "--context {context}: this model was made for 1..={trained} tokens"
        )));
    }
    let mut session = model.session(context)?;
    let mut run = Run {
        tokenizer: &tokenizer,
        most: arguments.tokens,
        sampler: &mut sampler,
        stdout: Output::new(stdout, !as_json),
    };
    if arguments.chat {
        return run.chat(&mut session, template.as_ref(), stderr).map(|()| Status::Good);
    }
    let text = match (&arguments.prompt, &arguments.raw, &template) {
        (Some(message), _, Some(template)) => render(template, &[Message::new("user", message)])?,
        (Some(text), _, None) | (None, Some(text), _) => text.clone(),
        (None, None, _) => return Err(Failure::usage("nothing to answer")),
    };
    let before = start.elapsed();
    let boundaries = arguments.raw.is_none();
    let turn = run.turn(&mut session, &text, boundaries)?;
    run.stdout.text("\n")?;
    let total = start.elapsed();
    let seconds = |time: Duration| time.as_secs_f64();
    let compile = model.phases.compile;
    let prepare = loaded.saturating_sub(compile);
    let phases = [
        ("map", map),
        ("compile", compile),
        ("prepare", prepare),
        ("other", before.saturating_sub(map + loaded)),
        ("first_token", turn.prefill),
    ];
    let cold: Duration = phases.iter().map(|(_, time)| *time).sum();
    let rate = |count: usize, time: Duration| {
        if count == 0 || time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
    };
    let (prefill, decode) = (rate(turn.prompt, turn.prefill), rate(turn.steps, turn.decode));
    if as_json {
        let map: serde_json::Map<String, Value> =
            phases.iter().map(|(name, time)| (name.to_string(), json!(seconds(*time)))).collect();
        let object = json!({
            "ids": turn.ids, "text": turn.text, "stop": turn.stop, "prompt_tokens": turn.prompt,
            "phases": map, "cold_start": seconds(cold), "decode": seconds(turn.decode), "total": seconds(total),
            "prompt_tokens_per_second": prefill, "decode_tokens_per_second": decode,
            "compiles": tilewright::compile::compiles(), "threads": threads,
        });
        run.stdout.always(&format!("{object}\n"))?;
        return Ok(Status::Good);
    }
    let list: Vec<String> = phases
        .iter()
        .map(|(name, time)| format!("{} {:.2} s", name.replace('_', " "), seconds(*time)))
        .collect();
    let _ = writeln!(stderr, "\ncold start {:.2} s = {}", seconds(cold), list.join(" + "));
    let _ = writeln!(
        stderr,
        "prompt {} tokens, {prefill:.1} tokens/s; decode {} steps, {decode:.1} tokens/s; {threads} threads; {}",
        turn.prompt, turn.steps, turn.stop
    );
    Ok(Status::Good)
}

fn model_failure(error: impl std::fmt::Display) -> Failure {
    Failure { status: Status::Usage, kind: "model", message: error.to_string() }
}

fn render(template: &ChatTemplate, messages: &[Message]) -> Result<String, Failure> {
    let request = Request { answer: true, ..Request::default() };
    template.render(messages, &request).map_err(|error| model_failure(format!("chat template: {error}")))
}

/// What every turn needs.
struct Run<'a> {
    tokenizer: &'a Tokenizer,
    most: usize,
    sampler: &'a mut Sampler,
    stdout: Output<'a>,
}

impl Run<'_> {
    /// Feeds a text and streams what follows it.
    fn turn(&mut self, session: &mut Session<'_>, text: &str, boundaries: bool) -> Result<Turn, Failure> {
        let options = tokenizer::Options { control: true, boundaries };
        let ids = self.tokenizer.encode(text, options).ids;
        if ids.is_empty() {
            return Err(Failure::usage("the prompt has no tokens"));
        }
        if ids.len() > session.left() {
            return Err(Failure::input(format!(
                "the context is full: {} tokens are there and the prompt has {}, of at most {}; give a larger --context \
                 or a shorter prompt",
                session.len(),
                ids.len(),
                session.len() + session.left()
            )));
        }
        let control = Control::default();
        let mut turn = Turn { prompt: ids.len(), stop: "as many tokens as asked for", ..Turn::default() };
        let start = Instant::now();
        let mut logits = session.feed(&ids, &control)?;
        let mut decoder = self.tokenizer.decoder(false, false);
        let mut decoding = None;
        while turn.ids.len() < self.most {
            let id = self.sampler.choose(&logits);
            match decoding {
                None => {
                    turn.prefill = start.elapsed();
                    decoding = Some(Instant::now());
                }
                Some(_) => turn.steps += 1,
            }
            if self.tokenizer.ends().contains(&id) {
                turn.stop = "end token";
                break;
            }
            turn.ids.push(id);
            let text = decoder.push(id).map_err(model_failure)?;
            self.stdout.text(&text)?;
            turn.text.push_str(&text);
            if turn.ids.len() == self.most {
                break;
            }
            if session.left() == 0 {
                turn.stop = "the context is full; give a larger --context";
                break;
            }
            logits = session.feed(&[id], &control)?;
        }
        turn.decode = decoding.map(|at| at.elapsed()).unwrap_or_default();
        let rest = decoder.finish();
        self.stdout.text(&rest)?;
        turn.text.push_str(&rest);
        Ok(turn)
    }

    /// A conversation: each line is a message, answered after all that was said before.
    fn chat(
        &mut self,
        session: &mut Session<'_>,
        template: Option<&ChatTemplate>,
        stderr: &mut dyn Write,
    ) -> Result<(), Failure> {
        let template =
            template.ok_or_else(|| Failure::usage("this model has no chat template; use --raw"))?;
        let mut messages: Vec<Message> = Vec::new();
        let mut said = String::new();
        for line in io::stdin().lock().lines() {
            let line = line.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
            if line.trim().is_empty() {
                continue;
            }
            messages.push(Message::new("user", line));
            let text = render(template, &messages)?;
            // What the template makes of an answer may differ from what was generated; then all is read anew.
            let new = match text.strip_prefix(said.as_str()) {
                Some(new) => new.to_string(),
                None => {
                    session.clear();
                    text.clone()
                }
            };
            let boundaries = session.is_empty();
            let turn = self.turn(session, &new, boundaries)?;
            self.stdout.text("\n")?;
            if turn.stop != "end token" {
                let _ = writeln!(stderr, "({})", turn.stop);
            }
            said = text + &turn.text;
            messages.push(Message::new("assistant", turn.text));
        }
        Ok(())
    }
}
