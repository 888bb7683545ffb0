//! What a tensor program means: evaluation, slow and obvious.
//!
//! A function runs node by node; a node is a nest (`nest`), an opaque function of whole arrays, or a call. Arrays
//! are in storage order ([`super::storage`]). What nothing has written is NaN or, for integers, the greatest value of
//! the type, so that it shows.

pub mod check;
mod nest;

use super::array::{Array, Data};
use super::dtype::{DType, Scalar};
use super::ir::{
    Function, FunctionId, Node, Op, Program, RepeatArgument, RepeatResult, TensorType, Value, ValueId,
};
use super::meaning::{meaning_with, source};
use super::ops::Meaning;
use super::storage;
use crate::dim::{Dim, Env, EvalError, Facts, Symbol};
use crate::error::Error;
use nest::{Fault, Source, Surroundings};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most elements of all arrays together, while a program is evaluated: 2 GiB.
pub const MAX_ELEMENTS: u64 = 1 << 28;

/// The most calls inside one another.
const MAX_DEPTH: usize = 64;

/// In which numbers a program is evaluated. The level does not matter: the results of tensor, block, task and kernel
/// programs agree bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// Floats of every type are `f64` and never rounded to a narrower one; integers wrap at their type.
    F64,
    /// Each elementwise result is rounded once to its type. A sum or product accumulates in its stated type, rounded
    /// after each product and each addition, in index order; then it is rounded to the result's type.
    Own,
}

impl Numerics {
    /// The value as an element of type `dtype`.
    pub fn round(self, dtype: DType, value: Scalar) -> Scalar {
        match value {
            Scalar::Float(_) if self == Numerics::F64 => value,
            _ => dtype.round(value),
        }
    }
}

/// What a run is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    /// The value of every symbol.
    pub symbols: BTreeMap<Symbol, i64>,
    /// The parameters of the program itself in order, in storage order. Elements are values of the element type;
    /// evaluation does not round them.
    pub arrays: Vec<Array>,
}

/// What an element holds before it is written: NaN, the greatest integer of the type, or false.
pub fn unwritten(dtype: DType) -> Scalar {
    match dtype.int_range() {
        Some((_, greatest)) => Scalar::Int(greatest),
        None if dtype == DType::Bool => Scalar::Bool(false),
        None => Scalar::Float(f64::NAN),
    }
}

/// The results of a program in order, in storage order.
///
/// # Errors
/// [`Error::Input`] where the bindings do not fit the parameters or break a fact, or an index expression has no value
/// at these sizes; [`Error::Memory`] where arrays would have more than [`MAX_ELEMENTS`] elements;
/// [`Error::Program`] where the program is not legal.
pub fn eval(program: &Program, bindings: &Bindings, numerics: Numerics) -> Result<Vec<Array>, Error> {
    check::symbols(&program.facts, &bindings.symbols)?;
    let Some(last) = program.functions.len().checked_sub(1) else {
        return Err(illegal("program", "there is no function"));
    };
    let mut machine = Machine { program, symbols: &bindings.symbols, numerics, live: 0 };
    let arguments = bindings.arrays.iter().map(|array| Rc::new(array.clone())).collect();
    let results = machine.call(FunctionId(last as u32), arguments, 0)?;
    Ok(results.into_iter().map(Rc::unwrap_or_clone).collect())
}

fn illegal(place: &str, message: impl Into<String>) -> Error {
    Error::Program { place: place.into(), message: message.into() }
}

struct Machine<'a> {
    program: &'a Program,
    symbols: &'a BTreeMap<Symbol, i64>,
    numerics: Numerics,
    /// Elements of all arrays that frames hold.
    live: u64,
}

/// A function being run: its values so far.
struct Frame<'a> {
    function: &'a Function,
    facts: Facts,
    symbols: &'a BTreeMap<Symbol, i64>,
    values: Vec<Option<Rc<Array>>>,
    names: BTreeMap<&'a Symbol, usize>,
}

impl Env for Frame<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let array = self.values.get(*self.names.get(table)?)?.as_ref()?;
        match &array.data {
            Data::Int(elements) if index.len() == array.extents.len() => {
                elements.get(array.position(index)?).copied()
            }
            _ => None,
        }
    }
}

