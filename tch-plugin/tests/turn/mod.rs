//! One test at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The active profiler and torch's random numbers belong to the whole process: one test at a time.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    tch::set_num_threads(1);
    tch::manual_seed(7);
    turn
}
