//! Code of task bodies and of the worker loop: loops, tiles, loads, stores, products, tokens, channels.
//!
//! A [`Tile`] is a value of fixed shape with a *layout* (hardware location → index) in a *home* (registers, tile
//! registers, near memory, …). Its labels stand for global indices over ranges that start at expressions of the
//! coordinates, as in `block`; positions at or past a range's end are *padding*: their contents are unspecified, never
//! stored, and excluded from reductions and products by masks that each statement implies. [`Statement::Convert`] is
//! the only way between homes and layouts.
//!
//! Asynchronous statements give a token; what they write may be read, and what they read may be overwritten, only
//! after [`Statement::Await`] of the token. A [`Channel`] is a ring of pages between roles. On a core all roles are one
//! worker, a copy is a plain load and a token is nothing.

use crate::block::{Argument as BlockArgument, Range};
use crate::dim::{Cond, Dim, Symbol};
use crate::task::{self, BufferId, Edge};
use crate::tensor::{DType, Elementwise, Monoid, Scalar, Special};

/// A tile of a kernel: an index into [`Kernel::tiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileId(pub u32);

/// A token of a kernel: an index below [`Kernel::tokens`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(pub u32);

/// A channel of a kernel: an index into [`Kernel::channels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u32);

/// A task program whose bodies are kernels, and the loop that each worker runs over its queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Buffers, events, families and their order.
    pub tasks: task::Program<Kernel>,
    /// The worker loop.
    pub worker: Vec<WorkerStep>,
}

/// A step of the worker loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerStep {
    /// Take the next task of the queue.
    Fetch,
    /// Run the prologue of the fetched task, into pages that no running task owns.
    Prologue,
    /// Wait for the task's edges, in order.
    Wait,
    /// Run the body.
    Body,
    /// Notify the task's edges, after its stores are visible in the event's scope.
    Notify,
}

/// Where a tile is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// Vector registers.
    Registers,
    /// Matrix tile registers (AMX tiles, tensor memory).
    TileRegisters,
    /// A page of near memory: L1 or shared memory.
    Near,
    /// Second-level near memory.
    Cluster,
    /// Slow memory: a worker's spill space.
    Memory,
    /// The current page of a channel, seen from the role that holds it.
    Channel(ChannelId),
}

/// A tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// The name, unique in the kernel.
    pub name: Symbol,
    /// The element type.
    pub dtype: DType,
    /// The axes: label, first global index, padded size, end.
    pub ranges: Vec<Range>,
    /// Which hardware location holds which element.
    pub layout: super::layout::Layout,
    /// Where it is held.
    pub home: Home,
}

/// A ring of pages from one role to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// The name.
    pub name: Symbol,
    /// How many pages.
    pub pages: usize,
    /// The bytes of a page.
    pub bytes: usize,
    /// The role that fills pages.
    pub producer: Symbol,
    /// The role that reads them.
    pub consumer: Symbol,
}

/// What one task does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// The tiles.
    pub tiles: Vec<Tile>,
    /// How many tokens there are.
    pub tokens: u32,
    /// The channels.
    pub channels: Vec<Channel>,
    /// Before the waits.
    pub prologue: Vec<Statement>,
    /// After the waits: the bodies of the roles, run side by side. One role named `worker` where nothing is
    /// specialised.
    pub roles: Vec<Role>,
}

/// A part of the worker with a body of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// The name.
    pub name: Symbol,
    /// What it does.
    pub body: Vec<Statement>,
}

/// What a statement computes with: a tile, a number, an index, or a condition.
pub type Argument = BlockArgument<TileId>;

/// Which index tuples of a reduction or product take part: inside every range, where the condition holds and every mask tile is true.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// The condition on labels, coordinates, symbols and elements of integer tensors.
    pub condition: Cond,
    /// Boolean tiles.
    pub tiles: Vec<TileId>,
}

