//! Tensors in the caller's memory: bytes with an element type and extents.

use crate::error::Error;
use crate::tensor::{Array, DType, Data, Scalar};

/// A dense row-major tensor as bytes, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    dtype: DType,
    extents: Vec<usize>,
    bytes: Vec<u8>,
}

impl HostTensor {
    /// A tensor over bytes in row-major order.
    ///
    /// # Errors
    /// [`Error::Input`] if the number of bytes is not what type and extents ask for.
    pub fn new(dtype: DType, extents: Vec<usize>, bytes: Vec<u8>) -> Result<HostTensor, Error> {
        let needed = byte_size(dtype, &extents)?;
        if bytes.len() != needed {
            return Err(Error::Input {
                subject: "tensor".into(),
                message: format!("{dtype}{extents:?} takes {needed} bytes, {} given", bytes.len()),
            });
        }
        Ok(HostTensor { dtype, extents, bytes })
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`Error::Input`] if its size in bytes overflows.
    pub fn zeros(dtype: DType, extents: Vec<usize>) -> Result<HostTensor, Error> {
        let bytes = vec![0; byte_size(dtype, &extents)?];
        Ok(HostTensor { dtype, extents, bytes })
    }

    /// A tensor of singles.
    ///
    /// # Errors
    /// [`Error::Input`] if the number of values is not the product of the extents.
    pub fn from_f32(extents: Vec<usize>, values: &[f32]) -> Result<HostTensor, Error> {
        HostTensor::new(DType::F32, extents, values.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// A tensor of 32-bit integers.
    ///
    /// # Errors
    /// [`Error::Input`] if the number of values is not the product of the extents.
    pub fn from_i32(extents: Vec<usize>, values: &[i32]) -> Result<HostTensor, Error> {
        HostTensor::new(DType::I32, extents, values.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// The tensor with an array's elements, each rounded to the element type.
    ///
    /// # Errors
    /// [`Error::Input`] if its size in bytes overflows.
    pub fn from_array(array: &Array) -> Result<HostTensor, Error> {
        let mut tensor = HostTensor::zeros(array.dtype, array.extents.clone())?;
        let width = array.dtype.bytes();
        for (position, chunk) in tensor.bytes.chunks_exact_mut(width).enumerate() {
            store(array.dtype, array.get(position), chunk);
        }
        Ok(tensor)
    }

    /// The elements as an array for evaluation.
    pub fn to_array(&self) -> Array {
        let values = self.bytes.chunks_exact(self.dtype.bytes()).map(|chunk| load(self.dtype, chunk));
        let data = match Scalar::zero(self.dtype) {
            Scalar::Float(_) => Data::Float(values.map(Scalar::as_f64).collect()),
            Scalar::Int(_) => Data::Int(values.map(Scalar::as_i64).collect()),
            Scalar::Bool(_) => Data::Bool(values.map(Scalar::as_bool).collect()),
        };
        Array { dtype: self.dtype, extents: self.extents.clone(), data }
    }

    /// The elements as singles, whatever the type.
    pub fn to_f32(&self) -> Vec<f32> {
        self.bytes
            .chunks_exact(self.dtype.bytes())
            .map(|chunk| load(self.dtype, chunk).as_f64() as f32)
            .collect()
    }

    /// The element at an index, as an integer; none outside, or if the element type is no integer.
    pub fn integer(&self, index: &[i64]) -> Option<i64> {
        if index.len() != self.extents.len() || !self.dtype.is_int() {
            return None;
        }
        let mut position = 0usize;
        for (&i, &extent) in index.iter().zip(&self.extents) {
            position = position * extent + usize::try_from(i).ok().filter(|&i| i < extent)?;
        }
        Some(load(self.dtype, self.bytes.get(position * self.dtype.bytes()..)?).as_i64())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents, outermost first.
    pub fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, to be changed in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// The bytes of a dense tensor.
///
/// # Errors
/// [`Error::Input`] beyond the largest size that memory can have.
pub fn byte_size(dtype: DType, extents: &[usize]) -> Result<usize, Error> {
    let zero = extents.contains(&0);
    extents
        .iter()
        .try_fold(dtype.bytes(), |size, &extent| size.checked_mul(extent))
        .or(if zero { Some(0) } else { None })
        .filter(|&size| isize::try_from(size).is_ok())
        .map(|size| if zero { 0 } else { size })
        .ok_or_else(|| Error::Input {
            subject: "tensor".into(),
            message: format!("{dtype}{extents:?} is larger than memory can be"),
        })
}

/// The element in the first bytes of `chunk`, which holds at least one.
pub fn load(dtype: DType, chunk: &[u8]) -> Scalar {
    fn take<const N: usize>(chunk: &[u8]) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&chunk[..N]);
        bytes
    }
    match dtype {
        DType::Bool => Scalar::Bool(chunk[0] != 0),
        DType::U8 => Scalar::Int(i64::from(chunk[0])),
        DType::I8 => Scalar::Int(i64::from(chunk[0] as i8)),
        DType::I32 => Scalar::Int(i64::from(i32::from_le_bytes(take(chunk)))),
        DType::I64 => Scalar::Int(i64::from_le_bytes(take(chunk))),
        DType::F16 => Scalar::Float(half::f16::from_le_bytes(take(chunk)).to_f64()),
        DType::Bf16 => Scalar::Float(half::bf16::from_le_bytes(take(chunk)).to_f64()),
        DType::F32 => Scalar::Float(f64::from(f32::from_le_bytes(take(chunk)))),
        DType::F64 => Scalar::Float(f64::from_le_bytes(take(chunk))),
        DType::ScaledF32 => {
            let significand = f64::from(f32::from_le_bytes(take(chunk)));
            let exponent = i32::from_le_bytes(take(&chunk[4..]));
            Scalar::Float(libm::ldexp(significand, exponent))
        }
    }
}

/// Writes an element, rounded to the type, into the first bytes of `chunk`.
pub fn store(dtype: DType, value: Scalar, chunk: &mut [u8]) {
    let mut put = |bytes: &[u8]| chunk[..bytes.len()].copy_from_slice(bytes);
    match dtype {
        DType::Bool => put(&[u8::from(value.as_bool())]),
        DType::U8 => put(&[value.as_i64() as u8]),
        DType::I8 => put(&[value.as_i64() as i8 as u8]),
        DType::I32 => put(&(value.as_i64() as i32).to_le_bytes()),
        DType::I64 => put(&value.as_i64().to_le_bytes()),
        DType::F16 => put(&half::f16::from_f64(value.as_f64()).to_le_bytes()),
        DType::Bf16 => put(&half::bf16::from_f64(value.as_f64()).to_le_bytes()),
        DType::F32 => put(&(value.as_f64() as f32).to_le_bytes()),
        DType::F64 => put(&value.as_f64().to_le_bytes()),
        DType::ScaledF32 => {
            let (significand, exponent) = libm::frexp(value.as_f64());
            put(&(significand as f32).to_le_bytes());
            chunk[4..8].copy_from_slice(&exponent.to_le_bytes());
        }
    }
}
