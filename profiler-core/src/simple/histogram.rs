//! How durations are distributed, in buckets whose memory is there once durations fall into them.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::Arc;

use crate::recorder::mapped::MappedArena;
use profiler_events::sync::{AtomicPtr, Ordering, Tally, fence};

/// Buckets per power of two, as a power of two: durations in one bucket differ by at most 1/8.
#[cfg(not(loom))]
const SUB_BITS: u32 = 3;
#[cfg(loom)]
const SUB_BITS: u32 = 0;
const SUB_BUCKETS: usize = 1 << SUB_BITS;

/// Powers of two that have their buckets in the histogram itself: that of the first duration, the one
/// before and the one after it.
const NEAR_OCTAVES: usize = 3;
const NEAR: usize = NEAR_OCTAVES * SUB_BUCKETS;

/// One more than the bucket of the longest duration.
const BUCKETS: usize = (u64::BITS - SUB_BITS) as usize * SUB_BUCKETS + SUB_BUCKETS;

/// The highest bucket that `near` may begin with, so that what is near can be multiplied by
/// [`SUB_BUCKETS`].
const HIGHEST_NEAR: usize = BUCKETS - NEAR - SUB_BITS as usize * SUB_BUCKETS;

/// The bucket of a duration in ticks. Durations below 8 have a bucket each, longer ones share one
/// with those that agree in the leading four bits.
#[inline(always)]
fn bucket_of(ticks: u64) -> usize {
    let bits = (ticks | SUB_BUCKETS as u64).ilog2();
    let shift = bits - SUB_BITS;
    (shift as usize) * SUB_BUCKETS + (ticks >> shift) as usize
}

/// The shortest duration of a bucket, in ticks.
fn start_of(bucket: usize) -> u64 {
    if bucket < 2 * SUB_BUCKETS {
        return bucket as u64;
    }
    let shift = bucket / SUB_BUCKETS - 1;
    ((SUB_BUCKETS + bucket % SUB_BUCKETS) as u64) << shift
}

/// How many durations share a bucket.
fn width_of(bucket: usize) -> u64 {
    1 << (bucket / SUB_BUCKETS).saturating_sub(1)
}

/// Counts per bucket, written by one thread.
///
/// *Invariant*: `base` is set before anything is counted, and stays. Octaves are complete before they
/// are linked in, at the head, and live as long as `octaves`.
#[repr(C)]
pub(super) struct Histogram {
    /// Where the count of bucket 0 would be, and [further](Histogram::record_near) back.
    origin: AtomicPtr<Tally>,
    /// The bucket that `near` begins with; [`UNKNOWN`] before the first duration.
    base: Tally,
    near: [Tally; NEAR],
    far: AtomicPtr<Octave>,
    /// Where those of `far` are made.
    octaves: Arc<Octaves>,
}

/// The octaves of all histograms of a thread. They do not come from the program's allocator: a scope
/// that ends in a signal handler may have interrupted that.
pub(super) type Octaves = MappedArena<Octave>;

