//! [`Code`] and [`CondCode`]: dims and conds compiled for repeated evaluation.
//!
//! Compiling binds every symbol but the `vars` (the slots), folds, and leaves a linear form where there is one,
//! else a small postfix program. Both run in checked 64-bit arithmetic on a fixed stack, without allocation.
//! Where they give no value (overflow on the way, a zero divisor, a missing element or slot), the dim as it was
//! compiled is evaluated instead, so results and errors are those of [`Dim::eval`].

use super::expr;
use super::{Atom, Cond, Dim, Env, EvalError, Relation, Scope, Symbol};

/// The stack of a program; a deeper program always takes the slow way.
const STACK: usize = 32;

#[derive(Clone, Debug)]
enum Op {
    Constant(i64),
    Slot(usize),
    Add,
    Mul,
    FloorDiv,
    CeilDiv,
    Mod,
    Min,
    Max,
    /// A table and the number of its indices.
    Element(Symbol, usize),
}

#[derive(Clone, Debug)]
enum Form {
    /// One coefficient per slot, and the constant.
    Affine(Vec<i64>, i64),
    Program(Vec<Op>),
}

/// Symbols bound when the code was made, and the names of the slots.
#[derive(Clone, Debug)]
struct Captured {
    vars: Vec<Symbol>,
    names: Vec<Symbol>,
    values: Vec<i64>,
}

impl Captured {
    fn new(
        symbols: impl IntoIterator<Item = Symbol>,
        vars: &[Symbol],
        env: &dyn Env,
    ) -> Result<Captured, EvalError> {
        let names: Vec<Symbol> = symbols.into_iter().filter(|s| !vars.contains(s)).collect();
        let value = |name: &Symbol| env.symbol(name).ok_or_else(|| EvalError::Unbound(name.clone()));
        let values = names.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Captured { vars: vars.to_vec(), names, values })
    }

    /// The dim with the bound symbols and the elements that `env` knows already as integers.
    fn fold(&self, dim: &Dim, env: &dyn Env) -> Dim {
        dim.rewrite(&mut |leaf| {
            let value = match leaf {
                Atom::Symbol(symbol) => self.names.iter().position(|n| n == symbol).map(|i| self.values[i]),
                Atom::Element(table, index) => {
                    let index: Option<Vec<i64>> = index.iter().map(Dim::as_constant).collect();
                    index.and_then(|index| env.element(table, &index))
                }
                _ => None,
            };
            value.map(Dim::constant)
        })
    }

    /// Runs `f` with the slots bound over the captured symbols over `env`.
    fn scoped<T>(&self, slots: &[i64], env: &dyn Env, f: impl FnOnce(&dyn Env) -> T) -> T {
        let outer = Scope { parent: env, names: &self.names, values: &self.values };
        f(&Scope { parent: &outer, names: &self.vars, values: slots })
    }
}

impl Form {
    /// The form of a folded dim; a var that is named twice is its last slot.
    fn new(dim: &Dim, vars: &[Symbol]) -> Form {
        let slot = |symbol: &Symbol| vars.iter().rposition(|v| v == symbol);
        let mut coefficients = vec![0; vars.len()];
        let linear = dim.terms().all(|(coefficient, factors)| match factors {
            [Atom::Symbol(symbol)] => slot(symbol).map(|i| coefficients[i] = coefficient).is_some(),
            _ => false,
        });
        if linear {
            return Form::Affine(coefficients, dim.constant_part());
        }
        let mut ops = Vec::new();
        match emit(dim, &slot, &mut ops, 0) {
            Some(()) => Form::Program(ops),
            None => Form::Program(Vec::new()),
        }
    }

    fn eval(&self, slots: &[i64], env: &dyn Env) -> Option<i64> {
        match self {
            Form::Affine(coefficients, constant) => {
                let slots = slots.get(..coefficients.len())?;
                let products = coefficients.iter().zip(slots);
                products.into_iter().try_fold(*constant, |sum, (c, v)| sum.checked_add(c.checked_mul(*v)?))
            }
            Form::Program(ops) => run(ops, slots, env),
        }
    }
}

