//! The bytes of a file: mapped, or owned.
//!
//! The one place of the crate with `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// The bytes of a file.
pub(super) enum Bytes {
    /// Mapped read-only.
    Mapped(memmap2::Mmap),
    /// In memory.
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a file read-only.
    pub(super) fn map(path: &Path) -> io::Result<Bytes> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        // SAFETY: a read-only private mapping of an open regular file. The mapping stays valid while the value lives.
        // Another process that writes to the file while it is mapped can change the bytes, and one that truncates it can
        // end this process with SIGBUS: `Gguf::open` states that the caller must not let that happen.
        let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file)? };
        Ok(Bytes::Mapped(map))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}
