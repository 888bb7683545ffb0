//! Values of lanes: in buffers, in scratch, and from one type to another.

use tilewright::tensor::DType;

use super::code::{Code, Lack, lack};
use super::index::Interval;
use super::place::Kind;
use crate::machine::rows::general;
use crate::machine::{Arg, Builder, Compare, Cond, Mask, Mem, Narrow, ValueId, Width};

/// One value a lane.
#[derive(Clone, Copy, Debug)]
pub enum Lanes {
    /// Floats.
    Float(ValueId),
    /// Integers.
    Int(ValueId),
    /// Truth values.
    Bool(Mask),
}

/// Which lanes of a vector take part.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Those of this mask.
    pub mask: Mask,
    /// The same lanes, as an interval.
    pub lanes: Interval,
}

impl Lanes {
    /// What they hold.
    pub fn kind(self) -> Kind {
        match self {
            Lanes::Float(_) => Kind::Float,
            Lanes::Int(_) => Kind::Int,
            Lanes::Bool(_) => Kind::Bool,
        }
    }

    /// The vector of numbers; 1 and 0 as integers for truth values.
    pub fn vector(self, b: &mut Builder) -> ValueId {
        match self {
            Lanes::Float(value) | Lanes::Int(value) => value,
            Lanes::Bool(mask) => {
                let (one, zero) = (b.splat_bits(1), b.splat_bits(0));
                b.blend(mask, one, zero)
            }
        }
    }

    /// Lanes of a kind from a vector that holds them as scratch does.
    pub fn of(kind: Kind, vector: ValueId, b: &mut Builder) -> Lanes {
        match kind {
            Kind::Float => Lanes::Float(vector),
            Kind::Int => Lanes::Int(vector),
            Kind::Bool => Lanes::Bool(b.nonzero_i32(vector)),
        }
    }
}

