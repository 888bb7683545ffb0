//! How likely two different results are to agree by chance: degrees, and how many different exponentials there are;
//! section 8 of `docs/checker.md`. An element is a quotient of two polynomials in inputs, oracles and exponentials.

use super::interpretation::{Interpretation, Site};
use super::tower::{self, Parts, Tower};
use crate::dim::Relation;
use crate::tensor::dtype::DType;
use crate::tensor::elementwise::{Algebra, Elementwise};
use std::collections::BTreeSet;

/// The most exponentials that are told apart.
const MOST: usize = 256;

/// A polynomial: its degree, and the exponents of its exponentials, none if there are more than [`MOST`].
#[derive(Clone, Debug)]
struct Polynomial {
    degree: u64,
    exponents: Option<BTreeSet<Parts>>,
}

/// An element, its value in a tower beside.
#[derive(Clone, Debug)]
pub struct Measured {
    value: tower::Real,
    numerator: Polynomial,
    denominator: Polynomial,
    /// The value of the denominator.
    below: tower::Real,
}

/// Measures over a tower.
pub struct Measure<'a> {
    /// The tower.
    pub tower: &'a Tower,
    add: &'static Elementwise,
    multiply: &'static Elementwise,
    divide: &'static Elementwise,
}

impl Polynomial {
    fn join(&self, other: &Polynomial) -> Polynomial {
        let exponents = match (&self.exponents, &other.exponents) {
            (Some(a), Some(b)) => Some(a | b).filter(|all| all.len() <= MOST),
            _ => None,
        };
        Polynomial { degree: self.degree.max(other.degree), exponents }
    }
}

impl<'a> Measure<'a> {
    /// Measures over a tower; none if the table of functions lacks one of the four.
    pub fn new(tower: &'a Tower) -> Option<Measure<'a>> {
        let find = crate::tensor::elementwise::find;
        Some(Measure { tower, add: find("add")?, multiply: find("mul")?, divide: find("div")? })
    }

    /// A variable.
    pub fn variable(&self, value: tower::Real) -> Measured {
        self.simple(value, 1)
    }

    fn simple(&self, value: tower::Real, degree: u64) -> Measured {
        Measured {
            value,
            numerator: self.polynomial(degree),
            denominator: self.polynomial(0),
            below: self.tower.number(1.0),
        }
    }

    fn polynomial(&self, degree: u64) -> Polynomial {
        let nothing = self.tower.parts(&self.tower.number(0.0));
        Polynomial { degree, exponents: Some(BTreeSet::from([nothing])) }
    }

    fn of(&self, function: &'static Elementwise, a: &tower::Real, b: &tower::Real) -> tower::Real {
        self.tower.apply(function, &[a.clone(), b.clone()], DType::F64)
    }

    fn product(&self, a: &Polynomial, b: &Polynomial) -> Polynomial {
        let pairs = match (&a.exponents, &b.exponents) {
            (Some(a), Some(b)) if a.len() * b.len() <= MOST * 16 => {
                let mut all = BTreeSet::new();
                for x in a {
                    all.extend(b.iter().map(|y| self.tower.sum_of_parts(x, y)));
                }
                Some(all).filter(|all| all.len() <= MOST)
            }
            _ => None,
        };
        Polynomial { degree: a.degree.saturating_add(b.degree), exponents: pairs }
    }

    fn sum(&self, a: &Measured, b: &Measured) -> Measured {
        let value = self.of(self.add, &a.value, &b.value);
        if self.tower.parts(&a.below) == self.tower.parts(&b.below) {
            let numerator = a.numerator.join(&b.numerator);
            return Measured { value, numerator, denominator: a.denominator.clone(), below: a.below.clone() };
        }
        let left = self.product(&a.numerator, &b.denominator);
        let right = self.product(&b.numerator, &a.denominator);
        Measured {
            value,
            numerator: left.join(&right),
            denominator: self.product(&a.denominator, &b.denominator),
            below: self.of(self.multiply, &a.below, &b.below),
        }
    }

    fn times(&self, a: &Measured, b: &Measured) -> Measured {
        Measured {
            value: self.of(self.multiply, &a.value, &b.value),
            numerator: self.product(&a.numerator, &b.numerator),
            denominator: self.product(&a.denominator, &b.denominator),
            below: self.of(self.multiply, &a.below, &b.below),
        }
    }

    fn inverted(&self, a: &Measured) -> Measured {
        let one = self.tower.number(1.0);
        Measured {
            value: self.of(self.divide, &one, &a.value),
            numerator: a.denominator.clone(),
            denominator: a.numerator.clone(),
            below: self.of(self.multiply, &a.value, &a.below),
        }
    }

    fn exp(&self, value: tower::Real, argument: &tower::Real) -> Measured {
        let exponents = Some(BTreeSet::from([self.tower.parts(argument)]));
        Measured { numerator: Polynomial { degree: 1, exponents }, ..self.simple(value, 1) }
    }

    /// The degree of the difference of two elements, and how many different exponentials it has, if not too many.
    pub fn difference(&self, a: &Measured, b: &Measured) -> (u64, Option<usize>) {
        let left = self.product(&a.numerator, &b.denominator);
        let right = self.product(&b.numerator, &a.denominator);
        let all = left.join(&right);
        (all.degree, all.exponents.map(|exponents| exponents.len()))
    }
}

impl Interpretation for Measure<'_> {
    type Real = Measured;
    type Truth = tower::Truth;

