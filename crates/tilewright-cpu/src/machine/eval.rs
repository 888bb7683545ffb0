//! What a machine program means: a slow evaluator with checked memory.

use super::ir::*;
use super::memory::Memory;
use super::row::{Meaning, Row, Slot};
use super::tiles::Tiles;

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Datum {
    /// Of a general register.
    General(u64),
    /// Of a vector register.
    Vector([u8; 64]),
    /// Of a predicate.
    Mask(u64),
}

/// The flags that conditions read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flags {
    /// The result is 0.
    pub zero: bool,
    /// The result is negative.
    pub sign: bool,
    /// The unsigned result left 64 bits.
    pub carry: bool,
    /// The signed result left 64 bits.
    pub overflow: bool,
}

impl Flags {
    /// Whether a condition holds.
    pub fn holds(self, cond: Cond) -> bool {
        match cond {
            Cond::Equal => self.zero,
            Cond::NotEqual => !self.zero,
            Cond::Less => self.sign != self.overflow,
            Cond::LessEqual => self.zero || self.sign != self.overflow,
            Cond::Greater => !self.zero && self.sign == self.overflow,
            Cond::GreaterEqual => self.sign == self.overflow,
            Cond::Below => self.carry,
            Cond::AboveEqual => !self.carry,
            Cond::Overflow => self.overflow,
        }
    }

    /// Of `a − b`.
    pub fn difference(a: u64, b: u64) -> Flags {
        let (result, overflow) = (a as i64).overflowing_sub(b as i64);
        Flags { zero: result == 0, sign: result < 0, carry: a < b, overflow }
    }
}

/// Why the evaluation of a program stopped without a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// An access to bytes that are in no region.
    #[error("{} of {bytes} bytes at {address:#x}, outside every region", if *write { "write" } else { "read" })]
    OutOfBounds {
        /// The first byte.
        address: u64,
        /// How many.
        bytes: usize,
        /// Whether it is a write.
        write: bool,
    },
    /// A division by 0, or whose quotient leaves 64 bits.
    #[error("a division by 0, or whose quotient leaves 64 bits")]
    Division,
    /// A tile instruction without a configuration, or beyond what it configures.
    #[error("a tile instruction that the tile configuration does not admit: {0}")]
    Tiles(&'static str),
    /// The program ran longer than it was given.
    #[error("more than {0} instructions")]
    Steps(u64),
    /// An instruction whose operands are not what its row takes; the verifier refuses such programs.
    #[error("`{0}` is not given what it takes")]
    Malformed(&'static str),
}

/// An index of 32-bit lanes, and what it is multiplied by.
pub type LaneIndex = ([u8; 64], u8);

/// What a slot of an instruction was given, evaluated.
#[derive(Clone, Copy, Debug)]
pub enum In {
    /// A register, or memory that was read.
    Datum(Datum),
    /// An address, its base and offset added; what its general index adds; and an index of lanes with its scale.
    Address(u64, u64, Option<LaneIndex>),
    /// An immediate.
    Imm(i64),
    /// A tile.
    Tile(u8),
}

/// One instruction at work.
pub struct Step<'a> {
    /// Its mnemonic.
    pub name: &'static str,
    /// Its width.
    pub width: Width,
    /// What its slots were given, in order.
    pub args: Vec<In>,
    /// Its predicate.
    pub mask: u64,
    /// What it gives, in order of the slots that give or store.
    pub out: Vec<Datum>,
    /// The flags: in, and out.
    pub flags: Flags,
    /// Memory.
    pub memory: &'a mut Memory,
    /// Tiles.
    pub tiles: &'a mut Tiles,
}

