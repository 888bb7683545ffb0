//! GGUF files, read without trust.
//!
//! [`Gguf::open`] maps a file; [`Gguf::from_bytes`] takes bytes. Both check everything once: counts, lengths and offsets
//! against the file, types, names, the range and alignment of each tensor, overlaps. What is left afterwards cannot
//! fail, except that a value may be of another type than a caller expects. Values and tensors are borrowed from the
//! file; the reader itself holds a few dozen bytes for each key and tensor, of which there are at most [`MOST_KEYS`] and
//! [`MOST_TENSORS`].

mod cursor;
mod error;
mod format;
mod map;
mod value;
pub mod write;

use std::path::Path;

use cursor::Cursor;
pub(crate) use cursor::Fault;
pub(crate) use error::shown;
pub use error::{Error, Subject};
pub use format::{FORMATS, Format, Storage};
use map::Bytes;
pub use value::{Array, Text, Value, ValueType};

/// The first four bytes of a file.
const MAGIC: [u8; 4] = *b"GGUF";
/// The most metadata entries of a file.
pub const MOST_KEYS: u64 = 1 << 16;
/// The most tensors of a file.
pub const MOST_TENSORS: u64 = 1 << 17;
/// The most bytes of a key.
const LONGEST_KEY: u64 = 65_535;
/// The most bytes of a tensor's name.
const LONGEST_NAME: u64 = 1024;
/// The most axes of a tensor.
pub const MOST_AXES: usize = 4;
/// The alignment of tensor data where the file states none.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The largest alignment that a file may state.
const LARGEST_ALIGNMENT: u64 = 1 << 20;
/// The key that states the alignment.
const ALIGNMENT_KEY: &str = "general.alignment";

/// A part of the bytes of the file; checked to lie inside.
#[derive(Clone, Copy)]
struct Span {
    at: usize,
    length: usize,
}

impl Span {
    fn of(self, bytes: &[u8]) -> &[u8] {
        self.at.checked_add(self.length).and_then(|end| bytes.get(self.at..end)).unwrap_or(&[])
    }

    fn name(self, bytes: &[u8]) -> &str {
        std::str::from_utf8(self.of(bytes)).unwrap_or("")
    }

    fn end(self) -> usize {
        self.at.saturating_add(self.length)
    }
}

/// A metadata entry.
struct Entry {
    key: Span,
    ty: ValueType,
    value: Span,
}

/// A tensor's header.
struct Header {
    name: Span,
    format: &'static Format,
    extents: [u64; MOST_AXES],
    axes: u8,
    data: Span,
}

/// A tensor, borrowed from the file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// The name.
    pub name: &'a str,
    /// How elements are stored.
    pub format: &'static Format,
    /// The extents as the file lists them: the innermost axis first. An extent of 0 is ordinary.
    pub extents: &'a [u64],
    /// The byte of the file at which the data begin.
    pub offset: u64,
    /// The data: whole blocks, the innermost axis contiguous.
    pub bytes: &'a [u8],
}

impl Tensor<'_> {
    /// The extents with the outermost axis first.
    pub fn shape(&self) -> Vec<u64> {
        self.extents.iter().rev().copied().collect()
    }

    /// The number of elements.
    pub fn elements(&self) -> u64 {
        let (elements, bytes) = self.format.block();
        self.bytes.len() as u64 / bytes * elements
    }
}

/// A GGUF file that has been checked.
pub struct Gguf {
    file: String,
    bytes: Bytes,
    version: u32,
    alignment: u64,
    /// Where the tensor headers begin: where a missing key would be.
    metadata_end: u64,
    entries: Vec<Entry>,
    /// Indices of `entries` in the order of their keys.
    by_key: Vec<u32>,
    headers: Vec<Header>,
    /// Indices of `headers` in the order of their names.
    by_name: Vec<u32>,
}

