//! The measurement method for scopes.
//!
//! All subjects run interleaved in one process. In a *round*, every subject has one *phase*. Each
//! round begins with another subject, so that drift of the machine affects all subjects equally.
//!
//! In a phase, all threads run the same subject from a common start. A thread that finishes early
//! continues without timing until the last one is done, so that no thread is timed alone. A
//! thread's phase consists of several *slices*. A slice is a loop over about 1,000 scopes between
//! two clock readings, and its result is nanoseconds per scope. The result includes the loop itself
//! (below 0.5 ns). The reported value is the median over all slices of all threads and rounds.
//!
//! Slices are timed with the wall clock, even with more threads than cores. A slice takes about 30
//! µs, and the scheduler preempts a thread only after milliseconds. About one slice in a hundred is
//! therefore disturbed, which does not change the median. The thread's CPU time would hide the most
//! important cost with several threads: waiting for another thread's lock.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A kind of scope that is measured.
pub trait Subject: Sync {
    /// Returns the name in tables and JSON.
    fn name(&self) -> &'static str;

    /// Prepares a phase. Called once, on one thread, before the threads start.
    fn begin(&self) {}

    /// Returns the number of scopes per phase until a thread's data is in the caches again, after
    /// other subjects have used them. If it is small, the plan's warm-up is used.
    fn scopes_until_warm(&self) -> usize {
        0
    }

    /// Completes a phase. Called once, on one thread, after the threads have finished.
    fn end(&self) {}

    /// Runs `scopes` scopes on the calling thread and returns their duration. Work before and after
    /// the loop, such as reserving memory and flushing, is not timed.
    fn slice(&self, scopes: usize) -> Duration;
}

/// Times `scopes` calls of `scope`, which receives the index of the call.
#[inline(always)]
pub fn time(scopes: usize, mut scope: impl FnMut(usize)) -> Duration {
    let start = Instant::now();
    for call in 0..scopes {
        scope(call);
    }
    start.elapsed()
}

/// The measured code: minimal work that the optimiser cannot remove.
#[inline(always)]
pub fn work(call: usize) {
    black_box(call);
}

/// Amount of measurement.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Number of rounds.
    pub rounds: usize,
    /// Number of timed slices per thread and phase.
    pub slices: usize,
    /// Minimum number of untimed slices before them, in which caches warm up and threads start.
    pub warm_up: usize,
    /// Number of scopes per slice.
    pub scopes: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { rounds: 60, slices: 12, warm_up: 3, scopes: 1_000 }
    }
}

/// Results for a number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// One median per subject, in nanoseconds per scope.
    pub medians: Vec<f64>,
    /// Share of time, from 0 to 1, in which a runnable thread had no core. With enough cores, other
    /// programs are the cause, and threads then ran in turn instead of in parallel. `None` if the
    /// system does not report it.
    pub without_core: Option<f64>,
}

