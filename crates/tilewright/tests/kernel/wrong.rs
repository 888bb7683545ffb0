//! Wrong kernels are refused with the right reason, and evaluation shows why where it can.

use crate::common::{Random, one, parse, random, symbols};
use crate::roles::{CHAIN, PIPELINE, PROLOGUE, RING, sums};
use tilewright::kernel::verify::{Reason, verify};
use tilewright::kernel::{self, Program};
use tilewright::target::Target;
use tilewright::task;
use tilewright::task::eval::{Choice, Schedule};
use tilewright::tensor::DType;
use tilewright::tensor::eval::{Bindings, Numerics};

fn reason(program: &Program) -> Option<Reason> {
    let refused = verify(program, &Target::portable()).err()?;
    assert!(!refused.message.is_empty() && !refused.place.is_empty());
    Some(refused.reason)
}

fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in {text}");
    text.replacen(from, to, 1)
}

/// A change of a legal kernel, and why what comes out is refused.
type Change = (&'static str, &'static str, &'static str, Reason);

const CHANGES: &[Change] = &[
    // Tokens.
    (PIPELINE, "      await t0\n      s = add s a\n", "      s = add s a\n", Reason::Early),
    (PIPELINE, "    await t0\n    store", "    store", Reason::Token),
    (
        PIPELINE,
        "    store s -> y[i] gives t2\n    await t2\n",
        "    store s -> y[i] gives t2\n",
        Reason::Token,
    ),
    (PIPELINE, "      await t1\n      s = add s b\n", "      s = add s b\n      await t1\n", Reason::Early),
    (
        PIPELINE,
        "      await t0\n      s = add s a\n      a = load",
        "      s = add s s\n      a = load",
        Reason::Early,
    ),
    (PIPELINE, "    await t0\n    store", "    await t0\n    await t0\n    store", Reason::Token),
    (PIPELINE, "    a = load x[0, i] gives t0\n", "    a = load x[0, i]\n", Reason::Token),
    (PIPELINE, "    await t2\n", "    s = fill 0.0\n    await t2\n", Reason::Early),
    (PIPELINE, "      await t1\n", "", Reason::Early),
    (PIPELINE, "    await t2\n", "    a = load y[i]\n    await t2\n", Reason::Early),
    (PIPELINE, "gives t1", "gives t0", Reason::Token),
    // Written before read.
    (PIPELINE, "    s = fill 0.0\n", "", Reason::Undefined),
    (RING, "    s = fill 0.0\n", "", Reason::Undefined),
    (
        RING,
        "    store s -> y[i]",
        "    for k in D {\n      t = fill 1.0\n    }\n    s = add s t\n    store s -> y[i]",
        Reason::Undefined,
    ),
    (
        RING,
        "      a = load x[k, i] gives t0\n      commit c after t0\n",
        "      commit c\n",
        Reason::Undefined,
    ),
    // Channels.
    (RING, "commit c after t0", "await t0\n      commit c\n      commit c", Reason::Channel),
    (RING, "      acquire c\n", "", Reason::Page),
    (RING, "      release c\n", "", Reason::Channel),
    (RING, "      receive c\n", "", Reason::Page),
    (RING, "      s = add s a\n      release c\n", "      release c\n      s = add s a\n", Reason::Page),
    (RING, "commit c after t0", "commit c", Reason::Early),
    (
        RING,
        "role worker {\n    s = fill 0.0\n    for k in D {",
        "role worker {\n    s = fill 0.0\n    for k in D + 1 {",
        Reason::Channel,
    ),
    (RING, "role loader {\n    for k in D {", "role loader {\n    for k in D - 1 {", Reason::Channel),
    (RING, "pages 2", "pages 0", Reason::Channel),
    (RING, "from loader to worker", "from worker to loader", Reason::Channel),
    (RING, "from loader to worker", "from loader to loader", Reason::Channel),
    (RING, "from loader to worker", "from nobody to worker", Reason::Channel),
    (RING, "bytes 64", "bytes 16", Reason::Alignment),
    (CHAIN, "bytes 128", "bytes 64", Reason::Capacity),
    (RING, "    store s -> y[i]", "    acquire c\n    store s -> y[i]", Reason::Channel),
    (
        CHAIN,
        "      acquire d\n      b = mul a 2.0\n      n = fill 1\n      release c\n      commit d\n",
        "      release c\n      acquire d\n      b = mul a 2.0\n      n = fill 1\n      commit d\n",
        Reason::Page,
    ),
    // Roles.
    (RING, "      commit c after t0\n", "      s = fill 2.0\n      commit c after t0\n", Reason::Race),
    (CHAIN, "gives t1\n    await t1", "gives t0\n    await t0", Reason::Token),
    (
        CHAIN,
        "    for k in D {\n      receive c\n",
        "    for k in D {\n      store s -> y[i]\n      receive c\n",
        Reason::Undefined,
    ),
    // Prologues.
    (PROLOGUE, "    await t0\n", "", Reason::Early),
    (PROLOGUE, "    await t0\n    s = add s a\n", "", Reason::Token),
    (
        PROLOGUE,
        "    a = load x[0, i] gives t0\n",
        "    a = load x[0, i] gives t0\n    store a -> y[i]\n",
        Reason::Prologue,
    ),
    (PROLOGUE, "    a = load x[0, i] gives t0\n", "    a = load y[i] gives t0\n", Reason::Prologue),
    // Form.
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{i: 0 +: 4 < S}", Reason::Label),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{i: 0 +: 8 < S, j: 0 +: 2 < 2}", Reason::Label),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{i: 0 +: 0 < S}", Reason::Range),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{D: 0 +: 8 < S}", Reason::Name),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{i: 0 +: 8 < Z}", Reason::Symbol),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: bf16{i: 0 +: 8 < S}", Reason::Type),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{i: 0 +: 8 < S} offset(4x0)", Reason::Layout),
    (
        PIPELINE,
        "tile b: f32{i: 0 +: 8 < S}",
        "tile b: f32{i: 0 +: 8 < S} lane(8x0) register(2x0)",
        Reason::Layout,
    ),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{i: 0 +: 8 < S} in registers", Reason::Home),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{i: 0 +: 8 < S} in cluster", Reason::Home),
    (PIPELINE, "tile b: f32{i: 0 +: 8 < S}", "tile b: f32{i: 0 +: 524288 < S}", Reason::Label),
    (PIPELINE, "x[2*k + 1, i]", "x[2*k + 1, z]", Reason::Symbol),
    (PIPELINE, "x[2*k + 1, i]", "x[x[k], i]", Reason::Table),
    (PIPELINE, "x[2*k + 1, i]", "x[i]", Reason::Count),
    (PIPELINE, "x[2*k + 1, i]", "x[q[k], i]", Reason::Table),
    (PIPELINE, "for k in", "for D in", Reason::Name),
    (PIPELINE, "for k in", "for once in", Reason::Name),
    (PIPELINE, "s = fill 0.0", "s = fill 0", Reason::Type),
    (PIPELINE, "s = fill 0.0", "s = and a b", Reason::Type),
    (PIPELINE, "tile b: ", "tile x: f32\n  tile b: ", Reason::Name),
    // Memory.
    (PIPELINE, "store s -> y[i]", "store s -> x[0, i]", Reason::Task(task::verify::Reason::Undeclared)),
];