impl Code<'_> {
    /// The lanes at a position of a row, in order: one vector of memory of a type, or the lanes of `part`, the others 0.
    pub fn load_lanes(&mut self, dtype: DType, mem: Mem, part: Option<&Part>) -> Result<Lanes, Lack> {
        let raw = match (narrow(dtype), part) {
            (None, _) if dtype.bytes() != 4 => return lack(format!("elements of type {dtype}")),
            (None, None) => self.b.load(mem),
            (None, Some(part)) => self.b.load_masked(mem, part.mask),
            (Some(kind), None) => self.b.load_narrow(kind, mem),
            (Some(kind), Some(part)) => self.b.load_narrow_masked(kind, mem, part.mask),
        };
        self.lanes_of_bits(dtype, raw)
    }

    /// One element of memory in every lane.
    pub fn load_repeated(&mut self, dtype: DType, mem: Mem) -> Result<Lanes, Lack> {
        let raw = match dtype {
            DType::F32 | DType::I32 => self.b.broadcast(mem),
            _ => match narrow(dtype) {
                Some(kind) => self.b.broadcast_narrow(kind, mem),
                None => return lack(format!("elements of type {dtype}")),
            },
        };
        self.lanes_of_bits(dtype, raw)
    }

    /// One element of memory in a general register: its bits, an integer extended by its sign, a bf16 as a single.
    pub fn element_bits(&mut self, dtype: DType, mem: Mem) -> Result<ValueId, Lack> {
        match dtype {
            DType::F32 | DType::I32 => Ok(self.b.load32(mem)),
            DType::F16 => Ok(self.b.load16(mem)),
            DType::Bf16 => {
                let bits = self.b.load16(mem);
                Ok(self.b.shl(bits, 16))
            }
            DType::I8 => Ok(self.b.inst(&general::LOAD8S, Width::V128, &[mem.into()], None)[0]),
            DType::U8 | DType::Bool => Ok(self.b.load8(mem)),
            other => lack(format!("elements of type {other}")),
        }
    }

    /// Lanes from the bits of elements, as [`Code::element_bits`] gives them.
    pub fn lanes_of_bits(&mut self, dtype: DType, raw: ValueId) -> Result<Lanes, Lack> {
        let b = &mut self.b;
        Ok(match dtype {
            DType::F32 => Lanes::Float(raw),
            DType::Bf16 => Lanes::Float(raw),
            DType::F16 => Lanes::Float(b.f16_bits_to_f32(raw)),
            DType::I32 | DType::U8 | DType::I8 => Lanes::Int(raw),
            DType::Bool => Lanes::Bool(b.nonzero_i32(raw)),
            other => return lack(format!("elements of type {other}")),
        })
    }

    /// The bits of elements, one in the low bytes of each lane.
    pub fn bits_of_lanes(&mut self, dtype: DType, lanes: Lanes) -> Result<ValueId, Lack> {
        let vector = lanes.vector(&mut self.b);
        let b = &mut self.b;
        Ok(match dtype {
            DType::Bf16 => b.shr_u32(vector, 16),
            DType::F16 => b.f32_to_f16_bits(vector),
            _ => vector,
        })
    }

    /// Stores lanes as elements of a type: all, or those of `part`.
    pub fn store_lanes(
        &mut self,
        dtype: DType,
        mem: Mem,
        lanes: Lanes,
        part: Option<&Part>,
    ) -> Result<(), Lack> {
        let bits = self.bits_of_lanes(dtype, lanes)?;
        match (dtype.bytes() as u8, part) {
            (4, None) => self.b.store(mem, bits),
            (4, Some(part)) => self.b.store_masked(mem, bits, part.mask),
            (size @ (1 | 2), None) => self.b.store_narrow(size, mem, bits),
            (size @ (1 | 2), Some(part)) => self.b.store_narrow_masked(size, mem, bits, part.mask),
            _ => return lack(format!("elements of type {dtype}")),
        }
        Ok(())
    }

    /// Rounds lanes to a type: what `DType::round` does, after an operation that is exact enough in 32 bits.
    pub fn settle(&mut self, dtype: DType, lanes: Lanes) -> Lanes {
        let b = &mut self.b;
        match (dtype, lanes) {
            (DType::F16, Lanes::Float(x)) => {
                let half = b.f32_to_f16(x);
                Lanes::Float(b.f16_to_f32(half))
            }
            (DType::Bf16, Lanes::Float(x)) => Lanes::Float(round_bf16(b, x)),
            (DType::U8, Lanes::Int(x)) => Lanes::Int(b.and_bits(x, Arg::Splat(0xff))),
            (DType::I8, Lanes::Int(x)) => {
                let up = b.shl_i32(x, 24);
                Lanes::Int(b.sar_i32(up, 24))
            }
            _ => lanes,
        }
    }

    /// Lanes as values of a type.
    pub fn cast(&mut self, lanes: Lanes, to: DType) -> Result<Lanes, Lack> {
        let b = &mut self.b;
        let kind = Kind::of(to)?;
        let lanes = match (lanes, kind) {
            (Lanes::Float(x), Kind::Int) => Lanes::Int(to_integer(b, x, to)),
            (Lanes::Float(x), Kind::Bool) => Lanes::Bool(b.compare_f32(Compare::NotEqual, x, 0.0)),
            (Lanes::Int(x), Kind::Float) => Lanes::Float(b.i32_to_f32(x)),
            (Lanes::Int(x), Kind::Bool) => Lanes::Bool(b.nonzero_i32(x)),
            (Lanes::Bool(_), Kind::Int) => Lanes::Int(lanes.vector(b)),
            (Lanes::Bool(mask), Kind::Float) => {
                let (one, zero) = (b.splat(1.0), b.splat(0.0));
                Lanes::Float(b.blend(mask, one, zero))
            }
            _ => lanes,
        };
        Ok(self.settle(to, lanes))
    }

    /// The lanes of a vector at position `at` that lie in an interval of positions.
    pub fn part(&mut self, interval: Interval, at: ValueId) -> Part {
        let (zero, most) = (self.b.imm(0), self.b.imm(self.b.lanes() as i64));
        let clamp = |b: &mut Builder, bound: ValueId| {
            let lane = b.sub(bound, at);
            let lane = b.max(lane, zero);
            b.min(lane, most)
        };
        let hi = clamp(&mut self.b, interval.hi);
        let lo = clamp(&mut self.b, interval.lo);
        let (below, above) = (self.b.first_lanes(lo), self.b.first_lanes(hi));
        Part { mask: self.b.mask_without(above, below), lanes: Interval { lo, hi } }
    }

    /// The lanes of a vector at position `at` below `count`.
    pub fn rest(&mut self, count: ValueId, at: ValueId) -> Part {
        let (zero, most) = (self.b.imm(0), self.b.imm(self.b.lanes() as i64));
        let left = self.b.sub(count, at);
        let hi = self.b.min(left, most);
        Part { mask: self.b.first_lanes(hi), lanes: Interval { lo: zero, hi } }
    }

    /// 1 where `a cond b`, else 0.
    pub fn flag(&mut self, cond: Cond, a: ValueId, b: ValueId) -> ValueId {
        let (one, zero) = (self.b.imm(1), self.b.imm(0));
        self.b.select(cond, a, b, one, zero)
    }
}

/// How elements of 1 or 2 bytes are read: those of f16 as their bits.
fn narrow(dtype: DType) -> Option<Narrow> {
    match dtype {
        DType::U8 | DType::Bool => Some(Narrow::U8),
        DType::I8 => Some(Narrow::I8),
        DType::F16 => Some(Narrow::U16),
        DType::Bf16 => Some(Narrow::Bf16),
        _ => None,
    }
}

/// To nearest, ties to even, on the bits; NaN keeps its upper half, made quiet.
fn round_bf16(b: &mut Builder, x: ValueId) -> ValueId {
    let bits = b.f32_to_bf16_bits(x);
    b.shl_i32(bits, 16)
}

/// Cut towards 0, saturated at the type's range, NaN as 0.
fn to_integer(b: &mut Builder, x: ValueId, to: DType) -> ValueId {
    if to == DType::I32 {
        return b.f32_to_i32_saturating(x);
    }
    let number = b.compare_f32(Compare::Equal, x, x);
    let (lo, hi) = to.int_range().unwrap_or((0, 0));
    let x = b.max_f32(x, lo as f32);
    let x = b.min_f32(x, hi as f32);
    let (cut, zero) = (b.f32_to_i32_towards_zero(x), b.splat_bits(0));
    b.blend(number, cut, zero)
}
