//! The word of flags that instrumented code checks before it makes a call.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Bits of the word that instrumented code checks before it makes a call. The low bits are those of
/// [`Interest`](crate::Interest); the first eight have the same positions.
pub mod wanted {
    /// Statements are counted and timed.
    pub const LINES: u32 = 1 << 8;
    /// The allocator reports its operations.
    pub const ALLOCATIONS: u32 = 1 << 9;
    /// A profiler needs to know when a training step ends.
    pub const STEPS: u32 = 1 << 10;
    /// The values returned by ops are examined.
    pub const OUTPUTS: u32 = 1 << 11;
    /// All bits that represent the interest of profilers.
    pub const INTEREST: u32 = 0xff | OUTPUTS;
}

/// The runtime's word. Null without a runtime, or while another copy of the crate is its sink.
pub(super) static WANTED: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

pub(super) fn is_connected() -> bool {
    !WANTED.load(Ordering::Relaxed).is_null()
}

pub(super) fn word() -> Option<&'static AtomicU32> {
    // SAFETY: the pointer is null or comes from the `&'static AtomicU32` passed to `begin`.
    unsafe { WANTED.load(Ordering::Acquire).as_ref() }
}

/// Sets or clears bits that are not part of [`Interest`](crate::Interest).
pub(super) fn want(bits: u32, wants: bool) {
    let Some(word) = word() else { return };
    if wants {
        word.fetch_or(bits, Ordering::Relaxed);
    } else {
        word.fetch_and(!bits, Ordering::Relaxed);
    }
}
