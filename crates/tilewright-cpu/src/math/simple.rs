//! Functions of a few instructions.

use super::{SIGN, magnitude};
use crate::machine::{Builder, ValueId};

/// `|x|`.
pub fn abs(b: &mut Builder, x: ValueId) -> ValueId {
    magnitude(b, x)
}

/// `−x`.
pub fn neg(b: &mut Builder, x: ValueId) -> ValueId {
    b.xor_bits(x, SIGN)
}

/// `1 / √x`: a root and a quotient, each rounded.
pub fn rsqrt(b: &mut Builder, x: ValueId) -> ValueId {
    let (one, root) = (b.splat(1.0), b.sqrt_f32(x));
    b.div_f32(one, root)
}
