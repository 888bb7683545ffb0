//! The filter `tojson` as chat templates expect it: Python's `json.dumps` without escapes of letters.

use std::fmt::Write;

use super::eval::{Machine, Run, Values, wrong};
use super::value::{Value, write_float};

/// The most spaces of a level.
const WIDEST: i64 = 16;

/// `value | tojson(indent=none)`
pub(super) fn tojson(machine: &mut Machine, value: Value, args: &mut Values) -> Run<Value> {
    let indent = args.take(0, "indent").filter(|v| !matches!(v, Value::None));
    // Letters are never escaped, and keys keep their order.
    let _ = (args.take(usize::MAX, "ensure_ascii"), args.take(usize::MAX, "sort_keys"));
    let indent = match indent.map(|v| v.as_int()) {
        None => None,
        Some(Some(width @ 0..=WIDEST)) => usize::try_from(width).ok(),
        Some(_) => return wrong(format!("tojson: an indent of 0 to {WIDEST} expected")),
    };
    // A level of indentation costs at most WIDEST bytes for every two bytes of the value; a character, six.
    let widest = 8 + if indent.is_some() { 8 * u64::from(value.depth()) } else { 0 };
    machine.pay(value.weight().saturating_mul(widest))?;
    let mut out = String::new();
    write_value(&value, indent, 0, &mut out)?;
    Ok(Value::Str(out.into()))
}

fn write_value(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) -> Run<()> {
    match value {
        Value::Undefined | Value::None => out.push_str("null"),
        Value::Bool(x) => out.push_str(if *x { "true" } else { "false" }),
        Value::Int(x) => {
            let _ = write!(out, "{x}");
        }
        Value::Float(x) => write_float(*x, out),
        Value::Str(text) => write_string(text, out),
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.items.iter().enumerate() {
                separate(index, indent, depth + 1, out);
                write_value(item, indent, depth + 1, out)?;
            }
            close(list.items.is_empty(), indent, depth, out);
            out.push(']');
        }
        Value::Dict(dict) => {
            out.push('{');
            for (index, (key, value)) in dict.entries.iter().enumerate() {
                separate(index, indent, depth + 1, out);
                match key {
                    Value::Str(key) => write_string(key, out),
                    key => {
                        let mut text = String::new();
                        write_value(key, None, 0, &mut text)?;
                        write_string(&text, out);
                    }
                }
                out.push_str(": ");
                write_value(value, indent, depth + 1, out)?;
            }
            close(dict.entries.is_empty(), indent, depth, out);
            out.push('}');
        }
        Value::Namespace(_) | Value::Macro(_) | Value::Loop(_) => {
            return wrong(format!("tojson: a {} has no JSON form", value.kind()));
        }
    }
    Ok(())
}

/// What stands before an item.
fn separate(index: usize, indent: Option<usize>, depth: usize, out: &mut String) {
    match (index, indent) {
        (0, _) => {}
        (_, Some(_)) => out.push(','),
        (_, None) => out.push_str(", "),
    }
    line(indent, depth, out);
}

/// What stands before the closing bracket.
fn close(empty: bool, indent: Option<usize>, depth: usize, out: &mut String) {
    if !empty {
        line(indent, depth, out);
    }
}

fn line(indent: Option<usize>, depth: usize, out: &mut String) {
    if let Some(indent) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * depth));
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
