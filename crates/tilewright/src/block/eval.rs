//! What a block program means: evaluation, slow and obvious.
//!
//! A function runs node by node over whole arrays in storage order; the bodies of maps run in the
//! [`super::Interpreter`]. What nothing has written is NaN or what [`unwritten`] says, so that it shows. A tensor that
//! takes over another's memory takes its array: the older one can no longer be read.

use super::interpreter::{Interpreter, Memory};
use super::ir::{Function, Node, Opaque, Program, Repeat, ValueId, ValueType};
use super::near::{bug, undefined};
use crate::dim::{Code, Env, Facts, Symbol};
use crate::error::Error;
use crate::tensor::eval::{Bindings, Numerics, check, unwritten};
use crate::tensor::ops::Splits;
use crate::tensor::storage::{Storage, depends_on};
use crate::tensor::{Array, DType, FunctionId, RepeatArgument, RepeatResult, Scalar, TensorType};
use std::collections::BTreeMap;

/// The most elements of one array: 1 GiB.
const MAX_ELEMENTS: usize = 1 << 27;

/// The most calls inside one another.
const MAX_DEPTH: usize = 64;

/// The results of a program in order, in storage order. The bindings are checked against its facts.
///
/// # Errors
/// [`Error::Input`] where the bindings do not fit or an index expression has no value at these sizes, [`Error::Memory`]
/// where an array is too large, [`Error::Bug`] where the program is not legal.
pub fn eval(program: &Program, bindings: &Bindings, numerics: Numerics) -> Result<Vec<Array>, Error> {
    check::symbols(&program.facts, &bindings.symbols)?;
    let main = program.functions.len().checked_sub(1).ok_or_else(|| bug("a program without functions"))?;
    let machine = Machine { program, symbols: &bindings.symbols, numerics };
    machine.call(FunctionId(main as u32), bindings.arrays.clone(), 0)
}

/// The facts of a program and those of the offsets that opaque operators of `function` compute.
pub fn facts_in(function: &Function, facts: &Facts) -> Result<Facts, String> {
    let mut all = facts.clone();
    for node in &function.body {
        let Node::Opaque(Opaque { operator, operands, results, .. }) = node else { continue };
        let Some(rule) = operator.splits else { continue };
        let tensor = |id: &ValueId| match function.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Tensor { ty, .. }) => Ok(ty.clone()),
            _ => Err("an operand is no tensor".to_string()),
        };
        let given = operands.iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
        let types = results.iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
        let Some(Splits { result, parts, total }) = rule(&given, &types) else { continue };
        let table = results.get(result).and_then(|id| function.values.get(id.0 as usize));
        if let Some(table) = table {
            all.declare_splits(table.name.clone(), parts, total).map_err(|error| error.to_string())?;
        }
    }
    Ok(all)
}

struct Machine<'a> {
    program: &'a Program,
    symbols: &'a BTreeMap<Symbol, i64>,
    numerics: Numerics,
}

/// A tensor that is defined: its elements and where they lie.
struct Tensor {
    array: Array,
    /// The extent of each axis, over the indices along all axes.
    extents: Vec<Code>,
    /// The positions of the axis of parts and of the packed axis, and the offsets.
    packed: Option<(usize, usize, Symbol)>,
}

/// The tensors of a function that runs.
struct Tensors<'a> {
    function: &'a Function,
    facts: Facts,
    symbols: &'a BTreeMap<Symbol, i64>,
    names: BTreeMap<&'a Symbol, usize>,
    tensors: Vec<Option<Tensor>>,
}

impl Env for Tensors<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let tensor = self.tensors.get(*self.names.get(table)?)?.as_ref()?;
        if index.len() != tensor.array.extents.len() || !tensor.array.dtype.is_int() {
            return None;
        }
        tensor.array.position(index).map(|position| tensor.array.get(position).as_i64())
    }
}

impl Memory for Tensors<'_> {
    fn load(&self, id: ValueId, index: &[i64]) -> Result<Option<Scalar>, Error> {
        let tensor = self.tensor(id)?;
        Ok(self.position(tensor, index)?.map(|position| tensor.array.get(position)))
    }

    fn store(&mut self, id: ValueId, index: &[i64], value: Scalar) -> Result<(), Error> {
        let position = self.position(self.tensor(id)?, index)?;
        if let (Some(position), Some(Some(tensor))) = (position, self.tensors.get_mut(id.0 as usize)) {
            tensor.array.set(position, value);
        }
        Ok(())
    }
}

