//! What a program is compiled for: memory tiers, workers and instruction rows, as data.

use crate::dim::Symbol;
use crate::tensor::DType;

/// A level of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct TierSize {
    /// Which.
    pub tier: crate::task::Tier,
    /// Bytes that one worker may use.
    pub bytes: u64,
    /// How many workers share it.
    pub sharers: usize,
}

/// A matrix instruction: `c[m, n] += Σ_k a[m, k] · b[n, k]`.
#[derive(Clone, Debug, PartialEq)]
pub struct InstructionRow {
    /// The name, such as `portable_f32` or `tdpbf16ps`.
    pub name: Symbol,
    /// Rows, columns and depth of one instruction; 0 where any size will do.
    pub shape: [i64; 3],
    /// The element types of `a`, `b` and `c`.
    pub types: [DType; 3],
    /// Where `a`, `b` and `c` may be held.
    pub homes: [Vec<crate::kernel::Home>; 3],
    /// Whether it gives a token.
    pub asynchronous: bool,
}

/// What a program is compiled for.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The name, such as `portable`.
    pub name: Symbol,
    /// Memory tiers, nearest first.
    pub tiers: Vec<TierSize>,
    /// How many workers may run at the same time at most.
    pub workers: usize,
    /// The narrowest scope that spans all workers.
    pub scope: crate::task::Scope,
    /// The matrix instructions.
    pub rows: Vec<InstructionRow>,
}

impl Target {
    /// Any machine with a Rust compiler: one chip of up to 1024 workers, products of any size by a library.
    pub fn portable() -> Target {
        use crate::kernel::Home;
        use crate::task::{Scope, Tier};
        let near = || vec![Home::Near];
        let row = |name: &str, types: [DType; 3]| InstructionRow {
            name: Symbol::new(name),
            shape: [0, 0, 0],
            types,
            homes: [near(), near(), near()],
            asynchronous: false,
        };
        Target {
            name: Symbol::new("portable"),
            tiers: vec![
                TierSize { tier: Tier::Near, bytes: 1 << 20, sharers: 1 },
                TierSize { tier: Tier::Memory, bytes: u64::MAX, sharers: 1024 },
            ],
            workers: 1024,
            scope: Scope::Chip,
            rows: vec![
                row("portable_f16", [DType::F16, DType::F16, DType::F32]),
                row("portable_bf16", [DType::Bf16, DType::Bf16, DType::F32]),
                row("portable_f32", [DType::F32, DType::F32, DType::F32]),
                row("portable_f64", [DType::F64, DType::F64, DType::F64]),
            ],
        }
    }
}
