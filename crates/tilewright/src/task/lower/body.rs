//! Bodies of families: nodes of a map over buffers in storage order.

use super::dims::{Var, visit_elements};
use super::flatten::{FlatBuffer, Flattener, Frame, View, bug, fresh};
use crate::block::{
    Function, ItemType, Load, Map, Node, Order, Program, Range, Store, Value, ValueId, ValueType,
};
use crate::dim::{Cond, Dim, Facts, Symbol};
use crate::error::Error;
use crate::task::ir::{Body, Buffer, BufferKind, Tier};
use crate::tensor::storage;
use std::collections::{BTreeMap, BTreeSet};

/// The block sizes of the last two axes of a copy; one index of every other.
const COPY_BLOCK: i64 = 64;

/// The names that mean something in index expressions of functions that may run inside a repeat: labels, coordinates,
/// sizes. (The program itself is never repeated.)
pub(super) fn names(program: &Program) -> BTreeSet<Symbol> {
    let mut names: BTreeSet<Symbol> = program.facts.symbols().cloned().collect();
    let inner = program.functions.split_last().map_or(&[][..], |(_, inner)| inner);
    for function in inner {
        for value in &function.values {
            let mut ty = value.ty.clone();
            ty.map_dims(&mut |dim| {
                names.extend(dim.symbols());
                dim.clone()
            });
            if let ValueType::Item(item) = &value.ty {
                names.extend(item.ranges.iter().map(|range| range.label.clone()));
            }
        }
        for node in &function.body {
            coordinates(node, &mut names);
            node.clone().map_dims(&mut |dim| {
                names.extend(dim.symbols());
                dim.clone()
            });
        }
    }
    names
}

fn coordinates(node: &Node, names: &mut BTreeSet<Symbol>) {
    if let Node::Map(map) = node {
        names.insert(map.coordinate.clone());
        map.body.iter().for_each(|node| coordinates(node, names));
    }
}

/// For each tensor the position of the last node that names it, as a value or as a table; past all for a result.
pub(super) fn last_uses(function: &Function) -> BTreeMap<ValueId, usize> {
    let mut last = BTreeMap::new();
    let by_name = |name: &Symbol| {
        function.values.iter().position(|value| value.name == *name).map(|at| ValueId(at as u32))
    };
    let mut see = |node: &Node, position: usize| {
        let mut ids = Vec::new();
        let mut tables = BTreeSet::new();
        let mut node = node.clone();
        node.for_each_value(&mut |id| ids.push(*id));
        let mut note = |dim: &Dim| {
            tables.append(&mut dim.tables());
            dim.clone()
        };
        node.map_dims(&mut note);
        for id in &ids {
            if let Some(value) = function.values.get(id.0 as usize) {
                value.ty.clone().map_dims(&mut note);
            }
        }
        ids.extend(tables.iter().filter_map(by_name));
        last.extend(ids.into_iter().map(|id| (id, position)));
    };
    function.body.iter().enumerate().for_each(|(position, node)| see(node, position));
    for &id in &function.results {
        last.insert(id, usize::MAX);
        if let Some(value) = function.values.get(id.0 as usize) {
            value.ty.clone().map_dims(&mut |dim| {
                last.extend(dim.tables().iter().filter_map(by_name).map(|id| (id, usize::MAX)));
                dim.clone()
            });
        }
    }
    last
}

/// A body in the making.
#[derive(Default)]
pub(super) struct BodyBuilder {
    values: Vec<Value>,
    tensors: BTreeMap<usize, ValueId>,
    items: BTreeMap<ValueId, ValueId>,
    /// For each store the labels of its item that would leave the tensor, and how far they may go.
    stores: Vec<(ValueId, BTreeMap<Symbol, Limits>)>,
}

/// Where the indices of a label end that lie inside a tensor, as far as its range may pass them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Limits {
    first: Option<Dim>,
    end: Option<Dim>,
}

impl BodyBuilder {
    fn push(&mut self, name: Symbol, ty: ValueType) -> ValueId {
        self.values.push(Value { name, ty });
        ValueId(self.values.len() as u32 - 1)
    }

    /// The tensor that stands for a buffer.
    pub fn tensor(&mut self, buffers: &[FlatBuffer], buffer: usize) -> ValueId {
        if let Some(id) = self.tensors.get(&buffer) {
            return *id;
        }
        let flat = &buffers[buffer];
        let stand_in = Buffer {
            name: flat.name.clone(),
            kind: BufferKind::Output,
            dtype: flat.dtype,
            extents: flat.extents.clone(),
            tier: Tier::Memory,
        };
        let id = self.push(flat.name.clone(), ValueType::Tensor { ty: stand_in.ty(), alias: None });
        self.tensors.insert(buffer, id);
        id
    }