impl<'a> Tensors<'a> {
    fn new(
        function: &'a Function,
        facts: &Facts,
        symbols: &'a BTreeMap<Symbol, i64>,
    ) -> Result<Tensors<'a>, Error> {
        let names = function.values.iter().enumerate().map(|(index, value)| (&value.name, index)).collect();
        let tensors = function.values.iter().map(|_| None).collect();
        Ok(Tensors { function, facts: facts_in(function, facts).map_err(bug)?, symbols, names, tensors })
    }

    fn tensor(&self, id: ValueId) -> Result<&Tensor, Error> {
        let tensor = self.tensors.get(id.0 as usize).and_then(Option::as_ref);
        tensor.ok_or_else(|| bug(format!("tensor {} is used before it is defined or after its end", id.0)))
    }

    fn ty(&self, id: ValueId) -> Result<(&'a Symbol, &'a TensorType, Option<ValueId>), Error> {
        match self.function.values.get(id.0 as usize) {
            Some(value) => match &value.ty {
                ValueType::Tensor { ty, alias } => Ok((&value.name, ty, *alias)),
                ValueType::Item(_) => Err(bug(format!("`{}` is an item where a tensor must be", value.name))),
            },
            None => Err(bug(format!("there is no value {}", id.0))),
        }
    }

    /// Where an element lies in its array, or none where the index is outside.
    fn position(&self, tensor: &Tensor, index: &[i64]) -> Result<Option<usize>, Error> {
        if index.len() != tensor.extents.len() {
            return Err(bug("an index of another rank than its tensor"));
        }
        for (at, extent) in index.iter().zip(&tensor.extents) {
            if *at < 0 || *at >= extent.eval(index, self).map_err(undefined)? {
                return Ok(None);
            }
        }
        let mut place = Vec::with_capacity(index.len());
        for (axis, at) in index.iter().enumerate() {
            match &tensor.packed {
                Some((part, ..)) if *part == axis => {}
                Some((part, packed, table)) if *packed == axis => {
                    let first = index.get(*part).and_then(|part| self.element(table, &[*part]));
                    place.push(first.ok_or_else(|| bug(format!("`{table}` has no offset here")))? + at);
                }
                _ => place.push(*at),
            }
        }
        Ok(tensor.array.position(&place))
    }

    /// Whether an array fits a parameter.
    fn accept(&self, id: ValueId, array: &Array) -> Result<(), Error> {
        let (name, ty, _) = self.ty(id)?;
        check::parameter(&self.facts, self, name, ty, array)
    }

    /// Defines a tensor by an array.
    fn define(&mut self, id: ValueId, array: Array) -> Result<(), Error> {
        let (name, ty, _) = self.ty(id)?;
        if check::extents(&self.facts, self, name, ty)? != array.extents || ty.dtype != array.dtype {
            return Err(bug(format!("`{name}` is defined by an array of another type")));
        }
        let storage = Storage::with(ty, &self.facts).map_err(bug)?;
        let packed = storage.packed().map(|(part, axis, table)| (part, axis, table.clone()));
        let labels = ty.labels();
        let mut extents = Vec::with_capacity(labels.len());
        for (k, axis) in ty.axes.iter().enumerate() {
            let earlier = depends_on(ty, k, &self.facts);
            // An axis that bears the name of a size is no index in extents: it gets a name that nothing mentions.
            let names: Vec<Symbol> = labels
                .iter()
                .enumerate()
                .map(|(i, label)| if earlier.contains(&i) { label.clone() } else { Symbol::new("") })
                .collect();
            extents.push(Code::dim(&axis.extent, &names, self).map_err(undefined)?);
        }
        match self.tensors.get_mut(id.0 as usize) {
            Some(slot) => *slot = Some(Tensor { array, extents, packed }),
            None => return Err(bug(format!("there is no value {}", id.0))),
        }
        Ok(())
    }

    /// The array that a tensor starts from: its alias's, or one that nothing has written.
    fn fresh(&mut self, id: ValueId) -> Result<Array, Error> {
        let (name, ty, alias) = self.ty(id)?;
        if let Some(older) = alias {
            let taken = self.tensors.get_mut(older.0 as usize).and_then(Option::take);
            return taken
                .map(|tensor| tensor.array)
                .ok_or_else(|| bug(format!("`{name}` takes over nothing")));
        }
        let extents = check::extents(&self.facts, self, name, ty)?;
        unwritten_array(name, ty.dtype, &extents)
    }
}

