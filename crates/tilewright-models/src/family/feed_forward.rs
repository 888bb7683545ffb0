//! Feed-forward parts: a gated one, and experts of which a router chooses some for each token.

use tilewright::dim::Dim;
use tilewright::tensor::infer::{Problem, Reason};
use tilewright::tensor::{Attribute, Operand, ValueId};

use super::body::Body;
use super::hyper::{Experts, Hyper};
use super::program::{axes, labels};
use super::weights::Layer;

/// What the gate goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// `x / 2 · (1 + tanh(sqrt(2 / π) · (x + 0.044715 x³)))`, the usual approximation of GELU.
    Gelu,
}

/// The tensors of the feed-forward part behind its norm.
pub fn tensors(hyper: &Hyper) -> Vec<Layer> {
    let mut list = vec![Layer::new("ffn_norm.weight", &[("d", "D")])];
    match &hyper.experts {
        None => list.extend([
            Layer::new("ffn_gate.weight", &[("f", "F"), ("d", "D")]),
            Layer::new("ffn_up.weight", &[("f", "F"), ("d", "D")]),
            Layer::new("ffn_down.weight", &[("d", "D"), ("f", "F")]),
        ]),
        Some(experts) => {
            list.extend([
                Layer::new("ffn_gate_inp.weight", &[("e", "E"), ("d", "D")]),
                Layer::new("ffn_gate_exps.weight", &[("e", "E"), ("f", "F"), ("d", "D")]),
                Layer::new("ffn_up_exps.weight", &[("e", "E"), ("f", "F"), ("d", "D")]),
                Layer::new("ffn_down_exps.weight", &[("e", "E"), ("d", "D"), ("f", "F")]),
            ]);
            if experts.shared.is_some() {
                list.extend([
                    Layer::new("ffn_gate_inp_shexp.weight", &[("d", "D")]),
                    Layer::new("ffn_gate_shexp.weight", &[("f", "S"), ("d", "D")]),
                    Layer::new("ffn_up_shexp.weight", &[("f", "S"), ("d", "D")]),
                    Layer::new("ffn_down_shexp.weight", &[("d", "D"), ("f", "S")]),
                ]);
            }
        }
    }
    list
}

