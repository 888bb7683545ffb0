//! Runs a nest by plain dense loops. Index expressions are compiled once; a read whose index is linear and provably
//! inside its operand is a base and a stride per axis, and a sum of products of such reads has a tight inner loop.

use super::{Numerics, unwritten};
use crate::dim::{Code, CondCode, Dim, Env, EvalError, Facts, Symbol};
use crate::tensor::array::{Array, Data};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::elementwise::Elementwise;
use crate::tensor::ir::TensorType;
use crate::tensor::monoid::MAX_COMPONENTS;
use crate::tensor::nest::{Expr, Nest, Read, Reduction};
use crate::tensor::storage::{Storage, extents_at};

/// An operand as a nest reads it.
pub(super) struct Source<'a> {
    pub ty: &'a TensorType,
    pub array: &'a Array,
}

/// Why a nest does not run.
#[derive(Debug)]
pub(super) enum Fault {
    /// An index expression has no value.
    Index(EvalError),
    /// The nest does not fit its operands.
    Shape(String),
}

impl From<EvalError> for Fault {
    fn from(error: EvalError) -> Fault {
        Fault::Index(error)
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Fault {
        Fault::Shape(message)
    }
}

/// What all parts of a nest are compiled with.
pub(super) struct Surroundings<'a> {
    pub facts: &'a Facts,
    pub env: &'a dyn Env,
    pub numerics: Numerics,
}

/// The result of `nest` as an array of these storage extents.
pub(super) fn run(
    nest: &Nest,
    sources: &[Option<Source>],
    result: &TensorType,
    extents: &[usize],
    at: &Surroundings,
) -> Result<Array, Fault> {
    let mut output = match nest.overwrites {
        None => Array::filled(result.dtype, extents, unwritten(result.dtype)),
        Some(k) => {
            let source = sources.get(k).and_then(Option::as_ref);
            let source = source.ok_or_else(|| "the overwritten operand is missing".to_string())?;
            if source.array.extents != extents || source.array.dtype != result.dtype {
                return Err(Fault::Shape("the overwritten operand differs in type from the result".into()));
            }
            source.array.clone()
        }
    };
    let compiled = Compiled::new(nest, sources, result, extents, at)?;
    let mut index = vec![0i64; nest.axes.len()];
    compiled.rows(0, &mut index, &mut output)?;
    Ok(output)
}

/// The most factors of a product that has an inner loop of its own.
const MAX_FACTORS: usize = 3;

/// Elements, the position of the first, and the step to the next.
type Run<'a> = (&'a [f64], i64, i64);

/// A row-major position from an index.
enum Place {
    /// Always inside: `base` plus a stride per axis of the nest.
    Direct { base: i64, strides: Vec<i64> },
    /// Inside where every `(index, extent)` says so; checked in order, since an extent may need the indices before it.
    Checked { bounds: Vec<(Code, Code)>, position: Code },
}

struct CompiledRead<'a> {
    data: &'a Data,
    zero: Scalar,
    when: Option<CondCode>,
    place: Place,
}

enum Body {
    Read(usize),
    Literal(Scalar),
    Index(Code),
    Holds(CondCode),
    Apply { function: &'static Elementwise, arguments: Vec<Body>, dtype: DType },
}

struct Compiled<'a> {
    extents: Vec<Code>,
    rank: usize,
    reads: Vec<CompiledRead<'a>>,
    guard: Option<CondCode>,
    masks: &'a [usize],
    body: Body,
    /// The operands of a product of direct reads of floats.
    product: Option<Vec<usize>>,
    dtype: DType,
    reduction: Option<&'a Reduction>,
    position: Option<Code>,
    write: Place,
    result: DType,
    env: &'a dyn Env,
    numerics: Numerics,
}

