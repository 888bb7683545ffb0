//! Each function against its meaning in doubles, over a stride of all bit patterns, at every level; the long test takes every
//! pattern.

use super::{Code, Function, TABLE};
use crate::machine::{Builder, CodePages, Level, Mem, Program, emit};
use tilewright::tensor::elementwise::{self, TypeRule};
use tilewright::tensor::{DType, Scalar};

const BATCH: usize = 4096;

/// `z[i] = f(x[i], y[i])` for a multiple of 16 elements; the context is x, y, z and their number.
fn over(function: &Function, level: Level) -> Program {
    let mut b = Builder::new(function.name, level);
    let [context, _] = b.entry();
    let [x, y, z, n] = [0, 8, 16, 24].map(|at| b.load64(Mem::at(context, at)));
    let (start, lanes) = (b.imm(0), b.lanes() as i32);
    b.count(start, n, lanes, &[], |b, i, _| {
        let args = [b.load(Mem::indexed(x, i, 4, 0)), b.load(Mem::indexed(y, i, 4, 0))];
        let count = if matches!(function.code, Code::One(_)) { 1 } else { 2 };
        let value = function.build(b, &args[..count]).unwrap();
        b.store(Mem::indexed(z, i, 4, 0), value);
        Vec::new()
    });
    b.ret(start);
    b.finish().unwrap()
}

/// The distance from the exact value in units of the last place of the nearest f32.
fn ulps(y: f32, exact: f64) -> f64 {
    if y.to_bits() == (exact as f32).to_bits() && exact.is_infinite() {
        return 0.0;
    }
    if exact.is_nan() || y.is_nan() {
        return if exact.is_nan() && y.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if exact == 0.0 {
        return if y == 0.0 && y.is_sign_negative() == exact.is_sign_negative() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = (((exact.to_bits() >> 52) & 0x7ff) as i32 - 1023).clamp(-126, 127);
    let unit = f64::from_bits(((exponent - 23 + 1023) as u64) << 52);
    // Beyond the largest f32, the next power of 2 stands for infinity.
    let y = if y.is_infinite() { 2_f64.powi(128).copysign(y.into()) } else { f64::from(y) };
    let error = (y - exact).abs() / unit;
    if error > 0.5 && y == 2_f64.powi(128).copysign(exact) && (exact as f32).is_infinite() {
        0.0
    } else {
        error
    }
}

/// The meaning in tensor programs, in doubles.
fn meaning(name: &str) -> impl Fn(f32, f32) -> f64 {
    let row = elementwise::find(name).unwrap();
    move |x, y| {
        let args = [Scalar::Float(x.into()), Scalar::Float(y.into())];
        (row.eval)(&args[..row.arity], DType::F64).as_f64()
    }
}

/// A function at every level, checked to give the same bits at all of them.
struct Everywhere {
    code: CodePages,
    levels: usize,
    name: &'static str,
}

impl Everywhere {
    fn new(function: &Function) -> Everywhere {
        let programs: Vec<_> =
            Level::available().iter().map(|level| emit(&over(function, *level)).unwrap()).collect();
        let code = CodePages::new(&programs.iter().collect::<Vec<_>>()).unwrap();
        Everywhere { code, levels: programs.len(), name: function.name }
    }

    fn run(&self, x: &[f32], y: &[f32]) -> Vec<f32> {
        let mut first: Option<Vec<f32>> = None;
        for n in 0..self.levels {
            let mut z = vec![0.0_f32; x.len()];
            let mut context = [x.as_ptr() as u64, y.as_ptr() as u64, z.as_mut_ptr() as u64, x.len() as u64];
            let entry = self.code.entry(n).unwrap();
            // SAFETY: the level is one that the machine has; the buffers have as many elements as the context says.
            unsafe { entry(context.as_mut_ptr().cast(), std::ptr::null()) };
            match &first {
                None => first = Some(z),
                Some(first) => {
                    for ((a, b), x) in first.iter().zip(&z).zip(x) {
                        let same = a.to_bits() == b.to_bits();
                        assert!(same, "{} of {x:e} differs between levels: {a:e} {b:e}", self.name);
                    }
                }
            }
        }
        first.unwrap_or_default()
    }
}

/// The worst of a function over every `stride`th pattern of `from..to`.
fn worst(function: &Function, stride: usize, from: usize, to: usize) -> (f64, f32) {
    let (everywhere, exact) = (Everywhere::new(function), meaning(function.name));
    let (mut worst, mut at) = (0.0_f64, 0.0_f32);
    let mut start = from;
    while start < to && everywhere.levels > 0 {
        let x: Vec<f32> = (0..BATCH).map(|i| f32::from_bits((start + i * stride) as u32)).collect();
        for (x, y) in x.iter().zip(everywhere.run(&x, &x)) {
            let error = ulps(y, exact(*x, 0.0));
            if error > worst {
                (worst, at) = (error, *x);
            }
        }
        start += stride * BATCH;
    }
    (worst, at)
}

fn unary() -> impl Iterator<Item = &'static Function> {
    let only = std::env::var("TILEWRIGHT_FUNCTION").ok();
    TABLE.iter().filter(move |function| {
        matches!(function.code, Code::One(_)) && only.as_ref().is_none_or(|name| name == function.name)
    })
}

#[test]
fn errors_are_within_what_is_stated_on_a_stride_of_all_floats() {
    for function in unary() {
        let (worst, at) = worst(function, 1021, 0, 1 << 32);
        println!("{}: {worst:.4} ulp at {at:e}", function.name);
        assert!(worst <= function.ulp, "{}: {worst} ulp at {at:e}", function.name);
    }
}

#[test]
#[ignore = "all 2^32 floats of each function: an hour of one core; `make sweep`"]
fn errors_are_within_what_is_stated_on_all_floats() {
    for function in unary() {
        let (worst, at) = worst(function, 1, 0, 1 << 32);
        println!("{}: {worst:.4} ulp at {at:e}, of all floats", function.name);
        assert!(worst <= function.ulp, "{}: {worst} ulp at {at:e}", function.name);
    }
}

const SPECIAL: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    1.5,
    -2.5,
    1e-45,
    -1e-45,
    1.1754942e-38,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    16777216.0,
    8388609.0,
    -8388609.0,
];

