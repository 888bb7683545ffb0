//! What a legal machine program is.

use super::ir::*;
use super::level::Level;
use super::row::{FlagUse, Slot};

/// What makes a program illegal: a bug of whoever built it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("machine program `{program}`, block `{block}`{}: {what}", inst.map(|i| format!(", instruction {i}")).unwrap_or_default())]
pub struct Illegal {
    /// The program's name.
    pub program: String,
    /// The block's name.
    pub block: String,
    /// Which instruction of the block; `None` for its end or its parameters.
    pub inst: Option<usize>,
    /// What is wrong.
    pub what: String,
}

/// Checks that a program is legal: every value defined once and before its uses on every path, operands of the classes
/// that rows take, an encoding for every instruction at the program's level, jumps that give what blocks take, flags
/// read only just behind what sets them, and an entry with two general parameters where nothing jumps to.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify(program: &Program) -> Result<(), Illegal> {
    let fail = |block: usize, inst: Option<usize>, what: String| {
        let block = program.blocks.get(block).map_or("", |block| &block.name).to_owned();
        Err(Illegal { program: program.name.clone(), block, inst, what })
    };
    let Some(entry) = program.blocks.first() else { return fail(0, None, "there is no block".to_owned()) };
    let known = |value: &ValueId| (value.0 as usize) < program.values.len();
    let is = |value: &ValueId, class: Class| known(value) && program.class(*value) == class;
    if entry.params.len() != 2 || !entry.params.iter().all(|value| is(value, Class::General)) {
        return fail(0, None, "the entry takes two general registers".to_owned());
    }
    let mut defined = vec![false; program.values.len()];
    for (b, block) in program.blocks.iter().enumerate() {
        let results = block.insts.iter().flat_map(|inst| &inst.results);
        for value in block.params.iter().chain(results) {
            if !known(value) || std::mem::replace(&mut defined[value.0 as usize], true) {
                return fail(b, None, format!("v{} is defined twice, or unknown", value.0));
            }
        }
    }
    for (b, block) in program.blocks.iter().enumerate() {
        for (i, inst) in block.insts.iter().enumerate() {
            if let Err(what) = check(program, inst) {
                return fail(b, Some(i), format!("`{}`: {what}", inst.row.name));
            }
            let before = i.checked_sub(1).map(|i| block.insts[i].row.flags);
            if inst.row.flags == FlagUse::Reads && !matches!(before, Some(FlagUse::Sets | FlagUse::Reads)) {
                return fail(b, Some(i), format!("`{}` reads flags that nothing has set", inst.row.name));
            }
        }
        let general = match &block.end {
            Terminator::Jump(_) => Vec::new(),
            Terminator::Return(value) => vec![*value],
            Terminator::Branch { cond: Cond::Overflow, .. } => {
                return fail(b, None, "a branch compares; overflow is for exits".to_owned());
            }
            Terminator::Branch { left, right: Right::Value(right), .. } => vec![*left, *right],
            Terminator::Branch { left, .. } => vec![*left],
        };
        if !general.iter().all(|value| is(value, Class::General)) {
            return fail(b, None, "the end wants general registers".to_owned());
        }
        for target in block.end.targets() {
            let params = match program.blocks.get(target.block.0 as usize) {
                Some(to) if target.block.0 > 0 => &to.params,
                _ => return fail(b, None, "a jump to the entry, or to no block".to_owned()),
            };
            let fits = |(arg, param): (&ValueId, &ValueId)| {
                known(arg) && program.class(*arg) == program.class(*param)
            };
            if params.len() != target.args.len() || !target.args.iter().zip(params).all(fits) {
                return fail(b, None, format!("`{}` takes other values", program.block(target.block).name));
            }
        }
    }
    dominance(program).or_else(|(b, i, what)| fail(b, i, what))
}

