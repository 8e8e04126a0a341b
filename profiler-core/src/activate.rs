//! How a profiler becomes the active one.

use std::sync::Arc;

use crate::{Activated, Profiler, active, allocation};

/// Makes `profiler` the active one until the guard is dropped; then the one that was active before
/// is active again. Trainers do this for the length of a stage.
///
/// While no other thread has activated a profiler it is active for all threads. When several threads
/// have (two trainings at once in one process), each is told what its own thread does, and what
/// threads do that are [bound](crate::Binding) to it; what others do is counted, and said in the reports
/// of all.
pub fn activate(profiler: Arc<dyn Profiler>) -> Activated {
    allocation::listen();
    active::activate(profiler)
}
