//! The worker loop on bodies that only record when they ran: order, panics, errors and the watchdog.

use std::collections::BTreeMap;
use std::time::Duration;

use tilewright::compile::Stages;
use tilewright::journal::Journal;
use tilewright::tensor;
use tilewright::{Options, Target};

use super::*;

const ATTENTION: &str = include_str!("../../../programs/attention_causal.tensor");

/// A program at sizes, and its edges.
struct Case {
    stages: Stages,
    symbols: BTreeMap<Symbol, i64>,
    plan: Plan,
    edges: Vec<FamilyEdges>,
}

impl Case {
    fn attention(s: i64, t: i64) -> Case {
        let program = tensor::text::parse("attention", ATTENTION).expect("a program");
        let stages = Stages::lower(
            program,
            &Target::portable(),
            &Options { verify: false, ..Options::default() },
            &mut Journal::new(),
        )
        .expect("stages");
        let sizes = [("S", s), ("T", t), ("H", 2), ("G", 2), ("K", 16), ("V", 16)];
        let symbols: BTreeMap<_, _> = sizes.iter().map(|&(name, size)| (Symbol::new(name), size)).collect();
        let tasks = &stages.kernel.tasks;
        let plan = Plan::new(tasks, &symbols, &symbols).expect("sizes within the facts");
        let edges = tasks.families.iter().map(|family| {
            let names: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
            let bind = |edge| Cells::new(edge, &names, &plan, &symbols).expect("an edge");
            let (waits, notifies) = (&family.waits, &family.notifies);
            FamilyEdges {
                name: family.name.clone(),
                waits: waits.iter().map(bind).collect(),
                notifies: notifies.iter().map(bind).collect(),
            }
        });
        let edges = edges.collect();
        Case { symbols, plan, edges, stages }
    }

    fn run(&self, pool: &Pool, workers: usize, control: &Control, log: &Log) -> Result<(), Error> {
        let steps = &self.stages.kernel.worker;
        let (families, plan, tables) = (&self.edges, &self.plan, &self.symbols);
        let counters = &Counters::default();
        let work = Work { steps, families, plan, control, tables, workers, counters };
        run(pool, &work, |worker| Recorder { log, random: log.seed ^ (worker as u64 + 1) << 32 })
    }

    fn each(&self, task: &TaskRef, waits: bool, mut f: impl FnMut(usize)) {
        let family = &self.edges[task.family.0 as usize];
        for edge in if waits { &family.waits } else { &family.notifies } {
            edge.each(&task.coordinates, &self.symbols, &mut f).expect("cells");
        }
    }

    /// Every task ran once, and started after as many tasks as it awaits had notified each of its cells.
    fn check(&self, log: Log) {
        let runs = log.runs.into_inner().expect("no panic");
        assert_eq!(runs.len() as u64, self.plan.tasks);
        let mut ends: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (task, _, end) in &runs {
            self.each(task, false, |cell| ends.entry(cell).or_default().push(*end));
        }
        let mut awaited = 0;
        for (task, start, _) in &runs {
            self.each(task, true, |cell| {
                let before = ends.get(&cell).map_or(0, |ends| ends.iter().filter(|end| *end < start).count());
                assert!(before as u32 >= self.plan.waits[cell], "{task:?} started early");
                awaited += self.plan.waits[cell];
            });
        }
        assert!(awaited > 0);
    }
}

/// When each task started and ended, in ticks of one clock.
#[derive(Default)]
struct Log {
    seed: u64,
    clock: AtomicU64,
    runs: Mutex<Vec<(TaskRef, u64, u64)>>,
    /// The task, by tick of its start, that panics.
    panics: Option<u64>,
    /// The task, by tick of its start, that fails.
    fails: Option<u64>,
}

struct Recorder<'a> {
    log: &'a Log,
    random: u64,
}

impl Recorder<'_> {
    fn draw(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }
}

impl Body for Recorder<'_> {
    fn prologue(&mut self, _: &TaskRef) -> Result<(), Error> {
        Ok(())
    }

    fn body(&mut self, task: &TaskRef) -> Result<(), Error> {
        let start = self.log.clock.fetch_add(1, Ordering::SeqCst);
        assert_ne!(Some(start), self.log.panics, "planted");
        if Some(start) == self.log.fails {
            return Err(Error::Input { subject: "planted".into(), message: String::new() });
        }
        match self.draw(16) {
            0 => thread::sleep(Duration::from_micros(self.draw(200))),
            1..4 => thread::yield_now(),
            _ => {}
        }
        let end = self.log.clock.fetch_add(1, Ordering::SeqCst);
        lock(&self.log.runs).push((task.clone(), start, end));
        Ok(())
    }
}

#[test]
fn no_task_starts_before_what_it_awaits() {
    let cases = [Case::attention(1, 1), Case::attention(65, 130), Case::attention(130, 65)];
    for workers in 1..=8 {
        let pool = Pool::new(workers);
        for seed in 0..8 {
            for case in &cases {
                let log = Log { seed, ..Log::default() };
                case.run(&pool, workers, &Control::default(), &log).expect("a run");
                case.check(log);
            }
        }
    }
}

#[test]
fn a_panic_or_an_error_ends_the_run_and_not_the_pool() {
    let case = Case::attention(65, 130);
    for workers in 1..=8 {
        let pool = Pool::new(workers);
        for start in 0..8 {
            let log = Log { panics: Some(start), ..Log::default() };
            let outcome = case.run(&pool, workers, &Control::default(), &log);
            // The tick may have been that of an end.
            match outcome {
                Ok(()) => case.check(log),
                Err(error) => assert!(matches!(error, Error::Bug { .. }), "{error}"),
            }
            let log = Log { fails: Some(start), ..Log::default() };
            match case.run(&pool, workers, &Control::default(), &log) {
                Ok(()) => case.check(log),
                Err(error) => assert!(matches!(error, Error::Input { .. }), "{error}"),
            }
            let log = Log::default();
            case.run(&pool, workers, &Control::default(), &log).expect("a run after a panic");
            case.check(log);
        }
    }
}

#[test]
fn a_threshold_out_of_reach_is_named() {
    let mut case = Case::attention(3, 3);
    let cell = case.plan.waits.iter().position(|wait| *wait > 0).expect("a cell that is awaited");
    case.plan.waits[cell] += 1;
    let mut control = Control::default();
    control.watchdog = Duration::from_millis(20);
    for workers in [1, 3] {
        let outcome = case.run(&Pool::new(workers), workers, &control, &Log::default());
        let wanted = format!("of {} notifies", case.plan.waits[cell]);
        match outcome {
            Err(Error::Stuck { state, .. }) => assert!(state.contains(&wanted), "{state}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_cancelled_run_says_so() {
    let control = Control::default();
    control.cancel();
    let outcome = Case::attention(3, 3).run(&Pool::new(2), 2, &control, &Log::default());
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
}
