//! Elementwise functions and monoids on 16 lanes of singles.
//!
//! A narrower float is held as the single that it is; a truth value as 1 or 0. Results that a wider meaning would round
//! otherwise are named at the function.

use iced_x86::code_asm::*;
use tilewright::tensor::DType;

use super::emit::{Emitter, Lack};

/// Vector registers by number.
pub const ZMM: [AsmRegisterZmm; 32] = [
    zmm0, zmm1, zmm2, zmm3, zmm4, zmm5, zmm6, zmm7, zmm8, zmm9, zmm10, zmm11, zmm12, zmm13, zmm14, zmm15,
    zmm16, zmm17, zmm18, zmm19, zmm20, zmm21, zmm22, zmm23, zmm24, zmm25, zmm26, zmm27, zmm28, zmm29, zmm30,
    zmm31,
];

/// Registers below this one hold values; those above are for a few instructions.
pub const FIRST_TEMPORARY: usize = 26;

const T: [AsmRegisterZmm; 6] = [zmm26, zmm27, zmm28, zmm29, zmm30, zmm31];

/// `to = function(arguments)`; `to` is none of the arguments.
pub fn compute(
    e: &mut Emitter<'_>,
    name: &str,
    arguments: &[AsmRegisterZmm],
    to: AsmRegisterZmm,
) -> Result<(), Lack> {
    let lack = || Lack(format!("the function `{name}`"));
    let x = *arguments.first().ok_or_else(lack)?;
    let y = arguments.get(1).copied().unwrap_or(x);
    let z = arguments.get(2).copied().unwrap_or(x);
    let one = e.float(1.0);
    // Comparisons that are false for NaN, but `ne`: predicates EQ_OQ, NEQ_UQ, LT_OQ, LE_OQ, GT_OQ, GE_OQ.
    let compare = |e: &mut Emitter<'_>, predicate: i32| -> Result<(), Lack> {
        e.a.vcmpps(k2, x, y, predicate)?;
        splat(e, 1.0, to.k2().z())
    };
    match name {
        "add" => e.a.vaddps(to, x, y)?,
        "sub" => e.a.vsubps(to, x, y)?,
        "mul" => e.a.vmulps(to, x, y)?,
        "div" => e.a.vdivps(to, x, y)?,
        "neg" => {
            let sign = dword_bcst(e.constant(1 << 31));
            e.a.vxorps(to, x, sign)?;
        }
        "abs" => {
            let rest = dword_bcst(e.constant(!(1 << 31)));
            e.a.vandps(to, x, rest)?;
        }
        "max" | "min" => extreme(e, name == "max", x, y, to)?,
        "eq" => compare(e, 0x00)?,
        "ne" => compare(e, 0x04)?,
        "lt" => compare(e, 0x11)?,
        "le" => compare(e, 0x12)?,
        "gt" => compare(e, 0x1e)?,
        "ge" => compare(e, 0x1d)?,
        "and" => e.a.vandps(to, x, y)?,
        "or" => e.a.vorps(to, x, y)?,
        "not" => e.a.vxorps(to, x, one)?,
        "select" => {
            e.a.vptestmd(k2, x, x)?;
            e.a.vblendmps(to.k2(), z, y)?;
        }
        "cast" => e.a.vmovaps(to, x)?,
        "sqrt" => e.a.vsqrtps(to, x)?,
        // Two roundings: within 1.5 ulp.
        "rsqrt" => {
            e.a.vsqrtps(T[0], x)?;
            splat(e, 1.0, T[1])?;
            e.a.vdivps(to, T[1], T[0])?;
        }
        "exp" => exp(e, x, to)?,
        // With t = e^-|x|: 1 / (1 + t), or t / (1 + t) where x is negative.
        "sigmoid" => {
            let sign = dword_bcst(e.constant(1 << 31));
            e.a.vpmovd2m(k3, x)?;
            e.a.vorps(T[5], x, sign)?;
            exp(e, T[5], to)?;
            e.a.vaddps(T[0], to, one)?;
            splat(e, 1.0, T[1])?;
            e.a.vmovaps(T[1].k3(), to)?;
            e.a.vdivps(to, T[1], T[0])?;
        }
        "round" => e.a.vrndscaleps(to, x, 8)?,
        "floor" => e.a.vrndscaleps(to, x, 9)?,
        "ceil" => e.a.vrndscaleps(to, x, 10)?,
        "trunc" => e.a.vrndscaleps(to, x, 11)?,
        _ => return Err(lack()),
    }
    Ok(())
}

/// `to` = a constant in every lane.
fn splat(e: &mut Emitter<'_>, value: f32, to: AsmRegisterZmm) -> Result<(), Lack> {
    let constant = e.constant(value.to_bits());
    Ok(e.a.vbroadcastss(to, dword_ptr(constant))?)
}

/// The greater (or lesser) of `x` and `y`: NaN if either is, and `x` where they are equal.
fn extreme(
    e: &mut Emitter<'_>,
    greatest: bool,
    x: AsmRegisterZmm,
    y: AsmRegisterZmm,
    to: AsmRegisterZmm,
) -> Result<(), Lack> {
    // The instruction gives its second source if either is NaN or both are zero.
    e.a.vcmpps(k2, y, y, 3)?;
    match greatest {
        true => e.a.vmaxps(to, y, x)?,
        false => e.a.vminps(to, y, x)?,
    }
    Ok(e.a.vmovaps(to.k2(), y)?)
}

