//! What a profiler wants to hear of.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use std::sync::atomic::{AtomicU32, Ordering};

/// What a profiler wants to hear of. Combine with `|`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest(u16);

impl Interest {
    /// Nothing: hooks stay off.
    pub const NONE: Self = Self(0);
    /// Actions of training loops and of users (`profile!`, `profiler.profile(…)`).
    pub const ACTIONS: Self = Self(1);
    /// The code below actions: functions with `#[profiled]` and `tracing` spans.
    pub const FUNCTIONS: Self = Self(1 << 1);
    /// Tensor ops.
    pub const OPS: Self = Self(1 << 2);
    /// The shapes and types of ops' inputs.
    pub const SHAPES: Self = Self(1 << 3);
    /// Allocations of devices' memory.
    pub const MEMORY: Self = Self(1 << 4);
    /// When kernels and copies ran, by the device's clock, and what the device's counters show.
    pub const DEVICE: Self = Self(1 << 5);
    /// With [`SHAPES`](Self::SHAPES): what else ops are given: strides, numbers, which overload they are.
    pub const INPUTS: Self = Self(1 << 6);

    /// The numbers in tensors: what modules return, losses, gradients, parameters.
    pub const NUMERICS: Self = Self(1 << 7);
    /// The numbers in what each op returns, forward and backward.
    pub const OP_OUTPUTS: Self = Self(1 << 8);

    /// Whatever there is.
    pub const ALL: Self = Self(u16::MAX);

    /// Whether all of `other` is wanted.
    #[inline(always)]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns what of it can be measured on this platform: nothing where there is no clock.
    #[doc(hidden)]
    pub const fn measurable(self) -> Self {
        if crate::clock::IS_THERE { self } else { Self::NONE }
    }

    /// All of it as a number, which [`from_bits`](Self::from_bits) reads.
    #[doc(hidden)]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// What [`bits`](Self::bits) gave.
    #[doc(hidden)]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

static CHANGES: AtomicU32 = AtomicU32::new(1);

/// How often a profiler's interest has [changed](note_interest_change) in this process, and 1: as long as it is the same,
/// nobody need be asked again. Wraps around.
#[inline(always)]
pub fn interest_changes() -> u32 {
    CHANGES.load(Ordering::Acquire)
}

/// Says that the interest of some profiler is another one than before.
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
