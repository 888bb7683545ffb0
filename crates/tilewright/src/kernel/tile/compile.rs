//! Binding a kernel to sizes: names become ids, index expressions become code, statements become [`Near`]s.

use super::super::ir::{ChannelId, Kernel, Statement, Tile, TileId, TokenId};
use super::access::{Access, Tables};
use super::elements::{Elements, ElementsMut};
use super::elementwise::{Bits, Compute, Fill, Rescale};
use super::product::Contraction;
use super::reduce::{Align, Reduction};
use super::space::{Bounds, Space};
use super::{Frame, Machine, TileData, fault, overflow};
use crate::dim::{Code, Cond, CondCode, Dim, Env, Symbol};
use crate::error::Error;
use crate::task::{Buffer, BufferId, Edge};
use crate::tensor::eval::Numerics;
use crate::tensor::{Array, DType, Scalar, Special};
use std::sync::Arc;

/// The most elements of one tile.
const MAX_ELEMENTS: usize = 1 << 28;

/// A kernel bound to sizes.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The name of its family.
    pub name: Symbol,
    /// How many coordinates the family has; they are the first slots.
    pub coordinates: usize,
    /// How many slots the coordinates, the loops' coordinates and the labels of a statement take together.
    pub slots: usize,
    /// The tiles.
    pub tiles: Vec<TileShape>,
    /// How many tokens there are.
    pub tokens: usize,
    /// For each channel the number of pages, and the tiles that are held in a page.
    pub channels: Vec<(usize, Vec<TileId>)>,
    /// What is done before the waits.
    pub prologue: Vec<Step>,
    /// What each role does.
    pub roles: Vec<(Symbol, Vec<Step>)>,
}

/// The element type and padded shape of a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileShape {
    /// The element type.
    pub dtype: DType,
    /// The padded sizes, outermost first.
    pub sizes: Vec<usize>,
}

/// A statement bound to sizes. The tokens, channels and edges are the business of who runs it.
#[derive(Clone, Debug)]
pub enum Step {
    /// The body for slot `slot` = 0, 1, … `extent` - 1.
    Loop {
        /// The slot of the coordinate.
        slot: usize,
        /// The number of iterations.
        extent: Extent,
        /// The body.
        body: Vec<Step>,
    },
    /// A statement on tiles and buffers. One with a token may complete later, at its await at the latest.
    Near(Arc<Near>),
    /// Waits for the statement that gave the token.
    Await(TokenId),
    /// See [`Statement::Acquire`].
    Acquire(ChannelId),
    /// See [`Statement::Commit`].
    Commit(ChannelId, Option<TokenId>),
    /// See [`Statement::Receive`].
    Receive(ChannelId),
    /// See [`Statement::Release`].
    Release(ChannelId),
    /// Waits for an edge.
    Wait(Arc<EdgeAt>),
    /// Notifies an edge.
    Notify(Arc<EdgeAt>),
}

/// An edge inside a body.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeAt {
    /// The edge.
    pub edge: Edge,
    /// The coordinates that it may name: those of the family and of the loops around, the first slots in this order.
    pub coordinates: Vec<Symbol>,
}

/// The number of iterations of a loop.
#[derive(Clone, Debug)]
pub struct Extent {
    code: Code,
    tables: Tables,
}

/// One statement on tiles and buffers, ready to run.
#[derive(Clone, Debug)]
pub struct Near {
    /// The token that it gives.
    pub token: Option<TokenId>,
    /// The tiles that it writes.
    pub writes: Vec<TileId>,
    /// The tile that it stores to memory.
    pub stores: Option<TileId>,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Fill(Fill),
    Load(Space, Access),
    Store(Space, Access),
    Compute(Compute),
    Convert(TileId, TileId),
    Reduce(Reduction),
    Contract(Contraction),
    Bits(Bits),
    Align(Align),
    Rescale(Rescale),
    Opaque(OpaqueCall),
}

/// A function of whole buffers.
#[derive(Clone, Debug)]
struct OpaqueCall {
    operator: &'static Special,
    axis: usize,
    operands: Vec<(BufferId, DType, Vec<usize>)>,
    results: Vec<(BufferId, DType, Vec<usize>)>,
}

/// What names mean where a statement is compiled.
pub(super) struct Scope<'a> {
    pub place: &'a Symbol,
    pub buffers: &'a [Buffer],
    pub tiles: &'a [Tile],
    pub coordinates: Vec<Symbol>,
    pub env: &'a dyn Env,
}

