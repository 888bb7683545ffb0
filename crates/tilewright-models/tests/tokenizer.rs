//! Tokenizers with small vocabularies made by hand.

use tilewright_models::gguf::Gguf;
use tilewright_models::gguf::write::{Owned, Writer};
use tilewright_models::tokenizer::{Kind, Options, Tokenizer};

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER: i32 = 4;
const BYTE: i32 = 6;

/// A byte-level vocabulary: the bytes of `Ġ`, letters and a few signs, then results of merges, then special tokens.
fn bpe(pre: &str, merges: &[&str], special: &[(&str, i32)]) -> Writer {
    let mut tokens: Vec<String> =
        "abcdefghijklmnopqrstuvwxyzAB0123456789.,!'<|>_ĠĊÃ©ð".chars().map(String::from).collect();
    tokens.extend(["Ł", "ĺ", "Ģ"].map(String::from));
    let mut kinds = vec![NORMAL; tokens.len()];
    for merge in merges {
        tokens.push(merge.replacen(' ', "", 1));
        kinds.push(NORMAL);
    }
    for (text, kind) in special {
        tokens.push(text.to_string());
        kinds.push(*kind);
    }
    let mut writer = Writer::new();
    writer.key("tokenizer.ggml.model", "gpt2").key("tokenizer.ggml.pre", pre);
    writer.key("tokenizer.ggml.tokens", tokens.as_slice()).key("tokenizer.ggml.token_type", kinds.as_slice());
    writer.key("tokenizer.ggml.merges", merges);
    writer
}

/// A SentencePiece vocabulary of tokens with score and kind.
fn spm(tokens: &[(&str, f32, i32)], prefix: bool) -> Writer {
    let texts: Vec<&str> = tokens.iter().map(|t| t.0).collect();
    let scores: Vec<f32> = tokens.iter().map(|t| t.1).collect();
    let kinds: Vec<i32> = tokens.iter().map(|t| t.2).collect();
    let mut writer = Writer::new();
    writer.key("tokenizer.ggml.model", "llama").key("tokenizer.ggml.tokens", texts.as_slice());
    writer.key("tokenizer.ggml.scores", scores.as_slice()).key("tokenizer.ggml.token_type", kinds.as_slice());
    writer.key("tokenizer.ggml.add_space_prefix", prefix);
    writer.key("tokenizer.ggml.unknown_token_id", 0);
    writer
}

fn tokenizer(writer: &Writer) -> Result<Tokenizer, String> {
    let gguf = Gguf::from_bytes("v.gguf", writer.finish()).map_err(|e| e.to_string())?;
    Tokenizer::from_gguf(&gguf).map_err(|e| e.to_string())
}

/// The texts of the tokens of a text, joined by spaces.
fn tokens(tokenizer: &Tokenizer, text: &str, options: Options) -> String {
    let encoding = tokenizer.encode(text, options);
    let texts: Vec<_> = encoding.ids.iter().map(|&id| tokenizer.text(id).unwrap()).collect();
    texts.join(" ")
}

const PLAIN: Options = Options { control: false, boundaries: false };
const CONTROLS: Options = Options { control: true, boundaries: false };
const BOUNDARIES: Options = Options { control: false, boundaries: true };

#[test]
fn merges_go_by_rank() {
    let t = tokenizer(&bpe("gpt-2", &["b c", "a b", "ab c", "Ġ abc"], &[])).unwrap();
    assert_eq!(tokens(&t, "abc ab", PLAIN), "a bc Ġ ab");
    assert_eq!(tokens(&t, "ababc", PLAIN), "ab a bc");
    let t = tokenizer(&bpe("gpt-2", &["a b", "ab c", "Ġ abc", "b c"], &[])).unwrap();
    assert_eq!(tokens(&t, "abc abc abbc", PLAIN), "abc Ġabc Ġ ab bc");
    let t = tokenizer(&bpe("gpt-2", &["a a", "aa aa"], &[])).unwrap();
    assert_eq!(tokens(&t, "aaaaaaa", PLAIN), "aaaa aa a");
    assert_eq!(t.encode("", PLAIN).ids, []);
}

#[test]
fn long_runs_take_no_longer() {
    let t = tokenizer(&bpe("gpt-2", &["a a", "aa aa", "aaaa aaaa"], &[])).unwrap();
    let ids = t.encode(&"a".repeat(400_000), PLAIN).ids;
    assert_eq!((ids.len(), t.text(ids[0])), (50_000, Some("aaaaaaaa")));
    assert_eq!(t.encode(&" a".repeat(200_000), PLAIN).ids.len(), 400_000);
    assert_eq!(t.encode(&" ".repeat(400_000), PLAIN).ids.len(), 400_000);
}

