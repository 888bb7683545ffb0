//! Layouts: which hardware location holds which element of a tile, as an algebra of digits.
//!
//! A hardware location is a tuple of coordinates (lane, register, thread, byte offset of a page). Each coordinate is
//! written in mixed radix; every digit moves along one axis of the tile by a stride:
//!
//! ```text
//! index[axis] = Σ over digits of that axis of digit · stride
//! ```
//!
//! Row-major order, register tiles, VNNI pairs and matrix fragments are all of this form. A layout is *total* if every
//! element has a location, and *injective* if it has one only.
//!
//! The text form lists the digits of each coordinate, the fastest first, as `count x axis * stride`; the stride 1 is
//! left out:
//!
//! ```text
//! layout = group (" " group)*              group = coordinate "(" digit ("," digit)* ")"
//! digit  = count "x" axis ["*" stride]     coordinate = "offset" | "lane" | "register" | "thread"
//! ```
//!
//! `offset(8x1, 4x0)` is the row-major order of a tile of 4 by 8; `lane(2x1, 16x0) register(8x1*2)` are pairs along
//! axis 1 interleaved over 16 rows, VNNI.

use crate::text::{Error, Parser, Token};
use std::collections::BTreeMap;
use std::fmt;

/// The most digits of a layout.
pub const MAX_DIGITS: usize = 64;

/// A coordinate of hardware locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coordinate {
    /// Element offset in a page or in memory.
    Offset,
    /// Lane of a vector register, or column of a tile register.
    Lane,
    /// Number of the register, or row of a tile register.
    Register,
    /// Thread of a block.
    Thread,
}

/// One digit of a hardware coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digit {
    /// Which coordinate it is a digit of; the first digit listed for a coordinate varies fastest.
    pub coordinate: Coordinate,
    /// How many values it takes.
    pub size: i64,
    /// The axis of the tile along which it moves.
    pub axis: usize,
    /// By how much.
    pub stride: i64,
}

/// A layout of a tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The digits, fastest first within each coordinate.
    pub digits: Vec<Digit>,
}

impl Coordinate {
    /// All of them, in the order in which a text lists them.
    pub const ALL: [Coordinate; 4] =
        [Coordinate::Offset, Coordinate::Lane, Coordinate::Register, Coordinate::Thread];

    /// The text name.
    pub fn name(self) -> &'static str {
        match self {
            Coordinate::Offset => "offset",
            Coordinate::Lane => "lane",
            Coordinate::Register => "register",
            Coordinate::Thread => "thread",
        }
    }
}

/// A hardware location: the value of each coordinate; a coordinate that is not there is 0.
pub type Location = BTreeMap<Coordinate, i64>;

/// A digit, for constructors: size, axis, stride.
fn digit(coordinate: Coordinate, size: i64, axis: usize, stride: i64) -> Digit {
    Digit { coordinate, size, axis, stride }
}

impl Layout {
    /// A layout of these digits; those that take one value only are left out, and two that are one are joined.
    pub fn new(digits: impl IntoIterator<Item = Digit>) -> Layout {
        let mut groups: [Vec<Digit>; 4] = [const { Vec::new() }; 4];
        for next in digits {
            let Some(group) = groups.get_mut(next.coordinate as usize) else { continue };
            match group.last_mut() {
                _ if next.size == 1 => {}
                Some(last)
                    if last.axis == next.axis && last.stride.checked_mul(last.size) == Some(next.stride) =>
                {
                    last.size = last.size.saturating_mul(next.size);
                }
                _ => group.push(next),
            }
        }
        Layout { digits: groups.concat() }
    }

    /// The elements in memory order, the last axis fastest.
    pub fn row_major(sizes: &[i64]) -> Layout {
        let digits = sizes.iter().enumerate().rev();
        Layout::new(digits.map(|(axis, &size)| digit(Coordinate::Offset, size, axis, 1)))
    }

    /// A matrix of `rows` by `columns` (axes 0 and 1) in vector registers of `lanes` elements along the columns, row
    /// after row. `lanes` divides `columns`.
    pub fn registers(rows: i64, columns: i64, lanes: i64) -> Layout {
        Layout::new([
            digit(Coordinate::Lane, lanes, 1, 1),
            digit(Coordinate::Register, columns / lanes.max(1), 1, lanes),
            digit(Coordinate::Register, rows, 0, 1),
        ])
    }

    /// The right factor `[n, k]` (axes 0 and 1) in memory, `group` neighbours along `k` together: VNNI pairs of bf16 for
    /// 2, quadruples of bytes for 4. `group` divides `k`.
    pub fn vnni(n: i64, k: i64, group: i64) -> Layout {
        Layout::new([
            digit(Coordinate::Offset, group, 1, 1),
            digit(Coordinate::Offset, n, 0, 1),
            digit(Coordinate::Offset, k / group.max(1), 1, group),
        ])
    }

