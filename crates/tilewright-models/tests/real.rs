//! Real models against their definition, evaluated plainly in `f64` (`tests/plain`) with the numbers of their file: the
//! logits of 8 steps. `make test-models` runs these tests; each names the variable that says where its file is.

use std::path::PathBuf;
use std::sync::Arc;

use tilewright::{Control, Options};
use tilewright_cpu::Portable;
use tilewright_models::family;
use tilewright_models::gguf::Gguf;
use tilewright_models::session::LanguageModel;
use tilewright_models::tokenizer::{self, Tokenizer};

mod plain;

use plain::{Experts, Gemma, Spec, Weights, blocks};

const STEPS: usize = 8;

fn file(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        println!("skipped: {variable} names no file");
    }
    path
}

/// Decodes 8 steps greedily; each logit may differ by `allowed`.
fn check(path: PathBuf, spec: &Spec, text: &str, allowed: f64) {
    let gguf = Gguf::open(path).expect("a right file");
    let tokenizer = Tokenizer::from_gguf(&gguf).expect("a tokenizer");
    let mut ids = tokenizer.encode(text, tokenizer::Options { control: true, boundaries: true }).ids;
    let compiling = Options { runtime: Arc::new(Portable::detect()), ..Options::default() };
    let model = LanguageModel::load(&gguf, family::Options::default(), &compiling).expect("a model");
    let mut session = model.session(64).expect("a session");
    let mut found = vec![session.feed(&ids, &Control::default()).expect("logits")];
    for step in 1..STEPS {
        let logits = &found[step - 1];
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("a vocabulary");
        ids.push(best as u32);
        found.push(session.feed(&[best as u32], &Control::default()).expect("logits"));
    }
    drop(session);
    drop(model);
    let numbers =
        |t: tilewright_models::gguf::Tensor| (t.name.into(), blocks::numbers(t.format.name, t.bytes));
    let weights: Weights = gguf.tensors().map(numbers).collect();
    let mut worst = 0f64;
    for (found, expected) in found.iter().zip(spec.logits(&weights, &ids, STEPS)) {
        assert_eq!((found.len(), expected.len()), (spec.vocabulary, spec.vocabulary));
        let distances = found.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs());
        worst = distances.fold(worst, f64::max);
    }
    println!("{}: {:?}; logits within {worst:e}", spec.architecture, tokenizer.decode(&ids, true));
    assert!(worst <= allowed, "a logit differs by {worst}");
}

#[test]
#[ignore = "minutes; `make test-models` runs it"]
fn gemma_3_270m() {
    let Some(path) = file("TILEWRIGHT_GEMMA3") else { return };
    let spec = Spec {
        architecture: "gemma3",
        layers: 18,
        width: 640,
        heads: 4,
        kv_heads: 1,
        head: 256,
        ffn: 2048,
        vocabulary: 262_144,
        base: 1e6,
        epsilon: f64::from(1e-6f32),
        halves: true,
        biases: false,
        head_norms: true,
        experts: None,
        gemma: Some(Gemma { window: 512, period: 6, base: 1e4, score_cap: None, logit_cap: None }),
    };
    check(path, &spec, "The capital of France is", 1e-3);
}

/// SmolLM2-135M-Instruct, or what `examples/experts.rs` makes of it.
fn smollm2(experts: Option<Experts>) -> Spec {
    Spec {
        architecture: "llama",
        layers: 30,
        width: 576,
        heads: 9,
        kv_heads: 3,
        head: 64,
        ffn: 1536,
        vocabulary: 49_152,
        base: 1e5,
        epsilon: f64::from(1e-5f32),
        halves: false,
        biases: false,
        head_norms: false,
        experts,
        gemma: None,
    }
}

#[test]
#[ignore = "minutes; `make test-models` runs it"]
fn smollm2_135m() {
    let Some(path) = file("TILEWRIGHT_SMOLLM2") else { return };
    check(path, &smollm2(None), "The sky is", 5e-4);
}

#[test]
#[ignore = "minutes; `make test-models` runs it"]
fn smollm2_with_experts() {
    let Some(path) = file("TILEWRIGHT_EXPERTS") else { return };
    let experts = Experts { count: 8, used: 2, normalised: true, shared: None };
    check(path, &smollm2(Some(experts)), "The sky is", 5e-4);
}
