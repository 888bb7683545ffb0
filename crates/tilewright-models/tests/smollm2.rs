//! SmolLM2-135M-Instruct from its file to the tokens of a conversation and back.
//!
//! The file is that of `TILEWRIGHT_SMOLLM2`, or the one that `scripts/fetch_model.sh smollm2` brings; without it the test passes
//! and says so. The expected tokens are those of the Python package `tokenizers`.

use std::path::PathBuf;

use tilewright_models::chat::{ChatTemplate, Message, Request};
use tilewright_models::gguf::Gguf;
use tilewright_models::tokenizer::{Options, Tokenizer};

fn file() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = var("TILEWRIGHT_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("tilewright")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/tilewright")));
    let cached = cache.map(|dir| dir.join("SmolLM2-135M-Instruct.Q4_1.gguf"));
    var("TILEWRIGHT_SMOLLM2").or(cached).filter(|path| path.exists())
}

#[test]
fn from_a_conversation_to_tokens() {
    let Some(path) = file() else {
        println!("skipped: no file; run scripts/fetch_model.sh smollm2");
        return;
    };
    let gguf = Gguf::open(&path).expect("a right file");
    assert_eq!(gguf.str("general.architecture").unwrap(), Some("llama"));
    assert_eq!((gguf.tensors().len(), gguf.metadata().count()), (272, 33));
    assert_eq!(gguf.uint("llama.block_count").unwrap(), Some(30));
    let embedding = gguf.tensor("token_embd.weight").unwrap();
    assert_eq!((embedding.format.name, embedding.shape()), ("Q8_0", vec![49152, 576]));
    let down = gguf.tensor("blk.29.ffn_down.weight").unwrap();
    assert_eq!((down.format.name, down.shape()), ("Q4_1", vec![576, 1536]));

    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let template = ChatTemplate::from_gguf(&gguf, &tokenizer).unwrap().expect("a template");
    let question = "What is the capital of France, and which river runs through it?";
    let request = Request { answer: true, ..Request::default() };
    let text = template.render(&[Message::new("user", question)], &request).unwrap();
    let options = Options { control: true, boundaries: true };
    let ids = tokenizer.encode(&text, options).ids;
    let expected = [
        1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712,
        8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 28, 284, 527, 4626, 7313, 738, 357, 47,
        2, 198, 1, 520, 9531, 198,
    ];
    assert_eq!(ids, expected);
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
    assert_eq!(tokenizer.encode("The sky is", options).ids, [504, 6376, 314]);
    let plain = tokenizer.encode("The water boils at a temperature of about", options).ids;
    assert_eq!(plain, [504, 913, 36411, 418, 253, 2779, 282, 563]);
    assert_eq!(tokenizer.ends().iter().copied().collect::<Vec<_>>(), [0, 2]);
}
