//! Reductions over labels of a tile: `reduce` by a monoid, `align` of exponents.

use super::super::ir::{Mask, TileId};
use super::access::{Tables, empty};
use super::compile::Scope;
use super::elements::{Rounding, fill, get};
use super::elementwise::settle;
use super::space::{Space, Tests, View};
use super::{Frame, Machine, fault};
use crate::dim::{Code, Dim, Symbol};
use crate::error::Error;
use crate::tensor::eval::Numerics;
use crate::tensor::monoid::MAX_COMPONENTS;
use crate::tensor::{Data, Monoid, Scalar};
use std::collections::BTreeSet;

/// See [`super::super::ir::Statement::Reduce`].
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    pub space: Space,
    monoid: &'static Monoid,
    argument: View,
    position: Code,
    tests: Tests,
    tables: Tables,
    state: Vec<View>,
}

/// See [`super::super::ir::Statement::Align`].
#[derive(Clone, Debug)]
pub(super) struct Align {
    pub space: Space,
    significand: View,
    exponent: View,
    result: View,
    tests: Tests,
    tables: Tables,
}

impl Reduction {
    pub fn new(
        monoid: &'static Monoid,
        argument: TileId,
        position: &Dim,
        mask: &Mask,
        state: &[TileId],
        scope: &Scope<'_>,
    ) -> Result<Reduction, Error> {
        let tile = scope.tile(argument)?;
        let tiles = [tile];
        let (space, ends) = Space::new(&tiles, scope)?;
        let components = (monoid.state)(tile.dtype, tile.dtype).len();
        if components != state.len() || components > MAX_COMPONENTS || state.contains(&argument) {
            return Err(
                scope.illegal(format!("`{}` has a state of {components} tiles of its own", monoid.name))
            );
        }
        let view = |id: &TileId| View::new(*id, scope.tile(*id)?, &tiles, &space, scope);
        let tests = Tests::of_mask(mask, &tiles, &space, scope)?.and(ends);
        let mut names: BTreeSet<Symbol> = position.tables();
        tests.tables(&mut names);
        space.tables(&mut names);
        Ok(Reduction {
            monoid,
            argument: view(&argument)?,
            position: scope.code(position, &space.labels)?,
            tests,
            tables: Tables::new(names, scope)?,
            state: state.iter().map(view).collect::<Result<_, _>>()?,
            space,
        })
    }

    pub fn run(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &impl Machine,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let ids: Vec<usize> = self.state.iter().map(|view| view.tile.0 as usize).collect();
        let mut state: Vec<_> =
            ids.iter().map(|id| std::mem::replace(&mut frame.tiles[*id], empty())).collect();
        let outcome = self.rows(slots, frame, machine, numerics, &mut state);
        for (id, tile) in ids.into_iter().zip(state) {
            frame.tiles[id] = tile;
        }
        outcome
    }

