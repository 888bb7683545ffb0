//! The memory of a program in evaluation: one array per buffer, and which temporaries share bytes.

use super::bug;
use crate::dim::{Env, Symbol};
use crate::error::Error;
use crate::task::ir::{Buffer, BufferKind, Program};
use crate::task::plan::Plan;
use crate::tensor::array::Data;
use crate::tensor::eval::{Bindings, Numerics, unwritten};
use crate::tensor::{Array, ParamKind, Scalar, Special};
use std::collections::BTreeMap;

/// The contents of all buffers, and the sizes.
#[derive(Clone, Debug)]
pub struct Memory {
    buffers: Vec<Buffer>,
    names: BTreeMap<Symbol, usize>,
    symbols: BTreeMap<Symbol, i64>,
    numerics: Numerics,
    pub(super) arrays: Vec<Array>,
    /// For each buffer the temporaries that share bytes of the arena with it.
    partners: Vec<Vec<usize>>,
    /// The first byte of each buffer in the arena; 0 where it is not there.
    offsets: Vec<usize>,
}

impl Env for Memory {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let array = self.arrays.get(self.find(table)?)?;
        match &array.data {
            Data::Int(elements) if index.len() == array.extents.len() => {
                elements.get(array.position(index)?).copied()
            }
            _ => None,
        }
    }
}

/// The tables among the parameters.
pub(super) struct Parameters<'a>(&'a Memory);

impl Env for Parameters<'_> {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.0.symbol(symbol)
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let buffer = self.0.buffers.get(self.0.find(table)?)?;
        matches!(buffer.kind, BufferKind::Param(_)).then(|| self.0.element(table, index))?
    }
}

