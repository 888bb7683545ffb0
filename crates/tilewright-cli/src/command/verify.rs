//! `tilewright verify`: results against evaluation, at many sizes after one compile.

use super::given::{Bound, Given};
use super::run::{result_names, workers};
use super::{Failure, Report, Status, load, show, sweep};
use crate::compare::{Difference, budget, compare};
use crate::engine::Engine;
use crate::sizes::{self, Origin, Sweep, parse_sweep};
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};
use tilewright::dim::Symbol;
use tilewright::error::Error;
use tilewright::host::HostTensor;
use tilewright::tensor::eval::{Bindings, Numerics, eval};
use tilewright::tensor::{Array, Op, Program, Scalar};

/// How long the sweep that nobody asked for goes on.
const PATIENCE: Duration = Duration::from_secs(30);
/// When progress is shown, on a terminal.
const SILENCE: Duration = Duration::from_secs(2);
/// How many skipped combinations are told one by one.
const TOLD: usize = 3;

/// The arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Verify {
    #[command(flatten)]
    given: Given,
    /// Sizes to combine in every way, such as 'S=0,1,7;N=64' [default: 0, 1, odd ones, around block sizes]
    #[arg(long = "sizes", value_name = "SIZES", value_parser = parse_sweep, default_value = "", hide_default_value = true)]
    sweep: Sweep,
    /// Compare the result of every operator of the program, not only what it returns
    #[arg(long)]
    operators: bool,
    /// The error that a result may have, instead of the budget
    #[arg(long, value_name = "ERROR", value_parser = parse_tolerance)]
    tolerance: Option<f64>,
}

const HELP: &str = "\
The error of an element is its distance from the reference, over the larger of the element's magnitude and \
the root mean square of all. A line of the table tells, for one result and the sizes at which it is worst:

  vs f64       the error against evaluation in f64, which never rounds to a narrower type
  budget       the error that it may have: 8 times `own vs f64`, and 4 units in the last place
  own vs f64   the error of plain evaluation in the program's own types
  vs own       the difference from that evaluation
  passes from  the smallest --tolerance that passes at all sizes

Integers and truth values must be equal. What is wrong is named and the exit status is 1.

Examples:
  tilewright verify programs/softmax.tensor
  tilewright verify programs/softmax.tensor --sizes 'R=0,1,7;C=1,63,1000'
  tilewright verify programs/attention_causal.tensor --sizes 'S=0,1,7;T=0,64' --operators";

/// Reads an error: a number that is not negative.
fn parse_tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    number.ok_or_else(|| "a number that is not negative is expected, such as 1e-5".to_string())
}

/// A result at one combination of sizes.
struct Point {
    /// Which combination.
    at: usize,
    /// The largest error against evaluation in f64.
    error: f64,
    /// The error that it may have.
    allowed: f64,
    /// The error of evaluation in the program's own types.
    own: f64,
    /// The largest difference from evaluation in the program's own types.
    from_own: f64,
    /// The element with the largest error: its index, what was found, and what evaluation in f64 gives.
    worst: Option<(Vec<usize>, Scalar, Scalar)>,
}

impl Point {
    fn is_good(&self) -> bool {
        self.error <= self.allowed
    }
}

/// A result of the program.
struct Row {
    name: String,
    /// The operator that gives it.
    operator: String,
    points: Vec<Point>,
}

impl Row {
    /// The worst point: a bad one before any good one.
    fn worst(&self) -> Option<&Point> {
        let rank = |point: &Point| (!point.is_good(), point.error);
        self.points.iter().reduce(|a, b| if rank(b) > rank(a) { b } else { a })
    }
}

/// All that was found.
#[derive(Default)]
struct Findings {
    rows: Vec<Row>,
    /// Combinations that have been run, as text.
    combinations: Vec<BTreeMap<Symbol, i64>>,
    /// Combinations at which the program has no value, and the runtime says so; and why.
    skipped: Vec<(usize, String)>,
    /// Combinations at which the program has no value, and the runtime gives one; and why it has none.
    wrong: Vec<(usize, String)>,
    /// Combinations that there was no time for.
    left: usize,
    elapsed: Duration,
}

pub fn verify(arguments: &Verify) -> Result<Report, Failure> {
    let given = &arguments.given;
    let (program, _) = load(&given.program)?;
    let program = if arguments.operators { with_every_value(&program) } else { program };
    let bound = given.bind(&program)?;
    let combinations = combinations(arguments, &program, &bound)?;
    let start = Instant::now();
    let engine = given.engine(&program)?;
    let compiled = start.elapsed();
    let findings = find(arguments, &program, &bound, &engine, combinations)?;
    Ok(report(arguments, &program, &bound, &engine, compiled, &findings))
}

