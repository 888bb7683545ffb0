//! Runs a program under an interpretation, by the nests that its operators mean.

use super::interpretation::{Interpretation, Site, Value};
use super::nest;
use crate::dim::{Dim, Env, Facts, Symbol};
use crate::tensor::ir::{
    Function, FunctionId, Node, Op, Operand, Program, RepeatArgument, RepeatResult, TensorType, ValueId,
};
use crate::tensor::meaning::{meaning_with, source};
use crate::tensor::ops::Meaning;
use crate::tensor::storage::{self, Storage};
use crate::tensor::{Array, DType, Data};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most calls inside one another.
const MAX_DEPTH: usize = 64;

/// Elements of a tensor, in storage order.
#[derive(Debug)]
pub struct Tensor<I: Interpretation> {
    /// The element type.
    pub dtype: DType,
    /// The storage extents.
    pub extents: Vec<usize>,
    /// The elements, row-major.
    pub elements: Vec<Value<I::Real, I::Truth>>,
}

/// Why a program has no value under an interpretation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not at these sizes: an extent is negative, an index expression has no value.
    Size(String),
    /// More work than allowed.
    TooLarge,
    /// An operator has no meaning here.
    Unsupported(String),
    /// The program is not legal.
    Illegal(String),
}

/// A run of a program.
pub struct Machine<'a, I: Interpretation> {
    /// The meaning of floats.
    pub interpretation: &'a I,
    /// The program.
    pub program: &'a Program,
    /// See [`Site::side`].
    pub side: u8,
    /// The value of every size.
    pub symbols: &'a BTreeMap<Symbol, i64>,
    /// Elements that may still be computed.
    pub budget: Cell<u64>,
}

/// A tensor shared by those who read it.
pub type Shared<I> = Rc<Tensor<I>>;

pub(super) struct Frame<'a, I: Interpretation> {
    pub function: &'a Function,
    pub facts: Facts,
    symbols: &'a BTreeMap<Symbol, i64>,
    values: Vec<Option<Shared<I>>>,
    names: BTreeMap<&'a Symbol, usize>,
}

impl<I: Interpretation> Env for Frame<'_, I> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let tensor = self.values.get(*self.names.get(table)?)?.as_ref()?;
        if index.len() != tensor.extents.len() {
            return None;
        }
        let mut position = 0usize;
        for (&i, &n) in index.iter().zip(&tensor.extents) {
            position = position * n + usize::try_from(i).ok().filter(|&i| i < n)?;
        }
        match tensor.elements.get(position)? {
            Value::Int(x) => Some(*x),
            _ => None,
        }
    }
}

impl<'a, I: Interpretation> Frame<'a, I> {
    pub(super) fn tensor(&self, id: ValueId) -> Result<&Shared<I>, Fault> {
        let tensor = self.values.get(id.0 as usize).and_then(Option::as_ref);
        tensor.ok_or_else(|| Fault::Illegal(format!("value {} is not defined", id.0)))
    }

    pub(super) fn ty(&self, id: ValueId) -> Result<&'a TensorType, Fault> {
        let value = self.function.values.get(id.0 as usize);
        Ok(&value.ok_or_else(|| Fault::Illegal(format!("there is no value {}", id.0)))?.ty)
    }
}

/// The storage extents of a type at these sizes.
pub fn extents(ty: &TensorType, facts: &Facts, env: &dyn Env) -> Result<Vec<usize>, Fault> {
    let storage = Storage::with(ty, facts).map_err(Fault::Illegal)?;
    storage.extents.iter().map(|extent| size(extent, env)).collect()
}

fn size(dim: &Dim, env: &dyn Env) -> Result<usize, Fault> {
    let size = dim.eval(env).map_err(|error| Fault::Size(error.to_string()))?;
    usize::try_from(size).map_err(|_| Fault::Size(format!("the extent `{dim}` is {size}")))
}

impl<'a, I: Interpretation> Machine<'a, I> {
    /// The results of the program on these parameters.
    pub fn run(&self, parameters: &[Shared<I>]) -> Result<Vec<Shared<I>>, Fault> {
        let last = self.program.functions.len().checked_sub(1);
        let last = last.ok_or_else(|| Fault::Illegal("there is no function".into()))?;
        self.call(FunctionId(last as u32), parameters.to_vec(), 0)
    }

    /// Takes work from the budget.
    pub(super) fn spend(&self, elements: u64) -> Result<(), Fault> {
        let left = self.budget.get().checked_sub(elements).ok_or(Fault::TooLarge)?;
        self.budget.set(left);
        Ok(())
    }

