//! Primes below 2^48: products, powers, the chains of the tower, discrete logarithms.

use super::hash::{mix, mix2};
use std::collections::HashMap;

/// The modulus of the class in which chains start: every prime of a chain is -1 modulo this, so that it is 7 modulo 8
/// and every prime up to 13 is a square.
const CLASS: u64 = 8 * 3 * 5 * 7 * 11 * 13;

/// The height of the highest tower: how deep exponentials may be nested is one less.
pub const HEIGHT: usize = 5;

/// `a + b` modulo `p`; both are below `p`.
pub fn add(a: u64, b: u64, p: u64) -> u64 {
    let sum = a + b;
    if sum >= p { sum - p } else { sum }
}

/// `-a` modulo `p`.
pub fn negate(a: u64, p: u64) -> u64 {
    if a == 0 { 0 } else { p - a }
}

/// `a - b` modulo `p`.
pub fn subtract(a: u64, b: u64, p: u64) -> u64 {
    add(a, negate(b, p), p)
}

/// `a b` modulo `p < 2^48`; both are below `p`. The quotient is that of floats, off by one at most.
pub fn multiply(a: u64, b: u64, p: u64) -> u64 {
    let quotient = (a as f64 * b as f64 / p as f64) as u64;
    let rest = a.wrapping_mul(b).wrapping_sub(quotient.wrapping_mul(p)) as i64;
    let p = p as i64;
    (if rest < 0 {
        rest + p
    } else if rest >= p {
        rest - p
    } else {
        rest
    }) as u64
}

/// `a` to the power of `exponent` modulo `p`; 1 to the power of 0.
pub fn power(a: u64, exponent: u64, p: u64) -> u64 {
    let (mut result, mut square, mut rest) = (1, a, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = multiply(result, square, p);
        }
        square = multiply(square, square, p);
        rest >>= 1;
    }
    result
}

/// The inverse of `a` modulo the prime `p`; 0 of 0.
pub fn inverse(a: u64, p: u64) -> u64 {
    power(a, p - 2, p)
}

/// Whether `a` is a nonzero square modulo the prime `p`.
pub fn is_square(a: u64, p: u64) -> bool {
    jacobi(a, p) == 1
}

/// The Jacobi symbol of `a` over the odd number `n`.
fn jacobi(a: u64, n: u64) -> i32 {
    let (mut a, mut n, mut sign) = (a % n, n, 1);
    while a != 0 {
        let twos = a.trailing_zeros();
        a >>= twos;
        if twos % 2 == 1 && matches!(n % 8, 3 | 5) {
            sign = -sign;
        }
        std::mem::swap(&mut a, &mut n);
        if a % 4 == 3 && n % 4 == 3 {
            sign = -sign;
        }
        a %= n;
    }
    if n == 1 { sign } else { 0 }
}

/// Whether `n < 2^48` is prime (Miller and Rabin with the bases that decide it below 3.4 · 10^14).
pub fn is_prime(n: u64) -> bool {
    const BASES: [u64; 7] = [2, 3, 5, 7, 11, 13, 17];
    if n < 2 {
        return false;
    }
    if let Some(&small) = BASES.iter().find(|&&small| n.is_multiple_of(small)) {
        return n == small;
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.iter().all(|&base| {
        let mut x = power(base, odd, n);
        if x == 1 || x == n - 1 {
            return true;
        }
        (1..twos).any(|_| {
            x = multiply(x, x, n);
            x == n - 1
        })
    })
}

/// A chain of `height` primes, each twice the one before and 1, all -1 modulo 8 · 3 · 5 · 7 · 11 · 13; which one depends on `seed`.
/// The first is between 2^31 and 2^35.
pub fn chain(height: usize, seed: u64) -> Vec<u64> {
    let (least, most) = ((1u64 << 31) / CLASS + 1, (1u64 << 35) / CLASS);
    let mut m = least + mix(seed) % (most - least);
    loop {
        let mut primes = vec![CLASS * m - 1];
        while primes.len() < height {
            primes.push(2 * primes[primes.len() - 1] + 1);
        }
        if primes.iter().all(|&p| small_factor(p).is_none()) && primes.iter().all(|&p| is_prime(p)) {
            return primes;
        }
        m = if m + 1 < most { m + 1 } else { least };
    }
}

fn small_factor(n: u64) -> Option<u64> {
    [17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71]
        .into_iter()
        .find(|small| n.is_multiple_of(*small))
}

/// A generator of the nonzero squares modulo a prime of a chain, of which there is a prime number.
pub fn generator(p: u64, seed: u64) -> u64 {
    let mut at = 0;
    loop {
        let root = mix2(seed, at) % p;
        let square = multiply(root, root, p);
        if square > 1 {
            return square;
        }
        at += 1;
    }
}

/// Discrete logarithms by baby steps and giant steps (Shanks).
pub struct Logarithms {
    p: u64,
    order: u64,
    steps: u64,
    baby: HashMap<u64, u64>,
    giant: u64,
}

impl Logarithms {
    /// Logarithms to the base of a generator of a group of `order` elements modulo `p`.
    pub fn new(base: u64, order: u64, p: u64) -> Logarithms {
        let steps = (order as f64).sqrt() as u64 + 1;
        let mut baby = HashMap::with_capacity(steps as usize);
        let mut at = 1;
        for k in 0..steps {
            baby.entry(at).or_insert(k);
            at = multiply(at, base, p);
        }
        Logarithms { p, order, steps, baby, giant: inverse(at, p) }
    }

    /// The exponent of `x`, or none where `x` is not in the group.
    pub fn of(&self, x: u64) -> Option<u64> {
        let mut at = x;
        for k in 0..=self.steps {
            if let Some(rest) = self.baby.get(&at) {
                return Some((k * self.steps + rest) % self.order);
            }
            at = multiply(at, self.giant, self.p);
        }
        None
    }
}
