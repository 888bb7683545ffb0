//! Many runs with random sizes and 1 to 8 workers, on however few cores there are: some tasks are delayed, some fail, some
//! panic, some runs are cancelled. A run ends before the watchdog, its result is right or it says what went wrong, and
//! its pool serves the next run.
//!
//! `TILEWRIGHT_RUNS` is the number of runs.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::Random;
use tilewright::compile::Stages;
use tilewright::dim::Symbol;
use tilewright::journal::Journal;
use tilewright::runtime::Control;
use tilewright::task::{Cells, Plan, TaskRef};
use tilewright::{Error, Options, Target};
use tilewright_cpu::pool::Pool;
use tilewright_cpu::workers::{self, Body, FamilyEdges, Work};

/// The shortest time without a finished task after which a run is given up.
const WATCHDOG: Duration = Duration::from_secs(20);

/// A name, a text, and the largest value of each symbol.
type Subject = (&'static str, &'static str, &'static [(&'static str, i64)]);

const PROGRAMS: [Subject; 3] = [
    ("softmax", include_str!("../../../programs/softmax.tensor"), &[("R", 400), ("C", 600)]),
    ("swiglu", include_str!("../../../programs/swiglu.tensor"), &[("S", 200), ("D", 300), ("F", 300)]),
    (
        "attention_causal",
        include_str!("../../../programs/attention_causal.tensor"),
        &[("S", 150), ("T", 150), ("H", 3), ("G", 3), ("K", 70), ("V", 70)],
    ),
];

/// What goes wrong with a task, if anything does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Panic,
    Fail,
    Cancel,
}

/// What the tasks of a run do: each checks that all tasks it awaits have run, and leaves its mark.
struct Marks<'a> {
    plan: &'a Plan,
    edges: &'a [FamilyEdges],
    symbols: &'a BTreeMap<Symbol, i64>,
    /// By cell of all events: how many notifies have become due.
    due: Vec<AtomicU32>,
    ran: AtomicU64,
    fault: Fault,
    /// The task, by its turn to start, with the fault.
    culprit: u64,
    control: &'a Control,
    seed: u64,
}

struct Worker<'a>(&'a Marks<'a>, Random);

impl Body for Worker<'_> {
    fn prologue(&mut self, _: &TaskRef) -> Result<(), Error> {
        Ok(())
    }

    fn body(&mut self, task: &TaskRef) -> Result<(), Error> {
        let Worker(marks, random) = self;
        let family = &marks.edges[task.family.0 as usize];
        for edge in &family.waits {
            let check = |cell: usize| {
                let (due, wanted) = (marks.due[cell].load(Ordering::Relaxed), marks.plan.waits[cell]);
                assert!(due >= wanted, "{task:?} started after {due} of {wanted}");
            };
            edge.each(&task.coordinates, marks.symbols, check).expect("cells");
        }
        if marks.ran.fetch_add(1, Ordering::Relaxed) == marks.culprit {
            match marks.fault {
                Fault::None => {}
                Fault::Panic => std::panic::resume_unwind(Box::new("planted")),
                Fault::Fail => {
                    return Err(Error::Input { subject: "planted".into(), message: String::new() });
                }
                Fault::Cancel => marks.control.cancel(),
            }
        }
        match random.below(64) {
            0 => std::thread::sleep(Duration::from_micros(random.below(500))),
            1..6 => std::thread::yield_now(),
            6..10 => (0..random.below(2_000)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
        for edge in &family.notifies {
            let mark = |cell: usize| {
                marks.due[cell].fetch_add(1, Ordering::Relaxed);
            };
            edge.each(&task.coordinates, marks.symbols, mark).expect("cells");
        }
        Ok(())
    }
}

/// The edges of a program at a plan.
fn edges(stages: &Stages, plan: &Plan, symbols: &BTreeMap<Symbol, i64>) -> Vec<FamilyEdges> {
    let bind = |family: &tilewright::task::Family<_>| {
        let names: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
        let cells = |edges: &[tilewright::task::Edge]| {
            edges.iter().map(|edge| Cells::new(edge, &names, plan, symbols).expect("an edge")).collect()
        };
        FamilyEdges {
            name: family.name.clone(),
            waits: cells(&family.waits),
            notifies: cells(&family.notifies),
        }
    };
    stages.kernel.tasks.families.iter().map(bind).collect()
}

#[test]
fn runs_end_right_or_say_why() {
    let runs = std::env::var("TILEWRIGHT_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(400u64);
    let stages = PROGRAMS.map(|(name, text, limits)| {
        let program = tilewright::tensor::text::parse(name, text).expect("a program");
        let stages = Stages::lower(
            program,
            &Target::portable(),
            &Options { verify: false, ..Options::default() },
            &mut Journal::new(),
        );
        (stages.expect("stages"), limits)
    });
    let pools: Vec<Pool> = (1..=8).map(Pool::new).collect();
    let mut seen = [0u64; 4];
    for seed in 0..runs {
        let mut random = Random::new(seed + 1);
        let (stages, limits) = &stages[random.below(stages.len() as u64) as usize];
        let symbols: BTreeMap<Symbol, i64> = limits
            .iter()
            .map(|&(name, limit)| (Symbol::new(name), 1 + random.below(limit as u64) as i64))
            .collect();
        let plan = Plan::new(&stages.kernel.tasks, &symbols, &symbols).expect("sizes within the facts");
        let edges = edges(stages, &plan, &symbols);
        let workers = 1 + random.below(8) as usize;
        let fault = match random.below(8) {
            0 | 1 => Fault::Panic,
            2 => Fault::Fail,
            3 => Fault::Cancel,
            _ => Fault::None,
        };
        let mut control = Control::default();
        control.watchdog = WATCHDOG;
        let marks = Marks {
            plan: &plan,
            edges: &edges,
            symbols: &symbols,
            due: (0..plan.cells()).map(|_| AtomicU32::new(0)).collect(),
            ran: AtomicU64::new(0),
            fault,
            culprit: random.below(plan.tasks.max(1)),
            control: &control,
            seed,
        };
        let work = Work {
            steps: &stages.kernel.worker,
            families: &edges,
            plan: &plan,
            control: &control,
            tables: &symbols,
            workers,
            counters: &workers::Counters::default(),
        };
        let start = Instant::now();
        let outcome = workers::run(&pools[workers - 1], &work, |worker| {
            Worker(&marks, Random::new(marks.seed << 8 | worker as u64))
        });
        assert!(start.elapsed() < WATCHDOG, "run {seed} took {:?}", start.elapsed());
        let (ran, tasks) = (marks.ran.load(Ordering::Relaxed), plan.tasks);
        let right = match (&outcome, fault) {
            (Ok(()), Fault::None) => {
                ran == tasks
                    && marks
                        .due
                        .iter()
                        .zip(&plan.waits)
                        .all(|(due, wait)| due.load(Ordering::Relaxed) >= *wait)
            }
            // The last task may ask for a stop when nothing is left to stop.
            (Ok(()), Fault::Cancel) => ran == tasks,
            (Err(Error::Cancelled), Fault::Cancel) => ran <= tasks,
            (Err(Error::Bug { .. }), Fault::Panic) => ran <= tasks,
            (Err(Error::Input { .. }), Fault::Fail) => ran <= tasks,
            _ => false,
        };
        assert!(right, "run {seed}, {fault:?}, {workers} workers, {ran} of {tasks} tasks: {outcome:?}");
        seen[fault as usize] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
