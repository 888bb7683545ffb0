//! Flow: what is written, pending and held along every path of a role.
//!
//! A loop may run any number of times, so what is pending and held at the end of its body is what was at its start,
//! and what the body writes counts after the loop only if the loop runs at least once.

use super::{Outcome, Reason, Site, Table};
use crate::dim::{Dim, Facts};
use crate::kernel::ir::{ChannelId, Home, Statement, TileId, TokenId};
use crate::task::BufferId;
use std::collections::{BTreeMap, BTreeSet};

/// What a statement that has given a token still touches.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pending {
    reads: BTreeSet<TileId>,
    writes: BTreeSet<TileId>,
    loads: BTreeSet<BufferId>,
    stores: BTreeSet<BufferId>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    written: BTreeSet<TileId>,
    pending: BTreeMap<TokenId, Pending>,
    producing: BTreeSet<ChannelId>,
    consuming: BTreeSet<ChannelId>,
}

/// What one part of the kernel does, all paths together.
#[derive(Default)]
struct Summary {
    end: State,
    /// The tokens that it gives, and those of the prologue that it awaits.
    given: BTreeSet<TokenId>,
    awaited: BTreeSet<TokenId>,
    reads: BTreeSet<TileId>,
    writes: BTreeSet<TileId>,
    loads: BTreeSet<BufferId>,
    stores: BTreeSet<BufferId>,
    /// For each channel the tiles that are written in every page it commits.
    committed: BTreeMap<ChannelId, BTreeSet<TileId>>,
}

/// A part of a kernel being followed.
struct Walker<'a> {
    site: &'a Site<'a>,
    part: String,
    role: Option<usize>,
    facts: Facts,
    /// For each channel the tiles that a received page holds.
    received: &'a BTreeMap<ChannelId, BTreeSet<TileId>>,
    summary: Summary,
}

pub(super) fn check(site: &Site<'_>) -> Outcome {
    let kernel = site.kernel;
    // What pages hold when they are received is known only after their producers have been followed.
    let all: BTreeMap<ChannelId, BTreeSet<TileId>> = (0..kernel.channels.len() as u32)
        .map(|channel| (ChannelId(channel), pages(site, ChannelId(channel)).collect()))
        .collect();
    let first = follow(site, &all)?;
    let mut committed = BTreeMap::new();
    for summary in &first {
        committed.extend(summary.committed.clone());
    }
    let summaries = follow(site, &committed)?;
    shared(site, &summaries)
}

/// The tiles in the pages of a channel.
fn pages<'a>(site: &'a Site<'_>, channel: ChannelId) -> impl Iterator<Item = TileId> + 'a {
    let tiles = site.kernel.tiles.iter().enumerate();
    let held = tiles.filter(move |(_, tile)| tile.home == Home::Channel(channel));
    held.map(|(index, _)| TileId(index as u32))
}

/// The summaries of the prologue and of each role.
fn follow<'a>(
    site: &'a Site<'a>,
    received: &'a BTreeMap<ChannelId, BTreeSet<TileId>>,
) -> Outcome<Vec<Summary>> {
    let walker = |part: String, role| Walker {
        site,
        part,
        role,
        facts: site.facts.clone(),
        received,
        summary: Summary::default(),
    };
    let mut prologue = walker("prologue".into(), None);
    let mut state = State::default();
    prologue.statements(&site.kernel.prologue, &mut state)?;
    prologue.summary.end = state.clone();
    let mut summaries = vec![prologue.summary];
    for (index, role) in site.kernel.roles.iter().enumerate() {
        let mut walker = walker(format!("role {}", role.name), Some(index));
        let mut state = state.clone();
        walker.statements(&role.body, &mut state)?;
        if !state.producing.is_empty() || !state.consuming.is_empty() {
            return walker.refuse(Reason::Channel, "a page is still held at the end");
        }
        let early = &summaries[0].end.pending;
        let left = state.pending.iter().find(|(token, pending)| early.get(token) != Some(pending));
        if let Some((token, _)) = left {
            return walker.refuse(Reason::Token, format!("token t{} is not awaited", token.0));
        }
        walker.summary.end = state;
        summaries.push(walker.summary);
    }
    Ok(summaries)
}

