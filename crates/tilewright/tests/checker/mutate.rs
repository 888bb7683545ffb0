//! Mutation operators: each changes one place of a program so that it stays legal and, most often, becomes wrong.

use super::random::Random;
use tilewright::dim::{Cond, Dim, Symbol};
use tilewright::tensor::elementwise::{self, Elementwise, TypeRule};
use tilewright::tensor::ir::{Attribute, Function, Node, Op, Operand, Program};
use tilewright::tensor::{Scalar, monoid};

/// A mutation operator: changes a node, if it fits.
pub type Mutation = fn(&Function, &mut Node, &mut Random) -> Option<()>;

/// Every mutation operator by name.
pub const MUTATIONS: &[(&str, Mutation)] = &[
    ("swapped operands", |_, node, _| {
        let function = function(node)?;
        ["sub", "div", "pow", "lt", "gt", "le", "ge"].contains(&function.name).then_some(())?;
        node.operands.swap(0, 1);
        Some(())
    }),
    ("swapped choices", |_, node, _| {
        (function(node)?.types == TypeRule::Select).then_some(())?;
        node.operands.swap(1, 2);
        Some(())
    }),
    ("sum for difference", |_, node, _| replace(node, &[("sub", "add"), ("add", "sub")])),
    ("product for quotient", |_, node, _| replace(node, &[("div", "mul"), ("mul", "div")])),
    ("sum for product", |_, node, _| replace(node, &[("mul", "add")])),
    ("other exponential", |_, node, _| replace(node, &[("exp", "exp2"), ("log", "log1p")])),
    ("other activation", |_, node, _| {
        replace(node, &[("sigmoid", "tanh"), ("tanh", "sigmoid"), ("exp", "sigmoid")])
    }),
    ("root for inverse root", |_, node, _| replace(node, &[("rsqrt", "sqrt"), ("sqrt", "rsqrt")])),
    ("min for max of two", |_, node, _| replace(node, &[("max", "min"), ("min", "max")])),
    ("negated comparison", |_, node, _| {
        replace(node, &[("lt", "ge"), ("ge", "lt"), ("gt", "le"), ("eq", "ne"), ("ne", "eq")])
    }),
    ("dropped function", |_, node, _| {
        let function = function(node)?;
        (function.arity == 1 && function.types == TypeRule::Float).then_some(())?;
        node.op = Op::Elementwise { function: elementwise::find("cast")? };
        Some(())
    }),
    ("missing scale", |f, node, _| drop_second(f, node, &["mul", "div"])),
    ("missing shift", |f, node, _| drop_second(f, node, &["add", "sub"])),
    ("dropped select", |f, node, random| {
        (function(node)?.types == TypeRule::Select).then_some(())?;
        let kept = node.operands.get(1 + random.below(2))?.clone();
        only(f, node, kept)
    }),
    ("squared", |f, node, _| {
        (function(node)?.name == "mul").then_some(())?;
        full(f, node, 0)?;
        node.operands[1] = node.operands[0].clone();
        Some(())
    }),
    ("max for sum", |_, node, _| other_monoid(node, "sum", "max")),
    ("product for sum", |_, node, _| other_monoid(node, "sum", "prod")),
    ("sum for max", |_, node, _| other_monoid(node, "max", "sum")),
    ("min for max", |_, node, _| other_monoid(node, "max", "min")),
    ("wrong axis", |f, node, random| {
        let k = random.below(node.operands.len());
        let Operand::Value { value, labels } = node.operands.get_mut(k)? else { return None };
        let ty = &f.value(*value).ty;
        let (a, b) = (random.below(labels.len()), random.below(labels.len()));
        (a != b && ty.axes[a].extent == ty.axes[b].extent).then_some(())?;
        labels.swap(a, b);
        Some(())
    }),
    ("dropped guard", |_, node, _| {
        let guard = guard(node)?;
        (!guard.is_always()).then_some(())?;
        *guard = tilewright::tensor::ir::Guard::always();
        Some(())
    }),
    ("dropped mask", |_, node, _| guard(node)?.masks.pop().map(|_| ())),
    ("guard off by one", |_, node, random| {
        let by = if random.below(2) == 0 { 1 } else { -1 };
        shift_guard(&mut guard(node)?.condition, by)
    }),
    ("other guard", |_, node, _| {
        let condition = &mut guard(node)?.condition;
        (*condition != Cond::True).then_some(())?;
        *condition = !condition.clone();
        Some(())
    }),
    ("last element left out", |f, node, random| {
        let over: Vec<(Symbol, Dim)> = reduced(f, node);
        let (label, extent) = over.get(random.below(over.len()))?.clone();
        let guard = guard(node)?;
        guard.condition = guard.condition.clone().and(Cond::lt(Dim::symbol(label), extent - 1));
        Some(())
    }),
    ("first element left out", |f, node, random| {
        let over = reduced(f, node);
        let (label, _) = over.get(random.below(over.len()))?.clone();
        let guard = guard(node)?;
        guard.condition = guard.condition.clone().and(Cond::gt(Dim::symbol(label), 0));
        Some(())
    }),
    ("output partly unwritten", |f, node, random| {
        matches!(node.op, Op::Contract { .. } | Op::Reduce { .. }).then_some(())?;
        let at = random.below(node.result_labels.len());
        let label = node.result_labels.get(at)?.clone();
        let extent = f.value(*node.results.first()?).ty.axes.get(at)?.extent.clone();
        let guard = guard(node)?;
        guard.condition = guard.condition.clone().and(Cond::lt(Dim::symbol(label), extent - 1));
        Some(())
    }),
    ("other literal", |_, node, random| {
        let operand = node.operands.iter_mut().find(|operand| matches!(operand, Operand::Literal(_)))?;
        let Operand::Literal(Scalar::Float(x)) = operand else { return None };
        x.is_finite().then_some(())?;
        *x = match random.below(3) {
            0 => *x * 10.0 + 1e-3,
            1 => -*x - 1.0,
            _ => *x + 1.0,
        };
        Some(())
    }),
    ("other size", |_, node, _| {
        let operand = node.operands.iter_mut().find(|operand| matches!(operand, Operand::Dim(_)))?;
        let Operand::Dim(dim) = operand else { return None };
        *dim = dim.clone() + 1;
        Some(())
    }),
    ("stale operand", |f, node, random| {
        let k = random.below(node.operands.len());
        let Operand::Value { value, .. } = node.operands.get_mut(k)? else { return None };
        let own = f.value(*value).ty.clone();
        let same: Vec<u32> = (0..value.0)
            .filter(|id| {
                f.values[*id as usize].ty.dtype == own.dtype
                    && f.values[*id as usize].ty.axes.len() == own.axes.len()
                    && f.values[*id as usize].ty.axes.iter().zip(&own.axes).all(|(a, b)| a.extent == b.extent)
            })
            .collect();
        value.0 = *same.get(random.below(same.len()))?;
        Some(())
    }),
    ("slice off by one", |_, node, _| {
        let Op::Special { attributes, .. } = &mut node.op else { return None };
        let attribute = attributes.iter_mut().find(|attribute| matches!(attribute, Attribute::Dim(_)))?;
        let Attribute::Dim(dim) = attribute else { return None };
        *dim = dim.clone() + 1;
        Some(())
    }),
];

