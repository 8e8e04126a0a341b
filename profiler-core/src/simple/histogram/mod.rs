//! Counts durations by bucket; the memory of a bucket is there once durations fall into it.

use std::ops::RangeInclusive;
use std::ptr;
use std::sync::Arc;

use super::distribution::{
    BUCKETS, Distribution, SHORTEST, SUB_BITS, SUB_BUCKETS, bucket_of, start_of, width_of,
};
use crate::recorder::mapped::MappedArena;
use mlprof_events::sync::{AtomicPtr, AtomicU32, Ordering, Tally, fence};

/// Powers of two that have their buckets in the histogram itself: that of a usual duration, the one
/// before and the one after it.
const NEAR_OCTAVES: usize = 3;
const NEAR: usize = NEAR_OCTAVES * SUB_BUCKETS;

/// Buckets that are counted in the bytes of one word.
const LANES: usize = 8;
const WORDS: usize = NEAR.div_ceil(LANES);
/// The highest bit of each byte.
const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;
/// A bucket's byte is looked after each time that it has counted so many.
const CARRY: u64 = 128;

/// How many durations may be far before it is looked whether what is near should be elsewhere. The first
/// ones of a row are often longer than all that follow: nothing is in the caches yet.
#[cfg(not(loom))]
const FIRST_LOOK: u32 = 8;
#[cfg(loom)]
const FIRST_LOOK: u32 = 2;

/// The highest bucket that `near` may begin with, so that what is near can be multiplied by
/// [`SUB_BUCKETS`].
const HIGHEST_NEAR: usize = BUCKETS - NEAR - SUB_BITS as usize * SUB_BUCKETS;

/// Counts per bucket, written by one thread.
///
/// What is near is counted in bytes, all of them in three words that every call adds to: a sum at a
/// place that depends on the duration costs a quarter of a scope more, since the processor guesses
/// wrongly which of the last stores a load follows, and other cache lines besides. Of each bucket the
/// byte is what it has counted modulo 256, and `carried` how much that is without what came since the
/// last multiple of [`CARRY`]; so a reader that finds one of the two ahead knows by how much.
///
/// Where most durations are far, they become what is near, and what was near an octave as others are.
///
/// *Invariant*: `base` is set before anything is counted. It changes, and counts of `near` go to octaves,
/// only while `far` is marked as [moving](is_moving): a reader takes no notice of `near` then, and begins
/// anew if `far` is not what it was before. `carried` of a bucket is stored after the byte that it
/// follows from, and all bytes are published. Octaves are complete before they are linked in, at the
/// head, and live as long as `octaves`.
#[repr(C)]
pub(super) struct Histogram {
    near: [Tally; WORDS],
    /// The bucket that `near` begins with; [`UNKNOWN`] before the first duration.
    base: AtomicU32,
    /// How many durations were far, if they are not too many to be counted.
    misses: AtomicU32,
    // What follows lies beside what a duration needs that is near, for those that are not.
    far: AtomicPtr<Octave>,
    /// Where those of `far` are made.
    octaves: Arc<Octaves>,
    /// The shortest and the longest duration.
    min: Tally,
    max: Tally,
    carried: [Tally; NEAR],
}

/// The octaves of all histograms of a thread. They do not come from the program's allocator: a scope
/// that ends in a signal handler may have interrupted that.
pub(super) type Octaves = MappedArena<Octave>;

/// No bucket.
const UNKNOWN: u32 = u32::MAX;

/// The buckets of a power of two that are not near. Some of what they count may be in another one.
#[repr(C)]
pub(super) struct Octave {
    next: *const Octave,
    first_bucket: usize,
    counts: [Tally; SUB_BUCKETS],
}

// SAFETY: `next` leads to an octave that is freed together with this one, and what is written after they
// are linked in is atomic.
unsafe impl Send for Octave {}
// SAFETY: as above; that only one thread records is the duty of the caller.
unsafe impl Sync for Octave {}

