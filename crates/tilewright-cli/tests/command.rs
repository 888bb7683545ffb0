//! The `tilewright` command as a user runs it: what it prints, where, and its exit status.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tilewright::HostTensor;
use tilewright::tensor::{DType, elementwise, monoid, ops};
use tilewright_cli::npy;

const BINARY: &str = env!("CARGO_BIN_EXE_tilewright");

/// A state that is updated at a position from a table.
const APPEND: &str = "\
program append(cache: state f32[C, D], new: f32[N, D], start: plan i32[one: 1]) -> f32[C, D], f32[D]
where C in 0..=64, N in 0..=64, D in 0..=64, start elements 0..=C
{
  full = update cache new over C at start[0]
  total = sum full over C
  return full, total
}
";

/// Sums over the parts of a ragged axis.
const SUMS: &str = "\
program sums(off: plan i32[n: E + 1], x: f32[e: E, t: off[e + 1] - off[e], D]) -> f32[e: E, D]
where E in 0..=64, T in 0..=64, D in 0..=64, off splits T over E
{
  y = sum x over t
  return y
}
";

/// Half of the work depends on a weight alone.
const SCALED: &str = "\
program scaled(x: f32[S, D], w: weight f32[N, D]) -> f32[S, N]
where S in 0..=64, D in 1..=64, N in 1..=64
{
  u = exp w
  y = contract x[s, d] u[n, d] -> [S: s, N: n]
  return y
}
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder for one test, with the programs of this repository and those above.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("programs")).expect("a new folder");
    for entry in fs::read_dir(root().join("programs")).expect("programs") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_owned();
        fs::copy(&path, folder.join("programs").join(name)).expect("a copy");
    }
    for (name, text) in [("append", APPEND), ("sums", SUMS), ("scaled", SCALED)] {
        fs::write(folder.join(format!("{name}.tensor")), text).expect("a file");
    }
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).current_dir(folder).output().expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Runs the command, which must succeed in silence, and gives what it prints.
fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{arguments:?}\n{out}");
    out
}

/// Runs the command with `--json`, which must succeed, and reads its last line.
fn json(folder: &Path, arguments: &[&str]) -> Value {
    let out = good(folder, &[arguments, &["--json"]].concat());
    let last = out.lines().last().expect("a line");
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
}

fn write(folder: &Path, name: &str, tensor: &HostTensor) {
    npy::write_file(&folder.join(name), tensor).expect("a file");
}

fn floats(folder: &Path, name: &str) -> Vec<f32> {
    npy::read_file(&folder.join(name)).expect("an npy file").to_f32()
}

#[test]
fn a_run_prints_sizes_results_tasks_and_times() {
    let folder = folder("prints");
    let out = good(&folder, &["run", "programs/softmax.tensor", "--set", "R=3", "--threads", "2"]);
    let runtime = tilewright_cli::engine::Runtime::default();
    let start = format!(
        "softmax on {runtime}, 2 workers\n\
        sizes\n  C = 16 by default, R = 3 as given\n\
        parameters\n  x  input  f32[3, 16]  random, seed 1\n\
        results\n  result  f32[3, 16]  "
    );
    assert!(out.starts_with(&start), "{out}");
    assert!(out.contains("\ntasks  5\ntimes  parse ") && out.ends_with(" ms\n"), "{out}");
    for phase in ["compile", "prepare", "plan", "run"] {
        assert!(out.contains(&format!(", {phase} ")), "{out}");
    }
}

#[test]
fn sizes_follow_from_a_file_and_results_are_written() {
    let folder = folder("file");
    write(&folder, "x.npy", &HostTensor::from_f32(vec![2, 3], &[0., 0., 0., 1., 1., 2.]).expect("a tensor"));
    let arguments =
        ["run", "programs/softmax.tensor", "--input", "x=@x.npy", "--output", "out/deep", "--runtime"];
    for runtime in ["portable", "native", "interpreter", "eval"] {
        let found = json(&folder, &[&arguments[..], &[runtime]].concat());
        assert_eq!(found["sizes"], serde_json::json!({ "C": 3, "R": 2 }));
        assert_eq!(found["results"][0]["shape"], serde_json::json!([2, 3]));
        assert_eq!(found["results"][0]["file"], "out/deep/result.npy");
        let e = std::f32::consts::E;
        let expected = [1. / 3., 1. / 3., 1. / 3., 1. / (2. + e), 1. / (2. + e), e / (2. + e)];
        for (a, b) in floats(&folder, "out/deep/result.npy").into_iter().zip(expected) {
            assert!((a - b).abs() < 1e-6, "{runtime}: {a} {b}");
        }
    }
}