/// A mutant of a program: one operator at one place of its main function.
pub fn mutant(program: &Program, mutation: Mutation, random: &mut Random) -> Option<Program> {
    let mut mutant = program.clone();
    let main = mutant.functions.last_mut()?;
    let at = random.below(main.nodes.len());
    let mut node = main.nodes.get(at)?.clone();
    mutation(main, &mut node, random)?;
    main.nodes[at] = node;
    (tilewright::tensor::verify::verify(&mutant).is_ok() && mutant != *program).then_some(mutant)
}

/// Two neighbouring functions of one argument in the other order: an epsilon moved out of a root, a cast moved, a scale after
/// an exponential.
pub fn exchanged(program: &Program, random: &mut Random) -> Option<Program> {
    let mut mutant = program.clone();
    let main = mutant.functions.last_mut()?;
    let first = random.below(main.nodes.len());
    let result = *main.nodes.get(first)?.results.first()?;
    let reads = |node: &Node| {
        node.operands.iter().filter(|x| matches!(x, Operand::Value { value, .. } if *value == result)).count()
    };
    let second = main.nodes.iter().position(|node| reads(node) == 1)?;
    let (a, b) = (main.nodes[first].clone(), main.nodes[second].clone());
    let single = |node: &Node| {
        matches!(node.op, Op::Elementwise { .. })
            && node.operands.iter().filter(|x| matches!(x, Operand::Value { .. })).count() == 1
    };
    (single(&a) && single(&b) && a.op != b.op && a.result_labels == b.result_labels).then_some(())?;
    let place = |node: &Node| node.operands.iter().position(|x| matches!(x, Operand::Value { .. }));
    let (at_a, at_b) = (place(&a)?, place(&b)?);
    let mut operands_a = b.operands.clone();
    operands_a[at_b] = a.operands[at_a].clone();
    let mut operands_b = a.operands.clone();
    operands_b[at_a] = b.operands[at_b].clone();
    main.nodes[first] = Node { op: b.op.clone(), operands: operands_a, ..a.clone() };
    main.nodes[second] = Node { op: a.op, operands: operands_b, ..b };
    tilewright::tensor::verify::verify(&mutant).is_ok().then_some(mutant)
}

