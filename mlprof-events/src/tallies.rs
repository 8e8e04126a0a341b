//! Sums of what was allocated and freed.

use serde::{Deserialize, Serialize};

/// What was allocated and freed, in bytes as the program asked for them (an allocator may round up)
/// and in blocks.
///
/// A block that is resized counts as a block of the old size freed and one of the new size
/// allocated, whether it moved or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tallies {
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Blocks allocated.
    pub allocated_blocks: u64,
    /// Bytes freed.
    pub freed_bytes: u64,
    /// Blocks freed.
    pub freed_blocks: u64,
}

impl Tallies {
    /// Nothing.
    pub const ZERO: Self =
        Self { allocated_bytes: 0, allocated_blocks: 0, freed_bytes: 0, freed_blocks: 0 };

    /// What was allocated and not freed, in bytes. Below 0 where more was freed than allocated:
    /// blocks of another thread, or of before.
    pub const fn net_bytes(&self) -> i64 {
        self.allocated_bytes.wrapping_sub(self.freed_bytes).cast_signed()
    }

    /// What was allocated and not freed, in blocks; as [`net_bytes`](Self::net_bytes).
    pub const fn net_blocks(&self) -> i64 {
        self.allocated_blocks.wrapping_sub(self.freed_blocks).cast_signed()
    }

    /// What came after `earlier`, an earlier reading of the same tallies.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            allocated_bytes: self.allocated_bytes.saturating_sub(earlier.allocated_bytes),
            allocated_blocks: self.allocated_blocks.saturating_sub(earlier.allocated_blocks),
            freed_bytes: self.freed_bytes.saturating_sub(earlier.freed_bytes),
            freed_blocks: self.freed_blocks.saturating_sub(earlier.freed_blocks),
        }
    }

    /// Adds what `other` counted.
    pub const fn add(&mut self, other: &Self) {
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.allocated_blocks = self.allocated_blocks.saturating_add(other.allocated_blocks);
        self.freed_bytes = self.freed_bytes.saturating_add(other.freed_bytes);
        self.freed_blocks = self.freed_blocks.saturating_add(other.freed_blocks);
    }
}
