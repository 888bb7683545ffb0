//! What a node means: a nest per result, or an opaque function.
//!
//! Labels become the axes of nests. A label that has the name of a size is renamed first, so that a name in an index
//! expression of a nest is one thing only.

use super::dtype::{DType, Scalar};
use super::elementwise::{self, Elementwise, TypeRule};
use super::ir::{Attribute, Axis, Function, Guard, Node, Op, Operand, Program, TensorType, ValueId};
use super::monoid::Monoid;
use super::nest::{Expr, Nest, Read, Reduction};
use super::ops::{Meaning, Operands, Problem, Site, Special};
use super::storage;
use crate::dim::{Cond, Dim, Facts, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// What a node of `function` means. Calls and repeats have no meaning of their own and are a problem, as is a node
/// that its operator does not allow.
pub fn meaning(program: &Program, function: &Function, node: &Node) -> Result<Meaning, Problem> {
    let facts = storage::facts_in(function, &program.facts)?;
    meaning_with(&facts, function, node)
}

/// [`meaning`], with the facts of the function at hand ([`storage::facts_in`]).
pub fn meaning_with(facts: &Facts, function: &Function, node: &Node) -> Result<Meaning, Problem> {
    let context = Context::new(facts, function, node)?;
    match &node.op {
        Op::Elementwise { function } => context.elementwise(function).map(single),
        Op::Reduce { monoid, over, guard, accumulate } => {
            context.reduce(monoid, over, guard, *accumulate).map(single)
        }
        Op::Contract { guard, accumulate } => context.contract(guard, *accumulate).map(single),
        Op::Special { operator, attributes } => context.special(operator, attributes),
        Op::Call { .. } | Op::Repeat { .. } => Err("a call means what its function means".into()),
    }
}

/// The value that a nest's read with this operand index reads: an operand of the node, or a mask of its guard. None
/// for literals and sizes.
pub fn source(node: &Node, operand: usize) -> Option<ValueId> {
    match node.operands.get(operand) {
        Some(Operand::Value { value, .. }) => Some(*value),
        Some(_) => None,
        None => guard_of(node)?.masks.get(operand - node.operands.len()).map(|(value, _)| *value),
    }
}

/// `function(arguments)`, of type `dtype`; a problem if no table row has this name.
pub fn apply(function: &str, arguments: Vec<Expr>, dtype: DType) -> Result<Expr, Problem> {
    let function = elementwise::find(function).ok_or_else(|| format!("there is no function `{function}`"))?;
    Ok(Expr::Apply { function, arguments, dtype })
}

/// A number as an element of type `dtype`: a literal where the type has it, else its rounding.
pub fn literal(value: Scalar, dtype: DType) -> Result<Expr, Problem> {
    let carried = value.carry(dtype);
    let same = dtype.round(carried) == carried || carried.as_f64().is_nan();
    if same { Ok(Expr::Literal(carried)) } else { apply("cast", vec![Expr::Literal(carried)], dtype) }
}

/// An index expression as an element of type `dtype`.
pub fn index(dim: Dim, dtype: DType) -> Result<Expr, Problem> {
    match (dim.as_constant(), dtype) {
        (Some(value), _) if value.unsigned_abs() <= 1 << 53 => literal(Scalar::Int(value), dtype),
        (_, DType::I64) => Ok(Expr::Index(dim)),
        _ => apply("cast", vec![Expr::Index(dim)], dtype),
    }
}

fn single(nest: Nest) -> Meaning {
    Meaning::Nests(vec![nest])
}

fn guard_of(node: &Node) -> Option<&Guard> {
    match &node.op {
        Op::Reduce { guard, .. } | Op::Contract { guard, .. } => Some(guard),
        _ => None,
    }
}

/// A node with its labels renamed so that none is a size.
struct Context<'a> {
    facts: &'a Facts,
    node: &'a Node,
    names: BTreeMap<Symbol, Symbol>,
    operands: Operands,
    masks: Vec<TensorType>,
    results: Vec<TensorType>,
    result_labels: Vec<Symbol>,
}

