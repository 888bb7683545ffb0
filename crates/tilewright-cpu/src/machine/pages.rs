//! Pages that hold code: written, then made executable; never both at once.

use super::emit::Emitted;
use memmap2::{Mmap, MmapMut};
use std::io;

/// The type of emitted code: a context and coordinates in, a status out.
pub type Entry = unsafe extern "sysv64" fn(*mut Context, *const i64) -> i64;

/// What generated code is given beside coordinates; its layout is a matter between whoever builds a program and whoever
/// calls it.
#[repr(C)]
pub struct Context {
    _opaque: [u8; 0],
}

/// Code of several programs in pages of its own, executable and not writable.
#[derive(Debug)]
pub struct CodePages {
    pages: Mmap,
    entries: Vec<usize>,
}

impl CodePages {
    /// Copies code into new pages and makes them executable.
    ///
    /// # Errors
    /// What the operating system says if it gives no pages, or does not let them be executed.
    pub fn new(programs: &[&Emitted]) -> io::Result<CodePages> {
        let mut starts = Vec::new();
        let mut size = 0_usize;
        for program in programs {
            starts.push(size);
            size = (size + program.bytes.len()).next_multiple_of(64);
        }
        let mut pages = MmapMut::map_anon(size.max(1))?;
        for (start, program) in starts.iter().zip(programs) {
            pages[*start..start + program.bytes.len()].copy_from_slice(&program.bytes);
        }
        let entries = starts.iter().zip(programs).map(|(start, program)| start + program.entry).collect();
        Ok(CodePages { pages: pages.make_exec()?, entries })
    }

    /// The code of program `n`, in the order in which they were given; `None` if there are fewer. It may be called
    /// while these pages live, on a processor that has the level it was emitted for, with what its program expects of
    /// its two arguments.
    pub fn entry(&self, n: usize) -> Option<Entry> {
        let at = self.entries.get(n)?;
        let address = self.pages[*at..].as_ptr();
        // SAFETY: the address is that of a function that `emit` made for this calling convention, in executable pages.
        // To call it is unsafe, and whoever does so answers for the processor, for the arguments and for these pages.
        Some(unsafe { std::mem::transmute::<*const u8, Entry>(address) })
    }

    /// The first address and the number of bytes of all pages.
    pub fn range(&self) -> (usize, usize) {
        (self.pages.as_ptr() as usize, self.pages.len())
    }

    /// Lines for `/tmp/perf-PID.map`, so that `perf` names the code: address, size and name of each program.
    pub fn perf_map(&self, programs: &[&Emitted]) -> String {
        let base = self.pages.as_ptr() as usize;
        let line = |(at, program): (&usize, &&Emitted)| {
            format!("{:x} {:x} tilewright::{}\n", base + at, program.end - program.entry, program.name)
        };
        self.entries.iter().zip(programs).map(line).collect()
    }
}