impl Scope<'_> {
    /// The code of a dim over the coordinates and these labels.
    pub fn code(&self, dim: &Dim, labels: &[Symbol]) -> Result<Code, Error> {
        let vars: Vec<Symbol> = self.coordinates.iter().chain(labels).cloned().collect();
        Code::dim(dim, &vars, self.env).map_err(fault)
    }

    /// The code of a condition over the coordinates and these labels.
    pub fn condition(&self, condition: &Cond, labels: &[Symbol]) -> Result<CondCode, Error> {
        let vars: Vec<Symbol> = self.coordinates.iter().chain(labels).cloned().collect();
        CondCode::cond(condition, &vars, self.env).map_err(fault)
    }

    /// The tile behind an id.
    pub fn tile(&self, id: TileId) -> Result<&Tile, Error> {
        self.tiles.get(id.0 as usize).ok_or_else(|| self.illegal(format!("there is no tile {}", id.0)))
    }

    pub fn find_tile(&self, name: &Symbol) -> Option<(TileId, &Tile)> {
        let index = self.tiles.iter().position(|tile| tile.name == *name)?;
        Some((TileId(index as u32), &self.tiles[index]))
    }

    pub fn find_buffer(&self, name: &Symbol) -> Option<(BufferId, Vec<i64>)> {
        let index = self.buffers.iter().position(|buffer| buffer.name == *name)?;
        let id = BufferId(index as u32);
        Some((id, self.extents(id).ok()?))
    }

    /// The buffer behind an id.
    pub fn buffer(&self, id: BufferId) -> Result<&Buffer, Error> {
        self.buffers.get(id.0 as usize).ok_or_else(|| self.illegal(format!("there is no buffer {}", id.0)))
    }

    /// The extents of a buffer; none is negative.
    pub fn extents(&self, id: BufferId) -> Result<Vec<i64>, Error> {
        let extent = |dim: &Dim| {
            let value = dim.eval(self.env).map_err(fault)?;
            if value < 0 { Err(overflow(&format!("the extent `{dim}`"))) } else { Ok(value) }
        };
        self.buffer(id)?.extents.iter().map(extent).collect()
    }

    /// A program that its verifier should have refused.
    pub fn illegal(&self, message: String) -> Error {
        Error::Bug { stage: "kernel", message: format!("{}: {message}", self.place) }
    }
}

impl Compiled {
    /// Binds the kernel of the family `name` to the symbols in `env`. Elements of tables that `env` gives are taken as
    /// constants; the others are read at run time.
    pub fn new(
        name: &Symbol,
        coordinates: &[Symbol],
        kernel: &Kernel,
        buffers: &[Buffer],
        env: &dyn Env,
    ) -> Result<Compiled, Error> {
        let scope =
            Scope { place: name, buffers, tiles: &kernel.tiles, coordinates: coordinates.to_vec(), env };
        let mut tiles = Vec::new();
        for tile in &kernel.tiles {
            let sizes =
                tile.ranges.iter().map(|range| usize::try_from(range.size).ok().filter(|size| *size > 0));
            let sizes: Option<Vec<usize>> = sizes.collect();
            let count =
                sizes.as_ref().and_then(|s| s.iter().try_fold(1usize, |n, size| n.checked_mul(*size)));
            match (sizes, count) {
                (Some(sizes), Some(..=MAX_ELEMENTS)) => tiles.push(TileShape { dtype: tile.dtype, sizes }),
                _ => return Err(scope.illegal(format!("tile `{}` has a bad size", tile.name))),
            }
        }
        let held = |index: usize| {
            let home = super::super::ir::Home::Channel(ChannelId(index as u32));
            let tiles = kernel.tiles.iter().enumerate().filter(move |(_, tile)| tile.home == home);
            tiles.map(|(tile, _)| TileId(tile as u32)).collect()
        };
        let channels =
            kernel.channels.iter().enumerate().map(|(k, channel)| (channel.pages, held(k))).collect();
        let mut compiler = Compiler { scope, slots: coordinates.len(), tokens: kernel.tokens };
        let prologue = compiler.steps(&kernel.prologue)?;
        let mut roles = Vec::new();
        for role in &kernel.roles {
            roles.push((role.name.clone(), compiler.steps(&role.body)?));
        }
        Ok(Compiled {
            name: name.clone(),
            coordinates: coordinates.len(),
            slots: compiler.slots,
            tiles,
            tokens: kernel.tokens as usize,
            channels,
            prologue,
            roles,
        })
    }

