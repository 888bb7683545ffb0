//! Building machine programs: vectors of 64-bit lanes, half as many as of 32 bits. A mask of 64-bit lanes is a predicate with
//! one bit a lane from AVX-512 on, and all bits of each lane on AVX2.

use super::build::Builder;
use super::ir::*;
use super::rows::{double, gather, general, long, mask, moves};
use super::vector::{Compare, Mask};

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

impl Builder {
    two! {
        /// `a + b`
        add_f64 = double::VADDPD;
        /// `a − b`
        sub_f64 = double::VSUBPD;
        /// `a · b`
        mul_f64 = double::VMULPD;
        /// `a / b`
        div_f64 = double::VDIVPD;
        /// `a` where `a < b`, else `b`: `b` where either is NaN.
        min_f64 = double::VMINPD;
        /// `a` where `a > b`, else `b`: `b` where either is NaN.
        max_f64 = double::VMAXPD;
        /// `a + b`, modulo 2⁶⁴.
        add_i64 = long::VPADDQ;
        /// `a − b`, modulo 2⁶⁴.
        sub_i64 = long::VPSUBQ;
        /// The product of the low 32 bits of each lane, both signed.
        mul_low_i32 = long::VPMULDQ;
        /// The product of the low 32 bits of each lane, both unsigned.
        mul_low_u32 = long::VPMULUDQ;
        /// Lanes of `a` shifted left by those of `b`, which are unsigned; 0 from 64 on.
        shl_each_i64 = long::VPSLLVQ;
        /// Lanes of `a` shifted right, unsigned, by those of `b`, which are unsigned; 0 from 64 on.
        shr_each_u64 = long::VPSRLVQ;
    }

    one! {
        /// The square root.
        sqrt_f64 = double::VSQRTPD;
        /// Half a vector of singles to doubles.
        f32_to_f64 = double::VCVTPS2PD;
        /// Half a vector of signed 32-bit integers to doubles.
        i32_to_f64 = double::VCVTDQ2PD;
        /// Half a vector of signed 32-bit integers to 64 bits.
        i32_to_i64 = long::VPMOVSXDQ;
        /// Half a vector of unsigned 32-bit integers to 64 bits.
        u32_to_i64 = long::VPMOVZXDQ;
    }

    /// `a · b + tied`
    pub fn fma_add_f64(&mut self, tied: ValueId, a: ValueId, b: impl Into<Arg>) -> ValueId {
        self.full(&double::VFMADD231PD, &[tied.into(), a.into(), b.into()])
    }

    /// `tied · a + b`
    pub fn fma_mul_f64(&mut self, tied: ValueId, a: ValueId, b: impl Into<Arg>) -> ValueId {
        self.full(&double::VFMADD213PD, &[tied.into(), a.into(), b.into()])
    }

    /// `tied − a · b`
    pub fn fnma_add_f64(&mut self, tied: ValueId, a: ValueId, b: impl Into<Arg>) -> ValueId {
        self.full(&double::VFNMADD231PD, &[tied.into(), a.into(), b.into()])
    }

    /// To an integer: to the nearest (0, ties to even), down (1), up (2) or towards 0 (3).
    pub fn round_f64(&mut self, a: ValueId, how: u8) -> ValueId {
        self.full(&double::VROUNDPD, &[a.into(), Arg::Imm((how & 3).into())])
    }

    /// Doubles to half a vector of singles, to the nearest, ties to even.
    pub fn f64_to_f32(&mut self, a: ValueId) -> ValueId {
        self.full(&double::VCVTPD2PS, &[a.into()])
    }

    /// Doubles to half a vector of signed 32-bit integers, towards 0; `0x80000000` where it does not fit.
    pub fn f64_to_i32_towards_zero(&mut self, a: ValueId) -> ValueId {
        self.full(&double::VCVTTPD2DQ, &[a.into()])
    }

    /// The low 32 bits of each lane, as half a vector.
    pub fn narrow_to_32(&mut self, a: ValueId) -> ValueId {
        if self.avx512() {
            return self.full(&long::VPMOVQD, &[a.into()]);
        }
        let even = self.full(&moves::VPSHUFD, &[a.into(), Arg::Imm(0b1000)]);
        self.full(&moves::VPERMQ, &[even.into(), Arg::Imm(0b1000)])
    }

    /// Half a vector becomes the lower half of one whose upper half is that of another.
    pub fn join_halves(&mut self, low: ValueId, high: ValueId) -> ValueId {
        self.full(&moves::VINSERT_HALF, &[low.into(), high.into(), Arg::Imm(1)])
    }

