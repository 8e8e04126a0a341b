//! Tracks whether a thread is in the forward pass or inside `profile_backward`.

use std::cell::Cell;

use mlprof_core::hook::Direction;

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Returns the direction of the calling thread: backward inside
/// [`ProfileBackwardExt::profile_backward`](crate::ProfileBackwardExt::profile_backward), otherwise
/// forward.
#[cfg_attr(not(feature = "cubecl"), allow(dead_code))]
pub(crate) fn direction() -> Direction {
    if INSIDE.get() > 0 { Direction::Backward } else { Direction::Forward }
}

/// RAII guard that marks its thread as being in the backward pass.
#[cfg(feature = "autodiff")]
pub(crate) struct BackwardGuard;

#[cfg(feature = "autodiff")]
impl BackwardGuard {
    pub(crate) fn backward() -> Self {
        INSIDE.set(INSIDE.get() + 1);
        Self
    }
}

#[cfg(feature = "autodiff")]
impl Drop for BackwardGuard {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
    }
}
