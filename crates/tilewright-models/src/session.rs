//! Running a language model: its weights prepared once, and sessions that remember what they were fed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tilewright::dim::Symbol;
use tilewright::{Arguments, Control, Error, Executable, HostTensor, Target, Weights, compile};

use crate::family::{self, Definition, Hyper};
use crate::gguf::Gguf;

/// The cache grows by multiples of this many tokens.
const CACHE_STEP: usize = 256;

/// A compiled model with its weights.
pub struct LanguageModel {
    executable: Executable,
    weights: Weights,
    hyper: Hyper,
    taps: usize,
    /// How long it took to become ready.
    pub phases: Phases,
}

/// How long a model took to become ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Building the program from the file's header, and compiling it.
    pub compile: Duration,
    /// Copying the weights from the file, and the work on them alone.
    pub prepare: Duration,
}

impl LanguageModel {
    /// Compiles the model of a file and prepares its weights.
    ///
    /// # Errors
    /// As [`Definition::new`], `compile` and `prepare`.
    pub fn load(
        gguf: &Gguf,
        options: family::Options,
        compiling: &tilewright::Options,
    ) -> Result<LanguageModel, family::Error> {
        let start = Instant::now();
        let definition = Definition::new(gguf, options)?;
        let executable = compile(&definition.program, &Target::portable(), compiling)?;
        let compile = start.elapsed();
        let start = Instant::now();
        let weights = executable.prepare(definition.weights(gguf)?)?;
        let phases = Phases { compile, prepare: start.elapsed() };
        let taps = if options.taps { definition.taps.len() + 1 } else { 0 };
        Ok(LanguageModel { executable, weights, hyper: definition.hyper, taps, phases })
    }

    /// The sizes.
    pub fn hyper(&self) -> &Hyper {
        &self.hyper
    }

    /// The compiled program.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// A session of at most `context` tokens.
    ///
    /// # Errors
    /// If there is no memory for the first part of its cache.
    pub fn session(&self, context: usize) -> Result<Session<'_>, Error> {
        let mut session = Session { model: self, context, capacity: 0, length: 0, caches: Vec::new() };
        session.caches = session.empty(0)?;
        Ok(session)
    }
}

/// One sequence of tokens, with the cache of what was fed so far.
pub struct Session<'m> {
    model: &'m LanguageModel,
    context: usize,
    capacity: usize,
    length: usize,
    /// Keys and values, `f32[L, 1, capacity, H, K]`.
    caches: Vec<HostTensor>,
}

/// What feeding tokens gives.
#[derive(Debug)]
pub struct Fed {
    /// For each token asked for, the logits after it, one behind the other.
    pub logits: Vec<f32>,
    /// The taps of the definition, if it has any.
    pub taps: Vec<HostTensor>,
}

impl Session<'_> {
    /// How many tokens it was fed.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it was fed nothing yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// How many more tokens it takes.
    pub fn left(&self) -> usize {
        self.context - self.length
    }

    /// Feeds tokens and gives the logits after the last one.
    ///
    /// # Errors
    /// As [`Session::feed_rows`].
    pub fn feed(&mut self, ids: &[u32], control: &Control) -> Result<Vec<f32>, Error> {
        let last = ids.len().checked_sub(1);
        Ok(self.feed_rows(ids, last.as_slice(), control)?.logits)
    }

    /// Feeds tokens and gives the logits after those at the positions `rows` of `ids`.
    ///
    /// # Errors
    /// [`Error::Input`] if the tokens do not fit in the context, or one is not in the vocabulary; what `run` gives. The
    /// session is as before then.
    pub fn feed_rows(&mut self, ids: &[u32], rows: &[usize], control: &Control) -> Result<Fed, Error> {
        let input = |subject: &str, message: String| Error::Input { subject: subject.into(), message };
        if ids.len() > self.left() {
            let message = format!(
                "the context of {} tokens is full: {} are there, {} more do not fit",
                self.context,
                self.length,
                ids.len()
            );
            return Err(input("context", message));
        }
        let vocabulary = self.model.hyper.vocabulary;
        if let Some(id) = ids.iter().find(|id| i64::from(**id) >= vocabulary) {
            return Err(input("ids", format!("token {id} of a vocabulary of {vocabulary}")));
        }
        self.grow(self.length + ids.len())?;
        let (count, before) = (ids.len() as i32, self.length as i32);
        let vector = |values: Vec<i32>| HostTensor::from_i32(vec![values.len()], &values);
        let tables = BTreeMap::from([
            (Symbol::new("off"), vector(vec![0, count])?),
            (Symbol::new("pos"), vector(vec![before])?),
            (Symbol::new("slot"), HostTensor::from_i32(vec![1, ids.len()], &Vec::from_iter(0..count))?),
            (Symbol::new("rows"), vector(rows.iter().map(|&row| row as i32).collect())?),
        ]);
        let position = vector((before..before + count).collect())?;
        let ids = vector(ids.iter().map(|&id| id as i32).collect())?;
        let sizes = [("B", 1), ("T", ids.extents()[0]), ("N", ids.extents()[0]), ("R", rows.len())];
        let sizes = sizes.into_iter().chain([("C", self.capacity)]);
        let sizes = sizes.map(|(name, size)| (Symbol::new(name), size as i64));
        let mut sizes: BTreeMap<Symbol, i64> = sizes.collect();
        let facts = &self.model.executable.program().facts;
        let fixed = facts.symbols().filter_map(|symbol| {
            facts.range(symbol).filter(|&(lo, hi)| Some(lo) == hi).map(|(lo, _)| (symbol.clone(), lo))
        });
        sizes.extend(fixed);
        let plan = self.model.executable.plan(&sizes, tables)?;
        let [k_cache, v_cache] = self.caches.as_mut_slice() else {
            return Err(Error::Bug { stage: "session", message: "no caches".into() });
        };
        let arguments = Arguments::new()
            .input("ids", &ids)
            .input("position", &position)
            .state("k_cache", k_cache)
            .state("v_cache", v_cache);
        let mut results =
            self.model.executable.run(&plan, &self.model.weights, arguments, control)?.into_iter();
        self.length += count as usize;
        let logits = results.next().map(|tensor| tensor.to_f32()).unwrap_or_default();
        Ok(Fed { logits, taps: results.take(self.model.taps).collect() })
    }

    /// Caches of zeros.
    fn empty(&self, capacity: usize) -> Result<Vec<HostTensor>, Error> {
        let Hyper { layers, kv_heads, head, .. } = self.model.hyper;
        let extents = vec![layers as usize, 1, capacity, kv_heads as usize, head as usize];
        let one = || HostTensor::zeros(tilewright::tensor::DType::F32, extents.clone());
        Ok(vec![one()?, one()?])
    }

    /// Makes room for `length` tokens.
    fn grow(&mut self, length: usize) -> Result<(), Error> {
        if length <= self.capacity {
            return Ok(());
        }
        let capacity = length.next_multiple_of(CACHE_STEP).min(self.context.max(length));
        let mut larger = self.empty(capacity)?;
        let Hyper { layers, kv_heads, head, .. } = self.model.hyper;
        let row = (kv_heads * head) as usize * size_of::<f32>();
        for (old, new) in self.caches.iter().zip(&mut larger) {
            for layer in 0..layers as usize {
                let from = layer * self.capacity * row;
                let to = layer * capacity * row;
                let bytes = self.length * row;
                new.bytes_mut()[to..to + bytes].copy_from_slice(&old.bytes()[from..from + bytes]);
            }
        }
        (self.caches, self.capacity) = (larger, capacity);
        Ok(())
    }
}
