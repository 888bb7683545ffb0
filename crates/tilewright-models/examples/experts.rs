//! Makes a model with experts from a Llama model: each feed-forward part is copied into 8 experts, whose blocks get a
//! small seeded noise, and a random router chooses 2 of them for each token. For tests: there is no small trained model
//! with experts.
//!
//! ```text
//! cargo run --release -p tilewright-models --example experts -- SmolLM2-135M-Instruct.Q4_1.gguf experts.gguf
//! ```
//!
//! The feed-forward parts must be stored as Q4_1: one nibble in eight goes one step up or down, where it can.

use std::process::ExitCode;

use tilewright_models::gguf::write::{Owned, Writer};
use tilewright_models::gguf::{Format, Gguf, Tensor, Value};

const EXPERTS: u64 = 8;
const USED: u32 = 2;
/// Of a Q4_1 block: two numbers of 2 bytes, then nibbles.
const BLOCK: usize = 20;

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Evenly in -1..1.
    fn even(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

fn owned(value: Value<'_>) -> Option<Owned> {
    Some(match value {
        Value::U8(x) => Owned::U8(x),
        Value::I8(x) => Owned::I8(x),
        Value::U16(x) => Owned::U16(x),
        Value::I16(x) => Owned::I16(x),
        Value::U32(x) => Owned::U32(x),
        Value::I32(x) => Owned::I32(x),
        Value::U64(x) => Owned::U64(x),
        Value::I64(x) => Owned::I64(x),
        Value::F32(x) => Owned::F32(x),
        Value::F64(x) => Owned::F64(x),
        Value::Bool(x) => Owned::Bool(x),
        Value::String(text) => Owned::String(String::from_utf8(text.bytes.to_vec()).ok()?),
        Value::Array(array) => {
            Owned::Array(array.element(), array.values().map(owned).collect::<Option<_>>()?)
        }
    })
}

/// The experts of a tensor, one behind the other.
fn copies(tensor: &Tensor<'_>, random: &mut Random) -> Vec<u8> {
    let mut all = Vec::with_capacity(tensor.bytes.len() * EXPERTS as usize);
    for _ in 0..EXPERTS {
        for block in tensor.bytes.chunks_exact(BLOCK) {
            let (scales, nibbles) = block.split_at(4);
            all.extend_from_slice(scales);
            for byte in nibbles {
                let bits = random.next();
                let moved = |nibble: u8, bits: u64| match bits & 15 {
                    0 => nibble.saturating_sub(1),
                    1 => (nibble + 1).min(15),
                    _ => nibble,
                };
                all.push(moved(byte & 15, bits >> 32) | moved(byte >> 4, bits >> 48) << 4);
            }
        }
    }
    all
}

fn make(from: &str, to: &str) -> Result<String, String> {
    let gguf = Gguf::open(from).map_err(|error| error.to_string())?;
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata() {
        writer.key(key, owned(value).ok_or_else(|| format!("{key} is no text"))?);
    }
    writer.key("llama.expert_count", EXPERTS as u32).key("llama.expert_used_count", USED);
    let plain = Format::from_name("F32").ok_or("F32 is a format")?;
    let mut random = Random(0x0e4b_e475);
    let mut routers = 0;
    for tensor in gguf.tensors() {
        let part = ["ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"];
        let Some(part) = part.iter().find(|part| tensor.name.ends_with(*part)) else {
            writer.tensor(tensor.name, tensor.format, tensor.extents, tensor.bytes.to_vec());
            continue;
        };
        if tensor.format.name != "Q4_1" {
            return Err(format!("{} is {}, and Q4_1 is needed", tensor.name, tensor.format.name));
        }
        let layer = tensor.name.trim_end_matches(part);
        let expert = part.replace(".weight", "_exps.weight");
        let extents: Vec<u64> = tensor.extents.iter().copied().chain([EXPERTS]).collect();
        let bytes = copies(&tensor, &mut random);
        writer.tensor(&format!("{layer}{expert}"), tensor.format, &extents, bytes);
        if *part == "ffn_gate.weight" {
            let width = tensor.extents.first().copied().unwrap_or(0);
            let router = (0..width * EXPERTS).flat_map(|_| (random.even() * 0.2).to_le_bytes()).collect();
            writer.tensor(&format!("{layer}ffn_gate_inp.weight"), plain, &[width, EXPERTS], router);
            routers += 1;
        }
    }
    let bytes = writer.finish();
    std::fs::write(to, &bytes).map_err(|error| format!("{to}: {error}"))?;
    Ok(format!("{to}: {routers} layers of {EXPERTS} experts, {} bytes", bytes.len()))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else {
        eprintln!("usage: experts MODEL.gguf RESULT.gguf");
        return ExitCode::from(2);
    };
    match make(from, to) {
        Ok(done) => {
            println!("{done}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
