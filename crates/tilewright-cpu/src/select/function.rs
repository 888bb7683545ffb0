//! Elementwise functions and monoids on lanes.
//!
//! Floats narrower than f32 are computed as singles and rounded behind. Where a wider computation would round otherwise,
//! the function says so.

use tilewright::tensor::elementwise::TypeRule;
use tilewright::tensor::{DType, Elementwise, Monoid, Scalar};

use super::code::{Code, Lack, lack};
use super::lanes::Lanes;
use super::place::Kind;
use crate::machine::{Arg, Builder, Compare, Mask, ValueId};
use crate::math;

impl Code<'_> {
    /// `function(arguments)`, rounded to the type of the result.
    pub fn function(
        &mut self,
        function: &Elementwise,
        arguments: &[Lanes],
        to: DType,
    ) -> Result<Lanes, Lack> {
        let none = || Lack(format!("the function `{}` on {}", function.name, to));
        let value = match (function.types, arguments) {
            (TypeRule::To, [x]) if function.name == "cast" => return self.cast(*x, to),
            (TypeRule::To, [Lanes::Int(x)]) if function.name == "from_f16_bits" => {
                Lanes::Float(self.b.f16_bits_to_f32(*x))
            }
            (TypeRule::Select, [Lanes::Bool(mask), x, y]) => match (*x, *y) {
                (Lanes::Float(x), Lanes::Float(y)) => Lanes::Float(self.b.blend(*mask, x, y)),
                (Lanes::Int(x), Lanes::Int(y)) => Lanes::Int(self.b.blend(*mask, x, y)),
                (Lanes::Bool(x), Lanes::Bool(y)) => {
                    let (on, off) = (self.b.mask_and(*mask, x), self.b.mask_without(y, *mask));
                    Lanes::Bool(self.b.mask_or(on, off))
                }
                _ => return Err(none()),
            },
            (TypeRule::Compare, [Lanes::Float(x), Lanes::Float(y)]) => {
                let how = compare(function.name).ok_or_else(none)?;
                Lanes::Bool(self.b.compare_f32(how, *x, *y))
            }
            (TypeRule::Compare, [Lanes::Int(x), Lanes::Int(y)]) => {
                let how = compare(function.name).ok_or_else(none)?;
                Lanes::Bool(self.b.compare_i32(how, *x, *y))
            }
            (TypeRule::Bool, [Lanes::Bool(x), Lanes::Bool(y)]) => match function.name {
                "and" => Lanes::Bool(self.b.mask_and(*x, *y)),
                "or" => Lanes::Bool(self.b.mask_or(*x, *y)),
                _ => return Err(none()),
            },
            (TypeRule::Bool, [Lanes::Bool(x)]) if function.name == "not" => Lanes::Bool(self.b.mask_not(*x)),
            (_, [Lanes::Float(x)]) => {
                Lanes::Float(one_float(&mut self.b, function.name, *x).ok_or_else(none)?)
            }
            (_, [Lanes::Float(x), Lanes::Float(y)]) => {
                Lanes::Float(two_floats(&mut self.b, function.name, *x, *y).ok_or_else(none)?)
            }
            (_, [Lanes::Int(x)]) => Lanes::Int(one_integer(&mut self.b, function.name, *x).ok_or_else(none)?),
            (_, [Lanes::Int(x), Lanes::Int(y)]) => {
                Lanes::Int(two_integers(&mut self.b, function.name, *x, *y).ok_or_else(none)?)
            }
            _ => return Err(none()),
        };
        Ok(self.settle(to, value))
    }

    /// A number in every lane, as an argument beside lanes of a kind.
    pub fn literal(&mut self, value: Scalar, kind: Kind) -> Result<Lanes, Lack> {
        match (kind, value) {
            (Kind::Float, _) => {
                let (wide, single) = (value.as_f64(), value.as_f64() as f32);
                if f64::from(single) == wide || wide.is_nan() {
                    return Ok(Lanes::Float(self.b.splat(single)));
                }
                lack(format!("the number {wide}, which is no single"))
            }
            (Kind::Int, Scalar::Int(value)) => match i32::try_from(value) {
                Ok(value) => Ok(Lanes::Int(self.b.splat_bits(value as u32))),
                Err(_) => lack(format!("the number {value}, which has more than 32 bits")),
            },
            (Kind::Bool, Scalar::Bool(value)) => {
                let bits = self.b.splat_bits(value.into());
                Ok(Lanes::Bool(self.b.nonzero_i32(bits)))
            }
            _ => lack(format!("the number {value:?} beside another type")),
        }
    }

    /// `state ⊕ value` in each lane, rounded to the state's type.
    pub fn absorb(
        &mut self,
        monoid: &Monoid,
        dtype: DType,
        state: Lanes,
        value: Lanes,
    ) -> Result<Lanes, Lack> {
        let b = &mut self.b;
        let more = match (monoid.name, state, value) {
            ("sum", Lanes::Float(s), Lanes::Float(x)) => Lanes::Float(b.add_f32(s, x)),
            ("sum", Lanes::Int(s), Lanes::Int(x)) => Lanes::Int(b.add_i32(s, x)),
            ("prod", Lanes::Float(s), Lanes::Float(x)) => Lanes::Float(b.mul_f32(s, x)),
            ("prod", Lanes::Int(s), Lanes::Int(x)) => Lanes::Int(b.mul_i32(s, x)),
            ("max", Lanes::Float(s), Lanes::Float(x)) => Lanes::Float(b.greater_f32(s, x)),
            ("min", Lanes::Float(s), Lanes::Float(x)) => Lanes::Float(b.lesser_f32(s, x)),
            ("max", Lanes::Int(s), Lanes::Int(x)) => Lanes::Int(b.max_i32(s, x)),
            ("min", Lanes::Int(s), Lanes::Int(x)) => Lanes::Int(b.min_i32(s, x)),
            ("any", Lanes::Bool(s), Lanes::Bool(x)) => Lanes::Bool(b.mask_or(s, x)),
            _ => return lack(format!("the monoid `{}` of {dtype}", monoid.name)),
        };
        Ok(self.settle(dtype, more))
    }

    /// `on` where the mask is, else `off`; of one kind.
    pub fn pick(&mut self, mask: Mask, on: Lanes, off: Lanes) -> Result<Lanes, Lack> {
        Ok(match (on, off) {
            (Lanes::Float(x), Lanes::Float(y)) => Lanes::Float(self.b.blend(mask, x, y)),
            (Lanes::Int(x), Lanes::Int(y)) => Lanes::Int(self.b.blend(mask, x, y)),
            (Lanes::Bool(x), Lanes::Bool(y)) => {
                let (on, off) = (self.b.mask_and(mask, x), self.b.mask_without(y, mask));
                Lanes::Bool(self.b.mask_or(on, off))
            }
            _ => return lack("lanes of two kinds"),
        })
    }

    /// All lanes of a state together, in lane 0: halves with halves, then quarters, pairs and lanes.
    pub fn fold(&mut self, monoid: &Monoid, dtype: DType, state: Lanes) -> Result<Lanes, Lack> {
        let kind = state.kind();
        let vector = state.vector(&mut self.b);
        if kind == Kind::Bool {
            return Ok(Lanes::Int(self.b.fold(vector, |b, x, y| b.or_bits(x, y))));
        }
        // The builder's fold takes a function without errors; `absorb` has been asked before whether it has one.
        let lanes = |value| if kind == Kind::Float { Lanes::Float(value) } else { Lanes::Int(value) };
        let mut failed = None;
        let mut fold = |b: &mut Builder, x, y| match combine(b, monoid, lanes(x), lanes(y)) {
            Some(value) => value,
            None => {
                failed = Some(monoid.name);
                x
            }
        };
        let folded = fold_with(&mut self.b, vector, &mut fold);
        if let Some(name) = failed {
            return lack(format!("the monoid `{name}` of {dtype}"));
        }
        Ok(self.settle(dtype, lanes(folded)))
    }

    /// The state of nothing, in every lane.
    pub fn identity(&mut self, monoid: &Monoid, dtype: DType) -> Result<Lanes, Lack> {
        let Some(value) = (monoid.identity)(dtype).first().copied() else {
            return lack("a state of nothing");
        };
        self.literal(value, Kind::of(dtype)?)
    }
}

