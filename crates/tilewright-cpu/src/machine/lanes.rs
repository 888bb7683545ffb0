//! Building machine programs: more on vectors of 32-bit lanes. Comparisons and masks, tables, shifts by lanes, and the
//! functions of the language where the processor's differ from them.

use super::build::Builder;
use super::ir::*;
use super::rows::{bytes, float, gather, general, integer, mask, moves};
use super::vector::{Compare, Mask};

impl Builder {
    /// Where `a = b`.
    pub fn equal_i32(&mut self, a: ValueId, b: impl Into<Arg>) -> Mask {
        Mask(if self.avx512() {
            self.full(&integer::VPCMPD_K, &[a.into(), b.into(), Arg::Imm(0)])
        } else {
            self.full(&integer::VPCMPEQD, &[a.into(), b.into()])
        })
    }

    /// Where a comparison of signed integers holds; `Unordered` never does.
    pub fn compare_i32(&mut self, how: Compare, a: ValueId, b: ValueId) -> Mask {
        match how {
            Compare::Equal => self.equal_i32(a, b),
            Compare::Greater => self.greater_i32(a, b),
            Compare::Less => self.greater_i32(b, a),
            Compare::NotEqual => {
                let equal = self.equal_i32(a, b);
                self.mask_not(equal)
            }
            Compare::LessEqual => {
                let greater = self.greater_i32(a, b);
                self.mask_not(greater)
            }
            Compare::GreaterEqual => {
                let less = self.greater_i32(b, a);
                self.mask_not(less)
            }
            Compare::Unordered => {
                let all = self.mask_all();
                self.mask_not(all)
            }
        }
    }

    /// Where a lane is not 0.
    pub fn nonzero_i32(&mut self, a: ValueId) -> Mask {
        let zero = self.splat_bits(0);
        self.compare_i32(Compare::NotEqual, a, zero)
    }

    /// Every lane.
    pub fn mask_all(&mut self) -> Mask {
        if self.avx512() {
            let bits = self.imm(((1_u64 << self.lanes()) - 1) as i64);
            Mask(self.inst(&mask::KMOVQ_IN, Width::V128, &[bits.into()], None)[0])
        } else {
            Mask(self.splat_bits(u32::MAX))
        }
    }

    /// On where the mask is off.
    pub fn mask_not(&mut self, a: Mask) -> Mask {
        let all = self.mask_all();
        self.mask_without(all, a)
    }

    /// On where `a` is and `b` is not.
    pub fn mask_without(&mut self, a: Mask, b: Mask) -> Mask {
        let row = if self.avx512() { &mask::KANDNQ } else { &integer::VPANDN };
        Mask(self.full(row, &[b.0.into(), a.0.into()]))
    }

    /// On where one is and the other is not.
    pub fn mask_xor(&mut self, a: Mask, b: Mask) -> Mask {
        let row = if self.avx512() { &mask::KXORQ } else { &integer::VPXOR };
        Mask(self.full(row, &[a.0.into(), b.0.into()]))
    }

    /// Where bit `lane` of a general register is 1.
    pub fn mask_from_bits(&mut self, bits: ValueId) -> Mask {
        if self.avx512() {
            let all = self.imm(((1_u64 << self.lanes()) - 1) as i64);
            let bits = self.and(bits, all);
            return Mask(self.inst(&mask::KMOVQ_IN, Width::V128, &[bits.into()], None)[0]);
        }
        let all = self.broadcast_general(bits);
        let each = (0..self.lanes() as u32).flat_map(|i| (1_u32 << i).to_le_bytes()).collect();
        let each = self.constant(each);
        let each = self.load(Mem::constant(each));
        let own = self.and_bits(all, each);
        self.equal_i32(own, each)
    }

    /// The absolute value, modulo 2³².
    pub fn abs_i32(&mut self, a: impl Into<Arg>) -> ValueId {
        self.full(&bytes::VPABSD, &[a.into()])
    }

    /// The smaller, unsigned.
    pub fn min_u32(&mut self, a: ValueId, b: impl Into<Arg>) -> ValueId {
        self.full(&bytes::VPMINUD, &[a.into(), b.into()])
    }

    /// The larger, unsigned.
    pub fn max_u32(&mut self, a: ValueId, b: impl Into<Arg>) -> ValueId {
        self.full(&bytes::VPMAXUD, &[a.into(), b.into()])
    }

    /// Lanes of `a` shifted left by those of `count`, which are unsigned; 0 from 32 on.
    pub fn shl_each(&mut self, a: ValueId, count: impl Into<Arg>) -> ValueId {
        self.full(&integer::VPSLLVD, &[a.into(), count.into()])
    }

    /// Lanes of `a` shifted right by those of `count`, which are unsigned; 0 from 32 on.
    pub fn shr_each(&mut self, a: ValueId, count: impl Into<Arg>) -> ValueId {
        self.full(&integer::VPSRLVD, &[a.into(), count.into()])
    }

    /// `⌊a / 2^count⌋`, signed, by lanes of `count`, which are unsigned; the sign from 32 on.
    pub fn sar_each(&mut self, a: ValueId, count: impl Into<Arg>) -> ValueId {
        self.full(&integer::VPSRAVD, &[a.into(), count.into()])
    }

