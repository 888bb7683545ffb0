//! Values of lanes, in buffers and in scratch. As many elements as a vector has lanes of 32 bits are one value; of 64 bits
//! each, they are two vectors.

use tilewright::tensor::DType;

use super::code::{Code, Lack, lack};
use super::index::Interval;
use super::place::Kind;
use crate::machine::rows::{general, moves};
use crate::machine::{Builder, Cond, Level, Mask, Mem, Narrow, ValueId, Width};

/// One value a lane.
#[derive(Clone, Copy, Debug)]
pub enum Lanes {
    /// Floats of up to 32 bits, as singles.
    Float(ValueId),
    /// Integers of up to 32 bits.
    Int(ValueId),
    /// Truth values.
    Bool(Mask),
    /// Doubles: the lower lanes and the upper ones.
    Double([ValueId; 2]),
    /// 64-bit integers: the lower lanes and the upper ones.
    Long([ValueId; 2]),
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
            Lanes::Double(_) => Kind::Double,
            Lanes::Long(_) => Kind::Long,
        }
    }

    /// The vectors that hold them in scratch: one, or two.
    pub fn vectors(self, b: &mut Builder) -> Vec<ValueId> {
        match self {
            Lanes::Float(value) | Lanes::Int(value) => vec![value],
            Lanes::Bool(mask) => {
                let (one, zero) = (b.splat_bits(1), b.splat_bits(0));
                vec![b.blend(mask, one, zero)]
            }
            Lanes::Double(halves) | Lanes::Long(halves) => halves.to_vec(),
        }
    }

    /// Lanes of a kind from the vectors that hold them in scratch; of the one for both halves where there is one.
    pub fn of(kind: Kind, vectors: &[ValueId], b: &mut Builder) -> Lanes {
        let first = vectors[0];
        let halves = [first, vectors.get(1).copied().unwrap_or(first)];
        match kind {
            Kind::Float => Lanes::Float(first),
            Kind::Int => Lanes::Int(first),
            Kind::Bool => Lanes::Bool(b.nonzero_i32(first)),
            Kind::Double => Lanes::Double(halves),
            Kind::Long => Lanes::Long(halves),
        }
    }

    /// The registers that hold them.
    pub fn registers(self) -> Vec<ValueId> {
        match self {
            Lanes::Float(value) | Lanes::Int(value) => vec![value],
            Lanes::Bool(mask) => vec![mask.0],
            Lanes::Double(halves) | Lanes::Long(halves) => halves.to_vec(),
        }
    }

    /// Lanes like those given, in other registers, which it takes from the front.
    pub fn taken(like: &[Lanes], registers: &[ValueId]) -> Vec<Lanes> {
        let mut left = registers.iter().copied();
        let mut next = |own: ValueId| left.next().unwrap_or(own);
        let one = |lanes: &Lanes| match *lanes {
            Lanes::Float(own) => Lanes::Float(next(own)),
            Lanes::Int(own) => Lanes::Int(next(own)),
            Lanes::Bool(own) => Lanes::Bool(Mask(next(own.0))),
            Lanes::Double([low, high]) => Lanes::Double([next(low), next(high)]),
            Lanes::Long([low, high]) => Lanes::Long([next(low), next(high)]),
        };
        like.iter().map(one).collect()
    }
}

impl Builder {
    /// The masks of the lower and the upper lanes of 64 bits.
    pub fn split_mask(&mut self, mask: Mask) -> [Mask; 2] {
        if self.level() == Level::Avx2 {
            let upper = self.half(mask.0, 1);
            return [Mask(self.i32_to_i64(mask.0)), Mask(self.i32_to_i64(upper))];
        }
        let bits = self.mask_bits(mask);
        let upper = self.shr(bits, self.lanes() as u8 / 2);
        [mask, self.mask_from_bits(upper)]
    }

    /// The mask of the lanes of two masks of 64-bit lanes.
    pub fn join_masks(&mut self, [low, high]: [Mask; 2]) -> Mask {
        if self.level() == Level::Avx2 {
            let (low, high) = (self.narrow_to_32(low.0), self.narrow_to_32(high.0));
            return Mask(self.join_halves(low, high));
        }
        let (low, high) = (self.wide_mask_bits(low), self.wide_mask_bits(high));
        let high = self.shl(high, self.lanes() as u8 / 2);
        let bits = self.or(low, high);
        self.mask_from_bits(bits)
    }
}

