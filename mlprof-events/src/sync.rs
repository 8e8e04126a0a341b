//! Atomics and locks of the standard library, or loom's under `--cfg loom`. Loom tests every order
//! in which threads can run.

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
/// Adding is a load and a store instead of a read-modify-write operation. That is correct because
/// there is only one writer, and it is several times cheaper. A reader sees some value that was
/// stored. For sets of related tallies see the comment on their owner.
#[derive(Debug)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Creates a tally with this value.
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Returns the value. The writing thread sees its latest store; other threads see some stored
    /// value.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores a value. Only the owning thread may call this function and [`add`](Self::add) and
    /// [`publish`](Self::publish).
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds to the value, wrapping around on overflow.
    #[inline(always)]
    pub fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }

    /// Stores a value and publishes all earlier stores of this thread. It pairs with
    /// [`get_published`](Self::get_published).
    #[inline(always)]
    pub fn publish(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Returns the latest [published](Self::publish) value. All stores before its publication are
    /// then visible.
    pub fn get_published(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
