//! One nest: parallel maps over its result, sequential maps over what it reduces, items inside.
//!
//! ```text
//! map per result axis, parallel { loads; map per reduced axis, sequential, carry state { loads; computes; reduce };
//!   cast; store }
//! ```
//!
//! An axis that is never longer than its block has no map. A node stands at the depth of the innermost
//! sequential map whose coordinate it depends on. An axis on which the extent of another depends has blocks of size 1,
//! so that the other's range is an expression of the coordinates alone; the number of blocks of a result axis is
//! taken from a bound of its extent that is free of coordinates, and ranges clip to the extent itself.

use super::{Lowering, id};
use crate::block::ir::{
    Argument, Carry, Compute, Contract, Guard, ItemType, Load, Map, Node, Order, Range, Reduce, Store,
    ValueId, ValueType,
};
use crate::dim::{Dim, Symbol};
use crate::error::Error;
use crate::journal::{Journal, Kind};
use crate::schedule::{NearItem, NestAxis, NestKind};
use crate::tensor::elementwise::TypeRule;
use crate::tensor::nest::{Expr, Nest};
use crate::tensor::{
    self, DType, Elementwise, Monoid, Op, TensorType, elementwise, meaning, monoid, storage,
};
use std::collections::BTreeSet;

/// An axis with its blocks.
struct Axis {
    range: Range,
    /// The map over the blocks, and how many there are; none where one block is all.
    map: Option<(Symbol, Dim)>,
    /// The depth of the sequential map, from 1; 0 outside all of them.
    depth: usize,
}

/// An expression of a nest, lowered.
struct Term {
    argument: Argument,
    dtype: Option<DType>,
    axes: BTreeSet<usize>,
}

/// A nest being lowered: the nodes so far, by depth.
struct Body<'l, 'a> {
    lowering: &'l mut Lowering<'a>,
    node: &'l tensor::Node,
    nest: &'l Nest,
    axes: Vec<Axis>,
    levels: Vec<Vec<Node>>,
    loads: Vec<Option<ValueId>>,
    hint: String,
}

