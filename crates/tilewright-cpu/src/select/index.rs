//! Index expressions and conditions in general registers: every operation that can leave 64 bits is checked, and a table
//! is read only where its index lies inside.

use tilewright::dim::{Atom, Cond, Dim, Relation, Symbol};
use tilewright::tensor::DType;

use super::code::{Code, Lack, NO_VALUE, lack};
use crate::machine::rows::general::AND_IMM;
use crate::machine::{Arg, BlockId, Cond as Test, Mem, ValueId, Width};

/// The positions `lo..hi` of a row.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// The first.
    pub lo: ValueId,
    /// Behind the last.
    pub hi: ValueId,
}

impl Code<'_> {
    /// The value of a dim; leaves the function where it has none.
    pub fn dim(&mut self, dim: &Dim) -> Result<ValueId, Lack> {
        if let Some(constant) = dim.as_constant() {
            return Ok(self.b.imm(constant));
        }
        if let Some(value) = self.recall(dim) {
            return Ok(value);
        }
        let terms: Vec<(i64, Vec<Atom>)> = dim.terms().map(|(c, atoms)| (c, atoms.to_vec())).collect();
        let mut sum = None;
        for (coefficient, atoms) in terms {
            let mut product = None;
            for atom in &atoms {
                let value = self.atom(atom)?;
                product = Some(match product {
                    Some(product) => self.b.mul_or(product, value, NO_VALUE),
                    None => value,
                });
            }
            let Some(mut term) = product else { return lack(format!("the term of `{dim}`")) };
            if coefficient != 1 {
                let factor = self.b.imm(coefficient);
                term = self.b.mul_or(term, factor, NO_VALUE);
            }
            sum = Some(match sum {
                Some(sum) => self.b.add_or(sum, term, NO_VALUE),
                None => term,
            });
        }
        let constant = dim.constant_part();
        let value = match sum {
            Some(sum) if constant == 0 => sum,
            Some(sum) => {
                let constant = self.b.imm(constant);
                self.b.add_or(sum, constant, NO_VALUE)
            }
            None => self.b.imm(constant),
        };
        self.remember(dim, value);
        Ok(value)
    }

    fn atom(&mut self, atom: &Atom) -> Result<ValueId, Lack> {
        match atom {
            Atom::Symbol(symbol) => Ok(self.symbol(symbol)),
            Atom::Element(table, index) => self.element(table, index),
            Atom::FloorDiv(x, y) | Atom::CeilDiv(x, y) | Atom::Mod(x, y) => {
                let value = self.dim(x)?;
                match y.as_constant() {
                    Some(by) if by > 0 && by.count_ones() == 1 && by < 1 << 31 => {
                        let shift = by.trailing_zeros() as u8;
                        Ok(match atom {
                            Atom::FloorDiv(..) => self.b.sar(value, shift),
                            Atom::CeilDiv(..) => {
                                let more = self.b.imm(by - 1);
                                let more = self.b.add_or(value, more, NO_VALUE);
                                self.b.sar(more, shift)
                            }
                            _ => {
                                self.b.inst(&AND_IMM, Width::V128, &[value.into(), Arg::Imm(by - 1)], None)[0]
                            }
                        })
                    }
                    _ => {
                        let by = self.dim(y)?;
                        self.b.exit_if(Test::LessEqual, by, 0, NO_VALUE);
                        let (floor, rest) = self.b.divide_floor(value, by);
                        Ok(match atom {
                            Atom::FloorDiv(..) => floor,
                            Atom::CeilDiv(..) => {
                                let above = self.b.add_imm(floor, 1);
                                self.b.select(Test::Equal, rest, 0, floor, above)
                            }
                            _ => rest,
                        })
                    }
                }
            }
            Atom::Min(parts) | Atom::Max(parts) => {
                let mut best = None;
                for part in parts {
                    let value = self.dim(part)?;
                    best = Some(match (best, atom) {
                        (None, _) => value,
                        (Some(best), Atom::Min(_)) => self.b.min(best, value),
                        (Some(best), _) => self.b.max(best, value),
                    });
                }
                best.ok_or_else(|| Lack("the least of nothing".into()))
            }
            Atom::Overflow => lack("a constant beyond 64 bits"),
        }
    }

    /// An element of an integer buffer or tile; leaves the function where the index lies outside.
    fn element(&mut self, table: &Symbol, index: &[Dim]) -> Result<ValueId, Lack> {
        if let Some(id) = self.tile_named(table) {
            let (tile, place) = (&self.kernel.tiles[id.0 as usize], &self.places[id.0 as usize]);
            if tile.ranges.len() != index.len() {
                return lack(format!("`{table}` read with {} indices", index.len()));
            }
            if !tile.dtype.is_int() && tile.dtype != DType::Bool {
                return lack(format!("an index of type {}", tile.dtype));
            }
            let offset = i32::try_from(place.offset).map_err(|_| Lack("scratch too large".into()))?;
            let mut at = self.b.lea(Mem::at(self.scratch, offset));
            for (axis, dim) in index.iter().enumerate() {
                let (value, start) = (self.dim(dim)?, self.dim(&tile.ranges[axis].start)?);
                let position = self.b.sub_or(value, start, NO_VALUE);
                let size = self.b.imm(tile.ranges[axis].size);
                self.b.exit_if(Test::AboveEqual, position, size, NO_VALUE);
                let bytes = self.times(position, place.strides[axis])?;
                at = self.b.add(at, bytes);
            }
            let word = Mem::at(at, 0);
            return Ok(if tile.dtype == DType::I64 { self.b.load64(word) } else { self.b.load32s(word) });
        }
        let buffer = self.buffers.iter().position(|buffer| buffer.name == *table);
        let buffer = buffer.ok_or_else(|| Lack(format!("the table `{table}`")))?;
        if index.len() != self.buffers[buffer].extents.len() {
            return lack(format!("`{table}` read with {} indices", index.len()));
        }
        let mut position = None;
        for (axis, dim) in index.iter().enumerate() {
            let value = self.dim(dim)?;
            let extent = self.extent(buffer, axis);
            self.b.exit_if(Test::AboveEqual, value, extent, NO_VALUE);
            position = Some(match position {
                Some(before) => {
                    let before = self.b.mul(before, extent);
                    self.b.add(before, value)
                }
                None => value,
            });
        }
        let start = self.start(buffer);
        let dtype = self.buffers[buffer].dtype;
        let mem = match position {
            Some(position) => Mem::indexed(start, position, dtype.bytes() as u8, 0),
            None => Mem::at(start, 0),
        };
        self.integer(dtype, mem)
    }

    /// An integer of memory.
    pub fn integer(&mut self, dtype: DType, mem: Mem) -> Result<ValueId, Lack> {
        use crate::machine::rows::general::LOAD8S;
        match dtype {
            DType::I64 => Ok(self.b.load64(mem)),
            DType::I32 => Ok(self.b.load32s(mem)),
            DType::I8 => Ok(self.b.inst(&LOAD8S, Width::V128, &[mem.into()], None)[0]),
            DType::U8 | DType::Bool => Ok(self.b.load8(mem)),
            other => lack(format!("an index of type {other}")),
        }
    }

    /// Goes on at `then` where the condition holds and at `otherwise`, which takes `args`, where it does not.
    pub fn branch_on(
        &mut self,
        condition: &Cond,
        then: BlockId,
        otherwise: BlockId,
        args: &[ValueId],
    ) -> Result<(), Lack> {
        match condition {
            Cond::True => self.b.jump(then, &[]),
            Cond::False => self.b.jump(otherwise, args),
            Cond::Compare(left, relation, right) => {
                let (left, right) = (self.dim(left)?, self.dim(right)?);
                self.b.branch(test(*relation), left, right, then, &[], otherwise, args);
            }
            Cond::And(parts) => {
                for (k, part) in parts.iter().enumerate() {
                    let next = if k + 1 == parts.len() { then } else { self.b.block("and", &[]) };
                    self.part_on(part, next, otherwise, args)?;
                    if k + 1 < parts.len() {
                        self.b.switch_to(next);
                    }
                }
            }
            Cond::Or(parts) => {
                for (k, part) in parts.iter().enumerate() {
                    if k + 1 == parts.len() {
                        self.part_on(part, then, otherwise, args)?;
                    } else {
                        let next = self.b.block("or", &[]);
                        self.part_on(part, then, next, &[])?;
                        self.b.switch_to(next);
                    }
                }
            }
            Cond::Not(part) => {
                let fails = self.b.block("not", &[]);
                let holds = self.b.block("holds", &[]);
                self.part_on(part, holds, fails, &[])?;
                self.b.switch_to(holds);
                self.b.jump(otherwise, args);
                self.b.switch_to(fails);
                self.b.jump(then, &[]);
            }
        }
        Ok(())
    }

    /// [`Code::branch_on`], with nothing that it computes known behind it.
    fn part_on(
        &mut self,
        part: &Cond,
        then: BlockId,
        otherwise: BlockId,
        args: &[ValueId],
    ) -> Result<(), Lack> {
        self.enter();
        let done = self.branch_on(part, then, otherwise, args);
        self.leave();
        done
    }

    /// Whether a condition holds, as 1 or 0.
    pub fn truth(&mut self, condition: &Cond) -> Result<ValueId, Lack> {
        let (one, zero) = (self.b.imm(1), self.b.imm(0));
        match condition {
            Cond::True => return Ok(one),
            Cond::False => return Ok(zero),
            _ => {}
        }
        let then = self.b.block("true", &[]);
        let done = self.b.block("truth", &[crate::machine::Class::General]);
        self.enter();
        self.branch_on(condition, then, done, &[zero])?;
        self.leave();
        self.b.switch_to(then);
        self.b.jump(done, &[one]);
        self.b.switch_to(done);
        Ok(self.b.params(done)[0])
    }

    /// Narrows `at` to the positions along `label`, which is at `start` at position 0, where the condition holds. False
    /// if that is no interval that is found without looking at each position; then `at` may have been narrowed, and the
    /// condition is to be looked at as a whole.
    pub fn narrow(
        &mut self,
        condition: &Cond,
        row: Option<(&Symbol, ValueId)>,
        at: &mut Interval,
    ) -> Result<bool, Lack> {
        match condition {
            Cond::True => Ok(true),
            Cond::False => {
                at.hi = at.lo;
                Ok(true)
            }
            Cond::And(parts) => {
                let mut whole = true;
                for part in parts {
                    whole &= self.narrow(part, row, at)?;
                }
                Ok(whole)
            }
            _ if row.is_none_or(|(label, _)| !condition.mentions(label)) => {
                let holds = self.truth(condition)?;
                at.hi = self.b.select(Test::Equal, holds, 0, at.lo, at.hi);
                Ok(true)
            }
            Cond::Compare(left, relation, right) if *relation != Relation::Ne => {
                let difference = left - right;
                match self.line(&difference, row)? {
                    Some((base, step @ (-1 | 1))) => {
                        self.narrow_line(base, step, *relation, at);
                        Ok(true)
                    }
                    _ => Ok(false),
                }
            }
            _ => Ok(false),
        }
    }

    /// Narrows `at` to where `base + step · position` stands in `relation` to 0; the step is 1 or −1.
    pub fn narrow_line(&mut self, base: ValueId, step: i64, relation: Relation, at: &mut Interval) {
        // The position where the line is 0; 64 bits hold it, since labels are far from their ends.
        let zero = self.b.imm(0);
        let root = if step > 0 { self.b.sub(zero, base) } else { base };
        let relation = if step > 0 { relation } else { relation.swapped() };
        let after = self.b.add_imm(root, 1);
        match relation {
            Relation::Lt => at.hi = self.b.min(at.hi, root),
            Relation::Le => at.hi = self.b.min(at.hi, after),
            Relation::Gt => at.lo = self.b.max(at.lo, after),
            Relation::Ge => at.lo = self.b.max(at.lo, root),
            _ => {
                at.lo = self.b.max(at.lo, root);
                at.hi = self.b.min(at.hi, after);
            }
        }
    }

    /// Leaves the function where a value is no 32-bit integer.
    pub fn fits(&mut self, value: ValueId) {
        let low = self.b.imm(i64::from(i32::MIN));
        self.b.exit_if(Test::Less, value, low, NO_VALUE);
        self.b.exit_if(Test::Greater, value, i32::MAX, NO_VALUE);
    }

    /// A dim as the value at position 0 of a row and the step along it, if it is linear; the step is 0 where it does not
    /// vary.
    pub fn line(
        &mut self,
        dim: &Dim,
        row: Option<(&Symbol, ValueId)>,
    ) -> Result<Option<(ValueId, i64)>, Lack> {
        let Some((label, start)) = row.filter(|(label, _)| dim.mentions(label)) else {
            return Ok(Some((self.dim(dim)?, 0)));
        };
        let Some((rest, step)) = split(dim, label) else { return Ok(None) };
        let rest = self.dim(&rest)?;
        let along = match step {
            1 => start,
            _ => {
                let factor = self.b.imm(step);
                self.b.mul_or(start, factor, NO_VALUE)
            }
        };
        Ok(Some((self.b.add_or(rest, along, NO_VALUE), step)))
    }
}

/// A dim as `rest + step · label`, if it is one with `rest` free of the label.
pub fn split(dim: &Dim, label: &Symbol) -> Option<(Dim, i64)> {
    let form = dim.affine(std::slice::from_ref(label))?;
    Some((form.constant, form.coefficients.first()?.as_constant()?))
}

/// The comparison of general registers.
pub fn test(relation: Relation) -> Test {
    match relation {
        Relation::Lt => Test::Less,
        Relation::Le => Test::LessEqual,
        Relation::Gt => Test::Greater,
        Relation::Ge => Test::GreaterEqual,
        Relation::Eq => Test::Equal,
        Relation::Ne => Test::NotEqual,
    }
}
