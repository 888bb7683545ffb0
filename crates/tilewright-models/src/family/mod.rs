//! Language models as tensor programs: one file for each family, of ordinary operators, with `repeat` over layers.
//!
//! [`Definition::new`] reads the sizes and the tensors of a GGUF file and builds the program for it. Every program has
//! the same face, so that one session serves all families:
//!
//! | parameter | type | meaning |
//! | --- | --- | --- |
//! | `ids` | `i32[T]` | the new tokens of all sequences, one sequence behind the other |
//! | `position` | `i32[T]` | the position of each in its sequence |
//! | `off` | `plan i32[B + 1]` | where the tokens of each of the `B` sequences begin |
//! | `pos` | `plan i32[B]` | how many tokens of each sequence the cache has already |
//! | `slot` | `plan i32[B, N]` | which of the `T` tokens is the `i`-th new one of a sequence; -1 where there is none |
//! | `rows` | `plan i32[R]` | the tokens after which logits are wanted |
//! | `k_cache`, `v_cache` | `state f32[L, B, C, H, K]` | keys and values of up to `C` tokens, updated in place |
//!
//! The results are the logits `f32[R, V]` and the two caches. Sizes: `D` width, `L` layers, `H` key and value heads, `G`
//! query heads for each of them, `K` head size, `F` width of a feed-forward part or of an expert, `E` experts of which
//! `A` serve a token, `S` width of the expert that serves all, `V` vocabulary. `T`, `B`, `N`, `R` and `C` are
//! free: one compile serves every prompt, batch and cache.

mod attention;
mod body;
mod feed_forward;
mod gemma;
mod hyper;
mod keys;
mod llama;
mod program;
mod qwen;
mod weights;

use std::collections::BTreeMap;

use tilewright::HostTensor;
use tilewright::dim::Symbol;
use tilewright::tensor::Program;
use tilewright::tensor::infer::Problem;

use crate::gguf::{self, Gguf};
pub use hyper::{Experts, Hyper, Rope, RopeStyle, Window};
use keys::Keys;
use weights::Weight;

/// Why a file gives no model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key or a tensor that is missing or not what the family needs.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// The program or its weights are refused by the compiler.
    #[error(transparent)]
    Compile(#[from] tilewright::Error),
    /// The definition says what no program can: a bug in Tilewright.
    #[error("bug in tilewright: the definition of `{family}` is not legal: {message}")]
    Bug {
        /// The architecture.
        family: String,
        /// What the builder says.
        message: String,
    },
}

/// A family of models.
struct Family {
    /// What `general.architecture` says.
    architecture: &'static str,
    /// One line for the documentation.
    doc: &'static str,
    /// How the rotation of positions pairs the elements of a head.
    rope: RopeStyle,
    /// Reads what the family's files state beside the sizes that all have.
    hyper: fn(&Keys<'_>, &mut Hyper) -> Result<(), gguf::Error>,
    /// The tensors of a layer, optional ones as far as the file has them.
    tensors: fn(&Hyper) -> Vec<weights::Layer>,
    /// What a layer does to its input.
    layer: fn(&mut body::Body<'_>) -> Result<tilewright::tensor::ValueId, Problem>,
}

/// Every family, once.
static FAMILIES: &[&Family] = &[
    &llama::LLAMA,
    &qwen::QWEN2,
    &qwen::QWEN3,
    &qwen::QWEN2_MOE,
    &qwen::QWEN3_MOE,
    &gemma::GEMMA2,
    &gemma::GEMMA3,
];

/// The architectures that have a definition, each with a line about it.
pub fn architectures() -> impl Iterator<Item = (&'static str, &'static str)> {
    FAMILIES.iter().map(|family| (family.architecture, family.doc))
}

/// What is built beside the program itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Only the first layers of the file.
    pub layers: Option<u64>,
    /// Whether values inside the layers are results too, stacked over layers, behind the others: see
    /// [`Definition::taps`].
    pub taps: bool,
}

/// A model of a file: its program, and where its weights are.
pub struct Definition {
    /// The program.
    pub program: Program,
    /// The sizes.
    pub hyper: Hyper,
    /// The names of the results behind the caches.
    pub taps: Vec<String>,
    weights: Vec<Weight>,
}

impl Definition {
    /// The program for a file.
    ///
    /// # Errors
    /// [`Error::File`] if no family has the file's architecture, or if a key or tensor is missing or unfit.
    pub fn new(gguf: &Gguf, options: Options) -> Result<Definition, Error> {
        let key = "general.architecture";
        let name = gguf.str(key)?.ok_or_else(|| gguf.missing(key))?;
        let family = FAMILIES.iter().find(|family| family.architecture == name).ok_or_else(|| {
            let known: Vec<&str> = architectures().map(|(name, _)| name).collect();
            let name = gguf::shown(name);
            gguf.key_error(key, format!("no definition for `{name}`; there are {}", known.join(", ")))
        })?;
        let keys = Keys { gguf, architecture: family.architecture };
        let mut hyper = Hyper::read(&keys, family.rope, options)?;
        (family.hyper)(&keys, &mut hyper)?;
        program::build(gguf, family, hyper, options)
    }

    /// The weights of the program, copied from the file.
    ///
    /// # Errors
    /// If they do not fit in memory.
    pub fn weights(&self, gguf: &Gguf) -> Result<BTreeMap<Symbol, HostTensor>, Error> {
        self.weights.iter().map(|weight| Ok((Symbol::new(&weight.name), weight.load(gguf)?))).collect()
    }
}
