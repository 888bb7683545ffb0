//! Reals as scaled numbers, each with a bound of its error; section 7 of `docs/checker.md`.
//!
//! A number is `a · 2^b` with an error of at most `e · 2^b`, first order in the rounding errors (Higham, *Accuracy and
//! Stability of Numerical Algorithms*, 3.3). An infinite bound means *unsure*: the value may be anything.

use super::interpretation::{Interpretation, Site};
use crate::dim::Relation;
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::elementwise::{Algebra, Elementwise};
use crate::tensor::eval::Numerics;
use std::cell::Cell;
use std::cmp::Ordering;

/// The unit of rounding of what carries significands.
const UNIT: f64 = 1.0 / (1u64 << 53) as f64;

/// Exponents beyond this are infinity or zero.
const RANGE: i64 = 1 << 30;

/// A number with a bound of its error. Finite nonzero significands lie in 1..2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    a: f64,
    b: i64,
    e: f64,
}

/// A truth value, and whether rounding could have changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    value: bool,
    sure: bool,
}

/// Scaled arithmetic.
pub struct Scaled {
    numerics: Numerics,
    unsure: Cell<bool>,
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// They agree within their errors, or are of one class.
    Agree,
    /// One of them may be anything.
    Unsure,
    /// Both are finite and too far apart.
    Differ,
    /// They are of different classes: finite, NaN, an infinity.
    Class,
}

fn exponent(x: f64) -> i64 {
    libm::frexp(x).1 as i64 - 1
}

fn shift(x: f64, by: i64) -> f64 {
    libm::ldexp(x, by.clamp(-4000, 4000) as i32)
}

impl Number {
    fn new(a: f64, b: i64, e: f64) -> Number {
        if !a.is_finite() {
            return Number { a, b: 0, e: if e.is_infinite() { e } else { 0.0 } };
        }
        let leading = if a != 0.0 { a } else { e };
        if leading == 0.0 || !leading.is_finite() {
            return Number { a, b: 0, e };
        }
        let by = exponent(leading);
        let b = b.saturating_add(by);
        if b > RANGE && a != 0.0 {
            return Number { a: f64::INFINITY.copysign(a), b: 0, e: 0.0 };
        }
        if b < -RANGE {
            return Number { a: 0.0, b: 0, e: 0.0 };
        }
        Number { a: shift(a, -by), b, e: shift(e, -by) }
    }

    /// An exact number.
    pub fn exact(x: f64) -> Number {
        Number::new(x, 0, 0.0)
    }

    fn unsure() -> Number {
        Number { a: 0.0, b: 0, e: f64::INFINITY }
    }

    fn is_unsure(self) -> bool {
        self.e == f64::INFINITY
    }

    /// The value as a plain float.
    pub fn value(self) -> f64 {
        shift(self.a, self.b)
    }

    /// The bound of the error as a plain float.
    pub fn error(self) -> f64 {
        if self.e == 0.0 || self.is_unsure() { self.e } else { shift(self.e, self.b) }
    }

    fn with_error(self, e: f64) -> Number {
        Number::new(self.a, self.b, self.e + e)
    }

    /// Whether the error does not reach zero.
    fn is_away_from_zero(self) -> bool {
        self.e < self.a.abs()
    }

    fn plus(self, other: Number) -> Number {
        if !self.a.is_finite() || !other.a.is_finite() {
            return Number::new(self.a + other.a, 0, self.e.max(other.e));
        }
        let empty = |x: Number| x.a == 0.0 && x.e == 0.0;
        if empty(self) || empty(other) {
            return if empty(self) { other } else { self };
        }
        let z = self.b.max(other.b);
        let (p, q) = (self.b - z, other.b - z);
        let sum = shift(self.a, p) + shift(other.a, q);
        let error = if self.is_unsure() || other.is_unsure() {
            f64::INFINITY
        } else {
            shift(self.e, p) + shift(other.e, q) + UNIT * sum.abs()
        };
        Number::new(sum, z, error)
    }

    fn negated(self) -> Number {
        Number { a: -self.a, ..self }
    }

    fn times(self, other: Number) -> Number {
        let product = self.a * other.a;
        if !product.is_finite() {
            let error = if self.is_unsure() || other.is_unsure() { f64::INFINITY } else { 0.0 };
            return Number::new(product, 0, error);
        }
        if (self.a == 0.0 && self.e == 0.0) || (other.a == 0.0 && other.e == 0.0) {
            return Number::new(product, 0, 0.0);
        }
        let error = self.a.abs() * other.e + other.a.abs() * self.e + self.e * other.e + UNIT * product.abs();
        Number::new(product, self.b + other.b, if error.is_nan() { f64::INFINITY } else { error })
    }

