//! Binding times: when the contents of a value are known.
//!
//! A value is known as late as the latest thing that it depends on: its operator's operands, masks, integer tensors
//! and sizes, those in its extents included. A size is known at compile time if the facts leave one value, at load if
//! an extent of a weight in memory determines it, else when a plan is made.

use super::infer::dims_of;
use super::ir::{
    Function, FunctionId, Op, Operand, ParamKind, Program, RepeatArgument, RepeatResult, TensorType, ValueId,
};
use super::storage::Storage;
use crate::dim::{Dim, Symbol};
use std::collections::BTreeSet;

/// When a value is known, earliest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindingTime {
    /// From the program alone.
    #[default]
    Compile,
    /// Once the weights are there.
    Load,
    /// Once sizes, lengths and page tables are there.
    Plan,
    /// In each run.
    Run,
}

/// The binding time of each value, by function and value. Values of a function that is applied several times are
/// known when the latest application's are; those of one that is never applied, as if its parameters were constants.
///
/// The program is legal (`tensor::verify`).
pub fn binding_times(program: &Program) -> Vec<Vec<BindingTime>> {
    let mut summaries: Vec<Vec<Depends>> = Vec::with_capacity(program.functions.len());
    for function in &program.functions {
        let summary = Summary { program, function, callees: &summaries, values: Vec::new() }.run();
        summaries.push(summary);
    }
    let mut times: Vec<Vec<BindingTime>> = program.functions.iter().map(|_| Vec::new()).collect();
    let mut params: Vec<Vec<BindingTime>> =
        program.functions.iter().map(|f| vec![BindingTime::Compile; f.params.len()]).collect();
    for (index, function) in program.functions.iter().enumerate().rev() {
        if index + 1 == program.functions.len() {
            params[index] = function.params.iter().map(|param| kind_time(param.kind)).collect();
        }
        times[index] = summaries[index].iter().map(|depends| depends.time(&params[index])).collect();
        for node in &function.nodes {
            let callee = match &node.op {
                Op::Call { function } | Op::Repeat { function, .. } => function.0 as usize,
                _ => continue,
            };
            for (k, operand) in node.operands.iter().enumerate() {
                let Operand::Value { value, .. } = operand else { continue };
                // A carried argument is also what the function gives for it.
                let result = match &node.op {
                    Op::Repeat { results, .. } => {
                        let at = results.iter().position(|result| *result == RepeatResult::Carried(k));
                        at.and_then(|at| node.results.get(at))
                    }
                    _ => None,
                };
                let time = [Some(value), result]
                    .into_iter()
                    .flatten()
                    .filter_map(|id| times[index].get(id.0 as usize))
                    .max()
                    .copied()
                    .unwrap_or_default();
                if let Some(slot) = params.get_mut(callee).and_then(|params| params.get_mut(k)) {
                    *slot = (*slot).max(time);
                }
            }
        }
    }
    times
}

/// When a size is known.
pub fn size_time(program: &Program, symbol: &Symbol) -> BindingTime {
    if let Some((lo, Some(hi))) = program.facts.range(symbol)
        && lo == hi
    {
        return BindingTime::Compile;
    }
    let Some(main) = program.functions.last() else { return BindingTime::Plan };
    let of_weight = main.params.iter().filter(|param| param.kind == ParamKind::Weight).any(|param| {
        let value = main.values.get(param.value.0 as usize);
        let storage = value.and_then(|value| Storage::of(main, &value.ty, &program.facts).ok());
        storage.is_some_and(|s| s.extents.iter().any(|extent| extent.determines().as_ref() == Some(symbol)))
    });
    if of_weight { BindingTime::Load } else { BindingTime::Plan }
}

fn kind_time(kind: ParamKind) -> BindingTime {
    match kind {
        ParamKind::Weight => BindingTime::Load,
        ParamKind::Plan => BindingTime::Plan,
        ParamKind::Input | ParamKind::State => BindingTime::Run,
    }
}

/// What a value of a function depends on.
#[derive(Clone, Debug, Default)]
struct Depends {
    /// The latest size.
    sizes: BindingTime,
    /// The parameters.
    params: BTreeSet<usize>,
}

impl Depends {
    fn time(&self, params: &[BindingTime]) -> BindingTime {
        let params = self.params.iter().filter_map(|index| params.get(*index)).max();
        self.sizes.max(params.copied().unwrap_or_default())
    }

    fn join(&mut self, other: &Depends) {
        self.sizes = self.sizes.max(other.sizes);
        self.params.extend(&other.params);
    }
}

struct Summary<'a> {
    program: &'a Program,
    function: &'a Function,
    callees: &'a [Vec<Depends>],
    values: Vec<Depends>,
}

