//! Each statement by itself, against its definition.

use crate::common::{Random, floats, ints, one, parse, random, run_all};
use tilewright::tensor::{Array, DType, Data, Scalar};

fn single(buffers: &str, kernel: &str, arrays: &[Array]) -> Array {
    let reads: Vec<&str> = (buffers.lines())
        .filter(|line| line.trim().starts_with("input ") || line.trim().starts_with("plan "))
        .filter_map(|line| line.trim().split([' ', ':']).nth(1))
        .collect();
    let reads = if reads.is_empty() { String::new() } else { format!("\n  reads {}", reads.join(", ")) };
    let text = one("S in 0..=64", buffers, &format!("[m in 1]{reads}\n  writes y"), kernel);
    run_all(&parse(&text), &[("S", 5)], arrays, 2).remove(0)
}

fn values(array: &Array) -> Vec<f64> {
    (0..array.len()).map(|position| array.get(position).as_f64()).collect()
}

#[test]
fn fill_and_store_only_what_is_in_range() {
    let result = single(
        "  output y: f32[S]",
        "  tile a: f32{i: 0 +: 8 < S}\n  role worker {\n    a = fill 0.1\n    store a -> y[S - 1 - i]\n  }",
        &[],
    );
    assert_eq!(values(&result), [f64::from(0.1f32); 5]);
}

#[test]
fn load_where_admitted() {
    let x = floats(DType::F32, &[5], &[1.0, f64::NAN, 3.0, 4.0, 5.0]);
    let result = single(
        "  input x: f32[S]\n  output y: f32[S]",
        "  tile a: f32{i: 0 +: 8 < S}\n  role worker {\n    a = load x[i + 1] when i != 0 and i < 9\n    store a -> y[i]\n  }",
        &[x],
    );
    assert_eq!(values(&result), [0.0, 3.0, 4.0, 5.0, 0.0]);
}

#[test]
fn gather_and_scatter_through_a_tile() {
    let x = floats(DType::F32, &[5], &[10.0, 11.0, 12.0, 13.0, 14.0]);
    let ids = ints(DType::I32, &[5], &[4, 0, 9, -1, 2]);
    let to = ints(DType::I32, &[5], &[1, 0, 3, 2, 4]);
    let result = single(
        "  input x: f32[S]\n  input ids: i32[S]\n  input to: i32[S]\n  output y: f32[S]",
        "  tile a: f32{i: 0 +: 8 < S}\n  tile k: i32{i: 0 +: 8 < S}\n  tile p: i32{i: 0 +: 8 < S}\n  role worker {\n    \
         k = load ids[i]\n    p = load to[i]\n    a = load x[k[i]]\n    store a -> y[p[i]]\n  }",
        &[x, ids, to],
    );
    assert_eq!(values(&result), [10.0, 14.0, 0.0, 0.0, 12.0]);
}

