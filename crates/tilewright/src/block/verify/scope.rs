//! What is in sight of a node, and the laws of names, ranges and index expressions.

use super::{Body, Reason, Violation};
use crate::block::ir::{ItemType, Map, Order, Range, Value, ValueId, ValueType};
use crate::dim::{Atom, Cond, Dim, Facts, Symbol};
use crate::tensor::TensorType;
use crate::tensor::names::is_name;
use std::collections::BTreeSet;

/// How far a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tensor {
    /// Not defined yet.
    Absent,
    /// Being defined by the function-level map around.
    Open,
    /// Defined.
    Ready,
    /// Its memory belongs to another.
    Dead,
}

/// The state of a walk over nodes in order.
pub(super) struct Checker<'a> {
    pub place: String,
    pub facts: &'a Facts,
    pub values: &'a [Value],
    pub tensors: Vec<Tensor>,
    /// Items in sight.
    pub items: BTreeSet<ValueId>,
    /// Values that were ever defined.
    pub defined: BTreeSet<ValueId>,
    /// The maps around, outermost first.
    pub maps: Vec<(Symbol, Order)>,
    /// Tensors that a store has reached.
    pub stored: BTreeSet<ValueId>,
}

pub(super) type Outcome<T = ()> = Result<T, Violation>;

