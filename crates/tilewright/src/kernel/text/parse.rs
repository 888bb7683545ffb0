//! Reads kernels.

use crate::block::Range;
use crate::dim::{Cond, Dim, Symbol, parse_cond, parse_dim};
use crate::kernel::ir::{
    Argument, Channel, ChannelId, Home, Kernel, Mask, Role, Statement, Tile, TileId, TokenId,
};
use crate::kernel::layout::{Coordinate, Layout, parse_layout};
use crate::task::BufferId;
use crate::task::text::{Context, parse_edge};
use crate::tensor::{DType, Scalar, elementwise, monoid, ops};
use crate::text::{Error, Parser, Span, Token};

struct Reader<'a> {
    kernel: Kernel,
    context: &'a Context<'a>,
    /// The family's coordinates and those of the loops around.
    coordinates: Vec<(Symbol, Dim)>,
}

pub(super) fn kernel(p: &mut Parser<'_>, context: &Context<'_>) -> Result<Kernel, Error> {
    let mut reader = Reader { kernel: Kernel::default(), context, coordinates: context.coordinates.to_vec() };
    while p.eat("channel") {
        let channel = reader.channel_line(p)?;
        reader.kernel.channels.push(channel);
    }
    while p.eat("tile") {
        let tile = reader.tile_line(p)?;
        reader.kernel.tiles.push(tile);
    }
    if p.eat("tokens") {
        reader.kernel.tokens = count(p, "the number of tokens")?;
    }
    if p.eat("prologue") {
        reader.kernel.prologue = reader.block(p)?;
    }
    while p.eat("role") {
        let (name, span) = p.ident("the name of a role")?;
        let name = Symbol::new(name);
        if reader.kernel.roles.iter().any(|role| role.name == name) {
            return Err(p.error(span, format!("role `{name}` is defined twice")));
        }
        let body = reader.block(p)?;
        reader.kernel.roles.push(Role { name, body });
    }
    if p.at("}") {
        return Ok(reader.kernel);
    }
    Err(p.expected("`channel`, `tile`, `tokens`, `prologue`, `role` (in this order) or `}`"))
}

fn count(p: &mut Parser<'_>, what: &str) -> Result<u32, Error> {
    let (value, span) = p.integer(what)?;
    u32::try_from(value).map_err(|_| p.error(span, format!("{what} is not below 2^32")))
}

fn dtype(p: &mut Parser<'_>) -> Result<DType, Error> {
    let (name, span) = p.ident("an element type")?;
    DType::from_name(name).ok_or_else(|| p.error(span, format!("`{name}` is not an element type")))
}

fn range(p: &mut Parser<'_>) -> Result<Range, Error> {
    let (label, _) = p.ident("a label")?;
    p.expect(":")?;
    let start = parse_dim(p)?;
    p.expect("+:")?;
    let (size, _) = p.integer("a size")?;
    p.expect("<")?;
    Ok(Range { label: Symbol::new(label), start, size, end: parse_dim(p)? })
}

fn scalar(p: &mut Parser<'_>) -> Result<Scalar, Error> {
    match p.peek_at(usize::from(p.at("-"))) {
        Token::Int(_) | Token::Least => Ok(Scalar::Int(p.integer("a number")?.0)),
        Token::Ident("true") if p.eat("true") => Ok(Scalar::Bool(true)),
        Token::Ident("false") if p.eat("false") => Ok(Scalar::Bool(false)),
        _ => Ok(Scalar::Float(p.number("a number")?.0)),
    }
}

/// Takes a word that starts a clause, unless it is a name that the next statement assigns to.
fn clause(p: &mut Parser<'_>, word: &str) -> bool {
    let found = p.at(word) && !p.is_at(1, "=");
    if found {
        p.next();
    }
    found
}

