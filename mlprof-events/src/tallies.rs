//! Sums of allocations and deallocations.

use serde::{Deserialize, Serialize};

/// Sums of allocated and freed memory, in blocks and in bytes. Bytes are counted as the program
/// requested them, while an allocator may round up.
///
/// Resizing a block counts as freeing a block of the old size and allocating one of the new size,
/// even if the block does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tallies {
    /// Number of bytes allocated.
    pub allocated_bytes: u64,
    /// Number of blocks allocated.
    pub allocated_blocks: u64,
    /// Number of bytes freed.
    pub freed_bytes: u64,
    /// Number of blocks freed.
    pub freed_blocks: u64,
}

impl Tallies {
    /// Tallies with all sums at 0.
    pub const ZERO: Self =
        Self { allocated_bytes: 0, allocated_blocks: 0, freed_bytes: 0, freed_blocks: 0 };

    /// Returns the bytes that were allocated and not freed. The result is negative if more was
    /// freed, because blocks may come from another thread or from an earlier time.
    pub const fn net_bytes(&self) -> i64 {
        self.allocated_bytes.wrapping_sub(self.freed_bytes).cast_signed()
    }

    /// Returns the blocks that were allocated and not freed. Like [`net_bytes`](Self::net_bytes),
    /// the result may be negative.
    pub const fn net_blocks(&self) -> i64 {
        self.allocated_blocks.wrapping_sub(self.freed_blocks).cast_signed()
    }

    /// Returns the sums since `earlier`, a previous reading of the same tallies.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            allocated_bytes: self.allocated_bytes.saturating_sub(earlier.allocated_bytes),
            allocated_blocks: self.allocated_blocks.saturating_sub(earlier.allocated_blocks),
            freed_bytes: self.freed_bytes.saturating_sub(earlier.freed_bytes),
            freed_blocks: self.freed_blocks.saturating_sub(earlier.freed_blocks),
        }
    }

    /// Adds the sums of `other`.
    pub const fn add(&mut self, other: &Self) {
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.allocated_blocks = self.allocated_blocks.saturating_add(other.allocated_blocks);
        self.freed_bytes = self.freed_bytes.saturating_add(other.freed_bytes);
        self.freed_blocks = self.freed_blocks.saturating_add(other.freed_blocks);
    }
}
