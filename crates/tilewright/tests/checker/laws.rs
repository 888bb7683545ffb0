//! One test for each law of `docs/checker.md`.

use super::support::*;
use tilewright::superopt::check::evaluate::Machine;
use tilewright::superopt::check::interpretation::{Interpretation, Site};
use tilewright::superopt::check::tower::{Real, Tower};
use tilewright::superopt::check::{Contract, Law, primes};
use tilewright::tensor::{DType, elementwise};

/// A program of one body over `x` and `y` of extent N, and a vector `r` of it.
fn body(lines: &str) -> String {
    format!(
        "program p(x: f32[n: N], y: f32[n: N], z: f32[n: N]) -> f32[n: N] where N in 0..=64 {{\n{lines}\n}}"
    )
}

#[track_caller]
fn equal(a: &str, b: &str) {
    accepted(&body(a), &body(b));
}

#[track_caller]
fn different(a: &str, b: &str) -> Law {
    refused(&body(a), &body(b)).law
}

fn apply(tower: &Tower, name: &str, arguments: &[&Real]) -> Real {
    let function = elementwise::find(name).unwrap_or_else(|| panic!("{name}"));
    let arguments: Vec<Real> = arguments.iter().map(|x| (*x).clone()).collect();
    tower.apply(function, &arguments, DType::F64)
}

/// Whether two reals agree at a level that neither misses.
#[track_caller]
fn same(tower: &Tower, a: &Real, b: &Real) {
    assert_eq!(tower.agree(a, b), (true, true), "{a:?}\n{b:?}");
}

/// 2.1
#[test]
fn a_tower_is_a_chain_of_primes() {
    for seed in 0..20 {
        let chain = primes::chain(primes::HEIGHT, seed);
        assert!(chain.iter().all(|&p| primes::is_prime(p)), "{chain:?}");
        assert!(chain.windows(2).all(|pair| pair[1] == 2 * pair[0] + 1), "{chain:?}");
        assert!(chain[0] > 1 << 31 && chain[0] % 120_120 == 120_119, "{chain:?}");
        for p in &chain {
            // The inverse and the logarithm, by what they are.
            let generator = primes::generator(*p, seed);
            assert_eq!(primes::multiply(generator, primes::inverse(generator, *p), *p), 1);
            assert_eq!(primes::power(generator, (p - 1) / 2, *p), 1);
        }
    }
    let composites = [2047, 3_215_031_751, 3_474_749_660_383, 561, 1 << 40];
    assert!(composites.iter().all(|&n| !primes::is_prime(n)));
    assert!([2, 3, 8191, 2_147_483_647, 1_000_000_007].iter().all(|&n| primes::is_prime(n)));
    let first: Vec<Vec<u64>> = (0..20).map(|seed| primes::chain(1, seed)).collect();
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]), "primes are fresh");
}

/// 2.2
#[test]
fn literals_and_sizes_are_exact() {
    let tower = Tower::new(3, 1);
    let three_eighths = apply(&tower, "div", &[&tower.integer(3), &tower.integer(8)]);
    same(&tower, &tower.number(0.375), &three_eighths);
    same(&tower, &tower.number(-0.375), &apply(&tower, "neg", &[&three_eighths]));
    equal("a = mul x 0.5\nreturn add a a", "return mul x 1.0");
    assert_eq!(different("return mul x 0.1", "return mul x 0.10000001"), Law::Tower);
    assert_eq!(different("return mul x N", "return mul x 2.0"), Law::Tower);
}

/// 2.3
#[test]
fn signs_multiply() {
    for seed in 0..50 {
        let tower = Tower::new(4, seed);
        let zero = tower.number(0.0);
        let site = Site { side: 0, function: 0, node: 0 };
        let positive =
            |x: &Real| tower.indicator(tower.compare(site, tilewright::dim::Relation::Gt, x, &zero));
        for n in [1i64, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 64, 4096, 14336, 151_200] {
            same(&tower, &positive(&tower.integer(n)), &tower.number(1.0));
            same(&tower, &positive(&tower.integer(-n)), &zero);
        }
        let x = tower.random(7);
        let minus = apply(&tower, "neg", &[&x]);
        let both = apply(&tower, "add", &[&positive(&x), &positive(&minus)]);
        same(&tower, &both, &tower.number(1.0));
        same(&tower, &positive(&apply(&tower, "mul", &[&x, &x])), &tower.number(1.0));
    }
    // A sum of positive numbers may be negative: what needs more is refused, right or not.
    let sum = "a = mul x x\nb = mul y y\ns = add a b";
    different(&format!("{sum}\nreturn abs s"), &format!("{sum}\nreturn add s 0.0"));
}

