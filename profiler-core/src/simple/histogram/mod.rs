//! Histogram of durations. The memory of a bucket is allocated when durations fall into it.

use std::ops::RangeInclusive;
use std::ptr;
use std::sync::Arc;

use super::distribution::{
    BUCKETS, Distribution, SHORTEST, SUB_BITS, SUB_BUCKETS, bucket_of, start_of, width_of,
};
use crate::recorder::mapped::MappedArena;
use mlprof_events::sync::{AtomicPtr, AtomicU32, Ordering, Tally, fence};

/// Number of octaves (powers of two) in the histogram itself: the octave of a usual duration, the
/// previous one, and the next one.
const NEAR_OCTAVES: usize = 3;
const NEAR: usize = NEAR_OCTAVES * SUB_BUCKETS;

/// Number of buckets per word. Each bucket is counted in one byte.
const LANES: usize = 8;
const WORDS: usize = NEAR.div_ceil(LANES);
/// Mask of the highest bit of each byte.
const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;
/// Number of counts after which a bucket's byte is carried to `carried`.
const CARRY: u64 = 128;

/// Number of far durations before the histogram first checks if the near buckets should move. The
/// first durations of a row are often longer than all later ones, because the caches are still
/// cold.
#[cfg(not(loom))]
const FIRST_LOOK: u32 = 8;
#[cfg(loom)]
const FIRST_LOOK: u32 = 2;

/// Highest bucket that `near` may begin with. Up to here, near durations can be multiplied by
/// [`SUB_BUCKETS`] without overflow.
const HIGHEST_NEAR: usize = BUCKETS - NEAR - SUB_BITS as usize * SUB_BUCKETS;

/// Counts per bucket, written by one thread.
///
/// *Near* buckets are counted in bytes that share three words, and every call stores all three
/// words. If the store address depended on the duration, a scope would cost a quarter more. The
/// processor would mispredict which earlier store a load depends on, and more cache lines would be
/// touched.
///
/// The byte of a near bucket is its count modulo 256. `carried` is the count at the last multiple
/// of [`CARRY`]. A reader that finds one of the two ahead of the other can therefore compute the
/// exact count.
///
/// All other buckets are *far* and are counted in octaves. If most durations are far, the near
/// buckets move to them, and the counts of the old near buckets become octaves.
///
/// *Invariants*:
///
/// - `base` is set before the first duration is counted.
/// - `base` changes, and near counts go to octaves, only while `far` is marked as
///   [moving](is_moving). A reader ignores `near` during that time and starts again if `far` has
///   changed.
/// - `carried` of a bucket is stored after the byte that it is derived from, and all bytes are
///   published.
/// - Octaves are complete before they are linked in at the head, and they live as long as
///   `octaves`.
#[repr(C)]
pub(super) struct Histogram {
    near: [Tally; WORDS],
    /// First bucket of `near`, or [`UNKNOWN`] before the first duration.
    base: AtomicU32,
    /// Number of far durations. It saturates.
    misses: AtomicU32,
    // The fields from here on are not touched by near durations. They come after the fields that
    // near durations use.
    far: AtomicPtr<Octave>,
    /// Arena that allocates the octaves of `far`.
    octaves: Arc<Octaves>,
    /// Shortest and longest duration in ticks.
    min: Tally,
    max: Tally,
    carried: [Tally; NEAR],
}

/// Octaves of all histograms of a thread. They do not come from the program's allocator, because a
/// scope may end in a signal handler that has interrupted the allocator.
pub(super) type Octaves = MappedArena<Octave>;

/// Marker for an unset bucket.
const UNKNOWN: u32 = u32::MAX;

/// Far buckets of one power of two. Several octaves may have counts of the same bucket.
#[repr(C)]
pub(super) struct Octave {
    next: *const Octave,
    first_bucket: usize,
    counts: [Tally; SUB_BUCKETS],
}

// SAFETY: `next` is null or points to an octave of the same arena, which is freed together with
// this one. After the octave is linked in, only its atomic counts change.
unsafe impl Send for Octave {}
// SAFETY: shared access reads immutable fields and atomic counts. Callers must guarantee that only
// one thread records.
unsafe impl Sync for Octave {}

