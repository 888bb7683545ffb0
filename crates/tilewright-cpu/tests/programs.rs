//! Every program of `programs/`: one compile, twenty sizes, right against evaluation in f64.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::*;
use tilewright::tensor::eval::Numerics;
use tilewright::tensor::storage::Storage;
use tilewright::tensor::{Array, DType, Data, ParamKind, Program};
use tilewright::{block, kernel, task};

/// Where a program is run.
struct Spec {
    program: &'static str,
    /// The names of the sizes.
    sizes: &'static [&'static str],
    /// Their values, one row for each run.
    at: [&'static [i64]; 20],
    /// The terms of the longest reduction at one row of sizes.
    terms: fn(at: &[i64]) -> i64,
}

const LAYER: [&[i64]; 20] = [
    &[0, 1, 1],
    &[0, 64, 65],
    &[1, 1, 1],
    &[1, 2, 1],
    &[2, 1, 5],
    &[1, 64, 64],
    &[3, 5, 7],
    &[7, 31, 13],
    &[1, 4096, 3],
    &[63, 63, 63],
    &[64, 64, 64],
    &[65, 65, 65],
    &[127, 100, 33],
    &[128, 256, 128],
    &[129, 255, 127],
    &[2, 997, 101],
    &[31, 1009, 37],
    &[257, 48, 96],
    &[17, 513, 300],
    &[5, 8192, 2],
];

const ATTENTION: [&[i64]; 20] = [
    &[0, 0, 1, 1, 1, 1],
    &[0, 5, 2, 1, 8, 8],
    &[5, 0, 1, 2, 8, 8],
    &[1, 1, 1, 1, 1, 1],
    &[1, 2, 1, 1, 3, 2],
    &[2, 5, 2, 3, 16, 16],
    &[5, 2, 2, 3, 16, 16],
    &[3, 3, 4, 7, 64, 64],
    &[7, 13, 3, 1, 80, 80],
    &[1, 129, 2, 4, 128, 128],
    &[1, 1000, 1, 2, 64, 32],
    &[31, 31, 2, 2, 96, 96],
    &[63, 64, 1, 2, 40, 24],
    &[64, 64, 2, 1, 32, 32],
    &[65, 63, 1, 1, 33, 31],
    &[67, 131, 2, 1, 17, 19],
    &[128, 128, 1, 1, 64, 64],
    &[127, 257, 1, 1, 16, 48],
    &[1, 17, 1, 5, 192, 128],
    &[4, 300, 2, 2, 256, 256],
];

/// Attention without groups: sizes S, T, H, K, V.
const HEADS: [&[i64]; 20] = [
    &[0, 0, 1, 1, 1],
    &[0, 5, 2, 8, 8],
    &[5, 0, 2, 8, 8],
    &[1, 1, 1, 1, 1],
    &[1, 2, 1, 3, 2],
    &[2, 5, 6, 16, 16],
    &[5, 2, 6, 16, 16],
    &[3, 3, 7, 64, 64],
    &[7, 13, 3, 80, 80],
    &[1, 129, 8, 128, 128],
    &[1, 1000, 2, 64, 32],
    &[31, 31, 4, 96, 96],
    &[63, 64, 2, 40, 24],
    &[64, 64, 2, 32, 32],
    &[65, 63, 1, 33, 31],
    &[67, 131, 2, 17, 19],
    &[128, 128, 1, 64, 64],
    &[127, 257, 1, 16, 48],
    &[1, 17, 5, 192, 128],
    &[4, 300, 4, 256, 256],
];

/// The rows of sizes at which a program with fixed sizes is compiled.
const FIXED_ROWS: [usize; 7] = [0, 1, 2, 3, 6, 8, 11];

