//! Profiler that receives all events during a recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use mlprof_core::TensorProfiler;

/// Target of forwarded events, usually empty. *Cost* without a recording: one atomic load per
/// action.
#[derive(Default)]
pub(crate) struct RecordingTarget {
    is_anybody: AtomicBool,
    guest: ArcSwapOption<TensorProfiler>,
}

impl RecordingTarget {
    /// Starts to forward events to `guest`.
    pub(crate) fn begin(&self, guest: Arc<TensorProfiler>) {
        self.guest.store(Some(guest));
        self.is_anybody.store(true, Ordering::Release);
    }

    /// Stops forwarding events.
    pub(crate) fn end(&self) {
        self.is_anybody.store(false, Ordering::Relaxed);
        self.guest.store(None);
    }

    /// Calls `tell` with the recording profiler, if there is one.
    #[inline]
    pub(crate) fn tell<R>(&self, tell: impl FnOnce(&TensorProfiler) -> R) -> Option<R> {
        if !self.is_anybody.load(Ordering::Acquire) {
            return None;
        }
        self.guest.load().as_deref().map(tell)
    }
}
