//! Worlds that others have taken the place of, until no handler looks at them any more.

use std::sync::PoisonError;

use profiler_events::forking::{Mutex, MutexGuard};

use super::process_layout::{Libraries, World};
use super::slot::{Slot, Slots};

/// What samplers could not free when they went, as some thread got no processor in the middle of
/// its handler.
static LEFT_BEHIND: Mutex<Vec<(RetiredWorlds, Libraries)>> = Mutex::new(Vec::new());

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

/// Keeps worlds, and the libraries whose tables they read, after their sampler has gone.
pub(super) fn leave_behind(worlds: RetiredWorlds, libraries: Libraries) {
    left_behind().push((worlds, libraries));
}

/// Frees what of this no handler looks at any more.
pub(super) fn free_left_behind() {
    left_behind().retain_mut(|(worlds, _)| {
        worlds.free_unused();
        !worlds.is_empty()
    });
}

fn left_behind() -> MutexGuard<'static, Vec<(RetiredWorlds, Libraries)>> {
    LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SamplerSettings;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_a_handler_looks_at_stays_until_it_has_left() {
        let slot: &'static Slot = Box::leak(Box::new(Slot::new(0, 64)));
        slot.inside.store(1, Ordering::SeqCst);
        let libraries = Libraries::default();
        let world = Box::new(libraries.world(SamplerSettings::new(100)));
        let mut worlds = RetiredWorlds::default();
        // SAFETY: nobody else knows it.
        unsafe { worlds.add(Box::into_raw(world), vec![slot]) };
        worlds.free_unused();
        assert!(!worlds.is_empty());
        leave_behind(worlds, libraries);
        let is_kept = || {
            let of_slot = |left: &Vec<&Slot>| left.iter().any(|kept| std::ptr::eq(*kept, slot));
            left_behind().iter().any(|(worlds, _)| worlds.0.iter().any(|(_, left)| of_slot(left)))
        };
        free_left_behind();
        assert!(is_kept());
        slot.inside.store(0, Ordering::SeqCst);
        free_left_behind();
        assert!(!is_kept());
    }
}
