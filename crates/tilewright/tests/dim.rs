//! Dims, conds, facts and compiled dims against brute force.
//!
//! The reference is an interpreter of trees that are never normalised, in 128-bit arithmetic. What a tree's dim
//! gives must be equal wherever the tree has a value.

use proptest::prelude::*;
use std::collections::BTreeMap;
use tilewright::dim::{
    Code, Cond, CondCode, Dim, Env, EvalError, FactError, Facts, Proof, Relation, Scope, Symbol,
};
use tilewright::text::{Error, Parser, Token, format_float};

const NAMES: [&str; 4] = ["a", "b", "S", "T"];
const OFFSETS: [i64; 5] = [0, 2, 2, 3, 7];

#[derive(Clone, Debug)]
enum Tree {
    Constant(i64),
    Symbol(usize),
    Element(Box<Tree>),
    Add(Box<Tree>, Box<Tree>),
    Sub(Box<Tree>, Box<Tree>),
    Mul(Box<Tree>, Box<Tree>),
    Floor(Box<Tree>, Box<Tree>),
    Ceil(Box<Tree>, Box<Tree>),
    Mod(Box<Tree>, Box<Tree>),
    Min(Box<Tree>, Box<Tree>),
    Max(Box<Tree>, Box<Tree>),
}

/// Four symbols and the table `off`.
struct World([i64; 4]);

impl Env for World {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        NAMES.iter().position(|n| *n == symbol.as_str()).map(|i| self.0[i])
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let [i] = index else { return None };
        (table.as_str() == "off").then(|| OFFSETS.get(usize::try_from(*i).ok()?).copied())?
    }
}

fn floor(a: i128, b: i128) -> Option<i128> {
    if b == 0 { None } else { Some((a as f64 / b as f64).floor() as i128) }
}

impl Tree {
    fn dim(&self) -> Dim {
        match self {
            Tree::Constant(value) => Dim::constant(*value),
            Tree::Symbol(i) => Dim::symbol(NAMES[*i]),
            Tree::Element(i) => Dim::element("off", vec![i.dim()]),
            Tree::Add(a, b) => a.dim() + b.dim(),
            Tree::Sub(a, b) => a.dim() - b.dim(),
            Tree::Mul(a, b) => a.dim() * b.dim(),
            Tree::Floor(a, b) => a.dim().floor_div(b.dim()),
            Tree::Ceil(a, b) => a.dim().ceil_div(b.dim()),
            Tree::Mod(a, b) => a.dim().modulo(b.dim()),
            Tree::Min(a, b) => a.dim().min(b.dim()),
            Tree::Max(a, b) => a.dim().max(b.dim()),
        }
    }

    /// The value by definition; none where it has none, or where `f64` would not divide exactly.
    fn eval(&self, env: &dyn Env) -> Option<i128> {
        let two = |a: &Tree, b: &Tree| Some((a.eval(env)?, b.eval(env)?));
        let value = match self {
            Tree::Constant(value) => i128::from(*value),
            Tree::Symbol(i) => env.symbol(&Symbol::new(NAMES[*i]))?.into(),
            Tree::Element(i) => env.element(&Symbol::new("off"), &[i.eval(env)?.try_into().ok()?])?.into(),
            Tree::Add(a, b) => two(a, b).map(|(a, b)| a + b)?,
            Tree::Sub(a, b) => two(a, b).map(|(a, b)| a - b)?,
            Tree::Mul(a, b) => two(a, b).map(|(a, b)| a * b)?,
            Tree::Floor(a, b) => two(a, b).and_then(|(a, b)| floor(a, b))?,
            Tree::Ceil(a, b) => two(a, b).and_then(|(a, b)| floor(-a, b)).map(|q| -q)?,
            Tree::Mod(a, b) => two(a, b).and_then(|(a, b)| Some(a - b * floor(a, b)?))?,
            Tree::Min(a, b) => two(a, b).map(|(a, b)| a.min(b))?,
            Tree::Max(a, b) => two(a, b).map(|(a, b)| a.max(b))?,
        };
        (value.abs() < 1 << 50).then_some(value)
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        2 => (-9i64..10).prop_map(Tree::Constant),
        1 => prop_oneof![Just(0i64), Just(1), Just(-1), Just(2), Just(4), Just(64)].prop_map(Tree::Constant),
        4 => (0usize..NAMES.len()).prop_map(Tree::Symbol),
    ];
    leaf.prop_recursive(4, 20, 2, |inner| {
        let boxed = inner.prop_map(Box::new);
        let pair = (boxed.clone(), boxed.clone());
        prop_oneof![
            1 => boxed.prop_map(Tree::Element),
            3 => pair.clone().prop_map(|(a, b)| Tree::Add(a, b)),
            3 => pair.clone().prop_map(|(a, b)| Tree::Sub(a, b)),
            3 => pair.clone().prop_map(|(a, b)| Tree::Mul(a, b)),
            2 => pair.clone().prop_map(|(a, b)| Tree::Floor(a, b)),
            2 => pair.clone().prop_map(|(a, b)| Tree::Ceil(a, b)),
            2 => pair.clone().prop_map(|(a, b)| Tree::Mod(a, b)),
            1 => pair.clone().prop_map(|(a, b)| Tree::Min(a, b)),
            1 => pair.prop_map(|(a, b)| Tree::Max(a, b)),
        ]
    })
}