fn check(program: &Program, inst: &Inst) -> Result<(), String> {
    let row = inst.row;
    let is = |value: ValueId, class: Class| {
        let found = program.values.get(value.0 as usize);
        if found == Some(&class) { Ok(()) } else { Err(format!("v{} is not of class {class:?}", value.0)) }
    };
    if row.code(program.level, inst.width).is_none() {
        return Err(format!("has no encoding at {} and {:?}", program.level, inst.width));
    }
    let gives: Vec<Class> = row.slots.iter().filter_map(|slot| slot.gives()).collect();
    if gives.len() != inst.results.len() {
        return Err(format!("gives {} values, not {}", gives.len(), inst.results.len()));
    }
    inst.results.iter().zip(gives).try_for_each(|(value, class)| is(*value, class))?;
    let takes: Vec<Slot> = row.slots.iter().copied().filter(|slot| slot.takes()).collect();
    if takes.len() != inst.args.len() {
        return Err(format!("takes {} arguments, not {}", takes.len(), inst.args.len()));
    }
    for (arg, slot) in inst.args.iter().zip(takes) {
        match (arg, slot) {
            (Arg::Value(v), Slot::Use(c, _) | Slot::Late(c, _) | Slot::Tied(c, _) | Slot::Either(c, _)) => {
                is(*v, c)?
            }
            (Arg::Value(v), Slot::Consumed) => is(*v, Class::Mask)?,
            (Arg::Value(v), Slot::Lost) => is(*v, Class::Vector)?,
            (Arg::Value(v), Slot::FixedUse(_)) => is(*v, Class::General)?,
            (
                Arg::Mem(mem),
                Slot::Either(..) | Slot::Load(_) | Slot::Store(_) | Slot::Address | Slot::Lanes(_),
            ) => {
                address(program, mem, slot)?;
            }
            (Arg::Broadcast(mem), Slot::Either(Class::Vector, _)) if row.broadcast => {
                if program.level == Level::Avx2 {
                    return Err("repeats a lane of memory, which AVX2 cannot".to_owned());
                }
                address(program, mem, slot)?;
            }
            (Arg::Splat(_), Slot::Either(Class::Vector, span)) if row.splats(program.level, span) => {}
            (Arg::Imm(v), Slot::Imm(size)) => {
                let fits = match size {
                    1 => (-128..256).contains(v),
                    4 => i32::try_from(*v).is_ok(),
                    _ => true,
                };
                if !fits {
                    return Err(format!("{v} does not fit {size} bytes"));
                }
            }
            (Arg::Tile(n), Slot::Tile) if *n < 8 => {}
            _ => return Err(format!("{arg:?} does not fit {slot:?}")),
        }
    }
    if let Some(masking) = inst.masking {
        if row.masked == 0 || program.level == Level::Avx2 {
            return Err("takes no mask".to_owned());
        }
        is(masking.mask, Class::Mask)?;
        let defines = row.slots.iter().any(|slot| matches!(slot, Slot::Def(Class::Vector, _)));
        match masking.merge {
            Some(value) if defines => is(value, Class::Vector)?,
            Some(_) => return Err("has nothing to merge with".to_owned()),
            None => {}
        }
    }
    if inst.exit.is_some() && row.flags != FlagUse::Sets {
        return Err("has an exit but sets no flags".to_owned());
    }
    Ok(())
}

fn address(program: &Program, mem: &Mem, slot: Slot) -> Result<(), String> {
    let class = |value: ValueId| program.values.get(value.0 as usize).copied();
    match mem.base {
        Base::Value(base) if class(base) != Some(Class::General) => {
            return Err("a base is general".to_owned());
        }
        Base::Constant(_) if mem.index.is_some() => return Err("a constant has no index".to_owned()),
        Base::Constant(id) if id.0 as usize >= program.constants.len() => {
            return Err("no such constant".to_owned());
        }
        _ => {}
    }
    let wanted = if matches!(slot, Slot::Lanes(_)) { Class::Vector } else { Class::General };
    match mem.index {
        Some((index, 1 | 2 | 4 | 8)) if class(index) == Some(wanted) => Ok(()),
        None if !matches!(slot, Slot::Lanes(_)) => Ok(()),
        _ => Err(format!("an index of class {wanted:?} with scale 1, 2, 4 or 8 is wanted")),
    }
}

/// Every use is behind its definition on every path, by a forward pass of sets of defined values to a fixed point.
fn dominance(program: &Program) -> Result<(), (usize, Option<usize>, String)> {
    let count = program.blocks.len();
    let mut at: Vec<Option<Vec<bool>>> = vec![None; count];
    at[0] = Some(vec![false; program.values.len()]);
    let mut work = vec![0];
    while let Some(b) = work.pop() {
        let block = &program.blocks[b];
        let mut defined = at[b].clone().unwrap_or_default();
        let defs = block.insts.iter().flat_map(|inst| &inst.results);
        block.params.iter().chain(defs).for_each(|value| defined[value.0 as usize] = true);
        for target in block.end.targets() {
            let to = target.block.0 as usize;
            let merged = match &at[to] {
                None => defined.clone(),
                Some(old) => old.iter().zip(&defined).map(|(a, b)| *a && *b).collect(),
            };
            if at[to].as_ref() != Some(&merged) {
                at[to] = Some(merged);
                work.push(to);
            }
        }
    }
    for (b, block) in program.blocks.iter().enumerate() {
        let Some(mut defined) = at[b].clone() else { return Err((b, None, "nothing jumps here".to_owned())) };
        block.params.iter().for_each(|value| defined[value.0 as usize] = true);
        let undefined = |defined: &[bool], value: ValueId| !defined[value.0 as usize];
        for (i, inst) in block.insts.iter().enumerate() {
            let mut bad = None;
            super::allocate::reads(inst, |value, _| {
                if undefined(&defined, value) {
                    bad = Some(value);
                }
            });
            if let Some(value) = bad {
                return Err((b, Some(i), format!("v{} is not defined on every path", value.0)));
            }
            inst.results.iter().for_each(|value| defined[value.0 as usize] = true);
        }
        let mut last: Vec<ValueId> = block.end.targets().flat_map(|target| target.args.clone()).collect();
        match &block.end {
            Terminator::Return(value) => last.push(*value),
            Terminator::Branch { left, right, .. } => {
                last.push(*left);
                if let Right::Value(value) = right {
                    last.push(*value);
                }
            }
            Terminator::Jump(_) => {}
        }
        if let Some(value) = last.into_iter().find(|value| undefined(&defined, *value)) {
            return Err((b, None, format!("v{} is not defined on every path", value.0)));
        }
    }
    Ok(())
}
