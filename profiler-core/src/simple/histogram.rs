//! Counts durations by bucket; the memory of a bucket is there once durations fall into it.

use std::ops::RangeInclusive;
use std::ptr;
use std::sync::Arc;

use super::distribution::{
    BUCKETS, Distribution, SUB_BITS, SUB_BUCKETS, bucket_of, start_of, width_of,
};
use crate::recorder::mapped::MappedArena;
use profiler_events::sync::{AtomicPtr, AtomicU32, Ordering, Tally, fence};

/// Powers of two that have their buckets in the histogram itself: that of the first duration, the one
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
/// *Invariant*: `base` is set before anything is counted, and stays. `carried` of a bucket is stored
/// after the byte that it follows from, and all bytes are published. Octaves are complete before they
/// are linked in, at the head, and live as long as `octaves`.
#[repr(C)]
pub(super) struct Histogram {
    near: [Tally; WORDS],
    /// The bucket that `near` begins with; [`UNKNOWN`] before the first duration.
    base: AtomicU32,
    carried: [Tally; NEAR],
    far: AtomicPtr<Octave>,
    /// Where those of `far` are made.
    octaves: Arc<Octaves>,
}

/// The octaves of all histograms of a thread. They do not come from the program's allocator: a scope
/// that ends in a signal handler may have interrupted that.
pub(super) type Octaves = MappedArena<Octave>;

/// No bucket.
const UNKNOWN: u32 = u32::MAX;

/// The buckets of a power of two that are not near.
pub(super) struct Octave {
    first_bucket: usize,
    counts: [Tally; SUB_BUCKETS],
    next: *const Octave,
}

// SAFETY: `next` leads to an octave that is freed together with this one, and what is written after they
// are linked in is atomic.
unsafe impl Send for Octave {}
// SAFETY: as above; that only one thread records is the duty of the caller.
unsafe impl Sync for Octave {}

impl Histogram {
    /// So much of it, from its beginning, is what a duration that is near touches.
    pub(super) const BYTES_OF_NEAR: usize =
        std::mem::offset_of!(Self, base) + size_of::<AtomicU32>();

    /// One that is written by the owner of these octaves.
    pub(super) fn new(octaves: &Arc<Octaves>) -> Self {
        Self {
            octaves: octaves.clone(),
            far: AtomicPtr::new(ptr::null_mut()),
            base: AtomicU32::new(UNKNOWN),
            near: std::array::from_fn(|_| Tally::new(0)),
            carried: std::array::from_fn(|_| Tally::new(0)),
        }
    }

    #[inline(always)]
    fn base(&self) -> u32 {
        self.base.load(Ordering::Relaxed)
    }

    /// The durations that [`record_near`](Self::record_near) takes: none before the first one.
    pub(super) fn near(&self) -> RangeInclusive<u64> {
        match self.base() {
            UNKNOWN => RangeInclusive::new(1, 0),
            base => {
                let last = base as usize + NEAR - 1;
                start_of(base as usize)..=start_of(last) + (width_of(last) - 1)
            }
        }
    }

    /// The place in `near` of a duration that is [near](Self::near).
    #[inline(always)]
    fn lane(&self, ticks: u64) -> u32 {
        // Nothing below `SUB_BUCKETS` is near, and what is near can be multiplied by it.
        let bits = (ticks | 1).ilog2();
        let place = ((ticks << SUB_BITS) >> bits) as u32 + bits * SUB_BUCKETS as u32;
        place.wrapping_sub(self.base() + SUB_BITS * SUB_BUCKETS as u32)
    }

    /// Counts a duration that is [near](Self::near), in a few instructions: how often it happens is why.
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

    /// Counts a duration that is [near](Self::near), and carries.
    fn record_and_carry(&self, ticks: u64) {
        let lane = self.lane(ticks) as usize;
        let (word, bit) = (&self.near[lane / LANES], lane % LANES * u8::BITS as usize);
        let count = (word.get() >> bit) as u8;
        let next = count.wrapping_add(1);
        word.publish(word.get() ^ (u64::from(count ^ next) << bit));
        if u64::from(next).is_multiple_of(CARRY) {
            self.carried[lane].publish(self.carried[lane].get() + CARRY);
        }
    }

