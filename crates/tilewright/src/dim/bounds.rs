//! The numbers that proofs reckon with: intervals that may be infinite, residues, and directions.

use super::expr::{gcd, modulo};

/// Wide bounds; an absent one is infinite.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) lo: Option<i128>,
    pub(super) hi: Option<i128>,
}

/// An end of [`Bounds`] in a product; the order is that of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extended {
    NegInf,
    Finite(i128),
    PosInf,
}

impl Extended {
    pub(super) fn sign(self) -> i128 {
        match self {
            Extended::NegInf => -1,
            Extended::Finite(value) => value.signum(),
            Extended::PosInf => 1,
        }
    }

    pub(super) fn times(self, other: Extended) -> Extended {
        if let (Extended::Finite(a), Extended::Finite(b)) = (self, other)
            && let Some(product) = a.checked_mul(b)
        {
            return Extended::Finite(product);
        }
        match self.sign() * other.sign() {
            0 => Extended::Finite(0),
            1 => Extended::PosInf,
            _ => Extended::NegInf,
        }
    }
}

impl Bounds {
    pub(super) const ALL: Bounds = Bounds { lo: None, hi: None };

    pub(super) fn exactly(value: i128) -> Bounds {
        Bounds { lo: Some(value), hi: Some(value) }
    }

    pub(super) fn ends(self) -> [Extended; 2] {
        [
            self.lo.map_or(Extended::NegInf, Extended::Finite),
            self.hi.map_or(Extended::PosInf, Extended::Finite),
        ]
    }

    /// The bounds of a product. An end that does not fit is cut toward zero, which still bounds.
    pub(super) fn times(self, other: Bounds) -> Bounds {
        let corners = self.ends().map(|a| other.ends().map(|b| a.times(b)));
        let corners = corners.as_flattened();
        let least = corners.iter().copied().min().unwrap_or(Extended::NegInf);
        let greatest = corners.iter().copied().max().unwrap_or(Extended::PosInf);
        let lo = match least {
            Extended::NegInf => None,
            Extended::Finite(value) => Some(value),
            Extended::PosInf => Some(i128::MAX),
        };
        let hi = match greatest {
            Extended::NegInf => Some(i128::MIN),
            Extended::Finite(value) => Some(value),
            Extended::PosInf => None,
        };
        Bounds { lo, hi }
    }

    /// What both allow.
    pub(super) fn meet(self, other: Bounds) -> Bounds {
        Bounds { lo: self.lo.max(other.lo), hi: least(self.hi, other.hi) }
    }
}

/// The lesser upper bound, where an absent one is infinite.
pub(super) fn least(a: Option<i128>, b: Option<i128>) -> Option<i128> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// All values are `remainder` modulo `modulus`; modulus 0 means exactly the remainder.
#[derive(Clone, Copy)]
pub(super) struct Residue {
    pub(super) modulus: i128,
    pub(super) remainder: i128,
}

impl Residue {
    pub(super) const ANY: Residue = Residue { modulus: 1, remainder: 0 };

    pub(super) fn new(modulus: i128, remainder: i128) -> Residue {
        Residue { modulus, remainder: modulo(remainder, modulus).unwrap_or(remainder) }
    }

    pub(super) fn plus(self, other: Residue) -> Option<Residue> {
        let sum = self.remainder.checked_add(other.remainder)?;
        Some(Residue::new(gcd(self.modulus, other.modulus), sum))
    }

    pub(super) fn times(self, other: Residue) -> Option<Residue> {
        let both = self.modulus.checked_mul(other.modulus)?;
        let left = self.modulus.checked_mul(other.remainder)?;
        let right = other.modulus.checked_mul(self.remainder)?;
        Some(Residue::new(gcd(both, gcd(left, right)), self.remainder.checked_mul(other.remainder)?))
    }

    /// What holds of a value that satisfies one of the two.
    pub(super) fn either(self, other: Residue) -> Option<Residue> {
        let apart = self.remainder.checked_sub(other.remainder)?;
        Some(Residue::new(gcd(gcd(self.modulus, other.modulus), apart), self.remainder))
    }

    /// The least value that is not below `bound`.
    pub(super) fn round_up(self, bound: i128) -> i128 {
        let up = self.remainder.checked_sub(bound).and_then(|apart| modulo(apart, self.modulus));
        up.and_then(|up| bound.checked_add(up)).unwrap_or(bound)
    }
}

/// How a dim moves when one symbol grows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Constant,
    Up,
    Down,
}

impl Direction {
    pub(super) fn reversed(self) -> Direction {
        match self {
            Direction::Constant => Direction::Constant,
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }

    pub(super) fn join(self, other: Direction) -> Option<Direction> {
        match (self, other) {
            (Direction::Constant, d) | (d, Direction::Constant) => Some(d),
            (a, b) => (a == b).then_some(a),
        }
    }
}

pub(super) fn lesser(a: Bounds, b: Bounds) -> Bounds {
    let lo = a.lo.zip(b.lo).map(|(a, b)| a.min(b));
    Bounds { lo, hi: least(a.hi, b.hi) }
}

pub(super) fn greater(a: Bounds, b: Bounds) -> Bounds {
    let hi = a.hi.zip(b.hi).map(|(a, b)| a.max(b));
    Bounds { lo: a.lo.max(b.lo), hi }
}

/// Bounds of a quotient by a positive divisor. It is monotone in the numerator; in the divisor it moves toward
/// zero, or toward the rounding's end of the unit interval.
pub(super) fn quotient_bounds(a: Bounds, b: Bounds, divide: fn(i128, i128) -> Option<i128>) -> Bounds {
    let Some(small) = b.lo.filter(|lo| *lo > 0) else { return Bounds::ALL };
    let by = |a: i128, large: bool| match (large, b.hi) {
        (false, _) => divide(a, small),
        (true, Some(large)) => divide(a, large.max(small)),
        (true, None) => divide(a.signum(), 2),
    };
    Bounds { lo: a.lo.and_then(|lo| by(lo, lo >= 0)), hi: a.hi.and_then(|hi| by(hi, hi < 0)) }
}

/// Bounds of a remainder by a positive divisor.
pub(super) fn remainder_bounds(a: Bounds, b: Bounds) -> Bounds {
    let Some(small) = b.lo.filter(|lo| *lo > 0) else { return Bounds::ALL };
    let below = Bounds { lo: Some(0), hi: b.hi.map(|hi| hi - 1) };
    match (a.lo, a.hi) {
        (Some(lo), Some(hi)) if lo >= 0 && hi < small => a,
        (Some(lo), hi) if lo >= 0 => Bounds { lo: Some(0), hi: least(below.hi, hi) },
        _ => below,
    }
}
