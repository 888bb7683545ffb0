//! Types of machine programs.

use super::level::Level;
use super::row::Row;

/// What a virtual register can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A 64-bit general register.
    General,
    /// A vector register of the level's full width. Bytes above the width of the instruction that wrote it are 0.
    Vector,
    /// An AVX-512 predicate register (`k1` to `k7`), one bit a lane.
    Mask,
}

/// The width of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// 16 bytes.
    V128,
    /// 32 bytes.
    V256,
    /// 64 bytes.
    V512,
}

impl Width {
    /// Bytes in a vector of this width.
    pub const fn bytes(self) -> usize {
        match self {
            Width::V128 => 16,
            Width::V256 => 32,
            Width::V512 => 64,
        }
    }

    /// 32-bit lanes in a vector of this width.
    pub const fn lanes(self) -> usize {
        self.bytes() / 4
    }
}

/// A virtual register: defined once, by an instruction or as a parameter of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// A block of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A constant of a program, kept beside its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConstantId(pub u32);

/// Where an address starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A general register.
    Value(ValueId),
    /// The first byte of a constant.
    Constant(ConstantId),
}

/// An address: `base + index · scale + offset`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mem {
    /// Where it starts.
    pub base: Base,
    /// A general register (a vector of 32-bit lanes for gather and scatter), and 1, 2, 4 or 8.
    pub index: Option<(ValueId, u8)>,
    /// Bytes added.
    pub offset: i32,
}

impl Mem {
    /// `base + offset`.
    pub const fn at(base: ValueId, offset: i32) -> Mem {
        Mem { base: Base::Value(base), index: None, offset }
    }

    /// `base + index · scale + offset`; `scale` is 1, 2, 4 or 8.
    pub const fn indexed(base: ValueId, index: ValueId, scale: u8, offset: i32) -> Mem {
        Mem { base: Base::Value(base), index: Some((index, scale)), offset }
    }

    /// The first byte of a constant.
    pub const fn constant(id: ConstantId) -> Mem {
        Mem { base: Base::Constant(id), index: None, offset: 0 }
    }

    /// The same, `bytes` further.
    pub const fn plus(self, bytes: i32) -> Mem {
        Mem { offset: self.offset + bytes, ..self }
    }
}

/// What an instruction is given for one of its slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A virtual register.
    Value(ValueId),
    /// Memory.
    Mem(Mem),
    /// One lane of memory, for every lane (AVX-512 only).
    Broadcast(Mem),
    /// These 32 bits in every lane, read from memory beside the code.
    Splat(u32),
    /// An immediate.
    Imm(i64),
    /// A tile register, 0 to 7; tile registers are not allocated.
    Tile(u8),
}

impl From<ValueId> for Arg {
    fn from(value: ValueId) -> Arg {
        Arg::Value(value)
    }
}

impl From<Mem> for Arg {
    fn from(mem: Mem) -> Arg {
        Arg::Mem(mem)
    }
}

impl From<f32> for Arg {
    fn from(value: f32) -> Arg {
        Arg::Splat(value.to_bits())
    }
}

/// Which lanes an AVX-512 instruction writes, and what the others become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masking {
    /// The predicate, of class `Mask`.
    pub mask: ValueId,
    /// What lanes that are off become: a vector's lanes, or 0 if `None`. For a store or where the row's own tied
    /// operand gives them, `None`, and lanes that are off stay as they are.
    pub merge: Option<ValueId>,
}

/// A comparison of general registers; also how a status exit reads the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cond {
    /// `a = b`
    Equal,
    /// `a ≠ b`
    NotEqual,
    /// `a < b`, signed
    Less,
    /// `a ≤ b`, signed
    LessEqual,
    /// `a > b`, signed
    Greater,
    /// `a ≥ b`, signed
    GreaterEqual,
    /// `a < b`, unsigned
    Below,
    /// `a ≥ b`, unsigned
    AboveEqual,
    /// The signed result left 64 bits.
    Overflow,
}

impl Cond {
    /// The condition that holds where this does not; `None` for `Overflow`.
    pub fn inverse(self) -> Option<Cond> {
        Some(match self {
            Cond::Equal => Cond::NotEqual,
            Cond::NotEqual => Cond::Equal,
            Cond::Less => Cond::GreaterEqual,
            Cond::LessEqual => Cond::Greater,
            Cond::Greater => Cond::LessEqual,
            Cond::GreaterEqual => Cond::Less,
            Cond::Below => Cond::AboveEqual,
            Cond::AboveEqual => Cond::Below,
            Cond::Overflow => return None,
        })
    }
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    /// Which.
    pub row: &'static Row,
    /// Its width, where its row has vectors.
    pub width: Width,
    /// What it writes: one value for each slot of the row that defines one, in order.
    pub results: Vec<ValueId>,
    /// What it is given: one argument for each slot that takes one, in order.
    pub args: Vec<Arg>,
    /// Lanes written.
    pub masking: Option<Masking>,
    /// After the instruction: leave the function with this status where the condition holds of its flags.
    pub exit: Option<(Cond, i32)>,
}

/// A jump with what it gives to the parameters of its block.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Where to.
    pub block: BlockId,
    /// One value for each parameter.
    pub args: Vec<ValueId>,
}

/// The right side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// A general register.
    Value(ValueId),
    /// A constant.
    Imm(i32),
}

impl From<ValueId> for Right {
    fn from(value: ValueId) -> Right {
        Right::Value(value)
    }
}

impl From<i32> for Right {
    fn from(value: i32) -> Right {
        Right::Imm(value)
    }
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Terminator {
    /// Goes on.
    Jump(Target),
    /// Compares two general registers and goes on at one of two places.
    Branch {
        /// The comparison; not `Overflow`.
        cond: Cond,
        /// Its left side.
        left: ValueId,
        /// Its right side.
        right: Right,
        /// Where it holds.
        then: Target,
        /// Where it does not.
        otherwise: Target,
    },
    /// Leaves the function with the value of a general register.
    Return(ValueId),
}

/// Instructions that run one after another.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its name in texts.
    pub name: String,
    /// Values that whoever jumps here gives.
    pub params: Vec<ValueId>,
    /// Its instructions.
    pub insts: Vec<Inst>,
    /// How it ends.
    pub end: Terminator,
}

/// A function `extern "sysv64" fn(*mut Context, *const i64) -> i64` over virtual registers. Block 0 is its entry, and
/// the entry's two parameters are the arguments; nothing jumps to the entry.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name, for texts and profilers.
    pub name: String,
    /// What it may use.
    pub level: Level,
    /// The class of each value.
    pub values: Vec<Class>,
    /// Names of values, for texts: sorted by value.
    pub names: Vec<(ValueId, String)>,
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// Bytes kept beside its code, each at an address divisible by 64.
    pub constants: Vec<Vec<u8>>,
}

impl Program {
    /// The class of a value.
    pub fn class(&self, value: ValueId) -> Class {
        self.values[value.0 as usize]
    }

    /// A block.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// The ids of its blocks, in order.
    pub fn block_ids(&self) -> impl Iterator<Item = BlockId> + use<> {
        (0..self.blocks.len() as u32).map(BlockId)
    }
}

impl Terminator {
    /// Where it may go on, in order.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        match self {
            Terminator::Jump(target) => [Some(target), None],
            Terminator::Branch { then, otherwise, .. } => [Some(then), Some(otherwise)],
            Terminator::Return(_) => [None, None],
        }
        .into_iter()
        .flatten()
    }
}