/// The sizes that vary, in every combination.
fn combinations(
    arguments: &Verify,
    program: &Program,
    bound: &Bound,
) -> Result<Vec<BTreeMap<Symbol, i64>>, Failure> {
    if arguments.sweep.axes.is_empty() {
        let free = bound.sizes.iter().filter(|(_, size)| size.origin == Origin::Default);
        let free: Vec<Symbol> = free.map(|(symbol, _)| symbol.clone()).collect();
        return Ok(sweep::default(&program.facts, &free));
    }
    for (symbol, values) in &arguments.sweep.axes {
        values.iter().try_for_each(|value| sizes::check(&program.facts, symbol, *value))?;
        match bound.sizes.get(symbol).map(|size| &size.origin) {
            Some(Origin::Given) => {
                return Err(Failure::usage(format!("{symbol}: given by --set and by --sizes")));
            }
            Some(Origin::Tensor(name)) => {
                return Err(Failure::usage(format!(
                    "{symbol}: follows from the file for `{name}`, so --sizes cannot vary it"
                )));
            }
            _ => {}
        }
    }
    arguments.sweep.combinations().ok_or_else(|| {
        Failure::usage(format!("--sizes has more than {} combinations; give fewer", Sweep::MAX))
    })
}

fn find(
    arguments: &Verify,
    program: &Program,
    bound: &Bound,
    engine: &Engine,
    combinations: Vec<BTreeMap<Symbol, i64>>,
) -> Result<Findings, Failure> {
    let given = &arguments.given;
    let start = Instant::now();
    let mut findings = Findings::default();
    for (name, operator) in result_names(program).into_iter().zip(operators(program)) {
        findings.rows.push(Row { name, operator, points: Vec::new() });
    }
    let mut progress = Progress { start, shown: false };
    let count = combinations.len();
    for (at, combination) in combinations.into_iter().enumerate() {
        if arguments.sweep.axes.is_empty() && at > 0 && start.elapsed() > PATIENCE {
            findings.left = count - at;
            break;
        }
        progress.show(at, count);
        let place = place(&combination);
        let mut values = sizes::values(&bound.sizes);
        values.extend(combination.clone());
        findings.combinations.push(combination);
        let tensors = match given.tensors(program, &bound.inputs, &values) {
            Ok(tensors) => tensors,
            Err(failure) => {
                findings.skipped.push((at, failure.message));
                continue;
            }
        };
        let bindings =
            Bindings { symbols: values, arrays: tensors.iter().map(HostTensor::to_array).collect() };
        let exact = eval(program, &bindings, Numerics::F64);
        let found = engine.run(&bindings.symbols, &tensors, &given.control());
        let (exact, found) = match (exact, found) {
            (Ok(exact), Ok(found)) => (exact, found),
            (Err(Error::Input { subject, message }), Ok(_)) => {
                findings.wrong.push((at, format!("{subject}: {message}")));
                continue;
            }
            (Err(error @ Error::Input { .. }), Err(Error::Input { .. })) => {
                findings.skipped.push((at, error.to_string()));
                continue;
            }
            (Err(error), _) | (_, Err(error)) => return Err(Failure::from(error).at(&place)),
        };
        let own = eval(program, &bindings, Numerics::Own).map_err(|error| Failure::from(error).at(&place))?;
        if [exact.len(), own.len(), found.len()].iter().any(|&count| count != findings.rows.len()) {
            let message = format!("there are {} results instead of {}", found.len(), findings.rows.len());
            return Err(Failure::from(Error::Bug { stage: "kernel", message }).at(&place));
        }
        for (row, ((exact, own), found)) in findings.rows.iter_mut().zip(exact.iter().zip(&own).zip(&found)) {
            row.points.push(point(arguments, at, exact, own, found));
        }
    }
    progress.end();
    findings.elapsed = start.elapsed();
    Ok(findings)
}

fn point(arguments: &Verify, at: usize, exact: &Array, own: &Array, found: &HostTensor) -> Point {
    let of_own = compare(own, exact, Some(own));
    let array = found.to_array();
    let mut difference = compare(&array, exact, Some(own));
    if array.dtype != own.dtype {
        difference = Difference { error: f64::INFINITY, worst: None };
    }
    let worst =
        difference.worst.map(|(position, found, exact)| (index(position, &own.extents), found, exact));
    Point {
        at,
        error: difference.error,
        allowed: arguments.tolerance.unwrap_or_else(|| budget(found.dtype(), &of_own)),
        own: of_own.error,
        from_own: compare(&array, own, None).error,
        worst,
    }
}

