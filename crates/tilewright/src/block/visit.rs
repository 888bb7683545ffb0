//! Walks over nodes: the values that they name, the index expressions in them, and the numbering of values.

use super::ir::{Argument, Function, Node, Value, ValueId, ValueType};
use crate::dim::{Cond, Dim};

impl Node {
    /// The values that the node gives to what follows it, in the order in which the text writes them.
    pub fn defines(&self) -> Vec<ValueId> {
        match self {
            Node::Map(map) => {
                let results = map.carries.iter().flat_map(|carry| carry.result.iter());
                map.defines.iter().chain(results).copied().collect()
            }
            Node::Load(load) => vec![load.result],
            Node::Store(_) => Vec::new(),
            Node::Compute(compute) => vec![compute.result],
            Node::Reduce(reduce) => reduce.results.clone(),
            Node::Contract(contract) => vec![contract.result],
            Node::Opaque(opaque) => opaque.results.clone(),
            Node::Call(call) => call.results.clone(),
            Node::Repeat(repeat) => repeat.results.iter().map(|(id, _)| *id).collect(),
        }
    }

    /// Calls `f` on every value that the node and the nodes inside it name, in the order of the text.
    pub fn for_each_value(&mut self, f: &mut dyn FnMut(&mut ValueId)) {
        match self {
            Node::Map(map) => {
                map.defines.iter_mut().for_each(&mut *f);
                map.carries.iter_mut().flat_map(|carry| &mut carry.result).for_each(&mut *f);
                for carry in &mut map.carries {
                    carry.state.iter_mut().chain(&mut carry.from).for_each(&mut *f);
                }
                map.body.iter_mut().for_each(|node| node.for_each_value(f));
                map.carries.iter_mut().flat_map(|carry| &mut carry.next).for_each(&mut *f);
            }
            Node::Load(load) => {
                f(&mut load.result);
                f(&mut load.source);
            }
            Node::Store(store) => {
                f(&mut store.item);
                f(&mut store.target);
            }
            Node::Compute(compute) => {
                f(&mut compute.result);
                for argument in &mut compute.arguments {
                    if let Argument::Item(id) = argument {
                        f(id);
                    }
                }
            }
            Node::Reduce(reduce) => {
                reduce.results.iter_mut().for_each(&mut *f);
                f(&mut reduce.argument);
                reduce.into.iter_mut().chain(&mut reduce.guard.masks).for_each(f);
            }
            Node::Contract(contract) => {
                f(&mut contract.result);
                contract.arguments.iter_mut().for_each(&mut *f);
                contract.into.iter_mut().chain(&mut contract.guard.masks).for_each(f);
            }
            Node::Opaque(opaque) => opaque.results.iter_mut().chain(&mut opaque.operands).for_each(f),
            Node::Call(call) => call.results.iter_mut().chain(&mut call.arguments).for_each(f),
            Node::Repeat(repeat) => {
                repeat.results.iter_mut().for_each(|(id, _)| f(id));
                repeat.arguments.iter_mut().for_each(|(id, _)| f(id));
            }
        }
    }

    /// Replaces every index expression of the node and of the nodes inside it; not those in the types of items.
    pub fn map_dims(&mut self, f: &mut dyn FnMut(&Dim) -> Dim) {
        let cond = |cond: &mut Cond, f: &mut dyn FnMut(&Dim) -> Dim| *cond = cond.map_dims(f);
        match self {
            Node::Map(map) => {
                map.extent = f(&map.extent);
                map.body.iter_mut().for_each(|node| node.map_dims(f));
            }
            Node::Load(load) => {
                load.index.iter_mut().for_each(|dim| *dim = f(dim));
                cond(&mut load.when, f);
            }
            Node::Store(store) => store.index.iter_mut().for_each(|dim| *dim = f(dim)),
            Node::Compute(compute) => {
                for argument in &mut compute.arguments {
                    match argument {
                        Argument::Index(dim) => *dim = f(dim),
                        Argument::Holds(holds) => cond(holds, f),
                        Argument::Item(_) | Argument::Literal(_) => {}
                    }
                }
            }
            Node::Reduce(reduce) => {
                reduce.position = f(&reduce.position);
                cond(&mut reduce.guard.condition, f);
            }
            Node::Contract(contract) => cond(&mut contract.guard.condition, f),
            Node::Repeat(repeat) => repeat.extent = f(&repeat.extent),
            Node::Opaque(_) | Node::Call(_) => {}
        }
    }
}

impl ValueType {
    /// Replaces every index expression of the type.
    pub fn map_dims(&mut self, f: &mut dyn FnMut(&Dim) -> Dim) {
        match self {
            ValueType::Tensor { ty, .. } => ty.axes.iter_mut().for_each(|axis| axis.extent = f(&axis.extent)),
            ValueType::Item(ty) => {
                for range in &mut ty.ranges {
                    range.start = f(&range.start);
                    range.end = f(&range.end);
                }
            }
        }
    }
}

/// Numbers values in the order in which `walk` visits them, and drops those that it does not: with the order of the
/// text, the numbering that its parser gives. A tensor's `alias` counts as visited with the tensor.
pub fn renumber(values: &mut Vec<Value>, walk: impl FnOnce(&mut dyn FnMut(&mut ValueId))) {
    let mut new_ids: Vec<Option<ValueId>> = vec![None; values.len()];
    let mut order: Vec<usize> = Vec::new();
    walk(&mut |id| {
        let mut pending = Some(*id);
        while let Some(old) = pending.take() {
            let index = old.0 as usize;
            let (Some(slot), Some(value)) = (new_ids.get_mut(index), values.get(index)) else { break };
            if slot.is_none() {
                *slot = Some(ValueId(order.len() as u32));
                order.push(index);
                if let ValueType::Tensor { alias, .. } = &value.ty {
                    pending = *alias;
                }
            }
        }
        *id = new_ids.get(id.0 as usize).copied().flatten().unwrap_or(*id);
    });
    let mut kept: Vec<Value> = order.iter().filter_map(|old| values.get(*old).cloned()).collect();
    for value in &mut kept {
        if let ValueType::Tensor { alias: Some(alias), .. } = &mut value.ty {
            *alias = new_ids.get(alias.0 as usize).copied().flatten().unwrap_or(*alias);
        }
    }
    *values = kept;
}

impl Function {
    /// Numbers the values in the order of the text.
    pub fn renumber(&mut self) {
        let Function { params, values, body, results, .. } = self;
        renumber(values, |f| {
            params.iter_mut().for_each(|param| f(&mut param.value));
            body.iter_mut().for_each(|node| node.for_each_value(f));
            results.iter_mut().for_each(&mut *f);
        });
    }
}
