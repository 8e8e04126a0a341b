//! The word that spliced code looks at before it calls anything.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The bits of the word that spliced code looks at before it calls anything. The low ones are those
/// of [`Interest`](crate::Interest), of which the first eight have the same places.
pub mod wanted {
    /// Statements are counted and timed.
    pub const LINES: u32 = 1 << 8;
    /// The allocator tells of what it does.
    pub const ALLOCATIONS: u32 = 1 << 9;
    /// Somebody wants to know when a training step ends.
    pub const STEPS: u32 = 1 << 10;
    /// What ops return is looked at.
    pub const OUTPUTS: u32 = 1 << 11;
    /// All bits that say what profilers want.
    pub const INTEREST: u32 = 0xff | OUTPUTS;
}

/// The word of the runtime; null while there is none, or while another copy is its sink.
pub(super) static WANTED: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

pub(super) fn is_connected() -> bool {
    !WANTED.load(Ordering::Relaxed).is_null()
}

pub(super) fn word() -> Option<&'static AtomicU32> {
    // SAFETY: the pointer is null or comes from `begin`, where it was a `'static` reference.
    unsafe { WANTED.load(Ordering::Acquire).as_ref() }
}

/// Turns bits that are no [`Interest`](crate::Interest) on or off.
pub(super) fn want(bits: u32, wants: bool) {
    let Some(word) = word() else { return };
    if wants {
        word.fetch_or(bits, Ordering::Relaxed);
    } else {
        word.fetch_and(!bits, Ordering::Relaxed);
    }
}
