//! One method for each way to apply an operator, with the result's name made unique and defaults filled in.

use super::{FunctionBuilder, unknown_operator};
use crate::dim::{Dim, Symbol};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::infer::{self, Problem, Reason};
use crate::tensor::ir::{
    Attribute, Axis, FunctionId, Guard, Op, Operand, RepeatArgument, RepeatResult, ValueId,
};
use crate::tensor::{elementwise, monoid, ops};

impl FunctionBuilder {
    /// A value as an operand under labels; with none, under its own axis names.
    pub fn at<const N: usize>(&self, value: ValueId, labels: [&str; N]) -> Operand {
        Operand::Value { value, labels: labels.iter().map(|label| Symbol::new(label)).collect() }
    }

    /// An elementwise function by its text name. The result's name is made unique.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such function.
    pub fn elementwise(
        &mut self,
        name: &str,
        function: &str,
        operands: impl IntoIterator<Item = Operand>,
    ) -> Result<ValueId, Problem> {
        let op = Op::Elementwise { function: find(function, elementwise::find(function))? };
        self.single(name, op, operands, None, None)
    }

    /// An elementwise function whose result has these axes, each `label` or `name: label`.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such function.
    pub fn elementwise_to<'a>(
        &mut self,
        name: &str,
        function: &str,
        operands: impl IntoIterator<Item = Operand>,
        axes: impl IntoIterator<Item = &'a str>,
    ) -> Result<ValueId, Problem> {
        let op = Op::Elementwise { function: find(function, elementwise::find(function))? };
        self.single(name, op, operands, Some(vec![label_axes(axes)]), None)
    }

    /// `cast` to an element type.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn cast(&mut self, name: &str, operand: impl Into<Operand>, to: DType) -> Result<ValueId, Problem> {
        let op = Op::Elementwise { function: find("cast", elementwise::find("cast"))? };
        self.single(name, op, [operand.into()], None, Some(to))
    }

    /// A reduction of an operand over labels, without a guard, in the accumulation type of its elements.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such monoid.
    pub fn reduce<'a>(
        &mut self,
        name: &str,
        monoid: &str,
        operand: impl Into<Operand>,
        over: impl IntoIterator<Item = &'a str>,
    ) -> Result<ValueId, Problem> {
        self.reduce_where(name, monoid, operand, over, Guard::always())
    }

    /// A reduction under a guard.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such monoid.
    pub fn reduce_where<'a>(
        &mut self,
        name: &str,
        monoid: &str,
        operand: impl Into<Operand>,
        over: impl IntoIterator<Item = &'a str>,
        guard: Guard,
    ) -> Result<ValueId, Problem> {
        let monoid = find(monoid, monoid::find(monoid))?;
        let operand = operand.into();
        let accumulate = infer::default_accumulate(monoid, self.operand_dtype(&operand)?);
        let over = over.into_iter().map(Symbol::new).collect();
        self.single(name, Op::Reduce { monoid, over, guard, accumulate }, [operand], None, None)
    }

    /// A contraction to axes, each `label` or `name: label`, without a guard, in the accumulation type of its
    /// operands' elements; the result has their type.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn contract<'a>(
        &mut self,
        name: &str,
        operands: impl IntoIterator<Item = Operand>,
        axes: impl IntoIterator<Item = &'a str>,
    ) -> Result<ValueId, Problem> {
        self.contract_where(name, operands, axes, Guard::always(), None)
    }

    /// A contraction under a guard, with a result of element type `to` (that of the operands if none).
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn contract_where<'a>(
        &mut self,
        name: &str,
        operands: impl IntoIterator<Item = Operand>,
        axes: impl IntoIterator<Item = &'a str>,
        guard: Guard,
        to: Option<DType>,
    ) -> Result<ValueId, Problem> {
        let operands: Vec<Operand> = operands.into_iter().collect();
        let accumulate = match operands.first() {
            Some(operand) => self.operand_dtype(operand)?.accumulator(),
            None => DType::F32,
        };
        self.single(name, Op::Contract { guard, accumulate }, operands, Some(vec![label_axes(axes)]), to)
    }

    /// The element type of an operand, whose labels may still be left out.
    fn operand_dtype(&self, operand: &Operand) -> Result<DType, Problem> {
        match operand {
            Operand::Value { value, .. } => Ok(self.scope().value(*value)?.ty.dtype),
            _ => Ok(infer::operand_type(&self.scope(), operand)?.dtype),
        }
    }

    /// An operator of `tensor/ops` with one result.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such operator.
    pub fn special(
        &mut self,
        name: &str,
        operator: &str,
        operands: impl IntoIterator<Item = Operand>,
        attributes: Vec<Attribute>,
        stated: Option<Vec<Axis>>,
    ) -> Result<ValueId, Problem> {
        let op = Op::Special { operator: find(operator, ops::find(operator))?, attributes };
        self.single(name, op, operands, stated.map(|axes| vec![axes]), None)
    }

    /// An operator of `tensor/ops` with several results.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`], or if there is no such operator.
    pub fn specials(
        &mut self,
        names: &[&str],
        operator: &str,
        operands: impl IntoIterator<Item = Operand>,
        attributes: Vec<Attribute>,
        stated: Option<Vec<Vec<Axis>>>,
    ) -> Result<Vec<ValueId>, Problem> {
        let op = Op::Special { operator: find(operator, ops::find(operator))?, attributes };
        self.several(names, op, operands, stated)
    }

    /// A function applied once; as many names as it has results.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn call(
        &mut self,
        names: &[&str],
        function: FunctionId,
        arguments: &[ValueId],
    ) -> Result<Vec<ValueId>, Problem> {
        self.several(names, Op::Call { function }, arguments.iter().map(|id| Operand::from(*id)), None)
    }

    /// A function applied for `coordinate` = 0, 1, … `extent` - 1; as many names as it has results. `arguments` says
    /// what is passed and how, `results` what becomes of each result.
    ///
    /// # Errors
    /// As for [`FunctionBuilder::op`].
    pub fn repeat(
        &mut self,
        names: &[&str],
        (coordinate, extent): (&str, impl Into<Dim>),
        function: FunctionId,
        arguments: &[(ValueId, RepeatArgument)],
        results: &[RepeatResult],
    ) -> Result<Vec<ValueId>, Problem> {
        let op = Op::Repeat {
            coordinate: Symbol::new(coordinate),
            extent: extent.into(),
            function,
            arguments: arguments.iter().map(|(_, argument)| argument.clone()).collect(),
            results: results.to_vec(),
        };
        self.several(names, op, arguments.iter().map(|(id, _)| Operand::from(*id)), None)
    }

    fn single(
        &mut self,
        name: &str,
        op: Op,
        operands: impl IntoIterator<Item = Operand>,
        stated: Option<Vec<Vec<Axis>>>,
        to: Option<DType>,
    ) -> Result<ValueId, Problem> {
        let name = self.fresh(name);
        let results = self.op(&[&name], op, operands.into_iter().collect(), stated, to)?;
        results.first().copied().ok_or_else(|| Problem::new(Reason::Count, "this gives no result"))
    }

    fn several(
        &mut self,
        names: &[&str],
        op: Op,
        operands: impl IntoIterator<Item = Operand>,
        stated: Option<Vec<Vec<Axis>>>,
    ) -> Result<Vec<ValueId>, Problem> {
        let names: Vec<String> = names.iter().map(|name| self.fresh(name)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.op(&names, op, operands.into_iter().collect(), stated, None)
    }
}

/// Stated axes of an elementwise function, a reduction or a contraction from `label` or `name: label`.
pub fn label_axes<'a>(axes: impl IntoIterator<Item = &'a str>) -> Vec<Axis> {
    axes.into_iter()
        .map(|axis| {
            let (name, label) = axis.split_once(':').unwrap_or((axis, axis));
            Axis { name: Symbol::new(name.trim()), extent: Dim::symbol(label.trim()) }
        })
        .collect()
}

/// The table row, or the problem that there is none.
fn find<T: ?Sized>(name: &str, row: Option<&'static T>) -> Result<&'static T, Problem> {
    row.ok_or_else(|| unknown_operator(name, []))
}

impl From<ValueId> for Operand {
    /// The value under its own axis names, which the builder puts in.
    fn from(value: ValueId) -> Operand {
        Operand::Value { value, labels: Vec::new() }
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Operand {
        Operand::Literal(Scalar::Float(value))
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Operand {
        Operand::Literal(Scalar::Int(value))
    }
}

impl From<bool> for Operand {
    fn from(value: bool) -> Operand {
        Operand::Literal(Scalar::Bool(value))
    }
}

impl From<Dim> for Operand {
    fn from(value: Dim) -> Operand {
        Operand::Dim(value)
    }
}