/// What several roles use: tokens, tiles and buffers.
fn shared(site: &Site<'_>, summaries: &[Summary]) -> Outcome {
    let Some((prologue, roles)) = summaries.split_first() else { return Ok(()) };
    for token in prologue.end.pending.keys() {
        let takers = roles.iter().filter(|role| role.awaited.contains(token)).count();
        if takers != 1 {
            let message = format!("token t{} of the prologue is awaited by {takers} roles", token.0);
            return site.refuse(Reason::Token, "", message);
        }
    }
    for (index, a) in roles.iter().enumerate() {
        for (other, b) in roles.iter().enumerate().filter(|(other, _)| *other != index) {
            if let Some(token) =
                a.given.iter().find(|token| b.given.contains(token) || b.awaited.contains(token))
            {
                return site.refuse(Reason::Token, "", format!("token t{} is used by two roles", token.0));
            }
            let private = |tile: &&TileId| {
                let home = site.kernel.tiles.get(tile.0 as usize).map(|tile| tile.home);
                !matches!(home, Some(Home::Channel(_)))
            };
            let mut tiles = a.writes.iter().filter(private);
            if let Some(tile) = tiles.find(|tile| b.reads.contains(tile) || b.writes.contains(tile)) {
                let names = (name(site, index), name(site, other));
                let message =
                    format!("`{}` is written by {} and used by {}", tile_name(site, *tile), names.0, names.1);
                return site.refuse(Reason::Race, "", message);
            }
            if let Some(buffer) = a.stores.iter().find(|id| b.loads.contains(id) || b.stores.contains(id)) {
                let names = (name(site, index), name(site, other));
                let message = format!(
                    "`{}` is stored to by {} and used by {}",
                    buffer_name(site, *buffer),
                    names.0,
                    names.1
                );
                return site.refuse(Reason::Race, "", message);
            }
        }
    }
    Ok(())
}

fn name(site: &Site<'_>, role: usize) -> String {
    site.kernel.roles.get(role).map_or("?".into(), |role| role.name.to_string())
}

fn tile_name(site: &Site<'_>, id: TileId) -> String {
    site.kernel.tiles.get(id.0 as usize).map_or(format!("tile {}", id.0), |tile| tile.name.to_string())
}

fn buffer_name(site: &Site<'_>, id: BufferId) -> String {
    site.program
        .buffers
        .get(id.0 as usize)
        .map_or(format!("buffer {}", id.0), |buffer| buffer.name.to_string())
}

/// What a statement touches.
#[derive(Default)]
struct Touched {
    reads: BTreeSet<TileId>,
    writes: BTreeSet<TileId>,
    loads: BTreeSet<BufferId>,
    stores: BTreeSet<BufferId>,
}

fn touched(site: &Site<'_>, statement: &Statement) -> Touched {
    let mut touched = Touched {
        reads: statement.reads().into_iter().collect(),
        writes: statement.writes().into_iter().collect(),
        ..Touched::default()
    };
    let mut tables = |dim: &Dim| {
        for table in dim.tables() {
            match site.table(&table) {
                Some(Table::Tile(tile)) => touched.reads.insert(tile),
                Some(Table::Buffer(buffer)) => touched.loads.insert(buffer),
                None => false,
            };
        }
    };
    statement.visit_dims(&mut tables);
    for id in statement.reads().into_iter().chain(statement.writes()) {
        for range in site.kernel.tiles.get(id.0 as usize).iter().flat_map(|tile| &tile.ranges) {
            tables(&range.start);
            tables(&range.end);
        }
    }
    match statement {
        Statement::Load { buffer, .. } => {
            touched.loads.insert(*buffer);
        }
        Statement::Store { buffer, .. } => {
            touched.stores.insert(*buffer);
        }
        Statement::Opaque { operands, results, .. } => {
            touched.loads.extend(operands);
            touched.stores.extend(results);
        }
        _ => {}
    }
    touched
}