    fn item(&mut self, flattener: &Flattener<'_>, frame: &Frame<'_>, old: ValueId) -> Result<ValueId, Error> {
        if let Some(id) = self.items.get(&old) {
            return Ok(*id);
        }
        let value =
            frame.function.values.get(old.0 as usize).ok_or_else(|| bug("a value that is not there"))?;
        let ValueType::Item(ty) = &value.ty else { return Err(bug(format!("`{}` is no item", value.name))) };
        let mut ty = ValueType::Item(ty.clone());
        ty.map_dims(&mut |dim| flattener.dim(frame, dim));
        let id = self.push(value.name.clone(), ty);
        self.items.insert(old, id);
        Ok(id)
    }

    fn ranges(&self, id: ValueId) -> &[Range] {
        match self.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Item(ty)) => &ty.ranges,
            _ => &[],
        }
    }

    /// Narrows the ranges of labels, so that no store leaves its tensor: what would is dropped.
    fn narrow(&mut self, nodes: &[Node]) -> Result<(), Error> {
        let mut limits: BTreeMap<Symbol, Limits> = BTreeMap::new();
        for (_, of_store) in &self.stores {
            limits.extend(of_store.iter().map(|(label, limits)| (label.clone(), limits.clone())));
        }
        let agree = self.stores.iter().all(|(item, of_store)| {
            let labels = self.ranges(*item).iter().map(|range| &range.label);
            labels.into_iter().all(|label| of_store.get(label) == limits.get(label))
        });
        if !agree || limits.keys().any(|label| self.is_reduced(nodes, label)) {
            return Err(Error::Unsupported {
                place: "an update".to_string(),
                what: "a map that stores outside one tensor and inside another".to_string(),
                instead: "bound the position by a fact".to_string(),
            });
        }
        for value in self.values.iter_mut().filter(|_| !limits.is_empty()) {
            let ValueType::Item(ty) = &mut value.ty else { continue };
            for range in &mut ty.ranges {
                let Some(Limits { first, end }) = limits.get(&range.label) else { continue };
                let stop = if first.is_some() { range.stop() } else { range.end.clone() };
                range.end = end.iter().fold(stop, |stop, end| Dim::min(&stop, end));
                range.start = first.iter().fold(range.start.clone(), |start, first| Dim::max(&start, first));
            }
            order_ranges(&mut ty.ranges);
        }
        Ok(())
    }

    /// Whether a node sums over the label.
    fn is_reduced(&self, nodes: &[Node], label: &Symbol) -> bool {
        let has = |id: &ValueId| self.ranges(*id).iter().any(|range| range.label == *label);
        nodes.iter().any(|node| match node {
            Node::Map(map) => self.is_reduced(&map.body, label),
            Node::Reduce(reduce) => has(&reduce.argument) && !reduce.results.iter().any(has),
            Node::Contract(contract) => contract.arguments.iter().any(has) && !has(&contract.result),
            _ => false,
        })
    }

    /// The body; phases come later.
    pub fn finish(self, nodes: Vec<Node>) -> Body {
        let mut body = Body { values: self.values, prologue: Vec::new(), nodes };
        body.renumber();
        body
    }
}

/// The coordinates and the body of the family of a map at function level.
pub(super) fn family(
    flattener: &mut Flattener<'_>,
    frame: &Frame<'_>,
    map: &Map,
) -> Result<(Vec<(Symbol, Dim)>, Body), Error> {
    let chain = flattener.chain(frame, map)?;
    let mut builder = BodyBuilder::default();
    let mut facts = flattener.facts_here();
    for (name, extent) in &chain.coordinates {
        facts = facts.assume(name, 0, extent);
    }
    let mut nodes = match chain.body {
        Some(body) => convert(flattener, frame, &mut builder, body, &facts)?,
        None => vec![Node::Map(inner_map(flattener, frame, &mut builder, map, &facts)?)],
    };
    // A task past the end of a dependent map does nothing: by its ranges, or else by a map of no iterations.
    for ((name, extent), exact) in chain.coordinates.iter().zip(&chain.exact).rev() {
        let Some(exact) = exact else { continue };
        if !ends_by_itself(&nodes, &builder, name, exact, extent, &facts) {
            let rest = exact - Dim::symbol(name.clone());
            let once = Dim::min(&Dim::max(&rest, 0), 1);
            let coordinate = fresh(&mut flattener.used_names, &Symbol::from(format!("{name}_inside")));
            let map = Map {
                coordinate,
                extent: once,
                order: Order::Sequential,
                carries: Vec::new(),
                body: nodes,
                defines: Vec::new(),
            };
            nodes = vec![Node::Map(map)];
        }
    }
    builder.narrow(&nodes)?;
    Ok((chain.coordinates, builder.finish(nodes)))
}