impl<'a> Compiled<'a> {
    fn new(
        nest: &'a Nest,
        sources: &'a [Option<Source>],
        result: &'a TensorType,
        extents: &'a [usize],
        at: &'a Surroundings,
    ) -> Result<Compiled<'a>, Fault> {
        let compiler = Compiler::new(nest, at)?;
        let mut reads = Vec::with_capacity(nest.reads.len());
        for read in &nest.reads {
            let source = sources.get(read.operand).and_then(Option::as_ref);
            let source = source.ok_or_else(|| format!("there is no operand {}", read.operand))?;
            reads.push(compiler.read(read, source)?);
        }
        if nest.masks.iter().any(|&mask| mask >= reads.len()) {
            return Err(Fault::Shape("a mask is not read".into()));
        }
        let body = compiler.body(&nest.body, reads.len())?;
        let guard = compiler.condition(&nest.guard)?;
        let position = match &nest.reduction {
            Some(reduction) if reduction.monoid.result != 0 => Some(compiler.code(&nest.position())?),
            _ => None,
        };
        Ok(Compiled {
            product: product(&nest.body, &reads),
            reads,
            guard,
            masks: &nest.masks,
            body,
            rank: nest.rank,
            dtype: nest.dtype,
            reduction: nest.reduction.as_ref(),
            position,
            write: compiler.place(&nest.write, result, extents, Some(nest.rank))?,
            result: result.dtype,
            extents: compiler.extents,
            env: at.env,
            numerics: at.numerics,
        })
    }

    /// Runs over the result's axes from the `depth`-th on.
    fn rows(&self, depth: usize, index: &mut [i64], output: &mut Array) -> Result<(), Fault> {
        if depth < self.rank {
            let extent = self.extents[depth].eval(index, self.env)?;
            for i in 0..extent {
                index[depth] = i;
                self.rows(depth + 1, index, output)?;
            }
            index[depth] = 0;
            return Ok(());
        }
        let value = match self.reduction {
            None => self.evaluate(&self.body, index)?,
            Some(reduction) => self.reduce(reduction, index)?,
        };
        index[self.rank..].fill(0);
        if let Some(position) = self.locate(&self.write, index)? {
            let value = self.numerics.round(self.result, value.carry(self.result));
            if position >= output.len() {
                return Err(Fault::Shape("an element is written outside the result".into()));
            }
            output.set(position, value);
        }
        Ok(())
    }

    fn reduce(&self, reduction: &Reduction, index: &mut [i64]) -> Result<Scalar, Fault> {
        let mut state = [Scalar::Int(0); MAX_COMPONENTS];
        let identity = (reduction.monoid.identity)(self.dtype);
        let components = identity.len().min(MAX_COMPONENTS);
        state[..components].copy_from_slice(&identity[..components]);
        if reduction.monoid.name == "sum"
            && let Some(product) = &self.product
        {
            let mut sum = state[0].as_f64();
            self.sum_products(product, reduction.accumulate, self.rank, index, &mut sum)?;
            return Ok(Scalar::Float(sum));
        }
        self.absorb(reduction, self.rank, index, &mut state)?;
        Ok(state[reduction.monoid.result.min(MAX_COMPONENTS - 1)])
    }

    /// Absorbs the elements over the reduced axes from the `depth`-th on.
    fn absorb(
        &self,
        reduction: &Reduction,
        depth: usize,
        index: &mut [i64],
        state: &mut [Scalar; MAX_COMPONENTS],
    ) -> Result<(), Fault> {
        if depth < self.extents.len() {
            let extent = self.extents[depth].eval(index, self.env)?;
            for i in 0..extent {
                index[depth] = i;
                self.absorb(reduction, depth + 1, index, state)?;
            }
            return Ok(());
        }
        if !self.admits(index)? {
            return Ok(());
        }
        let value = self.evaluate(&self.body, index)?;
        let position = match &self.position {
            Some(code) => code.eval(index, self.env)?,
            None => 0,
        };
        (reduction.monoid.absorb)(state, value, position);
        if reduction.monoid.rounds {
            state[0] = self.numerics.round(reduction.accumulate, state[0]);
        }
        Ok(())
    }

    fn admits(&self, index: &[i64]) -> Result<bool, Fault> {
        if let Some(guard) = &self.guard
            && !guard.eval(index, self.env)?
        {
            return Ok(false);
        }
        for &mask in self.masks {
            if !self.read(mask, index)?.as_bool() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The sum of products of direct reads over the reduced axes from the `depth`-th on, in index order.
    fn sum_products(
        &self,
        factors: &[usize],
        accumulate: DType,
        depth: usize,
        index: &mut [i64],
        sum: &mut f64,
    ) -> Result<(), Fault> {
        let extent = self.extents[depth].eval(index, self.env)?;
        if depth + 1 < self.extents.len() {
            for i in 0..extent {
                index[depth] = i;
                self.sum_products(factors, accumulate, depth + 1, index, sum)?;
            }
            return Ok(());
        }
        index[depth] = 0;
        let mut runs: [Run; MAX_FACTORS] = [(&[], 0, 0); MAX_FACTORS];
        let count = factors.len().min(MAX_FACTORS);
        for (run, &k) in runs.iter_mut().zip(factors) {
            let found = self.reads.get(k).and_then(|read| read.run(index, depth));
            *run = found.ok_or_else(|| "a product of what is no float".to_string())?;
        }
        let rounding = match (self.numerics, accumulate) {
            (Numerics::F64, _) | (_, DType::F64) => None,
            (Numerics::Own, other) => Some(other),
        };
        if self.guard.is_none() && self.masks.is_empty() {
            *sum = sum_run(&runs[..count], extent, rounding, *sum);
            return Ok(());
        }
        for i in 0..extent {
            index[depth] = i;
            if self.admits(index)? {
                let one = runs.map(|(data, start, step)| (data, start + i * step, 0));
                *sum = sum_run(&one[..count], 1, rounding, *sum);
            }
        }
        Ok(())
    }

    fn read(&self, k: usize, index: &[i64]) -> Result<Scalar, Fault> {
        let read = &self.reads[k];
        if let Some(when) = &read.when
            && !when.eval(index, self.env)?
        {
            return Ok(read.zero);
        }
        Ok(match self.locate(&read.place, index)? {
            Some(position) => element(read.data, position).unwrap_or(read.zero),
            None => read.zero,
        })
    }

    fn locate(&self, place: &Place, index: &[i64]) -> Result<Option<usize>, Fault> {
        match place {
            Place::Direct { base, strides } => {
                let offset: i64 = strides.iter().zip(index).map(|(s, i)| s * i).sum();
                Ok(usize::try_from(base + offset).ok())
            }
            Place::Checked { bounds, position } => {
                for (at, extent) in bounds {
                    let at = at.eval(index, self.env)?;
                    if at < 0 || at >= extent.eval(index, self.env)? {
                        return Ok(None);
                    }
                }
                Ok(usize::try_from(position.eval(index, self.env)?).ok())
            }
        }
    }

    fn evaluate(&self, body: &Body, index: &[i64]) -> Result<Scalar, Fault> {
        Ok(match body {
            Body::Read(k) => self.read(*k, index)?,
            Body::Literal(value) => *value,
            Body::Index(code) => Scalar::Int(code.eval(index, self.env)?),
            Body::Holds(code) => Scalar::Bool(code.eval(index, self.env)?),
            Body::Apply { function, arguments, dtype } => {
                let mut values = [Scalar::Int(0); 3];
                for (value, argument) in values.iter_mut().zip(arguments) {
                    *value = self.evaluate(argument, index)?;
                }
                let count = arguments.len().min(3);
                self.numerics.round(*dtype, (function.eval)(&values[..count], *dtype))
            }
        })
    }
}

impl CompiledRead<'_> {
    /// The elements, and the first position and the step along one axis of a direct read of floats.
    fn run(&self, index: &[i64], axis: usize) -> Option<Run<'_>> {
        match (self.data, &self.place) {
            (Data::Float(data), Place::Direct { base, strides }) => {
                let start = strides.iter().zip(index).map(|(s, i)| s * i).sum::<i64>() + base;
                Some((data, start, strides.get(axis).copied().unwrap_or(0)))
            }
            _ => None,
        }
    }
}

