//! Attention: heads, rotation, and the mean of the values that a query sees in the cache.

use tilewright::dim::{Cond, Dim};
use tilewright::tensor::infer::{Problem, Reason};
use tilewright::tensor::{Attribute, Guard, Operand, ValueId};

use super::body::{Body, rms_norm, soft_cap};
use super::program::{axes, labels};
use super::weights::Layer;

/// The tensors of attention: projections with their biases, where a file has them.
pub fn tensors() -> Vec<Layer> {
    vec![
        Layer::new("attn_norm.weight", &[("d", "D")]),
        Layer::new("attn_q.weight", &[("o", "H*G*K"), ("d", "D")]),
        Layer::optional("attn_q.bias", &[("o", "H*G*K")]),
        Layer::new("attn_k.weight", &[("o", "H*K"), ("d", "D")]),
        Layer::optional("attn_k.bias", &[("o", "H*K")]),
        Layer::new("attn_v.weight", &[("o", "H*K"), ("d", "D")]),
        Layer::optional("attn_v.bias", &[("o", "H*K")]),
        Layer::new("attn_output.weight", &[("d", "D"), ("o", "H*G*K")]),
        Layer::optional("attn_output.bias", &[("d", "D")]),
    ]
}

/// The norms of the heads of queries and keys.
pub fn head_norms() -> [Layer; 2] {
    [Layer::new("attn_q_norm.weight", &[("k", "K")]), Layer::new("attn_k_norm.weight", &[("k", "K")])]
}

