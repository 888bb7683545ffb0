//! The instruction table: what one instruction takes, gives, is encoded as, and means.

use super::eval::{Fault, Flags, Step};
use super::ir::{Class, Width};
use super::level::Level;
use iced_x86::Code;

/// How many bytes of a register or of memory a slot touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The width of the instruction.
    Full,
    /// Half of it.
    Half,
    /// A quarter of it.
    Quarter,
    /// This many, whatever the width. For a general register, 4 or 8 says which of its names is written; for memory
    /// of a general instruction, how much of it.
    Bytes(u8),
}

impl Span {
    /// In bytes.
    pub const fn bytes(self, width: Width) -> usize {
        match self {
            Span::Full => width.bytes(),
            Span::Half => width.bytes() / 2,
            Span::Quarter => width.bytes() / 4,
            Span::Bytes(n) => n as usize,
        }
    }
}

/// One operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A register that is written.
    Def(Class, Span),
    /// A register that is read.
    Use(Class, Span),
    /// A register that is read, and must not be one that is written.
    Late(Class, Span),
    /// A register that is read and then written: an argument and a result.
    Tied(Class, Span),
    /// A register that is read, or memory.
    Either(Class, Span),
    /// Memory that is read.
    Load(Span),
    /// Memory that is written with what the meaning gives.
    Store(Span),
    /// An address whose memory the meaning reads or writes itself, or nobody does.
    Address,
    /// An address whose index is a vector of 32-bit lanes, of this much of the width.
    Lanes(Span),
    /// A predicate that is read, and all 0 afterwards (AVX-512 gather and scatter). Encoded as the instruction's mask.
    Consumed,
    /// A vector that is read, and lost afterwards (the mask of an AVX2 gather).
    Lost,
    /// An immediate of 1, 4 or 8 bytes.
    Imm(u8),
    /// A tile register.
    Tile,
    /// A fixed general register that is read; its number. Not encoded.
    FixedUse(u8),
    /// A fixed general register that is written; its number. Not encoded.
    FixedDef(u8),
}

impl Slot {
    /// Whether the slot takes an argument.
    pub const fn takes(self) -> bool {
        !matches!(self, Slot::Def(..) | Slot::FixedDef(_))
    }

    /// The class of the result that the slot gives, if it gives one.
    pub const fn gives(self) -> Option<Class> {
        match self {
            Slot::Def(class, _) | Slot::Tied(class, _) => Some(class),
            Slot::FixedDef(_) => Some(Class::General),
            _ => None,
        }
    }

    /// Whether the slot is an operand of the encoding.
    pub const fn encoded(self) -> bool {
        !matches!(self, Slot::FixedUse(_) | Slot::FixedDef(_) | Slot::Consumed)
    }
}

/// How an instruction is encoded.
#[derive(Clone, Copy, Debug)]
pub enum Codes {
    /// One encoding, with no vectors wider than 16 bytes that depend on the level.
    Plain(Code),
    /// By width: VEX for 16 and 32 bytes, EVEX for 16, 32 and 64. `Code::INVALID` where there is none. VEX names 16
    /// vector registers and is used by `Level::Avx2`; EVEX names 32 and is used from `Level::Avx512`.
    Vector([Code; 2], [Code; 3]),
}

/// What an instruction does to the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagUse {
    /// Leaves them.
    Keeps,
    /// Changes them to something of no use.
    Spoils,
    /// Sets them, so that an exit or the next instruction may read them.
    Sets,
    /// Reads what the instruction just before has set.
    Reads,
}

