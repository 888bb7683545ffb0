//! The trials: both programs under each interpretation, element by element.

use super::evaluate::{Fault, Machine, Shared};
use super::hash::mix_all;
use super::inputs::{self, Data, Planting};
use super::interpretation::{Interpretation, Site, Value};
use super::measure::{Measure, Measured};
use super::scaled::{self, Agreement, Scaled, Worst};
use super::sizes::{self, Sizes};
use super::tower::{Sightings, Tower};
use super::{Contract, Evidence, Law, Options, Refusal, height};
use crate::tensor::Program;
use crate::tensor::eval::Numerics;
use std::cell::Cell;
use std::rc::Rc;

/// How often each comparison must be seen each way.
const SEEN: u64 = 64;

/// By how much a candidate's error bound may exceed the program's.
const BUDGET: f64 = 64.0;

/// The least number of trials at the smallest sizes, two of five with ⊖ planted and one with zeros.
const PLANTED: u32 = 30;

/// The extents of sizes for evaluation in floats.
const FLOAT_SCALES: [i64; 3] = [3, 6, 9];

/// What both programs give.
type Pair<I> = (Vec<Shared<I>>, Vec<Shared<I>>);

struct Comparison<'a> {
    program: &'a Program,
    candidate: &'a Program,
    options: &'a Options,
    evidence: Evidence,
    sightings: Sightings,
}

/// Accepts with evidence, or refuses.
pub(super) fn run(program: &Program, candidate: &Program, options: &Options) -> Result<Evidence, Refusal> {
    let mut comparison = Comparison {
        program,
        candidate,
        options,
        evidence: Evidence::default(),
        sightings: Sightings::new(),
    };
    match options.contract {
        Contract::Fast => comparison.fast()?,
        Contract::Strict => comparison.strict()?,
    }
    Ok(comparison.evidence)
}

fn refusal(law: Law, sizes: &Sizes, data: &str, message: impl Into<String>) -> Refusal {
    Refusal { law, sizes: sizes::text(sizes), data: data.to_string(), message: message.into() }
}

