//! Rule for CUPTI's departure from the process at the end of a recording.

use std::sync::atomic::{AtomicU8, Ordering};

/// Rule for CUPTI's departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Departure {
    /// CUPTI leaves if only the thread that ends the recording made CUDA calls in it.
    Automatic,
    /// CUPTI never leaves.
    Never,
    /// CUPTI leaves at the end of each recording.
    Always,
}

static DEPARTURE: AtomicU8 = AtomicU8::new(Departure::Automatic as u8);

/// Sets the rule for all recordings that end from now on.
pub(crate) fn set_departure(departure: Departure) {
    DEPARTURE.store(departure as u8, Ordering::Relaxed);
}

/// Threads that made CUDA calls in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Callers {
    /// No call was recorded.
    #[default]
    Unknown,
    /// One thread, by its operating system id.
    One(u32),
    /// Several threads, or an unknown number.
    Several,
}

impl Callers {
    /// Adds the thread of a call.
    pub(super) fn add(&mut self, thread: u32) {
        *self = match *self {
            Self::Unknown => Self::One(thread),
            Self::One(known) if known == thread => return,
            Self::One(_) | Self::Several => Self::Several,
        };
    }

    /// Returns `true` if CUPTI should leave when the calling thread ends a recording.
    pub(super) fn let_cupti_leave(self) -> bool {
        match DEPARTURE.load(Ordering::Relaxed) {
            rule if rule == Departure::Always as u8 => true,
            rule if rule == Departure::Never as u8 => false,
            _ => matches!(self, Self::One(thread) if Some(thread) == this_thread()),
        }
    }
}

/// Returns the operating system id of the calling thread, which is the id that CUPTI records.
fn this_thread() -> Option<u32> {
    #[cfg(target_os = "linux")]
    // SAFETY: `gettid` takes no arguments, has no preconditions and cannot fail.
    return Some(unsafe { libc::gettid() }.unsigned_abs());
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_second_thread_is_never_forgotten() {
        let mut callers = Callers::default();
        callers.add(7);
        callers.add(7);
        assert_eq!(callers, Callers::One(7));
        callers.add(8);
        callers.add(7);
        assert_eq!(callers, Callers::Several);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn cupti_leaves_when_only_this_thread_made_calls() {
        let this = this_thread().expect("a number");
        let of = |thread| Callers::One(thread).let_cupti_leave();
        assert!(of(this));
        assert!(!of(this + 1));
        assert!(!Callers::Several.let_cupti_leave());
        assert!(!Callers::Unknown.let_cupti_leave());
    }
}
