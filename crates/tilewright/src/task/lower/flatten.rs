//! From functions to families: calls inlined, repeats rolled, tensors as buffers in storage order.
//!
//! A tensor of a function *is* a [`View`]: a buffer under leading indices, which are those of slices, stacks and slots. In
//! what leaves this module every table in an index expression is named by its buffer and has these indices in front.

use super::body::{self, BodyBuilder};
use super::dims::{Bounder, Var, of_atom, rebuild};
use super::summary::{Place, Summary, as_copy, summaries};
use super::visit;
use crate::block::{self, Function, Map, Node, Order, Program, ValueId, ValueType};
use crate::dim::{Atom, Cond, Dim, Facts, Symbol};
use crate::error::Error;
use crate::journal::{Journal, Kind as Entry};
use crate::task::ir::{Body, FamilyId, Step};
use crate::tensor::storage::Storage;
use crate::tensor::{DType, ParamKind, TensorType};
use std::collections::{BTreeMap, BTreeSet};

/// What a buffer is, before outputs are chosen and memory is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Param(ParamKind),
    Output,
    Own,
}

#[derive(Clone, Debug)]
pub(super) struct FlatBuffer {
    pub name: Symbol,
    pub dtype: DType,
    pub extents: Vec<Dim>,
    /// As [`crate::task::Buffer::padded`].
    pub padded: Vec<bool>,
    pub kind: Kind,
}

impl FlatBuffer {
    /// The extents behind the first axes, and whether each has padding.
    pub fn axes(&self, behind: usize) -> Vec<(Dim, bool)> {
        self.extents.iter().cloned().zip(self.padded.iter().copied()).skip(behind).collect()
    }
}

#[derive(Clone, Debug)]
pub(super) struct FlatFamily {
    pub name: Symbol,
    /// The repeats around it, outermost first: their identities.
    pub repeats: Vec<usize>,
    /// Those of the repeats first.
    pub coordinates: Vec<(Symbol, Dim)>,
    pub body: Body,
}

/// A program without functions and without events.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    pub facts: Facts,
    pub buffers: Vec<FlatBuffer>,
    pub families: Vec<FlatFamily>,
    pub steps: Vec<Step>,
    /// The buffer of each result.
    pub results: Vec<usize>,
}

/// Where a tensor lies: the elements of a buffer under leading indices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub buffer: usize,
    pub leading: Vec<Dim>,
}

impl View {
    pub fn whole(buffer: usize) -> View {
        View { buffer, leading: Vec::new() }
    }

    pub fn at(&self, index: Dim) -> View {
        View { buffer: self.buffer, leading: self.leading.iter().cloned().chain([index]).collect() }
    }

    /// Whether the two have no element in common.
    fn is_apart(&self, other: &View) -> bool {
        let differ = |(a, b): (&Dim, &Dim)| a != b && ((a - b).as_constant().is_some() || slots_differ(a, b));
        self.buffer != other.buffer || self.leading.iter().zip(&other.leading).any(differ)
    }
}

/// Whether two slots `mod(x, 2)` are never the same.
fn slots_differ(a: &Dim, b: &Dim) -> bool {
    match (slot(a), slot(b)) {
        (Some(a), Some(b)) => (a - b).as_constant().is_some_and(|d| d.rem_euclid(2) == 1),
        _ => false,
    }
}

/// The `x` of a slot `mod(x, 2)`.
pub(super) fn slot(dim: &Dim) -> Option<Dim> {
    // The normal form of `mod(x + 1, 2)` keeps the constant inside.
    match dim.as_atom() {
        Some(Atom::Mod(x, k)) if k.as_constant() == Some(2) => Some(x.clone()),
        _ => None,
    }
}

/// A function in progress: what its tensors are, and what is asked of those that it has not defined yet.
pub(super) struct Frame<'a> {
    pub function: &'a Function,
    pub views: BTreeMap<ValueId, View>,
    /// The views of integer tensors by name.
    pub tables: BTreeMap<Symbol, View>,
    /// Where the memory of a value shall be.
    pub wanted: BTreeMap<ValueId, View>,
    /// The last node that names a tensor; past all nodes for a result.
    last_use: BTreeMap<ValueId, usize>,
}