impl Gguf {
    /// Maps and checks a file. While the value lives, nobody may change or truncate the file.
    ///
    /// Errors name the file, the key or tensor, the byte and the reason.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        let path = path.as_ref();
        let file = path.display().to_string();
        match Bytes::map(path) {
            Ok(bytes) => Gguf::check(file, bytes),
            Err(e) => Err(Error { file, subject: Subject::File, offset: 0, reason: e.to_string() }),
        }
    }

    /// Checks the bytes of a file; `file` names it in errors.
    pub fn from_bytes(file: impl Into<String>, bytes: Vec<u8>) -> Result<Gguf, Error> {
        Gguf::check(file.into(), Bytes::Owned(bytes))
    }

    fn check(file: String, bytes: Bytes) -> Result<Gguf, Error> {
        match Index::read(&bytes) {
            Ok(index) => Ok(Gguf {
                file,
                bytes,
                version: index.version,
                alignment: index.alignment,
                metadata_end: index.metadata_end,
                entries: index.entries,
                by_key: index.by_key,
                headers: index.headers,
                by_name: index.by_name,
            }),
            Err((subject, fault)) => Err(Error { file, subject, offset: fault.offset, reason: fault.reason }),
        }
    }

    /// The file, as errors name it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What the offset of each tensor's data is a multiple of, in bytes.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        let found = self.by_key.binary_search_by(|&i| {
            self.entries.get(i as usize).map_or("", |e| e.key.name(&self.bytes)).cmp(key)
        });
        self.entries.get(*self.by_key.get(found.ok()?)? as usize)
    }

    fn value_of(&self, entry: &Entry) -> Option<Value<'_>> {
        Value::read(&mut Cursor::new(entry.value.of(&self.bytes), entry.value.at as u64), entry.ty).ok()
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<Value<'_>> {
        self.value_of(self.entry(key)?)
    }

    /// Keys and values in the order of the file.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        self.entries.iter().filter_map(|e| Some((e.key.name(&self.bytes), self.value_of(e)?)))
    }

    /// An error about a key, at its value where the file has it.
    pub fn key_error(&self, key: &str, reason: impl Into<String>) -> Error {
        let offset = self.entry(key).map_or(self.metadata_end, |e| e.value.at as u64);
        self.fault(key, Fault { offset, reason: reason.into() })
    }

    /// An error about a key at a place.
    pub(crate) fn fault(&self, key: &str, fault: Fault) -> Error {
        let subject = Subject::Key(shown(key));
        Error { file: self.file.clone(), subject, offset: fault.offset, reason: fault.reason }
    }

    /// The error for a key that the file must have and lacks.
    pub fn missing(&self, key: &str) -> Error {
        self.key_error(key, "the file has no such key")
    }

    fn typed<T>(
        &self,
        key: &str,
        what: &str,
        as_type: impl Fn(Value<'_>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => match as_type(value) {
                Some(value) => Ok(Some(value)),
                None => Err(self.key_error(key, format!("{what} expected"))),
            },
        }
    }

    /// The value of a key as an unsigned integer, whatever its width. An error if it is something else.
    pub fn uint(&self, key: &str) -> Result<Option<u64>, Error> {
        self.typed(key, "an integer that is not negative", |v| v.as_uint())
    }

    /// The value of a key as a float, whatever its width. An error if it is something else.
    pub fn float(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a float", |v| v.as_float())
    }

    /// The value of a key as a truth value. An error if it is something else.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "a truth value", |v| if let Value::Bool(x) = v { Some(x) } else { None })
    }

    /// The value of a key as a string. An error if it is something else or no UTF-8.
    pub fn str(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => text.utf8().map(Some).map_err(|fault| self.fault(key, fault)),
            Some(_) => Err(self.key_error(key, "a string expected")),
        }
    }

    /// The value of a key as an array. An error if it is something else.
    pub fn array(&self, key: &str) -> Result<Option<Array<'_>>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(_) => Err(self.key_error(key, "an array expected")),
        }
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        self.headers.iter().map(|h| self.tensor_of(h))
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let found = self.by_name.binary_search_by(|&i| {
            self.headers.get(i as usize).map_or("", |h| h.name.name(&self.bytes)).cmp(name)
        });
        self.headers.get(*self.by_name.get(found.ok()?)? as usize).map(|h| self.tensor_of(h))
    }

    fn tensor_of<'a>(&'a self, header: &'a Header) -> Tensor<'a> {
        Tensor {
            name: header.name.name(&self.bytes),
            format: header.format,
            extents: header.extents.get(..header.axes.into()).unwrap_or(&[]),
            offset: header.data.at as u64,
            bytes: header.data.of(&self.bytes),
        }
    }

    /// An error about a tensor, at its data.
    pub fn tensor_error(&self, name: &str, reason: impl Into<String>) -> Error {
        let offset = self.tensor(name).map_or(self.metadata_end, |t| t.offset);
        let subject = Subject::Tensor(shown(name));
        Error { file: self.file.clone(), subject, offset, reason: reason.into() }
    }
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gguf({}: {} keys, {} tensors)", self.file, self.entries.len(), self.headers.len())
    }
}

/// What reading finds: all of [`Gguf`] but the bytes.
struct Index {
    version: u32,
    alignment: u64,
    metadata_end: u64,
    entries: Vec<Entry>,
    by_key: Vec<u32>,
    headers: Vec<Header>,
    by_name: Vec<u32>,
}

/// A part of a file and what is wrong with it.
type Refusal = (Subject, Fault);