    /// Tiles of zeros.
    pub fn frame(&self) -> Frame {
        let tile = |shape: &TileShape| TileData::filled(shape.dtype, &shape.sizes, Scalar::zero(shape.dtype));
        Frame { tiles: self.tiles.iter().map(tile).collect(), bounds: Bounds::default(), bits: Vec::new() }
    }
}

impl Extent {
    /// The number of iterations at the coordinates in `slots`.
    pub fn eval(&self, slots: &[i64], frame: &Frame, machine: &impl Machine) -> Result<i64, Error> {
        self.code.eval(slots, &self.tables.lookup(&frame.tiles, machine, slots)).map_err(fault)
    }
}

struct Compiler<'a> {
    scope: Scope<'a>,
    slots: usize,
    tokens: u32,
}

impl Compiler<'_> {
    fn steps(&mut self, statements: &[Statement]) -> Result<Vec<Step>, Error> {
        statements.iter().map(|statement| self.step(statement)).collect()
    }

    fn step(&mut self, statement: &Statement) -> Result<Step, Error> {
        Ok(match statement {
            Statement::Loop { coordinate, extent, body } => {
                let tables = Tables::new(extent.tables(), &self.scope)?;
                let extent = Extent { code: self.scope.code(extent, &[])?, tables };
                let slot = self.scope.coordinates.len();
                self.scope.coordinates.push(coordinate.clone());
                self.slots = self.slots.max(slot + 1);
                let body = self.steps(body);
                self.scope.coordinates.pop();
                Step::Loop { slot, extent, body: body? }
            }
            Statement::Await { token } => Step::Await(*token),
            Statement::Acquire { channel } => Step::Acquire(*channel),
            Statement::Commit { channel, token } => Step::Commit(*channel, *token),
            Statement::Receive { channel } => Step::Receive(*channel),
            Statement::Release { channel } => Step::Release(*channel),
            Statement::Wait(edge) => Step::Wait(self.edge(edge)),
            Statement::Notify(edge) => Step::Notify(self.edge(edge)),
            near => Step::Near(Arc::new(self.near(near)?)),
        })
    }

    fn edge(&self, edge: &Edge) -> Arc<EdgeAt> {
        Arc::new(EdgeAt { edge: edge.clone(), coordinates: self.scope.coordinates.clone() })
    }

    fn near(&mut self, statement: &Statement) -> Result<Near, Error> {
        let scope = &self.scope;
        let mut token = None;
        let (writes, action) = match statement {
            Statement::Fill { tile, value } => (vec![*tile], Action::Fill(Fill::new(*tile, *value, scope)?)),
            Statement::Load { tile, buffer, index, when, token: t } => {
                token = *t;
                let (space, access) = Access::new(*tile, *buffer, index, when, scope)?;
                (vec![*tile], Action::Load(space, access))
            }
            Statement::Store { tile, buffer, index, token: t } => {
                token = *t;
                let (space, access) = Access::new(*tile, *buffer, index, &Cond::True, scope)?;
                (Vec::new(), Action::Store(space, access))
            }
            Statement::Compute { function, arguments, result } => {
                (vec![*result], Action::Compute(Compute::new(function, arguments, *result, scope)?))
            }
            Statement::Convert { from, to } => {
                let (a, b) = (scope.tile(*from)?, scope.tile(*to)?);
                let sizes = |tile: &Tile| tile.ranges.iter().map(|range| range.size).collect::<Vec<_>>();
                if a.dtype != b.dtype || sizes(a) != sizes(b) {
                    return Err(scope.illegal(format!("`{}` cannot be converted to `{}`", a.name, b.name)));
                }
                (vec![*to], Action::Convert(*from, *to))
            }
            Statement::Reduce { monoid, argument, position, mask, state } => (
                state.clone(),
                Action::Reduce(Reduction::new(monoid, *argument, position, mask, state, scope)?),
            ),
            Statement::Contract { factors, sum, mask } => {
                (vec![*sum], Action::Contract(Contraction::new(factors, *sum, mask, scope)?))
            }
            Statement::Mma { a, b, c, mask, token: t, .. } => {
                token = *t;
                (vec![*c], Action::Contract(Contraction::new(&[*a, *b], *c, mask, scope)?))
            }
            Statement::Bits { source, offset, width, signed, result } => {
                (vec![*result], Action::Bits(Bits::new(*source, *offset, *width, *signed, *result, scope)?))
            }
            Statement::Align { significand, exponent, result } => {
                (vec![*result], Action::Align(Align::new(*significand, *exponent, *result, scope)?))
            }
            Statement::Rescale { significand, from, to, result } => {
                (vec![*result], Action::Rescale(Rescale::new(*significand, *from, *to, *result, scope)?))
            }
            Statement::Opaque { operator, axis, operands, results } => {
                let describe = |id: &BufferId| {
                    let extents = scope.extents(*id)?.into_iter().map(|extent| extent as usize).collect();
                    Ok((*id, scope.buffer(*id)?.dtype, extents))
                };
                let describe = |ids: &[BufferId]| ids.iter().map(describe).collect::<Result<Vec<_>, Error>>();
                let (operands, results) = (describe(operands)?, describe(results)?);
                (Vec::new(), Action::Opaque(OpaqueCall { operator, axis: *axis, operands, results }))
            }
            _ => return Err(scope.illegal("a statement that is not on tiles".into())),
        };
        if token.is_some_and(|token| token.0 >= self.tokens) {
            return Err(scope.illegal("a token that the kernel does not have".into()));
        }
        let space = match &action {
            Action::Load(space, _) | Action::Store(space, _) => space.slots(),
            Action::Compute(compute) => compute.space.slots(),
            Action::Reduce(reduction) => reduction.space.slots(),
            Action::Contract(contraction) => contraction.space.slots(),
            Action::Bits(bits) => bits.0.space.slots(),
            Action::Align(align) => align.space.slots(),
            Action::Rescale(rescale) => rescale.space.slots(),
            Action::Fill(fill) => fill.0.space.slots(),
            Action::Convert(..) | Action::Opaque(_) => 0,
        };
        self.slots = self.slots.max(space);
        let stores = match statement {
            Statement::Store { tile, .. } => Some(*tile),
            _ => None,
        };
        Ok(Near { token, writes, stores, action })
    }
}