pub(super) struct Flattener<'a> {
    program: &'a Program,
    summaries: Vec<Summary>,
    /// The facts, with those of tables that the program computes, by the names of buffers.
    pub facts: Facts,
    pub buffers: Vec<FlatBuffer>,
    pub families: Vec<FlatFamily>,
    buffer_names: BTreeSet<Symbol>,
    family_names: BTreeSet<Symbol>,
    /// The names of the program's own tensors, which keep them.
    main_names: BTreeSet<Symbol>,
    /// How many functions are in progress.
    depth: usize,
    /// Every size, and every label and coordinate of functions other than the program itself.
    pub used_names: BTreeSet<Symbol>,
    pub repeats: Vec<(usize, Symbol, Dim)>,
    pub repeat_count: usize,
    pub steps: Vec<Step>,
    journal: &'a mut Journal,
}

pub(super) fn bug(message: impl Into<String>) -> Error {
    Error::Bug { stage: "block", message: message.into() }
}

/// A name that is not in `taken`, which it joins: `base`, or `base` with a number.
pub(super) fn fresh(taken: &mut BTreeSet<Symbol>, base: &Symbol) -> Symbol {
    let mut name = base.clone();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = Symbol::from(format!("{base}_{number}"));
        number += 1;
    }
    name
}

/// Flattens a program.
pub(super) fn flatten(program: &Program, journal: &mut Journal) -> Result<Flat, Error> {
    let main = program.functions.last().ok_or_else(|| bug("a program without functions"))?;
    let mut this = Flattener {
        program,
        summaries: summaries(program),
        facts: program.facts.clone(),
        buffers: Vec::new(),
        families: Vec::new(),
        buffer_names: BTreeSet::new(),
        family_names: BTreeSet::new(),
        main_names: main.values.iter().map(|value| value.name.clone()).collect(),
        depth: 0,
        used_names: visit::names(program),
        repeats: Vec::new(),
        repeat_count: 0,
        steps: Vec::new(),
        journal,
    };
    let mut params = Vec::new();
    for param in &main.params {
        let value =
            main.values.get(param.value.0 as usize).ok_or_else(|| bug("a parameter without a value"))?;
        let ValueType::Tensor { ty, .. } = &value.ty else { return Err(bug("a parameter that is an item")) };
        this.buffer_names.insert(value.name.clone());
        let Storage { extents, padded, .. } = storage_of(ty, &this.facts, &value.name)?;
        let kind = Kind::Param(param.kind);
        this.buffers.push(FlatBuffer { name: value.name.clone(), dtype: ty.dtype, extents, padded, kind });
        params.push(View::whole(this.buffers.len() - 1));
    }
    let names: Vec<Symbol> =
        main.results.iter().filter_map(|id| Some(main.values.get(id.0 as usize)?.name.clone())).collect();
    let views = this.function(main, params, BTreeMap::new())?;
    let mut results = Vec::new();
    for ((view, name), id) in views.iter().zip(&names).zip(&main.results) {
        let is_param = main.params.iter().any(|param| param.value == *id);
        results.push(this.output(view, name, is_param, &results)?);
    }
    Ok(Flat { facts: this.facts, buffers: this.buffers, families: this.families, steps: this.steps, results })
}

/// The storage of a type whose tables are buffers.
pub(super) fn storage_of(ty: &TensorType, facts: &Facts, name: &Symbol) -> Result<Storage, Error> {
    Storage::with(ty, facts).map_err(|message| Error::Program { place: name.to_string(), message })
}

