//! Contractions: sums of products of one to three tiles, in index order, or by the machine where it can do better.

use super::super::ir::{Mask, Tile, TileId};
use super::access::{Tables, empty};
use super::compile::Scope;
use super::elements::{Rounding, get};
use super::elementwise::settle;
use super::space::{Bounds, Space, Tests, View};
use super::{Frame, Machine, TileData};
use crate::dim::{Env, Symbol};
use crate::error::Error;
use crate::tensor::eval::Numerics;
use crate::tensor::{Array, DType, Data, Elementwise, Scalar, elementwise};
use std::collections::BTreeSet;

/// `c[m, n] += Σ_k a[m, k] · b[n, k]` on parts of tiles.
#[derive(Debug)]
pub struct Product<'a> {
    /// How many rows of `a` and `c`.
    pub m: usize,
    /// How many rows of `b`, which are columns of `c`.
    pub n: usize,
    /// How many products are added to each element.
    pub k: usize,
    /// The left factor; element `[m, k]` at `m · rows + k · depth`.
    pub a: Factor<'a>,
    /// The right factor; element `[n, k]` at `n · rows + k · depth`.
    pub b: Factor<'a>,
    /// The sum; element `[m, n]` at `m · strides[0] + n · strides[1]`.
    pub c: &'a mut [f64],
    /// See `c`.
    pub strides: [usize; 2],
    /// The element types of `a`, `b` and `c`, all floats.
    pub types: [DType; 3],
}

/// A factor of a [`Product`].
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a> {
    /// Its elements from the first one on.
    pub data: &'a [f64],
    /// The distance of rows.
    pub rows: usize,
    /// The distance along `k`.
    pub depth: usize,
}

/// See [`super::super::ir::Statement::Contract`].
#[derive(Clone, Debug)]
pub(super) struct Contraction {
    pub space: Space,
    factors: Vec<View>,
    sum: View,
    tests: Tests,
    tables: Tables,
}

/// The row functions of products and sums of any type.
struct Arithmetic {
    mul: &'static Elementwise,
    add: &'static Elementwise,
}

impl Contraction {
    pub fn new(
        factors: &[TileId],
        sum: TileId,
        mask: &Mask,
        scope: &Scope<'_>,
    ) -> Result<Contraction, Error> {
        if factors.is_empty() || factors.len() > 3 || factors.contains(&sum) {
            return Err(
                scope.illegal("a contraction has one to three factors, and a sum apart from them".into())
            );
        }
        let mut tiles: Vec<&Tile> = vec![scope.tile(sum)?];
        for factor in factors {
            tiles.push(scope.tile(*factor)?);
        }
        let (space, ends) = Space::new(&tiles, scope)?;
        let view = |id: &TileId| View::new(*id, scope.tile(*id)?, &tiles, &space, scope);
        let tests = Tests::of_mask(mask, &tiles, &space, scope)?.and(ends);
        let mut names: BTreeSet<Symbol> = BTreeSet::new();
        tests.tables(&mut names);
        space.tables(&mut names);
        Ok(Contraction {
            factors: factors.iter().map(view).collect::<Result<_, _>>()?,
            sum: view(&sum)?,
            tests,
            tables: Tables::new(names, scope)?,
            space,
        })
    }

    pub fn run<M: Machine>(
        &self,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &mut M,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let index = self.sum.tile.0 as usize;
        let mut sum = std::mem::replace(&mut frame.tiles[index], empty());
        let outcome = self.add_to(&mut sum, slots, frame, machine, numerics);
        frame.tiles[index] = sum;
        outcome
    }