impl Body<'_> {
    /// The feed-forward part of `[t, d]` behind its norm, back to `[t, d]`.
    pub fn feed_forward(&mut self, x: ValueId, activation: Activation) -> Result<ValueId, Problem> {
        let normed = self.norm(x, "ffn_norm")?;
        let inner = match self.hyper.experts.clone() {
            None => self.gated(normed, "", activation)?,
            Some(experts) => self.experts(normed, &experts, activation)?,
        };
        self.tap("ffn_output", inner);
        Ok(inner)
    }

    /// `down(activation(gate x) · up x)` by the weights `ffn_gate`, `ffn_up` and `ffn_down` with this ending.
    fn gated(&mut self, x: ValueId, ending: &str, activation: Activation) -> Result<ValueId, Problem> {
        let gate = self.linear(x, &format!("ffn_gate{ending}"), "f")?;
        let up = self.linear(x, &format!("ffn_up{ending}"), "f")?;
        let inner = self.gate(gate, up, activation)?;
        self.linear(inner, &format!("ffn_down{ending}"), "d")
    }

    /// `activation(gate) · up`, of one shape.
    fn gate(&mut self, gate: ValueId, up: ValueId, activation: Activation) -> Result<ValueId, Problem> {
        let f = &mut self.f;
        let open = match activation {
            Activation::Silu => {
                let part = f.elementwise("open", "sigmoid", [gate.into()])?;
                f.elementwise("open", "mul", [gate.into(), part.into()])?
            }
            Activation::Gelu => {
                let square = f.elementwise("square", "mul", [gate.into(), gate.into()])?;
                let cube = f.elementwise("cube", "mul", [square.into(), gate.into()])?;
                let cube = f.elementwise("cube", "mul", [cube.into(), 0.044715.into()])?;
                let bent = f.elementwise("bent", "add", [gate.into(), cube.into()])?;
                let root = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
                let bent = f.elementwise("bent", "mul", [bent.into(), root.into()])?;
                let curve = f.elementwise("curve", "tanh", [bent.into()])?;
                let part = f.elementwise("part", "add", [curve.into(), 1.0.into()])?;
                let half = f.elementwise("half", "mul", [gate.into(), 0.5.into()])?;
                f.elementwise("open", "mul", [half.into(), part.into()])?
            }
        };
        f.elementwise("inner", "mul", [open.into(), up.into()])
    }

    /// The sum of the chosen experts of each token by their shares, and of the one that serves all.
    fn experts(&mut self, x: ValueId, experts: &Experts, activation: Activation) -> Result<ValueId, Problem> {
        let logits = self.linear(x, "ffn_gate_inp", "e")?;
        let [share, chosen] = self.route(logits, experts.normalised)?;
        let f = &mut self.f;
        // Pairs of token and expert, sorted by expert.
        let pairs = || Some(axes(&[("r", "T*A")]));
        let keys = f.special("keys", "reshape", [chosen.into()], vec![], pairs())?;
        let shares = f.special("shares", "reshape", [share.into()], vec![], pairs())?;
        let sorted = f.specials(
            &["order", "begin"],
            "group",
            [keys.into()],
            vec![Attribute::Dim(Dim::symbol("E"))],
            None,
        )?;
        let [order, begin] = sorted.as_slice() else {
            return Err(Problem::new(Reason::Count, "a grouping has an order and offsets".to_string()));
        };
        let begin = f.values().get(begin.0 as usize).map(|value| value.name.to_string()).unwrap_or_default();
        let token = f.elementwise("token", "div", [(*order).into(), Dim::symbol("A").into()])?;
        let operands = [f.at(x, ["t", "d"]), f.at(token, ["r"])];
        let sorted = f.special("sorted", "gather", operands, vec![over("t")], None)?;
        let own = format!("{begin}[e + 1] - {begin}[e]");
        let parts = axes(&[("e", "E"), ("r", &own), ("d", "D")]);
        let rows = f.special("routed", "ragged", [sorted.into()], vec![], Some(parts))?;
        let gate = self.each_expert(rows, "ffn_gate_exps", "f")?;
        let up = self.each_expert(rows, "ffn_up_exps", "f")?;
        let inner = self.gate(gate, up, activation)?;
        let served = self.each_expert(inner, "ffn_down_exps", "d")?;
        let f = &mut self.f;
        let flat = axes(&[("r", "T*A"), ("d", "D")]);
        let flat = f.special("flat", "packed", [served.into()], vec![], Some(flat))?;
        let operands = [f.at(shares, ["q"]), f.at(*order, ["r"])];
        let share = f.special("own", "gather", operands, vec![over("q")], None)?;
        let operands = [f.at(flat, ["r", "d"]), f.at(share, ["r"])];
        let weighted = f.elementwise("weighted", "mul", operands)?;
        let operands = [f.at(weighted, ["r", "d"]), f.at(token, ["r"])];
        let attributes = vec![over("r"), Attribute::Dim(Dim::symbol("T"))];
        let sum =
            f.special("served", "scatter_add", operands, attributes, Some(axes(&[("t", "T"), ("d", "D")])))?;
        match experts.shared {
            None => Ok(sum),
            Some(_) => {
                let shared = self.shared_expert(x, activation)?;
                self.add(sum, shared)
            }
        }
    }

    /// The shares `[t, a]` of the experts that serve each token, and which they are: the greatest of a softmax.
    fn route(&mut self, logits: ValueId, normalised: bool) -> Result<[ValueId; 2], Problem> {
        let f = &mut self.f;
        let chance = softmax(f, logits, "t", "e")?;
        let attributes = vec![over("e"), Attribute::Dim(Dim::symbol("A"))];
        let to = || axes(&[("t", "T"), ("a", "A")]);
        let best = f.specials(
            &["top", "chosen"],
            "topk",
            [f.at(chance, ["t", "e"])],
            attributes,
            Some(vec![to(), to()]),
        )?;
        let [top, chosen] = best.as_slice() else {
            return Err(Problem::new(Reason::Count, "topk has values and indices".to_string()));
        };
        if !normalised {
            return Ok([*top, *chosen]);
        }
        let whole = f.reduce("shares", "sum", f.at(*top, ["t", "a"]), ["a"])?;
        let operands = [f.at(*top, ["t", "a"]), f.at(whole, ["t"])];
        Ok([f.elementwise("share", "div", operands)?, *chosen])
    }

    /// The rows `[e, r, ·]` of each expert by its weight; the result's last axis is `axis`.
    fn each_expert(&mut self, rows: ValueId, weight: &str, axis: &str) -> Result<ValueId, Problem> {
        let w = self.get(weight)?;
        let operands = [self.f.at(rows, ["e", "r", "i"]), self.f.at(w, ["e", "o", "i"])];
        self.f.contract(weight, operands, ["e", "r", &format!("{axis}: o")])
    }

    /// The expert that serves every token, by the share `sigmoid(router · x)`.
    fn shared_expert(&mut self, x: ValueId, activation: Activation) -> Result<ValueId, Problem> {
        let inner = self.gated(x, "_shexp", activation)?;
        let router = self.get("ffn_gate_inp_shexp")?;
        let f = &mut self.f;
        let operands = [f.at(x, ["t", "d"]), f.at(router, ["d"])];
        let logit = f.contract("shared", operands, ["t"])?;
        let share = f.elementwise("shared", "sigmoid", [logit.into()])?;
        let operands = [f.at(inner, ["t", "d"]), f.at(share, ["t"])];
        f.elementwise("shared", "mul", operands)
    }
}

/// The softmax of a value under these two labels over the second.
fn softmax(
    f: &mut tilewright::tensor::build::FunctionBuilder,
    x: ValueId,
    outer: &str,
    inner: &str,
) -> Result<ValueId, Problem> {
    let all = [outer, inner];
    let greatest = f.reduce("greatest", "max", f.at(x, all), [inner])?;
    let operands = [f.at(x, all), f.at(greatest, [outer])];
    let distance = f.elementwise("distance", "sub", operands)?;
    let part = f.elementwise("part", "exp", [Operand::from(distance)])?;
    let whole = f.reduce("whole", "sum", f.at(part, all), [inner])?;
    let operands = [f.at(part, all), f.at(whole, [outer])];
    f.elementwise("chance", "div", operands)
}

fn over(label: &str) -> Attribute {
    Attribute::Labels(labels(&[label]))
}
