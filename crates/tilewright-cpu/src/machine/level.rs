//! What the processor can do, in levels that each contain the one before.

use super::ir::Width;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A set of instructions; each level contains the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// AVX2, FMA, F16C, BMI1 and BMI2: 16 vector registers of 32 bytes.
    Avx2,
    /// AVX-512 F, BW, CD, DQ and VL: 32 vector registers of 64 bytes, 7 predicates.
    Avx512,
    /// AVX512_BF16 and AVX512_VNNI.
    Avx512Dot,
    /// AMX tiles of bf16 and int8.
    Amx,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Level; 4] = [Level::Avx2, Level::Avx512, Level::Avx512Dot, Level::Amx];

    /// The name that `FromStr` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Avx512Dot => "avx512dot",
            Level::Amx => "amx",
        }
    }

    /// The width of its vectors.
    pub const fn width(self) -> Width {
        match self {
            Level::Avx2 => Width::V256,
            _ => Width::V512,
        }
    }

    /// How many vector registers it has.
    pub const fn vector_registers(self) -> usize {
        match self {
            Level::Avx2 => 16,
            _ => 32,
        }
    }

    /// The highest level of the machine that this runs on; `None` if it lacks AVX2, or is no x86-64 with Linux.
    /// `Amx` needs the kernel's permission to use tiles, which this asks for, once per process.
    pub fn detect() -> Option<Level> {
        static FOUND: OnceLock<Option<Level>> = OnceLock::new();
        *FOUND.get_or_init(detect)
    }

    /// The highest level that both the machine and `limit` have: the knob that forces a lower level.
    pub fn at_most(limit: Level) -> Option<Level> {
        Level::detect().map(|found| found.min(limit))
    }

    /// The levels that this machine has, lowest first.
    pub fn available() -> Vec<Level> {
        Level::ALL.into_iter().filter(|level| Some(*level) <= Level::detect()).collect()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A level that does not exist.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("no level is called `{0}`; there are avx2, avx512, avx512dot and amx")]
pub struct UnknownLevel(pub String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        let found = Level::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn detect() -> Option<Level> {
    macro_rules! has {
        ($($feature:tt)*) => { true $(&& std::arch::is_x86_feature_detected!($feature))* };
    }
    if !has!("avx2" "fma" "f16c" "bmi1" "bmi2") {
        return None;
    }
    if !has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl") {
        return Some(Level::Avx2);
    }
    if !has!("avx512bf16" "avx512vnni") {
        return Some(Level::Avx512);
    }
    Some(if amx::present() && amx::permitted() { Level::Amx } else { Level::Avx512Dot })
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn detect() -> Option<Level> {
    None
}

/// Tiles: stable Rust has no detection of them.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx {
    use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};

    /// Whether the processor has AMX-TILE, AMX-BF16 and AMX-INT8: CPUID leaf 7, EDX bits 24, 22 and 25.
    pub fn present() -> bool {
        const BITS: u32 = 1 << 24 | 1 << 22 | 1 << 25;
        __get_cpuid_max(0).0 >= 7 && __cpuid_count(7, 0).edx & BITS == BITS
    }

    /// Asks the kernel for the tile state of this process and the threads it will start. The kernel refuses where it
    /// is older than 5.16 or where AMX is switched off.
    pub fn permitted() -> bool {
        const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_ulong = 18;
        // SAFETY: this call takes two integers, touches no memory of ours, and only widens what the kernel saves.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }
}
