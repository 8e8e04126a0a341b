//! How scopes are measured.
//!
//! All subjects run in one process, interleaved: a *round* gives every subject one *phase*, and
//! each round begins with another subject, so that drifts of the machine meet all of them alike.
//! In a phase all threads run the same subject, from a common start until the last of them is done:
//! whoever is done earlier goes on without being timed, so that nobody is timed alone. A thread's
//! phase is a few *slices*; a slice is a loop over some 1,000 scopes between two readings of the
//! clock, and its figure is nanoseconds per scope, the loop itself (below half a nanosecond)
//! included. Reported is the median over all slices of all threads and rounds.
//!
//! Slices are timed by the wall clock even where there are more threads than cores. A slice takes
//! some 30 µs and the scheduler takes a core away after milliseconds, so that about one slice in a
//! hundred is spoilt, which a median does not see. The CPU time of the thread would hide what
//! matters most with several threads: waiting for another thread's lock.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One way to measure a scope.
pub trait Subject: Sync {
    /// Its name in tables and JSON.
    fn name(&self) -> &'static str;

    /// Before the threads start a phase: once, on one thread.
    fn begin(&self) {}

    /// How many scopes a thread runs in a phase before all that it touches is in the caches again, which
    /// the other subjects used meanwhile; no more than the plan's warm-up if it is few.
    fn scopes_until_warm(&self) -> usize {
        0
    }

    /// After the threads have finished a phase: once, on one thread.
    fn end(&self) {}

    /// Runs `scopes` scopes on the calling thread and says how long they took. What is done
    /// before and after the loop (making room, handing over) is not timed.
    fn slice(&self, scopes: usize) -> Duration;
}

/// Times `scopes` calls of `scope`, which gets the number of the call.
#[inline(always)]
pub fn time(scopes: usize, mut scope: impl FnMut(usize)) -> Duration {
    let start = Instant::now();
    for call in 0..scopes {
        scope(call);
    }
    start.elapsed()
}

/// The measured code: nothing that the optimiser could remove.
#[inline(always)]
pub fn work(call: usize) {
    black_box(call);
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How often every subject has a turn.
    pub rounds: usize,
    /// Slices per thread and phase that count.
    pub slices: usize,
    /// Slices before those, which warm caches up and let threads come up: at the least so many.
    pub warm_up: usize,
    /// Scopes per slice.
    pub scopes: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { rounds: 60, slices: 12, warm_up: 3, scopes: 1_000 }
    }
}

/// What a number of threads measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// One median per subject, in nanoseconds per scope.
    pub medians: Vec<f64>,
    /// Which part of its time a thread that could run had no core, 0 to 1. Where there are enough
    /// cores, other programs were the reason: threads then took turns instead of running at once.
    /// `None` where the system does not say.
    pub without_core: Option<f64>,
}

/// Runs all subjects on `threads` threads.
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

/// What the scheduler did with a thread, in nanoseconds.
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
    /// How many threads have reached the starting line, over all phases.
    ready: AtomicUsize,
    /// How many threads have finished, over all phases.
    done: AtomicUsize,
}

impl Team {
    /// Waits for all; true on one thread.
    fn meet(&self) -> bool {
        self.barrier.wait().is_leader()
    }

    /// Starts all threads at the same moment. A barrier wakes one thread after the other, which
    /// takes as long as some slices do.
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

/// One thread's part: its samples of every subject.
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

/// Which subject has the given turn: each round begins with another one, and every second round
/// goes backwards, so that no subject always follows the same neighbour.
fn turn_of(round: usize, turn: usize, subjects: usize) -> usize {
    let turn = if round.is_multiple_of(2) { turn } else { subjects - 1 - turn };
    (turn + round) % subjects
}

/// The middle value; the mean of the two middle ones of an even number.
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

    /// Claims a fixed time per scope and counts how it is called.
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
            // The first slices are slower, as real ones are, and must not count.
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