impl Comparison<'_> {
    fn fast(&mut self) -> Result<(), Refusal> {
        let facts = &self.program.facts;
        let height = height(self.program).max(height(self.candidate));
        let twos = sizes::twos(facts);
        let per_trial = self.measure(&twos, height)?;
        let seed = self.options.seed;
        self.trial(&twos, height, Planting::Generic)?;
        for vector in sizes::vectors(facts, self.evidence.degree.min(8) as i64, seed) {
            self.evidence.vectors += u32::from(self.trial(&vector, height, Planting::Generic)?);
            for planting in
                [Planting::Scattered, Planting::Rows, Planting::Zeros, Planting::Scattered, Planting::Rows]
            {
                self.trial(&vector, height, planting)?;
            }
        }
        self.floats(Numerics::F64)?;
        self.floats(Numerics::Own)?;
        // More trials at the smallest sizes, until the bound is reached and comparisons are seen.
        let mut generic = 1;
        for k in 0..self.options.trials {
            let bound = per_trial.map(|per_trial| per_trial * f64::from(generic));
            let reached = bound.is_none_or(|bound| bound <= self.options.bound) && generic >= 4;
            if reached && k >= PLANTED && self.unseen().is_none() {
                break;
            }
            let planting =
                [Planting::Generic, Planting::Scattered, Planting::Generic, Planting::Rows, Planting::Zeros]
                    [k as usize % 5];
            if self.trial(&twos, height, planting)? && planting == Planting::Generic {
                generic += 1;
            }
        }
        self.evidence.vectors += 1;
        if let Some((site, seen)) = self.unseen() {
            let name = self.name(site);
            let message = format!(
                "the comparison {name} was seen true {} times and false {} times, not {SEEN} times each",
                seen.0, seen.1
            );
            return Err(refusal(Law::Evidence, &twos, "", message));
        }
        self.evidence.comparisons = self.sightings.len();
        self.evidence.least_seen = self.sightings.values().map(|seen| seen.0.min(seen.1)).min();
        let unseen: f64 = self.sightings.values().map(|seen| 0.5f64.powf(seen.0.min(seen.1) as f64)).sum();
        self.evidence.bound =
            per_trial.map(|per_trial| (2f64.powf(per_trial * f64::from(generic)) + unseen).log2());
        Ok(())
    }

    /// The comparison that was seen one way too rarely, if there is one.
    fn unseen(&self) -> Option<(Site, (u64, u64))> {
        let rare = self.sightings.iter().find(|(_, seen)| seen.0.min(seen.1) < SEEN);
        rare.map(|(site, seen)| (*site, *seen))
    }

    /// What an operator is called.
    fn name(&self, site: Site) -> String {
        let program = if site.side == 0 { self.program } else { self.candidate };
        let function = program.functions.get(site.function as usize);
        let result = function.and_then(|f| {
            let node = f.nodes.get(site.node as usize)?;
            Some(f.values.get(node.results.first()?.0 as usize)?.name.to_string())
        });
        let side = if site.side == 0 { "program" } else { "candidate" };
        format!("`{}` of the {side}", result.unwrap_or_default())
    }

    /// Both programs on the same parameters; none where the program has no value at these sizes.
    fn both<I: Interpretation>(
        &mut self,
        interpretation: &I,
        sizes: &Sizes,
        data: &str,
        parameters: Result<Vec<Shared<I>>, Fault>,
    ) -> Result<Option<Pair<I>>, Refusal> {
        let machine = |program, side| Machine {
            interpretation,
            program,
            side,
            symbols: sizes,
            budget: Cell::new(self.options.work),
        };
        let parameters = match parameters {
            Ok(parameters) => parameters,
            Err(_) => return Ok(None),
        };
        let ours = match machine(self.program, 0).run(&parameters) {
            Ok(results) => results,
            Err(Fault::Size(_) | Fault::TooLarge) => return Ok(None),
            Err(Fault::Unsupported(what)) => {
                let message = format!("{what} of the program has no meaning in the checker");
                return Err(refusal(Law::Unsupported, sizes, data, message));
            }
            Err(Fault::Illegal(message)) => return Err(refusal(Law::Signature, sizes, data, message)),
        };
        match machine(self.candidate, 1).run(&parameters) {
            Ok(theirs) => Ok(Some((ours, theirs))),
            Err(Fault::TooLarge) => Ok(None),
            Err(Fault::Size(message)) => Err(refusal(Law::Value, sizes, data, message)),
            Err(Fault::Unsupported(what)) => {
                let message = format!("{what} of the candidate has no meaning in the checker");
                Err(refusal(Law::Unsupported, sizes, data, message))
            }
            Err(Fault::Illegal(message)) => Err(refusal(Law::Signature, sizes, data, message)),
        }
    }

    /// The degree and the exponentials of the difference of the results at these sizes; gives the binary logarithm of the
    /// chance that one trial misses it, if there is one.
    fn measure(&mut self, sizes: &Sizes, height: usize) -> Result<Option<f64>, Refusal> {
        let seed = mix_all([self.options.seed, 101]);
        let tower = Tower::new(height, seed);
        let Some(measure) = Measure::new(&tower) else { return Ok(None) };
        let parameters = inputs::residues(self.program, sizes, seed, &tower, Planting::Generic);
        let parameters = parameters.map(|parameters| {
            let variable = |value: &Value<super::tower::Real, super::tower::Truth>| match value {
                Value::Real(x) => Value::Real(measure.variable(x.clone())),
                Value::Int(x) => Value::Int(*x),
                Value::Truth(x) => Value::Truth(*x),
            };
            let tensor = |tensor: &Shared<Tower>| super::evaluate::Tensor {
                dtype: tensor.dtype,
                extents: tensor.extents.clone(),
                elements: tensor.elements.iter().map(variable).collect(),
            };
            parameters.iter().map(|t| Rc::new(tensor(t))).collect::<Vec<Shared<Measure>>>()
        });
        let Some((ours, theirs)) = self.both(&measure, sizes, "measured", parameters)? else {
            return Ok(None);
        };
        let (mut degree, mut exponentials) = (1, Some(1));
        let mut join = |a: &Measured, b: &Measured| {
            let (d, e) = measure.difference(a, b);
            degree = degree.max(d);
            exponentials = exponentials.zip(e).map(|(x, y)| x.max(y));
        };
        for (a, b) in ours.iter().zip(&theirs) {
            for (x, y) in a.elements.iter().zip(&b.elements) {
                if let (Value::Real(x), Value::Real(y)) = (x, y) {
                    join(x, y);
                }
            }
        }
        self.evidence.degree = degree;
        self.evidence.exponentials = exponentials;
        let p = tower.least_prime() as f64;
        Ok(exponentials.and_then(|t| {
            let sparse = if t < 2 { 0.0 } else { 2.0 * p.powf(-1.0 / (t as f64 - 1.0)) };
            let chance = degree as f64 / p + sparse;
            (chance < 1.0).then(|| chance.log2())
        }))
    }

    /// One trial in a fresh tower; whether there was one.
    fn trial(&mut self, sizes: &Sizes, height: usize, planting: Planting) -> Result<bool, Refusal> {
        self.evidence.trials += 1;
        let seed = mix_all([self.options.seed, 103, self.evidence.trials.into()]);
        let tower = Tower::new(height, seed);
        let data = format!("residues, {planting:?}");
        let parameters = inputs::residues(self.program, sizes, seed, &tower, planting);
        let Some((ours, theirs)) = self.both(&tower, sizes, &data, parameters)? else {
            self.evidence.skipped += 1;
            return Ok(false);
        };
        for (site, seen) in tower.sightings() {
            let all = self.sightings.entry(site).or_default();
            *all = (all.0 + seen.0, all.1 + seen.1);
        }
        for (result, (a, b)) in ours.iter().zip(&theirs).enumerate() {
            for (at, (x, y)) in a.elements.iter().zip(&b.elements).enumerate() {
                let (agree, known) = match (x, y) {
                    (Value::Real(x), Value::Real(y)) if planting.is_infinite() => {
                        tower.agree_where_finite(x, y)
                    }
                    (Value::Real(x), Value::Real(y)) => {
                        if tower.differ_in_definition(x, y) {
                            let message =
                                format!("{} is undefined in one and not in the other", place(result, a, at));
                            return Err(refusal(Law::Definition, sizes, &data, message));
                        }
                        tower.agree(x, y)
                    }
                    (Value::Int(x), Value::Int(y)) => (x == y, true),
                    (Value::Truth(x), Value::Truth(y)) => tower.agree_truth(*x, *y),
                    _ => (false, true),
                };
                if !agree {
                    let undefined = matches!((x, y), (Value::Real(x), Value::Real(y)) if tower.differ_in_definition(x, y));
                    return Err(refusal(
                        if undefined { Law::Definition } else { Law::Tower },
                        sizes,
                        &data,
                        format!("{} differs", place(result, a, at)),
                    ));
                }
                if !known {
                    let message = format!(
                        "exponentials of {} are nested too deep for a tower of {height} levels",
                        place(result, a, at)
                    );
                    return Err(refusal(Law::Height, sizes, &data, message));
                }
            }
        }
        Ok(true)
    }

    /// Evaluation in scaled floats on all data.
    fn floats(&mut self, numerics: Numerics) -> Result<(), Refusal> {
        for (round, &scale) in FLOAT_SCALES.iter().enumerate() {
            for data in Data::ALL {
                let seed = mix_all([self.options.seed, 107, round as u64, data as u64]);
                let mut sizes = sizes::original(&self.program.facts, scale, seed);
                let scaled = Scaled::new(numerics);
                let mut parameters = inputs::floats(self.program, &sizes, seed, &scaled, data);
                if parameters.is_err() || !self.fits(&sizes) {
                    sizes = sizes::twos(&self.program.facts);
                    parameters = inputs::floats(self.program, &sizes, seed, &scaled, data);
                }
                let name = format!("{data:?} floats, {numerics:?}");
                let Some((ours, theirs)) = self.both(&scaled, &sizes, &name, parameters)? else { continue };
                if scaled.is_unsure() {
                    self.evidence.unsure +=
                        ours.iter().map(|tensor| tensor.elements.len() as u64).sum::<u64>();
                    continue;
                }
                self.compare_floats(&scaled, numerics, data, &sizes, &name, &ours, &theirs)?;
            }
        }
        if self.evidence.floats == 0 && self.evidence.unsure > 0 {
            return Err(refusal(Law::Evidence, &Sizes::new(), "", "no element is sure in floats"));
        }
        Ok(())
    }

    /// Whether parameters are small enough to be evaluated at these sizes.
    fn fits(&self, sizes: &Sizes) -> bool {
        let main = self.program.main();
        let elements = main.params.iter().map(|param| {
            let extents = super::evaluate::extents(&main.value(param.value).ty, &self.program.facts, sizes);
            extents.map_or(u64::MAX, |extents| extents.iter().fold(1u64, |n, &e| n.saturating_mul(e as u64)))
        });
        elements.fold(0u64, u64::saturating_add) <= self.options.work
    }

    #[allow(clippy::too_many_arguments)]
    fn compare_floats(
        &mut self,
        scaled: &Scaled,
        numerics: Numerics,
        data: Data,
        sizes: &Sizes,
        name: &str,
        ours: &[Shared<Scaled>],
        theirs: &[Shared<Scaled>],
    ) -> Result<(), Refusal> {
        for (result, (a, b)) in ours.iter().zip(theirs).enumerate() {
            let (mut own, mut other) = (Worst::none(), Worst::none());
            for (at, (x, y)) in a.elements.iter().zip(&b.elements).enumerate() {
                let agreement = match (x, y) {
                    (Value::Real(x), Value::Real(y)) => {
                        if scaled::is_plain(*x) && scaled::is_plain(*y) {
                            own.join(*x, a.dtype);
                            other.join(*y, b.dtype);
                        }
                        if numerics == Numerics::Own
                            && data != Data::Planted
                            && scaled::is_meaningful(*x)
                            && scaled::is_unsure(*y)
                        {
                            let message = format!("{} may be anything", place(result, a, at));
                            return Err(refusal(Law::Budget, sizes, name, message));
                        }
                        scaled::agree(*x, *y)
                    }
                    (Value::Int(x), Value::Int(y)) if x == y => Agreement::Agree,
                    (Value::Truth(x), Value::Truth(y)) => {
                        let ((x, x_sure), (y, y_sure)) = (scaled.known(*x), scaled.known(*y));
                        match x == y {
                            true => Agreement::Agree,
                            false if x_sure && y_sure => Agreement::Differ,
                            false => Agreement::Unsure,
                        }
                    }
                    _ => Agreement::Differ,
                };
                let law = match agreement {
                    Agreement::Class if data == Data::Planted && both_special(x, y) => continue,
                    Agreement::Agree => {
                        self.evidence.floats += 1;
                        continue;
                    }
                    Agreement::Unsure => {
                        self.evidence.unsure += 1;
                        continue;
                    }
                    Agreement::Differ => Law::Floats,
                    Agreement::Class => Law::Class,
                };
                let shown = match (x, y) {
                    (Value::Real(x), Value::Real(y)) => {
                        format!(" is {:e} and should be {:e}", y.value(), x.value())
                    }
                    _ => " differs".into(),
                };
                return Err(refusal(law, sizes, name, format!("{}{shown}", place(result, a, at))));
            }
            if numerics == Numerics::Own
                && data != Data::Planted
                && own.is_meaningful()
                && other.exceeds(own, BUDGET)
            {
                let message = format!(
                    "the error of result {result} is bounded by {:.1e}, that of the program by {:.1e}",
                    other.value(),
                    own.value()
                );
                return Err(refusal(Law::Budget, sizes, name, message));
            }
        }
        Ok(())
    }

    /// The same bits in the program's own types.
    fn strict(&mut self) -> Result<(), Refusal> {
        use crate::tensor::eval::{Bindings, eval};
        use crate::tensor::{Array, Data as Elements};
        let scaled = Scaled::new(Numerics::F64);
        let facts = &self.program.facts;
        let mut vectors = sizes::vectors(facts, 2, self.options.seed);
        vectors.insert(0, sizes::twos(facts));
        vectors.retain(|vector| facts.verify_env(vector).is_ok());
        vectors.extend(FLOAT_SCALES.iter().map(|&scale| sizes::original(facts, scale, self.options.seed)));
        for vector in vectors {
            let mut seen = false;
            for data in Data::ALL {
                let seed = mix_all([self.options.seed, 109, data as u64]);
                if !self.fits(&vector) {
                    continue;
                }
                let Ok(parameters) = inputs::floats(self.program, &vector, seed, &scaled, data) else {
                    continue;
                };
                let array = |tensor: &Shared<Scaled>| {
                    let real =
                        |x: &Value<scaled::Number, _>| if let Value::Real(x) = x { x.value() } else { 0.0 };
                    let int = |x: &Value<_, _>| if let Value::Int(x) = x { *x } else { 0 };
                    let truth =
                        |x: &Value<_, scaled::Truth>| matches!(x, Value::Truth(t) if scaled.known(*t).0);
                    let data = match tensor.dtype {
                        t if t.is_float() => Elements::Float(tensor.elements.iter().map(real).collect()),
                        t if t.is_int() => Elements::Int(tensor.elements.iter().map(int).collect()),
                        _ => Elements::Bool(tensor.elements.iter().map(truth).collect()),
                    };
                    Array { dtype: tensor.dtype, extents: tensor.extents.clone(), data }
                };
                let bindings =
                    Bindings { symbols: vector.clone(), arrays: parameters.iter().map(array).collect() };
                let Ok(ours) = eval(self.program, &bindings, Numerics::Own) else { continue };
                let name = format!("{data:?} floats, own types");
                let theirs = eval(self.candidate, &bindings, Numerics::Own);
                let theirs =
                    theirs.map_err(|error| refusal(Law::Value, &vector, &name, error.to_string()))?;
                seen = true;
                for (k, (a, b)) in ours.iter().zip(&theirs).enumerate() {
                    for at in 0..a.len().max(b.len()) {
                        let same = at < a.len() && at < b.len() && {
                            let (x, y) = (a.get(at).as_f64(), b.get(at).as_f64());
                            x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
                        };
                        if !same {
                            let message = format!("result {k}, element {at}, has other bits");
                            return Err(refusal(Law::Bits, &vector, &name, message));
                        }
                        self.evidence.floats += 1;
                    }
                }
            }
            self.evidence.vectors += u32::from(seen);
            self.evidence.skipped += u32::from(!seen);
        }
        Ok(())
    }
}

/// Whether neither is finite.
fn both_special<T>(x: &Value<scaled::Number, T>, y: &Value<scaled::Number, T>) -> bool {
    match (x, y) {
        (Value::Real(x), Value::Real(y)) => !x.value().is_finite() && !y.value().is_finite(),
        _ => false,
    }
}

/// Which element of which result.
fn place<I: Interpretation>(result: usize, tensor: &Shared<I>, at: usize) -> String {
    let mut index = Vec::new();
    let mut rest = at;
    for &extent in tensor.extents.iter().rev() {
        index.push(rest % extent.max(1));
        rest /= extent.max(1);
    }
    index.reverse();
    format!("result {result}, element {index:?},")
}
