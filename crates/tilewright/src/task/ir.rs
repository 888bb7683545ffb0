//! Who waits for whom: families of tasks over index spaces, ordered by event tensors.
//!
//! A *family* is one body over an index space of coordinates; a *task* is one point of it, run by one worker from its
//! waits to its notifies without pause. An *event* is an array of counters: a task that waits for a cell starts its
//! body when the cell has been notified `wait` times. Counters only rise; in epoch `e` (the e-th run, from 1) the
//! threshold is `e · wait`, so nothing is reset between runs.
//!
//! The *rank* of a task is its position in [`Program::steps`], with each repeat's coordinate at the depth of the
//! repeat: every worker runs its tasks in rising rank, and every event edge goes from a lower to a higher rank, which
//! is why no schedule of the program can deadlock.

use crate::block;
use crate::dim::{Dim, Facts, Symbol};
use crate::tensor::{DType, ParamKind, TensorType};

/// A buffer: an index into [`Program::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// An event tensor: an index into [`Program::events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u32);

/// A task family: an index into [`Program::families`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilyId(pub u32);

/// What a buffer is to the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum BufferKind {
    /// A parameter. `State` is written in place, the others are only read.
    Param(ParamKind),
    /// A result that the caller's memory takes.
    Output,
    /// The program's own memory: `offset` bytes into its arena, over symbols.
    Temporary {
        /// The first byte.
        offset: Dim,
    },
}

/// A level of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Near one worker: L1 or shared memory.
    Near,
    /// Shared by a few workers: L2, or the shared memories of a cluster.
    Cluster,
    /// The device's memory, caches included.
    Memory,
}

/// A dense row-major array in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The name, unique in the program.
    pub name: Symbol,
    /// What it is.
    pub kind: BufferKind,
    /// The element type.
    pub dtype: DType,
    /// The extents in storage order, over symbols.
    pub extents: Vec<Dim>,
    /// For each axis whether it has padding, which nobody needs to write: its extent bounds those that the elements
    /// have at each index along the other axes.
    pub padded: Vec<bool>,
    /// Where it lives.
    pub tier: Tier,
}

/// How far apart the two ends of an event may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The same worker.
    Core,
    /// Workers that share a near tier.
    Cluster,
    /// Workers of one chip.
    Chip,
    /// Workers of one device.
    Device,
    /// Any worker of the machine.
    System,
}

/// An event tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The name, unique in the program.
    pub name: Symbol,
    /// Its axes: a coordinate name for `wait`, and an extent over symbols.
    pub axes: Vec<(Symbol, Dim)>,
    /// The notifies after which a cell is satisfied, over the axes' names and symbols; 0 satisfies it from the start.
    pub wait: Dim,
    /// How far it reaches.
    pub scope: Scope,
}

/// Which cells along one axis of an event a task means: the five forms of an edge map, and no other. Expressions are
/// over the task's coordinates and symbols.
#[derive(Clone, Debug, PartialEq)]
pub enum EdgeIndex {
    /// One cell, affine in the coordinates (text `[m + 1]`).
    Affine(Dim),
    /// One cell, a floor or ceiling division of an affine expression (`[floordiv(m, 2)]`).
    Quotient(Dim),
    /// The cells `lo..hi`, none where empty; affine expressions, quotients, `min` and `max` of them (`[2*m..2*m + 2]`).
    Range {
        /// The first.
        lo: Dim,
        /// The first not meant.
        hi: Dim,
    },
    /// The cells `lo..hi`, of expressions that read integer tensors (`[off[e]..off[e + 1]]`).
    TableRange {
        /// The first.
        lo: Dim,
        /// The first not meant.
        hi: Dim,
    },
    /// The set of cells `cell` for `label` in `lo..hi`, where `cell` reads an integer tensor (`[{page[i] for i in lo..hi}]`).
    Gather {
        /// The label.
        label: Symbol,
        /// Its first value.
        lo: Dim,
        /// The first value that it does not take.
        hi: Dim,
        /// The cell, over the label too.
        cell: Dim,
    },
}

/// An end of an event edge at a task: the product of its indices.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The event.
    pub event: EventId,
    /// One index per axis of the event.
    pub index: Vec<EdgeIndex>,
}

/// Indices along one axis of a buffer that a task touches: `lo..hi` over its coordinates, symbols and elements of
/// integer tensors; the whole axis where that is all that is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The first.
    pub lo: Dim,
    /// The first that is not touched.
    pub hi: Dim,
}

/// A part of a buffer that a task reads or writes: at most the product of its intervals. Stated, so that whoever
/// verifies a program need not trust how its events were derived; the body is checked against it.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// One interval per axis.
    pub region: Vec<Interval>,
}

