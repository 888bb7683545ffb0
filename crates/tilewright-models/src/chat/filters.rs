//! Filters and tests.

use std::rc::Rc;

use super::ast::Comparison;
use super::eval::{Machine, Run, SLOT, Values, wrong};
use super::value::{List, Value};
use super::{json, methods};

/// A filter: its names, and what it makes of a value.
type Filter = (&'static [&'static str], fn(&mut Machine, Value, &mut Values) -> Run<Value>);

/// Every filter.
const FILTERS: &[Filter] = &[
    (&["trim"], |m, value, args| {
        let chars = args.take(0, "chars");
        let text = m.written(&value)?;
        m.pay(text.len() as u64)?;
        let chars: Option<Vec<char>> = chars.as_ref().and_then(Value::as_str).map(|s| s.chars().collect());
        m.text(chars.map_or(text.trim(), |chars| text.trim_matches(chars.as_slice())))
    }),
    (&["upper"], |m, value, _| mapped(m, &value, |t| t.to_uppercase())),
    (&["lower"], |m, value, _| mapped(m, &value, |t| t.to_lowercase())),
    (&["capitalize"], |m, value, _| mapped(m, &value, methods::capitalized)),
    (&["title"], |m, value, _| mapped(m, &value, methods::titled)),
    (&["string"], |m, value, _| Ok(Value::Str(m.written(&value)?))),
    (&["safe"], |_, value, _| Ok(value)),
    (&["escape", "e"], |m, value, _| {
        mapped(m, &value, |text| {
            let escape = |c: char| match c {
                '&' => "&amp;".to_string(),
                '<' => "&lt;".to_string(),
                '>' => "&gt;".to_string(),
                '"' => "&#34;".to_string(),
                '\'' => "&#39;".to_string(),
                c => c.to_string(),
            };
            text.chars().map(escape).collect()
        })
    }),
    (&["replace"], |m, value, args| {
        let text = m.written(&value)?;
        methods::replaced(m, &text, args)
    }),
    (&["indent"], |m, value, args| {
        let width = args.take(0, "width").and_then(|w| w.as_int()).unwrap_or(4);
        let first = args.take(1, "first").is_some_and(|v| v.truth());
        let blank = args.take(2, "blank").is_some_and(|v| v.truth());
        let text = m.written(&value)?;
        let Ok(width) = usize::try_from(width) else {
            return wrong("indent: a width of at least 0 expected");
        };
        let lines = text.split('\n').count() as u64;
        m.pay(lines.saturating_mul(width as u64).saturating_add(text.len() as u64))?;
        let mut out = String::new();
        for (index, line) in text.split('\n').enumerate() {
            out.push_str(if index > 0 { "\n" } else { "" });
            if if index == 0 { first } else { blank || !line.is_empty() } {
                out.extend(std::iter::repeat_n(' ', width));
            }
            out.push_str(line);
        }
        m.text(&out)
    }),
    (&["length", "count"], |m, value, _| {
        Ok(Value::Int(match &value {
            Value::Str(text) => {
                m.pay_for(&value)?;
                text.chars().count()
            }
            Value::Undefined => 0,
            Value::List(_) | Value::Dict(_) => m.items(&value)?.items.len(),
            other => return wrong(format!("a {} has no length", other.kind())),
        } as i64))
    }),
    (&["default", "d"], |_, value, args| {
        let instead = args.take(0, "default_value").unwrap_or(Value::text(""));
        let falsy = args.take(1, "boolean").is_some_and(|v| v.truth());
        Ok(if matches!(value, Value::Undefined) || (falsy && !value.truth()) { instead } else { value })
    }),
    (&["first"], |m, value, _| Ok(m.items(&value)?.items.first().cloned().unwrap_or(Value::Undefined))),
    (&["last"], |m, value, _| Ok(m.items(&value)?.items.last().cloned().unwrap_or(Value::Undefined))),
    (&["list"], |m, value, _| Ok(Value::List(m.items(&value)?))),
    (&["reverse"], |m, value, _| match &value {
        Value::Str(text) => {
            m.pay_for(&value)?;
            let text: String = text.chars().rev().collect();
            m.text(&text)
        }
        _ => {
            let items: Vec<Value> = m.items(&value)?.items.iter().rev().cloned().collect();
            m.list(items)
        }
    }),
    (&["join"], |m, value, args| {
        let separator = args.take(0, "d").unwrap_or(Value::text(""));
        let attribute = args.take(1, "attribute");
        let mut items = m.items(&value)?;
        if let Some(attribute) = attribute {
            let mut found = Vec::new();
            for item in &items.items {
                found.push(m.item(item, &attribute)?);
            }
            items = m.list(found).and_then(|list| m.items(&list))?;
        }
        let separator = m.written(&separator)?;
        methods::joined(m, &separator, &items.items)
    }),
    (&["items"], |m, value, _| methods::entries(m, &value)),
    (&["dictsort"], |m, value, _| {
        let Value::List(list) = methods::entries(m, &value)? else {
            return wrong("dictsort: a dictionary expected");
        };
        let key = |pair: &Value| match pair {
            Value::List(pair) => pair.items.first().cloned().unwrap_or(Value::Undefined),
            _ => Value::Undefined,
        };
        sorted(m, &list.items, false, key)
    }),
    (&["sort"], |m, value, args| {
        let reverse = args.take(0, "reverse").is_some_and(|v| v.truth());
        let _ = args.take(1, "case_sensitive");
        let attribute = args.take(2, "attribute");
        let items = m.items(&value)?;
        match attribute {
            None => sorted(m, &items.items, reverse, Value::clone),
            Some(attribute) => {
                let mut keys = Vec::new();
                for item in &items.items {
                    keys.push((m.item(item, &attribute)?, item.clone()));
                }
                let pairs: Vec<Value> =
                    keys.into_iter().map(|(key, item)| Value::list(vec![key, item])).collect();
                let part = |pair: &Value, at: usize| match pair {
                    Value::List(pair) => pair.items.get(at).cloned().unwrap_or(Value::Undefined),
                    _ => Value::Undefined,
                };
                let pairs = sorted(m, &pairs, reverse, |pair| part(pair, 0))?;
                let items: Vec<Value> = m.items(&pairs)?.items.iter().map(|pair| part(pair, 1)).collect();
                m.list(items)
            }
        }
    }),
    (&["unique"], |m, value, _| {
        let mut kept: Vec<Value> = Vec::new();
        for item in &m.items(&value)?.items {
            let mut known = false;
            for other in &kept {
                known = known || m.compare(Comparison::Equal, item, other)?;
            }
            if !known {
                kept.push(item.clone());
            }
        }
        m.list(kept)
    }),
    (&["map"], |m, value, args| {
        let attribute = args.take(usize::MAX, "attribute");
        let default = args.take(usize::MAX, "default");
        let mut out = Vec::new();
        let items = some_items(m, &value)?;
        match attribute {
            Some(attribute) => {
                for item in &items.items {
                    let found = m.item(item, &attribute)?;
                    out.push(if let (Value::Undefined, Some(default)) = (&found, &default) {
                        default.clone()
                    } else {
                        found
                    });
                }
            }
            None => {
                let Some(Value::Str(name)) = args.take(0, "") else {
                    return wrong("map: the name of a filter expected");
                };
                for item in &items.items {
                    m.pay(SLOT)?;
                    out.push(filter(m, &name, item.clone(), Values::default())?);
                }
            }
        }
        m.list(out)
    }),
    (&["selectattr"], |m, value, args| select(m, &value, args, true, true)),
    (&["rejectattr"], |m, value, args| select(m, &value, args, true, false)),
    (&["select"], |m, value, args| select(m, &value, args, false, true)),
    (&["reject"], |m, value, args| select(m, &value, args, false, false)),
    (&["int"], |m, value, args| {
        let default = args.take(0, "default").unwrap_or(Value::Int(0));
        m.pay_for(&value)?;
        Ok(match &value {
            Value::Float(x) => Value::Int(*x as i64),
            Value::Str(text) => match text.trim().parse::<i64>() {
                Ok(x) => Value::Int(x),
                Err(_) => text.trim().parse::<f64>().map_or(default, |x| Value::Int(x as i64)),
            },
            other => other.as_int().map_or(default, Value::Int),
        })
    }),
    (&["float"], |m, value, args| {
        let default = args.take(0, "default").unwrap_or(Value::Float(0.0));
        m.pay_for(&value)?;
        Ok(match &value {
            Value::Str(text) => text.trim().parse().map_or(default, Value::Float),
            other => other.as_float().map_or(default, Value::Float),
        })
    }),
    (&["abs"], |_, value, _| match value {
        Value::Float(x) => Ok(Value::Float(x.abs())),
        other => match other.as_int().and_then(i64::checked_abs) {
            Some(x) => Ok(Value::Int(x)),
            None => wrong(format!("abs of a {}", other.kind())),
        },
    }),
    (&["tojson"], json::tojson),
];

