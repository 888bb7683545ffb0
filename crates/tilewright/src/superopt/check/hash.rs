//! A hash of words: the source of everything random in the checker, a function of its seed alone.

/// A word that depends on every bit of `x` (the finaliser of SplitMix64).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A word that depends on both.
pub fn mix2(a: u64, b: u64) -> u64 {
    mix(mix(a) ^ b.rotate_left(32))
}

/// A word that depends on all, in order.
pub fn mix_all(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0x243f_6a88_85a3_08d3, mix2)
}

/// A word that depends on a name.
pub fn name(text: &str) -> u64 {
    mix_all(text.bytes().map(u64::from))
}
