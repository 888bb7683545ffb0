//! Runs one nest under an interpretation.

use super::evaluate::{Fault, Frame, Machine, Tensor};
use super::interpretation::{Interpretation, Site, Value};
use crate::dim::{Code, Cond, CondCode, Dim, EvalError, Symbol};
use crate::tensor::elementwise::{Algebra, Elementwise};
use crate::tensor::ir::TensorType;
use crate::tensor::nest::{Expr, Nest};
use crate::tensor::storage::{Storage, extents_at};
use crate::tensor::{DType, Scalar};

type Element<I> = Value<<I as Interpretation>::Real, <I as Interpretation>::Truth>;

impl From<EvalError> for Fault {
    fn from(error: EvalError) -> Fault {
        Fault::Size(error.to_string())
    }
}

struct Place {
    bounds: Vec<(Code, Code)>,
    position: Code,
}

struct CompiledRead<'a, I: Interpretation> {
    tensor: &'a Tensor<I>,
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

struct Runner<'a, 'b, I: Interpretation> {
    machine: &'b Machine<'a, I>,
    frame: &'b Frame<'a, I>,
    nest: &'b Nest,
    site: Site,
    extents: Vec<Code>,
    reads: Vec<CompiledRead<'b, I>>,
    guard: Option<CondCode>,
    body: Body,
    position: Code,
    write: Place,
    dtype: DType,
}

/// The result of a nest, of a type with these storage extents.
pub(super) fn run<'a, I: Interpretation>(
    machine: &Machine<'a, I>,
    frame: &Frame<'a, I>,
    nest: &Nest,
    sources: &[Option<(&TensorType, &Tensor<I>)>],
    ty: &TensorType,
    extents: &[usize],
    site: Site,
) -> Result<Tensor<I>, Fault> {
    let source = |k: usize| {
        let source = sources.get(k).copied().flatten();
        source.ok_or_else(|| Fault::Illegal(format!("there is no operand {k}")))
    };
    let count: usize = extents.iter().product();
    machine.spend(count as u64)?;
    let mut output = match nest.overwrites {
        None => vec![unwritten(machine.interpretation, ty.dtype); count],
        Some(k) => source(k)?.1.elements.clone(),
    };
    if output.len() != count {
        return Err(Fault::Size("the overwritten operand differs in shape from the result".into()));
    }
    let vars: Vec<Symbol> = nest.axes.iter().map(|axis| axis.name.clone()).collect();
    let compiler = Compiler { vars: &vars, frame };
    let mut reads = Vec::with_capacity(nest.reads.len());
    for read in &nest.reads {
        let (ty, tensor) = source(read.operand)?;
        reads.push(CompiledRead {
            tensor,
            when: compiler.condition(&read.when)?,
            place: compiler.place(&read.index, ty, &tensor.extents)?,
        });
    }
    if nest.masks.iter().any(|&mask| mask >= reads.len()) {
        return Err(Fault::Illegal("a mask is not read".into()));
    }
    let runner = Runner {
        machine,
        frame,
        nest,
        site,
        extents: nest.axes.iter().map(|axis| compiler.code(&axis.extent)).collect::<Result<_, _>>()?,
        body: compiler.body(&nest.body, reads.len())?,
        reads,
        guard: compiler.condition(&nest.guard)?,
        position: compiler.code(&nest.position())?,
        write: compiler.place(&nest.write, ty, extents)?,
        dtype: ty.dtype,
    };
    runner.rows(0, &mut vec![0; nest.axes.len()], &mut output)?;
    Ok(Tensor { dtype: ty.dtype, extents: extents.to_vec(), elements: output })
}

fn unwritten<I: Interpretation>(interpretation: &I, dtype: DType) -> Element<I> {
    match dtype.int_range() {
        Some((_, greatest)) => Value::Int(greatest),
        None if dtype == DType::Bool => Value::Truth(interpretation.truth(false)),
        None => Value::Real(interpretation.undefined()),
    }
}

impl<I: Interpretation> Runner<'_, '_, I> {
    fn of(&self, scalar: Scalar) -> Element<I> {
        match scalar {
            Scalar::Float(x) => Value::Real(self.machine.interpretation.number(x)),
            Scalar::Int(x) => Value::Int(x),
            Scalar::Bool(x) => Value::Truth(self.machine.interpretation.truth(x)),
        }
    }