impl Lowering<'_> {
    /// The map that defines `result` by a nest of `node`.
    pub(super) fn nest(
        &mut self,
        node: &tensor::Node,
        nest: &Nest,
        result: ValueId,
        journal: &mut Journal,
    ) -> Result<Node, Error> {
        let axes = self.axes(node, nest)?;
        let hint = self.name(result);
        let sizes: Vec<String> =
            axes.iter().map(|axis| format!("{} {}", axis.range.label, axis.range.size)).collect();
        let sizes = if sizes.is_empty() {
            "one element".to_string()
        } else {
            format!("blocks of {}", sizes.join(", "))
        };
        journal.record("block", Kind::Chose, format!("{}: {hint}", self.source.name), sizes);
        let depth = axes.iter().map(|axis| axis.depth).max().unwrap_or(0);
        let mut body = Body {
            node,
            nest,
            axes,
            levels: (0..=depth).map(|_| Vec::new()).collect(),
            loads: vec![None; nest.reads.len()],
            hint,
            lowering: self,
        };
        let item = match &nest.reduction {
            Some(reduction) => body.reduce(reduction.monoid, reduction.accumulate)?,
            None => {
                let term = body.term(&nest.body)?;
                body.item(term, nest.dtype, nest.rank)?
            }
        };
        body.finish(item, result)
    }

    /// The blocks of every axis.
    fn axes(&self, node: &tensor::Node, nest: &Nest) -> Result<Vec<Axis>, Error> {
        let ty = TensorType { dtype: nest.dtype, axes: nest.axes.clone() };
        let kind = match (&nest.reduction, &node.op) {
            (None, _) => NestKind::Elementwise,
            (Some(_), Op::Contract { .. }) if node.operands.len() > 1 => {
                NestKind::Contraction { factors: node.operands.len() }
            }
            (Some(_), _) => NestKind::Reduction,
        };
        let depends: Vec<Vec<usize>> =
            (0..nest.axes.len()).map(|k| storage::depends_on(&ty, k, &self.facts)).collect();
        let limit = |k: usize| self.facts.interval(&storage::bound(&ty, k, &self.facts)?).hi;
        let mentions = |read: &tensor::Read, name: &Symbol| {
            read.when.mentions(name) || read.index.iter().any(|dim| dim.mentions(name))
        };
        let uses: Vec<NestAxis> = (0..nest.axes.len())
            .map(|k| {
                let reads = nest.reads.iter().filter(|read| mentions(read, &nest.axes[k].name));
                NestAxis {
                    limit: limit(k),
                    reduced: k >= nest.rank,
                    pinned: depends.iter().any(|earlier| earlier.contains(&k)),
                    factors: reads.map(|read| read.operand).filter(|k| *k < node.operands.len()).collect(),
                }
            })
            .collect();
        let blocks = self.schedule.blocks(kind, &uses, &self.near_items(node, nest));
        let mut taken: BTreeSet<Symbol> = self.symbols.clone();
        taken.extend(nest.axes.iter().map(|axis| axis.name.clone()));
        let mut axes: Vec<Axis> = Vec::with_capacity(nest.axes.len());
        let mut depth = 0;
        for (k, (axis, size)) in nest.axes.iter().zip(blocks).enumerate() {
            let end = axis.extent.substitute(&|symbol| {
                let earlier = depends[k].iter().find(|&&i| nest.axes[i].name == *symbol)?;
                axes.get(*earlier).map(|axis| axis.range.start.clone())
            });
            let is_one_block = if uses[k].pinned {
                // Were there no index, the extents that depend on it would have no value.
                self.facts.resolve(&axis.extent).is_one()
            } else {
                limit(k).is_some_and(|limit| limit <= size)
            };
            if is_one_block {
                let range = Range { label: axis.name.clone(), start: Dim::constant(0), size, end };
                axes.push(Axis { range, map: None, depth: 0 });
                continue;
            }
            let bound = if k < nest.rank { storage::bound(&ty, k, &self.facts) } else { Some(end.clone()) };
            let bound = bound.ok_or_else(|| Error::Program {
                place: self.place(node),
                message: format!(
                    "the extent `{}` of `{}` has no bound that is free of indices",
                    axis.extent, axis.name
                ),
            })?;
            let mut coordinate = Symbol::new(&format!("{}_block", axis.name));
            while !taken.insert(coordinate.clone()) {
                coordinate = Symbol::new(&format!("{coordinate}_"));
            }
            let start = Dim::symbol(coordinate.clone()) * size;
            depth += usize::from(k >= nest.rank);
            axes.push(Axis {
                range: Range { label: axis.name.clone(), start, size, end },
                map: Some((coordinate, bound.ceil_div(size))),
                depth: if k < nest.rank { 0 } else { depth },
            });
        }
        Ok(axes)
    }

    /// What is near at the same time, at most.
    fn near_items(&self, node: &tensor::Node, nest: &Nest) -> Vec<NearItem> {
        fn applied(expr: &Expr, all: &[usize], items: &mut Vec<NearItem>) {
            if let Expr::Apply { arguments, dtype, .. } = expr {
                arguments.iter().for_each(|argument| applied(argument, all, items));
                items.push(NearItem { axes: all.to_vec(), bytes: dtype.bytes() as u64 });
            }
        }
        let all: Vec<usize> = (0..nest.axes.len()).collect();
        let mut items = Vec::new();
        for read in &nest.reads {
            let source = meaning::source(node, read.operand).and_then(|value| self.tensor_type(id(value)));
            let bytes = source.map_or(8, |ty| ty.dtype.bytes()) as u64;
            let has = |k: &usize| {
                let name = &nest.axes[*k].name;
                read.when.mentions(name) || read.index.iter().any(|dim| dim.mentions(name))
            };
            items.push(NearItem { axes: all.iter().copied().filter(has).collect(), bytes });
        }
        if !matches!((&nest.reduction, &node.op), (Some(_), Op::Contract { .. })) {
            applied(&nest.body, &all, &mut items);
        }
        if let Some(reduction) = &nest.reduction {
            for dtype in (reduction.monoid.state)(nest.dtype, reduction.accumulate) {
                let kept = all.iter().copied().filter(|k| *k < nest.rank).collect();
                items.push(NearItem { axes: kept, bytes: dtype.bytes() as u64 });
            }
        }
        items
    }
}

