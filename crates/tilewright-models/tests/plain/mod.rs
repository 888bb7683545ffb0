//! Language models as their definitions say, in `f64`: whole sequences, no cache, one loop for each sum. Nothing here is
//! shared with the programs that it checks. Weights are by their name in a GGUF file.

pub mod blocks;

use std::collections::BTreeMap;

/// What a model is made of.
#[derive(Clone, Debug)]
pub struct Spec {
    pub architecture: &'static str,
    pub layers: usize,
    pub width: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head: usize,
    pub ffn: usize,
    pub vocabulary: usize,
    pub base: f64,
    /// What is added to a mean square.
    pub epsilon: f64,
    /// Pairs are `i` and `i + head / 2`, not neighbours.
    pub halves: bool,
    pub biases: bool,
    pub head_norms: bool,
    pub experts: Option<Experts>,
    pub gemma: Option<Gemma>,
}

#[derive(Clone, Debug)]
pub struct Experts {
    pub count: usize,
    pub used: usize,
    pub normalised: bool,
    pub shared: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Gemma {
    pub window: usize,
    /// Every layer of this number sees all tokens; the others have a window.
    pub period: usize,
    /// The base of the rotation in layers with a window.
    pub base: f64,
    pub score_cap: Option<f64>,
    pub logit_cap: Option<f64>,
}

pub type Weights = BTreeMap<String, Vec<f64>>;

/// `w x`, where `w` has one row for each result.
fn times(w: &[f64], x: &[f64]) -> Vec<f64> {
    w.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
}

fn norm(x: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().zip(weight).map(|(x, w)| x / (mean + epsilon).sqrt() * w).collect()
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let greatest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let parts: Vec<f64> = x.iter().map(|x| (x - greatest).exp()).collect();
    let whole: f64 = parts.iter().sum();
    parts.iter().map(|part| part / whole).collect()
}

fn capped(x: f64, cap: Option<f64>) -> f64 {
    cap.map_or(x, |cap| cap * (x / cap).tanh())
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Spec {
    /// The logits after each of the last `steps` tokens of a sequence.
    pub fn logits(&self, weights: &Weights, ids: &[u32], steps: usize) -> Vec<Vec<f64>> {
        let w = |name: &str| weights[name].as_slice();
        let row = |id: &u32| w("token_embd.weight")[*id as usize * self.width..][..self.width].to_vec();
        let mut x: Vec<Vec<f64>> = ids.iter().map(row).collect();
        if self.gemma.is_some() {
            let root = (self.width as f64).sqrt();
            x.iter_mut().flatten().for_each(|x| *x *= root);
        }
        for layer in 0..self.layers {
            x = self.layer(weights, layer, &x);
        }
        let output =
            if weights.contains_key("output.weight") { "output.weight" } else { "token_embd.weight" };
        let cap = self.gemma.as_ref().and_then(|gemma| gemma.logit_cap);
        x[ids.len() - steps..]
            .iter()
            .map(|x| times(w(output), &norm(x, w("output_norm.weight"), self.epsilon)))
            .map(|logits| logits.into_iter().map(|logit| capped(logit, cap)).collect())
            .collect()
    }

    fn layer(&self, weights: &Weights, layer: usize, x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let w = |name: &str| weights[&format!("blk.{layer}.{name}")].as_slice();
        let linear = |name: &str, x: &[f64]| {
            let y = times(w(&format!("{name}.weight")), x);
            let bias = weights.get(&format!("blk.{layer}.{name}.bias")).filter(|_| self.biases);
            bias.map_or(y.clone(), |bias| add(&y, bias))
        };
        let heads = |x: &[f64]| -> Vec<Vec<f64>> { x.chunks_exact(self.head).map(<[f64]>::to_vec).collect() };
        let windowed = self.gemma.as_ref().filter(|gemma| !(layer + 1).is_multiple_of(gemma.period));
        let base = windowed.map_or(self.base, |gemma| gemma.base);
        let turned = |name: &str, x: &[f64], position: usize| -> Vec<Vec<f64>> {
            let heads = heads(&linear(name, x));
            let normed = heads.into_iter().map(|head| match self.head_norms {
                true => norm(&head, w(&format!("{name}_norm.weight")), self.epsilon),
                false => head,
            });
            normed.map(|head| self.turn(&head, position, base)).collect()
        };
        let normed: Vec<Vec<f64>> = x.iter().map(|x| norm(x, w("attn_norm.weight"), self.epsilon)).collect();
        let keys: Vec<_> = normed.iter().enumerate().map(|(p, x)| turned("attn_k", x, p)).collect();
        let values: Vec<_> = normed.iter().map(|x| heads(&linear("attn_v", x))).collect();
        let mut result = Vec::new();
        for (p, x) in x.iter().enumerate() {
            let first = windowed.map_or(0, |gemma| (p + 1).saturating_sub(gemma.window));
            let mut mixed = Vec::new();
            for (h, query) in turned("attn_q", &normed[p], p).iter().enumerate() {
                let own = h / (self.heads / self.kv_heads);
                let score = |key: &Vec<Vec<f64>>| {
                    let product: f64 = query.iter().zip(&key[own]).map(|(a, b)| a * b).sum();
                    let cap = self.gemma.as_ref().and_then(|gemma| gemma.score_cap);
                    capped(product / (self.head as f64).sqrt(), cap)
                };
                let share = softmax(&keys[first..=p].iter().map(score).collect::<Vec<_>>());
                for k in 0..self.head {
                    mixed.push(share.iter().zip(&values[first..]).map(|(s, v)| s * v[own][k]).sum());
                }
            }
            let mut attended = linear("attn_output", &mixed);
            if self.gemma.is_some() {
                attended = norm(&attended, w("post_attention_norm.weight"), self.epsilon);
            }
            let x = add(x, &attended);
            let normed = norm(&x, w("ffn_norm.weight"), self.epsilon);
            let mut inner = match &self.experts {
                None => self.gated(w("ffn_gate.weight"), w("ffn_up.weight"), w("ffn_down.weight"), &normed),
                Some(experts) => self.experts(experts, &w, &normed),
            };
            if self.gemma.is_some() {
                inner = norm(&inner, w("post_ffw_norm.weight"), self.epsilon);
            }
            result.push(add(&x, &inner));
        }
        result
    }

    /// A head at a position.
    fn turn(&self, head: &[f64], position: usize, base: f64) -> Vec<f64> {
        let mut result = head.to_vec();
        let half = head.len() / 2;
        for pair in 0..half {
            let (a, b) = if self.halves { (pair, pair + half) } else { (2 * pair, 2 * pair + 1) };
            let angle = position as f64 * base.powf(-2.0 * pair as f64 / head.len() as f64);
            result[a] = head[a] * angle.cos() - head[b] * angle.sin();
            result[b] = head[a] * angle.sin() + head[b] * angle.cos();
        }
        result
    }

    fn gated(&self, gate: &[f64], up: &[f64], down: &[f64], x: &[f64]) -> Vec<f64> {
        let open = |x: f64| match self.gemma {
            None => x * sigmoid(x),
            Some(_) => {
                let curve = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                x / 2.0 * (1.0 + curve.tanh())
            }
        };
        let (gate, up) = (times(gate, x), times(up, x));
        let inner: Vec<f64> = gate.iter().zip(&up).map(|(gate, up)| open(*gate) * up).collect();
        times(down, &inner)
    }

    fn experts<'w>(&self, experts: &Experts, w: &dyn Fn(&str) -> &'w [f64], x: &[f64]) -> Vec<f64> {
        let chance = softmax(&times(w("ffn_gate_inp.weight"), x));
        let mut order: Vec<usize> = (0..experts.count).collect();
        order.sort_by(|&a, &b| chance[b].total_cmp(&chance[a]).then(a.cmp(&b)));
        order.truncate(experts.used);
        let whole = if experts.normalised { order.iter().map(|&e| chance[e]).sum() } else { 1.0 };
        let mut result = vec![0.0; self.width];
        let each = self.width * self.ffn;
        for e in order {
            let part = |name: &str| &w(name)[e * each..][..each];
            let [gate, up, down] =
                ["ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"].map(part);
            let served = self.gated(gate, up, down, x);
            result.iter_mut().zip(served).for_each(|(sum, y)| *sum += chance[e] / whole * y);
        }
        if experts.shared.is_some() {
            let share = sigmoid(times(w("ffn_gate_inp_shexp.weight"), x)[0]);
            let [gate, up, down] =
                ["ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight"].map(w);
            let served = self.gated(gate, up, down, x);
            result.iter_mut().zip(served).for_each(|(sum, y)| *sum += share * y);
        }
        result
    }
}
