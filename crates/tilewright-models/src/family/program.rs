//! The program around the layers: embedding, angles, `repeat`, the last norm and the logits.

use std::collections::BTreeMap;

use tilewright::dim::{Dim, Facts, Symbol};
use tilewright::tensor::build::{FunctionBuilder, ProgramBuilder};
use tilewright::tensor::infer::Problem;
use tilewright::tensor::{
    Attribute, Axis, DType, FunctionId, ParamKind, RepeatArgument, RepeatResult, Scalar, TensorType, ValueId,
};

use super::body::{Body, rms_norm, soft_cap};
use super::hyper::Hyper;
use super::weights::{self, Parts};
use super::{Definition, Error, Family, Options};
use crate::gguf::Gguf;

/// The largest prompt, batch and cache of a program.
const MOST_TOKENS: i64 = 1 << 20;

/// Axes from names and extents, which are expressions of sizes.
pub fn axes(list: &[(&str, &str)]) -> Vec<Axis> {
    let axis = |(name, extent): &(&str, &str)| Axis {
        name: Symbol::new(name),
        extent: extent.parse().unwrap_or_else(|_| Dim::symbol(*extent)),
    };
    list.iter().map(axis).collect()
}

/// Labels of these names.
pub fn labels(names: &[&str]) -> Vec<Symbol> {
    names.iter().map(|name| Symbol::new(name)).collect()
}

fn tensor(dtype: DType, list: &[(&str, &str)]) -> TensorType {
    TensorType { dtype, axes: axes(list) }
}

/// The cosines and sines of tokens: one table, or one of each rotation.
fn turns(hyper: &Hyper) -> TensorType {
    let one = [("t", "T"), ("k", "K")];
    match hyper.window {
        None => tensor(DType::F32, &one),
        Some(_) => tensor(DType::F32, &[&[("z", "2")], one.as_slice()].concat()),
    }
}

/// What every layer is given beside its input and weights.
fn surroundings(hyper: &Hyper) -> Vec<(&'static str, TensorType)> {
    vec![
        ("off", tensor(DType::I32, &[("e", "B + 1")])),
        ("pos", tensor(DType::I32, &[("b", "B")])),
        ("slot", tensor(DType::I32, &[("b", "B"), ("i", "N")])),
        ("partner", tensor(DType::I32, &[("k", "K")])),
        ("cosine", turns(hyper)),
        ("sine", turns(hyper)),
    ]
}

/// What layers differ in beside their weights: how many tokens they see, and which of two rotations they have.
fn differences(hyper: &Hyper) -> Vec<(&'static str, TensorType, Vec<i64>)> {
    let Some(window) = &hyper.window else { return Vec::new() };
    let each = |holds: i64, otherwise: i64| {
        (0..hyper.layers).map(|layer| if window.holds(layer) { holds } else { otherwise }).collect()
    };
    vec![
        ("window", tensor(DType::I32, &[("w", "1")]), each(window.size, MOST_TOKENS + 1)),
        ("rotation", tensor(DType::I32, &[]), each(1, 0)),
    ]
}

const CACHE: [(&str, &str); 4] = [("b", "B"), ("c", "C"), ("h", "H"), ("k", "K")];

fn facts(hyper: &Hyper) -> Result<Facts, tilewright::text::Error> {
    let Hyper { layers, width, kv_heads, group, head, ffn, vocabulary, .. } = hyper;
    let mut own = String::new();
    if let Some(experts) = &hyper.experts {
        own += &format!(", E = {}, A = {}", experts.count, experts.used);
        own += &experts.shared.map(|shared| format!(", S = {shared}")).unwrap_or_default();
    }
    if hyper.window.is_some() {
        own += &format!(", window elements 1..={}, rotation elements 0..=1", MOST_TOKENS + 1);
    }
    format!(
        "T in 0..={MOST_TOKENS}, B in 1..={MOST_TOKENS}, N in 0..={MOST_TOKENS}, R in 0..={MOST_TOKENS}, \
         C in 0..={MOST_TOKENS}, V = {vocabulary}, D = {width}, H = {kv_heads}, G = {group}, K = {head}, \
         F = {ffn}, L = {layers}, off splits T over B, pos elements 0..=C, ids elements 0..=V - 1, \
         slot elements -1..=T - 1, rows elements 0..=T - 1{own}"
    )
    .parse()
}