impl Reader<'_> {
    fn channel_line(&self, p: &mut Parser<'_>) -> Result<Channel, Error> {
        let (name, span) = p.ident("the name of a channel")?;
        let name = Symbol::new(name);
        if self.kernel.channels.iter().any(|channel| channel.name == name) {
            return Err(p.error(span, format!("channel `{name}` is defined twice")));
        }
        p.expect("pages")?;
        let pages = count(p, "the number of pages")? as usize;
        p.expect("bytes")?;
        let (bytes, span) = p.integer("the bytes of a page")?;
        let bytes = usize::try_from(bytes).map_err(|_| p.error(span, "a page has no negative size"))?;
        p.expect("from")?;
        let producer = Symbol::new(p.ident("the role that fills pages")?.0);
        p.expect("to")?;
        let consumer = Symbol::new(p.ident("the role that reads pages")?.0);
        Ok(Channel { name, pages, bytes, producer, consumer })
    }

    fn tile_line(&self, p: &mut Parser<'_>) -> Result<Tile, Error> {
        let (name, span) = p.ident("the name of a tile")?;
        let name = Symbol::new(name);
        if self.kernel.tiles.iter().any(|tile| tile.name == name) {
            return Err(p.error(span, format!("tile `{name}` is defined twice")));
        }
        p.expect(":")?;
        let dtype = dtype(p)?;
        let ranges = if p.at("{") { p.list("{", "}", range)? } else { Vec::new() };
        let home = if p.eat("in") { self.home(p)? } else { Home::Near };
        let stated = Coordinate::ALL.iter().any(|coordinate| p.at(coordinate.name()));
        let sizes: Vec<i64> = ranges.iter().map(|range| range.size).collect();
        let layout = if stated { parse_layout(p)? } else { Layout::row_major(&sizes) };
        Ok(Tile { name, dtype, ranges, layout, home })
    }

    fn home(&self, p: &mut Parser<'_>) -> Result<Home, Error> {
        let homes = [
            ("registers", Home::Registers),
            ("tile_registers", Home::TileRegisters),
            ("near", Home::Near),
            ("cluster", Home::Cluster),
            ("memory", Home::Memory),
        ];
        if let Some((_, home)) = homes.into_iter().find(|(word, _)| p.eat(word)) {
            return Ok(home);
        }
        if !p.eat("page") {
            return Err(p.expected("`registers`, `tile_registers`, `near`, `cluster`, `memory` or `page`"));
        }
        Ok(Home::Channel(self.channel(p)?))
    }

    fn channel(&self, p: &mut Parser<'_>) -> Result<ChannelId, Error> {
        let (name, span) = p.ident("the name of a channel")?;
        let found = self.kernel.channels.iter().position(|channel| channel.name.as_str() == name);
        let index = found.ok_or_else(|| p.error(span, format!("there is no channel `{name}`")))?;
        Ok(ChannelId(index as u32))
    }

    fn tile(&self, p: &mut Parser<'_>) -> Result<TileId, Error> {
        let (name, span) = p.ident("the name of a tile")?;
        self.find(p, name, span)
    }

    fn find(&self, p: &Parser<'_>, name: &str, span: Span) -> Result<TileId, Error> {
        let found = self.kernel.tiles.iter().position(|tile| tile.name.as_str() == name);
        let index = found.ok_or_else(|| p.error(span, format!("there is no tile `{name}`")))?;
        Ok(TileId(index as u32))
    }

    fn tiles(&self, p: &mut Parser<'_>) -> Result<Vec<TileId>, Error> {
        let mut tiles = vec![self.tile(p)?];
        while p.eat(",") {
            tiles.push(self.tile(p)?);
        }
        Ok(tiles)
    }

    fn buffer(&self, p: &mut Parser<'_>) -> Result<BufferId, Error> {
        let (name, span) = p.ident("the name of a buffer")?;
        let found = self.context.buffers.iter().position(|buffer| buffer.name.as_str() == name);
        let index = found.ok_or_else(|| p.error(span, format!("there is no buffer named `{name}`")))?;
        Ok(BufferId(index as u32))
    }

    fn token(&self, p: &mut Parser<'_>) -> Result<TokenId, Error> {
        let (name, span) = p.ident("a token, such as `t0`")?;
        let number = name.strip_prefix('t').filter(|digits| *digits == "0" || !digits.starts_with('0'));
        let number = number.and_then(|digits| digits.parse::<u32>().ok());
        let number = number.ok_or_else(|| p.error(span, format!("`{name}` is not a token, such as `t0`")))?;
        if number >= self.kernel.tokens {
            let message =
                format!("there is no token `{name}`; `tokens {}` says how many", self.kernel.tokens);
            return Err(p.error(span, message));
        }
        Ok(TokenId(number))
    }

    fn gives(&self, p: &mut Parser<'_>) -> Result<Option<TokenId>, Error> {
        if clause(p, "gives") { Ok(Some(self.token(p)?)) } else { Ok(None) }
    }

    fn mask(&self, p: &mut Parser<'_>) -> Result<Mask, Error> {
        let condition = if clause(p, "where") { parse_cond(p)? } else { Cond::True };
        let tiles = if clause(p, "masks") { self.tiles(p)? } else { Vec::new() };
        Ok(Mask { condition, tiles })
    }

    /// Statements between braces.
    fn block(&mut self, p: &mut Parser<'_>) -> Result<Vec<Statement>, Error> {
        p.expect("{")?;
        let mut statements = Vec::new();
        while !p.eat("}") {
            statements.push(p.nested(|p| self.statement(p))?);
        }
        Ok(statements)
    }

    fn statement(&mut self, p: &mut Parser<'_>) -> Result<Statement, Error> {
        let (word, span) = p.ident("a statement or `}`")?;
        if p.eat("=") {
            let tile = self.find(p, word, span)?;
            return self.assignment(p, tile);
        }
        Ok(match word {
            "for" => {
                let coordinate = Symbol::new(p.ident("the name of a coordinate")?.0);
                p.expect("in")?;
                let extent = parse_dim(p)?;
                self.coordinates.push((coordinate.clone(), extent.clone()));
                let body = self.block(p)?;
                self.coordinates.pop();
                Statement::Loop { coordinate, extent, body }
            }
            "store" => {
                let tile = self.tile(p)?;
                p.expect("->")?;
                let buffer = self.buffer(p)?;
                let index = p.list("[", "]", parse_dim)?;
                Statement::Store { tile, buffer, index, token: self.gives(p)? }
            }
            "reduce" => {
                let (name, span) = p.ident("a monoid")?;
                let monoid = monoid::find(name)
                    .ok_or_else(|| p.error(span, format!("there is no monoid `{name}`")))?;
                let argument = self.tile(p)?;
                let position = if p.eat("at") { parse_dim(p)? } else { Dim::constant(0) };
                p.expect("into")?;
                let state = self.tiles(p)?;
                Statement::Reduce { monoid, argument, position, mask: self.mask(p)?, state }
            }
            "contract" => {
                let factors = self.tiles(p)?;
                p.expect("into")?;
                let sum = self.tile(p)?;
                Statement::Contract { factors, sum, mask: self.mask(p)? }
            }
            "mma" => {
                let row = Symbol::new(p.ident("the name of an instruction row")?.0);
                let a = self.tile(p)?;
                p.expect(",")?;
                let b = self.tile(p)?;
                p.expect("into")?;
                let c = self.tile(p)?;
                let mask = self.mask(p)?;
                Statement::Mma { row, a, b, c, mask, token: self.gives(p)? }
            }
            "opaque" => {
                let (name, span) = p.ident("an operator")?;
                let operator =
                    ops::find(name).ok_or_else(|| p.error(span, format!("there is no operator `{name}`")))?;
                let operands = p.list("(", ")", |p| self.buffer(p))?;
                p.expect("axis")?;
                let axis = count(p, "the number of an axis")? as usize;
                p.expect("->")?;
                let mut results = vec![self.buffer(p)?];
                while p.eat(",") {
                    results.push(self.buffer(p)?);
                }
                Statement::Opaque { operator, axis, operands, results }
            }
            "await" => Statement::Await { token: self.token(p)? },
            "acquire" => Statement::Acquire { channel: self.channel(p)? },
            "commit" => {
                let channel = self.channel(p)?;
                let token = if clause(p, "after") { Some(self.token(p)?) } else { None };
                Statement::Commit { channel, token }
            }
            "receive" => Statement::Receive { channel: self.channel(p)? },
            "release" => Statement::Release { channel: self.channel(p)? },
            "wait" => Statement::Wait(parse_edge(p, self.context.events, &self.coordinates)?),
            "notify" => Statement::Notify(parse_edge(p, self.context.events, &self.coordinates)?),
            _ => return Err(p.error(span, format!("`{word}` is no statement"))),
        })
    }

    /// What stands behind `tile =`.
    fn assignment(&self, p: &mut Parser<'_>, tile: TileId) -> Result<Statement, Error> {
        let (word, span) = p.ident("what the tile becomes")?;
        Ok(match word {
            "fill" => Statement::Fill { tile, value: scalar(p)? },
            "load" => {
                let buffer = self.buffer(p)?;
                let index = p.list("[", "]", parse_dim)?;
                let when = if clause(p, "when") { parse_cond(p)? } else { Cond::True };
                Statement::Load { tile, buffer, index, when, token: self.gives(p)? }
            }
            "convert" => Statement::Convert { from: self.tile(p)?, to: tile },
            "bits" => {
                let source = self.tile(p)?;
                let offset = count(p, "the first bit")?;
                let width = count(p, "the number of bits")?;
                let signed = clause(p, "signed");
                Statement::Bits { source, offset, width, signed, result: tile }
            }
            "align" => {
                let significand = self.tile(p)?;
                p.expect(",")?;
                Statement::Align { significand, exponent: self.tile(p)?, result: tile }
            }
            "rescale" => {
                let significand = self.tile(p)?;
                p.expect(",")?;
                let from = self.tile(p)?;
                p.expect(",")?;
                Statement::Rescale { significand, from, to: self.tile(p)?, result: tile }
            }
            _ => {
                let function = elementwise::find(word).ok_or_else(|| {
                    p.error(span, format!("`{word}` is neither a statement nor an elementwise function"))
                })?;
                let arguments = (0..function.arity).map(|_| self.argument(p)).collect::<Result<_, _>>()?;
                Statement::Compute { function, arguments, result: tile }
            }
        })
    }

    fn argument(&self, p: &mut Parser<'_>) -> Result<Argument, Error> {
        match p.peek() {
            Token::Ident("index") if p.is_at(1, "(") => {
                p.next();
                p.expect("(")?;
                let dim = parse_dim(p)?;
                p.expect(")")?;
                Ok(Argument::Index(dim))
            }
            Token::Ident("holds") if p.is_at(1, "(") => {
                p.next();
                p.expect("(")?;
                let cond = parse_cond(p)?;
                p.expect(")")?;
                Ok(Argument::Holds(cond))
            }
            Token::Ident("inf" | "nan" | "true" | "false") => Ok(Argument::Literal(scalar(p)?)),
            Token::Ident(_) => Ok(Argument::Item(self.tile(p)?)),
            _ => Ok(Argument::Literal(scalar(p)?)),
        }
    }
}
