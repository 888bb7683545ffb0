//! What programs are compared on: parameters under an interpretation, from a seed.

use super::evaluate::{Fault, Shared, Tensor, extents};
use super::hash::{mix, mix_all};
use super::interpretation::{Interpretation, Value};
use super::scaled::{Number, Scaled};
use super::sizes::Sizes;
use super::tower::{Real, Tower};
use crate::dim::Symbol;
use crate::tensor::ir::{Program, Value as TensorValue};
use crate::tensor::{DType, Scalar};
use std::rc::Rc;

/// What residues a parameter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planting {
    /// Random ones.
    Generic,
    /// A quarter is ⊖.
    Scattered,
    /// Half of all rows along the last axis, or along the first, are ⊖ alone.
    Rows,
    /// A quarter is 0, and elements repeat.
    Zeros,
}

impl Planting {
    /// Whether some elements are infinite.
    pub fn is_infinite(self) -> bool {
        matches!(self, Planting::Scattered | Planting::Rows)
    }
}

/// What floats a parameter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Data {
    /// Around 0, of magnitude 1.
    Ordinary,
    /// Of magnitude 1000.
    Large,
    /// Rows of tiny variance around a large mean.
    Offset,
    /// Magnitudes from 1e-4 to 1e4.
    Mixed,
    /// All negative.
    Negative,
    /// Zeros and repeated elements.
    Repeats,
    /// −∞ and NaN among ordinary ones.
    Planted,
}

impl Data {
    /// All of them.
    pub const ALL: [Data; 7] = [
        Data::Ordinary,
        Data::Large,
        Data::Offset,
        Data::Mixed,
        Data::Negative,
        Data::Repeats,
        Data::Planted,
    ];
}

fn build<I: Interpretation>(
    program: &Program,
    sizes: &Sizes,
    seed: u64,
    interpretation: &I,
    float: impl Fn(u64, &[usize], usize, DType) -> I::Real,
) -> Result<Vec<Shared<I>>, Fault> {
    let main = program.functions.last().ok_or_else(|| Fault::Illegal("there is no function".into()))?;
    let mut tensors = Vec::with_capacity(main.params.len());
    for (k, param) in main.params.iter().enumerate() {
        let value = main.values.get(param.value.0 as usize);
        let value = value.ok_or_else(|| Fault::Illegal("a parameter has no value".into()))?;
        let extents = extents(&value.ty, &program.facts, sizes)?;
        let count = extents.iter().try_fold(1usize, |n, &e| n.checked_mul(e)).filter(|&n| n <= 1 << 22);
        let count = count.ok_or(Fault::TooLarge)?;
        let own = mix_all([seed, k as u64]);
        let dtype = value.ty.dtype;
        let elements = if dtype.is_float() {
            (0..count).map(|at| Value::Real(float(own, &extents, at, dtype))).collect()
        } else if dtype == DType::Bool {
            let bit = |at: usize| interpretation.truth(mix_all([own, at as u64]) & 1 == 1);
            (0..count).map(|at| Value::Truth(bit(at))).collect()
        } else {
            integers(program, value, sizes, own, count)?.into_iter().map(Value::Int).collect()
        };
        tensors.push(Rc::new(Tensor { dtype, extents, elements }));
    }
    Ok(tensors)
}

/// Parameters under a tower.
pub fn residues(
    program: &Program,
    sizes: &Sizes,
    seed: u64,
    tower: &Tower,
    planting: Planting,
) -> Result<Vec<Shared<Tower>>, Fault> {
    let element = |own: u64, extents: &[usize], at: usize, _: DType| -> Real {
        let last = extents.last().copied().unwrap_or(1).max(1);
        let chance = |what: u64, of: usize| mix_all([own, what, of as u64]) % 4;
        match planting {
            Planting::Scattered if chance(1, at) == 0 => tower.low(),
            Planting::Rows if mix(own) & 1 == 0 && chance(2, at / last) < 2 => tower.low(),
            Planting::Rows if mix(own) & 1 == 1 && chance(2, at % last) < 2 => tower.low(),
            Planting::Zeros if chance(3, at) == 0 => tower.number(0.0),
            Planting::Zeros if chance(3, at) == 1 => tower.random(mix_all([own, 4, at as u64 % 2])),
            _ => tower.random(mix_all([own, 5, at as u64])),
        }
    };
    build(program, sizes, seed, tower, element)
}