/// `state ⊕= x` on the lanes of `k1`, or on all; the lanes of `state` that are off stay.
pub fn absorb(
    e: &mut Emitter<'_>,
    monoid: &str,
    state: AsmRegisterZmm,
    x: AsmRegisterZmm,
    masked: bool,
) -> Result<(), Lack> {
    let to = if masked { state.k1() } else { state };
    match monoid {
        "sum" => e.a.vaddps(to, state, x)?,
        "prod" => e.a.vmulps(to, state, x)?,
        "max" | "min" | "any" => {
            extreme(e, monoid != "min", state, x, T[0])?;
            e.a.vmovaps(to, T[0])?;
        }
        _ => return Err(Lack(format!("the monoid `{monoid}`"))),
    }
    Ok(())
}

/// The state of all lanes of `state` together, in every lane.
pub fn fold(e: &mut Emitter<'_>, monoid: &str, state: AsmRegisterZmm) -> Result<(), Lack> {
    for step in 0..4 {
        match step {
            0 => e.a.vshuff64x2(T[1], state, state, 0x4e)?,
            1 => e.a.vshuff64x2(T[1], state, state, 0xb1)?,
            2 => e.a.vshufps(T[1], state, state, 0x4e)?,
            _ => e.a.vshufps(T[1], state, state, 0xb1)?,
        }
        absorb(e, monoid, state, T[1], false)?;
    }
    Ok(())
}

/// `to = e^x`: with `x = n·ln 2 + r`, |r| ≤ ln 2 / 2, the polynomial of degree 7 in `r` times 2^n. Within 1 ulp;
/// subnormal results are rounded once more.
fn exp(e: &mut Emitter<'_>, x: AsmRegisterZmm, to: AsmRegisterZmm) -> Result<(), Lack> {
    let log2e = e.float(std::f32::consts::LOG2_E);
    // ln 2 in two parts, the first with trailing zeros, so that n times it is exact.
    let (high, low) = (e.float(-0.693_359_4), e.float(2.121_944_4e-4));
    // min and max give their second source where either is NaN.
    splat(e, 130.0, T[0])?;
    e.a.vminps(T[0], T[0], x)?;
    splat(e, -150.0, T[1])?;
    e.a.vmaxps(T[0], T[1], T[0])?;
    e.a.vmulps(T[1], T[0], log2e)?;
    e.a.vrndscaleps(T[1], T[1], 8)?;
    e.a.vfmadd231ps(T[0], T[1], high)?;
    e.a.vfmadd231ps(T[0], T[1], low)?;
    splat(e, 1.0 / 5040.0, to)?;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        let coefficient = e.float(coefficient);
        e.a.vfmadd213ps(to, T[0], coefficient)?;
    }
    Ok(e.a.vscalefps(to, to, T[1])?)
}

/// Rounds `x` in place to a narrower type, held as singles.
pub fn round(e: &mut Emitter<'_>, dtype: DType, x: AsmRegisterZmm) -> Result<(), Lack> {
    match dtype {
        DType::F32 | DType::Bool => {}
        DType::F16 => {
            e.a.vcvtps2ph(ymm26, x, 0)?;
            e.a.vcvtph2ps(x, ymm26)?;
        }
        // To nearest, ties to even, on the bits; NaN keeps its upper half, made quiet.
        DType::Bf16 => {
            let (half, one, quiet, upper) = (
                dword_bcst(e.constant(0x7fff)),
                dword_bcst(e.constant(1)),
                dword_bcst(e.constant(0x40_0000)),
                dword_bcst(e.constant(0xffff_0000)),
            );
            e.a.vcmpps(k2, x, x, 3)?;
            e.a.vpsrld(T[0], x, 16)?;
            e.a.vpandd(T[0], T[0], one)?;
            e.a.vpaddd(T[0], T[0], half)?;
            e.a.vpaddd(T[0], T[0], x)?;
            e.a.vpord(T[0].k2(), x, quiet)?;
            e.a.vpandd(x, T[0], upper)?;
        }
        other => return Err(Lack(format!("elements of type {other}"))),
    }
    Ok(())
}

/// `to` = 16 elements of a buffer, as singles; with `masked`, those of `k1`, and 0 for the others.
pub fn load(
    e: &mut Emitter<'_>,
    dtype: DType,
    from: AsmMemoryOperand,
    to: AsmRegisterZmm,
    masked: bool,
) -> Result<(), Lack> {
    let on = if masked { to.k1().z() } else { to };
    match dtype {
        DType::F32 => e.a.vmovups(on, from)?,
        DType::Bf16 => {
            e.a.vpmovzxwd(on, from)?;
            e.a.vpslld(to, to, 16)?;
        }
        DType::F16 => e.a.vcvtph2ps(on, from)?,
        DType::Bool => {
            e.a.vpmovzxbd(on, from)?;
            e.a.vptestmd(k2, to, to)?;
            let one = e.constant(1f32.to_bits());
            e.a.vbroadcastss(to.k2().z(), dword_ptr(one))?;
        }
        other => return Err(Lack(format!("elements of type {other}"))),
    }
    Ok(())
}

/// Writes 16 singles as elements of a buffer; with `masked`, those of `k1`. They are already rounded to the type.
pub fn store(
    e: &mut Emitter<'_>,
    dtype: DType,
    to: AsmMemoryOperand,
    from: AsmRegisterZmm,
    masked: bool,
) -> Result<(), Lack> {
    let on = if masked { to.k1() } else { to };
    match dtype {
        DType::F32 => e.a.vmovups(on, from)?,
        DType::Bf16 => {
            e.a.vpsrld(T[0], from, 16)?;
            e.a.vpmovdw(on, T[0])?;
        }
        DType::F16 => e.a.vcvtps2ph(on, from, 0)?,
        DType::Bool => {
            e.a.vcvttps2dq(T[0], from)?;
            e.a.vpmovdb(on, T[0])?;
        }
        other => return Err(Lack(format!("elements of type {other}"))),
    }
    Ok(())
}
