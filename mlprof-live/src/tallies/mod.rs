//! What threads do while somebody looks: how often each action ran, how long, and inside of which other one.
//!
//! Each thread has a table of its own, with a lock that only who reads takes besides; actions are told apart by what is
//! around them. *Cost* while somebody looks: two readings of the clock and of a small table for each action, some 100 ns,
//! and a sum over all places each 16 steps. *Memory*: at most 512 places, each with a few hundred bytes for each of up to 1,024 threads;
//! nothing while nobody looks.

mod durations;
mod followed;
mod places;
mod thread;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use mlprof_core::watcher;
use mlprof_events::CounterSample;
use mlprof_events::clock::{self, Rate};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::live::{ActionState, Activity, CounterState, ThreadState};

use self::durations::Durations;
pub(crate) use self::followed::Followed;
use self::places::{Places, ToldPlace};
use self::thread::OfThread;

/// How far back it looks, and in how many parts.
const LAST_STEPS: u64 = 128;
const STEPS_OF_A_PART: u64 = 16;

/// Threads that live at once; what others do is not known.
const MOST_THREADS: usize = 1024;

/// Counts forks: in a child nobody looks who has looked at its parent.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// In a forked child: nobody looks here any more. Safe where only that is allowed which may be done in signal handlers.
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// See the [module](self).
pub(crate) struct Tallies {
    /// Never used twice in a process.
    number: u64,
    forks: u32,
    places: Mutex<Places>,
    threads: Mutex<Vec<Arc<OfThread>>>,
    gone: Mutex<Gone>,
    marks: Mutex<Marks>,
}

/// What threads did that are no more.
#[derive(Default)]
struct Gone {
    sums: Vec<Durations>,
    left_out: u64,
}

/// Calls and ticks of each place up to some moment.
#[derive(Default, Clone)]
struct Mark {
    /// How many steps were over.
    steps: u64,
    sums: Vec<(u64, u64)>,
}

impl Mark {
    fn add(&mut self, sums: &[Durations]) {
        if self.sums.len() < sums.len() {
            self.sums.resize(sums.len(), (0, 0));
        }
        for (to, from) in self.sums.iter_mut().zip(sums) {
            to.0 += from.calls;
            to.1 += from.ticks;
        }
    }
}