    fn over(self, other: Number) -> Number {
        if other.is_unsure() || self.is_unsure() || (other.e > 0.0 && !other.is_away_from_zero()) {
            return Number::unsure();
        }
        let quotient = self.a / other.a;
        if !quotient.is_finite() || !other.a.is_finite() {
            return Number::new(quotient, 0, 0.0);
        }
        let error = (self.e + quotient.abs() * other.e) / (other.a.abs() - other.e) + UNIT * quotient.abs();
        Number::new(quotient, self.b - other.b, error)
    }

    fn exp(self) -> Number {
        let (x, error) = (self.value(), self.error());
        if self.is_unsure() || error > 1.0 {
            return Number::unsure();
        }
        if !x.is_finite() || x.abs() > RANGE as f64 / 2.0 {
            return Number::exact(x.exp());
        }
        // ln 2 in two parts, of which the first has so many trailing zeros that its multiples are exact.
        const HIGH: f64 = 6.931_471_803_691_238e-1;
        const LOW: f64 = 1.908_214_929_270_587_7e-10;
        let n = (x / std::f64::consts::LN_2).floor();
        let power = libm::exp((x - n * HIGH) - n * LOW);
        Number::new(power, n as i64, power * (error.exp_m1() + 4.0 * UNIT))
    }

    fn log(self) -> Number {
        if self.is_unsure() || (self.e > 0.0 && self.e > 0.5 * self.a.abs()) {
            return Number::unsure();
        }
        if self.a <= 0.0 || !self.a.is_finite() {
            return Number::exact(self.a.ln());
        }
        let log = libm::log(self.a) + self.b as f64 * std::f64::consts::LN_2;
        Number::new(log, 0, 2.0 * self.e / self.a + 4.0 * UNIT * log.abs())
    }

    fn sqrt(self) -> Number {
        if self.is_unsure() || (self.e > 0.0 && !self.is_away_from_zero()) {
            return Number::unsure();
        }
        if self.a <= 0.0 || !self.a.is_finite() {
            return Number::exact(self.a.sqrt());
        }
        let odd = self.b.rem_euclid(2);
        let root = shift(self.a, odd).sqrt();
        let error = shift(self.e, odd) / (root + (shift(self.a - self.e, odd)).sqrt());
        Number::new(root, (self.b - odd) / 2, error + UNIT * root)
    }

    /// A function of plain floats, its error from its values at the ends of the arguments.
    fn plain(function: &'static Elementwise, arguments: &[Number], dtype: DType) -> Number {
        if arguments.iter().any(|x| x.is_unsure()) {
            return Number::unsure();
        }
        let at = |side: f64| {
            let scalars: Vec<Scalar> =
                arguments.iter().map(|x| Scalar::Float(x.value() + side * x.error())).collect();
            (function.eval)(&scalars, dtype).as_f64()
        };
        let value = at(0.0);
        if arguments.iter().all(|x| x.e == 0.0) {
            return Number::exact(value).with_error(2.0 * UNIT * f64::from(u8::from(value != 0.0)));
        }
        let spread = (at(1.0) - value).abs().max((at(-1.0) - value).abs());
        if spread.is_nan() && !value.is_nan() || arguments.iter().any(|x| x.error() > 1.0) {
            return Number::unsure();
        }
        let error = if value.is_finite() { 2.0 * spread + 4.0 * UNIT * value.abs() } else { 0.0 };
        Number::new(value, 0, error)
    }

    /// The order of two numbers, none if one is NaN, and whether errors could change it.
    fn order(self, other: Number) -> (Option<Ordering>, bool) {
        if self.a.is_nan() || other.a.is_nan() {
            return (None, !self.is_unsure() && !other.is_unsure());
        }
        if self.a.is_infinite() || other.a.is_infinite() {
            let key = |x: Number| if x.a.is_infinite() { x.a } else { 0.0 };
            return (key(self).partial_cmp(&key(other)), !self.is_unsure() && !other.is_unsure());
        }
        let difference = self.plus(other.negated());
        let exact = self.e == 0.0 && other.e == 0.0;
        (difference.a.partial_cmp(&0.0), exact || difference.is_away_from_zero())
    }
}

/// Whether two numbers agree.
pub fn agree(x: Number, y: Number) -> Agreement {
    if x.is_unsure() || y.is_unsure() {
        return Agreement::Unsure;
    }
    if !x.a.is_finite() || !y.a.is_finite() {
        let same = x.a == y.a || (x.a.is_nan() && y.a.is_nan());
        return if same { Agreement::Agree } else { Agreement::Class };
    }
    let difference = x.plus(y.negated());
    if difference.a.abs() <= 2.0 * difference.e { Agreement::Agree } else { Agreement::Differ }
}

