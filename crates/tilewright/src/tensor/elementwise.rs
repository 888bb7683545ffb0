//! The elementwise functions: one table row each, and no other list of them anywhere.
//!
//! A row holds the text name, the number of arguments, the rule for the type of the result, and the meaning
//! on scalars. Parser, verifier, evaluators, lowerings, executors and the command's `list` read this table.
//! Every meaning is total: no argument panics. Floats are `f64` here; whoever evaluates in a program's own
//! types rounds the result once (`DType::round`). Integer results wrap at their type the same way. Transcendental
//! functions are those of `libm`, so that a result does not depend on the machine.
//!
//! NaN propagates through every function of floats, `min` and `max` included (`pow` gives 1 where the base is 1 or
//! the exponent 0, whatever the other is); a comparison with NaN is false, but `ne` is true. Where `min` or `max` has equal arguments (0 and -0 are) it gives the first. Integer division rounds
//! to minus infinity; a divisor of 0 gives the quotient 0, hence the remainder `a`.

use super::dtype::{DType, Scalar};
use crate::dim::Relation;

/// How the type of the result follows from the types of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRule {
    /// All arguments and the result have one type, a float.
    Float,
    /// All arguments and the result have one type, an integer.
    Int,
    /// All arguments and the result have one type, a float or an integer.
    Number,
    /// All arguments have one type, a float or an integer; the result is `bool`.
    Compare,
    /// All arguments and the result are `bool`.
    Bool,
    /// The first argument is `bool`, the others and the result have one type.
    Select,
    /// One argument of any type; the result type is stated by the operator (`to`).
    To,
}

/// What a function of numbers is in algebra: what the checker of `superopt` and its rules may use of it. Laws hold over
/// the reals; `docs/checker.md` says how they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algebra {
    /// a + b.
    Add,
    /// a - b.
    Sub,
    /// a · b.
    Mul,
    /// a / b.
    Div,
    /// -a.
    Neg,
    /// The lesser of two.
    Min,
    /// The greater of two.
    Max,
    /// a to the power of b.
    Pow,
    /// A comparison.
    Compare(Relation),
    /// Both of two truth values.
    And,
    /// One or both of two truth values.
    Or,
    /// The opposite of a truth value.
    Not,
    /// b where a, else c.
    Select,
    /// e to the power of a.
    Exp,
    /// 2 to the power of a.
    Exp2,
    /// The natural logarithm.
    Log,
    /// The natural logarithm of 1 + a.
    Log1p,
    /// The square root.
    Sqrt,
    /// The inverse of the square root.
    Rsqrt,
    /// 1 - 2 / (e^2a + 1).
    Tanh,
    /// 1 / (1 + e^-a).
    Sigmoid,
    /// The absolute value.
    Abs,
    /// The same number in another type, where that has it.
    Cast,
    /// No law but that equal arguments give equal results.
    Opaque,
}

/// An elementwise function: a row of [`TABLE`], compared by name.
#[derive(Debug)]
pub struct Elementwise {
    /// The text name.
    pub name: &'static str,
    /// The number of arguments, 1 to 3.
    pub arity: usize,
    /// About how many cheap operations, such as an addition, one element costs.
    pub operations: u32,
    /// What it is in algebra.
    pub algebra: Algebra,
    /// The type of the result.
    pub types: TypeRule,
    /// The value at one element; `to` is the type of the result. Arguments are of the class that `types` asks for.
    pub eval: fn(args: &[Scalar], to: DType) -> Scalar,
    /// One line for the documentation, such as `e^x`.
    pub doc: &'static str,
}

