//! From block bodies to kernels: every item becomes a tile of its padded shape in near memory, every map a loop.
//!
//! Statements are those of the body, in its order, so that every sum accumulates in the same order. What an
//! accumulation starts from, its steps and its end share one tile where nothing reads an older state later; elsewhere
//! the state is copied first. Guards become masks as they are. A contraction becomes an [`Statement::Mma`] where a row
//! of the target fits, and a general [`Statement::Contract`] elsewhere. Tiles beyond the capacity of near memory, the
//! largest first, go to slow memory, and the journal says so.

use super::ir::{Home, Kernel, Mask, Program, Role, Statement, Tile, TileId, WorkerStep};
use super::layout::Layout;
use super::verify::capacity::{body_bytes, prologue_bytes};
use crate::block::{self, Argument, Carry, Contract, Guard, ItemType, Map, Node, Reduce, ValueId, ValueType};
use crate::dim::Symbol;
use crate::error::Error;
use crate::journal::{Journal, Kind};
use crate::target::{InstructionRow, Target};
use crate::task::{self, Buffer, BufferId, Tier};
use crate::tensor::{DType, Monoid, Scalar};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the only role of a lowered kernel.
pub const WORKER: &str = "worker";

/// The kernel program of a task program.
pub fn lower(program: &task::Program, target: &Target, journal: &mut Journal) -> Result<Program, Error> {
    let mut kernels = BTreeMap::new();
    for (index, family) in program.families.iter().enumerate() {
        let body = Body::new(&family.name, &family.body, &program.buffers);
        let kernel = body.lower(&family.body)?;
        kernels.insert(index, kernel);
    }
    // The prologue of the next task shares near memory with the body of the running one.
    let capacity = target.tiers.iter().find(|tier| tier.tier == Tier::Near).map_or(0, |tier| tier.bytes);
    let ahead = kernels.values().any(|kernel| !kernel.prologue.is_empty());
    let share = if ahead { capacity / 2 } else { capacity };
    for (family, kernel) in program.families.iter().zip(kernels.values_mut()) {
        spill(&family.name, kernel, share, journal);
        let Kernel { tiles, prologue, roles, .. } = kernel;
        let bodies = roles.iter_mut().flat_map(|role| &mut role.body);
        prologue.iter_mut().chain(bodies).for_each(|statement| choose_rows(tiles, target, statement));
    }
    let tasks = program.clone().with_bodies(|id, _, _| kernels.remove(&(id.0 as usize)).unwrap_or_default());
    Ok(Program { tasks, worker: worker_loop() })
}

/// The steps of a worker, in the only order that there is.
pub fn worker_loop() -> Vec<WorkerStep> {
    vec![WorkerStep::Fetch, WorkerStep::Prologue, WorkerStep::Wait, WorkerStep::Body, WorkerStep::Notify]
}

/// When a value is read for the last time, and in which body it is defined.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// The body, numbered in order of entry.
    body: usize,
    /// The position of the last read; reads are numbered in order.
    last: usize,
}

/// A body being lowered.
struct Body<'a> {
    place: &'a Symbol,
    values: &'a [block::Value],
    buffers: &'a [Buffer],
    lives: Vec<Life>,
    /// The number of the next read, counted exactly as for `lives`.
    read: usize,
    /// The number of the next body to be entered.
    bodies: usize,
    tiles: Vec<Tile>,
    names: BTreeSet<Symbol>,
    tile_of: Vec<Option<TileId>>,
}

/// Numbers the reads and bodies of nodes, for [`Life`].
struct Census {
    lives: Vec<Life>,
    read: usize,
    bodies: usize,
}

impl Census {
    fn reads(&mut self, ids: &[ValueId]) {
        for id in ids {
            if let Some(life) = self.lives.get_mut(id.0 as usize) {
                life.last = self.read;
            }
            self.read += 1;
        }
    }

    fn defines(&mut self, ids: &[ValueId], body: usize) {
        for id in ids {
            if let Some(life) = self.lives.get_mut(id.0 as usize) {
                life.body = body;
            }
        }
    }

