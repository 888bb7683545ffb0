//! The tile functions as an executor uses them: a machine of its own, and products by a library.

use crate::common::{Random, random, symbols};
use tilewright::dim::Symbol;
use tilewright::kernel::progress::{Part, Progress, Running};
use tilewright::kernel::tile::{Compiled, Elements, ElementsMut, Machine, Product};
use tilewright::task::BufferId;
use tilewright::tensor::eval::Numerics;
use tilewright::tensor::{Array, DType, Data, Scalar};

/// Arrays as memory; products are done here if `library` says so, and counted.
struct Arrays {
    arrays: Vec<Array>,
    library: bool,
    products: usize,
}

impl Machine for Arrays {
    fn read(&self, buffer: BufferId, start: usize, step: isize, out: ElementsMut<'_>) {
        out.read_from(&self.arrays[buffer.0 as usize], start, step);
    }

    fn write(&mut self, buffer: BufferId, start: usize, step: isize, values: Elements<'_>) {
        values.write_to(&mut self.arrays[buffer.0 as usize], start, step);
    }

    fn integer(&self, buffer: BufferId, position: usize) -> i64 {
        self.arrays[buffer.0 as usize].get(position).as_i64()
    }

    fn multiply(&mut self, product: Product<'_>) -> bool {
        if !self.library {
            return false;
        }
        self.products += 1;
        let Product { m, n, k, a, b, c, strides, .. } = product;
        for i in 0..m {
            for j in 0..n {
                for d in 0..k {
                    let term = a.data[i * a.rows + d * a.depth] * b.data[j * b.rows + d * b.depth];
                    c[i * strides[0] + j * strides[1]] += term;
                }
            }
        }
        true
    }
}

/// Runs the only task of a family with and without a library; in doubles, the results are equal up to the order of
/// the sums, which is exact for small integers.
fn both(contract: &str, condition: &str, sizes: &[(&str, i64)], shapes: [&[usize]; 3]) -> (Data, usize) {
    let text = crate::common::one(
        "I in 0..=64, J in 0..=64, K in 0..=64, H in 0..=64",
        "  input a: f64[H, I, K]\n  input b: f64[H, K, J]\n  output c: f64[H, I, J]",
        "[once in 1]\n  reads a, b\n  writes c",
        &format!(
            "  tile p: f64{{h: 0 +: 4 < H, i: 0 +: 8 < I, k: 0 +: 8 < K}}
  tile q: f64{{h: 0 +: 4 < H, k: 0 +: 8 < K, j: 0 +: 8 < J}}
  tile z: f64{{h: 0 +: 4 < H, i: 0 +: 8 < I, j: 0 +: 8 < J}}
  role worker {{
    p = load a[h, i, k]
    q = load b[h, k, j]
    z = fill 0.0
    {contract}{condition}
    store z -> c[h, i, j]
  }}"
        ),
    );
    let program = crate::common::parse(&text);
    let family = &program.tasks.families[0];
    let names: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
    let env = symbols(sizes);
    let kernel =
        Compiled::new(&family.name, &names, &family.body, &program.tasks.buffers, &env).expect("binds");
    let kernel = std::sync::Arc::new(kernel);
    let mut rng = Random(77);
    let mut arrays: Vec<Array> = shapes.iter().map(|shape| random(DType::F64, shape, &mut rng)).collect();
    for array in &mut arrays {
        for position in 0..array.len() {
            let whole = array.get(position).as_f64().round();
            array.set(position, Scalar::Float(whole));
        }
    }
    let mut results = Vec::new();
    let mut products = 0;
    for library in [false, true] {
        let mut machine = Arrays { arrays: arrays.clone(), library, products: 0 };
        let mut running = Running::new(kernel.clone(), &[0], false);
        assert_eq!(running.advance(Part::Prologue, &mut machine, Numerics::F64), Ok(Progress::Done));
        running.finish(&mut machine, Numerics::F64).expect("runs");
        products = machine.products;
        results.push(machine.arrays.remove(2).data);
    }
    assert_eq!(results[0], results[1], "{contract}{condition} {sizes:?}");
    (results.remove(0), products)
}

#[test]
fn a_library_does_products_in_parts() {
    let sizes = [("H", 3), ("I", 7), ("J", 5), ("K", 6)];
    let shapes: [&[usize]; 3] = [&[3, 7, 6], &[3, 6, 5], &[3, 7, 5]];
    let contract = "contract p, q into z";
    assert_eq!(both(contract, "", &sizes, shapes).1, 3);
    // A row of i at a time where the condition varies; none where nothing is admitted.
    assert_eq!(both(contract, " where k <= i", &sizes, shapes).1, 3 * 7);
    assert_eq!(both(contract, " where k < i and j >= 2", &sizes, shapes).1, 3 * 6);
    assert_eq!(both(contract, " where i >= 0", &sizes, shapes).1, 3);
    assert_eq!(both(contract, " where h == 1", &sizes, shapes).1, 7);
    // Conditions that couple n and k, and others that are not affine, are left to the loops.
    assert_eq!(both(contract, " where k <= j", &sizes, shapes).1, 0);
    assert_eq!(both(contract, " where mod(k, 2) == 0", &sizes, shapes).1, 0);
    assert_eq!(both(contract, " where k != 2", &sizes, shapes).1, 0);
}

#[test]
fn products_of_nothing() {
    let sizes = [("H", 3), ("I", 0), ("J", 5), ("K", 6)];
    both("contract p, q into z", "", &sizes, [&[3, 0, 6], &[3, 6, 5], &[3, 0, 5]]);
    let sizes = [("H", 2), ("I", 3), ("J", 2), ("K", 0)];
    let (data, _) = both("contract p, q into z", "", &sizes, [&[2, 3, 0], &[2, 0, 2], &[2, 3, 2]]);
    assert_eq!(data, Data::Float(vec![0.0; 12]));
}
