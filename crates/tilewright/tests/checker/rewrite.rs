//! Right rewritings, each of one node of a program: what the checker must accept. They are written here by hand, apart
//! from the rules of the engine.

use super::random::Random;
use tilewright::dim::{Dim, Symbol};
use tilewright::tensor::build::{FunctionBuilder, ProgramBuilder};
use tilewright::tensor::infer::has_to;
use tilewright::tensor::ir::{Attribute, Axis, Function, Guard, Node, Op, Operand, Program, ValueId};
use tilewright::tensor::{DType, elementwise, monoid, ops};

/// A function being rebuilt.
pub struct Rebuild<'a> {
    pub from: &'a Function,
    pub builder: FunctionBuilder,
    map: Vec<Option<ValueId>>,
}

/// A rewriting: emits what replaces a node and gives its value, or does not apply.
pub type Rewriting = fn(&mut Rebuild, &Node) -> Option<ValueId>;

impl Rebuild<'_> {
    /// An operand of the old function in the new one.
    fn operand(&self, operand: &Operand) -> Option<Operand> {
        Some(match operand {
            Operand::Value { value, labels } => Operand::Value {
                value: self.map.get(value.0 as usize).copied().flatten()?,
                labels: labels.clone(),
            },
            other => other.clone(),
        })
    }

    fn op(&self, op: &Op) -> Option<Op> {
        let mut op = op.clone();
        if let Op::Reduce { guard, .. } | Op::Contract { guard, .. } = &mut op {
            for (mask, _) in &mut guard.masks {
                *mask = self.map.get(mask.0 as usize).copied().flatten()?;
            }
        }
        Some(op)
    }

    /// Adds an operator with the labels and axis names of an old node's result.
    fn like(&mut self, node: &Node, op: Op, operands: Vec<Operand>) -> Option<ValueId> {
        let ty = self.from.value(*node.results.first()?).ty.clone();
        let stated: Vec<Axis> = if node.result_labels.len() == ty.axes.len() {
            let axis =
                |(axis, label): (&Axis, &Symbol)| Axis { name: axis.name.clone(), extent: label.into() };
            ty.axes.iter().zip(&node.result_labels).map(axis).collect()
        } else {
            ty.axes.clone()
        };
        let name = self.builder.fresh("whole_");
        let to = has_to(&op).then_some(ty.dtype);
        let results = self.builder.op(&[&name], op, operands, Some(vec![stated]), to).ok()?;
        results.first().copied()
    }

    fn apply(&mut self, node: &Node, function: &str, operands: Vec<Operand>) -> Option<ValueId> {
        self.like(node, Op::Elementwise { function: elementwise::find(function)? }, operands)
    }

    /// A function of one operand, with the operand's axes under its labels.
    fn unary(&mut self, function: &str, operand: &Operand) -> Option<Operand> {
        let value = self.builder.elementwise("part_", function, [operand.clone()]).ok()?;
        self.relabel(value, operand)
    }

    /// A value that has the axes of an operand's labels, as an operand.
    fn relabel(&self, value: ValueId, like: &Operand) -> Option<Operand> {
        let Operand::Value { labels, .. } = like else { return None };
        let own = self.builder.ty(value).labels();
        let order: Option<Vec<Symbol>> =
            own.iter().map(|name| labels.iter().find(|label| *label == name).cloned()).collect();
        order.map(|labels| Operand::Value { value, labels })
    }

    /// A value under the labels of a node's result.
    fn under(&self, value: ValueId, node: &Node) -> Operand {
        Operand::Value { value, labels: node.result_labels.clone() }
    }

    /// The node that defines an operand.
    fn definition<'o>(&self, operand: &'o Operand) -> Option<(Node, &'o [Symbol])> {
        let Operand::Value { value, labels } = operand else { return None };
        let node = self.from.nodes.iter().find(|node| node.results == [*value])?;
        Some((node.clone(), labels))
    }
}