    fn nodes(&mut self, nodes: &[Node], body: usize) {
        for node in nodes {
            match node {
                Node::Map(map) => {
                    map.carries.iter().for_each(|carry| self.reads(&carry.from));
                    let inner = self.bodies;
                    self.bodies += 1;
                    map.carries.iter().for_each(|carry| self.defines(&carry.state, inner));
                    self.nodes(&map.body, inner);
                    map.carries.iter().for_each(|carry| self.reads(&carry.next));
                }
                node => self.reads(&reads(node)),
            }
            self.defines(&node.defines(), body);
        }
    }
}

/// The items that a node other than a map reads, each as often as it does; those that it updates last.
fn reads(node: &Node) -> Vec<ValueId> {
    let chain = |parts: [&[ValueId]; 3]| parts.concat();
    match node {
        Node::Store(store) => vec![store.item],
        Node::Compute(compute) => {
            let item = |argument: &Argument| match argument {
                Argument::Item(id) => Some(*id),
                _ => None,
            };
            compute.arguments.iter().filter_map(item).collect()
        }
        Node::Reduce(reduce) => chain([&[reduce.argument], &reduce.guard.masks, &reduce.into]),
        Node::Contract(contract) => {
            chain([&contract.arguments, &contract.guard.masks, contract.into.as_slice()])
        }
        _ => Vec::new(),
    }
}