/// Whether `far` says that what is near becomes far at this moment.
fn is_moving(far: *const Octave) -> bool {
    far.addr() & 1 != 0
}

/// `far`, said to be moving or not.
fn marked(far: *const Octave, is_moving: bool) -> *mut Octave {
    far.map_addr(|addr| addr & !1 | usize::from(is_moving)).cast_mut()
}

/// The bucket that `near` begins with if durations of this one are to be in the middle.
fn base_around(bucket: usize) -> usize {
    let first = bucket / SUB_BUCKETS * SUB_BUCKETS;
    first.saturating_sub(SUB_BUCKETS).clamp(SUB_BUCKETS, HIGHEST_NEAR)
}

impl Histogram {
    /// So much of it, from its beginning, is what a duration that is near touches.
    pub(super) const BYTES_OF_NEAR: usize =
        std::mem::offset_of!(Self, base) + size_of::<AtomicU32>();

    /// One that is written by the owner of these octaves.
    pub(super) fn new(octaves: &Arc<Octaves>) -> Self {
        Self {
            octaves: octaves.clone(),
            min: Tally::new(u64::MAX),
            max: Tally::new(0),
            far: AtomicPtr::new(ptr::null_mut()),
            base: AtomicU32::new(UNKNOWN),
            misses: AtomicU32::new(0),
            near: std::array::from_fn(|_| Tally::new(0)),
            carried: std::array::from_fn(|_| Tally::new(0)),
        }
    }

    #[inline(always)]
    fn base(&self) -> u32 {
        self.base.load(Ordering::Relaxed)
    }

