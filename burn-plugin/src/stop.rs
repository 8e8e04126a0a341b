//! Ctrl-C during a stage that wants to return: finish the batch, report, end.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use burn::data::dataset::DatasetError;
use burn::train::Interrupter;
use mlprof_core::interrupt::{Watch, watch};
use mlprof_core::{Interrupt, Profiler, ProfilerExt};

/// The reason that a fit gives when Ctrl-C (or a termination request) ended it: with
/// [`Interrupt::Return`](mlprof_core::Interrupt::Return).
pub const INTERRUPTED: &str = "interrupted from outside (Ctrl-C or a termination signal)";

/// With [`Interrupt::Return`], while it or a clone lives, the first Ctrl-C asks the stage to end; the
/// second leaves at once.
#[derive(Clone)]
pub(crate) struct StopSignal {
    watch: Option<Arc<Watch>>,
    interrupter: Option<Interrupter>,
}

/// Whether the profiler has a reason to end the training, which is then the interruption's.
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

    /// The signal, told to a fit through its `interrupter`.
    pub(crate) fn with_interrupter(mut self, interrupter: Interrupter) -> Self {
        self.interrupter = Some(interrupter);
        self
    }

    fn requested(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.requested())
    }

    /// Passes the request on to the interrupter, if there is one. *Cost*: one relaxed load.
    pub(crate) fn check(&self) {
        if let (true, Some(interrupter)) = (self.requested(), &self.interrupter)
            && !interrupter.should_stop()
        {
            interrupter.stop(Some(INTERRUPTED));
        }
    }

    /// [`check`](Self::check) before a batch is fetched. Where no interrupter can be reached, the
    /// request becomes the loader's error, the only way left to end the loop.
    pub(crate) fn check_loader(&self) -> Option<DatasetError> {
        self.check();
        (self.interrupter.is_none() && self.requested()).then(|| DatasetError::new(Interrupted))
    }

    /// For a loop of burn's own, which checks its interrupter and knows no watch: a thread that
    /// passes a request on until what is returned is dropped. None if nobody asked for it.
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

/// A thread that passes a request on. Dropped, the thread and its part of the watch are gone: were
/// it left to end by itself, the first Ctrl-C of a stage that comes next could meet the watch of the
/// one before, which was told already, and would end the process.
pub(crate) struct Following {
    guard: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.guard.take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has dropped its watch, too.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nobody_watches_after_the_stage_that_was_followed() {
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
    fn nobody_is_followed_who_did_not_ask() {
        assert!(StopSignal::new(Interrupt::Terminate).follow().is_none());
    }
}
