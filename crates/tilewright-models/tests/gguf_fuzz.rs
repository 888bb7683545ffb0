//! Mutated GGUF files: each is read or refused with a reason, without panic, and within the memory allowed.
//!
//! `TILEWRIGHT_GGUF_FILES` sets the number of files (20,000 otherwise).

use tilewright_models::gguf::write::{Owned, Writer};
use tilewright_models::gguf::{FORMATS, Gguf, Subject, Value, ValueType};
use tilewright_models::tokenizer::{Options, Tokenizer};

mod counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Right files of several kinds, and how many of their bytes are headers.
fn seeds() -> Vec<(Vec<u8>, usize)> {
    let letters: Vec<String> =
        (b'a'..=b'z').map(|b| char::from(b).to_string()).chain(["ab".into(), "abc".into()]).collect();
    let mut bpe = Writer::new();
    bpe.key("general.architecture", "llama").key("tokenizer.ggml.model", "gpt2");
    bpe.key("tokenizer.ggml.pre", "smollm").key("tokenizer.ggml.tokens", letters.as_slice());
    bpe.key("tokenizer.ggml.merges", ["a b", "ab c"].as_slice()).key("tokenizer.ggml.bos_token_id", 3);
    bpe.key("tokenizer.ggml.token_type", vec![1; 28].as_slice()).key("llama.rope.freq_base", 1e5);
    for f in &FORMATS {
        let (elements, _) = f.block();
        let size = f.tensor_bytes(&[elements, 2]).expect("a size");
        bpe.tensor(f.name, f, &[elements, 2], vec![7; size as usize]);
    }
    bpe.tensor("empty", &FORMATS[0], &[0, 3], vec![]);

    let mut spm = Writer::new();
    spm.key("general.alignment", 64).key("tokenizer.ggml.model", "llama");
    spm.key("tokenizer.ggml.tokens", ["<unk>", "<0x0A>", "▁", "a", "▁a", "  "].as_slice());
    spm.key("tokenizer.ggml.scores", [0.0, 0.0, -1.0, -2.0, -3.0, 0.0].as_slice());
    spm.key("tokenizer.ggml.token_type", [2, 6, 1, 1, 5, 4].as_slice());
    spm.tensor("a", &FORMATS[0], &[4, 4, 2, 1], vec![1; 128]);
    spm.tensor("b", &FORMATS[0], &[], vec![1; 4]);

    let array = |values: Vec<Owned>| Owned::Array(values[0].value_type(), values);
    let scalars = [
        Owned::U8(1),
        Owned::I8(1),
        Owned::U16(1),
        Owned::I16(1),
        Owned::U32(1),
        Owned::I32(1),
        Owned::U64(1),
    ]
    .into_iter()
    .chain([
        Owned::I64(1),
        Owned::F32(1.0),
        Owned::F64(1.0),
        Owned::Bool(true),
        Owned::String("s".into()),
    ]);
    let mut types = Writer::new();
    for (index, value) in scalars.enumerate() {
        types.key(&format!("scalar {index}"), value.clone());
        types.key(&format!("array {index}"), array(vec![value.clone(); 3]));
        types.key(&format!("nested {index}"), array(vec![array(vec![value; 2]); 2]));
    }
    types.key("none", Owned::Array(ValueType::String, vec![]));
    let headers = |file: &[u8], data: usize| file.len() - data;
    let (bpe, spm, types) = (bpe.finish(), spm.finish(), types.finish());
    let sizes = [headers(&bpe, 2048), headers(&spm, 192), types.len()];
    [bpe, spm, types].into_iter().zip(sizes).collect()
}

