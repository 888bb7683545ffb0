//! Evaluation of tensor programs: meanings, numerics, sizes, and what is refused.

use std::collections::BTreeMap;
use tilewright::dim::Symbol;
use tilewright::error::Error;
use tilewright::tensor::eval::{Bindings, Numerics, eval};
use tilewright::tensor::{Array, DType, Data, Program, text};

fn parse(source: &str) -> Program {
    text::parse("test.tensor", source).unwrap_or_else(|error| panic!("{error}"))
}

fn sizes(sizes: &[(&str, i64)]) -> BTreeMap<Symbol, i64> {
    sizes.iter().map(|(name, value)| (Symbol::new(name), *value)).collect()
}

fn floats(dtype: DType, extents: &[usize], data: &[f64]) -> Array {
    Array { dtype, extents: extents.to_vec(), data: Data::Float(data.to_vec()) }
}

fn ints(extents: &[usize], data: &[i64]) -> Array {
    Array { dtype: DType::I32, extents: extents.to_vec(), data: Data::Int(data.to_vec()) }
}

fn bools(extents: &[usize], data: &[bool]) -> Array {
    Array { dtype: DType::Bool, extents: extents.to_vec(), data: Data::Bool(data.to_vec()) }
}

fn try_run(
    source: &str,
    symbols: &[(&str, i64)],
    arrays: &[Array],
    numerics: Numerics,
) -> Result<Vec<Array>, Error> {
    let bindings = Bindings { symbols: sizes(symbols), arrays: arrays.to_vec() };
    eval(&parse(source), &bindings, numerics)
}

fn run(source: &str, symbols: &[(&str, i64)], arrays: &[Array], numerics: Numerics) -> Array {
    let results = try_run(source, symbols, arrays, numerics);
    results.unwrap_or_else(|error| panic!("{error}")).swap_remove(0)
}

fn values(array: &Array) -> Vec<f64> {
    (0..array.len()).map(|k| array.get(k).as_f64()).collect()
}

fn close(array: &Array, expected: &[f64], tolerance: f64) {
    let got = values(array);
    assert_eq!(got.len(), expected.len(), "{got:?}");
    for (x, y) in got.iter().zip(expected) {
        let same = (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= tolerance;
        assert!(same, "{got:?} is not {expected:?}");
    }
}

fn pattern(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f64::from((state >> 40) as i32 - (1 << 23)) / f64::from(1 << 23)
    };
    (0..count).map(|_| next()).collect()
}

const SOFTMAX: &str = include_str!("../../../programs/softmax.tensor");
const ATTENTION: &str = include_str!("../../../programs/attention_causal.tensor");
const MATMUL: &str = "program p(a: f32[M, K], b: f32[N, K]) -> f32[M, N]
where M in 0..=4096, N in 0..=4096, K in 0..=4096
{
  return contract a[m, k] b[n, k] -> [M: m, N: n]
}";

#[test]
fn a_large_product_takes_about_a_second() {
    let (m, n, k) = (256, 512, 1024);
    let a = floats(DType::F32, &[m, k], &pattern(m * k, 1));
    let b = floats(DType::F32, &[n, k], &pattern(n * k, 2));
    let symbols = [("M", m as i64), ("N", n as i64), ("K", k as i64)];
    for numerics in [Numerics::F64, Numerics::Own] {
        let start = std::time::Instant::now();
        let c = run(MATMUL, &symbols, &[a.clone(), b.clone()], numerics);
        let seconds = start.elapsed().as_secs_f64();
        assert!(seconds < 20.0, "{seconds} s");
        eprintln!("{numerics:?}: {seconds:.2} s");
        let (x, y) = (values(&a), values(&b));
        let expected: f64 = (0..k).map(|i| x[3 * k + i] * y[5 * k + i]).sum();
        assert!((c.get(3 * n + 5).as_f64() - expected).abs() < 1e-3);
    }
}

#[test]
fn c02_softmax_of_infinities_and_nan_is_nan() {
    let inf = f64::INFINITY;
    for row in [[-inf, -inf, -inf], [inf, 1.0, 2.0], [1.0, f64::NAN, 3.0]] {
        for numerics in [Numerics::F64, Numerics::Own] {
            let y = run(SOFTMAX, &[("R", 1), ("C", 3)], &[floats(DType::F32, &[1, 3], &row)], numerics);
            // exp(1 - inf) is 0, and 0 / NaN is NaN: every place is NaN.
            assert!(values(&y).iter().all(|x| x.is_nan()), "{row:?}: {:?}", values(&y));
        }
    }
    let y = run(
        SOFTMAX,
        &[("R", 1), ("C", 2)],
        &[floats(DType::F32, &[1, 2], &[-60000.0, -60001.0])],
        Numerics::Own,
    );
    close(&y, &[0.731_058_6, 0.268_941_4], 1e-6);
}
