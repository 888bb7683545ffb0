//! What the GGUF reader accepts, gives and refuses.

use tilewright::tensor::ops::decode;
use tilewright_models::gguf::write::{Owned, Writer};
use tilewright_models::gguf::{FORMATS, Format, Gguf, Storage, Subject, Value, ValueType};

fn format(name: &str) -> &'static Format {
    Format::from_name(name).expect("a format")
}

fn read(bytes: Vec<u8>) -> Result<Gguf, String> {
    Gguf::from_bytes("m.gguf", bytes).map_err(|e| e.to_string())
}

fn refused(bytes: Vec<u8>) -> String {
    read(bytes).expect_err("the file is wrong")
}

/// Replaces the only occurrence of `from`.
fn patch(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let found: Vec<usize> =
        (0..=bytes.len() - from.len()).filter(|&i| bytes[i..].starts_with(from)).collect();
    let &[at] = found.as_slice() else { panic!("{} occurrences", found.len()) };
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

/// A tensor `a` of 3 by 2 floats and a tensor `b` of 64 by 1 in Q4_0.
fn two_tensors() -> Writer {
    let mut writer = Writer::new();
    writer.key("general.architecture", "llama");
    writer.tensor("a", format("F32"), &[3, 2], (0..24).collect());
    writer.tensor("b", format("Q4_0"), &[64, 1], (0..36).collect());
    writer
}

#[test]
fn values_of_every_type() {
    let nested = Owned::Array(
        ValueType::Array,
        vec![
            Owned::Array(ValueType::Bool, vec![true.into(), false.into()]),
            Owned::Array(ValueType::U8, vec![]),
        ],
    );
    let file = Writer::new()
        .key("u8", Owned::U8(255))
        .key("i8", Owned::I8(-1))
        .key("u16", Owned::U16(65535))
        .key("i16", Owned::I16(-2))
        .key("u32", 7)
        .key("i32", Owned::I32(-3))
        .key("u64", Owned::U64(1 << 40))
        .key("i64", Owned::I64(5))
        .key("f32", 0.5)
        .key("f64", Owned::F64(-0.25))
        .key("bool", true)
        .key("str", "naïve")
        .key("strs", ["a", "", "c"].as_slice())
        .key("nested", nested)
        .finish();
    let gguf = read(file).unwrap();
    assert_eq!(gguf.uint("u8").unwrap(), Some(255));
    assert_eq!(gguf.uint("u16").unwrap(), Some(65535));
    assert_eq!(gguf.uint("u32").unwrap(), Some(7));
    assert_eq!(gguf.uint("u64").unwrap(), Some(1 << 40));
    assert_eq!(gguf.uint("i64").unwrap(), Some(5));
    assert_eq!(gguf.value("i8"), Some(Value::I8(-1)));
    assert_eq!(gguf.value("i16"), Some(Value::I16(-2)));
    assert!(gguf.uint("i32").unwrap_err().to_string().starts_with("m.gguf: key i32, byte "));
    assert_eq!(gguf.float("f32").unwrap(), Some(0.5));
    assert_eq!(gguf.float("f64").unwrap(), Some(-0.25));
    assert_eq!(gguf.bool("bool").unwrap(), Some(true));
    assert_eq!(gguf.str("str").unwrap(), Some("naïve"));
    assert_eq!(gguf.str("none").unwrap(), None);
    let strings: Vec<_> = gguf.array("strs").unwrap().unwrap().values().collect();
    assert_eq!(strings.len(), 3);
    assert!(matches!(strings[2], Value::String(text) if text.bytes == b"c"));
    let nested: Vec<_> = gguf.array("nested").unwrap().unwrap().values().collect();
    assert!(
        matches!(nested[0], Value::Array(a) if a.len() == 2 && a.values().nth(1) == Some(Value::Bool(false)))
    );
    assert!(matches!(nested[1], Value::Array(a) if a.is_empty() && a.element() == ValueType::U8));
    assert_eq!(gguf.metadata().count(), 14);
}

#[test]
fn tensors_of_every_format() {
    let mut writer = Writer::new();
    for f in &FORMATS {
        let (elements, _) = f.block();
        let size = f.tensor_bytes(&[elements * 2, 3]).unwrap();
        writer.tensor(f.name, f, &[elements * 2, 3], vec![f.id as u8; size as usize]);
    }
    writer.tensor("scalar", format("F32"), &[], vec![1; 4]);
    writer.tensor("empty", format("F16"), &[0, 5], vec![]);
    let gguf = read(writer.finish()).unwrap();
    for f in &FORMATS {
        let t = gguf.tensor(f.name).unwrap();
        let (elements, bytes) = f.block();
        assert_eq!((t.format, t.shape()), (f, vec![3, elements * 2]));
        assert_eq!(t.elements(), 6 * elements);
        assert_eq!(t.offset % 32, 0);
        assert!(t.bytes.len() as u64 == 6 * bytes && t.bytes.iter().all(|&b| b == f.id as u8));
    }
    assert_eq!(gguf.tensor("scalar").unwrap().elements(), 1);
    assert_eq!(gguf.tensor("empty").unwrap().elements(), 0);
    assert!(gguf.tensor("none").is_none());
    assert_eq!(gguf.tensors().len(), FORMATS.len() + 2);
}

#[test]
fn formats_are_those_of_the_compiler() {
    for f in &FORMATS {
        match f.storage() {
            Storage::Plain(dtype) => assert_eq!(dtype.name(), f.name.to_lowercase()),
            Storage::Packed(format) => assert_eq!(format.name, f.name.to_lowercase()),
        }
    }
    for format in decode::TABLE {
        assert!(FORMATS.iter().any(|f| f.name.to_lowercase() == format.name), "{}", format.name);
    }
    assert_eq!(format("Q4_1").block(), (32, 20));
    assert_eq!(format("BF16").block(), (1, 2));
}

#[test]
fn a_file_on_disk() {
    let path = std::env::temp_dir().join(format!("tilewright-gguf-{}.gguf", std::process::id()));
    std::fs::write(&path, two_tensors().finish()).unwrap();
    let gguf = Gguf::open(&path).unwrap();
    assert_eq!(gguf.tensor("b").unwrap().bytes, (0..36).collect::<Vec<u8>>());
    drop(gguf);
    std::fs::write(&path, []).unwrap();
    assert!(
        Gguf::open(&path).unwrap_err().to_string().ends_with("magic: 4 bytes needed, 0 left in the file")
    );
    std::fs::remove_file(&path).unwrap();
    let error = Gguf::open(&path).unwrap_err();
    assert_eq!((error.subject.clone(), error.file.as_str()), (Subject::File, path.to_str().unwrap()));
    assert!(Gguf::open(std::env::temp_dir()).is_err());
}

#[test]
fn alignment() {
    let file = two_tensors().key("general.alignment", 64).finish();
    let gguf = read(file).unwrap();
    assert_eq!(gguf.alignment(), 64);
    assert_eq!(gguf.tensor("b").unwrap().offset % 64, 0);
    assert_eq!(gguf.tensor("b").unwrap().bytes[35], 35);
    for wrong in [Owned::U32(0), Owned::U32(24), Owned::U32(1 << 30), "32".into()] {
        let message = refused(two_tensors().key("general.alignment", wrong).finish());
        assert!(
            message.contains("key general.alignment, byte") && message.contains("power of two"),
            "{message}"
        );
    }
}

#[test]
fn headers_that_are_refused() {
    let good = two_tensors().finish();
    let with = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        refused(file)
    };
    assert_eq!(with(0, b"GGML"), "m.gguf: header, byte 0: not a GGUF file: it does not begin with `GGUF`");
    assert_eq!(with(4, &[1, 0, 0, 0]), "m.gguf: header, byte 4: version 1; versions 2 and 3 can be read");
    assert!(with(4, &[0, 0, 0, 3]).contains("big-endian"));
    assert!(
        with(8, &u64::MAX.to_le_bytes())
            .contains("header, byte 8: 18446744073709551615 for the number of tensors")
    );
    assert!(with(16, &60_000u64.to_le_bytes()).contains("header, byte 16: 60000 for the number of keys"));
    assert!(refused(vec![]).contains("header, byte 0: magic"));
    assert!(with(24, &u64::MAX.to_le_bytes()).contains("key #0, byte 24: key of 18446744073709551615 bytes"));
    assert!(with(24, &0u64.to_le_bytes()).contains("key #0, byte 24: key of 0 bytes"));
}

