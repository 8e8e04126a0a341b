//! Ctrl-C handling for a stage that returns: finish the batch, report, end.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use burn::data::dataset::DatasetError;
use burn::train::Interrupter;
use mlprof_core::interrupt::{Watch, watch};
use mlprof_core::{Interrupt, Profiler, ProfilerExt};

/// The reason of a fit that was ended by Ctrl-C or a termination signal with
/// [`Interrupt::Return`](mlprof_core::Interrupt::Return).
pub const INTERRUPTED: &str = "interrupted by Ctrl-C or a termination signal";

/// Handles Ctrl-C with [`Interrupt::Return`]. While the value or a clone lives, the first Ctrl-C
/// requests the stage to end. The second one ends the process immediately.
#[derive(Clone)]
pub(crate) struct StopSignal {
    watch: Option<Arc<Watch>>,
    interrupter: Option<Interrupter>,
}

/// Returns `true` if the profiler requests the end of the training. The profiler's reason then
/// becomes the interruption's reason.
pub(crate) fn is_stopped_by_profiler(profiler: &dyn Profiler, interrupter: &Interrupter) -> bool {
    let Some(reason) = profiler.reason_to_stop() else { return false };
    if !interrupter.should_stop() {
        interrupter.stop(Some(&format!("the profiler stopped the training: {reason}")));
    }
    true
}

#[derive(Debug, thiserror::Error)]
#[error("{INTERRUPTED}")]
struct Interrupted;

impl StopSignal {
    pub(crate) fn new(interrupt: Interrupt) -> Self {
        let is_watched = interrupt == Interrupt::Return;
        Self { watch: is_watched.then(|| Arc::new(watch())), interrupter: None }
    }

    /// Adds the `interrupter` through which the signal stops a fit.
    pub(crate) fn with_interrupter(mut self, interrupter: Interrupter) -> Self {
        self.interrupter = Some(interrupter);
        self
    }

    fn requested(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.requested())
    }

    /// Forwards a pending request to the interrupter, if any. *Cost*: one relaxed load.
    pub(crate) fn check(&self) {
        if let (true, Some(interrupter)) = (self.requested(), &self.interrupter)
            && !interrupter.should_stop()
        {
            interrupter.stop(Some(INTERRUPTED));
        }
    }

    /// Calls [`check`](Self::check) before a batch is fetched. Without an interrupter, the request
    /// is returned as a loader error, because that is the only way to end the loop.
    pub(crate) fn check_loader(&self) -> Option<DatasetError> {
        self.check();
        (self.interrupter.is_none() && self.requested()).then(|| DatasetError::new(Interrupted))
    }

    /// Spawns a thread that forwards a request until the returned guard is dropped. burn's own
    /// loops check their interrupter but do not know the signal. Returns `None` if the signal does
    /// not request a return.
    pub(crate) fn follow(self) -> Option<Following> {
        const INTERVAL: Duration = Duration::from_millis(20);
        self.watch.as_ref()?;
        let (guard, dropped) = channel::<()>();
        let thread = std::thread::spawn(move || {
            while dropped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                self.check();
            }
        });
        Some(Following { guard: Some(guard), thread: Some(thread) })
    }
}

/// Guard of a thread that forwards a request. Dropping it joins the thread, so that no watch
/// remains. Otherwise, the first Ctrl-C of the next stage could reach the old watch. The process
/// would then end, because the old watch had already received one.
pub(crate) struct Following {
    guard: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.guard.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has also dropped its watch, so its result is ignored.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_watch_ends_with_the_stage() {
        for _ in 0..200 {
            let stop = StopSignal::new(Interrupt::Return);
            let watch = Arc::downgrade(stop.watch.as_ref().unwrap());
            let following = stop.follow();
            assert_eq!(watch.strong_count(), 1);
            drop(following);
            assert_eq!(watch.strong_count(), 0, "its thread has one still");
        }
    }

    #[test]
    fn signals_are_not_followed_without_request() {
        assert!(StopSignal::new(Interrupt::Terminate).follow().is_none());
    }
}