fn function(node: &Node) -> Option<&'static Elementwise> {
    match &node.op {
        Op::Elementwise { function } => Some(function),
        _ => None,
    }
}

fn replace(node: &mut Node, by: &[(&str, &str)]) -> Option<()> {
    let name = function(node)?.name;
    let (_, other) = by.iter().find(|(from, _)| *from == name)?;
    node.op = Op::Elementwise { function: elementwise::find(other)? };
    Some(())
}

/// Whether an operand has all axes of the result.
fn full(f: &Function, node: &Node, k: usize) -> Option<()> {
    let Operand::Value { value, labels } = node.operands.get(k)? else { return None };
    let result = *node.results.first()?;
    (labels.len() == node.result_labels.len() && f.value(*value).ty.dtype == f.value(result).ty.dtype)
        .then_some(())
}

fn only(f: &Function, node: &mut Node, kept: Operand) -> Option<()> {
    node.operands = vec![kept];
    full(f, node, 0)?;
    node.op = Op::Elementwise { function: elementwise::find("cast")? };
    Some(())
}

fn drop_second(f: &Function, node: &mut Node, names: &[&str]) -> Option<()> {
    names.contains(&function(node)?.name).then_some(())?;
    let kept = node.operands.first()?.clone();
    only(f, node, kept)
}

fn other_monoid(node: &mut Node, from: &str, to: &str) -> Option<()> {
    let Op::Reduce { monoid, .. } = &mut node.op else { return None };
    (monoid.name == from).then_some(())?;
    *monoid = monoid::find(to)?;
    Some(())
}

fn guard(node: &mut Node) -> Option<&mut tilewright::tensor::ir::Guard> {
    match &mut node.op {
        Op::Reduce { guard, .. } | Op::Contract { guard, .. } => Some(guard),
        _ => None,
    }
}

/// The labels that are reduced, with their extents where those are free of labels.
fn reduced(f: &Function, node: &Node) -> Vec<(Symbol, Dim)> {
    let mut found = Vec::new();
    if !matches!(node.op, Op::Reduce { .. } | Op::Contract { .. }) {
        return found;
    }
    for operand in &node.operands {
        let Operand::Value { value, labels } = operand else { continue };
        for (label, axis) in labels.iter().zip(&f.value(*value).ty.axes) {
            if !node.result_labels.contains(label) && axis.extent.tables().is_empty() {
                found.push((label.clone(), axis.extent.clone()));
            }
        }
    }
    found
}

fn shift_guard(condition: &mut Cond, by: i64) -> Option<()> {
    match condition {
        Cond::Compare(a, relation, b) => {
            *condition = Cond::compare(a.clone(), *relation, b.clone() + by);
            Some(())
        }
        Cond::And(parts) | Cond::Or(parts) => shift_guard(parts.first_mut()?, by),
        Cond::Not(inner) => shift_guard(inner, by),
        _ => None,
    }
}
