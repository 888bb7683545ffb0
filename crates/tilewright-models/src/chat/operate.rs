//! Operators on values: attributes, items and slices, arithmetic, comparisons.

use super::ast::{Binary, Comparison};
use super::eval::{Machine, Run, SLOT, STEP, shallow, wrong};
use super::value::Value;

impl Machine {
    /// An attribute of a value, undefined if it has none of the name.
    pub(super) fn attribute(&mut self, value: &Value, name: &str) -> Run<Value> {
        let found = match value {
            Value::Undefined => return wrong(format!("an undefined value has no attribute `{name}`")),
            Value::Dict(dict) => {
                self.pay(STEP * dict.entries.len() as u64)?;
                dict.get_str(name).cloned()
            }
            Value::Namespace(index) => self.namespace_attribute(*index, name),
            Value::Loop(state) => state.attribute(name),
            _ => None,
        };
        Ok(found.unwrap_or(Value::Undefined))
    }

    /// An item of a value, undefined if it has none at the index.
    pub(super) fn item(&mut self, value: &Value, index: &Value) -> Run<Value> {
        let place = |length: usize| {
            let index = index.as_int()?;
            let from_end = if index < 0 { index.checked_add(i64::try_from(length).ok()?)? } else { index };
            usize::try_from(from_end).ok()
        };
        match (value, index) {
            (Value::List(list), _) => {
                let found = place(list.items.len()).and_then(|at| list.items.get(at));
                Ok(found.cloned().unwrap_or(Value::Undefined))
            }
            (Value::Str(text), _) if index.as_int().is_some() => {
                self.pay_for(value)?;
                let found = place(text.chars().count()).and_then(|at| text.chars().nth(at));
                Ok(found.map_or(Value::Undefined, |c| Value::text(c.encode_utf8(&mut [0; 4]))))
            }
            (Value::Dict(dict), _) => {
                self.pay(index.weight().saturating_add(STEP).saturating_mul(dict.entries.len() as u64))?;
                Ok(dict.get(index).cloned().unwrap_or(Value::Undefined))
            }
            (_, Value::Str(name)) => self.attribute(value, name),
            (Value::Undefined, _) => wrong("an undefined value has no items"),
            _ => Ok(Value::Undefined),
        }
    }

    /// Python's `value[start:stop:step]`.
    pub(super) fn slice(&mut self, value: &Value, [start, stop, step]: [Option<i64>; 3]) -> Run<Value> {
        let step = step.unwrap_or(1);
        if step == 0 {
            return wrong("the step of a slice is 0");
        }
        let places = |length: usize| {
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            let (least, most) = if step > 0 { (0, length) } else { (-1, length - 1) };
            let clamp = |x: i64| if x < 0 { x.saturating_add(length).max(least) } else { x.min(most) };
            let start = start.map_or(if step > 0 { least } else { most }, clamp);
            let stop = stop.map_or(if step > 0 { most } else { least }, clamp);
            let inside = move |&at: &i64| if step > 0 { at < stop } else { at > stop };
            std::iter::successors(Some(start), move |at| at.checked_add(step))
                .take_while(inside)
                .filter_map(|at| usize::try_from(at).ok())
        };
        match value {
            Value::List(list) => {
                let items: Vec<Value> =
                    places(list.items.len()).filter_map(|at| list.items.get(at)).cloned().collect();
                self.list(items)
            }
            Value::Str(text) => {
                self.pay(text.len() as u64 * 4)?;
                let chars: Vec<char> = text.chars().collect();
                let text: String = places(chars.len()).filter_map(|at| chars.get(at)).collect();
                self.text(&text)
            }
            Value::Undefined | Value::None => self.list(Vec::new()),
            _ => wrong(format!("a {} cannot be sliced", value.kind())),
        }
    }

