//! Maps that compute tensors element by element: `t[l, …] = f(loads at indices over the labels)`.
//!
//! Such a definition can be *instantiated* at any place: labels become index expressions of another map, and the same
//! loads and computes give the elements that are wanted there.

use super::function::add_item;
use crate::block::ir::{
    Argument, Compute, Function, ItemType, Load, Map, Node, Order, Range, ValueId, ValueType,
};
use crate::dim::{Cond, Dim, Symbol};
use crate::tensor::{DType, Scalar, elementwise};
use std::collections::BTreeMap;

/// A map without reductions whose stores go to plain indices.
pub(super) struct Pointwise {
    /// Loads and computes, in order, over labels alone.
    nodes: Vec<Node>,
    /// What each tensor is: the item, and the label along each axis.
    outputs: Vec<(ValueId, ValueId, Vec<Symbol>)>,
}

/// Where a definition is instantiated.
pub(super) struct Place<'p> {
    /// What each label becomes.
    pub labels: BTreeMap<Symbol, Dim>,
    /// The ranges of the result.
    pub ranges: &'p [Range],
    /// Where elements are wanted; elsewhere they are 0.
    pub when: Cond,
    /// Items that stand for loads, instead of these.
    pub known: &'p dyn Fn(&Load) -> Option<ValueId>,
}

impl Pointwise {
    /// The map as a definition by elements, or what is against it.
    pub fn of(function: &Function, map: &Map) -> Result<Pointwise, String> {
        let mut innermost = map;
        let mut coordinates = vec![map.coordinate.clone()];
        while let [Node::Map(inner)] = innermost.body.as_slice() {
            if inner.order != Order::Parallel {
                return Err("it reduces".to_string());
            }
            coordinates.push(inner.coordinate.clone());
            innermost = inner;
        }
        let mut nodes = Vec::new();
        let mut outputs: Vec<(ValueId, ValueId, Vec<Symbol>)> = Vec::new();
        let mut starts: BTreeMap<Symbol, Dim> = BTreeMap::new();
        for node in &innermost.body {
            match node {
                Node::Load(_) | Node::Compute(_) => {
                    for range in
                        node.defines().iter().filter_map(|id| function.item(*id)).flat_map(|ty| &ty.ranges)
                    {
                        if let (1, Some(coordinate)) = (range.size, range.start.as_symbol()) {
                            starts.insert(coordinate.clone(), Dim::symbol(range.label.clone()));
                        }
                    }
                    nodes.push(node.clone());
                }
                Node::Store(store) => {
                    let labels = plain_index(function, store.item, &store.index)
                        .ok_or("it stores to an index that is not one label per axis")?;
                    if outputs.iter().any(|(target, ..)| *target == store.target) {
                        return Err("it stores to one tensor twice".to_string());
                    }
                    outputs.push((store.target, store.item, labels));
                }
                _ => return Err("it reduces".to_string()),
            }
        }
        // A coordinate is the label of whose range it is the only index.
        for node in &mut nodes {
            node.map_dims(&mut |dim| dim.substitute(&|symbol| starts.get(symbol).cloned()));
        }
        let mut is_plain = true;
        for node in &nodes {
            node.clone().map_dims(&mut |dim| {
                is_plain &= !coordinates.iter().any(|coordinate| dim.mentions(coordinate));
                dim.clone()
            });
        }
        if !is_plain {
            return Err("its elements depend on how it is cut into blocks".to_string());
        }
        let is_over =
            |id: &ValueId| matches!(function.value(*id).ty, ValueType::Tensor { alias: Some(_), .. });
        if map.defines.iter().any(is_over) {
            return Err("it updates a tensor in part".to_string());
        }
        Ok(Pointwise { nodes, outputs })
    }

    /// The tensors that it defines.
    pub fn targets(&self) -> Vec<ValueId> {
        self.outputs.iter().map(|(target, ..)| *target).collect()
    }

    /// The label along each axis of a tensor that it defines.
    pub fn labels(&self, target: ValueId) -> &[Symbol] {
        self.output(target).map_or(&[], |(_, _, labels)| labels)
    }

    fn output(&self, target: ValueId) -> Option<&(ValueId, ValueId, Vec<Symbol>)> {
        self.outputs.iter().find(|(own, ..)| *own == target)
    }

    /// The nodes that an output needs, in order.
    pub fn slice(&self, target: ValueId) -> Vec<&Node> {
        let mut wanted: Vec<ValueId> = self.output(target).map(|(_, item, _)| *item).into_iter().collect();
        let mut slice = Vec::new();
        for node in self.nodes.iter().rev() {
            if node.defines().iter().any(|id| wanted.contains(id)) {
                if let Node::Compute(compute) = node {
                    wanted.extend(compute.arguments.iter().filter_map(Argument::item));
                }
                slice.push(node);
            }
        }
        slice.reverse();
        slice
    }

