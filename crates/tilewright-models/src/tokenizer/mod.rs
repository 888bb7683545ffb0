//! Tokenizers, from the metadata of a GGUF file.
//!
//! Two models: byte-level BPE (`tokenizer.ggml.model` = `gpt2`) with the pre-tokenizers of the Llama 3, Qwen 2 and 3,
//! SmolLM and GPT-2 families, and SentencePiece BPE (`llama`: Llama 2, Mixtral, Gemma) with scores and bytes. Special
//! tokens are found first, the longest at the leftmost place; the text between them is encoded piece by piece, in time
//! O(n log n) for any text and any vocabulary.

mod bpe;
mod bytes;
mod decode;
mod merge;
mod scan;
mod spm;
mod vocabulary;

use std::borrow::Cow;
use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::gguf::{Error, Gguf, shown};
use bpe::Bpe;
pub use decode::{Decoder, UnknownToken};
use spm::Spm;
pub use vocabulary::Kind;
use vocabulary::{TOKENS_KEY, Vocabulary};

/// The most bytes of all special tokens.
const MOST_SPECIAL_BYTES: usize = 1 << 22;

/// The texts of control tokens that end a turn or a text, beside those that the file names by id.
const ENDS: [&str; 9] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<EOT>",
    "</s>",
];

/// How a text is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether control tokens such as `<|im_end|>` in the text are recognised; otherwise they are ordinary text.
    pub control: bool,
    /// Whether the tokens that the file asks for are added at the start and the end (BOS, EOS). A BOS or EOS that the
    /// text already has there is not doubled.
    pub boundaries: bool,
}

/// The tokens of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// The tokens.
    pub ids: Vec<u32>,
    /// How many bytes of the text the vocabulary cannot express. They are left out, or stand as the unknown token.
    pub dropped: usize,
}

/// The model that forms tokens.
enum Model {
    Bpe(Bpe),
    Spm(Spm),
}

impl Model {
    /// A text in the form in which special tokens are looked for. SentencePiece cannot tell `▁` from a space.
    fn spaced<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self {
            Model::Spm(_) if text.contains(spm::SPACE) => Cow::Owned(text.replace(spm::SPACE, " ")),
            _ => Cow::Borrowed(text),
        }
    }
}

/// A tokenizer.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    model: Model,
    /// User-defined tokens.
    user: Special,
    /// User-defined, control and unknown tokens.
    all: Special,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    ends: BTreeSet<u32>,
}

impl Tokenizer {
    /// The tokenizer of a file. Errors name the key, the byte and the reason.
    pub fn from_gguf(gguf: &Gguf) -> Result<Tokenizer, Error> {
        const MODEL_KEY: &str = "tokenizer.ggml.model";
        let vocabulary = Vocabulary::read(gguf)?;
        let token = |name: &str| {
            let key = format!("tokenizer.ggml.{name}_token_id");
            match gguf.uint(&key)? {
                // The largest u32 is written where there is no such token.
                None | Some(0xffff_ffff) => Ok(None),
                Some(id) => match u32::try_from(id) {
                    Ok(id) if id < vocabulary.len() => Ok(Some(id)),
                    _ => Err(gguf.key_error(&key, format!("token {id} of {}", vocabulary.len()))),
                },
            }
        };
        let (bos, eos, unknown) = (token("bos")?, token("eos")?, token("unknown")?);
        let (model, add_bos) = match gguf.str(MODEL_KEY)?.ok_or_else(|| gguf.missing(MODEL_KEY))? {
            "gpt2" => {
                let bpe = Bpe::read(gguf, &vocabulary)?;
                let bos = bpe.row.bos;
                (Model::Bpe(bpe), bos)
            }
            "llama" => {
                let prefix = gguf.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
                (Model::Spm(Spm::read(gguf, &vocabulary, unknown, prefix)?), true)
            }
            other => {
                let reason = format!("tokenizer {} is not supported; gpt2 and llama are", shown(other));
                return Err(gguf.key_error(MODEL_KEY, reason));
            }
        };
        let added = |name: &str, default: bool, token: Option<u32>| {
            let key = format!("tokenizer.ggml.add_{name}_token");
            match gguf.bool(&key)? {
                Some(true) if token.is_none() => Err(gguf.key_error(&key, "the file names no such token")),
                stated => Ok(stated.unwrap_or(default) && token.is_some()),
            }
        };
        let (add_bos, add_eos) = (added("bos", add_bos, bos)?, added("eos", false, eos)?);
        let mut ends: BTreeSet<u32> = [eos, token("eot")?, token("eom")?].into_iter().flatten().collect();
        ends.extend(
            ENDS.iter().filter_map(|text| {
                vocabulary.id(text).filter(|&id| vocabulary.kind(id) == Some(Kind::Control))
            }),
        );
        let user = Special::new(gguf, &vocabulary, &model, |kind| kind == Kind::UserDefined)?;
        let all = Special::new(gguf, &vocabulary, &model, |kind| {
            matches!(kind, Kind::UserDefined | Kind::Control | Kind::Unknown)
        })?;
        Ok(Tokenizer { vocabulary, model, user, all, bos, eos, add_bos, add_eos, ends })
    }