fn boxed(tree: Tree) -> Box<Tree> {
    Box::new(tree)
}

fn times(scale: i64, tree: Tree) -> Tree {
    Tree::Mul(boxed(Tree::Constant(scale)), boxed(tree))
}

fn linear() -> impl Strategy<Value = Tree> {
    let symbol = || (0usize..NAMES.len()).prop_map(Tree::Symbol);
    let scale = prop_oneof![3 => Just(1i64), 1 => -4i64..5];
    prop_oneof![
        2 => symbol(),
        2 => (scale, symbol(), -4i64..5)
            .prop_map(|(c, s, d)| Tree::Add(boxed(times(c, s)), boxed(Tree::Constant(d)))),
        1 => (symbol(), symbol()).prop_map(|(a, b)| Tree::Sub(boxed(a), boxed(b))),
    ]
}

/// What is divided, and by what.
fn quotient(numerator: impl Strategy<Value = Tree>) -> impl Strategy<Value = Tree> {
    let divisor = prop_oneof![
        3 => prop::sample::select(vec![2i64, 3, 4, 6, 8]).prop_map(Tree::Constant),
        1 => (0usize..NAMES.len()).prop_map(Tree::Symbol),
    ];
    (numerator, divisor, 0..4).prop_map(|(a, k, kind)| {
        let (x, y) = (boxed(a), boxed(k.clone()));
        match kind {
            0 => Tree::Floor(x, y),
            1 => Tree::Ceil(x, y),
            2 => Tree::Mod(x, y),
            _ => Tree::Mul(boxed(Tree::Floor(x, y)), boxed(k)),
        }
    })
}

/// Sums of the shapes that sizes and offsets have, so that many comparisons of them have a proof.
fn idiom() -> impl Strategy<Value = Tree> {
    let inner = || prop_oneof![3 => linear().boxed(), 1 => quotient(linear()).boxed()];
    let pair = || (linear().prop_map(Box::new), linear().prop_map(Box::new));
    let item = prop_oneof![
        2 => linear().boxed(),
        3 => quotient(inner()).boxed(),
        1 => linear().prop_map(|x| Tree::Element(boxed(x))).boxed(),
        1 => pair().prop_map(|(a, b)| Tree::Min(a, b)).boxed(),
        1 => pair().prop_map(|(a, b)| Tree::Max(a, b)).boxed(),
        1 => (linear(), 0i64..3).prop_map(|(x, d)| {
            let next = Tree::Add(boxed(x.clone()), boxed(Tree::Constant(d)));
            Tree::Sub(boxed(Tree::Element(boxed(next))), boxed(Tree::Element(boxed(x))))
        }).boxed(),
        1 => pair().prop_map(|(a, b)| Tree::Mul(a, b)).boxed(),
    ];
    let scale = prop_oneof![2 => Just(1i64), 2 => Just(-1), 1 => prop::sample::select(vec![2i64, 3, 4, 6, 8, -2, -4])];
    prop::collection::vec((scale, item), 1..4).prop_map(|items| {
        let items = items.into_iter().map(|(c, item)| times(c, item));
        items.reduce(|a, b| Tree::Add(boxed(a), boxed(b))).unwrap_or(Tree::Constant(0))
    })
}

fn sum_or_tree() -> impl Strategy<Value = Tree> {
    prop_oneof![1 => tree().boxed(), 2 => idiom().boxed()]
}

fn relation() -> impl Strategy<Value = Relation> {
    prop::sample::select(Relation::ALL.to_vec())
}