/// The definition of a file.
pub(super) fn build(
    gguf: &Gguf,
    family: &Family,
    hyper: Hyper,
    options: Options,
) -> Result<Definition, Error> {
    let bug = |message: String| Error::Bug { family: family.architecture.to_string(), message };
    let facts = facts(&hyper).map_err(|error| bug(error.to_string()))?;
    let shape = |own: &[Axis]| -> Vec<i64> {
        let extent = |axis: &Axis| {
            let sizes = |symbol: &Symbol| facts.range(symbol).map(|(lo, _)| lo);
            let env: BTreeMap<Symbol, i64> =
                axis.extent.symbols().into_iter().filter_map(|s| Some((s.clone(), sizes(&s)?))).collect();
            axis.extent.eval(&env).unwrap_or(0)
        };
        own.iter().map(extent).collect()
    };
    let mut stacks = Vec::new();
    for layer in (family.tensors)(&hyper) {
        let own = axes(layer.axes);
        let shape = shape(&own);
        stacks.extend(Parts::stack(gguf, &layer, hyper.layers, own, &shape)?);
    }
    let single = |name: &str, file: &str, list: &[(&str, &str)]| {
        let own = axes(list);
        let shape = shape(&own);
        Parts::single(gguf, name, file, own, &shape)
    };
    let missing = |name: &str| gguf.tensor_error(name, "the file lacks it");
    let embedding = single("token_embd", "token_embd.weight", &[("v", "V"), ("d", "D")])?
        .ok_or_else(|| missing("token_embd.weight"))?;
    let norm = single("output_norm", "output_norm.weight", &[("d", "D")])?
        .ok_or_else(|| missing("output_norm.weight"))?;
    let output = single("output", "output.weight", &[("v", "V"), ("d", "D")])?;
    let parts = Whole { family, hyper: &hyper, options, facts, stacks, embedding, norm, output };
    let (program, taps) = parts.program().map_err(|problem| bug(problem.to_string()))?;
    let Whole { stacks, embedding, norm, output, .. } = parts;
    let all = stacks.into_iter().chain([embedding, norm]).chain(output);
    Ok(Definition { program, taps, weights: all.flat_map(Parts::into_weights).collect(), hyper })
}

struct Whole<'a> {
    family: &'a Family,
    hyper: &'a Hyper,
    options: Options,
    facts: Facts,
    stacks: Vec<Parts>,
    embedding: Parts,
    norm: Parts,
    /// The output matrix, where it is not the embedding.
    output: Option<Parts>,
}