impl<'a> Flattener<'a> {
    /// The buffer of a result of the program.
    fn output(
        &mut self,
        view: &View,
        name: &Symbol,
        is_param: bool,
        taken: &[usize],
    ) -> Result<usize, Error> {
        let whole = view.leading.is_empty() && !taken.contains(&view.buffer);
        match self.buffers[view.buffer].kind {
            Kind::Own if whole => {
                self.buffers[view.buffer].kind = Kind::Output;
                return Ok(view.buffer);
            }
            Kind::Param(ParamKind::State) if whole && !is_param => return Ok(view.buffer),
            _ => {}
        }
        let made = self.copy_of(view, name, "a result has memory of its own")?;
        self.buffers[made.buffer].kind = Kind::Output;
        Ok(made.buffer)
    }

    /// A new buffer with the contents of a view.
    pub fn copy_of(&mut self, view: &View, name: &Symbol, why: &str) -> Result<View, Error> {
        let source = &self.buffers[view.buffer];
        let axes = source.axes(view.leading.len());
        let made = self.allocate(name, source.dtype, axes);
        self.copy(view, &made, why)?;
        Ok(made)
    }

    pub fn copy(&mut self, from: &View, to: &View, why: &str) -> Result<(), Error> {
        let name = Symbol::from(format!("copy_{}", self.buffers[to.buffer].name));
        self.journal.record("task", Entry::Noted, name.to_string(), why);
        let (coordinates, body) = body::copy(self, from, to);
        self.emit(&name, coordinates, body);
        Ok(())
    }

    /// A new buffer; for each axis its extent and whether it has padding.
    pub fn allocate(&mut self, name: &Symbol, dtype: DType, axes: Vec<(Dim, bool)>) -> View {
        let name = if self.depth > 1 && self.main_names.contains(name) {
            let mut taken: BTreeSet<Symbol> = self.buffer_names.union(&self.main_names).cloned().collect();
            fresh(&mut taken, name)
        } else {
            name.clone()
        };
        let name = fresh(&mut self.buffer_names, &name);
        let (extents, padded) = axes.into_iter().unzip();
        self.buffers.push(FlatBuffer { name, dtype, extents, padded, kind: Kind::Own });
        View::whole(self.buffers.len() - 1)
    }

    /// Adds a family behind what there is; `own` are its coordinates but those of repeats.
    pub fn emit(&mut self, name: &Symbol, own: Vec<(Symbol, Dim)>, body: Body) {
        let name = fresh(&mut self.family_names, name);
        let outer = self.repeats.iter().map(|(_, name, extent)| (name.clone(), extent.clone()));
        let family = FlatFamily {
            name,
            repeats: self.repeats.iter().map(|(id, _, _)| *id).collect(),
            coordinates: outer.chain(own).collect(),
            body,
        };
        self.steps.push(Step::Family(FamilyId(self.families.len() as u32)));
        self.families.push(family);
    }

    /// What is known inside the repeats.
    pub fn facts_here(&self) -> Facts {
        self.repeats.iter().fold(self.facts.clone(), |facts, (_, name, extent)| facts.assume(name, 0, extent))
    }

    /// Emits what a function does; `args` are its parameters.
    pub fn function(
        &mut self,
        function: &'a Function,
        args: Vec<View>,
        wanted: BTreeMap<ValueId, View>,
    ) -> Result<Vec<View>, Error> {
        if args.len() != function.params.len() {
            return Err(bug(format!(
                "`{}` has {} parameters, not {}",
                function.name,
                function.params.len(),
                args.len()
            )));
        }
        self.depth += 1;
        let last_use = visit::last_uses(function);
        let mut frame = Frame { function, views: BTreeMap::new(), tables: BTreeMap::new(), wanted, last_use };
        for (param, view) in function.params.iter().zip(args) {
            self.define(&mut frame, param.value, view)?;
        }
        for (position, node) in function.body.iter().enumerate() {
            match node {
                Node::Map(map) => self.map(&mut frame, position, map)?,
                Node::Opaque(opaque) => self.opaque(&mut frame, opaque)?,
                Node::Call(call) => self.call(&mut frame, position, call)?,
                Node::Repeat(repeat) => self.repeat(&mut frame, position, repeat)?,
                _ => return Err(bug(format!("an operator on items at the level of `{}`", function.name))),
            }
        }
        self.depth -= 1;
        function.results.iter().map(|id| frame.view(*id).cloned()).collect()
    }

