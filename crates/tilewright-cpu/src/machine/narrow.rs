//! Building machine programs: elements of 1 and 2 bytes in memory, as 32-bit lanes in registers.

use super::build::Builder;
use super::ir::*;
use super::level::Level;
use super::rows::{bytes, convert, integer, moves};
use super::vector::Mask;

/// How an element narrower than a lane becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow {
    /// An unsigned byte, as an integer.
    U8,
    /// A signed byte, as an integer.
    I8,
    /// 2 bytes, unsigned, as an integer; also the bits of an f16.
    U16,
    /// 2 bytes, signed, as an integer.
    I16,
    /// A bf16, as the single that it is.
    Bf16,
}

impl Narrow {
    /// Every kind.
    pub const ALL: [Narrow; 5] = [Narrow::U8, Narrow::I8, Narrow::U16, Narrow::I16, Narrow::Bf16];

    /// Bytes in memory.
    pub const fn bytes(self) -> i32 {
        match self {
            Narrow::U8 | Narrow::I8 => 1,
            _ => 2,
        }
    }
}

impl Builder {
    /// Half a vector of signed 16-bit integers to 32 bits.
    pub fn i16_to_i32(&mut self, a: impl Into<Arg>) -> ValueId {
        self.full(&convert::VPMOVSXWD, &[a.into()])
    }

    /// As many elements as there are lanes.
    pub fn load_narrow(&mut self, kind: Narrow, mem: Mem) -> ValueId {
        match kind {
            Narrow::U8 => self.u8_to_i32(mem),
            Narrow::I8 => self.i8_to_i32(mem),
            Narrow::U16 => self.u16_to_i32(mem),
            Narrow::I16 => self.i16_to_i32(mem),
            Narrow::Bf16 => {
                let bits = self.u16_to_i32(mem);
                self.shl_i32(bits, 16)
            }
        }
    }

    /// One element in every lane.
    pub fn broadcast_narrow(&mut self, kind: Narrow, mem: Mem) -> ValueId {
        let row = if kind.bytes() == 1 { &bytes::VPBROADCASTB } else { &bytes::VPBROADCASTW };
        let repeated = self.full(row, &[mem.into()]);
        self.low_bits(kind, repeated)
    }

    /// An f16 in every lane, as a single.
    pub fn broadcast_f16(&mut self, mem: Mem) -> ValueId {
        let repeated = self.full(&bytes::VPBROADCASTW, &[mem.into()]);
        self.f16_to_f32(repeated)
    }

    /// Elements where the mask is on, else 0. Memory of lanes that are off is not touched.
    pub fn load_narrow_masked(&mut self, kind: Narrow, mem: Mem, mask: Mask) -> ValueId {
        if !self.avx512() {
            let zero = self.splat_bits(0);
            let base = self.lea(mem);
            let bits = self.each_lane(mask, &[zero], |b, lane, carried| {
                let at = Mem::indexed(base, lane, kind.bytes() as u8, 0);
                let word = if kind.bytes() == 1 { b.load8(at) } else { b.load16(at) };
                vec![b.with_lane(carried[0], lane, word)]
            });
            return self.low_bits(kind, bits[0]);
        }
        let row = match kind {
            Narrow::U8 => &convert::VPMOVZXBD,
            Narrow::I8 => &convert::VPMOVSXBD,
            Narrow::I16 => &convert::VPMOVSXWD,
            Narrow::U16 | Narrow::Bf16 => &convert::VPMOVZXWD,
        };
        let (width, masking) = (self.width(), Masking { mask: mask.0, merge: None });
        let bits = self.inst(row, width, &[mem.into()], Some(masking))[0];
        if kind == Narrow::Bf16 { self.shl_i32(bits, 16) } else { bits }
    }

