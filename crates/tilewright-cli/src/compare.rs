//! How far a result is from a reference, and how far it may be.
//!
//! The *normalized error* of an element is its distance from the reference over the larger of the reference's magnitude
//! and the root mean square of all its finite elements, so that an element that cancels to almost nothing is measured by
//! what was added up. A runtime rounds at other places than evaluation in f64, and may add up in another order than
//! evaluation in the program's own types; the [`budget`] is what those own types cost, times a small factor, and a few
//! units in the last place.

use tilewright::tensor::eval::unwritten;
use tilewright::tensor::storage::depends_on;
use tilewright::tensor::{Array, DType, Data, Program, Scalar};

/// How often the error of evaluation in the program's own types may occur.
const FACTOR: f64 = 8.0;
/// How many units in the last place of the result's type are always allowed.
const ULPS: f64 = 4.0;

/// A result compared with a reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The largest normalized error; infinite where something else differs than finite floats.
    pub error: f64,
    /// The position of the largest error, and what was found and expected there.
    pub worst: Option<(usize, Scalar, Scalar)>,
}

/// Compares a result with a reference of the same shape. Where evaluation in the program's own types, `own`, gives no
/// finite float, a type may have overflowed, and where it gives an integer or a truth value, a comparison may have
/// turned out differently; the result may be that then.
pub fn compare(found: &Array, exact: &Array, own: Option<&Array>) -> Difference {
    let mut difference = Difference { error: 0.0, worst: None };
    if found.extents != exact.extents || found.len() != exact.len() {
        difference.error = f64::INFINITY;
        return difference;
    }
    let scale = root_mean_square(exact);
    for position in 0..found.len() {
        let (x, y) = (found.get(position), exact.get(position));
        let allowed = own.map(|own| own.get(position)).filter(|own| !is_finite(*own));
        let error = if allowed.is_some_and(|own| same(x, own)) { 0.0 } else { error(x, y, scale) };
        if error > difference.error {
            difference = Difference { error, worst: Some((position, x, y)) };
        }
    }
    difference
}

/// Puts what evaluation leaves unwritten where a result has padding, which holds anything: the storage of an axis whose
/// extent depends on another one is as long as the longest.
pub fn settle_padding(program: &Program, result: usize, found: &mut Array, own: &Array) {
    let main = program.main();
    let Some(ty) = main.results.get(result).map(|id| &main.value(*id).ty) else { return };
    let padded = (0..ty.axes.len()).any(|k| !depends_on(ty, k, &program.facts).is_empty());
    if !padded || found.extents != own.extents {
        return;
    }
    let unwritten = unwritten(own.dtype);
    for position in 0..own.len().min(found.len()) {
        if same(own.get(position), unwritten) {
            found.set(position, unwritten);
        }
    }
}

/// The normalized error that a result may have, given how far evaluation in the program's own types is off.
pub fn budget(dtype: DType, own: &Difference) -> f64 {
    let epsilon = epsilon(dtype);
    let own = if own.error.is_finite() { own.error } else { 0.0 };
    FACTOR * own + ULPS * epsilon
}

/// The distance from 1 to the next number of a float type; 0 for others.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::Bf16 => 2f64.powi(-7),
        DType::F32 | DType::ScaledF32 => 2f64.powi(-23),
        DType::F64 => 2f64.powi(-52),
        _ => 0.0,
    }
}

fn is_finite(x: Scalar) -> bool {
    matches!(x, Scalar::Float(x) if x.is_finite())
}

fn same(x: Scalar, y: Scalar) -> bool {
    match (x, y) {
        (Scalar::Float(x), Scalar::Float(y)) => x == y || (x.is_nan() && y.is_nan()),
        _ => x == y,
    }
}

fn error(x: Scalar, y: Scalar, scale: f64) -> f64 {
    if same(x, y) {
        return 0.0;
    }
    match (x, y) {
        (Scalar::Float(x), Scalar::Float(y)) if x.is_finite() && y.is_finite() => {
            let error = (x - y).abs() / y.abs().max(scale);
            if error.is_nan() { f64::INFINITY } else { error }
        }
        _ => f64::INFINITY,
    }
}

fn root_mean_square(array: &Array) -> f64 {
    let Data::Float(elements) = &array.data else { return 0.0 };
    let finite = || elements.iter().filter(|x| x.is_finite());
    // Scaled by the largest, so that no square overflows.
    let largest = finite().fold(0.0f64, |largest, x| largest.max(x.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    let sum: f64 = finite().map(|x| (x / largest) * (x / largest)).sum();
    largest * (sum / finite().count() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(data: &[f64]) -> Array {
        Array { dtype: DType::F32, extents: vec![data.len()], data: Data::Float(data.to_vec()) }
    }

    #[test]
    fn errors_are_normalized() {
        let difference = compare(&floats(&[3.0, 4.0, 0.5]), &floats(&[3.0, 4.0, 0.0]), None);
        assert_eq!(difference.error, 0.5 / (25.0f64 / 3.0).sqrt());
        assert_eq!(difference.worst, Some((2, Scalar::Float(0.5), Scalar::Float(0.0))));
        assert_eq!(compare(&floats(&[]), &floats(&[]), None).error, 0.0);
        assert_eq!(compare(&floats(&[1e300, -1e300]), &floats(&[1e300, -1e300]), None).error, 0.0);
    }

    #[test]
    fn what_is_not_finite_must_be_the_same() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert_eq!(compare(&floats(&[nan, inf]), &floats(&[nan, inf]), None).error, 0.0);
        assert_eq!(compare(&floats(&[inf]), &floats(&[-inf]), None).error, inf);
        assert_eq!(compare(&floats(&[1.0]), &floats(&[nan]), None).error, inf);
        // An overflow of the program's own types.
        assert_eq!(compare(&floats(&[inf]), &floats(&[1e39]), Some(&floats(&[inf]))).error, 0.0);
        assert_eq!(compare(&floats(&[1.0]), &floats(&[1.0, 2.0]), None).error, inf);
    }
}
