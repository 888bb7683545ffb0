//! Running a template within a budget.
//!
//! Every statement and expression, every byte that is made or looked at and every place in a list is paid for before it
//! happens. What is paid is never given back, so that the budget bounds time and memory alike.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Error;
use super::ast::{Action, Arguments, Expr, Literal, Logic, Macro, Statement, Target, Unary};
use super::value::{DEEPEST, List, Loop, Value};
use super::{filters, methods};

/// Cost of a statement or an expression.
pub(super) const STEP: u64 = 16;
/// Cost of a place in a list, and of a variable.
pub(super) const SLOT: u64 = 48;
/// How deep statements and expressions may nest while they run, calls of macros included.
const DEEPEST_RUN: u32 = 300;
/// The most elements of a range.
const LONGEST_RANGE: i64 = 100_000;

/// A result, or why the template stops.
pub(super) type Run<T> = Result<T, Error>;

/// Why a sequence of statements ends.
#[derive(PartialEq)]
enum Flow {
    /// It is done.
    Next,
    /// The loop is left.
    Break,
    /// The loop goes on.
    Continue,
}

/// A running template.
pub(super) struct Machine {
    budget: u64,
    /// What has been written.
    out: String,
    /// Variables, the innermost last; the first are those of the whole template.
    scopes: Vec<BTreeMap<String, Value>>,
    /// The first scope that the running macro sees, besides that of the whole template.
    base: usize,
    namespaces: Vec<BTreeMap<String, Value>>,
    macros: Vec<Rc<Macro>>,
    depth: u32,
    loops: usize,
}

/// Evaluated arguments of a call.
#[derive(Default)]
pub(super) struct Values {
    positional: Vec<Option<Value>>,
    named: Vec<(String, Value)>,
}

impl Values {
    /// At most one argument, by position.
    pub(super) fn of(argument: Option<Value>) -> Values {
        Values { positional: argument.into_iter().map(Some).collect(), named: Vec::new() }
    }

    /// Takes the argument at a position or with a name.
    pub(super) fn take(&mut self, position: usize, name: &str) -> Option<Value> {
        if let Some(value) = self.positional.get_mut(position).and_then(Option::take) {
            return Some(value);
        }
        let found = self.named.iter().position(|(known, _)| known == name)?;
        Some(self.named.remove(found).1)
    }

    /// The argument at a position, or with a name.
    pub(super) fn get(&self, position: Option<usize>, name: &str) -> Option<Value> {
        match position {
            Some(position) => self.positional.get(position).cloned().flatten(),
            None => self.named.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()),
        }
    }

    /// Drops all arguments.
    pub(super) fn clear(&mut self) {
        *self = Values::default();
    }

    /// An error if arguments are left.
    pub(super) fn finish(&self, function: &str) -> Run<()> {
        let left = self.positional.iter().flatten().count() + self.named.len();
        if left == 0 { Ok(()) } else { wrong(format!("{function}: {left} arguments too many, or not known")) }
    }

    /// The arguments given by name.
    pub(super) fn into_named(self) -> Vec<(String, Value)> {
        self.named
    }
}

/// An error of the template.
pub(super) fn wrong<T>(message: impl Into<String>) -> Run<T> {
    Err(Error::Template { line: None, message: message.into() })
}

/// Runs a template with variables.
pub(super) fn run(statements: &[Statement], variables: BTreeMap<String, Value>, budget: u64) -> Run<String> {
    let mut machine = Machine {
        budget,
        out: String::new(),
        scopes: vec![variables],
        base: 1,
        namespaces: Vec::new(),
        macros: Vec::new(),
        depth: 0,
        loops: 0,
    };
    machine.statements(statements)?;
    Ok(machine.out)
}