impl<'a> Context<'a> {
    fn new(facts: &'a Facts, function: &Function, node: &'a Node) -> Result<Context<'a>, Problem> {
        let value =
            |id: &ValueId| function.values.get(id.0 as usize).ok_or_else(|| "a value is missing".to_string());
        let results = node.results.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        let operands = node.operands.iter().filter_map(|operand| match operand {
            Operand::Value { value: id, .. } => value(id).ok(),
            _ => None,
        });
        if let Some(scaled) = operands.chain(results.iter().copied()).find(|v| v.ty.dtype == DType::ScaledF32)
        {
            return Err(format!(
                "`{}` is {}, which is reserved; `cast` it to f32",
                scaled.name, scaled.ty.dtype
            ));
        }
        let special = matches!(node.op, Op::Special { .. });
        let mut labels = Vec::new();
        let mut sizes: BTreeSet<Symbol> = facts.symbols().cloned().collect();
        for operand in &node.operands {
            if let Operand::Value { value: id, labels: own } = operand {
                labels.extend(own.iter().cloned());
                free_symbols(&value(id)?.ty, facts, &mut sizes);
            }
        }
        labels.extend(node.result_labels.iter().cloned());
        for result in &results {
            free_symbols(&result.ty, facts, &mut sizes);
            if special {
                labels.extend(result.ty.labels());
            }
        }
        let names = safe_names(&labels, &sizes);
        let named = |label: &Symbol| names.get(label).cloned().unwrap_or_else(|| label.clone());
        let mut operands = Operands { names: Vec::new(), types: Vec::new() };
        for operand in &node.operands {
            let (name, ty) = match operand {
                Operand::Value { value: id, labels } => {
                    let value = value(id)?;
                    let labels: Vec<Symbol> = labels.iter().map(named).collect();
                    (Some(value.name.clone()), storage::relabel(&value.ty, &labels, facts)?)
                }
                _ => {
                    let mut of = Operands::of(function, std::slice::from_ref(operand), facts)?;
                    (None, of.types.pop().ok_or("an operand has no type")?)
                }
            };
            operands.names.push(name);
            operands.types.push(ty);
        }
        let mut masks = Vec::new();
        for (id, labels) in guard_of(node).map(|guard| guard.masks.as_slice()).unwrap_or_default() {
            let labels: Vec<Symbol> = labels.iter().map(named).collect();
            masks.push(storage::relabel(&value(id)?.ty, &labels, facts)?);
        }
        let mut result_types = Vec::new();
        for result in &results {
            let labels = if special { result.ty.labels() } else { node.result_labels.clone() };
            let labels: Vec<Symbol> = labels.iter().map(named).collect();
            result_types.push(storage::relabel(&result.ty, &labels, facts)?);
        }
        let result_labels = node.result_labels.iter().map(named).collect();
        Ok(Context { facts, node, names, operands, masks, results: result_types, result_labels })
    }

    fn result(&self) -> Result<&TensorType, Problem> {
        self.results.first().ok_or_else(|| "the operator has no result".to_string())
    }

    /// Labels in an expression by their new names; a symbol that is a size stays.
    fn rename(&self, symbol: &Symbol) -> Option<Dim> {
        if self.facts.range(symbol).is_some() {
            return None;
        }
        self.names.get(symbol).map(|name| Dim::symbol(name.clone()))
    }

    /// The operand as an expression; a value becomes a read under its labels.
    fn operand(&self, k: usize, dtype: DType, reads: &mut Vec<Read>) -> Result<Expr, Problem> {
        match self.node.operands.get(k) {
            Some(Operand::Value { .. }) => {
                reads.push(read(k, &self.operands.types[k]));
                Ok(Expr::Read(reads.len() - 1))
            }
            Some(Operand::Literal(value)) => literal(*value, dtype),
            Some(Operand::Dim(dim)) => index(dim.substitute(&|s| self.rename(s)), dtype),
            None => Err("an operand is missing".into()),
        }
    }

    fn elementwise(&self, function: &'static Elementwise) -> Result<Nest, Problem> {
        if self.node.operands.len() != function.arity {
            return Err(format!("`{}` takes {} operands", function.name, function.arity));
        }
        let result = self.result()?;
        let mut values = self.node.operands.iter().zip(&self.operands.types);
        let first_value = values.find(|(operand, _)| matches!(operand, Operand::Value { .. }));
        let mut reads = Vec::new();
        let mut arguments = Vec::new();
        for (k, ty) in self.operands.types.iter().enumerate() {
            let dtype = match function.types {
                TypeRule::Compare => first_value.map_or(ty.dtype, |(_, ty)| ty.dtype),
                TypeRule::Select if k == 0 => DType::Bool,
                TypeRule::To => ty.dtype,
                _ => result.dtype,
            };
            arguments.push(self.operand(k, dtype, &mut reads)?);
        }
        self.check_labels(&self.result_labels)?;
        Ok(Nest {
            axes: result.axes.clone(),
            rank: result.axes.len(),
            reads,
            guard: Cond::True,
            masks: Vec::new(),
            body: Expr::Apply { function, arguments, dtype: result.dtype },
            dtype: result.dtype,
            reduction: None,
            write: identity(&result.axes),
            overwrites: None,
        })
    }

    fn reduce(
        &self,
        monoid: &'static Monoid,
        over: &[Symbol],
        guard: &Guard,
        accumulate: DType,
    ) -> Result<Nest, Problem> {
        let [operand] = self.operands.types.as_slice() else {
            return Err(format!("`{}` takes one operand", monoid.name));
        };
        let over: BTreeSet<Symbol> = over.iter().map(|l| self.names.get(l).unwrap_or(l).clone()).collect();
        let reduced: Vec<Axis> =
            operand.axes.iter().filter(|axis| over.contains(&axis.name)).cloned().collect();
        let mut reads = Vec::new();
        let element = self.operand(0, operand.dtype, &mut reads)?;
        let dtype = operand.dtype;
        if !reduced.is_empty() {
            return self.summed(reads, element, dtype, Reduction { monoid, accumulate }, reduced, guard);
        }
        let result = self.result()?.dtype;
        let value = if monoid.result == 0 { element } else { Expr::Literal(Scalar::Int(0)) };
        let identity = (monoid.identity)(dtype).get(monoid.result).copied().unwrap_or(Scalar::zero(result));
        self.plain(reads, value, identity, guard)
    }

    fn contract(&self, guard: &Guard, accumulate: DType) -> Result<Nest, Problem> {
        let mut reads = Vec::new();
        let mut product: Option<Expr> = None;
        for (k, ty) in self.operands.types.iter().enumerate() {
            let factor = self.operand(k, accumulate, &mut reads)?;
            product = Some(match product {
                Some(product) => apply("mul", vec![product, factor], accumulate)?,
                None if self.operands.types.len() == 1 && ty.dtype != accumulate => {
                    apply("cast", vec![factor], accumulate)?
                }
                None => factor,
            });
        }
        let product = product.ok_or("`contract` takes one to three operands")?;
        let mut reduced: Vec<Axis> = Vec::new();
        for axis in self.operands.types.iter().flat_map(|ty| &ty.axes) {
            if !self.result_labels.contains(&axis.name)
                && !reduced.iter().any(|known| known.name == axis.name)
            {
                reduced.push(axis.clone());
            }
        }
        if !reduced.is_empty() {
            let monoid = super::monoid::find("sum").ok_or("there is no sum")?;
            return self.summed(reads, product, accumulate, Reduction { monoid, accumulate }, reduced, guard);
        }
        let dtype = self.result()?.dtype;
        let value = if dtype == accumulate { product } else { apply("cast", vec![product], dtype)? };
        self.plain(reads, value, Scalar::zero(dtype), guard)
    }

    /// A nest that reduces.
    fn summed(
        &self,
        mut reads: Vec<Read>,
        body: Expr,
        dtype: DType,
        reduction: Reduction,
        reduced: Vec<Axis>,
        guard: &Guard,
    ) -> Result<Nest, Problem> {
        let result = self.result()?;
        let masks = self.masks(&mut reads);
        let axes: Vec<Axis> = result.axes.iter().chain(&reduced).cloned().collect();
        let labels: Vec<Symbol> = axes.iter().map(|axis| axis.name.clone()).collect();
        self.check_labels(&labels)?;
        Ok(Nest {
            axes,
            rank: result.axes.len(),
            reads,
            guard: guard.condition.substitute(&|s| self.rename(s)),
            masks,
            body,
            dtype,
            reduction: Some(reduction),
            write: identity(&result.axes),
            overwrites: None,
        })
    }

    /// A nest in which nothing is reduced: `value` where the guard holds, else `identity`.
    fn plain(
        &self,
        mut reads: Vec<Read>,
        value: Expr,
        identity: Scalar,
        guard: &Guard,
    ) -> Result<Nest, Problem> {
        let result = self.result()?;
        self.check_labels(&self.result_labels)?;
        let mut body = value;
        if !guard.is_always() {
            let mut admitted = Expr::Holds(guard.condition.substitute(&|s| self.rename(s)));
            for mask in self.masks(&mut reads) {
                admitted = apply("and", vec![admitted, Expr::Read(mask)], DType::Bool)?;
            }
            body = apply("select", vec![admitted, body, literal(identity, result.dtype)?], result.dtype)?;
        }
        Ok(Nest {
            axes: result.axes.clone(),
            rank: result.axes.len(),
            reads,
            guard: Cond::True,
            masks: Vec::new(),
            body,
            dtype: result.dtype,
            reduction: None,
            write: self::identity(&result.axes),
            overwrites: None,
        })
    }

    /// Adds the reads of the guard's masks and gives their positions.
    fn masks(&self, reads: &mut Vec<Read>) -> Vec<usize> {
        let first = reads.len();
        let operands = self.node.operands.len();
        reads.extend(self.masks.iter().enumerate().map(|(k, ty)| read(operands + k, ty)));
        (first..reads.len()).collect()
    }

    /// Every label that is read is an axis of the nest, and has its extent.
    fn check_labels(&self, labels: &[Symbol]) -> Result<(), Problem> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = labels.iter().find(|label| !seen.insert(*label)) {
            return Err(format!("the label `{twice}` stands for two axes"));
        }
        let read = self.operands.types.iter().chain(&self.masks).flat_map(|ty| &ty.axes);
        match read.map(|axis| &axis.name).find(|label| !labels.contains(label)) {
            Some(label) => Err(format!("the label `{label}` is no axis of the result")),
            None => Ok(()),
        }
    }

    fn special(&self, operator: &'static Special, attributes: &[Attribute]) -> Result<Meaning, Problem> {
        let attributes: Vec<Attribute> = attributes
            .iter()
            .map(|attribute| match attribute {
                Attribute::Labels(labels) => {
                    Attribute::Labels(labels.iter().map(|l| self.names.get(l).unwrap_or(l).clone()).collect())
                }
                Attribute::Dim(dim) => Attribute::Dim(dim.substitute(&|s| self.rename(s))),
                other => other.clone(),
            })
            .collect();
        let site: Site = self.operands.site(&self.node.operands, &attributes, self.facts);
        let stated: Vec<Vec<Axis>> = self.results.iter().map(|ty| ty.axes.clone()).collect();
        if (operator.infer)(&site, Some(&stated))? != self.results {
            return Err(format!("`{}` gives other types than stated", operator.name));
        }
        (operator.meaning)(&site, &self.results)
    }
}

