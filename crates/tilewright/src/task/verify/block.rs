//! What a block body touches: loads and stores by intervals of labels, index tuples one by one where that is not exact.

use super::compiled::TableRead;
use super::cuboid::Cuboid;
use super::instance::{Site, Touch, Toucher, Touches};
use super::sizes::Sizes;
use super::{MAX_STEPS, MAX_TUPLES, Reason, Violation};
use crate::block::{Argument, Guard, Node, Range, ValueId, ValueType};
use crate::dim::{Code, Cond, CondCode, Dim, EvalError, Symbol};
use crate::task::ir::{Body, BufferId};
use std::cell::Cell;

type Result<T = ()> = std::result::Result<T, Violation>;

impl Touches for Body {
    fn toucher<'a>(&'a self, site: &Site<'a>) -> Result<Option<Toucher<'a>>> {
        body_toucher(self, site)
    }
}

/// What a body touches; nothing of the body is kept.
pub(crate) fn body_toucher<'a>(body: &Body, site: &Site<'a>) -> Result<Option<Toucher<'a>>> {
    let mut vars: Vec<Symbol> = site.coordinates.iter().map(|(name, _)| name.clone()).collect();
    let builder = Builder { body, site: *site };
    let prologue = builder.nodes(&body.prologue, &mut vars)?;
    let nodes = builder.nodes(&body.nodes, &mut vars)?;
    let site = *site;
    let left = Cell::new(MAX_STEPS);
    Ok(Some(Box::new(move |at, out| {
        let before = out.len();
        let mut run = Run { site, slots: at.to_vec(), prologue: true, left: left.get(), out };
        run.steps(&prologue)?;
        run.prologue = false;
        run.steps(&nodes)?;
        left.set(run.left);
        if run.left == 0 {
            out.truncate(before);
        }
        Ok(left.get() > 0)
    })))
}

/// A node, as far as it touches memory.
enum Step {
    /// A map: its extent, the tables that reads, and its body.
    Loop { extent: Code, tables: Vec<TableRead>, body: Vec<Step> },
    /// Elements for every tuple of labels.
    Elements(Elements),
    /// A whole buffer.
    Whole { buffer: BufferId, write: bool },
}

/// A label: where its range starts, how long it is, where it ends; and whether its values are listed one by one.
struct Label {
    start: Code,
    size: i64,
    end: Code,
    listed: bool,
}

/// An index along an axis: constant over the labels that are not listed, or moving with one of them by ±1.
struct Index {
    code: Code,
    label: Option<usize>,
}

/// The elements of a buffer, and of tables, that a load, a store or a condition touches.
struct Elements {
    target: Option<(BufferId, bool)>,
    index: Vec<Index>,
    when: Option<CondCode>,
    labels: Vec<Label>,
    /// The position of the first label among the slots.
    base: usize,
    tables: Vec<TableRead>,
}

struct Builder<'a> {
    body: &'a Body,
    site: Site<'a>,
}

fn symbol_error(error: EvalError) -> Violation {
    Violation::new(Reason::Symbol, "a body", error)
}