    /// A matrix of `rows` by `columns` (axes 0 and 1) in a tile register: a row of the matrix is a row of the tile.
    pub fn tile_register(rows: i64, columns: i64) -> Layout {
        Layout::new([digit(Coordinate::Lane, columns, 1, 1), digit(Coordinate::Register, rows, 0, 1)])
    }

    /// The right factor `[n, k]` of a tile product: row `k / group` of the tile holds `group` neighbours along `k` for
    /// each of `n` columns.
    pub fn tile_register_vnni(n: i64, k: i64, group: i64) -> Layout {
        Layout::new([
            digit(Coordinate::Lane, group, 1, 1),
            digit(Coordinate::Lane, n, 0, 1),
            digit(Coordinate::Register, k / group.max(1), 1, group),
        ])
    }

    /// The sum of `mma.sync.m16n8` over 32 threads (axes 0 and 1 of 16 by 8): thread `4·g + t` holds columns `2t` and
    /// `2t + 1` of rows `g` and `g + 8`.
    pub fn mma_m16n8_sum() -> Layout {
        Layout::new([
            digit(Coordinate::Register, 2, 1, 1),
            digit(Coordinate::Register, 2, 0, 8),
            digit(Coordinate::Thread, 4, 1, 2),
            digit(Coordinate::Thread, 8, 0, 1),
        ])
    }

    /// How many values a coordinate takes; 1 where it does not occur.
    pub fn size(&self, coordinate: Coordinate) -> i64 {
        let digits = self.digits.iter().filter(|digit| digit.coordinate == coordinate);
        digits.fold(1, |size, digit| size.saturating_mul(digit.size))
    }

    /// How many locations there are.
    pub fn locations(&self) -> i64 {
        self.digits.iter().fold(1, |count, digit| count.saturating_mul(digit.size))
    }

    /// The index that a location holds, one number per axis of a tile of `rank` axes; none for a location that there is
    /// not, and for a digit along an axis that there is not.
    pub fn index_of(&self, location: &Location, rank: usize) -> Option<Vec<i64>> {
        let mut left = location.clone();
        let mut index = vec![0i64; rank];
        for digit in &self.digits {
            let rest = left.entry(digit.coordinate).or_insert(0);
            let size = (digit.size > 0).then_some(digit.size)?;
            let value = rest.rem_euclid(size);
            *rest = rest.div_euclid(size);
            let place = index.get_mut(digit.axis)?;
            *place = value.checked_mul(digit.stride).and_then(|step| place.checked_add(step))?;
        }
        left.values().all(|rest| *rest == 0).then_some(index)
    }

    /// The location that holds an index; none where there is none. Where there are several, the one of the greatest
    /// digits of the greatest strides.
    pub fn location_of(&self, index: &[i64]) -> Option<Location> {
        let mut order: Vec<usize> = (0..self.digits.len()).collect();
        order.sort_by_key(|&k| std::cmp::Reverse(self.digits[k].stride));
        let mut values = vec![0i64; self.digits.len()];
        let mut left = index.to_vec();
        for k in order {
            let digit = &self.digits[k];
            let rest = left.get_mut(digit.axis)?;
            if digit.stride > 0 && digit.size > 0 {
                values[k] = rest.div_euclid(digit.stride).clamp(0, digit.size - 1);
                *rest -= values[k] * digit.stride;
            }
        }
        if left.iter().any(|rest| *rest != 0) {
            return None;
        }
        let mut location = Location::new();
        let mut weights = Location::new();
        for (digit, value) in self.digits.iter().zip(values) {
            let weight = weights.entry(digit.coordinate).or_insert(1);
            *location.entry(digit.coordinate).or_insert(0) += value.checked_mul(*weight)?;
            *weight = weight.checked_mul(digit.size)?;
        }
        Some(location)
    }

    /// Whether the layout holds every element of a tile of these sizes exactly once, and nothing else: it is total and
    /// injective. This is so exactly if the digits of each axis, in the order of their strides, write its indices in
    /// mixed radix.
    pub fn fits(&self, sizes: &[i64]) -> bool {
        self.is_total(sizes) && self.locations() == sizes.iter().fold(1i64, |n, size| n.saturating_mul(*size))
    }

    /// Whether every element of a tile of these sizes has a location.
    pub fn is_total(&self, sizes: &[i64]) -> bool {
        self.reaches(sizes).is_some_and(|reach| reach.iter().zip(sizes).all(|(reach, size)| reach >= size))
    }