    fn rows(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &impl Machine,
        numerics: Numerics,
        state: &mut [super::TileData],
    ) -> Result<(), Error> {
        let Frame { tiles, bounds, bits } = frame;
        let coordinates = slots[..self.space.base].to_vec();
        let env = self.tables.lookup(tiles, machine, &coordinates);
        if !self.space.bind(slots, &env, bounds)? {
            return Ok(());
        }
        let masks = self.tests.origins(bounds, slots, &env)?;
        let origin = self.argument.origin(bounds, slots, &env)?;
        let origins =
            self.state.iter().map(|view| view.origin(bounds, slots, &env)).collect::<Result<Vec<_>, _>>()?;
        let argument = &tiles[self.argument.tile.0 as usize];
        let slot = self.space.inner_slot();
        let inner = self.space.inner;
        let step = self.argument.strides[inner];
        let absorb = self.monoid.absorb;
        let positional = self.state.len() > 1;
        let rounding = state.first().map_or(Rounding::None, |tile| Rounding::of(numerics, tile.dtype));
        let mut components = [Scalar::Bool(false); MAX_COMPONENTS];
        let components = &mut components[..self.state.len()];
        self.space.walk(bounds, slots, |slots, positions| {
            let row = self.tests.row(&self.space, bounds, slots, positions, &masks, tiles, &env, bits)?;
            if row.is_empty() {
                return Ok(());
            }
            let from = origin + self.argument.offset(positions);
            let first = slots[slot];
            let reduced = self.state.iter().all(|view| view.strides[inner] == 0);
            let place = |c: usize, k: i64| {
                origins[c] + self.state[c].offset(positions) + k * self.state[c].strides[inner]
            };
            if let ([state], Data::Float(values)) = (&mut *state, &argument.data)
                && let Data::Float(out) = &mut state.data
            {
                let (base, by) = (place(0, 0), self.state[0].strides[inner]);
                let taken = |k: i64| !row.bits || bits[(k - row.lo) as usize];
                let more = |sum: f64, k: i64| {
                    let mut sum = [Scalar::Float(sum)];
                    absorb(&mut sum, Scalar::Float(values[(from + k * step) as usize]), 0);
                    rounding.apply(sum[0].as_f64())
                };
                if reduced {
                    let start = out[base as usize];
                    let taken = (row.lo..row.hi).filter(|k| taken(*k));
                    out[base as usize] = taken.fold(start, more);
                } else {
                    for k in (row.lo..row.hi).filter(|k| taken(*k)) {
                        let sum = &mut out[(base + k * by) as usize];
                        *sum = more(*sum, k);
                    }
                }
                return Ok(());
            }
            if reduced {
                for (c, component) in components.iter_mut().enumerate() {
                    *component = get(&state[c], place(c, 0));
                }
            }
            for k in row.lo..row.hi {
                if row.bits && !bits[(k - row.lo) as usize] {
                    continue;
                }
                if !reduced {
                    for (c, component) in components.iter_mut().enumerate() {
                        *component = get(&state[c], place(c, k));
                    }
                }
                let mut index = 0;
                if positional {
                    slots[slot] = first + k;
                    index = self.position.eval(slots, &env).map_err(fault)?;
                }
                absorb(components, get(argument, from + k * step), index);
                for (component, tile) in components.iter_mut().zip(state.iter()) {
                    *component = settle(numerics, tile.dtype, *component);
                }
                if !reduced {
                    for (c, component) in components.iter().enumerate() {
                        state[c].set(place(c, k) as usize, *component);
                    }
                }
            }
            if reduced {
                for (c, component) in components.iter().enumerate() {
                    state[c].set(place(c, 0) as usize, *component);
                }
            }
            slots[slot] = first;
            Ok(())
        })
    }
}

impl Align {
    pub fn new(
        significand: TileId,
        exponent: TileId,
        result: TileId,
        scope: &Scope<'_>,
    ) -> Result<Align, Error> {
        let tiles = [scope.tile(significand)?];
        let (space, tests) = Space::new(&tiles, scope)?;
        let view = |id: TileId| View::new(id, scope.tile(id)?, &tiles, &space, scope);
        if [significand, exponent].contains(&result) {
            return Err(scope.illegal("the common exponent needs a tile of its own".into()));
        }
        let mut names = BTreeSet::new();
        tests.tables(&mut names);
        space.tables(&mut names);
        Ok(Align {
            significand: view(significand)?,
            exponent: view(exponent)?,
            result: view(result)?,
            tests,
            tables: Tables::new(names, scope)?,
            space,
        })
    }

    pub fn run(&self, slots: &mut [i64], frame: &mut Frame, machine: &impl Machine) -> Result<(), Error> {
        let index = self.result.tile.0 as usize;
        let mut result = std::mem::replace(&mut frame.tiles[index], empty());
        let least = result.dtype.int_range().map_or(i64::MIN, |(least, _)| least);
        let everything = 0..result.len();
        fill(&mut result, everything, Scalar::Int(least));
        let Frame { tiles, bounds, bits } = frame;
        let coordinates = slots[..self.space.base].to_vec();
        let env = self.tables.lookup(tiles, machine, &coordinates);
        let inner = self.space.inner;
        if self.space.bind(slots, &env, bounds)? {
            let origin = |view: &View| view.origin(bounds, slots, &env);
            let origins = (origin(&self.significand)?, origin(&self.exponent)?, origin(&self.result)?);
            let (significand, exponent) =
                (&tiles[self.significand.tile.0 as usize], &tiles[self.exponent.tile.0 as usize]);
            let Data::Int(common) = &mut result.data else {
                return Err(super::overflow("an exponent that is no integer"));
            };
            self.space.walk(bounds, slots, |slots, positions| {
                let row = self.tests.row(&self.space, bounds, slots, positions, &[], tiles, &env, bits)?;
                for k in (row.lo..row.hi).filter(|k| !row.bits || bits[(k - row.lo) as usize]) {
                    let at = |view: &View, origin| origin + view.offset(positions) + k * view.strides[inner];
                    if get(significand, at(&self.significand, origins.0)).as_bool() {
                        let value = get(exponent, at(&self.exponent, origins.1)).as_i64();
                        let place = &mut common[at(&self.result, origins.2) as usize];
                        *place = value.max(*place);
                    }
                }
                Ok(())
            })?;
        }
        frame.tiles[index] = result;
        Ok(())
    }
}