impl Machine {
    /// Pays.
    pub(super) fn pay(&mut self, cost: u64) -> Run<()> {
        match self.budget.checked_sub(cost) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => {
                self.budget = 0;
                Err(Error::Limit("it takes more steps or memory than messages of this size allow".into()))
            }
        }
    }

    /// Pays for looking at a value, or for copying it.
    pub(super) fn pay_for(&mut self, value: &Value) -> Run<()> {
        self.pay(value.weight())
    }

    /// A text, paid for.
    pub(super) fn text(&mut self, text: &str) -> Run<Value> {
        self.pay(text.len() as u64)?;
        Ok(Value::text(text))
    }

    /// A list, paid for.
    pub(super) fn list(&mut self, items: Vec<Value>) -> Run<Value> {
        self.pay(SLOT * items.len() as u64)?;
        shallow(Value::list(items))
    }

    /// A dictionary, paid for.
    pub(super) fn dict(&mut self, entries: Vec<(Value, Value)>) -> Run<Value> {
        // Each key is compared with those before it.
        let keys: u64 = entries.iter().map(|(key, _)| key.weight()).fold(0, u64::saturating_add);
        let count = entries.len() as u64;
        self.pay(SLOT.saturating_mul(2 * count).saturating_add(keys.saturating_mul(count)))?;
        shallow(Value::dict(entries))
    }

    /// The text of a value as output writes it, paid for.
    pub(super) fn written(&mut self, value: &Value) -> Run<Rc<str>> {
        if let Value::Str(text) = value {
            return Ok(text.clone());
        }
        self.pay(value.weight().saturating_mul(2))?;
        let mut text = String::new();
        value.write(&mut text);
        Ok(text.into())
    }

    /// The items that a loop or a filter runs over.
    pub(super) fn items(&mut self, value: &Value) -> Run<Rc<List>> {
        let items = match value {
            Value::List(list) => return Ok(list.clone()),
            Value::Undefined => Vec::new(),
            Value::Dict(dict) => {
                self.pay(SLOT * dict.entries.len() as u64)?;
                dict.entries.iter().map(|(key, _)| key.clone()).collect()
            }
            Value::Str(text) => {
                self.pay(SLOT * text.len() as u64)?;
                let mut buffer = [0; 4];
                text.chars().map(|c| Value::text(c.encode_utf8(&mut buffer))).collect()
            }
            other => return wrong(format!("a {} cannot be iterated over", other.kind())),
        };
        match Value::list(items) {
            Value::List(list) => Ok(list),
            _ => wrong("no list"),
        }
    }

    /// A new namespace.
    fn namespace(&mut self, entries: Vec<(String, Value)>) -> Run<Value> {
        self.pay(SLOT * (1 + entries.len() as u64))?;
        self.namespaces.push(entries.into_iter().collect());
        Ok(Value::Namespace(self.namespaces.len() - 1))
    }

    /// An attribute of a namespace.
    pub(super) fn namespace_attribute(&self, index: usize, name: &str) -> Option<Value> {
        self.namespaces.get(index)?.get(name).cloned()
    }

    fn lookup(&self, name: &str) -> Option<&Value> {
        let inner = self.scopes.get(self.base.min(self.scopes.len())..).unwrap_or(&[]);
        let outer = self.scopes.first().into_iter();
        inner.iter().rev().chain(outer).find_map(|scope| scope.get(name))
    }

    fn assign(&mut self, name: &str, value: Value) -> Run<()> {
        self.pay(SLOT + name.len() as u64)?;
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), value);
        }
        Ok(())
    }

    fn assign_all(&mut self, names: &[String], value: Value) -> Run<()> {
        if let [name] = names {
            return self.assign(name, value);
        }
        let items = self.items(&value)?;
        if items.items.len() != names.len() {
            return wrong(format!("{} values for {} names", items.items.len(), names.len()));
        }
        for (name, item) in names.iter().zip(&items.items) {
            self.assign(name, item.clone())?;
        }
        Ok(())
    }

    fn assign_target(&mut self, target: &Target, value: Value) -> Run<()> {
        match target {
            Target::Names(names) => self.assign_all(names, value),
            Target::Attribute(name, attribute) => {
                self.pay(SLOT + attribute.len() as u64)?;
                let Some(&Value::Namespace(index)) = self.lookup(name) else {
                    return wrong(format!("`{name}` is no namespace, so that its attributes cannot be set"));
                };
                if let Some(namespace) = self.namespaces.get_mut(index) {
                    namespace.insert(attribute.clone(), value);
                }
                Ok(())
            }
        }
    }

    /// Runs one level deeper.
    fn deeper<T>(&mut self, run: impl FnOnce(&mut Machine) -> Run<T>) -> Run<T> {
        self.pay(STEP)?;
        if self.depth >= DEEPEST_RUN {
            return Err(Error::Limit("macros, blocks and expressions nest too deep".into()));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// Runs with a scope of its own.
    fn scoped<T>(&mut self, run: impl FnOnce(&mut Machine) -> Run<T>) -> Run<T> {
        let count = self.scopes.len();
        self.pay(SLOT)?;
        self.scopes.push(BTreeMap::new());
        let result = run(self);
        self.scopes.truncate(count);
        result
    }

    /// What statements write.
    fn captured(&mut self, run: impl FnOnce(&mut Machine) -> Run<()>) -> Run<Value> {
        let before = std::mem::take(&mut self.out);
        let result = run(self);
        let text = std::mem::replace(&mut self.out, before);
        result?;
        self.text(&text)
    }

    fn write(&mut self, text: &str) -> Run<()> {
        self.pay(text.len() as u64)?;
        self.out.push_str(text);
        Ok(())
    }

    fn statements(&mut self, statements: &[Statement]) -> Run<Flow> {
        for statement in statements {
            let flow = self.deeper(|m| m.statement(&statement.action)).map_err(|error| match error {
                Error::Template { line: None, message } => {
                    Error::Template { line: Some(statement.line), message }
                }
                other => other,
            })?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, action: &Action) -> Run<Flow> {
        match action {
            Action::Text(text) => self.write(text)?,
            Action::Output(expr) => {
                let value = self.expr(expr)?;
                let text = self.written(&value)?;
                self.write(&text)?;
            }
            Action::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.expr(condition)?.truth() {
                        return self.statements(body);
                    }
                }
                return self.statements(otherwise);
            }
            Action::For { names, items, filter, body, otherwise } => {
                return self.run_loop(names, items, filter.as_ref(), body, otherwise);
            }
            Action::Break => return Ok(Flow::Break),
            Action::Continue => return Ok(Flow::Continue),
            Action::Set(target, expr) => {
                let value = self.expr(expr)?;
                self.assign_target(target, value)?;
            }
            Action::SetBlock(target, body) => {
                let value = self.captured(|m| m.scoped(|m| m.statements(body)).map(|_| ()))?;
                self.assign_target(target, value)?;
            }
            Action::With(variables, body) => {
                let mut values = Vec::new();
                for (name, expr) in variables {
                    values.push((name, self.expr(expr)?));
                }
                return self.scoped(|m| {
                    for (name, value) in values {
                        m.assign(name, value)?;
                    }
                    m.statements(body)
                });
            }
            Action::Macro(definition) => {
                self.macros.push(definition.clone());
                self.assign(&definition.name, Value::Macro(self.macros.len() - 1))?;
            }
        }
        Ok(Flow::Next)
    }

    fn run_loop(
        &mut self,
        names: &[String],
        items: &Expr,
        filter: Option<&Expr>,
        body: &[Statement],
        otherwise: &[Statement],
    ) -> Run<Flow> {
        let value = self.expr(items)?;
        let mut items = self.items(&value)?;
        if let Some(filter) = filter {
            let mut kept = Vec::new();
            for item in &items.items {
                let keep = self.scoped(|m| {
                    m.assign_all(names, item.clone())?;
                    m.expr(filter)
                })?;
                if keep.truth() {
                    self.pay(SLOT)?;
                    kept.push(item.clone());
                }
            }
            items = self.items(&Value::list(kept))?;
        }
        if items.items.is_empty() {
            return self.statements(otherwise);
        }
        self.loops += 1;
        let depth = self.loops;
        for (index, item) in items.items.iter().enumerate() {
            let state = Value::Loop(Rc::new(Loop { items: items.clone(), index, depth }));
            let flow = self.scoped(|m| {
                m.assign("loop", state)?;
                m.assign_all(names, item.clone())?;
                m.statements(body)
            })?;
            if flow == Flow::Break {
                break;
            }
        }
        self.loops -= 1;
        Ok(Flow::Next)
    }

    fn expr(&mut self, expr: &Expr) -> Run<Value> {
        self.deeper(|m| m.evaluate(expr))
    }

    fn evaluate(&mut self, expr: &Expr) -> Run<Value> {
        Ok(match expr {
            Expr::Literal(Literal::None) => Value::None,
            Expr::Literal(Literal::Bool(x)) => Value::Bool(*x),
            Expr::Literal(Literal::Int(x)) => Value::Int(*x),
            Expr::Literal(Literal::Float(x)) => Value::Float(*x),
            Expr::Literal(Literal::Str(x)) => Value::Str(x.clone()),
            Expr::Name(name) => self.lookup(name).cloned().unwrap_or(Value::Undefined),
            Expr::List(exprs) => {
                let items = exprs.iter().map(|e| self.expr(e)).collect::<Run<Vec<_>>>()?;
                return self.list(items);
            }
            Expr::Dict(exprs) => {
                let mut entries = Vec::new();
                for (key, value) in exprs {
                    entries.push((self.expr(key)?, self.expr(value)?));
                }
                return self.dict(entries);
            }
            Expr::Unary(op, operand) => {
                let value = self.expr(operand)?;
                match (op, &value) {
                    (Unary::Not, value) => Value::Bool(!value.truth()),
                    (Unary::Minus, Value::Float(x)) => Value::Float(-x),
                    (Unary::Plus, Value::Int(_) | Value::Float(_)) => value,
                    (Unary::Minus, Value::Int(x)) => match x.checked_neg() {
                        Some(x) => Value::Int(x),
                        None => return wrong("the result exceeds 64 bits"),
                    },
                    _ => return wrong(format!("a {} has no sign", value.kind())),
                }
            }
            Expr::Binary(op, left, right) => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                return self.binary(*op, &left, &right);
            }
            Expr::Compare(first, rest) => {
                let mut left = self.expr(first)?;
                for (op, right) in rest {
                    let right = self.expr(right)?;
                    if !self.compare(*op, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Value::Bool(true)
            }
            Expr::Logic(op, left, right) => {
                let left = self.expr(left)?;
                if left.truth() == (*op == Logic::Or) { left } else { return self.expr(right) }
            }
            Expr::Choice(value, condition, otherwise) => match (self.expr(condition)?.truth(), otherwise) {
                (true, _) => return self.expr(value),
                (false, Some(otherwise)) => return self.expr(otherwise),
                (false, None) => Value::Undefined,
            },
            Expr::Attribute(value, name) => {
                let value = self.expr(value)?;
                return self.attribute(&value, name);
            }
            Expr::Item(value, index) => {
                let (value, index) = (self.expr(value)?, self.expr(index)?);
                return self.item(&value, &index);
            }
            Expr::Slice(value, parts) => {
                let value = self.expr(value)?;
                let mut bounds = [None; 3];
                for (bound, part) in bounds.iter_mut().zip(parts) {
                    *bound = match part {
                        None => None,
                        Some(part) => match self.expr(part)? {
                            Value::None => None,
                            value => match value.as_int() {
                                Some(x) => Some(x),
                                None => return wrong(format!("a {} cannot bound a slice", value.kind())),
                            },
                        },
                    };
                }
                return self.slice(&value, bounds);
            }
            Expr::Call(name, arguments) => return self.call(name, arguments),
            Expr::Method(value, name, arguments) => {
                let value = self.expr(value)?;
                let arguments = self.arguments(arguments)?;
                return methods::call(self, &value, name, arguments);
            }
            Expr::Filter(value, name, arguments) => {
                let value = self.expr(value)?;
                let arguments = self.arguments(arguments)?;
                return filters::filter(self, name, value, arguments);
            }
            Expr::Test(value, name, arguments) => {
                let value = self.expr(value)?;
                let arguments = self.arguments(arguments)?;
                Value::Bool(filters::test(self, name, &value, arguments)?)
            }
        })
    }

    fn arguments(&mut self, arguments: &Arguments) -> Run<Values> {
        let mut values = Values::default();
        for expr in &arguments.positional {
            values.positional.push(Some(self.expr(expr)?));
        }
        for (name, expr) in &arguments.named {
            values.named.push((name.clone(), self.expr(expr)?));
        }
        Ok(values)
    }

    fn call(&mut self, name: &str, arguments: &Arguments) -> Run<Value> {
        let found = self.lookup(name).cloned();
        let mut values = self.arguments(arguments)?;
        match (found, name) {
            (Some(Value::Macro(index)), _) => self.call_macro(index, values),
            (Some(other), _) => wrong(format!("`{name}` is a {} and cannot be called", other.kind())),
            (None, "namespace") => {
                let first = values.take(0, "");
                let mut entries = Vec::new();
                if let Some(Value::Dict(dict)) = &first {
                    for (key, value) in &dict.entries {
                        entries.push((self.written(key)?.to_string(), value.clone()));
                    }
                }
                entries.extend(values.into_named());
                self.namespace(entries)
            }
            (None, "dict") => {
                let entries =
                    values.into_named().into_iter().map(|(name, value)| (Value::text(&name), value));
                self.dict(entries.collect())
            }
            (None, "range") => {
                let numbers: Vec<Value> = (0..3).map_while(|at| values.take(at, "")).collect();
                values.finish("range")?;
                let ints: Option<Vec<i64>> = numbers.iter().map(Value::as_int).collect();
                let (start, stop, step) = match ints.as_deref() {
                    Some(&[stop]) => (0, stop, 1),
                    Some(&[start, stop]) => (start, stop, 1),
                    Some(&[start, stop, step]) if step != 0 => (start, stop, step),
                    _ => return wrong("range: one to three integers expected, the last of three not 0"),
                };
                let distance = if step > 0 { stop.checked_sub(start) } else { start.checked_sub(stop) };
                let steps = distance
                    .and_then(|d| Some(d.max(0).checked_add(step.checked_abs()? - 1)? / step.checked_abs()?));
                let Some(count) = steps.filter(|&n| n <= LONGEST_RANGE) else {
                    return wrong(format!("range: more than {LONGEST_RANGE} elements"));
                };
                self.pay(SLOT * count.unsigned_abs())?;
                Ok(Value::list((0..count).map(|n| Value::Int(start + n * step)).collect()))
            }
            (None, "raise_exception") => {
                let message = values.take(0, "message").unwrap_or(Value::None);
                let text = self.written(&message)?;
                Err(Error::Refused(text.chars().take(1000).collect()))
            }
            (None, _) => wrong(format!("there is no function `{}`", crate::gguf::shown(name))),
        }
    }

    fn call_macro(&mut self, index: usize, mut values: Values) -> Run<Value> {
        let Some(definition) = self.macros.get(index).cloned() else { return wrong("no such macro") };
        let given: Vec<_> =
            definition.parameters.iter().enumerate().map(|(at, (name, _))| values.take(at, name)).collect();
        values.finish(&definition.name)?;
        let (base, loops) = (self.base, std::mem::take(&mut self.loops));
        self.base = self.scopes.len();
        let result = self.scoped(|m| {
            for ((name, default), value) in definition.parameters.iter().zip(given) {
                let value = match (value, default) {
                    (Some(value), _) => value,
                    (None, Some(default)) => m.expr(default)?,
                    (None, None) => Value::Undefined,
                };
                m.assign(name, value)?;
            }
            m.captured(|m| m.statements(&definition.body).map(|_| ()))
        });
        (self.base, self.loops) = (base, loops);
        result
    }
}

/// The value, unless it nests too deep.
pub(super) fn shallow(value: Value) -> Run<Value> {
    if value.depth() > DEEPEST {
        Err(Error::Limit(format!("values nest more than {DEEPEST} deep")))
    } else {
        Ok(value)
    }
}