/// A test: its names, and whether a value passes.
type Test = (&'static [&'static str], fn(&mut Machine, &Value, &mut Values) -> Run<bool>);

/// Every test.
const TESTS: &[Test] = &[
    (&["defined"], |_, value, _| Ok(!matches!(value, Value::Undefined))),
    (&["undefined"], |_, value, _| Ok(matches!(value, Value::Undefined))),
    (&["none"], |_, value, _| Ok(matches!(value, Value::None))),
    (&["string"], |_, value, _| Ok(matches!(value, Value::Str(_)))),
    (&["number"], |_, value, _| Ok(matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_)))),
    (&["integer"], |_, value, _| Ok(matches!(value, Value::Int(_)))),
    (&["float"], |_, value, _| Ok(matches!(value, Value::Float(_)))),
    (&["boolean"], |_, value, _| Ok(matches!(value, Value::Bool(_)))),
    (&["true"], |_, value, _| Ok(matches!(value, Value::Bool(true)))),
    (&["false"], |_, value, _| Ok(matches!(value, Value::Bool(false)))),
    (&["mapping"], |_, value, _| Ok(matches!(value, Value::Dict(_)))),
    (&["iterable", "sequence"], |_, value, _| {
        Ok(matches!(value, Value::List(_) | Value::Str(_) | Value::Dict(_) | Value::Undefined))
    }),
    (&["callable"], |_, value, _| Ok(matches!(value, Value::Macro(_)))),
    (&["odd"], |_, value, _| parity(value, 1)),
    (&["even"], |_, value, _| parity(value, 0)),
    (&["divisibleby"], |_, value, args| {
        let by = args.take(0, "num").and_then(|n| n.as_int());
        match value.as_int().zip(by).and_then(|(value, by)| value.checked_rem(by)) {
            Some(rest) => Ok(rest == 0),
            None => wrong("divisibleby: two integers expected, the second not 0"),
        }
    }),
    (&["equalto", "eq", "=="], |m, value, args| compared(m, Comparison::Equal, value, args)),
    (&["ne", "!="], |m, value, args| compared(m, Comparison::NotEqual, value, args)),
    (&["lt", "lessthan", "<"], |m, value, args| compared(m, Comparison::Less, value, args)),
    (&["le", "<="], |m, value, args| compared(m, Comparison::LessEqual, value, args)),
    (&["gt", "greaterthan", ">"], |m, value, args| compared(m, Comparison::Greater, value, args)),
    (&["ge", ">="], |m, value, args| compared(m, Comparison::GreaterEqual, value, args)),
    (&["in"], |m, value, args| compared(m, Comparison::In, value, args)),
];