fn cond() -> impl Strategy<Value = Cond> {
    let leaf = (tree(), relation(), tree()).prop_map(|(a, r, b)| Cond::compare(a.dim(), r, b.dim()));
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Cond::all),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Cond::any),
            inner.prop_map(|c| !c),
        ]
    })
}

fn world() -> impl Strategy<Value = World> {
    prop::array::uniform4(-6i64..9).prop_map(World)
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{NAMES:?} = {:?}", self.0)
    }
}

/// How many values of a range without an end are tried.
const TRIED: i64 = 5;

/// Facts over the four symbols and `off`, small enough to try all values.
fn facts() -> impl Strategy<Value = Facts> {
    let extent = prop_oneof![4 => (0i64..6).prop_map(Some), 1 => Just(None)];
    let range = (-3i64..5, extent, prop_oneof![3 => Just(1i64), 1 => 2i64..5]);
    prop::collection::vec(range, 4).prop_map(|ranges| {
        let mut facts = Facts::default();
        for (name, (lo, extent, k)) in NAMES.into_iter().zip(ranges) {
            facts.declare(name, lo, extent.map(|extent| lo + extent)).unwrap();
            let _ = facts.declare_divisor(name, k);
        }
        facts.declare_splits("off", 4, 7).unwrap();
        facts
    })
}

/// All values that satisfy the declared facts, the first few of open ranges.
fn worlds(facts: &Facts) -> Vec<World> {
    let values = |i: usize| {
        let symbol = Symbol::new(NAMES[i]);
        let (lo, hi) = facts.range(&symbol).unwrap();
        let k = facts.divisor(&symbol).unwrap_or(1);
        (lo..=hi.unwrap_or(lo + TRIED)).filter(move |v| v % k == 0)
    };
    let mut all = Vec::new();
    for a in values(0) {
        for b in values(1) {
            for s in values(2) {
                all.extend(values(3).map(|t| World([a, b, s, t])));
            }
        }
    }
    all
}

