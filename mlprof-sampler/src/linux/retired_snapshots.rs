//! Snapshots that were replaced, kept until no handler uses them any more.

use super::process_layout::UnwindSnapshot;
use super::slot::{Slot, Slots};

/// Replaced snapshots that handlers may still use, each with the slots in which such a handler may
/// be.
#[derive(Default)]
pub(super) struct RetiredSnapshots(Vec<(*mut UnwindSnapshot, Vec<&'static Slot>)>);

// SAFETY: the value owns the snapshots that it points to, and a snapshot may be freed on any
// thread.
unsafe impl Send for RetiredSnapshots {}

impl RetiredSnapshots {
    /// # Safety
    ///
    /// The snapshot must come from `Box::into_raw`, and `SNAPSHOT` must no longer contain it. Only
    /// handlers inside one of `slots` may have a pointer to it.
    pub(super) unsafe fn add(&mut self, snapshot: *mut UnwindSnapshot, slots: Vec<&'static Slot>) {
        self.0.push((snapshot, slots));
    }

    pub(super) fn free_unused(&mut self) {
        self.0.retain_mut(|(snapshot, left)| {
            let is_unused = Slots::have_left(left);
            if is_unused {
                // SAFETY: by the contract of `add` the pointer is from `Box::into_raw`, and only
                // handlers inside the slots could have it. All of them have left since. The entry
                // is removed, so the snapshot is freed once.
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
        // SAFETY: the pointer is from `Box::into_raw` and was never stored in `SNAPSHOT`.
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