#[test]
fn values_that_are_refused() {
    let message = |writer: &mut Writer, from: &[u8], to: &[u8]| refused(patch(&writer.finish(), from, to));
    let two = Writer::new().key("twice", 1).key("twice", 2).finish();
    assert_eq!(refused(two), "m.gguf: key twice, byte 53: the key occurs twice");
    let type_of_k = message(Writer::new().key("kk", 1), b"kk\x04", b"kk\x0d");
    assert_eq!(type_of_k, "m.gguf: key kk, byte 34: value type 13; types are 0 to 12");
    let truth = message(Writer::new().key("t", true), b"t\x07\0\0\0\x01", b"t\x07\0\0\0\x02");
    assert!(truth.contains("key t, byte 37: 2 for a truth value"), "{truth}");
    let array = Writer::new().key("a", ["xyz"].as_slice()).finish();
    let huge = refused(patch(&array, b"\x08\0\0\0\x01\0\0\0", b"\x08\0\0\0\xff\xff\xff\xff"));
    assert!(huge.contains("key a, byte 41: 4294967295 elements of at least 8 bytes each"), "{huge}");
    let long = refused(patch(&array, b"\x03\0\0\0\0\0\0\0xyz", b"\xff\xff\xff\xff\xff\xff\xff\xffxyz"));
    assert!(long.contains("key a, byte 49: string of 18446744073709551615 bytes, 3 left"), "{long}");
    let mut deep = Owned::Array(ValueType::U8, vec![]);
    for _ in 0..6 {
        deep = Owned::Array(ValueType::Array, vec![deep]);
    }
    assert!(
        refused(Writer::new().key("d", deep).finish())
            .contains("key d, byte 85: arrays nested more than 4 deep")
    );
    let name = refused(patch(&Writer::new().key("kk", 1).finish(), b"kk", b"k\xff"));
    assert!(name.contains("key #0, byte 33: key is not UTF-8"), "{name}");
    let text = read(patch(&Writer::new().key("k", "abc").finish(), b"abc", b"ab\xff")).unwrap();
    assert_eq!(text.str("k").unwrap_err().to_string(), "m.gguf: key k, byte 47: the string is not UTF-8");
}

