//! What all cycles of a stage have shown, put together.

use super::Cycle;

/// All cycles of a stage, put together.
#[derive(Default)]
pub(crate) struct Profile {
    events: u64,
}

impl Profile {
    pub(crate) fn add(&mut self, cycle: &Cycle) {
        self.events += cycle.event_count() as u64;
    }
}
