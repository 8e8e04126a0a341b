//! Locks that are never held in a forked child.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

use super::ForkGuard;

/// The standard library's mutex, held only [apart from forks](super::apart_from_forks). The child
/// of a fork finds it unlocked, and the data it protects consistent.
///
/// *Cost*: two atomic additions in addition to the lock itself.
#[derive(Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates a mutex that protects `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Acquires the lock, like the standard library's mutex.
    ///
    /// # Errors
    ///
    /// Fails if a thread panicked while it held the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        // The work begins before the lock is taken. A fork waits for threads that are at work, and
        // a thread that waits for the lock is released in time.
        let at_work = ForkGuard::begin();
        match self.0.lock() {
            Ok(guard) => Ok(MutexGuard { guard, _at_work: at_work }),
            Err(poisoned) => {
                let guard = poisoned.into_inner();
                Err(PoisonError::new(MutexGuard { guard, _at_work: at_work }))
            }
        }
    }

    /// Tries to acquire the lock, like the standard library's mutex.
    ///
    /// # Errors
    ///
    /// Fails if another thread holds the lock, or panicked while it held it.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let at_work = ForkGuard::begin();
        match self.0.try_lock() {
            Ok(guard) => Ok(MutexGuard { guard, _at_work: at_work }),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                let guard = poisoned.into_inner();
                Err(PoisonError::new(MutexGuard { guard, _at_work: at_work }).into())
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// RAII guard that releases the lock and then ends the work.
pub struct MutexGuard<'lock, T> {
    // The field order matters: the lock is released first.
    guard: std::sync::MutexGuard<'lock, T>,
    _at_work: ForkGuard,
}
crate::debug_as_name!([T] MutexGuard<'_, T>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
