//! Reals as residues in a tower of signed prime fields; sections 2, 3 and 5 of `docs/checker.md`.

use super::hash::{mix_all, mix2, name};
use super::interpretation::{Interpretation, Site};
use super::primes::{
    HEIGHT, Logarithms, add, chain, generator, inverse, is_square, multiply, negate, power, subtract,
};
use crate::dim::Relation;
use crate::tensor::dtype::DType;
use crate::tensor::elementwise::{Algebra, Elementwise};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a level holds instead of a residue: −∞.
const LOW: u64 = u64::MAX;
/// +∞.
const HIGH: u64 = u64::MAX - 1;
/// Undefined.
const BOTTOM: u64 = u64::MAX - 2;
/// The level says nothing.
const MISSING: u64 = u64::MAX - 3;

/// The exponents of `pow` that are products, and twice those that are roots.
const WHOLE: u64 = 64;

/// One residue for each level, or what stands in its place.
pub type Parts = [u64; HEIGHT];

/// A real.
#[derive(Clone, Debug)]
pub struct Real {
    parts: Parts,
    /// The set of which this is the greatest or the least, if nothing else has been done to it.
    extremum: Option<Rc<Extremum>>,
}

#[derive(Debug)]
struct Extremum {
    greatest: bool,
    items: Vec<Parts>,
}

/// A truth value for each level that knows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    known: u8,
    value: u8,
}

/// How often something that depends on floats was seen true and false.
pub type Sightings = BTreeMap<Site, (u64, u64)>;

/// A tower with fresh primes and keys.
pub struct Tower {
    primes: Vec<u64>,
    generators: Vec<u64>,
    logarithms: Vec<OnceCell<Logarithms>>,
    key: u64,
    sightings: RefCell<Sightings>,
}

impl Tower {
    /// A tower of `height` levels, at most [`HEIGHT`], from a seed.
    pub fn new(height: usize, seed: u64) -> Tower {
        let height = height.clamp(1, HEIGHT);
        Tower::of(chain(height, mix2(seed, 1)), seed)
    }

    /// A tower over given primes, each twice the one before and 1, and 3 modulo 4.
    pub fn of(primes: Vec<u64>, seed: u64) -> Tower {
        let generators =
            primes.iter().enumerate().map(|(k, &p)| generator(p, mix_all([seed, 2, k as u64]))).collect();
        Tower {
            logarithms: primes.iter().map(|_| OnceCell::new()).collect(),
            generators,
            primes,
            key: mix2(seed, 3),
            sightings: RefCell::default(),
        }
    }

    /// The number of levels.
    pub fn height(&self) -> usize {
        self.primes.len()
    }

    /// The least of the primes.
    pub fn least_prime(&self) -> u64 {
        self.primes[0]
    }

    /// A random real: one that depends on the key, a seed and nothing else.
    pub fn random(&self, seed: u64) -> Real {
        self.each(|k, p| mix_all([self.key, seed, k as u64]) % p)
    }

    /// −∞.
    pub fn low(&self) -> Real {
        self.each(|_, _| LOW)
    }

    /// The residues, or what stands in their place.
    pub fn parts(&self, real: &Real) -> Parts {
        real.parts
    }

    /// The sum of two reals by their residues.
    pub fn sum_of_parts(&self, a: &Parts, b: &Parts) -> Parts {
        let real = |parts: &Parts| Real { parts: *parts, extremum: None };
        self.add(&real(a), &real(b)).parts
    }

    /// The exponential.
    pub fn apply_exp(&self, a: &Real) -> Real {
        self.exp(a, |k| self.generators[k])
    }

    /// Whether two reals agree, and whether there is a level that says so.
    pub fn agree(&self, a: &Real, b: &Real) -> (bool, bool) {
        let both = |k: &usize| a.parts[*k] != MISSING && b.parts[*k] != MISSING;
        let levels: Vec<usize> = (0..self.height()).filter(both).collect();
        (levels.iter().all(|&k| a.parts[k] == b.parts[k]), !levels.is_empty())
    }

    /// As [`agree`](Self::agree), but where `a` is infinite or undefined, `b` may be either.
    pub fn agree_where_finite(&self, a: &Real, b: &Real) -> (bool, bool) {
        let special = |x: u64| matches!(x, LOW | HIGH | BOTTOM);
        let mut known = false;
        for (&x, &y) in a.parts.iter().zip(&b.parts).take(self.height()) {
            if x == MISSING || y == MISSING {
                continue;
            }
            known = true;
            if x != y && !(special(x) && special(y)) {
                return (false, true);
            }
        }
        (true, known)
    }

