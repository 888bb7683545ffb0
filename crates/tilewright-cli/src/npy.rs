//! NumPy's `.npy` files, read without trust.
//!
//! Versions 1 to 3 of the format. The element types are those of the compiler: `?` (`|b1`), `u1`, `i1`, `i4`, `i8`,
//! `f2`, `f4`, `f8`, of either byte order. NumPy has no bf16: two-byte elements of type `u2` or `V2` (which is what
//! `ml_dtypes` writes) are read as the bits of a bf16, and a bf16 is written as `<u2`, so that
//! `(a.astype(np.uint32) << 16).view(np.float32)` gives its numbers. Fortran order is transposed to row-major.
//!
//! Nothing is allocated by a number that the file states: the header is bounded, the size of the data is computed with
//! overflow checks, and memory grows with the bytes that are really there.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use tilewright::host::{HostTensor, byte_size};
use tilewright::tensor::DType;

/// The longest header that is read, in bytes. NumPy itself stops at 10,000.
pub const MAX_HEADER: usize = 65_536;
/// The most axes of a tensor in a file.
pub const MAX_AXES: usize = 64;

/// Why a file is not read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The first bytes are not those of the format.
    #[error("not an npy file: it does not begin with \\x93NUMPY")]
    Magic,
    /// A version that nobody has defined.
    #[error("npy version {0}.{1} is not known; 1.0, 2.0 and 3.0 are")]
    Version(u8, u8),
    /// The file ends inside its header.
    #[error("the file ends inside its header: {expected} bytes announced, {found} there")]
    ShortHeader {
        /// Bytes that the header should have.
        expected: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// The header is longer than any real one.
    #[error("a header of {0} bytes; {MAX_HEADER} is the most")]
    LongHeader(usize),
    /// The header is not the dictionary that it should be.
    #[error("header, byte {at}: {message}")]
    Header {
        /// The byte in the header.
        at: usize,
        /// What is wrong.
        message: String,
    },
    /// An element type that no tensor has.
    #[error(
        "elements of type '{0}' are not supported; b1, u1, i1, i4, i8, f2, f4, f8 are, and u2 or V2 for bf16"
    )]
    DType(String),
    /// More elements than memory can have.
    #[error("the shape {0:?} is larger than memory can be")]
    Large(Vec<usize>),
    /// The file ends inside its data.
    #[error("the data ends early: {expected} bytes expected, {found} there")]
    ShortData {
        /// Bytes that shape and type ask for.
        expected: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// There are bytes after the data.
    #[error("there are bytes after the {0} bytes of data")]
    LongData(usize),
}

/// Reads a file.
///
/// # Errors
/// See [`Error`].
pub fn read_file(path: &Path) -> Result<HostTensor, Error> {
    read(BufReader::new(File::open(path)?))
}

/// Writes a file, row-major and little-endian.
///
/// # Errors
/// [`Error::Io`]; [`Error::DType`] for scaled numbers, which NumPy cannot say.
pub fn write_file(path: &Path, tensor: &HostTensor) -> Result<(), Error> {
    let mut bytes = Vec::new();
    write(&mut bytes, tensor)?;
    std::fs::write(path, bytes)?;
    Ok(())
}

/// Reads a tensor from a stream that ends with it.
///
/// # Errors
/// See [`Error`].
pub fn read(mut source: impl Read) -> Result<HostTensor, Error> {
    let start = take(&mut source, 8)?;
    let [magic @ .., major, minor] = start.as_slice() else { return Err(Error::Magic) };
    if start.len() < 8 || magic != b"\x93NUMPY" {
        return Err(Error::Magic);
    }
    let width = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => return Err(Error::Version(*major, *minor)),
    };
    let length = take(&mut source, width)?;
    if length.len() < width {
        return Err(Error::ShortHeader { expected: width, found: length.len() });
    }
    let length = length.iter().rev().fold(0usize, |n, &byte| n << 8 | usize::from(byte));
    if length > MAX_HEADER {
        return Err(Error::LongHeader(length));
    }
    let header = take(&mut source, length)?;
    if header.len() < length {
        return Err(Error::ShortHeader { expected: length, found: header.len() });
    }
    let header = Header::parse(&header)?;
    let (dtype, swap) = dtype_of(&header.descr)?;
    let expected = byte_size(dtype, &header.shape).map_err(|_| Error::Large(header.shape.clone()))?;
    let mut data = take(&mut source, expected)?;
    if data.len() < expected {
        return Err(Error::ShortData { expected, found: data.len() });
    }
    if !take(&mut source, 1)?.is_empty() {
        return Err(Error::LongData(expected));
    }
    if swap {
        data.chunks_exact_mut(dtype.bytes()).for_each(<[u8]>::reverse);
    }
    if dtype == DType::Bool {
        data.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    if header.fortran {
        data = transposed(&data, &header.shape, dtype.bytes());
    }
    HostTensor::new(dtype, header.shape, data).map_err(|_| Error::ShortData { expected, found: 0 })
}