    pub fn define(&self, frame: &mut Frame<'_>, id: ValueId, view: View) -> Result<(), Error> {
        let (name, ty) = frame.tensor(id)?;
        if ty.dtype.is_int() {
            frame.tables.insert(name.clone(), view.clone());
        }
        frame.views.insert(id, view);
        Ok(())
    }

    /// A dim of a function over the buffers.
    pub fn dim(&self, frame: &Frame<'_>, dim: &Dim) -> Dim {
        if dim.tables().is_empty() {
            return dim.clone();
        }
        rebuild(dim, &mut |atom| match &atom {
            Atom::Element(table, index) => match frame.tables.get(table) {
                Some(view) => {
                    let index = view.leading.iter().chain(index).cloned().collect();
                    Dim::element(self.buffers[view.buffer].name.clone(), index)
                }
                None => of_atom(atom),
            },
            _ => of_atom(atom),
        })
    }

    /// A cond of a function over the buffers.
    pub fn cond(&self, frame: &Frame<'_>, cond: &Cond) -> Cond {
        cond.map_dims(&mut |dim| self.dim(frame, dim))
    }

    /// The type of a tensor of a function over the buffers, and its storage.
    pub fn storage(&self, frame: &Frame<'_>, id: ValueId) -> Result<(TensorType, Storage), Error> {
        let (name, ty) = frame.tensor(id)?;
        let mut ty = ty.clone();
        ty.axes.iter_mut().for_each(|axis| axis.extent = self.dim(frame, &axis.extent));
        let storage = storage_of(&ty, &self.facts, name)?;
        Ok((ty, storage))
    }

    /// The memory of a value that a node defines: where it is wanted, or new.
    pub fn place(&mut self, frame: &Frame<'_>, id: ValueId) -> Result<View, Error> {
        if let Some(view) = frame.wanted.get(&id) {
            return Ok(view.clone());
        }
        let (ty, storage) = self.storage(frame, id)?;
        let name = frame.tensor(id)?.0.clone();
        Ok(self.allocate(&name, ty.dtype, storage.axes()))
    }

    /// Whether memory may be overwritten by the node at `position`: it is ours or a state, and no other tensor in it is
    /// read later.
    /// `except` is one that the node itself may read, and no other.
    fn is_free(&self, frame: &Frame<'_>, position: usize, view: &View, except: ValueId) -> bool {
        let writable = matches!(
            self.buffers[view.buffer].kind,
            Kind::Own | Kind::Output | Kind::Param(ParamKind::State)
        );
        let wanted = |(id, other): (&ValueId, &View)| {
            let read = frame
                .last_use
                .get(id)
                .is_some_and(|&last| last > position || (last == position && *id != except));
            !other.is_apart(view) && read
        };
        writable && !frame.views.iter().any(wanted)
    }

    fn map(&mut self, frame: &mut Frame<'a>, position: usize, map: &Map) -> Result<(), Error> {
        if let (Some(source), [id]) = (as_copy(frame.function, map), map.defines.as_slice()) {
            let view = frame.view(source)?.clone();
            return self.define(frame, *id, view);
        }
        for &id in &map.defines {
            let view = match frame.alias(id)? {
                None => self.place(frame, id)?,
                Some(old) => {
                    let view = frame.view(old)?.clone();
                    if self.is_free(frame, position, &view, old) {
                        view
                    } else {
                        let name = frame.tensor(id)?.0.clone();
                        self.copy_of(&view, &name, "it is updated, and its old contents are still wanted")?
                    }
                }
            };
            self.define(frame, id, view)?;
        }
        let name = match map.defines.first() {
            Some(id) => frame.tensor(*id)?.0.clone(),
            None => return Err(bug("a map that defines nothing")),
        };
        let (own, body) = body::family(self, frame, map)?;
        self.emit(&name, own, body);
        Ok(())
    }

