//! Prints kernels.

use crate::dim::{Cond, Dim, Symbol};
use crate::kernel::ir::{Argument, ChannelId, Home, Kernel, Mask, Statement, Tile, TileId, TokenId};
use crate::kernel::layout::Layout;
use crate::task::BufferId;
use crate::task::text::{Context, print_edge};
use crate::tensor::Scalar;
use crate::text::format_float;
use std::fmt::{Display, Write};

struct Printer<'a> {
    kernel: &'a Kernel,
    context: &'a Context<'a>,
    /// The family's coordinates and those of the loops around.
    coordinates: Vec<(Symbol, Dim)>,
}

pub(super) fn kernel(kernel: &Kernel, context: &Context<'_>, indent: usize, out: &mut String) {
    let mut printer = Printer { kernel, context, coordinates: context.coordinates.to_vec() };
    for channel in &kernel.channels {
        let _ = writeln!(
            out,
            "{:indent$}channel {} pages {} bytes {} from {} to {}",
            "", channel.name, channel.pages, channel.bytes, channel.producer, channel.consumer
        );
    }
    for tile in &kernel.tiles {
        let _ = writeln!(out, "{:indent$}tile {}", "", printer.tile_line(tile));
    }
    if kernel.tokens > 0 {
        let _ = writeln!(out, "{:indent$}tokens {}", "", kernel.tokens);
    }
    if !kernel.prologue.is_empty() {
        let _ = writeln!(out, "{:indent$}prologue {{", "");
        printer.statements(&kernel.prologue, indent + 2, out);
        let _ = writeln!(out, "{:indent$}}}", "");
    }
    for role in &kernel.roles {
        let _ = writeln!(out, "{:indent$}role {} {{", "", role.name);
        printer.statements(&role.body, indent + 2, out);
        let _ = writeln!(out, "{:indent$}}}", "");
    }
}

fn joined<T: Display>(parts: impl IntoIterator<Item = T>) -> String {
    let parts: Vec<String> = parts.into_iter().map(|part| part.to_string()).collect();
    parts.join(", ")
}

fn literal(value: Scalar) -> String {
    match value {
        Scalar::Float(x) => format_float(x),
        Scalar::Int(x) => x.to_string(),
        Scalar::Bool(x) => x.to_string(),
    }
}

fn gives(token: Option<TokenId>) -> String {
    token.map_or(String::new(), |token| format!(" gives t{}", token.0))
}

