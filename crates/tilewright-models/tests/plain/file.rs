//! GGUF files of models with seeded weights, in several formats. Every weight is an integer in -127..=127 times a power
//! of two, which all of these formats hold exactly.

use super::plain::{Spec, Weights, blocks};
use tilewright_models::gguf::Format;
use tilewright_models::gguf::write::Writer;

/// xorshift64*
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An integer in -127..=127.
    fn small(&mut self) -> i64 {
        (self.next() >> 32) as i64 % 255 - 127
    }
}

fn format(name: &str) -> &'static Format {
    Format::from_name(name).expect("a format")
}

/// `integers · 2^exponent` in a format.
fn bytes(name: &str, integers: &[i64], exponent: i32) -> Vec<u8> {
    let value = |n: &i64| *n as f32 * 2f32.powi(exponent);
    let f16 = |x: f32| half::f16::from_f32(x).to_le_bytes();
    match name {
        "F32" => integers.iter().flat_map(|n| value(n).to_le_bytes()).collect(),
        "F16" => integers.iter().flat_map(|n| f16(value(n))).collect(),
        "BF16" => integers.iter().flat_map(|n| half::bf16::from_f32(value(n)).to_le_bytes()).collect(),
        "Q8_0" => {
            let block = |block: &[i64]| {
                let integers = block.iter().map(|n| *n as u8);
                f16(value(&1)).into_iter().chain(integers).collect::<Vec<u8>>()
            };
            integers.chunks_exact(32).flat_map(block).collect()
        }
        other => panic!("{other}"),
    }
}

/// What a test writes beside the keys of a model.
pub struct File {
    pub writer: Writer,
    pub weights: Weights,
    random: Random,
    written: usize,
}

impl File {
    /// A file of a model. The output matrix is the embedding unless `output`.
    pub fn new(spec: &Spec, seed: u64, output: bool) -> File {
        let mut writer = Writer::new();
        let key = |name: &str| format!("{}.{name}", spec.architecture);
        writer.key("general.architecture", spec.architecture);
        let sizes = [
            ("block_count", spec.layers),
            ("embedding_length", spec.width),
            ("attention.head_count", spec.heads),
            ("attention.head_count_kv", spec.kv_heads),
            ("attention.key_length", spec.head),
            ("feed_forward_length", spec.ffn),
            ("context_length", 4096),
        ];
        for (name, size) in sizes {
            writer.key(&key(name), size as u32);
        }
        writer.key(&key("attention.layer_norm_rms_epsilon"), spec.epsilon as f32);
        writer.key(&key("rope.freq_base"), spec.base as f32);
        if let Some(gemma) = &spec.gemma {
            writer.key(&key("attention.sliding_window"), gemma.window as u32);
            writer.key(&key("attn_logit_softcapping"), gemma.score_cap.unwrap_or(0.0) as f32);
            writer.key(&key("final_logit_softcapping"), gemma.logit_cap.unwrap_or(0.0) as f32);
        }
        if let Some(experts) = &spec.experts {
            writer.key(&key("expert_count"), experts.count as u32);
            writer.key(&key("expert_used_count"), experts.used as u32);
            writer.key(&key("expert_feed_forward_length"), spec.ffn as u32);
            if let Some(shared) = experts.shared {
                writer.key(&key("expert_shared_feed_forward_length"), shared as u32);
            }
        }
        let mut file = File { writer, weights: Weights::new(), random: Random(seed), written: 0 };
        file.model(spec, output);
        file
    }

    fn model(&mut self, spec: &Spec, output: bool) {
        let Spec { width, head, ffn, .. } = *spec;
        let (queries, keys) = (spec.heads * head, spec.kv_heads * head);
        self.matrix("token_embd.weight", &[spec.vocabulary, width]);
        self.norm("output_norm.weight", width);
        if output {
            self.matrix("output.weight", &[spec.vocabulary, width]);
        }
        for layer in 0..spec.layers {
            let name = |tensor: &str| format!("blk.{layer}.{tensor}");
            self.norm(&name("attn_norm.weight"), width);
            self.norm(&name("ffn_norm.weight"), width);
            for (tensor, rows) in [("attn_q", queries), ("attn_k", keys), ("attn_v", keys)] {
                self.matrix(&name(&format!("{tensor}.weight")), &[rows, width]);
                if spec.biases {
                    self.tensor(&name(&format!("{tensor}.bias")), "F32", &[rows], -8, 0.0);
                }
            }
            self.matrix(&name("attn_output.weight"), &[width, queries]);
            if spec.head_norms {
                self.norm(&name("attn_q_norm.weight"), head);
                self.norm(&name("attn_k_norm.weight"), head);
            }
            if spec.gemma.is_some() {
                self.norm(&name("post_attention_norm.weight"), width);
                self.norm(&name("post_ffw_norm.weight"), width);
            }
            match &spec.experts {
                None => {
                    self.matrix(&name("ffn_gate.weight"), &[ffn, width]);
                    self.matrix(&name("ffn_up.weight"), &[ffn, width]);
                    self.matrix(&name("ffn_down.weight"), &[width, ffn]);
                }
                Some(experts) => {
                    self.matrix(&name("ffn_gate_inp.weight"), &[experts.count, width]);
                    self.matrix(&name("ffn_gate_exps.weight"), &[experts.count, ffn, width]);
                    self.matrix(&name("ffn_up_exps.weight"), &[experts.count, ffn, width]);
                    self.matrix(&name("ffn_down_exps.weight"), &[experts.count, width, ffn]);
                    if let Some(shared) = experts.shared {
                        self.tensor(&name("ffn_gate_inp_shexp.weight"), "F32", &[width], -9, 0.0);
                        self.matrix(&name("ffn_gate_shexp.weight"), &[shared, width]);
                        self.matrix(&name("ffn_up_shexp.weight"), &[shared, width]);
                        self.matrix(&name("ffn_down_shexp.weight"), &[width, shared]);
                    }
                }
            }
        }
    }

    /// A matrix in one format after the other.
    fn matrix(&mut self, name: &str, shape: &[usize]) {
        let row = shape.last().copied().unwrap_or(1);
        let formats = ["F32", "Q8_0", "BF16", "F16"];
        let format = formats[self.written % 4];
        self.written += 1;
        let format = if format == "Q8_0" && !row.is_multiple_of(32) { "F16" } else { format };
        self.tensor(name, format, shape, -9, 0.0);
    }

    /// A weight near 1 for each element.
    fn norm(&mut self, name: &str, size: usize) {
        self.tensor(name, "F32", &[size], -9, 1.0);
    }

    fn tensor(&mut self, name: &str, kind: &str, shape: &[usize], exponent: i32, offset: f32) {
        let count = shape.iter().product();
        let integers: Vec<i64> = (0..count).map(|_| self.random.small()).collect();
        let bytes = match offset {
            0.0 => bytes(kind, &integers, exponent),
            _ => {
                let value = |n: &i64| *n as f32 * 2f32.powi(exponent) + offset;
                integers.iter().flat_map(|n| value(n).to_le_bytes()).collect()
            }
        };
        let values = match kind {
            "BF16" => integers.iter().map(|n| *n as f64 * 2f64.powi(exponent)).collect(),
            _ => blocks::numbers(kind, &bytes),
        };
        let extents: Vec<u64> = shape.iter().rev().map(|&n| n as u64).collect();
        self.writer.tensor(name, format(kind), &extents, bytes);
        self.weights.insert(name.to_string(), values);
    }
}