/// The index of an element from its row-major position.
fn index(position: usize, extents: &[usize]) -> Vec<usize> {
    let mut left = position;
    let mut index: Vec<usize> = extents
        .iter()
        .rev()
        .map(|&extent| {
            let i = left % extent.max(1);
            left /= extent.max(1);
            i
        })
        .collect();
    index.reverse();
    index
}

/// Tells on a terminal how far a long sweep has come.
struct Progress {
    start: Instant,
    shown: bool,
}

impl Progress {
    fn show(&mut self, done: usize, count: usize) {
        if self.start.elapsed() > SILENCE && stderr().is_terminal() {
            eprint!("\r{done} of {count} combinations of sizes");
            self.shown = true;
        }
    }

    fn end(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// `S=1 T=5`.
fn place(sizes: &BTreeMap<Symbol, i64>) -> String {
    let parts: Vec<String> = sizes.iter().map(|(symbol, value)| format!("{symbol}={value}")).collect();
    if parts.is_empty() { "these sizes".to_string() } else { parts.join(" ") }
}

/// The program that returns what every operator of its last function gives.
fn with_every_value(program: &Program) -> Program {
    let mut program = program.clone();
    if let Some(main) = program.functions.last_mut() {
        let mut all: Vec<_> = main.nodes.iter().flat_map(|node| node.results.clone()).collect();
        let others: Vec<_> = main.results.iter().copied().filter(|id| !all.contains(id)).collect();
        all.extend(others);
        main.results = all;
    }
    program
}

/// The operator that gives each result.
fn operators(program: &Program) -> Vec<String> {
    let main = program.main();
    let name = |op: &Op| match op {
        Op::Elementwise { function } => function.name.to_string(),
        Op::Reduce { monoid, .. } => monoid.name.to_string(),
        Op::Contract { .. } => "contract".to_string(),
        Op::Special { operator, .. } => operator.name.to_string(),
        Op::Call { function } => program.function(*function).name.to_string(),
        Op::Repeat { function, .. } => format!("repeat {}", program.function(*function).name),
    };
    let of = |id| main.nodes.iter().find(|node| node.results.contains(id)).map(|node| name(&node.op));
    main.results.iter().map(|id| of(id).unwrap_or_else(|| "parameter".to_string())).collect()
}

fn report(
    arguments: &Verify,
    program: &Program,
    bound: &Bound,
    engine: &Engine,
    compiled: Duration,
    findings: &Findings,
) -> Report {
    let given = &arguments.given;
    let name = &program.main().name;
    let compared = findings.combinations.len() - findings.skipped.len() - findings.wrong.len();
    let at = |k: usize| findings.combinations.get(k).map(place).unwrap_or_default();
    // Writing to a string does not fail.
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{name} on {}, {}: one compile ({}), {compared} combination{} of sizes ({})",
        given.runtime.runtime,
        workers(engine.workers()),
        show::time(compiled),
        if compared == 1 { "" } else { "s" },
        show::time(findings.elapsed)
    );
    text.push_str(&sizes_text(bound, findings));

    let mut header = vec!["result"];
    header.extend(arguments.operators.then_some("operator"));
    header.extend(["vs f64", "budget", "own vs f64", "vs own", "passes from", "worst at"]);
    let mut cells = vec![header.iter().map(ToString::to_string).collect::<Vec<_>>()];
    for row in &findings.rows {
        let mut line = vec![row.name.clone()];
        line.extend(arguments.operators.then(|| row.operator.clone()));
        match row.worst() {
            Some(worst) => {
                line.extend([worst.error, worst.allowed, worst.own, worst.from_own].map(show::error));
                line.push(show::error(show::rounded_up(tolerance(row))));
                line.push(if worst.error == 0.0 { "-".to_string() } else { at(worst.at) });
                line.extend((!worst.is_good()).then(|| "MISMATCH".to_string()));
            }
            None => line.push("nothing compared".to_string()),
        }
        cells.push(line);
    }
    let numbers = header.len() - 1;
    let right: Vec<bool> = (0..numbers).map(|k| k + 5 >= numbers).collect();
    text.push_str(&show::table(&cells, &right));

    for (k, reason) in findings.skipped.iter().take(TOLD) {
        let _ = writeln!(text, "skipped at {}: {reason}", at(*k));
    }
    if findings.skipped.len() > TOLD {
        let _ = writeln!(text, "and {} more skipped", findings.skipped.len() - TOLD);
    }
    if findings.left > 0 {
        let seconds = PATIENCE.as_secs();
        let _ = writeln!(
            text,
            "stopped after {seconds} s with {} larger combinations left; --sizes chooses",
            findings.left
        );
    }

    let first = first_bad(findings);
    let complaint = match &first {
        Some((complaint, _)) => Some(format!("mismatch: {complaint}")),
        None if compared == 0 => Some("nothing was compared; give other sizes".to_string()),
        None => None,
    };
    let status = match (&first, compared) {
        (Some(_), _) => Status::Mismatch,
        (None, 0) => Status::Usage,
        _ => Status::Good,
    };
    if status == Status::Good {
        let all = findings.rows.iter().map(tolerance).fold(0.0, f64::max);
        let _ = match all {
            0.0 => writeln!(text, "good: every result is exact"),
            all => writeln!(
                text,
                "good: every result is within its budget; {} is the smallest tolerance that all pass",
                show::error(show::rounded_up(all))
            ),
        };
    }
    let json = json!({
        "program": name.as_str(),
        "runtime": given.runtime.runtime.name(),
        "workers": engine.workers(),
        "good": status == Status::Good,
        "compared": compared,
        "left": findings.left,
        "skipped": findings.skipped.iter().map(|(k, reason)| json!({ "sizes": json_sizes(&findings.combinations, *k), "reason": reason })).collect::<Vec<_>>(),
        "mismatch": first.map(|(complaint, row)| json!({ "result": row, "message": complaint })),
        "compile_milliseconds": show::json_time(compiled),
        "results": findings.rows.iter().map(|row| json_row(row, findings)).collect::<Vec<_>>(),
    });
    Report { text, json, status, complaint }
}

/// The smallest tolerance at which a result passes everywhere.
fn tolerance(row: &Row) -> f64 {
    row.points.iter().map(|point| point.error).fold(0.0, f64::max)
}

/// The first result that is bad, in the order of the program, at the first sizes at which it is: what is said of it,
/// and its name.
fn first_bad(findings: &Findings) -> Option<(String, String)> {
    let at = |k: usize| findings.combinations.get(k).map(place).unwrap_or_default();
    if let Some((k, reason)) = findings.wrong.first() {
        let message = format!("at {} the program has no value ({reason}), but the runtime gives one", at(*k));
        return Some((message, String::new()));
    }
    let bad = findings.rows.iter().find_map(|row| {
        let point = row.points.iter().find(|point| !point.is_good())?;
        Some((row, point))
    });
    bad.map(|(row, point)| {
        let allowed = if point.allowed == 0.0 { "none".to_string() } else { show::error(point.allowed) };
        let error = format!("error {}, allowed {allowed}", show::error(point.error));
        let element = match &point.worst {
            Some((index, found, exact)) => format!(
                "element {index:?} is {}, evaluation in f64 gives {}; {error}",
                show::scalar(*found),
                show::scalar(*exact)
            ),
            None => "it has another type or shape".to_string(),
        };
        (format!("`{}` ({}) at {}: {element}", row.name, row.operator, at(point.at)), row.name.clone())
    })
}

/// A line for each size that varies, and one for the others.
fn sizes_text(bound: &Bound, findings: &Findings) -> String {
    let mut text = String::new();
    let mut others = Vec::new();
    for (symbol, size) in &bound.sizes {
        let mut values: Vec<i64> =
            findings.combinations.iter().filter_map(|sizes| sizes.get(symbol).copied()).collect();
        values.sort_unstable();
        values.dedup();
        let shown: Vec<String> = values.iter().map(i64::to_string).collect();
        if shown.is_empty() {
            others.push(format!("{symbol} = {}", size.describe()));
        } else {
            text.push_str(&format!("  {symbol} = {}\n", shown.join(", ")));
        }
    }
    if !others.is_empty() {
        text.push_str(&format!("  {}\n", others.join(", ")));
    }
    text
}

fn json_sizes(combinations: &[BTreeMap<Symbol, i64>], at: usize) -> Value {
    let sizes = combinations.get(at).into_iter().flatten();
    sizes.map(|(symbol, value)| (symbol.to_string(), json!(value))).collect::<Map<_, _>>().into()
}

fn json_row(row: &Row, findings: &Findings) -> Value {
    let point = |point: &Point| {
        json!({
            "sizes": json_sizes(&findings.combinations, point.at),
            "error": show::json_number(point.error),
            "allowed": show::json_number(point.allowed),
            "own_types": show::json_number(point.own),
            "from_own_types": show::json_number(point.from_own),
            "good": point.is_good(),
        })
    };
    json!({
        "name": row.name,
        "operator": row.operator,
        "smallest_tolerance": show::json_number(tolerance(row)),
        "worst": row.worst().map(point),
        "points": row.points.iter().map(point).collect::<Vec<_>>(),
    })
}