/// See [`Near::run`].
pub(super) fn run(
    near: &Near,
    slots: &mut [i64],
    frame: &mut Frame,
    machine: &mut impl Machine,
    numerics: Numerics,
) -> Result<(), Error> {
    match &near.action {
        Action::Fill(fill) => fill.run(slots, frame, machine, numerics),
        Action::Load(space, access) => access.load(space, slots, frame, machine),
        Action::Store(space, access) => access.store(space, slots, frame, machine),
        Action::Compute(compute) => compute.run(slots, frame, machine, numerics),
        Action::Convert(from, to) => {
            if from != to {
                let data = frame.tiles[from.0 as usize].data.clone();
                frame.tiles[to.0 as usize].data = data;
            }
            Ok(())
        }
        Action::Reduce(reduction) => reduction.run(slots, frame, machine, numerics),
        Action::Contract(contraction) => contraction.run(slots, frame, machine, numerics),
        Action::Bits(bits) => bits.run(slots, frame, machine, numerics),
        Action::Align(align) => align.run(slots, frame, machine),
        Action::Rescale(rescale) => rescale.run(slots, frame, machine, numerics),
        Action::Opaque(call) => call.run(machine, numerics),
    }
}

impl OpaqueCall {
    fn run(&self, machine: &mut impl Machine, numerics: Numerics) -> Result<(), Error> {
        let mut operands = Vec::new();
        for (id, dtype, extents) in &self.operands {
            let mut array = Array::filled(*dtype, extents, Scalar::zero(*dtype));
            let count = array.len();
            if count > 0 {
                machine.read(*id, 0, 1, ElementsMut::of(&mut array, 0, count));
            }
            operands.push(array);
        }
        let Some(function) = self.operator.opaque else {
            let message = format!("`{}` is no function of whole buffers", self.operator.name);
            return Err(Error::Bug { stage: "kernel", message });
        };
        let operands: Vec<&Array> = operands.iter().collect();
        let types: Vec<(DType, Vec<usize>)> = self.results.iter().map(|(_, t, e)| (*t, e.clone())).collect();
        let mut results = function(&operands, self.axis, &types);
        if results.len() != self.results.len() {
            return Err(Error::Bug {
                stage: "kernel",
                message: format!("`{}` gave too few results", self.operator.name),
            });
        }
        for ((id, _, _), array) in self.results.iter().zip(&mut results) {
            array.round(numerics);
            if !array.is_empty() {
                machine.write(*id, 0, 1, Elements::of(array, 0, array.len()));
            }
        }
        Ok(())
    }
}
