//! SentencePiece BPE: characters, merged by the score of the result; what is no token is written in bytes.

use std::collections::HashMap;

use super::merge::{Join, Merger};
use super::vocabulary::{Kind, Vocabulary};
use crate::gguf::{Error, Gguf, Value};

/// The scores of the tokens.
const SCORES_KEY: &str = "tokenizer.ggml.scores";
/// What stands for a space in the texts of tokens.
pub(super) const SPACE: char = '▁';

/// A SentencePiece model.
pub(super) struct Spm {
    /// For each token its place in the order of merges: the higher the score, the lower.
    priorities: Vec<u32>,
    /// The token of each byte.
    bytes: [Option<u32>; 256],
    /// The token for what cannot be expressed.
    unknown: Option<u32>,
    /// Whether a space is put before a text, and behind each special token.
    pub(super) space_prefix: bool,
    /// The most bytes of a token.
    longest: usize,
}

impl Spm {
    /// Reads the scores.
    pub(super) fn read(
        gguf: &Gguf,
        vocabulary: &Vocabulary,
        unknown: Option<u32>,
        space_prefix: bool,
    ) -> Result<Spm, Error> {
        let scores = gguf.array(SCORES_KEY)?.ok_or_else(|| gguf.missing(SCORES_KEY))?;
        if scores.len() != vocabulary.len() as usize {
            let reason = format!("{} scores for {} tokens", scores.len(), vocabulary.len());
            return Err(gguf.key_error(SCORES_KEY, reason));
        }
        let priority = |value: Value| match value {
            Value::F32(score) if !score.is_nan() => Some(priority(score)),
            _ => None,
        };
        let priorities: Option<Vec<_>> = scores.values().map(priority).collect();
        let priorities =
            priorities.ok_or_else(|| gguf.key_error(SCORES_KEY, "numbers of type f32 expected"))?;
        let mut bytes = [None; 256];
        let mut longest = 0;
        for id in 0..vocabulary.len() {
            let text = vocabulary.text(id).unwrap_or("");
            longest = longest.max(text.len());
            if vocabulary.kind(id) == Some(Kind::Byte)
                && let Some(slot) = byte_of(text).and_then(|byte| bytes.get_mut(usize::from(byte)))
            {
                *slot = Some(id);
            }
        }
        Ok(Spm { priorities, bytes, unknown, space_prefix, longest })
    }

    /// The token that a text can be merged into.
    fn token(&self, vocabulary: &Vocabulary, text: &str) -> Option<u32> {
        if text.len() > self.longest {
            return None;
        }
        let id = vocabulary.id(text)?;
        matches!(vocabulary.kind(id)?, Kind::Normal | Kind::UserDefined | Kind::Unused).then_some(id)
    }

    /// Appends the tokens of a text without special tokens; gives how many bytes no token can express.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        prefix: bool,
        out: &mut Vec<u32>,
    ) -> usize {
        let mut spaced = String::with_capacity(text.len() + SPACE.len_utf8());
        spaced.extend((prefix && self.space_prefix && !text.is_empty()).then_some(SPACE));
        spaced.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
        let text = |start: usize, length: usize| spaced.get(start..start + length).unwrap_or("");

        let mut merger = Merger::default();
        for (start, c) in spaced.char_indices() {
            let length = c.len_utf8();
            merger.push(start, length, self.token(vocabulary, text(start, length)));
        }
        // Where the left part of an unused token ends: such a token is taken apart again.
        let mut parts: HashMap<u32, usize> = HashMap::new();
        let merged = merger.merge(|a, b| {
            let id = self.token(vocabulary, text(a.start, a.length + b.length))?;
            if vocabulary.kind(id) == Some(Kind::Unused) {
                parts.insert(id, a.length);
            }
            Some(Join { priority: self.priorities.get(id as usize).copied()?, id })
        });
        let mut unknown = Unknown { token: self.unknown, last: false, dropped: 0 };
        let mut stack = Vec::new();
        let symbols: Vec<_> = merged.copied().collect();
        for symbol in symbols {
            stack.push((symbol.start, symbol.length));
            while let Some((start, length)) = stack.pop() {
                let id = self.token(vocabulary, text(start, length));
                let split =
                    id.filter(|&id| vocabulary.kind(id) == Some(Kind::Unused)).and_then(|id| parts.get(&id));
                match (id, split) {
                    (_, Some(&left)) if left > 0 && left < length => {
                        stack.push((start + left, length - left));
                        stack.push((start, left));
                    }
                    (Some(id), _) => {
                        unknown.last = false;
                        out.push(id);
                    }
                    (None, _) => self.write_bytes(text(start, length).as_bytes(), &mut unknown, out),
                }
            }
        }
        unknown.dropped
    }

    /// Appends the tokens of bytes if all have one; else one unknown token for a run of such bytes.
    fn write_bytes(&self, bytes: &[u8], unknown: &mut Unknown, out: &mut Vec<u32>) {
        let token = |byte: &u8| self.bytes.get(usize::from(*byte)).copied().flatten();
        let ids: Option<Vec<u32>> = bytes.iter().map(token).collect();
        match ids {
            Some(ids) => {
                unknown.last = false;
                out.extend(ids);
            }
            None => {
                if !unknown.last {
                    out.extend(unknown.token);
                }
                unknown.last = true;
                unknown.dropped += bytes.len();
            }
        }
    }
}

/// How text that cannot be expressed is written.
struct Unknown {
    token: Option<u32>,
    /// Whether the last bytes could not be expressed.
    last: bool,
    /// How many bytes could not.
    dropped: usize,
}

/// Orders scores as integers: the higher the score, the lower.
fn priority(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !ascending
}

/// The byte that a text such as `<0x0A>` names.
pub(super) fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_the_reverse_of_scores() {
        let scores = [f32::INFINITY, 1e9, 1.0, 0.0, -1e-30, -1.0, -2.0, f32::NEG_INFINITY];
        assert!(scores.windows(2).all(|s| priority(s[0]) < priority(s[1])));
        assert_eq!(priority(0.0), priority(-0.0));
    }

    #[test]
    fn texts_of_bytes() {
        assert_eq!((byte_of("<0x0A>"), byte_of("<0xff>")), (Some(10), Some(255)));
        assert_eq!((byte_of("<0x+A>"), byte_of("<0x0>"), byte_of("0A")), (None, None, None));
    }
}
