//! How many bytes were allocated for what, moment by moment, and what was there when it was most.

use serde::Serialize;

use mlprof_events::{MemoryCategory, MemoryDevice};

/// No series has more moments.
pub const MOST_MOMENTS: usize = 500;

/// The memory of one device over one recorded cycle. In bytes and seconds.
///
/// A level holds from its moment to the next one. Of moments close together the one with the most is
/// kept; the peak is exact. Categories are known where a hook labelled the memory, else guessed from when
/// it was allocated and how long it lived.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryOverTime {
    /// Which memory.
    pub device: MemoryDevice,
    /// Which cycle, counted from 0 in its stage: of several, that with the highest peak.
    pub cycle: u64,
    /// How long the cycle lasted.
    pub duration_seconds: f64,
    /// Allocated before the cycle began, as far as that is known.
    pub before_bytes: u64,
    /// How many allocations there were in the cycle.
    pub allocations: u64,
    /// Their sum.
    pub allocated_bytes: u64,
    /// Allocations and frees for which there was no room: if any, levels are wrong after them.
    pub dropped: u64,
    /// The steps in the cycle; none where they would be more than can be told apart.
    pub steps: Vec<MemoryStep>,
    /// The moments, since the beginning of the cycle; at most [`MOST_MOMENTS`].
    pub times_seconds: Vec<f64>,
    /// What memory was for, what stays longest first; without those that had nothing at any moment.
    pub categories: Vec<CategoryOverTime>,
    /// When most was allocated.
    pub peak: MemoryPeak,
}

/// A step of training that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryStep {
    /// Its number, counted from 0 in its stage.
    pub number: u64,
    /// When it began, since the beginning of the cycle.
    pub start_seconds: f64,
}

/// One category's bytes, moment by moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CategoryOverTime {
    /// What the memory is for.
    pub category: MemoryCategory,
    /// How much of the peak it is.
    pub at_peak_bytes: u64,
    /// How much there is at the end of the cycle.
    pub at_end_bytes: u64,
    /// How much there was at each moment.
    pub bytes: Vec<u64>,
}

/// The moment at which most was allocated, and what was there.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryPeak {
    /// When, since the beginning of the cycle; the first of equal moments.
    pub time_seconds: f64,
    /// The step in which it was, if in any.
    pub step: Option<u64>,
    /// How many bytes.
    pub bytes: u64,
    /// Who had allocated them, the most first: a few rows, which together with the others make up the peak.
    pub rows: Vec<PeakMemory>,
    /// In how many allocations the others were.
    pub others_allocations: u64,
    /// All that is in no row.
    pub others_bytes: u64,
}

/// Allocations that were alive at the peak: of one category, made by one op.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct PeakMemory {
    /// What they are for.
    pub category: MemoryCategory,
    /// The op that made them; `None` outside of ops, and before the cycle.
    pub op: Option<String>,
    /// The innermost module, function or action around that.
    pub inside: Option<String>,
    /// Whether they were made before the cycle began.
    pub is_from_before: bool,
    /// How many; 0 where nobody knows.
    pub allocations: u64,
    /// Their sum.
    pub bytes: u64,
}

impl MemoryOverTime {
    /// All categories at a moment, by its place among [`times_seconds`](Self::times_seconds).
    pub fn total_bytes(&self, moment: usize) -> u64 {
        self.categories.iter().filter_map(|category| category.bytes.get(moment)).sum()
    }

    /// The same in at most so many moments: of those close together the one with the most is kept, and
    /// the first and the last one are.
    #[must_use]
    pub fn shortened(&self, moments: usize) -> Self {
        let total = |moment: usize| self.total_bytes(moment);
        let kept = highest_moments(&self.times_seconds, total, moments);
        let mut shorter = self.clone();
        shorter.times_seconds = kept.iter().map(|moment| self.times_seconds[*moment]).collect();
        for category in &mut shorter.categories {
            category.bytes =
                kept.iter().filter_map(|moment| category.bytes.get(*moment).copied()).collect();
        }
        shorter
    }
}

/// At most so many of the moments at these `times`, in equal parts of the time between the first and the
/// last one: of each part that with the highest `total`; the first and the last one in any case.
pub fn highest_moments(times: &[f64], total: impl Fn(usize) -> u64, most: usize) -> Vec<usize> {
    if times.len() <= most.max(2) {
        return (0..times.len()).collect();
    }
    let last = times.len() - 1;
    let parts = most.max(3) - 2;
    let range = (times[last] - times[0]).max(f64::MIN_POSITIVE);
    let part = |moment: usize| {
        (((times[moment] - times[0]) / range * parts as f64) as usize).min(parts - 1)
    };
    let mut kept = vec![0];
    for moment in 1..last {
        match kept.last_mut() {
            Some(latest) if *latest > 0 && part(*latest) == part(moment) => {
                if total(moment) > total(*latest) {
                    *latest = moment;
                }
            }
            _ => kept.push(moment),
        }
    }
    kept.push(last);
    kept
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn series(levels: Vec<u64>) -> MemoryOverTime {
        let times = (0..levels.len()).map(|moment| moment as f64 * 1e-3).collect();
        let (at_end_bytes, bytes) =
            (levels.last().copied().unwrap_or(0), levels.iter().copied().max().unwrap_or(0));
        MemoryOverTime {
            device: MemoryDevice::Cpu,
            cycle: 0,
            duration_seconds: 1.0,
            before_bytes: 0,
            allocations: 1,
            allocated_bytes: 1,
            dropped: 0,
            steps: Vec::new(),
            times_seconds: times,
            categories: vec![CategoryOverTime {
                category: MemoryCategory::Activation,
                at_peak_bytes: bytes,
                at_end_bytes,
                bytes: levels,
            }],
            peak: MemoryPeak {
                time_seconds: 0.0,
                step: None,
                bytes,
                rows: Vec::new(),
                others_allocations: 0,
                others_bytes: bytes,
            },
        }
    }

    #[test]
    fn a_shorter_series_has_its_ends_and_the_highest_of_what_lies_together() {
        let mut levels = vec![5; 10_000];
        levels[4_321] = 9_000;
        levels[9_999] = 7;
        let all = series(levels);
        let short = all.shortened(100);
        let count = short.times_seconds.len();
        assert!((50..=100).contains(&count), "{count}");
        let bytes = &short.categories[0].bytes;
        assert_eq!((bytes.len(), bytes[0], bytes[count - 1]), (count, 5, 7));
        let highest = bytes.iter().position(|bytes| *bytes == 9_000).expect("the peak is kept");
        assert_eq!(short.times_seconds[highest], all.times_seconds[4_321]);
        assert_eq!(all.shortened(20_000), all);
        assert_eq!(series(Vec::new()).shortened(10).times_seconds.len(), 0);
    }

    #[test]
    fn moments_at_one_time_are_one() {
        let kept = highest_moments(&[1.0; 50], |moment| moment as u64 % 7, 10);
        assert_eq!(kept, [0, 6, 49]);
    }
}