fn specs() -> Vec<Spec> {
    vec![
        Spec {
            program: "attention_causal",
            sizes: &["S", "T", "H", "G", "K", "V"],
            at: ATTENTION,
            terms: |at| at[1],
        },
        Spec {
            program: "attention_gqa",
            sizes: &["S", "T", "H", "G", "K", "V"],
            at: ATTENTION,
            terms: |at| at[1],
        },
        Spec { program: "attention_masked", sizes: &["S", "T", "H", "K", "V"], at: HEADS, terms: |at| at[1] },
        Spec {
            program: "attention_paged",
            sizes: &["B", "P", "R", "N", "H", "G", "K", "V"],
            at: [
                &[0, 0, 1, 0, 1, 1, 1, 1],
                &[0, 3, 4, 2, 1, 1, 8, 8],
                &[2, 0, 4, 0, 2, 1, 8, 8],
                &[1, 1, 1, 1, 1, 1, 1, 1],
                &[1, 1, 16, 1, 1, 1, 8, 8],
                &[2, 5, 16, 2, 2, 2, 16, 16],
                &[3, 4, 1, 7, 1, 3, 5, 7],
                &[5, 11, 7, 3, 2, 4, 32, 16],
                &[4, 9, 16, 4, 1, 7, 64, 64],
                &[1, 64, 16, 63, 1, 4, 64, 64],
                &[2, 65, 16, 33, 2, 1, 80, 80],
                &[3, 40, 64, 3, 1, 2, 96, 32],
                &[7, 13, 17, 5, 1, 1, 31, 33],
                &[2, 6, 128, 3, 2, 2, 40, 40],
                &[1, 5, 256, 2, 1, 1, 128, 128],
                &[16, 32, 8, 4, 2, 2, 24, 24],
                &[33, 70, 4, 3, 1, 2, 16, 48],
                &[65, 3, 2, 2, 1, 1, 9, 4],
                &[2, 100, 1, 129, 3, 1, 16, 16],
                &[1, 20, 32, 31, 1, 2, 192, 128],
            ],
            terms: |at| at[2] * at[3],
        },
        Spec {
            program: "attention_ragged",
            sizes: &["B", "S", "T", "H", "K", "V"],
            at: [
                &[0, 0, 0, 1, 1, 1],
                &[1, 0, 0, 1, 4, 4],
                &[3, 0, 7, 2, 8, 8],
                &[3, 7, 0, 2, 8, 8],
                &[1, 1, 1, 1, 1, 1],
                &[4, 4, 6, 1, 2, 3],
                &[2, 3, 11, 2, 16, 16],
                &[5, 13, 29, 3, 16, 8],
                &[7, 7, 301, 1, 64, 64],
                &[1, 64, 64, 2, 32, 32],
                &[2, 65, 63, 1, 40, 24],
                &[3, 63, 129, 2, 33, 31],
                &[16, 16, 256, 1, 80, 80],
                &[33, 100, 100, 1, 16, 16],
                &[65, 65, 65, 1, 8, 8],
                &[8, 127, 257, 1, 17, 19],
                &[3, 2, 500, 2, 128, 128],
                &[9, 5, 40, 2, 192, 128],
                &[70, 31, 90, 1, 24, 24],
                &[2, 130, 131, 1, 48, 16],
            ],
            terms: |at| at[2],
        },
        Spec {
            program: "attention_softcap",
            sizes: &["S", "T", "H", "K", "V"],
            at: HEADS,
            terms: |at| at[1],
        },
        Spec {
            program: "attention_windowed",
            sizes: &["S", "T", "W", "H", "K", "V"],
            at: [
                &[0, 0, 1, 1, 1, 1],
                &[0, 5, 4, 2, 8, 8],
                &[5, 0, 4, 2, 8, 8],
                &[1, 1, 1, 1, 1, 1],
                &[10, 10, 4, 1, 4, 4],
                &[2, 5, 1, 6, 16, 16],
                &[5, 2, 8192, 6, 16, 16],
                &[3, 3, 2, 7, 64, 64],
                &[7, 13, 5, 3, 80, 80],
                &[1, 129, 64, 8, 128, 128],
                &[1, 1000, 500, 2, 64, 32],
                &[31, 31, 31, 4, 96, 96],
                &[63, 64, 7, 2, 40, 24],
                &[64, 64, 63, 2, 32, 32],
                &[65, 63, 1, 1, 33, 31],
                &[67, 131, 65, 2, 17, 19],
                &[128, 128, 128, 1, 64, 64],
                &[127, 257, 129, 1, 16, 48],
                &[1, 17, 3, 5, 192, 128],
                &[4, 300, 256, 4, 256, 256],
            ],
            terms: |at| at[1].min(at[2]),
        },
        Spec {
            program: "cross_entropy",
            sizes: &["S", "V"],
            at: [
                &[0, 1],
                &[0, 300],
                &[1, 1],
                &[1, 2],
                &[2, 1],
                &[3, 7],
                &[7, 31],
                &[1, 32000],
                &[2, 50257],
                &[63, 63],
                &[64, 64],
                &[65, 65],
                &[127, 129],
                &[128, 256],
                &[129, 255],
                &[1009, 5],
                &[2000, 2],
                &[31, 1009],
                &[257, 300],
                &[5, 8192],
            ],
            terms: |at| at[0].max(at[1]),
        },
        Spec { program: "layernorm_matmul", sizes: &["S", "D", "N"], at: LAYER, terms: |at| at[1] },
        Spec {
            program: "lora",
            sizes: &["S", "D", "N", "R"],
            at: [
                &[0, 1, 1, 1],
                &[0, 64, 65, 8],
                &[1, 1, 1, 1],
                &[1, 2, 1, 4],
                &[2, 1, 5, 3],
                &[1, 64, 64, 16],
                &[3, 5, 7, 8],
                &[7, 31, 13, 5],
                &[1, 4096, 3, 8],
                &[63, 63, 63, 63],
                &[64, 64, 64, 64],
                &[65, 65, 65, 65],
                &[127, 100, 33, 2],
                &[128, 256, 128, 16],
                &[129, 255, 127, 7],
                &[2, 997, 101, 32],
                &[31, 1009, 37, 11],
                &[257, 48, 96, 4],
                &[17, 513, 300, 129],
                &[5, 8192, 2, 8],
            ],
            terms: |at| at[1].max(at[3]),
        },
        Spec {
            program: "moe",
            sizes: &["T", "D", "F", "E", "A"],
            at: [
                &[0, 1, 1, 8, 1],
                &[0, 16, 32, 8, 2],
                &[1, 1, 1, 8, 1],
                &[1, 8, 16, 8, 2],
                &[1, 64, 64, 64, 8],
                &[2, 3, 5, 8, 8],
                &[3, 7, 2, 11, 3],
                &[5, 33, 17, 9, 1],
                &[7, 65, 31, 16, 4],
                &[13, 64, 128, 8, 2],
                &[31, 63, 65, 8, 3],
                &[63, 16, 24, 8, 2],
                &[64, 32, 32, 16, 1],
                &[65, 31, 33, 8, 2],
                &[127, 24, 16, 32, 4],
                &[128, 8, 8, 64, 2],
                &[129, 17, 19, 8, 5],
                &[2, 300, 129, 8, 2],
                &[1, 1000, 16, 8, 2],
                &[257, 5, 3, 100, 8],
            ],
            terms: |at| at[1].max(at[2]),
        },
        Spec { program: "rmsnorm_matmul", sizes: &["S", "D", "N"], at: LAYER, terms: |at| at[1] },
        Spec {
            program: "softmax",
            sizes: &["R", "C"],
            at: [
                &[0, 0],
                &[0, 5],
                &[5, 0],
                &[1, 1],
                &[1, 2],
                &[2, 1],
                &[3, 7],
                &[7, 31],
                &[1, 65536],
                &[2, 50257],
                &[63, 63],
                &[64, 64],
                &[65, 65],
                &[127, 129],
                &[128, 256],
                &[129, 255],
                &[1009, 5],
                &[4000, 1],
                &[31, 1009],
                &[257, 300],
            ],
            terms: |at| at[1],
        },
        Spec { program: "swiglu", sizes: &["S", "D", "F"], at: LAYER, terms: |at| at[1].max(at[2]) },
    ]
}

