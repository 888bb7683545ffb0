//! SmolLM2-135M-Instruct against its reference, which was computed in float64 from the same file
//! (`tests/data/smollm2.json`; values to 9 digits). The allowances are ten times what float32 was seen to differ.
//!
//! Without the file (`scripts/fetch_model.sh smollm2`) the tests pass and say so. The whole reference is `make test-models`.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tilewright::{Control, HostTensor, Options};
use tilewright_cpu::Portable;
use tilewright_models::family;
use tilewright_models::gguf::Gguf;
use tilewright_models::session::LanguageModel;

fn file() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = var("TILEWRIGHT_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("tilewright")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/tilewright")));
    let cached = cache.map(|dir| dir.join("SmolLM2-135M-Instruct.Q4_1.gguf"));
    let found = var("TILEWRIGHT_SMOLLM2").or(cached).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: no file; run scripts/fetch_model.sh smollm2");
    }
    found
}

fn reference() -> Value {
    serde_json::from_str(include_str!("data/smollm2.json")).expect("the reference is JSON")
}

fn model(path: PathBuf, options: family::Options) -> LanguageModel {
    let gguf = Gguf::open(path).expect("a right file");
    let compiling = Options { runtime: Arc::new(Portable::detect()), ..Options::default() };
    LanguageModel::load(&gguf, options, &compiling).expect("a model")
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|x| x as u32).collect()
}

/// Compares slice `layer` of a stacked tap, or all of it, with what the reference says of the tensor.
fn compare(name: &str, tensor: &HostTensor, layer: Option<usize>, expected: &Value) {
    let values = tensor.to_f32();
    let slice = values.len() / layer.map_or(1, |_| tensor.extents()[0]);
    let start = layer.unwrap_or(0) * slice;
    let values: Vec<f64> = values[start..start + slice].iter().map(|&x| f64::from(x)).collect();
    let shape = numbers(&expected["shape"]);
    assert_eq!(shape.iter().product::<f64>() as usize, slice, "{name}: the size");
    let l2 = values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let rms = l2 / (slice as f64).sqrt();
    let expected_l2 = expected["l2"].as_f64().unwrap();
    assert!((l2 - expected_l2).abs() <= 3e-5 * expected_l2, "{name}: norm {l2}, expected {expected_l2}");
    let mean = values.iter().sum::<f64>() / slice as f64;
    let expected_mean = expected["mean"].as_f64().unwrap();
    assert!((mean - expected_mean).abs() <= 4e-6 * rms, "{name}: mean {mean}, expected {expected_mean}");
    let last = slice - slice / shape[0] as usize;
    for (key, from) in [("first", 0), ("first_of_last_token", last)] {
        for (k, x) in numbers(&expected[key]).into_iter().enumerate() {
            let found = values[from + k];
            assert!((found - x).abs() <= 5e-5 * rms, "{name}: {key} {k} is {found}, expected {x}");
        }
    }
}

const TAPS: [&str; 7] = [
    "attention_norm",
    "q_after_rope",
    "k_after_rope",
    "v",
    "attention_output",
    "residual_after_attention",
    "ffn_output",
];

fn intermediates(model: &LanguageModel, layers: &[usize], whole: bool) {
    let reference = &reference()["intermediates"];
    let prompt = ids(&reference["ids"]);
    let mut session = model.session(64).unwrap();
    let fed = session.feed_rows(&prompt, &[], &Control::default()).unwrap();
    assert_eq!(fed.taps.len(), TAPS.len() + 1);
    for &layer in layers {
        for (name, tensor) in TAPS.iter().zip(&fed.taps) {
            let place = format!("layer {layer}, {name}");
            compare(&place, tensor, Some(layer), &reference["layers"][layer.to_string()][name]);
        }
    }
    if whole {
        compare("final_norm", &fed.taps[TAPS.len()], None, &reference["final_norm"]);
    }
}

/// Feeds the reference's own tokens, `at_once` of the prompt in the first call, and compares the logits of `steps` steps.
fn prompt(model: &LanguageModel, prompt: &Value, steps: usize, at_once: usize) {
    let control = Control::default();
    let mut session = model.session(1024).unwrap();
    let given = ids(&prompt["ids"]);
    let (first, rest) = given.split_at(at_once.min(given.len()));
    let mut logits = session.feed(first, &control).unwrap();
    if !rest.is_empty() {
        logits = session.feed(rest, &control).unwrap();
    }
    for (k, step) in prompt["steps"].as_array().unwrap().iter().take(steps).enumerate() {
        let name = format!("{}, step {k}", prompt["name"]);
        for pair in step["top"].as_array().unwrap() {
            let (id, expected) = (pair[0].as_u64().unwrap(), pair[1].as_f64().unwrap());
            let found = f64::from(logits[id as usize]);
            assert!((found - expected).abs() <= 3e-4, "{name}: logit {id} is {found}, expected {expected}");
        }
        let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|&x| f64::from(x - greatest).exp()).sum();
        let (sum, expected) = (f64::from(greatest) + sum.ln(), step["log_sum_exp"].as_f64().unwrap());
        assert!((sum - expected).abs() <= 3e-4, "{name}: log-sum-exp {sum}, expected {expected}");
        let id = step["id"].as_u64().unwrap() as u32;
        if step["gap"].as_f64().unwrap() > 3e-4 {
            assert_eq!(logits[id as usize], greatest, "{name}: another token is chosen");
        }
        logits = session.feed(&[id], &control).unwrap();
    }
}

#[test]
fn values_inside_the_first_layer() {
    let Some(path) = file() else { return };
    intermediates(&model(path, family::Options { layers: Some(1), taps: true }), &[0], false);
}

#[test]
#[ignore = "minutes; `make test-models` runs it"]
fn values_inside_the_first_and_the_last_layer() {
    let Some(path) = file() else { return };
    intermediates(&model(path, family::Options { layers: None, taps: true }), &[0, 29], true);
}

#[test]
#[ignore = "minutes; `make test-models` runs it"]
fn every_step_of_every_prompt() {
    let Some(path) = file() else { return };
    let model = model(path, family::Options::default());
    for given in reference()["prompts"].as_array().unwrap() {
        prompt(&model, given, usize::MAX, usize::MAX);
        prompt(&model, given, 2, 3);
    }
}
