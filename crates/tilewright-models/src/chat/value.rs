//! Values of templates, how they are written and compared.
//!
//! Lists and dictionaries never change once made, so that they hold no cycles; each knows how large it is when written out,
//! parts that it shares with others counted as often as they occur. Whoever walks a value pays for that size first.

use std::cmp::Ordering;
use std::fmt::Write;
use std::rc::Rc;

/// How deep lists and dictionaries may nest.
pub(super) const DEEPEST: u32 = 50;

/// A value.
#[derive(Clone)]
pub(super) enum Value {
    /// What a variable or attribute is that does not exist.
    Undefined,
    /// `none`
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Str(Rc<str>),
    /// A list or tuple.
    List(Rc<List>),
    /// A dictionary.
    Dict(Rc<Dict>),
    /// A namespace, by its number.
    Namespace(usize),
    /// A macro, by its number.
    Macro(usize),
    /// The state of a loop.
    Loop(Rc<Loop>),
}

/// Size and depth of what holds other values.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// About the bytes of the value written out.
    weight: u64,
    /// Levels of lists and dictionaries.
    depth: u32,
}

impl Extent {
    fn of<'a>(parts: impl Iterator<Item = &'a Value>) -> Extent {
        parts.fold(Extent { weight: 2, depth: 1 }, |all, part| Extent {
            weight: all.weight.saturating_add(part.weight()).saturating_add(2),
            depth: all.depth.max(part.depth().saturating_add(1)),
        })
    }
}

/// A list.
pub(super) struct List {
    /// The items.
    pub(super) items: Vec<Value>,
    extent: Extent,
}

/// A dictionary, in the order in which it was written.
pub(super) struct Dict {
    /// Keys and values; keys are unequal.
    pub(super) entries: Vec<(Value, Value)>,
    extent: Extent,
}

/// Where a loop stands.
pub(super) struct Loop {
    /// What it runs over.
    pub(super) items: Rc<List>,
    /// The place in it.
    pub(super) index: usize,
    /// The number of loops around it.
    pub(super) depth: usize,
}

impl Value {
    /// A text.
    pub(super) fn text(text: &str) -> Value {
        Value::Str(text.into())
    }

    /// A list.
    pub(super) fn list(items: Vec<Value>) -> Value {
        let extent = Extent::of(items.iter());
        Value::List(Rc::new(List { items, extent }))
    }

