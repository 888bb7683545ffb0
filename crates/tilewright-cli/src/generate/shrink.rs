//! Making a failing program smaller while it fails.
//!
//! A *step* takes one thing away: a result, an operator (its results become parameters, or its operand stands in for
//! them), a guard, a mask. What nothing needs any more goes with it. A step counts if the smaller program is legal and
//! still fails; steps are tried until none counts.

use std::collections::{BTreeMap, BTreeSet};
use tilewright::dim::{Cond, Facts, Symbol};
use tilewright::tensor::infer::dims_of;
use tilewright::tensor::verify::verify;
use tilewright::tensor::{
    Function, FunctionId, Node, Op, Operand, Param, ParamKind, Program, Value, ValueId,
};

/// The most programs that are tried.
const MAX_TRIES: usize = 4000;

/// A small program of which `fails` holds, as it does of `program`.
pub fn shrink(program: &Program, fails: &mut dyn FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    let mut tries = 0;
    let mut progress = true;
    while progress {
        progress = false;
        let mut at = 0;
        while let Some(candidate) = step(&best, at) {
            if tries >= MAX_TRIES {
                return best;
            }
            tries += 1;
            let smaller = candidate.filter(|candidate| weight(candidate) < weight(&best));
            match smaller.filter(|candidate| verify(candidate).is_ok() && fails(candidate)) {
                // What stands at this place now is another step.
                Some(candidate) => (best, progress) = (candidate, true),
                None => at += 1,
            }
        }
    }
    best
}

/// How large a program is: every step makes this smaller.
fn weight(program: &Program) -> usize {
    let guards = |node: &Node| match &node.op {
        Op::Reduce { guard, .. } | Op::Contract { guard, .. } => {
            guard.masks.len() + usize::from(guard.condition != Cond::True)
        }
        _ => 0,
    };
    let of = |function: &Function| {
        let nodes: usize =
            function.nodes.iter().map(|node| 10 + 2 * node.operands.len() + guards(node)).sum();
        nodes + function.results.len() + function.params.len()
    };
    program.functions.iter().map(of).sum()
}

/// The step number `at`: none behind the last, `Some(None)` where it does not apply.
fn step(program: &Program, at: usize) -> Option<Option<Program>> {
    let mut at = at;
    let main = program.functions.len().checked_sub(1)?;
    let results = program.functions[main].results.len();
    if at < results {
        let mut smaller = program.clone();
        if results > 1 {
            smaller.functions[main].results.remove(at);
            return Some(prune(smaller));
        }
        return Some(None);
    }
    at -= results;
    for (f, function) in program.functions.iter().enumerate().rev() {
        let count = function.nodes.len();
        if at < count * 4 {
            // Late operators first.
            let (node, kind) = (count - 1 - at / 4, at % 4);
            let mut smaller = program.clone();
            let changed = match kind {
                0 if f == main => cut(&mut smaller.functions[f], node),
                1 => bypass(&mut smaller.functions[f], node),
                2 => unguard(&mut smaller.functions[f], node),
                3 if f == main => end_at(&mut smaller.functions[f], node),
                _ => None,
            };
            return Some(changed.and_then(|()| prune(smaller)));
        }
        at -= count * 4;
    }
    if at < main {
        // A function as the program.
        let mut smaller = program.clone();
        smaller.functions.truncate(at + 1);
        return Some(prune(smaller));
    }
    None
}

/// The results of an operator become parameters.
fn cut(function: &mut Function, node: usize) -> Option<()> {
    let node = function.nodes.remove(node);
    for id in &node.results {
        function.params.push(Param { value: *id, kind: ParamKind::Input });
    }
    Some(())
}

/// An operand of the type of the result stands in for it.
fn bypass(function: &mut Function, node: usize) -> Option<()> {
    let node = function.nodes.get(node)?.clone();
    let [result] = node.results.as_slice() else { return None };
    let wanted = &function.value(*result).ty;
    let other = node.operands.iter().find_map(|operand| match operand {
        Operand::Value { value, .. } if function.value(*value).ty == *wanted => Some(*value),
        _ => None,
    })?;
    let replace = |id: &mut ValueId| {
        if *id == *result {
            *id = other;
        }
    };
    function.nodes.iter_mut().for_each(|node| each_value(node, &mut |id| replace(id)));
    function.results.iter_mut().for_each(replace);
    Some(())
}

/// An operator loses its guard, or one of its masks.
fn unguard(function: &mut Function, node: usize) -> Option<()> {
    let (Op::Reduce { guard, .. } | Op::Contract { guard, .. }) = &mut function.nodes.get_mut(node)?.op
    else {
        return None;
    };
    if guard.masks.pop().is_some() {
        return Some(());
    }
    (std::mem::replace(&mut guard.condition, Cond::True) != Cond::True).then_some(())
}

/// The program returns the results of an operator, and nothing else.
fn end_at(function: &mut Function, node: usize) -> Option<()> {
    let results = function.nodes.get(node)?.results.clone();
    (results != function.results).then(|| function.results = results)
}

/// Calls `f` with every value that an operator reads.
fn each_value(node: &mut Node, f: &mut dyn FnMut(&mut ValueId)) {
    for operand in &mut node.operands {
        if let Operand::Value { value, .. } = operand {
            f(value);
        }
    }
    if let Op::Reduce { guard, .. } | Op::Contract { guard, .. } = &mut node.op {
        guard.masks.iter_mut().for_each(|(mask, _)| f(mask));
    }
}

