//! Metadata values: types, scalars, text, arrays.

use super::cursor::{Cursor, Fault};

/// How deep arrays of arrays may nest.
const DEEPEST: u32 = 4;

/// The type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ValueType {
    /// 8-bit unsigned integer.
    U8 = 0,
    /// 8-bit signed integer.
    I8 = 1,
    /// 16-bit unsigned integer.
    U16 = 2,
    /// 16-bit signed integer.
    I16 = 3,
    /// 32-bit unsigned integer.
    U32 = 4,
    /// 32-bit signed integer.
    I32 = 5,
    /// IEEE single.
    F32 = 6,
    /// One byte, 0 or 1.
    Bool = 7,
    /// Length and bytes, meant to be UTF-8.
    String = 8,
    /// Element type, count and elements.
    Array = 9,
    /// 64-bit unsigned integer.
    U64 = 10,
    /// 64-bit signed integer.
    I64 = 11,
    /// IEEE double.
    F64 = 12,
}

impl ValueType {
    /// Every type, by its number in a file.
    const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The type with this number in a file.
    pub fn from_id(id: u32) -> Option<ValueType> {
        ValueType::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// The number in a file.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The least bytes that a value of this type takes in a file.
    fn least_bytes(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::String | ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            ValueType::Array => 12,
        }
    }

    /// Whether every value of this type that has the right size is a right one.
    fn any_bits(self) -> bool {
        !matches!(self, ValueType::Bool | ValueType::String | ValueType::Array)
    }
}

/// The bytes of a string in a file; meant to be UTF-8, but not checked until asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The byte of the file at which they begin.
    pub offset: u64,
}

impl<'a> Text<'a> {
    /// The string, or the byte of the file at which it stops being UTF-8.
    pub(crate) fn utf8(self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes).map_err(|e| Fault {
            offset: self.offset + e.valid_up_to() as u64,
            reason: "the string is not UTF-8".to_string(),
        })
    }
}

/// A metadata value, borrowed from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are those of `ValueType`")]
pub enum Value<'a> {
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
    String(Text<'a>),
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// The value as an unsigned integer, if it is an integer that is not negative.
    pub fn as_uint(self) -> Option<u64> {
        match self {
            Value::U8(x) => Some(x.into()),
            Value::U16(x) => Some(x.into()),
            Value::U32(x) => Some(x.into()),
            Value::U64(x) => Some(x),
            Value::I8(x) => x.try_into().ok(),
            Value::I16(x) => x.try_into().ok(),
            Value::I32(x) => x.try_into().ok(),
            Value::I64(x) => x.try_into().ok(),
            _ => None,
        }
    }

    /// The value as a float, if it is one.
    pub fn as_float(self) -> Option<f64> {
        match self {
            Value::F32(x) => Some(x.into()),
            Value::F64(x) => Some(x),
            _ => None,
        }
    }

    /// Reads a value and checks all of it.
    pub(super) fn read(cursor: &mut Cursor<'a>, ty: ValueType) -> Result<Value<'a>, Fault> {
        Value::read_at_depth(cursor, ty, 0)
    }

    fn read_at_depth(cursor: &mut Cursor<'a>, ty: ValueType, depth: u32) -> Result<Value<'a>, Fault> {
        let what = "value";
        Ok(match ty {
            ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array(what)?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array(what)?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array(what)?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array(what)?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array(what)?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array(what)?)),
            ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array(what)?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array(what)?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array(what)?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array(what)?)),
            ValueType::Bool => {
                let before = *cursor;
                match cursor.array(what)? {
                    [0] => Value::Bool(false),
                    [1] => Value::Bool(true),
                    [byte] => return Err(before.fault(format!("{byte} for a truth value; 0 or 1 is right"))),
                }
            }
            ValueType::String => {
                let bytes = cursor.string("string")?;
                Value::String(Text { bytes, offset: cursor.offset() - bytes.len() as u64 })
            }
            ValueType::Array => Value::Array(Array::read(cursor, depth)?),
        })
    }
}

/// An array in the metadata. It holds no values of its own: they are read from the file as it is walked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<'a> {
    element: ValueType,
    count: u64,
    bytes: &'a [u8],
    offset: u64,
}

impl<'a> Array<'a> {
    /// The type of the elements.
    pub fn element(&self) -> ValueType {
        self.element
    }

    /// How many elements there are. At most the number of bytes of the file.
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The byte of the file at which the first element stands.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The elements in order.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (mut cursor, element) = (Cursor::new(self.bytes, self.offset), self.element);
        (0..self.count).map_while(move |_| Value::read(&mut cursor, element).ok())
    }

    fn read(cursor: &mut Cursor<'a>, depth: u32) -> Result<Array<'a>, Fault> {
        let before = *cursor;
        if depth >= DEEPEST {
            return Err(before.fault(format!("arrays nested more than {DEEPEST} deep")));
        }
        let element = cursor.value_type()?;
        let at_count = *cursor;
        let count = cursor.u64("count of elements")?;
        let least = element.least_bytes();
        if count > cursor.left() / least {
            return Err(at_count.fault(format!(
                "{count} elements of at least {least} bytes each, {} bytes left in the file",
                cursor.left()
            )));
        }
        let mut first = *cursor;
        if element.any_bits() {
            cursor.take(count * least, "elements")?;
        } else {
            for _ in 0..count {
                Value::read_at_depth(cursor, element, depth + 1)?;
            }
        }
        let offset = first.offset();
        let bytes = first.take(cursor.offset() - offset, "elements")?;
        Ok(Array { element, count, bytes, offset })
    }
}