    /// The value of an operator on two operands.
    pub(super) fn binary(&mut self, op: Binary, left: &Value, right: &Value) -> Run<Value> {
        let impossible =
            || wrong(format!("{op:?} of a {} and a {}", left.kind(), right.kind()).to_lowercase());
        match (op, left, right) {
            (Binary::Concatenate, ..) => {
                let (left, right) = (self.written(left)?, self.written(right)?);
                self.pay((left.len() + right.len()) as u64)?;
                return Ok(Value::Str([&*left, &*right].concat().into()));
            }
            (Binary::Add, Value::Str(a), Value::Str(b)) => {
                self.pay((a.len() + b.len()) as u64)?;
                return Ok(Value::Str([&**a, &**b].concat().into()));
            }
            (Binary::Add, Value::List(a), Value::List(b)) => {
                self.pay(SLOT * (a.items.len() + b.items.len()) as u64)?;
                return shallow(Value::list([a.items.as_slice(), b.items.as_slice()].concat()));
            }
            (Binary::Multiply, Value::Str(text), Value::Int(count)) => {
                let count = usize::try_from(*count).unwrap_or(0);
                self.pay((text.len() as u64).saturating_mul(count as u64))?;
                return Ok(Value::Str(text.repeat(count).into()));
            }
            (Binary::Multiply, Value::List(list), Value::Int(count)) => {
                let count = usize::try_from(*count).unwrap_or(0);
                self.pay((SLOT * list.items.len() as u64).saturating_mul(count as u64))?;
                let items = list.items.iter().cycle().take(list.items.len().saturating_mul(count)).cloned();
                return shallow(Value::list(items.collect()));
            }
            _ => {}
        }
        if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
            let floor = |quotient: i64, remainder: i64| {
                quotient - i64::from(remainder != 0 && (remainder < 0) != (b < 0))
            };
            let result = match op {
                Binary::Add => a.checked_add(b),
                Binary::Subtract => a.checked_sub(b),
                Binary::Multiply => a.checked_mul(b),
                Binary::Divide | Binary::FloorDivide | Binary::Remainder if b == 0 => {
                    return wrong("division by zero");
                }
                Binary::Divide => return Ok(Value::Float(a as f64 / b as f64)),
                Binary::FloorDivide => a.checked_div(b).zip(a.checked_rem(b)).map(|(q, r)| floor(q, r)),
                Binary::Remainder => {
                    a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
                }
                Binary::Power => match u32::try_from(b) {
                    Ok(b) => a.checked_pow(b),
                    Err(_) => return Ok(Value::Float((a as f64).powf(b as f64))),
                },
                Binary::Concatenate => None,
            };
            return match result {
                Some(x) => Ok(Value::Int(x)),
                None => wrong("the result exceeds 64 bits"),
            };
        }
        let (Some(a), Some(b)) = (left.as_float(), right.as_float()) else { return impossible() };
        Ok(Value::Float(match op {
            Binary::Add => a + b,
            Binary::Subtract => a - b,
            Binary::Multiply => a * b,
            Binary::Divide | Binary::FloorDivide | Binary::Remainder if b == 0.0 => {
                return wrong("division by zero");
            }
            Binary::Divide => a / b,
            Binary::FloorDivide => (a / b).floor(),
            Binary::Remainder => a - (a / b).floor() * b,
            Binary::Power => a.powf(b),
            Binary::Concatenate => return impossible(),
        }))
    }

    /// Whether a comparison holds.
    pub(super) fn compare(&mut self, op: Comparison, left: &Value, right: &Value) -> Run<bool> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let ordered = |wanted: &[std::cmp::Ordering]| match left.order(right) {
            Some(order) => Ok(wanted.contains(&order)),
            None if left.as_float().is_some() && right.as_float().is_some() => Ok(false),
            None => wrong(format!("a {} and a {} have no order", left.kind(), right.kind())),
        };
        match op {
            Comparison::Equal | Comparison::NotEqual => {
                // A dictionary looks up each key among all of the other.
                let keys = if let Value::Dict(dict) = left { 1 + dict.entries.len() as u64 } else { 1 };
                let nested =
                    if left.depth() > 1 && right.depth() > 1 { left.weight().min(right.weight()) } else { 1 };
                let weight = left.weight().min(right.weight());
                self.pay(weight.saturating_mul(keys.max(nested)))?;
                Ok(left.equals(right) == (op == Comparison::Equal))
            }
            Comparison::In => self.contains(right, left),
            Comparison::NotIn => Ok(!self.contains(right, left)?),
            _ => {
                self.pay(left.weight().min(right.weight()))?;
                match op {
                    Comparison::Less => ordered(&[Less]),
                    Comparison::LessEqual => ordered(&[Less, Equal]),
                    Comparison::Greater => ordered(&[Greater]),
                    _ => ordered(&[Greater, Equal]),
                }
            }
        }
    }

    /// Whether a value is in another.
    fn contains(&mut self, container: &Value, value: &Value) -> Run<bool> {
        match container {
            Value::Str(text) => {
                self.pay_for(container)?;
                match value {
                    Value::Str(part) => Ok(text.contains(&**part)),
                    _ => wrong(format!("a {} cannot be in a string", value.kind())),
                }
            }
            Value::List(list) => {
                for item in &list.items {
                    self.pay(STEP)?;
                    if self.compare(Comparison::Equal, item, value)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Dict(_) => Ok(!matches!(self.item(container, value)?, Value::Undefined)),
            Value::Namespace(_) | Value::Loop(_) => {
                Ok(!matches!(self.item(container, value)?, Value::Undefined))
            }
            Value::Undefined => Ok(false),
            _ => wrong(format!("nothing can be in a {}", container.kind())),
        }
    }
}