impl PartialEq for Elementwise {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Elementwise {}

impl std::hash::Hash for Elementwise {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The function with this text name.
pub fn find(name: &str) -> Option<&'static Elementwise> {
    TABLE.iter().find(|row| row.name == name)
}

/// Every elementwise function, once.
pub static TABLE: &[Elementwise] = &[
    Elementwise {
        name: "add",
        arity: 2,
        operations: 1,
        algebra: Algebra::Add,
        types: TypeRule::Number,
        eval: |a, _| arithmetic(a, i64::wrapping_add, |x, y| x + y),
        doc: "a + b",
    },
    Elementwise {
        name: "sub",
        arity: 2,
        operations: 1,
        algebra: Algebra::Sub,
        types: TypeRule::Number,
        eval: |a, _| arithmetic(a, i64::wrapping_sub, |x, y| x - y),
        doc: "a - b",
    },
    Elementwise {
        name: "mul",
        arity: 2,
        operations: 1,
        algebra: Algebra::Mul,
        types: TypeRule::Number,
        eval: |a, _| arithmetic(a, i64::wrapping_mul, |x, y| x * y),
        doc: "a * b",
    },
    Elementwise {
        name: "div",
        arity: 2,
        operations: 4,
        algebra: Algebra::Div,
        types: TypeRule::Number,
        eval: |a, _| arithmetic(a, quotient, |x, y| x / y),
        doc: "a / b; of integers rounded down, and 0 where b = 0",
    },
    Elementwise {
        name: "rem",
        arity: 2,
        operations: 4,
        algebra: Algebra::Opaque,
        types: TypeRule::Number,
        eval: |a, _| arithmetic(a, remainder, float_remainder),
        doc: "a - b * floor(a / b), with the sign of b; a where b = 0, NaN for floats",
    },
    Elementwise {
        name: "neg",
        arity: 1,
        operations: 1,
        algebra: Algebra::Neg,
        types: TypeRule::Number,
        eval: |a, _| number(a, i64::wrapping_neg, |x| -x),
        doc: "-a",
    },
    Elementwise {
        name: "min",
        arity: 2,
        operations: 1,
        algebra: Algebra::Min,
        types: TypeRule::Number,
        eval: |a, _| arithmetic(a, i64::min, float_min),
        doc: "the lesser; NaN if either is",
    },
    Elementwise {
        name: "max",
        arity: 2,
        operations: 1,
        algebra: Algebra::Max,
        types: TypeRule::Number,
        eval: |a, _| arithmetic(a, i64::max, float_max),
        doc: "the greater; NaN if either is",
    },
    Elementwise {
        name: "pow",
        arity: 2,
        operations: 16,
        algebra: Algebra::Pow,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(libm::pow(float(a, 0), float(a, 1))),
        doc: "a^b",
    },
    Elementwise {
        name: "eq",
        arity: 2,
        operations: 1,
        algebra: Algebra::Compare(Relation::Eq),
        types: TypeRule::Compare,
        eval: |a, _| compare(a, |x, y| x == y, |x, y| x == y),
        doc: "a = b",
    },
    Elementwise {
        name: "ne",
        arity: 2,
        operations: 1,
        algebra: Algebra::Compare(Relation::Ne),
        types: TypeRule::Compare,
        eval: |a, _| compare(a, |x, y| x != y, |x, y| x != y),
        doc: "a ≠ b; true if either is NaN",
    },
    Elementwise {
        name: "lt",
        arity: 2,
        operations: 1,
        algebra: Algebra::Compare(Relation::Lt),
        types: TypeRule::Compare,
        eval: |a, _| compare(a, |x, y| x < y, |x, y| x < y),
        doc: "a < b",
    },
    Elementwise {
        name: "le",
        arity: 2,
        operations: 1,
        algebra: Algebra::Compare(Relation::Le),
        types: TypeRule::Compare,
        eval: |a, _| compare(a, |x, y| x <= y, |x, y| x <= y),
        doc: "a ≤ b",
    },
    Elementwise {
        name: "gt",
        arity: 2,
        operations: 1,
        algebra: Algebra::Compare(Relation::Gt),
        types: TypeRule::Compare,
        eval: |a, _| compare(a, |x, y| x > y, |x, y| x > y),
        doc: "a > b",
    },
    Elementwise {
        name: "ge",
        arity: 2,
        operations: 1,
        algebra: Algebra::Compare(Relation::Ge),
        types: TypeRule::Compare,
        eval: |a, _| compare(a, |x, y| x >= y, |x, y| x >= y),
        doc: "a ≥ b",
    },
    Elementwise {
        name: "and",
        arity: 2,
        operations: 1,
        algebra: Algebra::And,
        types: TypeRule::Bool,
        eval: |a, _| Scalar::Bool(truth(a, 0) & truth(a, 1)),
        doc: "a and b",
    },
    Elementwise {
        name: "or",
        arity: 2,
        operations: 1,
        algebra: Algebra::Or,
        types: TypeRule::Bool,
        eval: |a, _| Scalar::Bool(truth(a, 0) | truth(a, 1)),
        doc: "a or b",
    },
    Elementwise {
        name: "not",
        arity: 1,
        operations: 1,
        algebra: Algebra::Not,
        types: TypeRule::Bool,
        eval: |a, _| Scalar::Bool(!truth(a, 0)),
        doc: "not a",
    },
    Elementwise {
        name: "select",
        arity: 3,
        operations: 1,
        algebra: Algebra::Select,
        types: TypeRule::Select,
        eval: |a, to| if truth(a, 0) { argument(a, 1) } else { argument(a, 2) }.carry(to),
        doc: "b where a, else c; the other is not looked at",
    },
    Elementwise {
        name: "exp",
        arity: 1,
        operations: 16,
        algebra: Algebra::Exp,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, libm::exp)),
        doc: "e^a",
    },
    Elementwise {
        name: "exp2",
        arity: 1,
        operations: 16,
        algebra: Algebra::Exp2,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, libm::exp2)),
        doc: "2^a",
    },
    Elementwise {
        name: "log",
        arity: 1,
        operations: 16,
        algebra: Algebra::Log,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, libm::log)),
        doc: "the natural logarithm; NaN below 0",
    },
    Elementwise {
        name: "log1p",
        arity: 1,
        operations: 16,
        algebra: Algebra::Log1p,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, libm::log1p)),
        doc: "log(1 + a), exact near 0; NaN below -1",
    },
    Elementwise {
        name: "sqrt",
        arity: 1,
        operations: 4,
        algebra: Algebra::Sqrt,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, f64::sqrt)),
        doc: "the square root; NaN below 0",
    },
    Elementwise {
        name: "rsqrt",
        arity: 1,
        operations: 4,
        algebra: Algebra::Rsqrt,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, |x| 1.0 / x.sqrt())),
        doc: "1 / sqrt(a)",
    },
    Elementwise {
        name: "tanh",
        arity: 1,
        operations: 16,
        algebra: Algebra::Tanh,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, libm::tanh)),
        doc: "the hyperbolic tangent",
    },
    Elementwise {
        name: "sin",
        arity: 1,
        operations: 16,
        algebra: Algebra::Opaque,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, libm::sin)),
        doc: "the sine of radians",
    },
    Elementwise {
        name: "cos",
        arity: 1,
        operations: 16,
        algebra: Algebra::Opaque,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, libm::cos)),
        doc: "the cosine of radians",
    },
    Elementwise {
        name: "erf",
        arity: 1,
        operations: 16,
        algebra: Algebra::Opaque,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, libm::erf)),
        doc: "the error function",
    },
    Elementwise {
        name: "sigmoid",
        arity: 1,
        operations: 16,
        algebra: Algebra::Sigmoid,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, |x| 1.0 / (1.0 + libm::exp(-x)))),
        doc: "1 / (1 + e^-a)",
    },
    Elementwise {
        name: "abs",
        arity: 1,
        operations: 1,
        algebra: Algebra::Abs,
        types: TypeRule::Number,
        eval: |a, _| number(a, i64::wrapping_abs, f64::abs),
        doc: "|a|",
    },
    Elementwise {
        name: "floor",
        arity: 1,
        operations: 1,
        algebra: Algebra::Opaque,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, f64::floor)),
        doc: "the greatest whole number ≤ a",
    },
    Elementwise {
        name: "ceil",
        arity: 1,
        operations: 1,
        algebra: Algebra::Opaque,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, f64::ceil)),
        doc: "the least whole number ≥ a",
    },
    Elementwise {
        name: "round",
        arity: 1,
        operations: 1,
        algebra: Algebra::Opaque,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, f64::round_ties_even)),
        doc: "the nearest whole number, ties to even",
    },
    Elementwise {
        name: "trunc",
        arity: 1,
        operations: 1,
        algebra: Algebra::Opaque,
        types: TypeRule::Float,
        eval: |a, _| Scalar::Float(map(a, f64::trunc)),
        doc: "the whole number next to a on the side of 0",
    },
    Elementwise {
        name: "cast",
        arity: 1,
        operations: 1,
        algebra: Algebra::Cast,
        types: TypeRule::To,
        eval: |a, to| cast(argument(a, 0), to),
        doc: "a in the type `to`, rounded once; floats become integers by cutting, saturating and NaN as 0",
    },
    Elementwise {
        name: "shift_right",
        arity: 2,
        operations: 1,
        algebra: Algebra::Opaque,
        types: TypeRule::Int,
        eval: |a, _| integers(a, shift_right),
        doc: "floor(a / 2^b), for 0 ≤ b ≤ 63 (b is clamped)",
    },
    Elementwise {
        name: "bit_and",
        arity: 2,
        operations: 1,
        algebra: Algebra::Opaque,
        types: TypeRule::Int,
        eval: |a, _| integers(a, |x, y| x & y),
        doc: "the bits set in a and in b",
    },
    Elementwise {
        name: "bit_or",
        arity: 2,
        operations: 1,
        algebra: Algebra::Opaque,
        types: TypeRule::Int,
        eval: |a, _| integers(a, |x, y| x | y),
        doc: "the bits set in a or in b",
    },
    Elementwise {
        name: "from_f16_bits",
        arity: 1,
        operations: 1,
        algebra: Algebra::Opaque,
        types: TypeRule::To,
        eval: |a, _| Scalar::Float(half::f16::from_bits(argument(a, 0).as_i64() as u16).to_f64()),
        doc: "the number whose half-precision bits are the low 16 bits of the integer a",
    },
];

