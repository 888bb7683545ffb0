//! Writing one function: a machine program in the making, what names mean where, and structured control.

use tilewright::dim::{Dim, Symbol};
use tilewright::kernel::{Kernel, TileId};
use tilewright::task::Buffer;

use super::place::Place;
use crate::machine::{BlockId, Builder, Class, Cond, Level, Mem, Right, ValueId};

/// Why a statement has no machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack(pub String);

/// A lack, in words.
pub fn lack<T>(what: impl Into<String>) -> Result<T, Lack> {
    Err(Lack(what.into()))
}

/// The status of a function that leaves because an index expression has no value, or one that it was not made for.
pub const NO_VALUE: i32 = 1;

/// Symbols that code reads from its context, in the order in which the context lists them.
#[derive(Clone, Debug, Default)]
pub struct Names(pub Vec<Symbol>);

impl Names {
    fn position(&mut self, symbol: &Symbol) -> usize {
        self.0.iter().position(|other| other == symbol).unwrap_or_else(|| {
            self.0.push(symbol.clone());
            self.0.len() - 1
        })
    }
}

/// What one function is written with.
pub struct Code<'a> {
    /// The program so far.
    pub b: Builder,
    /// The buffers of the program.
    pub buffers: &'a [Buffer],
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Where its tiles are in scratch.
    pub places: &'a [Place],
    /// The first byte of scratch.
    pub scratch: ValueId,
    names: &'a mut Names,
    symbols: ValueId,
    starts: ValueId,
    extents: ValueId,
    /// Coordinates and labels; the last of a name counts.
    bound: Vec<(Symbol, ValueId)>,
    /// Values of dims, each with the depth of control at which it was computed.
    known: Vec<(usize, Dim, ValueId)>,
    depth: usize,
}

/// A loop that has begun.
pub struct Loop {
    head: BlockId,
    done: BlockId,
    limit: ValueId,
    step: i32,
    /// The counter.
    pub index: ValueId,
    /// What is carried around.
    pub carried: Vec<ValueId>,
}

/// A conditional part that has begun.
pub struct If {
    done: BlockId,
}

