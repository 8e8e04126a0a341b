//! Reports that are delivered once: at the end of their stage, or before a signal ends the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Terminating;
use crate::Profiler;
use mlprof_events::forking::{apart_from_forks, this_process};
use mlprof_events::panics::contain;

/// In the order in which their stages began.
static PENDING: Mutex<Vec<Arc<PendingReport>>> = Mutex::new(Vec::new());
/// What comes after all reports.
static LAST: Mutex<Vec<fn(i32)>> = Mutex::new(Vec::new());

/// The report of a stage that is not over.
pub(crate) struct PendingReport {
    /// [The process](this_process) that delivers it. A forked child has it in its memory, too.
    process: u64,
    report: Mutex<Option<Undelivered>>,
}

struct Undelivered {
    profiler: Arc<dyn Profiler>,
    around: fn(&dyn Fn()),
}

impl PendingReport {
    pub(crate) fn new(profiler: Arc<dyn Profiler>) -> Arc<Self> {
        let report = Undelivered { profiler, around: |deliver| deliver() };
        Arc::new(Self { process: this_process(), report: Mutex::new(Some(report)) })
    }

    /// Has `around` called with what delivers.
    pub(crate) fn set_around(&self, around: fn(&dyn Fn())) {
        if let Some(report) = lock(&self.report).as_mut() {
            report.around = around;
        }
    }

    /// Has `profiler` asked for the report, if it is not delivered yet.
    pub(crate) fn set_profiler(&self, profiler: Arc<dyn Profiler>) {
        if let Some(report) = lock(&self.report).as_mut() {
            report.profiler = profiler;
        }
    }

    /// From here on a signal that ends the process delivers it first.
    pub(crate) fn enlist(self: &Arc<Self>) {
        apart_from_forks(|| lock(&PENDING).push(self.clone()));
    }

    pub(crate) fn delist(self: &Arc<Self>) {
        apart_from_forks(|| lock(&PENDING).retain(|other| !Arc::ptr_eq(self, other)));
    }

    /// Whether this process delivers it: not in a forked child of the one whose stage it is.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == this_process()
    }

    /// Delivers it, unless somebody did, or this is a forked child. If another thread is just about
    /// it, waits until it is through.
    pub(crate) fn deliver(&self) {
        // First: a thread that the child does not have may hold the lock there.
        if !self.is_of_this_process() {
            return;
        }
        let mut report = lock(&self.report);
        let Some(Undelivered { profiler, around }) = report.take() else { return };
        // A second panic while one unwinds would abort the program: a profiler of the user's own
        // that panics costs its report, not the run.
        let delivered = || around(&|| profiler.describe());
        if let Err(message) = contain(delivered) {
            super::say(&format!("the profiler panicked while it made its report: {message}"));
        }
    }
}

/// While it lives, `last` is called with a signal before that ends the process, after all reports.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "`mlprof run` is Linux only"))]
pub(crate) struct AtTheEnd {
    last: fn(i32),
    _part: Terminating,
}

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "`mlprof run` is Linux only"))]
impl AtTheEnd {
    pub(crate) fn call(last: fn(i32)) -> Self {
        apart_from_forks(|| lock(&LAST).push(last));
        Self { last, _part: Terminating::begin() }
    }
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let is_other = |last: &fn(i32)| !std::ptr::fn_addr_eq(*last, self.last);
        apart_from_forks(|| lock(&LAST).retain(is_other));
    }
}

/// Delivers what is not delivered yet.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has the thread that calls it"))]
pub(super) fn deliver_all(signal: i32) {
    let pending = apart_from_forks(|| lock(&PENDING).clone());
    pending.iter().for_each(|report| report.deliver());
    let last = apart_from_forks(|| lock(&LAST).clone());
    last.iter().for_each(|last| last(signal));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
