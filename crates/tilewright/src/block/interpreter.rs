//! Runs block nodes one after the other: the meaning of a map's body, here and in the bodies of tasks.
//!
//! The interpreter holds the items and the coordinates; tensors are behind [`Memory`], so that whoever owns the memory
//! decides what a tensor is: an array of a function, or a buffer that many tasks share.

use super::ir::{Argument, Carry, ItemType, Load, Map, Node, Store, Value, ValueId, ValueType};
use super::near::{self, Item, Space, bug, undefined};
use crate::dim::{Code, CondCode, Env, Scope, Symbol};
use crate::error::Error;
use crate::tensor::Scalar;
use crate::tensor::eval::Numerics;

/// Where tensors live. As an [`Env`] it gives the symbols and the elements of integer tensors by name.
pub trait Memory: Env {
    /// The element of a tensor at an index along its axes, or none where the index lies outside.
    fn load(&self, tensor: ValueId, index: &[i64]) -> Result<Option<Scalar>, Error>;

    /// Writes an element of a tensor.
    fn store(&mut self, tensor: ValueId, index: &[i64], value: Scalar) -> Result<(), Error>;
}

/// Items and coordinates of nodes in progress.
#[derive(Clone)]
pub struct Interpreter<'a> {
    values: &'a [Value],
    numerics: Numerics,
    items: Vec<Option<Item>>,
    names: Vec<Symbol>,
    coordinates: Vec<i64>,
}

