//! The laws of nodes inside maps.

use super::scope::{Checker, Outcome, Tensor};
use super::{Reason, writes};
use crate::block::ir::{
    Argument, Carry, Compute, Contract, Guard, ItemType, Load, Map, Node, Order, Reduce, Store, ValueId,
};
use crate::dim::Symbol;
use crate::tensor::elementwise::TypeRule;
use crate::tensor::{DType, Elementwise, Monoid, Scalar};

fn labels(ty: &ItemType) -> Vec<Symbol> {
    ty.ranges.iter().map(|range| range.label.clone()).collect()
}

fn same_class(a: DType, b: DType) -> bool {
    (a.is_float(), a.is_int()) == (b.is_float(), b.is_int())
}

impl<'a> Checker<'a> {
    /// Nodes of a map's body, in order.
    pub fn nodes(&mut self, nodes: &[Node]) -> Outcome {
        nodes.iter().try_for_each(|node| self.node(node))
    }

    fn node(&mut self, node: &Node) -> Outcome {
        match node {
            Node::Map(map) => self.map(map),
            Node::Load(load) => self.load(load),
            Node::Store(store) => self.store(store),
            Node::Compute(compute) => self.compute(compute),
            Node::Reduce(reduce) => self.reduce(reduce),
            Node::Contract(contract) => self.contract(contract),
            Node::Opaque(_) | Node::Call(_) | Node::Repeat(_) => {
                self.fail(Reason::Place, "an opaque operator, a call or a repeat inside a map")
            }
        }
    }

    /// A map and its body. Tensors that a function-level map defines are open already.
    pub fn map(&mut self, map: &Map) -> Outcome {
        self.coordinate(&map.coordinate)?;
        self.dim(&map.extent, &[])?;
        if self.is_inside() && !map.defines.is_empty() {
            return self.fail(Reason::Place, "a map inside another defines tensors");
        }
        if !map.carries.is_empty() && (map.order == Order::Parallel || !self.is_inside()) {
            return self.fail(Reason::Place, "only a sequential map inside another carries items");
        }
        let outside = self.items.clone();
        for carry in &map.carries {
            self.carry_start(carry)?;
        }
        self.push(map);
        self.nodes(&map.body)?;
        for carry in &map.carries {
            self.same_types(&carry.next, &carry.state, "at the end of the body")?;
        }
        self.maps.pop();
        self.items = outside;
        for carry in &map.carries {
            for id in &carry.result {
                self.define_item(*id)?;
            }
            self.same_types(&carry.result, &carry.state, "after the map")?;
        }
        writes::in_map(self, map)
    }

    fn carry_start(&mut self, carry: &Carry) -> Outcome {
        if !carry.from.is_empty() {
            self.same_types(&carry.from, &carry.state, "before the first iteration")?;
        }
        for id in &carry.state {
            self.define_item(*id)?;
        }
        let types = carry.state.iter().map(|id| self.item(*id)).collect::<Outcome<Vec<_>>>()?;
        self.state(carry.monoid, carry.dtype, &types, Reason::Carry)
    }

    /// Whether items in sight have the types of a carry's state.
    fn same_types(&self, ids: &[ValueId], state: &[ValueId], when: &str) -> Outcome {
        if ids.len() != state.len() {
            let message = format!("a carry of {} items has {} {when}", state.len(), ids.len());
            return self.fail(Reason::Carry, message);
        }
        for (id, state) in ids.iter().zip(state) {
            let (own, state) = (self.item(*id)?, self.value(*state)?);
            if crate::block::ir::ValueType::Item(own.clone()) != state.ty {
                let message = format!(
                    "`{}` has another type than the carried `{}` {when}",
                    self.value(*id)?.name,
                    state.name
                );
                return self.fail(Reason::Carry, message);
            }
        }
        Ok(())
    }

    /// Whether items can be the state of a monoid over elements of a type.
    fn state(&self, monoid: &Monoid, dtype: DType, types: &[&ItemType], reason: Reason) -> Outcome {
        if !(monoid.accepts)(dtype) {
            return self.fail(Reason::DType, format!("`{}` does not reduce {dtype}", monoid.name));
        }
        let accumulate = types.first().map_or(dtype, |ty| ty.dtype);
        let wanted = (monoid.state)(dtype, accumulate);
        if wanted.len() != types.len() {
            let message =
                format!("the state of `{}` has {} items, not {}", monoid.name, wanted.len(), types.len());
            return self.fail(Reason::Count, message);
        }
        if let Some((ty, wanted)) = types.iter().zip(&wanted).find(|(ty, wanted)| ty.dtype != **wanted) {
            let message =
                format!("the state of `{}` over {dtype} is {wanted}, not {}", monoid.name, ty.dtype);
            return self.fail(Reason::DType, message);
        }
        if monoid.rounds && (accumulate.is_float() != dtype.is_float() || accumulate == DType::Bool) {
            let message = format!("`{}` of {dtype} does not accumulate in {accumulate}", monoid.name);
            return self.fail(Reason::DType, message);
        }
        if types.iter().any(|ty| types.first().is_some_and(|first| first.ranges != ty.ranges)) {
            return self.fail(reason, "the items of a state have different ranges");
        }
        Ok(())
    }

