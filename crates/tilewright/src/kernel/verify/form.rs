//! Form: what can be said of each statement by itself.

use super::{Outcome, Reason, Site, Table};
use crate::block::Range;
use crate::block::verify::elementwise_types;
use crate::dim::{Atom, Dim, Symbol};
use crate::kernel::ir::{Argument, ChannelId, Home, Mask, Statement, Tile, TileId, TokenId};
use crate::kernel::lower::row_fits;
use crate::task::{Buffer, BufferId, Edge, Tier};
use crate::tensor::{DType, Scalar};
use std::collections::BTreeSet;

/// A kernel being checked; coordinates are those in sight.
struct Checker<'a> {
    site: &'a Site<'a>,
    part: String,
    coordinates: Vec<Symbol>,
    prologue: bool,
}

pub(super) fn check(site: &Site<'_>) -> Outcome {
    let coordinates = site.family.coordinates.iter().map(|(name, _)| name.clone()).collect();
    let mut checker = Checker { site, part: String::new(), coordinates, prologue: false };
    checker.names()?;
    for channel in &site.kernel.channels {
        checker.channel(channel)?;
    }
    for tile in &site.kernel.tiles {
        checker.tile(tile)?;
    }
    if site.kernel.roles.is_empty() {
        return checker.refuse(Reason::Count, "a kernel has at least one role");
    }
    checker.prologue = true;
    checker.part = "prologue".into();
    checker.statements(&site.kernel.prologue)?;
    checker.prologue = false;
    for role in &site.kernel.roles {
        checker.part = format!("role {}", role.name);
        checker.statements(&role.body)?;
    }
    Ok(())
}

impl<'a> Checker<'a> {
    fn refuse<T>(&self, reason: Reason, message: impl std::fmt::Display) -> Outcome<T> {
        self.site.refuse(reason, &self.part, message)
    }

    fn names(&self) -> Outcome {
        let kernel = self.site.kernel;
        let mut seen: BTreeSet<&Symbol> =
            self.site.program.buffers.iter().map(|buffer| &buffer.name).collect();
        for tile in &kernel.tiles {
            if !seen.insert(&tile.name) {
                return self
                    .refuse(Reason::Name, format!("`{}` is the name of two tiles or buffers", tile.name));
            }
        }
        let distinct = |names: Vec<&Symbol>, what: &str| {
            let set: BTreeSet<&&Symbol> = names.iter().collect();
            if set.len() == names.len() {
                return Ok(());
            }
            self.refuse(Reason::Name, format!("two {what} have one name"))
        };
        distinct(kernel.channels.iter().map(|channel| &channel.name).collect(), "channels")?;
        distinct(kernel.roles.iter().map(|role| &role.name).collect(), "roles")
    }

    fn channel(&self, channel: &crate::kernel::ir::Channel) -> Outcome {
        let known = |name: &Symbol| self.site.kernel.roles.iter().any(|role| role.name == *name);
        let name = &channel.name;
        for role in [&channel.producer, &channel.consumer] {
            if !known(role) {
                return self.refuse(
                    Reason::Channel,
                    format!("channel `{name}` names a role `{role}` that there is not"),
                );
            }
        }
        if channel.producer == channel.consumer {
            return self.refuse(Reason::Channel, format!("both ends of channel `{name}` are one role"));
        }
        if channel.pages == 0 {
            return self.refuse(Reason::Channel, format!("channel `{name}` has no page"));
        }
        Ok(())
    }

