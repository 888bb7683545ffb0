//! From the kernel of a family to machine code; `docs/native.md` has the design.
//!
//! One function serves every size. It reads symbols, buffers and extents from its [`crate::native::Context`], and leaves
//! with a status other than 0 where an index expression has no value: then the portable executor runs the task, and says
//! what is wrong. A statement that is not covered is a [`Lack`], and its family runs in the portable executor as a whole.
//!
//! Tiles are held as singles: in a register within one loop, in scratch between loops, rows padded to whole vectors.

mod emit;
mod functions;
mod group;
mod plan;
mod product;

pub use emit::{Lack, Names};

use std::collections::BTreeSet;

use emit::{Emitter, Slot};
use iced_x86::code_asm::{CodeLabel, qword_ptr, r15, rax, rcx, rdx};
use plan::Item;
use tilewright::dim::Symbol;
use tilewright::kernel::{Kernel, Statement, Tile, TileId};
use tilewright::task::{Buffer, Family};
use tilewright::tensor::DType;

/// Elements of a vector.
const LANES: i64 = 16;

/// Bytes of a vector.
const VECTOR: usize = 64;

/// The most bytes of scratch that a family may take.
const MAX_SCRATCH: usize = 1 << 24;

/// The code of a family.
pub struct Selected {
    /// What runs before the waits; none where that is nothing.
    pub prologue: Option<Vec<u8>>,
    /// What runs after them.
    pub body: Vec<u8>,
    /// Bytes of scratch that both share.
    pub scratch: usize,
}

/// Where a tile is in scratch.
#[derive(Clone, Debug)]
struct Place {
    offset: usize,
    /// Elements per step, by axis.
    strides: Vec<i64>,
}

/// One body in the making.
struct Selector<'a> {
    e: Emitter<'a>,
    kernel: &'a Kernel,
    places: &'a [Place],
    kept: &'a BTreeSet<TileId>,
}

/// The code of a family's kernel.
///
/// # Errors
/// The first statement that is not covered, and why.
pub fn select(family: &Family<Kernel>, buffers: &[Buffer], names: &mut Names) -> Result<Selected, Lack> {
    let kernel = &family.body;
    let [role] = kernel.roles.as_slice() else { return Err(Lack("several roles".into())) };
    if !kernel.channels.is_empty() {
        return Err(Lack("channels".into()));
    }
    let (places, scratch) = places(kernel)?;
    let (prologue, body) = (plan::items(kernel, &kernel.prologue)?, plan::items(kernel, &role.body)?);
    let mut kept = BTreeSet::new();
    plan::kept(&prologue, &mut kept);
    plan::kept(&body, &mut kept);
    let coordinates: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
    let mut write = |items: &[Item<'_>]| -> Result<Vec<u8>, Lack> {
        let e = Emitter::new(&coordinates, buffers, names)?;
        let mut selector = Selector { e, kernel, places: &places, kept: &kept };
        selector.items(items)?;
        selector.e.finish()
    };
    let prologue = if prologue.is_empty() { None } else { Some(write(&prologue)?) };
    Ok(Selected { prologue, body: write(&body)?, scratch })
}

/// Where tiles are in scratch, and how many bytes that takes. Behind each there is room for whatever a vector or a
/// register tile reads past its end.
fn places(kernel: &Kernel) -> Result<(Vec<Place>, usize), Lack> {
    let (mut places, mut at) = (Vec::new(), 0usize);
    for tile in &kernel.tiles {
        if !matches!(tile.dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::Bool) {
            return Err(Lack(format!("the tile `{}` of type {}", tile.name, tile.dtype)));
        }
        let inner = plan::inner(tile);
        let mut strides = vec![0; tile.ranges.len()];
        let (mut stride, mut pitch) = (1i64, LANES);
        for (axis, range) in tile.ranges.iter().enumerate().rev() {
            strides[axis] = stride;
            let size = if Some(axis) == inner {
                pitch = range.size.max(1).saturating_add(LANES - 1) / LANES * LANES;
                pitch
            } else {
                range.size
            };
            stride = stride.saturating_mul(size);
        }
        let elements = stride.max(LANES).saturating_add(pitch.saturating_mul(product::ROWS as i64));
        let bytes = usize::try_from(elements.saturating_mul(4)).unwrap_or(usize::MAX);
        places.push(Place { offset: at, strides });
        at = at.saturating_add(bytes).next_multiple_of(VECTOR);
        if at > MAX_SCRATCH {
            return Err(Lack(format!("tiles of more than {MAX_SCRATCH} bytes")));
        }
    }
    Ok((places, at.max(VECTOR)))
}

