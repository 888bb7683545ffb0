//! Functions of f32 as machine instructions: one row of [`TABLE`] each. One program serves every level, so that results are
//! bit-identical at all of them. NaN gives NaN, except where `pow` says otherwise.
//!
//! Polynomials run over fused multiply-adds. Those of `exp` and `tanh` are of the Cephes library (`expf`, `tanhf`); the others
//! were fitted by weighted least squares iterated to the least largest error (Lawson), their coefficients rounded one by one.
//! An ulp of a subnormal result is 2⁻¹⁴⁹. The errors that rows state, and which sweep found them, are in `docs/machine.md`.

mod erf;
mod exp;
mod log;
mod pow;
mod sigmoid;
mod simple;
mod trig;

#[cfg(test)]
mod tests;

pub use erf::erf;
pub use exp::{exp, exp2};
pub use log::{log, log1p};
pub use pow::pow;
pub use sigmoid::{sigmoid, tanh};
pub use simple::{abs, neg, rsqrt};
pub use trig::{cos, sin};

use crate::machine::{Builder, ValueId};

const SIGN: f32 = -0.0;

/// Instructions that compute a function, by its number of arguments.
#[derive(Clone, Copy)]
pub enum Code {
    /// Of one argument.
    One(fn(&mut Builder, ValueId) -> ValueId),
    /// Of two.
    Two(fn(&mut Builder, ValueId, ValueId) -> ValueId),
}

/// A function of f32.
#[derive(Clone, Copy)]
pub struct Function {
    /// Its name in tensor programs.
    pub name: &'static str,
    /// The largest error in ulp; 0.5 where the result is the nearest float, or exact.
    pub ulp: f64,
    /// Its instructions.
    pub code: Code,
}

impl Function {
    /// Adds the instructions; `None` if there are not as many arguments as it takes.
    pub fn build(&self, b: &mut Builder, args: &[ValueId]) -> Option<ValueId> {
        match (self.code, args) {
            (Code::One(code), [x]) => Some(code(b, *x)),
            (Code::Two(code), [x, y]) => Some(code(b, *x, *y)),
            _ => None,
        }
    }
}

/// The function of this name.
pub fn find(name: &str) -> Option<&'static Function> {
    TABLE.iter().find(|function| function.name == name)
}

macro_rules! one {
    ($name:literal, $ulp:literal, $code:expr) => {
        Function { name: $name, ulp: $ulp, code: Code::One($code) }
    };
}

macro_rules! two {
    ($name:literal, $ulp:literal, $code:expr) => {
        Function { name: $name, ulp: $ulp, code: Code::Two($code) }
    };
}

/// Every function, once.
pub static TABLE: &[Function] = &[
    two!("add", 0.5, |b, x, y| b.add_f32(x, y)),
    two!("sub", 0.5, |b, x, y| b.sub_f32(x, y)),
    two!("mul", 0.5, |b, x, y| b.mul_f32(x, y)),
    two!("div", 0.5, |b, x, y| b.div_f32(x, y)),
    two!("min", 0.5, |b, x, y| b.lesser_f32(x, y)),
    two!("max", 0.5, |b, x, y| b.greater_f32(x, y)),
    two!("pow", 0.501, pow),
    one!("neg", 0.5, neg),
    one!("abs", 0.5, abs),
    one!("floor", 0.5, |b, x| b.round_f32(x, 1)),
    one!("ceil", 0.5, |b, x| b.round_f32(x, 2)),
    one!("round", 0.5, |b, x| b.round_f32(x, 0)),
    one!("trunc", 0.5, |b, x| b.round_f32(x, 3)),
    one!("sqrt", 0.5, |b, x| b.sqrt_f32(x)),
    one!("rsqrt", 1.5, rsqrt),
    one!("exp", 1.05, exp),
    one!("exp2", 1.0, exp2),
    one!("log", 1.5, log),
    one!("log1p", 1.5, log1p),
    one!("sigmoid", 2.5, sigmoid),
    one!("tanh", 2.5, tanh),
    one!("sin", 1.5, sin),
    one!("cos", 1.5, cos),
    one!("erf", 1.5, erf),
];

/// `|x|`.
fn magnitude(b: &mut Builder, x: ValueId) -> ValueId {
    let sign = b.splat(SIGN);
    b.andn_bits(sign, x)
}

/// `a · factor + c`, with the factor a constant.
fn fma_of(b: &mut Builder, a: ValueId, factor: f32, c: ValueId) -> ValueId {
    b.fma_add(c, a, factor)
}