impl Index {
    fn read(bytes: &[u8]) -> Result<Index, Refusal> {
        let mut cursor = Cursor::new(bytes, 0);
        let (version, tensor_count, key_count) =
            read_header(&mut cursor).map_err(|fault| (Subject::Header, fault))?;
        let entries = read_entries(&mut cursor, key_count)?;
        let by_key = order(&entries, |e| e.key.name(bytes));
        if let Some(twice) = repeated(&entries, &by_key, |e| e.key.name(bytes)) {
            let fault = Fault { offset: twice.key.at as u64, reason: "the key occurs twice".into() };
            return Err((Subject::Key(shown(twice.key.name(bytes))), fault));
        }
        let alignment = read_alignment(bytes, &entries)?;
        let metadata_end = cursor.offset();
        let headers = read_headers(&mut cursor, tensor_count, alignment, bytes)?;
        let by_name = order(&headers, |h| h.name.name(bytes));
        if let Some(twice) = repeated(&headers, &by_name, |h| h.name.name(bytes)) {
            let fault = Fault { offset: twice.name.at as u64, reason: "the name occurs twice".into() };
            return Err((Subject::Tensor(shown(twice.name.name(bytes))), fault));
        }
        check_layout(&headers, &cursor, alignment, bytes)?;
        Ok(Index { version, alignment, metadata_end, entries, by_key, headers, by_name })
    }
}

/// The version, the number of tensors and the number of keys.
fn read_header(cursor: &mut Cursor) -> Result<(u32, u64, u64), Fault> {
    let start = *cursor;
    if cursor.array::<4>("magic")? != MAGIC {
        return Err(start.fault("not a GGUF file: it does not begin with `GGUF`"));
    }
    let at_version = *cursor;
    let version = cursor.u32("version")?;
    match version {
        2 | 3 => {}
        _ if matches!(version.swap_bytes(), 1..=3) => {
            return Err(at_version.fault("a big-endian file; little-endian ones can be read"));
        }
        _ => return Err(at_version.fault(format!("version {version}; versions 2 and 3 can be read"))),
    }
    let mut count = |what: &str, most: u64, least_bytes: u64| {
        let before = *cursor;
        let count = cursor.u64(what)?;
        if count > most || count > cursor.left() / least_bytes {
            return Err(before.fault(format!(
                "{count} for the {what}; at most {most}, and at least {least_bytes} bytes each of the {} left",
                cursor.left()
            )));
        }
        Ok(count)
    };
    let tensors = count("number of tensors", MOST_TENSORS, 25)?;
    let keys = count("number of keys", MOST_KEYS, 14)?;
    Ok((version, tensors, keys))
}

fn read_entries(cursor: &mut Cursor, count: u64) -> Result<Vec<Entry>, Refusal> {
    let mut entries = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for index in 0..count {
        let unnamed = |fault| (Subject::Key(format!("#{index}")), fault);
        let key = cursor.name("key", LONGEST_KEY).map_err(unnamed)?;
        let key_span = Span { at: cursor.at() - key.len(), length: key.len() };
        let named = |fault| (Subject::Key(shown(key)), fault);
        let ty = cursor.value_type().map_err(named)?;
        let at = cursor.at();
        Value::read(cursor, ty).map_err(named)?;
        entries.push(Entry { key: key_span, ty, value: Span { at, length: cursor.at() - at } });
    }
    Ok(entries)
}

fn read_alignment(bytes: &[u8], entries: &[Entry]) -> Result<u64, Refusal> {
    let Some(entry) = entries.iter().find(|e| e.key.name(bytes) == ALIGNMENT_KEY) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let mut cursor = Cursor::new(entry.value.of(bytes), entry.value.at as u64);
    let before = cursor;
    match Value::read(&mut cursor, entry.ty).map(Value::as_uint) {
        Ok(Some(x)) if x.is_power_of_two() && x <= LARGEST_ALIGNMENT => Ok(x),
        _ => {
            let fault = before.fault(format!("a power of two up to {LARGEST_ALIGNMENT} expected"));
            Err((Subject::Key(ALIGNMENT_KEY.to_string()), fault))
        }
    }
}

