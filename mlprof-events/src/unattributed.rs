//! Work of threads that appears in no report, because it does not belong to exactly one training
//! run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::{Interest, ThreadName};
use crate::forking::{Mutex, MutexGuard};

/// Maximum number of thread names to keep. Work of further threads is counted under one common
/// name.
const MOST_NAMES: usize = 64;
/// Maximum number of thread names in a note.
const SAID_NAMES: usize = 4;

/// Work that appears in no report although a profiler was active, because its threads are not bound
/// to exactly one training run. Profilers receive this value (`Observation::Unattributed`) when
/// they are activated, and mention its counts in their report.
#[derive(Debug, Default)]
pub struct UnattributedWork {
    threads: Mutex<Vec<UnattributedThread>>,
    is_over: AtomicBool,
    overlaps: AtomicBool,
}

/// Threads with one name, and their work.
#[derive(Debug)]
struct UnattributedThread {
    reason: UnattributedReason,
    name: String,
    counts: Arc<WorkCounts>,
}

/// Reason why the work of a thread appears in no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnattributedReason {
    /// Several training runs are active, and the thread is not bound to any of them.
    SeveralTrainings,
    /// The training run of the thread has ended, and another one continues.
    TrainingEnded,
}

impl UnattributedReason {
    const ALL: [Self; 2] = [Self::SeveralTrainings, Self::TrainingEnded];

    const fn in_words(self) -> &'static str {
        match self {
            Self::SeveralTrainings => {
                "more than one profiler was active, and the training of these threads is unknown. \
                 Start them with `mlprof_core::bound`"
            }
            Self::TrainingEnded => {
                "the threads' own training had ended while this one was active. Bind work that \
                 belongs to it with `mlprof_core::Binding`"
            }
        }
    }
}

/// Numbers of events of the threads with one name.
#[derive(Debug, Default)]
pub struct WorkCounts {
    scopes: AtomicU64,
    memory: AtomicU64,
}

impl WorkCounts {
    /// Counts one more event of this category.
    pub fn add(&self, interest: Interest) {
        let is_memory = interest.contains(Interest::MEMORY);
        let count = if is_memory { &self.memory } else { &self.scopes };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl UnattributedWork {
    fn threads(&self) -> MutexGuard<'_, Vec<UnattributedThread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a note for the reader of the report, or `None` if no work is missing.
    pub fn note(&self) -> Option<String> {
        const OVERLAP: &str = "trainings that began on one thread overlapped, so their scopes \
                               cannot be separated: each scope is in the report of the training \
                               that began last. Give each future its own binding, \
                               `.bound_to(&Binding::new())`";
        let threads = self.threads();
        let reasons = UnattributedReason::ALL.into_iter();
        let mut notes: Vec<_> = reasons.filter_map(|reason| missing(&threads, reason)).collect();
        if self.overlaps.load(Ordering::Relaxed) {
            notes.push(OVERLAP.to_owned());
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Records that scopes of overlapping training runs on one thread cannot be separated. Another
    /// run began on the same thread while this one was active.
    pub fn overlap(&self) {
        self.overlaps.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the profiler is no longer active.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Records that the profiler is no longer active.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns the counters for the calling thread's work with this reason.
    pub fn counts_of_this_thread(&self, reason: UnattributedReason) -> Arc<WorkCounts> {
        let mut name = ThreadName::of_this_thread().name;
        let mut threads = self.threads();
        if threads.len() >= MOST_NAMES && threads.iter().all(|known| known.name != name) {
            name = "other threads".to_owned();
        }
        let is_it = |known: &&UnattributedThread| known.name == name && known.reason == reason;
        if let Some(known) = threads.iter().find(is_it) {
            return known.counts.clone();
        }
        let counts = Arc::<WorkCounts>::default();
        threads.push(UnattributedThread { reason, name, counts: counts.clone() });
        counts
    }
}

/// Returns a note about the work that is missing for this reason.
fn missing(threads: &[UnattributedThread], reason: UnattributedReason) -> Option<String> {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let of_reason = threads.iter().filter(|thread| thread.reason == reason);
    let counts =
        of_reason.map(|it| (it.name.as_str(), read(&it.counts.scopes), read(&it.counts.memory)));
    let counts: Vec<_> = counts.filter(|(_, scopes, memory)| scopes + memory > 0).collect();
    if counts.is_empty() {
        return None;
    }
    let scopes: u64 = counts.iter().map(|(_, scopes, _)| scopes).sum();
    let memory: u64 = counts.iter().map(|(_, _, memory)| memory).sum();
    let mut names: Vec<_> = counts.iter().map(|(name, ..)| *name).collect();
    if names.len() > SAID_NAMES {
        names.truncate(SAID_NAMES);
        names.push("…");
    }
    let what = [(scopes, "scope"), (memory, "memory event")];
    let what = what.into_iter().filter(|(count, _)| *count > 0);
    let what: Vec<_> = what.map(|(count, what)| plural(count, what)).collect();
    Some(format!(
        "{} of {} ({}) are in no report: {}",
        what.join(" and "),
        plural(counts.len() as u64, "thread"),
        names.join(", "),
        reason.in_words()
    ))
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
