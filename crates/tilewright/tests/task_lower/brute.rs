//! A check of a task program at one choice of sizes that lists everything: tasks, cells, and the order that events make.

use std::collections::BTreeMap;
use tilewright::dim::{Dim, Env, Scope, Symbol};
use tilewright::task::{Access, Edge, EdgeIndex, FamilyId, Plan, Program, Step};
use tilewright::tensor::Array;

/// Sizes and tables.
pub struct World {
    pub symbols: BTreeMap<Symbol, i64>,
    pub tables: BTreeMap<Symbol, Array>,
}

impl Env for World {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let array = self.tables.get(table)?;
        Some(array.get(array.position(index)?).as_i64())
    }
}

struct Task {
    family: FamilyId,
    at: Vec<i64>,
    reads: Vec<(u32, Vec<(i64, i64)>)>,
    writes: Vec<(u32, Vec<(i64, i64)>)>,
    waits: Vec<(u32, Vec<i64>)>,
    notifies: Vec<(u32, Vec<i64>)>,
}

fn value(dim: &Dim, env: &dyn Env) -> i64 {
    dim.eval(env).unwrap_or_else(|error| panic!("{dim}: {error}"))
}

fn regions(program: &Program, accesses: &[Access], env: &dyn Env) -> Vec<(u32, Vec<(i64, i64)>)> {
    let region = |access: &Access| {
        let extents = program.buffer(access.buffer).extents.iter().map(|dim| value(dim, env));
        let bounds: Vec<(i64, i64)> =
            access.region.iter().map(|i| (value(&i.lo, env), value(&i.hi, env))).collect();
        let empty = bounds.iter().any(|(lo, hi)| lo >= hi);
        for ((lo, hi), extent) in bounds.iter().zip(extents) {
            assert!(
                empty || (0 <= *lo && *hi <= extent),
                "{bounds:?} is not in {}",
                program.buffer(access.buffer).name
            );
        }
        (!empty).then_some((access.buffer.0, bounds))
    };
    accesses.iter().filter_map(region).collect()
}

fn cells(edges: &[Edge], env: &dyn Env) -> Vec<(u32, Vec<i64>)> {
    let mut found = Vec::new();
    for edge in edges {
        let mut tuples = vec![Vec::new()];
        for index in &edge.index {
            let along: Vec<i64> = match index {
                EdgeIndex::Affine(cell) | EdgeIndex::Quotient(cell) => vec![value(cell, env)],
                EdgeIndex::Range { lo, hi } | EdgeIndex::TableRange { lo, hi } => {
                    (value(lo, env)..value(hi, env)).collect()
                }
                EdgeIndex::Gather { label, lo, hi, cell } => (value(lo, env)..value(hi, env))
                    .map(|i| {
                        value(cell, &Scope { parent: env, names: std::slice::from_ref(label), values: &[i] })
                    })
                    .collect(),
            };
            tuples = tuples
                .iter()
                .flat_map(|tuple: &Vec<i64>| along.iter().map(|&i| [tuple.as_slice(), &[i]].concat()))
                .collect();
        }
        found.extend(tuples.into_iter().map(|tuple| (edge.event.0, tuple)));
    }
    found
}

/// The tasks of steps in order, by plain nested loops.
fn list(
    program: &Program,
    steps: &[Step],
    outer: &mut Vec<i64>,
    env: &dyn Env,
    out: &mut Vec<(FamilyId, Vec<i64>)>,
) {
    for step in steps {
        match step {
            Step::Repeat { extent, steps, .. } => {
                for l in 0..value(extent, env) {
                    outer.push(l);
                    list(program, steps, outer, env, out);
                    outer.pop();
                }
            }
            Step::Family(id) => {
                let mut points = vec![outer.clone()];
                for (_, extent) in &program.family(*id).coordinates[outer.len()..] {
                    let extent = value(extent, env);
                    points = points
                        .iter()
                        .flat_map(|point| (0..extent).map(|i| [point.as_slice(), &[i]].concat()))
                        .collect();
                }
                out.extend(points.into_iter().map(|point| (*id, point)));
            }
        }
    }
}

fn meet(a: &[(u32, Vec<(i64, i64)>)], b: &[(u32, Vec<(i64, i64)>)]) -> Option<u32> {
    let overlap =
        |x: &[(i64, i64)], y: &[(i64, i64)]| x.iter().zip(y).all(|(x, y)| x.0.max(y.0) < x.1.min(y.1));
    let pair = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    pair.into_iter().find(|(x, y)| x.0 == y.0 && overlap(&x.1, &y.1)).map(|(x, _)| x.0)
}