    fn load(&mut self, load: &Load) -> Outcome {
        let (value, ty) = self.readable(load.source)?;
        let item = self.define_item(load.result)?;
        if load.index.len() != ty.axes.len() {
            let message =
                format!("`{}` has {} axes, read at {} indices", value.name, ty.axes.len(), load.index.len());
            return self.fail(Reason::Rank, message);
        }
        if item.dtype != ty.dtype {
            let message = format!("`{}` is {}, and is loaded as {}", value.name, ty.dtype, item.dtype);
            return self.fail(Reason::DType, message);
        }
        let labels = labels(item);
        load.index.iter().try_for_each(|dim| self.dim(dim, &labels))?;
        self.cond(&load.when, &labels)
    }

    fn store(&mut self, store: &Store) -> Outcome {
        let item = self.item(store.item)?;
        let (value, ty, state) = self.tensor(store.target)?;
        if state != Tensor::Open {
            let message = format!("`{}` is not defined by the function-level map around", value.name);
            return self.fail(Reason::Store, message);
        }
        if store.index.len() != ty.axes.len() {
            let message = format!(
                "`{}` has {} axes, written at {} indices",
                value.name,
                ty.axes.len(),
                store.index.len()
            );
            return self.fail(Reason::Rank, message);
        }
        if item.dtype != ty.dtype {
            let message =
                format!("`{}` is {}, and an item of {} is stored", value.name, ty.dtype, item.dtype);
            return self.fail(Reason::DType, message);
        }
        self.stored.insert(store.target);
        let labels = labels(item);
        store.index.iter().try_for_each(|dim| self.dim(dim, &labels))
    }

    fn compute(&mut self, compute: &Compute) -> Outcome {
        let function = compute.function;
        if compute.arguments.len() != function.arity {
            let message = format!(
                "`{}` takes {} arguments, not {}",
                function.name,
                function.arity,
                compute.arguments.len()
            );
            return self.fail(Reason::Count, message);
        }
        let mut types = Vec::new();
        for argument in &compute.arguments {
            if let Argument::Item(id) = argument {
                types.push(self.item(*id)?);
            }
        }
        let result = self.define_item(compute.result)?;
        let labels = labels(result);
        for argument in &compute.arguments {
            match argument {
                Argument::Index(dim) => self.dim(dim, &labels)?,
                Argument::Holds(cond) => self.cond(cond, &labels)?,
                Argument::Item(_) | Argument::Literal(_) => {}
            }
        }
        for range in self.union(types.iter().copied().chain([result]))? {
            if !labels.contains(&range.label) {
                let message = format!("the result of `{}` lacks the label `{}`", function.name, range.label);
                return self.fail(Reason::Labels, message);
            }
        }
        self.compute_types(compute, result.dtype)
    }

    /// Element types of an elementwise function.
    fn compute_types(&self, compute: &Compute, result: DType) -> Outcome {
        let items = compute.arguments.iter().map(|argument| match argument {
            Argument::Item(id) => self.item(*id).map(|ty| Some(ty.dtype)),
            Argument::Literal(_) | Argument::Index(_) | Argument::Holds(_) => Ok(None),
        });
        let items = items.collect::<Outcome<Vec<Option<DType>>>>()?;
        match elementwise_types(compute.function, &compute.arguments, &items, result) {
            Ok(()) => Ok(()),
            Err(message) => self.fail(Reason::DType, message),
        }
    }

    /// The masks of a guard and the labels that its condition may mention.
    fn guard(&self, guard: &Guard, mut types: Vec<&'a ItemType>) -> Outcome<Vec<Symbol>> {
        for mask in &guard.masks {
            let ty = self.item(*mask)?;
            if ty.dtype != DType::Bool {
                return self
                    .fail(Reason::DType, format!("the mask `{}` is {}", self.value(*mask)?.name, ty.dtype));
            }
            let known =
                |label: &Symbol| types.iter().any(|ty| ty.ranges.iter().any(|range| range.label == *label));
            if let Some(range) = ty.ranges.iter().find(|range| !known(&range.label)) {
                let message = format!(
                    "the mask `{}` has a label `{}` of its own",
                    self.value(*mask)?.name,
                    range.label
                );
                return self.fail(Reason::Labels, message);
            }
            types.push(ty);
        }
        let labels: Vec<Symbol> = self.union(types)?.into_iter().map(|range| range.label.clone()).collect();
        self.cond(&guard.condition, &labels)?;
        Ok(labels)
    }