impl Body<'_> {
    /// Attention of `[t, d]` after its norm, back to `[t, d]`: projections, norms of the heads where there are some,
    /// rotation, the mean of what each query sees, and the output projection.
    pub fn self_attention(&mut self, x: ValueId) -> Result<ValueId, Problem> {
        let normed = self.norm(x, "attn_norm")?;
        self.tap("attention_norm", normed);
        let q = self.linear(normed, "attn_q", "o")?;
        let k = self.linear(normed, "attn_k", "o")?;
        let v = self.linear(normed, "attn_v", "o")?;
        let q = self.heads("q", q, "H*G")?;
        let k = self.heads("k", k, "H")?;
        let v = self.heads("v", v, "H")?;
        let (q, k) = (self.head_norm(q, "attn_q_norm")?, self.head_norm(k, "attn_k_norm")?);
        let [cosine, sine] = self.turn()?;
        let q = self.rotate("q", q, cosine, sine)?;
        let k = self.rotate("k", k, cosine, sine)?;
        self.tap("q_after_rope", q);
        self.tap("k_after_rope", k);
        self.tap("v", v);
        let mixed = self.attention(q, k, v)?;
        self.tap("attention_output", mixed);
        self.linear(mixed, "attn_output", "d")
    }

    /// The norm of each head `[t, n, k]`, if the layer has a weight of this name.
    fn head_norm(&mut self, x: ValueId, weight: &str) -> Result<ValueId, Problem> {
        match self.given.get(weight).copied() {
            Some(weight) => rms_norm(&mut self.f, x, weight, &["t", "n"], self.hyper.epsilon),
            None => Ok(x),
        }
    }

    /// Cosine and sine `[t, k]` of this layer's rotation.
    fn turn(&mut self) -> Result<[ValueId; 2], Problem> {
        let (cosine, sine) = (self.get("cosine")?, self.get("sine")?);
        if self.hyper.window.is_none() {
            return Ok([cosine, sine]);
        }
        let rotation = self.get("rotation")?;
        let f = &mut self.f;
        let over = || vec![Attribute::Labels(labels(&["z"]))];
        let mut own = |table: ValueId| {
            let operands = [f.at(table, ["z", "t", "k"]), f.at(rotation, [])];
            f.special("turn", "gather", operands, over(), None)
        };
        Ok([own(cosine)?, own(sine)?])
    }

    /// Splits `[t, o]` into heads `[t, n, k]`; `heads` is their number.
    fn heads(&mut self, name: &str, x: ValueId, heads: &str) -> Result<ValueId, Problem> {
        self.f.special(
            name,
            "reshape",
            [x.into()],
            vec![],
            Some(axes(&[("t", "T"), ("n", heads), ("k", "K")])),
        )
    }

    /// Turns heads `[t, n, k]` by their positions: every element takes its partner.
    fn rotate(&mut self, name: &str, x: ValueId, cosine: ValueId, sine: ValueId) -> Result<ValueId, Problem> {
        let partner = self.get("partner")?;
        let f = &mut self.f;
        let operands = [f.at(x, ["t", "n", "m"]), f.at(partner, ["k"])];
        let other =
            f.special("partner", "gather", operands, vec![Attribute::Labels(labels(&["m"]))], None)?;
        let operands = [f.at(x, ["t", "n", "k"]), f.at(cosine, ["t", "k"])];
        let own = f.elementwise(name, "mul", operands)?;
        let operands = [f.at(other, ["t", "n", "k"]), f.at(sine, ["t", "k"])];
        let other = f.elementwise(name, "mul", operands)?;
        f.elementwise(name, "add", [own.into(), other.into()])
    }

    /// Attention of queries `[t, n: H*G, k]` to the cache after keys and values `[t, n: H, k]` were put there: a query
    /// sees the tokens of its own sequence up to itself, and among them those in the layer's window. Gives
    /// `[t, o: H*G*K]`.
    fn attention(&mut self, q: ValueId, k: ValueId, v: ValueId) -> Result<ValueId, Problem> {
        let keys = self.cached("k_cache", k)?;
        let values = self.cached("v_cache", v)?;
        self.caches = Some([keys, values]);
        let (scale, cap) = (self.hyper.scale, self.hyper.score_cap);
        let windowed = self.hyper.window.is_some();
        let f = &mut self.f;
        let grouped = axes(&[("t", "T"), ("h", "H"), ("g", "G"), ("k", "K")]);
        let q = f.special("q_grouped", "reshape", [q.into()], vec![], Some(grouped.clone()))?;
        let parts = [("b", "B"), ("i", "off[b + 1] - off[b]"), ("h", "H"), ("g", "G"), ("k", "K")];
        let q = f.special("q_parts", "ragged", [q.into()], vec![], Some(axes(&parts)))?;
        let mut seen = vec![cond("c <= pos[b] + i")?];
        if windowed {
            seen.push(cond("c > pos[b] + i - window[0]")?);
        }
        let guard = || Guard { condition: Cond::all(seen.clone()), masks: Vec::new() };
        let all = ["b", "i", "h", "g", "c"];
        let operands = [f.at(q, ["b", "i", "h", "g", "k"]), f.at(keys, ["b", "c", "h", "k"])];
        let raw = f.contract_where("score", operands, all, guard(), None)?;
        let score = f.elementwise("score", "mul", [raw.into(), scale.into()])?;
        let score = soft_cap(f, score, cap)?;
        let greatest = f.reduce_where("greatest", "max", score, ["c"], guard())?;
        let operands = [f.at(score, all), f.at(greatest, ["b", "i", "h", "g"])];
        let distance = f.elementwise("distance", "sub", operands)?;
        let part = f.elementwise("part", "exp", [distance.into()])?;
        let whole = f.reduce_where("whole", "sum", part, ["c"], guard())?;
        let operands = [f.at(part, all), f.at(values, ["b", "c", "h", "k"])];
        let sum = f.contract_where("mixed", operands, ["b", "i", "h", "g", "k"], guard(), None)?;
        let operands = [f.at(sum, ["b", "i", "h", "g", "k"]), f.at(whole, ["b", "i", "h", "g"])];
        let mean = f.elementwise("mixed", "div", operands)?;
        let packed = f.special("mixed", "packed", [mean.into()], vec![], Some(grouped))?;
        f.special("mixed", "reshape", [packed.into()], vec![], Some(axes(&[("t", "T"), ("o", "H*G*K")])))
    }

    /// A cache with new heads `[t, n: H, k]` behind those of each sequence.
    fn cached(&mut self, cache: &str, new: ValueId) -> Result<ValueId, Problem> {
        let (before, slot) = (self.get(cache)?, self.get("slot")?);
        let f = &mut self.f;
        let operands = [f.at(new, ["t", "h", "k"]), f.at(slot, ["b", "i"])];
        let new = f.special("new", "gather", operands, vec![Attribute::Labels(labels(&["t"]))], None)?;
        let at: Dim = parse("pos[b]")?;
        let attributes = vec![Attribute::Labels(labels(&["c"])), Attribute::Dim(at)];
        let operands: [Operand; 2] = [before.into(), f.at(new, ["b", "c", "h", "k"])];
        f.special(cache, "update", operands, attributes, None)
    }
}

fn cond(text: &str) -> Result<Cond, Problem> {
    parse(text)
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, Problem>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| Problem::new(Reason::Name, format!("`{text}`: {error}")))
}
