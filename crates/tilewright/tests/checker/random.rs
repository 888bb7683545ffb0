//! A reproducible sequence of choices.

use tilewright::superopt::check::hash::mix2;

pub struct Random(u64, u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed, 0)
    }

    pub fn next(&mut self) -> u64 {
        self.1 += 1;
        mix2(self.0, self.1)
    }

    /// Below `n`; 0 if there is nothing below.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}
