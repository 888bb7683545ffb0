//! Machine code: each family that selection covers runs as code made at load, the others in the portable executor.

pub mod pages;

use std::sync::Arc;

use tilewright::dim::Symbol;
use tilewright::error::Error;
use tilewright::journal::{Entry, Kind};
use tilewright::kernel;
use tilewright::runtime::{Loaded, Runtime};

use crate::portable::Portable;
use crate::select::{self, Names};
use pages::Pages;

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

/// `fn(context, coordinates)`: 0, or another number if an index expression has no value.
pub type Entry64 = unsafe extern "sysv64" fn(*const Context, *const i64) -> i64;

/// The code of one family.
pub struct FamilyCode {
    pages: Pages,
    prologue: Option<usize>,
    body: usize,
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

impl FamilyCode {
    /// What runs before the waits; none where that is nothing.
    pub fn prologue(&self) -> Option<Entry64> {
        self.prologue.map(|offset| self.entry(offset))
    }

    /// What runs after them.
    pub fn body(&self) -> Entry64 {
        self.entry(self.body)
    }

    fn entry(&self, offset: usize) -> Entry64 {
        // SAFETY: `Families::new` has put a function of this type there.
        unsafe { std::mem::transmute::<*const u8, Entry64>(self.pages.at(offset)) }
    }
}

impl Families {
    /// Compiles what can be compiled.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system gives no pages.
    pub fn new(program: &kernel::Program) -> Result<Families, Error> {
        let mut names = Names::default();
        let (mut code, mut notes) = (Vec::new(), Vec::new());
        for family in &program.tasks.families {
            let entry =
                |kind, reason| Entry { stage: "emit", kind, subject: family.name.to_string(), reason };
            match select::select(family, &program.tasks.buffers, &mut names) {
                Ok(selected) => {
                    let mut bytes = selected.body;
                    bytes.resize(bytes.len().next_multiple_of(64), 0);
                    let prologue = selected.prologue.map(|prologue| {
                        let at = bytes.len();
                        bytes.extend(prologue);
                        at
                    });
                    notes.push(entry(Kind::Chose, format!("machine code of {} bytes", bytes.len())));
                    let pages = Pages::new(&bytes)?;
                    code.push(Some(FamilyCode { pages, prologue, body: 0, scratch: selected.scratch }));
                }
                Err(lack) => {
                    notes.push(entry(
                        Kind::Refused,
                        format!("no machine code for {}; it is interpreted", lack.0),
                    ));
                    code.push(None);
                }
            }
        }
        Ok(Families { code, symbols: names.0, notes })
    }
}

/// Runs kernel programs as machine code, with the portable executor for what is not covered.
#[derive(Clone)]
pub struct Native {
    portable: Portable,
}

impl Native {
    /// Machine code on `workers` workers; none where the processor lacks AVX-512 (F, BW, DQ, VL) or BMI2.
    pub fn new(workers: usize) -> Option<Native> {
        supported().then(|| Native { portable: Portable::new(workers) })
    }

    /// Machine code on as many workers as this process has processors; none as for [`Native::new`].
    pub fn detect() -> Option<Native> {
        Native::new(crate::cores::Cores::detect().available)
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.portable.workers()
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn supported() -> bool {
    macro_rules! has {
        ($($feature:tt)*) => { true $(&& std::arch::is_x86_feature_detected!($feature))* };
    }
    has!("avx512f" "avx512bw" "avx512dq" "avx512vl" "bmi1" "bmi2" "fma")
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn supported() -> bool {
    false
}

impl Runtime for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn load(&self, program: &Arc<kernel::Program>) -> Result<Arc<dyn Loaded>, Error> {
        self.portable.load_with(program, Some(Families::new(program)?))
    }
}
