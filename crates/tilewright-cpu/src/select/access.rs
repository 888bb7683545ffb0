//! Loads and stores of a loop: how the elements of a row lie in a buffer.
//!
//! | shape | along a row | how |
//! | --- | --- | --- |
//! | point | one element | a broadcast, or a store of one lane |
//! | repeated | the same element | read once a row |
//! | contiguous | neighbours | vectors of memory |
//! | blocks | neighbours or the same element within each vector | a scalar index a vector |
//! | each | anything | each index evaluated, through a row in scratch |
//!
//! Where all index tuples lie inside the buffer and its index is linear in all labels, which is found once before the
//! loop, a row costs one multiply-add of its address for each label; elsewhere its interval is found row by row.

use tilewright::dim::{Atom, Cond, Dim, Relation, Symbol};
use tilewright::kernel::Statement;
use tilewright::tensor::DType;

use super::code::{Code, Lack, NO_VALUE, lack};
use super::group::Rows;
use super::index::{Interval, split};
use super::lanes::Lanes;
use super::place::Kind;
use crate::machine::{Class, Cond as Test, Mem, ValueId};

/// How the elements of a row lie in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The row has one element.
    Point,
    /// Each position has the same element.
    Repeated,
    /// Neighbours.
    Contiguous,
    /// Within each vector the same element, or neighbours where `true`.
    Blocks(bool),
    /// Anything else.
    Each,
}

/// An access, set up before the loop over rows.
pub struct Access<'a> {
    /// The buffer.
    pub buffer: usize,
    /// The type of its elements.
    pub dtype: DType,
    /// The index along each of its axes.
    pub index: &'a [Dim],
    /// Where it is read.
    pub when: &'a Cond,
    /// How a row lies.
    pub shape: Shape,
    /// Elements from one index to the next, by axis of the buffer.
    pub strides: Vec<ValueId>,
    pub linear: Option<Linear>,
    /// Whether it reads.
    pub loads: bool,
    /// A row of scratch, for what is accessed one by one.
    pub temporary: Option<i32>,
}

impl Access<'_> {
    /// Bytes of an element in a row of scratch.
    fn word(&self) -> u8 {
        if self.dtype.bytes() == 8 { 8 } else { 4 }
    }
}

/// An access that is linear in all labels.
pub struct Linear {
    /// The address at position 0 of all labels.
    pub base: ValueId,
    /// Bytes from one position to the next, by axis of the space; none where that is 0.
    pub strides: Vec<Option<ValueId>>,
    /// 1 if all index tuples lie inside.
    pub inside: ValueId,
}

/// An access at a row.
#[derive(Clone, Copy)]
pub struct RowAccess {
    /// The address of position 0.
    pub pointer: ValueId,
    /// The positions that lie inside, and where the condition holds.
    pub interval: Interval,
    /// The lanes of a repeated element.
    pub repeated: Option<Lanes>,
}

