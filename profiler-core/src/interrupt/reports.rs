//! Reports that are delivered exactly once: at the end of their stage, or before a signal ends the
//! process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Terminating;
use crate::Profiler;
use mlprof_events::forking::{apart_from_forks, this_process};
use mlprof_events::panics::contain;

/// Pending reports, in the order in which their stages began.
static PENDING: Mutex<Vec<Arc<PendingReport>>> = Mutex::new(Vec::new());
/// Functions that are called after all reports.
static LAST: Mutex<Vec<fn(i32)>> = Mutex::new(Vec::new());

/// Report of a running stage.
pub(crate) struct PendingReport {
    /// [The process](this_process) that delivers it. A forked child has a copy in its memory.
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

    /// Sets a wrapper around the delivery. It receives the delivery as a function and must call it.
    pub(crate) fn set_around(&self, around: fn(&dyn Fn())) {
        if let Some(report) = lock(&self.report).as_mut() {
            report.around = around;
        }
    }

    /// Changes the profiler that makes the report, if the report has not been delivered yet.
    pub(crate) fn set_profiler(&self, profiler: Arc<dyn Profiler>) {
        if let Some(report) = lock(&self.report).as_mut() {
            report.profiler = profiler;
        }
    }

    /// Registers the report for delivery before a signal ends the process.
    pub(crate) fn enlist(self: &Arc<Self>) {
        apart_from_forks(|| lock(&PENDING).push(self.clone()));
    }

    pub(crate) fn delist(self: &Arc<Self>) {
        apart_from_forks(|| lock(&PENDING).retain(|other| !Arc::ptr_eq(self, other)));
    }

    /// Returns `true` if this process must deliver the report. A forked child does not deliver it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == this_process()
    }

    /// Delivers the report once, and not in a forked child. If another thread is delivering it,
    /// waits until that thread has finished.
    pub(crate) fn deliver(&self) {
        // This check comes first. In a forked child, the lock may be held by a thread that does not
        // exist there.
        if !self.is_of_this_process() {
            return;
        }
        let mut report = lock(&self.report);
        let Some(Undelivered { profiler, around }) = report.take() else { return };
        // A second panic during unwinding would abort the program. A panic in a user's profiler
        // must only lose its report.
        let delivered = || around(&|| profiler.describe());
        if let Err(message) = contain(delivered) {
            super::say(&format!("cannot make a report: the profiler panicked: {message}"));
        }
    }
}

/// Registers `last` until dropped. Before a signal ends the process, `last` is called with that
/// signal after all reports.
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

/// Delivers all pending reports, then calls the functions in [`LAST`].
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