impl Code<'_> {
    /// The lanes at a position of a row, in order: elements of memory of a type, or those of `part`, the others 0.
    pub fn load_lanes(&mut self, dtype: DType, mem: Mem, part: Option<&Part>) -> Result<Lanes, Lack> {
        let raw = match (narrow(dtype), part) {
            (None, None) if dtype.bytes() == 8 => {
                vec![self.b.load(mem), self.b.load(mem.plus(self.b.width().bytes() as i32))]
            }
            (None, Some(part)) if dtype.bytes() == 8 => {
                let [low, high] = self.b.split_mask(part.mask);
                let further = mem.plus(self.b.width().bytes() as i32);
                vec![self.b.load_wide_masked(mem, low), self.b.load_wide_masked(further, high)]
            }
            (None, None) => vec![self.b.load(mem)],
            (None, Some(part)) => vec![self.b.load_masked(mem, part.mask)],
            (Some(kind), None) => vec![self.b.load_narrow(kind, mem)],
            (Some(kind), Some(part)) => vec![self.b.load_narrow_masked(kind, mem, part.mask)],
        };
        self.lanes_of_bits(dtype, &raw)
    }

    /// One element of memory in every lane.
    pub fn load_repeated(&mut self, dtype: DType, mem: Mem) -> Result<Lanes, Lack> {
        let raw = match narrow(dtype) {
            Some(kind) => self.b.broadcast_narrow(kind, mem),
            None if dtype.bytes() == 8 => self.b.broadcast64(mem),
            None => self.b.broadcast(mem),
        };
        self.lanes_of_bits(dtype, &[raw])
    }

    /// One element of memory in a general register: its bits, an integer extended by its sign, a bf16 as a single.
    pub fn element_bits(&mut self, dtype: DType, mem: Mem) -> Result<ValueId, Lack> {
        match dtype {
            DType::F32 | DType::I32 => Ok(self.b.load32(mem)),
            DType::F64 | DType::I64 => Ok(self.b.load64(mem)),
            DType::F16 => Ok(self.b.load16(mem)),
            DType::Bf16 => {
                let bits = self.b.load16(mem);
                Ok(self.b.shl(bits, 16))
            }
            DType::I8 => Ok(self.b.inst(&general::LOAD8S, Width::V128, &[mem.into()], None)[0]),
            DType::U8 | DType::Bool => Ok(self.b.load8(mem)),
            DType::ScaledF32 => lack("elements of scaled numbers"),
        }
    }

    /// An element in a general register, as [`Code::element_bits`] gives it, in every lane.
    pub fn repeat_bits(&mut self, dtype: DType, bits: ValueId) -> Result<Lanes, Lack> {
        let vector = match dtype.bytes() {
            8 => self.b.broadcast_general64(bits),
            _ => self.b.broadcast_general(bits),
        };
        self.lanes_of_bits(dtype, &[vector])
    }

    /// Lanes from the bits of elements, as [`Code::element_bits`] gives them; the one vector for both halves where there
    /// is one.
    pub fn lanes_of_bits(&mut self, dtype: DType, raw: &[ValueId]) -> Result<Lanes, Lack> {
        if dtype == DType::F16 {
            return Ok(Lanes::Float(self.b.f16_bits_to_f32(raw[0])));
        }
        Ok(Lanes::of(Kind::of(dtype)?, raw, &mut self.b))
    }

    /// The bits of elements, one in the low bytes of each lane.
    pub fn bits_of_lanes(&mut self, dtype: DType, lanes: Lanes) -> Vec<ValueId> {
        let vectors = lanes.vectors(&mut self.b);
        match dtype {
            DType::Bf16 => vec![self.b.shr_u32(vectors[0], 16)],
            DType::F16 => vec![self.b.f32_to_f16_bits(vectors[0])],
            _ => vectors,
        }
    }

    /// Stores lanes as elements of a type: all, or those of `part`.
    pub fn store_lanes(&mut self, dtype: DType, mem: Mem, lanes: Lanes, part: Option<&Part>) {
        let bits = self.bits_of_lanes(dtype, lanes);
        let b = &mut self.b;
        match (dtype.bytes() as u8, part) {
            (size @ (1 | 2), None) => b.store_narrow(size, mem, bits[0]),
            (size @ (1 | 2), Some(part)) => b.store_narrow_masked(size, mem, bits[0], part.mask),
            (8, Some(part)) => {
                let masks = b.split_mask(part.mask);
                let bytes = b.width().bytes() as i32;
                for (k, (half, mask)) in bits.iter().zip(masks).enumerate() {
                    b.store_wide_masked(mem.plus(k as i32 * bytes), *half, mask);
                }
            }
            (_, Some(part)) => b.store_masked(mem, bits[0], part.mask),
            (_, None) => store_vectors(b, mem, &bits),
        }
    }

    /// The lanes at position `at` of a row of scratch.
    pub fn load_scratch(&mut self, kind: Kind, pointer: ValueId, at: ValueId) -> Lanes {
        let mem = Mem::indexed(pointer, at, kind.bytes() as u8, 0);
        let vectors = load_vectors(&mut self.b, mem, kind.bytes() == 8);
        Lanes::of(kind, &vectors, &mut self.b)
    }

    /// Stores lanes at position `at` of a row of scratch.
    pub fn store_scratch(&mut self, pointer: ValueId, at: ValueId, lanes: Lanes) {
        let mem = Mem::indexed(pointer, at, lanes.kind().bytes() as u8, 0);
        let vectors = lanes.vectors(&mut self.b);
        store_vectors(&mut self.b, mem, &vectors);
    }

    /// An element of scratch in every lane.
    pub fn repeat_scratch(&mut self, kind: Kind, pointer: ValueId) -> Lanes {
        let mem = Mem::at(pointer, 0);
        let vector = if kind.bytes() == 8 { self.b.broadcast64(mem) } else { self.b.broadcast(mem) };
        Lanes::of(kind, &[vector], &mut self.b)
    }

    /// Stores lane 0 as an element of scratch.
    pub fn store_first(&mut self, pointer: ValueId, lanes: Lanes) {
        let mem = Mem::at(pointer, 0);
        let vectors = lanes.vectors(&mut self.b);
        if lanes.kind().bytes() == 8 {
            let first = self.b.first_wide_lane(vectors[0]);
            self.b.store_general(8, mem, first);
        } else {
            self.b.store_lane(mem, vectors[0]);
        }
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

fn load_vectors(b: &mut Builder, mem: Mem, wide: bool) -> Vec<ValueId> {
    let first = b.load(mem);
    if wide { vec![first, b.load(mem.plus(b.width().bytes() as i32))] } else { vec![first] }
}

fn store_vectors(b: &mut Builder, mem: Mem, vectors: &[ValueId]) {
    let width = b.width();
    for (k, vector) in vectors.iter().enumerate() {
        let to = mem.plus((k * width.bytes()) as i32);
        b.inst(&moves::VMOVUPS_STORE, width, &[to.into(), (*vector).into()], None);
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