/// Returns `true` if `far` is marked as moving: the near counts are being moved to octaves at this
/// moment.
fn is_moving(far: *const Octave) -> bool {
    far.addr() & 1 != 0
}

/// Returns `far` with or without the moving mark.
fn marked(far: *const Octave, is_moving: bool) -> *mut Octave {
    far.map_addr(|addr| addr & !1 | usize::from(is_moving)).cast_mut()
}

/// Returns the first bucket of `near` that puts durations of `bucket` into the middle octave.
fn base_around(bucket: usize) -> usize {
    let first = bucket / SUB_BUCKETS * SUB_BUCKETS;
    first.saturating_sub(SUB_BUCKETS).clamp(SUB_BUCKETS, HIGHEST_NEAR)
}

impl Histogram {
    /// Size in bytes of the leading part of the histogram that a near duration touches.
    pub(super) const BYTES_OF_NEAR: usize =
        std::mem::offset_of!(Self, base) + size_of::<AtomicU32>();

    /// Returns an empty histogram, to be written by the thread that owns `octaves`.
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

    /// Returns `true` if no duration has been counted. Only the owning thread may call this.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.base() == UNKNOWN
    }

    /// Returns the durations that [`record_near`](Self::record_near) accepts: they are near and
    /// between the extremes counted so far. At least one duration must have been
    /// [recorded](Self::record).
    pub(super) fn usual(&self) -> RangeInclusive<u64> {
        let base = self.base() as usize;
        let last = base + NEAR - 1;
        let longest_near = start_of(last) + (width_of(last) - 1);
        let shortest_near = if base == SUB_BUCKETS { 0 } else { start_of(base) };
        self.min.get().max(shortest_near)..=self.max.get().min(longest_near)
    }

    /// Returns the shortest and the longest duration, or a reversed pair if there is none. Any
    /// thread may call this. After a call of [`distribution`](Self::distribution), the extremes
    /// enclose all durations found there.
    pub(super) fn extremes(&self) -> (u64, u64) {
        (self.min.get(), self.max.get())
    }

    /// Returns the index in `near` for a near duration.
    #[inline(always)]
    fn lane(&self, ticks: u64) -> u32 {
        let ticks = ticks.max(SHORTEST);
        let bits = ticks.ilog2();
        // Near durations can be multiplied by `SUB_BUCKETS` without overflow.
        let place = ((ticks << SUB_BITS) >> bits) as u32 + bits * SUB_BUCKETS as u32;
        place.wrapping_sub(self.base() + SUB_BITS * SUB_BUCKETS as u32)
    }

    /// Counts a [usual](Self::usual) duration in a few instructions, because nearly every scope
    /// takes this path. Returns `false` without counting if a byte has to be carried.
    #[inline(always)]
    pub(super) fn record_near(&self, ticks: u64) -> bool {
        let bit = self.lane(ticks).wrapping_mul(u8::BITS);
        let old: [u64; WORDS] = std::array::from_fn(|word| self.near[word].get());
        let new: [u64; WORDS] = std::array::from_fn(|word| {
            let one = 1_u64.checked_shl(bit.wrapping_sub(word as u32 * u64::BITS)).unwrap_or(0);
            old[word].wrapping_add(one)
        });
        // A byte cannot overflow into the next one without a change of its highest bit.
        let changed = old.iter().zip(&new).fold(0, |all, (old, new)| all | (old ^ new));
        let has_room = changed & HIGHEST_BITS == 0;
        if has_room {
            // All words are stored, so that the store addresses do not depend on the duration.
            self.near.iter().zip(new).for_each(|(word, new)| word.publish(new));
        }
        has_room
    }

    /// Counts a duration at its index in `near` and carries if necessary.
    fn record_and_carry(&self, lane: usize) {
        let (word, bit) = (&self.near[lane / LANES], lane % LANES * u8::BITS as usize);
        let count = (word.get() >> bit) as u8;
        let next = count.wrapping_add(1);
        word.publish(word.get() ^ (u64::from(count ^ next) << bit));
        if u64::from(next).is_multiple_of(CARRY) {
            self.carried[lane].publish(self.carried[lane].get() + CARRY);
        }
    }

    /// Counts a duration. Returns `true` if the [usual](Self::usual) durations have changed. Calls
    /// `before_move` before the near buckets move.
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
        // This fence makes the new extremes visible to a reader that finds this duration or a later
        // one.
        fence(Ordering::Release);
        // If a move is in progress, this code runs in a signal handler and must not touch `near`.
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
        // If the system has no memory, the duration is missing in the buckets. It is still part of
        // the sums, the number of calls, and the extremes.
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

    /// Moves the near buckets to the durations around `bucket` if there were more of those. Returns
    /// `true` if they moved.
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

    /// Makes octaves from the near counts and links them before the existing octaves. Returns
    /// `None`, without any change, if there is not enough memory for all of them.
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

    /// Replaces `far` by the list `head`, which includes the near counts. Then clears `near` and
    /// makes it begin with the bucket `base`.
    fn move_to(&self, base: usize, head: *const Octave) {
        self.far.store(marked(head, true), Ordering::Release);
        // A reader that finds any of the following stores also finds `far` marked or already
        // replaced.
        fence(Ordering::Release);
        self.near.iter().chain(&self.carried).for_each(|tally| tally.set(0));
        self.base.store(base as u32, Ordering::Relaxed);
        // `far` is loaded again instead of using `head`, because a signal handler may have added an
        // octave.
        self.far.store(marked(self.far.load(Ordering::Relaxed), false), Ordering::Release);
    }

    /// Returns the count of the bucket at this index in `near`. Only the owning thread may call
    /// this.
    fn count(&self, lane: usize) -> u64 {
        let counted = (self.near[lane / LANES].get() >> (lane % LANES * u8::BITS as usize)) as u8;
        with_carried(counted, self.carried[lane].get())
    }

    /// Returns the counts of the buckets in `word`.
    fn counts(&self, word: usize) -> impl Iterator<Item = u64> {
        let lanes = word * LANES..NEAR.min((word + 1) * LANES);
        let carried = || lanes.clone().map(|lane| self.carried[lane].get_published());
        loop {
            let before: Vec<u64> = carried().collect();
            let counted = self.near[word].get_published().to_le_bytes();
            // `carried` is unchanged, so the bytes are at most one carry ahead of it.
            if carried().eq(before.iter().copied()) {
                let counts = before.into_iter().zip(counted);
                return counts.map(|(carried, counted)| with_carried(counted, carried));
            }
        }
    }

    /// Returns the distribution of all counted durations. Any thread may call this. Loads after
    /// this call also see all stores that the owning thread made before it counted a duration.
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
                // If any duration was counted, the base was stored before.
                add(self.base() as usize, &mut near.into_iter());
            }
            for octave in octaves_from(far) {
                add(octave.first_bucket, &mut octave.counts.iter().map(Tally::get));
            }
            fence(Ordering::Acquire);
            // A retry is needed only if an octave was added or the near buckets moved.
            if self.far.load(Ordering::Relaxed) == far {
                return distribution;
            }
        }
    }
}

/// Returns the octave that `far` points to and all octaves linked in before it.
fn octaves_from<'octaves>(far: *const Octave) -> impl Iterator<Item = &'octaves Octave> {
    // SAFETY: the pointer is null or points to an octave. Octaves are complete before they are
    // linked in, and the arena keeps them alive as long as the histogram that calls this function.
    let octave = |pointer: *const Octave| unsafe { pointer.as_ref() };
    std::iter::successors(octave(marked(far, false)), move |last| octave(last.next))
}

/// Returns the count of a bucket from its byte, which is the count modulo 256, and its carried
/// count.
fn with_carried(counted: u8, carried: u64) -> u64 {
    carried + u64::from(counted.wrapping_sub(carried as u8))
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
