//! Each row against the evaluator, on random and special operands, at every level and width that the machine has.

use super::programs::both;
use crate::machine::row::{FlagUse, Row, Slot};
use crate::machine::*;

/// A stream of numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// 64 bytes: bits, special floats, or small floats.
    fn vector(&mut self) -> Vec<u8> {
        const SPECIAL: [u32; 16] = [
            0,
            0x8000_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_1234,
            0xff80_0001,
            0x0000_0001,
            0x807f_ffff,
            0x7f7f_ffff,
            0x4f00_0000,
            0xcf00_0000,
            0x0080_0000,
            0x3f00_0000,
            0x4b00_0001,
        ];
        let lane = |r: &mut Random| match r.next() % 3 {
            0 => r.next() as u32,
            1 => SPECIAL[r.next() as usize % 16],
            _ => ((r.next() % 2001) as f32 / 16.0 - 62.5).to_bits(),
        };
        (0..16).flat_map(|_| lane(self).to_le_bytes()).collect()
    }
}

/// What a row's operands may be: registers, memory, a repeated lane, with a mask.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Registers,
    Memory,
    Broadcast,
    Splat,
}

/// A program that loads operands from buffer 0, does the row, and stores its results (and flags) to buffer 1.
fn program(
    row: &'static Row,
    level: Level,
    width: Width,
    form: Form,
    mask: u8,
    r: &mut Random,
) -> Option<Program> {
    let mut b = Builder::new(row.name, level);
    let [context, _] = b.entry();
    let (x, out, scratch) =
        (b.load64(Mem::at(context, 0)), b.load64(Mem::at(context, 8)), b.load64(Mem::at(context, 16)));
    let full = level.width();
    let mut at = 0;
    let mut load = |b: &mut Builder, class: Class| {
        at += 64;
        match class {
            Class::Vector => b.load(Mem::at(x, at - 64)),
            Class::General => b.load64(Mem::at(x, at - 64)),
            Class::Mask => {
                let bits = b.load64(Mem::at(x, at - 64));
                b.inst(&rows::mask::KMOVQ_IN, full, &[bits.into()], None)[0]
            }
        }
    };
    let mut args = Vec::new();
    let mut used = form == Form::Registers;
    for slot in row.slots.iter().filter(|slot| slot.takes()) {
        args.push(match slot {
            Slot::Either(Class::Vector, _) if form != Form::Registers => {
                used = true;
                match form {
                    Form::Broadcast if row.broadcast && level != Level::Avx2 => {
                        Arg::Broadcast(Mem::at(scratch, 4))
                    }
                    Form::Splat if matches!(slot, Slot::Either(_, span) if row.splats(level, *span)) => {
                        Arg::Splat(r.next() as u32)
                    }
                    Form::Memory => Mem::at(scratch, 8).into(),
                    _ => return None,
                }
            }
            Slot::Either(Class::General, _) if form == Form::Memory => {
                used = true;
                Mem::at(scratch, 8).into()
            }
            Slot::Use(c, _) | Slot::Late(c, _) | Slot::Tied(c, _) | Slot::Either(c, _) => {
                load(&mut b, *c).into()
            }
            Slot::Load(_) | Slot::Store(_) | Slot::Address => Mem::at(scratch, 12).into(),
            Slot::Lanes(_) => {
                let any = load(&mut b, Class::Vector);
                let index = b.and_bits(any, Arg::Splat(31));
                Mem::indexed(scratch, index, 4, 0).into()
            }
            Slot::Consumed => load(&mut b, Class::Mask).into(),
            Slot::Lost => load(&mut b, Class::Vector).into(),
            Slot::Imm(1) if row.name.starts_with("vcmpp") => {
                Arg::Imm([0, 1, 2, 3, 4, 5, 6, 7, 13, 14][r.next() as usize % 10])
            }
            Slot::Imm(1) if row.name.starts_with("vroundp") => Arg::Imm((r.next() % 4) as i64),
            Slot::Imm(1) if row.name.starts_with("vcvtps2ph") => Arg::Imm(0),
            Slot::Imm(1) if ["vpcmpd.k", "vpcmpq.k"].contains(&row.name) => {
                Arg::Imm([0, 1, 2, 4, 5, 6][r.next() as usize % 6])
            }
            Slot::Imm(1)
                if row.name.starts_with("vp") && row.name.contains('s') && !row.name.contains("shuf") =>
            {
                Arg::Imm((r.next() % 72) as i64)
            }
            Slot::Imm(1) if row.name.starts_with('s') => Arg::Imm((r.next() % 64) as i64),
            Slot::Imm(1) => Arg::Imm((r.next() % 256) as i64),
            Slot::Imm(4) => Arg::Imm((r.next() as i32).into()),
            Slot::Imm(_) => Arg::Imm(r.next() as i64),
            Slot::FixedUse(_) => load(&mut b, Class::General).into(),
            Slot::Tile | Slot::Def(..) | Slot::FixedDef(_) => return None,
        });
    }
    if !used {
        return None;
    }
    let defines = row.slots.iter().any(|slot| matches!(slot, Slot::Def(Class::Vector, _)));
    let masking = match mask {
        0 => None,
        _ if row.masked == 0 || level == Level::Avx2 => return None,
        2 if !defines => return None,
        kind => {
            let mask = load(&mut b, Class::Mask);
            let merge = (kind == 2).then(|| load(&mut b, Class::Vector));
            Some(Masking { mask, merge })
        }
    };
    if row.flags == FlagUse::Reads {
        let (left, right) = (load(&mut b, Class::General), load(&mut b, Class::General));
        b.inst(&rows::general::CMP, width, &[left.into(), right.into()], None);
    }
    let results = b.inst(row, width, &args, masking);
    if row.flags == FlagUse::Sets {
        let conditions: &[&'static Row] = if row.name.starts_with("imul") {
            &[&rows::general::CMOVO]
        } else {
            use rows::general::*;
            &[&CMOVE, &CMOVNE, &CMOVL, &CMOVLE, &CMOVG, &CMOVGE, &CMOVB, &CMOVAE, &CMOVO]
        };
        let mut last = (context, context);
        for cmov in conditions {
            last.1 = last.0;
            last.0 = b.inst(cmov, width, &[x.into(), out.into()], None)[0];
            // Addresses differ between the two runs: what is stored is whether it moved.
        }
        let picked = last.0;
        let moved = b.select(Cond::Equal, picked, out, x, out);
        let same = b.sub(moved, x);
        let zero = b.imm(0);
        let one = b.imm(1);
        let flag = b.select(Cond::Equal, same, 0, one, zero);
        b.store_general(8, Mem::at(out, 448), flag);
    }
    for (i, value) in results.into_iter().enumerate() {
        let to = Mem::at(out, 64 * i as i32);
        match row.slots.iter().filter_map(|slot| slot.gives()).nth(i) {
            Some(Class::Vector) => b.store(to, value),
            Some(Class::Mask) => {
                let bits = b.mask_bits(Mask(value));
                b.store_general(8, to, bits);
            }
            _ => b.store_general(8, to, value),
        }
    }
    let ok = b.imm(0);
    b.ret(ok);
    Some(b.finish().unwrap())
}