/// Puts each range behind those whose labels it mentions.
fn order_ranges(ranges: &mut Vec<Range>) {
    let mut left = std::mem::take(ranges);
    while !left.is_empty() {
        let ready = |range: &Range| {
            !left.iter().any(|other| {
                other.label != range.label
                    && (range.start.mentions(&other.label) || range.end.mentions(&other.label))
            })
        };
        let at = left.iter().position(ready).unwrap_or(0);
        ranges.push(left.remove(at));
    }
}

/// How far the labels of a stored item may go so that its index lies inside the tensor.
fn limits(
    flattener: &Flattener<'_>,
    frame: &Frame<'_>,
    store: &Store,
    ranges: &[Range],
    facts: &Facts,
) -> Result<BTreeMap<Symbol, Limits>, Error> {
    let (ty, storage) = flattener.storage(frame, store.target)?;
    let facts = ranges
        .iter()
        .fold(facts.clone(), |facts, range| facts.assume(&range.label, range.start.clone(), range.stop()));
    let single = |symbol: &Symbol| {
        let range = ranges.iter().find(|range| range.label == *symbol && range.size == 1)?;
        Some(range.start.clone())
    };
    let mut found: BTreeMap<Symbol, Limits> = BTreeMap::new();
    for (k, (axis, index)) in ty.axes.iter().zip(&store.index).enumerate() {
        let packed = storage.packed().is_some_and(|(part, axis, _)| part == k || axis == k);
        if packed || !storage::depends_on(&ty, k, &flattener.facts).is_empty() {
            continue;
        }
        let index = flattener.dim(frame, index);
        let (below, above) = (!facts.nonneg(&index).is_yes(), !facts.lt(&index, &axis.extent).is_yes());
        if !below && !above {
            continue;
        }
        let place = || format!("{}: {}", frame.function.name, axis.name);
        let label = ranges.iter().map(|range| &range.label).find(|label| {
            let rest = &index - Dim::symbol((*label).clone());
            index.mentions(label) && !rest.mentions(label)
        });
        let Some(label) = label.filter(|label| !found.contains_key(*label)) else {
            return Err(Error::Unsupported {
                place: place(),
                what: format!("a store at `{index}`, which may lie outside"),
                instead: "write at a position plus the index along the axis".to_string(),
            });
        };
        let rest = (&index - Dim::symbol(label.clone())).substitute(&single);
        let limits = Limits { first: below.then(|| -&rest), end: above.then(|| &axis.extent - &rest) };
        found.insert(label.clone(), limits);
    }
    Ok(found)
}

/// Whether every store is empty for coordinates at or past the exact extent of their map.
fn ends_by_itself(
    nodes: &[Node],
    builder: &BodyBuilder,
    coordinate: &Symbol,
    exact: &Dim,
    extent: &Dim,
    facts: &Facts,
) -> bool {
    let past = facts.assume(coordinate, exact, extent);
    nodes.iter().all(|node| match node {
        Node::Store(store) => {
            builder.ranges(store.item).iter().any(|range| past.le(&range.end, &range.start).is_yes())
        }
        Node::Map(map) => ends_by_itself(&map.body, builder, coordinate, exact, extent, facts),
        _ => true,
    })
}

fn inner_map(
    flattener: &Flattener<'_>,
    frame: &Frame<'_>,
    builder: &mut BodyBuilder,
    map: &Map,
    facts: &Facts,
) -> Result<Map, Error> {
    let extent = flattener.dim(frame, &map.extent);
    let facts = facts.assume(&map.coordinate, 0, &extent);
    let mut carries = map.carries.clone();
    for carry in &mut carries {
        let Carried { from, state, next, result } = Carried::of(carry);
        for id in from.iter_mut().chain(state).chain(next).chain(result) {
            *id = builder.item(flattener, frame, *id)?;
        }
    }
    let body = convert(flattener, frame, builder, &map.body, &facts)?;
    Ok(Map {
        coordinate: map.coordinate.clone(),
        extent,
        order: map.order,
        carries,
        body,
        defines: Vec::new(),
    })
}

