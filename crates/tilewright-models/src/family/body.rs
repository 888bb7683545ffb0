//! What layers are made of: norms and projections here, attention and feed-forward parts in files of their own.
//!
//! A [`Body`] is the function of one layer in the making. Activations are `f32[t: T, ·]`.

use std::collections::BTreeMap;

use tilewright::dim::Dim;
use tilewright::tensor::build::FunctionBuilder;
use tilewright::tensor::infer::{Problem, Reason};
use tilewright::tensor::{DType, Operand, ValueId};

use super::hyper::Hyper;
use super::program::labels;

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

/// `cap · tanh(x / cap)`; `x` where there is no cap.
pub fn soft_cap(f: &mut FunctionBuilder, x: ValueId, cap: Option<f64>) -> Result<ValueId, Problem> {
    let Some(cap) = cap else { return Ok(x) };
    let ratio = f.elementwise("ratio", "div", [x.into(), cap.into()])?;
    let curve = f.elementwise("curve", "tanh", [ratio.into()])?;
    f.elementwise("capped", "mul", [curve.into(), cap.into()])
}