impl Body<'_, '_> {
    fn problem(&self, message: impl Into<String>) -> Error {
        Error::Program { place: self.lowering.place(self.node), message: message.into() }
    }

    fn push(&mut self, depth: usize, node: Node) {
        if let Some(level) = self.levels.get_mut(depth) {
            level.push(node);
        }
    }

    fn new_item(&mut self, hint: &str, dtype: DType, axes: impl IntoIterator<Item = usize>) -> ValueId {
        let ranges =
            axes.into_iter().filter_map(|k| self.axes.get(k)).map(|axis| axis.range.clone()).collect();
        self.lowering.add(hint, ValueType::Item(ItemType { dtype, ranges }))
    }

    fn depth_of(&self, axes: &BTreeSet<usize>) -> usize {
        axes.iter().filter_map(|k| self.axes.get(*k)).map(|axis| axis.depth).max().unwrap_or(0)
    }

    /// The axes whose labels an expression mentions.
    fn mentioned(&self, mentions: impl Fn(&Symbol) -> bool) -> BTreeSet<usize> {
        (0..self.axes.len()).filter(|k| mentions(&self.axes[*k].range.label)).collect()
    }

    /// The item that a read brings near, loaded once.
    fn load(&mut self, k: usize) -> Result<Term, Error> {
        let read = self.nest.reads.get(k).ok_or_else(|| self.problem("an operand is missing"))?;
        let source = meaning::source(self.node, read.operand)
            .map(id)
            .ok_or_else(|| self.problem("a number is read like a tensor"))?;
        let dtype = self.lowering.tensor_type(source).map(|ty| ty.dtype);
        let dtype = dtype.ok_or_else(|| self.problem("an operand is no tensor"))?;
        let axes = self
            .mentioned(|label| read.when.mentions(label) || read.index.iter().any(|dim| dim.mentions(label)));
        let depth = self.depth_of(&axes);
        let item = match self.loads.get(k).copied().flatten() {
            Some(item) => item,
            None => {
                let hint = format!("{}_block", self.lowering.name(source));
                let result = self.new_item(&hint, dtype, axes.iter().copied());
                let load = Load { source, index: read.index.clone(), when: read.when.clone(), result };
                self.push(depth, Node::Load(load));
                if let Some(slot) = self.loads.get_mut(k) {
                    *slot = Some(result);
                }
                result
            }
        };
        Ok(Term { argument: Argument::Item(item), dtype: Some(dtype), axes })
    }

    fn term(&mut self, expr: &Expr) -> Result<Term, Error> {
        match expr {
            Expr::Read(k) => self.load(*k),
            Expr::Literal(value) => {
                let argument = Argument::Literal(*value);
                Ok(Term { argument, dtype: None, axes: BTreeSet::new() })
            }
            Expr::Index(dim) => {
                let axes = self.mentioned(|label| dim.mentions(label));
                Ok(Term { argument: Argument::Index(dim.clone()), dtype: None, axes })
            }
            Expr::Holds(cond) => {
                let axes = self.mentioned(|label| cond.mentions(label));
                Ok(Term { argument: Argument::Holds(cond.clone()), dtype: None, axes })
            }
            Expr::Apply { function, arguments, dtype } => {
                let terms =
                    arguments.iter().map(|argument| self.term(argument)).collect::<Result<Vec<_>, _>>()?;
                Ok(self.compute(function, terms, *dtype, &BTreeSet::new()))
            }
        }
    }

