//! The tables of elementwise functions and monoids, and rounding to narrow types.

mod tensor_tools;

use tensor_tools::*;
use tilewright::tensor::{DType, Scalar, elementwise, monoid};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
fn narrow_floats_round_to_nearest_even() {
    for dtype in [DType::F16, DType::Bf16] {
        let value = |bits: u16| match dtype {
            DType::F16 => half::f16::from_bits(bits).to_f64(),
            _ => half::bf16::from_bits(bits).to_f64(),
        };
        let round = |x: f64| dtype.round(Scalar::Float(x)).as_f64();
        let top = if dtype == DType::F16 { 0x7bff } else { 0x7f7f };
        for bits in 0..top {
            let (low, high) = (value(bits), value(bits + 1));
            let middle = (low + high) / 2.0;
            let even = if bits % 2 == 0 { low } else { high };
            let step = (high - low) * 1e-9;
            for (x, expected) in [(low, low), (middle, even), (middle - step, low), (middle + step, high)] {
                assert!(
                    same(&[round(x), round(-x)], &[expected, -expected]),
                    "{dtype} {x:e}: {:e}",
                    round(x)
                );
            }
        }
        let (last, before) = (value(top), value(top - 1));
        let limit = last + (last - before) / 2.0;
        assert_eq!(round(limit * (1.0 - 1e-9)), last);
        assert_eq!((round(limit), round(-limit), round(1e300)), (INF, -INF, INF));
        assert!(round(NAN).is_nan() && round(1e-300) == 0.0 && round(-1e-300).is_sign_negative());
        assert_eq!((round(INF), round(-INF)), (INF, -INF));
    }
}

