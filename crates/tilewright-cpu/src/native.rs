//! Machine code: each family that selection covers runs as code made at load, the others in the portable executor.

use std::sync::Arc;
use std::time::Instant;

use tilewright::dim::Symbol;
use tilewright::error::Error;
use tilewright::journal::{Entry, Kind};
use tilewright::kernel;
use tilewright::runtime::{Loaded, Runtime};

use crate::machine::{self, CodePages, Emitted, Level, emit};
use crate::portable::Portable;
use crate::select::{self, Names};

/// What code reads: the fixed layout that selection knows.
#[repr(C)]
pub struct Context {
    /// Values of symbols, in the order of [`Families::symbols`].
    pub symbols: *const i64,
    /// The first byte of each buffer.
    pub buffers: *const *mut u8,
    /// The extents of each buffer, one buffer after the other.
    pub extents: *const i64,
    /// The worker's scratch for the family.
    pub scratch: *mut u8,
}

/// The code of one family.
pub struct FamilyCode {
    /// Which program of the pages it is.
    number: usize,
    /// Bytes of scratch.
    pub scratch: usize,
}

/// The code of a program.
pub struct Families {
    /// By family; none where the portable executor runs it.
    pub code: Vec<Option<FamilyCode>>,
    /// The symbols that a context lists.
    pub symbols: Vec<Symbol>,
    /// What was compiled, and what was not and why.
    pub notes: Vec<Entry>,
    pages: CodePages,
}

/// Scratch of one worker for one family, full of NaN at first.
pub struct Scratch {
    bytes: Vec<u8>,
    offset: usize,
}

impl Scratch {
    /// Scratch of this many bytes.
    pub fn new(bytes: usize) -> Scratch {
        let bytes = vec![0xff; bytes + 64];
        let offset = bytes.as_ptr().align_offset(64);
        Scratch { bytes, offset }
    }

    /// The first byte, at an address divisible by 64.
    pub fn start(&mut self) -> *mut u8 {
        self.bytes[self.offset..].as_mut_ptr()
    }
}

/// What became of a family.
pub struct Outcome {
    /// Its name.
    pub family: Symbol,
    /// Its code and bytes of scratch, or why there is none.
    pub code: Result<(Emitted, usize), String>,
    /// How long that took.
    pub time: std::time::Duration,
}

/// Machine code for each family that selection covers.
pub fn compile(program: &kernel::Program, level: Level) -> (Vec<Outcome>, Names) {
    let mut names = Names::default();
    let mut outcomes = Vec::new();
    for family in &program.tasks.families {
        let start = Instant::now();
        let code = match select::select(family, &program.tasks.buffers, level, &mut names) {
            Ok(selected) => match emit(&selected.program) {
                Ok(emitted) => Ok((emitted, selected.scratch)),
                Err(error) => Err(error.to_string()),
            },
            Err(lack) => Err(lack.0),
        };
        outcomes.push(Outcome { family: family.name.clone(), code, time: start.elapsed() });
    }
    (outcomes, names)
}

impl Families {
    /// Compiles what can be compiled.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system gives no pages.
    pub fn new(program: &kernel::Program, level: Level) -> Result<Families, Error> {
        let (outcomes, names) = compile(program, level);
        let notes = outcomes.iter().map(|outcome| outcome.note(level)).collect();
        let (mut code, mut emitted) = (Vec::new(), Vec::new());
        for outcome in &outcomes {
            code.push(outcome.code.as_ref().ok().map(|(program, scratch)| {
                emitted.push(program);
                FamilyCode { number: emitted.len() - 1, scratch: *scratch }
            }));
        }
        let bytes = emitted.iter().map(|program| program.bytes.len() as u64).sum();
        let pages = CodePages::new(&emitted).map_err(|error| Error::Memory {
            needed: bytes,
            limit: 0,
            table: format!("the system gives no pages for code: {error}"),
        })?;
        Ok(Families { code, symbols: names.0, notes, pages })
    }

    /// The code of a family.
    pub fn entry(&self, code: &FamilyCode) -> Option<machine::Entry> {
        self.pages.entry(code.number)
    }
}

impl Outcome {
    fn note(&self, level: Level) -> Entry {
        let micros = self.time.as_micros();
        let (kind, reason) = match &self.code {
            Ok((emitted, scratch)) => {
                let mut text = format!(
                    "machine code for {level}: {} bytes, {scratch} bytes of scratch, emitted in {micros} us",
                    emitted.bytes.len()
                );
                let (stores, loads) =
                    emitted.spills.iter().fold((0, 0), |(s, l), spill| (s + spill.stores, l + spill.loads));
                if stores + loads > 0 {
                    text += &format!("; {stores} stores and {loads} loads of registers in the frame");
                }
                (Kind::Chose, text)
            }
            Err(lack) => (Kind::Refused, format!("no machine code for {lack}; it is interpreted")),
        };
        Entry { stage: "emit", kind, subject: self.family.to_string(), reason }
    }
}

/// Runs kernel programs as machine code, with the portable executor for what is not covered.
#[derive(Clone)]
pub struct Native {
    portable: Portable,
    level: Level,
}

impl Native {
    /// Machine code on `workers` workers, at the highest level of this machine; none where it has no level.
    pub fn new(workers: usize) -> Option<Native> {
        Level::detect().map(|level| Native { portable: Portable::new(workers), level })
    }

    /// Machine code on as many workers as this process has processors; none as for [`Native::new`].
    pub fn detect() -> Option<Native> {
        Native::new(crate::cores::Cores::detect().available)
    }

    /// The same, at no higher a level than this.
    pub fn at_most(self, level: Level) -> Native {
        Native { level: self.level.min(level), ..self }
    }

    /// The level that code is made for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.portable.workers()
    }
}

impl Runtime for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn load(&self, program: &Arc<kernel::Program>) -> Result<Arc<dyn Loaded>, Error> {
        self.portable.load_with(program, Some(Families::new(program, self.level)?))
    }
}