/// Every rewriting by name.
pub const REWRITINGS: &[(&str, Rewriting)] = &[
    ("commuted operands", |r, node| {
        let commutes = match &node.op {
            Op::Elementwise { function } => ["add", "mul", "max", "min", "eq", "ne"].contains(&function.name),
            Op::Contract { .. } => node.operands.len() == 2,
            _ => false,
        };
        commutes.then_some(())?;
        let mut operands = node.operands.iter().map(|x| r.operand(x)).collect::<Option<Vec<_>>>()?;
        operands.reverse();
        let op = r.op(&node.op)?;
        r.like(node, op, operands)
    }),
    ("difference as sum", |r, node| {
        let [a, b] = named(node, "sub")?;
        let (a, b) = (r.operand(a)?, r.operand(b)?);
        let minus = r.unary("neg", &b)?;
        r.apply(node, "add", vec![a, minus])
    }),
    ("quotient as product", |r, node| {
        let [a, b] = named(node, "div")?;
        let (a, b) = (r.operand(a)?, r.operand(b)?);
        let Operand::Value { labels, .. } = &b else { return None };
        let labels = labels.clone();
        let names: Vec<&str> = labels.iter().map(Symbol::as_str).collect();
        let inverse = r.builder.elementwise_to("part_", "div", [1.0.into(), b.clone()], names).ok()?;
        r.apply(node, "mul", vec![a, Operand::Value { value: inverse, labels }])
    }),
    ("swapped comparison", |r, node| {
        let Op::Elementwise { function } = &node.op else { return None };
        let pairs = [("lt", "gt"), ("gt", "lt"), ("le", "ge"), ("ge", "le")];
        let (_, other) = pairs.iter().find(|(name, _)| *name == function.name)?;
        let mut operands = node.operands.iter().map(|x| r.operand(x)).collect::<Option<Vec<_>>>()?;
        operands.reverse();
        r.apply(node, other, operands)
    }),
    ("swapped choices", |r, node| {
        let Op::Elementwise { function } = &node.op else { return None };
        (function.name == "select").then_some(())?;
        let operands = node.operands.iter().map(|x| r.operand(x)).collect::<Option<Vec<_>>>()?;
        let not = r.unary("not", &operands[0])?;
        r.apply(node, "select", vec![not, operands[2].clone(), operands[1].clone()])
    }),
    ("root and quotient", |r, node| {
        let Op::Elementwise { function } = &node.op else { return None };
        (function.name == "rsqrt").then_some(())?;
        let operand = r.operand(node.operands.first()?)?;
        let root = r.builder.elementwise("part_", "sqrt", [operand]).ok()?;
        r.apply(node, "div", vec![1.0.into(), Operand::from(root)])
    }),
    ("sigmoid by exponential", |r, node| {
        let Op::Elementwise { function } = &node.op else { return None };
        (function.name == "sigmoid").then_some(())?;
        let operand = r.operand(node.operands.first()?)?;
        let minus = r.unary("neg", &operand)?;
        let power = r.unary("exp", &minus)?;
        let below = r.builder.elementwise("part_", "add", [power, 1.0.into()]).ok()?;
        let below = r.relabel(below, &operand)?;
        r.apply(node, "div", vec![1.0.into(), below])
    }),
    ("negated twice", |r, node| {
        let Op::Elementwise { function } = &node.op else { return None };
        ["exp", "log", "sqrt", "neg", "tanh", "rsqrt", "erf"].contains(&function.name).then_some(())?;
        let operand = r.operand(node.operands.first()?)?;
        let minus = r.unary("neg", &operand)?;
        let plus = r.unary("neg", &minus)?;
        r.apply(node, function.name, vec![plus])
    }),
    ("exponential of a difference", |r, node| {
        let [a, b] = {
            let Op::Elementwise { function } = &node.op else { return None };
            (function.name == "exp").then_some(())?;
            let operand = node.operands.first()?;
            let (inner, labels) = r.definition(operand)?;
            (inner.result_labels == labels).then_some(())?;
            let [a, b] = named(&inner, "sub")?;
            [a.clone(), b.clone()]
        };
        let (a, b) = (r.operand(&a)?, r.operand(&b)?);
        let minus = r.unary("neg", &b)?;
        let (x, y) = (r.unary("exp", &a)?, r.unary("exp", &minus)?);
        r.apply(node, "mul", vec![x, y])
    }),
    ("factor behind a contraction", |r, node| {
        let Op::Contract { guard, accumulate } = &node.op else { return None };
        let (k, inner, labels) = node.operands.iter().enumerate().find_map(|(k, operand)| {
            let (inner, labels) = r.definition(operand)?;
            Some((k, inner, labels.to_vec()))
        })?;
        let (x, s, function) = match (named(&inner, "mul"), named(&inner, "div")) {
            (Some([x, s]), _) => (x.clone(), s.clone(), "mul"),
            (_, Some([x, s])) => (x.clone(), s.clone(), "div"),
            _ => return None,
        };
        // The labels of the inner operator by those of the contraction.
        let outer = |label: &Symbol| {
            inner.result_labels.iter().position(|own| own == label).and_then(|at| labels.get(at)).cloned()
        };
        let renamed = |operand: &Operand| match operand {
            Operand::Value { value, labels } => {
                let labels: Option<Vec<Symbol>> = labels.iter().map(outer).collect();
                Some(Operand::Value { value: *value, labels: labels? })
            }
            other => Some(other.clone()),
        };
        let (x, s) = (renamed(&x)?, renamed(&s)?);
        let Operand::Value { labels: x_labels, .. } = &x else { return None };
        (x_labels.len() == labels.len()).then_some(())?;
        if let Operand::Value { labels, .. } = &s {
            labels.iter().all(|label| node.result_labels.contains(label)).then_some(())?;
        }
        let mut operands = node.operands.iter().map(|x| r.operand(x)).collect::<Option<Vec<_>>>()?;
        operands[k] = r.operand(&x)?;
        let op = r.op(&Op::Contract { guard: guard.clone(), accumulate: *accumulate })?;
        let product = r.like(node, op, operands)?;
        let s = r.operand(&s)?;
        let product = r.under_axes(product, node);
        r.apply(node, function, vec![product, s])
    }),
    ("factor behind a sum", |r, node| {
        let Op::Reduce { monoid, .. } = &node.op else { return None };
        (monoid.name == "sum").then_some(())?;
        let (inner, labels) = r.definition(node.operands.first()?)?;
        (inner.result_labels == labels).then_some(())?;
        let [x, s] = named(&inner, "mul").or_else(|| named(&inner, "div"))?.map(Clone::clone);
        let divides = named(&inner, "div").is_some();
        let full = matches!(&x, Operand::Value { labels: own, .. } if own.len() == labels.len());
        full.then_some(())?;
        if let Operand::Value { labels, .. } = &s {
            labels.iter().all(|label| node.result_labels.contains(label)).then_some(())?;
        }
        let (x, s, op) = (r.operand(&x)?, r.operand(&s)?, r.op(&node.op)?);
        let sum = r.like(node, op, vec![x])?;
        let sum = r.under_axes(sum, node);
        r.apply(node, if divides { "div" } else { "mul" }, vec![sum, s])
    }),
    ("contraction as product and sum", |r, node| {
        let Op::Contract { guard, accumulate } = &node.op else { return None };
        (node.operands.len() == 2).then_some(())?;
        let result = r.from.value(*node.results.first()?).ty.dtype;
        let operands = node.operands.iter().map(|x| r.operand(x)).collect::<Option<Vec<_>>>()?;
        let mut labels: Vec<Symbol> = node.result_labels.clone();
        let mut over = Vec::new();
        for operand in &operands {
            let Operand::Value { value, labels: own } = operand else { return None };
            (r.builder.ty(*value).dtype == DType::F32 && result == DType::F32).then_some(())?;
            for label in own {
                if !labels.contains(label) {
                    labels.push(label.clone());
                    over.push(label.clone());
                }
            }
        }
        (!over.is_empty()).then_some(())?;
        let names: Vec<&str> = labels.iter().map(Symbol::as_str).collect();
        let product = r.builder.elementwise_to("part_", "mul", operands, names).ok()?;
        let op =
            Op::Reduce { monoid: monoid::find("sum")?, over, guard: guard.clone(), accumulate: *accumulate };
        let op = r.op(&op)?;
        r.like(node, op, vec![Operand::Value { value: product, labels }])
    }),
    ("split of a reduction", |r, node| split(r, node, 2)),
    ("split of a reduction by 1", |r, node| split(r, node, 1)),
    ("split of a reduction by 3", |r, node| split(r, node, 3)),
];

