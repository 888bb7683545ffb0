//! The Llama family: RMS norms, rotated queries and keys in neighbouring pairs, grouped heads, SwiGLU.

use super::Family;
use super::body::Body;
use super::hyper::{Hyper, RopeStyle};
use super::weights::Layer;
use tilewright::tensor::ValueId;
use tilewright::tensor::infer::Problem;

/// The family. Files keep the rows of `attn_q` and `attn_k` in the order that neighbouring pairs need.
pub(super) static LLAMA: Family = Family {
    architecture: "llama",
    doc: "Llama, SmolLM, Mistral: RMS norms, grouped heads, SwiGLU",
    rope: RopeStyle::Neighbours,
    tensors,
    layer,
};

fn tensors(_: &Hyper) -> Vec<Layer> {
    vec![
        Layer::new("attn_norm.weight", &[("d", "D")]),
        Layer::new("attn_q.weight", &[("o", "H*G*K"), ("d", "D")]),
        Layer::optional("attn_q.bias", &[("o", "H*G*K")]),
        Layer::new("attn_k.weight", &[("o", "H*K"), ("d", "D")]),
        Layer::optional("attn_k.bias", &[("o", "H*K")]),
        Layer::new("attn_v.weight", &[("o", "H*K"), ("d", "D")]),
        Layer::optional("attn_v.bias", &[("o", "H*K")]),
        Layer::new("attn_output.weight", &[("d", "D"), ("o", "H*G*K")]),
        Layer::new("ffn_norm.weight", &[("d", "D")]),
        Layer::new("ffn_gate.weight", &[("f", "F"), ("d", "D")]),
        Layer::new("ffn_up.weight", &[("f", "F"), ("d", "D")]),
        Layer::new("ffn_down.weight", &[("d", "D"), ("f", "F")]),
    ]
}

fn layer(b: &mut Body<'_>) -> Result<ValueId, Problem> {
    let x = b.input;
    let normed = b.norm(x, "attn_norm")?;
    b.tap("attention_norm", normed);
    let q = b.linear(normed, "attn_q", "o")?;
    let k = b.linear(normed, "attn_k", "o")?;
    let v = b.linear(normed, "attn_v", "o")?;
    let q = b.heads("q", q, "H*G")?;
    let k = b.heads("k", k, "H")?;
    let v = b.heads("v", v, "H")?;
    let q = b.rotate("q", q)?;
    let k = b.rotate("k", k)?;
    b.tap("q_after_rope", q);
    b.tap("k_after_rope", k);
    b.tap("v", v);
    let mixed = b.attention(q, k, v, None)?;
    b.tap("attention_output", mixed);
    let attended = b.linear(mixed, "attn_output", "d")?;
    let x = b.add(x, attended)?;
    b.tap("residual_after_attention", x);
    let normed = b.norm(x, "ffn_norm")?;
    let inner = b.swiglu(normed)?;
    b.tap("ffn_output", inner);
    b.add(x, inner)
}
