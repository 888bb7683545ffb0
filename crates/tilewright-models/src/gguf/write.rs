//! Writing GGUF files: for tests, and for models made by programs.

use super::{DEFAULT_ALIGNMENT, Format, MAGIC, ValueType};

/// A metadata value to write.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are those of `ValueType`")]
pub enum Owned {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    /// The elements, all of the stated type.
    Array(ValueType, Vec<Owned>),
}

impl Owned {
    /// The type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Owned::U8(_) => ValueType::U8,
            Owned::I8(_) => ValueType::I8,
            Owned::U16(_) => ValueType::U16,
            Owned::I16(_) => ValueType::I16,
            Owned::U32(_) => ValueType::U32,
            Owned::I32(_) => ValueType::I32,
            Owned::U64(_) => ValueType::U64,
            Owned::I64(_) => ValueType::I64,
            Owned::F32(_) => ValueType::F32,
            Owned::F64(_) => ValueType::F64,
            Owned::Bool(_) => ValueType::Bool,
            Owned::String(_) => ValueType::String,
            Owned::Array(..) => ValueType::Array,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Owned::U8(x) => out.extend(x.to_le_bytes()),
            Owned::I8(x) => out.extend(x.to_le_bytes()),
            Owned::U16(x) => out.extend(x.to_le_bytes()),
            Owned::I16(x) => out.extend(x.to_le_bytes()),
            Owned::U32(x) => out.extend(x.to_le_bytes()),
            Owned::I32(x) => out.extend(x.to_le_bytes()),
            Owned::U64(x) => out.extend(x.to_le_bytes()),
            Owned::I64(x) => out.extend(x.to_le_bytes()),
            Owned::F32(x) => out.extend(x.to_le_bytes()),
            Owned::F64(x) => out.extend(x.to_le_bytes()),
            Owned::Bool(x) => out.push((*x).into()),
            Owned::String(x) => put_string(out, x),
            Owned::Array(element, values) => {
                out.extend(element.id().to_le_bytes());
                out.extend((values.len() as u64).to_le_bytes());
                for value in values {
                    value.put(out);
                }
            }
        }
    }
}

impl From<u32> for Owned {
    fn from(x: u32) -> Owned {
        Owned::U32(x)
    }
}

impl From<f32> for Owned {
    fn from(x: f32) -> Owned {
        Owned::F32(x)
    }
}

impl From<bool> for Owned {
    fn from(x: bool) -> Owned {
        Owned::Bool(x)
    }
}

impl From<&str> for Owned {
    fn from(x: &str) -> Owned {
        Owned::String(x.to_string())
    }
}

impl From<&[&str]> for Owned {
    fn from(x: &[&str]) -> Owned {
        Owned::Array(ValueType::String, x.iter().map(|&s| s.into()).collect())
    }
}

impl From<&[String]> for Owned {
    fn from(x: &[String]) -> Owned {
        Owned::Array(ValueType::String, x.iter().map(|s| s.as_str().into()).collect())
    }
}

impl From<&[f32]> for Owned {
    fn from(x: &[f32]) -> Owned {
        Owned::Array(ValueType::F32, x.iter().map(|&s| s.into()).collect())
    }
}

impl From<&[i32]> for Owned {
    fn from(x: &[i32]) -> Owned {
        Owned::Array(ValueType::I32, x.iter().map(|&s| Owned::I32(s)).collect())
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A tensor to write.
struct Tensor {
    name: String,
    format: &'static Format,
    extents: Vec<u64>,
    bytes: Vec<u8>,
}

/// A GGUF file of version 3 to be written. It writes what it is told, wrong files included.
#[derive(Default)]
pub struct Writer {
    keys: Vec<(String, Owned)>,
    tensors: Vec<Tensor>,
}

impl Writer {
    /// A file with no keys and no tensors.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Adds a metadata entry. `general.alignment` sets the alignment of the data.
    pub fn key(&mut self, key: &str, value: impl Into<Owned>) -> &mut Writer {
        self.keys.push((key.to_string(), value.into()));
        self
    }

    /// Adds a tensor: `extents` with the innermost axis first, `bytes` in the format's blocks.
    pub fn tensor(
        &mut self,
        name: &str,
        format: &'static Format,
        extents: &[u64],
        bytes: Vec<u8>,
    ) -> &mut Writer {
        self.tensors.push(Tensor { name: name.to_string(), format, extents: extents.to_vec(), bytes });
        self
    }

    /// The bytes of the file.
    pub fn finish(&self) -> Vec<u8> {
        let alignment = self.keys.iter().find(|(key, _)| key == super::ALIGNMENT_KEY);
        let alignment = match alignment {
            Some((_, Owned::U32(x))) if x.is_power_of_two() => *x as usize,
            _ => DEFAULT_ALIGNMENT as usize,
        };
        let mut out = MAGIC.to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            put_string(&mut out, key);
            out.extend(value.value_type().id().to_le_bytes());
            value.put(&mut out);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            put_string(&mut out, &tensor.name);
            out.extend((tensor.extents.len() as u32).to_le_bytes());
            out.extend(tensor.extents.iter().flat_map(|e| e.to_le_bytes()));
            out.extend(tensor.format.id.to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
            offset += tensor.bytes.len().next_multiple_of(alignment);
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(alignment), 0);
            out.extend(&tensor.bytes);
        }
        out
    }
}
