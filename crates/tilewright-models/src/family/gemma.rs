//! Gemma 2 and 3: embeddings times the root of their width, norms before and behind each part, GELU, and layers with a
//! window between those without. 2 caps scores and logits; 3 has norms of the heads of queries and keys, and another
//! rotation in layers with a window.
//!
//! Files hold the weights of norms with the 1 added that the models' definition adds.

use super::body::Body;
use super::feed_forward::Activation;
use super::hyper::{Hyper, Rope, RopeStyle, Window};
use super::keys::Keys;
use super::weights::Layer;
use super::{Family, attention, llama};
use crate::gguf::Error;
use tilewright::tensor::ValueId;
use tilewright::tensor::infer::Problem;

/// Gemma 2.
pub(super) static GEMMA2: Family = Family {
    architecture: "gemma2",
    doc: "Gemma 2: every other layer has a window; scores and logits are capped",
    rope: RopeStyle::Halves,
    hyper: |keys, hyper| {
        hyper.score_cap = Some(keys.positive("attn_logit_softcapping", Some(50.0))?);
        hyper.logit_cap = Some(keys.positive("final_logit_softcapping", Some(30.0))?);
        let rope = hyper.rope.clone();
        shared(keys, hyper, 2, rope, 46)
    },
    tensors,
    layer,
};

/// Gemma 3.
pub(super) static GEMMA3: Family = Family {
    architecture: "gemma3",
    doc: "Gemma 3: five layers of six have a window and a rotation of their own",
    rope: RopeStyle::Halves,
    hyper: |keys, hyper| {
        hyper.score_cap = keys.cap("attn_logit_softcapping")?;
        hyper.logit_cap = keys.cap("final_logit_softcapping")?;
        // What stretches the other rotation leaves this one.
        let base = keys.positive("rope.freq_base_swa", Some(10_000.0))?;
        let factors = vec![1.0; hyper.rope.factors.len()];
        let rope = Rope { base, factors, ..hyper.rope.clone() };
        shared(keys, hyper, 6, rope, 62)
    },
    tensors: |hyper| tensors(hyper).into_iter().chain(attention::head_norms()).collect(),
    layer,
};

/// What both have. `wide` is the number of layers of the one model whose scale comes from its width, not from the size of
/// its heads: files say nothing else of it.
fn shared(keys: &Keys<'_>, hyper: &mut Hyper, period: i64, rope: Rope, wide: i64) -> Result<(), Error> {
    hyper.embedding_scale = Some((hyper.width as f64).sqrt());
    let size = keys.need("attention.sliding_window")?;
    let period = keys.size("attention.sliding_window_pattern")?.unwrap_or(period);
    hyper.window = Some(Window { size, period, rope });
    if keys.size("block_count")? == Some(wide) && keys.gguf.float(&keys.name("attention.scale"))?.is_none() {
        let heads = hyper.kv_heads * hyper.group;
        hyper.scale = (hyper.width as f64 / heads as f64).powf(-0.5);
    }
    Ok(())
}

fn tensors(hyper: &Hyper) -> Vec<Layer> {
    let own = [
        Layer::new("post_attention_norm.weight", &[("d", "D")]),
        Layer::new("post_ffw_norm.weight", &[("d", "D")]),
    ];
    llama::tensors(hyper).into_iter().chain(own).collect()
}

fn layer(b: &mut Body<'_>) -> Result<ValueId, Problem> {
    let x = b.input;
    let attended = b.self_attention(x)?;
    let attended = b.norm(attended, "post_attention_norm")?;
    let x = b.add(x, attended)?;
    b.tap("residual_after_attention", x);
    let inner = b.feed_forward(x, Activation::Gelu)?;
    let inner = b.norm(inner, "post_ffw_norm")?;
    b.add(x, inner)
}
