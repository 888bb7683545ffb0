//! Byte-level BPE: pieces of bytes, merged by rank.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::bytes;
use super::merge::{Join, Merger};
use super::scan::Row;
use super::vocabulary::{Kind, Vocabulary, text_of};
use crate::gguf::{Error, Gguf, Value, shown};

/// The merges, best first: two texts with a space between.
const MERGES_KEY: &str = "tokenizer.ggml.merges";
/// The name of the pre-tokenizer.
const PRE_KEY: &str = "tokenizer.ggml.pre";

/// A byte-level BPE model.
pub(super) struct Bpe {
    pub(super) row: &'static Row,
    /// The token of each byte.
    bytes: [Option<u32>; 256],
    /// For each token on the left, where its merges end in `merges`.
    ends: Vec<usize>,
    /// Merges, by the token on the left, then by that on the right.
    merges: Vec<Merge>,
}

/// A merge of some token with `right`.
#[derive(Clone, Copy)]
struct Merge {
    right: u32,
    rank: u32,
    id: u32,
}

impl Bpe {
    /// Reads pre-tokenizer and merges. Both parts and the result of each merge must be tokens.
    pub(super) fn read(gguf: &Gguf, vocabulary: &Vocabulary) -> Result<Bpe, Error> {
        let name = gguf.str(PRE_KEY)?.unwrap_or("default");
        let row = Row::find(name).ok_or_else(|| {
            let known: Vec<_> = super::scan::TABLE.iter().flat_map(|row| row.names).copied().collect();
            let reason = format!("pre-tokenizer {} is not supported; {} are", shown(name), known.join(", "));
            gguf.key_error(PRE_KEY, reason)
        })?;
        let array = gguf.array(MERGES_KEY)?.ok_or_else(|| gguf.missing(MERGES_KEY))?;
        if u32::try_from(array.len()).is_err() {
            return Err(gguf.key_error(MERGES_KEY, "too many merges"));
        }
        let mut found = Vec::with_capacity(array.len());
        for (value, rank) in array.values().zip(0..) {
            let text = text_of(gguf, MERGES_KEY, value)?;
            let merge = parse_merge(vocabulary, text);
            let (left, right, id) = merge.ok_or_else(|| {
                let at = if let Value::String(text) = value { text.offset } else { array.offset() };
                let reason = format!(
                    "merge {rank}, `{}`: two tokens with a space between expected, which together are a token",
                    shown(text)
                );
                gguf.fault(MERGES_KEY, crate::gguf::Fault { offset: at, reason })
            })?;
            found.push((left, Merge { right, rank, id }));
        }
        found.sort_by_key(|(left, merge)| (*left, merge.right, merge.rank));
        found.dedup_by_key(|(left, merge)| (*left, merge.right));
        let mut ends = vec![0; vocabulary.len() as usize];
        for (index, (left, _)) in found.iter().enumerate() {
            if let Some(end) = ends.get_mut(*left as usize) {
                *end = index + 1;
            }
        }
        let mut last = 0;
        for end in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        let mut buffer = [0; 4];
        let token = |byte: u8, buffer: &mut [u8; 4]| vocabulary.id(bytes::char_of(byte).encode_utf8(buffer));
        let bytes = std::array::from_fn(|byte| token(byte as u8, &mut buffer));
        Ok(Bpe { row, bytes, ends, merges: found.into_iter().map(|(_, merge)| merge).collect() })
    }

    fn join(&self, left: u32, right: u32) -> Option<Join> {
        let left = left as usize;
        let start = left.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        let merges = self.merges.get(start..*self.ends.get(left)?)?;
        let found = merges.binary_search_by_key(&right, |merge| merge.right).ok()?;
        merges.get(found).map(|merge| Join { priority: merge.rank, id: merge.id })
    }

    /// Appends the tokens of a text without special tokens; gives how many bytes no token can express.
    pub(super) fn encode(&self, vocabulary: &Vocabulary, text: &str, out: &mut Vec<u32>) -> usize {
        let text = match is_nfc_quick(text.chars()) {
            _ if !self.row.composed => Cow::Borrowed(text),
            IsNormalized::Yes => Cow::Borrowed(text),
            _ => Cow::Owned(text.nfc().collect::<String>()),
        };
        let (mut merger, mut letters, mut dropped) = (Merger::default(), String::new(), 0);
        self.row.pieces(&text, &mut |piece| {
            if self.row.whole_pieces {
                letters.clear();
                letters.extend(piece.bytes().map(bytes::char_of));
                let whole = vocabulary.id(&letters);
                if let Some(id) = whole.filter(|&id| vocabulary.kind(id) == Some(Kind::Normal)) {
                    return out.push(id);
                }
            }
            merger.clear();
            for (at, byte) in piece.bytes().enumerate() {
                match self.bytes.get(usize::from(byte)).copied().flatten() {
                    Some(id) => merger.push(at, 1, Some(id)),
                    None => dropped += 1,
                }
            }
            let merged = merger.merge(|a, b| self.join(a.id?, b.id?));
            out.extend(merged.filter_map(|symbol| symbol.id));
        });
        dropped
    }
}

/// The parts and the result of a merge.
fn parse_merge(vocabulary: &Vocabulary, text: &str) -> Option<(u32, u32, u32)> {
    // A space at the front belongs to the left part.
    let space = text.char_indices().skip(1).find(|&(_, c)| c == ' ')?.0;
    let (left, right) = text.split_at_checked(space)?;
    let right = right.get(1..)?;
    Some((vocabulary.id(left)?, vocabulary.id(right)?, vocabulary.id(&format!("{left}{right}"))?))
}
