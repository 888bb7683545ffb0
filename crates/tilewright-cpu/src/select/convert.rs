//! Lanes from one type to another.

use tilewright::tensor::DType;

use super::code::{Code, Lack, lack};
use super::lanes::Lanes;
use super::place::Kind;
use crate::machine::rows::double;
use crate::machine::{Arg, Builder, Compare, Level, Mask, ValueId};

impl Code<'_> {
    /// Rounds lanes to a type: what `DType::round` does, after an operation that is exact enough.
    pub fn settle(&mut self, dtype: DType, lanes: Lanes) -> Lanes {
        let b = &mut self.b;
        match (dtype, lanes) {
            (DType::F16, Lanes::Float(x)) => {
                let half = b.f32_to_f16(x);
                Lanes::Float(b.f16_to_f32(half))
            }
            (DType::Bf16, Lanes::Float(x)) => {
                let bits = b.f32_to_bf16_bits(x);
                Lanes::Float(b.shl_i32(bits, 16))
            }
            (DType::U8, Lanes::Int(x)) => Lanes::Int(b.and_bits(x, Arg::Splat(0xff))),
            (DType::I8, Lanes::Int(x)) => {
                let up = b.shl_i32(x, 24);
                Lanes::Int(b.sar_i32(up, 24))
            }
            _ => lanes,
        }
    }

    /// Lanes as values of a type. A double or a large integer that becomes f16 or bf16 is rounded to f32 before.
    pub fn cast(&mut self, lanes: Lanes, to: DType) -> Result<Lanes, Lack> {
        let kind = Kind::of(to)?;
        let value = match kind {
            Kind::Float => Lanes::Float(self.as_float(lanes)?),
            Kind::Int => Lanes::Int(self.as_int(lanes, to)?),
            Kind::Bool => Lanes::Bool(self.as_bool(lanes)),
            Kind::Double => Lanes::Double(self.as_double(lanes)?),
            Kind::Long => Lanes::Long(self.as_long(lanes)?),
        };
        Ok(self.settle(to, value))
    }

    fn as_float(&mut self, lanes: Lanes) -> Result<ValueId, Lack> {
        let b = &mut self.b;
        Ok(match lanes {
            Lanes::Float(x) => x,
            Lanes::Int(x) => b.i32_to_f32(x),
            Lanes::Bool(mask) => {
                let (one, zero) = (b.splat(1.0), b.splat(0.0));
                b.blend(mask, one, zero)
            }
            Lanes::Double([low, high]) => {
                let (low, high) = (b.f64_to_f32(low), b.f64_to_f32(high));
                b.join_halves(low, high)
            }
            Lanes::Long(_) => return lack("a cast from i64 to a float"),
        })
    }

    /// Floats are cut towards 0, saturated at the type's range, NaN as 0; integers wrap.
    fn as_int(&mut self, lanes: Lanes, to: DType) -> Result<ValueId, Lack> {
        let b = &mut self.b;
        let (lo, hi) = to.int_range().unwrap_or((0, 0));
        Ok(match lanes {
            Lanes::Float(x) if to == DType::I32 => b.f32_to_i32_saturating(x),
            Lanes::Float(x) => {
                let number = b.compare_f32(Compare::Equal, x, x);
                let x = b.max_f32(x, lo as f32);
                let x = b.min_f32(x, hi as f32);
                let (cut, zero) = (b.f32_to_i32_towards_zero(x), b.splat_bits(0));
                b.blend(number, cut, zero)
            }
            Lanes::Int(x) => x,
            Lanes::Bool(_) => lanes.vectors(b)[0],
            Lanes::Double(halves) => {
                let cut = halves.map(|x| {
                    let zero = b.splat_f64(0.0);
                    let number = b.compare_f64(Compare::Equal, x, x);
                    let x = b.blend_wide(number, x, zero);
                    let (lo, hi) = (b.splat_f64(lo as f64), b.splat_f64(hi as f64));
                    let x = b.max_f64(x, lo);
                    let x = b.min_f64(x, hi);
                    b.f64_to_i32_towards_zero(x)
                });
                b.join_halves(cut[0], cut[1])
            }
            Lanes::Long(halves) => {
                let low = halves.map(|x| b.narrow_to_32(x));
                b.join_halves(low[0], low[1])
            }
        })
    }

    fn as_bool(&mut self, lanes: Lanes) -> Mask {
        let b = &mut self.b;
        match lanes {
            Lanes::Float(x) => b.compare_f32(Compare::NotEqual, x, 0.0),
            Lanes::Int(x) => b.nonzero_i32(x),
            Lanes::Bool(mask) => mask,
            Lanes::Double(halves) => {
                let zero = b.splat_f64(0.0);
                let masks = halves.map(|x| b.compare_f64(Compare::NotEqual, x, zero));
                b.join_masks(masks)
            }
            Lanes::Long(halves) => {
                let zero = b.splat_bits64(0);
                let masks = halves.map(|x| b.equal_i64(x, zero));
                let equal = b.join_masks(masks);
                b.mask_not(equal)
            }
        }
    }

    fn as_double(&mut self, lanes: Lanes) -> Result<[ValueId; 2], Lack> {
        let halves = |b: &mut Builder, x: ValueId| [x, b.half(x, 1)];
        let b = &mut self.b;
        Ok(match lanes {
            Lanes::Float(x) => halves(b, x).map(|half| b.f32_to_f64(half)),
            Lanes::Int(x) => halves(b, x).map(|half| b.i32_to_f64(half)),
            Lanes::Bool(_) => {
                let x = lanes.vectors(b)[0];
                halves(b, x).map(|half| b.i32_to_f64(half))
            }
            Lanes::Double(halves) => halves,
            Lanes::Long(halves) if b.level() > Level::Avx2 => {
                let width = b.width();
                halves.map(|half| b.inst(&double::VCVTQQ2PD, width, &[half.into()], None)[0])
            }
            Lanes::Long(_) => return lack("a cast from i64 to f64"),
        })
    }

    fn as_long(&mut self, lanes: Lanes) -> Result<[ValueId; 2], Lack> {
        let halves = |b: &mut Builder, x: ValueId| [x, b.half(x, 1)];
        let b = &mut self.b;
        Ok(match lanes {
            Lanes::Float(_) | Lanes::Double(_) => return lack("a cast from a float to i64"),
            Lanes::Int(x) => halves(b, x).map(|half| b.i32_to_i64(half)),
            Lanes::Bool(_) => {
                let x = lanes.vectors(b)[0];
                halves(b, x).map(|half| b.i32_to_i64(half))
            }
            Lanes::Long(halves) => halves,
        })
    }

    /// `on` where the mask is, else `off`; of one kind.
    pub fn pick(&mut self, mask: Mask, on: Lanes, off: Lanes) -> Result<Lanes, Lack> {
        let b = &mut self.b;
        let wide = |b: &mut Builder, x: [ValueId; 2], y: [ValueId; 2]| {
            let [low, high] = b.split_mask(mask);
            [b.blend_wide(low, x[0], y[0]), b.blend_wide(high, x[1], y[1])]
        };
        Ok(match (on, off) {
            (Lanes::Float(x), Lanes::Float(y)) => Lanes::Float(b.blend(mask, x, y)),
            (Lanes::Int(x), Lanes::Int(y)) => Lanes::Int(b.blend(mask, x, y)),
            (Lanes::Bool(x), Lanes::Bool(y)) => {
                let (on, off) = (b.mask_and(mask, x), b.mask_without(y, mask));
                Lanes::Bool(b.mask_or(on, off))
            }
            (Lanes::Double(x), Lanes::Double(y)) => Lanes::Double(wide(b, x, y)),
            (Lanes::Long(x), Lanes::Long(y)) => Lanes::Long(wide(b, x, y)),
            _ => return lack("lanes of two kinds"),
        })
    }

    /// 0, or false, in every lane.
    pub fn nothing(&mut self, kind: Kind) -> Lanes {
        let zero = self.b.splat_bits(0);
        Lanes::of(kind, &[zero], &mut self.b)
    }
}