/// What an instruction computes. The interpreter applies widths, masks and broadcasts around it.
#[derive(Clone, Copy)]
pub enum Meaning {
    /// Each 32-bit lane on its own.
    Lanes1(fn(u32) -> u32),
    /// Each 32-bit lane on its own.
    Lanes2(fn(u32, u32) -> u32),
    /// Each 32-bit lane on its own; a tied register comes first.
    Lanes3(fn(u32, u32, u32) -> u32),
    /// Each 32-bit lane on its own, with an immediate.
    Lanes1Imm(fn(u32, u8) -> u32),
    /// Each 64-bit lane on its own.
    Wide1(fn(u64) -> u64),
    /// Each 64-bit lane on its own.
    Wide2(fn(u64, u64) -> u64),
    /// Each 64-bit lane on its own; a tied register comes first.
    Wide3(fn(u64, u64, u64) -> u64),
    /// Each 64-bit lane on its own, with an immediate.
    Wide1Imm(fn(u64, u8) -> u64),
    /// A general register from one.
    General1(fn(u64) -> u64),
    /// A general register, and flags, from two.
    General2(fn(u64, u64) -> (u64, Flags)),
    /// Flags from two.
    Compare(fn(u64, u64) -> Flags),
    /// Predicates, as bits.
    Bits2(fn(u64, u64) -> u64),
    /// Anything else.
    Whole(fn(&mut Step<'_>) -> Result<(), Fault>),
}

/// One instruction: the only place where it is described.
pub struct Row {
    /// Its mnemonic, with a suffix where one mnemonic has several rows.
    pub name: &'static str,
    /// Its operands, in the order of the encoding.
    pub slots: &'static [Slot],
    /// How it is encoded.
    pub codes: Codes,
    /// Bytes of an element, where masks apply (AVX-512); else 0.
    pub masked: u8,
    /// Whether an `Either` slot may be one lane of `masked` bytes, repeated (AVX-512).
    pub broadcast: bool,
    /// The lowest level that has it, beside what `codes` says.
    pub needs: Level,
    /// What becomes of the flags.
    pub flags: FlagUse,
    /// Whether it must stay even if nothing reads its results, and where it is.
    pub effect: bool,
    /// What it computes.
    pub meaning: Meaning,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Row {
    /// Rows are equal if they are the same row.
    fn eq(&self, other: &Row) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Row {
    /// A row of vectors with elements of 4 bytes: masks apply, and one lane can be repeated.
    pub(crate) const fn lanes(
        name: &'static str,
        slots: &'static [Slot],
        vex: [Code; 2],
        evex: [Code; 3],
        meaning: Meaning,
    ) -> Row {
        Row {
            name,
            slots,
            codes: Codes::Vector(vex, evex),
            masked: 4,
            broadcast: true,
            needs: Level::Avx2,
            flags: FlagUse::Keeps,
            effect: false,
            meaning,
        }
    }

    /// A row of vectors with elements of 8 bytes: masks apply, and one lane can be repeated.
    pub(crate) const fn wide(
        name: &'static str,
        slots: &'static [Slot],
        vex: [Code; 2],
        evex: [Code; 3],
        meaning: Meaning,
    ) -> Row {
        Row::lanes(name, slots, vex, evex, meaning).masks(8)
    }

    /// A row with one encoding.
    pub(crate) const fn plain(
        name: &'static str,
        slots: &'static [Slot],
        code: Code,
        flags: FlagUse,
        meaning: Meaning,
    ) -> Row {
        Row {
            name,
            slots,
            codes: Codes::Plain(code),
            masked: 0,
            broadcast: false,
            needs: Level::Avx2,
            flags,
            effect: false,
            meaning,
        }
    }

    /// The same, with no lane repeated.
    pub(crate) const fn whole(mut self) -> Row {
        self.broadcast = false;
        self
    }

    /// The same, with masks over elements of `bytes` (0: no masks).
    pub(crate) const fn masks(mut self, bytes: u8) -> Row {
        self.masked = bytes;
        self
    }

    /// The same, from `level` on.
    pub(crate) const fn from(mut self, level: Level) -> Row {
        self.needs = level;
        self
    }

    /// The same, with an effect beside its results.
    pub(crate) const fn effect(mut self) -> Row {
        self.effect = true;
        self
    }

    /// The encoding at a level and a width, if there is one.
    pub fn code(&self, level: Level, width: Width) -> Option<Code> {
        if level < self.needs {
            return None;
        }
        let code = match (self.codes, level, width) {
            (Codes::Plain(code), ..) => code,
            (Codes::Vector(vex, _), Level::Avx2, Width::V128) => vex[0],
            (Codes::Vector(vex, _), Level::Avx2, Width::V256) => vex[1],
            (Codes::Vector(..), Level::Avx2, Width::V512) => Code::INVALID,
            (Codes::Vector(_, evex), _, width) => evex[width as usize],
        };
        (code != Code::INVALID).then_some(code)
    }

    /// Whether an `Either` slot may be 32 bits, repeated, from beside the code (`Arg::Splat`): by the instruction itself
    /// from AVX-512 on, written out in full on AVX2.
    pub fn splats(&self, level: Level, span: Span) -> bool {
        span == Span::Full && (level == Level::Avx2 || (self.broadcast && self.masked == 4))
    }

    /// Whether the row writes memory.
    pub fn stores(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Store(_)))
    }
}