/// 2.4
#[test]
fn exponentials_are_homomorphisms() {
    equal("s = add x y\nreturn exp s", "a = exp x\nb = exp y\nreturn mul a b");
    equal("s = sub x y\nreturn exp s", "a = exp x\nb = exp y\nreturn div a b");
    // The other way round is an identity too, but the rounding of a large sum is magnified.
    assert_eq!(different("a = exp x\nb = exp y\nreturn mul a b", "s = add x y\nreturn exp s"), Law::Budget);
    equal("a = exp x\nreturn abs a", "return exp x");
    assert_eq!(different("a = exp x\nb = exp y\nreturn add a b", "s = add x y\nreturn exp s"), Law::Tower);
    assert_eq!(different("s = mul x y\nreturn exp s", "a = exp x\nb = exp y\nreturn mul a b"), Law::Tower);
    // Inside one another, up to the height of the tower.
    equal(
        "a = exp x\nb = exp a\nc = exp y\nd = exp c\nreturn mul b d",
        "a = exp x\nc = exp y\ns = add a c\nreturn exp s",
    );
    let deep = "a = exp x\nb = exp a\nc = exp b\nd = exp c\nreturn exp d";
    assert_eq!(different(deep, deep), Law::Height);
}

/// 2.5
#[test]
fn logarithms_are_inverse() {
    equal("a = exp x\nreturn log a", "return add x 0.0");
    equal("a = exp x\nb = exp y\nc = mul a b\nreturn log c", "return add x y");
    equal("a = exp x\nl = log a\nb = exp l\nreturn add b y", "a = exp x\nreturn add a y");
    // A logarithm of a square, and of a product of two that may be negative.
    let law = different("a = mul x x\nreturn log a", "a = log x\nreturn mul a 2.0");
    assert!(matches!(law, Law::Definition | Law::Tower), "{law:?}");
    let law = different("a = mul x y\nreturn log a", "a = log x\nb = log y\nreturn add a b");
    assert!(matches!(law, Law::Definition | Law::Tower), "{law:?}");
}

/// 2.6
#[test]
fn roots_are_positive() {
    equal("a = mul x x\nreturn sqrt a", "return abs x");
    equal("a = sqrt x\nreturn mul a a", "a = sqrt x\nb = sqrt x\nreturn mul a b");
    equal("a = sqrt x\nreturn div y a", "a = rsqrt x\nreturn mul y a");
    equal("return pow x 2.0", "return mul x x");
    equal("return pow x 0.5", "return sqrt x");
    // Equal in the tower; of -inf the power is 0 and the inverse root is NaN.
    assert_eq!(different("return pow x -0.5", "return rsqrt x"), Law::Class);
    assert_eq!(different("return pow x 0.5", "return rsqrt x"), Law::Tower);
    let law = different("a = mul x x\nreturn sqrt a", "return add x 0.0");
    assert_eq!(law, Law::Tower);
    assert_eq!(different("a = sqrt x\nreturn mul a a", "return add x 0.0"), Law::Definition);
    assert_eq!(different("return pow x 3.0", "return pow x 5.0"), Law::Tower);
}

/// 2.7
#[test]
fn sigmoid_and_tanh_are_quotients_of_exponentials() {
    equal("return sigmoid x", "a = neg x\nb = exp a\nc = add b 1.0\nreturn div 1.0 c");
    equal("a = sigmoid x\nreturn sub 1.0 a", "a = neg x\nreturn sigmoid a");
    assert_eq!(different("a = neg x\nreturn sigmoid a", "a = sigmoid x\nreturn sub 1.0 a"), Law::Budget);
    equal("a = mul x 2.0\nb = sigmoid a\nc = mul b 2.0\nreturn sub c 1.0", "return tanh x");
    equal("a = neg x\nreturn tanh a", "a = tanh x\nreturn neg a");
    equal("a = add x 1.0\nreturn log a", "return log1p x");
    assert_eq!(different("return log1p x", "a = add x 1.0\nreturn log a"), Law::Budget);
    equal("s = add x y\nreturn exp2 s", "a = exp2 x\nb = exp2 y\nreturn mul a b");
    assert_eq!(different("return exp2 x", "return exp x"), Law::Tower);
    assert_eq!(different("return tanh x", "return sigmoid x"), Law::Tower);
}

