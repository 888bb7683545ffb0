//! The tensor verifier: each rule broken by hand, and programs broken at random, which must be refused or be legal.

use tilewright::dim::{Cond, Dim, Facts, Symbol};
use tilewright::tensor::bind::{BindingTime, binding_times};
use tilewright::tensor::build::ProgramBuilder;
use tilewright::tensor::text::parse;
use tilewright::tensor::verify::{Reason, verify};
use tilewright::tensor::{
    DType, FunctionId, Op, Operand, ParamKind, Program, RepeatArgument, RepeatResult, Scalar, ValueId,
};

const TEXT: &str = "
fn layer(h: f32[S, D], w: f32[D], c: f32[S]) -> f32[S, D], f32[S] {
  y = mul h w
  n = sum y[s, d] over d where d < s -> [S: s]
  z = add n c
  return y, z
}
program p(
  off: plan i32[E1: E + 1],
  x: f32[S, D],
  w: weight f32[L, D],
  c: f32[S],
  m: bool[S, D],
  r: f32[e: E, t: off[e + 1] - off[e]],
) -> f32[S, D], f32[l: L, S], f32[S, S2: S], f32[S], f32[e: E, t: off[e + 1] - off[e]]
where S in 0..=8, D = 4, L in 0..=3, E in 0..=4, T in 0..=9, off splits T over E
{
  a, b = repeat l in L, h = x { layer(h, w[l], c) -> h, [l] }
  g = contract a[s, d] x[t, d] where m[s, d] and t <= s -> [s, t]
  k = add g 1.0 -> [S: s, S_: t]
  q, v = layer(x, c2, c)
  y = mul r 2.0
  return a, b, k, v, y
}
";

fn program() -> Program {
    let text = TEXT
        .replace("[S, S2: S]", "[a: S, b: S]")
        .replace("-> [S: s, S_: t]", "-> [a: s, b: t]")
        .replace("  c: f32[S],\n  m", "  c: f32[S],\n  c2: f32[D],\n  m");
    let program = parse("p", &text).unwrap_or_else(|error| panic!("{error}"));
    verify(&program).unwrap_or_else(|violation| panic!("{violation}"));
    program
}

/// What the verifier says of the program after a change.
#[track_caller]
fn refused(reason: Reason, place: &str, change: impl FnOnce(&mut Program)) {
    let mut program = program();
    change(&mut program);
    match verify(&program) {
        Ok(()) => panic!("this is legal:\n{program}"),
        Err(violation) => {
            assert_eq!(violation.reason, reason, "{violation}");
            assert_eq!(violation.place, place, "{violation}");
        }
    }
}

fn labels_of(operand: &mut Operand) -> &mut Vec<Symbol> {
    match operand {
        Operand::Value { labels, .. } => labels,
        _ => panic!("no value"),
    }
}

fn main_of(program: &mut Program) -> &mut tilewright::tensor::Function {
    program.functions.last_mut().expect("a program")
}

fn value_named(function: &tilewright::tensor::Function, name: &str) -> ValueId {
    function.find(&Symbol::new(name)).expect("a value")
}

