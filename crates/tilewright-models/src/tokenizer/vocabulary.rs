//! The tokens of a file: texts, kinds, and the token of a text.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::gguf::{Error, Fault, Gguf, Value};

/// The most tokens of a vocabulary.
const MOST_TOKENS: usize = 1 << 22;

/// The texts of the tokens.
pub(super) const TOKENS_KEY: &str = "tokenizer.ggml.tokens";
/// The kinds of the tokens.
const KINDS_KEY: &str = "tokenizer.ggml.token_type";

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Normal,
    /// Stands for what the vocabulary cannot express.
    Unknown,
    /// Steers the model, such as the end of a turn. Not text.
    Control,
    /// Text that is always one token.
    UserDefined,
    /// Not used.
    Unused,
    /// One byte, as `<0x0A>`.
    Byte,
}

impl Kind {
    fn from_id(id: u64) -> Option<Kind> {
        Some(match id {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => return None,
        })
    }
}

/// Strings in one piece of memory.
struct Texts {
    /// All texts, one behind the other.
    joined: String,
    /// Where each text ends.
    ends: Vec<usize>,
}

impl Texts {
    fn get(&self, id: u32) -> Option<&str> {
        let id = id as usize;
        let start = id.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.joined.get(start..*self.ends.get(id)?)
    }
}

/// Texts and kinds of all tokens.
pub(super) struct Vocabulary {
    texts: Texts,
    kinds: Vec<Kind>,
    index: Index,
}

impl Vocabulary {
    /// Reads the tokens of a file.
    pub(super) fn read(gguf: &Gguf) -> Result<Vocabulary, Error> {
        let tokens = gguf.array(TOKENS_KEY)?.ok_or_else(|| gguf.missing(TOKENS_KEY))?;
        if tokens.is_empty() || tokens.len() > MOST_TOKENS {
            let reason = format!("{} tokens; 1 to {MOST_TOKENS} are allowed", tokens.len());
            return Err(gguf.key_error(TOKENS_KEY, reason));
        }
        let mut texts = Texts { joined: String::new(), ends: Vec::with_capacity(tokens.len()) };
        let mut index = Index::new(tokens.len());
        for (value, id) in tokens.values().zip(0..) {
            texts.joined.push_str(text_of(gguf, TOKENS_KEY, value)?);
            texts.ends.push(texts.joined.len());
            index.insert(id, &texts);
        }
        let count = texts.ends.len();
        let kinds = match gguf.array(KINDS_KEY)? {
            None => vec![Kind::Normal; count],
            Some(kinds) if kinds.len() != count => {
                let reason = format!("{} kinds for {count} tokens", kinds.len());
                return Err(gguf.key_error(KINDS_KEY, reason));
            }
            Some(kinds) => {
                let kind = |v: Value| v.as_uint().and_then(Kind::from_id);
                let kinds: Option<Vec<_>> = kinds.values().map(kind).collect();
                kinds.ok_or_else(|| gguf.key_error(KINDS_KEY, "kinds are the integers 1 to 6"))?
            }
        };
        Ok(Vocabulary { texts, kinds, index })
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> u32 {
        self.kinds.len() as u32
    }

    /// The text of a token, as the file writes it.
    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id)
    }

    /// The kind of a token.
    pub(super) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }

    /// The token with this text, written as in the file; of several the last.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.index.find(text, &self.texts)
    }
}

/// The string that an element of an array must be.
pub(super) fn text_of<'a>(gguf: &Gguf, key: &str, value: Value<'a>) -> Result<&'a str, Error> {
    match value {
        Value::String(text) => {
            text.utf8().map_err(|Fault { offset, reason }| gguf.fault(key, Fault { offset, reason }))
        }
        _ => Err(gguf.key_error(key, "an array of strings expected")),
    }
}

/// A hash table from texts to ids that holds no texts. Lookups cost the same whatever texts a file holds: the hash has a
/// random key.
struct Index {
    /// Ids plus one, 0 for free; a power of two of them, at least half free.
    slots: Vec<u32>,
    hasher: RandomState,
}

impl Index {
    fn new(count: usize) -> Index {
        Index { slots: vec![0; (2 * count).next_power_of_two()], hasher: RandomState::new() }
    }

    /// The place of a text, or the free place for it.
    fn place(&self, text: &str, texts: &Texts) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let hash = self.hasher.hash_one(text) as usize;
        (0..=mask).map(|step| hash.wrapping_add(step) & mask).find(|&slot| match self.slots.get(slot) {
            Some(0) | None => true,
            Some(id) => texts.get(id - 1) == Some(text),
        })
    }

    /// Enters a text, in place of an equal one that was entered before.
    fn insert(&mut self, id: u32, texts: &Texts) {
        let place = texts.get(id).and_then(|text| self.place(text, texts));
        if let Some(slot) = place.and_then(|place| self.slots.get_mut(place)) {
            *slot = id + 1;
        }
    }

    fn find(&self, text: &str, texts: &Texts) -> Option<u32> {
        self.slots.get(self.place(text, texts)?)?.checked_sub(1)
    }
}