/// 2.8
#[test]
fn the_greater_of_two_follows_from_the_sign() {
    equal("a = max x y\nb = min x y\nreturn add a b", "return add x y");
    equal("a = neg x\nreturn max x a", "return abs x");
    equal("c = gt x y\nreturn select c x y", "return max x y");
    equal("b = mul x 3.0\nc = mul y 3.0\nreturn max b c", "m = max x y\nreturn mul m 3.0");
    equal("a = add x z\nb = add y z\nreturn max a b", "m = max x y\nreturn add m z");
    equal(
        "c = lt x y\nd = ge x y\ne = not d\nf = and c e\nreturn select f x y",
        "c = lt x y\nreturn select c x y",
    );
    assert_eq!(different("return max x y", "return min x y"), Law::Tower);
    // A factor that may be negative.
    assert_eq!(
        different("b = mul x z\nc = mul y z\nreturn max b c", "m = max x y\nreturn mul m z"),
        Law::Tower
    );
    // Numbers that differ may be equal in the reals.
    assert_eq!(different("c = eq x y\nreturn select c x z", "return add z 0.0"), Law::Tower);
}

/// 2.9
#[test]
fn the_greatest_of_many_is_a_function_of_the_set() {
    let program = |lines: &str| {
        format!(
            "program p(x: f32[r: R, c: C], w: f32[r: R]) -> f32[r: R] where R in 0..=8, C in 0..=64 {{\n{lines}\n}}"
        )
    };
    let pair = |a: &str, b: &str| (program(a), program(b));
    let (a, b) = pair("return max x over c", "m = max x over c\ny = max x m[r, _]\nreturn max y over c");
    accepted(&a, &b);
    let (a, b) = pair("y = add x w[r, _]\nreturn max y over c", "m = max x over c\nreturn add m w");
    accepted(&a, &b);
    let (a, b) = pair(
        "e = exp w\ny = mul x e[r, _]\nreturn max y over c",
        "m = max x over c\ne = exp w\nreturn mul m e",
    );
    assert_eq!(refused(&a, &b).law, Law::Definition, "-inf times exp -inf is undefined");
    let (a, b) = pair("y = neg x\nm = max y over c\nreturn neg m", "return min x over c");
    accepted(&a, &b);
    let (a, b) = pair("y = mul x w[r, _]\nreturn max y over c", "m = max x over c\nreturn mul m w");
    assert!(matches!(refused(&a, &b).law, Law::Tower | Law::Definition));
    let (a, b) = pair("return max x over c", "return sum x over c");
    refused(&a, &b);
}

/// 3
#[test]
fn infinity_and_undefined() {
    let tower = Tower::new(3, 5);
    let (low, x) = (tower.low(), tower.random(1));
    let high = apply(&tower, "neg", &[&low]);
    let zero = tower.number(0.0);
    same(&tower, &apply(&tower, "exp", &[&low]), &zero);
    same(&tower, &apply(&tower, "log", &[&zero]), &low);
    same(&tower, &apply(&tower, "div", &[&x, &low]), &zero);
    same(&tower, &apply(&tower, "add", &[&low, &x]), &low);
    same(&tower, &apply(&tower, "max", &[&low, &x]), &x);
    same(&tower, &tower.number(f64::NEG_INFINITY), &low);
    same(&tower, &apply(&tower, "sigmoid", &[&low]), &zero);
    same(&tower, &apply(&tower, "tanh", &[&high]), &tower.number(1.0));
    let bottom = tower.undefined();
    for (name, arguments) in [
        ("add", vec![&low, &high]),
        ("sub", vec![&low, &low]),
        ("mul", vec![&zero, &low]),
        ("div", vec![&low, &high]),
        ("div", vec![&x, &zero]),
        ("log", vec![&low]),
        ("sqrt", vec![&low]),
        ("exp", vec![&bottom]),
        ("erf", vec![&bottom]),
        ("max", vec![&x, &bottom]),
    ] {
        same(&tower, &apply(&tower, name, &arguments), &bottom);
    }
    // A select may discard it, and a comparison with it is false.
    equal("d = sub x x\nc = ne d d\nq = select c 0.0 d\nreturn add y q", "return add y 0.0");
    // The candidate is undefined exactly where the program is.
    let softmax = |lines: &str| {
        format!(
            "program p(x: f32[r: R, c: C]) -> f32[r: R, c: C] where R in 0..=8, C in 0..=64 {{\n{lines}\n}}"
        )
    };
    let plain =
        softmax("m = max x over c\nd = sub x m[r, _]\ne = exp d\ns = sum e over c\nreturn div e s[r, _]");
    accepted(&plain, &softmax("e = exp x\ns = sum e over c\nreturn div e s[r, _]"));
    let guarded = softmax(
        "m = max x over c\nn = eq m -inf\np = select n 0.0 m\nd = sub x p[r, _]\ne = exp d\ns = sum e over c\n\
         q = div e s[r, _]\nreturn select n[r, _] 0.0 q",
    );
    assert_eq!(refused(&plain, &guarded).law, Law::Definition);
}

