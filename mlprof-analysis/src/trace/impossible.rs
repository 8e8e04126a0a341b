//! Removal of slices with impossible times. Such slices would extend the trace by years and reduce
//! all shares to 0.

use rustc_hash::FxHashMap;

use super::{Category, Counter, Slice};

/// One millisecond in nanoseconds.
const MILLISECOND: i64 = 1_000_000;
const MINUTE: i64 = 60_000 * MILLISECOND;
const HOUR: i64 = 60 * MINUTE;
/// Maximum distance in nanoseconds from the median start. Slices further away have the time of
/// another clock.
const FARTHEST: i64 = 30 * 24 * HOUR;
/// Maximum duration of a slice, as a multiple of the time span in which all slices begin.
const TIMES: i64 = 1_000;

/// Numbers of slices with impossible times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Impossible {
    /// Number of slices that begin far from most others.
    pub(crate) apart: u64,
    /// Number of slices that last far longer than the rest of the trace.
    pub(crate) long: u64,
}

/// Removes slices and counters with impossible times, and returns the numbers of removed slices.
pub(super) fn remove(slices: &mut Vec<Slice>, counters: &mut Vec<Counter>) -> Impossible {
    let mut impossible = Impossible::default();
    let Some((first, last)) = plausible(slices.iter().map(|slice| slice.start).collect()) else {
        return impossible;
    };
    let before = slices.len();
    slices.retain(|slice| (first..=last).contains(&slice.start));
    impossible.apart = (before - slices.len()) as u64;
    if impossible.apart > 0 {
        // Counters may continue after the last slice began.
        let window = first.saturating_sub(FARTHEST)..=last.saturating_add(FARTHEST);
        counters.retain(|counter| window.contains(&counter.time));
    }
    let longest = longest(slices);
    if slices.iter().any(|slice| slice.duration > longest) {
        let others = Others::of(slices, longest);
        let before = slices.len();
        slices.retain(|slice| slice.duration <= longest || !others.contradict(slice, longest));
        impossible.long = (before - slices.len()) as u64;
    }
    impossible
}

/// Returns the range of slice starts, without starts from another clock.
fn plausible(mut starts: Vec<i64>) -> Option<(i64, i64)> {
    let middle = starts.len().checked_sub(1)? / 2;
    let (_, median, _) = starts.select_nth_unstable(middle);
    let median = *median;
    let near = |start: &&i64| (**start - median).abs() <= FARTHEST;
    // A start of zero means an unknown time.
    let (mut least, mut most, mut has_zero) = (median, median, false);
    for start in starts.iter().filter(near) {
        match start {
            0 => has_zero = true,
            start => (least, most) = (least.min(*start), most.max(*start)),
        }
    }
    let span = (most - least).max(MILLISECOND);
    if has_zero && (least < HOUR || least / TIMES < span) {
        least = least.min(0);
        most = most.max(0);
    }
    Some((least, most))
}

/// Returns the duration in nanoseconds up to which a slice is always plausible.
fn longest(slices: &[Slice]) -> i64 {
    let starts = || slices.iter().map(|slice| slice.start);
    let span = starts().max().unwrap_or(0) - starts().min().unwrap_or(0);
    span.max(MILLISECOND).saturating_mul(TIMES)
}

/// Slices of plausible duration by track. Each entry is a start, in order, and the latest end up to
/// that slice.
struct Others(FxHashMap<u32, Vec<(i64, i64)>>);

impl Others {
    fn of(slices: &[Slice], longest: i64) -> Self {
        let mut tracks: FxHashMap<u32, Vec<(i64, i64)>> = FxHashMap::default();
        for slice in slices.iter().filter(|slice| slice.duration <= longest) {
            tracks.entry(slice.track).or_default().push((slice.start, slice.end()));
        }
        for track in tracks.values_mut() {
            track.sort_unstable();
            let mut last = i64::MIN;
            for (_, end) in track {
                last = last.max(*end);
                *end = last;
            }
        }
        Self(tracks)
    }

    /// Returns `true` if a slice cannot have lasted that long. There are three such cases:
    ///
    /// - It begins inside a slice that ends before it.
    /// - Its stream did other work during it.
    /// - It is an op or kernel of minutes in a trace of milliseconds. User annotations may last
    ///   that long.
    fn contradict(&self, slice: &Slice, longest: i64) -> bool {
        let track = self.0.get(&slice.track).map_or(&[][..], Vec::as_slice);
        let after = track.partition_point(|(start, _)| *start < slice.start);
        let begins_inside = after > 0 && track[after - 1].1 > slice.start;
        let is_op = slice.category == Category::CpuOp || slice.category.is_device_work();
        let overlaps = slice.category.is_device_work() && after < track.len();
        begins_inside || overlaps || is_op && slice.duration > longest.max(MINUTE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(start: i64, duration: i64, category: Category) -> Slice {
        Slice {
            start,
            duration,
            self_duration: 0,
            name: super::super::Name::EMPTY,
            track: 0,
            correlation: 0,
            parent: 0,
            details: 0,
            category,
            depth: 0,
        }
    }

    fn removed(slices: &[(i64, i64, Category)]) -> (Impossible, usize) {
        let of = |(start, duration, category): &(i64, i64, Category)| {
            slice(*start, *duration, *category)
        };
        let mut slices: Vec<Slice> = slices.iter().map(of).collect();
        let impossible = remove(&mut slices, &mut Vec::new());
        (impossible, slices.len())
    }

    const UNIX: i64 = 1_700_000_000_000_000_000;

    #[test]
    fn slices_of_another_clock_are_removed() {
        let op = Category::CpuOp;
        let usual = [(UNIX, 5, op), (UNIX + 100_000, 5, op), (UNIX + 200_000, 5, op)];
        for odd in [0, 1, 324_545_023_708_898, -5, 2 * UNIX] {
            let slices = [&usual[..], &[(odd, 5, op)]].concat();
            assert_eq!(removed(&slices), (Impossible { apart: 1, long: 0 }, 3), "{odd}");
        }
        // One slice has the time since boot in hours, and another one has zero.
        let boot = 10 * HOUR;
        let usual = [(boot, 5, op), (boot + 100, 5, op), (boot + 200, 5, op), (0, 5, op)];
        assert_eq!(removed(&usual).0.apart, 1);
        // Traces that begin at 0 or last two days are valid.
        let usual = [(0, 5, op), (boot, 5, op), (2 * boot, 5, op), (48 * HOUR, 5, op)];
        assert_eq!(removed(&usual).0, Impossible::default());
    }

    #[test]
    fn slices_that_outlast_everything_are_removed_unless_they_may() {
        let (op, kernel, mark) = (Category::CpuOp, Category::Kernel, Category::UserAnnotation);
        let step = [(0, 100_000, mark), (100_000, 100_000, mark), (200_000, 100_000, mark)];
        let with = |odd| removed(&[&step[..], &[odd]].concat()).0.long;
        // The slice begins in a step and ends an hour later.
        assert_eq!((with((150_000, HOUR, op)), with((150_000, HOUR, mark))), (1, 1));
        // The slice contains all others, or it comes last.
        assert_eq!((with((0, HOUR, mark)), with((300_000, HOUR, mark))), (0, 0));
        assert_eq!((with((300_000, HOUR, op)), with((300_000, MINUTE / 2, op))), (1, 0));
        // A stream runs its work sequentially.
        let stream = [(0, 100, kernel), (1_000, MINUTE / 2, kernel), (2_000, 100, kernel)];
        assert_eq!(removed(&stream).0.long, 1);
        assert_eq!(removed(&stream[..2]).0.long, 0);
    }
}