#[test]
fn whole_pieces_of_llama() {
    // `abc` cannot be reached by merges.
    let special = [("abc", NORMAL), ("ab", CONTROL)];
    let t = tokenizer(&bpe("llama-bpe", &["b c"], &special)).unwrap();
    assert_eq!(tokens(&t, "abc.ab", PLAIN), "abc . a b");
    let t = tokenizer(&bpe("qwen2", &["b c"], &special)).unwrap();
    assert_eq!(tokens(&t, "abc.ab", PLAIN), "a bc . a b");
}

#[test]
fn composition_of_qwen() {
    let t = tokenizer(&bpe("qwen2", &["Ã ©"], &[])).unwrap();
    assert_eq!(tokens(&t, "e\u{301}é", PLAIN), "Ã© Ã©");
    let t = tokenizer(&bpe("gpt-2", &["Ã ©"], &[])).unwrap();
    assert_eq!(t.encode("e\u{301}", PLAIN).dropped, 2);
    assert_eq!(tokens(&t, "é", PLAIN), "Ã©");
}

#[test]
fn special_tokens() {
    let special = [("<|a|>", CONTROL), ("<|a|>b", CONTROL), ("<b>", USER), ("<unk>", 2)];
    let t = tokenizer(&bpe("gpt-2", &[], &special)).unwrap();
    assert_eq!(tokens(&t, "x<|a|>y<b>z", PLAIN), "x < | a | > y <b> z");
    assert_eq!(tokens(&t, "x<|a|>y<b>z<unk>", CONTROLS), "x <|a|> y <b> z <unk>");
    assert_eq!(tokens(&t, "<|a|>b<|<|a|>", CONTROLS), "<|a|>b < | <|a|>");
    assert_eq!(t.kind(t.id("<b>").unwrap()), Some(Kind::UserDefined));
}

#[test]
fn boundaries() {
    let ends = [("<s>", CONTROL), ("<e>", CONTROL), ("<|im_end|>", CONTROL)];
    let with = |pre: &str, bos: Option<bool>, eos: Option<bool>| {
        let mut writer = bpe(pre, &[], &ends);
        let first = 54;
        writer.key("tokenizer.ggml.bos_token_id", first).key("tokenizer.ggml.eos_token_id", first + 1);
        if let Some(bos) = bos {
            writer.key("tokenizer.ggml.add_bos_token", bos);
        }
        if let Some(eos) = eos {
            writer.key("tokenizer.ggml.add_eos_token", eos);
        }
        tokenizer(&writer).unwrap()
    };
    assert_eq!(tokens(&with("gpt-2", None, None), "a", BOUNDARIES), "a");
    assert_eq!(tokens(&with("llama-bpe", None, None), "a", BOUNDARIES), "<s> a");
    assert_eq!(tokens(&with("llama-bpe", Some(false), None), "a", BOUNDARIES), "a");
    assert_eq!(tokens(&with("gpt-2", Some(true), Some(true)), "a", BOUNDARIES), "<s> a <e>");
    assert_eq!(tokens(&with("gpt-2", Some(true), Some(true)), "a", PLAIN), "a");
    let both = Options { control: true, boundaries: true };
    assert_eq!(tokens(&with("gpt-2", Some(true), Some(true)), "<s>a<e>", both), "<s> a <e>");
    assert_eq!(tokens(&with("gpt-2", Some(true), None), "", BOUNDARIES), "<s>");
    let t = with("gpt-2", None, None);
    let names: Vec<_> = t.ends().iter().map(|&id| t.text(id).unwrap()).collect();
    assert_eq!(names, ["<e>", "<|im_end|>"]);
}

#[test]
fn bytes_that_no_token_has() {
    let t = tokenizer(&bpe("gpt-2", &["a b"], &[])).unwrap();
    // What is left merges as if it were not there.
    assert_eq!((tokens(&t, "aZb", PLAIN).as_str(), t.encode("aZb", PLAIN).dropped), ("ab", 1));
    let encoding = t.encode("a\u{7}", PLAIN);
    assert_eq!((encoding.ids.len(), encoding.dropped), (1, 1));
}