impl<'a> Selector<'a> {
    fn tile(&self, id: TileId) -> &'a Tile {
        &self.kernel.tiles[id.0 as usize]
    }

    fn items(&mut self, items: &[Item<'_>]) -> Result<(), Lack> {
        for item in items {
            match item {
                Item::Group(statements) => self.group(statements)?,
                Item::Strided(statement) => self.strided(statement)?,
                Item::Product(Statement::Mma { a, b, c, mask, .. }) => self.product([*a, *b, *c], mask)?,
                Item::Product(Statement::Contract { factors, sum, mask }) => match factors.as_slice() {
                    [a, b] => self.product([*a, *b, *sum], mask)?,
                    _ => return Err(Lack("a contraction of other than two factors".into())),
                },
                Item::Product(other) => return Err(Lack(format!("the statement `{}`", plan::name(other)))),
                Item::Loop(coordinate, extent, body) => {
                    let (count, limit) = (self.e.slot()?, self.e.slot()?);
                    self.e.dim(extent)?;
                    self.e.a.mov(limit.at(), rax)?;
                    self.e.set(count, 0)?;
                    let (mut head, mut out) = (self.e.a.create_label(), self.e.a.create_label());
                    self.e.a.set_label(&mut head)?;
                    self.e.a.mov(rax, count.at())?;
                    self.e.a.cmp(rax, limit.at())?;
                    self.e.a.jge(out)?;
                    self.e.bound.push(((*coordinate).clone(), count));
                    self.items(body)?;
                    self.e.bound.pop();
                    self.e.a.inc(count.at())?;
                    self.e.a.jmp(head)?;
                    self.e.a.set_label(&mut out)?;
                }
            }
        }
        Ok(())
    }

    /// Computes the range of each label of `tile`: where it starts, and how many indices there are; goes to `out` where
    /// there is none.
    fn ranges(&mut self, tile: &Tile, out: CodeLabel) -> Result<Vec<(Slot, Slot)>, Lack> {
        let mut found = Vec::new();
        for range in &tile.ranges {
            let own = |other: &&tilewright::block::Range| {
                range.start.mentions(&other.label) || range.end.mentions(&other.label)
            };
            if tile.ranges.iter().any(|other| own(&other)) {
                return Err(Lack(format!("a range of `{}` that depends on a label", range.label)));
            }
            let (start, count) = (self.e.slot()?, self.e.slot()?);
            self.e.dim(&range.end)?;
            self.e.a.mov(count.at(), rax)?;
            self.e.dim(&range.start)?;
            let a = &mut self.e.a;
            a.mov(start.at(), rax)?;
            a.mov(rcx, rax)?;
            a.mov(rdx, range.size)?;
            a.add(rcx, rdx)?;
            self.e.fail_if_overflow()?;
            let a = &mut self.e.a;
            a.mov(rcx, count.at())?;
            a.sub(rcx, rax)?;
            self.e.fail_if_overflow()?;
            let a = &mut self.e.a;
            a.cmp(rcx, rdx)?;
            a.cmovg(rcx, rdx)?;
            a.mov(count.at(), rcx)?;
            a.test(rcx, rcx)?;
            a.jle(out)?;
            found.push((start, count));
        }
        Ok(found)
    }

    /// Checks that a tile's labels start where those of `space` do, and reach as far.
    fn aligned(&self, tile: &Tile, space: &Tile) -> Result<(), Lack> {
        for range in &tile.ranges {
            let other = space.ranges.iter().find(|other| other.label == range.label);
            let fits = other.is_some_and(|other| other.start == range.start && other.size <= range.size);
            if !fits {
                return Err(Lack(format!("`{}` over another part of `{}`", tile.name, range.label)));
            }
        }
        Ok(())
    }

    /// `rax` = the address in scratch of a tile's element at position 0 of its inner label and of `without`, and the
    /// positions of the other labels of `space`.
    fn address(&mut self, id: TileId, space: &Tile, positions: &[Option<Slot>]) -> Result<(), Lack> {
        let (tile, place) = (self.tile(id), &self.places[id.0 as usize]);
        let offset = i32::try_from(place.offset).map_err(|_| Lack("scratch too large".into()))?;
        let a = &mut self.e.a;
        a.lea(rax, qword_ptr(r15 + offset))?;
        for (axis, range) in tile.ranges.iter().enumerate() {
            let at = space.ranges.iter().position(|other| other.label == range.label);
            let slot = at.and_then(|at| positions.get(at).copied().flatten());
            if let Some(slot) = slot {
                let stride =
                    i32::try_from(place.strides[axis] * 4).map_err(|_| Lack("a tile too large".into()))?;
                a.imul_3(rcx, slot.at(), stride)?;
                a.add(rax, rcx)?;
            }
        }
        Ok(())
    }
}