/// The items of a carry.
struct Carried<'c> {
    from: &'c mut Vec<ValueId>,
    state: &'c mut Vec<ValueId>,
    next: &'c mut Vec<ValueId>,
    result: &'c mut Vec<ValueId>,
}

impl<'c> Carried<'c> {
    fn of(carry: &'c mut crate::block::Carry) -> Carried<'c> {
        let crate::block::Carry { from, state, next, result, .. } = carry;
        Carried { from, state, next, result }
    }
}

fn convert(
    flattener: &Flattener<'_>,
    frame: &Frame<'_>,
    builder: &mut BodyBuilder,
    nodes: &[Node],
    facts: &Facts,
) -> Result<Vec<Node>, Error> {
    nodes.iter().map(|node| convert_node(flattener, frame, builder, node, facts)).collect()
}

fn convert_node(
    flattener: &Flattener<'_>,
    frame: &Frame<'_>,
    builder: &mut BodyBuilder,
    node: &Node,
    facts: &Facts,
) -> Result<Node, Error> {
    Ok(match node {
        Node::Map(map) => Node::Map(inner_map(flattener, frame, builder, map, facts)?),
        Node::Load(load) => {
            let result = builder.item(flattener, frame, load.result)?;
            let (index, inside) =
                access(flattener, frame, load.source, &load.index, builder.ranges(result), facts)?;
            let when = inside.and(flattener.cond(frame, &load.when));
            let source = builder.tensor(&flattener.buffers, frame.view(load.source)?.buffer);
            Node::Load(Load { source, index, when, result })
        }
        Node::Store(store) => {
            let item = builder.item(flattener, frame, store.item)?;
            let (index, _) = access(flattener, frame, store.target, &store.index, &[], facts)?;
            let limits = limits(flattener, frame, store, builder.ranges(item), facts)?;
            builder.stores.push((item, limits));
            let target = builder.tensor(&flattener.buffers, frame.view(store.target)?.buffer);
            Node::Store(Store { item, target, index })
        }
        Node::Compute(_) | Node::Reduce(_) | Node::Contract(_) => {
            let mut node = node.clone();
            node.map_dims(&mut |dim| flattener.dim(frame, dim));
            let mut wrong = None;
            node.for_each_value(&mut |id| match builder.item(flattener, frame, *id) {
                Ok(new) => *id = new,
                Err(error) => wrong = Some(error),
            });
            match wrong {
                Some(error) => return Err(error),
                None => node,
            }
        }
        Node::Opaque(_) | Node::Call(_) | Node::Repeat(_) => {
            return Err(bug(format!("a function-level operator inside a map of `{}`", frame.function.name)));
        }
    })
}

/// The index of an access along the axes of the buffer, and where it lies inside the tensor as far as its being inside
/// the buffer does not say so.
fn access(
    flattener: &Flattener<'_>,
    frame: &Frame<'_>,
    tensor: ValueId,
    index: &[Dim],
    ranges: &[Range],
    facts: &Facts,
) -> Result<(Vec<Dim>, Cond), Error> {
    let (ty, storage) = flattener.storage(frame, tensor)?;
    let index: Vec<Dim> = index.iter().map(|dim| flattener.dim(frame, dim)).collect();
    if index.len() != ty.axes.len() {
        return Err(bug(format!("{} indices for {} axes", index.len(), ty.axes.len())));
    }
    let facts = ranges
        .iter()
        .fold(facts.clone(), |facts, range| facts.assume(&range.label, range.start.clone(), range.stop()));
    // A label of one value is its start, as the ends of ranges say it.
    let single = |symbol: &Symbol| {
        let range = ranges.iter().find(|range| range.label == *symbol && range.size == 1)?;
        Some(range.start.clone())
    };
    let extents: Vec<Dim> = storage::extents_at(&ty, &index, &flattener.facts)
        .iter()
        .map(|dim| dim.substitute(&single))
        .collect();
    let part = storage.packed().map(|(part, _, _)| part);
    let mut conditions = Vec::new();
    for (k, (at, extent)) in index.iter().zip(&extents).enumerate() {
        let dependent =
            ty.axes[k].extent != *extent || part == Some(k) || storage.packed().is_some_and(|p| p.1 == k);
        if !dependent {
            continue;
        }
        let ends_there =
            ranges.iter().any(|range| at.as_symbol() == Some(&range.label) && range.end == *extent);
        if !facts.nonneg(at).is_yes() {
            conditions.push(Cond::ge(at, 0));
        }
        if !ends_there && !facts.lt(at, extent).is_yes() {
            conditions.push(Cond::lt(at, extent));
        }
    }
    let view = frame.view(tensor)?;
    let index = view.leading.iter().cloned().chain(storage.index(&index)).collect();
    Ok((index, Cond::all(conditions)))
}

/// The coordinates and the body of a family that copies one view to another of the same shape.
pub(super) fn copy(flattener: &Flattener<'_>, from: &View, to: &View) -> (Vec<(Symbol, Dim)>, Body) {
    let mut taken = flattener.used_names.clone();
    let target = &flattener.buffers[to.buffer];
    let kept = target.extents.get(to.leading.len()..).unwrap_or_default();
    let mut coordinates = Vec::new();
    let mut ranges = Vec::new();
    let mut index = Vec::new();
    for (k, extent) in kept.iter().enumerate() {
        let size = if k + 2 >= kept.len() { COPY_BLOCK } else { 1 };
        let coordinate = fresh(&mut taken, &Symbol::from(format!("c{k}")));
        let label = fresh(&mut taken, &Symbol::from(format!("i{k}")));
        let start = Dim::symbol(coordinate.clone()) * size;
        let nonneg = flattener.facts.nonneg(extent).is_yes();
        let count = extent.ceil_div(size);
        coordinates.push((coordinate, if nonneg { count } else { count.max(Dim::constant(0)) }));
        index.push(Dim::symbol(label.clone()));
        ranges.push(Range { label, start, size, end: extent.clone() });
    }
    let at = |view: &View| view.leading.iter().chain(&index).cloned().collect::<Vec<_>>();
    let mut builder = BodyBuilder::default();
    let source = builder.tensor(&flattener.buffers, from.buffer);
    let store_to = builder.tensor(&flattener.buffers, to.buffer);
    let item = builder.push(Symbol::new("block"), ValueType::Item(ItemType { dtype: target.dtype, ranges }));
    let nodes = vec![
        Node::Load(Load { source, index: at(from), when: Cond::True, result: item }),
        Node::Store(Store { item, target: store_to, index: at(to) }),
    ];
    (coordinates, builder.finish(nodes))
}

/// A place in a body where index expressions are evaluated: the variables in scope, outer first, and the expressions.
pub(super) struct Site<'b> {
    pub vars: Vec<Var>,
    pub node: &'b Node,
}