fn argument(a: &[Scalar], k: usize) -> Scalar {
    a.get(k).copied().unwrap_or(Scalar::Bool(false))
}

fn float(a: &[Scalar], k: usize) -> f64 {
    argument(a, k).as_f64()
}

fn truth(a: &[Scalar], k: usize) -> bool {
    argument(a, k).as_bool()
}

fn map(a: &[Scalar], f: fn(f64) -> f64) -> f64 {
    f(float(a, 0))
}

fn number(a: &[Scalar], int: fn(i64) -> i64, real: fn(f64) -> f64) -> Scalar {
    match argument(a, 0) {
        Scalar::Int(x) => Scalar::Int(int(x)),
        x => Scalar::Float(real(x.as_f64())),
    }
}

fn arithmetic(a: &[Scalar], int: fn(i64, i64) -> i64, real: fn(f64, f64) -> f64) -> Scalar {
    match (argument(a, 0), argument(a, 1)) {
        (Scalar::Int(x), Scalar::Int(y)) => Scalar::Int(int(x, y)),
        (x, y) => Scalar::Float(real(x.as_f64(), y.as_f64())),
    }
}

fn integers(a: &[Scalar], f: fn(i64, i64) -> i64) -> Scalar {
    Scalar::Int(f(argument(a, 0).as_i64(), argument(a, 1).as_i64()))
}