/// The headers; afterwards the cursor stands at the first byte of data.
fn read_headers(
    cursor: &mut Cursor,
    count: u64,
    alignment: u64,
    bytes: &[u8],
) -> Result<Vec<Header>, Refusal> {
    let mut headers: Vec<Header> = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut offsets: Vec<Cursor> = Vec::with_capacity(headers.capacity());
    for index in 0..count {
        let unnamed = |fault| (Subject::Tensor(format!("#{index}")), fault);
        let name = cursor.name("name", LONGEST_NAME).map_err(unnamed)?;
        let span = Span { at: cursor.at() - name.len(), length: name.len() };
        let (header, at_offset) =
            read_tensor(cursor, span, alignment).map_err(|fault| (Subject::Tensor(shown(name)), fault))?;
        headers.push(header);
        offsets.push(at_offset);
    }
    // Every offset counts from the first multiple of the alignment behind the headers; a file without data may end before.
    let start = cursor.at().checked_next_multiple_of(usize::try_from(alignment).unwrap_or(1));
    let start = start.unwrap_or(usize::MAX).min(bytes.len());
    let _ = cursor.take((start - cursor.at()) as u64, "padding");
    for (header, at_offset) in headers.iter_mut().zip(offsets) {
        let size = (bytes.len() - start) as u64;
        let (from, length) = (header.data.at as u64, header.data.length as u64);
        if length == 0 && from <= size.next_multiple_of(alignment) {
            header.data.at = start.saturating_add(header.data.at).min(bytes.len());
            continue;
        }
        if from.checked_add(length).is_none_or(|end| end > size) {
            let fault = at_offset.fault(format!(
                "the data are bytes {from} to {} of {size} bytes of tensor data: the file is cut off, or the offset is wrong",
                u128::from(from) + u128::from(length),
            ));
            return Err((Subject::Tensor(shown(header.name.name(bytes))), fault));
        }
        header.data.at = header.data.at.saturating_add(start);
    }
    Ok(headers)
}

/// The header behind a tensor's name, its data relative to the first byte of data, and the place of its offset.
fn read_tensor<'a>(
    cursor: &mut Cursor<'a>,
    name: Span,
    alignment: u64,
) -> Result<(Header, Cursor<'a>), Fault> {
    let before = *cursor;
    let axes = cursor.u32("number of axes")?;
    let mut extents = [1; MOST_AXES];
    let listed = usize::try_from(axes).ok().and_then(|n| extents.get_mut(..n));
    let Some(listed) = listed else {
        return Err(before.fault(format!("{axes} axes; at most {MOST_AXES} are allowed")));
    };
    for extent in listed.iter_mut() {
        *extent = cursor.u64("extent")?;
    }
    let at_format = *cursor;
    let id = cursor.u32("element type")?;
    let format = Format::from_id(id).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().map(|f| f.name).collect();
        at_format.fault(format!("element type {id} is not supported; {} are", names.join(", ")))
    })?;
    let length = format.tensor_bytes(listed).map_err(|reason| before.fault(reason))?;
    let at_offset = *cursor;
    let offset = cursor.u64("offset")?;
    if offset % alignment != 0 {
        return Err(
            at_offset.fault(format!("offset {offset}; multiples of the alignment {alignment} are right"))
        );
    }
    let span = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
    let Some((at, length)) = span else {
        return Err(at_offset.fault("the data do not fit the address space"));
    };
    let axes = axes.try_into().unwrap_or(0);
    Ok((Header { name, format, extents, axes, data: Span { at, length } }, at_offset))
}

/// Refuses tensors that overlap, unless they are the same bytes, and more than padding behind the last one.
fn check_layout(headers: &[Header], data: &Cursor, alignment: u64, bytes: &[u8]) -> Result<(), Refusal> {
    let mut by_place: Vec<&Header> = headers.iter().filter(|h| h.data.length > 0).collect();
    by_place.sort_unstable_by_key(|h| (h.data.at, h.data.length, h.name.at));
    for pair in by_place.windows(2) {
        let &[before, after] = pair else { continue };
        let same = before.data.at == after.data.at && before.data.length == after.data.length;
        if after.data.at < before.data.end() && !same {
            let fault = Fault {
                offset: after.data.at as u64,
                reason: format!(
                    "the data begin inside those of tensor {}, bytes {} to {}",
                    shown(before.name.name(bytes)),
                    before.data.at,
                    before.data.end()
                ),
            };
            return Err((Subject::Tensor(shown(after.name.name(bytes))), fault));
        }
    }
    let last = by_place.last();
    let end = last.map_or(data.at(), |h| h.data.end()) as u64;
    if (bytes.len() as u64).saturating_sub(end) >= alignment.max(DEFAULT_ALIGNMENT) {
        let subject = last.map_or(Subject::Header, |h| Subject::Tensor(shown(h.name.name(bytes))));
        let reason = format!("{} bytes follow the last tensor's data", bytes.len() as u64 - end);
        return Err((subject, Fault { offset: end, reason }));
    }
    Ok(())
}

/// The indices of `items` in the order of their names; equal names in the order of the file.
fn order<'a, T>(items: &'a [T], name: impl Fn(&'a T) -> &'a str) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).take(items.len()).collect();
    order.sort_by_key(|&i| items.get(i as usize).map_or("", &name));
    order
}

/// The second of two items with one name.
fn repeated<'a, T>(items: &'a [T], order: &[u32], name: impl Fn(&'a T) -> &'a str) -> Option<&'a T> {
    order.windows(2).find_map(|pair| {
        let &[a, b] = pair else { return None };
        let (a, b) = (items.get(a as usize)?, items.get(b as usize)?);
        (name(a) == name(b)).then_some(b)
    })
}
