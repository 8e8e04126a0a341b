//! Locks that no forked child finds taken.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use super::AtWork;

/// A lock whose holders are at work [apart from forks](super::apart_from_forks): a child of a fork
/// finds it free. A panic of a holder poisons nothing: what our locks guard is whole between any
/// two statements.
///
/// *Cost*: two atomic additions besides those of the lock.
#[derive(Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let at_work = AtWork::begin();
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { guard, _at_work: at_work }
    }

    /// `None` while somebody else has it.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests"))]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let at_work = AtWork::begin();
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { guard, _at_work: at_work })
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Gives the lock back, and then says that no work is under way here.
pub(crate) struct MutexGuard<'lock, T> {
    // Dropped first.
    guard: std::sync::MutexGuard<'lock, T>,
    _at_work: AtWork,
}

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