impl<'a> Checker<'a> {
    pub fn new(place: String, facts: &'a Facts, values: &'a [Value]) -> Checker<'a> {
        Checker {
            place,
            facts,
            values,
            tensors: vec![Tensor::Absent; values.len()],
            items: BTreeSet::new(),
            defined: BTreeSet::new(),
            maps: Vec::new(),
            stored: BTreeSet::new(),
        }
    }

    pub fn fail<T>(&self, reason: Reason, message: impl Into<String>) -> Outcome<T> {
        Err(Violation { reason, place: self.place.clone(), message: message.into() })
    }

    /// Starts a task's body.
    pub fn enter(&mut self, body: &Body<'_>) -> Outcome {
        for (index, value) in self.values.iter().enumerate() {
            if let ValueType::Tensor { ty, .. } = &value.ty {
                let id = ValueId(index as u32);
                let open = body.written.contains(&id);
                self.tensors[index] = if open { Tensor::Open } else { Tensor::Ready };
                self.defined.insert(id);
                self.axes(&value.name, ty)?;
            }
        }
        for coordinate in body.coordinates {
            self.coordinate(coordinate)?;
            self.maps.push((coordinate.clone(), Order::Parallel));
        }
        Ok(())
    }

    pub fn value(&self, id: ValueId) -> Outcome<&'a Value> {
        match self.values.get(id.0 as usize) {
            Some(value) => Ok(value),
            None => self.fail(Reason::Id, format!("there is no value {}", id.0)),
        }
    }

    /// Every value has its own name, one that the text form can say; labels are not sizes.
    pub fn names(&self) -> Outcome {
        let mut seen = BTreeSet::new();
        for value in self.values {
            if !is_name(value.name.as_str()) {
                return self.fail(Reason::Name, format!("`{}` cannot be a name", value.name));
            }
            if !seen.insert(&value.name) {
                return self.fail(Reason::Name, format!("two values are called `{}`", value.name));
            }
            let ValueType::Item(ty) = &value.ty else { continue };
            if let Some(range) = ty.ranges.iter().find(|range| self.facts.range(&range.label).is_some()) {
                return self.fail(Reason::Name, format!("the label `{}` is a size", range.label));
            }
        }
        Ok(())
    }

    /// A tensor's type, and how far the tensor is.
    pub fn tensor(&self, id: ValueId) -> Outcome<(&'a Value, &'a TensorType, Tensor)> {
        let value = self.value(id)?;
        match &value.ty {
            ValueType::Tensor { ty, .. } => {
                let state = self.tensors.get(id.0 as usize).copied().unwrap_or(Tensor::Absent);
                Ok((value, ty, state))
            }
            ValueType::Item(_) => {
                self.fail(Reason::Kind, format!("`{}` is an item, and a tensor must stand here", value.name))
            }
        }
    }

    /// A tensor that may be read.
    pub fn readable(&self, id: ValueId) -> Outcome<(&'a Value, &'a TensorType)> {
        let (value, ty, state) = self.tensor(id)?;
        match state {
            Tensor::Ready => Ok((value, ty)),
            Tensor::Dead => {
                self.fail(Reason::Alias, format!("`{}` is read after another took its memory", value.name))
            }
            Tensor::Open => self
                .fail(Reason::Undefined, format!("`{}` is read inside the map that defines it", value.name)),
            Tensor::Absent => {
                self.fail(Reason::Undefined, format!("`{}` is read before it is defined", value.name))
            }
        }
    }

    /// The type of an item in sight.
    pub fn item(&self, id: ValueId) -> Outcome<&'a ItemType> {
        let value = self.value(id)?;
        match &value.ty {
            ValueType::Item(ty) if self.items.contains(&id) => Ok(ty),
            ValueType::Item(_) => {
                self.fail(Reason::Undefined, format!("the item `{}` is not in sight here", value.name))
            }
            ValueType::Tensor { .. } => {
                self.fail(Reason::Kind, format!("`{}` is a tensor, and an item must stand here", value.name))
            }
        }
    }

    /// Notes the definition of a value.
    pub fn define(&mut self, id: ValueId) -> Outcome {
        let value = self.value(id)?;
        if !self.defined.insert(id) {
            return self.fail(Reason::Defined, format!("`{}` is defined twice", value.name));
        }
        Ok(())
    }

    /// Notes the definition of an item, whose ranges must be legal here.
    pub fn define_item(&mut self, id: ValueId) -> Outcome<&'a ItemType> {
        let value = self.value(id)?;
        let ValueType::Item(ty) = &value.ty else {
            return self
                .fail(Reason::Kind, format!("`{}` is a tensor, and this node gives an item", value.name));
        };
        self.define(id)?;
        self.ranges(&value.name, ty)?;
        self.items.insert(id);
        Ok(ty)
    }

    fn ranges(&self, name: &Symbol, ty: &ItemType) -> Outcome {
        let mut labels: Vec<Symbol> = Vec::new();
        for Range { label, start, size, end } in &ty.ranges {
            if *size <= 0 {
                return self
                    .fail(Reason::Range, format!("the range of `{label}` in `{name}` has the size {size}"));
            }
            if labels.contains(label) {
                return self.fail(Reason::Range, format!("`{name}` has the label `{label}` twice"));
            }
            if self.maps.iter().any(|(coordinate, _)| coordinate == label) {
                return self.fail(Reason::Name, format!("the label `{label}` of `{name}` is a coordinate"));
            }
            self.dim(start, &labels)?;
            self.dim(end, &labels)?;
            labels.push(label.clone());
        }
        Ok(())
    }

    /// The extents of a tensor's axes.
    pub fn axes(&self, name: &Symbol, ty: &TensorType) -> Outcome {
        let mut earlier: Vec<Symbol> = Vec::new();
        for axis in &ty.axes {
            if earlier.contains(&axis.name) {
                return self.fail(Reason::Name, format!("`{name}` has two axes called `{}`", axis.name));
            }
            self.symbols(&axis.extent, &earlier)?;
            earlier.push(axis.name.clone());
        }
        Ok(())
    }

    /// A coordinate that a map or a repeat introduces.
    pub fn coordinate(&self, name: &Symbol) -> Outcome {
        let taken = if !is_name(name.as_str()) {
            "cannot be a name"
        } else if self.facts.range(name).is_some() {
            "is a size"
        } else if self.maps.iter().any(|(coordinate, _)| coordinate == name) {
            "belongs to a map around"
        } else if self.items.iter().any(|id| self.has_label(*id, name)) {
            "is a label in sight"
        } else {
            return Ok(());
        };
        self.fail(Reason::Coordinate, format!("the coordinate `{name}` {taken}"))
    }

    fn has_label(&self, id: ValueId, name: &Symbol) -> bool {
        match self.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Item(ty)) => ty.ranges.iter().any(|range| range.label == *name),
            _ => false,
        }
    }

    /// Whether an expression is over sizes, coordinates in sight, these labels, and elements of tensors that can be read.
    pub fn dim(&self, dim: &Dim, labels: &[Symbol]) -> Outcome {
        self.symbols(dim, labels)?;
        let mut outcome = Ok(());
        elements(dim, &mut |table, rank| {
            if outcome.is_ok() {
                outcome = self.table(table, rank);
            }
        });
        outcome
    }

    fn symbols(&self, dim: &Dim, labels: &[Symbol]) -> Outcome {
        if dim.is_overflow() {
            return self.fail(Reason::Symbol, "an index expression is beyond 64 bits");
        }
        for symbol in dim.symbols() {
            let known = self.facts.range(&symbol).is_some()
                || labels.contains(&symbol)
                || self.maps.iter().any(|(coordinate, _)| *coordinate == symbol);
            if !known {
                return self.fail(Reason::Symbol, format!("`{symbol}` in `{dim}` is not in sight"));
            }
        }
        Ok(())
    }

    pub fn cond(&self, cond: &Cond, labels: &[Symbol]) -> Outcome {
        let mut outcome = Ok(());
        cond.visit_dims(&mut |dim| {
            if outcome.is_ok() {
                outcome = self.dim(dim, labels);
            }
        });
        outcome
    }

    fn table(&self, table: &Symbol, rank: usize) -> Outcome {
        let Some(index) = self.values.iter().position(|value| value.name == *table) else {
            return self.fail(Reason::Table, format!("there is no integer tensor `{table}`"));
        };
        let ValueType::Tensor { ty, .. } = &self.values[index].ty else {
            return self.fail(Reason::Table, format!("`{table}` is an item, and an index reads tensors"));
        };
        if !ty.dtype.is_int() || ty.axes.len() != rank {
            let message =
                format!("`{table}` is {} with {} axes, read at {rank} indices", ty.dtype, ty.axes.len());
            return self.fail(Reason::Table, message);
        }
        match self.tensors.get(index) {
            Some(Tensor::Ready) => Ok(()),
            Some(Tensor::Dead) => {
                self.fail(Reason::Alias, format!("`{table}` is read after another took its memory"))
            }
            _ => self.fail(Reason::Table, format!("`{table}` is read before it is defined")),
        }
    }

    /// One range per label among the items of a node; gives them in order of first appearance.
    pub fn union<'r>(&self, types: impl IntoIterator<Item = &'r ItemType>) -> Outcome<Vec<&'r Range>> {
        let mut union: Vec<&Range> = Vec::new();
        for range in types.into_iter().flat_map(|ty| &ty.ranges) {
            match union.iter().find(|known| known.label == range.label) {
                None => union.push(range),
                Some(known) if **known == *range => {}
                Some(known) => {
                    let message = format!("`{known}` and `{range}` meet in one node");
                    return self.fail(Reason::Range, message);
                }
            }
        }
        Ok(union)
    }

    /// The number of function-level maps around: 0 or more.
    pub fn is_inside(&self) -> bool {
        !self.maps.is_empty()
    }

    pub fn push(&mut self, map: &Map) {
        self.maps.push((map.coordinate.clone(), map.order));
    }
}

/// Calls `f` with each integer tensor that a dim reads, and the number of indices.
fn elements(dim: &Dim, f: &mut dyn FnMut(&Symbol, usize)) {
    for atom in dim.terms().flat_map(|(_, factors)| factors) {
        if let Atom::Element(table, index) = atom {
            f(table, index.len());
        }
        atom.operands().into_iter().for_each(|inner| elements(inner, f));
    }
}