    /// `function(terms)`, an item with the axes of the terms and those of `more`.
    fn compute(
        &mut self,
        function: &'static Elementwise,
        terms: Vec<Term>,
        dtype: DType,
        more: &BTreeSet<usize>,
    ) -> Term {
        let arithmetic = matches!(function.types, TypeRule::Float | TypeRule::Int | TypeRule::Number);
        let widened = terms.into_iter().map(|term| match term.dtype {
            Some(own) if arithmetic && widens(own, dtype) => self.widened(term, dtype),
            _ => term,
        });
        let terms: Vec<Term> = widened.collect();
        let mut axes = more.clone();
        terms.iter().for_each(|term| axes.extend(&term.axes));
        let depth = self.depth_of(&axes);
        let hint = format!("{}_block", self.hint);
        let result = self.new_item(&hint, dtype, axes.iter().copied());
        let arguments = terms.into_iter().map(|term| term.argument).collect();
        self.push(depth, Node::Compute(Compute { function, arguments, result }));
        Term { argument: Argument::Item(result), dtype: Some(dtype), axes }
    }

    /// A term in a wider type.
    fn widened(&mut self, term: Term, dtype: DType) -> Term {
        match elementwise::find("cast") {
            Some(cast) => self.compute(cast, vec![term], dtype, &BTreeSet::new()),
            None => term,
        }
    }

    /// A term as an item of type `dtype` along the first `count` axes.
    fn item(&mut self, term: Term, dtype: DType, count: usize) -> Result<ValueId, Error> {
        let wanted: BTreeSet<usize> = (0..count).collect();
        match term {
            Term { argument: Argument::Item(item), dtype: Some(own), axes, .. }
                if own == dtype && axes == wanted =>
            {
                Ok(item)
            }
            term => {
                let cast = elementwise::find("cast").ok_or_else(|| self.problem("there is no `cast`"))?;
                match self.compute(cast, vec![term], dtype, &wanted).argument {
                    Argument::Item(item) => Ok(item),
                    _ => Err(self.problem("a value without a place")),
                }
            }
        }
    }

    /// The factors of the product that the nest sums, where each is a read.
    fn factors(&self) -> Option<Vec<usize>> {
        fn product(expr: &Expr, accumulate: DType, factors: &mut Vec<usize>) -> bool {
            match expr {
                Expr::Read(k) => {
                    factors.push(*k);
                    true
                }
                Expr::Apply { function, arguments, dtype }
                    if function.name == "mul" && *dtype == accumulate =>
                {
                    matches!(arguments.as_slice(), [rest, Expr::Read(last)]
                        if product(rest, accumulate, factors) && { factors.push(*last); true })
                }
                _ => false,
            }
        }
        let reduction = self.nest.reduction.as_ref()?;
        let is_sum = monoid::find("sum") == Some(reduction.monoid) && self.nest.dtype == reduction.accumulate;
        if !is_sum || !matches!(self.node.op, Op::Contract { .. }) {
            return None;
        }
        let mut factors = Vec::new();
        let found = product(&self.nest.body, reduction.accumulate, &mut factors);
        // Several reduced labels larger than 1 keep their order only if one factor has them all first.
        let wide = self.axes.iter().skip(self.nest.rank).filter(|axis| axis.range.size > 1).count();
        (found && wide <= 1 && (2..=3).contains(&factors.len())).then_some(factors)
    }