    /// Counts a duration.
    pub(super) fn record(&self, ticks: u64) {
        let bucket = bucket_of(ticks);
        let first_bucket = bucket / SUB_BUCKETS * SUB_BUCKETS;
        if self.base() == UNKNOWN {
            let lowest = first_bucket.saturating_sub(SUB_BUCKETS).clamp(SUB_BUCKETS, HIGHEST_NEAR);
            self.base.store(lowest as u32, Ordering::Relaxed);
            // For a reader that finds something counted.
            fence(Ordering::Release);
        }
        if self.near().contains(&ticks) {
            return self.record_and_carry(ticks);
        }
        let octave = self.far().find(|octave| octave.first_bucket == first_bucket);
        let octave = octave.unwrap_or_else(|| {
            let counts = std::array::from_fn(|_| Tally::new(0));
            let next = self.far.load(Ordering::Relaxed);
            let octave = self.octaves.add(Octave { first_bucket, counts, next });
            self.far.store(ptr::from_ref(octave).cast_mut(), Ordering::Release);
            octave
        });
        octave.counts[bucket - first_bucket].add(1);
    }

    fn far(&self) -> impl Iterator<Item = &Octave> {
        // SAFETY: octaves are complete before they are linked in and live as long as `octaves`.
        let octave = |pointer: *const Octave| unsafe { pointer.as_ref() };
        let first = self.far.load(Ordering::Acquire).cast_const();
        std::iter::successors(octave(first), move |last| octave(last.next))
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
                let since = |count: u8, carried: u64| u64::from(count.wrapping_sub(carried as u8));
                let counts = before.into_iter().zip(counted);
                return counts.map(move |(carried, count)| carried + since(count, carried));
            }
        }
    }

    /// What has been counted. Any thread may call this. What the owning thread stored before it counted
    /// a duration that is near, or before a [`fence`] that came before it counted any other, is seen by
    /// loads that follow this.
    pub(super) fn distribution(&self) -> Distribution {
        let near: Vec<u64> = (0..WORDS).flat_map(|word| self.counts(word)).collect();
        let mut counts: Vec<(u16, u64)> = Vec::new();
        for octave in self.far() {
            let buckets = octave.counts.iter().enumerate();
            counts
                .extend(buckets.map(|(n, count)| ((octave.first_bucket + n) as u16, count.get())));
        }
        fence(Ordering::Acquire);
        let base = self.base() as usize;
        let near = near.into_iter().enumerate().filter(|(_, count)| *count > 0);
        counts.extend(near.map(|(n, count)| ((base + n) as u16, count)));
        counts.retain(|(_, count)| *count > 0);
        counts.sort_unstable_by_key(|(bucket, _)| *bucket);
        Distribution(counts)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn histogram() -> Histogram {
        Histogram::new(&Arc::default())
    }

    #[test]
    fn every_duration_is_counted_in_its_bucket_near_or_far() {
        for first in [0, 1, 9, 1000, 1 << 40, u64::MAX] {
            let (histogram, mut expected) = (histogram(), Distribution::default());
            let powers = (0..64).map(|power| 1_u64 << power);
            for ticks in [first, 0, u64::MAX].into_iter().chain(powers.clone()).chain(powers) {
                histogram.record(ticks);
                expected.add(ticks);
            }
            assert_eq!(histogram.distribution(), expected, "first {first}");
            assert_eq!(expected.total(), 131);
        }
    }

    /// As many as a thread with hundreds of names has, read while there come more.
    #[test]
    fn octaves_of_many_histograms_are_read_while_more_are_made() {
        let (octaves, count) = (Arc::default(), if cfg!(miri) { 3 } else { 50 });
        let histograms: Vec<Histogram> = (0..count).map(|_| Histogram::new(&octaves)).collect();
        let counted = || histograms.iter().map(|one| one.distribution().total()).sum::<u64>();
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| {
                let mut last = 0;
                while last < count * 60 {
                    let now = counted();
                    assert!(now >= last, "{now} after {last}");
                    last = now;
                    std::thread::yield_now();
                }
            });
            for power in 4..64 {
                histograms.iter().for_each(|one| one.record(1 << power));
            }
            reader.join().expect("no panic");
        });
        assert_eq!(counted(), count * 60);
        // Whoever lives longest keeps them.
        drop(octaves);
        assert!(histograms.iter().all(|one| one.distribution().total() == 60));
    }

    /// A byte overflows while the ones beside it stay what they are.
    #[test]
    fn what_a_byte_does_not_hold_is_carried() {
        let (histogram, mut expected) = (histogram(), Distribution::default());
        let calls = if cfg!(miri) { 700 } else { 100_000 };
        for call in 0..calls {
            // Every second one into the same bucket, the others into those around it.
            let ticks = if call % 2 == 0 { 1000 } else { 512 + 64 * (call / 2 % 24) };
            if !(histogram.near().contains(&ticks) && histogram.record_near(ticks)) {
                histogram.record(ticks);
            }
            expected.add(ticks);
            assert!(call % 97 != 0 || histogram.distribution() == expected, "call {call}");
        }
        assert_eq!(histogram.distribution(), expected);
    }

    #[test]
    fn hardly_any_call_has_something_to_carry() {
        let histogram = histogram();
        (0..10).for_each(|_| histogram.record(1000));
        let carries = (0..1280).filter(|_| {
            !histogram.record_near(1000) && {
                histogram.record(1000);
                true
            }
        });
        assert_eq!(carries.count(), 10);
        assert_eq!(histogram.distribution().total(), 1290);
    }

    #[test]
    fn merging_adds_bucket_by_bucket() {
        let (one, other, both) = (histogram(), histogram(), histogram());
        for n in 0..200_u64 {
            let ticks = n * n * n;
            if n % 3 == 0 { &one } else { &other }.record(ticks);
            both.record(ticks);
        }
        let mut merged = one.distribution();
        merged.merge(&other.distribution());
        assert_eq!(merged, both.distribution());
    }

    #[test]
    #[cfg_attr(miri, ignore = "ten thousand durations")]
    fn quantiles_are_within_an_eighth_of_the_exact_ones() {
        let histogram = histogram();
        let durations: Vec<u64> = (0..10_000_u64).map(|n| 50 + n * n / 7).collect();
        for ticks in &durations {
            histogram.record(*ticks);
        }
        let distribution = histogram.distribution();
        for share in [0.01, 0.25, 0.5, 0.9, 0.95, 0.999] {
            let exact = durations[(share * 10_000.0) as usize - 1] as f64;
            let found = distribution.quantile(share) as f64;
            assert!((found / exact - 1.0).abs() < 0.07, "p{share}: {found} against {exact}");
        }
    }

    #[test]
    fn one_duration_is_every_quantile() {
        let histogram = histogram();
        histogram.record(1000);
        for share in [0.0, 0.5, 1.0] {
            let found = histogram.distribution().quantile(share);
            assert_eq!(bucket_of(found), bucket_of(1000));
        }
        assert_eq!(Distribution::default().quantile(0.5), 0);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Whatever a reader finds while a byte overflows into what is carried, it is what has been counted
    /// at some time.
    #[test]
    fn a_count_that_is_carried_is_never_seen_in_part() {
        for before in [CARRY - 2, 2 * CARRY - 2] {
            let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let counted = orders.clone();
            loom::model(move || {
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let histogram = Arc::new(Histogram::new(&std::sync::Arc::default()));
                histogram.record(4);
                let lane = histogram.lane(4) as usize;
                histogram.near[0].set(before << (8 * lane));
                histogram.carried[lane].set(before / CARRY * CARRY);
                // The reader is spawned, not the writer: see the tests of the stack.
                let reader = {
                    let histogram = histogram.clone();
                    thread::spawn(move || {
                        let seen = histogram.distribution();
                        assert_eq!(seen.0.len(), 1, "{seen:?}");
                        assert!((before..=before + 3).contains(&seen.total()), "{seen:?}");
                        seen.total()
                    })
                };
                for _ in 0..3 {
                    if !histogram.record_near(4) {
                        histogram.record(4);
                    }
                }
                let seen = reader.join().expect("reader");
                assert!(histogram.distribution().total() == before + 3 && seen <= before + 3);
            });
            let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
            assert!(orders > 5, "{orders} orders");
        }
    }
}
