//! Pages of machine code: written first, then made executable, never both at once.

use tilewright::error::Error;

/// Machine code, executable for as long as it lives.
pub struct Pages {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the pages are never written after `Pages::new`.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pages with this code, which does not depend on its address.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system gives no pages, or does not let them be executed.
    pub fn new(code: &[u8]) -> Result<Pages, Error> {
        let refused = || Error::Memory {
            needed: code.len() as u64,
            limit: 0,
            table: "the system gives no pages for machine code".into(),
        };
        let bytes = code.len().next_multiple_of(4096).max(4096);
        let (read_write, private) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever the system likes.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, private, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(refused());
        }
        let pages = Pages { start: start.cast(), bytes };
        // SAFETY: the mapping has at least as many bytes as the code, and nothing else points to it.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), pages.start, code.len()) };
        // SAFETY: the mapping made above.
        if unsafe { libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(refused());
        }
        Ok(pages)
    }

    /// The address of a byte of the code.
    pub fn at(&self, offset: usize) -> *const u8 {
        assert!(offset < self.bytes);
        self.start.wrapping_add(offset)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`; whoever calls the code keeps the pages alive.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