    fn add_to<M: Machine>(
        &self,
        sum: &mut TileData,
        slots: &mut [i64],
        frame: &mut Frame,
        machine: &mut M,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let Frame { tiles, bounds, bits } = frame;
        let coordinates = slots[..self.space.base].to_vec();
        let (masks, origins, origin) = {
            let env = self.tables.lookup(tiles, machine, &coordinates);
            if !self.space.bind(slots, &env, bounds)? {
                return Ok(());
            }
            let origins = self.factors.iter().map(|view| view.origin(bounds, slots, &env));
            (
                self.tests.origins(bounds, slots, &env)?,
                origins.collect::<Result<Vec<_>, _>>()?,
                self.sum.origin(bounds, slots, &env)?,
            )
        };
        if let ([a, b], [from_a, from_b]) = (self.factors.as_slice(), origins.as_slice()) {
            let roles = Roles::new(&self.space, bounds, a, b, &self.sum);
            let places = (*from_a, *from_b, origin);
            if self.delegate(&roles, places, sum, slots, tiles, bounds, machine)? {
                return Ok(());
            }
        }
        let env = self.tables.lookup(tiles, machine, &coordinates);
        self.in_order(sum, slots, tiles, bounds, bits, &masks, &origins, origin, &env, numerics)
    }

    /// Lets the machine do the product, if it can; false if nothing was done.
    #[expect(clippy::too_many_arguments, reason = "the parts of a frame, borrowed apart")]
    fn delegate<M: Machine>(
        &self,
        roles: &Roles,
        (from_a, from_b, origin): (i64, i64, i64),
        sum: &mut TileData,
        slots: &mut [i64],
        tiles: &[Array],
        bounds: &Bounds,
        machine: &mut M,
    ) -> Result<bool, Error> {
        let [view_a, view_b] = self.factors.as_slice() else { return Ok(false) };
        let (tile_a, tile_b) = (&tiles[view_a.tile.0 as usize], &tiles[view_b.tile.0 as usize]);
        let types = [tile_a.dtype, tile_b.dtype, sum.dtype];
        let (Data::Float(a), Data::Float(b), Data::Float(c)) = (&tile_a.data, &tile_b.data, &mut sum.data)
        else {
            return Ok(false);
        };
        let whole = self.tests.admits_all(&self.space, bounds, slots);
        let separable = match (roles.n, roles.k) {
            (Some(n), Some(k)) => self.tests.separable(&self.space, n, k),
            _ => self.tests.separable(&self.space, 0, 0),
        };
        if !whole && !separable {
            return Ok(false);
        }
        let count = |axis: Option<usize>| axis.map_or(1, |axis| bounds.counts[axis]);
        let stride = |view: &View, axis: Option<usize>| axis.map_or(0, |axis| view.strides[axis]);
        let (m, n, k) = (count(roles.m), count(roles.n), count(roles.k));
        let base = self.space.base;
        let (mut done, mut started) = (None, false);
        let mut call = |at: (i64, i64, i64), size: (i64, i64, i64)| -> bool {
            let (Some(a), Some(b), Some(c)) =
                (a.get(at.0 as usize..), b.get(at.1 as usize..), c.get_mut(at.2 as usize..))
            else {
                return false;
            };
            let factor = |view: &View, data, rows| Factor {
                data,
                rows: stride(view, rows) as usize,
                depth: stride(view, roles.k) as usize,
            };
            machine.multiply(Product {
                m: size.0 as usize,
                n: size.1 as usize,
                k: size.2 as usize,
                a: factor(view_a, a, roles.m),
                b: factor(view_b, b, roles.n),
                c,
                strides: [stride(&self.sum, roles.m) as usize, stride(&self.sum, roles.n) as usize],
                types,
            })
        };
        roles.walk(&self.space, bounds, slots, |slots, positions| {
            if done == Some(false) {
                return;
            }
            let at = (
                from_a + view_a.offset(positions),
                from_b + view_b.offset(positions),
                origin + self.sum.offset(positions),
            );
            if whole {
                done = Some(call(at, (m, n, k)));
                started |= done == Some(true);
                return;
            }
            for row in 0..m {
                if let Some(axis) = roles.m {
                    slots[base + axis] = bounds.starts[axis] + row;
                }
                let part = |axis: Option<usize>, other: Option<usize>, count: i64| match axis {
                    Some(axis) => {
                        self.tests.narrow(slots, base + axis, other.map(|axis| base + axis), 0, count)
                    }
                    None => self.tests.narrow(slots, usize::MAX, other.map(|axis| base + axis), 0, count),
                };
                let (n_lo, n_hi) = part(roles.n, roles.k, n);
                let (k_lo, k_hi) = part(roles.k, roles.n, k);
                if n_lo >= n_hi || k_lo >= k_hi {
                    continue;
                }
                let place = (
                    at.0 + row * stride(view_a, roles.m) + k_lo * stride(view_a, roles.k),
                    at.1 + n_lo * stride(view_b, roles.n) + k_lo * stride(view_b, roles.k),
                    at.2 + row * stride(&self.sum, roles.m) + n_lo * stride(&self.sum, roles.n),
                );
                let finished = call(place, (1, n_hi - n_lo, k_hi - k_lo));
                if !finished {
                    done = Some(false);
                    return;
                }
                done = Some(true);
                started = true;
            }
            if let Some(axis) = roles.m {
                slots[base + axis] = bounds.starts[axis];
            }
        });
        match done {
            Some(false) if started => Err(Error::Bug {
                stage: "kernel",
                message: "a machine refused a product after another".into(),
            }),
            done => Ok(done.unwrap_or(true)),
        }
    }