    /// Reduces; gives the item that is the result, in the type of the state.
    fn reduce(&mut self, monoid: &'static Monoid, accumulate: DType) -> Result<ValueId, Error> {
        let deepest = self.levels.len() - 1;
        let nest = self.nest;
        let rank = nest.rank;
        let types = (monoid.state)(nest.dtype, accumulate);
        let guard = self.guard()?;
        let hint = format!("{}_{}", self.hint, monoid.name);
        let state = |body: &mut Self, hint: &str| -> Vec<ValueId> {
            types.iter().map(|dtype| body.new_item(hint, *dtype, 0..rank)).collect()
        };
        let starts: Vec<Vec<ValueId>> = (0..deepest).map(|_| state(self, &hint)).collect();
        let into = starts.last().cloned().unwrap_or_default();
        let mut results = state(self, &format!("{hint}_next"));
        let node = match self.factors() {
            Some(factors) => {
                let mut arguments = Vec::new();
                for factor in factors {
                    match self.load(factor)?.argument {
                        Argument::Item(item) => arguments.push(item),
                        _ => return Err(self.problem("a factor without a place")),
                    }
                }
                let into = into.first().copied();
                let result = results.first().copied().ok_or_else(|| self.problem("a sum without a state"))?;
                Node::Contract(Contract { arguments, guard, into, result })
            }
            None => {
                let term = self.term(&nest.body)?;
                let argument = self.item(term, nest.dtype, self.axes.len())?;
                let position = if monoid.result == 0 { Dim::constant(0) } else { nest.position() };
                Node::Reduce(Reduce { monoid, argument, position, guard, into, results: results.clone() })
            }
        };
        self.push(deepest, node);
        for depth in (1..=deepest).rev() {
            let found = self.axes.iter().find(|axis| axis.depth == depth).and_then(|axis| axis.map.clone());
            let (coordinate, extent) = found.ok_or_else(|| self.problem("a reduced axis without a map"))?;
            let from = if depth >= 2 { starts[depth - 2].clone() } else { Vec::new() };
            let result = state(self, &format!("{hint}_all"));
            let carry = Carry {
                monoid,
                dtype: nest.dtype,
                from,
                state: starts[depth - 1].clone(),
                next: std::mem::replace(&mut results, result.clone()),
                result,
            };
            let body = self.levels.pop().unwrap_or_default();
            let order = Order::Sequential;
            let map = Map { coordinate, extent, order, carries: vec![carry], body, defines: Vec::new() };
            self.push(depth - 1, Node::Map(map));
        }
        results.get(monoid.result).copied().ok_or_else(|| self.problem("a state without its result"))
    }

    fn guard(&mut self) -> Result<Guard, Error> {
        let mut masks = Vec::new();
        for read in self.nest.masks.clone() {
            match self.load(read)?.argument {
                Argument::Item(item) => masks.push(item),
                _ => return Err(self.problem("a mask without a place")),
            }
        }
        Ok(Guard { condition: self.nest.guard.clone(), masks })
    }

    /// Casts, stores, and wraps everything in the parallel maps.
    fn finish(mut self, item: ValueId, result: ValueId) -> Result<Node, Error> {
        let ty = self.lowering.tensor_type(result).cloned();
        let ty = ty.ok_or_else(|| self.problem("a result that is no tensor"))?;
        let own = match self.lowering.values.get(item.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Item(ty)) => ty.dtype,
            _ => return Err(self.problem("a value without a place")),
        };
        let kept: BTreeSet<usize> = (0..self.nest.rank).collect();
        let term = Term { argument: Argument::Item(item), dtype: Some(own), axes: kept };
        let item = self.item(term, ty.dtype, self.nest.rank)?;
        self.push(0, Node::Store(Store { item, target: result, index: self.nest.write.clone() }));
        let mut body = self.levels.into_iter().next().unwrap_or_default();
        let mut maps: Vec<(Symbol, Dim)> =
            self.axes.into_iter().take(self.nest.rank).filter_map(|axis| axis.map).collect();
        if maps.is_empty() {
            let mut once = Symbol::new("once");
            while self.lowering.symbols.contains(&once) || self.nest.axes.iter().any(|axis| axis.name == once)
            {
                once = Symbol::new(&format!("{once}_"));
            }
            maps.push((once, Dim::constant(1)));
        }
        for (index, (coordinate, extent)) in maps.into_iter().enumerate().rev() {
            let defines = if index == 0 { vec![result] } else { Vec::new() };
            let order = Order::Parallel;
            body = vec![Node::Map(Map { coordinate, extent, order, carries: Vec::new(), body, defines })];
        }
        body.into_iter()
            .next()
            .ok_or_else(|| Error::Bug { stage: "block", message: "an empty nest".to_string() })
    }
}

/// Whether every value of type `from` is one of the wider type `to`, both floats or both integers.
fn widens(from: DType, to: DType) -> bool {
    let is_one_class = (from.is_float(), from.is_int()) == (to.is_float(), to.is_int());
    is_one_class && from != DType::Bool && from.bytes() < to.bytes()
}