    /// What a tile is, wherever it is used.
    fn tile(&self, tile: &Tile) -> Outcome {
        let name = &tile.name;
        for (axis, range) in tile.ranges.iter().enumerate() {
            if range.size <= 0 {
                return self
                    .refuse(Reason::Range, format!("axis `{}` of `{name}` has no element", range.label));
            }
            let earlier = tile.ranges.iter().take(axis);
            if earlier.clone().any(|other| other.label == range.label) {
                return self
                    .refuse(Reason::Label, format!("two axes of `{name}` are labelled `{}`", range.label));
            }
            if earlier.clone().any(|other| range.start.mentions(&other.label)) {
                let message = format!(
                    "axis `{}` of `{name}` starts at `{}`, which other axes give",
                    range.label, range.start
                );
                return self.refuse(Reason::Range, message);
            }
        }
        let sizes: Vec<i64> = tile.ranges.iter().map(|range| range.size).collect();
        if sizes.iter().try_fold(1i64, |n, size| n.checked_mul(*size)).is_none_or(|n| n > 1 << 28) {
            return self.refuse(Reason::Range, format!("`{name}` has more than 2^28 elements"));
        }
        if !tile.layout.fits(&sizes) {
            let message = format!(
                "the layout `{}` does not hold each of the {sizes:?} elements of `{name}` once",
                tile.layout
            );
            return self.refuse(Reason::Layout, message);
        }
        let target = self.site.target;
        let in_rows =
            |home: Home| target.rows.iter().any(|row| row.homes.iter().any(|homes| homes.contains(&home)));
        let has = |wanted: Tier| target.tiers.iter().any(|tier| tier.tier == wanted);
        let there = match tile.home {
            Home::Registers | Home::TileRegisters => in_rows(tile.home),
            Home::Near => has(Tier::Near),
            Home::Cluster => has(Tier::Cluster),
            Home::Memory => has(Tier::Memory),
            Home::Channel(channel) => {
                self.channel_id(channel)?;
                has(Tier::Near)
            }
        };
        if there {
            return Ok(());
        }
        self.refuse(Reason::Home, format!("`{}` has no home for `{name}`", target.name))
    }

    fn channel_id(&self, id: ChannelId) -> Outcome {
        match self.site.kernel.channels.get(id.0 as usize) {
            Some(_) => Ok(()),
            None => self.refuse(Reason::Id, format!("there is no channel {}", id.0)),
        }
    }

    fn statements(&mut self, statements: &[Statement]) -> Outcome {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Outcome {
        if self.prologue
            && !matches!(
                statement,
                Statement::Loop { .. }
                    | Statement::Fill { .. }
                    | Statement::Load { .. }
                    | Statement::Compute { .. }
                    | Statement::Convert { .. }
                    | Statement::Reduce { .. }
                    | Statement::Contract { .. }
                    | Statement::Mma { .. }
                    | Statement::Bits { .. }
                    | Statement::Align { .. }
                    | Statement::Rescale { .. }
                    | Statement::Await { .. }
            )
        {
            return self.refuse(
                Reason::Prologue,
                "a prologue stores nothing, waits for nothing and uses no channel",
            );
        }
        let tiles = self.used(statement)?;
        if let Some(tile) = tiles.iter().find(|tile| tile.home == Home::TileRegisters) {
            let moves = matches!(
                statement,
                Statement::Fill { .. }
                    | Statement::Load { .. }
                    | Statement::Store { .. }
                    | Statement::Convert { .. }
                    | Statement::Mma { .. }
            );
            if !moves {
                return self.refuse(
                    Reason::Home,
                    format!("`{}` is in tile registers, which only products use", tile.name),
                );
            }
        }
        if let Some(TokenId(token)) = statement.token()
            && token >= self.site.kernel.tokens
        {
            return self.refuse(Reason::Id, format!("there is no token t{token}"));
        }
        let labels: Vec<Symbol> =
            tiles.iter().flat_map(|tile| &tile.ranges).map(|range| range.label.clone()).collect();
        let mut outcome = Ok(());
        let visible: &[Symbol] = if matches!(statement, Statement::Loop { .. }) { &[] } else { &labels };
        statement.visit_dims(&mut |dim| {
            if outcome.is_ok() {
                outcome = self.dim(dim, visible);
            }
        });
        outcome?;
        self.meaning(statement)
    }

    /// The tiles that a statement uses, each with ranges whose symbols are in sight and that agree on shared labels.
    fn used(&self, statement: &Statement) -> Outcome<Vec<&'a Tile>> {
        let mut tiles: Vec<&Tile> = Vec::new();
        for id in statement.writes().into_iter().chain(statement.reads()) {
            let tile = self.id(id)?;
            if !tiles.iter().any(|other| other.name == tile.name) {
                tiles.push(tile);
            }
        }
        let mut ranges: Vec<&Range> = Vec::new();
        for tile in &tiles {
            self.in_sight(tile)?;
            for range in &tile.ranges {
                match ranges.iter().find(|other| other.label == range.label) {
                    Some(other) if *other != range => {
                        return self
                            .refuse(Reason::Label, format!("label `{}` has two ranges here", range.label));
                    }
                    Some(_) => {}
                    None => ranges.push(range),
                }
            }
        }
        Ok(tiles)
    }