#[test]
fn each_rule_is_checked() {
    refused(Reason::Count, "the program", |p| p.functions.clear());
    refused(Reason::Name, "function `layer`", |p| p.functions[1].name = Symbol::new("layer"));
    refused(Reason::Name, "function `exp`", |p| p.functions[0].name = Symbol::new("exp"));
    refused(Reason::Param, "the program", |p| p.functions[0].params[0].kind = ParamKind::Weight);
    refused(Reason::Param, "the program", |p| main_of(p).params[1].kind = ParamKind::Plan);

    refused(Reason::Id, "function `p`, `g`", |p| {
        main_of(p).nodes[1].operands[0] = Operand::Value { value: ValueId(99), labels: Vec::new() };
    });
    refused(Reason::Id, "function `p`, `a`", |p| {
        let later = value_named(main_of(p), "g");
        main_of(p).nodes[0].operands[0] = Operand::Value { value: later, labels: Vec::new() };
    });
    refused(Reason::Id, "function `p`", |p| main_of(p).results[0] = ValueId(99));
    refused(Reason::Count, "function `p`", |p| main_of(p).results.clear());
    refused(Reason::Order, "function `p`, `g`", |p| main_of(p).nodes.swap(0, 1));
    refused(Reason::Order, "function `p`", |p| {
        let value = main_of(p).values[0].clone();
        main_of(p).values.push(value);
    });
    refused(Reason::Id, "function `layer`, operator 0", |p| {
        p.functions[0].nodes[0].results = vec![ValueId(77)];
    });

    refused(Reason::Name, "function `p`, `a`", |p| {
        let id = value_named(main_of(p), "g");
        main_of(p).values[id.0 as usize].name = Symbol::new("a");
    });
    refused(Reason::Name, "function `p`, `S`", |p| main_of(p).values[9].name = Symbol::new("S"));
    refused(Reason::Name, "function `p`, `over`", |p| main_of(p).values[9].name = Symbol::new("over"));
    refused(Reason::Name, "function `p`, `no name`", |p| main_of(p).values[9].name = Symbol::new("no name"));

    refused(Reason::Label, "function `p`, `g`", |p| {
        labels_of(&mut main_of(p).nodes[1].operands[0]).pop();
    });
    refused(Reason::Label, "function `p`, `g`", |p| {
        *labels_of(&mut main_of(p).nodes[1].operands[0]) = vec!["s".into(), "s".into()];
    });
    refused(Reason::Label, "function `p`, `g`", |p| {
        main_of(p).nodes[1].result_labels.pop();
    });
    refused(Reason::Label, "function `p`, `g`", |p| main_of(p).nodes[1].result_labels[0] = "u".into());
    refused(Reason::Label, "function `p`, `a`", |p| main_of(p).nodes[0].result_labels = vec!["u".into()]);
    refused(Reason::Extent, "function `p`, `y`", |p| main_of(p).nodes[4].result_labels.swap(0, 1));

    refused(Reason::Result, "function `p`, `g`", |p| {
        main_of(p).values[9].ty.axes[0].extent = Dim::symbol("T")
    });
    refused(Reason::DType, "function `p`, `g`", |p| main_of(p).values[9].ty.dtype = DType::I32);
    refused(Reason::Result, "function `p`, `k`", |p| main_of(p).values[10].ty.dtype = DType::F64);
    refused(Reason::DType, "function `p`, `k`", |p| {
        main_of(p).nodes[2].operands[1] = Operand::Literal(Scalar::Int(1));
    });
    refused(Reason::Symbol, "function `p`, parameter `x`", |p| {
        main_of(p).values[1].ty.axes[0].extent = Dim::symbol("Q");
    });
    refused(Reason::Extent, "function `p`, parameter `x`", |p| {
        main_of(p).values[1].ty.axes[0].extent = Dim::constant(-3);
    });
    refused(Reason::Extent, "function `p`, parameter `x`", |p| {
        main_of(p).values[1].ty.axes[0].extent = Dim::overflow();
    });
    refused(Reason::Table, "function `p`, parameter `r`", |p| main_of(p).values[0].name = Symbol::new("of"));
    refused(Reason::Table, "function `p`, parameter `r`", |p| main_of(p).values[0].ty.dtype = DType::F32);

    refused(Reason::Symbol, "function `p`, `g`", |p| {
        let Op::Contract { guard, .. } = &mut main_of(p).nodes[1].op else { panic!() };
        guard.condition = Cond::lt("z", "S");
    });
    refused(Reason::Mask, "function `p`, `g`", |p| {
        let Op::Contract { guard, .. } = &mut main_of(p).nodes[1].op else { panic!() };
        guard.masks[0].0 = ValueId(1);
    });
    refused(Reason::DType, "function `p`, `g`", |p| {
        let Op::Contract { accumulate, .. } = &mut main_of(p).nodes[1].op else { panic!() };
        *accumulate = DType::I32;
    });
    refused(Reason::Label, "function `layer`, `n`", |p| {
        let Op::Reduce { over, .. } = &mut p.functions[0].nodes[1].op else { panic!() };
        over.clear();
    });
    refused(Reason::Count, "function `layer`, `y`", |p| {
        p.functions[0].nodes[0].operands.pop();
    });
    refused(Reason::Count, "function `p`, `q`", |p| {
        main_of(p).nodes[3].operands.pop();
    });
    refused(Reason::Id, "function `p`, `q`", |p| {
        main_of(p).nodes[3].op = Op::Call { function: FunctionId(1) };
    });
    refused(Reason::Call, "function `p`, `q`", |p| main_of(p).nodes[3].operands.swap(0, 2));

    let repeat = |p: &mut Program, change: &dyn Fn(&mut Vec<RepeatArgument>, &mut Vec<RepeatResult>)| {
        let Op::Repeat { arguments, results, .. } = &mut main_of(p).nodes[0].op else { panic!() };
        change(arguments, results);
    };
    let place = "function `p`, `a`";
    refused(Reason::Count, place, |p| {
        repeat(p, &|arguments, _| {
            arguments.pop();
        })
    });
    refused(Reason::Count, place, |p| {
        repeat(p, &|_, results| {
            results.pop();
        })
    });
    refused(Reason::Call, place, |p| repeat(p, &|arguments, _| arguments[1] = RepeatArgument::Shared));
    refused(Reason::Call, place, |p| repeat(p, &|_, results| results[0] = RepeatResult::Carried(7)));
    refused(Reason::Call, place, |p| repeat(p, &|_, results| results[0] = RepeatResult::Stacked));
    refused(Reason::Call, place, |p| repeat(p, &|_, results| results[1] = RepeatResult::Carried(0)));
    refused(Reason::Name, place, |p| {
        repeat(p, &|arguments, _| arguments[0] = RepeatArgument::Carried { name: "x".into() });
    });

    refused(Reason::Fact, "the program", |p| {
        p.facts.declare_splits("of", "E", "T").expect("a new fact");
    });
    refused(Reason::Fact, "the program", |p| {
        p.facts.declare_range("x", 0, 3).expect("a new fact");
    });
    refused(Reason::Fact, "the program", |p| {
        p.facts.declare("over", 0, None).expect("a new fact");
    });
}