/// The program without operators, parameters, functions and facts that nothing needs, its values renumbered.
fn prune(program: Program) -> Option<Program> {
    let main = program.functions.len().checked_sub(1)?;
    let mut functions: Vec<Function> = Vec::new();
    for (k, function) in program.functions.iter().enumerate() {
        functions.push(prune_function(function, k == main)?);
    }
    // Functions that nothing applies.
    let mut used = BTreeSet::from([main]);
    for k in (0..functions.len()).rev() {
        if used.contains(&k) {
            used.extend(functions[k].nodes.iter().filter_map(callee).map(|id| id.0 as usize));
        }
    }
    let numbers: BTreeMap<usize, u32> = used.iter().copied().zip(0..).collect();
    let mut kept: Vec<Function> =
        functions.into_iter().enumerate().filter(|(k, _)| used.contains(k)).map(|(_, f)| f).collect();
    for node in kept.iter_mut().flat_map(|function| &mut function.nodes) {
        if let Op::Call { function } | Op::Repeat { function, .. } = &mut node.op {
            *function = FunctionId(*numbers.get(&(function.0 as usize))?);
        }
    }
    let facts = prune_facts(&program.facts, &kept);
    Some(Program { functions: kept, facts })
}

fn callee(node: &Node) -> Option<FunctionId> {
    match node.op {
        Op::Call { function } | Op::Repeat { function, .. } => Some(function),
        _ => None,
    }
}

fn prune_function(function: &Function, is_main: bool) -> Option<Function> {
    let mut needed: BTreeSet<ValueId> = BTreeSet::new();
    let mut open: Vec<ValueId> = function.results.clone();
    if !is_main {
        open.extend(function.params.iter().map(|param| param.value));
    }
    let tables = |dims: &[tilewright::dim::Dim]| -> Vec<ValueId> {
        dims.iter().flat_map(|dim| dim.tables()).filter_map(|table| function.find(&table)).collect()
    };
    while let Some(id) = open.pop() {
        if !needed.insert(id) {
            continue;
        }
        let value = function.values.get(id.0 as usize)?;
        let extents: Vec<_> = value.ty.axes.iter().map(|axis| axis.extent.clone()).collect();
        open.extend(tables(&extents));
        let Some(node) = function.nodes.iter().find(|node| node.results.contains(&id)) else { continue };
        let mut node = node.clone();
        open.extend(&node.results);
        open.extend(tables(&dims_of(&node.op)));
        for operand in &node.operands {
            if let Operand::Dim(dim) = operand {
                open.extend(tables(std::slice::from_ref(dim)));
            }
        }
        each_value(&mut node, &mut |id| open.push(*id));
    }
    let mut values: Vec<Value> = Vec::new();
    let mut numbers: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut number = |id: ValueId| {
        values.push(function.values.get(id.0 as usize)?.clone());
        let new = ValueId(values.len() as u32 - 1);
        numbers.insert(id, new);
        Some(new)
    };
    let mut params = Vec::new();
    for param in function.params.iter().filter(|param| needed.contains(&param.value)) {
        params.push(Param { value: number(param.value)?, kind: param.kind });
    }
    let mut nodes: Vec<Node> = function
        .nodes
        .iter()
        .filter(|node| node.results.iter().any(|id| needed.contains(id)))
        .cloned()
        .collect();
    for node in &mut nodes {
        for id in &mut node.results {
            *id = number(*id)?;
        }
    }
    let mut complete = true;
    let mut renumber = |id: &mut ValueId| match numbers.get(id) {
        Some(new) => *id = *new,
        None => complete = false,
    };
    nodes.iter_mut().for_each(|node| each_value(node, &mut renumber));
    let mut results = function.results.clone();
    results.iter_mut().for_each(renumber);
    complete.then(|| Function { name: function.name.clone(), params, values, nodes, results })
}

/// The facts on what the functions mention.
fn prune_facts(facts: &Facts, functions: &[Function]) -> Facts {
    let mut dims = Vec::new();
    let mut names: BTreeSet<Symbol> = BTreeSet::new();
    for function in functions {
        dims.extend(
            function.values.iter().flat_map(|value| value.ty.axes.iter().map(|axis| axis.extent.clone())),
        );
        for node in &function.nodes {
            dims.extend(dims_of(&node.op));
            dims.extend(node.operands.iter().filter_map(|operand| match operand {
                Operand::Dim(dim) => Some(dim.clone()),
                _ => None,
            }));
        }
    }
    for table in facts.tables() {
        let known = functions.last().is_some_and(|main| main.find(table).is_some());
        if known {
            names.insert(table.clone());
            let ends = [facts.splits(table), facts.table_range(table)];
            dims.extend(ends.into_iter().flatten().flat_map(|(a, b)| [a.clone(), b.clone()]));
        }
    }
    names.extend(dims.iter().flat_map(|dim| dim.symbols()));
    let mut kept = Facts::new();
    for symbol in facts.symbols().filter(|symbol| names.contains(*symbol)) {
        if let Some((lo, hi)) = facts.range(symbol) {
            // Facts that were declared once can be declared again.
            let _ = kept.declare(symbol, lo, hi);
        }
        if let Some(divisor) = facts.divisor(symbol) {
            let _ = kept.declare_divisor(symbol, divisor);
        }
    }
    for table in facts.tables().filter(|table| names.contains(*table)) {
        if let Some((parts, total)) = facts.splits(table) {
            let _ = kept.declare_splits(table, parts, total);
        }
        if let Some((lo, hi)) = facts.table_range(table) {
            let _ = kept.declare_range(table, lo, hi);
        }
    }
    kept
}
