//! Lets workers leave a loop together. If one worker left alone, the others would wait for it in a
//! collective operation.

use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use burn::data::dataset::DatasetError;
use burn::train::Interrupter;

/// The votes of all workers on whether to continue.
pub(super) struct Agreement {
    workers: usize,
    barrier: Barrier,
    votes: Mutex<Votes>,
}

#[derive(Default)]
struct Votes {
    /// Number of workers that voted to continue in the current round.
    running: usize,
    /// Number of workers that voted to continue in the previous round; all workers read it.
    decided: usize,
}

/// The result of a round, which is the same for all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// All workers continue.
    GoOn,
    /// All workers stop.
    Stop,
    /// Some workers voted to continue, but must stop with the others.
    Split,
}

impl Agreement {
    pub(super) fn of(workers: usize) -> Self {
        Self { workers, barrier: Barrier::new(workers), votes: Mutex::default() }
    }

    fn votes(&self) -> MutexGuard<'_, Votes> {
        self.votes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the votes of all workers and returns the decision.
    pub(super) fn vote(&self, goes_on: bool) -> Decision {
        self.votes().running += usize::from(goes_on);
        if self.barrier.wait().is_leader() {
            let mut votes = self.votes();
            votes.decided = std::mem::take(&mut votes.running);
        }
        // The barrier separates two rounds. No worker votes again before the leader has counted,
        // and no leader counts again before all workers have read the result.
        self.barrier.wait();
        match self.votes().decided {
            0 => Decision::Stop,
            all if all == self.workers => Decision::GoOn,
            _ => Decision::Split,
        }
    }

    /// Returns `batch` if every worker has one and continues. If the workers' data ends at
    /// different batches, the run ends with an error.
    pub(super) fn admit<B>(&self, batch: Option<B>, interrupter: &Interrupter) -> Option<B> {
        let decision = self.vote(batch.is_some() && !interrupter.should_stop());
        if decision == Decision::Split && !interrupter.should_stop() {
            let error = "the workers' loaders yield different numbers of batches";
            interrupter.fail(DatasetError::new(std::io::Error::other(error)));
        }
        batch.filter(|_| decision == Decision::GoOn)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Runs one worker per entry of `batches` and returns the number of collective operations of
    /// each worker. A worker for which `stops` returns `true` at a batch votes to leave before the
    /// update.
    fn run(
        batches: &[usize],
        interrupter: &Interrupter,
        stops: impl Fn(usize, usize) -> bool + Send + Sync,
    ) -> Vec<usize> {
        let agreement = Agreement::of(batches.len());
        // The barrier represents a collective operation: a worker that arrives alone never returns.
        let collective = Barrier::new(batches.len());
        std::thread::scope(|threads| {
            let work = |(worker, number): (usize, usize)| {
                let (agreement, collective, stops) = (&agreement, &collective, &stops);
                threads.spawn(move || {
                    let mut all = 0..number;
                    let mut done = 0;
                    while let Some(batch) = agreement.admit(all.next(), interrupter) {
                        let is_stopped = stops(worker, batch);
                        if is_stopped {
                            interrupter.stop(Some("the profiler"));
                        }
                        if agreement.vote(!is_stopped) != Decision::GoOn {
                            continue;
                        }
                        collective.wait();
                        done += 1;
                    }
                    done
                })
            };
            let workers: Vec<_> = batches.iter().copied().enumerate().map(work).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_workers_run_all_batches_in_any_number_of_epochs() {
        let interrupter = Interrupter::new();
        for number in [3, 0, 50] {
            assert_eq!(run(&[number; 4], &interrupter, |_, _| false), [number; 4]);
        }
        assert!(!interrupter.should_stop());
    }

    #[test]
    fn a_worker_that_stops_takes_the_others_along_before_the_collective() {
        for stopping in 0..3 {
            let interrupter = Interrupter::new();
            let done = run(&[9; 3], &interrupter, |worker, batch| (worker, batch) == (stopping, 4));
            assert_eq!(done, [4; 3]);
            assert!(interrupter.interruption().is_some() && interrupter.error().is_none());
        }
    }

    #[test]
    fn a_stop_at_any_moment_leaves_nobody_waiting() {
        for round in 0..200 {
            let interrupter = Interrupter::new();
            let seen = Arc::new(AtomicUsize::new(0));
            let done = run(&[20; 3], &interrupter, |_, _| {
                // The stop request comes from outside and not from a worker.
                if seen.fetch_add(1, Ordering::Relaxed) == round % 60 {
                    interrupter.stop(None);
                }
                false
            });
            assert!(done.iter().all(|number| *number == done[0]), "{done:?}");
        }
    }

    #[test]
    fn different_numbers_of_batches_are_an_error() {
        let interrupter = Interrupter::new();
        assert_eq!(run(&[2, 1, 3], &interrupter, |_, _| false), [1; 3]);
        let error = interrupter.error().unwrap().to_string();
        assert!(error.contains("different numbers of batches"), "{error}");
    }
}
