//! Work of threads that is in no report, because it belongs to no one training.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::{Interest, ThreadName};
use crate::forking::{Mutex, MutexGuard};

/// So many names of threads are kept; what others do is counted under one name.
const MOST_NAMES: usize = 64;
/// So many names are said in a note.
const SAID_NAMES: usize = 4;

/// Work that is in no report although a profiler was active, because the threads that did it are
/// bound to no one training. Profilers receive it (`Observation::Unattributed`) when they are
/// activated, and note in their report what it holds by then.
#[derive(Debug, Default)]
pub struct UnattributedWork {
    threads: Mutex<Vec<UnattributedThread>>,
    is_over: AtomicBool,
    overlaps: AtomicBool,
}

/// Threads of one name, and their work.
#[derive(Debug)]
struct UnattributedThread {
    reason: UnattributedReason,
    name: String,
    counts: Arc<WorkCounts>,
}

/// The reason why work of a thread is in no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnattributedReason {
    /// Several trainings run, and the thread is bound to none of them.
    SeveralTrainings,
    /// The thread's own training has ended, and another one goes on.
    TrainingEnded,
}

impl UnattributedReason {
    const ALL: [Self; 2] = [Self::SeveralTrainings, Self::TrainingEnded];

    const fn in_words(self) -> &'static str {
        match self {
            Self::SeveralTrainings => {
                "more than one profiler was active, and nobody knows which training the threads \
                 belong to. Start them with `mlprof_core::bound`"
            }
            Self::TrainingEnded => {
                "a training of the threads' own had ended, and this one went on. Bind work that \
                 belongs to it with `mlprof_core::Binding`"
            }
        }
    }
}

/// What threads of one name did.
#[derive(Debug, Default)]
pub struct WorkCounts {
    scopes: AtomicU64,
    memory: AtomicU64,
}

impl WorkCounts {
    /// Counts one more event of this kind.
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

    /// What a reader of the report must know; `None` if nothing is missing.
    pub fn note(&self) -> Option<String> {
        const OVERLAP: &str = "trainings that began on one thread overlapped, and their scopes \
            cannot be told apart: each scope is in the report of the training that began last. Give \
            each future a binding of its own, `.bound_to(&Binding::new())`";
        let threads = self.threads();
        let reasons = UnattributedReason::ALL.into_iter();
        let mut notes: Vec<_> = reasons.filter_map(|reason| missing(&threads, reason)).collect();
        if self.overlaps.load(Ordering::Relaxed) {
            notes.push(OVERLAP.to_owned());
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Another training that began on the same thread had scopes of its own while this one was
    /// active, and it is not known which of them were this one's.
    pub fn overlap(&self) {
        self.overlaps.store(true, Ordering::Relaxed);
    }

    /// Whether the profiler is not active any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The profiler is not active any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Where the calling thread counts what it does, for this reason.
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

/// What is in no report for this reason.
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