/// Calls `f` at every node of a body with the coordinates of the maps around it and the labels of its items.
pub(super) fn visit_sites<'b>(
    values: &[Value],
    nodes: &'b [Node],
    outer: &[Var],
    f: &mut dyn FnMut(Site<'b>),
) {
    for node in nodes {
        let mut vars = outer.to_vec();
        let mut add = |id: &ValueId| {
            let Some(ValueType::Item(ty)) = values.get(id.0 as usize).map(|value| &value.ty) else { return };
            for range in &ty.ranges {
                if !vars.iter().any(|var| var.name == range.label) {
                    vars.push(Var {
                        name: range.label.clone(),
                        first: range.start.clone(),
                        end: range.stop(),
                    });
                }
            }
        };
        match node {
            Node::Map(map) => {
                let mut inner = outer.to_vec();
                inner.push(Var {
                    name: map.coordinate.clone(),
                    first: Dim::constant(0),
                    end: map.extent.clone(),
                });
                map.carries.iter().flat_map(|carry| &carry.state).for_each(add);
                f(Site { vars, node });
                visit_sites(values, &map.body, &inner, f);
            }
            _ => {
                node.clone().for_each_value(&mut |id| add(id));
                f(Site { vars, node });
            }
        }
    }
}

/// Every index expression that is evaluated at a node, those in the types of its items included.
pub(super) fn dims_at(values: &[Value], node: &Node) -> Vec<Dim> {
    let mut dims = Vec::new();
    let mut note = |dim: &Dim| {
        dims.push(dim.clone());
        dim.clone()
    };
    let mut ids = Vec::new();
    match node {
        Node::Map(map) => {
            note(&map.extent);
            ids.extend(map.carries.iter().flat_map(|carry| carry.state.iter().copied()));
        }
        _ => {
            let mut node = node.clone();
            node.map_dims(&mut note);
            node.for_each_value(&mut |id| ids.push(*id));
        }
    }
    for id in ids {
        if let Some(value @ Value { ty: ValueType::Item(_), .. }) = values.get(id.0 as usize) {
            value.ty.clone().map_dims(&mut note);
        }
    }
    dims
}

/// Calls `f` with each table and index that a node reads.
pub(super) fn visit_tables(values: &[Value], node: &Node, f: &mut dyn FnMut(&Symbol, &[Dim])) {
    dims_at(values, node).iter().for_each(|dim| visit_elements(dim, f));
}