impl Printer<'_> {
    fn tile_line(&self, tile: &Tile) -> String {
        let mut line = format!("{}: {}", tile.name, tile.dtype);
        if !tile.ranges.is_empty() {
            let _ = write!(line, "{{{}}}", joined(&tile.ranges));
        }
        let _ = match tile.home {
            Home::Near => Ok(()),
            Home::Registers => write!(line, " in registers"),
            Home::TileRegisters => write!(line, " in tile_registers"),
            Home::Cluster => write!(line, " in cluster"),
            Home::Memory => write!(line, " in memory"),
            Home::Channel(channel) => write!(line, " in page {}", self.channel(channel)),
        };
        let sizes: Vec<i64> = tile.ranges.iter().map(|range| range.size).collect();
        if tile.layout != Layout::row_major(&sizes) {
            let _ = write!(line, " {}", tile.layout);
        }
        line
    }

    fn tile(&self, id: TileId) -> String {
        match self.kernel.tiles.get(id.0 as usize) {
            Some(tile) => tile.name.to_string(),
            None => format!("?{}", id.0),
        }
    }

    fn tiles(&self, ids: &[TileId]) -> String {
        joined(ids.iter().map(|id| self.tile(*id)))
    }

    fn channel(&self, id: ChannelId) -> String {
        match self.kernel.channels.get(id.0 as usize) {
            Some(channel) => channel.name.to_string(),
            None => format!("?{}", id.0),
        }
    }

    fn buffer(&self, id: BufferId) -> String {
        match self.context.buffers.get(id.0 as usize) {
            Some(buffer) => buffer.name.to_string(),
            None => format!("?{}", id.0),
        }
    }

    fn buffers(&self, ids: &[BufferId]) -> String {
        joined(ids.iter().map(|id| self.buffer(*id)))
    }

    fn mask(&self, mask: &Mask) -> String {
        let mut text = String::new();
        if mask.condition != Cond::True {
            let _ = write!(text, " where {}", mask.condition);
        }
        if !mask.tiles.is_empty() {
            let _ = write!(text, " masks {}", self.tiles(&mask.tiles));
        }
        text
    }

    fn argument(&self, argument: &Argument) -> String {
        match argument {
            Argument::Item(id) => self.tile(*id),
            Argument::Literal(value) => literal(*value),
            Argument::Index(dim) => format!("index({dim})"),
            Argument::Holds(cond) => format!("holds({cond})"),
        }
    }

    fn statements(&mut self, statements: &[Statement], indent: usize, out: &mut String) {
        for statement in statements {
            if let Statement::Loop { coordinate, extent, body } = statement {
                let _ = writeln!(out, "{:indent$}for {coordinate} in {extent} {{", "");
                self.coordinates.push((coordinate.clone(), extent.clone()));
                self.statements(body, indent + 2, out);
                self.coordinates.pop();
                let _ = writeln!(out, "{:indent$}}}", "");
            } else {
                let _ = writeln!(out, "{:indent$}{}", "", self.line(statement));
            }
        }
    }

    fn line(&self, statement: &Statement) -> String {
        match statement {
            Statement::Loop { .. } => String::new(),
            Statement::Fill { tile, value } => format!("{} = fill {}", self.tile(*tile), literal(*value)),
            Statement::Load { tile, buffer, index, when, token } => {
                let when = if when.is_true() { String::new() } else { format!(" when {when}") };
                let (tile, buffer) = (self.tile(*tile), self.buffer(*buffer));
                format!("{tile} = load {buffer}[{}]{when}{}", joined(index), gives(*token))
            }
            Statement::Store { tile, buffer, index, token } => {
                let (tile, buffer) = (self.tile(*tile), self.buffer(*buffer));
                format!("store {tile} -> {buffer}[{}]{}", joined(index), gives(*token))
            }
            Statement::Compute { function, arguments, result } => {
                let mut line = format!("{} = {}", self.tile(*result), function.name);
                for argument in arguments {
                    let _ = write!(line, " {}", self.argument(argument));
                }
                line
            }
            Statement::Convert { from, to } => format!("{} = convert {}", self.tile(*to), self.tile(*from)),
            Statement::Reduce { monoid, argument, position, mask, state } => {
                let at = if position.is_zero() { String::new() } else { format!(" at {position}") };
                let (argument, state) = (self.tile(*argument), self.tiles(state));
                format!("reduce {} {argument}{at} into {state}{}", monoid.name, self.mask(mask))
            }
            Statement::Contract { factors, sum, mask } => {
                format!("contract {} into {}{}", self.tiles(factors), self.tile(*sum), self.mask(mask))
            }
            Statement::Mma { row, a, b, c, mask, token } => {
                let (factors, sum) = (self.tiles(&[*a, *b]), self.tile(*c));
                format!("mma {row} {factors} into {sum}{}{}", self.mask(mask), gives(*token))
            }
            Statement::Bits { source, offset, width, signed, result } => {
                let signed = if *signed { " signed" } else { "" };
                format!("{} = bits {} {offset} {width}{signed}", self.tile(*result), self.tile(*source))
            }
            Statement::Align { significand, exponent, result } => {
                format!("{} = align {}", self.tile(*result), self.tiles(&[*significand, *exponent]))
            }
            Statement::Rescale { significand, from, to, result } => {
                format!("{} = rescale {}", self.tile(*result), self.tiles(&[*significand, *from, *to]))
            }
            Statement::Opaque { operator, axis, operands, results } => {
                let (operands, results) = (self.buffers(operands), self.buffers(results));
                format!("opaque {}({operands}) axis {axis} -> {results}", operator.name)
            }
            Statement::Await { token } => format!("await t{}", token.0),
            Statement::Acquire { channel } => format!("acquire {}", self.channel(*channel)),
            Statement::Commit { channel, token } => {
                let after = token.map_or(String::new(), |token| format!(" after t{}", token.0));
                format!("commit {}{after}", self.channel(*channel))
            }
            Statement::Receive { channel } => format!("receive {}", self.channel(*channel)),
            Statement::Release { channel } => format!("release {}", self.channel(*channel)),
            Statement::Wait(edge) => {
                format!("wait {}", print_edge(self.context.events, &self.coordinates, edge))
            }
            Statement::Notify(edge) => {
                format!("notify {}", print_edge(self.context.events, &self.coordinates, edge))
            }
        }
    }
}
