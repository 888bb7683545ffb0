//! A task in progress: roles that step through their statements, channels between them, and statements that complete
//! later than they are issued.
//!
//! Whoever runs a kernel decides what happens next: [`Running::advance`] takes one step of a role, and
//! [`Running::complete`] lets an asynchronous statement take effect. Until then what it writes holds garbage, and what
//! it reads is read only at completion, so that a use before its await shows.

use super::ir::{ChannelId, TileId, TokenId};
use super::tile::{Compiled, EdgeAt, Frame, Machine, Near, Step, TileData};
use crate::error::Error;
use crate::tensor::Data;
use crate::tensor::eval::{Numerics, unwritten};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a role did.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A statement.
    Ran,
    /// Nothing: it waits for a page of a channel.
    Blocked,
    /// Nothing: it waits for an edge, until [`Running::pass`].
    Wait(Arc<EdgeAt>),
    /// It notifies an edge; the caller does so.
    Notify(Arc<EdgeAt>),
    /// Nothing: it has come to its end.
    Done,
}

/// What runs: the statements before the waits, or a role after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Before the waits.
    Prologue,
    /// The role with this index.
    Role(usize),
}

/// One task between its prologue and its end.
#[derive(Clone, Debug)]
pub struct Running {
    kernel: Arc<Compiled>,
    frame: Frame,
    prologue: Cursor,
    roles: Vec<Cursor>,
    /// For each token the statement that gave it and has not been awaited.
    tokens: Vec<Option<u64>>,
    pending: Vec<Pending>,
    issued: u64,
    rings: Vec<Ring>,
    /// Whether asynchronous statements complete later.
    deferred: bool,
}

/// Where a part is.
#[derive(Clone, Debug)]
struct Cursor {
    slots: Vec<i64>,
    /// The list of the part, then that of each loop that it is in.
    levels: Vec<Level>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// The next statement of the list.
    next: usize,
    /// The loop's slot, coordinate and extent.
    slot: usize,
    coordinate: i64,
    extent: i64,
}

/// A statement that has been issued and has not taken effect.
#[derive(Clone, Debug)]
struct Pending {
    number: u64,
    near: Arc<Near>,
    slots: Vec<i64>,
    /// What it writes, as it was.
    saved: Vec<(TileId, TileData)>,
    /// The pages that its role held.
    pages: Vec<(usize, usize)>,
}

/// A channel's pages.
#[derive(Clone, Debug, Default)]
struct Ring {
    /// The tiles of each page, while they are not in the frame.
    pages: Vec<Vec<TileData>>,
    /// The page whose tiles are in the frame.
    shown: Option<usize>,
    empty: VecDeque<usize>,
    full: VecDeque<(usize, Option<u64>)>,
    producing: Option<usize>,
    consuming: Option<usize>,
    /// The role that holds each end, by who took a page first.
    producer: Option<Part>,
    consumer: Option<Part>,
}

impl Running {
    /// A task at its coordinates that has done nothing. With `deferred`, asynchronous statements take effect when they
    /// are completed or awaited, else at once.
    pub fn new(kernel: Arc<Compiled>, coordinates: &[i64], deferred: bool) -> Running {
        let mut slots = vec![0; kernel.slots.max(coordinates.len())];
        slots[..coordinates.len()].copy_from_slice(coordinates);
        let cursor = Cursor { slots, levels: vec![Level::default()] };
        let mut frame = kernel.frame();
        frame.tiles.iter_mut().for_each(spoil);
        let rings = kernel.channels.iter().map(|(pages, tiles)| {
            let page = || tiles.iter().filter_map(|tile| frame.tiles.get(tile.0 as usize).cloned()).collect();
            Ring {
                pages: (0..*pages).map(|_| page()).collect(),
                empty: (0..*pages).collect(),
                ..Ring::default()
            }
        });
        let rings = rings.collect();
        Running {
            roles: vec![cursor.clone(); kernel.roles.len()],
            prologue: cursor,
            tokens: vec![None; kernel.tokens],
            pending: Vec::new(),
            issued: 0,
            rings,
            deferred,
            frame,
            kernel,
        }
    }