/// The Llama 2 kind of vocabulary.
fn llama2() -> Vec<(&'static str, f32, i32)> {
    let mut tokens = vec![("<unk>", 0.0, 2), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)];
    tokens.extend(["<0x0A>", "<0xE2>", "<0x82>", "<0xAC>", "<0xC3>"].map(|text| (text, 0.0, BYTE)));
    tokens.extend([
        ("he", -1.0, NORMAL),
        ("ll", -2.0, NORMAL),
        ("hell", -3.0, NORMAL),
        ("hello", -4.0, NORMAL),
    ]);
    tokens.extend([
        ("▁hello", -5.0, NORMAL),
        ("el", -0.5, NORMAL),
        ("▁▁", -6.0, NORMAL),
        ("lo", -1.5, NORMAL),
    ]);
    tokens.extend(["h", "e", "l", "o", "▁", "s", "<", ">", "/"].map(|text| (text, -9.0, NORMAL)));
    tokens
}

#[test]
fn sentencepiece_merges_by_score() {
    let t = tokenizer(&spm(&llama2(), true)).unwrap();
    assert_eq!(tokens(&t, "hello", PLAIN), "▁ h el lo");
    assert_eq!(tokens(&t, "hell  o", PLAIN), "▁ h el l ▁▁ o");
    assert_eq!(tokens(&t, "", PLAIN), "");
    let mut without_el = llama2();
    without_el.retain(|t| t.0 != "el" && t.0 != "lo");
    let t = tokenizer(&spm(&without_el, true)).unwrap();
    assert_eq!(tokens(&t, "hello hello", PLAIN), "▁hello ▁hello");
    let t = tokenizer(&spm(&without_el, false)).unwrap();
    assert_eq!(tokens(&t, "hello hello", PLAIN), "hello ▁hello");
    let ids = t.encode(&"hello ".repeat(50_000), PLAIN).ids;
    assert_eq!(ids.len(), 50_001);
}

#[test]
fn sentencepiece_bytes_and_unknown() {
    let t = tokenizer(&spm(&llama2(), false)).unwrap();
    assert_eq!(tokens(&t, "€\n", PLAIN), "<0xE2> <0x82> <0xAC> <0x0A>");
    let encoding = t.encode("oÄ漢o", PLAIN);
    assert_eq!((tokens(&t, "oÄ漢o", PLAIN).as_str(), encoding.dropped), ("o <unk> o", 5));
    assert_eq!(tokens(&t, "<s>", PLAIN), "< s >");
    assert_eq!(tokens(&t, "<0x0A>", PLAIN).split(' ').next(), Some("<"));
}

#[test]
fn sentencepiece_prefix_and_special_tokens() {
    let mut vocabulary = llama2();
    vocabulary.push(("  ", -1.0, USER));
    let mut writer = spm(&vocabulary, true);
    writer.key("tokenizer.ggml.bos_token_id", 1).key("tokenizer.ggml.eos_token_id", 2);
    let t = tokenizer(&writer).unwrap();
    assert_eq!(tokens(&t, "o</s>o", CONTROLS), "▁ o </s> ▁ o");
    assert_eq!(tokens(&t, "o", BOUNDARIES), "<s> ▁ o");
    assert_eq!(t.ends().iter().copied().collect::<Vec<_>>(), [2]);
    let t = tokenizer(&spm(&vocabulary, false)).unwrap();
    assert_eq!(tokens(&t, "o  o▁▁o o", PLAIN), "o    o    o ▁ o");
}

#[test]
fn unused_tokens_are_taken_apart() {
    let mut vocabulary = llama2();
    vocabulary.retain(|t| t.0 != "el" && t.0 != "lo");
    for token in &mut vocabulary {
        if token.0 == "hell" || token.0 == "ll" {
            token.2 = 5;
        }
    }
    let t = tokenizer(&spm(&vocabulary, false)).unwrap();
    assert_eq!(tokens(&t, "hell hello", PLAIN), "he l l ▁hello");
}

#[test]
fn decoding() {
    let t = tokenizer(&bpe("gpt-2", &["a b", "Ġ ab"], &[("<|c|>", CONTROL), ("<Ġ>", USER)])).unwrap();
    for text in ["", "ab ab\nab", "é😀é", " a<Ġ> b"] {
        assert_eq!(t.decode(&t.encode(text, CONTROLS).ids, true).unwrap(), text);
    }
    let ids = t.encode("a<|c|>b", CONTROLS).ids;
    assert_eq!(t.decode(&ids, true).unwrap(), "a<|c|>b");
    assert_eq!(t.decode(&ids, false).unwrap(), "ab");
    let error = t.decode(&[0, 1000], true).unwrap_err();
    assert_eq!(error.to_string(), format!("token 1000 is not in the vocabulary of {} tokens", t.len()));
}