    /// Whether nothing has been counted, for the owning thread.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.base() == UNKNOWN
    }

    /// The durations that [`record_near`](Self::record_near) takes and that are between others that were
    /// counted. Some must have been [counted](Self::record).
    pub(super) fn usual(&self) -> RangeInclusive<u64> {
        let base = self.base() as usize;
        let last = base + NEAR - 1;
        let longest_near = start_of(last) + (width_of(last) - 1);
        let shortest_near = if base == SUB_BUCKETS { 0 } else { start_of(base) };
        self.min.get().max(shortest_near)..=self.max.get().min(longest_near)
    }

    /// The shortest and the longest duration; the other way around if there is none. Any thread may call
    /// this: after [`distribution`](Self::distribution), what that found lies between.
    pub(super) fn extremes(&self) -> (u64, u64) {
        (self.min.get(), self.max.get())
    }

    /// The place in `near` of a duration that is near.
    #[inline(always)]
    fn lane(&self, ticks: u64) -> u32 {
        let ticks = ticks.max(SHORTEST);
        let bits = ticks.ilog2();
        // What is near can be multiplied by `SUB_BUCKETS`.
        let place = ((ticks << SUB_BITS) >> bits) as u32 + bits * SUB_BUCKETS as u32;
        place.wrapping_sub(self.base() + SUB_BITS * SUB_BUCKETS as u32)
    }

    /// Counts a duration that is [usual](Self::usual), in a few instructions: how often it happens is why.
    /// False, and nothing is counted, if there is something to carry.
    #[inline(always)]
    pub(super) fn record_near(&self, ticks: u64) -> bool {
        let bit = self.lane(ticks).wrapping_mul(u8::BITS);
        let old: [u64; WORDS] = std::array::from_fn(|word| self.near[word].get());
        let new: [u64; WORDS] = std::array::from_fn(|word| {
            let one = 1_u64.checked_shl(bit.wrapping_sub(word as u32 * u64::BITS)).unwrap_or(0);
            old[word].wrapping_add(one)
        });
        // No byte overflows into the next one without a change of its highest bit.
        let changed = old.iter().zip(&new).fold(0, |all, (old, new)| all | (old ^ new));
        let has_room = changed & HIGHEST_BITS == 0;
        if has_room {
            // All of them: where a store goes must not depend on the duration.
            self.near.iter().zip(new).for_each(|(word, new)| word.publish(new));
        }
        has_room
    }

    /// Counts a duration at its place in `near`, and carries.
    fn record_and_carry(&self, lane: usize) {
        let (word, bit) = (&self.near[lane / LANES], lane % LANES * u8::BITS as usize);
        let count = (word.get() >> bit) as u8;
        let next = count.wrapping_add(1);
        word.publish(word.get() ^ (u64::from(count ^ next) << bit));
        if u64::from(next).is_multiple_of(CARRY) {
            self.carried[lane].publish(self.carried[lane].get() + CARRY);
        }
    }

    /// Counts a duration. True if other durations are [usual](Self::usual) afterwards; `before_move` is
    /// called before some no longer are.
    pub(super) fn record(&self, ticks: u64, before_move: impl FnOnce()) -> bool {
        let bucket = bucket_of(ticks);
        if self.is_empty() {
            self.base.store(base_around(bucket) as u32, Ordering::Relaxed);
        }
        let (min, max) = self.extremes();
        let is_between = min <= ticks && ticks <= max;
        if !is_between {
            self.min.set(min.min(ticks));
            self.max.set(max.max(ticks));
        }
        // For a reader that finds this duration, or a later one.
        fence(Ordering::Release);
        // Moving: this is a signal handler, and what is near is not to be touched.
        let is_moving = is_moving(self.far.load(Ordering::Relaxed));
        let base = self.base() as usize;
        if !is_moving && (base..base + NEAR).contains(&bucket) {
            self.record_and_carry(bucket - base);
            return !is_between;
        }
        self.record_far(bucket);
        let misses = self.misses.load(Ordering::Relaxed).saturating_add(1);
        self.misses.store(misses, Ordering::Relaxed);
        let is_to_look = misses >= FIRST_LOOK && misses.is_power_of_two() && !is_moving;
        is_to_look && self.move_if_more_are_around(bucket, before_move) || !is_between
    }

    fn record_far(&self, bucket: usize) {
        let first_bucket = bucket / SUB_BUCKETS * SUB_BUCKETS;
        let head = self.far.load(Ordering::Relaxed);
        let octave = octaves_from(head).find(|octave| octave.first_bucket == first_bucket);
        // Where the system has no memory the duration is in no bucket: sums, calls and extremes
        // have it all the same.
        if let Some(octave) = octave.or_else(|| self.add_octave(first_bucket)) {
            octave.counts[bucket - first_bucket].add(1);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_octave(&self, first_bucket: usize) -> Option<&Octave> {
        let head = self.far.load(Ordering::Relaxed);
        let counts = std::array::from_fn(|_| Tally::new(0));
        let next = marked(head, false);
        let octave = self.octaves.add(Octave { first_bucket, counts, next })?;
        self.far.store(marked(octave, is_moving(head)), Ordering::Release);
        Some(octave)
    }

    /// Makes durations around `bucket` those that are near, if there were more of them.
    #[cold]
    #[inline(never)]
    fn move_if_more_are_around(&self, bucket: usize, before_move: impl FnOnce()) -> bool {
        let (base, old_base) = (base_around(bucket), self.base() as usize);
        let near: [u64; NEAR] = std::array::from_fn(|lane| self.count(lane));
        let would_be_near = |bucket: usize| (base..base + NEAR).contains(&bucket);
        let stay = (old_base..).zip(&near).filter(|(bucket, _)| would_be_near(*bucket));
        let come = octaves_from(self.far.load(Ordering::Relaxed))
            .filter(|octave| would_be_near(octave.first_bucket))
            .map(|octave| octave.counts.iter().map(Tally::get).sum::<u64>());
        let others = stay.map(|(_, count)| count).sum::<u64>() + come.sum::<u64>();
        if others <= near.iter().sum() {
            return false;
        }
        let Some(head) = self.octaves_of(&near) else { return false };
        before_move();
        self.move_to(base, head);
        true
    }

    /// Makes octaves of what is near, before those that are there; `None`, and nothing is changed,
    /// if there is no memory for all of them.
    fn octaves_of(&self, near: &[u64; NEAR]) -> Option<*const Octave> {
        let base = self.base() as usize;
        let mut head = self.far.load(Ordering::Relaxed).cast_const();
        for (number, counts) in near.chunks_exact(SUB_BUCKETS).enumerate() {
            if counts.iter().any(|count| *count > 0) {
                let counts = std::array::from_fn(|n| Tally::new(counts[n]));
                let first_bucket = base + number * SUB_BUCKETS;
                head = self.octaves.add(Octave { first_bucket, counts, next: head })?;
            }
        }
        Some(head)
    }

    /// What is near is in the octaves from `head` on: goes on from an empty one that begins with
    /// the bucket `base`.
    fn move_to(&self, base: usize, head: *const Octave) {
        self.far.store(marked(head, true), Ordering::Release);
        // Who finds any of the stores below in `near` finds `far` marked, or as it is afterwards.
        fence(Ordering::Release);
        self.near.iter().chain(&self.carried).for_each(|tally| tally.set(0));
        self.base.store(base as u32, Ordering::Relaxed);
        // Not `head`: a signal handler may have added to it.
        self.far.store(marked(self.far.load(Ordering::Relaxed), false), Ordering::Release);
    }

    /// What the bucket at this place in `near` has counted, for the owning thread.
    fn count(&self, lane: usize) -> u64 {
        let counted = (self.near[lane / LANES].get() >> (lane % LANES * u8::BITS as usize)) as u8;
        with_carried(counted, self.carried[lane].get())
    }

    /// What the buckets of `word` have counted.
    fn counts(&self, word: usize) -> impl Iterator<Item = u64> {
        let lanes = word * LANES..NEAR.min((word + 1) * LANES);
        let carried = || lanes.clone().map(|lane| self.carried[lane].get_published());
        loop {
            let before: Vec<u64> = carried().collect();
            let counted = self.near[word].get_published().to_le_bytes();
            // The same as before: no more than one multiple is missing in it.
            if carried().eq(before.iter().copied()) {
                let counts = before.into_iter().zip(counted);
                return counts.map(|(carried, counted)| with_carried(counted, carried));
            }
        }
    }

    /// What has been counted. Any thread may call this. What the owning thread stored before it counted
    /// a duration is seen by loads that follow this.
    pub(super) fn distribution(&self) -> Distribution {
        loop {
            let far = self.far.load(Ordering::Acquire);
            let mut distribution = Distribution::default();
            let mut add = |first_bucket: usize, counts: &mut dyn Iterator<Item = u64>| {
                for (n, count) in counts.enumerate().filter(|(_, count)| *count > 0) {
                    distribution.add_to((first_bucket + n) as u16, count);
                }
            };
            if !is_moving(far) {
                let near: Vec<u64> = (0..WORDS).flat_map(|word| self.counts(word)).collect();
                // If anything was counted, it was so after the base was stored.
                add(self.base() as usize, &mut near.into_iter());
            }
            for octave in octaves_from(far) {
                add(octave.first_bucket, &mut octave.counts.iter().map(Tally::get));
            }
            fence(Ordering::Acquire);
            // Each turn more than one is an octave that was added, or a move.
            if self.far.load(Ordering::Relaxed) == far {
                return distribution;
            }
        }
    }
}

/// The octave that `far` leads to and all that were linked in before.
fn octaves_from<'octaves>(far: *const Octave) -> impl Iterator<Item = &'octaves Octave> {
    // SAFETY: octaves are complete before they are linked in and live as long as the histogram that asks.
    let octave = |pointer: *const Octave| unsafe { pointer.as_ref() };
    std::iter::successors(octave(marked(far, false)), move |last| octave(last.next))
}

/// How many there were of what a byte counts modulo 256, if so many were carried before.
fn with_carried(counted: u8, carried: u64) -> u64 {
    carried + u64::from(counted.wrapping_sub(carried as u8))
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
