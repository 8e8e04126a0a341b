//! Categories of events that a profiler can request.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use std::sync::atomic::{AtomicU32, Ordering};

/// Set of event categories that a profiler receives. Combine categories with `|`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest(u16);

impl Interest {
    /// No category; hooks stay off.
    pub const NONE: Self = Self(0);
    /// Actions of training loops and of users (`profile!`, `profiler.profile(…)`).
    pub const ACTIONS: Self = Self(1);
    /// Code below actions: functions with `#[profiled]` and `tracing` spans.
    pub const FUNCTIONS: Self = Self(1 << 1);
    /// Tensor ops.
    pub const OPS: Self = Self(1 << 2);
    /// Shapes and types of the inputs of ops.
    pub const SHAPES: Self = Self(1 << 3);
    /// Allocations of device memory.
    pub const MEMORY: Self = Self(1 << 4);
    /// Times of kernels and copies by the device's clock, and values of the device's counters.
    pub const DEVICE: Self = Self(1 << 5);
    /// Further details of the inputs of ops, in addition to [`SHAPES`](Self::SHAPES): strides,
    /// numbers, and the overload.
    pub const INPUTS: Self = Self(1 << 6);

    /// Values in tensors: outputs of modules, losses, gradients, parameters.
    pub const NUMERICS: Self = Self(1 << 7);
    /// Values in the outputs of each op, forward and backward.
    pub const OP_OUTPUTS: Self = Self(1 << 8);

    /// All categories.
    pub const ALL: Self = Self(u16::MAX);

    /// Returns `true` if the set contains all of `other`.
    #[inline(always)]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the categories that can be measured on this platform, which are none without a
    /// clock.
    #[doc(hidden)]
    pub const fn measurable(self) -> Self {
        if crate::clock::IS_THERE { self } else { Self::NONE }
    }

    /// Returns the set as a number, which [`from_bits`](Self::from_bits) converts back.
    #[doc(hidden)]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Converts the result of [`bits`](Self::bits) back to a set.
    #[doc(hidden)]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

static CHANGES: AtomicU32 = AtomicU32::new(1);

/// Returns the number of [changes](note_interest_change) of any profiler's interest in this
/// process, plus 1. While the number stays the same, callers may reuse earlier answers. It wraps
/// around.
#[inline(always)]
pub fn interest_changes() -> u32 {
    CHANGES.load(Ordering::Acquire)
}

/// Records that the interest of some profiler has changed.
pub fn note_interest_change() {
    CHANGES.fetch_add(1, Ordering::AcqRel);
}

impl BitOr for Interest {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::ACTIONS, "ACTIONS"),
            (Self::FUNCTIONS, "FUNCTIONS"),
            (Self::OPS, "OPS"),
            (Self::SHAPES, "SHAPES"),
            (Self::MEMORY, "MEMORY"),
            (Self::DEVICE, "DEVICE"),
            (Self::INPUTS, "INPUTS"),
            (Self::NUMERICS, "NUMERICS"),
            (Self::OP_OUTPUTS, "OP_OUTPUTS"),
        ];
        let wanted: Vec<_> =
            names.iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| *name).collect();
        write!(formatter, "Interest({})", wanted.join(" | "))
    }
}
