//! Locks that no forked child finds taken.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

use super::AtWork;

/// The standard library's lock, whose holders are at work
/// [apart from forks](super::apart_from_forks): the child of a fork finds it free, and what it guards
/// whole.
///
/// *Cost*: two atomic additions besides those of the lock.
#[derive(Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Around a value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// As the standard library's.
    ///
    /// # Errors
    ///
    /// If a thread panicked while it had the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        // Before the lock: a fork waits for who is at work, and who waits for the lock may go on.
        let at_work = AtWork::begin();
        match self.0.lock() {
            Ok(guard) => Ok(MutexGuard { guard, _at_work: at_work }),
            Err(poisoned) => {
                let guard = poisoned.into_inner();
                Err(PoisonError::new(MutexGuard { guard, _at_work: at_work }))
            }
        }
    }

    /// As the standard library's.
    ///
    /// # Errors
    ///
    /// If another thread has the lock, or panicked while it had it.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let at_work = AtWork::begin();
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

/// Gives the lock back, and then says that the work is done.
pub struct MutexGuard<'lock, T> {
    // Dropped first.
    guard: std::sync::MutexGuard<'lock, T>,
    _at_work: AtWork,
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