impl<'a> Body<'a> {
    fn new(place: &'a Symbol, body: &'a task::Body, buffers: &'a [Buffer]) -> Body<'a> {
        let mut census = Census { lives: vec![Life::default(); body.values.len()], read: 0, bodies: 1 };
        census.nodes(&body.prologue, 0);
        census.nodes(&body.nodes, 0);
        let names = body.values.iter().map(|value| value.name.clone());
        let names = names.chain(buffers.iter().map(|buffer| buffer.name.clone())).collect();
        Body {
            place,
            values: &body.values,
            buffers,
            lives: census.lives,
            read: 0,
            bodies: 1,
            tiles: Vec::new(),
            names,
            tile_of: vec![None; body.values.len()],
        }
    }

    fn lower(mut self, body: &task::Body) -> Result<Kernel, Error> {
        let (mut prologue, mut main) = (Vec::new(), Vec::new());
        self.nodes(&body.prologue, 0, &mut prologue)?;
        self.nodes(&body.nodes, 0, &mut main)?;
        let roles = vec![Role { name: Symbol::new(WORKER), body: main }];
        Ok(Kernel { tiles: self.tiles, tokens: 0, channels: Vec::new(), prologue, roles })
    }

    fn nodes(&mut self, nodes: &[Node], body: usize, out: &mut Vec<Statement>) -> Result<(), Error> {
        nodes.iter().try_for_each(|node| self.node(node, body, out))
    }

    fn node(&mut self, node: &Node, body: usize, out: &mut Vec<Statement>) -> Result<(), Error> {
        match node {
            Node::Map(map) => return self.map(map, body, out),
            Node::Load(load) => {
                let tile = self.define(load.result)?;
                let (buffer, index) = (self.buffer(load.source)?, load.index.clone());
                out.push(Statement::Load { tile, buffer, index, when: load.when.clone(), token: None });
            }
            Node::Store(store) => {
                let (tile, buffer) = (self.tile(store.item)?, self.buffer(store.target)?);
                out.push(Statement::Store { tile, buffer, index: store.index.clone(), token: None });
            }
            Node::Compute(compute) => {
                let argument = |argument: &Argument| {
                    Ok(match argument {
                        Argument::Item(id) => Argument::Item(self.tile(*id)?),
                        Argument::Literal(value) => Argument::Literal(*value),
                        Argument::Index(dim) => Argument::Index(dim.clone()),
                        Argument::Holds(cond) => Argument::Holds(cond.clone()),
                    })
                };
                let arguments = compute.arguments.iter().map(argument).collect::<Result<Vec<_>, Error>>()?;
                let result = self.define(compute.result)?;
                out.push(Statement::Compute { function: compute.function, arguments, result });
            }
            Node::Reduce(reduce) => self.reduce(reduce, body, out)?,
            Node::Contract(contract) => self.contract(contract, body, out)?,
            Node::Opaque(opaque) => {
                let buffers =
                    |ids: &[ValueId]| ids.iter().map(|id| self.buffer(*id)).collect::<Result<_, Error>>();
                let (operands, results) = (buffers(&opaque.operands)?, buffers(&opaque.results)?);
                out.push(Statement::Opaque {
                    operator: opaque.operator,
                    axis: opaque.axis,
                    operands,
                    results,
                });
            }
            Node::Call(_) | Node::Repeat(_) => return Err(self.bug("a call inside a task's body".into())),
        }
        self.read += reads(node).len();
        Ok(())
    }

    fn reduce(&mut self, reduce: &Reduce, body: usize, out: &mut Vec<Statement>) -> Result<(), Error> {
        let (argument, mask) = (self.tile(reduce.argument)?, self.mask(&reduce.guard)?);
        let before = self.read + 1 + reduce.guard.masks.len();
        let dtype = self.tiles.get(argument.0 as usize).map_or(DType::F64, |tile| tile.dtype);
        let monoid = reduce.monoid;
        let state = self.start(monoid, dtype, &reduce.into, &reduce.results, body, before, out)?;
        let position = reduce.position.clone();
        out.push(Statement::Reduce { monoid, argument, position, mask, state });
        Ok(())
    }

    fn contract(&mut self, contract: &Contract, body: usize, out: &mut Vec<Statement>) -> Result<(), Error> {
        let factors = contract.arguments.iter().map(|id| self.tile(*id)).collect::<Result<Vec<_>, _>>()?;
        let mask = self.mask(&contract.guard)?;
        let before = self.read + contract.arguments.len() + contract.guard.masks.len();
        let sum = match contract.into {
            Some(from) => self.continued(from, contract.result, body, before, out)?,
            None => {
                let tile = self.define(contract.result)?;
                let dtype = self.tiles.get(tile.0 as usize).map_or(DType::F64, |tile| tile.dtype);
                out.push(Statement::Fill { tile, value: Scalar::zero(dtype) });
                tile
            }
        };
        out.push(Statement::Contract { factors, sum, mask });
        Ok(())
    }

    fn map(&mut self, map: &Map, body: usize, out: &mut Vec<Statement>) -> Result<(), Error> {
        let mut states = Vec::new();
        let mut pre = Vec::new();
        for carry in &map.carries {
            let before = self.read;
            let Carry { monoid, dtype, from, state, .. } = carry;
            states.push(self.start(monoid, *dtype, from, state, body, before, &mut pre)?);
            self.read += from.len();
        }
        out.append(&mut pre);
        let inner = self.bodies;
        self.bodies += 1;
        let mut statements = Vec::new();
        self.nodes(&map.body, inner, &mut statements)?;
        let mut moves = Vec::new();
        for (carry, state) in map.carries.iter().zip(&states) {
            if carry.next.len() != state.len() || carry.result.len() != state.len() {
                return Err(self.bug(format!("a carry of `{}` with parts missing", map.coordinate)));
            }
            for (next, to) in carry.next.iter().zip(state) {
                moves.push((self.tile(*next)?, *to));
            }
            self.read += carry.next.len();
        }
        self.copy_all(moves, &mut statements)?;
        for (carry, state) in map.carries.iter().zip(&states) {
            for (result, tile) in carry.result.iter().zip(state) {
                self.set(*result, *tile)?;
            }
        }
        let (coordinate, extent) = (map.coordinate.clone(), map.extent.clone());
        out.push(Statement::Loop { coordinate, extent, body: statements });
        Ok(())
    }

    /// Copies all at once: no source is overwritten before it is read.
    fn copy_all(&mut self, moves: Vec<(TileId, TileId)>, out: &mut Vec<Statement>) -> Result<(), Error> {
        let moves: Vec<_> = moves.into_iter().filter(|(from, to)| from != to).collect();
        let clobbers = |k: usize| moves[k + 1..].iter().any(|(from, _)| *from == moves[k].1);
        if !(0..moves.len()).any(clobbers) {
            out.extend(moves.into_iter().map(|(from, to)| Statement::Convert { from, to }));
            return Ok(());
        }
        let mut after = Vec::new();
        for (from, to) in moves {
            let source = self.tiles.get(from.0 as usize).cloned();
            let mut copy = source.ok_or_else(|| self.bug("a tile that is not there".into()))?;
            copy.name = self.fresh(&copy.name);
            let through = self.add(copy);
            out.push(Statement::Convert { from, to: through });
            after.push(Statement::Convert { from: through, to });
        }
        out.append(&mut after);
        Ok(())
    }

    /// The tiles of a state that starts as the values `from`, read from position `read` on, or as the identity.
    #[expect(clippy::too_many_arguments, reason = "a state: its monoid, its start, its names, its place")]
    fn start(
        &mut self,
        monoid: &Monoid,
        dtype: DType,
        from: &[ValueId],
        names: &[ValueId],
        body: usize,
        read: usize,
        out: &mut Vec<Statement>,
    ) -> Result<Vec<TileId>, Error> {
        if from.is_empty() {
            let identity = (monoid.identity)(dtype);
            if identity.len() != names.len() {
                return Err(self.bug(format!("a state of `{}` with {} parts", monoid.name, names.len())));
            }
            let mut tiles = Vec::new();
            for (name, value) in names.iter().zip(identity) {
                let tile = self.define(*name)?;
                out.push(Statement::Fill { tile, value });
                tiles.push(tile);
            }
            return Ok(tiles);
        }
        if from.len() != names.len() {
            return Err(self.bug(format!("a state of `{}` with {} parts", monoid.name, from.len())));
        }
        let parts = from.iter().zip(names).enumerate();
        parts.map(|(k, (from, name))| self.continued(*from, *name, body, read + k, out)).collect()
    }

    /// The tile of `name`, which starts as `from`, read at position `read`: the same one if nothing reads `from` later,
    /// and it is defined in this body.
    fn continued(
        &mut self,
        from: ValueId,
        name: ValueId,
        body: usize,
        read: usize,
        out: &mut Vec<Statement>,
    ) -> Result<TileId, Error> {
        let source = self.tile(from)?;
        let life = self.lives.get(from.0 as usize).copied().unwrap_or_default();
        if life.body == body && life.last <= read && self.item(from)? == self.item(name)? {
            self.set(name, source)?;
            return Ok(source);
        }
        let tile = self.define(name)?;
        out.push(Statement::Convert { from: source, to: tile });
        Ok(tile)
    }

    /// A tile of its own for an item.
    fn define(&mut self, id: ValueId) -> Result<TileId, Error> {
        let ty = self.item(id)?.clone();
        let name = self.values.get(id.0 as usize).map_or(Symbol::new(""), |value| value.name.clone());
        let sizes: Vec<i64> = ty.ranges.iter().map(|range| range.size).collect();
        let layout = Layout::row_major(&sizes);
        let tile = self.add(Tile { name, dtype: ty.dtype, ranges: ty.ranges, layout, home: Home::Near });
        self.set(id, tile)?;
        Ok(tile)
    }

    fn add(&mut self, tile: Tile) -> TileId {
        self.tiles.push(tile);
        TileId(self.tiles.len() as u32 - 1)
    }

    fn fresh(&mut self, name: &Symbol) -> Symbol {
        let mut number = 2;
        loop {
            let name = Symbol::from(format!("{name}_{number}"));
            if self.names.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }

    fn set(&mut self, id: ValueId, tile: TileId) -> Result<(), Error> {
        match self.tile_of.get_mut(id.0 as usize) {
            Some(place) => *place = Some(tile),
            None => return Err(self.bug(format!("there is no value {}", id.0))),
        }
        Ok(())
    }

    fn tile(&self, id: ValueId) -> Result<TileId, Error> {
        let tile = self.tile_of.get(id.0 as usize).copied().flatten();
        tile.ok_or_else(|| self.bug(format!("value {} is read before it is defined", id.0)))
    }

    fn item(&self, id: ValueId) -> Result<&'a ItemType, Error> {
        match self.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Item(ty)) => Ok(ty),
            _ => Err(self.bug(format!("value {} is no item", id.0))),
        }
    }

    fn buffer(&self, id: ValueId) -> Result<BufferId, Error> {
        let name = self.values.get(id.0 as usize).map(|value| &value.name);
        let index = self.buffers.iter().position(|buffer| Some(&buffer.name) == name);
        index
            .map(|index| BufferId(index as u32))
            .ok_or_else(|| self.bug(format!("value {} is no buffer", id.0)))
    }

    fn mask(&self, guard: &Guard) -> Result<Mask, Error> {
        let tiles = guard.masks.iter().map(|id| self.tile(*id)).collect::<Result<_, _>>()?;
        Ok(Mask { condition: guard.condition.clone(), tiles })
    }

    fn bug(&self, message: String) -> Error {
        Error::Bug { stage: "task", message: format!("{}: {message}", self.place) }
    }
}