impl Rebuild<'_> {
    fn under_axes(&self, value: ValueId, node: &Node) -> Operand {
        self.under(value, node)
    }
}

fn named<'n>(node: &'n Node, name: &str) -> Option<[&'n Operand; 2]> {
    match (&node.op, node.operands.as_slice()) {
        (Op::Elementwise { function }, [a, b]) if function.name == name => Some([a, b]),
        _ => None,
    }
}

/// `⊕ x over k` as the combination of parts of size `c`, the guard over positions in parts.
fn split(r: &mut Rebuild, node: &Node, c: i64) -> Option<ValueId> {
    let Op::Reduce { monoid, over, guard, accumulate } = &node.op else { return None };
    let [over] = over.as_slice() else { return None };
    (monoid.result == 0 && guard.masks.is_empty()).then_some(())?;
    let operand = r.operand(node.operands.first()?)?;
    let Operand::Value { value, labels } = &operand else { return None };
    let ty = r.builder.ty(*value).clone();
    let at = labels.iter().position(|label| label == over)?;
    let own = ty.axes.get(at)?.name.clone();
    (*labels == ty.labels() && !own.as_str().is_empty()).then_some(())?;
    let attributes = vec![Attribute::Labels(vec![own]), Attribute::Dim(Dim::constant(c))];
    let parts = r.builder.special("part_", "split", [operand.clone()], attributes, None).ok()?;
    let split_labels = r.builder.ty(parts).labels();
    let (s, rest) = (split_labels.get(at)?.clone(), split_labels.get(at + 1)?.clone());
    let position = Dim::symbol(s.clone()) * c + Dim::symbol(rest.clone());
    let condition = guard.condition.substitute(&|symbol| (symbol == over).then(|| position.clone()));
    let inner = Op::Reduce {
        monoid,
        over: vec![rest],
        guard: Guard { condition, masks: Vec::new() },
        accumulate: *accumulate,
    };
    let name = r.builder.fresh("part_");
    let partial = *r
        .builder
        .op(&[&name], inner, vec![Operand::Value { value: parts, labels: split_labels }], None, None)
        .ok()?
        .first()?;
    let labels = r.builder.ty(partial).labels();
    let outer = Op::Reduce { monoid, over: vec![s], guard: Guard::always(), accumulate: *accumulate };
    let _ = ops::find("split")?;
    r.like(node, outer, vec![Operand::Value { value: partial, labels }])
}

