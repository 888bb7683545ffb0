//! Work on weights, done once: a program is split into `prepare`, which makes derived weights, and the rest.
//!
//! **What is hoisted.** Every operator of the program itself whose results are known at load ([`BindingTime`]), and
//! what is needed for them. A hoisted value that the rest reads, or returns, becomes a result of `prepare` and a weight
//! of the rest, under its name.
//!
//! **What stays.** A *pure broadcast*: an operator that only places elements (its nest's body is one read, a number or
//! an index; nothing is computed or reduced) and whose result has an axis that no read depends on. Its result is larger
//! than its inputs and costs nothing to repeat, so that where the rest needs it, the rest has it again; `prepare` has
//! it too where something hoisted reads it.
//!
//! A weight that only hoisted operators read is no parameter of the rest. Sizes keep their facts in both programs; facts
//! on tables go where the table is. The rest's weights are found by name: among the weights of the program or the
//! results of `prepare`.

use super::bind::{BindingTime, binding_times};
use super::infer::dims_of;
use super::ir::{Function, FunctionId, Node, Op, Operand, Param, ParamKind, Program, Value, ValueId};
use super::meaning::meaning;
use super::nest::{Expr, Nest};
use super::ops::Meaning;
use super::storage;
use crate::dim::{Facts, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// Splits a legal program into what is computed at load, if anything is, and the rest. The results of the first are
/// the derived weights; the second has the program's results.
pub fn split(program: &Program) -> (Option<Program>, Program) {
    let unchanged = || (None, program.clone());
    let (Some(main), Some(times)) = (program.functions.last(), binding_times(program).pop()) else {
        return unchanged();
    };
    let node_of = defining_nodes(main);
    let at_load = |id: ValueId| times.get(id.0 as usize).is_some_and(|time| *time <= BindingTime::Load);
    // An argument that a function does not look at is passed all the same, so that it must be there too.
    let mut is_there: Vec<bool> = (0..main.values.len() as u32).map(|id| at_load(ValueId(id))).collect();
    let mut is_hoisted: Vec<bool> = Vec::with_capacity(main.nodes.len());
    for node in &main.nodes {
        let mut needs = node.results.iter().copied().chain(reads(main, node));
        let hoisted = needs.all(|id| is_there.get(id.0 as usize).copied().unwrap_or(false));
        for id in node.results.iter().filter(|_| !hoisted) {
            if let Some(there) = is_there.get_mut(id.0 as usize) {
                *there = false;
            }
        }
        is_hoisted.push(hoisted);
    }
    let stays: Vec<bool> = main
        .nodes
        .iter()
        .zip(&is_hoisted)
        .map(|(node, hoisted)| !hoisted || is_pure_broadcast(program, main, node))
        .collect();

    // Backwards from the results and from what cannot be hoisted: what the rest needs.
    let mut rest_nodes: BTreeSet<usize> = (0..main.nodes.len()).filter(|k| !is_hoisted[*k]).collect();
    let mut needed: BTreeSet<ValueId> = main.results.iter().copied().collect();
    let mut open: Vec<ValueId> = main.results.clone();
    open.extend(rest_nodes.iter().flat_map(|k| reads(main, &main.nodes[*k])));
    open.extend(main.params.iter().flat_map(|param| type_reads(main, param.value)));
    while let Some(id) = open.pop() {
        needed.insert(id);
        let Some(k) = node_of.get(&id).copied() else { continue };
        let mut more = type_reads(main, id);
        if stays[k] && rest_nodes.insert(k) {
            more.extend(reads(main, &main.nodes[k]));
        }
        open.extend(more.into_iter().filter(|id| !needed.contains(id)));
    }
    let derived: Vec<ValueId> = needed
        .iter()
        .copied()
        .filter(|id| node_of.get(id).is_some_and(|k| !rest_nodes.contains(k)))
        .collect();
    if derived.is_empty() {
        return unchanged();
    }

    // Backwards from the derived weights: what `prepare` needs.
    let mut prepare_nodes: BTreeSet<usize> = BTreeSet::new();
    let mut prepare_values: BTreeSet<ValueId> = BTreeSet::new();
    let mut open = derived.clone();
    while let Some(id) = open.pop() {
        if !prepare_values.insert(id) {
            continue;
        }
        open.extend(type_reads(main, id));
        if let Some(k) = node_of.get(&id).copied()
            && prepare_nodes.insert(k)
        {
            open.extend(reads(main, &main.nodes[k]));
        }
    }

    let prepare_params: Vec<Param> =
        main.params.iter().filter(|param| prepare_values.contains(&param.value)).cloned().collect();
    let only_hoisted = |param: &Param| {
        param.kind == ParamKind::Weight
            && !needed.contains(&param.value)
            && prepare_values.contains(&param.value)
    };
    let mut rest_params: Vec<Param> =
        main.params.iter().filter(|param| !only_hoisted(param)).cloned().collect();
    rest_params.extend(derived.iter().map(|id| Param { value: *id, kind: ParamKind::Weight }));

    let name = prepare_name(program);
    let prepare = Part { program, main, nodes: &prepare_nodes, params: &prepare_params, results: &derived };
    let rest = Part { program, main, nodes: &rest_nodes, params: &rest_params, results: &main.results };
    (Some(prepare.build(name)), rest.build(main.name.clone()))
}

/// The program's name and `_prepare`, made unlike every function's.
fn prepare_name(program: &Program) -> Symbol {
    let mut name = format!("{}_prepare", program.main().name);
    while program.functions.iter().any(|function| function.name.as_str() == name) {
        name.push('_');
    }
    Symbol::from(name)
}

/// Which operator defines each value that is no parameter.
fn defining_nodes(function: &Function) -> BTreeMap<ValueId, usize> {
    let nodes = function.nodes.iter().enumerate();
    nodes.flat_map(|(k, node)| node.results.iter().map(move |id| (*id, k))).collect()
}

/// The values that an operator reads, tables and masks included.
fn reads(function: &Function, node: &Node) -> Vec<ValueId> {
    let mut found: Vec<ValueId> = Vec::new();
    let mut tables: BTreeSet<Symbol> = dims_of(&node.op).iter().flat_map(|dim| dim.tables()).collect();
    for operand in &node.operands {
        match operand {
            Operand::Value { value, .. } => found.push(*value),
            Operand::Dim(dim) => tables.extend(dim.tables()),
            Operand::Literal(_) => {}
        }
    }
    if let Op::Reduce { guard, .. } | Op::Contract { guard, .. } = &node.op {
        found.extend(guard.masks.iter().map(|(mask, _)| *mask));
    }
    found.extend(tables.iter().filter_map(|table| function.find(table)));
    for id in &node.results {
        found.extend(type_reads(function, *id).into_iter().filter(|id| !node.results.contains(id)));
    }
    found
}

/// The tables in the extents of a value.
fn type_reads(function: &Function, id: ValueId) -> Vec<ValueId> {
    let Some(value) = function.values.get(id.0 as usize) else { return Vec::new() };
    let tables = value.ty.axes.iter().flat_map(|axis| axis.extent.tables());
    tables.filter_map(|table| function.find(&table)).collect()
}

/// Whether an operator only repeats elements, numbers or indices along some axis.
fn is_pure_broadcast(program: &Program, function: &Function, node: &Node) -> bool {
    match meaning(program, function, node) {
        Ok(Meaning::Nests(nests)) => nests.iter().all(repeats),
        _ => false,
    }
}

fn repeats(nest: &Nest) -> bool {
    let placed = |name: &Symbol| match &nest.body {
        Expr::Read(k) => {
            nest.reads.get(*k).is_some_and(|read| read.index.iter().any(|index| index.mentions(name)))
        }
        _ => false,
    };
    let computes = matches!(nest.body, Expr::Apply { .. });
    !computes && nest.reduction.is_none() && nest.axes.iter().any(|axis| !placed(&axis.name))
}

/// Some operators of a program as a program.
struct Part<'a> {
    program: &'a Program,
    main: &'a Function,
    nodes: &'a BTreeSet<usize>,
    params: &'a [Param],
    results: &'a [ValueId],
}