/// Moves the largest tiles to slow memory until the others fit near.
fn spill(place: &Symbol, kernel: &mut Kernel, capacity: u64, journal: &mut Journal) {
    let mut order: Vec<usize> = (0..kernel.tiles.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(kernel.tiles[index].bytes()));
    for index in order {
        if body_bytes(kernel).max(prologue_bytes(kernel)) <= capacity {
            return;
        }
        let Some(tile) = kernel.tiles.get_mut(index) else { continue };
        tile.home = Home::Memory;
        let reason = format!("its {} bytes do not fit near; `{place}` spills it", tile.bytes());
        journal.record("kernel", Kind::Chose, tile.name.to_string(), reason);
    }
}

/// Makes contractions products of the target where a row fits.
fn choose_rows(tiles: &[Tile], target: &Target, statement: &mut Statement) {
    match statement {
        Statement::Loop { body, .. } => {
            body.iter_mut().for_each(|statement| choose_rows(tiles, target, statement));
        }
        Statement::Contract { factors, sum, mask } => {
            let [a, b] = factors.as_slice() else { return };
            let tile = |id: &TileId| tiles.get(id.0 as usize);
            let (Some(x), Some(y), Some(z)) = (tile(a), tile(b), tile(sum)) else { return };
            if let Some(row) = target.rows.iter().find(|row| row_fits(row, [x, y, z]).is_ok()) {
                let mask = std::mem::replace(mask, Mask::always());
                *statement =
                    Statement::Mma { row: row.name.clone(), a: *a, b: *b, c: *sum, mask, token: None };
            }
        }
        _ => {}
    }
}

