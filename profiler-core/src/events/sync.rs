//! Atomics and locks of the standard library, or loom's under `--cfg loom`, where every order in
//! which threads can run is tried.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
#[cfg_attr(not(feature = "cuda"), expect(unused_imports))]
pub(crate) use loom::sync::{Condvar, Mutex as CondvarMutex, MutexGuard as CondvarMutexGuard};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
#[cfg_attr(not(feature = "cuda"), expect(unused_imports))]
pub(crate) use std::sync::{Condvar, Mutex as CondvarMutex, MutexGuard as CondvarMutexGuard};

#[cfg(not(loom))]
pub(crate) use crate::events::forking::{Mutex, MutexGuard};

/// A number that one thread writes and any thread may read.
///
/// Adding is a load and a store, not a read-modify-write: right because there is one writer, and
/// several times cheaper. A reader sees some value that was stored; for a set of tallies that
/// belong together see the comment on their owner.
#[derive(Debug)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    pub(crate) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }

    /// Publishes what this thread stored before: pairs with [`get_published`](Self::get_published).
    #[inline(always)]
    pub(crate) fn publish(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    pub(crate) fn get_published(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