impl<'a> Frame<'a> {
    fn value(&self, id: ValueId) -> Result<&'a Value, Error> {
        let value = self.function.values.get(id.0 as usize);
        value.ok_or_else(|| illegal(self.function.name.as_str(), format!("there is no value {}", id.0)))
    }

    fn array(&self, id: ValueId) -> Result<&Rc<Array>, Error> {
        let array = self.values.get(id.0 as usize).and_then(Option::as_ref);
        array
            .ok_or_else(|| illegal(self.function.name.as_str(), format!("value {} is not defined yet", id.0)))
    }

    /// What a node is called in messages.
    fn place(&self, node: &Node) -> String {
        let result = node.results.first().and_then(|id| self.function.values.get(id.0 as usize));
        match result {
            Some(value) => format!("{}, `{}`", self.function.name, value.name),
            None => self.function.name.to_string(),
        }
    }

    /// The value of a dim that must be a size.
    fn size(&self, subject: &str, dim: &Dim) -> Result<usize, Error> {
        check::size(self, subject, dim)
    }

    /// The storage extents of a value's type at these sizes.
    fn extents(&self, value: &Value) -> Result<Vec<usize>, Error> {
        check::extents(&self.facts, self, &value.name, &value.ty)
    }
}

impl<'a> Machine<'a> {
    fn call(
        &mut self,
        id: FunctionId,
        arguments: Vec<Rc<Array>>,
        depth: usize,
    ) -> Result<Vec<Rc<Array>>, Error> {
        let Some(function) = self.program.functions.get(id.0 as usize) else {
            return Err(illegal("call", format!("there is no function {}", id.0)));
        };
        let name = function.name.as_str();
        if depth > MAX_DEPTH {
            return Err(illegal(name, format!("more than {MAX_DEPTH} calls inside one another")));
        }
        if let Some(value) = function.values.iter().find(|value| value.ty.dtype == DType::ScaledF32) {
            return Err(Error::Unsupported {
                place: format!("{name}, `{}`", value.name),
                what: "an element type of scaled numbers".into(),
                instead: "`cast` it to f32, and shift by the maximum before `exp`".into(),
            });
        }
        let facts =
            storage::facts_in(function, &self.program.facts).map_err(|message| illegal(name, message))?;
        let names = function.values.iter().enumerate().map(|(k, value)| (&value.name, k)).collect();
        let values = vec![None; function.values.len()];
        let mut frame = Frame { function, facts, symbols: self.symbols, values, names };
        if arguments.len() != function.params.len() {
            return Err(Error::Input {
                subject: name.into(),
                message: format!("{} arrays for {} parameters", arguments.len(), function.params.len()),
            });
        }
        let before = self.live;
        for (param, array) in function.params.iter().zip(arguments) {
            frame.value(param.value)?;
            self.hold(&mut frame, param.value, array)?;
        }
        for param in &function.params {
            let value = frame.value(param.value)?;
            check::parameter(&frame.facts, &frame, &value.name, &value.ty, frame.array(param.value)?)?;
        }
        for node in &function.nodes {
            self.node(&mut frame, node, depth)?;
        }
        let results = function.results.iter().map(|id| frame.array(*id).cloned());
        let results = results.collect::<Result<Vec<_>, _>>()?;
        self.live = before;
        Ok(results)
    }

    /// Keeps an array in a frame.
    fn hold(&mut self, frame: &mut Frame, id: ValueId, array: Rc<Array>) -> Result<(), Error> {
        self.reserve(array.len() as u64, frame.function.name.as_str())?;
        match frame.values.get_mut(id.0 as usize) {
            Some(slot) => *slot = Some(array),
            None => return Err(illegal(frame.function.name.as_str(), format!("there is no value {}", id.0))),
        }
        Ok(())
    }

    /// Counts elements, or refuses.
    fn reserve(&mut self, elements: u64, place: &str) -> Result<(), Error> {
        self.allow(elements, place)?;
        self.live += elements;
        Ok(())
    }

    fn allow(&self, elements: u64, place: &str) -> Result<(), Error> {
        if self.live.saturating_add(elements) > MAX_ELEMENTS {
            return Err(Error::Memory {
                needed: self.live.saturating_add(elements).saturating_mul(8),
                limit: MAX_ELEMENTS * 8,
                table: format!("{place}: {elements} elements"),
            });
        }
        Ok(())
    }