    /// How many roles there are.
    pub fn roles(&self) -> usize {
        self.roles.len()
    }

    /// The tiles.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// How many asynchronous statements have not taken effect.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Takes one step of a part.
    pub fn advance(
        &mut self,
        part: Part,
        machine: &mut impl Machine,
        numerics: Numerics,
    ) -> Result<Progress, Error> {
        let kernel = self.kernel.clone();
        loop {
            let Some(cursor) = self.cursor(part) else { return Ok(Progress::Done) };
            let Some(steps) = cursor.steps(&kernel, part) else { return Ok(Progress::Done) };
            let depth = cursor.levels.len();
            let Some(level) = cursor.levels.last_mut() else { return Ok(Progress::Done) };
            let Some(step) = steps.get(level.next) else {
                if depth == 1 {
                    return Ok(Progress::Done);
                }
                level.coordinate += 1;
                if level.coordinate < level.extent {
                    level.next = 0;
                    let Level { slot, coordinate, .. } = *level;
                    cursor.slots[slot] = coordinate;
                } else {
                    cursor.levels.pop();
                    cursor.pass();
                }
                continue;
            };
            match step {
                Step::Loop { slot, extent, .. } => {
                    let slots = cursor.slots.clone();
                    let extent = extent.eval(&slots, &self.frame, machine)?;
                    let Some(cursor) = self.cursor(part) else { return Ok(Progress::Done) };
                    if extent > 0 {
                        cursor.slots[*slot] = 0;
                        cursor.levels.push(Level { next: 0, slot: *slot, coordinate: 0, extent });
                    } else {
                        cursor.pass();
                    }
                    continue;
                }
                Step::Wait(edge) => return Ok(Progress::Wait(edge.clone())),
                Step::Notify(edge) => {
                    cursor.pass();
                    return Ok(Progress::Notify(edge.clone()));
                }
                Step::Near(near) => self.near(part, near, machine, numerics)?,
                Step::Await(token) => self.settle(*token, machine, numerics)?,
                Step::Acquire(channel) => {
                    let ring = self.ring(*channel)?;
                    if ring.producing.is_some() {
                        return Err(bug("a page is acquired while another one is held"));
                    }
                    let Some(page) = ring.empty.pop_front() else { return Ok(Progress::Blocked) };
                    (ring.producing, ring.producer) = (Some(page), Some(part));
                }
                Step::Commit(channel, token) => {
                    let filling = match token {
                        Some(token) => {
                            let number = self.tokens.get_mut(token.0 as usize).and_then(Option::take);
                            Some(number.ok_or_else(|| bug("a commit of a token that nothing gave"))?)
                        }
                        None => None,
                    };
                    let waits = filling.filter(|number| self.pending.iter().any(|p| p.number == *number));
                    let ring = self.ring(*channel)?;
                    let page = ring.producing.take();
                    ring.full.push_back((page.ok_or_else(|| bug("a commit without a page"))?, waits));
                }
                Step::Receive(channel) => {
                    let waits = match self.ring(*channel)?.full.front() {
                        None => return Ok(Progress::Blocked),
                        Some((_, waits)) => *waits,
                    };
                    if waits.is_some_and(|number| self.pending.iter().any(|p| p.number == number)) {
                        return Ok(Progress::Blocked);
                    }
                    let ring = self.ring(*channel)?;
                    if ring.consuming.is_some() {
                        return Err(bug("a page is received while another one is held"));
                    }
                    (ring.consuming, ring.consumer) =
                        (ring.full.pop_front().map(|(page, _)| page), Some(part));
                }
                Step::Release(channel) => {
                    self.hide(channel.0 as usize);
                    let ring = self.ring(*channel)?;
                    let page = ring.consuming.take().ok_or_else(|| bug("a release without a page"))?;
                    ring.pages.iter_mut().skip(page).take(1).flatten().for_each(spoil);
                    ring.empty.push_back(page);
                }
            }
            if let Some(cursor) = self.cursor(part) {
                cursor.pass();
            }
            return Ok(Progress::Ran);
        }
    }

