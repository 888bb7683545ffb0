//! The text form of task programs: exact round trip, and errors that point at what is wrong.

mod task_programs;

use task_programs::{parse, texts};
use tilewright::dim::Dim;
use tilewright::task::{EdgeIndex, FamilyId, Program, Step, text};

#[test]
fn programs_print_to_text_that_reads_back() {
    for (name, source) in texts() {
        let program = parse(&name, &source);
        let printed = program.to_string();
        let again = parse(&name, &printed);
        assert_eq!(again, program, "{name}\n{printed}");
        assert_eq!(again.to_string(), printed, "{name}");
    }
}

#[test]
fn text_is_printed_as_it_was_written() {
    for (name, source) in texts() {
        let printed = parse(&name, &source).to_string();
        let lines = |text: &str| -> Vec<String> {
            let kept =
                text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
            let headers = kept.filter(|line| line.contains("event") || line.contains("tasks"));
            // A dim is printed in its normal form, which may differ from what was written for quotients.
            headers.filter(|line| !line.contains("floordiv")).map(str::to_string).collect()
        };
        assert_eq!(lines(&printed), lines(&source), "{name}");
    }
}

#[test]
fn forms_that_do_not_fit_their_expressions_are_stated() {
    let (name, source) = &texts()[2];
    let program = parse(name, source);
    let mut family = program.families[0].clone();
    let wrong = [
        EdgeIndex::Affine(Dim::symbol("m").modulo(2)),
        EdgeIndex::Quotient(Dim::symbol("m")),
        EdgeIndex::Range { lo: Dim::element("x", vec![Dim::constant(0)]), hi: Dim::constant(3) },
        EdgeIndex::TableRange { lo: Dim::constant(0), hi: Dim::constant(3) },
    ];
    for index in wrong {
        family.notifies =
            vec![tilewright::task::Edge { event: tilewright::task::EventId(0), index: vec![index] }];
        let program = Program { families: vec![family.clone()], steps: Vec::new(), ..program.clone() };
        let printed = program.to_string();
        assert_eq!(parse(name, &printed), program, "{printed}");
    }
}

#[test]
fn steps_in_another_order_are_stated() {
    for (name, source) in texts() {
        let mut program = parse(&name, &source);
        program.steps.reverse();
        assert_eq!(parse(&name, &program.to_string()), program, "{name}");
        program.steps.push(Step::Family(FamilyId(0)));
        assert_eq!(parse(&name, &program.to_string()), program, "{name}");
    }
}

#[test]
fn errors_point_at_what_is_wrong() {
    let (name, source) = texts().into_iter().find(|(name, _)| name == "chain").expect("chain is there");
    let cases = [
        ("arena 4*S\n", "\n", "expected `arena`"),
        ("input x", "inptu x", "expected `input`, `weight`, `plan`, `state`, `output`, `temporary` or `}`"),
        ("output y: f32", "output y: f33", "`f33` is no element type"),
        ("results y", "results z", "there is no buffer named `z`"),
        ("waits E1[m]", "waits E2[m]", "there is no event named `E2`"),
        ("scope chip", "scope moon", "expected a scope (core, cluster, chip, device, system)"),
        ("tasks second", "tasks first", "there are two task families named `first`"),
        ("temporary t", "temporary x", "there are two buffers named `x`"),
        ("reads t[4*m..", "reads u[4*m..", "there is no buffer named `u`"),
        ("waits E1[m]\n{", "notifies E1[m]\n  waits E1[m]\n{", "(in this order)"),
        ("at 0 in memory", "in memory", "expected `at`"),
        ("in ceildiv(S, 4)]\n  reads t", "ceildiv(S, 4)]\n  reads t", "expected `in`"),
    ];
    for (from, to, want) in cases {
        assert!(source.contains(from), "{from}");
        let error = text::parse::<tilewright::task::Body>(&name, &source.replace(from, to)).expect_err(to);
        let shown = error.to_string();
        assert!(shown.contains(want), "{want}\n{shown}");
        assert!(shown.contains('^') && error.line > 1, "{shown}");
    }
}

#[test]
fn mangled_texts_never_panic() {
    let mut seed = 7u64;
    let mut next = |end: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) as usize % end.max(1)
    };
    let texts = texts();
    let mut refused = 0;
    for _ in 0..3000 {
        let (_, source) = &texts[next(texts.len())];
        let mut bytes = source.as_bytes().to_vec();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(4) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, b"[]{}(),:.=0lSx-+*"[next(17)]),
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let to = (at + next(12)).min(bytes.len());
                    let piece: Vec<u8> = bytes[at..to].to_vec();
                    let here = next(bytes.len());
                    bytes.splice(here..here, piece);
                }
            }
        }
        let mangled = String::from_utf8_lossy(&bytes).into_owned();
        match text::parse::<tilewright::task::Body>("mangled", &mangled) {
            Ok(program) => {
                let printed = program.to_string();
                assert_eq!(
                    text::parse::<tilewright::task::Body>("again", &printed).as_ref(),
                    Ok(&program),
                    "{printed}"
                );
                let _ = tilewright::task::verify::verify(&program, &tilewright::target::Target::portable());
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(refused > 1000, "only {refused} texts were refused");
}
