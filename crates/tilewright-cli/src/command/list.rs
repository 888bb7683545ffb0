//! `tilewright list`: what a program can say and what it can run on, from the tables that the compiler itself reads.

use super::{Report, show};
use crate::engine::Runtime;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tilewright::Target;
use tilewright::tensor::ops::decode;
use tilewright::tensor::{DType, elementwise, monoid, ops};

/// The arguments of `list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tilewright list operators\n  tilewright list formats --json")]
pub struct List {
    /// What to list
    #[arg(value_enum, default_value_t = Listed::Operators)]
    what: Listed,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Listed {
    /// Everything that a program can compute
    Operators,
    /// Reductions
    Monoids,
    /// Packed formats that `decode` reads
    Formats,
    /// Element types
    Types,
    /// What programs are compiled for
    Targets,
    /// What runs programs
    Runtimes,
}

/// A name, how it is written where that is not the name alone, and one line about it.
struct Row {
    group: &'static str,
    name: String,
    form: String,
    doc: String,
}

impl Row {
    fn new(group: &'static str, name: &str, doc: impl Into<String>) -> Row {
        Row { group, name: name.to_string(), form: name.to_string(), doc: doc.into() }
    }
}

pub fn list(arguments: &List) -> Report {
    let rows = match arguments.what {
        Listed::Operators => operators(),
        Listed::Monoids => monoids(),
        Listed::Types => types(),
        Listed::Formats => formats(),
        Listed::Targets => targets(),
        Listed::Runtimes => runtimes(),
    };
    let mut text = String::new();
    for group in rows.chunk_by(|a, b| a.group == b.group) {
        let cells: Vec<Vec<String>> =
            group.iter().map(|row| vec![row.form.clone(), row.doc.clone()]).collect();
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(group.first().map_or("", |row| row.group));
        text.push('\n');
        text.push_str(&show::table(&cells, &[]));
    }
    let json: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "name": row.name, "group": row.group, "form": row.form, "doc": row.doc }))
        .collect();
    Report::good(text, json!({ "rows": json }))
}

fn operators() -> Vec<Row> {
    let elementwise = elementwise::TABLE.iter().map(|row| {
        let operands = ["a", "b", "c"].iter().take(row.arity).copied().collect::<Vec<_>>().join(" ");
        let to = if row.types == elementwise::TypeRule::To { " to TYPE" } else { "" };
        Row {
            form: format!("{} {operands}{to}", row.name),
            ..Row::new("elementwise functions", row.name, row.doc)
        }
    });
    let mut rows: Vec<Row> = elementwise.collect();
    rows.extend(monoids());
    rows.push(Row {
        form: "contract a[i, k] b[j, k] -> [i, j]".into(),
        ..Row::new("contraction", "contract", "the sum of products over every label that the result lacks")
    });
    rows.extend(ops::TABLE.iter().map(|row| Row::new("other operators", row.name, row.doc)));
    rows.push(Row {
        form: "repeat l in L, h = x { f(h, w[l]) -> h }".into(),
        ..Row::new("functions", "repeat", "f applied for l = 0 … L - 1; h is carried, w sliced")
    });
    rows.push(Row { form: "f(x, w)".into(), ..Row::new("functions", "call", "f applied once") });
    rows
}

fn monoids() -> Vec<Row> {
    let row = |row: &monoid::Monoid| Row {
        form: format!("{} a over i", row.name),
        ..Row::new("reductions", row.name, row.doc)
    };
    monoid::TABLE.iter().map(row).collect()
}

fn types() -> Vec<Row> {
    let doc = |dtype: DType| {
        let bytes = dtype.bytes();
        let plural = if bytes == 1 { "" } else { "s" };
        match dtype.int_range() {
            Some((lo, hi)) => format!("{bytes} byte{plural}, integers {lo}..={hi}"),
            None if dtype == DType::Bool => format!("{bytes} byte{plural}, true or false"),
            None => format!("{bytes} byte{plural}, sums accumulate in {}", dtype.accumulator()),
        }
    };
    let known = DType::ALL.into_iter().filter(|dtype| *dtype != DType::ScaledF32);
    known.map(|dtype| Row::new("element types", dtype.name(), doc(dtype))).collect()
}

fn formats() -> Vec<Row> {
    let row = |format: &decode::Format| {
        let doc = format!("{:>3} elements in {:>3} bytes: {}", format.elements, format.bytes, format.doc);
        Row::new("packed formats of `decode a as FORMAT`", format.name, doc)
    };
    decode::TABLE.iter().map(row).collect()
}

fn targets() -> Vec<Row> {
    let target = Target::portable();
    let products: Vec<&str> = target.rows.iter().map(|row| row.name.as_str()).collect();
    let doc = format!("any machine, at most {} workers; products {}", target.workers, products.join(", "));
    vec![Row::new("targets", target.name.as_str(), doc)]
}

fn runtimes() -> Vec<Row> {
    Runtime::ALL.into_iter().map(|runtime| Row::new("runtimes", runtime.name(), runtime.doc())).collect()
}
