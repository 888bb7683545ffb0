//! Capacity: what lives near at the same time, and alignment.

use super::{Outcome, Reason, Violation};
use crate::dim::Proof;
use crate::kernel::ir::{Home, Kernel, Program, Statement, TileId};
use crate::kernel::verify::Site;
use crate::target::Target;
use crate::task::{BufferKind, Tier};
use std::collections::BTreeMap;

/// The bytes to which pages and the tiles in them are aligned.
const ALIGNMENT: u64 = 64;

pub(super) fn check(program: &Program, target: &Target) -> Outcome {
    for buffer in &program.tasks.buffers {
        if let BufferKind::Temporary { offset } = &buffer.kind
            && program.tasks.facts.divides(buffer.dtype.bytes() as i64, offset) == Proof::No
        {
            let message = format!("its offset `{offset}` is no multiple of {} bytes", buffer.dtype.bytes());
            let place = format!("buffer {}", buffer.name);
            return Err(Violation { reason: Reason::Alignment, place, message });
        }
    }
    let near = target.tiers.iter().find(|tier| tier.tier == Tier::Near).map_or(0, |tier| tier.bytes);
    let families = &program.tasks.families;
    let next = families.iter().map(|family| prologue_bytes(&family.body)).max().unwrap_or(0);
    for family in families {
        let site = Site::new(program, family, target);
        pages(&site)?;
        let own = body_bytes(&family.body);
        let needed = own.saturating_add(next);
        if needed > near {
            let message = format!(
                "{own} bytes live near at once, and {next} of the prologue of the next task; there are {near}"
            );
            return site.refuse(Reason::Capacity, "", message);
        }
    }
    Ok(())
}

/// The tiles of a page fit into it.
fn pages(site: &Site<'_>) -> Outcome {
    for (index, channel) in site.kernel.channels.iter().enumerate() {
        let name = &channel.name;
        if !(channel.bytes as u64).is_multiple_of(ALIGNMENT) {
            let message = format!("the pages of `{name}` are no multiple of {ALIGNMENT} bytes");
            return site.refuse(Reason::Alignment, "", message);
        }
        let held = site
            .kernel
            .tiles
            .iter()
            .filter(|tile| matches!(tile.home, Home::Channel(channel) if channel.0 as usize == index));
        let needed = held.fold(0u64, |sum, tile| sum.saturating_add(footprint(tile.bytes())));
        if needed > channel.bytes as u64 {
            let message = format!("the tiles in a page of `{name}` take {needed} bytes of {}", channel.bytes);
            return site.refuse(Reason::Capacity, "", message);
        }
    }
    Ok(())
}

/// Bytes with their alignment.
fn footprint(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// What the prologue leaves near for the body, and needs on the way.
pub(in crate::kernel) fn prologue_bytes(kernel: &Kernel) -> u64 {
    if kernel.prologue.is_empty() { 0 } else { peak(kernel, &[&kernel.prologue]) }
}

/// What a task needs near: pages, and for each role the most that lives at once, with the prologue's tiles.
pub(in crate::kernel) fn body_bytes(kernel: &Kernel) -> u64 {
    let pages = kernel.channels.iter().fold(0u64, |sum, channel| {
        sum.saturating_add((channel.bytes as u64).saturating_mul(channel.pages as u64))
    });
    let roles = kernel
        .roles
        .iter()
        .fold(0u64, |sum, role| sum.saturating_add(peak(kernel, &[&kernel.prologue, &role.body])));
    pages.saturating_add(roles)
}

/// The life of each tile as an interval of positions; positions count statements.
#[derive(Default)]
struct Lives {
    at: usize,
    lives: BTreeMap<TileId, (usize, usize)>,
}

impl Lives {
    fn touch(&mut self, tile: TileId, at: usize) {
        let life = self.lives.entry(tile).or_insert((at, at));
        life.0 = life.0.min(at);
        life.1 = life.1.max(at);
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            self.at += 1;
            let at = self.at;
            statement.reads().into_iter().chain(statement.writes()).for_each(|tile| self.touch(tile, at));
            if let Statement::Loop { body, .. } = statement {
                self.statements(body);
                // A tile that lives across an end of the body lives through all of it.
                let (first, last) = (at, self.at);
                for life in self.lives.values_mut() {
                    if life.0 < first && life.1 >= first {
                        life.1 = last;
                    }
                }
                self.at += 1;
            }
        }
    }
}

/// The most bytes of tiles near that live at once.
fn peak(kernel: &Kernel, parts: &[&Vec<Statement>]) -> u64 {
    let mut lives = Lives::default();
    parts.iter().for_each(|statements| lives.statements(statements));
    for statements in parts {
        extend(statements, &mut lives);
    }
    let near = |tile: &TileId| {
        let tile = kernel.tiles.get(tile.0 as usize);
        tile.filter(|tile| tile.home == Home::Near).map_or(0, |tile| footprint(tile.bytes()))
    };
    let mut changes: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for (tile, (first, last)) in &lives.lives {
        changes.entry(*first).or_default().0 += near(tile);
        changes.entry(last + 1).or_default().1 += near(tile);
    }
    let (mut now, mut most) = (0u64, 0u64);
    for (born, dead) in changes.into_values() {
        now = now.saturating_sub(dead).saturating_add(born);
        most = most.max(now);
    }
    most
}

/// Extends the lives of what asynchronous statements touch to the end: where the await stands is not looked for.
fn extend(statements: &[Statement], lives: &mut Lives) {
    let end = lives.at;
    for statement in statements {
        if statement.token().is_some() {
            let tiles = statement.reads().into_iter().chain(statement.writes());
            tiles.for_each(|tile| lives.touch(tile, end));
        }
        if let Statement::Loop { body, .. } = statement {
            extend(body, lives);
        }
    }
}
