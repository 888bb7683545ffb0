//! Elementwise functions and monoids on lanes.
//!
//! Floats narrower than f32 are computed as singles and rounded behind. Where a wider computation would round otherwise,
//! the function says so.

use tilewright::tensor::elementwise::TypeRule;
use tilewright::tensor::{DType, Elementwise, Monoid, Scalar};

use super::code::{Code, Lack, lack};
use super::lanes::Lanes;
use super::place::Kind;
use crate::machine::{Builder, Compare, Mask, ValueId};
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
            (TypeRule::Select, [Lanes::Bool(mask), x, y]) if x.kind() == y.kind() => {
                self.pick(*mask, *x, *y)?
            }
            (TypeRule::Compare, [Lanes::Float(x), Lanes::Float(y)]) => {
                let how = compare(function.name).ok_or_else(none)?;
                Lanes::Bool(self.b.compare_f32(how, *x, *y))
            }
            (TypeRule::Compare, [Lanes::Int(x), Lanes::Int(y)]) => {
                let how = compare(function.name).ok_or_else(none)?;
                Lanes::Bool(self.b.compare_i32(how, *x, *y))
            }
            (TypeRule::Compare, [Lanes::Double(x), Lanes::Double(y)]) => {
                let how = compare(function.name).ok_or_else(none)?;
                let masks = [0, 1].map(|k| self.b.compare_f64(how, x[k], y[k]));
                Lanes::Bool(self.b.join_masks(masks))
            }
            (TypeRule::Compare, [Lanes::Long(x), Lanes::Long(y)]) => {
                let how = compare(function.name).ok_or_else(none)?;
                let masks = [0, 1].map(|k| compare_long(&mut self.b, how, x[k], y[k]));
                let mask = self.b.join_masks(masks.map(|(mask, _)| mask));
                Lanes::Bool(if masks[0].1 { self.b.mask_not(mask) } else { mask })
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
            (_, [Lanes::Double(x)]) => {
                let halves = x.map(|x| one_double(&mut self.b, function.name, x));
                let [Some(low), Some(high)] = halves else { return Err(none()) };
                Lanes::Double([low, high])
            }
            (_, [Lanes::Double(x), Lanes::Double(y)]) => {
                let halves = [0, 1].map(|k| two_doubles(&mut self.b, function.name, x[k], y[k]));
                let [Some(low), Some(high)] = halves else { return Err(none()) };
                Lanes::Double([low, high])
            }
            (_, [Lanes::Long(x)]) if matches!(function.name, "neg" | "abs") => {
                let zero = self.b.splat_bits64(0);
                let minus = x.map(|x| self.b.sub_i64(zero, x));
                if function.name == "neg" {
                    Lanes::Long(minus)
                } else {
                    Lanes::Long([0, 1].map(|k| extreme_long(&mut self.b, true, x[k], minus[k])))
                }
            }
            (_, [Lanes::Long(x), Lanes::Long(y)]) => {
                let halves = [0, 1].map(|k| two_longs(&mut self.b, function.name, x[k], y[k]));
                let [Some(low), Some(high)] = halves else { return Err(none()) };
                Lanes::Long([low, high])
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
            (Kind::Double, _) => {
                let vector = self.b.splat_f64(value.as_f64());
                Ok(Lanes::Double([vector, vector]))
            }
            (Kind::Long, Scalar::Int(value)) => {
                let vector = self.b.splat_bits64(value as u64);
                Ok(Lanes::Long([vector, vector]))
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
        let none = || Lack(format!("the monoid `{}` of {dtype}", monoid.name));
        let more = match (state, value) {
            (Lanes::Float(s), Lanes::Float(x)) => {
                Lanes::Float(combine(b, monoid, Kind::Float, s, x).ok_or_else(none)?)
            }
            (Lanes::Int(s), Lanes::Int(x)) => {
                Lanes::Int(combine(b, monoid, Kind::Int, s, x).ok_or_else(none)?)
            }
            (Lanes::Double(s), Lanes::Double(x)) => {
                let halves = [0, 1].map(|k| combine(b, monoid, Kind::Double, s[k], x[k]));
                let [Some(low), Some(high)] = halves else { return Err(none()) };
                Lanes::Double([low, high])
            }
            (Lanes::Long(s), Lanes::Long(x)) => {
                let halves = [0, 1].map(|k| combine(b, monoid, Kind::Long, s[k], x[k]));
                let [Some(low), Some(high)] = halves else { return Err(none()) };
                Lanes::Long([low, high])
            }
            (Lanes::Bool(s), Lanes::Bool(x)) if monoid.name == "any" => Lanes::Bool(b.mask_or(s, x)),
            _ => return Err(none()),
        };
        Ok(self.settle(dtype, more))
    }

    /// All lanes of a state together, in lane 0: halves with halves, then quarters, pairs and lanes.
    pub fn fold(&mut self, monoid: &Monoid, dtype: DType, state: Lanes) -> Result<Lanes, Lack> {
        let kind = state.kind();
        let vectors = state.vectors(&mut self.b);
        if kind == Kind::Bool {
            let any = self.b.fold(vectors[0], |b, x, y| b.or_bits(x, y));
            return Ok(Lanes::of(Kind::Bool, &[any], &mut self.b));
        }
        let none = || Lack(format!("the monoid `{}` of {dtype}", monoid.name));
        let mut vector = vectors[0];
        for more in &vectors[1..] {
            vector = combine(&mut self.b, monoid, kind, vector, *more).ok_or_else(none)?;
        }
        // `absorb` has a way for every pair that comes here.
        let f = |b: &mut Builder, x, y| combine(b, monoid, kind, x, y).unwrap_or(x);
        let vector = if kind.bytes() == 8 { self.b.fold_wide(vector, f) } else { self.b.fold(vector, f) };
        let folded = Lanes::of(kind, &[vector], &mut self.b);
        Ok(self.settle(dtype, folded))
    }

    /// The state of nothing, in every lane.
    pub fn identity(&mut self, monoid: &Monoid, dtype: DType) -> Result<Lanes, Lack> {
        let Some(value) = (monoid.identity)(dtype).first().copied() else {
            return lack("a state of nothing");
        };
        self.literal(value, Kind::of(dtype)?)
    }
}

fn combine(b: &mut Builder, monoid: &Monoid, kind: Kind, x: ValueId, y: ValueId) -> Option<ValueId> {
    Some(match (monoid.name, kind) {
        ("sum", Kind::Float) => b.add_f32(x, y),
        ("sum", Kind::Int) => b.add_i32(x, y),
        ("sum", Kind::Double) => b.add_f64(x, y),
        ("sum", Kind::Long) => b.add_i64(x, y),
        ("prod", Kind::Float) => b.mul_f32(x, y),
        ("prod", Kind::Int) => b.mul_i32(x, y),
        ("prod", Kind::Double) => b.mul_f64(x, y),
        ("prod", Kind::Long) => b.mul_i64(x, y),
        ("max", Kind::Float) => b.greater_f32(x, y),
        ("min", Kind::Float) => b.lesser_f32(x, y),
        ("max", Kind::Int) => b.max_i32(x, y),
        ("min", Kind::Int) => b.min_i32(x, y),
        ("max" | "min", Kind::Double) => extreme_double(b, monoid.name == "max", x, y),
        ("max" | "min", Kind::Long) => extreme_long(b, monoid.name == "max", x, y),
        _ => return None,
    })
}

/// The greater (or lesser) of `x` and `y`: NaN if either is, and `x` where they are equal.
fn extreme_double(b: &mut Builder, greatest: bool, x: ValueId, y: ValueId) -> ValueId {
    let best = if greatest { b.max_f64(y, x) } else { b.min_f64(y, x) };
    let nan = b.compare_f64(Compare::Unordered, y, y);
    b.blend_wide(nan, y, best)
}

fn extreme_long(b: &mut Builder, greatest: bool, x: ValueId, y: ValueId) -> ValueId {
    let above = if greatest { b.greater_i64(y, x) } else { b.greater_i64(x, y) };
    b.blend_wide(above, y, x)
}

/// Where a comparison holds, or, if the second is true, where it does not.
fn compare_long(b: &mut Builder, how: Compare, x: ValueId, y: ValueId) -> (Mask, bool) {
    match how {
        Compare::Equal => (b.equal_i64(x, y), false),
        Compare::Greater => (b.greater_i64(x, y), false),
        Compare::Less => (b.greater_i64(y, x), false),
        Compare::LessEqual => (b.greater_i64(x, y), true),
        Compare::GreaterEqual => (b.greater_i64(y, x), true),
        _ => (b.equal_i64(x, y), true),
    }
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
    math::find(name)?.build(b, &[x])
}

fn two_floats(b: &mut Builder, name: &str, x: ValueId, y: ValueId) -> Option<ValueId> {
    math::find(name)?.build(b, &[x, y])
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

fn one_double(b: &mut Builder, name: &str, x: ValueId) -> Option<ValueId> {
    Some(match name {
        "neg" => {
            let sign = b.splat_bits64(1 << 63);
            b.xor_bits(x, sign)
        }
        "abs" => {
            let rest = b.splat_bits64(!(1 << 63));
            b.and_bits(x, rest)
        }
        "sqrt" => b.sqrt_f64(x),
        "rsqrt" => {
            let (root, one) = (b.sqrt_f64(x), b.splat_f64(1.0));
            b.div_f64(one, root)
        }
        "round" => b.round_f64(x, 0),
        "floor" => b.round_f64(x, 1),
        "ceil" => b.round_f64(x, 2),
        "trunc" => b.round_f64(x, 3),
        _ => return None,
    })
}

fn two_doubles(b: &mut Builder, name: &str, x: ValueId, y: ValueId) -> Option<ValueId> {
    Some(match name {
        "add" => b.add_f64(x, y),
        "sub" => b.sub_f64(x, y),
        "mul" => b.mul_f64(x, y),
        "div" => b.div_f64(x, y),
        "max" | "min" => extreme_double(b, name == "max", x, y),
        _ => return None,
    })
}

fn two_longs(b: &mut Builder, name: &str, x: ValueId, y: ValueId) -> Option<ValueId> {
    Some(match name {
        "add" => b.add_i64(x, y),
        "sub" => b.sub_i64(x, y),
        "mul" => b.mul_i64(x, y),
        "max" | "min" => extreme_long(b, name == "max", x, y),
        "bit_and" => b.and_bits(x, y),
        "bit_or" => b.or_bits(x, y),
        _ => return None,
    })
}