impl Part<'_> {
    fn build(&self, name: Symbol) -> Program {
        let mut values: Vec<Value> = Vec::new();
        let mut ids: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        let mut define = |old: ValueId, ids: &mut BTreeMap<ValueId, ValueId>| {
            let new = ValueId(values.len() as u32);
            ids.insert(old, new);
            values.extend(self.main.values.get(old.0 as usize).cloned());
            new
        };
        let params: Vec<Param> = self
            .params
            .iter()
            .map(|param| Param { value: define(param.value, &mut ids), kind: param.kind })
            .collect();
        let functions = self.reachable();
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for k in self.nodes {
            let mut node = self.main.nodes[*k].clone();
            renumber(&mut node, &ids, &functions);
            node.results = node.results.iter().map(|id| define(*id, &mut ids)).collect();
            nodes.push(node);
        }
        let results = self.results.iter().filter_map(|id| ids.get(id).copied()).collect();
        let main = Function { name, params, values, nodes, results };
        let facts = self.facts(&main);
        let mut kept: Vec<Function> = Vec::with_capacity(functions.len() + 1);
        for old in functions.keys() {
            let mut function = self.program.functions[old.0 as usize].clone();
            let own: BTreeMap<ValueId, ValueId> =
                (0..function.values.len() as u32).map(|id| (ValueId(id), ValueId(id))).collect();
            function.nodes.iter_mut().for_each(|node| renumber(node, &own, &functions));
            kept.push(function);
        }
        kept.push(main);
        Program { functions: kept, facts }
    }

    /// The functions that the operators call, directly or not, and their new ids.
    fn reachable(&self) -> BTreeMap<FunctionId, FunctionId> {
        let callee = |node: &Node| match node.op {
            Op::Call { function } | Op::Repeat { function, .. } => Some(function),
            _ => None,
        };
        let mut found: BTreeSet<FunctionId> = BTreeSet::new();
        let mut open: Vec<FunctionId> =
            self.nodes.iter().filter_map(|k| callee(&self.main.nodes[*k])).collect();
        while let Some(id) = open.pop() {
            if let (Some(function), true) = (self.program.functions.get(id.0 as usize), found.insert(id)) {
                open.extend(function.nodes.iter().filter_map(callee));
            }
        }
        found.into_iter().zip((0..).map(FunctionId)).collect()
    }

    /// All facts on sizes, and those on the tables of `main`. What an operator said of its result is a fact once the
    /// result is a parameter.
    fn facts(&self, main: &Function) -> Facts {
        let known = storage::facts_in(self.main, &self.program.facts);
        let known = known.unwrap_or_else(|_| self.program.facts.clone());
        let mut facts = Facts::new();
        for symbol in known.symbols() {
            if let Some((lo, hi)) = known.range(symbol) {
                // Declared facts hold together, so that declaring them again does not fail.
                let _ = facts.declare(symbol.clone(), lo, hi);
            }
            if let Some(divisor) = known.divisor(symbol) {
                let _ = facts.declare_divisor(symbol.clone(), divisor);
            }
        }
        for (index, Value { name, .. }) in main.values.iter().enumerate() {
            let source = if index < main.params.len() { &known } else { &self.program.facts };
            if let Some((parts, total)) = source.splits(name) {
                let _ = facts.declare_splits(name.clone(), parts.clone(), total.clone());
            }
            if let Some((lo, hi)) = source.table_range(name) {
                let _ = facts.declare_range(name.clone(), lo.clone(), hi.clone());
            }
        }
        facts
    }
}

fn renumber(node: &mut Node, ids: &BTreeMap<ValueId, ValueId>, functions: &BTreeMap<FunctionId, FunctionId>) {
    let new = |id: &mut ValueId| *id = ids.get(id).copied().unwrap_or(*id);
    for operand in &mut node.operands {
        if let Operand::Value { value, .. } = operand {
            new(value);
        }
    }
    match &mut node.op {
        Op::Reduce { guard, .. } | Op::Contract { guard, .. } => {
            guard.masks.iter_mut().for_each(|(mask, _)| new(mask));
        }
        Op::Call { function } | Op::Repeat { function, .. } => {
            *function = functions.get(function).copied().unwrap_or(*function);
        }
        _ => {}
    }
}