/// The texts of all programs by name.
fn texts() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let mut texts = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "tensor") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            texts.insert(name, std::fs::read_to_string(&path).expect("a text"));
        }
    }
    texts
}

/// The text form of every level gives the same program back.
fn check_texts(subject: &Subject) {
    for stages in
        [Some(subject.executable.stages()), subject.executable.prepare_stages()].into_iter().flatten()
    {
        let (block, kernel) = (&stages.block, &*stages.kernel);
        let again = block::text::parse("p.block", &block.to_string()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again, *block);
        let again = task::text::parse("p.task", &stages.task.to_string()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again, stages.task);
        let again = kernel::text::parse("p.kernel", &kernel.to_string()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again, *kernel);
    }
}

/// `parts + 1` offsets that rise from 0 to `total`; about every third part is empty.
fn offsets(random: &mut Random, parts: usize, total: i64) -> Vec<i64> {
    let mut cuts = vec![0];
    cuts.extend((1..parts).map(|_| random.below(total as u64 + 1) as i64));
    cuts.sort_unstable();
    for k in 1..cuts.len() {
        if random.below(3) == 0 {
            cuts[k] = cuts[k - 1];
        }
    }
    if parts > 0 {
        cuts.push(total);
    }
    cuts
}

/// The elements of an integer parameter.
fn integers(random: &mut Random, name: &str, size: impl Fn(&str) -> i64, count: usize) -> Vec<i64> {
    match name {
        "qo" => offsets(random, count - 1, size("S")),
        "ko" => offsets(random, count - 1, size("T")),
        "pages" => (0..count).map(|_| random.below(size("P").max(1) as u64) as i64).collect(),
        "length" => {
            let most = size("N") * size("R");
            let any = |random: &mut Random| random.below(most as u64 + 1) as i64;
            (0..count)
                .map(|b| {
                    if b == 0 {
                        most
                    } else if b % 3 == 1 {
                        0
                    } else {
                        any(random)
                    }
                })
                .collect()
        }
        // A tenth of the targets are ignored.
        "target" => (0..count)
            .map(|_| if random.below(10) == 0 { -1 } else { random.below(size("V") as u64) as i64 })
            .collect(),
        other => panic!("integers for {other}"),
    }
}