#[test]
fn special_values_and_pairs_are_right() {
    for function in TABLE {
        let (everywhere, exact) = (Everywhere::new(function), meaning(function.name));
        let mut pairs: Vec<(f32, f32)> =
            SPECIAL.iter().flat_map(|x| SPECIAL.iter().map(|y| (*x, *y))).collect();
        // Pairs whose power is an f32, and any two.
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (x, y) = (f32::from_bits((seed >> 32) as u32), f32::from_bits(seed as u32));
            pairs.push((x, y));
            let x = 1.0 + (seed >> 40) as f32 / (1 << 20) as f32;
            pairs.push((x, (seed as u32 as f32 / (1_u64 << 32) as f32 - 0.5) * 60.0));
            pairs.push((-x, (seed >> 59) as f32 - 16.0));
        }
        pairs.resize(pairs.len().next_multiple_of(16), (1.0, 1.0));
        let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
        if everywhere.levels == 0 {
            continue;
        }
        let mut worst = 0.0_f64;
        for ((x, y), z) in pairs.iter().zip(everywhere.run(&x, &y)) {
            let error = ulps(z, exact(*x, *y));
            worst = worst.max(error);
            assert!(error <= function.ulp, "{} {x:e} {y:e}: {z:e}, {error} ulp", function.name);
        }
        println!("{}: {worst:.4} ulp on special and random pairs", function.name);
    }
}

#[test]
fn no_function_spills() {
    for level in Level::available() {
        for function in TABLE {
            let emitted = emit(&over(function, level)).unwrap();
            let hot = emitted.spills.iter().filter(|spill| !spill.block.starts_with("large"));
            let count: usize = hot.map(|spill| spill.stores + spill.loads).sum();
            let few = function.name == "pow" || (level == Level::Avx2 && count <= 4);
            assert!(count == 0 || few, "{} at {level}: {:?}", function.name, emitted.spills);
        }
    }
}

#[test]
fn every_function_of_floats_has_code() {
    let floats =
        elementwise::TABLE.iter().filter(|row| matches!(row.types, TypeRule::Float | TypeRule::Number));
    let missing: Vec<&str> =
        floats.filter(|row| super::find(row.name).is_none()).map(|row| row.name).collect();
    assert_eq!(missing, ["rem"], "the remainder of floats is left to the portable executor");
}
