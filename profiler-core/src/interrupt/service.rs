//! Thread for work that a signal handler must not do. The handler wakes it.

use std::io;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use super::end::end_by;
use super::wakeup::{Waiter, Wakeup};
use super::{REQUESTS, announce, reports, say};
use mlprof_events::forking::this_process;
use mlprof_events::own_thread;
use mlprof_events::panics::contain;

/// Time limit for delivering a report before the process ends anyway.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// [The process](this_process) that owns the thread, or 0 if there is no thread. A forked child
/// does not have the thread.
static PROCESS: AtomicU64 = AtomicU64::new(0);

static WAKEUP: Wakeup = Wakeup::new();

/// Task for the thread, encoded as a number.
#[derive(Clone, Copy)]
pub(super) enum Task {
    /// Prints that a request was received.
    Announce,
    /// Delivers all reports and ends the process by this signal.
    End(c_int),
}

/// Starts the thread unless it already runs in this process.
pub(super) fn start() -> io::Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_of_this_process() {
        return Ok(());
    }
    let waiter = WAKEUP.prepare()?;
    own_thread::spawn("mlprof-interrupt", move || serve(waiter))?;
    PROCESS.store(this_process(), Ordering::SeqCst);
    Ok(())
}

/// Returns `true` if the thread belongs to this process and not to its parent before a fork.
/// Async-signal-safe.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == this_process()
}

/// Wakes the thread for a task. Returns `false` if the thread cannot be reached. Async-signal-safe.
pub(super) fn wake(task: Task) -> bool {
    WAKEUP.ring(match task {
        Task::Announce => 0,
        Task::End(signal) => signal as u32,
    })
}

fn serve(mut waiter: Waiter) {
    while let Ok(number) = waiter.wait(None) {
        match number {
            None => {}
            Some(0) => announce(REQUESTS.load(Ordering::SeqCst)),
            Some(signal) => end(signal as c_int),
        }
    }
}

fn end(signal: c_int) {
    let deliver = move || {
        let name = name(signal);
        say(&format!("{name}: the process ends after the report; a second signal ends it at once"));
        reports::deliver_all(signal);
    };
    if !is_over_within(PATIENCE, deliver) {
        say("cannot deliver the report: it takes too long");
    }
    end_by(signal);
}

/// Returns `true` if `work` finished in time. Otherwise the work continues on its own thread. If
/// the system cannot create a thread, the work runs here without a time limit.
fn is_over_within(patience: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    let work = Arc::new(Mutex::new(Some(work)));
    let (sender, receiver) = mpsc::channel::<()>();
    let shared = work.clone();
    let worker = own_thread::spawn("mlprof-report", move || {
        let _until_over = sender;
        take_and_do(&shared);
    });
    if worker.is_err() {
        take_and_do(&work);
        return true;
    }
    // The worker sends no message. The channel closes when the work has finished.
    receiver.recv_timeout(patience) != Err(mpsc::RecvTimeoutError::Timeout)
}

/// Does the work unless another thread has taken it. A panic loses the report but does not keep the
/// process from ending.
fn take_and_do(work: &Mutex<Option<impl FnOnce()>>) {
    let taken = work.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Err(message) = contain(|| taken.into_iter().for_each(|work| work())) {
        say(&format!("cannot deliver the report: the profiler panicked: {message}"));
    }
}

fn name(signal: c_int) -> &'static str {
    match signal {
        libc::SIGINT => "interrupted (SIGINT)",
        libc::SIGTERM => "terminated (SIGTERM)",
        _ => "the terminal was closed (SIGHUP)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_reports_are_not_awaited() {
        let (_never, forever) = mpsc::channel::<()>();
        assert!(!is_over_within(Duration::from_millis(20), move || {
            let _ = forever.recv();
        }));
        assert!(is_over_within(PATIENCE, || ()));
        assert!(is_over_within(PATIENCE, || panic!("a report that panics")));
    }
}
