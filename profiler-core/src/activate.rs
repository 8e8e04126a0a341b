//! Activation of a profiler.

use std::sync::Arc;

use crate::{Activated, Profiler, active, allocation};

/// Makes `profiler` the active one until the guard is dropped. Then the previously active profiler
/// becomes active again. Trainers activate their profiler for the duration of a stage.
///
/// While only one thread has activated a profiler, it is active for all threads. Two trainings in
/// one process activate profilers on several threads. Then each profiler receives the events of its
/// own thread and of threads [bound](crate::Binding) to it. Events of other threads are counted as
/// unattributed, and all reports mention them.
pub fn activate(profiler: Arc<dyn Profiler>) -> Activated {
    allocation::listen();
    active::activate(profiler)
}