/// Arrays for all parameters: inputs of deviation 1, matrices of weights so that products keep it, masks that hide a
/// quarter and every fifth row.
fn arrays(program: &Program, at: &[(&str, i64)], random: &mut Random) -> Vec<Array> {
    let (main, symbols) = (program.main(), sizes(at));
    let size = |name: &str| at.iter().find(|(own, _)| *own == name).expect("a size").1;
    let make = |(param, value): (_, &tilewright::tensor::Value)| {
        let storage = Storage::of(main, &value.ty, &program.facts).expect("storage");
        let extents: Vec<usize> =
            storage.extents.iter().map(|extent| extent.eval(&symbols).expect("a size") as usize).collect();
        let count = extents.iter().product();
        let data = match value.ty.dtype {
            DType::Bool => {
                let width = extents.last().copied().unwrap_or(1).max(1);
                Data::Bool((0..count).map(|k| k / width % 5 != 2 && random.below(4) > 0).collect())
            }
            dtype if dtype.is_int() => Data::Int(integers(random, value.name.as_str(), size, count)),
            _ => {
                let fan = extents.last().copied().unwrap_or(1).max(1) as f64;
                let scale =
                    if param == ParamKind::Weight && extents.len() > 1 { fan.sqrt().recip() } else { 1.0 };
                Data::Float(random.normals(count).into_iter().map(|x| x * scale).collect())
            }
        };
        let mut array = Array { dtype: value.ty.dtype, extents, data };
        array.round(Numerics::Own);
        array
    };
    main.params.iter().map(|param| (param.kind, main.value(param.value))).map(make).collect()
}

/// The unit roundoff of a type: the greatest relative error of one rounding.
fn roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::Bf16 => 2f64.powi(-9),
        DType::F16 => 2f64.powi(-12),
        DType::F32 => 2f64.powi(-24),
        _ => 0.0,
    }
}

