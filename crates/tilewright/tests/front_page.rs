#![allow(missing_docs)]
use std::collections::BTreeMap;

use tilewright::{Arguments, Control, Error, HostTensor, Options, Target, Weights, compile, tensor};

/// A softmax, written out: there is no operator of that name.
const PROGRAM: &str = "
program softmax(x: f32[S, D]) -> f32[S, D]
where S in 0..=4096, D in 1..=4096
{
  m = max x over D
  c = sub x m[S, _]
  e = exp c
  s = sum e over D
  return div e s[S, _]
}";

#[test]
fn one_compile_serves_every_size() -> Result<(), Error> {
    let program = tensor::text::parse("softmax.tensor", PROGRAM)?;
    let executable = compile(&program, &Target::portable(), &Options::default())?;

    for rows in [0, 1, 3, 70] {
        let x: Vec<f32> = (0..rows * 5).map(|i| (i % 7) as f32).collect();
        let x = HostTensor::from_f32(vec![rows, 5], &x)?;
        let plan = executable.plan(&executable.sizes([("x", &x)])?, BTreeMap::new())?;
        let arguments = Arguments::new().input("x", &x);
        let outputs = executable.run(&plan, &Weights::default(), arguments, &Control::default())?;

        assert_eq!(outputs[0].extents(), [rows, 5]);
        for row in outputs[0].to_f32().chunks(5) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
    }
    Ok(())
}
