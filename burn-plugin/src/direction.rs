//! Which pass a thread is in: forward, or inside of `profile_backward`.

use std::cell::Cell;

use mlprof_core::hook::Direction;

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread is inside
/// [`ProfileBackwardExt::profile_backward`](crate::ProfileBackwardExt::profile_backward).
#[cfg_attr(not(feature = "cubecl"), allow(dead_code))]
pub(crate) fn direction() -> Direction {
    if INSIDE.get() > 0 { Direction::Backward } else { Direction::Forward }
}

/// While it lives, its thread is in backward.
#[cfg(feature = "autodiff")]
pub(crate) struct Inside;

#[cfg(feature = "autodiff")]
impl Inside {
    pub(crate) fn backward() -> Self {
        INSIDE.set(INSIDE.get() + 1);
        Self
    }
}

#[cfg(feature = "autodiff")]
impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
    }
}