    /// Whether two truth values agree where both are known, and whether there is a level that says so.
    pub fn agree_truth(&self, a: Truth, b: Truth) -> (bool, bool) {
        let both = a.known & b.known;
        ((a.value ^ b.value) & both == 0, both != 0)
    }

    /// Whether a real is undefined at a level where another is not.
    pub fn differ_in_definition(&self, a: &Real, b: &Real) -> bool {
        (0..self.height()).any(|k| {
            let (a, b) = (a.parts[k], b.parts[k]);
            a != MISSING && b != MISSING && (a == BOTTOM) != (b == BOTTOM)
        })
    }

    /// What was seen of comparisons and choices.
    pub fn sightings(&self) -> Sightings {
        self.sightings.borrow().clone()
    }

    fn each(&self, part: impl Fn(usize, u64) -> u64) -> Real {
        let mut parts = [MISSING; HEIGHT];
        for (k, (slot, &p)) in parts.iter_mut().zip(&self.primes).enumerate() {
            *slot = part(k, p);
        }
        Real { parts, extremum: None }
    }

    fn unary(&self, a: &Real, f: impl Fn(u64, u64) -> u64) -> Real {
        self.each(|k, p| match a.parts[k] {
            special @ (BOTTOM | MISSING) => special,
            x => f(x, p),
        })
    }

    fn binary(&self, a: &Real, b: &Real, f: impl Fn(u64, u64, u64) -> u64) -> Real {
        self.each(|k, p| match (a.parts[k], b.parts[k]) {
            (MISSING, _) | (_, MISSING) => MISSING,
            (BOTTOM, _) | (_, BOTTOM) => BOTTOM,
            (x, y) => f(x, y, p),
        })
    }

    fn add(&self, a: &Real, b: &Real) -> Real {
        self.binary(a, b, |x, y, p| match (x, y) {
            (LOW, HIGH) | (HIGH, LOW) => BOTTOM,
            (LOW | HIGH, _) => x,
            (_, LOW | HIGH) => y,
            _ => add(x, y, p),
        })
    }

    fn neg(&self, a: &Real) -> Real {
        self.unary(a, minus)
    }

    fn mul(&self, a: &Real, b: &Real) -> Real {
        self.binary(a, b, product)
    }

    fn div(&self, a: &Real, b: &Real) -> Real {
        self.binary(a, b, |x, y, p| match (x, y) {
            (LOW | HIGH, LOW | HIGH) | (_, 0) => BOTTOM,
            (_, LOW | HIGH) => 0,
            _ => product(x, inverse(y, p), p),
        })
    }

    /// The exponential: of level k at level k + 1, to the base of that level's generator or to base 2.
    fn exp(&self, a: &Real, base: impl Fn(usize) -> u64) -> Real {
        self.each(|k, p| match k.checked_sub(1).map(|below| a.parts[below]) {
            None | Some(MISSING) => MISSING,
            Some(BOTTOM) => BOTTOM,
            Some(LOW) => 0,
            Some(HIGH) => HIGH,
            Some(x) => power(base(k), x, p),
        })
    }

    fn log(&self, a: &Real) -> Real {
        self.each(|k, _| match a.parts.get(k + 1).copied().filter(|_| k + 1 < self.height()) {
            None | Some(MISSING) => MISSING,
            Some(0) => LOW,
            Some(HIGH) => HIGH,
            Some(LOW | BOTTOM) => BOTTOM,
            Some(x) if is_square(x, self.primes[k + 1]) => self.logarithm(k + 1, x),
            Some(_) => BOTTOM,
        })
    }

    fn logarithm(&self, k: usize, x: u64) -> u64 {
        let make = || Logarithms::new(self.generators[k], self.primes[k - 1], self.primes[k]);
        self.logarithms[k].get_or_init(make).of(x).unwrap_or(BOTTOM)
    }

    fn sqrt(&self, a: &Real) -> Real {
        self.unary(a, |x, p| match x {
            0 | HIGH => x,
            LOW => BOTTOM,
            x if is_square(x, p) => power(x, p.div_ceil(4), p),
            _ => BOTTOM,
        })
    }

