//! One compile serves every prompt and every step: the number of compiles is counted in the process, so that this file
//! has one test.

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
use plain::{Gemma, Spec};

const DECODE: usize = 64;
const ALLOWED: f64 = 2e-5;

fn furthest(found: &[f32], expected: impl IntoIterator<Item = f64>) -> f64 {
    found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
}

#[test]
fn one_compile_serves_every_prompt_and_every_step() {
    let spec = Spec {
        architecture: "gemma3",
        layers: 2,
        width: 32,
        heads: 2,
        kv_heads: 1,
        head: 16,
        ffn: 32,
        vocabulary: 40,
        base: 1e6,
        epsilon: 2f64.powi(-16),
        halves: true,
        biases: false,
        head_norms: true,
        experts: None,
        // With two layers, the period of six leaves both with a window.
        gemma: Some(Gemma { window: 100, period: 6, base: 1e4, score_cap: None, logit_cap: Some(2.0) }),
    };
    let file = File::new(&spec, 0xca5e, true);
    let gguf = Gguf::from_bytes("model.gguf", file.writer.finish()).expect("a right file");
    let compiling = Options { runtime: Arc::new(Portable::detect()), ..Options::default() };
    let model = LanguageModel::load(&gguf, family::Options::default(), &compiling).expect("a model");
    let control = Control::default();
    let mut random = Random(7);
    for prompt in [1, 2, 7, 128, 1000] {
        let ids: Vec<u32> = (0..prompt + DECODE).map(|_| (random.next() >> 40) as u32 % 40).collect();
        let mut session = model.session(2048).expect("a session");
        let mut found = vec![session.feed(&ids[..prompt], &control).expect("logits")];
        for id in &ids[prompt..] {
            found.push(session.feed(&[*id], &control).expect("logits"));
        }
        let expected = spec.logits(&file.weights, &ids, DECODE + 1);
        for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
            let distance = furthest(found, expected);
            assert!(distance <= ALLOWED, "prompt of {prompt}, step {step}: {distance}");
        }
        // The prompt in two parts, the second behind a cache of the first.
        for first in [1, 3, prompt / 2] {
            if first == 0 || first >= prompt {
                continue;
            }
            session.clear();
            session.feed(&ids[..first], &control).expect("logits");
            let parts = session.feed(&ids[first..prompt], &control).expect("logits");
            let distance = furthest(&parts, found[0].iter().map(|&x| f64::from(x)));
            assert!(distance <= 1e-6, "prompt of {prompt} in two parts, {first} first: {distance}");
        }
    }
    assert_eq!(tilewright::compile::compiles(), 1);
}