    /// The symbols of a tile's ranges mean something here, and its labels nothing else.
    fn in_sight(&self, tile: &Tile) -> Outcome {
        for (axis, range) in tile.ranges.iter().enumerate() {
            let earlier: Vec<Symbol> =
                tile.ranges.iter().take(axis).map(|range| range.label.clone()).collect();
            self.dim(&range.start, &[])?;
            self.dim(&range.end, &earlier)?;
            if self.coordinates.contains(&range.label)
                || self.site.program.facts.range(&range.label).is_some()
            {
                return self
                    .refuse(Reason::Name, format!("the label `{}` is a coordinate or a size", range.label));
            }
        }
        Ok(())
    }

    fn id(&self, id: TileId) -> Outcome<&'a Tile> {
        match self.site.kernel.tiles.get(id.0 as usize) {
            Some(tile) => Ok(tile),
            None => self.refuse(Reason::Id, format!("there is no tile {}", id.0)),
        }
    }

    fn buffer(&self, id: BufferId) -> Outcome<&'a Buffer> {
        match self.site.program.buffers.get(id.0 as usize) {
            Some(buffer) => Ok(buffer),
            None => self.refuse(Reason::Id, format!("there is no buffer {}", id.0)),
        }
    }

    /// Every symbol is a size, a coordinate in sight or one of `labels`, and every table is one.
    fn dim(&self, dim: &Dim, labels: &[Symbol]) -> Outcome {
        for symbol in dim.symbols() {
            let known = labels.contains(&symbol)
                || self.coordinates.contains(&symbol)
                || self.site.program.facts.range(&symbol).is_some();
            if !known {
                return self.refuse(Reason::Symbol, format!("`{symbol}` in `{dim}` means nothing here"));
            }
        }
        self.elements(dim)
    }

    fn elements(&self, dim: &Dim) -> Outcome {
        for (_, factors) in dim.terms() {
            for atom in factors {
                if let Atom::Element(name, index) = atom {
                    let (dtype, rank) = match self.site.table(name) {
                        Some(Table::Tile(id)) => {
                            let tile = self.id(id)?;
                            self.in_sight(tile)?;
                            (tile.dtype, tile.ranges.len())
                        }
                        Some(Table::Buffer(id)) => {
                            let buffer = self.buffer(id)?;
                            (buffer.dtype, buffer.extents.len())
                        }
                        None => {
                            return self
                                .refuse(Reason::Table, format!("the table `{name}` is no buffer or tile"));
                        }
                    };
                    if !dtype.is_int() || rank != index.len() {
                        return self.refuse(Reason::Table, format!("`{name}` is {dtype} of {rank} axes"));
                    }
                }
                atom.operands().into_iter().try_for_each(|operand| self.elements(operand))?;
            }
        }
        Ok(())
    }

    /// What each kind of statement asks for.
    fn meaning(&mut self, statement: &Statement) -> Outcome {
        match statement {
            Statement::Loop { coordinate, body, .. } => {
                let taken = self.coordinates.contains(coordinate)
                    || self.site.program.facts.range(coordinate).is_some();
                if taken {
                    return self.refuse(Reason::Name, format!("`{coordinate}` has a meaning already"));
                }
                self.coordinates.push(coordinate.clone());
                let outcome = self.statements(body);
                self.coordinates.pop();
                outcome
            }
            Statement::Fill { tile, value } => {
                let dtype = self.id(*tile)?.dtype;
                let fits = match value {
                    Scalar::Float(_) => dtype.is_float(),
                    Scalar::Int(_) => dtype.is_int(),
                    Scalar::Bool(_) => dtype == DType::Bool,
                };
                self.type_if(fits, format!("a number of another class than {dtype}"))
            }
            Statement::Load { tile, buffer, index, .. } | Statement::Store { tile, buffer, index, .. } => {
                let (tile, buffer) = (self.id(*tile)?, self.buffer(*buffer)?);
                if index.len() != buffer.extents.len() {
                    let (name, rank) = (&buffer.name, buffer.extents.len());
                    return self.refuse(
                        Reason::Count,
                        format!("{} indices for the {rank} axes of `{name}`", index.len()),
                    );
                }
                let message =
                    format!("`{}` is {}, `{}` is {}", tile.name, tile.dtype, buffer.name, buffer.dtype);
                self.type_if(tile.dtype == buffer.dtype, message)
            }
            Statement::Compute { function, arguments, result } => {
                if arguments.len() != function.arity {
                    return self.refuse(
                        Reason::Count,
                        format!("`{}` takes {} arguments", function.name, function.arity),
                    );
                }
                let result = self.id(*result)?;
                let mut types = Vec::new();
                for argument in arguments {
                    types.push(match argument {
                        Argument::Item(id) => {
                            let tile = self.id(*id)?;
                            self.labels_within(tile, &[result])?;
                            Some(tile.dtype)
                        }
                        _ => None,
                    });
                }
                match elementwise_types(function, arguments, &types, result.dtype) {
                    Ok(()) => Ok(()),
                    Err(message) => self.refuse(Reason::Type, message),
                }
            }
            Statement::Convert { from, to } => {
                let (from, to) = (self.id(*from)?, self.id(*to)?);
                let message = format!("`{}` is {}, `{}` is {}", from.name, from.dtype, to.name, to.dtype);
                self.type_if(from.dtype == to.dtype, message)?;
                if from.ranges != to.ranges {
                    return self.refuse(
                        Reason::Label,
                        format!("`{}` and `{}` have other ranges", from.name, to.name),
                    );
                }
                Ok(())
            }
            Statement::Reduce { monoid, argument, mask, state, .. } => {
                let tile = self.id(*argument)?;
                self.type_if(
                    (monoid.accepts)(tile.dtype),
                    format!("`{}` does not take {}", monoid.name, tile.dtype),
                )?;
                let accumulate = match state.first() {
                    Some(first) => self.id(*first)?.dtype,
                    None => tile.dtype,
                };
                let wanted = (monoid.state)(tile.dtype, accumulate);
                if wanted.len() != state.len() {
                    return self.refuse(
                        Reason::Count,
                        format!("a state of `{}` has {} parts", monoid.name, wanted.len()),
                    );
                }
                for (id, wanted) in state.iter().zip(wanted) {
                    let part = self.id(*id)?;
                    self.type_if(
                        part.dtype == wanted,
                        format!("`{}` is {}, not {wanted}", part.name, part.dtype),
                    )?;
                    self.labels_within(part, &[tile])?;
                }
                self.apart(state, &[*argument], mask)?;
                self.mask(mask, &[tile])
            }
            Statement::Contract { factors, sum, mask } => {
                if factors.is_empty() || factors.len() > 3 {
                    return self.refuse(Reason::Count, "a contraction has one to three factors");
                }
                self.product(factors, *sum, mask)
            }
            Statement::Mma { row, a, b, c, mask, token } => {
                let Some(row) = self.site.target.rows.iter().find(|other| other.name == *row) else {
                    return self
                        .refuse(Reason::Row, format!("`{}` has no row `{row}`", self.site.target.name));
                };
                if let Err(misfit) = row_fits(row, [self.id(*a)?, self.id(*b)?, self.id(*c)?]) {
                    return self
                        .refuse(Reason::Row, format!("`{}` does not do this product: {misfit:?}", row.name));
                }
                if token.is_some() && !row.asynchronous {
                    return self.refuse(Reason::Row, format!("`{}` gives no token", row.name));
                }
                self.product(&[*a, *b], *c, mask)
            }
            Statement::Bits { source, offset, width, result, .. } => {
                let (source, result) = (self.id(*source)?, self.id(*result)?);
                self.labels_within(source, &[result])?;
                let bits = 8 * source.dtype.bytes() as u32;
                let fits = source.dtype.is_int() && result.dtype.is_int();
                let inside = *width > 0 && offset.checked_add(*width).is_some_and(|end| end <= bits);
                self.type_if(
                    fits && inside,
                    format!("{} has no bits {offset} to {offset} + {width}", source.dtype),
                )
            }
            Statement::Align { significand, exponent, result } => {
                let (x, e, r) = (self.id(*significand)?, self.id(*exponent)?, self.id(*result)?);
                self.labels_within(e, &[x])?;
                self.labels_within(r, &[x])?;
                self.apart(&[*result], &[*significand, *exponent], &Mask::always())?;
                let fits = x.dtype.is_float() && e.dtype.is_int() && r.dtype == e.dtype;
                self.type_if(fits, "significands are floats, exponents integers of one type")
            }
            Statement::Rescale { significand, from, to, result } => {
                let (x, r) = (self.id(*significand)?, self.id(*result)?);
                let (from, to) = (self.id(*from)?, self.id(*to)?);
                for tile in [x, from, to] {
                    self.labels_within(tile, &[r])?;
                }
                let fits =
                    x.dtype.is_float() && r.dtype == x.dtype && from.dtype.is_int() && to.dtype.is_int();
                self.type_if(fits, "significands are floats of one type, exponents integers")
            }
            Statement::Opaque { operator, operands, results, .. } => {
                if operator.opaque.is_none() {
                    return self.refuse(
                        Reason::Operator,
                        format!("`{}` is no function of whole buffers", operator.name),
                    );
                }
                operands.iter().chain(results).try_for_each(|id| self.buffer(*id).map(|_| ()))
            }
            Statement::Await { token } | Statement::Commit { token: Some(token), .. }
                if token.0 >= self.site.kernel.tokens =>
            {
                self.refuse(Reason::Id, format!("there is no token t{}", token.0))
            }
            Statement::Await { .. } => Ok(()),
            Statement::Acquire { channel }
            | Statement::Commit { channel, .. }
            | Statement::Receive { channel }
            | Statement::Release { channel } => self.channel_id(*channel),
            Statement::Wait(edge) => self.wait(edge),
            Statement::Notify(_) => self.refuse(Reason::Edge, "a task notifies at its end"),
        }
    }

    fn wait(&self, edge: &Edge) -> Outcome {
        if self.site.family.waits.contains(edge) {
            return Ok(());
        }
        self.refuse(Reason::Edge, "a body waits only for what its family waits for")
    }

    fn type_if(&self, fits: bool, message: impl std::fmt::Display) -> Outcome {
        if fits { Ok(()) } else { self.refuse(Reason::Type, message) }
    }

    fn product(&self, factors: &[TileId], sum: TileId, mask: &Mask) -> Outcome {
        let total = self.id(sum)?;
        let number = |dtype: DType| dtype.is_float() || dtype.is_int();
        let mut tiles = vec![total];
        for factor in factors {
            let tile = self.id(*factor)?;
            let fits = number(tile.dtype) && number(total.dtype);
            self.type_if(fits, format!("a factor of {} in a sum of {}", tile.dtype, total.dtype))?;
            tiles.push(tile);
        }
        self.apart(&[sum], factors, mask)?;
        self.mask(mask, &tiles)
    }

    /// What is updated is not also read otherwise, and is not given twice.
    fn apart(&self, updated: &[TileId], read: &[TileId], mask: &Mask) -> Outcome {
        let twice = updated.iter().enumerate().any(|(k, id)| updated.iter().take(k).any(|other| other == id));
        if twice || updated.iter().any(|id| read.contains(id) || mask.tiles.contains(id)) {
            return self.refuse(Reason::Label, "a tile is updated and read in one statement");
        }
        Ok(())
    }

    fn mask(&self, mask: &Mask, tiles: &[&Tile]) -> Outcome {
        for id in &mask.tiles {
            let tile = self.id(*id)?;
            self.type_if(tile.dtype == DType::Bool, format!("the mask `{}` is {}", tile.name, tile.dtype))?;
            self.labels_within(tile, tiles)?;
        }
        Ok(())
    }

    /// Every label of the tile is one of these tiles'.
    fn labels_within(&self, tile: &Tile, tiles: &[&Tile]) -> Outcome {
        let known =
            |label: &Symbol| tiles.iter().any(|other| other.ranges.iter().any(|range| range.label == *label));
        match tile.ranges.iter().find(|range| !known(&range.label)) {
            Some(range) => self
                .refuse(Reason::Label, format!("`{}` has a label `{}` of its own", tile.name, range.label)),
            None => Ok(()),
        }
    }
}
