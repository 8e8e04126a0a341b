//! Large live blocks and the call paths that allocated them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Slots per bucket: the number of addresses in a cache line.
const WAYS: usize = 8;
const BUCKETS: usize = 1 << 15;

/// Marker of an unused slot.
const EMPTY: u64 = 0;
/// Marker of a slot that is being filled. Blocks never have this address.
const CLAIMED: u64 = 1;

/// Lock-free hash table of blocks by address, with a choice of two buckets per block. It allocates
/// only the table itself.
///
/// *Invariant*: the allocating thread stores the address after the other fields of a slot. The
/// thread that is about to free the block removes it. Therefore no address is stored twice, and the
/// owner of a block finds its slot complete.
pub(super) struct Blocks(Box<[Bucket]>);

#[repr(C, align(64))]
struct Bucket {
    addresses: [AtomicU64; WAYS],
    bytes: [AtomicU64; WAYS],
    /// Number of the path, with the number of the stage in the upper half.
    origins: [AtomicU64; WAYS],
}

/// A live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) bytes: u64,
    /// Number of the path that was open at the allocation.
    pub(super) path: u32,
    /// Number of the stage.
    pub(super) stage: u32,
}

impl Block {
    fn origin(&self) -> u64 {
        u64::from(self.path) | (u64::from(self.stage) << 32)
    }
}

impl Blocks {
    pub(super) fn new() -> Self {
        // The system backs the pages with memory when they are first used.
        let buckets = Box::<[Bucket]>::new_zeroed_slice(BUCKETS);
        // SAFETY: all fields are atomic integers, for which all-zero bytes are valid. This keeps
        // most of the 6 MB untouched in most programs.
        Self(unsafe { buckets.assume_init() })
    }

    fn buckets_of(&self, address: u64) -> [&Bucket; 2] {
        // Blocks are aligned, so their lowest bits carry no information. The factor is 2^64 divided
        // by the golden ratio, which spreads neighbouring addresses.
        let hash = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bits = BUCKETS.trailing_zeros();
        let first = (hash >> (64 - bits)) as usize;
        let second = (hash >> (64 - 2 * bits)) as usize % BUCKETS;
        [&self.0[first], &self.0[second]]
    }

    /// Inserts a block. Returns `false` if both buckets are full.
    pub(super) fn insert(&self, address: u64, block: Block) -> bool {
        self.buckets_of(address).into_iter().any(|bucket| bucket.insert(address, block))
    }

    /// Removes a block that the caller is about to free, and returns it if it is known.
    pub(super) fn remove(&self, address: u64) -> Option<Block> {
        self.buckets_of(address).into_iter().find_map(|bucket| bucket.remove(address))
    }

    /// Removes all blocks. No thread may insert or remove meanwhile.
    pub(super) fn clear(&self) {
        let slots = self.0.iter().flat_map(|bucket| &bucket.addresses);
        for slot in slots.filter(|slot| slot.load(Ordering::Relaxed) != EMPTY) {
            slot.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Returns the live blocks. A block that is being allocated or freed at this moment may be
    /// missing.
    pub(super) fn iter(&self) -> impl Iterator<Item = Block> {
        self.0.iter().flat_map(|bucket| (0..WAYS).filter_map(|way| bucket.read(way)))
    }
}

impl Bucket {
    fn insert(&self, address: u64, block: Block) -> bool {
        let claim = |way: &usize| {
            let slot = &self.addresses[*way];
            slot.load(Ordering::Relaxed) == EMPTY
                && slot
                    .compare_exchange(EMPTY, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        };
        let Some(way) = (0..WAYS).find(claim) else { return false };
        // Pairs with the acquire fence in `read`: a reader that sees one of the stores below also
        // sees that the slot was claimed.
        std::sync::atomic::fence(Ordering::Release);
        self.bytes[way].store(block.bytes, Ordering::Relaxed);
        self.origins[way].store(block.origin(), Ordering::Relaxed);
        self.addresses[way].store(address, Ordering::Release);
        true
    }

    fn remove(&self, address: u64) -> Option<Block> {
        let way = (0..WAYS).find(|way| self.addresses[*way].load(Ordering::Relaxed) == address)?;
        let block = self.block(way);
        self.addresses[way].store(EMPTY, Ordering::Release);
        Some(block)
    }

    fn block(&self, way: usize) -> Block {
        let origin = self.origins[way].load(Ordering::Relaxed);
        Block {
            bytes: self.bytes[way].load(Ordering::Relaxed),
            path: origin as u32,
            stage: (origin >> 32) as u32,
        }
    }

    fn read(&self, way: usize) -> Option<Block> {
        let address = self.addresses[way].load(Ordering::Acquire);
        let block = self.block(way);
        std::sync::atomic::fence(Ordering::Acquire);
        let is_unchanged = self.addresses[way].load(Ordering::Relaxed) == address;
        (address > CLAIMED && is_unchanged).then_some(block)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CAPACITY: usize = WAYS * BUCKETS;

    fn block(bytes: u64) -> Block {
        Block { bytes, path: 7, stage: 3 }
    }

    #[test]
    fn a_block_is_found_once() {
        let blocks = Blocks::new();
        assert!(blocks.insert(0x1000, block(5)));
        assert!(blocks.insert(0x2000, block(6)));
        assert_eq!(blocks.remove(0x3000), None);
        assert_eq!(blocks.remove(0x1000), Some(block(5)));
        assert_eq!(blocks.remove(0x1000), None);
        assert_eq!(blocks.iter().collect::<Vec<_>>(), [block(6)]);
        blocks.clear();
        assert_eq!(blocks.iter().count(), 0);
    }

    /// Checks that three quarters of all slots can be filled and that further blocks may be
    /// refused. Not all slots can be filled, because each block has a choice of only two buckets.
    #[test]
    fn blocks_beyond_the_capacity_are_refused() {
        let blocks = Blocks::new();
        let address = |number: usize| 0x7f00_0000_0000 + number as u64 * 4096;
        let three_quarters = CAPACITY * 3 / 4;
        let taken = (0..three_quarters).filter(|n| blocks.insert(address(*n), block(1))).count();
        assert_eq!(taken, three_quarters);
        let more = three_quarters..CAPACITY * 2;
        let taken_later = more.filter(|n| blocks.insert(address(*n), block(1))).count();
        assert!(taken + taken_later <= CAPACITY);
        assert_eq!(blocks.iter().count(), taken + taken_later);
        let removed = (0..CAPACITY * 2).filter(|n| blocks.remove(address(*n)).is_some()).count();
        assert_eq!(removed, taken + taken_later);
    }

    #[test]
    fn threads_insert_and_remove_their_own() {
        let blocks = Blocks::new();
        std::thread::scope(|threads| {
            for thread in 0..8_u64 {
                let blocks = &blocks;
                threads.spawn(move || {
                    for round in 0..2_000_u64 {
                        let address = (thread << 32) + (round % 50 + 1) * 64;
                        let own = Block { bytes: round, path: thread as u32, stage: 0 };
                        assert!(blocks.insert(address, own));
                        assert_eq!(blocks.remove(address), Some(own));
                    }
                });
            }
        });
        assert_eq!(blocks.iter().count(), 0);
    }
}