/// Fails if a proof is contradicted by one of the worlds.
fn check(
    proof: Proof,
    what: &dyn std::fmt::Debug,
    worlds: &[World],
    holds: impl Fn(&World) -> Option<bool>,
) -> Result<(), TestCaseError> {
    for world in worlds {
        if let (Some(value), true) = (holds(world), proof != Proof::Unknown) {
            prop_assert_eq!(proof, if value { Proof::Yes } else { Proof::No }, "{:?} at {:?}", what, world);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn normal_forms_keep_the_value(tree in sum_or_tree(), world in world()) {
        let dim = tree.dim();
        if let Some(value) = tree.eval(&world) {
            prop_assert_eq!(dim.eval(&world).map(i128::from), Ok(value), "{}", dim);
        }
    }

    #[test]
    fn dims_read_back(tree in sum_or_tree()) {
        let dim = tree.dim();
        prop_assert_eq!(dim.to_string().parse::<Dim>(), Ok(dim));
    }

    #[test]
    fn conds_read_back(cond in cond()) {
        prop_assert_eq!(cond.to_string().parse::<Cond>(), Ok(cond));
    }

    #[test]
    fn substituting_commutes_with_evaluating(tree in tree(), by in tree(), world in world()) {
        let dim = tree.dim();
        let a = Symbol::new("a");
        let put = dim.substitute(&|s| (*s == a).then(|| by.dim()));
        if let Some(value) = by.eval(&world).and_then(|v| i64::try_from(v).ok()) {
            let (names, values) = ([a], [value]);
            let scope = Scope { parent: &world, names: &names, values: &values };
            if let (Some(value), true) = (tree.eval(&scope), put.as_atom() != Dim::overflow().as_atom()) {
                prop_assert_eq!(put.eval(&world).map(i128::from), Ok(value), "{} in {}", by.dim(), dim);
            }
        }
    }

    #[test]
    fn affine_forms_are_the_dim(tree in tree()) {
        let dim = tree.dim();
        let vars = [Symbol::new("a"), Symbol::new("S")];
        if let Some(affine) = dim.affine(&vars) {
            let sum: Dim = affine.coefficients.iter().zip(&vars).map(|(c, v)| c * Dim::from(v)).sum();
            prop_assert_eq!(sum + &affine.constant, dim);
            let parts = affine.coefficients.iter().chain([&affine.constant]);
            prop_assert!(parts.into_iter().all(|part| vars.iter().all(|var| !part.mentions(var))));
        }
    }

    #[test]
    fn code_gives_what_the_dim_gives(tree in tree(), bound in world(), slots in prop::array::uniform2(-6i64..9)) {
        let dim = tree.dim();
        let vars = [Symbol::new("S"), Symbol::new("a")];
        let code = Code::dim(&dim, &vars, &bound).unwrap();
        let scope = Scope { parent: &bound, names: &vars, values: &slots };
        if let Ok(value) = dim.eval(&scope) {
            prop_assert_eq!(code.eval(&slots, &bound), Ok(value), "{}", dim);
            if let Some((coefficients, constant)) = code.as_affine() {
                prop_assert_eq!(coefficients[0] * slots[0] + coefficients[1] * slots[1] + constant, value);
            }
        }
    }

    #[test]
    fn cond_code_gives_what_the_cond_gives(cond in cond(), bound in world(), slots in prop::array::uniform2(-6i64..9)) {
        let vars = [Symbol::new("S"), Symbol::new("a")];
        let code = CondCode::cond(&cond, &vars, &bound).unwrap();
        let scope = Scope { parent: &bound, names: &vars, values: &slots };
        if let Ok(value) = cond.eval(&scope) {
            prop_assert_eq!(code.eval(&slots, &bound), Ok(value), "{}", cond);
        }
    }

    #[test]
    fn lexing_anything_does_not_panic(text in "\\PC*") {
        let _ = text.parse::<Dim>().map_err(|e| e.to_string());
        let _ = text.parse::<Cond>().map_err(|e| e.to_string());
        let _ = text.parse::<Facts>().map_err(|e| e.to_string());
    }

    #[test]
    fn parsing_token_soup_does_not_panic(words in prop::collection::vec(prop::sample::select(vec![
        "a", "off", "[", "]", "(", ")", "min", "mod", "floordiv", ",", "+", "-", "*", "1", "0", "9223372036854775807",
        "and", "or", "not", "true", "<", "==", "in", "..", "..=", "by", "=", "splits", "over", "elements", "\n", "é",
    ]), 0..24)) {
        let text = words.join(" ");
        let _ = text.parse::<Dim>().map_err(|e| e.to_string());
        let _ = text.parse::<Cond>().map_err(|e| e.to_string());
        let _ = text.parse::<Facts>().map_err(|e| e.to_string());
    }

    #[test]
    fn floats_read_back(value in prop::num::f64::ANY) {
        let text = format_float(value);
        let (read, _) = Parser::new("f", &text).unwrap().number("a number").unwrap();
        prop_assert!(read == value || (read.is_nan() && value.is_nan()), "{}", text);
        prop_assert!(["inf", "-inf", "nan"].contains(&text.as_str()) || text.contains(['.', 'e']));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn proofs_hold_for_all_values(facts in facts(), a in sum_or_tree(), b in sum_or_tree(), k in 1i64..9) {
        let worlds = worlds(&facts);
        let (x, y) = (a.dim(), b.dim());
        let both = |world: &World| Some((a.eval(world)?, b.eval(world)?));
        let what = (&facts, &x, &y, k);
        check(facts.le(&x, &y), &what, &worlds, |w| both(w).map(|(a, b)| a <= b))?;
        check(facts.lt(&x, &y), &what, &worlds, |w| both(w).map(|(a, b)| a < b))?;
        check(facts.equal(&x, &y), &what, &worlds, |w| both(w).map(|(a, b)| a == b))?;
        check(facts.nonneg(&x), &what, &worlds, |w| a.eval(w).map(|a| a >= 0))?;
        check(facts.divides(k, &x), &what, &worlds, |w| a.eval(w).map(|a| a % i128::from(k) == 0))?;
        let interval = facts.interval(&x);
        for world in &worlds {
            if let Some(value) = a.eval(world).and_then(|v| i64::try_from(v).ok()) {
                prop_assert!(interval.contains(value), "{:?} {} at {:?}", interval, x, world);
            }
        }
    }

    #[test]
    fn conds_proved_hold_for_all_values(facts in facts(), cond in cond()) {
        let proof = facts.holds(&cond);
        check(proof, &(&facts, &cond), &worlds(&facts), |w| cond.eval(w).ok())?;
    }

    #[test]
    fn proofs_hold_within_assumptions(
        facts in facts(), lo in linear(), end in sum_or_tree(), other in linear(), x in idiom(), y in idiom(),
    ) {
        let assumed = facts.assume("a", lo.dim(), end.dim()).assume("b", other.dim(), 3);
        let inside = |w: &World| {
            let (a, b) = (i128::from(w.0[0]), i128::from(w.0[1]));
            Some(lo.eval(w)? <= a && a < end.eval(w)? && other.eval(w)? <= b && b < 3)
        };
        let worlds: Vec<World> = worlds(&facts).into_iter().filter(|w| inside(w) == Some(true)).collect();
        let (p, q) = (x.dim(), y.dim());
        let both = |w: &World| Some((x.eval(w)?, y.eval(w)?));
        check(assumed.le(&p, &q), &(&assumed, &p, &q), &worlds, |w| both(w).map(|(a, b)| a <= b))?;
        check(assumed.equal(&p, &q), &(&assumed, &p, &q), &worlds, |w| both(w).map(|(a, b)| a == b))?;
    }

    #[test]
    fn facts_read_back(facts in facts()) {
        prop_assert_eq!(facts.to_string().parse::<Facts>(), Ok(facts));
    }
}

fn dim(text: &str) -> Dim {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn known(text: &str) -> Facts {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn prove(facts: &Facts, cond: &str) -> Proof {
    facts.holds(&cond.parse().unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn dims_print_in_normal_form() {
    for (text, expected) in [
        ("1 + S", "S + 1"),
        ("-S + T", "T - S"),
        ("(m + 1)*64", "64*m + 64"),
        ("1 - S", "1 - S"),
        ("-S - 1", "-S - 1"),
        ("a*b*2 - b*a", "a*b"),
        ("floordiv(4*a + 5, 4)", "a + 1"),
        ("floordiv(S + 63, 64)", "ceildiv(S, 64)"),
        ("ceildiv(S + 1, 64)", "floordiv(S, 64) + 1"),
        ("floordiv(64*m + 64, 128)", "ceildiv(m, 2)"),
        ("floordiv(floordiv(S, 4), 16)", "floordiv(S, 64)"),
        ("mod(64*m + 3, 128)", "64*mod(m, 2) + 3"),
        ("mod(mod(x, 64), 32)", "mod(x, 32)"),
        ("mod(mod(x, 4), 3)", "mod(mod(x, 4), 3)"),
        ("mod(mod(x, 4), 5)", "mod(x, 4)"),
        ("floordiv(mod(x, 4), 3)", "floordiv(mod(x, 4), 3)"),
        ("floordiv(mod(x, 4), 4)", "0"),
        ("mod(a, 1)", "0"),
        ("mod(-7, 4)", "1"),
        ("mod(7, -4)", "-1"),
        ("floordiv(-7, 4)", "-2"),
        ("ceildiv(-7, 4)", "-1"),
        ("floordiv(S, 0)", "floordiv(S, 0)"),
        ("min(a, min(b, 3), a, 5)", "min(3, a, b)"),
        ("max(a + 1, a + 3)", "a + 3"),
        ("off[e + 1] - off[e]", "off[e + 1] - off[e]"),
        ("9223372036854775807 + 1", "overflow()"),
        ("-9223372036854775807 - 1", "-9223372036854775807 - 1"),
    ] {
        assert_eq!(dim(text).to_string(), expected, "{text}");
        assert_eq!(dim(expected), dim(text), "{text}");
    }
}

#[test]
fn extreme_coefficients_read_back() {
    let least = Dim::constant(i64::MIN);
    for dim in [least.clone(), &least * Dim::from("a"), &least * Dim::from("a") + Dim::from("S") + &least] {
        assert_eq!(dim.to_string().parse::<Dim>(), Ok(dim));
    }
    assert_eq!((-&least).to_string(), "overflow()");
    assert_eq!(least.floor_div(-1).to_string(), "floordiv(-9223372036854775807 - 1, -1)");
}

#[test]
fn the_symbolic_minimum_is_what_method_syntax_gives() {
    let (a, b) = (Dim::from("b"), Dim::from("a"));
    assert_eq!(a.clone().min(b.clone()).to_string(), "min(a, b)");
    let borrowed = &a;
    assert_eq!(borrowed.min(&b).to_string(), "min(a, b)");
    assert_eq!(Dim::max(&a, 3).to_string(), "max(3, b)");
}

#[test]
fn evaluation_says_why_it_fails() {
    let env = BTreeMap::from([(Symbol::new("x"), 0), (Symbol::new("big"), i64::MAX)]);
    let fails = |text: &str| dim(text).eval(&env).unwrap_err().to_string();
    assert_eq!(fails("y + 1"), "`y` has no value");
    assert_eq!(fails("floordiv(1, x)"), "`floordiv(1, x)` divides by zero");
    assert_eq!(fails("big*2"), "`2*big` is beyond 64 bits");
    assert_eq!(fails("off[x]"), "`off` has no element [0]");
    assert_eq!(fails("overflow() + 1"), "`overflow()` is beyond 64 bits");
    assert_eq!(dim("big*2 - big").eval(&env), Ok(i64::MAX));
    assert_eq!(dim("x").eval(&()), Err(EvalError::Unbound(Symbol::new("x"))));
}

#[test]
fn conds_print_and_fold() {
    for (text, expected) in [
        ("j <= i + T - S and j > i - 4", "j <= T + i - S and j > i - 4"),
        ("not (a < b)", "a >= b"),
        ("not (a < b or c == d)", "not (a < b or c == d)"),
        ("(a < b or c == d) and (a + b)*2 != 3", "(a < b or c == d) and 2*a + 2*b != 3"),
        ("a < a + 1 and b < c", "b < c"),
        ("true or a < b", "true"),
        ("((((a)) < b))", "a < b"),
    ] {
        let cond: Cond = text.parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(cond.to_string(), expected);
    }
}

#[test]
fn facts_print_sorted_and_read_back() {
    let text = "S in 0..=8192, D = 4096, N in 1.., K in 64..=4096 by 64, off splits T over E, ids elements 0..=V - 1";
    let facts = known(text);
    let shown = "D = 4096, K in 64..=4096 by 64, N in 1.., S in 0..=8192, ids elements 0..=V - 1, off splits T over E";
    assert_eq!(facts.to_string(), shown);
    assert_eq!(known(shown), facts);
    assert_eq!(facts.resolve(&dim("S*D")), dim("4096*S"));
    assert_eq!(facts.splits(&"off".into()), Some((&dim("E"), &dim("T"))));
}

#[test]
fn facts_merge_or_are_refused() {
    let mut facts = known("S in 0..=8192, K in 64..=4096 by 64");
    assert_eq!(facts.declare("S", 0, 8192), Ok(()));
    let error = facts.declare("S", 0, 4096).unwrap_err().to_string();
    assert_eq!(error, "`S` is 0..=8192 already, so it cannot be 0..=4096");
    assert_eq!(facts.declare_divisor("K", 64), Ok(()));
    assert!(facts.declare_divisor("K", 32).is_err());
    assert_eq!(facts.declare_divisor("K", 0), Err(FactError::Divisor { symbol: "K".into(), divisor: 0 }));
    assert_eq!(facts.declare_divisor("Q", 2), Err(FactError::Undeclared("Q".into())));
    assert_eq!(facts.declare_splits("off", "E", "T"), Ok(()));
    assert_eq!(facts.declare_splits("off", "E", "T"), Ok(()));
    assert!(facts.declare_splits("off", "E", "S").is_err());
    assert!(facts.declare("X", 5, 4).is_err());
    let other = known("S in 0..=8192, N in 1..");
    assert_eq!(facts.merge(&other), Ok(()));
    assert!(facts.merge(&known("N in 2..")).is_err());
}

#[test]
fn given_sizes_are_checked() {
    let facts = known("S in 0..=8192, K in 64..=4096 by 64");
    let given = |name: &str, value: i64| facts.verify_env(&BTreeMap::from([(Symbol::new(name), value)]));
    assert_eq!(given("S", 0), Ok(()));
    assert_eq!(given("S", 9000).unwrap_err().to_string(), "S = 9000 is outside 0..=8192");
    assert_eq!(given("K", 65).unwrap_err().to_string(), "K = 65 is not a multiple of 64");
    assert_eq!(given("other", 65), Ok(()));
}

#[test]
fn the_proofs_that_schedules_need() {
    let facts = known(
        "S in 0..=8192, T in 0.., K in 64..=4096 by 64, c in 1.., E = 8, V in 1.., off splits T over E, \
         ids elements 0..=V - 1, n in 0..",
    );
    let in_block = facts.assume("m", 0, dim("ceildiv(S, 64)")).assume("i", 0, dim("min(64, S - 64*m)"));
    let in_part = facts.assume("e", 0, dim("E")).assume("r", 0, dim("off[e + 1] - off[e]"));
    let parts = facts.assume("p", 0, dim("ceildiv(n, c)")).assume("q", 0, dim("min(c, n - c*p)"));
    for (facts, cond, proof) in [
        (&facts, "S <= 8192", Proof::Yes),
        (&facts, "S < 8192", Proof::Unknown),
        (&facts, "S > 8192", Proof::No),
        (&facts, "floordiv(S, 64)*64 <= S", Proof::Yes),
        (&facts, "ceildiv(S, 64)*64 >= S", Proof::Yes),
        (&facts, "ceildiv(S, 64)*64 < S + 64", Proof::Yes),
        (&facts, "c*floordiv(n, c) <= n", Proof::Yes),
        (&facts, "c*ceildiv(n, c) >= n", Proof::Yes),
        (&facts, "mod(n, c) < c and mod(n, c) >= 0", Proof::Yes),
        (&facts, "mod(n, 64) <= n", Proof::Yes),
        (&facts, "min(S, T) <= T", Proof::Yes),
        (&facts, "max(S, T) >= S", Proof::Yes),
        (&facts, "floordiv(K, 64)*64 == K", Proof::Yes),
        (&facts, "K == 65", Proof::No),
        (&facts, "K == 2*S + 1", Proof::No),
        (&facts, "64*floordiv(n, 64) + mod(n, 64) == n", Proof::Yes),
        (&facts, "T*S >= 0", Proof::Yes),
        (&facts, "S*c >= S", Proof::Yes),
        (&facts, "ids[T] < V", Proof::Yes),
        (&in_block, "64*m < S", Proof::Yes),
        (&in_block, "64*m + i < S and 64*m + i >= 0", Proof::Yes),
        (&in_block, "i < 64", Proof::Yes),
        (&in_block, "min((m + 1)*64, S) - 64*m <= 64", Proof::Yes),
        (&in_block, "min((m + 1)*64, S) - 64*m >= 1", Proof::Yes),
        (&in_part, "off[e] + r < T", Proof::Yes),
        (&in_part, "off[e] + r >= 0", Proof::Yes),
        (&in_part, "off[e + 1] - off[e] <= T", Proof::Yes),
        (&in_part, "off[E] == T and off[0] == 0", Proof::Yes),
        (&parts, "c*p + q < n", Proof::Yes),
        (&parts, "c*p + q >= 0", Proof::Yes),
    ] {
        assert_eq!(prove(facts, cond), proof, "{cond}");
    }
    assert_eq!(facts.divides(64, &dim("K*S + 128")), Proof::Yes);
    assert_eq!(facts.divides(64, &dim("K + 1")), Proof::No);
    assert_eq!(facts.divides(64, &dim("S")), Proof::Unknown);
}

#[test]
fn code_takes_the_short_ways() {
    let env = BTreeMap::from([(Symbol::new("S"), 10)]);
    let vars = [Symbol::new("i"), Symbol::new("j")];
    let code = Code::dim(&dim("S*i + j + 3"), &vars, &env).unwrap();
    assert_eq!(code.as_affine(), Some(([10, 1].as_slice(), 3)));
    assert_eq!(code.eval(&[2, 4], &()), Ok(27));
    assert_eq!(code.eval(&[2], &()), Err(EvalError::Unbound(Symbol::new("j"))));
    assert!(code.eval(&[i64::MAX, 0], &()).is_err());
    assert_eq!(Code::dim(&dim("k"), &vars, &env).unwrap_err(), EvalError::Unbound(Symbol::new("k")));
    let divides = Code::dim(&dim("floordiv(S, i)"), &vars, &env).unwrap();
    assert_eq!(divides.eval(&[3, 0], &()), Ok(3));
    assert_eq!(divides.eval(&[0, 0], &()).unwrap_err().to_string(), "`floordiv(S, i)` divides by zero");
}

#[test]
fn errors_show_the_line_and_a_caret() {
    let text = "\n\n\n\n\n\n  return contract h[S, D] w[N, D]\n";
    let start = text.find("h[").unwrap();
    let span = tilewright::text::Span { start, end: start + 1 };
    let error = Parser::new("rmsnorm.tensor", text).unwrap().error(span, "unknown value `h`");
    let expected = "error: unknown value `h`\n \
                    --> rmsnorm.tensor:7:19\n  \
                    |\n\
                    7 |   return contract h[S, D] w[N, D]\n  \
                    |                   ^";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn errors_of_the_lexer_and_of_facts() {
    let fails = |text: &str| text.parse::<Facts>().unwrap_err();
    let error = fails("S in 0..=4,\nS in 0..=5");
    assert_eq!((error.line, error.column, error.message.as_str()), (2, 1, "`S` is declared twice"));
    assert_eq!(fails("S in 5..=4").message, "`S` in 5..=4 has no value");
    assert_eq!(fails("S in 65..=100 by 64").message, "`S` in 65..=100 by 64 has no value");
    assert_eq!(fails("S in 0..8").message, "a range with an upper bound is written `lo..=hi`");
    assert_eq!(fails("ü = 3").message, "unknown character `ü`");
    assert_eq!(fails("S = 9223372036854775808").message, "`9223372036854775808` is out of range");
    assert_eq!(fails("S = \"x").message, "this string is not closed");
    assert_eq!("min(a)".parse::<Dim>().unwrap_err().message, "`min` takes two or more dims");
    assert_eq!("a +".parse::<Dim>().unwrap_err().message, "expected a dim, found the end of the text");
    assert_eq!(
        "(a + b".parse::<Cond>().unwrap_err().message,
        "expected a comparison, found the end of the text"
    );
    assert_eq!(
        "(a < b and c".parse::<Cond>().unwrap_err().message,
        "expected a comparison, found the end of the text"
    );
    let deep = "(".repeat(100_000);
    assert_eq!(deep.parse::<Cond>().unwrap_err().message, "nested more than 64 deep");
    let deep = "not ".repeat(100_000);
    assert_eq!(deep.parse::<Cond>().unwrap_err().message, "nested more than 64 deep");
    assert_eq!(
        "-".repeat(100_000).parse::<Dim>().unwrap_err().message,
        "expected a dim, found the end of the text"
    );
}

#[test]
fn long_lines_are_cut_around_the_caret() {
    let text = format!("{} $ {}", "a ".repeat(200), "b ".repeat(200));
    let error: Error = Parser::new("f", &text).unwrap_err();
    let shown = error.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() < 130));
    assert_eq!(lines[3].chars().nth(lines[4].find('^').unwrap()), Some('$'));
    assert_eq!(error.column, 402);
}

#[test]
fn tokens_know_their_lines() {
    let mut p = Parser::new("f", "a->b # note\n  1..=2 0.5e-3 \"s\"").unwrap();
    let mut seen = Vec::new();
    while !p.is_end() {
        seen.push((p.on_new_line(), p.next().0));
    }
    let expected = [
        (true, Token::Ident("a")),
        (false, Token::Punct("->")),
        (false, Token::Ident("b")),
        (true, Token::Int(1)),
        (false, Token::Punct("..=")),
        (false, Token::Int(2)),
        (false, Token::Float(0.5e-3)),
        (false, Token::Str("s")),
    ];
    assert_eq!(seen, expected);
    assert_eq!(p.next().0, Token::End);
}

#[test]
fn a_table_and_a_symbol_keep_apart() {
    let d = dim("off[off + x[i]]");
    assert_eq!(d.symbols().into_iter().map(|s| s.to_string()).collect::<Vec<_>>(), ["i", "off"]);
    assert_eq!(d.tables().into_iter().map(|s| s.to_string()).collect::<Vec<_>>(), ["off", "x"]);
    assert_eq!(d.rename_tables(&|t| (t.as_str() == "x").then(|| "y".into())), dim("off[off + y[i]]"));
    assert_eq!(d.substitute(&|s| (s.as_str() == "i").then(|| 3.into())), dim("off[off + x[3]]"));
}

#[test]
fn a_dim_that_is_linear_in_one_symbol_determines_it() {
    let dim = |text: &str| text.parse::<Dim>().expect("a dim");
    let solved =
        |text: &str, actual: i64| dim(text).solve(actual).map(|(symbol, value)| (symbol.to_string(), value));
    assert_eq!(solved("S", 7), Some(("S".into(), 7)));
    assert_eq!(solved("E + 1", 5), Some(("E".into(), 4)));
    assert_eq!(solved("4*H", 12), Some(("H".into(), 3)));
    assert_eq!(solved("4*H", 13), None);
    assert_eq!(solved("3 - E", 1), Some(("E".into(), 2)));
    assert_eq!(solved("E + 1", i64::MIN), None);
    assert_eq!(solved("-E", i64::MIN), None);
    for text in ["5", "S*T", "S*S", "S + T", "off[S]", "floordiv(S, 2)"] {
        assert_eq!(dim(text).determines(), None, "{text}");
    }
}
