//! The Llama family: RMS norms, rotated queries and keys in neighbouring pairs, grouped heads, SwiGLU; experts where the
//! file has some (Mixtral).

use super::body::Body;
use super::feed_forward::{self, Activation};
use super::hyper::{Hyper, RopeStyle};
use super::keys::Keys;
use super::weights::Layer;
use super::{Family, attention};
use crate::gguf::Error;
use tilewright::tensor::ValueId;
use tilewright::tensor::infer::Problem;

/// The family. Files keep the rows of `attn_q` and `attn_k` in the order that neighbouring pairs need.
pub(super) static LLAMA: Family = Family {
    architecture: "llama",
    doc: "Llama, SmolLM, Mistral, Mixtral: RMS norms, grouped heads, SwiGLU, experts",
    rope: RopeStyle::Neighbours,
    hyper,
    tensors,
    layer,
};

fn hyper(keys: &Keys<'_>, hyper: &mut Hyper) -> Result<(), Error> {
    hyper.experts = keys.experts(true)?;
    Ok(())
}

/// The tensors of a layer that is attention and then a feed-forward part.
pub(super) fn tensors(hyper: &Hyper) -> Vec<Layer> {
    attention::tensors().into_iter().chain(feed_forward::tensors(hyper)).collect()
}

/// Attention and then a feed-forward part, each added to its input.
pub(super) fn layer(b: &mut Body<'_>) -> Result<ValueId, Problem> {
    let x = b.input;
    let attended = b.self_attention(x)?;
    let x = b.add(x, attended)?;
    b.tap("residual_after_attention", x);
    let inner = b.feed_forward(x, Activation::Silu)?;
    b.add(x, inner)
}