/// One body over an index space.
#[derive(Clone, Debug, PartialEq)]
pub struct Family<B = Body> {
    /// The name, unique in the program.
    pub name: Symbol,
    /// The coordinates and their extents over symbols; those of enclosing repeats come first, outermost first, and are
    /// repeated here.
    pub coordinates: Vec<(Symbol, Dim)>,
    /// What its tasks read: every load of the body, and every integer tensor that its indices and edges read.
    pub reads: Vec<Access>,
    /// What its tasks write.
    pub writes: Vec<Access>,
    /// What a task waits for, in order; an edge may read an integer tensor whose producer an earlier one waits for.
    pub waits: Vec<Edge>,
    /// What a task notifies, once each, when its writes are done.
    pub notifies: Vec<Edge>,
    /// What a task does.
    pub body: B,
}

/// The body of a family, before `kernel::lower`: block nodes whose tensors are buffers in storage order.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// The tensors and items of the nodes below. A tensor's name is the name of its buffer, and its type is
    /// [`Buffer::ty`]; no item has the name of a buffer.
    pub values: Vec<block::Value>,
    /// Loads that depend on no event: done before the waits, while an earlier task still runs.
    pub prologue: Vec<block::Node>,
    /// The rest.
    pub nodes: Vec<block::Node>,
}

/// The order of the program.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// All tasks of a family, in the row-major order of its own coordinates.
    Family(FamilyId),
    /// The steps for each value of a coordinate, in order.
    Repeat {
        /// The coordinate's name.
        coordinate: Symbol,
        /// How many values it takes.
        extent: Dim,
        /// The steps.
        steps: Vec<Step>,
    },
}

/// A whole computation as one set of ordered tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Program<B = Body> {
    /// The name.
    pub name: Symbol,
    /// What is known of the symbols.
    pub facts: Facts,
    /// The buffers: parameters in order, outputs in order, then temporaries.
    pub buffers: Vec<Buffer>,
    /// For each result of the program the buffer that holds it: an output, or a state that was updated in place.
    pub results: Vec<BufferId>,
    /// The bytes of the arena of temporaries, over symbols.
    pub arena: Dim,
    /// The event tensors.
    pub events: Vec<Event>,
    /// The families.
    pub families: Vec<Family<B>>,
    /// Their order.
    pub steps: Vec<Step>,
}

impl Buffer {
    /// The tensor that stands for the buffer in bodies: its storage axes, named `a0`, `a1`, ….
    pub fn ty(&self) -> TensorType {
        let axes = self.extents.iter().enumerate();
        TensorType::new(self.dtype, axes.map(|(k, extent)| (Symbol::from(format!("a{k}")), extent.clone())))
    }
}

impl Body {
    /// Numbers the values in the order in which the text names them, the prologue first, and drops the others.
    pub fn renumber(&mut self) {
        let Body { values, prologue, nodes } = self;
        block::visit::renumber(values, |f| {
            prologue.iter_mut().chain(nodes).for_each(|node| node.for_each_value(f));
        });
    }
}

impl EdgeIndex {
    /// The index of one cell in the form that its expression has: affine in the coordinates, or else a quotient.
    pub fn cell(coordinates: &[(Symbol, Dim)], cell: Dim) -> EdgeIndex {
        let names: Vec<Symbol> = coordinates.iter().map(|(name, _)| name.clone()).collect();
        if cell.tables().is_empty() && cell.affine(&names).is_some() {
            EdgeIndex::Affine(cell)
        } else {
            EdgeIndex::Quotient(cell)
        }
    }

    /// The index of the cells `lo..hi` in the form that its expressions have: a table range if they read a table.
    pub fn range(lo: Dim, hi: Dim) -> EdgeIndex {
        if lo.tables().is_empty() && hi.tables().is_empty() {
            EdgeIndex::Range { lo, hi }
        } else {
            EdgeIndex::TableRange { lo, hi }
        }
    }
}

impl<B> Program<B> {
    /// The buffer behind an id.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// The event behind an id.
    pub fn event(&self, id: EventId) -> &Event {
        &self.events[id.0 as usize]
    }

    /// The family behind an id.
    pub fn family(&self, id: FamilyId) -> &Family<B> {
        &self.families[id.0 as usize]
    }

    /// The buffer with this name.
    pub fn find_buffer(&self, name: &Symbol) -> Option<BufferId> {
        self.buffers.iter().position(|buffer| buffer.name == *name).map(|index| BufferId(index as u32))
    }

    /// The same program with every body replaced.
    pub fn with_bodies<C>(self, mut body: impl FnMut(FamilyId, Family<()>, B) -> C) -> Program<C> {
        let families = self
            .families
            .into_iter()
            .enumerate()
            .map(|(index, family)| {
                let Family { name, coordinates, reads, writes, waits, notifies, body: old } = family;
                let bare = Family { name, coordinates, reads, writes, waits, notifies, body: () };
                let new = body(FamilyId(index as u32), bare.clone(), old);
                let Family { name, coordinates, reads, writes, waits, notifies, body: () } = bare;
                Family { name, coordinates, reads, writes, waits, notifies, body: new }
            })
            .collect();
        Program {
            name: self.name,
            facts: self.facts,
            buffers: self.buffers,
            results: self.results,
            arena: self.arena,
            events: self.events,
            families,
            steps: self.steps,
        }
    }
}