fn fold_with(
    b: &mut Builder,
    vector: ValueId,
    f: &mut impl FnMut(&mut Builder, ValueId, ValueId) -> ValueId,
) -> ValueId {
    let f = std::cell::RefCell::new(f);
    b.fold(vector, |b, x, y| (*f.borrow_mut())(b, x, y))
}

fn combine(b: &mut Builder, monoid: &Monoid, x: Lanes, y: Lanes) -> Option<ValueId> {
    Some(match (monoid.name, x, y) {
        ("sum", Lanes::Float(x), Lanes::Float(y)) => b.add_f32(x, y),
        ("sum", Lanes::Int(x), Lanes::Int(y)) => b.add_i32(x, y),
        ("prod", Lanes::Float(x), Lanes::Float(y)) => b.mul_f32(x, y),
        ("prod", Lanes::Int(x), Lanes::Int(y)) => b.mul_i32(x, y),
        ("max", Lanes::Float(x), Lanes::Float(y)) => b.greater_f32(x, y),
        ("min", Lanes::Float(x), Lanes::Float(y)) => b.lesser_f32(x, y),
        ("max", Lanes::Int(x), Lanes::Int(y)) => b.max_i32(x, y),
        ("min", Lanes::Int(x), Lanes::Int(y)) => b.min_i32(x, y),
        _ => return None,
    })
}