    /// `a · b`, modulo 2⁶⁴.
    pub fn mul_i64(&mut self, a: ValueId, b: ValueId) -> ValueId {
        if self.avx512() {
            return self.full(&long::VPMULLQ, &[a.into(), b.into()]);
        }
        let (upper_a, upper_b) = (self.shr_u64(a, 32), self.shr_u64(b, 32));
        let mut multiply = |x: ValueId, y: ValueId| self.full(&long::VPMULUDQ, &[x.into(), y.into()]);
        let (cross_a, cross_b, low) = (multiply(upper_a, b), multiply(a, upper_b), multiply(a, b));
        let cross = self.add_i64(cross_a, cross_b);
        let cross = self.shl_i64(cross, 32);
        self.add_i64(low, cross)
    }

    /// Lanes times 2^count, modulo 2⁶⁴; 0 from a count of 64 on.
    pub fn shl_i64(&mut self, a: ValueId, count: u8) -> ValueId {
        self.full(&long::VPSLLQ, &[a.into(), Arg::Imm(count.into())])
    }

    /// Lanes shifted right, unsigned; `count` below 64.
    pub fn shr_u64(&mut self, a: ValueId, count: u8) -> ValueId {
        self.full(&long::VPSRLQ, &[a.into(), Arg::Imm(count.into())])
    }

    /// `⌊a / 2^count⌋`, signed; `count` below 64.
    pub fn sar_i64(&mut self, a: ValueId, count: u8) -> ValueId {
        if self.avx512() {
            return self.full(&long::VPSRAQ, &[a.into(), Arg::Imm(count.into())]);
        }
        let zero = self.splat_bits(0);
        let negative = self.greater_i64(zero, a);
        let bits = self.shr_u64(a, count);
        // The upper `count` bits; a shift by 64 gives none.
        let sign = self.shl_i64(negative.0, 64 - count);
        self.or_bits(bits, sign)
    }

    /// From signed integers, to the nearest, ties to even.
    pub fn i64_to_f64(&mut self, a: ValueId) -> ValueId {
        if self.avx512() {
            return self.full(&double::VCVTQQ2PD, &[a.into()]);
        }
        // Both halves exactly, by the significands of 2⁵² + low and of 1.5 · 2⁵² + high; then one rounding.
        let (mask, low_bias) = (self.splat_bits64(0xffff_ffff), self.splat_f64(4_503_599_627_370_496.0));
        let low = self.and_bits(a, mask);
        let low = self.or_bits(low, low_bias);
        let low = self.sub_f64(low, low_bias);
        let high = self.sar_i64(a, 32);
        let high_bias = self.splat_f64(6_755_399_441_055_744.0);
        let high = self.add_i64(high, high_bias);
        let high = self.sub_f64(high, high_bias);
        let unit = self.splat_f64(4_294_967_296.0);
        self.fma_mul_f64(high, unit, low)
    }

    /// Where a comparison of doubles holds.
    pub fn compare_f64(&mut self, how: Compare, a: ValueId, b: impl Into<Arg>) -> Mask {
        let row = if self.avx512() { &double::VCMPPD_K } else { &double::VCMPPD };
        Mask(self.full(row, &[a.into(), b.into(), Arg::Imm(how.number())]))
    }

    /// Where `a > b`, signed.
    pub fn greater_i64(&mut self, a: ValueId, b: impl Into<Arg>) -> Mask {
        Mask(if self.avx512() {
            self.full(&long::VPCMPQ_K, &[a.into(), b.into(), Arg::Imm(6)])
        } else {
            self.full(&long::VPCMPGTQ, &[a.into(), b.into()])
        })
    }

    /// Where `a = b`.
    pub fn equal_i64(&mut self, a: ValueId, b: impl Into<Arg>) -> Mask {
        Mask(if self.avx512() {
            self.full(&long::VPCMPQ_K, &[a.into(), b.into(), Arg::Imm(0)])
        } else {
            self.full(&long::VPCMPEQQ, &[a.into(), b.into()])
        })
    }

    /// The first `count` lanes of 64 bits: none where `count ≤ 0`, all where it is at least their number.
    pub fn first_wide_lanes(&mut self, count: ValueId) -> Mask {
        let (zero, most) = (self.imm(0), self.imm(self.lanes() as i64 / 2));
        let count = self.max(count, zero);
        let count = self.min(count, most);
        if self.avx512() {
            let ones = self.imm(-1);
            let bits = self.inst(&general::BZHI, Width::V128, &[ones.into(), count.into()], None)[0];
            return Mask(self.inst(&mask::KMOVQ_IN, Width::V128, &[bits.into()], None)[0]);
        }
        let limit = self.broadcast_general64(count);
        let iota = self.constant((0..self.lanes() as i64 / 2).flat_map(i64::to_le_bytes).collect());
        let iota = self.load(Mem::constant(iota));
        self.greater_i64(limit, iota)
    }