    /// A power with an exponent that is a small whole number or half of one at the level in question, else by
    /// exponential and logarithm.
    fn pow(&self, a: &Real, b: &Real) -> Real {
        let general = self.apply_exp(&self.mul(&self.log(a), b));
        let one = self.number(1.0);
        let root = self.sqrt(a);
        self.each(|k, p| {
            let (x, y) = (a.parts[k], b.parts[k]);
            let whole = |x: u64, n: u64| match x {
                special @ (BOTTOM | MISSING) => special,
                LOW if n % 2 == 1 => LOW,
                LOW | HIGH if n > 0 => HIGH,
                LOW | HIGH => 1,
                x => power(x, n, p),
            };
            let inverted = |x: u64| match x {
                0 => BOTTOM,
                LOW | HIGH => 0,
                BOTTOM | MISSING => x,
                x => inverse(x, p),
            };
            match y {
                MISSING | BOTTOM => y,
                LOW | HIGH => BOTTOM,
                y if y <= WHOLE => whole(x, y),
                y if p - y <= WHOLE => inverted(whole(x, p - y)),
                y if add(y, y, p) <= WHOLE => whole(root.parts[k], add(y, y, p)),
                y if p - add(y, y, p) <= WHOLE => inverted(whole(root.parts[k], p - add(y, y, p))),
                _ if x == one.parts[k] => 1,
                _ => general.parts[k],
            }
        })
    }

    fn sign(&self, k: usize, x: u64) -> Option<bool> {
        match x {
            LOW => Some(false),
            HIGH => Some(true),
            0 => None,
            x => Some(is_square(x, self.primes[k])),
        }
    }

    /// The relation between what two levels hold, neither of which is missing.
    fn holds(&self, k: usize, relation: Relation, x: u64, y: u64) -> bool {
        if x == BOTTOM || y == BOTTOM {
            return relation == Relation::Ne;
        }
        let equal = x == y;
        let less = || match (x, y) {
            (LOW, _) | (_, HIGH) => !equal,
            (HIGH, _) | (_, LOW) => false,
            _ => self.sign(k, subtract(y, x, self.primes[k])) == Some(true),
        };
        let infinite = |x| x == LOW || x == HIGH;
        let alike = || equal || (!infinite(x) && !infinite(y) && self.coincide(k, x, y));
        match relation {
            Relation::Lt => less(),
            Relation::Gt => !equal && !less(),
            Relation::Le => equal || less(),
            Relation::Ge => !less(),
            Relation::Eq => alike(),
            Relation::Ne => !alike(),
        }
    }

    /// Whether two different numbers are taken to be equal.
    fn coincide(&self, k: usize, x: u64, y: u64) -> bool {
        mix_all([self.key, 7, k as u64, x.min(y), x.max(y)]) & 1 == 1
    }

    /// A function of which only equality of results for equal arguments is known.
    fn oracle(&self, function: &str, arguments: &[Real]) -> Real {
        let function = name(function);
        self.each(|k, p| {
            let parts = || arguments.iter().map(|argument| argument.parts[k]);
            if parts().any(|x| x == MISSING) {
                MISSING
            } else if parts().any(|x| x == BOTTOM) {
                BOTTOM
            } else {
                mix_all([self.key, 5, function, k as u64].into_iter().chain(parts())) % p
            }
        })
    }

    fn items(&self, value: Real, greatest: bool) -> Vec<Parts> {
        match &value.extremum {
            Some(extremum) if extremum.greatest == greatest => extremum.items.clone(),
            _ => vec![value.parts],
        }
    }

    /// The greatest or the least of values: a function of their set.
    fn extremum(&self, greatest: bool, values: Vec<Real>) -> Real {
        let mut items: Vec<Parts> =
            values.into_iter().flat_map(|value| self.items(value, greatest)).collect();
        items.sort_unstable();
        items.dedup();
        let mut result = self.each(|k, _| self.extremum_at(k, greatest, items.iter().map(|item| item[k])));
        result.extremum = Some(Rc::new(Extremum { greatest, items }));
        result
    }

    fn extremum_at(&self, k: usize, greatest: bool, items: impl Iterator<Item = u64>) -> u64 {
        let (p, neutral, absorbing) =
            if greatest { (self.primes[k], LOW, HIGH) } else { (self.primes[k], HIGH, LOW) };
        let mut items: Vec<u64> = items.filter(|&x| x != neutral).collect();
        items.sort_unstable();
        items.dedup();
        if let Some(special) =
            [MISSING, BOTTOM, absorbing].into_iter().find(|special| items.contains(special))
        {
            return special;
        }
        match items.as_slice() {
            [] => neutral,
            [x] => *x,
            [x, y] => {
                let first = is_square(subtract(*x, *y, p), p);
                if first == greatest { *x } else { *y }
            }
            _ => self.spread(k, greatest, &items),
        }
    }