/// The greatest error bound among elements, none of which is less than half a unit in the last place of the type, and
/// the greatest magnitude.
#[derive(Clone, Copy, Debug)]
pub struct Worst {
    error: Number,
    magnitude: Number,
}

impl Worst {
    /// Of no elements.
    pub fn none() -> Worst {
        Worst { error: Number::exact(0.0), magnitude: Number::exact(0.0) }
    }

    /// With one plain element more, of type `dtype`.
    pub fn join(&mut self, x: Number, dtype: DType) {
        let unit = match dtype {
            DType::Bf16 => 2f64.powi(-8),
            DType::F16 => 2f64.powi(-11),
            DType::F32 | DType::ScaledF32 => 2f64.powi(-24),
            _ => UNIT,
        };
        let magnitude = Number::new(x.a.abs(), x.b, 0.0);
        let join = |most: &mut Number, x: Number| {
            if x.order(*most).0 == Some(Ordering::Greater) {
                *most = x;
            }
        };
        join(&mut self.error, Number::new(x.e, x.b, 0.0));
        join(&mut self.error, Number::new(unit * x.a.abs(), x.b, 0.0));
        join(&mut self.magnitude, magnitude);
    }

    /// Whether the error is more than `factor` times another's.
    pub fn exceeds(self, other: Worst, factor: f64) -> bool {
        self.error.order(other.error.times(Number::exact(factor))).0 == Some(Ordering::Greater)
    }

    /// Whether at least three bits of the greatest element are right.
    pub fn is_meaningful(self) -> bool {
        self.error.times(Number::exact(8.0)).order(self.magnitude).0 == Some(Ordering::Less)
    }

    /// The error as a plain float.
    pub fn value(self) -> f64 {
        self.error.value()
    }
}

/// Whether a number is finite and sure.
pub fn is_plain(x: Number) -> bool {
    x.a.is_finite() && !x.is_unsure()
}

/// Whether at least three bits of a plain number are right.
pub fn is_meaningful(x: Number) -> bool {
    is_plain(x) && 8.0 * x.e < x.a.abs()
}

/// Whether a number may be anything.
pub fn is_unsure(x: Number) -> bool {
    x.is_unsure()
}

impl Scaled {
    /// Arithmetic in f64, or with significands rounded to each operator's type.
    pub fn new(numerics: Numerics) -> Scaled {
        Scaled { numerics, unsure: Cell::new(false) }
    }

    /// Whether a position or an integer depended on something unsure.
    pub fn is_unsure(&self) -> bool {
        self.unsure.get()
    }

    /// A truth value's value, and whether it is sure.
    pub fn known(&self, truth: Truth) -> (bool, bool) {
        (truth.value, truth.sure)
    }

    fn bits(&self, dtype: DType) -> Option<i32> {
        match (self.numerics, dtype) {
            (Numerics::Own, DType::Bf16) => Some(8),
            (Numerics::Own, DType::F16) => Some(11),
            (Numerics::Own, DType::F32 | DType::ScaledF32) => Some(24),
            _ => None,
        }
    }
}

impl Interpretation for Scaled {
    type Real = Number;
    type Truth = Truth;

    fn number(&self, value: f64) -> Number {
        Number::exact(value)
    }

    fn integer(&self, value: i64) -> Number {
        Number::exact(value as f64)
    }

    fn indicator(&self, truth: Truth) -> Number {
        let number = Number::exact(f64::from(u8::from(truth.value)));
        if truth.sure { number } else { Number::unsure() }
    }

    fn undefined(&self) -> Number {
        Number::exact(f64::NAN)
    }

    fn round(&self, value: Number, dtype: DType) -> Number {
        let Some(bits) = self.bits(dtype).filter(|_| value.a.is_finite() && value.a != 0.0) else {
            return value;
        };
        let rounded = shift(shift(value.a, (bits - 1).into()).round_ties_even(), (1 - bits).into());
        if rounded == value.a {
            return value;
        }
        Number::new(rounded, value.b, value.e + shift(value.a.abs(), (-bits).into()))
    }

    fn to_integer(&self, value: &Number, dtype: DType) -> i64 {
        let at = |x: f64| Scalar::Float(x).carry(dtype).as_i64();
        let (x, error) = (value.value(), value.error());
        if value.is_unsure() || at(x - error) != at(x + error) {
            self.unsure.set(true);
        }
        at(x)
    }

    fn truth(&self, value: bool) -> Truth {
        Truth { value, sure: true }
    }

    fn decide(&self, truth: Truth) -> bool {
        if !truth.sure {
            self.unsure.set(true);
        }
        truth.value
    }

    fn and(&self, a: Truth, b: Truth) -> Truth {
        let no = (a.sure && !a.value) || (b.sure && !b.value);
        Truth { value: a.value && b.value, sure: no || (a.sure && b.sure) }
    }