/// A generator with a fixed seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end.max(1)
    }
}

/// One random change somewhere in a program.
fn damage(random: &mut Random, program: &mut Program) {
    const NAMES: [&str; 12] = ["s", "d", "S", "D", "l", "x", "off", "e", "t", "over", "h", "y"];
    let name = Symbol::new(NAMES[random.below(NAMES.len())]);
    let id = ValueId(random.below(16) as u32);
    let dtype = DType::ALL[random.below(DType::ALL.len())];
    let which = random.below(program.functions.len());
    let Some(function) = program.functions.get_mut(which) else { return };
    let value = random.below(function.values.len());
    let node = random.below(function.nodes.len());
    let choice = random.below(16);
    if let (0..4, Some(value)) = (choice, function.values.get_mut(value)) {
        let axis = random.below(value.ty.axes.len());
        match (choice, value.ty.axes.get_mut(axis)) {
            (0, _) => value.name = name,
            (1, _) => value.ty.dtype = dtype,
            (2, Some(axis)) => axis.name = name,
            (3, Some(axis)) => axis.extent = Dim::symbol(name),
            _ => {
                value.ty.axes.pop();
            }
        }
        return;
    }
    if choice == 4 {
        function.results.push(id);
        return;
    }
    if choice == 5 {
        {
            function.params.pop();
        };
        return;
    }
    let Some(node) = function.nodes.get_mut(node) else { return };
    let operand = random.below(node.operands.len());
    match (choice, node.operands.get_mut(operand)) {
        (6, Some(Operand::Value { value, .. })) => *value = id,
        (7, Some(Operand::Value { labels, .. })) => {
            let at = random.below(labels.len());
            if let Some(label) = labels.get_mut(at) {
                *label = name;
            }
        }
        (8, Some(operand)) => *operand = Operand::Literal(Scalar::Int(3)),
        (9, Some(operand)) => *operand = Operand::Dim(Dim::symbol(name)),
        (10, _) => {
            node.operands.pop();
        }
        (11, _) => node.results.push(id),
        (12, _) => node.result_labels.push(name),
        (13, _) => node.result_labels.reverse(),
        _ => match &mut node.op {
            Op::Elementwise { function } => {
                let table = tilewright::tensor::elementwise::TABLE;
                *function = &table[random.below(table.len())];
            }
            Op::Reduce { over, accumulate, .. } if choice == 14 => {
                over.push(name);
                *accumulate = dtype;
            }
            Op::Reduce { monoid, .. } => {
                let table = tilewright::tensor::monoid::TABLE;
                *monoid = &table[random.below(table.len())];
            }
            Op::Contract { guard, accumulate } if choice == 14 => {
                guard.masks.push((id, vec![name]));
                *accumulate = dtype;
            }
            Op::Contract { guard, .. } => guard.condition = Cond::lt(name, 2),
            Op::Call { function } => *function = FunctionId(random.below(3) as u32),
            Op::Repeat { arguments, results, .. } => {
                let at = random.below(arguments.len());
                if choice == 14 {
                    arguments[at] = RepeatArgument::Sliced;
                } else {
                    results.push(RepeatResult::Carried(at));
                }
            }
            Op::Special { attributes, .. } => {
                attributes.pop();
            }
        },
    }
}