    /// The nodes that compute `target` at a place, and the item, which has all of the place's ranges.
    pub fn instantiate(
        &self,
        function: &mut Function,
        target: ValueId,
        place: &Place<'_>,
    ) -> Option<(Vec<Node>, ValueId)> {
        let (_, output, _) = self.output(target)?;
        let at = |dim: &Dim| dim.substitute(&|label| place.labels.get(label).cloned());
        let mut items: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        let mut nodes = Vec::new();
        for node in self.slice(target) {
            match node {
                Node::Load(load) => {
                    if let Some(item) = (place.known)(load) {
                        items.insert(load.result, item);
                        continue;
                    }
                    let index: Vec<Dim> = load.index.iter().map(at).collect();
                    let when = load.when.map_dims(&mut |dim| at(dim)).and(place.when.clone());
                    let mentions =
                        |label: &Symbol| when.mentions(label) || index.iter().any(|dim| dim.mentions(label));
                    let result = item_like(function, load.result, place.ranges, &mentions)?;
                    items.insert(load.result, result);
                    nodes.push(Node::Load(Load { source: load.source, index, when, result }));
                }
                Node::Compute(compute) => {
                    let arguments: Option<Vec<Argument>> = compute
                        .arguments
                        .iter()
                        .map(|argument| {
                            Some(match argument {
                                Argument::Item(id) => Argument::Item(*items.get(id)?),
                                Argument::Literal(value) => Argument::Literal(*value),
                                Argument::Index(dim) => Argument::Index(at(dim)),
                                Argument::Holds(cond) => Argument::Holds(cond.map_dims(&mut |dim| at(dim))),
                            })
                        })
                        .collect();
                    let arguments = arguments?;
                    let labels = mentioned(function, &arguments);
                    let result = item_like(function, compute.result, place.ranges, &labels)?;
                    items.insert(compute.result, result);
                    nodes.push(Node::Compute(Compute { function: compute.function, arguments, result }));
                }
                _ => return None,
            }
        }
        let item = *items.get(output)?;
        let ty = function.item(item)?.clone();
        let name = function.value(item).name.to_string();
        let whole = ItemType { dtype: ty.dtype, ranges: place.ranges.to_vec() };
        let (row, arguments) = if !place.when.is_true() {
            let zero = Argument::Literal(zero(ty.dtype));
            ("select", vec![Argument::Holds(place.when.clone()), Argument::Item(item), zero])
        } else if ty != whole {
            ("cast", vec![Argument::Item(item)])
        } else {
            return Some((nodes, item));
        };
        let row = elementwise::find(row)?;
        let result = add_item(function, &name, whole);
        nodes.push(Node::Compute(Compute { function: row, arguments, result }));
        Some((nodes, result))
    }
}

impl Argument {
    fn item(&self) -> Option<ValueId> {
        match self {
            Argument::Item(id) => Some(*id),
            _ => None,
        }
    }
}

/// The label along each axis, where an item goes to one label per axis and has no others.
pub(super) fn plain_index(function: &Function, item: ValueId, index: &[Dim]) -> Option<Vec<Symbol>> {
    let labels: Vec<Symbol> = index.iter().map(|dim| dim.as_symbol().cloned()).collect::<Option<_>>()?;
    let own = function.item(item)?.ranges.iter().map(|range| &range.label);
    let distinct = labels.iter().enumerate().all(|(k, label)| !labels[..k].contains(label));
    let same = own.clone().count() == labels.len() && own.clone().all(|label| labels.contains(label));
    (distinct && same).then_some(labels)
}

/// A new item named like an old one: with those of the ranges whose labels are wanted, and what these depend on.
fn item_like(
    function: &mut Function,
    old: ValueId,
    ranges: &[Range],
    wanted: &dyn Fn(&Symbol) -> bool,
) -> Option<ValueId> {
    let mut has: Vec<bool> = ranges.iter().map(|range| wanted(&range.label)).collect();
    for k in (0..ranges.len()).rev() {
        if has[k] {
            for earlier in 0..k {
                let label = &ranges[earlier].label;
                has[earlier] |= ranges[k].start.mentions(label) || ranges[k].end.mentions(label);
            }
        }
    }
    let kept = ranges.iter().zip(has).filter(|(_, has)| *has).map(|(range, _)| range.clone()).collect();
    let dtype = function.item(old)?.dtype;
    let name = function.value(old).name.to_string();
    Some(add_item(function, &name, ItemType { dtype, ranges: kept }))
}

/// Which labels the arguments of a compute have or mention.
fn mentioned(function: &Function, arguments: &[Argument]) -> impl Fn(&Symbol) -> bool + use<> {
    let mut labels = Vec::new();
    for argument in arguments {
        match argument {
            Argument::Item(id) => {
                let ranges = function.item(*id).into_iter().flat_map(|ty| &ty.ranges);
                labels.extend(ranges.map(|range| range.label.clone()));
            }
            Argument::Index(dim) => labels.extend(dim.symbols()),
            Argument::Holds(cond) => labels.extend(cond.symbols()),
            Argument::Literal(_) => {}
        }
    }
    move |label| labels.contains(label)
}

fn zero(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(false),
        dtype if dtype.is_float() => Scalar::Float(0.0),
        _ => Scalar::Int(0),
    }
}
