//! Element types and scalar values, shared by every level.

use std::fmt;

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Truth value; one byte in memory, 0 or 1.
    Bool,
    /// Unsigned byte; the carrier of packed formats.
    U8,
    /// Signed byte.
    I8,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// IEEE half precision.
    F16,
    /// The upper half of a single.
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Reserved: a single-precision significand times 2^b with an integer exponent per element
    /// (`docs/scaled.md`). It parses, prints and verifies; no arrow lowers it yet.
    ScaledF32,
}

impl DType {
    /// Every element type, in the order in which the documentation lists them.
    pub const ALL: [DType; 10] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::ScaledF32,
    ];

    /// The text name, such as `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::ScaledF32 => "scaled_f32",
        }
    }

    /// The type with this text name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Bytes of one element in memory.
    pub fn bytes(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::F16 | DType::Bf16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 | DType::ScaledF32 => 8,
        }
    }

    /// Whether values are floating-point (scaled included).
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16 | DType::F32 | DType::F64 | DType::ScaledF32)
    }

    /// Whether values are integers (`bool` is not one).
    pub fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::I8 | DType::I32 | DType::I64)
    }

    /// The smallest and largest value of an integer type.
    pub fn int_range(self) -> Option<(i64, i64)> {
        match self {
            DType::U8 => Some((0, 255)),
            DType::I8 => Some((-128, 127)),
            DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
            DType::I64 => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }

    /// The type in which sums and products of this type accumulate unless the program says otherwise:
    /// `f32` for narrower floats, the type itself for the rest.
    pub fn accumulator(self) -> DType {
        match self {
            DType::F16 | DType::Bf16 => DType::F32,
            other => other,
        }
    }

    /// The nearest value of this type, ties to even: the one rounding step of an operator in a program's
    /// own types. Integers wrap modulo 2^bits. The identity for `F64`, `I64` and `Bool`.
    pub fn round(self, value: Scalar) -> Scalar {
        match (self, value) {
            (DType::F16, Scalar::Float(x)) => Scalar::Float(round_float(x, 11, -14, 65504.0)),
            (DType::Bf16, Scalar::Float(x)) => Scalar::Float(round_float(x, 8, -126, BF16_MAX)),
            (DType::F32, Scalar::Float(x)) => Scalar::Float(f64::from(x as f32)),
            (DType::U8, Scalar::Int(x)) => Scalar::Int(i64::from(x as u8)),
            (DType::I8, Scalar::Int(x)) => Scalar::Int(i64::from(x as i8)),
            (DType::I32, Scalar::Int(x)) => Scalar::Int(i64::from(x as i32)),
            (_, value) => value,
        }
    }
}

/// The largest finite bf16.
const BF16_MAX: f64 = 255.0 * (1u128 << 120) as f64;

/// The float of `bits` significand bits nearest to `x`, ties to even, where `least` is the exponent of the smallest
/// normal number and `max` the largest finite one.
fn round_float(x: f64, bits: i32, least: i32, max: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let quantum = exponent.max(least) + 1 - bits;
    let power = |e: i32| f64::from_bits(((e + 1023).clamp(1, 2046) as u64) << 52);
    let rounded = (x * power(-quantum)).round_ties_even() * power(quantum);
    if rounded.abs() > max { f64::INFINITY.copysign(x) } else { rounded }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value in evaluation: every float type is carried as `f64`, every integer type as `i64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A value of a float type.
    Float(f64),
    /// A value of an integer type.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The value as a float: integers converted, `true` as 1.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(x) => x,
            Scalar::Int(x) => x as f64,
            Scalar::Bool(x) => f64::from(u8::from(x)),
        }
    }

    /// The value as an integer: floats truncated toward zero and saturated, NaN as 0, `true` as 1.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Float(x) => x as i64,
            Scalar::Int(x) => x,
            Scalar::Bool(x) => i64::from(x),
        }
    }

    /// The value as a truth value: whether it differs from zero (NaN does).
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Float(x) => x != 0.0,
            Scalar::Int(x) => x != 0,
            Scalar::Bool(x) => x,
        }
    }

    /// The zero of a type; what an absent element reads as.
    pub fn zero(dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(false),
            t if t.is_int() => Scalar::Int(0),
            _ => Scalar::Float(0.0),
        }
    }

    /// The value converted to the class of `dtype` (float, integer or truth value) and rounded to it.
    pub fn cast(self, dtype: DType) -> Scalar {
        dtype.round(self.carry(dtype))
    }

    /// The value converted to the class of `dtype`, not rounded: what f64 evaluation keeps. A float becomes an integer
    /// by truncation toward zero, saturated at the type's range, NaN as 0.
    pub fn carry(self, dtype: DType) -> Scalar {
        match (dtype, self) {
            (DType::Bool, _) => Scalar::Bool(self.as_bool()),
            (t, Scalar::Float(x)) if t.is_int() => {
                let (lo, hi) = t.int_range().unwrap_or((i64::MIN, i64::MAX));
                Scalar::Int((x as i64).clamp(lo, hi))
            }
            (t, _) if t.is_int() => Scalar::Int(self.as_i64()),
            _ => Scalar::Float(self.as_f64()),
        }
    }
}
