//! Random programs: legal ones that nobody would write, to find what the compiler gets wrong.
//!
//! [`random_program`] builds one through `tensor::build`: functions that call and repeat each other, every elementwise
//! function, reduction and operator of the tables, guards, masks, ragged and dependent extents, integer tensors in index
//! expressions, sizes whose bounds include 0 and 1. Operators are drawn from the tables, so that a new row is drawn
//! without an edit here; what does not fit is refused by the builder and drawn again. [`random_sizes`] draws sizes within
//! the facts, [`shrink`] makes a program that fails smaller while it fails.

mod dims;
mod operators;
mod shrink;
mod special;

pub use dims::random_sizes;
pub use shrink::shrink;

use crate::random::Random;
use dims::Sizes;
use operators::Writer;
use tilewright::dim::{Dim, Symbol};
use tilewright::tensor::build::{FunctionBuilder, ProgramBuilder};
use tilewright::tensor::infer::Problem;
use tilewright::tensor::{
    Axis, DType, FunctionId, ParamKind, Program, RepeatArgument, RepeatResult, TensorType, ValueId,
};

/// The element types of parameters, common ones more than once.
const DTYPES: [DType; 12] = [
    DType::F32,
    DType::F32,
    DType::F32,
    DType::Bf16,
    DType::Bf16,
    DType::F16,
    DType::F64,
    DType::I32,
    DType::I32,
    DType::I64,
    DType::Bool,
    DType::U8,
];

/// The most axes of a value that is drawn.
const MAX_RANK: usize = 4;

/// A legal program, the same for a seed.
///
/// # Errors
/// A problem that the builder finds in what should be legal: a mistake in the generator or in the builder.
pub fn random_program(seed: u64) -> Result<Program, Problem> {
    let mut random = Random::new(seed);
    let facts = dims::random_facts(&mut random);
    let sizes = Sizes::of(&facts);
    let mut program = ProgramBuilder::new(facts);
    let mut helpers: Vec<Helper> = Vec::new();
    for k in 0..random.below(3) {
        let helper = random_helper(&mut random, &mut program, &sizes, &helpers, k)?;
        helpers.push(helper);
    }
    let name = format!("generated_{seed}");
    let mut f = program.start(&name);
    params_of_main(&mut random, &mut f, &sizes, &helpers)?;
    let mut writer = Writer { random: &mut random, f, sizes: &sizes, helpers: &helpers };
    let count = 2 + writer.random.below(8);
    writer.operators(count);
    // A helper that has not been drawn by chance is applied now: its arguments are parameters.
    for helper in &helpers {
        if writer.random.one_in(2) {
            let _ = writer.apply(helper);
        }
    }
    let results = writer.results();
    let function = writer.f.finish(&results)?;
    program.function(function)?;
    program.finish()
}

/// A function that others apply.
#[derive(Clone, Debug)]
struct Helper {
    function: FunctionId,
    /// What is passed: the type that the *caller* has, so that a sliced argument has the coordinate's axis.
    params: Vec<TensorType>,
    /// The number of results.
    results: usize,
    /// How it is repeated; none if it is called.
    repeat: Option<Repeat>,
}

#[derive(Clone, Debug)]
struct Repeat {
    extent: Dim,
    arguments: Vec<RepeatArgument>,
    results: Vec<RepeatResult>,
}

fn random_helper(
    random: &mut Random,
    program: &mut ProgramBuilder,
    sizes: &Sizes,
    helpers: &[Helper],
    index: usize,
) -> Result<Helper, Problem> {
    let mut f = program.start(&format!("helper_{index}"));
    let repeated = random.one_in(2);
    let mut params = Vec::new();
    let mut arguments = Vec::new();
    let extent = sizes.extent(random);
    let count = 1 + random.below(3);
    for k in 0..count {
        let ty = if k == 0 { float_type(random, sizes) } else { random_type(random, sizes) };
        let name = format!("p{k}");
        f.param(&name, ty.clone(), ParamKind::Input)?;
        let argument = match (repeated, k) {
            (true, 0) => RepeatArgument::Carried { name: Symbol::from(format!("h{index}")) },
            (true, _) if random.one_in(2) && ty.axes.len() < MAX_RANK => RepeatArgument::Sliced,
            _ => RepeatArgument::Shared,
        };
        let outer = if argument == RepeatArgument::Sliced {
            let mut axes = vec![Axis { name: Symbol::new("layer"), extent: extent.clone() }];
            axes.extend(ty.axes.iter().cloned());
            TensorType { dtype: ty.dtype, axes }
        } else {
            ty
        };
        params.push(outer);
        arguments.push(argument);
    }
    let mut writer = Writer { random, f, sizes, helpers };
    let operators = 1 + writer.random.below(4);
    writer.operators(operators);
    let mut results = Vec::new();
    let mut kinds = Vec::new();
    if repeated {
        results.push(writer.next_carried(ValueId(0))?);
        kinds.push(RepeatResult::Carried(0));
    }
    if !repeated || writer.random.one_in(2) {
        let candidates: Vec<ValueId> = writer.free_values();
        let last = candidates.last().copied().filter(|_| !writer.random.one_in(4));
        let chosen = last.or_else(|| writer.random.pick(&candidates).copied()).unwrap_or(ValueId(0));
        results.push(chosen);
        kinds.push(RepeatResult::Stacked);
    }
    let function = writer.f.finish(&results)?;
    let function = program.function(function)?;
    let repeat = repeated.then_some(Repeat { extent, arguments, results: kinds });
    Ok(Helper { function, params, results: results.len(), repeat })
}

