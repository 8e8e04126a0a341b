//! Serialises tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the active profiler and torch's random numbers, which are process-wide, for one test.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    tch::set_num_threads(1);
    tch::manual_seed(7);
    turn
}