fn element(data: &Data, position: usize) -> Option<Scalar> {
    match data {
        Data::Float(v) => v.get(position).copied().map(Scalar::Float),
        Data::Int(v) => v.get(position).copied().map(Scalar::Int),
        Data::Bool(v) => v.get(position).copied().map(Scalar::Bool),
    }
}

/// `sum` plus the products along runs, each product and each sum rounded.
fn sum_run(runs: &[Run], extent: i64, rounding: Option<DType>, sum: f64) -> f64 {
    let round = |x: f64| match rounding {
        None => x,
        Some(DType::F32) => f64::from(x as f32),
        Some(dtype) => dtype.round(Scalar::Float(x)).as_f64(),
    };
    let at = |data: &[f64], position: i64| {
        usize::try_from(position).ok().and_then(|p| data.get(p)).copied().unwrap_or(0.0)
    };
    let mut sum = sum;
    match (runs, rounding) {
        (&[(a, mut pa, sa), (b, mut pb, sb)], None) => {
            for _ in 0..extent {
                sum += at(a, pa) * at(b, pb);
                (pa, pb) = (pa + sa, pb + sb);
            }
        }
        (&[(a, mut pa, sa), (b, mut pb, sb)], Some(DType::F32)) => {
            for _ in 0..extent {
                sum = f64::from((sum + f64::from((at(a, pa) * at(b, pb)) as f32)) as f32);
                (pa, pb) = (pa + sa, pb + sb);
            }
        }
        _ => {
            for i in 0..extent {
                let mut product: Option<f64> = None;
                for &(data, start, step) in runs {
                    let factor = at(data, start + i * step);
                    product = Some(product.map_or(factor, |product| round(product * factor)));
                }
                sum = round(sum + product.unwrap_or(1.0));
            }
        }
    }
    sum
}