/// Panics where a law of `docs/events.md` does not hold. Gives the number of tasks.
pub fn check(program: &Program, world: &World) -> usize {
    let plan = Plan::new(program, &world.symbols, world).unwrap_or_else(|error| panic!("{error}"));
    let mut order = Vec::new();
    list(program, &program.steps, &mut Vec::new(), world, &mut order);
    assert_eq!(plan.tasks, order.len() as u64);
    assert_eq!(plan.task_at(plan.tasks), None);

    let mut tasks = Vec::new();
    for (position, (family, at)) in order.into_iter().enumerate() {
        let planned = plan.task_at(position as u64).expect("a task");
        assert_eq!((planned.family, &planned.coordinates), (family, &at));
        let body = program.family(family);
        let names: Vec<Symbol> = body.coordinates.iter().map(|(name, _)| name.clone()).collect();
        let env = Scope { parent: world, names: &names, values: &at };
        tasks.push(Task {
            family,
            reads: regions(program, &body.reads, &env),
            writes: regions(program, &body.writes, &env),
            waits: cells(&body.waits, &env),
            notifies: cells(&body.notifies, &env),
            at: at.clone(),
        });
    }

    let mut notified: BTreeMap<(u32, Vec<i64>), Vec<usize>> = BTreeMap::new();
    for (position, task) in tasks.iter().enumerate() {
        for cell in &task.notifies {
            notified.entry(cell.clone()).or_default().push(position);
        }
    }
    for (event, cell) in notified.keys().chain(tasks.iter().flat_map(|task| &task.waits)) {
        let extents = &plan.events[*event as usize].extents;
        let inside = cell.iter().zip(extents).all(|(i, n)| 0 <= *i && *i < *n as i64);
        assert!(inside, "{}{cell:?} is outside {extents:?}", program.events[*event as usize].name);
    }

    let words = tasks.len().div_ceil(64);
    let mut before: Vec<Vec<u64>> = Vec::new();
    for (position, task) in tasks.iter().enumerate() {
        let mut reach = vec![0u64; words];
        for (event, cell) in &task.waits {
            let event_plan = &plan.events[*event as usize];
            let linear = cell.iter().zip(&event_plan.extents).fold(0, |at, (i, n)| at * n + *i as usize);
            let wait = plan.waits[event_plan.base + linear] as usize;
            let none = Vec::new();
            let by = notified.get(&(*event, cell.clone())).unwrap_or(&none);
            let name = &program.events[*event as usize].name;
            assert_eq!(by.len(), wait, "{name}{cell:?} at {:?}", world.symbols);
            for &earlier in by {
                assert!(earlier < position, "{name}{cell:?} is notified by a task of higher rank");
                for word in 0..words {
                    reach[word] |= before[earlier][word];
                }
                reach[earlier / 64] |= 1 << (earlier % 64);
            }
        }
        before.push(reach);
    }

    for (later, b) in tasks.iter().enumerate() {
        for (earlier, a) in tasks.iter().enumerate().take(later) {
            let conflict = meet(&a.writes, &b.writes)
                .or_else(|| meet(&a.writes, &b.reads))
                .or_else(|| meet(&a.reads, &b.writes));
            let Some(buffer) = conflict else { continue };
            let repeats = depth(&program.steps, a.family).unwrap_or(0);
            if a.family == b.family && a.at[..repeats] == b.at[..repeats] {
                continue;
            }
            let ordered = before[later][earlier / 64] >> (earlier % 64) & 1 == 1;
            assert!(
                ordered,
                "{}{:?} and {}{:?} meet in {} at {:?}, and nothing orders them",
                program.family(a.family).name,
                a.at,
                program.family(b.family).name,
                b.at,
                program.buffers[buffer as usize].name,
                world.symbols,
            );
        }
    }
    tasks.len()
}

/// The number of repeats around a family.
fn depth(steps: &[Step], family: FamilyId) -> Option<usize> {
    steps.iter().find_map(|step| match step {
        Step::Family(id) => (*id == family).then_some(0),
        Step::Repeat { steps, .. } => depth(steps, family).map(|inner| inner + 1),
    })
}
