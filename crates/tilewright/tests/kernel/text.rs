//! The text form: errors that point at their place, round trips of odd names, and mutated texts that never panic.

use crate::common::{Random, one, parse};
use crate::roles::{CHAIN, PIPELINE, RING, sums};
use tilewright::kernel;

fn message(text: &str) -> String {
    kernel::text::parse("bad.kernel", text).expect_err("a bad text").to_string()
}

#[test]
fn errors_point_at_their_place() {
    let text = sums(RING);
    for (from, to, want, mark) in [
        ("receive c", "receive q", "there is no channel `q`", "^"),
        ("s = add s a", "s = add s z", "there is no tile `z`", "^"),
        ("gives t0", "gives t7", "there is no token `t7`; `tokens 1` says how many", "^^"),
        ("gives t0", "gives token", "`token` is not a token, such as `t0`", "^^^^^"),
        ("s = add s a", "s = plus s a", "`plus` is neither a statement nor an elementwise function", "^^^^"),
        ("store s -> y", "store s -> q", "there is no buffer named `q`", "^"),
        (
            "in page c",
            "in pages c",
            "expected `registers`, `tile_registers`, `near`, `cluster`, `memory` or `page`, found `pages`",
            "^^^^^",
        ),
        ("in page c", "offset(8y0)", "expected `x` and an axis, such as `x0`, found `y0`", "^^"),
        ("in page c", "offset(0x0)", "a digit takes at least one value", "^"),
        ("tile s:", "tile a:", "tile `a` is defined twice", "^"),
        ("role worker", "role loader", "role `loader` is defined twice", "^^^^^^"),
        ("release c", "drop c", "`drop` is no statement", "^^^^"),
        (
            "fetch, prologue",
            "fetch, run",
            "expected `fetch`, `prologue`, `wait`, `body` or `notify`, found `run`",
            "^^^",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let error = message(&text.replacen(from, to, 1));
        assert!(error.contains(want), "{error}");
        let last = error.lines().last().unwrap_or_default();
        assert_eq!(last.trim_start_matches([' ', '|']), mark, "{error}");
    }
}

#[test]
fn names_that_are_keywords() {
    let kernel = "
  channel page pages 2 bytes 64 from role to worker
  tile load: f32{into: 0 +: 8 < S} in page page
  tile fill: f32{into: 0 +: 8 < S}
  tile masks: bool{into: 0 +: 8 < S}
  tile when: f32
  tokens 1
  role role {
    acquire page
    load = load x[0, into] gives t0
    commit page after t0
  }
  role worker {
    fill = fill 1.0
    masks = lt fill 2.0
    when = fill 0.0
    receive page
    fill = add fill load
    release page
    reduce sum fill into when masks masks
    fill = add fill when
    store fill -> y[into]
  }";
    parse(&sums(kernel));
}

#[test]
fn numbers_of_all_kinds() {
    let kernel = "  tile a: f32{i: 0 +: 8 < S}
  tile b: i64{i: 0 +: 8 < S}
  tile c: bool{i: 0 +: 8 < S}
  role worker {
    a = fill -0.0
    a = add a -inf
    a = max a nan
    a = mul a 1e-300
    b = fill -9223372036854775807
    b = add b -1
    b = max b -9223372036854775808
    c = fill true
    c = and c false
    a = select c -2.5 inf
    a = select holds(i < 3 or i == 5 and S > 2) a 7.0
    store a -> y[i]
  }";
    let text = one("S in 0..=8", "  output y: f32[S]", "[m in 1]\n  writes y", kernel);
    let program = parse(&text);
    assert!(program.to_string().contains("fill -0.0"));
}

const BYTES: &[u8] = b" {}[]()<>=+-*/,:0a9_.";

#[test]
fn mutated_texts_do_not_panic() {
    let mut random = Random(12345);
    for base in [sums(RING), sums(PIPELINE), sums(CHAIN)] {
        for _ in 0..1500 {
            let mut bytes: Vec<u8> = base.bytes().collect();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => {
                        bytes.remove(at);
                    }
                    1 => bytes.insert(at, BYTES[random.below(BYTES.len() as u64) as usize]),
                    2 => bytes[at] = BYTES[random.below(BYTES.len() as u64) as usize],
                    _ => {
                        let end = (at + random.below(30) as usize).min(bytes.len());
                        bytes.drain(at..end);
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Ok(program) = kernel::text::parse("mutated.kernel", &text) {
                let printed = program.to_string();
                let again = kernel::text::parse("printed.kernel", &printed);
                assert_eq!(again.as_ref(), Ok(&program), "{printed}");
                let _ = kernel::verify::kernels(&program, &tilewright::target::Target::portable());
            }
        }
    }
}