impl Step<'_> {
    /// The vector given as argument `n`.
    pub fn vector(&self, n: usize) -> Result<[u8; 64], Fault> {
        match self.args.get(n) {
            Some(In::Datum(Datum::Vector(bytes))) => Ok(*bytes),
            _ => Err(Fault::Malformed(self.name)),
        }
    }

    /// The general register or predicate given as argument `n`.
    pub fn bits(&self, n: usize) -> Result<u64, Fault> {
        match self.args.get(n) {
            Some(In::Datum(Datum::General(bits) | Datum::Mask(bits))) => Ok(*bits),
            _ => Err(Fault::Malformed(self.name)),
        }
    }

    /// The immediate given as argument `n`.
    pub fn imm(&self, n: usize) -> Result<i64, Fault> {
        match self.args.get(n) {
            Some(In::Imm(value)) => Ok(*value),
            _ => Err(Fault::Malformed(self.name)),
        }
    }

    /// The tile given as argument `n`.
    pub fn tile(&self, n: usize) -> Result<u8, Fault> {
        match self.args.get(n) {
            Some(In::Tile(value)) => Ok(*value),
            _ => Err(Fault::Malformed(self.name)),
        }
    }

    /// The address given as argument `n`, with what its lanes are multiplied by.
    pub fn address(&self, n: usize) -> Result<(u64, Option<LaneIndex>), Fault> {
        match self.args.get(n) {
            Some(In::Address(base, index, lanes)) => Ok((base.wrapping_add(*index), *lanes)),
            _ => Err(Fault::Malformed(self.name)),
        }
    }

    /// The address given as argument `n`, and apart from it what its index adds.
    pub fn strided(&self, n: usize) -> Result<(u64, u64), Fault> {
        match self.args.get(n) {
            Some(In::Address(base, index, _)) => Ok((*base, *index)),
            _ => Err(Fault::Malformed(self.name)),
        }
    }

    /// Gives a vector.
    pub fn give(&mut self, bytes: [u8; 64]) {
        self.out.push(Datum::Vector(bytes));
    }
}

/// 32-bit lane `i` of a vector.
pub fn lane(bytes: &[u8; 64], i: usize) -> u32 {
    u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
}

/// Replaces 32-bit lane `i` of a vector.
pub fn set_lane(bytes: &mut [u8; 64], i: usize, value: u32) {
    bytes[4 * i..4 * i + 4].copy_from_slice(&value.to_le_bytes());
}

/// 64-bit lane `i` of a vector.
pub fn wide(bytes: &[u8; 64], i: usize) -> u64 {
    u64::from(lane(bytes, 2 * i)) | u64::from(lane(bytes, 2 * i + 1)) << 32
}

/// Replaces 64-bit lane `i` of a vector.
pub fn set_wide(bytes: &mut [u8; 64], i: usize, value: u64) {
    bytes[8 * i..8 * i + 8].copy_from_slice(&value.to_le_bytes());
}

/// Evaluates a program with its two arguments, in at most `steps` instructions.
pub fn eval(program: &Program, memory: &mut Memory, args: [u64; 2], steps: u64) -> Result<i64, Fault> {
    let mut machine = Machine {
        values: vec![None; program.values.len()],
        constants: program.constants.iter().map(|bytes| memory.add(bytes.clone())).collect(),
        memory,
        tiles: Tiles::default(),
        flags: Flags::default(),
    };
    let mut block = program.blocks.first().ok_or(Fault::Malformed("a program with no block"))?;
    let mut given: Vec<Datum> = args.map(Datum::General).to_vec();
    let mut left = steps;
    loop {
        for (param, datum) in block.params.iter().zip(&given) {
            machine.values[param.0 as usize] = Some(*datum);
        }
        for inst in &block.insts {
            left = left.checked_sub(1).ok_or(Fault::Steps(steps))?;
            machine.step(inst)?;
            if let Some((cond, status)) = inst.exit
                && machine.flags.holds(cond)
            {
                return Ok(status.into());
            }
        }
        left = left.checked_sub(1).ok_or(Fault::Steps(steps))?;
        let target = match &block.end {
            Terminator::Return(value) => return Ok(machine.general(*value)? as i64),
            Terminator::Jump(target) => target,
            Terminator::Branch { cond, left, right, then, otherwise } => {
                let right = match right {
                    Right::Value(value) => machine.general(*value)?,
                    Right::Imm(value) => i64::from(*value) as u64,
                };
                let flags = Flags::difference(machine.general(*left)?, right);
                if flags.holds(*cond) { then } else { otherwise }
            }
        };
        given = target.args.iter().map(|value| machine.get(*value)).collect::<Result<_, _>>()?;
        block = program.block(target.block);
    }
}

