//! The tracking allocator as the allocator of this program: what it counts, to the byte.

mod actions;
mod events;
mod origins;
mod tallies;

use std::sync::{Mutex, MutexGuard, PoisonError};

use profiler_core::allocation::TrackingAllocator;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

/// There is one active profiler, one that knows who allocated what, and one count of the process's
/// live bytes: all tests take turns. What the test harness itself allocates meanwhile are a few
/// small blocks.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
