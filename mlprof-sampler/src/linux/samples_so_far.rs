//! Samples collected so far, for reports.

use super::process_layout::Libraries;
use super::sampled_threads::Tally;
use super::tree::Tree;

/// Sums and call tree for a report, without threads and names.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) tree: Tree,
    /// Number of samples. `ticks` is the number of ticks that they represent.
    pub(super) samples: u64,
    pub(super) ticks: u64,
    /// Number of ticks in samples that were dropped for lack of space.
    pub(super) dropped: u64,
    /// Total duration of the handlers, in ticks of the processor's counter.
    pub(super) cost: u64,
    /// Processor time of threads that counted as waiting, in nanoseconds.
    pub(super) unsampled: u64,
    /// Number of threads without a timer or a slot, each counted once.
    pub(super) refused: u64,
    /// Start of sampling in nanoseconds of the monotonic clock. `stopped` is its end.
    pub(super) started: u64,
    pub(super) stopped: Option<u64>,
    /// Processor time of the process at the start of sampling, in nanoseconds. `processor_stopped`
    /// is the value at its end.
    pub(super) processor_started: u64,
    pub(super) processor_stopped: u64,
}

/// Data for a report.
pub(super) struct SampleData {
    pub(super) hz: u32,
    pub(super) totals: Totals,
    /// Sums grouped by thread name.
    pub(super) threads: Vec<(String, Tally)>,
    pub(super) libraries: Libraries,
    /// Duration of sampling in nanoseconds.
    pub(super) nanoseconds: u64,
    /// Processor time of the process during sampling, in nanoseconds.
    pub(super) processor: u64,
}