    fn number(&self, value: f64) -> Measured {
        self.simple(self.tower.number(value), 0)
    }

    fn integer(&self, value: i64) -> Measured {
        self.simple(self.tower.integer(value), 0)
    }

    fn indicator(&self, truth: tower::Truth) -> Measured {
        self.simple(self.tower.indicator(truth), 0)
    }

    fn undefined(&self) -> Measured {
        self.simple(self.tower.undefined(), 0)
    }

    fn round(&self, value: Measured, _: DType) -> Measured {
        value
    }

    fn to_integer(&self, value: &Measured, dtype: DType) -> i64 {
        self.tower.to_integer(&value.value, dtype)
    }

    fn truth(&self, value: bool) -> tower::Truth {
        self.tower.truth(value)
    }

    fn decide(&self, truth: tower::Truth) -> bool {
        self.tower.decide(truth)
    }

    fn and(&self, a: tower::Truth, b: tower::Truth) -> tower::Truth {
        self.tower.and(a, b)
    }

    fn not(&self, a: tower::Truth) -> tower::Truth {
        self.tower.not(a)
    }

    fn compare(&self, site: Site, relation: Relation, a: &Measured, b: &Measured) -> tower::Truth {
        self.tower.compare(site, relation, &a.value, &b.value)
    }

    fn select(&self, truth: tower::Truth, a: &Measured, b: &Measured) -> Measured {
        let mut chosen = if self.decide(truth) { a.clone() } else { b.clone() };
        chosen.value = self.tower.select(truth, &a.value, &b.value);
        chosen
    }

    fn apply(&self, function: &'static Elementwise, arguments: &[Measured], dtype: DType) -> Measured {
        let negated = |a: &Measured| self.times(&self.number(-1.0), a);
        let one = || self.number(1.0);
        let values: Vec<tower::Real> = arguments.iter().map(|argument| argument.value.clone()).collect();
        let value = || self.tower.apply(function, &values, dtype);
        match (function.algebra, arguments) {
            (Algebra::Add, [a, b]) => self.sum(a, b),
            (Algebra::Sub, [a, b]) => self.sum(a, &negated(b)),
            (Algebra::Neg, [a]) => negated(a),
            (Algebra::Mul, [a, b]) => self.times(a, b),
            (Algebra::Div, [a, b]) => self.times(a, &self.inverted(b)),
            (Algebra::Exp | Algebra::Exp2, [a]) => self.exp(value(), &a.value),
            (Algebra::Sigmoid, [a]) => {
                let minus = negated(a).value;
                let power = self.exp(self.tower.apply_exp(&minus), &minus);
                self.inverted(&self.sum(&one(), &power))
            }
            (Algebra::Tanh, [a]) => {
                let twice = self.of(self.add, &a.value, &a.value);
                let power = self.exp(self.tower.apply_exp(&twice), &twice);
                let rest = self.times(&self.number(-2.0), &self.inverted(&self.sum(&power, &one())));
                self.sum(&one(), &rest)
            }
            _ => self.variable(value()),
        }
    }

    fn reduce(&self, algebra: Algebra, values: Vec<Measured>, accumulate: DType) -> Measured {
        match algebra {
            Algebra::Add => values.iter().fold(self.number(0.0), |sum, value| self.sum(&sum, value)),
            Algebra::Mul => {
                values.iter().fold(self.number(1.0), |product, value| self.times(&product, value))
            }
            _ => {
                let values = values.into_iter().map(|value| value.value).collect();
                self.variable(self.tower.reduce(algebra, values, accumulate))
            }
        }
    }

    fn order(&self, values: &[Measured]) -> Vec<f64> {
        let values: Vec<tower::Real> = values.iter().map(|value| value.value.clone()).collect();
        self.tower.order(&values)
    }
}
