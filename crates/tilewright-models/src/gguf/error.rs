//! What is wrong with a file, and where.

use std::fmt;

/// The part of a file that an [`Error`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The file as a whole: it cannot be opened or mapped.
    File,
    /// The magic, the version or the counts.
    Header,
    /// The metadata entry with this key, or `#5` where the key itself of entry 5 cannot be read.
    Key(String),
    /// The tensor with this name, or `#5` where the name itself of tensor 5 cannot be read.
    Tensor(String),
}

/// Why a file is refused. Shown as `FILE: key NAME, byte OFFSET: REASON`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, as the caller named it.
    pub file: String,
    /// The metadata key or the tensor.
    pub subject: Subject,
    /// The byte of the file at which the wrong value stands.
    pub offset: u64,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        match &self.subject {
            Subject::File => return f.write_str(&self.reason),
            Subject::Header => f.write_str("header")?,
            Subject::Key(name) => write!(f, "key {name}")?,
            Subject::Tensor(name) => write!(f, "tensor {name}")?,
        }
        write!(f, ", byte {}: {}", self.offset, self.reason)
    }
}

impl std::error::Error for Error {}

/// The most characters of a name from a file that a message repeats.
const SHOWN: usize = 80;

/// A name from a file in a form fit for a message: control characters escaped, long names cut.
pub(crate) fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}
