#!/usr/bin/env python3
"""Compare our tokenizers with the Python packages `tokenizers` and `sentencepiece`, token by token.

    pip install tokenizers sentencepiece protobuf gguf numpy
    scripts/check_tokenizer.py [--smollm2 FILE] [--spm FILE ...]

Byte-level BPE: vocabulary and merges of SmolLM2 (fetched by `fetch_model.sh` unless given), once with each pre-tokenizer.
SentencePiece: two models trained here on the repository's own text, with and without a space at the front, and each GGUF
file given by `--spm`. The corpus holds every Unicode scalar value, odd texts, random mixtures and the repository's files.
Exits with 1 at a difference and shows the first ones.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

ROOT = Path(__file__).resolve().parent.parent

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
ODD = [
    "", " ", "  ", "\n", "\r\n\r\n", "\t \n x", "a", " a", "a ", "  a  b   c    ", "\u00a0\u00a0x \u2003y\u3000z\u2028w\u0085v",
    "I'll they'RE 'tis 'S 's 'ſ 've'Ve'D 'lL 'x ''s", "don't\u2019t", "12345 1 22 333 4444 ½ ² Ⅷ ٣٤٥ 一二三 1,234.56e-7",
    "x<=y && z!=0; /* c */ #!$%^&*(){}[]|\\~`", "!!!\n\n\n???\r\n...\r", "naïve café e\u0301tude A\u030a ｆｕｌｌ ﬁne ㍿ \u1e9b\u0323",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 ☠️ 😀😀", "עברית العربية हिन्दी ไทย 한국어 日本語 中文 Ελληνικά", "\u200b\u200d\ufeff\u00ad\u061c\u202e",
    "\x00\x01\x04\x06\x13\x1b\x7f\u0080\u00ff", "\U000f0000\U0010ffff\ue000\ufffd\U0001f9ff\U000e0041", "ä" * 300, "a" * 5000, " " * 1000,
    "ab" * 3000, "\n" * 500, "1" * 700, "!" * 900, "▁▁a▁b", "<0x0A> <0xFF>", "<s>x</s> <unk> <pad> [multimodal]",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><|endoftext|> <|im_end| ><|im_end|>>", "<|<|im_start|>|>", "</h1><table>  <b>",
    "Zażółć gęślą jaźń; Вот и всё; Đặng Thị", "𝒜𝓁𝓅𝒽𝒶 ⟦x⟧ ∀∃∑∏ ≠≤ →", "a\u0300\u0301\u0302\u0303b\u0327", "q\u0307\u0323 q\u0323\u0307",
]


def corpus(seed):
    """Texts, in a fixed order."""
    yield from ODD
    scalars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for start in range(0, len(scalars), 64):
        part = scalars[start : start + 64]
        yield "".join(part)
        yield "".join(f"a{c}1 {c}{c}\n" for c in part)
        yield "".join(f" {c}b'{c}" for c in part)
    rng = random.Random(seed)
    pools = ["abcdefgh", "ABC xyz", " \t\n\r", "0123456789", "'\u2019!.,;:-", "éüßñ", "ſ'sS", "日本語中文", "👩\u200d🇫", "\u0301\u0327", "▁ ", "½²Ⅷ"]
    pools += [scalars[a : a + 400] for a in (0x80, 0x400, 0x900, 0x3000, 0xF900 - 0x800, 0x1F300 - 0x800)]
    for _ in range(6000):
        chosen = rng.sample(pools, rng.randint(1, 4))
        yield "".join(rng.choice(rng.choice(chosen)) for _ in range(rng.randint(1, 60)))
    words = " ".join(own_texts()).split(" ")
    for _ in range(2000):
        yield " ".join(rng.choice(words) for _ in range(rng.randint(1, 30)))
    yield from own_texts()


def own_texts():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    kept = [f for f in files if f.endswith((".md", ".rs", ".tensor", ".py", ".toml"))]
    return [(ROOT / f).read_text(encoding="utf-8") for f in sorted(kept) if (ROOT / f).is_file()]


def ours(path, texts, *flags):
    """Ids and decoded text of each text."""
    stdin = b"".join(b"%d\n%s" % (len(t.encode()), t.encode()) for t in texts)
    command = [*EXAMPLE, str(path), *flags]
    result = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True)
    for line in result.stdout.decode().splitlines():
        ids, text = line.split("\t")
        yield [int(i) for i in ids.split()], bytes.fromhex(text).decode()


def compare(name, texts, theirs, mine):
    """The number of texts that differ."""
    wrong = 0
    tokens = 0
    for text, (ids, decoded), (my_ids, my_decoded) in zip(texts, theirs, mine, strict=True):
        tokens += len(ids)
        if ids == my_ids and (decoded is None or decoded == my_decoded):
            continue
        wrong += 1
        if wrong <= 3:
            at = next((i for i, (a, b) in enumerate(zip(ids, my_ids)) if a != b), min(len(ids), len(my_ids)))
            at = max(0, at - 2)
            print(f"  {text[:70]!r}\n    ids from {at}: theirs {ids[at:at + 8]}, ours {my_ids[at:at + 8]}")
            if ids == my_ids:
                print(f"    decoded: theirs {decoded[:70]!r}, ours {my_decoded[:70]!r}")
    print(f"{name}: {len(texts)} texts, {tokens} tokens, {wrong} texts differ")
    return wrong


def write_vocabulary(path, architecture, fields):
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in fields.items():
        key = f"tokenizer.ggml.{key}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_array(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def byte_level(tokens, kinds, merges, pre):
    """The pre-tokenizer `pre` as the package would be set up for it."""
    split = lambda expression: pre_tokenizers.Split(Regex(expression), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    steps = {
        "default": [split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2), split(r"\p{N}+"), split(r"[0-9][0-9][0-9]")],
        "gpt-2": [split(GPT2)],
        "smollm": [pre_tokenizers.Digits(individual_digits=True), split(GPT2)],
        "llama-bpe": [split(LLAMA3 % 3)],
        "qwen2": [split((LLAMA3 % 1).replace("{1,1}", ""))],
    }[pre]
    vocabulary = {t: i for i, t in enumerate(tokens)}
    model = models.BPE(vocab=vocabulary, merges=[tuple(m.split(" ")) for m in merges], ignore_merges=pre == "llama-bpe")
    tokenizer = Tokenizer(model)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, kinds) if kind == gguf.TokenType.CONTROL]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    return tokenizer


def same_composition(text):
    """Whether normal form C of the text does not depend on the version of Unicode."""
    if any(unicodedata.category(c) == "Cn" for c in text):
        return False
    return normalizers.NFC().normalize_str(text) == unicodedata.normalize("NFC", text)


def check_byte_level(smollm2, folder, texts):
    reader = gguf.GGUFReader(smollm2)
    field = lambda name: reader.fields[f"tokenizer.ggml.{name}"].contents()
    tokens, kinds, merges = field("tokens"), field("token_type"), field("merges")
    wrong = 0
    for pre in ("smollm", "gpt-2", "llama-bpe", "qwen2", "default"):
        path = folder / f"{pre}.gguf"
        fields = {"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": kinds, "merges": merges}
        write_vocabulary(path, "llama", {**fields, "add_bos_token": False})
        reference = byte_level(tokens, kinds, merges, pre)
        kept = [t for t in texts if pre != "qwen2" or same_composition(t)]
        encoded = []
        for start in range(0, len(kept), 1000):
            batch = reference.encode_batch_fast(kept[start : start + 1000], add_special_tokens=False)
            encoded += [e.ids for e in batch]
        decoded = reference.decode_batch(encoded, skip_special_tokens=False)
        wrong += compare(pre, kept, zip(encoded, decoded), ours(path, kept, "--control"))
    return wrong


def spm_reference(fields):
    """A SentencePiece processor with the tokens of a GGUF file."""
    proto = sentencepiece_model_pb2.ModelProto()
    unknown = fields["unknown_token_id"]
    for i, (text, score, kind) in enumerate(zip(fields["tokens"], fields["scores"], fields["token_type"])):
        kind = gguf.TokenType.UNKNOWN if i == unknown else kind
        if kind == gguf.TokenType.USER_DEFINED:
            text = text.replace(" ", "▁")
        proto.pieces.add(piece=text, score=score, type=int(kind))
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = any(k == gguf.TokenType.BYTE for k in fields["token_type"])
    proto.trainer_spec.vocab_size = len(proto.pieces)
    proto.trainer_spec.unk_piece = fields["tokens"][unknown]
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = fields["add_space_prefix"]
    proto.normalizer_spec.remove_extra_whitespaces = False
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def check_spm(name, path, fields, texts):
    reference = spm_reference(fields)
    if fields["add_space_prefix"]:
        # The package puts the space before the text only, we do also behind special tokens, as GGUF files are meant.
        user = [t for t, kind in zip(fields["tokens"], fields["token_type"]) if kind == gguf.TokenType.USER_DEFINED]
        texts = [t for t in texts if not any(u in t for u in user)]
    encoded = reference.encode(texts)
    return compare(name, texts, ((ids, None) for ids in encoded), ours(path, texts))


def spm_fields_of_gguf(path):
    reader = gguf.GGUFReader(path)
    names = ("tokens", "scores", "token_type", "unknown_token_id", "add_space_prefix")
    return {n: reader.fields[f"tokenizer.ggml.{n}"].contents() for n in names}


def spm_fields_of_training(folder, prefix, byte_fallback):
    text = folder / "corpus.txt"
    text.write_text("\n".join(own_texts()), encoding="utf-8")
    stem = folder / "trained"
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(stem), vocab_size=1500, model_type="bpe", byte_fallback=byte_fallback,
        normalization_rule_name="identity", add_dummy_prefix=prefix, remove_extra_whitespaces=False, minloglevel=2,
        user_defined_symbols=["<table>", "</h1>", "[multimodal]"], character_coverage=0.9995, max_sentence_length=1 << 20,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(stem.with_suffix(".model").read_bytes())
    return {
        "model": "llama", "tokens": [p.piece for p in proto.pieces], "scores": [p.score for p in proto.pieces],
        "token_type": [int(p.type) for p in proto.pieces], "unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "add_space_prefix": prefix,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", metavar="FILE", help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--spm", metavar="FILE", nargs="*", default=[], help="GGUF files with a SentencePiece vocabulary")
    parser.add_argument("--example", metavar="PROGRAM", help="the built example `tokenize` (default: cargo builds it)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    global EXAMPLE
    if args.example:
        EXAMPLE = [args.example]
    else:
        EXAMPLE = ["cargo", "run", "-q", "--release", "-p", "tilewright-models", "--example", "tokenize", "--"]
    smollm2 = args.smollm2
    if not smollm2:
        fetch = subprocess.run([ROOT / "scripts/fetch_model.sh", "smollm2"], stdout=subprocess.PIPE, text=True, check=True)
        smollm2 = fetch.stdout.strip()
    texts = list(corpus(args.seed))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wrong = check_byte_level(smollm2, folder, texts)
        for prefix, byte_fallback in ((True, True), (False, True), (True, False)):
            fields = spm_fields_of_training(folder, prefix, byte_fallback)
            path = folder / "spm.gguf"
            write_vocabulary(path, "llama", fields)
            wrong += check_spm(f"spm, prefix {prefix}, bytes {byte_fallback}", path, fields, texts)
        for path in args.spm:
            wrong += check_spm(Path(path).name, path, spm_fields_of_gguf(path), texts)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
