//! What a function does with the memory of its parameters, for those who call it.

use crate::block::{Function, Map, Node, Program, ValueId, ValueType};
use crate::dim::Cond;
use crate::tensor::{RepeatArgument, RepeatResult};
use std::collections::BTreeMap;

/// Where a result of a function lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the memory of the parameter with this index.
    Param(usize),
    /// In memory that the caller may choose.
    Fresh,
    /// In a slot that the function chooses.
    Chosen,
}

/// A function seen from its callers.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    /// For each parameter whether its memory is overwritten, if nobody copies it before.
    pub overwritten: Vec<bool>,
    /// For each result where it lies.
    pub results: Vec<Place>,
    /// For each result the value of the function that its memory is made for.
    pub roots: Vec<ValueId>,
}

/// The summaries of all functions, in their order.
pub(super) fn summaries(program: &Program) -> Vec<Summary> {
    let mut known: Vec<Summary> = Vec::new();
    for function in &program.functions {
        let summary = summary(function, &known);
        known.push(summary);
    }
    known
}

struct Roots<'a> {
    function: &'a Function,
    places: BTreeMap<ValueId, (Place, ValueId)>,
    overwritten: Vec<bool>,
}

impl Roots<'_> {
    fn of(&self, id: ValueId) -> (Place, ValueId) {
        self.places.get(&id).copied().unwrap_or((Place::Chosen, id))
    }

    fn overwrite(&mut self, id: ValueId) {
        if let (Place::Param(k), _) = self.of(id)
            && let Some(flag) = self.overwritten.get_mut(k)
        {
            *flag = true;
        }
    }

    fn alias(&self, id: ValueId) -> Option<ValueId> {
        match self.function.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Tensor { alias, .. }) => *alias,
            _ => None,
        }
    }
}

fn summary(function: &Function, known: &[Summary]) -> Summary {
    let places =
        function.params.iter().enumerate().map(|(k, param)| (param.value, (Place::Param(k), param.value)));
    let mut roots =
        Roots { function, places: places.collect(), overwritten: vec![false; function.params.len()] };
    for node in &function.body {
        match node {
            Node::Map(map) => {
                let copied = as_copy(function, map);
                for &id in &map.defines {
                    let place = match roots.alias(id) {
                        None if copied.is_some() => {
                            copied.map_or((Place::Fresh, id), |source| roots.of(source))
                        }
                        Some(old) => {
                            roots.overwrite(old);
                            roots.of(old)
                        }
                        None => (Place::Fresh, id),
                    };
                    roots.places.insert(id, place);
                }
            }
            Node::Opaque(opaque) => {
                roots.places.extend(opaque.results.iter().map(|&id| (id, (Place::Fresh, id))));
            }
            Node::Call(call) => {
                let Some(callee) = known.get(call.function.0 as usize) else { continue };
                for (&argument, _) in
                    call.arguments.iter().zip(&callee.overwritten).filter(|(_, flag)| **flag)
                {
                    roots.overwrite(argument);
                }
                for (&id, place) in call.results.iter().zip(&callee.results) {
                    let place = match place {
                        Place::Param(k) => {
                            call.arguments.get(*k).map_or((Place::Chosen, id), |&id| roots.of(id))
                        }
                        other => (*other, id),
                    };
                    roots.places.insert(id, place);
                }
            }
            Node::Repeat(repeat) => {
                let Some(callee) = known.get(repeat.function.0 as usize) else { continue };
                for ((argument, _), _) in
                    repeat.arguments.iter().zip(&callee.overwritten).filter(|(_, flag)| **flag)
                {
                    roots.overwrite(*argument);
                }
                for (k, (id, kind)) in repeat.results.iter().enumerate() {
                    let place = match in_place(repeat.arguments.as_slice(), callee, k, kind) {
                        Some(argument) => {
                            repeat.arguments.get(argument).map_or((Place::Chosen, *id), |a| roots.of(a.0))
                        }
                        None if *kind == RepeatResult::Stacked => (Place::Fresh, *id),
                        None => (Place::Chosen, *id),
                    };
                    roots.places.insert(*id, place);
                }
            }
            Node::Load(_) | Node::Store(_) | Node::Compute(_) | Node::Reduce(_) | Node::Contract(_) => {}
        }
    }
    let found: Vec<(Place, ValueId)> = function.results.iter().map(|&id| roots.of(id)).collect();
    Summary {
        results: found.iter().map(|(place, _)| *place).collect(),
        roots: found.iter().map(|(_, root)| *root).collect(),
        overwritten: roots.overwritten,
    }
}

/// The tensor that a map copies whole, if that is all it does. A copy is the same memory until one of the two is
/// overwritten, so no task makes it before.
pub(super) fn as_copy(function: &Function, map: &Map) -> Option<ValueId> {
    let [target] = map.defines.as_slice() else { return None };
    let mut map = map;
    while let [Node::Map(inner)] = map.body.as_slice() {
        map = inner;
    }
    let [Node::Load(load), Node::Store(store)] = map.body.as_slice() else { return None };
    let tensor = |id: ValueId| match function.values.get(id.0 as usize).map(|value| &value.ty) {
        Some(ValueType::Tensor { ty, alias: None }) => Some(ty),
        _ => None,
    };
    let source = match function.values.get(load.source.0 as usize).map(|value| &value.ty) {
        Some(ValueType::Tensor { ty, .. }) => ty,
        _ => return None,
    };
    let same = store.item == load.result
        && store.target == *target
        && store.index == load.index
        && load.when == Cond::True
        && tensor(*target)? == source;
    same.then_some(load.source)
}

/// The argument of a repeat whose memory a result takes over: a stack of slices that the function updates in place, or
/// a carried value that it does.
pub(super) fn in_place(
    arguments: &[(ValueId, RepeatArgument)],
    callee: &Summary,
    result: usize,
    kind: &RepeatResult,
) -> Option<usize> {
    let Some(Place::Param(param)) = callee.results.get(result) else { return None };
    let (_, argument) = arguments.get(*param)?;
    let first = callee.results.iter().position(|place| *place == Place::Param(*param)) == Some(result);
    match (kind, argument) {
        (RepeatResult::Stacked, RepeatArgument::Sliced) if first => Some(*param),
        (RepeatResult::Carried(k), RepeatArgument::Carried { .. }) if k == param => Some(*param),
        _ => None,
    }
}