#[test]
fn changes_are_refused_with_their_reason() {
    let mut wrong = Vec::new();
    for (kernel, from, to, want) in CHANGES {
        let kernel = changed(kernel, from, to);
        let kernel = if kernel.contains("t = fill 1.0") {
            changed(&kernel, "  tokens 1", "  tile t: f32{i: 0 +: 8 < S}\n  tokens 1")
        } else {
            kernel
        };
        let have = reason(&parse(&sums(&kernel)));
        if have != Some(*want) {
            wrong.push(format!("{from:?} -> {to:?}: {have:?}, not {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Orders under which evaluation of a wrong program gives something else than the right one, or fails.
fn shows(wrong: &str, right: &str) -> bool {
    let (wrong, right) = (parse(&sums(wrong)), parse(&sums(right)));
    let x = random(DType::F32, &[5, 7], &mut Random(5));
    let bindings = Bindings { symbols: symbols(&[("D", 5), ("S", 7)]), arrays: vec![x] };
    let run = |program: &Program, choice: Choice| {
        kernel::eval::eval(program, &bindings, Numerics::Own, &mut Schedule::new(1, choice))
    };
    let want = run(&right, Choice::First).expect("the right program runs");
    (0..100).map(Choice::Random).any(|choice| match run(&wrong, choice) {
        Ok(have) => !task::eval::same(&want, &have),
        Err(_) => true,
    })
}

#[test]
fn evaluation_shows_what_is_wrong() {
    for (kernel, from, to) in [
        (PIPELINE, "      await t0\n      s = add s a\n", "      s = add s a\n      await t0\n"),
        (PIPELINE, "      await t1\n      s = add s b\n", "      s = add s b\n      await t1\n"),
        (PIPELINE, "    await t2\n", "    s = fill 0.0\n    await t2\n"),
        (PIPELINE, "    store s -> y[i] gives t2\n    await t2\n", "    store s -> y[i] gives t2\n"),
        (PIPELINE, "      await t0\n      s = add s a\n      a = load", "      s = add s a\n      a = load"),
        (RING, "commit c after t0", "commit c"),
        (RING, "      s = add s a\n      release c\n", "      release c\n      s = add s a\n"),
        (RING, "      commit c after t0\n", "      s = fill 2.0\n      commit c after t0\n"),
        (PROLOGUE, "    await t0\n    s = add s a\n", "    s = add s a\n    await t0\n"),
    ] {
        assert!(shows(&changed(kernel, from, to), kernel), "{from:?} -> {to:?} shows nothing");
    }
}

/// Two roles that fill and empty two channels crosswise, at page counts where that works and where it does not.
#[test]
fn rings_that_are_too_short() {
    let kernel = |pages: usize| {
        format!(
            "
  channel c pages {pages} bytes 64 from loader to worker
  channel d pages 1 bytes 64 from loader to worker
  tile a: f32{{i: 0 +: 8 < S}} in page c
  tile b: f32{{i: 0 +: 8 < S}} in page d
  tile s: f32{{i: 0 +: 8 < S}}
  role loader {{
    for k in 3 {{
      acquire c
      a = load x[k, i]
      commit c
    }}
    acquire d
    b = load x[0, i]
    commit d
  }}
  role worker {{
    receive d
    s = add b 0.0
    release d
    for k in 3 {{
      receive c
      s = add s a
      release c
    }}
    store s -> y[i]
  }}"
        )
    };
    for pages in 1..6 {
        let program = parse(&sums(&kernel(pages)));
        let want = if pages < 3 { Some(Reason::Deadlock) } else { None };
        assert_eq!(reason(&program), want, "{pages} pages");
        let x = random(DType::F32, &[5, 7], &mut Random(5));
        let bindings = Bindings { symbols: symbols(&[("D", 5), ("S", 7)]), arrays: vec![x] };
        let ran =
            kernel::eval::eval(&program, &bindings, Numerics::Own, &mut Schedule::new(1, Choice::Random(1)));
        assert_eq!(ran.is_ok(), pages >= 3, "{pages} pages");
    }
}

#[test]
fn two_roles_that_wait_for_each_other() {
    let kernel = "
  channel c pages 2 bytes 64 from left to right
  channel d pages 2 bytes 64 from right to left
  tile a: f32{i: 0 +: 8 < S} in page c
  tile b: f32{i: 0 +: 8 < S} in page d
  role left {
    for k in D {
      receive d
      acquire c
      a = add b 1.0
      commit c
      release d
    }
  }
  role right {
    for k in D {
      receive c
      acquire d
      b = add a 1.0
      commit d
      release c
    }
  }";
    assert_eq!(reason(&parse(&sums(kernel))), Some(Reason::Deadlock));
}

#[test]
fn near_memory_is_finite() {
    let kernel = |size: usize, home: &str| {
        format!(
            "
  tile a: f32{{i: 0 +: {size} < S}}{home}
  tile b: f32{{i: 0 +: {size} < S}}
  role worker {{
    a = fill 1.0
    b = add a 1.0
    store b -> y[i]
  }}"
        )
    };
    assert_eq!(reason(&parse(&sums(&kernel(131_072, "")))), None);
    assert_eq!(reason(&parse(&sums(&kernel(131_088, "")))), Some(Reason::Capacity));
    assert_eq!(reason(&parse(&sums(&kernel(131_088, " in memory")))), None);
}

#[test]
fn worker_loops() {
    let text = sums(PIPELINE);
    for steps in [
        "fetch, wait, body, notify",
        "fetch, prologue, body, wait, notify",
        "fetch",
        "fetch, prologue, wait, body, notify, notify",
    ] {
        let program = parse(&changed(&text, "fetch, prologue, wait, body, notify", steps));
        assert_eq!(reason(&program), Some(Reason::WorkerLoop), "{steps}");
    }
}

#[test]
fn loads_that_no_one_declares() {
    let text = one(
        "S in 0..=64",
        "  input x: f32[S]\n  output y: f32[S]",
        "[m in ceildiv(S, 4)]\n  reads x[4*m..min(S, 4*m + 4)]\n  writes y[4*m..min(S, 4*m + 4)]",
        "  tile a: f32{i: 4*m +: 4 < S}\n  role worker {\n    a = load x[i]\n    store a -> y[i]\n  }",
    );
    assert_eq!(reason(&parse(&text)), None);
    let undeclared = Reason::Task(task::verify::Reason::Undeclared);
    assert_eq!(reason(&parse(&changed(&text, "x[i]", "x[S - 1 - i]"))), Some(undeclared));
    assert_eq!(reason(&parse(&changed(&text, "y[i]", "y[S - 1 - i]"))), Some(undeclared));
    assert_eq!(reason(&parse(&changed(&text, "x[i]", "x[i] when i < 4*m"))), None);
}

#[test]
fn edges_inside_bodies() {
    let text = sums(PIPELINE);
    let event = "event e[] wait 0 scope chip\ntasks only [once in 1]";
    let text = changed(&text, "tasks only [once in 1]", event);
    let notify = changed(&text, "    s = fill 0.0\n", "    s = fill 0.0\n    notify e[]\n");
    assert_eq!(reason(&parse(&notify)), Some(Reason::Edge));
    let wait = changed(&text, "    s = fill 0.0\n", "    s = fill 0.0\n    wait e[]\n");
    assert_eq!(reason(&parse(&wait)), Some(Reason::Edge));
    let again = changed(&wait, "  writes y\n", "  writes y\n  waits e[]\n");
    assert_eq!(reason(&parse(&again)), None);
    let x = random(DType::F32, &[5, 7], &mut Random(5));
    let bindings = Bindings { symbols: symbols(&[("D", 5), ("S", 7)]), arrays: vec![x] };
    let ran = kernel::eval::eval(
        &parse(&again),
        &bindings,
        Numerics::Own,
        &mut Schedule::new(2, Choice::Random(1)),
    );
    ran.expect("it runs");
}
