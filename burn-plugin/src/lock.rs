//! Locks, whatever a thread did that panicked with one.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