/// The reads whose product the body is, if all are direct reads of floats and each product has the nest's type.
fn product(body: &Expr, reads: &[CompiledRead]) -> Option<Vec<usize>> {
    fn factors(body: &Expr, found: &mut Vec<usize>) -> Option<()> {
        match body {
            Expr::Read(k) => found.push(*k),
            Expr::Apply { function, arguments, .. } if function.name == "mul" => match arguments.as_slice() {
                [product, Expr::Read(k)] => {
                    factors(product, found)?;
                    found.push(*k);
                }
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }
    let mut found = Vec::new();
    factors(body, &mut found)?;
    let direct = |&k: &usize| {
        reads.get(k).is_some_and(|read| {
            matches!((read.data, &read.place), (Data::Float(_), Place::Direct { .. })) && read.when.is_none()
        })
    };
    (found.len() <= MAX_FACTORS && found.iter().all(direct)).then_some(found)
}

struct Compiler<'a> {
    nest: &'a Nest,
    at: &'a Surroundings<'a>,
    vars: Vec<Symbol>,
    extents: Vec<Code>,
    /// The extents, where all are constant.
    bounds: Option<Vec<i64>>,
}

impl<'a> Compiler<'a> {
    fn new(nest: &'a Nest, at: &'a Surroundings<'a>) -> Result<Compiler<'a>, Fault> {
        let vars: Vec<Symbol> = nest.axes.iter().map(|axis| axis.name.clone()).collect();
        let extents = nest.axes.iter().map(|axis| Code::dim(&axis.extent, &vars, at.env));
        let extents = extents.collect::<Result<Vec<_>, _>>()?;
        let bounds = extents.iter().map(Code::as_constant).collect();
        Ok(Compiler { nest, at, vars, extents, bounds })
    }

    fn code(&self, dim: &Dim) -> Result<Code, Fault> {
        Ok(Code::dim(dim, &self.vars, self.at.env)?)
    }

    /// The condition, none where it always holds.
    fn condition(&self, cond: &crate::dim::Cond) -> Result<Option<CondCode>, Fault> {
        let code = CondCode::cond(cond, &self.vars, self.at.env)?;
        Ok(if code.as_constant() == Some(true) { None } else { Some(code) })
    }

    fn read(&self, read: &Read, source: &Source<'a>) -> Result<CompiledRead<'a>, Fault> {
        Ok(CompiledRead {
            data: &source.array.data,
            zero: Scalar::zero(source.ty.dtype),
            when: self.condition(&read.when)?,
            place: self.place(&read.index, source.ty, &source.array.extents, None)?,
        })
    }

    fn body(&self, body: &Expr, reads: usize) -> Result<Body, Fault> {
        Ok(match body {
            Expr::Read(k) if *k < reads => Body::Read(*k),
            Expr::Read(_) => return Err(Fault::Shape("the body reads what the nest does not".into())),
            Expr::Literal(value) => Body::Literal(*value),
            Expr::Index(dim) => Body::Index(self.code(dim)?),
            Expr::Holds(cond) => Body::Holds(CondCode::cond(cond, &self.vars, self.at.env)?),
            Expr::Apply { function, arguments, dtype } => {
                if arguments.len() != function.arity {
                    return Err(Fault::Shape(format!(
                        "`{}` takes {} arguments",
                        function.name, function.arity
                    )));
                }
                let arguments = arguments.iter().map(|argument| self.body(argument, reads));
                Body::Apply { function, arguments: arguments.collect::<Result<_, _>>()?, dtype: *dtype }
            }
        })
    }

    /// Where an index along a type's axes lies in an array of these storage extents. The index is over the first
    /// `rank` axes only, if a rank is given.
    fn place(
        &self,
        index: &[Dim],
        ty: &TensorType,
        extents: &[usize],
        rank: Option<usize>,
    ) -> Result<Place, Fault> {
        if index.len() != ty.axes.len() {
            return Err(Fault::Shape(format!(
                "an index of {} parts for {} axes",
                index.len(),
                ty.axes.len()
            )));
        }
        let storage = Storage::with(ty, self.at.facts)?;
        let mut position = Dim::constant(0);
        for (at, &extent) in storage.index(index).into_iter().zip(extents) {
            let extent = i64::try_from(extent).map_err(|_| "an extent is beyond 64 bits".to_string())?;
            position = position * extent + at;
        }
        let position = self.code(&position)?;
        let mut bounds = Vec::new();
        for (at, extent) in index.iter().zip(extents_at(ty, index, self.at.facts)) {
            if !self.same_axis(at, &extent, rank) {
                let (at, extent) = (self.code(at)?, self.code(&extent)?);
                if !self.inside(&at, &extent) {
                    bounds.push((at, extent));
                }
            }
        }
        Ok(match position.as_affine() {
            Some((strides, base)) if bounds.is_empty() => Place::Direct { base, strides: strides.to_vec() },
            _ => Place::Checked { bounds, position },
        })
    }

    /// Whether the index is an axis of the nest and the extent is that axis's.
    fn same_axis(&self, at: &Dim, extent: &Dim, rank: Option<usize>) -> bool {
        let axes = self.nest.axes.get(..rank.unwrap_or(self.nest.axes.len())).unwrap_or_default();
        axes.iter().any(|axis| at.as_symbol() == Some(&axis.name) && axis.extent == *extent)
    }

    /// Whether a linear index stays inside a constant extent for all indices of the nest.
    fn inside(&self, at: &Code, extent: &Code) -> bool {
        let (Some(bounds), Some(extent), Some((strides, base))) =
            (&self.bounds, extent.as_constant(), at.as_affine())
        else {
            return false;
        };
        let (mut least, mut greatest) = (i128::from(base), i128::from(base));
        for (&stride, &bound) in strides.iter().zip(bounds) {
            let far = i128::from(stride) * i128::from(bound - 1).max(0);
            (least, greatest) = (least + far.min(0), greatest + far.max(0));
        }
        least >= 0 && greatest < i128::from(extent)
    }
}
