//! Reading numbers and strings with every length checked against what is left.

use super::value::ValueType;

/// What is wrong at which byte; the caller adds the file and the key or tensor.
pub(crate) struct Fault {
    /// The byte of the file.
    pub(crate) offset: u64,
    /// What is wrong.
    pub(crate) reason: String,
}

/// A position in the bytes of a file.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    /// The bytes.
    bytes: &'a [u8],
    /// The next byte, at most `bytes.len()`.
    at: usize,
    /// The place of `bytes[0]` in the file.
    base: u64,
}

impl<'a> Cursor<'a> {
    /// At the first of `bytes`, which stands at byte `base` of the file.
    pub(super) fn new(bytes: &'a [u8], base: u64) -> Cursor<'a> {
        Cursor { bytes, at: 0, base }
    }

    /// The place in the file.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The place in the bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// A fault at this place.
    pub(super) fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault { offset: self.offset(), reason: reason.into() }
    }

    /// The next `count` bytes; `what` names them in the fault if the file ends before.
    pub(super) fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8], Fault> {
        let end = usize::try_from(count).ok().and_then(|n| self.at.checked_add(n));
        match end.and_then(|end| self.bytes.get(self.at..end).map(|slice| (slice, end))) {
            Some((slice, end)) => {
                self.at = end;
                Ok(slice)
            }
            None => {
                let left = self.left();
                Err(self.fault(format!("{what}: {count} bytes needed, {left} left in the file")))
            }
        }
    }

    /// The next bytes, as many as `N`.
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    /// A little-endian `u32`.
    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// A little-endian `u64`.
    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// The bytes of a string: a `u64` length, then as many bytes.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a [u8], Fault> {
        let before = *self;
        let length = self.u64(what)?;
        if length > self.left() {
            let left = self.left();
            return Err(before.fault(format!("{what} of {length} bytes, {left} left in the file")));
        }
        self.take(length, what)
    }

    /// A name: a string of 1 to `most` bytes of UTF-8.
    pub(super) fn name(&mut self, what: &str, most: u64) -> Result<&'a str, Fault> {
        let before = *self;
        let bytes = self.string(what)?;
        if bytes.is_empty() || bytes.len() as u64 > most {
            return Err(before.fault(format!("{what} of {} bytes; 1 to {most} are allowed", bytes.len())));
        }
        std::str::from_utf8(bytes).map_err(|e| Fault {
            offset: before.offset() + 8 + e.valid_up_to() as u64,
            reason: format!("{what} is not UTF-8"),
        })
    }

    /// The type of a value.
    pub(super) fn value_type(&mut self) -> Result<ValueType, Fault> {
        let before = *self;
        let id = self.u32("value type")?;
        ValueType::from_id(id).ok_or_else(|| before.fault(format!("value type {id}; types are 0 to 12")))
    }
}