/// What the error may be, in units of the greatest element of the result: 4 u + 2 (4 + √n) v, where u is the unit
/// roundoff of the narrowest float type that the program computes in, n the terms of the longest reduction and v the
/// unit roundoff of f32, in which all reductions accumulate.
///
/// The result is rounded once (u). Of the values that go into it some were rounded before, each by at most u but with
/// random signs, so that together they are below 3 u of the greatest element. A sum of n terms in f32 rounds n times,
/// with random signs again: √n v, and what else is done in f32 gives a few v more. That this is not loose is tested:
/// evaluation in the program's own types uses a good part of it.
fn budget(program: &Program, terms: i64) -> f64 {
    let main = program.main();
    let given: Vec<_> = main.params.iter().map(|param| main.value(param.value).name.clone()).collect();
    let computed = main.values.iter().filter(|value| !given.contains(&value.name));
    let u = computed.map(|value| roundoff(value.ty.dtype)).fold(0.0, f64::max);
    4.0 * u + 2.0 * (4.0 + (terms as f64).sqrt()) * roundoff(DType::F32)
}

#[test]
fn every_program_has_sizes() {
    let names: Vec<String> = texts().into_keys().collect();
    let specs: Vec<&str> = specs().iter().map(|spec| spec.program).collect();
    assert_eq!(names, specs, "a program of the folder needs a row in `specs`, in order of names");
}

#[test]
fn one_compile_is_right_at_twenty_sizes() {
    let texts = texts();
    for (number, spec) in specs().iter().enumerate() {
        let subject = Subject::new(&texts[spec.program]);
        check_texts(&subject);
        let program = subject.executable.program();
        let (mut tightest, mut worst) = (0.0f64, 0.0f64);
        for (k, row) in spec.at.iter().enumerate() {
            assert_eq!(spec.sizes.len(), row.len(), "{}, row {k}", spec.program);
            let at: Vec<(&str, i64)> = spec.sizes.iter().copied().zip(row.iter().copied()).collect();
            let mut random = Random::new(100 * number as u64 + k as u64 + 1);
            let arrays = arrays(program, &at, &mut random);
            let got = subject.run(&at, &arrays);
            let expected = subject.eval(&at, &arrays, Numerics::F64);
            let own = subject.eval(&at, &arrays, Numerics::Own);
            let allowed = budget(program, (spec.terms)(row));
            assert_eq!(got.len(), expected.len());
            for ((got, expected), own) in got.iter().zip(&expected).zip(&own) {
                let (error, plain) = (distance(got, expected), distance(own, expected));
                assert!(error <= allowed, "{}, {at:?}: {error:.2e}, {allowed:.2e} allowed", spec.program);
                worst = worst.max(error / allowed);
                tightest = tightest.max(plain / allowed);
            }
        }
        println!("{}: {worst:.2} of the budget, evaluation {tightest:.2}", spec.program);
        assert!(tightest > 0.1, "{}: the budget is loose, evaluation needs {tightest:.2}", spec.program);
        let prepares = usize::from(subject.executable.prepare_stages().is_some());
        assert_eq!(subject.compiles(), 1 + prepares, "{}", spec.program);
    }
}

#[test]
fn fixed_sizes_are_right_too() {
    let texts = texts();
    for (number, spec) in specs().iter().enumerate() {
        for (k, row) in spec.at.iter().enumerate().filter(|(k, _)| FIXED_ROWS.contains(k)) {
            let at: Vec<(&str, i64)> = spec.sizes.iter().copied().zip(row.iter().copied()).collect();
            let subject = Subject::new(&fixed(&texts[spec.program], &at));
            let program = subject.executable.program();
            let arrays = arrays(program, &at, &mut Random::new(100 * number as u64 + k as u64 + 1));
            let expected = subject.eval(&at, &arrays, Numerics::F64);
            for (got, expected) in subject.run(&at, &arrays).iter().zip(&expected) {
                let (error, allowed) = (distance(got, expected), budget(program, (spec.terms)(row)));
                assert!(error <= allowed, "{}, {at:?}: {error:.2e}, {allowed:.2e} allowed", spec.program);
            }
        }
    }
}