/// Writes a tensor, row-major and little-endian.
///
/// # Errors
/// As [`write_file`].
pub fn write(sink: &mut impl Write, tensor: &HostTensor) -> Result<(), Error> {
    let descr = match tensor.dtype() {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::Bf16 => "<u2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::ScaledF32 => return Err(Error::DType("scaled_f32".into())),
    };
    let extents: Vec<String> = tensor.extents().iter().map(usize::to_string).collect();
    let shape = match extents.as_slice() {
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Magic, version and length take 10 bytes; the data begins at a multiple of 64.
    let padding = 63 - (10 + header.len()) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    let (version, length) = match u16::try_from(header.len()) {
        Ok(length) => (1, length.to_le_bytes().to_vec()),
        Err(_) => (2, (header.len() as u32).to_le_bytes().to_vec()),
    };
    sink.write_all(b"\x93NUMPY")?;
    sink.write_all(&[version, 0])?;
    sink.write_all(&length)?;
    sink.write_all(header.as_bytes())?;
    sink.write_all(tensor.bytes())?;
    Ok(())
}

/// At most `count` bytes; fewer where the stream ends.
fn take(source: &mut impl Read, count: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    source.by_ref().take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The element type, and whether its bytes are in the other order.
fn dtype_of(descr: &str) -> Result<(DType, bool), Error> {
    let unknown = || Error::DType(descr.to_string());
    let (order, kind) = match descr.chars().next() {
        Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
        _ => ('<', descr),
    };
    let dtype = match kind {
        "b1" | "?" => DType::Bool,
        "u1" => DType::U8,
        "i1" => DType::I8,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "f2" => DType::F16,
        "u2" | "V2" => DType::Bf16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        _ => return Err(unknown()),
    };
    if dtype.bytes() > 1 && order == '|' && kind != "V2" {
        return Err(unknown());
    }
    Ok((dtype, order == '>'))
}

/// Row-major from column-major; `width` bytes an element.
fn transposed(data: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let strides: Vec<usize> = shape
        .iter()
        .scan(width, |stride, &extent| {
            let own = *stride;
            *stride *= extent.max(1);
            Some(own)
        })
        .collect();
    let mut index = vec![0usize; shape.len()];
    for _ in 0..data.len() / width {
        let at: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        out.extend_from_slice(data.get(at..at + width).unwrap_or(&[]));
        for (i, &extent) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < extent {
                break;
            }
            *i = 0;
        }
    }
    out
}

/// The dictionary of a file.
#[derive(Debug, PartialEq)]
struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

/// Reads the few forms of Python literals that a header has.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let mut cursor = Cursor { bytes, at: 0 };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        cursor.expect(b'{')?;
        while !cursor.eat(b'}') {
            let start = cursor.at;
            let key = cursor.string()?;
            cursor.expect(b':')?;
            let twice = match key.as_str() {
                "descr" => descr.replace(cursor.string()?).is_some(),
                "fortran_order" => fortran.replace(cursor.boolean()?).is_some(),
                "shape" => shape.replace(cursor.shape()?).is_some(),
                _ => return Err(Cursor { bytes, at: start }.error(format!("unknown key '{key}'"))),
            };
            if twice {
                return Err(Cursor { bytes, at: start }.error(format!("'{key}' stands twice")));
            }
            if !cursor.eat(b',') {
                cursor.expect(b'}')?;
                break;
            }
        }
        cursor.space();
        if cursor.at < bytes.len() {
            return Err(cursor.error("there is something after the dictionary"));
        }
        let missing = |key: &str| cursor.error(format!("'{key}' is missing"));
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran: fortran.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

impl Cursor<'_> {
    fn error(&self, message: impl Into<String>) -> Error {
        Error::Header { at: self.at, message: message.into() }
    }

    fn space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        if self.eat(byte) { Ok(()) } else { Err(self.error(format!("`{}` expected", byte as char))) }
    }

    fn string(&mut self) -> Result<String, Error> {
        let quote = if self.eat(b'"') {
            b'"'
        } else if self.eat(b'\'') {
            b'\''
        } else if self.bytes.get(self.at) == Some(&b'[') {
            return Err(self.error("structured elements are not supported"));
        } else {
            return Err(self.error("a string expected"));
        };
        let start = self.at;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            if byte == quote {
                let text = &self.bytes[start..self.at - 1];
                return Ok(String::from_utf8_lossy(text).into_owned());
            }
        }
        Err(self.error("a string does not end"))
    }

    fn boolean(&mut self) -> Result<bool, Error> {
        self.space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.bytes[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("`True` or `False` expected"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, Error> {
        self.expect(b'(')?;
        let mut shape = Vec::new();
        while !self.eat(b')') {
            if shape.len() == MAX_AXES {
                return Err(self.error(format!("more than {MAX_AXES} axes")));
            }
            shape.push(self.extent()?);
            if !self.eat(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn extent(&mut self) -> Result<usize, Error> {
        self.space();
        let start = self.at;
        let mut value = Some(0usize);
        while let Some(digit) = self.bytes.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            let digit = usize::from(digit - b'0');
            value = value.and_then(|value| value.checked_mul(10)?.checked_add(digit));
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error("an extent expected, which is a number that is not negative"));
        }
        value.ok_or_else(|| self.error("an extent is beyond 64 bits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn every_type_survives_a_round_trip() {
        for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::ScaledF32) {
            for extents in [vec![], vec![0], vec![3], vec![2, 3], vec![2, 0, 4]] {
                let size = byte_size(dtype, &extents).expect("small");
                let bytes =
                    (0..size).map(|k| if dtype == DType::Bool { k as u8 & 1 } else { k as u8 }).collect();
                let tensor = HostTensor::new(dtype, extents, bytes).expect("sizes agree");
                let mut file = Vec::new();
                write(&mut file, &tensor).expect("memory");
                assert_eq!((file.len() - tensor.bytes().len()) % 64, 0);
                assert_eq!(read(file.as_slice()).expect("well formed"), tensor);
            }
        }
    }

    #[test]
    fn fortran_order_and_big_endian_are_turned() {
        let data: Vec<u8> = [1u8, 4, 2, 5, 3, 6].into();
        let tensor =
            read(file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", &data).as_slice());
        assert_eq!(tensor.expect("well formed").bytes(), [1, 2, 3, 4, 5, 6]);
        let tensor =
            read(file("{'descr': '>i4', 'fortran_order': False, 'shape': ()}", &[0, 0, 1, 2]).as_slice());
        assert_eq!(tensor.expect("well formed").bytes(), [2, 1, 0, 0]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        let message = |bytes: &[u8]| read(bytes).expect_err("refused").to_string();
        assert_eq!(message(b""), "not an npy file: it does not begin with \\x93NUMPY");
        assert_eq!(message(b"\x93NUMPY\x09\x00"), "npy version 9.0 is not known; 1.0, 2.0 and 3.0 are");
        let short = file(good, &[0; 8]);
        assert_eq!(message(&short[..20]), "the file ends inside its header: 57 bytes announced, 10 there");
        assert_eq!(message(&short[..short.len() - 3]), "the data ends early: 8 bytes expected, 5 there");
        assert_eq!(message(&file(good, &[0; 9])), "there are bytes after the 8 bytes of data");
        let mut long = b"\x93NUMPY\x02\x00".to_vec();
        long.extend(u32::MAX.to_le_bytes());
        assert_eq!(message(&long), "a header of 4294967295 bytes; 65536 is the most");
        for (header, says) in [
            (
                "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }",
                "elements of type '<c8' are not supported; b1, u1, i1, i4, i8, f2, f4, f8 are, and u2 or V2 for bf16",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
                "the shape [4294967296, 4294967296] is larger than memory can be",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                "header, byte 71: an extent is beyond 64 bits",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
                "header, byte 51: an extent expected, which is a number that is not negative",
            ),
            ("{'descr': '<f4', 'shape': (1,)}", "header, byte 31: 'fortran_order' is missing"),
            ("{'descr': [('a', '<f4')]}", "header, byte 10: structured elements are not supported"),
            ("{'descr", "header, byte 7: a string does not end"),
            ("import os", "header, byte 0: `{` expected"),
            ("{'a': 1}", "header, byte 1: unknown key 'a'"),
        ] {
            assert_eq!(message(&file(header, &[])), says, "{header}");
        }
    }

    #[test]
    fn an_announced_terabyte_is_not_allocated() {
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }";
        assert!(matches!(read(file(header, &[1, 2, 3]).as_slice()), Err(Error::ShortData { found: 3, .. })));
    }

    #[test]
    fn broken_files_never_panic() {
        let good = file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", &[7; 8]);
        for at in 0..good.len() {
            for byte in [0, 0xff, b'\'', b')', b',', b'9', b'{'] {
                let mut bad = good.clone();
                bad[at] = byte;
                let _ = read(bad.as_slice());
                let _ = read(&bad[..at]);
            }
        }
    }
}