/// A mutated file.
fn mutate(seeds: &[(Vec<u8>, usize)], random: &mut Random) -> Vec<u8> {
    let (seed, headers) = &seeds[random.below(seeds.len())];
    let mut file = seed.clone();
    for _ in 0..1 + random.below(3) {
        let anywhere = random.below(file.len());
        let at = if random.below(8) == 0 { anywhere } else { random.below((*headers).min(file.len())) };
        match random.below(9) {
            0 => file.truncate(at),
            1 => {
                if let Some(byte) = file.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2 => {
                if let Some(byte) = file.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            3 | 4 => {
                let (len, near) = (file.len() as u64, random.below(64) as u64);
                let absurd = [
                    0,
                    1,
                    near,
                    len,
                    len - near.min(len),
                    1 << 31,
                    1 << 32,
                    1 << 62,
                    1 << 63,
                    u64::MAX - near,
                ];
                put(&mut file, at, &absurd[random.below(absurd.len())].to_le_bytes());
            }
            5 => {
                let small = [0, 1, 8, 9, 13, u32::MAX, random.below(64) as u32, 1 << 20];
                put(&mut file, at, &small[random.below(small.len())].to_le_bytes());
            }
            6 => {
                let length = random.below(40);
                let part: Vec<u8> = file.iter().skip(anywhere).take(length).copied().collect();
                put(&mut file, at, &part);
            }
            7 => {
                let part: Vec<u8> = (0..random.below(16)).map(|_| random.next() as u8).collect();
                let at = at.min(file.len());
                file.splice(at..at, part);
            }
            _ => {
                let end = (at + random.below(16)).min(file.len());
                file.drain(at.min(end)..end);
            }
        }
        if file.is_empty() {
            break;
        }
    }
    file
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in file.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

fn walk(value: Value) -> usize {
    match value {
        Value::Array(array) => {
            let walked: Vec<_> = array.values().map(walk).collect();
            assert_eq!(walked.len(), array.len());
            walked.iter().sum()
        }
        Value::String(text) => text.bytes.len(),
        _ => 1,
    }
}

#[test]
fn mutated_files_are_read_or_refused() {
    let count = std::env::var("TILEWRIGHT_GGUF_FILES").ok().map_or(20_000, |n| n.parse().expect("a number"));
    let seeds = seeds();
    for (seed, _) in &seeds {
        assert!(Gguf::from_bytes("seed", seed.clone()).is_ok());
    }
    let (mut read, mut tokenizers, mut worst) = (0, 0, 0);
    for index in 0..count {
        let file = mutate(&seeds, &mut Random(0x9e37_79b9_7f4a_7c15 ^ (index + 1) << 20));
        let size = file.len();
        let copy = file.clone();
        let before = counting::begin();
        let result = Gguf::from_bytes("m.gguf", file);
        let used = counting::peak_since(before);
        worst = worst.max(used);
        assert!(used <= 2 * size + (64 << 20), "file {index} of {size} bytes: {used} bytes allocated");
        match result {
            Ok(gguf) => {
                read += 1;
                assert!(gguf.metadata().map(|(key, value)| key.len() + walk(value)).sum::<usize>() <= size);
                for t in gguf.tensors() {
                    assert_eq!(t.bytes, &copy[t.offset as usize..][..t.bytes.len()]);
                    assert_eq!(Ok(t.bytes.len() as u64), t.format.tensor_bytes(t.extents));
                    assert_eq!(gguf.tensor(t.name).map(|found| found.offset), Some(t.offset));
                }
                match Tokenizer::from_gguf(&gguf) {
                    Ok(tokenizer) => {
                        tokenizers += 1;
                        let ids =
                            tokenizer.encode("abc a  \n漢", Options { control: true, boundaries: true }).ids;
                        assert!(tokenizer.decode(&ids, true).is_ok());
                    }
                    Err(error) => check(&error, size),
                }
            }
            Err(error) => check(&error, size),
        }
    }
    println!(
        "{count} files: {read} read, {} refused, {tokenizers} tokenizers; at most {worst} bytes",
        count - read
    );
    assert!(read > count / 50 && read < count, "mutations are too weak or too strong");
}

/// An error names header, key or tensor, a byte of the file, and a reason.
fn check(error: &tilewright_models::gguf::Error, size: usize) {
    let text = error.to_string();
    assert!(text.starts_with("m.gguf: ") && text.contains(&format!(", byte {}: ", error.offset)), "{text}");
    assert!(error.offset <= size as u64 && !error.reason.is_empty() && text.len() < 1000, "{text}");
    match &error.subject {
        Subject::Key(name) | Subject::Tensor(name) => {
            assert!(text.contains(name) && !name.is_empty(), "{text}")
        }
        Subject::Header => assert!(text.contains("header"), "{text}"),
        Subject::File => panic!("{text}"),
    }
}