    /// Refuses extents whose array would be too large.
    fn allow_extents(&self, extents: &[usize], place: &str) -> Result<(), Error> {
        let count = extents.iter().try_fold(1u64, |n, &e| n.checked_mul(e as u64));
        let count = if extents.contains(&0) { 0 } else { count.unwrap_or(u64::MAX) };
        self.allow(count, place)
    }

    fn node(&mut self, frame: &mut Frame<'a>, node: &Node, depth: usize) -> Result<(), Error> {
        match &node.op {
            Op::Call { function } => {
                let arguments = self.arguments(frame, node)?;
                let results = self.call(*function, arguments, depth + 1)?;
                self.define(frame, node, results)
            }
            Op::Repeat { extent, function, arguments, results, .. } => {
                let place = frame.place(node);
                let extent = frame.size(&place, extent)?;
                if extent == 0 {
                    self.check_sizes(*function)?;
                }
                self.repeat(frame, node, *function, extent, arguments, results, depth)
            }
            _ => self.operator(frame, node),
        }
    }

    /// No value of a function has a negative size, whether or not the function is run: its memory is laid out when sizes
    /// are bound.
    fn check_sizes(&self, id: FunctionId) -> Result<(), Error> {
        let Some(function) = self.program.functions.get(id.0 as usize) else { return Ok(()) };
        let facts = storage::facts_in(function, &self.program.facts);
        let facts = facts.map_err(|message| illegal(function.name.as_str(), message))?;
        for value in &function.values {
            check::extents(&facts, self.symbols, &value.name, &value.ty)?;
        }
        let callees = function.nodes.iter().filter_map(|node| match node.op {
            Op::Call { function } | Op::Repeat { function, .. } => Some(function),
            _ => None,
        });
        // A function calls only those before it.
        callees.filter(|callee| callee.0 < id.0).try_for_each(|callee| self.check_sizes(callee))
    }

    fn arguments(&self, frame: &Frame, node: &Node) -> Result<Vec<Rc<Array>>, Error> {
        let operand = |k: usize| match source(node, k) {
            Some(id) => frame.array(id).cloned(),
            None => Err(illegal(&frame.place(node), "an argument of a function is a tensor")),
        };
        (0..node.operands.len()).map(operand).collect()
    }