/// Applies the filter with a name.
pub(super) fn filter(machine: &mut Machine, name: &str, value: Value, mut args: Values) -> Run<Value> {
    let Some((_, run)) = FILTERS.iter().find(|(names, _)| names.contains(&name)) else {
        return wrong(format!("there is no filter `{}`", crate::gguf::shown(name)));
    };
    let result = run(machine, value, &mut args)?;
    args.finish(name)?;
    Ok(result)
}

/// Whether a value passes the test with a name.
pub(super) fn test(machine: &mut Machine, name: &str, value: &Value, mut args: Values) -> Run<bool> {
    let Some((_, run)) = TESTS.iter().find(|(names, _)| names.contains(&name)) else {
        return wrong(format!("there is no test `{}`", crate::gguf::shown(name)));
    };
    let result = run(machine, value, &mut args)?;
    args.finish(name)?;
    Ok(result)
}

/// A text mapped to one of at most eight times the size.
fn mapped(machine: &mut Machine, value: &Value, map: impl Fn(&str) -> String) -> Run<Value> {
    let text = machine.written(value)?;
    machine.pay(text.len() as u64 * 8)?;
    Ok(Value::text(&map(&text)))
}

/// The items of a value, none of `none`.
fn some_items(machine: &mut Machine, value: &Value) -> Run<Rc<List>> {
    machine.items(if let Value::None = value { &Value::Undefined } else { value })
}