impl Whole<'_> {
    fn program(&self) -> Result<(tilewright::tensor::Program, Vec<String>), Problem> {
        let mut program = ProgramBuilder::new(self.facts.clone());
        let (layer, taps) = self.layer(&program)?;
        let layer = program.function(layer)?;
        let main = self.main(&program, layer, taps.len())?;
        program.function(main)?;
        Ok((program.finish()?, taps))
    }

    /// The function of a layer, and the names of its taps.
    fn layer(
        &self,
        program: &ProgramBuilder,
    ) -> Result<(tilewright::tensor::Function, Vec<String>), Problem> {
        let mut f = program.start("layer");
        let input = f.param("x", tensor(DType::F32, &[("t", "T"), ("d", "D")]), ParamKind::Input)?;
        let mut given = BTreeMap::new();
        for (name, ty) in surroundings(self.hyper) {
            given.insert(name.to_string(), f.param(name, ty, ParamKind::Input)?);
        }
        for name in ["k_cache", "v_cache"] {
            given.insert(name.to_string(), f.param(name, tensor(DType::F32, &CACHE), ParamKind::Input)?);
        }
        for (name, ty, _) in differences(self.hyper) {
            given.insert(name.to_string(), f.param(name, ty, ParamKind::Input)?);
        }
        for stack in &self.stacks {
            let own = stack.axes().iter().skip(1).cloned().collect();
            let ty = TensorType { dtype: DType::F32, axes: own };
            given.insert(stack.name().to_string(), f.param(stack.name(), ty, ParamKind::Input)?);
        }
        let mut body = Body { f, hyper: self.hyper, input, given, caches: None, taps: Vec::new() };
        let result = (self.family.layer)(&mut body)?;
        let Body { f, caches, taps, .. } = body;
        let mut results = vec![result];
        results.extend(caches.into_iter().flatten());
        let taps = if self.options.taps { taps } else { Vec::new() };
        results.extend(taps.iter().map(|(_, value)| *value));
        Ok((f.finish(&results)?, taps.iter().map(|(name, _)| name.to_string()).collect()))
    }

    fn main(
        &self,
        program: &ProgramBuilder,
        layer: FunctionId,
        taps: usize,
    ) -> Result<tilewright::tensor::Function, Problem> {
        let mut f = program.start("language_model");
        let mut param =
            |name: &str, list: &[(&str, &str)], kind| f.param(name, tensor(DType::I32, list), kind);
        let ids = param("ids", &[("t", "T")], ParamKind::Input)?;
        let position = param("position", &[("t", "T")], ParamKind::Input)?;
        let off = param("off", &[("e", "B + 1")], ParamKind::Plan)?;
        let pos = param("pos", &[("b", "B")], ParamKind::Plan)?;
        let slot = param("slot", &[("b", "B"), ("i", "N")], ParamKind::Plan)?;
        let rows = param("rows", &[("r", "R")], ParamKind::Plan)?;
        let cache: Vec<(&str, &str)> = [("l", "L")].into_iter().chain(CACHE).collect();
        let k_cache = f.param("k_cache", tensor(DType::F32, &cache), ParamKind::State)?;
        let v_cache = f.param("v_cache", tensor(DType::F32, &cache), ParamKind::State)?;
        let declared: Vec<Vec<ValueId>> =
            self.stacks.iter().map(|stack| stack.declare(&mut f)).collect::<Result<_, _>>()?;
        let embedding = self.embedding.declare(&mut f)?;
        let norm = self.norm.declare(&mut f)?;
        let output = self.output.as_ref().map(|parts| parts.declare(&mut f)).transpose()?;

        let stacks = self.stacks.iter().zip(&declared);
        let stacks: Vec<ValueId> =
            stacks.map(|(stack, params)| stack.decode(&mut f, params)).collect::<Result<_, _>>()?;
        let norm = self.norm.decode(&mut f, &norm)?;
        let matrix = match (&self.output, &output) {
            (Some(parts), Some(params)) => parts.decode(&mut f, params)?,
            _ => self.embedding.decode(&mut f, &embedding)?,
        };
        let x = self.embed(&mut f, &embedding, ids)?;
        let [partner, cosine, sine] = self.angles(&mut f, position)?;

        let shared = [off, pos, slot, partner, cosine, sine];
        let mut arguments = vec![(x, RepeatArgument::Carried { name: Symbol::new("h") })];
        arguments.extend(shared.into_iter().map(|value| (value, RepeatArgument::Shared)));
        let mut differing = Vec::new();
        for (name, ty, values) in differences(self.hyper) {
            let values = values.into_iter().map(Scalar::Int).collect();
            let list = vec![Attribute::Scalars(values), Attribute::DType(ty.dtype)];
            let stack = |own: Vec<Axis>| axes(&[("l", "L")]).into_iter().chain(own).collect();
            differing.push(if ty.axes.is_empty() {
                f.special(name, "const", [], list, Some(stack(Vec::new())))?
            } else {
                let of_layers = f.special("of_layers", "const", [], list, Some(stack(Vec::new())))?;
                f.special(name, "reshape", [of_layers.into()], vec![], Some(stack(ty.axes)))?
            });
        }
        let sliced = [k_cache, v_cache].into_iter().chain(differing).chain(stacks);
        arguments.extend(sliced.map(|value| (value, RepeatArgument::Sliced)));
        let mut results = vec![RepeatResult::Carried(0), RepeatResult::Stacked, RepeatResult::Stacked];
        results.extend(vec![RepeatResult::Stacked; taps]);
        let mut names = vec!["hidden", "k_cache_after", "v_cache_after"];
        names.extend(vec!["tap"; taps]);
        let unique: Vec<String> = (names.iter().enumerate())
            .map(|(k, name)| if k < 3 { name.to_string() } else { format!("{name}_{}", k - 3) })
            .collect();
        let names: Vec<&str> = unique.iter().map(String::as_str).collect();
        let layers = f.repeat(&names, ("l", Dim::symbol("L")), layer, &arguments, &results)?;
        let (Some(&hidden), Some(rest)) = (layers.first(), layers.get(1..)) else {
            return Err(Problem::new(
                tilewright::tensor::infer::Reason::Count,
                "the layers give nothing".to_string(),
            ));
        };

        let normed = rms_norm(&mut f, hidden, norm, &["t"], self.hyper.epsilon)?;
        let operands = [f.at(normed, ["t", "d"]), f.at(rows, ["r"])];
        let chosen = f.special("chosen", "gather", operands, vec![over("t")], None)?;
        let operands = [f.at(chosen, ["r", "d"]), f.at(matrix, ["v", "d"])];
        let logits = f.contract("logits", operands, ["r", "v"])?;
        let logits = soft_cap(&mut f, logits, self.hyper.logit_cap)?;
        let mut results = vec![logits];
        results.extend(rest);
        if self.options.taps {
            results.push(normed);
        }
        f.finish(&results)
    }

    /// The embeddings of the tokens: stored rows are chosen first and decoded then.
    fn embed(&self, f: &mut FunctionBuilder, params: &[ValueId], ids: ValueId) -> Result<ValueId, Problem> {
        let (Some(&stored), Some(format)) = (params.first(), self.embedding.format()) else {
            return Err(Problem::new(
                tilewright::tensor::infer::Reason::Count,
                "the embedding has one part".to_string(),
            ));
        };
        let operands = [f.at(stored, ["v", "d"]), f.at(ids, ["t"])];
        let rows = f.special("embedded", "gather", operands, vec![over("v")], None)?;
        let rows = weights::decode(f, "embedded", rows, format)?;
        match self.hyper.embedding_scale {
            Some(scale) => f.elementwise("embedded", "mul", [rows.into(), scale.into()]),
            None => Ok(rows),
        }
    }

    /// The partner of each element of a head, and cosine and sine of the angle for each token, in f64 until the end.
    fn angles(&self, f: &mut FunctionBuilder, position: ValueId) -> Result<[ValueId; 3], Problem> {
        let head = self.hyper.head;
        let table = self.hyper.rope.table(head);
        let list = |values: Vec<Scalar>, dtype| vec![Attribute::Scalars(values), Attribute::DType(dtype)];
        let partners = list(table.iter().map(|(_, k)| Scalar::Int(*k)).collect(), DType::I32);
        let partner = f.special("partner", "const", [], partners, Some(axes(&[("k", "K")])))?;
        let mut angles: Vec<Scalar> = table.iter().map(|(angle, _)| Scalar::Float(*angle)).collect();
        let mut all = vec!["t", "k"];
        if let Some(window) = &self.hyper.window {
            angles.extend(window.rope.table(head).iter().map(|(angle, _)| Scalar::Float(*angle)));
            all.insert(0, "z");
        }
        let count = angles.len().to_string();
        let mut angle =
            f.special("angle", "const", [], list(angles, DType::F64), Some(axes(&[("k", &count)])))?;
        if self.hyper.window.is_some() {
            angle =
                f.special("angle", "reshape", [angle.into()], vec![], Some(axes(&[("z", "2"), ("k", "K")])))?;
        }
        let position = f.cast("position_f64", position, DType::F64)?;
        let operands = [f.at(position, ["t"]), angle.into()];
        let angle = f.elementwise_to("angle", "mul", operands, all)?;
        let cosine = f.elementwise("cosine", "cos", [angle.into()])?;
        let sine = f.elementwise("sine", "sin", [angle.into()])?;
        Ok([partner, f.cast("cosine", cosine, DType::F32)?, f.cast("sine", sine, DType::F32)?])
    }
}

fn over(label: &str) -> Attribute {
    Attribute::Labels(labels(&[label]))
}