impl Summary<'_> {
    fn run(mut self) -> Vec<Depends> {
        for index in 0..self.function.params.len() {
            self.values.push(Depends { params: BTreeSet::from([index]), ..Depends::default() });
        }
        for (index, param) in self.function.params.iter().enumerate() {
            let mut depends = self.values[index].clone();
            if let Some(value) = self.function.values.get(param.value.0 as usize) {
                self.ty(&value.ty, &mut depends);
            }
            self.values[index] = depends;
        }
        for node in &self.function.nodes {
            let mut own = Depends::default();
            dims_of(&node.op).iter().for_each(|dim| self.dim(dim, &mut own));
            if let Op::Reduce { guard, .. } | Op::Contract { guard, .. } = &node.op {
                guard.masks.iter().for_each(|(mask, _)| self.value(*mask, &mut own));
            }
            if let Op::Call { function } | Op::Repeat { function, .. } = &node.op {
                own.sizes = own.sizes.max(self.sizes_within(*function));
            }
            let operands: Vec<Depends> = node.operands.iter().map(|operand| self.operand(operand)).collect();
            let mut results = Vec::with_capacity(node.results.len());
            for (index, id) in node.results.iter().enumerate() {
                let mut depends = own.clone();
                match &node.op {
                    Op::Call { function } => {
                        let inner = self.result(function.0, index);
                        self.applied(&inner, &operands, &mut depends);
                    }
                    Op::Repeat { function, arguments, results, .. } => {
                        let inner = self.closed(function.0, index, arguments, results);
                        self.applied(&inner, &operands, &mut depends);
                        // The value before the first iteration is a result too.
                        if let Some(RepeatResult::Carried(at)) = results.get(index)
                            && let Some(first) = operands.get(*at)
                        {
                            depends.join(first);
                        }
                    }
                    _ => operands.iter().for_each(|operand| depends.join(operand)),
                }
                if let Some(value) = self.function.values.get(id.0 as usize) {
                    self.ty(&value.ty, &mut depends);
                }
                results.push(depends);
            }
            self.values.extend(results);
        }
        self.values
    }

    fn value(&self, id: ValueId, depends: &mut Depends) {
        if let Some(value) = self.values.get(id.0 as usize) {
            depends.join(value);
        }
    }

    fn operand(&self, operand: &Operand) -> Depends {
        let mut depends = Depends::default();
        match operand {
            Operand::Value { value, .. } => self.value(*value, &mut depends),
            Operand::Dim(dim) => self.dim(dim, &mut depends),
            Operand::Literal(_) => {}
        }
        depends
    }

    fn dim(&self, dim: &Dim, depends: &mut Depends) {
        // Names that are no sizes are labels.
        for symbol in dim.symbols().iter().filter(|symbol| self.program.facts.range(symbol).is_some()) {
            depends.sizes = depends.sizes.max(size_time(self.program, symbol));
        }
        for table in dim.tables() {
            if let Some(id) = self.function.find(&table) {
                self.value(id, depends);
            }
        }
    }

    fn ty(&self, ty: &TensorType, depends: &mut Depends) {
        ty.axes.iter().for_each(|axis| self.dim(&axis.extent, depends));
    }

    /// The latest size that a function needs, for whatever is in it.
    fn sizes_within(&self, function: FunctionId) -> BindingTime {
        let values = self.callees.get(function.0 as usize);
        values.into_iter().flatten().map(|depends| depends.sizes).max().unwrap_or_default()
    }

    /// What a result of a function depends on.
    fn result(&self, function: u32, index: usize) -> Depends {
        let callee = self.program.functions.get(function as usize);
        let id = callee.and_then(|callee| callee.results.get(index));
        let values = self.callees.get(function as usize);
        id.and_then(|id| values?.get(id.0 as usize)).cloned().unwrap_or_default()
    }

    /// What a result of a repeated function depends on after any number of iterations.
    fn closed(
        &self,
        function: u32,
        index: usize,
        arguments: &[RepeatArgument],
        results: &[RepeatResult],
    ) -> Depends {
        let mut depends = self.result(function, index);
        loop {
            let before = depends.params.len();
            for (at, result) in results.iter().enumerate() {
                if let RepeatResult::Carried(argument) = result
                    && matches!(arguments.get(*argument), Some(RepeatArgument::Carried { .. }))
                    && depends.params.contains(argument)
                {
                    depends.join(&self.result(function, at));
                }
            }
            if depends.params.len() == before {
                return depends;
            }
        }
    }

    /// Adds what `inner`, over parameters of a function, depends on where these are its arguments.
    fn applied(&self, inner: &Depends, arguments: &[Depends], depends: &mut Depends) {
        depends.sizes = depends.sizes.max(inner.sizes);
        inner
            .params
            .iter()
            .filter_map(|index| arguments.get(*index))
            .for_each(|argument| depends.join(argument));
    }
}
