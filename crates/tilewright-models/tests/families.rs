//! Every family on a small file with seeded weights, against its definition evaluated plainly in `f64`
//! (`tests/plain`, which shares nothing with the programs): the logits of 8 steps.
//!
//! The logits are of size 1. Float32 was seen to differ by 2e-6; each fault that a definition may have differs by more
//! than a thousand times the allowance.

use std::sync::Arc;

use tilewright::{Control, Options};
use tilewright_cpu::Portable;
use tilewright_models::family;
use tilewright_models::gguf::Gguf;
use tilewright_models::session::LanguageModel;

#[path = "plain/file.rs"]
mod file;
mod plain;

use file::{File, Random};
use plain::{Experts, Gemma, Spec};

const ALLOWED: f64 = 2e-5;
const PROMPT: usize = 5;
const STEPS: usize = 8;

fn base() -> Spec {
    Spec {
        architecture: "llama",
        layers: 3,
        width: 32,
        heads: 6,
        kv_heads: 2,
        head: 16,
        ffn: 64,
        vocabulary: 61,
        base: 10_000.0,
        epsilon: 2f64.powi(-16),
        halves: false,
        biases: false,
        head_norms: false,
        experts: None,
        gemma: None,
    }
}

fn ids(count: usize, vocabulary: usize) -> Vec<u32> {
    let mut random = Random(0x5eed);
    (0..count).map(|_| (random.next() >> 40) as u32 % vocabulary as u32).collect()
}

fn model(file: &File) -> LanguageModel {
    let gguf = Gguf::from_bytes("model.gguf", file.writer.finish()).expect("a right file");
    let compiling = Options { runtime: Arc::new(Portable::detect()), ..Options::default() };
    LanguageModel::load(&gguf, family::Options::default(), &compiling).expect("a model")
}

fn furthest(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
}

/// Compares 8 steps of a model; `wrong` are specs that the same weights must not fit.
fn check(spec: &Spec, output: bool, wrong: &[Spec]) {
    let file = File::new(spec, 0xfeed, output);
    let model = model(&file);
    let ids = ids(PROMPT + STEPS - 1, spec.vocabulary);
    let expected = spec.logits(&file.weights, &ids, STEPS);
    let mut session = model.session(64).expect("a session");
    let mut found = vec![session.feed(&ids[..PROMPT], &Control::default()).expect("logits")];
    for id in &ids[PROMPT..] {
        found.push(session.feed(&[*id], &Control::default()).expect("logits"));
    }
    for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let distance = furthest(found, expected);
        assert!(distance <= ALLOWED, "{}, step {step}: {distance}", spec.architecture);
    }
    let last = found.last().expect("8 steps");
    for spec in wrong {
        let distance = furthest(last, &spec.logits(&file.weights, &ids, 1)[0]);
        assert!(distance > 1000.0 * ALLOWED, "{spec:?} differs by {distance} only");
    }
}

#[test]
fn llama() {
    let right = base();
    let halves = Spec { halves: true, ..right.clone() };
    let rotated_otherwise = Spec { base: 2_000.0, ..right.clone() };
    check(&right, false, &[halves, rotated_otherwise]);
}

#[test]
fn llama_with_experts() {
    let experts = Experts { count: 5, used: 2, normalised: true, shared: None };
    let right = Spec { experts: Some(experts.clone()), ..base() };
    let plain = Spec { experts: Some(Experts { normalised: false, ..experts.clone() }), ..right.clone() };
    let three = Spec { experts: Some(Experts { used: 3, ..experts }), ..right.clone() };
    check(&right, true, &[plain, three]);
}

#[test]
fn qwen2() {
    let right = Spec { architecture: "qwen2", halves: true, biases: true, base: 1e6, ..base() };
    let neighbours = Spec { halves: false, ..right.clone() };
    let unbiased = Spec { biases: false, ..right.clone() };
    check(&right, true, &[neighbours, unbiased]);
}

#[test]
fn qwen3() {
    let right = Spec { architecture: "qwen3", halves: true, head_norms: true, ..base() };
    let without = Spec { head_norms: false, ..right.clone() };
    check(&right, false, &[without]);
}

#[test]
fn qwen2_with_experts() {
    let experts = Experts { count: 8, used: 3, normalised: false, shared: Some(96) };
    let right = Spec {
        architecture: "qwen2moe",
        halves: true,
        biases: true,
        experts: Some(experts.clone()),
        ..base()
    };
    let normalised = Spec { experts: Some(Experts { normalised: true, ..experts.clone() }), ..right.clone() };
    let alone = Spec { experts: Some(Experts { shared: None, ..experts }), ..right.clone() };
    check(&right, true, &[normalised, alone]);
}

#[test]
fn qwen3_with_experts() {
    let experts = Experts { count: 8, used: 1, normalised: true, shared: None };
    let right = Spec {
        architecture: "qwen3moe",
        halves: true,
        head_norms: true,
        experts: Some(experts.clone()),
        ..base()
    };
    let plain = Spec { experts: Some(Experts { normalised: false, ..experts }), ..right.clone() };
    check(&right, false, &[plain]);
}

#[test]
fn gemma2() {
    let gemma = Gemma { window: 4, period: 2, base: 10_000.0, score_cap: Some(3.0), logit_cap: Some(2.0) };
    let right = Spec { architecture: "gemma2", halves: true, gemma: Some(gemma.clone()), ..base() };
    let with = |gemma: Gemma| Spec { gemma: Some(gemma), ..right.clone() };
    let free = with(Gemma { score_cap: None, ..gemma.clone() });
    let unbounded = with(Gemma { logit_cap: None, ..gemma.clone() });
    let narrower = with(Gemma { window: 3, ..gemma.clone() });
    let wider = with(Gemma { window: 5, ..gemma });
    check(&right, false, &[free, unbounded, narrower, wider]);
}

#[test]
fn gemma3() {
    let gemma = Gemma { window: 4, period: 6, base: 10_000.0, score_cap: None, logit_cap: None };
    let right = Spec {
        architecture: "gemma3",
        layers: 7,
        halves: true,
        head_norms: true,
        base: 1e6,
        gemma: Some(gemma.clone()),
        ..base()
    };
    let with = |gemma: Gemma| Spec { gemma: Some(gemma), ..right.clone() };
    let more = with(Gemma { period: 3, ..gemma.clone() });
    let one_base = with(Gemma { base: 1e6, ..gemma.clone() });
    let narrower = with(Gemma { window: 3, ..gemma.clone() });
    let wider = with(Gemma { window: 5, ..gemma });
    check(&right, false, &[more, one_base, narrower, wider]);
}