#[test]
fn compute_broadcasts_indices_and_conditions() {
    let x = floats(DType::F32, &[5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let result = single(
        "  input x: f32[S]\n  output y: f32[S, 2]",
        "  tile a: f32{i: 0 +: 8 < S}\n  tile n: f32{i: 0 +: 8 < S, j: 0 +: 2 < 2}\n  tile b: f32{i: 0 +: 8 < S, j: 0 +: 2 < 2}\n  \
         role worker {\n    a = load x[i]\n    n = cast index(10*i + j)\n    b = select holds(j == 0 and i >= 2) a n\n    \
         b = add b 0.5\n    store b -> y[i, j]\n  }",
        &[x],
    );
    assert_eq!(values(&result), [0.5, 1.5, 10.5, 11.5, 3.5, 21.5, 4.5, 31.5, 5.5, 41.5]);
}

#[test]
fn convert_copies() {
    let x = floats(DType::F32, &[5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let result = single(
        "  input x: f32[S]\n  output y: f32[S]",
        "  tile a: f32{i: 0 +: 8 < S}\n  tile b: f32{i: 0 +: 8 < S} in memory offset(2x0*4, 4x0)\n  role worker {\n    \
         a = load x[i]\n    b = convert a\n    a = fill 0.0\n    store b -> y[i]\n  }",
        &[x],
    );
    assert_eq!(values(&result), [1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn reduce_in_order_under_a_mask() {
    let x = floats(DType::F32, &[5], &[1e8, 1.0, -1e8, f64::NAN, 2.0]);
    let u =
        Array { dtype: DType::Bool, extents: vec![5], data: Data::Bool(vec![true, true, true, false, true]) };
    let result = single(
        "  input x: f32[S]\n  input u: bool[S]\n  output y: f32[2]",
        "  tile a: f32{i: 0 +: 8 < S}\n  tile q: bool{i: 0 +: 8 < S}\n  tile s: f32\n  tile b: f32\n  tile p: i32\n  tile f: f32\n  \
         role worker {\n    a = load x[i]\n    q = load u[i]\n    s = fill 0.25\n    b = fill -inf\n    p = fill -1\n    \
         reduce sum a into s masks q\n    reduce argmax a at 2*i where i >= 1 into b, p masks q\n    f = cast p\n    \
         store s -> y[0]\n    store f -> y[1]\n  }"
            .replace("at 2*i where i >= 1 into b, p masks q", "at 2*i into b, p where i >= 1 masks q")
            .as_str(),
        &[x, u],
    );
    // ((0.25 + 1e8) + 1 - 1e8) + 2 in singles; position 2·4 of the largest from element 1 on.
    let mut sum = 0.25f32;
    for term in [1e8f32, 1.0, -1e8, 2.0] {
        sum += term;
    }
    assert_eq!(values(&result), [f64::from(sum), 8.0]);
}

#[test]
fn contract_and_mma_agree_with_loops() {
    let (m, n, k) = (5usize, 3usize, 7usize);
    let mut rng = Random(99);
    let a = random(DType::Bf16, &[m, k], &mut rng);
    let b = random(DType::Bf16, &[n, k], &mut rng);
    let (x, y) = (values(&a), values(&b));
    for (statement, limit) in [
        ("contract p, q into z where d <= i + j", true),
        ("contract p, q into z", false),
        ("mma portable_bf16 p, q into z where d <= i + j", true),
        ("mma portable_bf16 p, q into z", false),
    ] {
        let result = single(
            "  input a: bf16[S, 7]\n  input b: bf16[3, 7]\n  output y: f32[S, 3]",
            &format!(
                "  tile p: bf16{{i: 0 +: 8 < S, d: 0 +: 16 < 7}}\n  tile q: bf16{{j: 0 +: 4 < 3, d: 0 +: 16 < 7}}\n  \
                 tile z: f32{{i: 0 +: 8 < S, j: 0 +: 4 < 3}}\n  role worker {{\n    p = load a[i, d]\n    \
                 q = load b[j, d]\n    z = fill 0.5\n    {statement}\n    store z -> y[i, j]\n  }}"
            ),
            &[a.clone(), b.clone()],
        );
        let mut want = Vec::new();
        for i in 0..m {
            for j in 0..n {
                let mut sum = 0.5f32;
                for d in 0..k {
                    if !limit || d <= i + j {
                        sum += (x[i * k + d] as f32) * (y[j * k + d] as f32);
                    }
                }
                want.push(f64::from(sum));
            }
        }
        assert_eq!(values(&result), want, "{statement}");
    }
}

#[test]
fn bits_are_fields() {
    let x = ints(DType::U8, &[5], &[0x00, 0x5a, 0xff, 0x8f, 0x78]);
    for (field, want) in
        [("0 4", [0, 10, 15, 15, 8]), ("4 4", [0, 5, 15, 8, 7]), ("4 4 signed", [0, 5, -1, -8, 7])]
    {
        let result = single(
            "  input x: u8[S]\n  output y: i32[S]",
            &format!(
                "  tile a: u8{{i: 0 +: 8 < S}}\n  tile b: i32{{i: 0 +: 8 < S}}\n  role worker {{\n    a = load x[i]\n    \
                 b = bits a {field}\n    store b -> y[i]\n  }}"
            ),
            std::slice::from_ref(&x),
        );
        assert_eq!(result.data, Data::Int(want.to_vec()), "{field}");
    }
}

#[test]
fn align_and_rescale() {
    let x = floats(DType::F32, &[5], &[1.0, 0.0, -1.5, 1.0, f64::NAN]);
    let e = ints(DType::I32, &[5], &[3, 900, 5, -200, 2]);
    let result = single(
        "  input x: f32[S]\n  input e: i32[S]\n  output y: f32[S]",
        "  tile a: f32{i: 0 +: 8 < S}\n  tile n: i32{i: 0 +: 8 < S}\n  tile c: i32\n  tile r: f32{i: 0 +: 8 < S}\n  \
         role worker {\n    a = load x[i]\n    n = load e[i]\n    c = align a, n\n    r = rescale a, n, c\n    \
         store r -> y[i]\n  }",
        &[x, e],
    );
    let have = values(&result);
    assert_eq!(have[..4], [0.25, 0.0, -1.5, 0.0]);
    assert!(have[4].is_nan());
}

#[test]
fn align_of_nothing_is_the_smallest_integer() {
    let result = single(
        "  output y: i32[1]",
        "  tile a: f32{i: 0 +: 8 < S}\n  tile n: i32{i: 0 +: 8 < S}\n  tile c: i32\n  role worker {\n    a = fill 0.0\n    \
         n = fill 7\n    c = align a, n\n    store c -> y[0]\n  }",
        &[],
    );
    assert_eq!(result.get(0), Scalar::Int(i32::MIN.into()));
}

#[test]
fn ranges_that_depend_on_labels() {
    // Rows of a triangle: row i has i + 1 elements, the others of the tile are padding.
    let x = floats(DType::F32, &[5, 5], &(0..25).map(f64::from).collect::<Vec<_>>());
    let result = single(
        "  input x: f32[S, S]\n  output y: f32[S]",
        "  tile a: f32{i: 0 +: 8 < S, j: 0 +: 8 < i + 1}\n  tile s: f32{i: 0 +: 8 < S}\n  role worker {\n    \
         a = load x[i, j]\n    s = fill 0.0\n    reduce sum a into s\n    store s -> y[i]\n  }",
        &[x],
    );
    assert_eq!(values(&result), [0.0, 11.0, 33.0, 66.0, 110.0]);
}

#[test]
fn loops_of_no_iteration() {
    let result = single(
        "  output y: f32[S]",
        "  tile a: f32{i: 0 +: 8 < S}\n  role worker {\n    a = fill 1.0\n    for k in S - 5 {\n      a = add a 1.0\n    }\n    \
         for k in S - 9 {\n      a = add a 1.0\n    }\n    for k in 3 {\n      a = add a 1.0\n    }\n    store a -> y[i]\n  }",
        &[],
    );
    assert_eq!(values(&result), [4.0; 5]);
}

#[test]
fn conditions_on_huge_elements() {
    // `i - big[k]` is beyond 64 bits, but `i < big[k]` has a value.
    let x = floats(DType::F32, &[5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let big = ints(DType::I64, &[2], &[i64::MIN, i64::MAX]);
    let result = single(
        "  input x: f32[S]\n  input big: i64[2]\n  output y: f32[2, S]",
        "  tile a: f32{k: 0 +: 2 < 2, i: 0 +: 8 < S}\n  role worker {\n    a = load x[i] when i < big[k]\n    \
         store a -> y[k, i]\n  }",
        &[x, big],
    );
    assert_eq!(values(&result), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn ranges_behind_an_empty_one_have_no_value() {
    let off = ints(DType::I32, &[2], &[0, 3]);
    let result = single(
        "  plan off: i32[2]\n  output y: f32[S]",
        "  tile a: f32{i: 0 +: 8 < S}\n  tile b: f32{k: 3 +: 1 < 1, i2: 0 +: 8 < off[9]}\n  role worker {\n    \
         a = fill 1.0\n    b = fill 2.0\n    store b -> y[i2]\n    store a -> y[i]\n  }",
        &[off],
    );
    assert_eq!(values(&result), [1.0; 5]);
}