impl<'a> Code<'a> {
    /// A function up to its body; the coordinates are bound.
    pub fn new(
        name: &str,
        level: Level,
        coordinates: &[Symbol],
        kernel: &'a Kernel,
        places: &'a [Place],
        buffers: &'a [Buffer],
        names: &'a mut Names,
    ) -> Code<'a> {
        let mut b = Builder::new(name, level);
        let [context, at] = b.entry();
        let [symbols, starts, extents, scratch] = [0, 8, 16, 24].map(|k| b.load64(Mem::at(context, k)));
        for (value, name) in
            [(symbols, "symbols"), (starts, "buffers"), (extents, "extents"), (scratch, "scratch")]
        {
            b.name(value, name);
        }
        let coordinate = |(k, name): (usize, &Symbol)| (name.clone(), b.load64(Mem::at(at, 8 * k as i32)));
        let bound = coordinates.iter().enumerate().map(coordinate).collect();
        let (known, depth) = (Vec::new(), 0);
        Code { b, buffers, kernel, places, scratch, names, symbols, starts, extents, bound, known, depth }
    }

    /// What a name means from here on.
    pub fn bind(&mut self, name: &Symbol, value: ValueId) {
        self.known.retain(|(_, dim, _)| !dim.mentions(name));
        self.bound.push((name.clone(), value));
    }

    /// Ends what `count` binds began.
    pub fn unbind(&mut self, count: usize) {
        for _ in 0..count {
            if let Some((name, _)) = self.bound.pop() {
                self.known.retain(|(_, dim, _)| !dim.mentions(&name));
            }
        }
    }

    /// The value of a name.
    pub fn symbol(&mut self, symbol: &Symbol) -> ValueId {
        let found = self.bound.iter().rev().find(|(name, _)| name == symbol).map(|(_, value)| *value);
        found.unwrap_or_else(|| {
            let at = self.names.position(symbol);
            self.b.load64(Mem::at(self.symbols, 8 * at as i32))
        })
    }

    /// The value of a dim where it is known.
    pub fn recall(&self, dim: &Dim) -> Option<ValueId> {
        self.known.iter().rev().find(|(_, known, _)| known == dim).map(|(_, _, value)| *value)
    }

    /// Keeps the value of a dim for as long as what was computed here is there.
    pub fn remember(&mut self, dim: &Dim, value: ValueId) {
        self.known.push((self.depth, dim.clone(), value));
    }

    /// Begins a part that does not always run: what it computes is not known behind it.
    pub fn enter(&mut self) {
        self.depth += 1;
    }

    /// Ends it.
    pub fn leave(&mut self) {
        self.depth -= 1;
        let depth = self.depth;
        self.known.retain(|(at, ..)| *at <= depth);
    }

    /// The first byte of a buffer.
    pub fn start(&mut self, buffer: usize) -> ValueId {
        self.b.load64(Mem::at(self.starts, 8 * buffer as i32))
    }

    /// An extent of a buffer.
    pub fn extent(&mut self, buffer: usize, axis: usize) -> ValueId {
        let before: usize = self.buffers[..buffer].iter().map(|buffer| buffer.extents.len()).sum();
        self.b.load64(Mem::at(self.extents, 8 * (before + axis) as i32))
    }

    /// Begins a loop over `start`, `start + step`, … below `limit`.
    pub fn begin_loop(
        &mut self,
        name: &str,
        start: ValueId,
        limit: ValueId,
        step: i32,
        init: &[ValueId],
    ) -> Loop {
        let carried: Vec<Class> = init.iter().map(|value| self.b.class(*value)).collect();
        let mut classes = vec![Class::General];
        classes.extend(&carried);
        let head = self.b.block(name, &classes);
        let done = self.b.block("done", &carried);
        let mut first = vec![start];
        first.extend(init);
        self.b.branch(Cond::Less, start, limit, head, &first, done, init);
        self.b.switch_to(head);
        let params = self.b.params(head);
        self.enter();
        Loop { head, done, limit, step, index: params[0], carried: params[1..].to_vec() }
    }

    /// Ends a loop whose iteration carries `next` on; gives what is carried after the last.
    pub fn end_loop(&mut self, at: Loop, next: &[ValueId]) -> Vec<ValueId> {
        let index = self.b.add_imm(at.index, at.step);
        let mut again = vec![index];
        again.extend(next);
        self.b.branch(Cond::Less, index, at.limit, at.head, &again, at.done, next);
        self.leave();
        self.b.switch_to(at.done);
        self.b.params(at.done)
    }

    /// Begins what is done only where `left cond right`.
    pub fn begin_if(&mut self, cond: Cond, left: ValueId, right: impl Into<Right>) -> If {
        let (then, done) = (self.b.block("then", &[]), self.b.block("done", &[]));
        self.b.branch(cond, left, right, then, &[], done, &[]);
        self.b.switch_to(then);
        self.enter();
        If { done }
    }

    /// Ends it.
    pub fn end_if(&mut self, at: If) {
        self.b.jump(at.done, &[]);
        self.leave();
        self.b.switch_to(at.done);
    }

    /// `then()` where `left cond right`, else `otherwise()`: general registers.
    pub fn choose(
        &mut self,
        condition: (Cond, ValueId, Right),
        then: impl FnOnce(&mut Self) -> Result<Vec<ValueId>, Lack>,
        otherwise: impl FnOnce(&mut Self) -> Result<Vec<ValueId>, Lack>,
    ) -> Result<Vec<ValueId>, Lack> {
        let (yes, no) = (self.b.block("then", &[]), self.b.block("else", &[]));
        self.b.branch(condition.0, condition.1, condition.2, yes, &[], no, &[]);
        self.b.switch_to(yes);
        self.enter();
        let first = then(self)?;
        self.leave();
        let classes: Vec<Class> = first.iter().map(|value| self.b.class(*value)).collect();
        let done = self.b.block("done", &classes);
        self.b.jump(done, &first);
        self.b.switch_to(no);
        self.enter();
        let second = otherwise(self)?;
        self.leave();
        self.b.jump(done, &second);
        self.b.switch_to(done);
        Ok(self.b.params(done))
    }

    /// The tile of a name.
    pub fn tile_named(&self, name: &Symbol) -> Option<TileId> {
        let at = self.kernel.tiles.iter().position(|tile| tile.name == *name)?;
        Some(TileId(at as u32))
    }

    /// `a · constant`.
    pub fn times(&mut self, a: ValueId, factor: i64) -> Result<ValueId, Lack> {
        match factor {
            0 => Ok(self.b.imm(0)),
            1 => Ok(a),
            _ if factor > 0 && factor.count_ones() == 1 => Ok(self.b.shl(a, factor.trailing_zeros() as u8)),
            _ => match i32::try_from(factor) {
                Ok(factor) => Ok(self.b.mul_imm(a, factor)),
                Err(_) => lack("a distance beyond 32 bits"),
            },
        }
    }
}