fn params_of_main(
    random: &mut Random,
    f: &mut FunctionBuilder,
    sizes: &Sizes,
    helpers: &[Helper],
) -> Result<(), Problem> {
    for (name, ty) in &sizes.tables {
        let kind = if random.one_in(2) { ParamKind::Plan } else { ParamKind::Input };
        f.param(name.as_str(), ty.clone(), kind)?;
    }
    let mut types: Vec<TensorType> = helpers.iter().flat_map(|helper| helper.params.clone()).collect();
    types.extend((0..1 + random.below(3)).map(|_| random_type(random, sizes)));
    if random.one_in(2) {
        // Something to index with, and a mask.
        let axes = dense_axes(random, sizes, 1);
        types.push(TensorType { dtype: DType::I32, axes });
        types.push(TensorType { dtype: DType::Bool, ..random_type(random, sizes) });
    }
    if random.one_in(4) {
        types.extend(bytes_type(random, sizes));
    }
    if sizes.splits.is_some() && random.one_in(2) {
        types.extend(sizes.ragged(random));
    }
    for (k, ty) in types.into_iter().enumerate() {
        let kind = match random.below(8) {
            0 | 1 => ParamKind::Weight,
            2 => ParamKind::State,
            3 if ty.dtype.is_int() => ParamKind::Plan,
            _ => ParamKind::Input,
        };
        f.param(&format!("x{k}"), ty, kind)?;
    }
    Ok(())
}

/// Bytes for a packed format, whose last axis is a multiple of a block.
fn bytes_type(random: &mut Random, sizes: &Sizes) -> Option<TensorType> {
    let format = random.pick(tilewright::tensor::ops::decode::TABLE)?;
    let (rows, blocks) = (sizes.extent(random), sizes.extent(random));
    let axes = vec![
        Axis { name: Symbol::new("rows"), extent: rows },
        Axis { name: Symbol::new("bytes"), extent: blocks * format.bytes },
    ];
    Some(TensorType { dtype: DType::U8, axes })
}

fn float_type(random: &mut Random, sizes: &Sizes) -> TensorType {
    let floats = [DType::F32, DType::F32, DType::Bf16, DType::F16, DType::F64];
    let dtype = random.pick(&floats).copied().unwrap_or(DType::F32);
    let rank = 1 + random.below(2);
    TensorType { dtype, axes: dense_axes(random, sizes, rank) }
}

fn random_type(random: &mut Random, sizes: &Sizes) -> TensorType {
    let dtype = random.pick(&DTYPES).copied().unwrap_or(DType::F32);
    let rank = random.pick(&[0, 1, 1, 2, 2, 2, 3]).copied().unwrap_or(1);
    TensorType { dtype, axes: dense_axes(random, sizes, rank) }
}

/// Axes with extents that depend on no index.
fn dense_axes(random: &mut Random, sizes: &Sizes, rank: usize) -> Vec<Axis> {
    let extents: Vec<Dim> = (0..rank).map(|_| sizes.extent(random)).collect();
    let mut axes: Vec<Axis> = Vec::new();
    while axes.len() < rank {
        let (at, extent) = (axes.len(), &extents[axes.len()]);
        // A bare symbol as often as a name of its own; no later extent may mention it then.
        let later = |symbol: &&Symbol| !extents[at + 1..].iter().any(|other| other.mentions(symbol));
        let own = extent.as_symbol().filter(later).filter(|_| random.one_in(2)).cloned();
        let name = own.unwrap_or_else(|| Symbol::from(format!("a{}", random.below(6))));
        if !axes.iter().any(|axis| axis.name == name) {
            axes.push(Axis { name, extent: extent.clone() });
        }
    }
    axes
}