struct Machine<'a> {
    values: Vec<Option<Datum>>,
    constants: Vec<u64>,
    memory: &'a mut Memory,
    tiles: Tiles,
    flags: Flags,
}

impl Machine<'_> {
    fn get(&self, value: ValueId) -> Result<Datum, Fault> {
        let found = self.values.get(value.0 as usize).copied().flatten();
        found.ok_or(Fault::Malformed("a value that is not defined"))
    }

    fn general(&self, value: ValueId) -> Result<u64, Fault> {
        match self.get(value)? {
            Datum::General(bits) => Ok(bits),
            _ => Err(Fault::Malformed("a general register")),
        }
    }

    /// Base and offset, what a general index adds, and lanes with their scale.
    fn parts(&self, mem: &Mem) -> Result<(u64, u64, Option<LaneIndex>), Fault> {
        let base = match mem.base {
            Base::Value(value) => self.general(value)?,
            Base::Constant(id) => self.constants[id.0 as usize],
        };
        let base = base.wrapping_add_signed(mem.offset.into());
        Ok(match mem.index.map(|(value, scale)| Ok((self.get(value)?, scale))).transpose()? {
            Some((Datum::General(index), scale)) => (base, index.wrapping_mul(scale.into()), None),
            Some((Datum::Vector(lanes), scale)) => (base, 0, Some((lanes, scale))),
            Some(_) => return Err(Fault::Malformed("an address")),
            None => (base, 0, None),
        })
    }

    fn address(&self, mem: &Mem) -> Result<u64, Fault> {
        let (base, index, _) = self.parts(mem)?;
        Ok(base.wrapping_add(index))
    }

    /// Reads `bytes` from memory as a vector, only where lanes of it are on.
    fn load(&self, address: u64, bytes: usize, lanes: usize, mask: u64) -> Result<[u8; 64], Fault> {
        let mut out = [0; 64];
        if mask == u64::MAX || lanes == 0 {
            out[..bytes].copy_from_slice(self.memory.read(address, bytes)?);
            return Ok(out);
        }
        let size = bytes / lanes;
        for i in (0..lanes).filter(|i| mask >> i & 1 == 1) {
            let from = self.memory.read(address.wrapping_add((i * size) as u64), size)?;
            out[i * size..(i + 1) * size].copy_from_slice(from);
        }
        Ok(out)
    }

    fn evaluate(&self, row: &Row, slot: Slot, arg: &Arg, width: Width, mask: u64) -> Result<In, Fault> {
        let lanes = width.bytes().checked_div(row.masked.into()).unwrap_or(0);
        Ok(match (arg, slot) {
            (Arg::Value(value), _) => In::Datum(self.get(*value)?),
            (Arg::Imm(value), _) => In::Imm(*value),
            (Arg::Tile(tile), _) => In::Tile(*tile),
            (Arg::Splat(bits), _) => {
                let mut out = [0; 64];
                (0..width.lanes()).for_each(|i| set_lane(&mut out, i, *bits));
                In::Datum(Datum::Vector(out))
            }
            (Arg::Broadcast(mem), _) => {
                let size = usize::from(row.masked);
                let mut out = [0; 64];
                if mask & (u64::MAX >> (64 - lanes)) != 0 {
                    let one = self.memory.read(self.address(mem)?, size)?;
                    (0..lanes).for_each(|i| out[i * size..(i + 1) * size].copy_from_slice(one));
                }
                In::Datum(Datum::Vector(out))
            }
            (Arg::Mem(mem), Slot::Either(class, span)) => match class {
                Class::Vector => {
                    In::Datum(Datum::Vector(self.load(self.address(mem)?, span.bytes(width), lanes, mask)?))
                }
                _ => In::Datum(Datum::General(self.word(mem, span.bytes(width))?)),
            },
            (Arg::Mem(mem), Slot::Load(span))
                if row.slots.iter().any(|s| s.gives() == Some(Class::Vector)) =>
            {
                In::Datum(Datum::Vector(self.load(self.address(mem)?, span.bytes(width), 0, mask)?))
            }
            (Arg::Mem(mem), Slot::Load(span)) => {
                In::Datum(Datum::General(self.word(mem, span.bytes(width))?))
            }
            (Arg::Mem(mem), _) => {
                let (base, index, lanes) = self.parts(mem)?;
                In::Address(base, index, lanes)
            }
        })
    }

    fn word(&self, mem: &Mem, bytes: usize) -> Result<u64, Fault> {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(self.memory.read(self.address(mem)?, bytes)?);
        Ok(u64::from_le_bytes(word))
    }

    fn step(&mut self, inst: &Inst) -> Result<(), Fault> {
        let (row, width) = (inst.row, inst.width);
        let (mut mask, mut merge) = (u64::MAX, None);
        if let Some(masking) = inst.masking {
            mask = match self.get(masking.mask)? {
                Datum::Mask(bits) => bits,
                _ => return Err(Fault::Malformed(row.name)),
            };
            merge = masking.merge.map(|value| self.get(value)).transpose()?;
        }
        let taking = row.slots.iter().filter(|slot| slot.takes());
        let args = taking.zip(&inst.args).map(|(slot, arg)| self.evaluate(row, *slot, arg, width, mask));
        let args = args.collect::<Result<Vec<_>, _>>()?;
        let mut tied = None;
        for (slot, arg) in row.slots.iter().filter(|slot| slot.takes()).zip(&args) {
            if let (Slot::Tied(..), In::Datum(datum)) = (slot, arg) {
                tied = Some(*datum);
            }
        }
        let mut step = Step {
            name: row.name,
            width,
            args,
            mask,
            out: Vec::new(),
            flags: self.flags,
            memory: self.memory,
            tiles: &mut self.tiles,
        };
        apply(row.meaning, &mut step)?;
        let (out, args) = (std::mem::take(&mut step.out), std::mem::take(&mut step.args));
        self.flags = step.flags;
        let mut out = out.into_iter();
        let mut results = inst.results.iter();
        let mut arg = 0;
        for slot in row.slots {
            let datum = match slot {
                Slot::Store(span) => {
                    let datum = out.next().ok_or(Fault::Malformed(row.name))?;
                    let on = inst.masking.is_some().then_some(mask);
                    self.store(row, width, &args[arg], datum, span.bytes(width), on)?;
                    None
                }
                slot if slot.gives().is_some() => out.next(),
                _ => None,
            };
            arg += usize::from(slot.takes());
            if let Some(datum) = datum {
                let result = results.next().ok_or(Fault::Malformed(row.name))?;
                let datum = masked(row, width, datum, inst.masking.is_some().then_some(mask), merge.or(tied));
                self.values[result.0 as usize] = Some(datum);
            }
        }
        Ok(())
    }

    fn store(
        &mut self,
        row: &Row,
        width: Width,
        at: &In,
        datum: Datum,
        bytes: usize,
        mask: Option<u64>,
    ) -> Result<(), Fault> {
        let In::Address(base, index, _) = at else { return Err(Fault::Malformed(row.name)) };
        let address = base.wrapping_add(*index);
        let source = match datum {
            Datum::Vector(vector) => vector,
            Datum::General(bits) | Datum::Mask(bits) => {
                let mut source = [0; 64];
                source[..8].copy_from_slice(&bits.to_le_bytes());
                source
            }
        };
        let Some(mask) = mask else { return self.memory.write(address, &source[..bytes]) };
        let lanes = width.bytes() / usize::from(row.masked);
        let size = bytes / lanes;
        for i in (0..lanes).filter(|i| mask >> i & 1 == 1) {
            self.memory.write(address.wrapping_add((i * size) as u64), &source[i * size..(i + 1) * size])?;
        }
        Ok(())
    }
}