    fn rows(&self, depth: usize, index: &mut [i64], output: &mut [Element<I>]) -> Result<(), Fault> {
        if depth < self.nest.rank {
            for i in 0..self.extents[depth].eval(index, self.frame)? {
                index[depth] = i;
                self.rows(depth + 1, index, output)?;
            }
            index[depth] = 0;
            return Ok(());
        }
        let value = match &self.nest.reduction {
            None => self.body(&self.body, index)?,
            Some(_) => self.reduce(index)?,
        };
        index[self.nest.rank..].fill(0);
        if let Some(position) = self.locate(&self.write, index)? {
            let slot = output.get_mut(position);
            let slot = slot.ok_or_else(|| Fault::Illegal("an element is outside the result".into()))?;
            *slot = self.carry(value, self.dtype);
        }
        Ok(())
    }

    /// The value as one of a type.
    fn carry(&self, value: Element<I>, dtype: DType) -> Element<I> {
        let interpretation = self.machine.interpretation;
        match (value, dtype) {
            (Value::Real(x), _) if dtype.is_float() => Value::Real(interpretation.round(x, dtype)),
            (Value::Int(x), _) if dtype.is_float() => {
                Value::Real(interpretation.round(interpretation.integer(x), dtype))
            }
            (Value::Truth(x), _) if dtype.is_float() => Value::Real(interpretation.indicator(x)),
            (Value::Real(x), DType::Bool) => {
                let zero = interpretation.number(0.0);
                Value::Truth(interpretation.compare(self.site, crate::dim::Relation::Ne, &x, &zero))
            }
            (Value::Int(x), DType::Bool) => Value::Truth(interpretation.truth(x != 0)),
            (Value::Real(x), _) => Value::Int(interpretation.to_integer(&x, dtype)),
            (Value::Int(x), _) => Value::Int(dtype.round(Scalar::Int(x)).as_i64()),
            (Value::Truth(x), DType::Bool) => Value::Truth(x),
            (Value::Truth(x), _) => Value::Int(i64::from(interpretation.decide(x))),
        }
    }

    fn reduce(&self, index: &mut [i64]) -> Result<Element<I>, Fault> {
        let reduction = self.nest.reduction.as_ref();
        let reduction = reduction.ok_or_else(|| Fault::Illegal("nothing is reduced".into()))?;
        let mut values = Vec::new();
        let mut positions = Vec::new();
        self.collect(self.nest.rank, index, &mut values, &mut positions)?;
        let (monoid, interpretation) = (reduction.monoid, self.machine.interpretation);
        if self.nest.dtype.is_float() {
            let reals: Vec<I::Real> = values
                .into_iter()
                .filter_map(|x| if let Value::Real(x) = x { Some(x) } else { None })
                .collect();
            if monoid.result == 0 {
                return Ok(Value::Real(interpretation.reduce(monoid.algebra, reals, reduction.accumulate)));
            }
            // The position of the first among the extreme ones, by the order of the interpretation.
            let order = interpretation.order(&reals);
            let mut state = (monoid.identity)(self.nest.dtype);
            for (x, position) in order.into_iter().zip(positions) {
                (monoid.absorb)(&mut state, Scalar::Float(x), position);
            }
            return Ok(self.of(state.get(monoid.result).copied().unwrap_or(Scalar::Int(-1))));
        }
        if self.nest.dtype == DType::Bool {
            let mut none = interpretation.truth(true);
            for value in values {
                let Value::Truth(x) = value else { continue };
                none = interpretation.and(none, interpretation.not(x));
            }
            return Ok(Value::Truth(interpretation.not(none)));
        }
        let mut state = (monoid.identity)(self.nest.dtype);
        for (value, position) in values.into_iter().zip(positions) {
            let Value::Int(x) = value else { continue };
            (monoid.absorb)(&mut state, Scalar::Int(x), position);
            if let Some(first) = state.first_mut().filter(|_| monoid.rounds) {
                *first = reduction.accumulate.round(*first);
            }
        }
        Ok(self.of(state.get(monoid.result).copied().unwrap_or(Scalar::Int(0))))
    }