    /// The coordinates of a nest of parallel maps, with extents over symbols, and the body below them.
    pub fn chain<'m>(&self, frame: &Frame<'_>, map: &'m Map) -> Result<Chain<'m>, Error> {
        let mut chain = Chain { coordinates: Vec::new(), exact: Vec::new(), body: None };
        let mut vars: Vec<Var> = Vec::new();
        let mut map = map;
        while map.order == Order::Parallel && map.carries.is_empty() {
            let exact = self.dim(frame, &map.extent);
            let facts =
                vars.iter().fold(self.facts_here(), |f, v| f.assume(&v.name, v.first.clone(), v.end.clone()));
            let bounder = Bounder { facts: &facts, vars: &vars, tables_go: true };
            let extent = bounder.bound(&exact, true).ok_or_else(|| Error::Unsupported {
                place: frame.function.name.to_string(),
                what: format!("a map of extent `{exact}`"),
                instead: "bound it by a size, with `min`, `splits` or `elements`".to_string(),
            })?;
            let extent = if facts.nonneg(&extent).is_yes() { extent } else { extent.max(Dim::constant(0)) };
            vars.push(Var { name: map.coordinate.clone(), first: Dim::constant(0), end: extent.clone() });
            chain.exact.push((exact != extent).then_some(exact));
            chain.coordinates.push((map.coordinate.clone(), extent));
            chain.body = Some(&map.body);
            match map.body.as_slice() {
                [Node::Map(inner)] => map = inner,
                _ => break,
            }
        }
        Ok(chain)
    }

    fn opaque(&mut self, frame: &mut Frame<'a>, opaque: &block::Opaque) -> Result<(), Error> {
        let why = "an opaque operator works on whole buffers";
        let mut operands = Vec::new();
        let mut types = Vec::new();
        for &id in &opaque.operands {
            let view = frame.view(id)?.clone();
            let name = frame.tensor(id)?.0.clone();
            types.push(self.storage(frame, id)?.0);
            operands.push(if view.leading.is_empty() { view } else { self.copy_of(&view, &name, why)? });
        }
        let mut results = Vec::new();
        let mut moves = Vec::new();
        let mut made_types = Vec::new();
        for &id in &opaque.results {
            made_types.push(self.storage(frame, id)?.0);
            let place = self.place(frame, id)?;
            let whole = if place.leading.is_empty() {
                place
            } else {
                let (ty, storage) = self.storage(frame, id)?;
                let name = frame.tensor(id)?.0.clone();
                let made = self.allocate(&name, ty.dtype, storage.axes());
                moves.push((made.clone(), place));
                made
            };
            self.define(frame, id, whole.clone())?;
            results.push(whole);
        }
        if let Some(splits) = opaque.operator.splits.and_then(|rule| rule(&types, &made_types))
            && let Some(view) = results.get(splits.result)
        {
            let name = self.buffers[view.buffer].name.clone();
            self.facts
                .declare_splits(name.clone(), splits.parts, splits.total)
                .map_err(|fact| Error::Program { place: name.to_string(), message: fact.to_string() })?;
        }
        let name = match opaque.results.first() {
            Some(id) => frame.tensor(*id)?.0.clone(),
            None => return Err(bug("an opaque operator without results")),
        };
        let mut builder = BodyBuilder::default();
        let operands = operands.iter().map(|view| builder.tensor(&self.buffers, view.buffer)).collect();
        let results = results.iter().map(|view| builder.tensor(&self.buffers, view.buffer)).collect();
        let node = block::Opaque { operator: opaque.operator, axis: opaque.axis, operands, results };
        self.emit(&name, Vec::new(), builder.finish(vec![Node::Opaque(node)]));
        for (from, to) in moves {
            self.copy(&from, &to, why)?;
        }
        Ok(())
    }