fn unwritten_array(name: &Symbol, dtype: DType, extents: &[usize]) -> Result<Array, Error> {
    let count = extents.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent));
    let count = if extents.contains(&0) { 0 } else { count.unwrap_or(usize::MAX) };
    if count > MAX_ELEMENTS {
        return Err(Error::Memory {
            needed: (count as u64).saturating_mul(8),
            limit: MAX_ELEMENTS as u64 * 8,
            table: format!("{name}: {count} elements"),
        });
    }
    Ok(Array::filled(dtype, extents, unwritten(dtype)))
}

impl Machine<'_> {
    fn call(&self, id: FunctionId, arguments: Vec<Array>, depth: usize) -> Result<Vec<Array>, Error> {
        let function = self.program.functions.get(id.0 as usize);
        let function = function.ok_or_else(|| bug(format!("there is no function {}", id.0)))?;
        if depth > MAX_DEPTH {
            return Err(bug(format!("more than {MAX_DEPTH} calls inside one another")));
        }
        if arguments.len() != function.params.len() {
            return Err(Error::Input {
                subject: function.name.to_string(),
                message: format!("{} arrays for {} parameters", arguments.len(), function.params.len()),
            });
        }
        let mut tensors = Tensors::new(function, &self.program.facts, self.symbols)?;
        // An extent may read a table that is a later parameter: those that can be defined first.
        let mut waiting: Vec<(ValueId, Array)> =
            function.params.iter().map(|param| param.value).zip(arguments).collect();
        while !waiting.is_empty() {
            let (mut left, mut problem) = (Vec::new(), None);
            let before = waiting.len();
            for (value, array) in waiting {
                match tensors.accept(value, &array) {
                    Ok(()) => tensors.define(value, array)?,
                    Err(error) => {
                        problem = problem.or(Some(error));
                        left.push((value, array));
                    }
                }
            }
            if let Some(problem) = problem.filter(|_| left.len() == before) {
                return Err(problem);
            }
            waiting = left;
        }
        for node in &function.body {
            self.node(&mut tensors, node, depth)?;
        }
        function.results.iter().map(|id| Ok(tensors.tensor(*id)?.array.clone())).collect()
    }

    fn node(&self, tensors: &mut Tensors<'_>, node: &Node, depth: usize) -> Result<(), Error> {
        let arrays = |tensors: &Tensors<'_>, ids: &[ValueId]| -> Result<Vec<Array>, Error> {
            ids.iter().map(|id| Ok(tensors.tensor(*id)?.array.clone())).collect()
        };
        match node {
            Node::Map(map) => {
                for id in &map.defines {
                    let array = tensors.fresh(*id)?;
                    tensors.define(*id, array)?;
                }
                let mut interpreter = Interpreter::new(&tensors.function.values, self.numerics);
                interpreter.run(std::slice::from_ref(node), tensors)
            }
            Node::Opaque(opaque) => {
                let function = opaque.operator.opaque;
                let function =
                    function.ok_or_else(|| bug(format!("`{}` has loops", opaque.operator.name)))?;
                let operands = arrays(tensors, &opaque.operands)?;
                let mut shapes = Vec::with_capacity(opaque.results.len());
                for id in &opaque.results {
                    let (name, ty, _) = tensors.ty(*id)?;
                    shapes.push((ty.dtype, check::extents(&tensors.facts, tensors, name, ty)?));
                }
                let operands: Vec<&Array> = operands.iter().collect();
                let mut results = function(&operands, opaque.axis, &shapes);
                results.iter_mut().for_each(|array| array.round(self.numerics));
                define_all(tensors, &opaque.results, results)
            }
            Node::Call(call) => {
                let results = self.call(call.function, arrays(tensors, &call.arguments)?, depth + 1)?;
                define_all(tensors, &call.results, results)
            }
            Node::Repeat(repeat) => {
                let ids: Vec<ValueId> = repeat.arguments.iter().map(|(id, _)| *id).collect();
                let operands = arrays(tensors, &ids)?;
                self.repeat(tensors, repeat, operands, depth)
            }
            Node::Load(_) | Node::Store(_) | Node::Compute(_) | Node::Reduce(_) | Node::Contract(_) => {
                Err(bug("a node on items outside a map"))
            }
        }
    }

    /// No tensor of a function has a negative size, whether or not the function is run: its memory is laid out when
    /// sizes are bound.
    fn check_sizes(&self, id: FunctionId) -> Result<(), Error> {
        let Some(function) = self.program.functions.get(id.0 as usize) else { return Ok(()) };
        let facts = Tensors::new(function, &self.program.facts, self.symbols)?.facts;
        for value in &function.values {
            if let ValueType::Tensor { ty, .. } = &value.ty {
                check::extents(&facts, self.symbols, &value.name, ty)?;
            }
        }
        let callees = function.body.iter().filter_map(|node| match node {
            Node::Call(call) => Some(call.function),
            Node::Repeat(repeat) => Some(repeat.function),
            _ => None,
        });
        // A function calls only those before it.
        callees.filter(|callee| callee.0 < id.0).try_for_each(|callee| self.check_sizes(callee))
    }

    fn repeat(
        &self,
        tensors: &mut Tensors<'_>,
        repeat: &Repeat,
        mut operands: Vec<Array>,
        depth: usize,
    ) -> Result<(), Error> {
        let extent = check::size(tensors, repeat.coordinate.as_str(), &repeat.extent)?;
        if extent == 0 {
            self.check_sizes(repeat.function)?;
        }
        let mut stacks = Vec::with_capacity(repeat.results.len());
        for (id, kind) in &repeat.results {
            let (name, ty, _) = tensors.ty(*id)?;
            stacks.push(match kind {
                RepeatResult::Carried(_) => None,
                RepeatResult::Stacked => {
                    let extents = check::extents(&tensors.facts, tensors, name, ty)?;
                    Some(unwritten_array(name, ty.dtype, &extents)?)
                }
            });
        }
        for l in 0..extent {
            let argument = |(operand, (_, kind)): (&Array, &(ValueId, RepeatArgument))| match kind {
                RepeatArgument::Sliced => {
                    operand.slice(l).ok_or_else(|| bug(format!("there is no slice {l}")))
                }
                RepeatArgument::Shared | RepeatArgument::Carried { .. } => Ok(operand.clone()),
            };
            let arguments = operands.iter().zip(&repeat.arguments).map(argument).collect::<Result<_, _>>()?;
            let results = self.call(repeat.function, arguments, depth + 1)?;
            if results.len() != repeat.results.len() {
                return Err(bug("a repeated function gives another number of results"));
            }
            for ((result, (_, kind)), stack) in results.into_iter().zip(&repeat.results).zip(&mut stacks) {
                match (kind, stack) {
                    (RepeatResult::Carried(k), _) => match operands.get_mut(*k) {
                        Some(operand) => *operand = result,
                        None => return Err(bug(format!("there is no argument {k}"))),
                    },
                    (RepeatResult::Stacked, stack) => {
                        if !stack.as_mut().is_some_and(|stack| stack.set_slice(l, &result)) {
                            return Err(bug("a stacked result has another type"));
                        }
                    }
                }
            }
        }
        let results = repeat.results.iter().zip(stacks).map(|((_, kind), stack)| match kind {
            RepeatResult::Carried(k) => operands.get(*k).cloned(),
            RepeatResult::Stacked => stack,
        });
        let results =
            results.collect::<Option<Vec<_>>>().ok_or_else(|| bug("a result of a repeat is missing"))?;
        let ids: Vec<ValueId> = repeat.results.iter().map(|(id, _)| *id).collect();
        define_all(tensors, &ids, results)
    }
}

fn define_all(tensors: &mut Tensors<'_>, ids: &[ValueId], arrays: Vec<Array>) -> Result<(), Error> {
    if ids.len() != arrays.len() {
        return Err(bug(format!("{} results for {} names", arrays.len(), ids.len())));
    }
    ids.iter().zip(arrays).try_for_each(|(id, array)| tensors.define(*id, array))
}