/// Parameters in scaled floats, each a value of its type.
pub fn floats(
    program: &Program,
    sizes: &Sizes,
    seed: u64,
    scaled: &Scaled,
    data: Data,
) -> Result<Vec<Shared<Scaled>>, Fault> {
    let element = |own: u64, extents: &[usize], at: usize, dtype: DType| -> Number {
        let last = extents.last().copied().unwrap_or(1).max(1);
        let uniform =
            |what: u64, of: usize| (mix_all([own, what, of as u64]) >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        let x = uniform(1, at) + uniform(2, at) + uniform(3, at);
        let ulp = match dtype {
            DType::Bf16 => 1.0 / 128.0,
            DType::F16 => 1.0 / 1024.0,
            _ => 3e-5,
        };
        let x = match data {
            Data::Ordinary => x,
            Data::Large => 1000.0 * x,
            Data::Offset => 96.0 * (1.0 + uniform(4, at / last).round() * 0.25) * (1.0 + 3.0 * ulp * x),
            Data::Mixed => x.signum() * 10f64.powf(4.0 * uniform(5, at)),
            Data::Negative => -x.abs() - 0.01,
            Data::Repeats if mix_all([own, 6, at as u64]).is_multiple_of(3) => 0.0,
            Data::Repeats => (4.0 * x).round() / 2.0,
            Data::Planted => match mix_all([own, 7, at as u64]) % 16 {
                0 => f64::NAN,
                1..=3 => f64::NEG_INFINITY,
                _ => x,
            },
        };
        // Not -0: its sign is not kept.
        Number::exact(dtype.round(Scalar::Float(x)).as_f64() + 0.0)
    };
    build(program, sizes, seed, scaled, element)
}

/// Integers that keep the facts on a table; without any, some that are indices and some that are not.
fn integers(
    program: &Program,
    value: &TensorValue,
    sizes: &Sizes,
    seed: u64,
    count: usize,
) -> Result<Vec<i64>, Fault> {
    let random = |at: usize, low: i64, high: i64| {
        low + (mix_all([seed, at as u64]) % (high - low + 1).max(1) as u64) as i64
    };
    let number = |dim: &crate::dim::Dim| dim.eval(sizes).map_err(|error| Fault::Size(error.to_string()));
    let name: &Symbol = &value.name;
    if let Some((parts, total)) = program.facts.splits(name) {
        let (parts, total) = (number(parts)?, number(total)?);
        if parts < 0 || (parts == 0 && total != 0) || total < 0 || count as i64 != parts + 1 {
            return Err(Fault::Size(format!("`{name}` cannot split {total} over {parts}")));
        }
        let mut offsets: Vec<i64> = (1..parts as usize).map(|at| random(at, 0, total)).collect();
        offsets.sort_unstable();
        offsets.insert(0, 0);
        if parts > 0 {
            offsets.push(total);
        }
        return Ok(offsets);
    }
    let (mut low, mut high) = match value.ty.dtype {
        DType::U8 => (0, 255),
        DType::I8 => (-128, 127),
        _ => (-1, sizes.values().copied().max().unwrap_or(1).clamp(1, 8)),
    };
    if let Some((least, most)) = program.facts.table_range(name) {
        (low, high) = (number(least)?, number(most)?);
        if low > high && count > 0 {
            return Err(Fault::Size(format!("`{name}` has no possible element")));
        }
    }
    Ok((0..count).map(|at| random(at, low, high)).collect())
}
