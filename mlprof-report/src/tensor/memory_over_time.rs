//! Allocated bytes over time by category, and the composition of the peak.

use serde::Serialize;

use mlprof_events::{MemoryCategory, MemoryDevice};

/// Maximum number of points in time of a series.
pub const MOST_MOMENTS: usize = 500;

/// Memory of one device over one recorded cycle, in bytes and seconds.
///
/// Each level holds until the next point in time. Of points close together, the one with the most
/// memory is kept, and the peak is exact. A category is known if a hook labelled the memory.
/// Otherwise it is inferred from the time of allocation and the lifetime.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryOverTime {
    /// Device of the memory.
    pub device: MemoryDevice,
    /// Index of the cycle, from 0 in its stage. Of several cycles, the one with the highest peak.
    pub cycle: u64,
    /// Duration of the cycle in seconds.
    pub duration_seconds: f64,
    /// Bytes allocated before the start of the cycle, as far as they are known.
    pub before_bytes: u64,
    /// Number of allocations in the cycle.
    pub allocations: u64,
    /// Total size of these allocations in bytes.
    pub allocated_bytes: u64,
    /// Number of allocations and frees that were dropped for lack of space. If it is not 0, later
    /// levels are wrong.
    pub dropped: u64,
    /// Steps in the cycle. Empty if there are too many to distinguish.
    pub steps: Vec<MemoryStep>,
    /// Points in time in seconds since the start of the cycle, at most [`MOST_MOMENTS`].
    pub times_seconds: Vec<f64>,
    /// Memory by category, longest-lived categories first. Categories that are always 0 are
    /// omitted.
    pub categories: Vec<CategoryOverTime>,
    /// State at the highest level.
    pub peak: MemoryPeak,
}

/// A recorded training step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryStep {
    /// Number of the step, from 0 in its stage.
    pub number: u64,
    /// Start of the step in seconds since the start of the cycle.
    pub start_seconds: f64,
}

/// Bytes of one category over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CategoryOverTime {
    /// Category of the memory.
    pub category: MemoryCategory,
    /// Bytes at the peak.
    pub at_peak_bytes: u64,
    /// Bytes at the end of the cycle.
    pub at_end_bytes: u64,
    /// Bytes at each point in time.
    pub bytes: Vec<u64>,
}

/// Time and composition of the highest memory level.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryPeak {
    /// Time of the peak in seconds since the start of the cycle. The first one of several equal
    /// peaks.
    pub time_seconds: f64,
    /// Number of the step with the peak, if it is in a step.
    pub step: Option<u64>,
    /// Memory at the peak in bytes.
    pub bytes: u64,
    /// Largest groups of allocations at the peak, in descending order of bytes. Together with the
    /// others they add up to the peak.
    pub rows: Vec<PeakMemory>,
    /// Number of allocations that are in none of these rows.
    pub others_allocations: u64,
    /// Bytes that are in none of these rows.
    pub others_bytes: u64,
}

/// Allocations of one category and op that were live at the peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct PeakMemory {
    /// Category of the memory.
    pub category: MemoryCategory,
    /// Op that allocated the memory. `None` outside of ops, and before the cycle.
    pub op: Option<String>,
    /// Innermost module, function or action around the op.
    pub inside: Option<String>,
    /// `true` if the memory was allocated before the start of the cycle.
    pub is_from_before: bool,
    /// Number of allocations. 0 if it is unknown.
    pub allocations: u64,
    /// Total size of these allocations in bytes.
    pub bytes: u64,
}

impl MemoryOverTime {
    /// Returns the bytes of all categories at a point in time, given by its index in
    /// [`times_seconds`](Self::times_seconds).
    pub fn total_bytes(&self, moment: usize) -> u64 {
        self.categories.iter().filter_map(|category| category.bytes.get(moment)).sum()
    }

    /// Reduces the series to at most `moments` points in time. Of points close together, the one
    /// with the most memory is kept. The first and the last point are always kept.
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

/// Selects at most `most` of the points at these `times` and returns their indices. The time range
/// is divided into equal intervals, and each keeps its point with the highest `total`. The first
/// and the last point are always kept.
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
