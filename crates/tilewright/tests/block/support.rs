//! Random bindings for a tensor program, and the comparison of tensor with block evaluation.

use std::collections::BTreeMap;
use tilewright::block;
use tilewright::dim::{Env, Facts, Symbol};
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::tensor::eval::{Bindings, Numerics, check};
use tilewright::tensor::{self, Array, DType, Data};

/// A generator of numbers that are the same at each run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }
}

/// Symbols and the integer tensors made so far.
struct Tables<'a> {
    symbols: &'a BTreeMap<Symbol, i64>,
    tables: BTreeMap<Symbol, Vec<i64>>,
}

impl Env for Tables<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let [index] = index else { return None };
        self.tables.get(table)?.get(usize::try_from(*index).ok()?).copied()
    }
}

fn integers(facts: &Facts, env: &Tables<'_>, name: &Symbol, count: usize, random: &mut Random) -> Vec<i64> {
    if let Some((parts, total)) = facts.splits(name) {
        let (parts, total) = (parts.eval(env).unwrap(), total.eval(env).unwrap());
        let mut inner: Vec<i64> = (1..parts).map(|_| random.below(total as u64 + 1) as i64).collect();
        inner.sort_unstable();
        let last = if parts == 0 { 0 } else { total };
        let mut all = vec![0];
        all.extend(inner);
        if parts > 0 {
            all.push(last);
        }
        return all;
    }
    let (lo, hi) = match facts.table_range(name) {
        Some((lo, hi)) => (lo.eval(env).unwrap(), hi.eval(env).unwrap()),
        None => (-3, 9),
    };
    (0..count).map(|_| lo + random.below((hi - lo + 1).max(1) as u64) as i64).collect()
}

/// Arrays that fit the program's parameters at these sizes: small numbers, now and then a NaN or an infinity.
pub fn bindings(program: &tensor::Program, symbols: &BTreeMap<Symbol, i64>, seed: u64) -> Bindings {
    let mut random = Random::new(seed);
    let mut env = Tables { symbols, tables: BTreeMap::new() };
    let main = program.main();
    let mut arrays = Vec::new();
    for param in &main.params {
        let value = main.value(param.value);
        let dtype = value.ty.dtype;
        let extents = check::extents(&program.facts, &env, &value.name, &value.ty).unwrap();
        let count: usize = extents.iter().product();
        let data = if dtype.is_int() {
            let range = dtype.int_range().unwrap();
            let data = integers(&program.facts, &env, &value.name, count, &mut random);
            env.tables.insert(value.name.clone(), data.clone());
            Data::Int(data.into_iter().map(|x| x.clamp(range.0, range.1)).collect())
        } else if dtype == DType::Bool {
            Data::Bool((0..count).map(|_| random.below(3) > 0).collect())
        } else {
            let element = |random: &mut Random| match random.below(400) {
                0 if seed.is_multiple_of(3) => f64::NAN,
                1 if seed.is_multiple_of(3) => f64::NEG_INFINITY,
                _ => {
                    dtype.round(tensor::Scalar::Float((random.below(4001) as f64 - 2000.0) / 512.0)).as_f64()
                }
            };
            Data::Float((0..count).map(|_| element(&mut random)).collect())
        };
        arrays.push(Array { dtype, extents, data });
    }
    Bindings { symbols: symbols.clone(), arrays }
}

pub fn symbols(sizes: &[(&str, i64)]) -> BTreeMap<Symbol, i64> {
    sizes.iter().map(|(name, value)| (Symbol::new(name), *value)).collect()
}

/// Whether two arrays hold the same bits; NaN equals NaN.
pub fn same(a: &Array, b: &Array) -> bool {
    let floats = |x: &f64, y: &f64| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.dtype == b.dtype
        && a.extents == b.extents
        && match (&a.data, &b.data) {
            (Data::Float(x), Data::Float(y)) => {
                x.len() == y.len() && x.iter().zip(y).all(|(x, y)| floats(x, y))
            }
            (x, y) => x == y,
        }
}

pub fn tensor(source: &str) -> tensor::Program {
    let program = tensor::text::parse("test.tensor", source).unwrap_or_else(|error| panic!("{error}"));
    tensor::verify::verify(&program).unwrap_or_else(|error| panic!("{error}"));
    program
}

/// The block program of a tensor program, verified and through its text.
pub fn lowered(program: &tensor::Program) -> block::Program {
    let lowered = block::lower::lower(program, &Target::portable(), &mut Journal::new())
        .unwrap_or_else(|error| panic!("{error}"));
    let text = lowered.to_string();
    let parsed = block::text::parse("test.block", &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!(parsed.to_string(), text, "the text changes");
    assert!(parsed == lowered, "the program changes on its way through the text:\n{text}");
    block::verify::verify(&lowered).unwrap_or_else(|violation| panic!("{text}\n{violation}"));
    lowered
}

/// Checks that tensor and block evaluation agree bit for bit at every one of these sizes.
pub fn agree(source: &str, sizes: &[&[(&str, i64)]]) {
    let program = tensor(source);
    let lowered = lowered(&program);
    for (seed, sizes) in sizes.iter().enumerate() {
        let bindings = bindings(&program, &symbols(sizes), seed as u64);
        for numerics in [Numerics::F64, Numerics::Own] {
            let expected = tensor::eval::eval(&program, &bindings, numerics);
            let expected = expected.unwrap_or_else(|error| panic!("{sizes:?}: {error}"));
            let got = block::eval::eval(&lowered, &bindings, numerics);
            let got = got.unwrap_or_else(|error| panic!("{sizes:?}: {error}\n{lowered}"));
            assert_eq!(got.len(), expected.len());
            for (k, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert!(
                    same(got, expected),
                    "result {k} differs at {sizes:?}, {numerics:?}:\n{got:?}\nis not\n{expected:?}\n{lowered}"
                );
            }
        }
    }
}