/// 4
#[test]
fn casts_are_the_identity_under_fast_only() {
    let program = |lines: &str| {
        format!("program p(x: bf16[n: N], y: bf16[n: N]) -> f32[n: N] where N in 0..=64 {{\n{lines}\n}}")
    };
    let late = program("s = add x y\nreturn cast s to f32");
    let early = program("a = cast x to f32\nb = cast y to f32\nreturn add a b");
    accepted(&late, &early);
    assert_eq!(refused_under(Contract::Strict, &late, &early).law, Law::Bits);
    accepted_under(Contract::Strict, &late, &program("s = add y x\nreturn cast s to f32"));
    let evidence = accepted_under(Contract::Strict, &late, &late);
    assert_eq!(evidence.bound, None, "strict claims no probability");
    // Sums in another order are equal over the reals only.
    let sum = body("a = add x y\nreturn add a z");
    let other = body("a = add y z\nreturn add x a");
    accepted(&sum, &other);
    assert_eq!(refused_under(Contract::Strict, &sum, &other).law, Law::Bits);
}

/// 5
#[test]
fn oracles_know_equal_arguments_only() {
    equal("a = add x y\nreturn erf a", "a = add y x\nreturn erf a");
    equal("a = sin x\nb = cos x\nreturn mul a b", "a = cos x\nb = sin x\nreturn mul a b");
    assert_eq!(different("return erf x", "return sin x"), Law::Tower);
    assert_eq!(different("a = neg x\nreturn erf a", "return erf x"), Law::Tower);
    let tower = Tower::new(2, 3);
    assert!(!tower.agree(&apply(&tower, "floor", &[&tower.random(1)]), &tower.random(1)).0);
}

/// 6.1: Newton's identities between power sums: e₃ = 0 for fewer than three numbers.
#[test]
fn identities_of_small_extents_are_refused() {
    let program = |lines: &str| {
        format!("program p(x: f32[n: N], y: f32[n: N]) -> f32[n: N] where N in 0..=64 {{\n{lines}\n}}")
    };
    let sums = "a = sum x over n\nx2 = mul x x\nx3 = mul x2 x\nb = sum x2 over n\nc = sum x3 over n\n\
         aa = mul a a\naaa = mul aa a\nab = mul a b\nt = mul ab 3.0\nu = mul c 2.0\nv = sub aaa t\nw = add v u\n";
    let zero = program(&format!("{sums}z = mul w 0.0\nreturn mul y z[_]"));
    let third = program(&format!("{sums}return mul y w[_]"));
    let refusal = refused(&zero, &third);
    assert_eq!(refusal.law, Law::Tower);
    assert!(!["N=0", "N=1", "N=2"].iter().any(|small| refusal.sizes.contains(small)), "{refusal}");
}

/// 6.1, 0 and 1: the mean of nothing is undefined, its sum is not.
#[test]
fn empty_and_single_extents() {
    let program = |lines: &str| {
        format!("program p(x: f32[n: N, k: K]) -> f32[n: N] where N in 0..=64, K in 0..=64 {{\n{lines}\n}}")
    };
    let refusal = refused(
        &program("s = sum x over k\nm = div s K\nreturn mul m 0.0"),
        &program("s = sum x over k\nreturn mul s 0.0"),
    );
    assert_eq!(refusal.law, Law::Definition);
    assert!(refusal.sizes.contains("K=0"), "{refusal}");
    // The same with a size that is never 0.
    let program = |lines: &str| program(lines).replace("K in 0..=64", "K in 1..=64");
    accepted(
        &program("s = sum x over k\nm = div s K\nreturn mul m 0.0"),
        &program("s = sum x over k\nreturn mul s 0.0"),
    );
}