    /// The values that take part, and where each stands.
    fn collect(
        &self,
        depth: usize,
        index: &mut [i64],
        values: &mut Vec<Element<I>>,
        positions: &mut Vec<i64>,
    ) -> Result<(), Fault> {
        if depth < self.extents.len() {
            for i in 0..self.extents[depth].eval(index, self.frame)? {
                index[depth] = i;
                self.collect(depth + 1, index, values, positions)?;
            }
            return Ok(());
        }
        if let Some(guard) = &self.guard
            && !guard.eval(index, self.frame)?
        {
            return Ok(());
        }
        self.machine.spend(1)?;
        let interpretation = self.machine.interpretation;
        let mut takes_part: Option<I::Truth> = None;
        for &mask in &self.nest.masks {
            let Value::Truth(x) = self.read(mask, index)? else { continue };
            takes_part = Some(takes_part.map_or(x, |so_far| interpretation.and(so_far, x)));
        }
        let value = self.body(&self.body, index)?;
        let value = match (takes_part, value) {
            (None, value) => value,
            (Some(truth), Value::Real(x)) if self.at_first() => {
                Value::Real(interpretation.select(truth, &x, &self.identity()))
            }
            (Some(truth), Value::Truth(x)) => Value::Truth(interpretation.and(truth, x)),
            (Some(truth), value) => {
                if !interpretation.decide(truth) {
                    return Ok(());
                }
                value
            }
        };
        values.push(value);
        positions.push(self.position.eval(index, self.frame)?);
        Ok(())
    }

    /// Whether the result is the state's first component.
    fn at_first(&self) -> bool {
        self.nest.reduction.as_ref().is_some_and(|reduction| reduction.monoid.result == 0)
    }

    /// The identity of the reduction, as a float.
    fn identity(&self) -> I::Real {
        let monoid = self.nest.reduction.as_ref().map(|reduction| reduction.monoid);
        let identity = monoid.and_then(|monoid| (monoid.identity)(self.nest.dtype).first().copied());
        self.machine.interpretation.number(identity.map_or(0.0, Scalar::as_f64))
    }

    fn locate(&self, place: &Place, index: &[i64]) -> Result<Option<usize>, Fault> {
        for (at, extent) in &place.bounds {
            let at = at.eval(index, self.frame)?;
            if at < 0 || at >= extent.eval(index, self.frame)? {
                return Ok(None);
            }
        }
        Ok(usize::try_from(place.position.eval(index, self.frame)?).ok())
    }

    fn read(&self, k: usize, index: &[i64]) -> Result<Element<I>, Fault> {
        let read = &self.reads[k];
        let taken = match &read.when {
            Some(when) => when.eval(index, self.frame)?,
            None => true,
        };
        let position = if taken { self.locate(&read.place, index)? } else { None };
        let element = position.and_then(|position| read.tensor.elements.get(position)).cloned();
        Ok(element.unwrap_or_else(|| self.of(Scalar::zero(read.tensor.dtype))))
    }

