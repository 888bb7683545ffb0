//! From the kernel of a family to a machine program; `docs/native.md` has the design.
//!
//! One function serves every size. It reads symbols, buffers and extents from its [`crate::native::Context`], and leaves
//! with a status other than 0 where an index expression has no value: then the portable executor runs the task, and says
//! what is wrong. A statement that is not covered is a [`Lack`], and its family runs in the portable executor as a whole.
//!
//! Tiles are in a register within one loop, in scratch between loops, rows padded to whole vectors.

mod access;
mod code;
mod contraction;
mod convert;
mod function;
mod group;
mod in_order;
mod index;
mod lanes;
mod place;
mod plan;
mod product;

pub use code::{Lack, Names};

use std::collections::{BTreeMap, BTreeSet};

use code::{Code, lack};
use place::Scratch;
use plan::Item;
use product::Operand;
use tilewright::dim::Symbol;
use tilewright::kernel::{Kernel, Mask, Statement, Tile, TileId};
use tilewright::task::{Buffer, Family};

use crate::machine::{Level, Program};

/// The program of a family.
pub struct Selected {
    /// What a task does; what could be done before its waits is done behind them.
    pub program: Program,
    /// Bytes of scratch.
    pub scratch: usize,
}

/// One body in the making.
struct Selector<'a> {
    code: Code<'a>,
    kernel: &'a Kernel,
    scratch: Scratch,
    kept: &'a BTreeSet<TileId>,
    operands: BTreeMap<TileId, Operand>,
}

/// The program of a family's kernel at a level.
///
/// # Errors
/// The first statement that is not covered, and why.
pub fn select(
    family: &Family<Kernel>,
    buffers: &[Buffer],
    level: Level,
    names: &mut Names,
) -> Result<Selected, Lack> {
    let kernel = &family.body;
    let [role] = kernel.roles.as_slice() else { return lack("several roles") };
    if !kernel.channels.is_empty() {
        return lack("channels");
    }
    let mut scratch;
    let statements = || kernel.prologue.iter().chain(&role.body);
    let mut factors = plan::factors(kernel, statements());
    let places = loop {
        scratch = Scratch::default();
        let wanted = |id: usize| factors.get(&TileId(id as u32)).copied();
        let places = place::places(kernel, &mut scratch, &wanted)?;
        // Factors of what has no form are read term by term, from scratch.
        let others = plan::formless(kernel, statements(), &places);
        let before = factors.len();
        factors.retain(|id, _| !others.contains(id));
        if factors.len() == before {
            break places;
        }
    };
    let items = plan::items(kernel, statements(), &factors)?;
    let mut kept = BTreeSet::new();
    plan::kept(kernel, &items, &mut kept);
    let coordinates: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
    let name = family.name.to_string();
    let code = Code::new(&name, level, &coordinates, kernel, &places, buffers, names);
    let mut selector = Selector { code, kernel, scratch, kept: &kept, operands: BTreeMap::new() };
    selector.items(&items)?;
    let Selector { mut code, scratch, .. } = selector;
    let good = code.b.imm(0);
    code.b.ret(good);
    match code.b.finish() {
        Ok(program) => Ok(Selected { program, scratch: scratch.bytes() }),
        Err(illegal) => lack(illegal.to_string()),
    }
}

impl<'a> Selector<'a> {
    fn tile(&self, id: TileId) -> &'a Tile {
        &self.kernel.tiles[id.0 as usize]
    }

    /// A product in the form that it has, or term by term.
    fn any_product(&mut self, factors: &[TileId], sum: TileId, mask: &'a Mask) -> Result<(), Lack> {
        if let [a, b] = factors
            && let Some(form) = product::form(self.kernel, self.code.places, [*a, *b, sum], mask)
        {
            return self.product([*a, *b, sum], mask, &form);
        }
        self.contraction(factors, sum, mask)
    }

    fn items(&mut self, items: &[Item<'a>]) -> Result<(), Lack> {
        for item in items {
            match item {
                Item::Group(statements) => self.group(statements)?,
                Item::Operand(statement) => self.operand(statement)?,
                Item::InOrder(statement) => self.in_order(statement)?,
                Item::Product(Statement::Mma { a, b, c, mask, .. }) => {
                    self.any_product(&[*a, *b], *c, mask)?
                }
                Item::Product(Statement::Contract { factors, sum, mask }) => {
                    self.any_product(factors, *sum, mask)?;
                }
                Item::Product(other) => return lack(format!("the statement `{}`", plan::name(other))),
                Item::Loop(coordinate, extent, body) => {
                    let zero = self.code.b.imm(0);
                    let limit = self.code.dim(extent)?;
                    let turn = self.code.begin_loop(coordinate.as_str(), zero, limit, 1, &[]);
                    self.code.bind(coordinate, turn.index);
                    self.items(body)?;
                    self.code.unbind(1);
                    self.code.end_loop(turn, &[]);
                }
            }
        }
        Ok(())
    }
}