    /// Lets a role go on behind the edge that it waits for.
    pub fn pass(&mut self, part: Part) {
        if let Some(cursor) = self.cursor(part) {
            cursor.pass();
        }
    }

    /// The coordinates and loop coordinates of a part, for the cells of an edge.
    pub fn slots(&self, part: Part) -> &[i64] {
        let cursor = match part {
            Part::Prologue => Some(&self.prologue),
            Part::Role(index) => self.roles.get(index),
        };
        cursor.map_or(&[], |cursor| cursor.slots.as_slice())
    }

    /// Lets the pending statement with this index take effect.
    pub fn complete(
        &mut self,
        index: usize,
        machine: &mut impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        if index >= self.pending.len() {
            return Ok(());
        }
        let Pending { near, mut slots, saved, pages, .. } = self.pending.remove(index);
        for (ring, page) in pages {
            self.show(ring, Some(page));
        }
        for (tile, data) in saved {
            if let Some(place) = self.frame.tiles.get_mut(tile.0 as usize) {
                *place = data;
            }
        }
        near.run(&mut slots, &mut self.frame, machine, numerics)
    }

    /// Runs everything to its end in one order, all at once; for a kernel without edges inside.
    pub fn finish(&mut self, machine: &mut impl Machine, numerics: Numerics) -> Result<(), Error> {
        loop {
            let (mut ran, mut done) = (false, true);
            for role in 0..self.roles.len() {
                loop {
                    match self.advance(Part::Role(role), machine, numerics)? {
                        Progress::Ran => ran = true,
                        Progress::Done => break,
                        Progress::Blocked => {
                            done = false;
                            break;
                        }
                        Progress::Wait(_) | Progress::Notify(_) => return Err(bug("an edge inside a body")),
                    }
                }
            }
            if done {
                return self.check_finished();
            }
            if !ran {
                if self.pending.is_empty() {
                    return Err(stuck(&self.kernel));
                }
                self.complete(0, machine, numerics)?;
            }
        }
    }

    /// That nothing is left to be done by anyone.
    pub fn check_finished(&self) -> Result<(), Error> {
        if !self.pending.is_empty() || self.tokens.iter().any(Option::is_some) {
            return Err(bug("a token is never awaited"));
        }
        let open =
            |ring: &Ring| ring.producing.is_some() || ring.consuming.is_some() || !ring.full.is_empty();
        if self.rings.iter().any(open) { Err(bug("a page is never handed on")) } else { Ok(()) }
    }

    fn near(
        &mut self,
        part: Part,
        near: &Arc<Near>,
        machine: &mut impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        for ring in 0..self.rings.len() {
            self.show(ring, self.held(ring, part));
        }
        let Some(cursor) = self.cursor(part) else { return Ok(()) };
        let mut slots = std::mem::take(&mut cursor.slots);
        let outcome = self.issue(part, near, &mut slots, machine, numerics);
        if let Some(cursor) = self.cursor(part) {
            cursor.slots = slots;
        }
        outcome
    }

    fn issue(
        &mut self,
        part: Part,
        near: &Arc<Near>,
        slots: &mut [i64],
        machine: &mut impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let Some(token) = near.token else { return near.run(slots, &mut self.frame, machine, numerics) };
        self.issued += 1;
        let number = self.issued;
        let place = self.tokens.get_mut(token.0 as usize).ok_or_else(|| bug("there is no such token"))?;
        if place.replace(number).is_some() {
            return Err(bug("a token is given again before it is awaited"));
        }
        if !self.deferred {
            return near.run(slots, &mut self.frame, machine, numerics);
        }
        if let Some(stored) = near.stores {
            // What the store will overwrite holds garbage until it completes.
            if let Some(tile) = self.frame.tiles.get(stored.0 as usize).cloned() {
                self.frame.tiles.iter_mut().skip(stored.0 as usize).take(1).for_each(spoil);
                near.run(slots, &mut self.frame, machine, numerics)?;
                self.frame.tiles[stored.0 as usize] = tile;
            }
        }
        let mut saved = Vec::new();
        for tile in &near.writes {
            if let Some(data) = self.frame.tiles.get_mut(tile.0 as usize) {
                saved.push((*tile, data.clone()));
                spoil(data);
            }
        }
        let rings = 0..self.rings.len();
        let pages = rings.filter_map(|ring| Some((ring, self.held(ring, part)?))).collect();
        self.pending.push(Pending { number, near: near.clone(), slots: slots.to_vec(), saved, pages });
        Ok(())
    }

