//! Building machine programs: vectors of 32-bit lanes at the level's full width, with one interface for both kinds of
//! masks.

use super::build::Builder;
use super::ir::*;
use super::level::Level;
use super::row::Row;
use super::rows::{convert, float, gather, general, integer, mask, moves};

/// One truth value a lane: a predicate from AVX-512 on, all bits of each lane on AVX2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub ValueId);

/// A comparison of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `a = b`
    Equal,
    /// `a < b`
    Less,
    /// `a ≤ b`
    LessEqual,
    /// Either is NaN.
    Unordered,
    /// `a ≠ b`, or either is NaN.
    NotEqual,
    /// `a ≥ b`
    GreaterEqual,
    /// `a > b`
    Greater,
}

impl Compare {
    pub(super) fn number(self) -> i64 {
        match self {
            Compare::Equal => 0,
            Compare::Less => 1,
            Compare::LessEqual => 2,
            Compare::Unordered => 3,
            Compare::NotEqual => 4,
            Compare::GreaterEqual => 13,
            Compare::Greater => 14,
        }
    }
}

macro_rules! two {
    ($($(#[$doc:meta])* $name:ident = $row:path;)*) => {
        $($(#[$doc])* pub fn $name(&mut self, a: ValueId, b: impl Into<Arg>) -> ValueId {
            self.full(&$row, &[a.into(), b.into()])
        })*
    };
}

macro_rules! one {
    ($($(#[$doc:meta])* $name:ident = $row:path;)*) => {
        $($(#[$doc])* pub fn $name(&mut self, a: impl Into<Arg>) -> ValueId {
            self.full(&$row, &[a.into()])
        })*
    };
}

macro_rules! three {
    ($($(#[$doc:meta])* $name:ident = $row:path;)*) => {
        $($(#[$doc])* pub fn $name(&mut self, tied: ValueId, a: ValueId, b: impl Into<Arg>) -> ValueId {
            self.full(&$row, &[tied.into(), a.into(), b.into()])
        })*
    };
}

impl Builder {
    pub(super) fn full(&mut self, row: &'static Row, args: &[Arg]) -> ValueId {
        let width = self.width();
        self.inst(row, width, args, None)[0]
    }

    pub(super) fn avx512(&self) -> bool {
        self.level() >= Level::Avx512
    }

    two! {
        /// `a + b`
        add_f32 = float::VADDPS;
        /// `a − b`
        sub_f32 = float::VSUBPS;
        /// `a · b`
        mul_f32 = float::VMULPS;
        /// `a / b`
        div_f32 = float::VDIVPS;
        /// `a` where `a < b`, else `b`: `b` where either is NaN.
        min_f32 = float::VMINPS;
        /// `a` where `a > b`, else `b`: `b` where either is NaN.
        max_f32 = float::VMAXPS;
        /// `a + b`, modulo 2³².
        add_i32 = integer::VPADDD;
        /// `a − b`, modulo 2³².
        sub_i32 = integer::VPSUBD;
        /// `a · b`, modulo 2³².
        mul_i32 = integer::VPMULLD;
        /// The smaller, signed.
        min_i32 = integer::VPMINSD;
        /// The larger, signed.
        max_i32 = integer::VPMAXSD;
        /// Bits in both.
        and_bits = integer::VPAND;
        /// Bits in one or both.
        or_bits = integer::VPOR;
        /// Bits in one of both.
        xor_bits = integer::VPXOR;
        /// Bits of `b` that are not in `a`.
        andn_bits = integer::VPANDN;
    }

    three! {
        /// `a · b + tied`
        fma_add = float::VFMADD231PS;
        /// `tied · a + b`
        fma_mul = float::VFMADD213PS;
        /// `tied − a · b`
        fnma_add = float::VFNMADD231PS;
        /// `b − tied · a`
        fnma_mul = float::VFNMADD213PS;
        /// `tied + Σ a · b` over two bf16 a lane; from `Level::Avx512Dot` on.
        dot_bf16 = integer::VDPBF16PS;
        /// `tied + Σ a · b` over four bytes a lane, `a` unsigned and `b` signed; from `Level::Avx512Dot` on.
        dot_u8_i8 = integer::VPDPBUSD;
    }

    one! {
        /// The square root.
        sqrt_f32 = float::VSQRTPS;
        /// From signed integers, to the nearest.
        i32_to_f32 = convert::VCVTDQ2PS;
        /// To signed integers, to the nearest, ties to even; `0x80000000` where it does not fit.
        f32_to_i32 = convert::VCVTPS2DQ;
        /// To signed integers, towards 0; `0x80000000` where it does not fit.
        f32_to_i32_towards_zero = convert::VCVTTPS2DQ;
        /// Half a vector of f16 to f32.
        f16_to_f32 = convert::VCVTPH2PS;
        /// Half a vector of unsigned 16-bit integers to 32 bits.
        u16_to_i32 = convert::VPMOVZXWD;
        /// A quarter of a vector of unsigned bytes to 32 bits.
        u8_to_i32 = convert::VPMOVZXBD;
        /// A quarter of a vector of signed bytes to 32 bits.
        i8_to_i32 = convert::VPMOVSXBD;
    }

    /// To an integer: to the nearest (0, ties to even), down (1), up (2) or towards 0 (3).
    pub fn round_f32(&mut self, a: ValueId, how: u8) -> ValueId {
        self.full(&float::VROUNDPS, &[a.into(), Arg::Imm((how & 3).into())])
    }

    /// Lanes times 2^count, modulo 2³².
    pub fn shl_i32(&mut self, a: ValueId, count: u8) -> ValueId {
        self.full(&integer::VPSLLD, &[a.into(), Arg::Imm(count.into())])
    }

    /// Lanes shifted right, unsigned.
    pub fn shr_u32(&mut self, a: ValueId, count: u8) -> ValueId {
        self.full(&integer::VPSRLD, &[a.into(), Arg::Imm(count.into())])
    }

    /// Lanes shifted right, signed.
    pub fn sar_i32(&mut self, a: ValueId, count: u8) -> ValueId {
        self.full(&integer::VPSRAD, &[a.into(), Arg::Imm(count.into())])
    }

    /// A float in every lane.
    pub fn splat(&mut self, value: f32) -> ValueId {
        self.splat_bits(value.to_bits())
    }

    /// These bits in every lane.
    pub fn splat_bits(&mut self, bits: u32) -> ValueId {
        let constant = self.constant(bits.to_le_bytes().to_vec());
        self.broadcast(Mem::constant(constant))
    }

    /// 4 bytes of memory in every lane.
    pub fn broadcast(&mut self, mem: Mem) -> ValueId {
        self.full(&moves::VBROADCASTSS, &[mem.into()])
    }

    /// The low 4 bytes of a general register in every lane.
    pub fn broadcast_general(&mut self, value: ValueId) -> ValueId {
        let one = self.inst(&moves::VMOVD, Width::V128, &[value.into()], None)[0];
        self.full(&moves::VBROADCASTSS_REG, &[one.into()])
    }

    /// 0, 1, 2 … as 32-bit integers.
    pub fn iota_i32(&mut self) -> ValueId {
        let bytes = (0..self.lanes() as i32).flat_map(i32::to_le_bytes).collect();
        let constant = self.constant(bytes);
        self.load(Mem::constant(constant))
    }

    /// A whole vector of memory.
    pub fn load(&mut self, mem: Mem) -> ValueId {
        self.full(&moves::VMOVUPS, &[mem.into()])
    }

    /// Stores a whole vector.
    pub fn store(&mut self, mem: Mem, value: ValueId) {
        let width = self.width();
        self.inst(&moves::VMOVUPS_STORE, width, &[mem.into(), value.into()], None);
    }

    /// 4 bytes of memory in lane 0, 0 in the others.
    pub fn load_lane(&mut self, mem: Mem) -> ValueId {
        self.inst(&moves::VMOVSS, Width::V128, &[mem.into()], None)[0]
    }

    /// Stores lane 0.
    pub fn store_lane(&mut self, mem: Mem, value: ValueId) {
        self.inst(&moves::VMOVSS_STORE, Width::V128, &[mem.into(), value.into()], None);
    }

    /// Lanes of memory where the mask is on, else 0. Memory of lanes that are off is not touched.
    pub fn load_masked(&mut self, mem: Mem, mask: Mask) -> ValueId {
        if self.avx512() {
            let (width, masking) = (self.width(), Masking { mask: mask.0, merge: None });
            self.inst(&moves::VMOVUPS, width, &[mem.into()], Some(masking))[0]
        } else {
            self.full(&moves::VMASKMOVPS, &[mask.0.into(), mem.into()])
        }
    }

    /// Stores lanes where the mask is on. Memory of lanes that are off is not touched.
    pub fn store_masked(&mut self, mem: Mem, value: ValueId, mask: Mask) {
        let width = self.width();
        if self.avx512() {
            let masking = Masking { mask: mask.0, merge: None };
            self.inst(&moves::VMOVUPS_STORE, width, &[mem.into(), value.into()], Some(masking));
        } else {
            self.inst(&moves::VMASKMOVPS_STORE, width, &[mem.into(), mask.0.into(), value.into()], None);
        }
    }

    /// Lanes from `base + lane of index · scale` where the mask is on, else those of `off`.
    pub fn gather(&mut self, base: ValueId, index: ValueId, scale: u8, mask: Mask, off: ValueId) -> ValueId {
        let row = if self.avx512() { &gather::VGATHERDPS_K } else { &gather::VGATHERDPS };
        self.full(row, &[off.into(), Mem::indexed(base, index, scale, 0).into(), mask.0.into()])
    }

    /// Where a comparison of floats holds.
    pub fn compare_f32(&mut self, how: Compare, a: ValueId, b: impl Into<Arg>) -> Mask {
        let row = if self.avx512() { &float::VCMPPS_K } else { &float::VCMPPS };
        Mask(self.full(row, &[a.into(), b.into(), Arg::Imm(how.number())]))
    }

    /// Where `a > b`, signed.
    pub fn greater_i32(&mut self, a: ValueId, b: impl Into<Arg>) -> Mask {
        Mask(if self.avx512() {
            self.full(&integer::VPCMPD_K, &[a.into(), b.into(), Arg::Imm(6)])
        } else {
            self.full(&integer::VPCMPGTD, &[a.into(), b.into()])
        })
    }

    /// The first `count` lanes: none where `count ≤ 0`, all where it is at least the number of lanes.
    pub fn first_lanes(&mut self, count: ValueId) -> Mask {
        let (zero, most) = (self.imm(0), self.imm(self.lanes() as i64));
        let count = self.max(count, zero);
        let count = self.min(count, most);
        if self.avx512() {
            let ones = self.imm(-1);
            let bits = self.inst(&general::BZHI, Width::V128, &[ones.into(), count.into()], None)[0];
            Mask(self.inst(&mask::KMOVQ_IN, Width::V128, &[bits.into()], None)[0])
        } else {
            let limit = self.broadcast_general(count);
            let iota = self.iota_i32();
            self.greater_i32(limit, iota)
        }
    }

    /// `on` where the mask is on, else `off`.
    pub fn blend(&mut self, mask: Mask, on: ValueId, off: ValueId) -> ValueId {
        if self.avx512() {
            let (width, masking) = (self.width(), Masking { mask: mask.0, merge: Some(off) });
            self.inst(&moves::VMOVUPS, width, &[on.into()], Some(masking))[0]
        } else {
            self.full(&float::VBLENDVPS, &[off.into(), on.into(), mask.0.into()])
        }
    }

    /// On where both are.
    pub fn mask_and(&mut self, a: Mask, b: Mask) -> Mask {
        let row = if self.avx512() { &mask::KANDQ } else { &integer::VPAND };
        Mask(self.full(row, &[a.0.into(), b.0.into()]))
    }

    /// On where one is, or both.
    pub fn mask_or(&mut self, a: Mask, b: Mask) -> Mask {
        let row = if self.avx512() { &mask::KORQ } else { &integer::VPOR };
        Mask(self.full(row, &[a.0.into(), b.0.into()]))
    }

    /// The mask as bits of a general register: lane 0 is the lowest.
    pub fn mask_bits(&mut self, mask: Mask) -> ValueId {
        let row = if self.avx512() { &mask::KMOVQ_OUT } else { &float::VMOVMSKPS };
        self.full(row, &[mask.0.into()])
    }

    /// Half a vector: the lower lanes (0) or the upper (1), in the lower lanes of the result.
    pub fn half(&mut self, a: ValueId, which: u8) -> ValueId {
        self.full(&moves::VEXTRACT_HALF, &[a.into(), Arg::Imm(which.into())])
    }

    /// f32 to half a vector of f16, to the nearest, ties to even.
    pub fn f32_to_f16(&mut self, a: ValueId) -> ValueId {
        self.full(&convert::VCVTPS2PH, &[a.into(), Arg::Imm(0)])
    }

    /// All lanes combined by `f`, in lane 0: halves with halves, then quarters, pairs and lanes.
    pub fn fold(&mut self, a: ValueId, f: impl Fn(&mut Builder, ValueId, ValueId) -> ValueId) -> ValueId {
        let mut width = self.width();
        let mut sum = a;
        while width > Width::V128 {
            let upper = self.inst(&moves::VEXTRACT_HALF, width, &[sum.into(), Arg::Imm(1)], None)[0];
            sum = f(self, sum, upper);
            width = if width == Width::V512 { Width::V256 } else { Width::V128 };
        }
        for how in [0b1110, 0b01] {
            let moved = self.inst(&moves::VPSHUFD, Width::V128, &[sum.into(), Arg::Imm(how)], None)[0];
            sum = f(self, sum, moved);
        }
        sum
    }
}