    fn call(&self, id: FunctionId, arguments: Vec<Shared<I>>, depth: usize) -> Result<Vec<Shared<I>>, Fault> {
        let function = self.program.functions.get(id.0 as usize);
        let function = function.ok_or_else(|| Fault::Illegal(format!("there is no function {}", id.0)))?;
        if depth > MAX_DEPTH || arguments.len() != function.params.len() {
            return Err(Fault::Illegal(format!("`{}` cannot be called so", function.name)));
        }
        let facts = storage::facts_in(function, &self.program.facts).map_err(Fault::Illegal)?;
        let names = function.values.iter().enumerate().map(|(k, value)| (&value.name, k)).collect();
        let values = function.values.iter().map(|_| None).collect();
        let mut frame = Frame { function, facts, symbols: self.symbols, values, names };
        for (param, tensor) in function.params.iter().zip(arguments) {
            self.define(&mut frame, param.value, tensor)?;
        }
        for param in &function.params {
            let expected = extents(frame.ty(param.value)?, &frame.facts, &frame)?;
            if frame.tensor(param.value)?.extents != expected {
                return Err(Fault::Size(format!("a parameter of `{}` has another shape", function.name)));
            }
        }
        for (k, node) in function.nodes.iter().enumerate() {
            let site = Site { side: self.side, function: id.0, node: k as u32 };
            let results = match &node.op {
                Op::Call { function } => self.call(*function, self.arguments(&frame, node)?, depth + 1)?,
                Op::Repeat { .. } => self.repeat(&frame, node, depth)?,
                _ => self.operator(&frame, node, site)?,
            };
            if results.len() != node.results.len() {
                return Err(Fault::Illegal("the number of results differs".into()));
            }
            for (id, tensor) in node.results.iter().zip(results) {
                self.define(&mut frame, *id, tensor)?;
            }
        }
        function.results.iter().map(|id| frame.tensor(*id).cloned()).collect()
    }

    fn define(&self, frame: &mut Frame<'a, I>, id: ValueId, tensor: Shared<I>) -> Result<(), Fault> {
        let slot = frame.values.get_mut(id.0 as usize);
        *slot.ok_or_else(|| Fault::Illegal(format!("there is no value {}", id.0)))? = Some(tensor);
        Ok(())
    }

    fn arguments(&self, frame: &Frame<'a, I>, node: &Node) -> Result<Vec<Shared<I>>, Fault> {
        let operand = |operand: &Operand| match operand {
            Operand::Value { value, .. } => frame.tensor(*value).cloned(),
            _ => Err(Fault::Illegal("an argument of a function is a tensor".into())),
        };
        node.operands.iter().map(operand).collect()
    }

    fn repeat(&self, frame: &Frame<'a, I>, node: &Node, depth: usize) -> Result<Vec<Shared<I>>, Fault> {
        let Op::Repeat { extent, function, arguments: kinds, results: becomes, .. } = &node.op else {
            return Err(Fault::Illegal("no repeat".into()));
        };
        let illegal = || Fault::Illegal("the repeat does not fit its function".into());
        let extent = size(extent, frame)?;
        let mut operands = self.arguments(frame, node)?;
        let mut stacks: Vec<Option<Tensor<I>>> = Vec::new();
        for (id, becomes) in node.results.iter().zip(becomes) {
            stacks.push(match becomes {
                RepeatResult::Carried(_) => None,
                RepeatResult::Stacked => {
                    let ty = frame.ty(*id)?;
                    let extents = extents(ty, &frame.facts, frame)?;
                    Some(Tensor { dtype: ty.dtype, extents, elements: Vec::new() })
                }
            });
        }
        for l in 0..extent {
            let mut arguments = Vec::with_capacity(operands.len());
            for (operand, kind) in operands.iter().zip(kinds) {
                arguments.push(match kind {
                    RepeatArgument::Sliced => Rc::new(slice(operand, l).ok_or_else(illegal)?),
                    _ => Rc::clone(operand),
                });
            }
            let results = self.call(*function, arguments, depth + 1)?;
            for ((result, becomes), stack) in results.into_iter().zip(becomes).zip(&mut stacks) {
                match (becomes, stack) {
                    (RepeatResult::Carried(k), _) => *operands.get_mut(*k).ok_or_else(illegal)? = result,
                    (RepeatResult::Stacked, Some(stack)) => {
                        stack.elements.extend(result.elements.iter().cloned());
                    }
                    _ => return Err(illegal()),
                }
            }
        }
        let mut results = Vec::new();
        for (becomes, stack) in becomes.iter().zip(stacks) {
            results.push(match (becomes, stack) {
                (RepeatResult::Carried(k), _) => operands.get(*k).cloned().ok_or_else(illegal)?,
                (_, Some(stack)) if stack.elements.len() == stack.extents.iter().product() => Rc::new(stack),
                _ => return Err(illegal()),
            });
        }
        Ok(results)
    }