/// Appends the program of `dim`, which runs on `depth` values; none where a stack would not do or a symbol is no
/// slot.
fn emit(dim: &Dim, slot: &dyn Fn(&Symbol) -> Option<usize>, ops: &mut Vec<Op>, depth: usize) -> Option<()> {
    if depth + 3 > STACK {
        return None;
    }
    let mut empty = dim.constant_part() == 0 && dim.terms().next().is_some();
    if !empty {
        ops.push(Op::Constant(dim.constant_part()));
    }
    for (coefficient, factors) in dim.terms() {
        let base = depth + usize::from(!empty);
        let mut started = coefficient != 1;
        if started {
            ops.push(Op::Constant(coefficient));
        }
        for atom in factors {
            emit_atom(atom, slot, ops, base + usize::from(started))?;
            if started {
                ops.push(Op::Mul);
            }
            started = true;
        }
        if !empty {
            ops.push(Op::Add);
        }
        empty = false;
    }
    Some(())
}

fn emit_atom(
    atom: &Atom,
    slot: &dyn Fn(&Symbol) -> Option<usize>,
    ops: &mut Vec<Op>,
    depth: usize,
) -> Option<()> {
    if let Atom::Symbol(symbol) = atom {
        ops.push(Op::Slot(slot(symbol)?));
        return Some(());
    }
    for (i, operand) in atom.operands().into_iter().enumerate() {
        let folding = matches!(atom, Atom::Min(_) | Atom::Max(_));
        emit(operand, slot, ops, depth + if folding { i.min(1) } else { i })?;
        match atom {
            Atom::Min(_) if i > 0 => ops.push(Op::Min),
            Atom::Max(_) if i > 0 => ops.push(Op::Max),
            _ => {}
        }
    }
    match atom {
        Atom::Symbol(_) | Atom::Min(_) | Atom::Max(_) => {}
        Atom::Element(table, index) => ops.push(Op::Element(table.clone(), index.len())),
        Atom::FloorDiv(..) => ops.push(Op::FloorDiv),
        Atom::CeilDiv(..) => ops.push(Op::CeilDiv),
        Atom::Mod(..) => ops.push(Op::Mod),
        Atom::Overflow => return None,
    }
    Some(())
}

/// The value on top after `ops`, or none where a step has none.
fn run(ops: &[Op], slots: &[i64], env: &dyn Env) -> Option<i64> {
    let mut stack = [0i64; STACK];
    let mut top = 0usize;
    for op in ops {
        let (pops, value) = match op {
            Op::Constant(value) => (0, *value),
            Op::Slot(i) => (0, *slots.get(*i)?),
            Op::Element(table, n) => {
                let base = top.checked_sub(*n)?;
                (*n, env.element(table, stack.get(base..top)?)?)
            }
            op => {
                let base = top.checked_sub(2)?;
                (2, binary(op, *stack.get(base)?, *stack.get(base + 1)?)?)
            }
        };
        top -= pops;
        *stack.get_mut(top)? = value;
        top += 1;
    }
    stack.get(top.checked_sub(1)?).copied()
}

fn binary(op: &Op, a: i64, b: i64) -> Option<i64> {
    let divide = |f: fn(i128, i128) -> Option<i128>| f(a.into(), b.into()).and_then(|v| v.try_into().ok());
    match op {
        Op::Add => a.checked_add(b),
        Op::Mul => a.checked_mul(b),
        Op::FloorDiv if a >= 0 && b > 0 => Some(a / b),
        Op::FloorDiv => divide(expr::floor_div),
        Op::CeilDiv => divide(expr::ceil_div),
        Op::Mod if a >= 0 && b > 0 => Some(a % b),
        Op::Mod => divide(expr::modulo),
        Op::Min => Some(a.min(b)),
        Op::Max => Some(a.max(b)),
        Op::Constant(_) | Op::Slot(_) | Op::Element(..) => None,
    }
}