/// A read under a type's own axis names.
fn read(operand: usize, ty: &TensorType) -> Read {
    Read { operand, index: identity(&ty.axes), when: Cond::True }
}

/// The axes' names as an index.
pub fn identity(axes: &[Axis]) -> Vec<Dim> {
    axes.iter().map(|axis| Dim::symbol(axis.name.clone())).collect()
}

/// Adds the symbols in a type's extents that are no axes of the type.
fn free_symbols(ty: &TensorType, facts: &Facts, found: &mut BTreeSet<Symbol>) {
    for (k, axis) in ty.axes.iter().enumerate() {
        let earlier = storage::depends_on(ty, k, facts);
        let is_axis = |symbol: &Symbol| earlier.iter().any(|&i| ty.axes[i].name == *symbol);
        found.extend(axis.extent.symbols().into_iter().filter(|symbol| !is_axis(symbol)));
    }
}

/// A name for each label, different ones for different labels, none of them a size: the label itself where it may be,
/// else its lower case, else that with `_` behind.
fn safe_names(labels: &[Symbol], sizes: &BTreeSet<Symbol>) -> BTreeMap<Symbol, Symbol> {
    let distinct: BTreeSet<&Symbol> = labels.iter().collect();
    let mut names: BTreeMap<Symbol, Symbol> = BTreeMap::new();
    let mut taken: BTreeSet<Symbol> = sizes.clone();
    for label in distinct.iter().filter(|label| !sizes.contains(**label)) {
        names.insert((*label).clone(), (*label).clone());
        taken.insert((*label).clone());
    }
    for label in distinct.iter().filter(|label| sizes.contains(**label)) {
        let mut name = label.as_str().to_lowercase();
        while !taken.insert(Symbol::new(&name)) {
            name.push('_');
        }
        names.insert((*label).clone(), Symbol::new(&name));
    }
    names
}