    fn not(&self, a: Truth) -> Truth {
        Truth { value: !a.value, ..a }
    }

    fn compare(&self, _: Site, relation: Relation, a: &Number, b: &Number) -> Truth {
        let (order, sure) = a.order(*b);
        let value = match order {
            None => relation == Relation::Ne,
            Some(order) => relation.holds(order as i64, 0),
        };
        Truth { value, sure }
    }

    fn select(&self, truth: Truth, a: &Number, b: &Number) -> Number {
        match (truth.sure, truth.value) {
            (true, true) => *a,
            (true, false) => *b,
            (false, _) if a == b => *a,
            (false, _) => Number::unsure(),
        }
    }

    fn apply(&self, function: &'static Elementwise, arguments: &[Number], dtype: DType) -> Number {
        let one = Number::exact(1.0);
        let value = match (function.algebra, arguments) {
            (Algebra::Add, [a, b]) => a.plus(*b),
            (Algebra::Sub, [a, b]) => a.plus(b.negated()),
            (Algebra::Mul, [a, b]) => a.times(*b),
            (Algebra::Div, [a, b]) => a.over(*b),
            (Algebra::Neg, [a]) => a.negated(),
            (Algebra::Abs, [a]) => Number { a: a.a.abs(), ..*a },
            (Algebra::Max, [a, b]) => extreme(&[*a, *b], Ordering::Greater),
            (Algebra::Min, [a, b]) => extreme(&[*a, *b], Ordering::Less),
            (Algebra::Exp, [a]) => a.exp(),
            (Algebra::Exp2, [a]) => a.times(Number::exact(std::f64::consts::LN_2).with_error(UNIT)).exp(),
            (Algebra::Log, [a]) => a.log(),
            (Algebra::Sqrt, [a]) => a.sqrt(),
            (Algebra::Rsqrt, [a]) => one.over(a.sqrt()),
            (Algebra::Sigmoid, [a]) => one.over(one.plus(a.negated().exp())),
            _ => Number::plain(function, arguments, dtype),
        };
        self.round(value, dtype)
    }

    fn reduce(&self, algebra: Algebra, values: Vec<Number>, accumulate: DType) -> Number {
        let step = |state: Number, value: Number| self.round(state, accumulate).into_step(algebra, value);
        match algebra {
            Algebra::Add => {
                let sum = values.into_iter().fold(Number::exact(0.0), step);
                self.round(sum, accumulate)
            }
            Algebra::Mul => {
                let product = values.into_iter().fold(Number::exact(1.0), step);
                self.round(product, accumulate)
            }
            Algebra::Max => extreme(&values, Ordering::Greater),
            _ => extreme(&values, Ordering::Less),
        }
    }

    fn order(&self, values: &[Number]) -> Vec<f64> {
        let mut sorted: Vec<usize> =
            (0..values.len()).filter(|&k| values[k].a.is_finite() && !values[k].is_unsure()).collect();
        sorted.sort_by(|&x, &y| values[x].order(values[y]).0.unwrap_or(Ordering::Equal));
        let mut ranks: Vec<f64> = values.iter().map(|value| value.a).collect();
        if values.iter().any(|value| value.is_unsure()) {
            self.unsure.set(true);
        }
        let mut rank = 0.0;
        for (at, &k) in sorted.iter().enumerate() {
            if let Some(&before) = at.checked_sub(1).and_then(|before| sorted.get(before)) {
                let (order, sure) = values[k].order(values[before]);
                if !sure {
                    self.unsure.set(true);
                }
                if order != Some(Ordering::Equal) {
                    rank += 1.0;
                }
            }
            ranks[k] = rank;
        }
        ranks
    }
}

impl Number {
    fn into_step(self, algebra: Algebra, value: Number) -> Number {
        if algebra == Algebra::Add { self.plus(value) } else { self.times(value) }
    }
}

/// The extreme one of values: NaN if one is; the infinity of the other side if there are none.
fn extreme(values: &[Number], end: Ordering) -> Number {
    let identity = if end == Ordering::Greater { f64::NEG_INFINITY } else { f64::INFINITY };
    let mut best = Number::exact(identity);
    let mut error = Number::exact(0.0);
    for value in values {
        if value.is_unsure() {
            return Number::unsure();
        }
        if value.a.is_nan() {
            return *value;
        }
        // Whichever is the greatest, it is off by no more than the greatest error.
        let own = Number::new(value.e, value.b, 0.0);
        if own.order(error).0 == Some(Ordering::Greater) {
            error = own;
        }
        if value.order(best).0 == Some(end) {
            best = *value;
        }
    }
    if !best.a.is_finite() {
        return best;
    }
    Number::new(best.a, best.b, best.e.max(shift(error.a, error.b - best.b)))
}