/// No bucket.
const UNKNOWN: u64 = u64::MAX;

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
    /// One that is written by the owner of these octaves.
    pub(super) fn new(octaves: &Arc<Octaves>) -> Self {
        Self {
            octaves: octaves.clone(),
            far: AtomicPtr::new(ptr::null_mut()),
            base: Tally::new(UNKNOWN),
            near: std::array::from_fn(|_| Tally::new(0)),
            origin: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The durations that [`record_near`](Self::record_near) takes: none before the first one.
    pub(super) fn near(&self) -> RangeInclusive<u64> {
        match self.base.get() {
            UNKNOWN => RangeInclusive::new(1, 0),
            base => {
                let last = base as usize + NEAR - 1;
                start_of(base as usize)..=start_of(last) + (width_of(last) - 1)
            }
        }
    }

    /// Counts a duration in a few instructions: how often it happens is why.
    ///
    /// # Safety
    ///
    /// The duration is [near](Self::near), and the histogram has not moved since its first one.
    #[inline(always)]
    pub(super) unsafe fn record_near(&self, ticks: u64) {
        // SAFETY: nothing below `SUB_BUCKETS` is near.
        let bits = unsafe { NonZeroU64::new_unchecked(ticks) }.ilog2();
        // The bucket, and so many more as `origin` is before that of the first one. Near durations
        // are short enough to be multiplied.
        let place = ((ticks << SUB_BITS) >> bits) as usize + (bits as usize) * SUB_BUCKETS;
        let count = self.origin.load(Ordering::Relaxed).wrapping_add(place);
        // SAFETY: the bucket is one of `near`, and `origin` so far before it.
        unsafe { &*count }.add(1);
    }

    /// Counts a duration.
    pub(super) fn record(&self, ticks: u64) {
        let bucket = bucket_of(ticks);
        let first_bucket = bucket / SUB_BUCKETS * SUB_BUCKETS;
        if self.base.get() == UNKNOWN {
            let lowest = first_bucket.saturating_sub(SUB_BUCKETS).clamp(SUB_BUCKETS, HIGHEST_NEAR);
            let before_first = SUB_BITS as usize * SUB_BUCKETS + lowest;
            let origin = self.near.as_ptr().wrapping_sub(before_first);
            self.origin.store(origin.cast_mut(), Ordering::Relaxed);
            self.base.set(lowest as u64);
            // For a reader that finds something counted.
            fence(Ordering::Release);
        }
        if self.near().contains(&ticks) {
            // SAFETY: just compared; `self` is where it was when `origin` was set, or has just been.
            return unsafe { self.record_near(ticks) };
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

    /// What has been counted. Any thread may call this. What the owning thread stored before a
    /// [`fence`] that came before it counted a duration is seen by loads that follow this.
    pub(super) fn distribution(&self) -> Distribution {
        let near: [u64; NEAR] = std::array::from_fn(|bucket| self.near[bucket].get());
        let mut counts: Vec<(u16, u64)> = Vec::new();
        for octave in self.far() {
            let buckets = octave.counts.iter().enumerate();
            counts
                .extend(buckets.map(|(n, count)| ((octave.first_bucket + n) as u16, count.get())));
        }
        fence(Ordering::Acquire);
        let base = self.base.get() as usize;
        let near = near.into_iter().enumerate().filter(|(_, count)| *count > 0);
        counts.extend(near.map(|(n, count)| ((base + n) as u16, count)));
        counts.retain(|(_, count)| *count > 0);
        counts.sort_unstable_by_key(|(bucket, _)| *bucket);
        Distribution(counts)
    }
}

/// Durations counted by bucket, the shortest first: those buckets that have any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Distribution(Vec<(u16, u64)>);

impl Distribution {
    /// How many durations there are.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Counts one more.
    pub(super) fn add(&mut self, ticks: u64) {
        self.add_to(bucket_of(ticks) as u16, 1);
    }

    /// Counts those of another one, too.
    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(bucket, count)| self.add_to(*bucket, *count));
    }

    fn add_to(&mut self, bucket: u16, count: u64) {
        match self.0.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(place) => self.0[place].1 += count,
            Err(place) => self.0.insert(place, (bucket, count)),
        }
    }

    /// The duration that `share` (0 to 1) of the counted ones do not exceed, in ticks: interpolated
    /// inside its bucket. 0 when nothing was counted.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let total = self.total();
        let wanted = (share * total as f64).ceil().clamp(1.0, total.max(1) as f64);
        let mut below = 0.0;
        for (bucket, count) in &self.0 {
            let count = *count as f64;
            if below + count >= wanted {
                let (start, width) = (start_of(*bucket as usize), width_of(*bucket as usize));
                let inside = (wanted - below - 0.5) / count;
                return start + ((width - 1) as f64 * inside) as u64;
            }
            below += count;
        }
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn histogram() -> Histogram {
        Histogram::new(&Arc::default())
    }

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        for bucket in 0..BUCKETS {
            let start = start_of(bucket);
            let end = if bucket + 1 == BUCKETS { u64::MAX } else { start_of(bucket + 1) };
            assert_eq!(bucket_of(start), bucket);
            assert_eq!(bucket_of(end - 1), bucket);
            assert!(bucket < SUB_BUCKETS || (end - start) * 8 <= start, "bucket {bucket}");
        }
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