    fn define(&mut self, frame: &mut Frame<'a>, node: &Node, results: Vec<Rc<Array>>) -> Result<(), Error> {
        if results.len() != node.results.len() {
            return Err(illegal(&frame.place(node), "the number of results differs"));
        }
        for (&id, array) in node.results.iter().zip(results) {
            let value = frame.value(id)?;
            let extents = frame.extents(value)?;
            if extents != array.extents || value.ty.dtype != array.dtype {
                return Err(illegal(&frame.place(node), "the result of a function has another type"));
            }
            self.hold(frame, id, array)?;
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn repeat(
        &mut self,
        frame: &mut Frame<'a>,
        node: &Node,
        function: FunctionId,
        extent: usize,
        kinds: &[RepeatArgument],
        becomes: &[RepeatResult],
        depth: usize,
    ) -> Result<(), Error> {
        let place = frame.place(node);
        let mut operands = self.arguments(frame, node)?;
        if kinds.len() != operands.len() || becomes.len() != node.results.len() {
            return Err(illegal(&place, "the repeat does not say what becomes of each operand and result"));
        }
        let mut stacks: Vec<Array> = Vec::new();
        for (&id, becomes) in node.results.iter().zip(becomes) {
            if *becomes == RepeatResult::Stacked {
                let value = frame.value(id)?;
                let extents = frame.extents(value)?;
                self.allow_extents(&extents, &place)?;
                stacks.push(Array::filled(value.ty.dtype, &extents, unwritten(value.ty.dtype)));
            }
        }
        for l in 0..extent {
            let mut arguments = Vec::with_capacity(operands.len());
            for (operand, kind) in operands.iter().zip(kinds) {
                arguments.push(match kind {
                    RepeatArgument::Sliced => {
                        let slice = operand.slice(l);
                        Rc::new(
                            slice.ok_or_else(|| {
                                illegal(&place, format!("there is no slice {l} of an operand"))
                            })?,
                        )
                    }
                    _ => operand.clone(),
                });
            }
            let results = self.call(function, arguments, depth + 1)?;
            if results.len() != becomes.len() {
                return Err(illegal(&place, "the number of results differs"));
            }
            let mut stacked = stacks.iter_mut();
            for (result, becomes) in results.into_iter().zip(becomes) {
                match becomes {
                    RepeatResult::Carried(k) => match operands.get_mut(*k) {
                        Some(operand) => *operand = result,
                        None => return Err(illegal(&place, format!("there is no operand {k}"))),
                    },
                    RepeatResult::Stacked => {
                        if !stacked.next().is_some_and(|stack| stack.set_slice(l, &result)) {
                            return Err(illegal(&place, "a stacked result has another type"));
                        }
                    }
                }
            }
        }
        let mut stacks = stacks.into_iter();
        let mut results = Vec::new();
        for becomes in becomes {
            results.push(match becomes {
                RepeatResult::Carried(k) => operands.get(*k).cloned(),
                RepeatResult::Stacked => stacks.next().map(Rc::new),
            });
        }
        let results = results.into_iter().collect::<Option<Vec<_>>>();
        self.define(frame, node, results.ok_or_else(|| illegal(&place, "a result is missing"))?)
    }

    fn operator(&mut self, frame: &mut Frame<'a>, node: &Node) -> Result<(), Error> {
        let place = frame.place(node);
        let meaning = meaning_with(&frame.facts, frame.function, node);
        let meaning = meaning.map_err(|message| illegal(&place, message))?;
        let mut types = Vec::with_capacity(node.results.len());
        for &id in &node.results {
            let value = frame.value(id)?;
            let extents = frame.extents(value)?;
            self.allow_extents(&extents, &place)?;
            types.push((&value.ty, extents));
        }
        let results = match meaning {
            Meaning::Nests(nests) => {
                if nests.len() != types.len() {
                    return Err(illegal(&place, "the number of results differs"));
                }
                let mut results = Vec::with_capacity(types.len());
                for (nest, (ty, extents)) in nests.iter().zip(&types) {
                    results.push(self.nest(frame, node, nest, ty, extents)?);
                }
                results
            }
            Meaning::Opaque { axis } => {
                let function = match &node.op {
                    Op::Special { operator, .. } => operator.opaque,
                    _ => None,
                };
                let function = function.ok_or_else(|| illegal(&place, "the operator has no function"))?;
                let operands = self.arguments(frame, node)?;
                let operands: Vec<&Array> = operands.iter().map(Rc::as_ref).collect();
                let shapes: Vec<(DType, Vec<usize>)> =
                    types.iter().map(|(ty, extents)| (ty.dtype, extents.clone())).collect();
                let mut results = function(&operands, axis, &shapes);
                for array in &mut results {
                    array.round(self.numerics);
                }
                results
            }
        };
        self.define(frame, node, results.into_iter().map(Rc::new).collect())
    }

    fn nest(
        &self,
        frame: &Frame<'a>,
        node: &Node,
        nest: &super::Nest,
        ty: &TensorType,
        extents: &[usize],
    ) -> Result<Array, Error> {
        let place = frame.place(node);
        let count =
            nest.reads.iter().map(|read| read.operand + 1).max().unwrap_or(0).max(node.operands.len());
        let mut sources = Vec::with_capacity(count);
        for k in 0..count {
            sources.push(match source(node, k) {
                Some(id) => Some(Source { ty: &frame.value(id)?.ty, array: frame.array(id)?.as_ref() }),
                None => None,
            });
        }
        let at = Surroundings { facts: &frame.facts, env: frame, numerics: self.numerics };
        nest::run(nest, &sources, ty, extents, &at).map_err(|fault| match fault {
            Fault::Shape(message) => illegal(&place, message),
            Fault::Index(error) => no_value(&place, &error),
        })
    }
}

fn no_value(place: &str, error: &EvalError) -> Error {
    Error::Input { subject: place.to_string(), message: format!("at these sizes {error}") }
}