    /// Lanes of `table`, chosen by the low bits of `index`: lane `index mod lanes`.
    pub fn permute(&mut self, table: impl Into<Arg>, index: ValueId) -> ValueId {
        self.full(&moves::VPERMD, &[index.into(), table.into()])
    }

    /// Lanes of a table of 16, chosen by `index mod 16`: `table` has one vector on AVX-512 and two on AVX2.
    pub fn look_up_16(&mut self, table: &[ValueId], index: ValueId) -> ValueId {
        let low = self.permute(table[0], index);
        if table.len() == 1 {
            return low;
        }
        let high = self.permute(table[1], index);
        let bit = self.shl_i32(index, 28);
        self.full(&float::VBLENDVPS, &[low.into(), high.into(), bit.into()])
    }

    /// A table of 16 values of 32 bits, for [`Builder::look_up_16`].
    pub fn table_16(&mut self, values: [u32; 16]) -> Vec<ValueId> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let constant = Mem::constant(self.constant(bytes));
        let vectors = 16 / self.lanes() as i32;
        (0..vectors).map(|i| self.load(constant.plus(64 / vectors * i))).collect()
    }

    /// Bytes of `table`, 16 of them in each 16 bytes, chosen by bytes of `index` in 0..=15; 0 where a byte of `index` is
    /// 128 or more.
    pub fn look_up_bytes(&mut self, table: ValueId, index: impl Into<Arg>) -> ValueId {
        self.full(&bytes::VPSHUFB, &[table.into(), index.into()])
    }

    /// The lesser of floats as the language defines it: NaN where either is, and `a` where both are equal.
    pub fn lesser_f32(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let least = self.min_f32(b, a);
        let unordered = self.compare_f32(Compare::Unordered, b, b);
        self.blend(unordered, b, least)
    }

    /// The greater of floats as the language defines it: NaN where either is, and `a` where both are equal.
    pub fn greater_f32(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let most = self.max_f32(b, a);
        let unordered = self.compare_f32(Compare::Unordered, b, b);
        self.blend(unordered, b, most)
    }

    /// To signed integers, towards 0, the nearest one where it does not fit; 0 for NaN.
    pub fn f32_to_i32_saturating(&mut self, a: ValueId) -> ValueId {
        let cut = self.f32_to_i32_towards_zero(a);
        let large = self.compare_f32(Compare::GreaterEqual, a, 2147483648.0);
        let (most, zero) = (self.splat_bits(i32::MAX as u32), self.splat_bits(0));
        let cut = self.blend(large, most, cut);
        let nan = self.compare_f32(Compare::Unordered, a, a);
        self.blend(nan, zero, cut)
    }

    /// Stores lanes to `base + lane of index · scale` where the mask is on. Of two lanes at one address, the last stays.
    pub fn scatter(&mut self, base: ValueId, index: ValueId, scale: u8, value: ValueId, mask: Mask) {
        let width = self.width();
        if self.avx512() {
            let at = Mem::indexed(base, index, scale, 0);
            self.inst(&gather::VSCATTERDPS_K, width, &[at.into(), value.into(), mask.0.into()], None);
            return;
        }
        self.each_lane(mask, &[], |b, lane, _| {
            let (at, word) = (b.lane(index, lane), b.lane(value, lane));
            let at = b.extend_i32(at);
            b.store_general(4, Mem::indexed(base, at, scale, 0), word);
            Vec::new()
        });
    }

    /// `body(builder, lane, carried)` for each lane where the mask is on, in order; gives what is carried after the last.
    pub fn each_lane(
        &mut self,
        mask: Mask,
        init: &[ValueId],
        body: impl FnOnce(&mut Builder, ValueId, &[ValueId]) -> Vec<ValueId>,
    ) -> Vec<ValueId> {
        let bits = self.mask_bits(mask);
        let (start, limit, one) = (self.imm(0), self.imm(self.lanes() as i64), self.imm(1));
        self.count(start, limit, 1, init, |b, lane, carried| {
            let classes: Vec<Class> = carried.iter().map(|value| b.class(*value)).collect();
            let (on, joined) = (b.block("lane", &[]), b.block("joined", &classes));
            let bit = b.inst(&general::SHRX, Width::V128, &[bits.into(), lane.into()], None)[0];
            let bit = b.and(bit, one);
            b.branch(Cond::NotEqual, bit, 0, on, &[], joined, carried);
            b.switch_to(on);
            let out = body(b, lane, carried);
            b.jump(joined, &out);
            b.switch_to(joined);
            b.params(joined)
        })
    }

    /// The bits of one lane, whose number is in a general register, in a general register.
    pub fn lane(&mut self, a: ValueId, lane: ValueId) -> ValueId {
        let index = self.broadcast_general(lane);
        let moved = self.permute(a, index);
        self.inst(&moves::VMOVD_OUT, Width::V128, &[moved.into()], None)[0]
    }

    /// `a` with one lane, whose number is in a general register, replaced by the low bits of another.
    pub fn with_lane(&mut self, a: ValueId, lane: ValueId, bits: ValueId) -> ValueId {
        let (at, value) = (self.broadcast_general(lane), self.broadcast_general(bits));
        let iota = self.iota_i32();
        let here = self.equal_i32(iota, at);
        self.blend(here, value, a)
    }

    /// The low 32 bits of a general register, signed.
    pub fn extend_i32(&mut self, a: ValueId) -> ValueId {
        let high = self.shl(a, 32);
        self.sar(high, 32)
    }
}
