//! Who is told of what threads do while something is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use mlprof_core::TensorProfiler;

/// Who is told, which is nobody most of the time. *Cost* then: one load, as each action asks.
#[derive(Default)]
pub(crate) struct Told {
    is_anybody: AtomicBool,
    guest: ArcSwapOption<TensorProfiler>,
}

impl Told {
    /// From here on `guest` is told.
    pub(crate) fn begin(&self, guest: Arc<TensorProfiler>) {
        self.guest.store(Some(guest));
        self.is_anybody.store(true, Ordering::Release);
    }

    /// Nobody is told any more.
    pub(crate) fn end(&self) {
        self.is_anybody.store(false, Ordering::Relaxed);
        self.guest.store(None);
    }

    /// What is to be told, if anybody is.
    #[inline]
    pub(crate) fn tell<R>(&self, tell: impl FnOnce(&TensorProfiler) -> R) -> Option<R> {
        if !self.is_anybody.load(Ordering::Acquire) {
            return None;
        }
        self.guest.load().as_deref().map(tell)
    }
}
