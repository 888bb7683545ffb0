//! Elementwise statements: `compute`, `bits`, `rescale`.

use super::super::ir::{Argument, Tile, TileId};
use super::access::{Lookup, Tables, empty};
use super::compile::Scope;
use super::elements::{Rounding, fill};
use super::space::{Bounds, Space, Tests, View};
use super::{Frame, Machine, fault};
use crate::dim::{Code, CondCode, Env, Symbol};
use crate::error::Error;
use crate::tensor::eval::Numerics;
use crate::tensor::{Array, DType, Data, Elementwise, Scalar};
use std::collections::BTreeSet;

/// A statement that gives each element of one tile from those of others at the same labels.
#[derive(Clone, Debug)]
pub(super) struct Pointwise {
    pub space: Space,
    tests: Tests,
    tables: Tables,
    sources: Vec<Source>,
    result: View,
    in_place: bool,
}

#[derive(Clone, Debug)]
enum Source {
    Tile(View),
    Constant(Scalar),
    Index(Code),
    Holds(CondCode),
}

/// What a source is along one row.
#[derive(Clone, Copy)]
enum Lane<'a> {
    Float(&'a [f64], i64, i64),
    Int(&'a [i64], i64, i64),
    Bool(&'a [bool], i64, i64),
    Constant(Scalar),
    Index(&'a Code),
    Holds(&'a CondCode),
}

/// See [`super::super::ir::Statement::Compute`].
#[derive(Clone, Debug)]
pub(super) struct Compute {
    pub space: Space,
    function: &'static Elementwise,
    pointwise: Pointwise,
}

/// See [`super::super::ir::Statement::Fill`].
#[derive(Clone, Debug)]
pub(super) struct Fill(pub Pointwise, Scalar);

/// See [`super::super::ir::Statement::Bits`].
#[derive(Clone, Debug)]
pub(super) struct Bits(pub Pointwise, u32, u32, bool);

/// See [`super::super::ir::Statement::Rescale`].
#[derive(Clone, Debug)]
pub(super) struct Rescale {
    pub space: Space,
    pointwise: Pointwise,
}

impl Pointwise {
    fn new(arguments: &[Argument], result: TileId, scope: &Scope<'_>) -> Result<Pointwise, Error> {
        let shape = scope.tile(result)?;
        let tiles: [&Tile; 1] = [shape];
        let (space, tests) = Space::new(&tiles, scope)?;
        let mut names: BTreeSet<Symbol> = BTreeSet::new();
        tests.tables(&mut names);
        space.tables(&mut names);
        let mut sources = Vec::new();
        let mut in_place = false;
        for argument in arguments {
            sources.push(match argument {
                Argument::Item(id) => {
                    in_place |= *id == result;
                    Source::Tile(View::new(*id, scope.tile(*id)?, &tiles, &space, scope)?)
                }
                Argument::Literal(value) => Source::Constant(*value),
                Argument::Index(dim) => {
                    names.append(&mut dim.tables());
                    let code = scope.code(dim, &space.labels)?;
                    code.as_constant()
                        .map_or(Source::Index(code), |value| Source::Constant(Scalar::Int(value)))
                }
                Argument::Holds(cond) => {
                    names.append(&mut cond.tables());
                    let code = scope.condition(cond, &space.labels)?;
                    code.as_constant()
                        .map_or(Source::Holds(code), |value| Source::Constant(Scalar::Bool(value)))
                }
            });
        }
        let view = View::new(result, shape, &tiles, &space, scope)?;
        Ok(Pointwise { tests, tables: Tables::new(names, scope)?, sources, result: view, space, in_place })
    }

    /// Sets each element of the result to `f` of the sources' elements, settled to the result's type.
    fn run<M: Machine>(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &M,
        numerics: Numerics,
        f: impl Fn(&[Scalar]) -> Scalar,
    ) -> Result<(), Error> {
        let index = self.result.tile.0 as usize;
        let mut result = match self.in_place {
            true => frame.tiles[index].clone(),
            false => std::mem::replace(&mut frame.tiles[index], empty()),
        };
        let outcome = self.rows(slots, frame, machine, numerics, f, &mut result);
        frame.tiles[index] = result;
        outcome
    }

    fn rows<M: Machine>(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &M,
        numerics: Numerics,
        f: impl Fn(&[Scalar]) -> Scalar,
        result: &mut Array,
    ) -> Result<(), Error> {
        let Frame { tiles, bounds, bits } = frame;
        let coordinates = slots[..self.space.base].to_vec();
        let env = self.tables.lookup(tiles, machine, &coordinates);
        if !self.space.bind(slots, &env, bounds)? {
            return Ok(());
        }
        let origins = self.origins(bounds, slots, &env)?;
        let dtype = result.dtype;
        let rounding = Rounding::of(numerics, dtype);
        let slot = self.space.inner_slot();
        let mut lanes = [Lane::Constant(Scalar::Bool(false)); 3];
        if self.sources.len() > lanes.len() {
            return Err(super::overflow("the number of arguments"));
        }
        self.space.walk(bounds, slots, |slots, positions| {
            let row = self.tests.row(&self.space, bounds, slots, positions, &[], tiles, &env, bits)?;
            if row.is_empty() {
                return Ok(());
            }
            let mut indexed = false;
            for ((lane, source), origin) in lanes.iter_mut().zip(&self.sources).zip(&origins) {
                *lane = match source {
                    Source::Tile(view) => {
                        let at = origin + view.offset(positions);
                        let step = view.strides[self.space.inner];
                        match &tiles[view.tile.0 as usize].data {
                            Data::Float(v) => Lane::Float(v, at, step),
                            Data::Int(v) => Lane::Int(v, at, step),
                            Data::Bool(v) => Lane::Bool(v, at, step),
                        }
                    }
                    Source::Constant(value) => Lane::Constant(*value),
                    Source::Index(code) => Lane::Index(code),
                    Source::Holds(code) => Lane::Holds(code),
                };
                indexed |= matches!(lane, Lane::Index(_) | Lane::Holds(_));
            }
            let lanes = &lanes[..self.sources.len()];
            let offset = self.result.offset(positions);
            let taken = |k: i64| !row.bits || bits[(k - row.lo) as usize];
            if !indexed
                && !row.bits
                && let Data::Float(out) = &mut result.data
            {
                let out = &mut out[(offset + row.lo) as usize..(offset + row.hi) as usize];
                let round = |value: Scalar| rounding.apply(value.as_f64());
                match lanes {
                    [Lane::Float(a, at, step)] => {
                        let mut x = strided(a, at + row.lo * step, *step);
                        out.iter_mut().for_each(|out| *out = round(f(&[Scalar::Float(x())])));
                        return Ok(());
                    }
                    [Lane::Float(a, at, step), Lane::Float(b, from, by)] => {
                        let mut x = strided(a, at + row.lo * step, *step);
                        let mut y = strided(b, from + row.lo * by, *by);
                        out.iter_mut()
                            .for_each(|out| *out = round(f(&[Scalar::Float(x()), Scalar::Float(y())])));
                        return Ok(());
                    }
                    _ => {}
                }
            }
            let first = slots[slot];
            let mut values = [Scalar::Bool(false); 3];
            for k in row.lo..row.hi {
                if !taken(k) {
                    continue;
                }
                if indexed {
                    slots[slot] = first + k;
                }
                for (value, lane) in values.iter_mut().zip(lanes) {
                    *value = lane.get(k, slots, &env)?;
                }
                let value = settle(numerics, dtype, f(&values[..lanes.len()]));
                result.set((offset + k) as usize, value);
            }
            slots[slot] = first;
            Ok(())
        })
    }

    fn origins<M: Machine>(
        &self,
        bounds: &Bounds,
        slots: &[i64],
        env: &Lookup<'_, M>,
    ) -> Result<Vec<i64>, Error> {
        let origin = |source: &Source| match source {
            Source::Tile(view) => view.origin(bounds, slots, env),
            _ => Ok(0),
        };
        self.sources.iter().map(origin).collect()
    }
}

/// The elements `at`, `at + step`, … one after the other; they lie inside.
#[inline(always)]
fn strided(from: &[f64], at: i64, step: i64) -> impl FnMut() -> f64 {
    let mut at = at;
    move || {
        let value = from[at as usize];
        at += step;
        value
    }
}

/// A value as an element of the type.
#[inline(always)]
pub(super) fn settle(numerics: Numerics, dtype: DType, value: Scalar) -> Scalar {
    numerics.round(dtype, value.carry(dtype))
}

impl Lane<'_> {
    #[inline(always)]
    fn get(&self, k: i64, slots: &[i64], env: &dyn Env) -> Result<Scalar, Error> {
        Ok(match self {
            Lane::Float(v, at, step) => Scalar::Float(v[(at + k * step) as usize]),
            Lane::Int(v, at, step) => Scalar::Int(v[(at + k * step) as usize]),
            Lane::Bool(v, at, step) => Scalar::Bool(v[(at + k * step) as usize]),
            Lane::Constant(value) => *value,
            Lane::Index(code) => Scalar::Int(code.eval(slots, env).map_err(fault)?),
            Lane::Holds(code) => Scalar::Bool(code.eval(slots, env).map_err(fault)?),
        })
    }
}

impl Compute {
    pub fn new(
        function: &'static Elementwise,
        arguments: &[Argument],
        result: TileId,
        scope: &Scope<'_>,
    ) -> Result<Compute, Error> {
        if arguments.len() != function.arity {
            let message =
                format!("`{}` takes {} arguments, not {}", function.name, function.arity, arguments.len());
            return Err(scope.illegal(message));
        }
        let pointwise = Pointwise::new(arguments, result, scope)?;
        Ok(Compute { space: pointwise.space.clone(), function, pointwise })
    }

    pub fn run(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let dtype = frame.tiles[self.pointwise.result.tile.0 as usize].dtype;
        let eval = self.function.eval;
        self.pointwise.run(slots, frame, machine, numerics, |arguments| eval(arguments, dtype))
    }
}

impl Fill {
    pub fn new(tile: TileId, value: Scalar, scope: &Scope<'_>) -> Result<Fill, Error> {
        Ok(Fill(Pointwise::new(&[], tile, scope)?, value))
    }

    pub fn run(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let Fill(Pointwise { space, tests, tables, result, .. }, value) = self;
        let index = result.tile.0 as usize;
        let mut tile = std::mem::replace(&mut frame.tiles[index], empty());
        let value = settle(numerics, tile.dtype, *value);
        let Frame { tiles, bounds, bits } = frame;
        let coordinates = slots[..space.base].to_vec();
        let env = tables.lookup(tiles, machine, &coordinates);
        if space.bind(slots, &env, bounds)? {
            space.walk(bounds, slots, |slots, positions| {
                let row = tests.row(space, bounds, slots, positions, &[], tiles, &env, bits)?;
                let offset = result.offset(positions);
                fill(&mut tile, (offset + row.lo) as usize..(offset + row.hi) as usize, value);
                Ok(())
            })?;
        }
        frame.tiles[index] = tile;
        Ok(())
    }
}

impl Bits {
    pub fn new(
        source: TileId,
        offset: u32,
        width: u32,
        signed: bool,
        result: TileId,
        scope: &Scope<'_>,
    ) -> Result<Bits, Error> {
        let integer = scope.tile(source)?.dtype.is_int() && scope.tile(result)?.dtype.is_int();
        if !integer || width == 0 || offset.checked_add(width).is_none_or(|end| end > 64) {
            return Err(scope.illegal(format!("there are no bits {offset}..{offset} + {width}")));
        }
        Ok(Bits(Pointwise::new(&[Argument::Item(source)], result, scope)?, offset, width, signed))
    }

    pub fn run(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let Bits(pointwise, offset, width, signed) = self;
        pointwise.run(slots, frame, machine, numerics, |arguments| {
            let value = arguments.first().map_or(0, |value| value.as_i64());
            Scalar::Int(bits(value, *offset, *width, *signed))
        })
    }
}

/// Bits `offset..offset + width` of a value, 1 ≤ `width`, `offset + width` ≤ 64.
pub(super) fn bits(value: i64, offset: u32, width: u32, signed: bool) -> i64 {
    let top = ((value as u64) << (64 - offset - width)) as i64;
    let shift = 64 - width;
    if signed { top >> shift } else { ((top as u64) >> shift) as i64 }
}

impl Rescale {
    pub fn new(
        significand: TileId,
        from: TileId,
        to: TileId,
        result: TileId,
        scope: &Scope<'_>,
    ) -> Result<Rescale, Error> {
        let arguments = [significand, from, to].map(Argument::Item);
        let pointwise = Pointwise::new(&arguments, result, scope)?;
        Ok(Rescale { space: pointwise.space.clone(), pointwise })
    }

    pub fn run(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        self.pointwise.run(slots, frame, machine, numerics, |arguments| {
            let [significand, from, to] = arguments else { return Scalar::Float(0.0) };
            let shift = from.as_i64().saturating_sub(to.as_i64()).clamp(-20_000, 20_000);
            let x = significand.as_f64();
            Scalar::Float(if x == 0.0 { x } else { libm::scalbn(x, shift as i32) })
        })
    }
}