fn apply(name: &str, arguments: &[Scalar], to: DType) -> Scalar {
    let row = elementwise::find(name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(row.arity, arguments.len());
    to.round((row.eval)(arguments, to))
}

#[test]
fn elementwise_table() {
    let f = |name: &str, args: &[f64]| {
        let args: Vec<Scalar> = args.iter().map(|x| Scalar::Float(*x)).collect();
        apply(name, &args, DType::F64).as_f64()
    };
    let i = |name: &str, args: &[i64]| {
        let args: Vec<Scalar> = args.iter().map(|x| Scalar::Int(*x)).collect();
        apply(name, &args, DType::I64).as_i64()
    };
    // C20: NaN propagates through min and max.
    for (a, b) in [(NAN, 1.0), (1.0, NAN), (NAN, NAN)] {
        assert!(f("max", &[a, b]).is_nan() && f("min", &[a, b]).is_nan());
    }
    // C21: the first of two equal arguments.
    assert!(same(&[f("max", &[-0.0, 0.0]), f("max", &[0.0, -0.0])], &[-0.0, 0.0]));
    for (name, args, expected) in [
        ("rem", vec![7.0, 3.0], 1.0),
        ("rem", vec![-7.0, 3.0], 2.0),
        ("rem", vec![7.0, -3.0], -2.0),
        ("rem", vec![1.0, 0.0], NAN),
        ("round", vec![2.5], 2.0),
        ("round", vec![-3.5], -4.0),
        ("trunc", vec![-3.7], -3.0),
        ("floor", vec![-3.2], -4.0),
        ("ceil", vec![-3.2], -3.0),
        ("rsqrt", vec![4.0], 0.5),
        ("rsqrt", vec![0.0], INF),
        ("sqrt", vec![-1.0], NAN),
        ("log", vec![0.0], -INF),
        ("exp", vec![-INF], 0.0),
        ("exp2", vec![-3.0], 0.125),
        ("pow", vec![2.0, 0.5], std::f64::consts::SQRT_2),
        ("sigmoid", vec![0.0], 0.5),
        ("sigmoid", vec![-1000.0], 0.0),
        ("sigmoid", vec![1000.0], 1.0),
        ("tanh", vec![1000.0], 1.0),
        ("erf", vec![INF], 1.0),
        ("abs", vec![-0.0], 0.0),
        ("neg", vec![0.0], -0.0),
        ("div", vec![0.0, 0.0], NAN),
    ] {
        assert!(same(&[f(name, &args)], &[expected]), "{name} {args:?}: {}", f(name, &args));
    }
    for (a, b) in [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (5, 0), (i64::MIN, -1), (0, 0)] {
        let (q, r) = (i("div", &[a, b]), i("rem", &[a, b]));
        assert_eq!(q.wrapping_mul(b).wrapping_add(r), a, "{a} {b}");
        assert!(b == 0 || (r == 0 || (r < 0) == (b < 0)), "{a} {b}: {r}");
    }
    assert_eq!((i("div", &[-7, 2]), i("div", &[5, 0]), i("rem", &[5, 0])), (-4, 0, 5));
    assert_eq!(
        (i("shift_right", &[-8, 1]), i("shift_right", &[255, 4]), i("shift_right", &[1, 99])),
        (-4, 15, 0)
    );
    assert_eq!((i("bit_and", &[12, 10]), i("bit_or", &[12, 10])), (8, 14));
    assert_eq!((i("abs", &[i64::MIN]), i("neg", &[5]), i("max", &[-3, 2])), (i64::MIN, -5, 2));
    let cast = |x: f64, to| apply("cast", &[Scalar::Float(x)], to);
    assert_eq!(cast(3.9, DType::I32), Scalar::Int(3));
    assert_eq!(cast(-3.9, DType::I32), Scalar::Int(-3));
    assert_eq!(cast(1e10, DType::I32), Scalar::Int(i32::MAX.into()));
    assert_eq!(cast(-5.0, DType::U8), Scalar::Int(0));
    assert_eq!(cast(NAN, DType::I8), Scalar::Int(0));
    assert_eq!(cast(NAN, DType::Bool), Scalar::Bool(true));
    assert_eq!(apply("cast", &[Scalar::Int(200)], DType::I8), Scalar::Int(-56));
    // One rounding on the way from 64-bit integers: by way of the nearest f64 this would be a tie.
    let x = (1i64 << 60) + (1 << 36) + 1;
    assert_eq!(apply("cast", &[Scalar::Int(x)], DType::F32), Scalar::Float(f64::from(x as f32)));
    assert_eq!(apply("cast", &[Scalar::Int(-x)], DType::F32), Scalar::Float(f64::from(-x as f32)));
    assert_eq!(apply("from_f16_bits", &[Scalar::Int(0x3c00)], DType::F32), Scalar::Float(1.0));
    for (a, b) in [(NAN, 1.0), (1.0, NAN)] {
        let truth = |name| apply(name, &[Scalar::Float(a), Scalar::Float(b)], DType::Bool).as_bool();
        assert!(truth("ne") && !["eq", "lt", "le", "gt", "ge"].into_iter().any(truth));
    }
    let pick =
        |c| apply("select", &[Scalar::Bool(c), Scalar::Float(NAN), Scalar::Float(2.0)], DType::F32).as_f64();
    assert!(pick(true).is_nan() && pick(false) == 2.0);
}

#[test]
fn no_elementwise_function_panics() {
    let floats = [0.0, -0.0, 1.0, -2.5, INF, -INF, NAN, 1e308, -1e308, 5e-324].map(Scalar::Float);
    let ints = [0, 1, -1, 63, 64, 255, i64::MAX, i64::MIN].map(Scalar::Int);
    let all: Vec<Scalar> = floats.into_iter().chain(ints).chain([true, false].map(Scalar::Bool)).collect();
    for row in elementwise::TABLE {
        for a in &all {
            for b in &all {
                for to in DType::ALL {
                    let arguments = [*a, *b, *a];
                    let value = (row.eval)(&arguments[..row.arity], to);
                    let _ = to.round(value.carry(to));
                }
            }
        }
        assert!((1..=3).contains(&row.arity) && !row.doc.is_empty());
    }
}

#[test]
fn monoids_combine_as_they_absorb() {
    let mut random = Random::new(3);
    let special = [NAN, INF, -INF, 0.0, -0.0, 1.0, 1.0, -1.0];
    for row in monoid::TABLE {
        for round in 0..400 {
            let count = random.below(6) as usize;
            let values: Vec<Scalar> = (0..count)
                .map(|_| Scalar::Float(special[random.below(if round % 2 == 0 { 8 } else { 7 }) as usize]))
                .collect();
            let fold = |from: usize, to: usize| {
                let mut state = (row.identity)(DType::F32);
                for (k, value) in values.iter().enumerate().take(to).skip(from) {
                    (row.absorb)(&mut state, *value, k as i64);
                }
                state
            };
            let whole = fold(0, count);
            for cut in 0..=count {
                let mut state = fold(0, cut);
                (row.combine)(&mut state, &fold(cut, count));
                let (got, expected) = (state[row.result].as_f64(), whole[row.result].as_f64());
                let equal = got == expected || (got.is_nan() && expected.is_nan());
                assert!(equal, "{} of {values:?} cut at {cut}: {got} is not {expected}", row.name);
            }
            assert_eq!(whole.len(), (row.state)(DType::F32, DType::F32).len());
        }
    }
}