    /// Elements from `base + lane of index`, in bytes, where the mask is on, else 0. Reads 4 bytes at once: `last` holds in
    /// every lane where the last 4 bytes that may be read start, and no index is beyond the element that ends them.
    pub fn gather_narrow(
        &mut self,
        kind: Narrow,
        base: ValueId,
        index: ValueId,
        last: ValueId,
        mask: Mask,
    ) -> ValueId {
        let from = self.min_i32(index, last);
        let zero = self.splat_bits(0);
        let words = self.gather(base, from, 1, mask, zero);
        let beyond = self.sub_i32(index, from);
        let bits = self.shl_i32(beyond, 3);
        let words = self.shr_each(words, bits);
        self.low_bits(kind, words)
    }

    /// The element in the low bits of each lane.
    pub fn low_bits(&mut self, kind: Narrow, a: ValueId) -> ValueId {
        let up = |b: &mut Builder, count| b.shl_i32(a, count);
        match kind {
            Narrow::U8 => self.and_bits(a, Arg::Splat(0xff)),
            Narrow::U16 => self.and_bits(a, Arg::Splat(0xffff)),
            Narrow::Bf16 => up(self, 16),
            Narrow::I8 => {
                let high = up(self, 24);
                self.sar_i32(high, 24)
            }
            Narrow::I16 => {
                let high = up(self, 16);
                self.sar_i32(high, 16)
            }
        }
    }

    /// Stores the low byte, or the low two (`size` 1 or 2), of each lane, one behind another.
    pub fn store_narrow(&mut self, size: u8, mem: Mem, value: ValueId) {
        let width = self.width();
        if self.avx512() {
            let row = if size == 1 { &bytes::VPMOVDB_STORE } else { &bytes::VPMOVDW_STORE };
            self.inst(row, width, &[mem.into(), value.into()], None);
        } else if size == 1 {
            let narrow = self.narrow_to_8(value);
            self.inst(&bytes::VMOVQUARTER_STORE, width, &[mem.into(), narrow.into()], None);
        } else {
            let narrow = self.narrow_to_16(value);
            self.inst(&bytes::VMOVLO_STORE, width, &[mem.into(), narrow.into()], None);
        }
    }

    /// The same, where the mask is on. Memory of lanes that are off is not touched.
    pub fn store_narrow_masked(&mut self, size: u8, mem: Mem, value: ValueId, mask: Mask) {
        let (width, masking) = (self.width(), Masking { mask: mask.0, merge: None });
        if self.avx512() {
            let row = if size == 1 { &bytes::VPMOVDB_STORE } else { &bytes::VPMOVDW_STORE };
            self.inst(row, width, &[mem.into(), value.into()], Some(masking));
            return;
        }
        let base = self.lea(mem);
        self.each_lane(mask, &[], |b, lane, _| {
            let bits = b.lane(value, lane);
            b.store_general(size, Mem::indexed(base, lane, size, 0), bits);
            Vec::new()
        });
    }

    /// The lower 16 bits of each lane, as half a vector.
    pub fn narrow_to_16(&mut self, a: ValueId) -> ValueId {
        if self.avx512() {
            return self.full(&convert::VPMOVDW, &[a.into()]);
        }
        let low = self.full(&integer::VPAND, &[a.into(), Arg::Splat(0xffff)]);
        let packed = self.full(&convert::VPACKUSDW, &[low.into(), low.into()]);
        self.full(&moves::VPERMQ, &[packed.into(), Arg::Imm(0b1000)])
    }

    /// The lower 8 bits of each lane, as a quarter of a vector.
    pub fn narrow_to_8(&mut self, a: ValueId) -> ValueId {
        if self.avx512() {
            return self.full(&convert::VPMOVDB, &[a.into()]);
        }
        let low = self.full(&integer::VPAND, &[a.into(), Arg::Splat(0xff)]);
        let words = self.full(&convert::VPACKUSDW, &[low.into(), low.into()]);
        let bytes = self.full(&convert::VPACKUSWB, &[words.into(), words.into()]);
        let order: Vec<u8> = [0_u32, 4, 0, 4, 0, 4, 0, 4].iter().flat_map(|i| i.to_le_bytes()).collect();
        let order = self.constant(order);
        let order = self.load(Mem::constant(order));
        self.permute(bytes, order)
    }