/// What a masked instruction leaves in lanes that are off: those of `merge`, or 0.
fn masked(row: &Row, width: Width, datum: Datum, mask: Option<u64>, merge: Option<Datum>) -> Datum {
    let Some(mask) = mask else { return datum };
    match datum {
        Datum::Vector(mut bytes) => {
            let old = match merge {
                Some(Datum::Vector(old)) => old,
                _ => [0; 64],
            };
            let size = usize::from(row.masked.max(1));
            for i in (0..width.bytes() / size).filter(|i| mask >> i & 1 == 0) {
                bytes[i * size..(i + 1) * size].copy_from_slice(&old[i * size..(i + 1) * size]);
            }
            Datum::Vector(bytes)
        }
        Datum::Mask(bits) => Datum::Mask(bits & mask),
        other => other,
    }
}

fn apply(meaning: Meaning, step: &mut Step<'_>) -> Result<(), Fault> {
    let lanes = |step: &Step<'_>, f: &dyn Fn(usize) -> u32| {
        let mut out = [0; 64];
        (0..step.width.lanes()).for_each(|i| set_lane(&mut out, i, f(i)));
        out
    };
    let wides = |step: &Step<'_>, f: &dyn Fn(usize) -> u64| {
        let mut out = [0; 64];
        (0..step.width.lanes() / 2).for_each(|i| set_wide(&mut out, i, f(i)));
        out
    };
    match meaning {
        Meaning::Lanes1(f) => {
            let a = step.vector(0)?;
            step.give(lanes(step, &|i| f(lane(&a, i))));
        }
        Meaning::Lanes1Imm(f) => {
            let (a, imm) = (step.vector(0)?, step.imm(1)? as u8);
            step.give(lanes(step, &|i| f(lane(&a, i), imm)));
        }
        Meaning::Lanes2(f) => {
            let (a, b) = (step.vector(0)?, step.vector(1)?);
            step.give(lanes(step, &|i| f(lane(&a, i), lane(&b, i))));
        }
        Meaning::Lanes3(f) => {
            let (a, b, c) = (step.vector(0)?, step.vector(1)?, step.vector(2)?);
            step.give(lanes(step, &|i| f(lane(&a, i), lane(&b, i), lane(&c, i))));
        }
        Meaning::Wide1(f) => {
            let a = step.vector(0)?;
            step.give(wides(step, &|i| f(wide(&a, i))));
        }
        Meaning::Wide1Imm(f) => {
            let (a, imm) = (step.vector(0)?, step.imm(1)? as u8);
            step.give(wides(step, &|i| f(wide(&a, i), imm)));
        }
        Meaning::Wide2(f) => {
            let (a, b) = (step.vector(0)?, step.vector(1)?);
            step.give(wides(step, &|i| f(wide(&a, i), wide(&b, i))));
        }
        Meaning::Wide3(f) => {
            let (a, b, c) = (step.vector(0)?, step.vector(1)?, step.vector(2)?);
            step.give(wides(step, &|i| f(wide(&a, i), wide(&b, i), wide(&c, i))));
        }
        Meaning::General1(f) => step.out.push(Datum::General(f(step.bits(0)?))),
        Meaning::General2(f) => {
            let (value, flags) = f(step.bits(0)?, right(step)?);
            step.flags = flags;
            step.out.push(Datum::General(value));
        }
        Meaning::Compare(f) => step.flags = f(step.bits(0)?, right(step)?),
        Meaning::Bits2(f) => step.out.push(Datum::Mask(f(step.bits(0)?, step.bits(1)?))),
        Meaning::Whole(f) => f(step)?,
    }
    Ok(())
}

fn right(step: &Step<'_>) -> Result<u64, Fault> {
    match step.args.get(1) {
        Some(In::Imm(value)) => Ok(*value as u64),
        _ => step.bits(1),
    }
}
