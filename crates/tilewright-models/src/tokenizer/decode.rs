//! From tokens back to text, one token at a time.

use super::vocabulary::Kind;
use super::{Model, Tokenizer, bytes, spm};

/// A token that the vocabulary does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {id} is not in the vocabulary of {count} tokens")]
pub struct UnknownToken {
    /// The token.
    pub id: u32,
    /// The number of tokens.
    pub count: u32,
}

/// Turns tokens into text as they come. What it gives are whole characters: the bytes of one that is not complete wait
/// for the next token. All that it gives, joined, is the text of all tokens joined, with U+FFFD for what is not UTF-8.
pub struct Decoder<'t> {
    tokenizer: &'t Tokenizer,
    control: bool,
    /// Whether a space at the front belongs to the vocabulary and not to the text.
    strip: bool,
    pending: Vec<u8>,
}

impl<'t> Decoder<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, control: bool, start: bool) -> Decoder<'t> {
        let prefix = matches!(&tokenizer.model, Model::Spm(spm) if spm.space_prefix);
        Decoder { tokenizer, control, strip: start && prefix, pending: Vec::new() }
    }

    /// Takes a token and gives the text that is complete now, perhaps none.
    pub fn push(&mut self, id: u32) -> Result<String, UnknownToken> {
        let vocabulary = &self.tokenizer.vocabulary;
        let unknown = UnknownToken { id, count: vocabulary.len() };
        let (text, kind) = vocabulary.text(id).zip(vocabulary.kind(id)).ok_or(unknown)?;
        match (kind, &self.tokenizer.model) {
            (Kind::Control | Kind::Unknown, _) => {
                if self.control {
                    self.pending.extend(text.bytes());
                }
                return Ok(self.complete());
            }
            (Kind::UserDefined, _) => self.pending.extend(text.bytes()),
            (Kind::Byte, _) if let Some(byte) = spm::byte_of(text) => self.pending.push(byte),
            (_, Model::Bpe(_)) => {
                let letters: Option<Vec<u8>> = text.chars().map(bytes::byte_of).collect();
                self.pending.extend(letters.unwrap_or_else(|| text.bytes().collect()));
            }
            (_, Model::Spm(_)) => {
                let text = if self.strip { text.strip_prefix(spm::SPACE).unwrap_or(text) } else { text };
                self.pending.extend(text.replace(spm::SPACE, " ").bytes());
            }
        }
        self.strip = false;
        Ok(self.complete())
    }

    /// The end of the text: U+FFFD if it ends inside a character.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&rest).into_owned()
    }

    /// Takes all but an incomplete character at the end.
    fn complete(&mut self) -> String {
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(all) => {
                    text.push_str(all);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, &[]));
                    text.push_str(std::str::from_utf8(valid).unwrap_or(""));
                    rest = after;
                    let Some(wrong) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = rest.get(wrong..).unwrap_or(&[]);
                }
            }
        }
        let left = rest.len();
        self.pending.drain(..self.pending.len() - left);
        text
    }
}
