//! Tokens, channels and roles: legal programs give one result under every order.

use crate::common::{Random, one, parse, random, run_all};
use tilewright::tensor::{Array, DType};

/// Pages of rows go from a loader to a worker, which adds them up.
pub const RING: &str = "
  channel c pages 2 bytes 64 from loader to worker
  tile a: f32{i: 0 +: 8 < S} in page c
  tile s: f32{i: 0 +: 8 < S}
  tokens 1
  role loader {
    for k in D {
      acquire c
      a = load x[k, i] gives t0
      commit c after t0
    }
  }
  role worker {
    s = fill 0.0
    for k in D {
      receive c
      s = add s a
      release c
    }
    store s -> y[i]
  }";

/// The next row is loaded while this one is added; two tiles take turns.
pub const PIPELINE: &str = "
  tile a: f32{i: 0 +: 8 < S}
  tile b: f32{i: 0 +: 8 < S}
  tile s: f32{i: 0 +: 8 < S}
  tokens 3
  role worker {
    s = fill 0.0
    a = load x[0, i] gives t0
    for k in ceildiv(D, 2) {
      b = load x[2*k + 1, i] gives t1
      await t0
      s = add s a
      a = load x[2*k + 2, i] gives t0
      await t1
      s = add s b
    }
    await t0
    store s -> y[i] gives t2
    await t2
  }";

/// A chain of three roles, the middle one of which works from page to page.
pub const CHAIN: &str = "
  channel c pages 3 bytes 64 from loader to middle
  channel d pages 1 bytes 128 from middle to storer
  tile a: f32{i: 0 +: 8 < S} in page c
  tile b: f32{i: 0 +: 8 < S} in page d
  tile n: i32{i: 0 +: 8 < S} in page d
  tile s: f32{i: 0 +: 8 < S}
  tokens 2
  role loader {
    for k in D {
      acquire c
      a = load x[k, i] gives t0
      commit c after t0
    }
  }
  role middle {
    for k in D {
      receive c
      acquire d
      b = mul a 2.0
      n = fill 1
      release c
      commit d
    }
  }
  role storer {
    s = fill 0.0
    for k in D {
      receive d
      s = add s b
      release d
    }
    store s -> y[i] gives t1
    await t1
  }";

/// The weights come in the prologue and are awaited in the body.
pub const PROLOGUE: &str = "
  tile a: f32{i: 0 +: 8 < S}
  tile s: f32{i: 0 +: 8 < S}
  tokens 1
  prologue {
    a = load x[0, i] gives t0
  }
  role worker {
    s = fill 1.0
    await t0
    s = add s a
    store s -> y[i]
  }";

pub fn sums(kernel: &str) -> String {
    one(
        "S in 0..=8, D in 0..=64",
        "  input x: f32[D, S]\n  output y: f32[S]",
        "[once in 1]\n  reads x\n  writes y",
        kernel.trim_start_matches('\n'),
    )
}

fn column_sums(x: &Array, rows: usize, columns: usize, factor: f32) -> Vec<f64> {
    let sum = |column: usize| {
        (0..rows).fold(0.0f32, |sum, row| sum + x.get(row * columns + column).as_f64() as f32 * factor)
    };
    (0..columns).map(|column| f64::from(sum(column))).collect()
}

fn check(kernel: &str, factor: f32) {
    let program = parse(&sums(kernel));
    for (rows, columns) in [(0usize, 3usize), (1, 8), (2, 0), (3, 7), (10, 8)] {
        let x = random(DType::F32, &[rows, columns], &mut Random(7));
        let want = column_sums(&x, rows, columns, factor);
        let sizes = [("D", rows as i64), ("S", columns as i64)];
        let results = run_all(&program, &sizes, &[x], 100);
        let have: Vec<f64> = (0..columns).map(|column| results[0].get(column).as_f64()).collect();
        assert_eq!(have, want, "{rows} rows");
    }
}

#[test]
fn a_ring_between_two_roles() {
    check(RING, 1.0);
}

#[test]
fn loads_ahead_in_one_role() {
    check(PIPELINE, 1.0);
}

#[test]
fn a_chain_of_three_roles() {
    check(CHAIN, 2.0);
}

#[test]
fn a_prologue_that_is_awaited_later() {
    let program = parse(&sums(PROLOGUE));
    let x = random(DType::F32, &[2, 5], &mut Random(3));
    let results = run_all(&program, &[("D", 2), ("S", 5)], std::slice::from_ref(&x), 100);
    for column in 0..5 {
        let want = f64::from(1.0f32 + x.get(column).as_f64() as f32);
        assert_eq!(results[0].get(column).as_f64(), want);
    }
}

#[test]
fn asynchronous_products() {
    use tilewright::kernel::verify::{Reason, verify};
    use tilewright::target::Target;
    let kernel = "
  tile p: f32{i: 0 +: 8 < S, d: 0 +: 8 < D}
  tile q: f32{d: 0 +: 8 < D}
  tile z: f32{i: 0 +: 8 < S}
  tokens 1
  role worker {
    p = load x[d, i]
    q = fill 1.0
    z = fill 0.0
    mma quick p, q into z gives t0
    await t0
    store z -> y[i]
  }";
    let program = parse(&sums(kernel));
    let refused = verify(&program, &Target::portable()).expect_err("the portable target has no such row");
    assert_eq!(refused.reason, Reason::Row);
    let mut target = Target::portable();
    let mut row = target.rows.iter().find(|row| row.name.as_str() == "portable_f32").expect("a row").clone();
    row.name = "quick".into();
    target.rows.push(row.clone());
    assert_eq!(verify(&program, &target).expect_err("it gives no token").reason, Reason::Row);
    target.rows.pop();
    row.asynchronous = true;
    target.rows.push(row);
    verify(&program, &target).expect("legal");
    let x = random(DType::F32, &[6, 5], &mut Random(21));
    let bindings = tilewright::tensor::eval::Bindings {
        symbols: crate::common::symbols(&[("D", 6), ("S", 5)]),
        arrays: vec![x.clone()],
    };
    for seed in 0..100 {
        let mut schedule =
            tilewright::task::eval::Schedule::new(1, tilewright::task::eval::Choice::Random(seed));
        let numerics = tilewright::tensor::eval::Numerics::Own;
        let have =
            tilewright::kernel::eval::eval(&program, &bindings, numerics, &mut schedule).expect("runs");
        let want = column_sums(&x, 6, 5, 1.0);
        assert_eq!((0..5).map(|column| have[0].get(column).as_f64()).collect::<Vec<_>>(), want);
    }
}
