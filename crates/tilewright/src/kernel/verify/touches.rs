//! What a kernel touches, for whoever verifies the order between tasks: that of a block body which loads and stores the
//! same elements.

use crate::block::{self, Argument, ItemType, Node, Order, Range, Value, ValueId, ValueType};
use crate::dim::{Cond, Dim, Symbol};
use crate::kernel::ir::{Kernel, Statement, TileId};
use crate::task::verify::{Reason, Site, Toucher, Touches, Violation};
use crate::task::{Body, Buffer, BufferId};

impl Touches for Kernel {
    fn toucher<'a>(&'a self, site: &Site<'a>) -> Result<Option<Toucher<'a>>, Violation> {
        let mut shadow = Shadow::new(self, site.buffers);
        let prologue = shadow.nodes(&self.prologue)?;
        let mut nodes = Vec::new();
        for role in &self.roles {
            nodes.extend(shadow.nodes(&role.body)?);
        }
        let body = Body { values: shadow.values, prologue, nodes };
        crate::task::verify::body_toucher(&body, site)
    }
}

/// A block body in the making: first one item per tile, then one tensor per buffer, then what else is needed.
struct Shadow<'a> {
    kernel: &'a Kernel,
    buffers: &'a [Buffer],
    values: Vec<Value>,
}

impl<'a> Shadow<'a> {
    fn new(kernel: &'a Kernel, buffers: &'a [Buffer]) -> Shadow<'a> {
        let items = kernel.tiles.iter().map(|tile| {
            let ty = ItemType { dtype: tile.dtype, ranges: tile.ranges.clone() };
            Value { name: tile.name.clone(), ty: ValueType::Item(ty) }
        });
        let tensors = buffers.iter().map(|buffer| {
            let ty = ValueType::Tensor { ty: buffer.ty(), alias: None };
            Value { name: buffer.name.clone(), ty }
        });
        Shadow { kernel, buffers, values: items.chain(tensors).collect() }
    }

    fn tensor(&self, buffer: BufferId) -> ValueId {
        ValueId((self.kernel.tiles.len() as u32).saturating_add(buffer.0))
    }

    fn nodes(&mut self, statements: &[Statement]) -> Result<Vec<Node>, Violation> {
        let mut nodes = Vec::new();
        for statement in statements {
            nodes.extend(self.node(statement)?);
        }
        Ok(nodes)
    }

    fn node(&mut self, statement: &Statement) -> Result<Option<Node>, Violation> {
        Ok(match statement {
            Statement::Loop { coordinate, extent, body } => {
                if self.reads_tile(extent) {
                    return Err(unknown("a loop's extent"));
                }
                Some(Node::Map(block::Map {
                    coordinate: coordinate.clone(),
                    extent: extent.clone(),
                    order: Order::Sequential,
                    carries: Vec::new(),
                    body: self.nodes(body)?,
                    defines: Vec::new(),
                }))
            }
            Statement::Load { tile, buffer, index, when, .. } => {
                let (result, index) = self.access(*tile, *buffer, index)?;
                let when = self.known(when);
                Some(Node::Load(block::Load { source: self.tensor(*buffer), index, when, result }))
            }
            Statement::Store { tile, buffer, index, .. } => {
                let (item, index) = self.access(*tile, *buffer, index)?;
                Some(Node::Store(block::Store { item, target: self.tensor(*buffer), index }))
            }
            Statement::Compute { function, arguments, result } => {
                let argument = |argument: &Argument<TileId>| match argument {
                    Argument::Item(id) => Argument::Item(ValueId(id.0)),
                    Argument::Literal(value) => Argument::Literal(*value),
                    Argument::Index(dim) if self.reads_tile(dim) => Argument::Index(Dim::constant(0)),
                    Argument::Index(dim) => Argument::Index(dim.clone()),
                    Argument::Holds(cond) => Argument::Holds(self.known(cond)),
                };
                let arguments = arguments.iter().map(argument).collect();
                Some(Node::Compute(block::Compute { function, arguments, result: ValueId(result.0) }))
            }
            Statement::Reduce { monoid, argument, position, mask, .. } => {
                let position = if self.reads_tile(position) { Dim::constant(0) } else { position.clone() };
                let guard = block::Guard { condition: self.known(&mask.condition), masks: Vec::new() };
                let (argument, into, results) = (ValueId(argument.0), Vec::new(), Vec::new());
                Some(Node::Reduce(block::Reduce { monoid, argument, position, guard, into, results }))
            }
            Statement::Contract { factors, sum, mask } => Some(self.product(factors, *sum, &mask.condition)),
            Statement::Mma { a, b, c, mask, .. } => Some(self.product(&[*a, *b], *c, &mask.condition)),
            Statement::Opaque { operator, axis, operands, results } => Some(Node::Opaque(block::Opaque {
                operator,
                axis: *axis,
                operands: operands.iter().map(|id| self.tensor(*id)).collect(),
                results: results.iter().map(|id| self.tensor(*id)).collect(),
            })),
            _ => None,
        })
    }

    fn product(&self, factors: &[TileId], sum: TileId, condition: &Cond) -> Node {
        let arguments = factors.iter().map(|id| ValueId(id.0)).collect();
        let guard = block::Guard { condition: self.known(condition), masks: Vec::new() };
        Node::Contract(block::Contract { arguments, guard, into: None, result: ValueId(sum.0) })
    }

    /// The item and the index of an access. Where the index reads a tile, any index along that axis is meant: a label
    /// of its own runs over all of it.
    fn access(
        &mut self,
        tile: TileId,
        buffer: BufferId,
        index: &[Dim],
    ) -> Result<(ValueId, Vec<Dim>), Violation> {
        let Some(found) = self.kernel.tiles.get(tile.0 as usize) else { return Err(unknown("a tile")) };
        if found.ranges.iter().any(|range| self.reads_tile(&range.start) || self.reads_tile(&range.end)) {
            return Err(unknown("a range"));
        }
        if !index.iter().any(|dim| self.reads_tile(dim)) {
            return Ok((ValueId(tile.0), index.to_vec()));
        }
        let Some(target) = self.buffers.get(buffer.0 as usize) else { return Err(unknown("a buffer")) };
        let mut ranges = found.ranges.clone();
        let mut known = Vec::new();
        for (axis, dim) in index.iter().enumerate() {
            let Some(extent) = target.extents.get(axis).filter(|_| self.reads_tile(dim)) else {
                known.push(dim.clone());
                continue;
            };
            let label = Symbol::from(format!("any {axis}"));
            let (start, end) = (Dim::constant(0), extent.clone());
            ranges.push(Range { label: label.clone(), start, size: i64::MAX, end });
            known.push(Dim::symbol(label));
        }
        let ty = ValueType::Item(ItemType { dtype: found.dtype, ranges });
        self.values.push(Value { name: found.name.clone(), ty });
        Ok((ValueId(self.values.len() as u32 - 1), known))
    }

    /// The condition, or that it may hold where it reads a tile.
    fn known(&self, condition: &Cond) -> Cond {
        let mut reads = false;
        condition.visit_dims(&mut |dim| reads |= self.reads_tile(dim));
        if reads { Cond::True } else { condition.clone() }
    }

    fn reads_tile(&self, dim: &Dim) -> bool {
        dim.tables().iter().any(|table| self.kernel.tiles.iter().any(|tile| tile.name == *table))
    }
}

fn unknown(what: &str) -> Violation {
    let message = format!("{what} depends on a tile, so that what is touched is not known");
    Violation { reason: Reason::Malformed, place: "a kernel".into(), message }
}
