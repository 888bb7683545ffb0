//! The text form: what it says, and what is wrong with what does not parse.

use tilewright::block::text::parse;

const SUMS: &str = "program row_sums(x: bf16[S, D])
where D in 1..=4096, S in 0..=8192
{
  y: bf16[S] = map i_ in ceildiv(S, 64) parallel {
    sum: f32 = map d_ in ceildiv(D, 256) sequential carry sum f32 (so_far: f32{i: 64*i_ +: 64 < S}) {
      a: bf16{i: 64*i_ +: 64 < S, d: 256*d_ +: 256 < D} = load x[i, d] when d < i
      b: bf16 = mul a a
      c: bf16 = select holds(i < d and d != 3) b -0.5
      n: i32{i: 64*i_ +: 64 < S} = cast index(2*i - 1)
      more: f32 = reduce sum c into so_far where i <= d
      next more
    }
    r: bf16 = cast sum
    store r -> y[i]
  }
  return y
}
";

#[test]
fn the_text_is_read_and_printed_as_it_is() {
    let program = parse("sums.block", SUMS).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(program.to_string(), SUMS);
    tilewright::block::verify::verify(&program).unwrap_or_else(|violation| panic!("{violation}"));
}

/// The message and the text under the caret, after a change of the program.
#[track_caller]
fn refused(from: &str, to: &str) -> (String, String) {
    assert_eq!(SUMS.matches(from).count(), 1, "`{from}` must occur once");
    let error = parse("sums.block", &SUMS.replace(from, to)).expect_err(to);
    let under: String = error.source_line.chars().skip(error.column - 1).take(error.width).collect();
    (error.message, under)
}

#[test]
fn what_is_wrong_is_shown_where_it_is() {
    let cases = [
        ("= mul a a", "= mull a a", "`mull` is neither a node nor an elementwise function", "mull"),
        ("= mul a a", "= mul a q", "`q` is not defined before this", "q"),
        ("= mul a a", "= mul a", "`mul` takes 2 arguments", "mul"),
        ("r: bf16 = cast sum", "r: bf17 = cast sum", "`bf17` is not an element type", "bf17"),
        ("r: bf16 = cast sum", "a: bf16 = cast sum", "`a` is defined twice", "a"),
        (
            "r: bf16 = cast sum",
            "r: bf16[] = cast sum",
            "this node defines an item: its type is `f32{…}`",
            "r",
        ),
        ("parallel", "sideways", "expected `parallel` or `sequential`, found `sideways`", "sideways"),
        ("carry sum f32", "carry sun f32", "there is no monoid `sun`", "sun"),
        ("next more", "next more, more", "`next` gives 2 items for 1 carried", "next"),
        ("64 < S}) {", "64}) {", "expected `<`, found `}`", "}"),
        ("y: bf16[S] = map", "y: bf16[S] = call", "function `i_` is not defined before this", "i_"),
        ("store r -> y[i]", "store r y[i]", "expected `->`, found `y`", "y"),
        ("  return y\n}", "  return y\n", "expected `}`, found the end of the text", ""),
        ("program row_sums", "prog row_sums", "expected `fn` or `program`, found `prog`", "prog"),
    ];
    for (from, to, message, under) in cases {
        let (got, at) = refused(from, to);
        assert_eq!(got, message, "{to}");
        if !under.is_empty() {
            assert_eq!(at, under, "{to}");
        }
    }
}

#[test]
fn mutated_texts_do_not_panic() {
    let mut random = crate::support::Random::new(7);
    for _ in 0..2000 {
        let mut text: Vec<char> = SUMS.chars().collect();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(3) {
                0 => drop(text.remove(at)),
                1 => text.insert(
                    at,
                    ['{', '}', '[', ',', ':', '=', '-', '9', 'x', ' '][random.below(10) as usize],
                ),
                _ => {
                    let other = random.below(text.len() as u64) as usize;
                    text.swap(at, other);
                }
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(program) = parse("mutated.block", &text) {
            let _ = tilewright::block::verify::verify(&program);
            let printed = program.to_string();
            let again = parse("printed.block", &printed).unwrap_or_else(|error| panic!("{text}\n{error}"));
            assert_eq!(again.to_string(), printed);
        }
    }
}