/// One statement. Index expressions are over the labels of the tiles involved, coordinates, symbols, elements of
/// integer buffers by name, and elements of integer tiles by name (`idx[i]`: gather and scatter).
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// The body for `coordinate` = 0, 1, … `extent` - 1.
    Loop {
        /// The coordinate.
        coordinate: Symbol,
        /// The number of iterations.
        extent: Dim,
        /// The body.
        body: Vec<Statement>,
    },
    /// `tile[labels] = value` where the labels are in range.
    Fill {
        /// The tile.
        tile: TileId,
        /// The value.
        value: Scalar,
    },
    /// `tile[labels] = buffer[index]` where the labels are in range: 0 where `when` fails or the index lies outside.
    Load {
        /// The tile.
        tile: TileId,
        /// The buffer.
        buffer: BufferId,
        /// The index along each axis of the buffer.
        index: Vec<Dim>,
        /// Where elements are read.
        when: Cond,
        /// The token, if asynchronous.
        token: Option<TokenId>,
    },
    /// `buffer[index] = tile[labels]` where the labels are in range and the index lies inside.
    Store {
        /// The tile.
        tile: TileId,
        /// The buffer.
        buffer: BufferId,
        /// The index along each axis of the buffer.
        index: Vec<Dim>,
        /// The token, if asynchronous.
        token: Option<TokenId>,
    },
    /// `result[labels] = function(arguments)`, elementwise; a tile is broadcast along labels that it lacks.
    Compute {
        /// The table row.
        function: &'static Elementwise,
        /// What it reads.
        arguments: Vec<Argument>,
        /// The tile.
        result: TileId,
    },
    /// `to[labels] = from[labels]`: another layout or home, same element type and ranges.
    Convert {
        /// What is read.
        from: TileId,
        /// What is written.
        to: TileId,
    },
    /// `state[kept] ⊕= argument`, in index order over the labels that the state lacks, under the mask.
    Reduce {
        /// The monoid.
        monoid: &'static Monoid,
        /// What is reduced.
        argument: TileId,
        /// The position of an element in the whole reduction.
        position: Dim,
        /// Which index tuples take part.
        mask: Mask,
        /// The state, updated: one tile per component.
        state: Vec<TileId>,
    },
    /// `sum[kept] += Π factors`, under the mask, over the labels that the sum lacks, in index order: row-major over them
    /// in the order in which they first appear in the factors. Products and sums are of the sum's type. The general
    /// form, for any labels and types; see [`Statement::Mma`].
    Contract {
        /// One to three factors.
        factors: Vec<TileId>,
        /// The sum, updated.
        sum: TileId,
        /// Which terms take part.
        mask: Mask,
    },
    /// `c[m, n] += Σ_k a[m, k] · b[n, k]`, in index order over `k`, under the mask, by the instruction row of the
    /// target with this name. Each of `m`, `n` and `k` may be several labels; labels shared by all three have size 1.
    Mma {
        /// The instruction row.
        row: Symbol,
        /// The left factor.
        a: TileId,
        /// The right factor.
        b: TileId,
        /// The sum, updated.
        c: TileId,
        /// Which terms take part.
        mask: Mask,
        /// The token, if asynchronous.
        token: Option<TokenId>,
    },
    /// Bits `offset..offset + width` of each element of an integer tile, sign-extended or not.
    Bits {
        /// What is read.
        source: TileId,
        /// The first bit.
        offset: u32,
        /// How many bits.
        width: u32,
        /// Whether the field is two's complement.
        signed: bool,
        /// What is written.
        result: TileId,
    },
    /// The largest exponent over the labels that the result lacks, among elements whose significand is not zero; the
    /// smallest integer of the type where there is none.
    Align {
        /// The significands.
        significand: TileId,
        /// Their exponents.
        exponent: TileId,
        /// The common exponent.
        result: TileId,
    },
    /// `result = significand · 2^(from - to)`; 0 where the significand is 0.
    Rescale {
        /// The significands.
        significand: TileId,
        /// Their exponents.
        from: TileId,
        /// The exponents wanted.
        to: TileId,
        /// The significands at those.
        result: TileId,
    },
    /// A function of whole buffers, by its reference meaning.
    Opaque {
        /// The operator.
        operator: &'static Special,
        /// The axis of the first operand along which it works.
        axis: usize,
        /// What it reads.
        operands: Vec<BufferId>,
        /// What it writes.
        results: Vec<BufferId>,
    },
    /// Waits for the statement that gave the token; each token is awaited once.
    Await {
        /// The token.
        token: TokenId,
    },
    /// Takes an empty page of a channel, as its producer; waits until there is one.
    Acquire {
        /// The channel.
        channel: ChannelId,
    },
    /// Hands the page that the producer holds to the consumer, once `token` has completed.
    Commit {
        /// The channel.
        channel: ChannelId,
        /// What fills the page.
        token: Option<TokenId>,
    },
    /// Takes the oldest full page, as the consumer; waits until there is one.
    Receive {
        /// The channel.
        channel: ChannelId,
    },
    /// Hands the page that the consumer holds back, empty.
    Release {
        /// The channel.
        channel: ChannelId,
    },
    /// Waits for an edge inside a body, in rank order.
    Wait(Edge),
    /// Notifies an edge inside a body.
    Notify(Edge),
}