    fn operator(&self, frame: &Frame<'a, I>, node: &Node, site: Site) -> Result<Vec<Shared<I>>, Fault> {
        let meaning = meaning_with(&frame.facts, frame.function, node).map_err(Fault::Illegal)?;
        let mut types = Vec::with_capacity(node.results.len());
        for id in &node.results {
            let ty = frame.ty(*id)?;
            types.push((ty, extents(ty, &frame.facts, frame)?));
        }
        match meaning {
            Meaning::Nests(nests) => {
                let mut results = Vec::with_capacity(types.len());
                for (nest, (ty, extents)) in nests.iter().zip(&types) {
                    let count = nest.reads.iter().map(|read| read.operand + 1).max().unwrap_or(0);
                    let mut sources = Vec::with_capacity(count.max(node.operands.len()));
                    for k in 0..count.max(node.operands.len()) {
                        sources.push(match source(node, k) {
                            Some(id) => Some((frame.ty(id)?, frame.tensor(id)?.as_ref())),
                            None => None,
                        });
                    }
                    results.push(Rc::new(nest::run(self, frame, nest, &sources, ty, extents, site)?));
                }
                Ok(results)
            }
            Meaning::Opaque { axis } => self.opaque(frame, node, axis, &types),
        }
    }

    /// A function of whole tensors, which may order floats but not compute with them.
    fn opaque(
        &self,
        frame: &Frame<'a, I>,
        node: &Node,
        axis: usize,
        types: &[(&TensorType, Vec<usize>)],
    ) -> Result<Vec<Shared<I>>, Fault> {
        let Op::Special { operator, .. } = &node.op else {
            return Err(Fault::Illegal("no operator".into()));
        };
        let unsupported = || Fault::Unsupported(format!("`{}`", operator.name));
        let function = operator.opaque.ok_or_else(unsupported)?;
        let mut arrays = Vec::new();
        let mut known: BTreeMap<u64, I::Real> = BTreeMap::new();
        for operand in self.arguments(frame, node)? {
            self.spend(operand.elements.len() as u64)?;
            arrays.push(self.array(&operand, &mut known));
        }
        let shapes: Vec<(DType, Vec<usize>)> =
            types.iter().map(|(ty, extents)| (ty.dtype, extents.clone())).collect();
        let operands: Vec<&Array> = arrays.iter().collect();
        let results = function(&operands, axis, &shapes);
        let back = |x: f64| match known.get(&x.to_bits()) {
            Some(real) => Ok(Value::Real(real.clone())),
            None if x.is_nan() => Ok(Value::Real(self.interpretation.undefined())),
            None if x == f64::NEG_INFINITY => Ok(Value::Real(self.interpretation.number(x))),
            None => Err(unsupported()),
        };
        let tensor = |array: Array| {
            let elements = match array.data {
                Data::Float(values) => values.into_iter().map(back).collect::<Result<_, _>>()?,
                Data::Int(values) => values.into_iter().map(Value::Int).collect(),
                Data::Bool(values) => {
                    values.into_iter().map(|x| Value::Truth(self.interpretation.truth(x))).collect()
                }
            };
            Ok(Rc::new(Tensor { dtype: array.dtype, extents: array.extents, elements }))
        };
        results.into_iter().map(tensor).collect()
    }

    /// The tensor with its floats as numbers in their order; `known` says what each number stands for.
    fn array(&self, tensor: &Tensor<I>, known: &mut BTreeMap<u64, I::Real>) -> Array {
        let reals: Vec<I::Real> = tensor.elements.iter().filter_map(as_real).cloned().collect();
        let data = if tensor.dtype.is_float() {
            let order = self.interpretation.order(&reals);
            known.extend(
                order.iter().map(|x| x.to_bits()).zip(reals).filter(|(x, _)| !f64::from_bits(*x).is_nan()),
            );
            Data::Float(order)
        } else if tensor.dtype.is_int() {
            Data::Int(tensor.elements.iter().map(|x| if let Value::Int(x) = x { *x } else { 0 }).collect())
        } else {
            let decide = |x: &Value<I::Real, I::Truth>| match x {
                Value::Truth(x) => self.interpretation.decide(*x),
                _ => false,
            };
            Data::Bool(tensor.elements.iter().map(decide).collect())
        };
        Array { dtype: tensor.dtype, extents: tensor.extents.clone(), data }
    }
}

fn as_real<R, T>(value: &Value<R, T>) -> Option<&R> {
    match value {
        Value::Real(x) => Some(x),
        _ => None,
    }
}

fn slice<I: Interpretation>(tensor: &Tensor<I>, l: usize) -> Option<Tensor<I>> {
    let (_, rest) = tensor.extents.split_first()?;
    let size: usize = rest.iter().product();
    let elements = tensor.elements.get(l * size..(l + 1) * size)?.to_vec();
    Some(Tensor { dtype: tensor.dtype, extents: rest.to_vec(), elements })
}