    /// Lets the statement that gave a token take effect, if it has not yet.
    fn settle(
        &mut self,
        token: TokenId,
        machine: &mut impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let number = self.tokens.get_mut(token.0 as usize).and_then(Option::take);
        let number = number.ok_or_else(|| bug("a token is awaited that nothing gave"))?;
        match self.pending.iter().position(|pending| pending.number == number) {
            Some(index) => self.complete(index, machine, numerics),
            None => Ok(()),
        }
    }

    /// The page of a channel that a part holds.
    fn held(&self, ring: usize, part: Part) -> Option<usize> {
        let ring = self.rings.get(ring)?;
        if ring.producer == Some(part) && ring.producing.is_some() {
            return ring.producing;
        }
        if ring.consumer == Some(part) { ring.consuming } else { None }
    }

    /// Brings the tiles of a page into the frame.
    fn show(&mut self, ring: usize, page: Option<usize>) {
        if self.rings.get(ring).is_none_or(|at| at.shown == page) {
            return;
        }
        self.hide(ring);
        self.swap(ring, page);
    }

    fn hide(&mut self, ring: usize) {
        let shown = self.rings.get(ring).and_then(|ring| ring.shown);
        self.swap(ring, shown);
        if let Some(ring) = self.rings.get_mut(ring) {
            ring.shown = None;
        }
    }

    /// Exchanges the tiles of a page with those in the frame.
    fn swap(&mut self, ring: usize, page: Option<usize>) {
        let Some(((_, tiles), ring)) = self.kernel.channels.get(ring).zip(self.rings.get_mut(ring)) else {
            return;
        };
        let Some(contents) = page.and_then(|page| ring.pages.get_mut(page)) else { return };
        for (tile, data) in tiles.iter().zip(contents) {
            if let Some(place) = self.frame.tiles.get_mut(tile.0 as usize) {
                std::mem::swap(place, data);
            }
        }
        ring.shown = page;
    }

    fn ring(&mut self, channel: ChannelId) -> Result<&mut Ring, Error> {
        self.rings.get_mut(channel.0 as usize).ok_or_else(|| bug("there is no such channel"))
    }

    fn cursor(&mut self, part: Part) -> Option<&mut Cursor> {
        match part {
            Part::Prologue => Some(&mut self.prologue),
            Part::Role(index) => self.roles.get_mut(index),
        }
    }
}

impl Cursor {
    fn pass(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.next += 1;
        }
    }

    /// The list of statements that the cursor is in.
    fn steps<'k>(&self, kernel: &'k Compiled, part: Part) -> Option<&'k [Step]> {
        let mut steps: &[Step] = match part {
            Part::Prologue => &kernel.prologue,
            Part::Role(index) => &kernel.roles.get(index)?.1,
        };
        for level in &self.levels[..self.levels.len().saturating_sub(1)] {
            match steps.get(level.next) {
                Some(Step::Loop { body, .. }) => steps = body,
                _ => return None,
            }
        }
        Some(steps)
    }
}

/// Fills a tile with what no one should read.
fn spoil(tile: &mut TileData) {
    match (&mut tile.data, unwritten(tile.dtype)) {
        (Data::Float(v), value) => v.fill(value.as_f64()),
        (Data::Int(v), value) => v.fill(value.as_i64()),
        (Data::Bool(v), value) => v.fill(value.as_bool()),
    }
}

fn bug(message: &str) -> Error {
    Error::Bug { stage: "kernel", message: message.into() }
}

fn stuck(kernel: &Compiled) -> Error {
    Error::Stuck { seconds: 0, state: format!("the roles of `{}` wait for each other", kernel.name) }
}