/// A program with one node of its main function rewritten.
pub fn rewritten(program: &Program, rewriting: Rewriting, random: &mut Random) -> Option<Program> {
    let main = program.functions.last()?;
    (program.functions.len() == 1).then_some(())?;
    let at = random.below(main.nodes.len());
    let new = ProgramBuilder::new(program.facts.clone());
    let mut rebuild =
        Rebuild { from: main, builder: new.start(main.name.as_str()), map: vec![None; main.values.len()] };
    for param in &main.params {
        let value = main.value(param.value);
        let id = rebuild.builder.param(value.name.as_str(), value.ty.clone(), param.kind).ok()?;
        rebuild.map[param.value.0 as usize] = Some(id);
    }
    for (k, node) in main.nodes.iter().enumerate() {
        if k == at {
            let value = rewriting(&mut rebuild, node)?;
            rebuild.map[node.results.first()?.0 as usize] = Some(value);
            continue;
        }
        let operands = node.operands.iter().map(|x| rebuild.operand(x)).collect::<Option<Vec<_>>>()?;
        let op = rebuild.op(&node.op)?;
        let types: Vec<_> = node.results.iter().map(|id| main.value(*id)).collect();
        let names: Vec<String> = types.iter().map(|value| value.name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let labelled = matches!(op, Op::Elementwise { .. } | Op::Reduce { .. } | Op::Contract { .. });
        let stated: Vec<Vec<Axis>> = types
            .iter()
            .map(|value| {
                let axes = value.ty.axes.iter();
                if labelled {
                    let label = |(axis, label): (&Axis, &Symbol)| Axis {
                        name: axis.name.clone(),
                        extent: label.into(),
                    };
                    axes.zip(&node.result_labels).map(label).collect()
                } else {
                    axes.cloned().collect()
                }
            })
            .collect();
        let to = types.first().map(|value| value.ty.dtype).filter(|_| has_to(&op));
        // A shape rule may refuse axes that say nothing new.
        let plain = if labelled {
            None
        } else {
            rebuild.builder.op(&names, op.clone(), operands.clone(), None, to).ok()
        };
        let results = match plain {
            Some(results) => results,
            None => rebuild.builder.op(&names, op, operands, Some(stated), to).ok()?,
        };
        for (old, new) in node.results.iter().zip(results) {
            rebuild.map[old.0 as usize] = Some(new);
        }
    }
    let results: Option<Vec<ValueId>> = main.results.iter().map(|id| rebuild.map[id.0 as usize]).collect();
    let function = rebuild.builder.finish(&results?).ok()?;
    let mut new = new;
    new.function(function).ok()?;
    new.finish().ok()
}
