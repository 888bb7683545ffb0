//! Each function against f64, over a stride of all bit patterns, at every level; the long test takes every pattern.

use super::{exp, sigmoid, tanh};
use crate::machine::{Builder, CodePages, Level, Mem, Program, ValueId, emit};

type Function = fn(&mut Builder, ValueId) -> ValueId;

/// Name, program, exact value, largest error in ulp.
type Case = (&'static str, Function, fn(f64) -> f64, f64);

const FUNCTIONS: [Case; 3] = [
    ("exp", exp, f64::exp, 1.0),
    ("sigmoid", sigmoid, |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }, 2.5),
    ("tanh", tanh, f64::tanh, 2.5),
];

/// `y[i] = f(x[i])` for a multiple of 16 elements; the context is x, y and their number.
fn over(name: &str, f: Function, level: Level) -> Program {
    let mut b = Builder::new(name, level);
    let [context, _] = b.entry();
    let (x, y, n) =
        (b.load64(Mem::at(context, 0)), b.load64(Mem::at(context, 8)), b.load64(Mem::at(context, 16)));
    let (start, lanes) = (b.imm(0), b.lanes() as i32);
    b.count(start, n, lanes, &[], |b, i, _| {
        let value = b.load(Mem::indexed(x, i, 4, 0));
        let value = f(b, value);
        b.store(Mem::indexed(y, i, 4, 0), value);
        Vec::new()
    });
    b.ret(start);
    b.finish().unwrap()
}

fn ulps(y: f32, exact: f64) -> f64 {
    if f64::from(y) == exact || (exact.is_nan() && y.is_nan()) {
        return 0.0;
    }
    let rounded = exact as f32;
    if rounded == y {
        return 0.0;
    }
    let exponent = (exact.abs().log2().floor()).clamp(-126.0, 127.0);
    let error = (f64::from(y) - exact).abs() / (exponent - 23.0).exp2();
    if error.is_nan() { f64::INFINITY } else { error }
}

fn sweep(stride: usize) {
    const BATCH: usize = 4096;
    for (name, f, exact, bound) in FUNCTIONS {
        let programs: Vec<_> = Level::available().iter().map(|l| emit(&over(name, f, *l)).unwrap()).collect();
        let code = CodePages::new(&programs.iter().collect::<Vec<_>>()).unwrap();
        assert!(programs.iter().all(|program| program.spills.is_empty()), "{name} spills");
        let (mut worst, mut at) = (0.0_f64, 0.0_f32);
        for start in (0..1_usize << 32).step_by(stride * BATCH) {
            let x: Vec<f32> = (0..BATCH).map(|i| f32::from_bits((start + i * stride) as u32)).collect();
            let mut first: Option<Vec<u32>> = None;
            for n in 0..programs.len() {
                let mut y = vec![0.0_f32; BATCH];
                let mut context = [x.as_ptr() as u64, y.as_mut_ptr() as u64, BATCH as u64];
                let entry = code.entry(n).unwrap();
                // SAFETY: the level is one that the machine has; both buffers have as many elements as the context says.
                unsafe { entry(context.as_mut_ptr().cast(), std::ptr::null()) };
                let bits: Vec<u32> = y.iter().map(|y| y.to_bits()).collect();
                match &first {
                    Some(first) => assert_eq!(first, &bits, "{name} differs between levels"),
                    None => first = Some(bits),
                }
            }
            for (x, y) in x.iter().zip(first.into_iter().flatten()) {
                let error = ulps(f32::from_bits(y), exact(f64::from(*x)));
                if error > worst {
                    (worst, at) = (error, *x);
                }
            }
        }
        println!("{name}: {worst:.4} ulp at {at:e}");
        assert!(worst <= bound, "{name}: {worst} ulp at {at:e}");
    }
}

#[test]
fn errors_are_within_what_is_stated_on_a_stride_of_all_floats() {
    sweep(1021);
}

#[test]
#[ignore = "all 2^32 floats: minutes"]
fn errors_are_within_what_is_stated_on_all_floats() {
    sweep(1);
}