    /// The singles whose f16 bits are in the low half of each lane.
    pub fn f16_bits_to_f32(&mut self, a: ValueId) -> ValueId {
        let half = self.narrow_to_16(a);
        self.f16_to_f32(half)
    }

    /// f16 bits, to the nearest, ties to even, in the low half of each lane, the rest 0.
    pub fn f32_to_f16_bits(&mut self, a: ValueId) -> ValueId {
        let half = self.f32_to_f16(a);
        self.u16_to_i32(half)
    }

    /// bf16 bits, to the nearest, ties to even, in the low half of each lane, the rest 0. Subnormals are kept, as the
    /// processor's own conversion does not; NaN stays one, made quiet.
    pub fn f32_to_bf16_bits(&mut self, a: ValueId) -> ValueId {
        let upper = self.shr_u32(a, 16);
        let odd = self.and_bits(upper, Arg::Splat(1));
        let up = self.add_i32(odd, Arg::Splat(0x7fff));
        let sum = self.add_i32(a, up);
        let rounded = self.shr_u32(sum, 16);
        let quiet = self.or_bits(upper, Arg::Splat(0x40));
        let nan = self.compare_f32(super::vector::Compare::Unordered, a, a);
        self.blend(nan, quiet, rounded)
    }

    /// Interleaves the lower (0) or upper (1) halves of each 16 bytes of both: a byte of `a`, then one of `b`.
    pub fn interleave_bytes(&mut self, a: ValueId, b: ValueId, which: u8) -> ValueId {
        let row = if which == 0 { &bytes::VPUNPCKLBW } else { &bytes::VPUNPCKHBW };
        self.full(row, &[a.into(), b.into()])
    }

    /// The low and the high four bits of every byte, each as a vector of bytes in 0..=15.
    pub fn nibbles(&mut self, a: ValueId) -> (ValueId, ValueId) {
        let low = self.and_bits(a, Arg::Splat(0x0f0f_0f0f));
        let high = self.shr_u32(a, 4);
        (low, self.and_bits(high, Arg::Splat(0x0f0f_0f0f)))
    }

    /// `a + b`, byte by byte, modulo 2⁸.
    pub fn add_i8(&mut self, a: ValueId, b: impl Into<Arg>) -> ValueId {
        self.full(&bytes::VPADDB, &[a.into(), b.into()])
    }

    /// `a − b`, byte by byte, modulo 2⁸.
    pub fn sub_i8(&mut self, a: ValueId, b: impl Into<Arg>) -> ValueId {
        self.full(&bytes::VPSUBB, &[a.into(), b.into()])
    }

    /// `tied + Σ a · b` over four bytes a lane, `a` unsigned and `b` signed, at every level. Below `Level::Avx512Dot` the
    /// sums of two products are 16-bit integers that saturate: exact where every `a` is at most 128.
    pub fn dot_bytes(&mut self, tied: ValueId, a: ValueId, b: ValueId) -> ValueId {
        if self.level() >= Level::Avx512Dot {
            return self.dot_u8_i8(tied, a, b);
        }
        let pairs = self.full(&integer::VPMADDUBSW, &[a.into(), b.into()]);
        let ones = self.splat_bits(0x0001_0001);
        let fours = self.full(&integer::VPMADDWD, &[pairs.into(), ones.into()]);
        self.add_i32(tied, fours)
    }

    /// Lanes of a table of twice as many as a vector has: `low` and then `high`; from AVX-512 on.
    pub fn look_up_pair(&mut self, low: ValueId, high: ValueId, index: ValueId) -> ValueId {
        self.full(&bytes::VPERMT2D, &[low.into(), index.into(), high.into()])
    }
}