impl Builder<'_> {
    fn nodes(&self, nodes: &[Node], vars: &mut Vec<Symbol>) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for node in nodes {
            self.node(node, vars, &mut steps)?;
        }
        Ok(steps)
    }

    fn node(&self, node: &Node, vars: &mut Vec<Symbol>, steps: &mut Vec<Step>) -> Result {
        match node {
            Node::Map(map) => {
                let extent = Code::dim(&map.extent, vars, self.site.sizes).map_err(symbol_error)?;
                let tables = self.tables(&map.extent, vars)?;
                vars.push(map.coordinate.clone());
                let body = self.nodes(&map.body, vars);
                vars.pop();
                steps.push(Step::Loop { extent, tables, body: body? });
            }
            Node::Load(load) => {
                let target = Some((self.buffer(load.source)?, false));
                let ranges = self.ranges(load.result)?;
                steps.push(Step::Elements(self.elements(
                    target,
                    &load.index,
                    &load.when,
                    &[],
                    ranges,
                    vars,
                )?));
            }
            Node::Store(store) => {
                let target = Some((self.buffer(store.target)?, true));
                let ranges = self.ranges(store.item)?;
                steps.push(Step::Elements(self.elements(
                    target,
                    &store.index,
                    &Cond::True,
                    &[],
                    ranges,
                    vars,
                )?));
            }
            Node::Compute(compute) => {
                let mut dims = Vec::new();
                for argument in &compute.arguments {
                    match argument {
                        Argument::Index(dim) => dims.push(dim.clone()),
                        Argument::Holds(cond) => cond.visit_dims(&mut |dim| dims.push(dim.clone())),
                        Argument::Item(_) | Argument::Literal(_) => {}
                    }
                }
                self.reads_of(&dims, &[compute.result], vars, steps)?;
            }
            Node::Reduce(reduce) => {
                let mut dims = guard_dims(&reduce.guard);
                dims.push(reduce.position.clone());
                self.reads_of(&dims, &[reduce.argument], vars, steps)?;
            }
            Node::Contract(contract) => {
                self.reads_of(&guard_dims(&contract.guard), &contract.arguments, vars, steps)?;
            }
            Node::Opaque(opaque) => {
                for (values, write) in [(&opaque.operands, false), (&opaque.results, true)] {
                    for &value in values {
                        steps.push(Step::Whole { buffer: self.buffer(value)?, write });
                    }
                }
            }
            Node::Call(_) | Node::Repeat(_) => {
                return Err(Violation::new(Reason::Malformed, "a body", "it calls a function"));
            }
        }
        Ok(())
    }

    /// The tables that dims over the labels of items read.
    fn reads_of(
        &self,
        dims: &[Dim],
        items: &[ValueId],
        vars: &mut Vec<Symbol>,
        steps: &mut Vec<Step>,
    ) -> Result {
        if dims.iter().all(|dim| dim.tables().is_empty()) {
            return Ok(());
        }
        let mut ranges: Vec<Range> = Vec::new();
        for &item in items {
            for range in self.ranges(item)? {
                if !ranges.iter().any(|other| other.label == range.label) {
                    ranges.push(range.clone());
                }
            }
        }
        steps.push(Step::Elements(self.elements(None, &[], &Cond::True, dims, &ranges, vars)?));
        Ok(())
    }

    fn elements(
        &self,
        target: Option<(BufferId, bool)>,
        index: &[Dim],
        when: &Cond,
        others: &[Dim],
        ranges: &[Range],
        vars: &mut Vec<Symbol>,
    ) -> Result<Elements> {
        let base = vars.len();
        vars.extend(ranges.iter().map(|range| range.label.clone()));
        let found = self.elements_over(target, index, when, others, ranges, vars, base);
        vars.truncate(base);
        let found = found?;
        match target {
            Some((buffer, _))
                if found.index.len() != self.site.extents.get(buffer.0 as usize).map_or(0, Vec::len) =>
            {
                let name =
                    self.site.buffers.get(buffer.0 as usize).map_or("?", |buffer| buffer.name.as_str());
                let message = format!("`{name}` is accessed with {} indices", found.index.len());
                Err(Violation::new(Reason::Malformed, "a body", message))
            }
            _ => Ok(found),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one access")]
    fn elements_over(
        &self,
        target: Option<(BufferId, bool)>,
        index: &[Dim],
        when: &Cond,
        others: &[Dim],
        ranges: &[Range],
        vars: &[Symbol],
        base: usize,
    ) -> Result<Elements> {
        let sizes = self.site.sizes;
        let labels: Vec<&Symbol> = ranges.iter().map(|range| &range.label).collect();
        let mut listed: Vec<bool> = labels
            .iter()
            .map(|label| {
                let in_ranges =
                    ranges.iter().any(|range| range.start.mentions(label) || range.end.mentions(label));
                let in_tables = others.iter().any(|dim| !dim.tables().is_empty() && dim.mentions(label));
                in_ranges || in_tables || when.mentions(label)
            })
            .collect();
        let mut codes = Vec::with_capacity(index.len());
        let mut moving: Vec<Option<usize>> = Vec::with_capacity(index.len());
        for dim in index {
            let code = Code::dim(dim, vars, sizes).map_err(symbol_error)?;
            let used: Vec<usize> = (0..labels.len()).filter(|&at| dim.mentions(labels[at])).collect();
            let unit = |at: usize| {
                let affine = if dim.tables().is_empty() { code.as_affine() } else { None };
                affine.and_then(|(slopes, _)| slopes.get(base + at)).is_some_and(|slope| slope.abs() == 1)
            };
            match used.as_slice() {
                [at] if unit(*at) && !moving.contains(&Some(*at)) => moving.push(Some(*at)),
                _ => {
                    used.iter().for_each(|&at| listed[at] = true);
                    moving.push(None);
                }
            }
            codes.push(code);
        }
        let mut tables = Vec::new();
        for dim in index.iter().chain(others) {
            tables.extend(self.tables(dim, vars)?);
        }
        let mut failed = None;
        when.visit_dims(&mut |dim| match self.tables(dim, vars) {
            Ok(reads) => tables.extend(reads),
            Err(error) => failed = Some(error),
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let mut compiled = Vec::with_capacity(ranges.len());
        for (range, &listed) in ranges.iter().zip(&listed) {
            tables.extend(self.tables(&range.start, vars)?);
            tables.extend(self.tables(&range.end, vars)?);
            let start = Code::dim(&range.start, vars, sizes).map_err(symbol_error)?;
            let end = Code::dim(&range.end, vars, sizes).map_err(symbol_error)?;
            compiled.push(Label { start, size: range.size, end, listed });
        }
        let when = match CondCode::cond(when, vars, sizes).map_err(symbol_error)? {
            code if code.as_constant() == Some(true) => None,
            code => Some(code),
        };
        let index = codes.into_iter().zip(moving);
        let index =
            index.map(|(code, label)| Index { code, label: label.filter(|&at| !listed[at]) }).collect();
        Ok(Elements { target, index, when, labels: compiled, base, tables })
    }

    fn tables(&self, dim: &Dim, vars: &[Symbol]) -> Result<Vec<TableRead>> {
        TableRead::all(self.site.buffers, dim, vars, self.site.sizes).map_err(symbol_error)
    }

    /// The buffer that a tensor of the body is.
    fn buffer(&self, id: ValueId) -> Result<BufferId> {
        let malformed = |message: String| Err(Violation::new(Reason::Malformed, "a body", message));
        let Some(value) = self.body.values.get(id.0 as usize) else {
            return malformed(format!("there is no value {}", id.0));
        };
        if matches!(value.ty, ValueType::Item(_)) {
            return malformed(format!("the item `{}` is used as a tensor", value.name));
        }
        match self.site.buffers.iter().position(|buffer| buffer.name == value.name) {
            Some(index) => Ok(BufferId(index as u32)),
            None => malformed(format!("the tensor `{}` is no buffer", value.name)),
        }
    }

    fn ranges(&self, id: ValueId) -> Result<&[Range]> {
        match self.body.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Item(item)) => Ok(&item.ranges),
            _ => Err(Violation::new(Reason::Malformed, "a body", format!("value {} is no item", id.0))),
        }
    }
}

fn guard_dims(guard: &Guard) -> Vec<Dim> {
    let mut dims = Vec::new();
    guard.condition.visit_dims(&mut |dim| dims.push(dim.clone()));
    dims
}

/// One task.
struct Run<'a, 'b> {
    site: Site<'a>,
    slots: Vec<i64>,
    prologue: bool,
    /// The iterations and tuples that may still be listed; at 0 nothing more is.
    left: u64,
    out: &'b mut Vec<Touch>,
}

type Eval<T = ()> = std::result::Result<T, EvalError>;

impl Run<'_, '_> {
    fn push(&mut self, buffer: BufferId, elements: Cuboid, write: bool, table: bool, exact: bool) {
        if let Some(last) = self.out.last_mut() {
            let alike = (last.buffer, last.write, last.table, last.exact, last.prologue)
                == (buffer, write, table, exact, self.prologue);
            if alike && !elements.is_empty() && !last.elements.is_empty() && last.elements.absorb(&elements) {
                return;
            }
        }
        self.out.push(Touch { buffer, elements, write, prologue: self.prologue, table, exact });
    }

    fn extents(&self, buffer: BufferId) -> &[i64] {
        self.site.extents.get(buffer.0 as usize).map_or(&[], Vec::as_slice)
    }

    fn steps(&mut self, steps: &[Step]) -> Eval {
        for step in steps {
            match step {
                Step::Loop { extent, tables, body } => {
                    self.tables(tables)?;
                    let count = extent.eval(&self.slots, self.site.sizes)?;
                    for value in 0..count {
                        self.left = self.left.saturating_sub(1);
                        if self.left == 0 {
                            return Ok(());
                        }
                        self.slots.push(value);
                        let done = self.steps(body);
                        self.slots.pop();
                        done?;
                    }
                }
                Step::Elements(elements) => self.elements(elements)?,
                Step::Whole { buffer, write } => {
                    let whole = Cuboid::whole(self.extents(*buffer));
                    // What lies in the padding is nobody's business.
                    let padded =
                        self.site.buffers.get(buffer.0 as usize).is_some_and(|b| b.padded.contains(&true));
                    self.push(*buffer, whole, *write, false, *write || !padded);
                }
            }
        }
        Ok(())
    }

    fn tables(&mut self, tables: &[TableRead]) -> Eval {
        for table in tables {
            let (buffer, elements) = table.element(&self.slots, self.site.sizes)?;
            self.push(buffer, elements, false, true, true);
        }
        Ok(())
    }

    fn elements(&mut self, elements: &Elements) -> Eval {
        let mut found = Found { ends: vec![(0, 0); elements.labels.len()], ..Found::default() };
        let fits = self.label(elements, 0, &mut found);
        self.slots.truncate(elements.base);
        if !fits? {
            if let Some((buffer, write)) = elements.target {
                let whole = Cuboid::whole(self.extents(buffer));
                self.push(buffer, whole, write, false, false);
            }
            return Ok(());
        }
        for (buffer, element) in found.tables {
            self.push(buffer, element, false, true, true);
        }
        if let Some((buffer, write)) = elements.target {
            for part in found.boxes {
                self.push(buffer, part, write, false, true);
            }
        }
        Ok(())
    }

    /// Goes through the values of the labels from `at` on; false where there are too many.
    fn label(&mut self, elements: &Elements, at: usize, found: &mut Found) -> Eval<bool> {
        let Some(label) = elements.labels.get(at) else { return self.tuple(elements, found) };
        let sizes: &Sizes = self.site.sizes;
        // Slots of this label and later ones are not bound yet; ranges mention earlier ones only.
        self.slots.resize(elements.base + elements.labels.len(), 0);
        let start = label.start.eval(&self.slots, sizes)?;
        let stop = label.end.eval(&self.slots, sizes)?.min(start.saturating_add(label.size));
        if start >= stop {
            return Ok(true);
        }
        if !label.listed {
            found.ends[at] = (start, stop);
            self.slots[elements.base + at] = start;
            return self.label(elements, at + 1, found);
        }
        for value in start..stop {
            self.slots[elements.base + at] = value;
            if !self.label(elements, at + 1, found)? {
                return Ok(false);
            }
            self.slots.resize(elements.base + elements.labels.len(), 0);
        }
        Ok(true)
    }

    fn tuple(&mut self, elements: &Elements, found: &mut Found) -> Eval<bool> {
        found.count += 1;
        self.left = self.left.saturating_sub(1);
        if found.count > MAX_TUPLES || self.left == 0 {
            return Ok(false);
        }
        let sizes: &Sizes = self.site.sizes;
        self.slots.resize(elements.base + elements.labels.len(), 0);
        for table in &elements.tables {
            let (buffer, element) = table.element(&self.slots, sizes)?;
            let element = element.clipped(self.extents(buffer));
            let last = found.tables.iter_mut().rev().find(|(other, _)| *other == buffer);
            let joined = element.is_empty() || last.is_some_and(|(_, last)| last.absorb(&element));
            if !joined {
                found.tables.push((buffer, element));
            }
        }
        if let Some(when) = &elements.when
            && !when.eval(&self.slots, sizes)?
        {
            return Ok(true);
        }
        let Some((buffer, _)) = elements.target else { return Ok(true) };
        let mut axes = Vec::with_capacity(elements.index.len());
        for index in &elements.index {
            let first = index.code.eval(&self.slots, sizes)?;
            let last = match index.label {
                Some(label) => {
                    let (start, stop) = found.ends[label];
                    let slot = elements.base + label;
                    self.slots[slot] = stop - 1;
                    let last = index.code.eval(&self.slots, sizes);
                    self.slots[slot] = start;
                    last?
                }
                None => first,
            };
            axes.push((first.min(last), first.max(last).saturating_add(1)));
        }
        let part = Cuboid { axes }.clipped(self.extents(buffer));
        if part.is_empty() {
            return Ok(true);
        }
        let joined = found.boxes.last_mut().is_some_and(|last| last.absorb(&part));
        if !joined {
            found.boxes.push(part);
        }
        Ok(true)
    }
}

/// What was found of one access.
#[derive(Default)]
struct Found {
    ends: Vec<(i64, i64)>,
    boxes: Vec<Cuboid>,
    tables: Vec<(BufferId, Cuboid)>,
    count: usize,
}