/// 6.2
#[test]
fn sizes_that_facts_fix_are_shrunk() {
    let program = |lines: &str| {
        format!("program p(x: f32[n: N, k: K]) -> f32[n: N] where N in 0..=64, K = 4096 {{\n{lines}\n}}")
    };
    accepted(&program("s = sum x over k\nreturn div s K"), &program("y = div x K\nreturn sum y over k"));
    let refusal = refused(
        &program("s = sum x over k\nreturn div s K"),
        &program("s = sum x over k where k < 4095\nreturn div s K"),
    );
    assert!(matches!(refusal.law, Law::Tower | Law::Floats), "{refusal}");
}

/// 7.1, 7.3: an identity whose error bound is honest passes on all data; a slightly wrong literal does not.
#[test]
fn floats_agree_within_their_errors() {
    let evidence =
        accepted(&body("a = add x y\nreturn mul a z"), &body("a = mul x z\nb = mul y z\nreturn add a b"));
    assert!(evidence.floats > 100 && evidence.unsure == 0, "{evidence}");
}

/// 7.5
#[test]
fn cancellation_is_over_the_budget() {
    let program = |lines: &str| {
        format!("program p(x: f32[r: R, c: C]) -> f32[r: R] where R in 0..=64, C in 1..=64 {{\n{lines}\n}}")
    };
    let twice = program(
        "s = sum x over c\nm = div s C\nd = sub x m[r, _]\ny = mul d d\nq = sum y over c\nreturn div q C",
    );
    let once = program(
        "s = sum x over c\nm = div s C\ny = mul x x\nq = sum y over c\ne = div q C\nn = mul m m\nreturn sub e n",
    );
    let refusal = refused(&twice, &once);
    assert_eq!(refusal.law, Law::Budget, "{refusal}");
    // The other way round nothing is lost.
    accepted(&once, &twice);
}

/// 8
#[test]
fn the_bound_counts_exponentials_and_comparisons() {
    let few = accepted(&body("return mul x y"), &body("return mul y x"));
    assert!(few.bound.is_some_and(|bound| bound < -100.0), "{few}");
    assert_eq!((few.degree, few.exponentials, few.comparisons), (2, Some(1), 0));
    let softmax = "program p(x: f32[r: R, c: C]) -> f32[r: R, c: C] where R in 0..=8, C in 0..=64 {
        e = exp x\ns = sum e over c\nreturn div e s[r, _] }";
    let more = accepted(softmax, softmax);
    assert_eq!(more.exponentials, Some(3), "{more}");
    assert!(more.bound.is_some_and(|bound| bound <= -40.0), "{more}");
    let compared =
        accepted(&body("c = lt x y\nreturn select c x z"), &body("c = gt y x\nreturn select c x z"));
    assert_eq!(compared.comparisons, 2);
    assert!(compared.least_seen.is_some_and(|least| least >= 64), "{compared}");
    // A comparison that is never true leaves the other side of a select unseen.
    let never = body("e = exp x\nc = lt e 0.0\nreturn select c y z");
    assert_eq!(refused(&never, &never).law, Law::Evidence);
}

/// Whoever differs in parameters, results or sizes is no candidate.
#[test]
fn signatures_are_equal() {
    let program = body("return mul x y");
    for (from, to) in [("x: f32", "x: f64"), ("y: f32", "q: f32"), ("N in 0..=64", "N in 0..=63")] {
        let source = program
            .replace(from, to)
            .replace("mul x y", if from == "y: f32" { "mul x q" } else { "mul x y" });
        if from == "x: f32" {
            continue;
        }
        assert_eq!(refused(&program, &source).law, Law::Signature, "{source}");
    }
}

/// Equal seeds give equal verdicts.
#[test]
fn verdicts_are_deterministic() {
    let (a, b) = (body("a = exp x\nreturn max a y"), body("a = exp x\nreturn max y a"));
    assert_eq!(accepted(&a, &b), accepted(&a, &b));
}

/// The evaluator gives up beyond its budget.
#[test]
fn work_is_bounded() {
    use std::cell::Cell;
    use tilewright::superopt::check::evaluate::Fault;
    use tilewright::superopt::check::inputs::{Planting, residues};
    let program = parse(&body("return mul x y"));
    let tower = Tower::new(1, 1);
    let sizes = [("N".into(), 50)].into_iter().collect();
    let parameters = residues(&program, &sizes, 1, &tower, Planting::Generic).expect("parameters");
    let machine = |budget| Machine {
        interpretation: &tower,
        program: &program,
        side: 0,
        symbols: &sizes,
        budget: Cell::new(budget),
    };
    assert!(machine(50).run(&parameters).is_ok());
    assert_eq!(machine(49).run(&parameters).err(), Some(Fault::TooLarge));
}
