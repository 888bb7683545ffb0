//! Persistent workers: parked between jobs, all at work inside one.
//!
//! A job is a function of the worker's number, run once by every worker; the calling thread is worker 0. Jobs of one pool
//! are run one after another: two callers take turns. A worker that panics does not end the pool: the job's caller is
//! told, and the next job runs on all workers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What each worker runs; valid while the call of [`Pool::run`] that was given it lasts.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: what the pointer leads to may be called from any thread (`Sync`), and `Pool::run` keeps it alive.
unsafe impl Send for Job {}

/// A fixed number of workers.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    turn: Mutex<()>,
}

struct Shared {
    state: Mutex<State>,
    started: Condvar,
    finished: Condvar,
}

struct State {
    /// Counts jobs; a worker runs one each time it rises.
    generation: u64,
    job: Option<Job>,
    /// Workers still in the current job.
    running: usize,
    panicked: bool,
    closed: bool,
}

/// A worker panicked while it ran a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked;

/// A panic never leaves the state half changed, so a poisoned lock is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool of `workers`, at least one. Threads that the system refuses to start are done without.
    pub fn new(workers: usize) -> Pool {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { generation: 0, job: None, running: 0, panicked: false, closed: false }),
            started: Condvar::new(),
            finished: Condvar::new(),
        });
        let threads = (1..workers.max(1))
            .map_while(|number| {
                let shared = Arc::clone(&shared);
                thread::Builder::new()
                    .name(format!("tilewright-{number}"))
                    .spawn(move || work(&shared, number))
                    .ok()
            })
            .collect();
        Pool { shared, threads, turn: Mutex::new(()) }
    }

    /// How many workers there are, the caller included.
    pub fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs a job on every worker and returns when all have finished it.
    ///
    /// # Errors
    /// [`Panicked`] if any worker panicked; the others have finished all the same.
    pub fn run(&self, job: &(dyn Fn(usize) + Sync)) -> Result<(), Panicked> {
        // SAFETY: only the lifetime is dropped. The pointer is taken back below before this function returns, when no
        // worker is left in the job; a panic of the caller's own share is caught before that.
        let erased =
            unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(job) };
        let _turn = lock(&self.turn);
        {
            let mut state = lock(&self.shared.state);
            state.generation += 1;
            state.job = Some(Job(erased));
            state.running = self.threads.len();
            state.panicked = false;
        }
        self.shared.started.notify_all();
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        let mut state = lock(&self.shared.state);
        while state.running > 0 {
            state = self.shared.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.job = None;
        if own.is_err() || state.panicked { Err(Panicked) } else { Ok(()) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared.started.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, number: usize) {
    let mut seen = 0;
    loop {
        let job = {
            let mut state = lock(&shared.state);
            while !state.closed && state.generation == seen {
                state = shared.started.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closed {
                return;
            }
            seen = state.generation;
            state.job
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if let Some(Job(job)) = job {
                // SAFETY: `Pool::run` waits for this worker before the job ends.
                unsafe { (*job)(number) }
            }
        }));
        let mut state = lock(&shared.state);
        state.running -= 1;
        state.panicked |= outcome.is_err();
        if state.running == 0 {
            shared.finished.notify_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_worker_runs_each_job_once() {
        let pool = Pool::new(4);
        for _ in 0..200 {
            let seen: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
            pool.run(&|worker| {
                seen[worker].fetch_add(1, Ordering::Relaxed);
            })
            .expect("no panic");
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_is_reported_and_the_pool_goes_on() {
        let pool = Pool::new(3);
        for culprit in 0..3 {
            let outcome = pool.run(&|worker| assert_ne!(worker, culprit, "planted"));
            assert_eq!(outcome, Err(Panicked));
            assert_eq!(pool.run(&|_| {}), Ok(()));
        }
    }

    #[test]
    fn callers_take_turns() {
        let pool = Arc::new(Pool::new(2));
        let inside = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let (pool, inside) = (Arc::clone(&pool), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..50 {
                        pool.run(&|_| {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        })
                        .expect("never more than the two workers of one job");
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.join().expect("no panic");
        }
    }
}
