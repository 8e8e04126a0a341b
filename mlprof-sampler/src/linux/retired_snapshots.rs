//! Worlds that others have taken the place of, until no handler looks at them any more.

use super::process_layout::UnwindSnapshot;
use super::slot::{Slot, Slots};

/// Worlds that handlers may still look at, and the slots where they may.
#[derive(Default)]
pub(super) struct RetiredSnapshots(Vec<(*mut UnwindSnapshot, Vec<&'static Slot>)>);

// SAFETY: it owns the snapshots that it points to.
unsafe impl Send for RetiredSnapshots {}

impl RetiredSnapshots {
    /// # Safety
    ///
    /// The snapshot is from `Box::into_raw`, and only handlers at work in one of the slots know it.
    pub(super) unsafe fn add(&mut self, snapshot: *mut UnwindSnapshot, slots: Vec<&'static Slot>) {
        self.0.push((snapshot, slots));
    }

    pub(super) fn free_unused(&mut self) {
        self.0.retain_mut(|(snapshot, left)| {
            let is_unused = Slots::have_left(left);
            if is_unused {
                // SAFETY: as `add` was promised, and every handler that may have seen it has left
                // its slot since.
                drop(unsafe { Box::from_raw(*snapshot) });
            }
            !is_unused
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SamplerSettings;
    use crate::linux::process_layout::Libraries;

    #[test]
    fn a_world_that_a_handler_looks_at_stays_until_it_has_left() {
        let slot = Slots::default().take(4096).expect("there are enough");
        let entered = slot.lease.enter(slot.lease.generation());
        let snapshot = Box::new(Libraries::default().snapshot(SamplerSettings::new(100)));
        let mut snapshots = RetiredSnapshots::default();
        // SAFETY: nobody else knows it.
        unsafe { snapshots.add(Box::into_raw(snapshot), vec![slot]) };
        snapshots.free_unused();
        assert!(!snapshots.is_empty());
        drop(entered);
        snapshots.free_unused();
        assert!(snapshots.is_empty());
        slot.lease.end();
        Slots::default().give_back(slot);
    }
}