/// A dim whose symbols are slots or bound.
#[derive(Clone, Debug)]
pub struct Code {
    source: Dim,
    captured: Captured,
    form: Form,
}

impl Code {
    /// Compiles `dim`: `vars` become the slots in this order, every other symbol takes its value in `env` now.
    pub fn dim(dim: &Dim, vars: &[Symbol], env: &dyn Env) -> Result<Code, EvalError> {
        let captured = Captured::new(dim.symbols(), vars, env)?;
        let form = Form::new(&captured.fold(dim, env), vars);
        Ok(Code { source: dim.clone(), captured, form })
    }

    /// The value at `slots`; `env` gives the elements.
    pub fn eval(&self, slots: &[i64], env: &dyn Env) -> Result<i64, EvalError> {
        match self.form.eval(slots, env) {
            Some(value) => Ok(value),
            None => self.captured.scoped(slots, env, |env| self.source.eval(env)),
        }
    }

    /// The coefficients, one per slot, and the constant, if the dim is linear in the slots.
    pub fn as_affine(&self) -> Option<(&[i64], i64)> {
        match &self.form {
            Form::Affine(coefficients, constant) => Some((coefficients, *constant)),
            Form::Program(_) => None,
        }
    }

    /// The value, if it is the same for all slots.
    pub fn as_constant(&self) -> Option<i64> {
        let (coefficients, constant) = self.as_affine()?;
        coefficients.iter().all(|c| *c == 0).then_some(constant)
    }
}

#[derive(Clone, Debug)]
enum Node {
    Constant(bool),
    /// The form compared with zero.
    Compare(Form, Relation),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
}

impl Node {
    fn new(cond: &Cond, vars: &[Symbol]) -> Node {
        let all = |parts: &[Cond]| parts.iter().map(|part| Node::new(part, vars)).collect();
        match cond {
            Cond::True => Node::Constant(true),
            Cond::False => Node::Constant(false),
            Cond::Compare(a, relation, b) => Node::Compare(Form::new(&(a - b), vars), *relation),
            Cond::And(parts) => Node::And(all(parts)),
            Cond::Or(parts) => Node::Or(all(parts)),
            Cond::Not(inner) => Node::Not(Box::new(Node::new(inner, vars))),
        }
    }

    fn eval(&self, slots: &[i64], env: &dyn Env) -> Option<bool> {
        match self {
            Node::Constant(value) => Some(*value),
            Node::Compare(form, relation) => Some(relation.holds(form.eval(slots, env)?, 0)),
            Node::And(parts) => parts.iter().try_fold(true, |all, part| Some(all && part.eval(slots, env)?)),
            Node::Or(parts) => parts.iter().try_fold(false, |any, part| Some(any || part.eval(slots, env)?)),
            Node::Not(inner) => Some(!inner.eval(slots, env)?),
        }
    }
}

/// A cond whose symbols are slots or bound.
#[derive(Clone, Debug)]
pub struct CondCode {
    source: Cond,
    captured: Captured,
    node: Node,
}

impl CondCode {
    /// Compiles `cond` as [`Code::dim`] does.
    pub fn cond(cond: &Cond, vars: &[Symbol], env: &dyn Env) -> Result<CondCode, EvalError> {
        let captured = Captured::new(cond.symbols(), vars, env)?;
        let folded = cond.map_dims(&mut |dim| captured.fold(dim, env));
        Ok(CondCode { source: cond.clone(), node: Node::new(&folded, vars), captured })
    }

    /// Whether it holds at `slots`; `env` gives the elements.
    pub fn eval(&self, slots: &[i64], env: &dyn Env) -> Result<bool, EvalError> {
        match self.node.eval(slots, env) {
            Some(value) => Ok(value),
            None => self.captured.scoped(slots, env, |env| self.source.eval(env)),
        }
    }

    /// The answer, if it is the same for all slots.
    pub fn as_constant(&self) -> Option<bool> {
        match self.node {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }
}
