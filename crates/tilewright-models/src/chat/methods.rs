//! Python's methods of strings, dictionaries and lists.

use super::ast::Comparison;
use super::eval::{Machine, Run, SLOT, Values, shallow, wrong};
use super::value::Value;

/// Calls a method of a value.
pub(super) fn call(machine: &mut Machine, value: &Value, name: &str, mut args: Values) -> Run<Value> {
    let result = match value {
        Value::Str(text) => string(machine, text, name, &mut args)?,
        Value::Dict(dict) => match name {
            "items" => Some(entries(machine, value)?),
            "keys" => Some(Value::List(machine.items(value)?)),
            "values" => Some(machine.list(dict.entries.iter().map(|(_, value)| value.clone()).collect())?),
            "get" => {
                let (key, default) = (args.take(0, "key"), args.take(1, "default"));
                let found = machine.item(value, &key.unwrap_or(Value::None))?;
                Some(if let Value::Undefined = found { default.unwrap_or(Value::None) } else { found })
            }
            _ => None,
        },
        Value::List(list) => match name {
            "count" | "index" => {
                let wanted = args.take(0, "value").unwrap_or(Value::None);
                let mut places = Vec::new();
                for (index, item) in list.items.iter().enumerate() {
                    if machine.compare(Comparison::Equal, item, &wanted)? {
                        places.push(index as i64);
                    }
                }
                match places.first() {
                    _ if name == "count" => Some(Value::Int(places.len() as i64)),
                    Some(&place) => Some(Value::Int(place)),
                    None => return wrong("index: the list has no such item"),
                }
            }
            _ => None,
        },
        Value::Undefined => return wrong(format!("an undefined value has no method `{name}`")),
        _ => None,
    };
    match result {
        Some(result) => {
            args.finish(name)?;
            Ok(result)
        }
        None => wrong(format!("a {} has no method `{}`", value.kind(), crate::gguf::shown(name))),
    }
}

/// A method of strings, if there is one with the name.
fn string(machine: &mut Machine, text: &str, name: &str, args: &mut Values) -> Run<Option<Value>> {
    machine.pay(text.len() as u64)?;
    let all = |class: fn(char) -> bool| Value::Bool(!text.is_empty() && text.chars().all(class));
    Ok(Some(match name {
        "upper" => cased(machine, text, |t| t.to_uppercase())?,
        "lower" => cased(machine, text, |t| t.to_lowercase())?,
        "capitalize" => cased(machine, text, capitalized)?,
        "title" => cased(machine, text, titled)?,
        "strip" | "lstrip" | "rstrip" => {
            let chars = args.take(0, "chars");
            let chars: Option<Vec<char>> =
                chars.as_ref().and_then(Value::as_str).map(|s| s.chars().collect());
            machine.pay((text.len() as u64).saturating_mul(chars.as_ref().map_or(1, Vec::len) as u64))?;
            let drop = |c: char| chars.as_ref().map_or(c.is_whitespace(), |chars| chars.contains(&c));
            machine.text(match name {
                "strip" => text.trim_matches(drop),
                "lstrip" => text.trim_start_matches(drop),
                _ => text.trim_end_matches(drop),
            })?
        }
        "startswith" | "endswith" => {
            let ends = args.take(0, "prefix").unwrap_or(Value::Undefined);
            let has = |part: &Value| match part.as_str() {
                Some(part) if name == "startswith" => Ok(text.starts_with(part)),
                Some(part) => Ok(text.ends_with(part)),
                None => wrong(format!("{name}: a string or a list of strings expected")),
            };
            let mut found = false;
            match &ends {
                Value::List(list) => {
                    for part in &list.items {
                        machine.pay_for(part)?;
                        found |= has(part)?;
                    }
                }
                one => found = has(one)?,
            }
            Value::Bool(found)
        }
        "split" | "rsplit" => {
            let separator = args.take(0, "sep").filter(|s| !matches!(s, Value::None));
            let most =
                args.take(1, "maxsplit").and_then(|n| n.as_int()).and_then(|n| usize::try_from(n).ok());
            split(machine, text, separator.as_ref(), most, name == "rsplit")?
        }
        "splitlines" => {
            let keep = args.take(0, "keepends").is_some_and(|v| v.truth());
            machine.pay(SLOT * (1 + text.matches('\n').count() as u64) + text.len() as u64)?;
            let lines = text.split_inclusive('\n').map(|line| {
                let bare = line.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
                Value::text(if keep { line } else { bare.unwrap_or(line) })
            });
            Value::list(lines.collect())
        }
        "replace" => replaced(machine, text, args)?,
        "format" => formatted(machine, text, args)?,
        "join" => {
            let items = args.take(0, "iterable").unwrap_or(Value::Undefined);
            let items = machine.items(&items)?;
            if let Some(item) = items.items.iter().find(|item| item.as_str().is_none()) {
                return wrong(format!("join: strings expected, and there is a {}", item.kind()));
            }
            joined(machine, text, &items.items)?
        }
        "count" | "find" | "rfind" | "index" => {
            let part = args.take(0, "sub").unwrap_or(Value::Undefined);
            let Some(part) = part.as_str() else { return wrong(format!("{name}: a string expected")) };
            let place = match name {
                "count" => return Ok(Some(Value::Int(text.matches(part).count() as i64))),
                "rfind" => text.rfind(part),
                _ => text.find(part),
            };
            match place.and_then(|at| text.get(..at)) {
                Some(before) => Value::Int(before.chars().count() as i64),
                None if name == "index" => return wrong("index: the string has no such part"),
                None => Value::Int(-1),
            }
        }
        "isdigit" | "isdecimal" | "isnumeric" => all(char::is_numeric),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isspace" => all(char::is_whitespace),
        "isupper" => {
            Value::Bool(text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase))
        }
        "islower" => {
            Value::Bool(text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase))
        }
        "removeprefix" | "removesuffix" => {
            let part = args.take(0, "prefix").unwrap_or(Value::Undefined);
            let part = part.as_str().unwrap_or("");
            let bare = if name == "removeprefix" { text.strip_prefix(part) } else { text.strip_suffix(part) };
            machine.text(bare.unwrap_or(text))?
        }
        _ => return Ok(None),
    }))
}