#[test]
fn a_stream_never_yields_half_a_character() {
    let t = tokenizer(&bpe("gpt-2", &[], &[])).unwrap();
    let ids = t.encode("a😀é", PLAIN).ids;
    let mut decoder = t.decoder(false, true);
    let parts: Vec<String> = ids.iter().map(|&id| decoder.push(id).unwrap()).collect();
    assert_eq!(parts, ["a", "", "", "", "😀", "", "é"]);
    assert_eq!(decoder.finish(), "");

    // Every sequence of four tokens gives what the bytes give together.
    let some: Vec<u32> = ["a", "ð", "Ł", "ĺ", "Ģ", "Ã", "©"].iter().map(|text| t.id(text).unwrap()).collect();
    let bytes = [b'a', 0xf0, 0x9f, 0x98, 0x80, 0xc3, 0xa9];
    for n in 0..some.len().pow(4) {
        let digits = [n % 7, n / 7 % 7, n / 49 % 7, n / 343];
        let mut decoder = t.decoder(false, false);
        let mut text: String = digits.iter().map(|&d| decoder.push(some[d]).unwrap()).collect();
        text.push_str(&decoder.finish());
        assert_eq!(text, String::from_utf8_lossy(&digits.map(|d| bytes[d])));
    }
}

#[test]
fn decoding_sentencepiece() {
    let t = tokenizer(&spm(&llama2(), true)).unwrap();
    for text in ["hello hello", " hello", "he  llo €\n", ""] {
        assert_eq!(t.decode(&t.encode(text, PLAIN).ids, false).unwrap(), text);
    }
    let id = t.id("▁hello").unwrap();
    assert_eq!(t.decoder(false, false).push(id).unwrap(), " hello");
    assert_eq!(t.decoder(false, true).push(id).unwrap(), "hello");
    let t = tokenizer(&spm(&llama2(), false)).unwrap();
    assert_eq!(t.decode(&[id], false).unwrap(), " hello");
}

#[test]
fn vocabularies_that_are_refused() {
    let message = |writer: &Writer| tokenizer(writer).unwrap_err();
    let starts = |writer: &Writer, start: &str| {
        let message = message(writer);
        assert!(message.starts_with(start), "{message}");
    };
    starts(&Writer::new(), "v.gguf: key tokenizer.ggml.tokens, byte 24: the file has no such key");
    starts(&bpe("nonsense", &[], &[]), "v.gguf: key tokenizer.ggml.pre, byte ");
    assert!(message(&bpe("nonsense", &[], &[])).contains("nonsense is not supported; default, gpt-2"));
    for wrong in ["ab", "a Z", "a b", "a ", ""] {
        let mut writer = Writer::new();
        writer.key("tokenizer.ggml.model", "gpt2");
        writer.key("tokenizer.ggml.tokens", ["a", "b", "c", "bc"].as_slice());
        writer.key("tokenizer.ggml.merges", ["b c", wrong].as_slice());
        assert!(message(&writer).contains("key tokenizer.ggml.merges, byte "), "{wrong}");
        assert!(message(&writer).contains(&format!("merge 1, `{wrong}`: two tokens")), "{wrong}");
    }
    let mut writer = bpe("gpt-2", &[], &[]);
    writer.key("tokenizer.ggml.bos_token_id", 1000);
    starts(&writer, "v.gguf: key tokenizer.ggml.bos_token_id, byte ");
    let mut writer = bpe("gpt-2", &[], &[]);
    writer.key("tokenizer.ggml.add_bos_token", true);
    assert!(message(&writer).ends_with("the file names no such token"));
    assert!(message(&spm(&[("a", f32::NAN, 1)], true)).contains("tokenizer.ggml.scores"));
    assert!(message(&spm(&[("a", 0.0, 9)], true)).contains("tokenizer.ggml.token_type"));
    let mut writer = Writer::new();
    writer.key("tokenizer.ggml.tokens", Owned::U32(1));
    assert!(message(&writer).ends_with("an array expected"));
    let mut writer = Writer::new();
    writer.key("tokenizer.ggml.tokens", ["a"].as_slice()).key("tokenizer.ggml.model", "t5");
    assert!(message(&writer).ends_with("tokenizer t5 is not supported; gpt2 and llama are"));
}