#[test]
fn every_row_does_what_the_table_says() {
    let mut r = Random(0x9e37_79b9_7f4a_7c15);
    let mut tested = std::collections::BTreeSet::new();
    for level in Level::available() {
        for row in rows::all().filter(|row| row.needs <= level && !["idiv", "lea"].contains(&row.name)) {
            for width in [Width::V128, Width::V256, Width::V512] {
                if row.code(level, width).is_none() {
                    continue;
                }
                for form in [Form::Registers, Form::Memory, Form::Broadcast, Form::Splat] {
                    for mask in 0..3 {
                        for _ in 0..6 {
                            let Some(program) = program(row, level, width, form, mask, &mut r) else {
                                continue;
                            };
                            let x: Vec<u8> = (0..8).flat_map(|_| r.vector()).collect();
                            let scratch: Vec<u8> = (0..4).flat_map(|_| r.vector()).collect();
                            both(&program, &[x, vec![0xaa; 512], scratch]);
                            tested.insert(row.name);
                        }
                    }
                }
            }
        }
    }
    if Level::detect().is_some_and(|level| level >= Level::Avx512Dot) {
        let missed: Vec<_> =
            rows::all().filter(|row| row.needs < Level::Amx && !tested.contains(row.name)).collect();
        let names: Vec<&str> = missed.iter().map(|row| row.name).collect();
        assert_eq!(names, ["lea", "idiv"], "rows without a test of their own");
    }
}

#[test]
fn names_are_unique_and_every_row_has_an_encoding() {
    let mut names = std::collections::BTreeSet::new();
    for row in rows::all() {
        assert!(names.insert(row.name), "{} twice", row.name);
        let widths = [Width::V128, Width::V256, Width::V512];
        assert!(
            widths
                .iter()
                .any(|width| row.code(Level::Amx, *width).or(row.code(Level::Avx2, *width)).is_some())
        );
    }
}