/// A text in another case: at most eight times the size.
fn cased(machine: &mut Machine, text: &str, map: impl Fn(&str) -> String) -> Run<Value> {
    machine.pay(text.len() as u64 * 8)?;
    Ok(Value::text(&map(text)))
}

/// The first letter in upper case, the others in lower case.
pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(char::to_uppercase)
        .into_iter()
        .flatten()
        .chain(chars.flat_map(char::to_lowercase))
        .collect()
}

/// The first letter of each word in upper case, the others in lower case.
pub(super) fn titled(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
    out
}

/// Keys and values of a dictionary, as lists of two.
pub(super) fn entries(machine: &mut Machine, value: &Value) -> Run<Value> {
    let Value::Dict(dict) = value else { return wrong(format!("a {} has no items", value.kind())) };
    machine.pay(SLOT * 3 * dict.entries.len() as u64)?;
    let pairs = dict.entries.iter().map(|(key, value)| Value::list(vec![key.clone(), value.clone()]));
    shallow(Value::list(pairs.collect()))
}

/// Items as text, with a separator between.
pub(super) fn joined(machine: &mut Machine, separator: &str, items: &[Value]) -> Run<Value> {
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        let text = machine.written(item)?;
        machine.pay((text.len() + separator.len()) as u64 + 1)?;
        out.push_str(if index > 0 { separator } else { "" });
        out.push_str(&text);
    }
    machine.text(&out)
}

/// `text.replace(old, new, count)`
pub(super) fn replaced(machine: &mut Machine, text: &str, args: &mut Values) -> Run<Value> {
    let (old, new, count) = (args.take(0, "old"), args.take(1, "new"), args.take(2, "count"));
    let (Some(Value::Str(old)), Some(Value::Str(new))) = (old, new) else {
        return wrong("replace: two strings expected");
    };
    let most = count.and_then(|n| n.as_int()).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    machine.pay(text.len() as u64)?;
    let matches = text.matches(&*old).take(most).count() as u64;
    machine.pay(matches.saturating_mul(new.len() as u64).saturating_add(text.len() as u64))?;
    Ok(Value::Str(text.replacen(&*old, &new, most).into()))
}

/// `text.format(...)` with fields that name an argument, or take the next one, and say no more.
fn formatted(machine: &mut Machine, text: &str, args: &mut Values) -> Run<Value> {
    let (mut out, mut rest, mut next) = (String::new(), text, 0);
    while let Some((before, after)) = rest.split_once(['{', '}']) {
        machine.pay(before.len() as u64 + 1)?;
        out.push_str(before);
        let opens = rest.get(before.len()..).is_some_and(|r| r.starts_with('{'));
        let brace = if opens { '{' } else { '}' };
        if let Some(doubled) = after.strip_prefix(brace) {
            out.push(brace);
            rest = doubled;
            continue;
        }
        let Some((field, after)) = after.split_once('}').filter(|_| opens) else {
            return wrong("format: a single brace");
        };
        let position = if field.is_empty() { Some(next) } else { field.parse().ok() };
        next += usize::from(field.is_empty());
        let Some(value) = args.get(position, field) else {
            return wrong(format!("format: no argument for the field `{}`", crate::gguf::shown(field)));
        };
        let value = machine.written(&value)?;
        machine.pay(value.len() as u64)?;
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    args.clear();
    machine.text(&out)
}

/// `text.split(separator, most)`, or `rsplit`.
fn split(
    machine: &mut Machine,
    text: &str,
    separator: Option<&Value>,
    most: Option<usize>,
    back: bool,
) -> Run<Value> {
    let most = most.unwrap_or(usize::MAX).saturating_add(1);
    let count = match separator {
        None => text.split_whitespace().count(),
        Some(Value::Str(separator)) if !separator.is_empty() => text.matches(&**separator).count(),
        Some(_) => return wrong("split: a string that is not empty expected"),
    };
    machine.pay(SLOT * (2 + count as u64) + text.len() as u64)?;
    let parts: Vec<&str> = match separator.and_then(Value::as_str) {
        Some(separator) if back => {
            let mut parts: Vec<&str> = text.rsplitn(most, separator).collect();
            parts.reverse();
            parts
        }
        Some(separator) => text.splitn(most, separator).collect(),
        None if most == usize::MAX => text.split_whitespace().collect(),
        None => return wrong("split: a limit without a separator is not supported"),
    };
    Ok(Value::list(parts.into_iter().map(Value::text).collect()))
}
