//! Atomics and locks of the standard library, or loom's under `--cfg loom`, where every order in
//! which threads can run is tried.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex as CondvarMutex, MutexGuard as CondvarMutexGuard};
#[cfg(loom)]
pub use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::{Condvar, Mutex as CondvarMutex, MutexGuard as CondvarMutexGuard};

#[cfg(not(loom))]
pub use crate::forking::{Mutex, MutexGuard};

/// A number that one thread writes and any thread may read.
///
/// Adding is a load and a store, not a read-modify-write: right because there is one writer, and
/// several times cheaper. A reader sees some value that was stored; for a set of tallies that
/// belong together see the comment on their owner.
#[derive(Debug)]
pub struct Tally(AtomicU64);

impl Tally {
    /// A tally that begins with this value.
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// What its own thread stored last; for others, some value that was stored.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores a value. Only its own thread may do so, here and below.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds to it, and wraps around.
    #[inline(always)]
    pub fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }

    /// Publishes what this thread stored before: pairs with [`get_published`](Self::get_published).
    #[inline(always)]
    pub fn publish(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// What was [published](Self::publish) last, and all that was stored before.
    pub fn get_published(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