    fn reduce(&mut self, reduce: &Reduce) -> Outcome {
        let argument = self.item(reduce.argument)?;
        let into = reduce.into.iter().map(|id| self.item(*id)).collect::<Outcome<Vec<_>>>()?;
        let mut types = vec![argument];
        for id in &reduce.results {
            types.push(self.define_item(*id)?);
        }
        let results = &types[1..];
        self.state(reduce.monoid, argument.dtype, results, Reason::Range)?;
        if !into.is_empty() && into != results {
            return self
                .fail(Reason::Carry, format!("`{}` changes the type of its state", reduce.monoid.name));
        }
        // Masks are in sight before the results are; a result that masks itself is not.
        if reduce.guard.masks.iter().any(|mask| reduce.results.contains(mask)) {
            return self.fail(Reason::Undefined, "a reduction is masked by its own result");
        }
        let labels = self.guard(&reduce.guard, types)?;
        self.dim(&reduce.position, &labels)
    }

    fn contract(&mut self, contract: &Contract) -> Outcome {
        if !(1..=3).contains(&contract.arguments.len()) {
            let message = format!("a contraction of {} factors", contract.arguments.len());
            return self.fail(Reason::Count, message);
        }
        let mut types = contract.arguments.iter().map(|id| self.item(*id)).collect::<Outcome<Vec<_>>>()?;
        let into = contract.into.map(|id| self.item(id)).transpose()?;
        let result = self.define_item(contract.result)?;
        if result.dtype == DType::Bool || types.iter().any(|ty| !same_class(ty.dtype, result.dtype)) {
            return self.fail(
                Reason::DType,
                format!("a contraction of these factors does not give {}", result.dtype),
            );
        }
        if into.is_some_and(|into| into != result) {
            return self.fail(Reason::Carry, "a contraction changes the type of its sum");
        }
        let has = |label: &Symbol| types.iter().any(|ty| ty.ranges.iter().any(|range| range.label == *label));
        if let Some(range) = result.ranges.iter().find(|range| !has(&range.label)) {
            return self
                .fail(Reason::Labels, format!("no factor has the label `{}` of the sum", range.label));
        }
        if contract.guard.masks.contains(&contract.result) {
            return self.fail(Reason::Undefined, "a contraction is masked by its own result");
        }
        types.push(result);
        self.guard(&contract.guard, types).map(|_| ())
    }
}

/// Whether an elementwise function of arguments of these types (none for what is not in memory) gives `result`.
pub(crate) fn elementwise_types<V>(
    function: &Elementwise,
    arguments: &[Argument<V>],
    types: &[Option<DType>],
    result: DType,
) -> Result<(), String> {
    let shared = match function.types {
        TypeRule::To => return Ok(()),
        TypeRule::Compare => types.iter().copied().flatten().next().unwrap_or(DType::F64),
        TypeRule::Bool => DType::Bool,
        TypeRule::Float | TypeRule::Int | TypeRule::Number | TypeRule::Select => result,
    };
    let fits = match function.types {
        TypeRule::Float => shared.is_float(),
        TypeRule::Int => shared.is_int(),
        TypeRule::Number => shared != DType::Bool,
        TypeRule::Compare => shared != DType::Bool && result == DType::Bool,
        TypeRule::Bool => result == DType::Bool,
        TypeRule::Select | TypeRule::To => true,
    };
    if !fits {
        return Err(format!("`{}` does not give {result}", function.name));
    }
    // Arithmetic takes its arguments as they are, and rounds once, to the type of the result.
    let mixed = matches!(function.types, TypeRule::Float | TypeRule::Int | TypeRule::Number);
    for (k, (argument, dtype)) in arguments.iter().zip(types).enumerate() {
        let wanted = if function.types == TypeRule::Select && k == 0 { DType::Bool } else { shared };
        let fits = match (argument, dtype) {
            (_, Some(dtype)) => *dtype == wanted || (mixed && same_class(*dtype, wanted)),
            (Argument::Literal(Scalar::Float(_)), _) => wanted.is_float(),
            (Argument::Literal(Scalar::Int(_)) | Argument::Index(_), _) => wanted.is_int(),
            (Argument::Literal(Scalar::Bool(_)) | Argument::Holds(_), _) => wanted == DType::Bool,
            (Argument::Item(_), None) => false,
        };
        if !fits {
            return Err(format!("argument {} of `{}` is not {wanted}", k + 1, function.name));
        }
    }
    Ok(())
}