    /// Adds the products one after the other, each rounded.
    #[expect(clippy::too_many_arguments, reason = "the parts of a frame, borrowed apart")]
    fn in_order(
        &self,
        sum: &mut TileData,
        slots: &mut [i64],
        tiles: &[Array],
        bounds: &Bounds,
        bits: &mut Vec<bool>,
        masks: &[i64],
        origins: &[i64],
        origin: i64,
        env: &dyn Env,
        numerics: Numerics,
    ) -> Result<(), Error> {
        let arithmetic = Arithmetic::find()?;
        let inner = self.space.inner;
        let step = self.sum.strides[inner];
        let dtype = sum.dtype;
        let rounding = Rounding::of(numerics, dtype);
        let floats: Option<Vec<&[f64]>> = (self.factors.iter())
            .map(|view| match &tiles[view.tile.0 as usize].data {
                Data::Float(v) => Some(v.as_slice()),
                _ => None,
            })
            .collect();
        let mut at = vec![0i64; self.factors.len()];
        let steps: Vec<i64> = self.factors.iter().map(|view| view.strides[inner]).collect();
        self.space.walk(bounds, slots, |slots, positions| {
            let row = self.tests.row(&self.space, bounds, slots, positions, masks, tiles, env, bits)?;
            if row.is_empty() {
                return Ok(());
            }
            for ((at, view), origin) in at.iter_mut().zip(&self.factors).zip(origins) {
                *at = origin + view.offset(positions);
            }
            let place = origin + self.sum.offset(positions);
            let taken = row.bits.then_some(bits.as_slice());
            match (&floats, &mut sum.data) {
                (Some(floats), Data::Float(sum)) => {
                    let strip = Strip {
                        factors: floats,
                        at: &at,
                        steps: &steps,
                        lo: row.lo,
                        hi: row.hi,
                        bits: taken,
                    };
                    match rounding {
                        Rounding::None => strip.add(sum, place, step, |x| x),
                        Rounding::Single => strip.add(sum, place, step, |x| f64::from(x as f32)),
                        Rounding::To(dtype) => {
                            strip.add(sum, place, step, |x| dtype.round(Scalar::Float(x)).as_f64())
                        }
                    }
                }
                _ => {
                    for k in row.lo..row.hi {
                        if taken.is_some_and(|bits| !bits[(k - row.lo) as usize]) {
                            continue;
                        }
                        let mut product = None;
                        for ((view, at), step) in self.factors.iter().zip(&at).zip(&steps) {
                            let value = get(&tiles[view.tile.0 as usize], at + k * step).carry(dtype);
                            product = Some(match product {
                                None => value,
                                Some(product) => {
                                    settle(numerics, dtype, (arithmetic.mul.eval)(&[product, value], dtype))
                                }
                            });
                        }
                        let position = place + k * step;
                        let product = product.unwrap_or(Scalar::zero(dtype));
                        let total = (arithmetic.add.eval)(&[get(sum, position), product], dtype);
                        sum.set(position as usize, settle(numerics, dtype, total));
                    }
                }
            }
            Ok(())
        })
    }
}