#[test]
fn sizes_follow_from_offsets() {
    let folder = folder("offsets");
    write(&folder, "off.npy", &HostTensor::from_i32(vec![4], &[0, 2, 2, 5]).expect("a tensor"));
    let found = json(&folder, &["run", "sums.tensor", "--input", "off=@off.npy", "--set", "D=1"]);
    assert_eq!(found["sizes"], serde_json::json!({ "D": 1, "E": 3, "T": 5 }));
    assert_eq!(found["results"][0]["first"][1], 0.0);
    let verified = json(&folder, &["verify", "sums.tensor", "--input", "off=@off.npy"]);
    assert_eq!(verified["good"], true);
}

#[test]
fn random_inputs_are_the_same_each_time_and_differ_by_seed() {
    let folder = folder("seeds");
    let head = |arguments: &[&str]| {
        let all = [&["run", "programs/softmax.tensor"], arguments].concat();
        json(&folder, &all)["results"][0]["first"].to_string()
    };
    assert_eq!(head(&[]), head(&["--seed", "1"]));
    assert_eq!(head(&["--seed", "7"]), head(&["--input", "x=random:7"]));
    assert_eq!(head(&["--threads", "1"]), head(&["--threads", "5"]));
    assert_ne!(head(&[]), head(&["--seed", "7"]));
    assert!(head(&["--input", "x=zeros"]).starts_with("[0.0625,0.0625,"));
    assert!(head(&["--input", "x=adversarial"]).contains("NaN"));
}

#[test]
fn states_tables_and_weights_have_what_the_program_asks_for() {
    let folder = folder("kinds");
    let found = json(&folder, &["run", "append.tensor", "--set", "N=3", "--set", "C=8"]);
    let kinds: Vec<&str> =
        found["parameters"].as_array().expect("a list").iter().filter_map(|p| p["kind"].as_str()).collect();
    assert_eq!(kinds, ["state", "input", "plan"]);
    let names: Vec<&str> =
        found["results"].as_array().expect("a list").iter().filter_map(|r| r["name"].as_str()).collect();
    assert_eq!(names, ["full", "total"]);
    good(&folder, &["verify", "append.tensor"]);
    good(&folder, &["verify", "scaled.tensor", "--operators"]);
}

#[test]
fn verify_tells_error_budget_and_tolerance_of_each_result() {
    let folder = folder("verify");
    let arguments = ["verify", "programs/softmax.tensor", "--sizes", "R=0,1,3;C=0,1,65"];
    let found = json(&folder, &arguments);
    assert_eq!((&found["good"], &found["compared"]), (&Value::Bool(true), &Value::from(9)));
    assert_eq!(found["results"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["results"][0]["points"].as_array().map(Vec::len), Some(9));
    let smallest = found["results"][0]["smallest_tolerance"].as_f64().expect("a number");
    assert!(smallest > 0.0 && smallest < 1e-6, "{smallest}");

    // The printed tolerance passes, and half of it does not.
    let out = good(&folder, &arguments);
    assert!(out.contains("\n  C = 0, 1, 65\n  R = 0, 1, 3\n"), "{out}");
    let line = out.lines().find(|line| line.trim_start().starts_with("result  ")).expect("a header");
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>().join(" "),
        "result vs f64 budget own vs f64 vs own passes from worst at"
    );
    let last = out.lines().last().expect("a line");
    assert!(last.starts_with("good: every result is within its budget; "), "{out}");
    let printed = last.split_whitespace().nth(7).expect("a number");
    good(&folder, &[&arguments[..], &["--tolerance", printed]].concat());
    let half = (smallest / 2.0).to_string();
    let output = run(&folder, &[&arguments[..], &["--tolerance", &half]].concat());
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_mismatch_names_the_first_bad_result_or_operator() {
    let folder = folder("mismatch");
    let arguments = ["verify", "programs/softmax.tensor", "--sizes", "R=0,1;C=3", "--tolerance", "0"];
    let output = run(&folder, &arguments);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.starts_with("error: mismatch: `result` (div) at C=3 R=1: element [0, "), "{error}");
    assert!(error.ends_with(", allowed none\n") && error.lines().count() == 1, "{error}");
    assert!(text(&output.stdout).contains("  MISMATCH\n"));

    // The maximum is exact; the difference is the first that rounds.
    let output = run(&folder, &[&arguments[..], &["--operators", "--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: mismatch: `d` (sub) at C=3 R=1: "));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&found["good"], &found["mismatch"]["result"]), (&Value::Bool(false), &Value::from("d")));
    let names: Vec<&str> =
        found["results"].as_array().expect("a list").iter().filter_map(|r| r["name"].as_str()).collect();
    assert_eq!(names, ["m", "d", "e", "s", "result"]);
}