#[test]
fn tensors_that_are_refused() {
    let good = two_tensors().finish();
    let cut = refused(good[..good.len() - 1].to_vec());
    assert!(cut.contains("tensor b, byte ") && cut.contains("the file is cut off"), "{cut}");
    let mut longer = good.clone();
    longer.extend([0; 31]);
    assert!(read(longer.clone()).is_ok());
    longer.push(0);
    assert!(refused(longer).ends_with("32 bytes follow the last tensor's data"));

    let b = b"b\x02\0\0\0\x40\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x20\0\0\0\0\0\0\0";
    let with = |at: usize, byte: u8| {
        let mut to = b.to_vec();
        to[at] = byte;
        refused(patch(&good, b, &to))
    };
    assert!(with(1, 5).contains("tensor b, byte ") && with(1, 5).contains("5 axes; at most 4"));
    assert!(with(5, 63).contains("the innermost extent is 63; Q4_0 is stored in blocks of 32 elements"));
    assert!(with(12, 0x80).contains("the file is cut off"));
    assert!(with(20, 0x80).contains("the number of elements exceeds 64 bits"));
    assert!(with(21, 10).contains("element type 10 is not supported; F32, F16, BF16, Q4_0"));
    assert!(with(25, 33).contains("offset 33; multiples of the alignment 32 are right"));
    assert!(with(32, 0x7f).contains("the offset is wrong"));
    assert!(with(0, b'a').ends_with("the name occurs twice"));
    let mut writer = two_tensors();
    writer.tensor("", format("F32"), &[1], vec![0; 4]);
    assert!(refused(writer.finish()).contains("tensor #2, byte "));
}

#[test]
fn tensors_that_share_bytes() {
    let mut writer = Writer::new();
    writer.tensor("a", format("F32"), &[16], vec![1; 64]);
    writer.tensor("b", format("F32"), &[16], vec![2; 64]);
    let file = writer.finish();
    let b = b"b\x01\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0";
    let mut to = b.to_vec();
    to[17] = 32;
    let overlap = refused(patch(&file, b, &to));
    assert!(
        overlap.contains("tensor b, byte ") && overlap.contains("the data begin inside those of tensor a"),
        "{overlap}"
    );
    to[17] = 0;
    let shared = patch(&file, b, &to);
    assert!(refused(shared.clone()).contains("64 bytes follow"));
    let shared = read(shared[..shared.len() - 64].to_vec()).unwrap();
    assert_eq!(shared.tensor("a").unwrap().bytes, shared.tensor("b").unwrap().bytes);
}