impl<'a> Code<'a> {
    /// Sets up the access of a load or store.
    pub fn access<'s>(
        &mut self,
        rows: &Rows<'_>,
        statement: &'s Statement,
        temporary: &mut dyn FnMut(Kind) -> Result<i32, Lack>,
    ) -> Result<Option<Access<'s>>, Lack> {
        static ALWAYS: Cond = Cond::True;
        let (buffer, index, when, loads) = match statement {
            Statement::Load { buffer, index, when, .. } => (buffer.0 as usize, index.as_slice(), when, true),
            Statement::Store { buffer, index, .. } => (buffer.0 as usize, index.as_slice(), &ALWAYS, false),
            _ => return Ok(None),
        };
        let described = &self.buffers[buffer];
        let dtype = described.dtype;
        if described.extents.len() != index.len() {
            return lack(format!("`{}` at {} indices", described.name, index.len()));
        }
        Kind::of(dtype)?;
        let mut shape = match rows.row() {
            None => Shape::Point,
            Some((label, _)) if !narrows(when, label) => Shape::Each,
            Some((label, _)) => shape(index, label, self.aligned(rows), self.b.lanes() as i64),
        };
        if !loads && matches!(shape, Shape::Repeated | Shape::Blocks(false)) {
            shape = Shape::Each;
        }
        let mut strides = Vec::new();
        let mut stride = self.b.imm(1);
        for axis in (0..index.len()).rev() {
            strides.push(stride);
            if axis > 0 {
                let extent = self.extent(buffer, axis);
                stride = self.b.mul(stride, extent);
            }
        }
        strides.reverse();
        let mut access =
            Access { buffer, dtype, index, when, shape, strides, linear: None, loads, temporary: None };
        if shape == Shape::Each {
            access.temporary = Some(temporary(if dtype.bytes() == 8 { Kind::Long } else { Kind::Int })?);
        }
        if !rows.dependent && !matches!(shape, Shape::Blocks(_) | Shape::Each) {
            access.linear = self.linear(rows, &access)?;
        }
        Ok(Some(access))
    }

    /// Whether the first index of a row is a multiple of the lanes of a vector.
    pub fn aligned(&self, rows: &Rows<'_>) -> bool {
        let Some(inner) = rows.inner else { return true };
        divides(&rows.space.ranges[inner].start, self.b.lanes() as i64)
    }

    /// The access as one linear function of all labels, if it is one.
    fn linear(&mut self, rows: &Rows<'_>, access: &Access<'_>) -> Result<Option<Linear>, Lack> {
        let axes: Vec<usize> =
            (0..rows.space.ranges.len()).filter(|axis| rows.space.ranges[*axis].size != 1).collect();
        let labels: Vec<Symbol> = axes.iter().map(|axis| rows.space.ranges[*axis].label.clone()).collect();
        let forms: Option<Vec<_>> = access.index.iter().map(|dim| dim.affine(&labels)).collect();
        let Some(forms) = forms else { return Ok(None) };
        for (range, start) in rows.space.ranges.iter().zip(&rows.starts) {
            self.bind(&range.label, *start);
        }
        let bytes = access.dtype.bytes() as i64;
        let mut base = self.start(access.buffer);
        let mut inside = self.b.imm(1);
        let zero = self.b.imm(0);
        let mut strides: Vec<Option<ValueId>> = vec![None; rows.space.ranges.len()];
        for (axis, (dim, form)) in access.index.iter().zip(&forms).enumerate() {
            let first = self.dim(dim)?;
            let distance = self.b.mul(first, access.strides[axis]);
            let distance = self.times(distance, bytes)?;
            base = self.b.add(base, distance);
            let (mut low, mut high) = (first, first);
            for (coefficient, space_axis) in form.coefficients.iter().zip(&axes) {
                if coefficient.is_zero() {
                    continue;
                }
                let step = self.dim(coefficient)?;
                let last = self.b.add_imm(rows.counts[*space_axis], -1);
                let reach = self.b.mul_or(step, last, NO_VALUE);
                match coefficient.as_constant() {
                    Some(constant) if constant > 0 => high = self.b.add_or(high, reach, NO_VALUE),
                    Some(_) => low = self.b.add_or(low, reach, NO_VALUE),
                    None => {
                        let (down, up) = (self.b.min(reach, zero), self.b.max(reach, zero));
                        low = self.b.add_or(low, down, NO_VALUE);
                        high = self.b.add_or(high, up, NO_VALUE);
                    }
                }
                let stride = self.b.mul(step, access.strides[axis]);
                let stride = self.times(stride, bytes)?;
                strides[*space_axis] = Some(match strides[*space_axis] {
                    Some(before) => self.b.add(before, stride),
                    None => stride,
                });
            }
            let extent = self.extent(access.buffer, axis);
            let low = self.flag(Test::GreaterEqual, low, zero);
            let high = self.flag(Test::Less, high, extent);
            inside = self.b.and(inside, low);
            inside = self.b.and(inside, high);
        }
        self.unbind(rows.space.ranges.len());
        Ok(Some(Linear { base, strides, inside }))
    }

    /// The access at the row whose labels are bound.
    pub fn row_access(&mut self, rows: &Rows<'_>, access: &Access<'_>) -> Result<RowAccess, Lack> {
        let zero = self.b.imm(0);
        let mut interval = Interval { lo: zero, hi: rows.count() };
        if let Some(offset) = access.temporary {
            let pointer = self.b.lea(Mem::at(self.scratch, offset));
            return Ok(RowAccess { pointer, interval, repeated: None });
        }
        if matches!(access.shape, Shape::Blocks(_)) {
            self.narrow(access.when, rows.row(), &mut interval)?;
            return Ok(RowAccess { pointer: zero, interval, repeated: None });
        }
        let (pointer, mut interval) = self.reach(rows, access, interval)?;
        if !self.narrow(access.when, rows.row(), &mut interval)? {
            return lack(format!("the condition `{}`", access.when));
        }
        let mut repeated = None;
        if access.loads && matches!(access.shape, Shape::Point | Shape::Repeated) {
            let there = self.choose(
                (Test::Less, interval.lo, interval.hi.into()),
                |code| Ok(vec![code.element_bits(access.dtype, Mem::at(pointer, 0))?]),
                |code| Ok(vec![code.b.imm(0)]),
            )?;
            repeated = Some(self.repeat_bits(access.dtype, there[0])?);
        }
        Ok(RowAccess { pointer, interval, repeated })
    }

    /// The address of position 0 and the positions inside the buffer.
    fn reach(
        &mut self,
        rows: &Rows<'_>,
        access: &Access<'_>,
        all: Interval,
    ) -> Result<(ValueId, Interval), Lack> {
        if let Some(linear) = &access.linear {
            let mut pointer = linear.base;
            for (axis, position) in rows.positions.iter().enumerate() {
                if let (Some(position), Some(stride)) = (position, linear.strides[axis]) {
                    let distance = self.b.mul(*position, stride);
                    pointer = self.b.add(pointer, distance);
                }
            }
            let bounds = self.choose(
                (Test::NotEqual, linear.inside, 0.into()),
                |_| Ok(vec![all.lo, all.hi]),
                |code| {
                    let (_, interval) = code.bounds(rows, access, all)?;
                    Ok(vec![interval.lo, interval.hi])
                },
            )?;
            return Ok((pointer, Interval { lo: bounds[0], hi: bounds[1] }));
        }
        self.bounds(rows, access, all)
    }

    /// The same, axis by axis.
    fn bounds(
        &mut self,
        rows: &Rows<'_>,
        access: &Access<'_>,
        all: Interval,
    ) -> Result<(ValueId, Interval), Lack> {
        let mut interval = all;
        let mut pointer = self.start(access.buffer);
        for (axis, dim) in access.index.iter().enumerate() {
            let Some((base, step)) = self.line(dim, rows.row())? else {
                return lack(format!("the index `{dim}`"));
            };
            let extent = self.extent(access.buffer, axis);
            match step {
                0 => interval.hi = self.b.select(Test::Below, base, extent, interval.hi, interval.lo),
                1 | -1 => {
                    self.narrow_line(base, step, Relation::Ge, &mut interval);
                    let past = self.b.sub(base, extent);
                    self.narrow_line(past, step, Relation::Lt, &mut interval);
                }
                _ => return lack(format!("the index `{dim}`")),
            }
            let distance = self.b.mul(base, access.strides[axis]);
            let distance = self.times(distance, access.dtype.bytes() as i64)?;
            pointer = self.b.add(pointer, distance);
        }
        Ok((pointer, interval))
    }

    /// The address of the element at the index tuple whose labels are bound; goes to `outside` where there is none.
    pub fn element_address(
        &mut self,
        access: &Access<'_>,
        outside: crate::machine::BlockId,
        args: &[ValueId],
    ) -> Result<ValueId, Lack> {
        let mut pointer = self.start(access.buffer);
        for (axis, dim) in access.index.iter().enumerate() {
            let value = self.dim(dim)?;
            let extent = self.extent(access.buffer, axis);
            let next = self.b.block("inside", &[]);
            self.b.branch(Test::Below, value, extent, next, &[], outside, args);
            self.b.switch_to(next);
            let distance = self.b.mul(value, access.strides[axis]);
            let distance = self.times(distance, access.dtype.bytes() as i64)?;
            pointer = self.b.add(pointer, distance);
        }
        Ok(pointer)
    }

    /// Reads a row one by one into its row of scratch: bits of elements, 0 where there is none.
    pub fn fetch(&mut self, rows: &Rows<'_>, access: &Access<'_>, offset: i32) -> Result<(), Lack> {
        let to = self.b.lea(Mem::at(self.scratch, offset));
        let Some((label, start)) = rows.row() else { return lack("a row of one element, fetched") };
        let zero = self.b.imm(0);
        let each = self.begin_loop("fetch", zero, rows.count(), 1, &[]);
        let value = self.b.add(start, each.index);
        self.bind(label, value);
        let read = self.b.block("read", &[]);
        let done = self.b.block("fetched", &[Class::General]);
        self.enter();
        self.branch_on(access.when, read, done, &[zero])?;
        self.leave();
        self.b.switch_to(read);
        self.enter();
        let from = self.element_address(access, done, &[zero])?;
        let bits = self.element_bits(access.dtype, Mem::at(from, 0))?;
        self.leave();
        self.b.jump(done, &[bits]);
        self.b.switch_to(done);
        let bits = self.b.params(done)[0];
        let word = access.word();
        self.b.store_general(word, Mem::indexed(to, each.index, word, 0), bits);
        self.unbind(1);
        self.end_loop(each, &[]);
        Ok(())
    }

    /// Writes a row one by one from its row of scratch, where elements are.
    pub fn put(&mut self, rows: &Rows<'_>, access: &Access<'_>, offset: i32) -> Result<(), Lack> {
        let from = self.b.lea(Mem::at(self.scratch, offset));
        let Some((label, start)) = rows.row() else { return lack("a row of one element, put") };
        let zero = self.b.imm(0);
        let each = self.begin_loop("put", zero, rows.count(), 1, &[]);
        let value = self.b.add(start, each.index);
        self.bind(label, value);
        let done = self.b.block("put", &[]);
        self.enter();
        let to = self.element_address(access, done, &[])?;
        let word = Mem::indexed(from, each.index, access.word(), 0);
        let bits = if access.word() == 8 { self.b.load64(word) } else { self.b.load32(word) };
        self.b.store_general(access.dtype.bytes() as u8, Mem::at(to, 0), bits);
        self.leave();
        self.b.jump(done, &[]);
        self.b.switch_to(done);
        self.unbind(1);
        self.end_loop(each, &[]);
        Ok(())
    }

    /// The address of the vector at position `at` of an access in blocks; leaves the function if one of the first
    /// `lanes` lies outside.
    pub fn block_address(
        &mut self,
        rows: &Rows<'_>,
        access: &Access<'_>,
        at: ValueId,
        lanes: Option<ValueId>,
    ) -> Result<ValueId, Lack> {
        let Some((label, start)) = rows.row() else { return lack("a row of one element, in blocks") };
        let value = self.b.add(start, at);
        self.bind(label, value);
        let mut pointer = self.start(access.buffer);
        for (axis, dim) in access.index.iter().enumerate() {
            let value = self.dim(dim)?;
            let extent = self.extent(access.buffer, axis);
            self.b.exit_if(Test::AboveEqual, value, extent, NO_VALUE);
            if access.shape == Shape::Blocks(true) && axis + 1 == access.index.len() {
                let last = match lanes {
                    Some(lanes) => self.b.add(value, lanes),
                    None => self.b.add_imm(value, self.b.lanes() as i32),
                };
                self.b.exit_if(Test::Greater, last, extent, NO_VALUE);
            }
            let distance = self.b.mul(value, access.strides[axis]);
            let distance = self.times(distance, access.dtype.bytes() as i64)?;
            pointer = self.b.add(pointer, distance);
        }
        self.unbind(1);
        Ok(pointer)
    }
}