    /// A symmetric function of three or more different residues that moves with a shift of all and with a scale of all,
    /// the function for the greatest and the one for the least being exchanged by a negative scale.
    fn spread(&self, k: usize, greatest: bool, items: &[u64]) -> u64 {
        let p = self.primes[k];
        let sum = items.iter().fold(0, |sum, &x| add(sum, x, p));
        let mean = multiply(sum, inverse(items.len() as u64 % p, p), p);
        let (mut squares, mut cubes) = (0, 0);
        for &x in items {
            let distance = subtract(x, mean, p);
            let square = multiply(distance, distance, p);
            squares = add(squares, square, p);
            cubes = add(cubes, multiply(square, distance, p), p);
        }
        let scale = multiply(cubes, inverse(squares, p), p);
        let side = u64::from(is_square(scale, p) == greatest);
        let inverse_scale = inverse(scale, p);
        let shape = items.iter().fold(0u64, |shape, &x| {
            let relative = multiply(subtract(x, mean, p), inverse_scale, p);
            shape.wrapping_add(mix_all([self.key, 11, k as u64, side, relative]))
        });
        add(mean, multiply(scale, mix2(self.key, shape) % p, p), p)
    }

    fn see(&self, site: Site, truth: Truth) {
        let (yes, no) = ((truth.known & truth.value).count_ones(), (truth.known & !truth.value).count_ones());
        let mut sightings = self.sightings.borrow_mut();
        let seen = sightings.entry(site).or_default();
        *seen = (seen.0 + u64::from(yes), seen.1 + u64::from(no));
    }
}

fn minus(x: u64, p: u64) -> u64 {
    match x {
        LOW => HIGH,
        HIGH => LOW,
        x => negate(x, p),
    }
}

/// The product of what two levels hold, neither missing nor undefined.
fn product(x: u64, y: u64, p: u64) -> u64 {
    let infinite = |infinity: u64, other: u64| match other {
        0 => BOTTOM,
        HIGH => infinity,
        LOW => minus(infinity, p),
        other if is_square(other, p) => infinity,
        _ => minus(infinity, p),
    };
    match (x, y) {
        (LOW | HIGH, _) => infinite(x, y),
        (_, LOW | HIGH) => infinite(y, x),
        _ => multiply(x, y, p),
    }
}

/// A dyadic rational modulo `p`.
fn residue(value: f64, p: u64) -> u64 {
    if value.is_nan() {
        return BOTTOM;
    }
    if value.is_infinite() {
        return if value > 0.0 { HIGH } else { LOW };
    }
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
    let (significand, exponent) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    let two = if exponent < 0 { inverse(2, p) } else { 2 };
    let magnitude = multiply(significand % p, power(two, exponent.unsigned_abs(), p), p);
    if value < 0.0 { negate(magnitude, p) } else { magnitude }
}

impl Interpretation for Tower {
    type Real = Real;
    type Truth = Truth;

    fn number(&self, value: f64) -> Real {
        self.each(|_, p| residue(value, p))
    }

    fn integer(&self, value: i64) -> Real {
        self.each(|_, p| {
            let magnitude = value.unsigned_abs() % p;
            if value < 0 { negate(magnitude, p) } else { magnitude }
        })
    }

    fn indicator(&self, truth: Truth) -> Real {
        self.each(|k, _| if truth.known >> k & 1 == 0 { MISSING } else { u64::from(truth.value >> k & 1) })
    }

    fn undefined(&self) -> Real {
        self.each(|_, _| BOTTOM)
    }

    fn round(&self, value: Real, _: DType) -> Real {
        value
    }

    fn to_integer(&self, value: &Real, dtype: DType) -> i64 {
        let part = value.parts.iter().take(self.height()).find(|part| **part != MISSING);
        let (low, high) = dtype.int_range().unwrap_or((-4, 4));
        match part {
            Some(&LOW) => low,
            Some(&HIGH) => high,
            Some(&BOTTOM) | None => 0,
            // Any function of the number: small, so that it may serve as an index.
            Some(part) => (mix_all([self.key, 13, *part]) % 9) as i64 + low.max(-4),
        }
    }

    fn truth(&self, value: bool) -> Truth {
        let known = (1u8 << self.height()) - 1;
        Truth { known, value: if value { known } else { 0 } }
    }