#[test]
fn broken_programs_are_refused_or_legal() {
    let whole = program();
    let mut random = Random(0xBAD);
    let mut legal = 0;
    for _ in 0..10_000 {
        let mut program = whole.clone();
        for _ in 0..1 + random.below(3) {
            damage(&mut random, &mut program);
        }
        let printed = program.to_string();
        match verify(&program) {
            Err(violation) => assert!(!violation.message.is_empty()),
            Ok(()) => {
                legal += 1;
                let again = parse("p", &printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
                assert_eq!(again, program, "{printed}");
            }
        }
    }
    assert!((300..9_000).contains(&legal), "{legal} of 10000 broken programs are legal");
}

#[test]
fn the_builder_refuses_and_stays_as_it_was() {
    let facts: Facts = "S in 0..=8, D = 4".parse().expect("facts");
    let mut program = ProgramBuilder::new(facts);
    let mut f = program.start("p");
    let ty = |axes: &[&str]| {
        tilewright::tensor::TensorType::new(DType::F32, axes.iter().map(|name| (*name, *name)))
    };
    let x = f.param("x", ty(&["S", "D"]), ParamKind::Input).expect("legal");
    assert_eq!(f.param("y", ty(&["Q"]), ParamKind::Input).expect_err("Q").reason, Reason::Symbol);
    let problem = f.elementwise("z", "mul", [x.into()]).expect_err("one operand");
    assert_eq!((problem.reason, f.values().len()), (Reason::Count, 1));
    let problem = f.reduce("z", "summ", x, ["D"]).expect_err("no such monoid");
    assert_eq!(problem.to_string(), "unknown operator `summ`; did you mean `sum`?");
    let r = f.reduce("z", "sum", x, ["D"]).expect("legal");
    let z = f.elementwise("z", "mul", [x.into(), f.at(r, ["S"])]).expect("legal");
    assert_eq!(f.values()[z.0 as usize].name.as_str(), "z_1");
    let late = f.param("late", ty(&["S"]), ParamKind::Input).expect_err("after operators");
    assert_eq!(late.reason, Reason::Order);
    let function = f.finish(&[z]).expect("legal");
    program.function(function.clone()).expect("legal");
    assert_eq!(program.function(function).expect_err("twice").reason, Reason::Name);
    verify(&program.finish().expect("legal")).expect("legal");
}

#[test]
fn binding_times_follow_what_a_value_depends_on() {
    let text = "
fn f(a: f32[D], b: f32[D], c: f32[D]) -> f32[D], f32[D], f32[D] {
  u = mul b b
  v = mul a c
  return u, v, c
}
program p(x: f32[S], w: weight f32[D], n: plan i32[S], k: weight f32[4]) -> f32[D]
where S in 0..=8, D in 1..=8, C = 4
{
  one = cast C to f32
  two = cast D to f32
  three = cast S to f32
  four = mul w two
  five = mul w x[s] -> [D, s]
  six = cast n to f32
  seven = sum six[i] over i where i < n[i]
  eight = mul k one
  nine = mul w three
  p, q, r = f(w, four, w)
  g, h, i = repeat l in 3, u = four, v = w { f(u, v, w) -> u, v, [l] }
  j, m, o = repeat l in 3, u = four, v = p { f(u, v, w) -> v, u, [l] }
  y = add nine seven
  return y
}
"
    .replace("k: weight f32[4]", "k: weight f32[c: 4]");
    let program = parse("p", &text).unwrap_or_else(|error| panic!("{error}"));
    let times = binding_times(&program).pop().expect("the program");
    let time = |name: &str| times[value_named(program.main(), name).0 as usize];
    use BindingTime::{Compile, Load, Plan, Run};
    for (name, expected) in [
        ("x", Run),
        ("w", Load),
        ("n", Plan),
        ("one", Compile),
        ("two", Load),
        ("three", Plan),
        ("four", Load),
        ("five", Run),
        ("six", Plan),
        ("seven", Plan),
        ("eight", Load),
        ("nine", Plan),
        ("p", Load),
        ("q", Load),
        ("g", Load),
        ("i", Load),
        ("m", Load),
        ("y", Plan),
    ] {
        assert_eq!(time(name), expected, "{name}");
    }
}

#[test]
fn binding_times_go_through_calls_and_carries() {
    let text = "
fn f(a: f32[D], b: f32[D], w: f32[D]) -> f32[D], f32[D] {
  u = mul b w
  v = mul w w
  return u, v
}
program p(x: f32[D], w: weight f32[D]) -> f32[D]
where D = 4
{
  a, b = f(x, w, w)
  c, d = f(w, x, w)
  g, h = repeat l in 3, u = w, v = w { f(u, v, w) -> u, v }
  i, j = repeat l in 3, u = w, v = x { f(u, v, w) -> u, v }
  y = mul a b
  return y
}
";
    let program = parse("p", text).unwrap_or_else(|error| panic!("{error}"));
    let times = binding_times(&program);
    let main = times.last().expect("the program");
    let time = |name: &str| main[value_named(program.main(), name).0 as usize];
    use BindingTime::{Load, Run};
    // `f` gives `u` from `b` and `w`, `v` from `w` alone.
    assert_eq!([time("a"), time("b"), time("c"), time("d")], [Load, Load, Run, Load]);
    assert_eq!([time("g"), time("h")], [Load, Load]);
    // `u` is what `v` was an iteration before, which is `x` at first; so is `v` before the first iteration.
    assert_eq!([time("i"), time("j")], [Run, Run]);
    let inner = &times[0];
    assert_eq!([inner[0], inner[1], inner[2]], [Run, Run, Load]);
}