/// How the elements of a row lie where the index is this.
fn shape(index: &[Dim], label: &Symbol, aligned: bool, lanes: i64) -> Shape {
    let last = index.len().checked_sub(1);
    let steps: Option<Vec<i64>> = index.iter().map(|dim| split(dim, label).map(|(_, step)| step)).collect();
    if let Some(steps) = steps {
        return match steps.iter().filter(|step| **step != 0).count() {
            0 => Shape::Repeated,
            1 if last.is_some_and(|last| steps[last] == 1) => Shape::Contiguous,
            _ => Shape::Each,
        };
    }
    let steps: Option<Vec<(i64, bool)>> =
        index.iter().map(|dim| block_step(dim, label, aligned, lanes)).collect();
    let Some(steps) = steps else { return Shape::Each };
    match steps.iter().filter(|(step, _)| *step != 0).count() {
        0 => Shape::Blocks(false),
        1 if last.is_some_and(|last| steps[last].0 == 1) => Shape::Blocks(true),
        _ => Shape::Each,
    }
}

/// How a dim changes from lane to lane within a vector whose first index is a multiple of `lanes` if `aligned`: the step,
/// if it is fixed, and whether the value at the first lane is a multiple of `lanes`.
pub fn block_step(dim: &Dim, label: &Symbol, aligned: bool, lanes: i64) -> Option<(i64, bool)> {
    let mut step = 0i64;
    let mut multiple = dim.constant_part() % lanes == 0;
    for (coefficient, atoms) in dim.terms() {
        let whole = coefficient % lanes == 0;
        let [atom] = atoms else {
            if atoms.iter().all(|atom| !mentions(atom, label)) {
                multiple &= whole;
                continue;
            }
            return None;
        };
        let (along, even) = match atom {
            Atom::Symbol(symbol) if symbol == label => (1, aligned),
            Atom::Symbol(_) => (0, false),
            Atom::FloorDiv(x, by) => match (block_step(x, label, aligned, lanes)?, by.as_constant()) {
                ((0, _), _) if !by.mentions(label) => (0, false),
                ((1, true), Some(by)) if by > 0 && by % lanes == 0 => (0, false),
                _ => return None,
            },
            Atom::Mod(x, by) => match (block_step(x, label, aligned, lanes)?, by.as_constant()) {
                ((0, _), _) if !by.mentions(label) => (0, false),
                ((1, true), Some(by)) if by > 0 && by % lanes == 0 => (1, true),
                _ => return None,
            },
            atom => {
                for operand in atom.operands() {
                    if block_step(operand, label, aligned, lanes)?.0 != 0 {
                        return None;
                    }
                }
                (0, false)
            }
        };
        step = step.checked_add(coefficient.checked_mul(along)?)?;
        multiple &= whole || even;
    }
    Some((step, multiple))
}

fn mentions(atom: &Atom, label: &Symbol) -> bool {
    match atom {
        Atom::Symbol(symbol) => symbol == label,
        atom => atom.operands().into_iter().any(|dim| dim.mentions(label)),
    }
}

/// Whether a dim is a multiple of a number, as far as its coefficients tell.
fn divides(dim: &Dim, by: i64) -> bool {
    dim.constant_part() % by == 0 && dim.terms().all(|(coefficient, _)| coefficient % by == 0)
}

/// Whether the positions of a row where a condition holds are an interval that is found without looking at each.
pub fn narrows(condition: &Cond, label: &Symbol) -> bool {
    match condition {
        Cond::And(parts) => parts.iter().all(|part| narrows(part, label)),
        _ if !condition.mentions(label) => true,
        Cond::Compare(left, relation, right) => {
            *relation != Relation::Ne
                && split(&(left - right), label).is_some_and(|(_, step)| step == 1 || step == -1)
        }
        Cond::True | Cond::False => true,
        _ => false,
    }
}