#[test]
fn the_default_sweep_has_empty_single_odd_and_large_sizes() {
    let folder = folder("sweep");
    let found = json(&folder, &["verify", "programs/softmax.tensor"]);
    let points = found["results"][0]["points"].as_array().expect("a list");
    for size in [0, 1, 3, 63, 64, 65, 255, 256, 257] {
        assert!(points.iter().any(|point| point["sizes"]["R"] == size), "{size}");
        assert!(points.iter().any(|point| point["sizes"]["C"] == size), "{size}");
    }
}

#[test]
fn where_a_program_has_no_value_sizes_are_skipped_and_told() {
    let folder = folder("skipped");
    let out = good(&folder, &["verify", "sums.tensor", "--sizes", "E=0,1;T=1"]);
    assert!(out.contains("skipped at E=0 T=1: off: no offsets split 1 over 0 parts"), "{out}");
    let output = run(&folder, &["verify", "sums.tensor", "--sizes", "E=0;T=1"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "error: nothing was compared; give other sizes\n");
}

/// Arguments, the exit status, and all of the error stream.
/// One size of each axis only, with more tasks at it than the task verifier looks at.
const UNSUPPORTED: &str = "program rows(x: f32[a: S, b: S], at: i32[z: S]) -> f32[a: S, b: S]\nwhere S in 0..=159\n{\n  o = update x x over a at at[b]\n  return o\n}\n";

#[test]
fn what_is_wrong_is_said() {
    let folder = folder("wrong");
    write(&folder, "x.npy", &HostTensor::zeros(DType::F32, vec![2, 5]).expect("a tensor"));
    write(&folder, "x64.npy", &HostTensor::zeros(DType::F64, vec![2, 5]).expect("a tensor"));
    write(&folder, "flat.npy", &HostTensor::zeros(DType::F32, vec![10]).expect("a tensor"));
    write(&folder, "long.npy", &HostTensor::zeros(DType::F32, vec![1, 70000]).expect("a tensor"));
    write(&folder, "falls.npy", &HostTensor::from_i32(vec![3], &[0, 3, 2]).expect("a tensor"));
    write(&folder, "five.npy", &HostTensor::from_i32(vec![1], &[5]).expect("a tensor"));
    write(&folder, "rows.npy", &HostTensor::zeros(DType::F32, vec![3, 2]).expect("a tensor"));
    fs::write(folder.join("cut.npy"), &fs::read(folder.join("x.npy")).expect("bytes")[..130])
        .expect("a file");
    fs::write(folder.join("binary.tensor"), b"\xff\xfe").expect("a file");
    fs::write(folder.join("empty.tensor"), "").expect("a file");
    let unknown = "program p(x: f32[S]) -> f32[S]\nwhere S in 0..=8\n{\n  y = exq x\n  return y\n}\n";
    fs::write(folder.join("unknown.tensor"), unknown).expect("a file");
    fs::write(folder.join("rows.tensor"), UNSUPPORTED).expect("a file");
    fs::write(folder.join("file"), "").expect("a file");
    let pairs =
        "program p(x: f32[i: 2 * S]) -> f32[i: 2 * S]\nwhere S in 0..=8\n{\n  y = exp x\n  return y\n}\n";
    fs::write(folder.join("pairs.tensor"), pairs).expect("a file");
    write(&folder, "three.npy", &HostTensor::zeros(DType::F32, vec![3]).expect("a tensor"));

    let softmax = "programs/softmax.tensor";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["run", "missing.tensor"], 2, "error: missing.tensor: there is no such file\n"),
        (&["run", "programs"], 2, "error: programs: this is a folder, not a file\n"),
        (
            &["run", "binary.tensor"],
            2,
            "error: binary.tensor: this is not text: invalid utf-8 sequence of 1 bytes from index 0\n",
        ),
        (
            &["run", "empty.tensor"],
            2,
            "error: expected `fn` or `program`, found the end of the text\n --> empty.tensor:1:1\n  |\n1 |\n  | ^\n",
        ),
        (
            &["dump", "unknown.tensor"],
            2,
            "error: unknown operator `exq`; did you mean `exp`?\n --> unknown.tensor:4:7\n  |\n4 |   y = exq x\n  |       ^^^\n",
        ),
        (
            &["run", "rows.tensor"],
            3,
            "error: rows: a: a store at `a + at[b]`, which may lie before the first element is not supported; say that no position is negative: `positions elements 0..=…`\n",
        ),
        (&["run", softmax, "--set", "R=99999"], 2, "error: R: 99999 is outside 0..=65536\n"),
        (&["run", softmax, "--set", "R=-1"], 2, "error: R: -1 is outside 0..=65536\n"),
        (&["run", softmax, "--set", "Q=1"], 2, "error: Q: the program has no such size; there are C, R\n"),
        (&["run", softmax, "--set", "R=1", "--set", "R=2"], 2, "error: R: given twice by --set\n"),
        (
            &["run", softmax, "--set", "R"],
            2,
            "error: invalid value 'R' for '--set <NAME=SIZE>': `R` is not a size and its value, such as `S=128`\n\nFor more information, try '--help'.\n",
        ),
        (&["run", softmax, "--input", "x=@none.npy"], 2, "error: none.npy: there is no such file\n"),
        (
            &["run", softmax, "--input", "x=@binary.tensor"],
            2,
            "error: binary.tensor: not an npy file: it does not begin with \\x93NUMPY\n",
        ),
        (
            &["run", softmax, "--input", "x=@cut.npy"],
            2,
            "error: cut.npy: the data ends early: 40 bytes expected, 2 there\n",
        ),
        (
            &["run", softmax, "--input", "x=@x64.npy"],
            2,
            "error: x: the program needs elements of type f32, the file has f64; in NumPy, `.astype(float32)` converts\n",
        ),
        (
            &["run", softmax, "--input", "x=@flat.npy"],
            2,
            "error: x: the program needs 2 axes, and a tensor of shape [10] was given\n",
        ),
        (
            &["run", softmax, "--input", "x=@long.npy"],
            2,
            "error: x: the shape is [1, 70000], but C = 70000 is outside 0..=65536\n",
        ),
        (
            &["run", softmax, "--input", "x=@x.npy", "--set", "C=4"],
            2,
            "error: x: C is 5 here, and 4 as given\n",
        ),
        (
            &["run", "pairs.tensor", "--input", "x=@three.npy"],
            2,
            "error: x: the program needs a f32[16] at these sizes, a f32[3] was given\n",
        ),
        (
            &["run", "append.tensor", "--input", "start=@five.npy", "--set", "C=4"],
            2,
            "error: start: element [0] is 5, which is outside 0..=4\n",
        ),
        (
            &["run", "append.tensor", "--input", "cache=@x.npy", "--input", "new=@rows.npy"],
            2,
            "error: new: D is 2 here, and 5 from `cache`\n",
        ),
        (
            &["run", "sums.tensor", "--input", "off=@falls.npy"],
            2,
            "error: off: offsets do not decrease, but element 2 is 2, after 3\n",
        ),
        (&["run", softmax, "--input", "y=zeros"], 2, "error: y: no parameter has this name; there are x\n"),
        (
            &["run", softmax, "--input", "x=zeros", "--input", "x=random"],
            2,
            "error: x: given twice by --input\n",
        ),
        (
            &["run", softmax, "--input", "x=x.npy"],
            2,
            "error: invalid value 'x=x.npy' for '--input <NAME=SOURCE>': write a file as `x=@x.npy`\n\nFor more information, try '--help'.\n",
        ),
        (
            &["run", softmax, "--runtime", "portble"],
            2,
            "error: invalid value 'portble' for '--runtime <RUNTIME>'\n  [possible values: portable, native, interpreter, eval]\n\n  tip: a similar value exists: 'portable'\n\nFor more information, try '--help'.\n",
        ),
        (
            &["run", softmax, "--memory-limit", "1K"],
            2,
            "error: 3.1 KiB of memory needed, 1.0 KiB allowed; give smaller sizes\n                1024  d: f32[16, 16]\n                1024  e: f32[16, 16]\n                1024  result: f32[16, 16]\n                1024  x: f32[16, 16]\n                  64  m: f32[16]\n                  64  s: f32[16]\n",
        ),
        (&["run", softmax, "--output", "file"], 2, "error: file: this is a file, not a folder\n"),
        (
            &["verify", softmax, "--sizes", "R=1;Z=1"],
            2,
            "error: Z: the program has no such size; there are C, R\n",
        ),
        (&["verify", softmax, "--sizes", "R=0,65537"], 2, "error: R: 65537 is outside 0..=65536\n"),
        (
            &["verify", softmax, "--sizes", "R=1", "--set", "R=2"],
            2,
            "error: R: given by --set and by --sizes\n",
        ),
        (
            &["verify", softmax, "--sizes", "R=1", "--input", "x=@x.npy"],
            2,
            "error: R: follows from the file for `x`, so --sizes cannot vary it\n",
        ),
        (
            &["verify", softmax, "--sizes", "R=1,x"],
            2,
            "error: invalid value 'R=1,x' for '--sizes <SIZES>': `x` in `R=1,x` is not an integer\n\nFor more information, try '--help'.\n",
        ),
        (
            &["verify", softmax, "--tolerance", "nan"],
            2,
            "error: invalid value 'nan' for '--tolerance <ERROR>': a number that is not negative is expected, such as 1e-5\n\nFor more information, try '--help'.\n",
        ),
        (
            &["list", "operatrs"],
            2,
            "error: invalid value 'operatrs' for '[WHAT]'\n  [possible values: operators, monoids, formats, types, targets, runtimes]\n\n  tip: a similar value exists: 'operators'\n\nFor more information, try '--help'.\n",
        ),
        (
            &["runn"],
            2,
            "error: unrecognized subcommand 'runn'\n\n  tip: a similar subcommand exists: 'run'\n\nUsage: tilewright [OPTIONS] <COMMAND>\n\nFor more information, try '--help'.\n",
        ),
    ];
    let mut wrong = Vec::new();
    for (arguments, code, error) in cases {
        let output = run(&folder, arguments);
        let found = (output.status.code(), text(&output.stderr));
        if found != (Some(*code), error.to_string()) || !output.stdout.is_empty() {
            wrong.push(format!("{arguments:?}: {:?}\n{}", found.0, found.1));
        }
        let output = run(&folder, &[arguments, &["--json"][..]].concat());
        let last = text(&output.stdout).lines().last().map(serde_json::from_str::<Value>);
        let said =
            last.and_then(Result::ok).and_then(|value| Some(value["error"]["message"].as_str()?.to_string()));
        if said.is_none_or(|said| !error.contains(said.trim_end())) || output.status.code() != Some(*code) {
            wrong.push(format!("{arguments:?} --json: {}", text(&output.stdout)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sizes_beyond_memory_are_refused_before_anything_is_made() {
    let folder = folder("memory");
    fs::write(
        folder.join("open.tensor"),
        "program open(x: f32[S]) -> f32[S]\nwhere S in 0..\n{\n  y = exp x\n  return y\n}\n",
    )
    .expect("a file");
    for (size, needed) in [("1000000000000000", "10.7 PiB"), ("9000000000000000000", "16.0 EiB")] {
        let output = run(&folder, &["run", "open.tensor", "--set", &format!("S={size}")]);
        assert_eq!(output.status.code(), Some(2));
        let error = text(&output.stderr);
        assert!(error.starts_with(&format!("error: the parameters take {needed} of memory, ")), "{error}");
        assert!(error.ends_with(" are free; give smaller sizes\n"), "{error}");
    }
}

#[test]
fn every_program_is_dumped_at_every_level_and_read_back() {
    let folder = folder("dump");
    for entry in fs::read_dir(folder.join("programs")).expect("programs") {
        let path = entry.expect("an entry").path();
        let path = path.to_str().expect("a path");
        let at = |stage: &str| good(&folder, &["dump", path, "--after", stage]);
        let text = at("tensor");
        assert_eq!(tilewright::tensor::text::parse("t", &text).expect("a program").to_string(), text);
        let text = at("block");
        assert_eq!(tilewright::block::text::parse("t", &text).expect("a program").to_string(), text);
        let text = at("task");
        assert_eq!(
            tilewright::task::text::parse::<tilewright::task::Body>("t", &text)
                .expect("a program")
                .to_string(),
            text
        );
        let text = at("kernel");
        assert_eq!(tilewright::kernel::text::parse("t", &text).expect("a program").to_string(), text);
        assert_eq!(good(&folder, &["dump", path]), text);
    }
}

#[test]
fn a_dump_tells_the_journal_and_the_work_on_weights() {
    let folder = folder("journal");
    let out = good(&folder, &["dump", "scaled.tensor", "--after", "task", "--journal"]);
    assert!(out.starts_with("# block: chose scaled: y: blocks of "), "{out}");
    assert!(tilewright::task::text::parse::<tilewright::task::Body>("t", &out).is_ok(), "{out}");
    let out = good(&folder, &["dump", "scaled.tensor", "--after", "tensor", "--prepare"]);
    assert!(out.starts_with("program scaled_prepare(w: weight f32[N, D]) -> f32[N, D]\n"), "{out}");
    let out = good(&folder, &["dump", "programs/softmax.tensor", "--prepare"]);
    assert_eq!(out, "# nothing depends on weights alone\n");
    let found = json(&folder, &["dump", "scaled.tensor", "--after", "block", "--journal"]);
    assert_eq!((&found["stage"], &found["violation"]), (&Value::from("block"), &Value::Null));
    assert_eq!(found["journal"][0]["kind"], "chose");
}

#[test]
fn lists_are_those_of_the_compiler() {
    let folder = folder("list");
    let names = |what: &str| -> Vec<String> {
        let found = json(&folder, &["list", what]);
        let rows = found["rows"].as_array().expect("a list");
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row["doc"].as_str().is_some_and(|doc| !doc.is_empty()))
        );
        rows.iter().filter_map(|row| Some(row["name"].as_str()?.to_string())).collect()
    };
    let operators = names("operators");
    let all = elementwise::TABLE.iter().map(|row| row.name);
    for name in
        all.chain(monoid::TABLE.iter().map(|row| row.name)).chain(ops::TABLE.iter().map(|row| row.name))
    {
        assert!(operators.iter().any(|other| other == name), "{name}");
    }
    assert_eq!(names("monoids").len(), monoid::TABLE.len());
    assert_eq!(names("formats").len(), ops::decode::TABLE.len());
    assert_eq!(names("types"), ["bool", "u8", "i8", "i32", "i64", "f16", "bf16", "f32", "f64"]);
    assert_eq!(names("targets"), ["portable"]);
    assert_eq!(names("runtimes"), ["portable", "native", "interpreter", "eval"]);
}

#[test]
fn doctor_tells_the_machine() {
    let folder = folder("doctor");
    let found = json(&folder, &["doctor"]);
    assert!(found["processors"].as_u64().is_some_and(|count| count > 0));
    assert!(found["memory"]["total"].as_u64().is_none_or(|bytes| bytes > 0));
    assert_eq!(found["version"], env!("CARGO_PKG_VERSION"));
    let out = good(&folder, &["doctor"]);
    for word in ["version", "system", "processors", "features", "memory", "runtimes"] {
        assert!(out.lines().any(|line| line.trim_start().starts_with(word)), "{word}\n{out}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = folder("pipe");
    for arguments in [&["list", "operators"][..], &["dump", "programs/attention_causal.tensor"]] {
        let mut child = Command::new(BINARY)
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// The commands in a text: lines that begin with `tilewright`, up to two spaces or a `#`.
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_start).filter(|line| line.starts_with("tilewright "));
    lines.map(|line| line.split("  ").next().unwrap_or(line).to_string()).collect()
}

#[test]
fn the_commands_that_we_advertise_work() {
    let folder = folder("advertised");
    write(&folder, "x.npy", &HostTensor::zeros(DType::F32, vec![2, 5]).expect("a tensor"));
    let readme = fs::read_to_string(root().join("README.md")).expect("the page");
    let mut all = commands(&readme);
    assert!(all.len() >= 6, "{all:?}");
    for help in
        [&["--help"][..], &["run", "--help"], &["verify", "--help"], &["dump", "--help"], &["list", "--help"]]
    {
        let out = good(&folder, help);
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
        let found = commands(out.split_once("Examples:").expect("examples").1);
        assert!(!found.is_empty(), "{out}");
        all.extend(found);
    }
    all.sort();
    all.dedup();
    // `bench/model.sh` shows that one with a real model.
    all.retain(|command| !command.starts_with("tilewright generate "));
    let bin = Path::new(BINARY).parent().expect("a folder").to_str().expect("a path");
    for command in all {
        let script = format!("PATH=\"{bin}:$PATH\"; {command}");
        let output =
            Command::new("bash").args(["-c", &script]).current_dir(&folder).output().expect("bash starts");
        assert_eq!(output.status.code(), Some(0), "{command}\n{}", text(&output.stderr));
    }
}

#[test]
fn the_demonstration_works() {
    let script = fs::read_to_string(root().join("bench/demo.sh")).expect("the script");
    let changed = script.replace("tilewright=target/release/tilewright", &format!("tilewright='{BINARY}'"));
    assert_ne!(script, changed);
    let output = Command::new("bash")
        .args(["-c", &changed, "bench/demo.sh"])
        .current_dir(root())
        .output()
        .expect("bash starts");
    let out = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{out}");
    assert_eq!(out.matches("\ngood: ").count(), 3, "{out}");
    assert!(out.lines().count() < 60 && out.lines().all(|line| line.chars().count() <= 120), "{out}");
}

#[test]
fn help_and_version_are_no_errors() {
    let folder = folder("help");
    assert_eq!(good(&folder, &["--version"]), concat!("tilewright ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(good(&folder, &["--help"]).contains("Exit status: 0 good, 1 mismatch"));
    let output = run(&folder, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && text(&output.stderr).contains("Usage: tilewright"));
}

#[test]
fn generate_says_what_is_wrong_with_a_model() {
    let folder = folder("generate");
    fs::write(folder.join("text.gguf"), "no model").unwrap();
    for (arguments, message) in [
        (&["generate", "text.gguf"][..], "give --prompt TEXT, --raw TEXT or --chat"),
        (&["generate", "none.gguf", "--raw", "x"], "none.gguf: "),
        (&["generate", "text.gguf", "--raw", "x"], "not a GGUF file"),
        (&["generate", "text.gguf", "--raw", "x", "--top-p", "0"], "--top-p 0: above 0 and up to 1 is right"),
        (&["generate", "text.gguf", "--raw", "x", "--prompt", "y"], "cannot be used with"),
    ] {
        let output = run(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.starts_with("error: ") && said.contains(message), "{arguments:?}: {said}");
    }
}
