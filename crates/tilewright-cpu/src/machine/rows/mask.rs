//! AVX-512 predicates.

use crate::machine::eval::Datum;
use crate::machine::ir::Class::{General, Mask};
use crate::machine::level::Level;
use crate::machine::row::FlagUse::Keeps;
use crate::machine::row::Meaning::{Bits2, Whole};
use crate::machine::row::Row;
use crate::machine::row::Slot::{Def, Use};
use crate::machine::row::Span::{Bytes, Full};
use iced_x86::Code::*;

const K: crate::machine::row::Slot = Use(Mask, Full);
const D: crate::machine::row::Slot = Def(Mask, Full);

rows! {
    KMOVQ_IN = Row::plain("kmovq.in", &[D, Use(General, Bytes(8))], VEX_Kmovq_kr_r64, Keeps, Whole(|s| {
        let bits = s.bits(0)?;
        s.out.push(Datum::Mask(bits));
        Ok(())
    })).from(Level::Avx512);
    KMOVQ_OUT = Row::plain("kmovq.out", &[Def(General, Bytes(8)), K], VEX_Kmovq_r64_kr, Keeps, Whole(|s| {
        let bits = s.bits(0)?;
        s.out.push(Datum::General(bits));
        Ok(())
    })).from(Level::Avx512);
    KANDQ = Row::plain("kandq", &[D, K, K], VEX_Kandq_kr_kr_kr, Keeps, Bits2(|a, b| a & b)).from(Level::Avx512);
    KANDNQ = Row::plain("kandnq", &[D, K, K], VEX_Kandnq_kr_kr_kr, Keeps, Bits2(|a, b| !a & b)).from(Level::Avx512);
    KORQ = Row::plain("korq", &[D, K, K], VEX_Korq_kr_kr_kr, Keeps, Bits2(|a, b| a | b)).from(Level::Avx512);
    KXORQ = Row::plain("kxorq", &[D, K, K], VEX_Kxorq_kr_kr_kr, Keeps, Bits2(|a, b| a ^ b)).from(Level::Avx512);
}