/// Measures all subjects on `threads` threads.
pub fn measure(subjects: &[Box<dyn Subject>], threads: usize, plan: Plan) -> Measured {
    let team = Team { threads, barrier: Barrier::new(threads), ready: 0.into(), done: 0.into() };
    let results: Vec<(Vec<Vec<f64>>, Option<Scheduling>)> = std::thread::scope(|scope| {
        let run = || {
            let before = Scheduling::of_this_thread();
            let samples = run_thread(subjects, &team, plan);
            let spent = Scheduling::of_this_thread().zip(before);
            (samples, spent.map(|(after, before)| after.since(before)))
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let samples_of =
        |subject: usize| median(results.iter().flat_map(|(samples, _)| &samples[subject]).copied());
    let medians = (0..subjects.len()).map(samples_of).collect();
    let spent: Option<Vec<Scheduling>> = results.iter().map(|(_, spent)| *spent).collect();
    Measured { medians, without_core: spent.and_then(|spent| Scheduling::without_core(&spent)) }
}

/// Scheduler statistics of a thread, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Scheduling {
    ran: u64,
    waited: u64,
}

impl Scheduling {
    fn of_this_thread() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        Some(Self { ran: numbers.next()??, waited: numbers.next()?? })
    }

    fn since(self, before: Self) -> Self {
        Self { ran: self.ran - before.ran, waited: self.waited - before.waited }
    }

    fn without_core(threads: &[Self]) -> Option<f64> {
        let waited: u64 = threads.iter().map(|spent| spent.waited).sum();
        let ran: u64 = threads.iter().map(|spent| spent.ran).sum();
        (ran > 0).then(|| waited as f64 / (ran + waited) as f64)
    }
}

/// Threads that measure together.
struct Team {
    threads: usize,
    barrier: Barrier,
    /// Number of threads that have reached the start, over all phases.
    ready: AtomicUsize,
    /// Number of threads that have finished, over all phases.
    done: AtomicUsize,
}

impl Team {
    /// Waits for all threads. Returns `true` on exactly one of them.
    fn meet(&self) -> bool {
        self.barrier.wait().is_leader()
    }

    /// Starts all threads at the same moment. A barrier alone would wake one thread after the
    /// other, which takes as long as several slices.
    fn start(&self, phase: usize) {
        self.ready.fetch_add(1, Ordering::AcqRel);
        while self.ready.load(Ordering::Acquire) < self.threads * (phase + 1) {
            std::thread::yield_now();
        }
    }

    fn is_over(&self, phase: usize) -> bool {
        self.done.load(Ordering::Acquire) >= self.threads * (phase + 1)
    }
}

/// Runs the part of one thread and returns its samples by subject.
fn run_thread(subjects: &[Box<dyn Subject>], team: &Team, plan: Plan) -> Vec<Vec<f64>> {
    let mut samples = vec![Vec::with_capacity(plan.rounds * plan.slices); subjects.len()];
    for round in 0..plan.rounds {
        for turn in 0..subjects.len() {
            let index = turn_of(round, turn, subjects.len());
            if team.meet() {
                subjects[index].begin();
            }
            team.meet();
            run_phase(&*subjects[index], team, round * subjects.len() + turn, plan, |sample| {
                samples[index].push(sample);
            });
            if team.meet() {
                subjects[index].end();
            }
        }
    }
    samples
}

fn run_phase(
    subject: &dyn Subject,
    team: &Team,
    phase: usize,
    plan: Plan,
    mut keep: impl FnMut(f64),
) {
    team.start(phase);
    let warm_up = plan.warm_up.max(subject.scopes_until_warm().div_ceil(plan.scopes));
    for slice in 0..warm_up + plan.slices {
        let duration = subject.slice(plan.scopes);
        if slice >= warm_up {
            keep(duration.as_nanos() as f64 / plan.scopes as f64);
        }
    }
    team.done.fetch_add(1, Ordering::AcqRel);
    while !team.is_over(phase) {
        subject.slice(plan.scopes);
        std::thread::yield_now();
    }
}

/// Returns the index of the subject for a turn. Each round begins with another subject, and every
/// second round runs backwards, so that no subject always follows the same neighbour.
fn turn_of(round: usize, turn: usize, subjects: usize) -> usize {
    let turn = if round.is_multiple_of(2) { turn } else { subjects - 1 - turn };
    (turn + round) % subjects
}

/// Returns the median, or NaN without values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => (values[even / 2 - 1] + values[even / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_subject_has_one_turn_per_round() {
        for round in 0..8 {
            let mut turns: Vec<_> = (0..5).map(|turn| turn_of(round, turn, 5)).collect();
            turns.sort_unstable();
            assert_eq!(turns, [0, 1, 2, 3, 4]);
        }
        assert_ne!(turn_of(0, 0, 5), turn_of(2, 0, 5), "another one begins");
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median([].into_iter()).is_nan());
    }

    /// A subject that reports a fixed time per scope and counts its calls.
    struct Fake {
        per_scope: Duration,
        phases: AtomicUsize,
        slices: AtomicUsize,
    }

    impl Subject for &'static Fake {
        fn name(&self) -> &'static str {
            "fake"
        }
        fn begin(&self) {
            self.phases.fetch_add(1, Ordering::Relaxed);
        }
        fn slice(&self, scopes: usize) -> Duration {
            // The first slices are slower, as in reality, and must not be counted.
            let slow = self.slices.fetch_add(1, Ordering::Relaxed) < 2;
            self.per_scope * u32::try_from(scopes).expect("few") * if slow { 100 } else { 1 }
        }
    }

    #[test]
    fn every_thread_measures_every_round() {
        let fake: &'static Fake = Box::leak(Box::new(Fake {
            per_scope: Duration::from_nanos(7),
            phases: AtomicUsize::new(0),
            slices: AtomicUsize::new(0),
        }));
        let subjects: Vec<Box<dyn Subject>> = vec![Box::new(fake)];
        let plan = Plan { rounds: 3, slices: 2, warm_up: 1, scopes: 10 };
        assert_eq!(measure(&subjects, 2, plan).medians, [7.0]);
        assert_eq!(fake.phases.load(Ordering::Relaxed), 3);
        assert!(fake.slices.load(Ordering::Relaxed) >= 3 * 3 * 2, "more while others measure");
    }
}