impl Memory {
    /// What is known before anything runs.
    pub(super) fn parameters(&self) -> Parameters<'_> {
        Parameters(self)
    }

    /// Memory for a program at a plan's sizes, all of it unwritten.
    pub(super) fn new<B>(program: &Program<B>, plan: &Plan, numerics: Numerics) -> Memory {
        let arrays: Vec<Array> = (program.buffers.iter().zip(&plan.buffers))
            .map(|(buffer, at)| Array::filled(buffer.dtype, &at.extents, unwritten(buffer.dtype)))
            .collect();
        let range = |index: usize| {
            let at = plan.buffers.get(index)?;
            Some((at.offset?, at.offset?.saturating_add(at.bytes)))
        };
        let share = |a: usize, b: usize| match (range(a), range(b)) {
            (Some(x), Some(y)) => a != b && x.0 < y.1 && y.0 < x.1,
            _ => false,
        };
        let count = program.buffers.len();
        Memory {
            buffers: program.buffers.clone(),
            names: program.buffers.iter().enumerate().map(|(index, b)| (b.name.clone(), index)).collect(),
            symbols: plan.symbols.clone(),
            numerics,
            arrays,
            partners: (0..count).map(|a| (0..count).filter(|&b| share(a, b)).collect()).collect(),
            offsets: plan.buffers.iter().map(|at| at.offset.unwrap_or(0)).collect(),
        }
    }

    /// Puts the parameters in, and makes everything else unwritten.
    pub(super) fn fill(&mut self, bindings: &Bindings) -> Result<(), Error> {
        let mut given = bindings.arrays.iter();
        for (buffer, array) in self.buffers.iter().zip(&mut self.arrays) {
            if !matches!(buffer.kind, BufferKind::Param(_)) {
                *array = Array::filled(buffer.dtype, &array.extents, unwritten(buffer.dtype));
                continue;
            }
            let input = |message: String| Error::Input { subject: buffer.name.to_string(), message };
            let new = given.next().ok_or_else(|| input("it is not bound".to_string()))?;
            if new.dtype != buffer.dtype || new.extents != array.extents || !new.is_consistent() {
                let (have, want) = (&new.extents, &array.extents);
                return Err(input(format!(
                    "it is {}{want:?}, but {}{have:?} is bound",
                    buffer.dtype, new.dtype
                )));
            }
            array.clone_from(new);
        }
        match given.next() {
            None => Ok(()),
            Some(_) => Err(Error::Input {
                subject: "parameters".to_string(),
                message: format!("{} arrays are bound, which is too many", bindings.arrays.len()),
            }),
        }
    }

    /// The numbers that bodies compute in.
    pub fn numerics(&self) -> Numerics {
        self.numerics
    }

    /// The index of the buffer with this name.
    pub fn find(&self, name: &Symbol) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// An element of a buffer; none outside.
    pub fn load(&self, buffer: usize, index: &[i64]) -> Option<Scalar> {
        let array = self.arrays.get(buffer).filter(|array| array.extents.len() == index.len())?;
        Some(array.get(array.position(index)?))
    }

    /// The element at a row-major position of a buffer; none outside.
    pub fn read(&self, buffer: usize, position: usize) -> Option<Scalar> {
        let array = self.arrays.get(buffer)?;
        (position < array.len()).then(|| array.get(position))
    }

    /// The contents of a buffer.
    pub fn array(&self, buffer: usize) -> Option<&Array> {
        self.arrays.get(buffer)
    }

    /// Writes an element; what shares its bytes becomes unwritten. A store outside the buffer is dropped.
    ///
    /// # Errors
    /// [`Error::Bug`] for a parameter that is only read.
    pub fn store(&mut self, buffer: usize, index: &[i64], value: Scalar) -> Result<(), Error> {
        let array = self.arrays.get(buffer).ok_or_else(|| bug(format!("there is no buffer {buffer}")))?;
        if array.extents.len() != index.len() {
            return Err(bug(format!("a store to a buffer of {} axes at {index:?}", array.extents.len())));
        }
        match array.position(index) {
            Some(position) => self.write(buffer, position, value),
            None => Ok(()),
        }
    }

    /// Writes the element at a row-major position, as [`Memory::store`] does.
    ///
    /// # Errors
    /// [`Error::Bug`] for a position outside the buffer, and for a parameter that is only read.
    pub fn write(&mut self, buffer: usize, position: usize, value: Scalar) -> Result<(), Error> {
        let (Some(to), Some(array)) = (self.buffers.get(buffer), self.arrays.get_mut(buffer)) else {
            return Err(bug(format!("there is no buffer {buffer}")));
        };
        if let BufferKind::Param(ParamKind::Input | ParamKind::Weight | ParamKind::Plan) = to.kind {
            return Err(bug(format!("`{}` is only read, but is written", to.name)));
        }
        if position >= array.len() {
            return Err(bug(format!("a store to `{}` at position {position} of {}", to.name, array.len())));
        }
        array.set(position, value);
        let width = to.dtype.bytes();
        let first = self.offsets.get(buffer).copied().unwrap_or(0) + position * width;
        for &partner in self.partners.get(buffer).map_or(&[][..], Vec::as_slice) {
            let (Some(other), Some(array)) = (self.buffers.get(partner), self.arrays.get_mut(partner)) else {
                continue;
            };
            let (start, width_there) = (self.offsets.get(partner).copied().unwrap_or(0), other.dtype.bytes());
            let end = (first + width).saturating_sub(start).div_ceil(width_there).min(array.len());
            for position in first.saturating_sub(start) / width_there..end {
                array.set(position, unwritten(other.dtype));
            }
        }
        Ok(())
    }

    /// Applies a function of whole buffers.
    pub fn apply(
        &mut self,
        operator: &'static Special,
        axis: usize,
        operands: &[usize],
        results: &[usize],
    ) -> Result<(), Error> {
        let function =
            operator.opaque.ok_or_else(|| bug(format!("`{}` is no function of arrays", operator.name)))?;
        let missing = || bug("there is no such buffer");
        let arrays = operands.iter().map(|&index| self.arrays.get(index).ok_or_else(missing));
        let arrays = arrays.collect::<Result<Vec<&Array>, Error>>()?;
        let types = results.iter().map(|&index| {
            let array = self.arrays.get(index).ok_or_else(missing)?;
            Ok((array.dtype, array.extents.clone()))
        });
        let types = types.collect::<Result<Vec<_>, Error>>()?;
        let values = function(&arrays, axis, &types);
        if values.len() != results.len() {
            return Err(bug(format!(
                "`{}` gives {} results, not {}",
                operator.name,
                values.len(),
                results.len()
            )));
        }
        for (&buffer, mut array) in results.iter().zip(values) {
            array.round(self.numerics);
            let mut index = vec![0i64; array.extents.len()];
            for position in 0..array.len() {
                self.store(buffer, &index, array.get(position))?;
                for (i, &extent) in index.iter_mut().zip(&array.extents).rev() {
                    *i += 1;
                    if (*i as usize) < extent {
                        break;
                    }
                    *i = 0;
                }
            }
        }
        Ok(())
    }
}