#[derive(Default)]
struct Marks {
    steps: u64,
    /// When the stage began, or somebody began to look.
    stage: Mark,
    /// Not older than the last steps; the oldest first.
    last: VecDeque<Mark>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tallies {
    pub(crate) fn new() -> Arc<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let marks = Marks { last: VecDeque::from([Mark::default()]), ..Marks::default() };
        Arc::new(Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            forks: forks(),
            places: Mutex::default(),
            threads: Mutex::default(),
            gone: Mutex::default(),
            marks: Mutex::new(marks),
        })
    }

    /// Whether whoever looks does so at this process, and not at the one that it was forked from.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.forks == forks()
    }

    fn thread_begins(&self, thread: &Arc<OfThread>) -> Option<()> {
        let mut threads = lock(&self.threads);
        (threads.len() < MOST_THREADS).then(|| threads.push(thread.clone()))
    }

    fn thread_has_ended(&self, ended: &Arc<OfThread>) {
        let mut threads = lock(&self.threads);
        let mut gone = lock(&self.gone);
        let table = ended.table();
        add(&mut gone.sums, &table.sums);
        gone.left_out += table.left_out;
        drop(table);
        threads.retain(|thread| !Arc::ptr_eq(thread, ended));
    }

    /// How long the calls of each place took, and how many there was no room for.
    fn sums(&self) -> (Vec<Durations>, u64) {
        let threads = lock(&self.threads);
        let gone = lock(&self.gone);
        let (mut sums, mut left_out) = (gone.sums.clone(), gone.left_out);
        drop(gone);
        for thread in &*threads {
            let table = thread.table();
            add(&mut sums, &table.sums);
            left_out += table.left_out;
        }
        (sums, left_out)
    }

    fn mark(&self, steps: u64) -> Mark {
        let mut mark = Mark { steps, sums: Vec::new() };
        let threads = lock(&self.threads);
        mark.add(&lock(&self.gone).sums);
        threads.iter().for_each(|thread| mark.add(&thread.table().sums));
        mark
    }

    /// A step is over on this thread.
    pub(crate) fn step(self: &Arc<Self>) {
        self.here(|table| {
            let mut places = lock(&self.places);
            table.open.iter().for_each(|open| places.goes_on_around_steps(open.action));
        });
        let mut marks = lock(&self.marks);
        marks.steps += 1;
        if marks.steps.is_multiple_of(STEPS_OF_A_PART) {
            let mark = self.mark(marks.steps);
            marks.last.push_back(mark);
            let oldest = marks.steps.saturating_sub(LAST_STEPS);
            while marks.last.front().is_some_and(|mark| mark.steps < oldest) {
                marks.last.pop_front();
            }
        }
    }

    /// The first stage of a training begins.
    pub(crate) fn stage_begins(&self) {
        let mut marks = lock(&self.marks);
        let mark = self.mark(marks.steps);
        marks.stage = mark.clone();
        marks.last = VecDeque::from([mark]);
    }

    /// What threads have done lately, and are in now.
    pub(crate) fn activity(&self) -> Activity {
        // Before anything is locked: devices take a while.
        let counters = watcher::devices_now().iter().map(counter_state).collect();
        let marks = lock(&self.marks);
        let (sums, left_out) = self.sums();
        let told = lock(&self.places).told();
        let newest = Mark::default();
        let last = marks.last.front().unwrap_or(&newest);
        let rate = Rate::now();
        Activity {
            steps: marks.steps - last.steps,
            actions: told.iter().map(|it| action(it, &sums, [last, &marks.stage], rate)).collect(),
            left_out,
            threads: lock(&self.threads).iter().map(|thread| thread_state(thread, rate)).collect(),
            counters,
        }
    }
}

fn counter_state(sample: &CounterSample) -> CounterState {
    let (name, unit) = (sample.counter.name().to_owned(), sample.counter.unit().to_owned());
    CounterState { device: sample.device, counter: name, value: sample.value, unit }
}

fn add(to: &mut Vec<Durations>, from: &[Durations]) {
    if to.len() < from.len() {
        to.resize_with(from.len(), Durations::default);
    }
    to.iter_mut().zip(from).for_each(|(to, from)| to.merge(from));
}

fn action(
    told: &ToldPlace,
    sums: &[Durations],
    [last, stage]: [&Mark; 2],
    rate: Rate,
) -> ActionState {
    let mut all = Durations::default();
    told.numbers.iter().filter_map(|number| sums.get(*number)).for_each(|it| all.merge(it));
    let since = |mark: &Mark| {
        let before = told.numbers.iter().filter_map(|number| mark.sums.get(*number));
        let (calls, ticks) = before.fold((0, 0), |all, mark| (all.0 + mark.0, all.1 + mark.1));
        (all.calls - calls, rate.seconds(all.ticks - ticks))
    };
    let ((calls, seconds), (stage_calls, stage_seconds)) = (since(last), since(stage));
    let quantile = |share| all.quantile(share).map(|ticks| rate.seconds(ticks));
    ActionState {
        name: told.action.name().to_owned(),
        kind: told.action.kind(),
        around: told.around,
        calls,
        seconds,
        stage_calls,
        stage_seconds,
        p50_seconds: quantile(0.5),
        p99_seconds: quantile(0.99),
    }
}

fn thread_state(thread: &OfThread, rate: Rate) -> ThreadState {
    let table = thread.table();
    let innermost = table.open.last();
    let since = |began: u64| rate.seconds(clock::ticks().saturating_sub(began));
    ThreadState {
        thread: thread.name.clone(),
        open: table.open.len() as u64,
        action: innermost.map(|open| open.action.name().to_owned()),
        seconds: innermost.map(|open| since(open.began)),
    }
}

#[cfg(test)]
mod tests;