    /// Whether no two locations hold one element: the digits of each axis are in mixed radix.
    pub fn is_injective(&self) -> bool {
        let rank = self.digits.iter().map(|digit| digit.axis + 1).max().unwrap_or(0);
        (0..rank).all(|axis| {
            let mut end = 1i64;
            self.of_axis(axis).into_iter().all(|digit| {
                let apart = digit.stride >= end;
                end = digit.stride.saturating_mul(digit.size - 1).saturating_add(end);
                apart
            })
        })
    }

    /// For each axis the number of indices from 0 on that have a location; none where a digit is not positive or lies
    /// along an axis that there is not.
    fn reaches(&self, sizes: &[i64]) -> Option<Vec<i64>> {
        let bad = |digit: &Digit| digit.size <= 0 || digit.stride <= 0 || digit.axis >= sizes.len();
        if self.digits.iter().any(bad) {
            return None;
        }
        let reach = |axis: usize| {
            let mut reach = 1i64;
            for digit in self.of_axis(axis) {
                if digit.stride > reach {
                    break;
                }
                reach = digit.stride.saturating_mul(digit.size - 1).saturating_add(reach);
            }
            reach
        };
        Some((0..sizes.len()).map(reach).collect())
    }

    /// The digits along an axis that move, by rising stride.
    fn of_axis(&self, axis: usize) -> Vec<&Digit> {
        let mut digits: Vec<&Digit> =
            self.digits.iter().filter(|digit| digit.axis == axis && digit.size != 1).collect();
        digits.sort_by_key(|digit| digit.stride);
        digits
    }

    /// The layout of a tile of blocks: element `[i]` of block `[j]` of sizes `sizes` is element `[j · sizes + i]`. Within
    /// each coordinate the digits of the block are the faster ones.
    pub fn compose(&self, outer: &Layout, sizes: &[i64]) -> Layout {
        let scaled = outer.digits.iter().map(|digit| {
            let size = sizes.get(digit.axis).copied().unwrap_or(1);
            Digit { stride: digit.stride.saturating_mul(size), ..*digit }
        });
        Layout::new(self.digits.iter().copied().chain(scaled))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for coordinate in Coordinate::ALL {
            let digits = self.digits.iter().filter(|digit| digit.coordinate == coordinate);
            let mut separator = "(";
            for digit in digits {
                if separator == "(" {
                    write!(f, "{space}{}", coordinate.name())?;
                    space = " ";
                }
                write!(f, "{separator}{}x{}", digit.size, digit.axis)?;
                if digit.stride != 1 {
                    write!(f, "*{}", digit.stride)?;
                }
                separator = ", ";
            }
            if separator != "(" {
                write!(f, ")")?;
            }
        }
        if space.is_empty() { write!(f, "offset()") } else { Ok(()) }
    }
}

/// Reads a layout as far as it goes.
pub fn parse_layout(p: &mut Parser<'_>) -> Result<Layout, Error> {
    let mut digits = Vec::new();
    let mut any = false;
    while let Some(coordinate) = Coordinate::ALL.into_iter().find(|c| p.at(c.name())) {
        p.next();
        any = true;
        digits.extend(p.list("(", ")", |p| parse_digit(p, coordinate))?);
        if digits.len() > MAX_DIGITS {
            return Err(p.error(p.previous_span(), format!("more than {MAX_DIGITS} digits")));
        }
    }
    digits.sort_by_key(|digit: &Digit| digit.coordinate);
    if any { Ok(Layout { digits }) } else { Err(p.expected("`offset`, `lane`, `register` or `thread`")) }
}

/// `8x1*2`, which the lexer reads as `8`, `x1`, `*`, `2`.
fn parse_digit(p: &mut Parser<'_>, coordinate: Coordinate) -> Result<Digit, Error> {
    let (size, span) = p.integer("a number of values")?;
    if size <= 0 {
        return Err(p.error(span, "a digit takes at least one value"));
    }
    let axis = match p.peek() {
        Token::Ident(word) => word.strip_prefix('x').and_then(|axis| axis.parse::<usize>().ok()),
        _ => None,
    };
    let axis =
        axis.filter(|axis| *axis < MAX_DIGITS).ok_or_else(|| p.expected("`x` and an axis, such as `x0`"))?;
    p.next();
    let mut stride = 1;
    if p.eat("*") {
        let (value, span) = p.integer("a stride")?;
        if value <= 0 {
            return Err(p.error(span, "a stride is positive"));
        }
        stride = value;
    }
    Ok(Digit { coordinate, size, axis, stride })
}