    /// The number of tokens.
    pub fn len(&self) -> u32 {
        self.vocabulary.len()
    }

    /// Whether there are no tokens; never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of a token as the file writes it: in a byte-level vocabulary a letter for each byte.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// The kind of a token.
    pub fn kind(&self, id: u32) -> Option<Kind> {
        self.vocabulary.kind(id)
    }

    /// The token that the file writes as this text.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.vocabulary.id(text)
    }

    /// The token at the beginning of a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token at the end of a text or of a turn.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The tokens at which generation stops.
    pub fn ends(&self) -> &BTreeSet<u32> {
        &self.ends
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str, options: Options) -> Encoding {
        let text = self.model.spaced(text);
        let mut found = Encoding::default();
        let mut behind_special = true;
        let special = if options.control { &self.all } else { &self.user };
        special.split(&text, |part| match part {
            Part::Token(id) => {
                found.ids.push(id);
                behind_special = true;
            }
            Part::Text(text) => {
                found.dropped += match &self.model {
                    Model::Bpe(bpe) => bpe.encode(&self.vocabulary, text, &mut found.ids),
                    Model::Spm(spm) => spm.encode(&self.vocabulary, text, behind_special, &mut found.ids),
                };
                behind_special = false;
            }
        });
        if options.boundaries {
            if let Some(bos) = self.bos.filter(|bos| self.add_bos && found.ids.first() != Some(bos)) {
                found.ids.insert(0, bos);
            }
            if let Some(eos) = self.eos.filter(|eos| self.add_eos && found.ids.last() != Some(eos)) {
                found.ids.push(eos);
            }
        }
        found
    }

    /// The text of tokens, control tokens written out if `control` and left out otherwise.
    pub fn decode(&self, ids: &[u32], control: bool) -> Result<String, UnknownToken> {
        let mut decoder = self.decoder(control, true);
        let mut text = String::new();
        for &id in ids {
            text.push_str(&decoder.push(id)?);
        }
        text.push_str(&decoder.finish());
        Ok(text)
    }

    /// A decoder of a stream of tokens, control tokens written out if `control` and left out otherwise; `start` says that
    /// the tokens begin a text rather than continue one.
    pub fn decoder(&self, control: bool, start: bool) -> Decoder<'_> {
        Decoder::new(self, control, start)
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let model = match &self.model {
            Model::Bpe(bpe) => bpe.row.names.first().copied().unwrap_or("bpe"),
            Model::Spm(_) => "spm",
        };
        write!(f, "Tokenizer({model}, {} tokens)", self.len())
    }
}

/// A part of a text: ordinary text, or a special token.
enum Part<'t> {
    Text(&'t str),
    Token(u32),
}

/// Finds special tokens.
struct Special {
    matcher: Option<AhoCorasick>,
    ids: Vec<u32>,
}

impl Special {
    fn new(
        gguf: &Gguf,
        vocabulary: &Vocabulary,
        model: &Model,
        wanted: impl Fn(Kind) -> bool,
    ) -> Result<Special, Error> {
        let mut ids = Vec::new();
        let mut texts = Vec::new();
        let mut size = 0;
        for id in 0..vocabulary.len() {
            let text = vocabulary.text(id).unwrap_or("");
            if !text.is_empty() && vocabulary.kind(id).is_some_and(&wanted) && vocabulary.id(text) == Some(id)
            {
                size += text.len();
                ids.push(id);
                texts.push(model.spaced(text));
            }
        }
        if size > MOST_SPECIAL_BYTES {
            let reason =
                format!("special tokens of {size} bytes together; at most {MOST_SPECIAL_BYTES} are allowed");
            return Err(gguf.key_error(TOKENS_KEY, reason));
        }
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts.iter().map(|t| t.as_bytes()));
        let matcher = matcher.map_err(|e| gguf.key_error(TOKENS_KEY, format!("special tokens: {e}")))?;
        Ok(Special { matcher: (!ids.is_empty()).then_some(matcher), ids })
    }

    /// Gives the parts of a text in order, none of them empty.
    fn split<'t>(&self, text: &'t str, mut emit: impl FnMut(Part<'t>)) {
        let mut at = 0;
        let emit_text = |from: usize, to: usize, emit: &mut dyn FnMut(Part<'t>)| {
            if let Some(part) = text.get(from..to).filter(|part| !part.is_empty()) {
                emit(Part::Text(part));
            }
        };
        for found in self.matcher.iter().flat_map(|m| m.find_iter(text)) {
            if let Some(&id) = self.ids.get(found.pattern().as_usize()) {
                emit_text(at, found.start(), &mut emit);
                emit(Part::Token(id));
                at = found.end();
            }
        }
        emit_text(at, text.len(), &mut emit);
    }
}
