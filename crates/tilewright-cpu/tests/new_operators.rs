//! Operators that were added to the tables alone: everything else reads the tables, so they run at every level.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright::tensor::DType;
use tilewright::{Arguments, Control, Error, HostTensor, Options, Target, Weights, compile, tensor};
use tilewright_cpu::Portable;

const PROGRAM: &str = "
program outliers(x: f32[R, C]) -> bool[R], f32[R, C]
where R in 0..=100, C in 0..=1000
{
  large = gt x 3.0
  has = any large over C
  y = log1p x
  return has, y
}";

#[test]
fn any_and_log1p_run_through_every_level() -> Result<(), Error> {
    let program = tensor::text::parse("outliers.tensor", PROGRAM)?;
    let options = Options { runtime: Arc::new(Portable::new(2)), ..Options::default() };
    let executable = compile(&program, &Target::portable(), &options)?;
    for columns in [0usize, 1, 300] {
        let mut values = vec![1e-8f32; 3 * columns];
        if columns > 0 {
            values[2 * columns - 1] = 7.0;
        }
        let x = HostTensor::from_f32(vec![3, columns], &values)?;
        let plan = executable.plan(&executable.sizes([("x", &x)])?, BTreeMap::new())?;
        let outputs = executable.run(
            &plan,
            &Weights::default(),
            Arguments::new().input("x", &x),
            &Control::default(),
        )?;
        assert_eq!(outputs[0].dtype(), DType::Bool);
        assert_eq!(outputs[0].bytes(), [0, u8::from(columns > 0), 0]);
        let first = outputs[1].to_f32().first().copied();
        assert_eq!(first, if columns == 1 || columns == 300 { Some(1e-8) } else { None });
    }
    Ok(())
}
