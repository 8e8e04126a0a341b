//! Worlds that others have taken the place of, until no handler looks at them any more.

use super::process_layout::World;
use super::slot::{Slot, Slots};

/// Worlds that handlers may still look at, and the slots where they may.
#[derive(Default)]
pub(super) struct RetiredWorlds(Vec<(*mut World, Vec<&'static Slot>)>);

// SAFETY: it owns the worlds that it points to.
unsafe impl Send for RetiredWorlds {}

impl RetiredWorlds {
    /// # Safety
    ///
    /// The world is from `Box::into_raw`, and only handlers at work in one of the slots know it.
    pub(super) unsafe fn add(&mut self, world: *mut World, slots: Vec<&'static Slot>) {
        self.0.push((world, slots));
    }

    pub(super) fn free_unused(&mut self) {
        self.0.retain_mut(|(world, left)| {
            let is_unused = Slots::have_left(left);
            if is_unused {
                // SAFETY: as `add` was promised, and every handler that may have seen it has left
                // its slot since.
                drop(unsafe { Box::from_raw(*world) });
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
        let world = Box::new(Libraries::default().world(SamplerSettings::new(100)));
        let mut worlds = RetiredWorlds::default();
        // SAFETY: nobody else knows it.
        unsafe { worlds.add(Box::into_raw(world), vec![slot]) };
        worlds.free_unused();
        assert!(!worlds.is_empty());
        drop(entered);
        worlds.free_unused();
        assert!(worlds.is_empty());
        slot.lease.end();
        Slots::default().give_back(slot);
    }
}