    fn body(&self, body: &Body, index: &[i64]) -> Result<Element<I>, Fault> {
        Ok(match body {
            Body::Read(k) => self.read(*k, index)?,
            Body::Literal(value) => self.of(*value),
            Body::Index(code) => Value::Int(code.eval(index, self.frame)?),
            Body::Holds(code) => {
                Value::Truth(self.machine.interpretation.truth(code.eval(index, self.frame)?))
            }
            Body::Apply { function, arguments, dtype } => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.body(argument, index)?);
                }
                self.apply(function, values, *dtype)?
            }
        })
    }

    fn apply(
        &self,
        function: &'static Elementwise,
        arguments: Vec<Element<I>>,
        dtype: DType,
    ) -> Result<Element<I>, Fault> {
        let interpretation = self.machine.interpretation;
        let illegal = || Fault::Illegal(format!("`{}` has arguments of other types", function.name));
        Ok(match (function.algebra, arguments.as_slice()) {
            (Algebra::Cast, [_]) => {
                let value = arguments.into_iter().next().ok_or_else(illegal)?;
                self.carry(value, dtype)
            }
            (Algebra::Select, [Value::Truth(c), a, b]) => match (a, b) {
                (Value::Real(a), Value::Real(b)) => Value::Real(interpretation.select(*c, a, b)),
                (Value::Truth(a), Value::Truth(b)) => {
                    let (yes, no) = (interpretation.and(*c, *a), interpretation.not(*c));
                    let no = interpretation.and(no, *b);
                    let none = interpretation.and(interpretation.not(yes), interpretation.not(no));
                    Value::Truth(interpretation.not(none))
                }
                (a, b) => {
                    let value = if interpretation.decide(*c) { a } else { b };
                    self.carry(value.clone(), dtype)
                }
            },
            (Algebra::And, [Value::Truth(a), Value::Truth(b)]) => Value::Truth(interpretation.and(*a, *b)),
            (Algebra::Or, [Value::Truth(a), Value::Truth(b)]) => {
                let none = interpretation.and(interpretation.not(*a), interpretation.not(*b));
                Value::Truth(interpretation.not(none))
            }
            (Algebra::Not, [Value::Truth(a)]) => Value::Truth(interpretation.not(*a)),
            (Algebra::Compare(relation), [Value::Int(a), Value::Int(b)]) => {
                Value::Truth(interpretation.truth(relation.holds(*a, *b)))
            }
            (Algebra::Compare(relation), [a, b]) => {
                let (Value::Real(a), Value::Real(b)) =
                    (self.carry(a.clone(), DType::F64), self.carry(b.clone(), DType::F64))
                else {
                    return Err(illegal());
                };
                Value::Truth(interpretation.compare(self.site, relation, &a, &b))
            }
            (_, arguments) if arguments.iter().all(|x| matches!(x, Value::Int(_))) => {
                let scalars: Vec<Scalar> = arguments
                    .iter()
                    .map(|x| if let Value::Int(x) = x { Scalar::Int(*x) } else { Scalar::Int(0) })
                    .collect();
                self.of(dtype.round((function.eval)(&scalars, dtype)))
            }
            (_, arguments) => {
                let mut reals = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    match argument {
                        Value::Real(x) => reals.push(x.clone()),
                        Value::Int(x) => reals.push(interpretation.integer(*x)),
                        Value::Truth(_) => return Err(illegal()),
                    }
                }
                Value::Real(interpretation.apply(function, &reals, dtype))
            }
        })
    }
}

struct Compiler<'a, 'b, I: Interpretation> {
    vars: &'b [Symbol],
    frame: &'b Frame<'a, I>,
}

impl<I: Interpretation> Compiler<'_, '_, I> {
    fn code(&self, dim: &Dim) -> Result<Code, Fault> {
        Ok(Code::dim(dim, self.vars, self.frame)?)
    }

    fn condition(&self, cond: &Cond) -> Result<Option<CondCode>, Fault> {
        Ok(if cond.is_true() { None } else { Some(CondCode::cond(cond, self.vars, self.frame)?) })
    }

    /// Where an index along a type's axes lies in a tensor of these storage extents.
    fn place(&self, index: &[Dim], ty: &TensorType, extents: &[usize]) -> Result<Place, Fault> {
        if index.len() != ty.axes.len() {
            return Err(Fault::Illegal("an index has another number of parts than its type has axes".into()));
        }
        let storage = Storage::with(ty, &self.frame.facts).map_err(Fault::Illegal)?;
        let mut position = Dim::constant(0);
        for (at, &extent) in storage.index(index).into_iter().zip(extents) {
            let extent = i64::try_from(extent).map_err(|_| Fault::TooLarge)?;
            position = position * extent + at;
        }
        let mut bounds = Vec::new();
        for (at, extent) in index.iter().zip(extents_at(ty, index, &self.frame.facts)) {
            bounds.push((self.code(at)?, self.code(&extent)?));
        }
        Ok(Place { bounds, position: self.code(&position)? })
    }

    fn body(&self, body: &Expr, reads: usize) -> Result<Body, Fault> {
        Ok(match body {
            Expr::Read(k) if *k < reads => Body::Read(*k),
            Expr::Read(_) => return Err(Fault::Illegal("the body reads what the nest does not".into())),
            Expr::Literal(value) => Body::Literal(*value),
            Expr::Index(dim) => Body::Index(self.code(dim)?),
            Expr::Holds(cond) => Body::Holds(CondCode::cond(cond, self.vars, self.frame)?),
            Expr::Apply { function, arguments, dtype } => {
                let arguments = arguments.iter().map(|argument| self.body(argument, reads));
                Body::Apply { function, arguments: arguments.collect::<Result<_, _>>()?, dtype: *dtype }
            }
        })
    }
}
