//! What layers are made of: norms, projections, rotation, attention over a cache, feed-forward parts.
//!
//! A [`Body`] is the function of one layer in the making. Activations are `f32[t: T, ·]`.

use std::collections::BTreeMap;

use tilewright::dim::{Cond, Dim};
use tilewright::tensor::build::FunctionBuilder;
use tilewright::tensor::infer::{Problem, Reason};
use tilewright::tensor::{Attribute, DType, Guard, Operand, ValueId};

use super::hyper::Hyper;
use super::program::{axes, labels};

/// The function of one layer in the making.
pub struct Body<'a> {
    /// The function.
    pub f: FunctionBuilder,
    /// The sizes.
    pub hyper: &'a Hyper,
    /// The layer's input, `f32[t: T, d: D]`.
    pub input: ValueId,
    /// Other parameters, weights among them, by name.
    pub given: BTreeMap<String, ValueId>,
    /// Caches of keys and values after the update, once [`Body::attention`] was called.
    pub caches: Option<[ValueId; 2]>,
    /// Values inside, by name, in order.
    pub taps: Vec<(&'static str, ValueId)>,
}

impl Body<'_> {
    /// A parameter.
    pub fn get(&self, name: &str) -> Result<ValueId, Problem> {
        let found = self.given.get(name).copied();
        found.ok_or_else(|| Problem::new(Reason::Name, format!("the layer has no parameter `{name}`")))
    }

    /// Keeps a value as a result, for tests.
    pub fn tap(&mut self, name: &'static str, value: ValueId) {
        self.taps.push((name, value));
    }

    /// `x · weight / sqrt(mean x² + epsilon)` over the last axis of a value `[t, d]`, by the weight of this name.
    pub fn norm(&mut self, x: ValueId, weight: &str) -> Result<ValueId, Problem> {
        let weight = self.get(weight)?;
        rms_norm(&mut self.f, x, weight, &["t"], self.hyper.epsilon)
    }

    /// `x · wᵀ + b` with the weight of this name, and its bias if there is one; the result's second axis is `axis`.
    pub fn linear(&mut self, x: ValueId, weight: &str, axis: &str) -> Result<ValueId, Problem> {
        let w = self.get(weight)?;
        let operands = [self.f.at(x, ["t", "i"]), self.f.at(w, ["o", "i"])];
        let y = self.f.contract(weight, operands, ["t", &format!("{axis}: o")])?;
        match self.given.get(&format!("{weight}_bias")).copied() {
            None => Ok(y),
            Some(bias) => {
                let operands = [self.f.at(y, ["t", axis]), self.f.at(bias, [axis])];
                self.f.elementwise(weight, "add", operands)
            }
        }
    }

    /// The sum of two values `[t, d]` under any axis names.
    pub fn add(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Problem> {
        let operands = [self.f.at(a, ["t", "d"]), self.f.at(b, ["t", "d"])];
        self.f.elementwise("sum", "add", operands)
    }

    /// Splits `[t, o]` into heads `[t, n, k]`; `heads` is their number.
    pub fn heads(&mut self, name: &str, x: ValueId, heads: &str) -> Result<ValueId, Problem> {
        self.f.special(
            name,
            "reshape",
            [x.into()],
            vec![],
            Some(axes(&[("t", "T"), ("n", heads), ("k", "K")])),
        )
    }

    /// Turns heads `[t, n, k]` by their positions: every element takes its partner.
    pub fn rotate(&mut self, name: &str, x: ValueId) -> Result<ValueId, Problem> {
        let (partner, cosine, sine) = (self.get("partner")?, self.get("cosine")?, self.get("sine")?);
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
    /// sees the tokens of its own sequence up to itself, and among them those that `window` admits. Gives
    /// `[t, o: H*G*K]`.
    pub fn attention(
        &mut self,
        q: ValueId,
        k: ValueId,
        v: ValueId,
        window: Option<&str>,
    ) -> Result<ValueId, Problem> {
        let keys = self.cached("k_cache", k)?;
        let values = self.cached("v_cache", v)?;
        self.caches = Some([keys, values]);
        let scale = self.hyper.scale;
        let f = &mut self.f;
        let grouped = axes(&[("t", "T"), ("h", "H"), ("g", "G"), ("k", "K")]);
        let q = f.special("q_grouped", "reshape", [q.into()], vec![], Some(grouped.clone()))?;
        let parts = [("b", "B"), ("i", "off[b + 1] - off[b]"), ("h", "H"), ("g", "G"), ("k", "K")];
        let q = f.special("q_parts", "ragged", [q.into()], vec![], Some(axes(&parts)))?;
        let mut seen = vec![cond("c <= pos[b] + i")?];
        if let Some(window) = window {
            seen.push(cond(&format!("c > pos[b] + i - {window}[0]"))?);
        }
        let guard = || Guard { condition: Cond::all(seen.clone()), masks: Vec::new() };
        let all = ["b", "i", "h", "g", "c"];
        let operands = [f.at(q, ["b", "i", "h", "g", "k"]), f.at(keys, ["b", "c", "h", "k"])];
        let raw = f.contract_where("score", operands, all, guard(), None)?;
        let score = f.elementwise("score", "mul", [raw.into(), scale.into()])?;
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

    /// `down(silu(gate x) · up x)`.
    pub fn swiglu(&mut self, x: ValueId) -> Result<ValueId, Problem> {
        let gate = self.linear(x, "ffn_gate", "f")?;
        let up = self.linear(x, "ffn_up", "f")?;
        let open = self.f.elementwise("open", "sigmoid", [gate.into()])?;
        let gate = self.f.elementwise("open", "mul", [gate.into(), open.into()])?;
        let inner = self.f.elementwise("inner", "mul", [gate.into(), up.into()])?;
        self.linear(inner, "ffn_down", "d")
    }
}

/// `x · weight / sqrt(mean x² + epsilon)`, the mean over the last axis; `outer` are the labels of the others.
pub fn rms_norm(
    f: &mut FunctionBuilder,
    x: ValueId,
    weight: ValueId,
    outer: &[&str],
    epsilon: f64,
) -> Result<ValueId, Problem> {
    let size = f.ty(x).axes.last().map_or(Dim::constant(1), |axis| axis.extent.clone());
    let all: Vec<_> = labels(outer).into_iter().chain(labels(&["e"])).collect();
    let under = |value, names: &[tilewright::dim::Symbol]| Operand::Value { value, labels: names.to_vec() };
    let square = f.elementwise("square", "mul", [under(x, &all), under(x, &all)])?;
    let sum = f.reduce("square", "sum", under(square, &all), ["e"])?;
    let size = f.cast("size", Operand::Dim(size), DType::F32)?;
    let mean = f.elementwise("mean", "div", [sum.into(), size.into()])?;
    let mean = f.elementwise("mean", "add", [mean.into(), epsilon.into()])?;
    let root = f.elementwise("root", "rsqrt", [mean.into()])?;
    let scaled = f.elementwise("scaled", "mul", [under(x, &all), under(root, &labels(outer))])?;
    f.elementwise("norm", "mul", [under(scaled, &all), under(weight, &labels(&["e"]))])
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
