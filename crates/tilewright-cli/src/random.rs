//! Random numbers that are the same on every machine.

/// A stream of random numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        // Seeds are often small and close to each other; their streams are not.
        Random(seed.wrapping_mul(0xd605_1b3d_f0b4_9a87) ^ 0x2545_f491_4f6c_dd1d)
    }

    /// A stream for one of several things made from one seed.
    pub fn named(seed: u64, name: &str) -> Random {
        // FNV-1a.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random::new(seed ^ hash)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer in `0..end`; 0 where `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.bits() % end as u64) as usize }
    }

    /// An integer in `lo..=hi`; `lo` where there is none.
    pub fn between(&mut self, lo: i64, hi: i64) -> i64 {
        let count = (i128::from(hi) - i128::from(lo) + 1).max(1);
        (i128::from(lo) + (i128::from(self.bits()) % count)) as i64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number with mean 0 and deviation 1, close to normal; computed without functions that differ by machine.
    pub fn normal(&mut self) -> f64 {
        let sum: f64 = (0..6).map(|_| self.unit()).sum();
        (sum - 3.0) * std::f64::consts::SQRT_2
    }

    /// One of several; none of none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_fixed_and_differ() {
        assert_eq!(Random::new(7).bits(), Random::new(7).bits());
        assert_ne!(Random::new(7).bits(), Random::new(8).bits());
        assert_ne!(Random::named(7, "x").bits(), Random::named(7, "y").bits());
    }

    #[test]
    fn ranges_hold_and_are_filled() {
        let mut random = Random::new(1);
        let drawn: std::collections::BTreeSet<i64> = (0..200).map(|_| random.between(-2, 3)).collect();
        assert_eq!(drawn, (-2..=3).collect());
        assert_eq!(random.between(5, 5), 5);
        assert_eq!(random.between(i64::MIN, i64::MIN), i64::MIN);
        random.between(i64::MIN, i64::MAX);
        assert_eq!(random.below(0), 0);
        let mean = (0..2000).map(|_| random.normal()).sum::<f64>() / 2000.0;
        assert!(mean.abs() < 0.1, "{mean}");
    }
}
