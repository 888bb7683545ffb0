//! Qwen 2 and 3: as Llama, with rotation in halves; 2 has biases on queries, keys and values, 3 has norms of their heads.
//! The `moe` architectures have experts, 2 one more that serves every token.

use super::hyper::{Hyper, RopeStyle};
use super::keys::Keys;
use super::weights::Layer;
use super::{Family, attention, llama};
use crate::gguf::Error;

/// Qwen 2 and 2.5.
pub(super) static QWEN2: Family = Family {
    architecture: "qwen2",
    doc: "Qwen 2 and 2.5: biases on queries, keys and values",
    rope: RopeStyle::Halves,
    hyper: |_, _| Ok(()),
    tensors: llama::tensors,
    layer: llama::layer,
};

/// Qwen 3.
pub(super) static QWEN3: Family = Family {
    architecture: "qwen3",
    doc: "Qwen 3: norms of the heads of queries and keys",
    rope: RopeStyle::Halves,
    hyper: |_, _| Ok(()),
    tensors: with_head_norms,
    layer: llama::layer,
};

/// Qwen 2 with experts.
pub(super) static QWEN2_MOE: Family = Family {
    architecture: "qwen2moe",
    doc: "Qwen 1.5 and 2 with experts, one of which serves every token",
    rope: RopeStyle::Halves,
    hyper: |keys, hyper| {
        experts(keys, hyper, false)?;
        // Files of the first converter state no width; it is that of the feed-forward part then.
        let shared = keys.size("expert_shared_feed_forward_length")?;
        let shared = shared.map_or_else(|| keys.need("feed_forward_length"), Ok)?;
        if let Some(experts) = &mut hyper.experts {
            experts.shared = Some(shared);
        }
        Ok(())
    },
    tensors: llama::tensors,
    layer: llama::layer,
};

/// Qwen 3 with experts.
pub(super) static QWEN3_MOE: Family = Family {
    architecture: "qwen3moe",
    doc: "Qwen 3 with experts",
    rope: RopeStyle::Halves,
    hyper: |keys, hyper| experts(keys, hyper, true),
    tensors: with_head_norms,
    layer: llama::layer,
};

fn experts(keys: &Keys<'_>, hyper: &mut Hyper, normalised: bool) -> Result<(), Error> {
    let experts = keys.experts(normalised)?;
    hyper.experts = Some(experts.ok_or_else(|| keys.gguf.missing(&keys.name("expert_count")))?);
    hyper.ffn = keys.need("expert_feed_forward_length")?;
    Ok(())
}

fn with_head_norms(hyper: &Hyper) -> Vec<Layer> {
    llama::tensors(hyper).into_iter().chain(attention::head_norms()).collect()
}