impl Walker<'_> {
    fn refuse<T>(&self, reason: Reason, message: impl std::fmt::Display) -> Outcome<T> {
        self.site.refuse(reason, &self.part, message)
    }

    fn statements(&mut self, statements: &[Statement], state: &mut State) -> Outcome {
        statements.iter().try_for_each(|statement| self.statement(statement, state))
    }

    fn statement(&mut self, statement: &Statement, state: &mut State) -> Outcome {
        let touched = touched(self.site, statement);
        for tile in &touched.reads {
            self.page(*tile, state)?;
            if let Some((token, _)) = state.pending.iter().find(|(_, pending)| pending.writes.contains(tile))
            {
                let name = tile_name(self.site, *tile);
                return self
                    .refuse(Reason::Early, format!("`{name}` is read before t{} is awaited", token.0));
            }
            if !state.written.contains(tile) {
                let name = tile_name(self.site, *tile);
                return self.refuse(Reason::Undefined, format!("`{name}` is read before it is written"));
            }
        }
        for tile in &touched.writes {
            self.page(*tile, state)?;
            let busy = |pending: &Pending| pending.writes.contains(tile) || pending.reads.contains(tile);
            if let Some((token, _)) = state.pending.iter().find(|(_, pending)| busy(pending)) {
                let name = tile_name(self.site, *tile);
                return self.refuse(
                    Reason::Early,
                    format!("`{name}` is overwritten before t{} is awaited", token.0),
                );
            }
        }
        for buffer in &touched.loads {
            if let Some((token, _)) =
                state.pending.iter().find(|(_, pending)| pending.stores.contains(buffer))
            {
                let name = buffer_name(self.site, *buffer);
                return self
                    .refuse(Reason::Early, format!("`{name}` is read before t{} is awaited", token.0));
            }
        }
        for buffer in &touched.stores {
            let busy = |pending: &Pending| pending.stores.contains(buffer) || pending.loads.contains(buffer);
            if let Some((token, _)) = state.pending.iter().find(|(_, pending)| busy(pending)) {
                let name = buffer_name(self.site, *buffer);
                return self.refuse(
                    Reason::Early,
                    format!("`{name}` is overwritten before t{} is awaited", token.0),
                );
            }
        }
        if self.role.is_none()
            && let Some(buffer) = touched.loads.iter().find(|buffer| self.is_written(**buffer))
        {
            let name = buffer_name(self.site, *buffer);
            return self
                .refuse(Reason::Prologue, format!("`{name}` is read before the waits, but tasks write it"));
        }
        state.written.extend(&touched.writes);
        self.summary.reads.extend(&touched.reads);
        self.summary.writes.extend(&touched.writes);
        self.summary.loads.extend(&touched.loads);
        self.summary.stores.extend(&touched.stores);
        if let Some(token) = statement.token() {
            self.summary.given.insert(token);
            let Touched { reads, writes, loads, stores } = touched;
            if state.pending.insert(token, Pending { reads, writes, loads, stores }).is_some() {
                return self.refuse(
                    Reason::Token,
                    format!("token t{} is given again before it is awaited", token.0),
                );
            }
        }
        match statement {
            Statement::Loop { coordinate, extent, body } => {
                let outer = self.facts.clone();
                self.facts = outer.assume(coordinate.clone(), 0, extent.clone());
                let outcome = self.repeat(body, outer.le(&Dim::constant(1), extent).is_yes(), state);
                self.facts = outer;
                outcome
            }
            Statement::Await { token } => self.awaits(*token, state).map(|_| ()),
            Statement::Acquire { channel } => self.acquire(*channel, state),
            Statement::Commit { channel, token } => self.commit(*channel, *token, state),
            Statement::Receive { channel } => self.receive(*channel, state),
            Statement::Release { channel } => self.release(*channel, state),
            _ => Ok(()),
        }
    }

    /// Whether some task of the program writes the buffer.
    fn is_written(&self, buffer: BufferId) -> bool {
        self.site
            .program
            .families
            .iter()
            .any(|family| family.writes.iter().any(|access| access.buffer == buffer))
    }

    /// A body that runs any number of times; at least once if `some`.
    fn repeat(&mut self, body: &[Statement], some: bool, state: &mut State) -> Outcome {
        let mut start = state.clone();
        loop {
            let mut end = start.clone();
            self.statements(body, &mut end)?;
            let differing = start.pending.keys().find(|token| !end.pending.contains_key(token));
            let differing =
                differing.or_else(|| end.pending.keys().find(|token| !start.pending.contains_key(token)));
            if let Some(token) = differing {
                let message = format!("token t{} is pending at one end of a loop's body only", token.0);
                return self.refuse(Reason::Token, message);
            }
            if (&start.producing, &start.consuming) != (&end.producing, &end.consuming) {
                return self.refuse(Reason::Channel, "a page is held at one end of a loop's body only");
            }
            let mut joined = start.clone();
            joined.written = start.written.intersection(&end.written).copied().collect();
            for (token, pending) in &end.pending {
                let into = joined.pending.entry(*token).or_default();
                into.reads.extend(&pending.reads);
                into.writes.extend(&pending.writes);
                into.loads.extend(&pending.loads);
                into.stores.extend(&pending.stores);
            }
            if joined == start {
                if some {
                    joined.written = end.written;
                }
                *state = joined;
                return Ok(());
            }
            start = joined;
        }
    }

    fn awaits(&mut self, token: TokenId, state: &mut State) -> Outcome<Pending> {
        match state.pending.remove(&token) {
            Some(pending) => {
                if !self.summary.given.contains(&token) {
                    self.summary.awaited.insert(token);
                }
                Ok(pending)
            }
            None => {
                self.refuse(Reason::Token, format!("token t{} is awaited, but nothing is pending", token.0))
            }
        }
    }

    /// A tile in a page is touched only while the page is held.
    fn page(&self, tile: TileId, state: &State) -> Outcome {
        let Some(Home::Channel(channel)) = self.site.kernel.tiles.get(tile.0 as usize).map(|tile| tile.home)
        else {
            return Ok(());
        };
        if state.producing.contains(&channel) || state.consuming.contains(&channel) {
            return Ok(());
        }
        self.refuse(Reason::Page, format!("`{}` is in a page that is not held", tile_name(self.site, tile)))
    }

    /// Whether this role is an end of the channel.
    fn end(&self, channel: ChannelId, producer: bool) -> Outcome {
        let found = self.site.kernel.channels.get(channel.0 as usize);
        let name = found.map(|channel| if producer { &channel.producer } else { &channel.consumer });
        let own = self.role.and_then(|role| self.site.kernel.roles.get(role)).map(|role| &role.name);
        if name.is_some() && name == own {
            return Ok(());
        }
        let end = if producer { "fills" } else { "reads" };
        self.refuse(Reason::Channel, format!("another role {end} the pages of this channel"))
    }

    fn acquire(&self, channel: ChannelId, state: &mut State) -> Outcome {
        self.end(channel, true)?;
        if !state.producing.insert(channel) {
            return self.refuse(Reason::Channel, "a page is acquired while another one is held");
        }
        self.forget(channel, state);
        Ok(())
    }

    fn commit(&mut self, channel: ChannelId, token: Option<TokenId>, state: &mut State) -> Outcome {
        self.end(channel, true)?;
        if !state.producing.remove(&channel) {
            return self.refuse(Reason::Channel, "a page is committed that is not held");
        }
        let tiles: BTreeSet<TileId> = pages(self.site, channel).collect();
        if let Some(token) = token {
            let pending = self.awaits(token, state)?;
            if !pending.writes.is_subset(&tiles) || !pending.reads.is_empty() || !pending.stores.is_empty() {
                let message = format!("t{} does more than fill the page that is committed", token.0);
                return self.refuse(Reason::Token, message);
            }
        }
        self.untouched(&tiles, state)?;
        let written: BTreeSet<TileId> = tiles.intersection(&state.written).copied().collect();
        let known = self.summary.committed.entry(channel).or_insert_with(|| written.clone());
        known.retain(|tile| written.contains(tile));
        self.forget(channel, state);
        Ok(())
    }

    fn receive(&self, channel: ChannelId, state: &mut State) -> Outcome {
        self.end(channel, false)?;
        if !state.consuming.insert(channel) {
            return self.refuse(Reason::Channel, "a page is received while another one is held");
        }
        self.forget(channel, state);
        state.written.extend(self.received.get(&channel).into_iter().flatten());
        Ok(())
    }

    fn release(&self, channel: ChannelId, state: &mut State) -> Outcome {
        self.end(channel, false)?;
        if !state.consuming.remove(&channel) {
            return self.refuse(Reason::Channel, "a page is released that is not held");
        }
        self.untouched(&pages(self.site, channel).collect(), state)?;
        self.forget(channel, state);
        Ok(())
    }

    /// No pending statement touches the tiles of a page that is handed on.
    fn untouched(&self, tiles: &BTreeSet<TileId>, state: &State) -> Outcome {
        let busy =
            |pending: &Pending| !pending.writes.is_disjoint(tiles) || !pending.reads.is_disjoint(tiles);
        match state.pending.iter().find(|(_, pending)| busy(pending)) {
            Some((token, _)) => {
                self.refuse(Reason::Early, format!("a page is handed on before t{} is awaited", token.0))
            }
            None => Ok(()),
        }
    }

    fn forget(&self, channel: ChannelId, state: &mut State) {
        for tile in pages(self.site, channel) {
            state.written.remove(&tile);
        }
    }
}