impl<'a> Interpreter<'a> {
    /// Nothing has run yet; `values` are the tensors and items of the nodes to come.
    pub fn new(values: &'a [Value], numerics: Numerics) -> Interpreter<'a> {
        Interpreter {
            values,
            numerics,
            items: vec![None; values.len()],
            names: Vec::new(),
            coordinates: Vec::new(),
        }
    }

    /// Gives an enclosing coordinate its value, for all nodes run from here on.
    pub fn bind(&mut self, coordinate: Symbol, value: i64) {
        self.names.push(coordinate);
        self.coordinates.push(value);
    }

    /// An item that has been computed.
    pub fn item(&self, id: ValueId) -> Result<&Item, Error> {
        let found = self.items.get(id.0 as usize).and_then(Option::as_ref);
        found.ok_or_else(|| bug(format!("item {} is read before it is defined", id.0)))
    }

    /// The items computed so far as text, equal for equal items.
    pub fn held(&self) -> String {
        format!("{:?}", self.items)
    }

    /// Runs nodes in order. Parallel maps run in rising order.
    pub fn run(&mut self, nodes: &[Node], memory: &mut dyn Memory) -> Result<(), Error> {
        nodes.iter().try_for_each(|node| self.step(node, memory))
    }

    fn step(&mut self, node: &Node, memory: &mut dyn Memory) -> Result<(), Error> {
        match node {
            Node::Map(map) => self.map(map, memory),
            Node::Load(load) => {
                let item = self.load(load, memory)?;
                self.define(load.result, item)
            }
            Node::Store(store) => self.store(store, memory),
            Node::Compute(compute) => {
                let ty = self.item_type(compute.result)?;
                let arguments = compute.arguments.iter().map(|argument| {
                    Ok(match argument {
                        Argument::Item(id) => Argument::Item(self.item(*id)?),
                        Argument::Literal(value) => Argument::Literal(*value),
                        Argument::Index(dim) => Argument::Index(dim.clone()),
                        Argument::Holds(cond) => Argument::Holds(cond.clone()),
                    })
                });
                let arguments = arguments.collect::<Result<Vec<_>, Error>>()?;
                let item =
                    near::compute(compute.function, &arguments, ty, &self.scope(memory), self.numerics)?;
                self.define(compute.result, item)
            }
            Node::Reduce(reduce) => {
                let argument = self.item(reduce.argument)?;
                let mut state =
                    self.start(reduce.monoid, argument.ty.dtype, &reduce.into, &reduce.results)?;
                let masks = self.all(&reduce.guard.masks)?;
                let scope = self.scope(memory);
                let condition = &reduce.guard.condition;
                let position = &reduce.position;
                near::reduce(
                    reduce.monoid,
                    argument,
                    position,
                    condition,
                    &masks,
                    &mut state,
                    &scope,
                    self.numerics,
                )?;
                self.define_all(&reduce.results, state)
            }
            Node::Contract(contract) => {
                let ty = self.item_type(contract.result)?;
                let mut sum = match contract.into {
                    Some(id) => self.item(id)?.clone(),
                    None => Item::filled(ty, Scalar::zero(ty.dtype))?,
                };
                let (arguments, masks) = (self.all(&contract.arguments)?, self.all(&contract.guard.masks)?);
                let condition = &contract.guard.condition;
                near::contract(&arguments, condition, &masks, &mut sum, &self.scope(memory), self.numerics)?;
                self.define(contract.result, sum)
            }
            Node::Opaque(_) | Node::Call(_) | Node::Repeat(_) => {
                Err(bug("a function-level node inside a map"))
            }
        }
    }

    fn map(&mut self, map: &Map, memory: &mut dyn Memory) -> Result<(), Error> {
        let extent = map.extent.eval(&self.scope(memory)).map_err(undefined)?;
        let starts = map.carries.iter().map(|c| self.start(c.monoid, c.dtype, &c.from, &c.state));
        let mut states = starts.collect::<Result<Vec<_>, _>>()?;
        let depth = self.names.len();
        for value in 0..extent {
            self.bind(map.coordinate.clone(), value);
            for (carry, state) in map.carries.iter().zip(&mut states) {
                self.define_all(&carry.state, std::mem::take(state))?;
            }
            self.run(&map.body, memory)?;
            for (carry, state) in map.carries.iter().zip(&mut states) {
                *state = self.all(&carry.next)?.into_iter().cloned().collect();
            }
            self.names.truncate(depth);
            self.coordinates.truncate(depth);
        }
        for (Carry { result, .. }, state) in map.carries.iter().zip(states) {
            self.define_all(result, state)?;
        }
        Ok(())
    }

    fn load(&self, load: &Load, memory: &dyn Memory) -> Result<Item, Error> {
        let ty = self.item_type(load.result)?;
        let scope = self.scope(memory);
        let space = Space::new(&ty.ranges, &scope)?;
        let when = CondCode::cond(&load.when, space.labels(), &scope).map_err(undefined)?;
        let index = load.index.iter().map(|dim| Code::dim(dim, space.labels(), &scope).map_err(undefined));
        let index = index.collect::<Result<Vec<_>, _>>()?;
        let mut item = Item::fresh(ty)?;
        let mut place = vec![0; index.len()];
        space.walk(&scope, &mut |labels, offsets| {
            let mut value = None;
            if when.eval(labels, &scope).map_err(undefined)? {
                for (value, code) in place.iter_mut().zip(&index) {
                    *value = code.eval(labels, &scope).map_err(undefined)?;
                }
                value = memory.load(load.source, &place)?;
            }
            item.set(offsets, value.unwrap_or(Scalar::zero(ty.dtype)))
        })?;
        Ok(item)
    }

    fn store(&self, store: &Store, memory: &mut dyn Memory) -> Result<(), Error> {
        let item = self.item(store.item)?;
        let mut writes: Vec<(Vec<i64>, Scalar)> = Vec::new();
        {
            let scope = self.scope(memory);
            let space = Space::new(&item.ty.ranges, &scope)?;
            let index =
                store.index.iter().map(|dim| Code::dim(dim, space.labels(), &scope).map_err(undefined));
            let index = index.collect::<Result<Vec<_>, _>>()?;
            space.walk(&scope, &mut |labels, offsets| {
                let place = index.iter().map(|code| code.eval(labels, &scope).map_err(undefined));
                writes.push((place.collect::<Result<_, _>>()?, item.get(offsets)?));
                Ok(())
            })?;
        }
        writes.into_iter().try_for_each(|(place, value)| memory.store(store.target, &place, value))
    }

    /// The state that a reduction starts from.
    fn start(
        &self,
        monoid: &'static crate::tensor::Monoid,
        dtype: crate::tensor::DType,
        from: &[ValueId],
        like: &[ValueId],
    ) -> Result<Vec<Item>, Error> {
        if from.is_empty() {
            let types = like.iter().map(|id| self.item_type(*id)).collect::<Result<Vec<_>, _>>()?;
            return near::identity(monoid, dtype, &types);
        }
        Ok(self.all(from)?.into_iter().cloned().collect())
    }

    fn all(&self, ids: &[ValueId]) -> Result<Vec<&Item>, Error> {
        ids.iter().map(|id| self.item(*id)).collect()
    }

    fn define(&mut self, id: ValueId, item: Item) -> Result<(), Error> {
        let slot = self.items.get_mut(id.0 as usize).ok_or_else(|| bug(format!("no value {}", id.0)))?;
        *slot = Some(item);
        Ok(())
    }

    fn define_all(&mut self, ids: &[ValueId], items: Vec<Item>) -> Result<(), Error> {
        if ids.len() != items.len() {
            return Err(bug(format!("{} items for {} names", items.len(), ids.len())));
        }
        ids.iter().zip(items).try_for_each(|(id, item)| self.define(*id, item))
    }

    fn item_type(&self, id: ValueId) -> Result<&'a ItemType, Error> {
        match self.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Item(ty)) => Ok(ty),
            _ => Err(bug(format!("value {} is not an item", id.0))),
        }
    }

    fn scope<'s>(&'s self, memory: &'s dyn Memory) -> Scope<'s> {
        Scope { parent: memory, names: &self.names, values: &self.coordinates }
    }
}
