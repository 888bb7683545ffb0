//! Random operators, one after the other, on the values that there are.

use super::dims::Sizes;
use super::{Helper, MAX_RANK};
use crate::random::Random;
use tilewright::dim::{Dim, Symbol};
use tilewright::tensor::build::FunctionBuilder;
use tilewright::tensor::elementwise::{self, Elementwise, TypeRule};
use tilewright::tensor::infer::Problem;
use tilewright::tensor::storage::{depends_on, relabel};
use tilewright::tensor::{
    Axis, DType, Guard, Monoid, Op, Operand, RepeatResult, Scalar, Special, TensorType, ValueId, monoid, ops,
};

/// How often a drawn operator may be refused before another one is drawn.
const TRIES: usize = 100;

/// What is to be added.
enum Draw {
    Elementwise(&'static Elementwise),
    Reduce(&'static Monoid),
    Contract,
    Special(&'static Special),
    Apply(Helper),
}

/// Writes a function.
pub(super) struct Writer<'a> {
    pub random: &'a mut Random,
    pub f: FunctionBuilder,
    pub sizes: &'a Sizes,
    pub helpers: &'a [Helper],
}

/// An operand that is a value: the id, its labels, and its type under these labels.
pub(super) struct Labelled {
    pub id: ValueId,
    pub ty: TensorType,
}

impl Labelled {
    pub fn operand(&self) -> Operand {
        Operand::Value { value: self.id, labels: self.ty.labels() }
    }
}

impl Writer<'_> {
    /// Adds `count` operators, fewer where nothing fits.
    pub fn operators(&mut self, count: usize) {
        for _ in 0..count {
            let Some(draw) = self.draw() else { continue };
            for _ in 0..TRIES {
                let made = match &draw {
                    Draw::Elementwise(row) => self.elementwise(row),
                    Draw::Reduce(row) => self.reduce(row),
                    Draw::Contract => self.contract(),
                    Draw::Special(row) => self.special(row),
                    Draw::Apply(helper) => self.apply(helper),
                };
                if made.is_some() {
                    break;
                }
            }
        }
    }

    fn draw(&mut self) -> Option<Draw> {
        Some(match self.random.below(12) {
            0..=3 => Draw::Elementwise(self.random.pick(elementwise::TABLE)?),
            4 | 5 => Draw::Reduce(self.random.pick(monoid::TABLE)?),
            6 | 7 => Draw::Contract,
            8 => Draw::Apply(self.random.pick(self.helpers)?.clone()),
            _ => Draw::Special(self.random.pick(ops::TABLE)?),
        })
    }

    /// Values that a function may return: those whose extents depend on no index.
    pub fn free_values(&self) -> Vec<ValueId> {
        let is_free = |id: &ValueId| self.f.ty(*id).axes.iter().all(|axis| axis.extent.tables().is_empty());
        self.all_values().into_iter().filter(is_free).collect()
    }

    pub fn all_values(&self) -> Vec<ValueId> {
        (0..self.f.values().len() as u32).map(ValueId).collect()
    }

    /// What the program returns: the last value, and one or two others.
    pub fn results(&mut self) -> Vec<ValueId> {
        let all = self.all_values();
        let mut results: Vec<ValueId> = all.last().copied().into_iter().collect();
        for _ in 0..self.random.below(3) {
            let more = self.random.pick(&all).copied().filter(|id| !results.contains(id));
            results.extend(more);
        }
        results
    }

    /// A value for the next iteration, of the type of `carried`.
    pub fn next_carried(&mut self, carried: ValueId) -> Result<ValueId, Problem> {
        for _ in 0..TRIES {
            let rows: Vec<&Elementwise> =
                elementwise::TABLE.iter().filter(|row| row.types == TypeRule::Number).collect();
            let Some(row) = self.random.pick(&rows).copied() else { break };
            let base = self.under_own_names(carried);
            let mut operands = vec![base.operand()];
            while operands.len() < row.arity {
                operands.push(self.beside(&base, false));
            }
            if let Some(id) = self.add_elementwise(row, operands, None, None)
                && self.f.ty(id) == self.f.ty(carried)
            {
                return Ok(id);
            }
        }
        self.f.elementwise("next", "mul", [carried.into(), Operand::Literal(Scalar::Float(0.5))])
    }

    /// Applies a helper to values of the types that it wants.
    pub fn apply(&mut self, helper: &Helper) -> Option<ValueId> {
        let mut arguments = Vec::new();
        for wanted in &helper.params {
            let extents =
                |ty: &TensorType| ty.axes.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>();
            let fits = |id: &ValueId| {
                let ty = self.f.ty(*id);
                ty.dtype == wanted.dtype && extents(ty) == extents(wanted)
            };
            let fitting: Vec<ValueId> = self.all_values().into_iter().filter(fits).collect();
            arguments.push(self.random.pick(&fitting).copied()?);
        }
        let names: Vec<String> = (0..helper.results).map(|k| format!("r{k}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let made = match &helper.repeat {
            None => self.f.call(&names, helper.function, &arguments),
            Some(repeat) => {
                let coordinate = format!("l{}", helper.function.0);
                let arguments: Vec<_> = arguments.into_iter().zip(repeat.arguments.iter().cloned()).collect();
                let results: Vec<RepeatResult> = repeat.results.clone();
                let extent = repeat.extent.clone();
                self.f.repeat(&names, (&coordinate, extent), helper.function, &arguments, &results)
            }
        };
        made.ok()?.last().copied()
    }

    fn under_own_names(&self, id: ValueId) -> Labelled {
        Labelled { id, ty: self.f.ty(id).clone() }
    }

    /// A value under labels that are no sizes, so that guards may mention any size.
    fn under_fresh_labels(&self, id: ValueId, first: usize) -> Option<Labelled> {
        let ty = self.f.ty(id);
        let labels: Vec<Symbol> =
            (0..ty.axes.len()).map(|k| Symbol::from(format!("i{}", first + k))).collect();
        let ty = relabel(ty, &labels, self.f.scope().facts).ok()?;
        Some(Labelled { id, ty })
    }

    /// A value of which this holds, late ones more often; else one cast to `dtype`.
    pub fn value(&mut self, dtype: DType, fits: impl Fn(DType) -> bool) -> Option<ValueId> {
        let all = self.all_values();
        let fitting: Vec<ValueId> = all.iter().copied().filter(|id| fits(self.f.ty(*id).dtype)).collect();
        let late = fitting.get(fitting.len().saturating_sub(4)..).unwrap_or_default();
        let from = if self.random.one_in(2) { late } else { &fitting };
        match self.random.pick(from) {
            Some(id) => Some(*id),
            None => {
                let any = self.random.pick(&all).copied()?;
                self.f.cast("c", any, dtype).ok()
            }
        }
    }

    pub fn dtype(&mut self, fits: impl Fn(DType) -> bool) -> DType {
        let common = super::DTYPES.into_iter().filter(|dtype| fits(*dtype)).collect::<Vec<_>>();
        self.random.pick(&common).copied().unwrap_or(DType::F32)
    }

    fn elementwise(&mut self, row: &'static Elementwise) -> Option<ValueId> {
        let fits = |dtype: DType| match row.types {
            TypeRule::Float => dtype.is_float(),
            TypeRule::Int => dtype.is_int(),
            TypeRule::Number | TypeRule::Compare => dtype.is_float() || dtype.is_int(),
            TypeRule::Bool => dtype == DType::Bool,
            TypeRule::Select | TypeRule::To => true,
        };
        let dtype = self.dtype(fits);
        let id = self.value(dtype, fits)?;
        let base = self.under_own_names(id);
        let mut operands = Vec::new();
        if row.types == TypeRule::Select {
            operands.push(self.flags_beside(&base)?);
        }
        operands.push(base.operand());
        while operands.len() < row.arity {
            operands.push(self.beside(&base, true));
        }
        if !self.random.one_in(3) && row.types != TypeRule::Select {
            let last = operands.len() - 1;
            operands.swap(0, last);
        }
        let to = (row.types == TypeRule::To).then(|| {
            let exact = |dtype: DType| !row.name.contains("f16") || dtype.is_float();
            self.dtype(exact)
        });
        let stated = if self.random.one_in(3) { self.stated_labels(&operands) } else { None };
        self.add_elementwise(row, operands, stated, to)
    }

    fn add_elementwise(
        &mut self,
        row: &'static Elementwise,
        operands: Vec<Operand>,
        stated: Option<Vec<Axis>>,
        to: Option<DType>,
    ) -> Option<ValueId> {
        let stated = stated.or_else(|| self.union_of_labels(&operands));
        let name = self.f.fresh("v");
        let stated = stated.map(|axes| vec![axes]);
        let made = self.f.op(&[&name], Op::Elementwise { function: row }, operands, stated, to);
        made.ok()?.first().copied()
    }

    /// All labels, where no operand has them all.
    fn union_of_labels(&self, operands: &[Operand]) -> Option<Vec<Axis>> {
        let labels = labels_of(operands);
        let complete = operands.iter().any(
            |operand| matches!(operand, Operand::Value { labels: own, .. } if own.len() == labels.len()),
        );
        (!complete && !labels.is_empty()).then(|| label_axes(&labels))
    }

    /// All labels in a random order, some axes renamed.
    fn stated_labels(&mut self, operands: &[Operand]) -> Option<Vec<Axis>> {
        let mut labels = labels_of(operands);
        self.shuffle(&mut labels);
        let mut axes = label_axes(&labels);
        for (k, axis) in axes.iter_mut().enumerate() {
            if self.random.one_in(4) {
                axis.name = Symbol::from(format!("n{k}"));
            }
        }
        Some(axes)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for k in (1..items.len()).rev() {
            items.swap(k, self.random.below(k + 1));
        }
    }

    /// An operand of the element type of `base` that can stand beside it; with `wider`, it may add an axis.
    fn beside(&mut self, base: &Labelled, wider: bool) -> Operand {
        match self.random.below(8) {
            0 | 1 => self.literal(base.ty.dtype),
            2 if base.ty.dtype != DType::Bool => Operand::Dim(self.sizes.expression(self.random)),
            _ => {
                let dtype = base.ty.dtype;
                let found = self.value(dtype, |other| other == dtype);
                let aligned = found.and_then(|id| self.aligned(id, &base.ty.axes, wider));
                match aligned {
                    Some(other) => other.operand(),
                    None => self.literal(dtype),
                }
            }
        }
    }

    fn flags_beside(&mut self, base: &Labelled) -> Option<Operand> {
        let id = self.value(DType::Bool, |dtype| dtype == DType::Bool)?;
        self.aligned(id, &base.ty.axes, true).map(|flags| flags.operand())
    }

    /// A value whose axes are labelled like those of equal extent in `axes`; others get labels of their own, if
    /// `wider` and there are not too many then.
    pub fn aligned(&mut self, id: ValueId, axes: &[Axis], wider: bool) -> Option<Labelled> {
        let ty = self.f.ty(id).clone();
        let mut used: Vec<Symbol> = Vec::new();
        let mut fresh = 0;
        for axis in &ty.axes {
            let same = |other: &&Axis| other.extent == axis.extent && !used.contains(&other.name);
            // Of several axes of one extent, any.
            let candidates: Vec<&Axis> = axes.iter().filter(same).collect();
            let label = match self.random.pick(&candidates) {
                Some(other) => other.name.clone(),
                None => {
                    fresh += 1;
                    Symbol::from(format!("w{}_{}", self.f.values().len(), fresh))
                }
            };
            used.push(label);
        }
        if (fresh > 0 && !wider) || axes.len() + fresh > MAX_RANK {
            return None;
        }
        let ty = relabel(&ty, &used, self.f.scope().facts).ok()?;
        Some(Labelled { id, ty })
    }

    pub fn literal(&mut self, dtype: DType) -> Operand {
        Operand::Literal(self.scalar(dtype))
    }

    pub fn scalar(&mut self, dtype: DType) -> Scalar {
        if dtype == DType::Bool {
            return Scalar::Bool(self.random.one_in(2));
        }
        if dtype.is_int() {
            return Scalar::Int(self.random.between(0, 5));
        }
        let numbers = [0.0, 1.0, -1.0, 0.5, 2.0, 1e-6, 3.25, -0.0, f64::NEG_INFINITY, f64::INFINITY, 100.0];
        Scalar::Float(self.random.pick(&numbers).copied().unwrap_or(1.0))
    }

    fn reduce(&mut self, monoid: &'static Monoid) -> Option<ValueId> {
        let dtype = self.dtype(|dtype| (monoid.accepts)(dtype));
        let id = self.value(dtype, |dtype| (monoid.accepts)(dtype))?;
        let operand = self.under_fresh_labels(id, 0)?;
        let mut over = operand.ty.labels();
        while over.len() > 1 && self.random.one_in(2) {
            over.remove(self.random.below(over.len()));
        }
        let guard = self.guard(&operand.ty.axes);
        let dtype = operand.ty.dtype;
        let wide = monoid.rounds && dtype.is_float() && self.random.one_in(5);
        let accumulate =
            if wide { DType::F64 } else { tilewright::tensor::infer::default_accumulate(monoid, dtype) };
        let op = Op::Reduce { monoid, over, guard, accumulate };
        let name = self.f.fresh("s");
        self.f.op(&[&name], op, vec![operand.operand()], None, None).ok()?.first().copied()
    }

    fn contract(&mut self) -> Option<ValueId> {
        let is_number = |dtype: DType| dtype.is_float() || dtype.is_int();
        let dtype = self.dtype(is_number);
        let first = self.value(dtype, is_number)?;
        let first = self.under_fresh_labels(first, 0)?;
        let dtype = first.ty.dtype;
        let mut axes = first.ty.axes.clone();
        let mut operands = vec![first.operand()];
        let count = self.random.pick(&[1, 2, 2, 2, 2, 2, 3]).copied().unwrap_or(2);
        while operands.len() < count {
            let id = self.value(dtype, |other| other == dtype)?;
            let other = self.aligned(id, &axes, true)?;
            for axis in &other.ty.axes {
                if !axes.iter().any(|known| known.name == axis.name) {
                    axes.push(axis.clone());
                }
            }
            operands.push(other.operand());
        }
        let mut labels: Vec<Symbol> = axes.iter().map(|axis| axis.name.clone()).collect();
        self.shuffle(&mut labels);
        labels.truncate(self.random.below(labels.len() + 1));
        let guard = self.guard(&axes);
        let accumulate =
            if dtype.is_float() && self.random.one_in(6) { DType::F64 } else { dtype.accumulator() };
        let to = self
            .random
            .one_in(4)
            .then(|| self.dtype(|to| to.is_float() == dtype.is_float() && to.is_int() == dtype.is_int()));
        let name = self.f.fresh("p");
        let op = Op::Contract { guard, accumulate };
        let made = self.f.op(&[&name], op, operands, Some(vec![label_axes(&labels)]), to);
        made.ok()?.first().copied()
    }

    fn guard(&mut self, axes: &[Axis]) -> Guard {
        let mut guard = Guard::always();
        if self.random.one_in(2) {
            return guard;
        }
        let labels: Vec<(Symbol, Dim)> =
            axes.iter().map(|axis| (axis.name.clone(), axis.extent.clone())).collect();
        if !self.random.one_in(4) {
            let tables = self.tables();
            guard.condition = self.sizes.condition(self.random, &labels, &tables);
        }
        let is_flag = |id: &ValueId| self.f.ty(*id).dtype == DType::Bool;
        let flags: Vec<ValueId> = self.all_values().into_iter().filter(is_flag).collect();
        if self.random.one_in(2)
            && let Some(id) = self.random.pick(&flags).copied()
            && let Some(mask) = self.aligned(id, axes, false)
        {
            guard.masks.push((id, mask.ty.labels()));
        }
        guard
    }

    /// Integer tensors of one independent axis, and their extents.
    pub fn tables(&self) -> Vec<(Symbol, Dim)> {
        let facts = self.f.scope().facts;
        let table = |value: &tilewright::tensor::Value| match value.ty.axes.as_slice() {
            [axis] if value.ty.dtype.is_int() && depends_on(&value.ty, 0, facts).is_empty() => {
                Some((value.name.clone(), axis.extent.clone()))
            }
            _ => None,
        };
        self.f.values().iter().filter_map(table).collect()
    }
}

/// The labels of all operands, each once, in order of appearance.
fn labels_of(operands: &[Operand]) -> Vec<Symbol> {
    let mut all: Vec<Symbol> = Vec::new();
    for operand in operands {
        if let Operand::Value { labels, .. } = operand {
            for label in labels {
                if !all.contains(label) {
                    all.push(label.clone());
                }
            }
        }
    }
    all
}

fn label_axes(labels: &[Symbol]) -> Vec<Axis> {
    labels.iter().map(|label| Axis { name: label.clone(), extent: Dim::symbol(label) }).collect()
}
