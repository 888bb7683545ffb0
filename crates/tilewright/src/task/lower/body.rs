//! Bodies of families: nodes of a map over buffers in storage order.

use super::flatten::{FlatBuffer, Flattener, Frame, View, bug, fresh};
use super::narrow::{self, Limits};
use super::visit;
use crate::block::{ItemType, Load, Map, Node, Order, Range, Store, Value, ValueId, ValueType};
use crate::dim::{Cond, Dim, Facts, Symbol};
use crate::error::Error;
use crate::task::ir::{Body, Buffer, BufferKind, Tier};
use crate::tensor::storage;
use std::collections::BTreeMap;

/// The block sizes of the last two axes of a copy; one index of every other.
const COPY_BLOCK: i64 = 64;

/// A body in the making.
#[derive(Default)]
pub(super) struct BodyBuilder {
    values: Vec<Value>,
    tensors: BTreeMap<usize, ValueId>,
    items: BTreeMap<ValueId, ValueId>,
    /// For each store the labels of its item that would leave the tensor, and how far they may go.
    stores: Vec<(ValueId, BTreeMap<Symbol, Limits>)>,
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
            padded: flat.padded.clone(),
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
        visit::ranges(&self.values, id)
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
    narrow::narrow(&mut builder.values, &builder.stores, &nodes)?;
    Ok((chain.coordinates, builder.finish(nodes)))
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
            let limits = narrow::limits(flattener, frame, store, builder.ranges(item), facts)?;
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
