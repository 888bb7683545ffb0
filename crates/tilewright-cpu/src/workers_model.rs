//! The worker loop and the pool under a model checker: every interleaving, and every value that a relaxed load may see,
//! up to a bound on preemptions. `make model` runs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use tilewright::compile::Stages;
use tilewright::journal::Journal;
use tilewright::tensor;
use tilewright::{Options, Target};

use super::*;

/// Two elementwise families: the second waits for the first, task by task.
const CHAIN: &str = "program chain(x: f32[N]) -> f32[N]
where N in 0..=1024
{
  a = exp x
  return neg a
}
";

/// A program at sizes, and its edges.
struct Case {
    steps: Vec<WorkerStep>,
    symbols: BTreeMap<Symbol, i64>,
    plan: Plan,
    edges: Vec<FamilyEdges>,
}

impl Case {
    fn chain(n: i64) -> Case {
        let program = tensor::text::parse("chain", CHAIN).expect("a program");
        let stages = Stages::lower(
            program,
            &Target::portable(),
            &Options { verify: false, ..Options::default() },
            &mut Journal::new(),
        )
        .expect("stages");
        let symbols = BTreeMap::from([(Symbol::new("N"), n)]);
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
        Case { steps: stages.kernel.worker.clone(), symbols, plan, edges }
    }

    /// Runs every task on two workers. Each task writes a cell of its own, and reads those of the tasks that it awaits:
    /// the checker objects to a read that no event orders behind the write.
    fn run(&self, control: &Control, faults: Faults) -> Result<(), Error> {
        let pool = Pool::new(2);
        let cells = Watched((0..self.plan.tasks).map(|_| UnsafeCell::new(0)).collect());
        let work = Work {
            steps: &self.steps,
            families: &self.edges,
            plan: &self.plan,
            control,
            tables: &self.symbols,
            workers: 2,
            counters: &Counters::default(),
        };
        let outcome = run(&pool, &work, |_| Toucher { case: self, cells: &cells, faults });
        if outcome.is_ok() {
            // The end of a run is ordered behind every task.
            // SAFETY: no worker is left in the job.
            assert!(cells.0.iter().all(|cell| cell.with(|value| unsafe { *value }) == 1));
        }
        outcome
    }
}

/// Which task, by its position in rank order, goes wrong.
#[derive(Clone, Copy, Default)]
struct Faults {
    fails: Option<usize>,
}

/// Cells that tasks on any thread touch, one per task.
struct Watched(Vec<UnsafeCell<u32>>);

// SAFETY: the checker watches the order of accesses and fails the test on a race.
unsafe impl Sync for Watched {}

struct Toucher<'a> {
    case: &'a Case,
    cells: &'a Watched,
    faults: Faults,
}

impl Body for Toucher<'_> {
    fn prologue(&mut self, _: &TaskRef) -> Result<(), Error> {
        Ok(())
    }

    fn body(&mut self, task: &TaskRef) -> Result<(), Error> {
        let plan = &self.case.plan;
        let position = (0..plan.tasks).position(|k| plan.task_at(k).as_ref() == Some(task)).expect("a task");
        if Some(position) == self.faults.fails {
            return Err(Error::Input { subject: "planted".into(), message: String::new() });
        }
        // SAFETY: the task is the only one that writes its cell; reads of it are what is being checked.
        self.cells.0[position].with_mut(|value| unsafe { *value += 1 });
        let before = position.checked_sub(self.case.blocks());
        if let Some(before) = before {
            let seen = self.cells.0[before].with(|value| unsafe { *value });
            assert_eq!(seen, 1, "a task started before what it awaits");
        }
        Ok(())
    }
}

impl Case {
    /// The number of tasks of each family.
    fn blocks(&self) -> usize {
        self.plan.families[0].tasks as usize
    }
}

fn check(bound: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(bound);
    model.check(body);
}

#[test]
fn what_a_task_awaits_has_happened_before_it() {
    for n in [1, 300] {
        let case = Arc::new(Case::chain(n));
        check(3, move || case.run(&Control::default(), Faults::default()).expect("a run"));
    }
}

#[test]
fn an_error_ends_the_run_on_every_worker() {
    let case = Arc::new(Case::chain(300));
    for fails in [0, 1, 3] {
        let case = Arc::clone(&case);
        check(3, move || {
            let outcome = case.run(&Control::default(), Faults { fails: Some(fails) });
            assert!(matches!(outcome, Err(Error::Input { .. })), "{outcome:?}");
        });
    }
}

#[test]
fn a_pool_runs_one_job_after_another() {
    check(3, || {
        let pool = Pool::new(2);
        let count = AtomicUsize::new(0);
        for round in 1..=2 {
            pool.run(&|_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .expect("no panic");
            assert_eq!(count.load(Ordering::Relaxed), 2 * round);
        }
    });
}