    pub fn callee(&self, id: crate::tensor::FunctionId) -> Result<(&'a Function, Summary), Error> {
        let at = id.0 as usize;
        match (self.program.functions.get(at), self.summaries.get(at)) {
            (Some(function), Some(summary)) => Ok((function, summary.clone())),
            _ => Err(bug(format!("there is no function {at}"))),
        }
    }

    /// The view of an argument that the callee overwrites if `overwritten`: a copy where the caller's is still wanted.
    pub fn argument(
        &mut self,
        frame: &Frame<'_>,
        position: usize,
        id: ValueId,
        others: &[ValueId],
        overwritten: bool,
    ) -> Result<View, Error> {
        let view = frame.view(id)?.clone();
        let apart = |other: &ValueId| frame.views.get(other).is_some_and(|other| other.is_apart(&view));
        if !overwritten || (self.is_free(frame, position, &view, id) && others.iter().all(apart)) {
            return Ok(view);
        }
        let name = frame.tensor(id)?.0.clone();
        self.copy_of(&view, &name, "it is updated, and its old contents are still wanted")
    }

    fn call(&mut self, frame: &mut Frame<'a>, position: usize, call: &block::Call) -> Result<(), Error> {
        let (function, summary) = self.callee(call.function)?;
        let mut args = Vec::new();
        for (k, &id) in call.arguments.iter().enumerate() {
            let others: Vec<ValueId> = super::repeat::without(&call.arguments, k);
            let overwritten = summary.overwritten.get(k).copied().unwrap_or(false);
            args.push(self.argument(frame, position, id, &others, overwritten)?);
        }
        let mut wanted = BTreeMap::new();
        let mut asked = Vec::new();
        for ((&id, place), root) in call.results.iter().zip(&summary.results).zip(&summary.roots) {
            let first = *place == Place::Fresh && !wanted.contains_key(root);
            let place = if first { Some(self.place(frame, id)?) } else { frame.wanted.get(&id).cloned() };
            if let Some(view) = place.clone().filter(|_| first) {
                wanted.insert(*root, view);
            }
            asked.push(place);
        }
        let views = self.function(function, args, wanted)?;
        for ((&id, view), asked) in call.results.iter().zip(views).zip(asked) {
            let view = self.settle(view, asked)?;
            self.define(frame, id, view)?;
        }
        Ok(())
    }

    /// The contents of `view` where they are asked for.
    pub fn settle(&mut self, view: View, asked: Option<View>) -> Result<View, Error> {
        match asked {
            Some(asked) if asked != view => {
                self.copy(&view, &asked, "a result is the same as another value")?;
                Ok(asked)
            }
            _ => Ok(view),
        }
    }
}

/// A nest of parallel maps.
pub(super) struct Chain<'m> {
    /// Their coordinates and extents over symbols.
    pub coordinates: Vec<(Symbol, Dim)>,
    /// The extent of each as the map has it, where that differs.
    pub exact: Vec<Option<Dim>>,
    /// What is below; none where there is no parallel map at all.
    pub body: Option<&'m Vec<Node>>,
}

impl Frame<'_> {
    /// The name and the type of a tensor.
    pub fn tensor(&self, id: ValueId) -> Result<(&Symbol, &TensorType), Error> {
        match self.function.values.get(id.0 as usize).map(|value| (&value.name, &value.ty)) {
            Some((name, ValueType::Tensor { ty, .. })) => Ok((name, ty)),
            _ => Err(bug(format!("value {} of `{}` is no tensor", id.0, self.function.name))),
        }
    }

    /// Where a tensor lies.
    pub fn view(&self, id: ValueId) -> Result<&View, Error> {
        self.views
            .get(&id)
            .ok_or_else(|| bug(format!("value {} of `{}` is read too early", id.0, self.function.name)))
    }

    fn alias(&self, id: ValueId) -> Result<Option<ValueId>, Error> {
        match self.function.values.get(id.0 as usize).map(|value| &value.ty) {
            Some(ValueType::Tensor { alias, .. }) => Ok(*alias),
            _ => Err(bug(format!("value {} of `{}` is no tensor", id.0, self.function.name))),
        }
    }
}
