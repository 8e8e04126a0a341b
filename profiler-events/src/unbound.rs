//! What was done by threads of which nobody knows whose they are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::{Interest, ThreadName};
use crate::forking::{Mutex, MutexGuard};

/// So many names of threads are kept; what others do is counted under one name.
const MOST_NAMES: usize = 64;
/// So many names are said in a note.
const SAID_NAMES: usize = 4;

/// What threads did while a profiler was active beside another one, and that was told to neither: the
/// threads are bound to no one training. Profilers are
/// given it (`Profiler::unbound`) when they are activated, and say in their report what is
/// in it by then.
#[derive(Debug, Default)]
pub struct Unbound {
    threads: Mutex<Vec<(String, Arc<WorkCounts>)>>,
    is_over: AtomicBool,
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

impl Unbound {
    fn threads(&self) -> MutexGuard<'_, Vec<(String, Arc<WorkCounts>)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a reader of the report must know; none if there was nothing.
    pub fn note(&self) -> Option<String> {
        let threads = self.threads();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = threads.iter().map(|(name, it)| (name, read(&it.scopes), read(&it.memory)));
        let counts: Vec<_> = counts.filter(|(_, scopes, memory)| scopes + memory > 0).collect();
        if counts.is_empty() {
            return None;
        }
        let scopes: u64 = counts.iter().map(|(_, scopes, _)| scopes).sum();
        let memory: u64 = counts.iter().map(|(_, _, memory)| memory).sum();
        let mut names: Vec<_> = counts.iter().map(|(name, ..)| name.as_str()).collect();
        if names.len() > SAID_NAMES {
            names.truncate(SAID_NAMES);
            names.push("…");
        }
        let what = [(scopes, "scope"), (memory, "memory event")];
        let what = what.into_iter().filter(|(count, _)| *count > 0);
        let what: Vec<_> = what.map(|(count, what)| plural(count, what)).collect();
        Some(format!(
            "{} of {} ({}) are in no report: more than one profiler was active, and nobody knows \
             which training the threads belong to. Start them with `profiler_core::bound`",
            what.join(" and "),
            plural(counts.len() as u64, "thread"),
            names.join(", ")
        ))
    }

    /// Whether the profiler is not active any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The profiler is not active any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Where the calling thread counts what it does.
    pub fn counts_of_this_thread(&self) -> Arc<WorkCounts> {
        let mut name = ThreadName::of_this_thread().name;
        let mut threads = self.threads();
        if threads.len() >= MOST_NAMES && threads.iter().all(|(known, _)| *known != name) {
            name = "other threads".to_owned();
        }
        if let Some((_, counts)) = threads.iter().find(|(known, _)| *known == name) {
            return counts.clone();
        }
        let counts = Arc::<WorkCounts>::default();
        threads.push((name, counts.clone()));
        counts
    }
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