    /// `on` where a mask of 64-bit lanes is on, else `off`.
    pub fn blend_wide(&mut self, mask: Mask, on: ValueId, off: ValueId) -> ValueId {
        if self.avx512() {
            let (width, masking) = (self.width(), Masking { mask: mask.0, merge: Some(off) });
            return self.inst(&double::VMOVUPD, width, &[on.into()], Some(masking))[0];
        }
        self.full(&double::VBLENDVPD, &[off.into(), on.into(), mask.0.into()])
    }

    /// Lanes of 64 bits where the mask is on, else 0. Memory of lanes that are off is not touched.
    pub fn load_wide_masked(&mut self, mem: Mem, mask: Mask) -> ValueId {
        if self.avx512() {
            let (width, masking) = (self.width(), Masking { mask: mask.0, merge: None });
            return self.inst(&double::VMOVUPD, width, &[mem.into()], Some(masking))[0];
        }
        self.full(&double::VMASKMOVPD, &[mask.0.into(), mem.into()])
    }

    /// Stores lanes of 64 bits where the mask is on. Memory of lanes that are off is not touched.
    pub fn store_wide_masked(&mut self, mem: Mem, value: ValueId, mask: Mask) {
        let width = self.width();
        if self.avx512() {
            let masking = Masking { mask: mask.0, merge: None };
            self.inst(&double::VMOVUPD_STORE, width, &[mem.into(), value.into()], Some(masking));
        } else {
            self.inst(&double::VMASKMOVPD_STORE, width, &[mem.into(), mask.0.into(), value.into()], None);
        }
    }

    /// Lanes of 64 bits from `base + lane of index · scale` where the mask is on, else those of `off`; `index` is half a
    /// vector of 32-bit lanes.
    pub fn gather_wide(
        &mut self,
        base: ValueId,
        index: ValueId,
        scale: u8,
        mask: Mask,
        off: ValueId,
    ) -> ValueId {
        let row = if self.avx512() { &gather::VGATHERDPD_K } else { &gather::VGATHERDPD };
        self.full(row, &[off.into(), Mem::indexed(base, index, scale, 0).into(), mask.0.into()])
    }

    /// A mask of 64-bit lanes as bits of a general register: lane 0 is the lowest.
    pub fn wide_mask_bits(&mut self, mask: Mask) -> ValueId {
        let row = if self.avx512() { &mask::KMOVQ_OUT } else { &double::VMOVMSKPD };
        self.full(row, &[mask.0.into()])
    }

    /// A double in every lane.
    pub fn splat_f64(&mut self, value: f64) -> ValueId {
        self.splat_bits64(value.to_bits())
    }

    /// These bits in every lane of 64 bits.
    pub fn splat_bits64(&mut self, bits: u64) -> ValueId {
        let constant = self.constant(bits.to_le_bytes().to_vec());
        self.broadcast64(Mem::constant(constant))
    }

    /// 8 bytes of memory in every lane.
    pub fn broadcast64(&mut self, mem: Mem) -> ValueId {
        self.full(&double::VBROADCASTSD, &[mem.into()])
    }

    /// A general register in every lane.
    pub fn broadcast_general64(&mut self, value: ValueId) -> ValueId {
        let one = self.inst(&long::VMOVQ, Width::V128, &[value.into()], None)[0];
        self.full(&double::VBROADCASTSD_REG, &[one.into()])
    }

    /// All lanes of 64 bits combined by `f`, in lane 0: halves with halves, then pairs.
    pub fn fold_wide(
        &mut self,
        a: ValueId,
        f: impl Fn(&mut Builder, ValueId, ValueId) -> ValueId,
    ) -> ValueId {
        let mut width = self.width();
        let mut sum = a;
        while width > Width::V128 {
            let upper = self.inst(&moves::VEXTRACT_HALF, width, &[sum.into(), Arg::Imm(1)], None)[0];
            sum = f(self, sum, upper);
            width = if width == Width::V512 { Width::V256 } else { Width::V128 };
        }
        let moved = self.inst(&moves::VPSHUFD, Width::V128, &[sum.into(), Arg::Imm(0b1110)], None)[0];
        f(self, sum, moved)
    }

    /// Lane 0 of 64 bits in a general register.
    pub fn first_wide_lane(&mut self, a: ValueId) -> ValueId {
        self.inst(&long::VMOVQ_OUT, Width::V128, &[a.into()], None)[0]
    }
}