impl Tile {
    /// The bytes that it takes, padding included.
    pub fn bytes(&self) -> u64 {
        let sizes = self.ranges.iter().map(|range| u64::try_from(range.size).unwrap_or(u64::MAX));
        sizes.fold(self.dtype.bytes() as u64, u64::saturating_mul)
    }
}

impl Mask {
    /// The mask that admits every index tuple in range.
    pub fn always() -> Mask {
        Mask { condition: Cond::True, tiles: Vec::new() }
    }

    /// Whether every index tuple in range is admitted.
    pub fn is_always(&self) -> bool {
        self.condition.is_true() && self.tiles.is_empty()
    }
}

impl Statement {
    /// The tiles that the statement itself, not its body, reads; a tile that it updates is both read and written.
    /// Tiles that its index expressions read by name are not among them.
    pub fn reads(&self) -> Vec<TileId> {
        match self {
            Statement::Store { tile, .. } => vec![*tile],
            Statement::Compute { arguments, .. } => {
                let tile = |argument: &Argument| match argument {
                    Argument::Item(id) => Some(*id),
                    _ => None,
                };
                arguments.iter().filter_map(tile).collect()
            }
            Statement::Convert { from, .. } => vec![*from],
            Statement::Reduce { argument, mask, state, .. } => {
                std::iter::once(argument).chain(&mask.tiles).chain(state).copied().collect()
            }
            Statement::Contract { factors, sum, mask } => {
                factors.iter().chain([sum]).chain(&mask.tiles).copied().collect()
            }
            Statement::Mma { a, b, c, mask, .. } => {
                [a, b, c].into_iter().chain(&mask.tiles).copied().collect()
            }
            Statement::Bits { source, .. } => vec![*source],
            Statement::Align { significand, exponent, .. } => vec![*significand, *exponent],
            Statement::Rescale { significand, from, to, .. } => vec![*significand, *from, *to],
            _ => Vec::new(),
        }
    }

    /// The tiles that the statement itself, not its body, writes.
    pub fn writes(&self) -> Vec<TileId> {
        match self {
            Statement::Fill { tile, .. } | Statement::Load { tile, .. } => vec![*tile],
            Statement::Compute { result, .. }
            | Statement::Bits { result, .. }
            | Statement::Align { result, .. }
            | Statement::Rescale { result, .. } => vec![*result],
            Statement::Convert { to, .. } => vec![*to],
            Statement::Reduce { state, .. } => state.clone(),
            Statement::Contract { sum, .. } => vec![*sum],
            Statement::Mma { c, .. } => vec![*c],
            _ => Vec::new(),
        }
    }

    /// The token that the statement gives.
    pub fn token(&self) -> Option<TokenId> {
        match self {
            Statement::Load { token, .. } | Statement::Store { token, .. } | Statement::Mma { token, .. } => {
                *token
            }
            _ => None,
        }
    }

    /// Calls `f` on every index expression of the statement itself, with the labels that it may use being those of
    /// the tiles that it reads and writes; and on both sides of every condition.
    pub fn visit_dims(&self, f: &mut dyn FnMut(&Dim)) {
        match self {
            Statement::Loop { extent, .. } => f(extent),
            Statement::Load { index, when, .. } => {
                index.iter().for_each(&mut *f);
                when.visit_dims(f);
            }
            Statement::Store { index, .. } => index.iter().for_each(f),
            Statement::Compute { arguments, .. } => {
                for argument in arguments {
                    match argument {
                        Argument::Index(dim) => f(dim),
                        Argument::Holds(cond) => cond.visit_dims(f),
                        Argument::Item(_) | Argument::Literal(_) => {}
                    }
                }
            }
            Statement::Reduce { position, mask, .. } => {
                f(position);
                mask.condition.visit_dims(f);
            }
            Statement::Contract { mask, .. } | Statement::Mma { mask, .. } => mask.condition.visit_dims(f),
            _ => {}
        }
    }
}