fn compare(name: &str) -> Option<Compare> {
    Some(match name {
        "eq" => Compare::Equal,
        "ne" => Compare::NotEqual,
        "lt" => Compare::Less,
        "le" => Compare::LessEqual,
        "gt" => Compare::Greater,
        "ge" => Compare::GreaterEqual,
        _ => return None,
    })
}

fn one_float(b: &mut Builder, name: &str, x: ValueId) -> Option<ValueId> {
    Some(match name {
        "neg" => b.xor_bits(x, Arg::Splat(1 << 31)),
        "abs" => b.and_bits(x, Arg::Splat(!(1 << 31))),
        "sqrt" => b.sqrt_f32(x),
        // Two roundings: within 1.5 ulp.
        "rsqrt" => {
            let (root, one) = (b.sqrt_f32(x), b.splat(1.0));
            b.div_f32(one, root)
        }
        "exp" => math::exp(b, x),
        "sigmoid" => math::sigmoid(b, x),
        "tanh" => math::tanh(b, x),
        "round" => b.round_f32(x, 0),
        "floor" => b.round_f32(x, 1),
        "ceil" => b.round_f32(x, 2),
        "trunc" => b.round_f32(x, 3),
        _ => return None,
    })
}

fn two_floats(b: &mut Builder, name: &str, x: ValueId, y: ValueId) -> Option<ValueId> {
    Some(match name {
        "add" => b.add_f32(x, y),
        "sub" => b.sub_f32(x, y),
        "mul" => b.mul_f32(x, y),
        "div" => b.div_f32(x, y),
        "max" => b.greater_f32(x, y),
        "min" => b.lesser_f32(x, y),
        _ => return None,
    })
}

fn one_integer(b: &mut Builder, name: &str, x: ValueId) -> Option<ValueId> {
    let zero = b.splat_bits(0);
    Some(match name {
        "neg" => b.sub_i32(zero, x),
        "abs" => b.abs_i32(x),
        _ => return None,
    })
}

fn two_integers(b: &mut Builder, name: &str, x: ValueId, y: ValueId) -> Option<ValueId> {
    Some(match name {
        "add" => b.add_i32(x, y),
        "sub" => b.sub_i32(x, y),
        "mul" => b.mul_i32(x, y),
        "max" => b.max_i32(x, y),
        "min" => b.min_i32(x, y),
        "bit_and" => b.and_bits(x, y),
        "bit_or" => b.or_bits(x, y),
        "shift_right" => {
            let zero = b.splat_bits(0);
            let count = b.max_i32(y, zero);
            b.sar_each(x, count)
        }
        _ => return None,
    })
}