fn parity(value: &Value, wanted: i64) -> Run<bool> {
    match value.as_int() {
        Some(x) => Ok(x.rem_euclid(2) == wanted),
        None => wrong(format!("a {} is neither odd nor even", value.kind())),
    }
}

fn compared(machine: &mut Machine, op: Comparison, value: &Value, args: &mut Values) -> Run<bool> {
    match args.take(0, "other") {
        Some(other) => machine.compare(op, value, &other),
        None => wrong("a test without the value to compare with"),
    }
}

/// Items in the order of their keys, which must be numbers or texts.
fn sorted(
    machine: &mut Machine,
    items: &[Value],
    reverse: bool,
    key: impl Fn(&Value) -> Value,
) -> Run<Value> {
    let keys: Vec<Value> = items.iter().map(&key).collect();
    let weight = keys.iter().map(Value::weight).fold(0, u64::saturating_add);
    let rounds = u64::from(usize::BITS - items.len().leading_zeros());
    machine.pay((weight + SLOT * items.len() as u64).saturating_mul(rounds))?;
    if keys.windows(2).any(|pair| matches!(pair, [a, b] if a.order(b).is_none())) {
        return wrong("sort: numbers or strings expected");
    }
    let mut pairs: Vec<(Value, Value)> = keys.into_iter().zip(items.iter().cloned()).collect();
    let order = |a: &Value, b: &Value| a.order(b).unwrap_or(std::cmp::Ordering::Equal);
    pairs.sort_by(|(a, _), (b, _)| if reverse { order(b, a) } else { order(a, b) });
    machine.list(pairs.into_iter().map(|(_, item)| item).collect())
}

/// The items, or those whose attribute passes a test, or does not.
fn select(
    machine: &mut Machine,
    value: &Value,
    args: &mut Values,
    attribute: bool,
    wanted: bool,
) -> Run<Value> {
    let attribute = if attribute { args.take(0, "") } else { None };
    let place = usize::from(attribute.is_some());
    let name = args.take(place, "");
    let argument = args.take(place + 1, "");
    let mut kept = Vec::new();
    for item in &some_items(machine, value)?.items {
        let subject = match &attribute {
            Some(attribute) => machine.item(item, attribute)?,
            None => item.clone(),
        };
        let passes = match &name {
            None => subject.truth(),
            Some(Value::Str(name)) => {
                machine.pay(SLOT)?;
                test(machine, name, &subject, Values::of(argument.clone()))?
            }
            Some(_) => return wrong("select: the name of a test expected"),
        };
        if passes == wanted {
            kept.push(item.clone());
        }
    }
    machine.list(kept)
}