fn compare(a: &[Scalar], int: fn(i64, i64) -> bool, real: fn(f64, f64) -> bool) -> Scalar {
    match (argument(a, 0), argument(a, 1)) {
        (Scalar::Int(x), Scalar::Int(y)) => Scalar::Bool(int(x, y)),
        (x, y) => Scalar::Bool(real(x.as_f64(), y.as_f64())),
    }
}

/// The quotient rounded down; 0 where the divisor is 0.
fn quotient(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
    if r != 0 && (r < 0) != (b < 0) { q - 1 } else { q }
}

fn remainder(a: i64, b: i64) -> i64 {
    a.wrapping_sub(b.wrapping_mul(quotient(a, b)))
}

fn float_remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

fn float_min(a: f64, b: f64) -> f64 {
    if a.is_nan() || a <= b { a } else { b }
}

fn float_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || a >= b { a } else { b }
}

fn shift_right(a: i64, by: i64) -> i64 {
    a >> by.clamp(0, 63)
}

/// A cast, rounded as little as an `f64` allows: an integer beyond 53 bits on its way to a narrower float is rounded
/// to odd, so that rounding the result to that type once more gives the nearest value.
fn cast(value: Scalar, to: DType) -> Scalar {
    match value {
        Scalar::Int(x) if to.is_float() && to != DType::F64 && x.unsigned_abs() >> 53 != 0 => {
            let sticky = i64::from(x & 0xfff != 0) << 12;
            Scalar::Float(((x & !0xfff) | sticky) as f64)
        }
        value => value.carry(to),
    }
}