impl Arithmetic {
    fn find() -> Result<Arithmetic, Error> {
        match (elementwise::find("mul"), elementwise::find("add")) {
            (Some(mul), Some(add)) => Ok(Arithmetic { mul, add }),
            _ => Err(Error::Bug { stage: "kernel", message: "there is no `mul` or no `add`".into() }),
        }
    }
}

/// A row of float factors.
struct Strip<'a> {
    factors: &'a [&'a [f64]],
    at: &'a [i64],
    steps: &'a [i64],
    lo: i64,
    hi: i64,
    bits: Option<&'a [bool]>,
}

impl Strip<'_> {
    /// Adds the products to `sum[place + k · step]`, rounded by `round` after each product and each addition.
    #[inline(always)]
    fn add(&self, sum: &mut [f64], place: i64, step: i64, round: impl Fn(f64) -> f64) {
        let taken = |k: i64| self.bits.is_none_or(|bits| bits[(k - self.lo) as usize]);
        match (self.factors, self.at, self.steps) {
            ([a, b], [at_a, at_b], [step_a, step_b]) if step == 0 => {
                let mut total = sum[place as usize];
                for k in self.lo..self.hi {
                    if taken(k) {
                        let product =
                            round(a[(at_a + k * step_a) as usize] * b[(at_b + k * step_b) as usize]);
                        total = round(total + product);
                    }
                }
                sum[place as usize] = total;
            }
            _ => {
                for k in self.lo..self.hi {
                    if taken(k) {
                        let mut product = None;
                        for ((factor, at), step) in self.factors.iter().zip(self.at).zip(self.steps) {
                            let value = factor[(at + k * step) as usize];
                            product = Some(product.map_or(value, |product: f64| round(product * value)));
                        }
                        let total = &mut sum[(place + k * step) as usize];
                        *total = round(*total + product.unwrap_or(0.0));
                    }
                }
            }
        }
    }
}

/// Which axis of a space plays which part of a matrix product; the others are walked.
struct Roles {
    m: Option<usize>,
    n: Option<usize>,
    k: Option<usize>,
}

impl Roles {
    fn new(space: &Space, bounds: &Bounds, a: &View, b: &View, c: &View) -> Roles {
        let longest = |in_a: bool, in_b: bool, in_c: bool| {
            let fits = |axis: &usize| {
                let has = |view: &View| view.strides[*axis] != 0;
                has(a) == in_a && has(b) == in_b && has(c) == in_c
            };
            (0..space.labels.len()).filter(fits).max_by_key(|axis| (bounds.counts[*axis], *axis))
        };
        Roles { m: longest(true, false, true), n: longest(false, true, true), k: longest(true, true, false) }
    }

    /// Calls `f` at the first index tuple of each product, with the positions of the walked axes.
    fn walk(&self, space: &Space, bounds: &Bounds, slots: &mut [i64], mut f: impl FnMut(&mut [i64], &[i64])) {
        let rank = space.labels.len();
        let mut positions = vec![0i64; rank];
        slots[space.base..space.base + rank].copy_from_slice(&bounds.starts);
        loop {
            f(slots, &positions);
            let mut axis = rank;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                if [self.m, self.n, self.k].contains(&Some(axis)) {
                    continue;
                }
                positions[axis] += 1;
                if positions[axis] < bounds.counts[axis] {
                    slots[space.base + axis] = bounds.starts[axis] + positions[axis];
                    break;
                }
                positions[axis] = 0;
                slots[space.base + axis] = bounds.starts[axis];
            }
        }
    }
}