/// Why an instruction row cannot do a product of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misfit {
    /// A label is in one tile only, or the tiles give it different ranges.
    Labels,
    /// A label that all three share has a size other than 1.
    Shared,
    /// The row is for other element types.
    Types,
    /// A tile is held where the row does not take it.
    Home,
    /// The sizes are no multiple of the row's shape.
    Shape,
}

/// Whether `c[m, n] += Σ a[m, k] · b[n, k]` on these tiles can be done by the row.
pub fn row_fits(row: &InstructionRow, tiles: [&Tile; 3]) -> Result<(), Misfit> {
    let mut sizes = [1i64; 3];
    let labels: BTreeSet<&Symbol> =
        tiles.iter().flat_map(|tile| &tile.ranges).map(|range| &range.label).collect();
    for label in labels {
        let ranges = tiles.map(|tile| tile.ranges.iter().find(|range| range.label == *label));
        let (group, first, second) = match ranges {
            [Some(a), Some(b), Some(c)] if a == b && b == c => {
                if a.size != 1 {
                    return Err(Misfit::Shared);
                }
                continue;
            }
            [Some(a), None, Some(c)] => (0, a, c),
            [None, Some(b), Some(c)] => (1, b, c),
            [Some(a), Some(b), None] => (2, a, b),
            _ => return Err(Misfit::Labels),
        };
        if first != second {
            return Err(Misfit::Labels);
        }
        sizes[group] = sizes[group].saturating_mul(first.size);
    }
    if tiles.map(|tile| tile.dtype) != row.types {
        return Err(Misfit::Types);
    }
    let permitted = |home: &Home, homes: &[Home]| match home {
        Home::Channel(_) => homes.iter().any(|other| matches!(other, Home::Near | Home::Channel(_))),
        home => homes.contains(home),
    };
    if tiles.iter().zip(&row.homes).any(|(tile, homes)| !permitted(&tile.home, homes)) {
        return Err(Misfit::Home);
    }
    if sizes.iter().zip(&row.shape).any(|(size, unit)| *unit != 0 && size % unit != 0) {
        return Err(Misfit::Shape);
    }
    Ok(())
}
