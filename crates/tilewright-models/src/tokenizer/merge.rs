//! Merging neighbouring symbols, the best pair first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where a chain of symbols ends.
const END: usize = usize::MAX;

/// A part of a text that is, or may become, a token.
#[derive(Clone, Copy)]
pub(super) struct Symbol {
    /// The first byte in the text.
    pub(super) start: usize,
    /// The length in bytes; 0 once it has been merged into the symbol before.
    pub(super) length: usize,
    /// The token, if it is one.
    pub(super) id: Option<u32>,
    before: usize,
    after: usize,
}

/// What two neighbours become.
pub(super) struct Join {
    /// Lower ones come first; of equal ones the leftmost.
    pub(super) priority: u32,
    /// The token.
    pub(super) id: u32,
}

/// A pair that can be merged; stale once the two symbols together have another length.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    priority: u32,
    left: usize,
    length: usize,
    id: u32,
}

/// The symbols of a text and the pairs to merge. Kept between texts for its memory.
#[derive(Default)]
pub(super) struct Merger {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Candidate>>,
}

impl Merger {
    /// Drops all symbols.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.queue.clear();
    }

    /// Adds a symbol of at least one byte behind the last.
    pub(super) fn push(&mut self, start: usize, length: usize, id: Option<u32>) {
        let index = self.symbols.len();
        if let Some(last) = self.symbols.last_mut() {
            last.after = index;
        }
        self.symbols.push(Symbol { start, length, id, before: index.wrapping_sub(1), after: END });
    }

    /// Merges until no pair joins, in O(n log n) calls and steps, and gives the symbols that are left.
    pub(super) fn merge(
        &mut self,
        mut join: impl FnMut(&Symbol, &Symbol) -> Option<Join>,
    ) -> impl Iterator<Item = &Symbol> {
        for index in 1..self.symbols.len() {
            self.consider(index - 1, index, &mut join);
        }
        while let Some(Reverse(best)) = self.queue.pop() {
            let Some(&left) = self.symbols.get(best.left) else { continue };
            let Some(&right) = self.symbols.get(left.after) else { continue };
            if left.length == 0 || left.length + right.length != best.length {
                continue;
            }
            if let Some(merged) = self.symbols.get_mut(best.left) {
                *merged = Symbol { length: best.length, id: Some(best.id), after: right.after, ..left };
            }
            if let Some(gone) = self.symbols.get_mut(left.after) {
                gone.length = 0;
            }
            if let Some(next) = self.symbols.get_mut(right.after) {
                next.before = best.left;
            }
            self.consider(left.before, best.left, &mut join);
            self.consider(best.left, right.after, &mut join);
        }
        self.symbols.iter().filter(|s| s.length > 0)
    }

    fn consider(
        &mut self,
        left: usize,
        right: usize,
        join: &mut impl FnMut(&Symbol, &Symbol) -> Option<Join>,
    ) {
        if let (Some(a), Some(b)) = (self.symbols.get(left), self.symbols.get(right))
            && let Some(Join { priority, id }) = join(a, b)
        {
            self.queue.push(Reverse(Candidate { priority, left, length: a.length + b.length, id }));
        }
    }
}