    fn decide(&self, truth: Truth) -> bool {
        truth.known != 0 && truth.value >> truth.known.trailing_zeros() & 1 == 1
    }

    fn and(&self, a: Truth, b: Truth) -> Truth {
        let no = (a.known & !a.value) | (b.known & !b.value);
        Truth { known: (a.known & b.known) | no, value: a.value & b.value & !no }
    }

    fn not(&self, a: Truth) -> Truth {
        Truth { known: a.known, value: !a.value & a.known }
    }

    fn compare(&self, site: Site, relation: Relation, a: &Real, b: &Real) -> Truth {
        let mut truth = Truth { known: 0, value: 0 };
        for k in 0..self.height() {
            let (x, y) = (a.parts[k], b.parts[k]);
            if x != MISSING && y != MISSING {
                truth.known |= 1 << k;
                truth.value |= u8::from(self.holds(k, relation, x, y)) << k;
            }
        }
        self.see(site, truth);
        truth
    }

    fn select(&self, truth: Truth, a: &Real, b: &Real) -> Real {
        let all = (1u8 << self.height()) - 1;
        if truth.known == all && (truth.value == all || truth.value == 0) {
            return if truth.value == all { a.clone() } else { b.clone() };
        }
        self.each(|k, _| match (truth.known >> k & 1, truth.value >> k & 1) {
            (0, _) => MISSING,
            (_, 1) => a.parts[k],
            _ => b.parts[k],
        })
    }

    fn apply(&self, function: &'static Elementwise, arguments: &[Real], _: DType) -> Real {
        let one = || self.number(1.0);
        let exp = |x: &Real| self.apply_exp(x);
        match (function.algebra, arguments) {
            (Algebra::Add, [a, b]) => self.add(a, b),
            (Algebra::Sub, [a, b]) => self.add(a, &self.neg(b)),
            (Algebra::Mul, [a, b]) => self.mul(a, b),
            (Algebra::Div, [a, b]) => self.div(a, b),
            (Algebra::Neg, [a]) => self.neg(a),
            (Algebra::Max, [a, b]) => self.extremum(true, vec![a.clone(), b.clone()]),
            (Algebra::Min, [a, b]) => self.extremum(false, vec![a.clone(), b.clone()]),
            (Algebra::Abs, [a]) => self.each(|k, p| match a.parts[k] {
                LOW => HIGH,
                special @ (HIGH | BOTTOM | MISSING) => special,
                x if is_square(x, p) => x,
                x => negate(x, p),
            }),
            (Algebra::Pow, [a, b]) => self.pow(a, b),
            (Algebra::Exp, [a]) => exp(a),
            (Algebra::Exp2, [a]) => self.exp(a, |_| 2),
            (Algebra::Log, [a]) => self.log(a),
            (Algebra::Log1p, [a]) => self.log(&self.add(&one(), a)),
            (Algebra::Sqrt, [a]) => self.sqrt(a),
            (Algebra::Rsqrt, [a]) => self.div(&one(), &self.sqrt(a)),
            (Algebra::Sigmoid, [a]) => self.div(&one(), &self.add(&one(), &exp(&self.neg(a)))),
            (Algebra::Tanh, [a]) => {
                let twice = exp(&self.add(a, a));
                let rest = self.div(&self.number(2.0), &self.add(&twice, &one()));
                self.add(&one(), &self.neg(&rest))
            }
            _ => self.oracle(function.name, arguments),
        }
    }

    fn reduce(&self, algebra: Algebra, values: Vec<Real>, _: DType) -> Real {
        match algebra {
            Algebra::Add => values.iter().fold(self.number(0.0), |sum, value| self.add(&sum, value)),
            Algebra::Mul => values.iter().fold(self.number(1.0), |product, value| self.mul(&product, value)),
            _ => self.extremum(algebra == Algebra::Max, values),
        }
    }

    fn order(&self, values: &[Real]) -> Vec<f64> {
        values
            .iter()
            .map(|value| {
                let parts = &value.parts[..self.height()];
                match parts.iter().find(|part| **part != MISSING) {
                    Some(&LOW) => f64::NEG_INFINITY,
                    Some(&HIGH) => f64::INFINITY,
                    Some(&BOTTOM) | None => f64::NAN,
                    Some(_) => {
                        (mix_all([self.key, 17].into_iter().chain(parts.iter().copied())) >> 12) as f64
                    }
                }
            })
            .collect()
    }
}