    /// A dictionary; of equal keys the last counts.
    pub(super) fn dict(entries: Vec<(Value, Value)>) -> Value {
        let mut kept: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match kept.iter_mut().find(|(known, _)| known.equals(&key)) {
                Some(entry) => entry.1 = value,
                None => kept.push((key, value)),
            }
        }
        let extent = Extent::of(kept.iter().flat_map(|(key, value)| [key, value]));
        Value::Dict(Rc::new(Dict { entries: kept, extent }))
    }

    /// The name of the type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::None => "none",
            Value::Bool(_) => "truth value",
            Value::Int(_) | Value::Float(_) => "number",
            Value::Str(_) => "string",
            Value::List(_) => "list",
            Value::Dict(_) => "dictionary",
            Value::Namespace(_) => "namespace",
            Value::Macro(_) => "macro",
            Value::Loop(_) => "loop",
        }
    }

    /// About the bytes of the value written out.
    pub(super) fn weight(&self) -> u64 {
        match self {
            Value::Str(text) => text.len() as u64,
            Value::List(list) => list.extent.weight,
            Value::Dict(dict) => dict.extent.weight,
            _ => 16,
        }
    }

    /// Levels of lists and dictionaries.
    pub(super) fn depth(&self) -> u32 {
        match self {
            Value::List(list) => list.extent.depth,
            Value::Dict(dict) => dict.extent.depth,
            _ => 0,
        }
    }

    /// Whether a condition holds.
    pub(super) fn truth(&self) -> bool {
        match self {
            Value::Undefined | Value::None => false,
            Value::Bool(x) => *x,
            Value::Int(x) => *x != 0,
            Value::Float(x) => *x != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(list) => !list.items.is_empty(),
            Value::Dict(dict) => !dict.entries.is_empty(),
            Value::Namespace(_) | Value::Macro(_) | Value::Loop(_) => true,
        }
    }

    /// The value of an integer or a truth value.
    pub(super) fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(x) => Some(*x),
            Value::Bool(x) => Some(i64::from(*x)),
            _ => None,
        }
    }

    /// The value of a number or a truth value.
    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(x) => Some(*x),
            _ => self.as_int().map(|x| x as f64),
        }
    }

    /// The text of a string.
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Whether two values are equal.
    pub(super) fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => true,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.items.len() == b.items.len() && a.items.iter().zip(&b.items).all(|(a, b)| a.equals(b))
            }
            (Value::Dict(a), Value::Dict(b)) => {
                let has = |(key, value): &(Value, Value)| b.get(key).is_some_and(|other| value.equals(other));
                a.entries.len() == b.entries.len() && a.entries.iter().all(has)
            }
            (Value::Namespace(a), Value::Namespace(b)) | (Value::Macro(a), Value::Macro(b)) => a == b,
            _ => match (self.as_int(), other.as_int()) {
                (Some(a), Some(b)) => a == b,
                _ => self.as_float().zip(other.as_float()).is_some_and(|(a, b)| a == b),
            },
        }
    }

    /// The order of two numbers or two texts; none of other values.
    pub(super) fn order(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
            _ => match (self.as_int(), other.as_int()) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                _ => self.as_float()?.partial_cmp(&other.as_float()?),
            },
        }
    }

    /// Writes the value as output does: as Python's `str`.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Value::Undefined => {}
            Value::None => out.push_str("None"),
            Value::Bool(true) => out.push_str("True"),
            Value::Bool(false) => out.push_str("False"),
            Value::Int(x) => {
                let _ = write!(out, "{x}");
            }
            Value::Float(x) => write_float(*x, out),
            Value::Str(text) => out.push_str(text),
            Value::List(list) => {
                out.push('[');
                for (index, item) in list.items.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    item.write_inside(out);
                }
                out.push(']');
            }
            Value::Dict(dict) => {
                out.push('{');
                for (index, (key, value)) in dict.entries.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    key.write_inside(out);
                    out.push_str(": ");
                    value.write_inside(out);
                }
                out.push('}');
            }
            Value::Namespace(_) | Value::Macro(_) | Value::Loop(_) => {
                let _ = write!(out, "<{}>", self.kind());
            }
        }
    }

    /// Writes the value as a part of another: as Python's `repr`.
    fn write_inside(&self, out: &mut String) {
        let Value::Str(text) = self else { return self.write(out) };
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        out.push(quote);
        for c in text.chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\\' => out.push_str("\\\\"),
                c if c == quote => out.extend(['\\', c]),
                c => out.push(c),
            }
        }
        out.push(quote);
    }
}

impl Dict {
    /// The value of a key.
    pub(super) fn get(&self, key: &Value) -> Option<&Value> {
        self.entries.iter().find(|(known, _)| known.equals(key)).map(|(_, value)| value)
    }

    /// The value of a key that is a string.
    pub(super) fn get_str(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(known, _)| known.as_str() == Some(key)).map(|(_, value)| value)
    }
}

impl Loop {
    /// An attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<Value> {
        let (index, length) = (self.index as i64, self.items.items.len() as i64);
        let item = |at: Option<usize>| {
            at.and_then(|at| self.items.items.get(at)).cloned().unwrap_or(Value::Undefined)
        };
        Some(match name {
            "index" => Value::Int(index + 1),
            "index0" => Value::Int(index),
            "revindex" => Value::Int(length - index),
            "revindex0" => Value::Int(length - index - 1),
            "first" => Value::Bool(index == 0),
            "last" => Value::Bool(index + 1 == length),
            "length" => Value::Int(length),
            "depth" => Value::Int(self.depth as i64),
            "depth0" => Value::Int(self.depth as i64 - 1),
            "previtem" => item(self.index.checked_sub(1)),
            "nextitem" => item(self.index.checked_add(1)),
            _ => return None,
        })
    }
}

/// Writes a number as Python does, but for the places where it turns to exponents.
pub(super) fn write_float(x: f64, out: &mut String) {
    let _ = match x {
        _ if x.is_nan() => write!(out, "nan"),
        _ if x.is_infinite() => write!(out, "{}inf", if x < 0.0 { "-" } else { "" }),
        _ => write!(out, "{x:?}"),
    };
}
