//! What was sampled so far, for reports.

use super::process_layout::Libraries;
use super::sampled_threads::Tally;
use super::tree::Tree;

/// Everything that a report is made of, but for the threads and names.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) tree: Tree,
    /// Samples that were taken, and the ticks that they stand for.
    pub(super) samples: u64,
    pub(super) ticks: u64,
    /// Ticks for which there was no room.
    pub(super) dropped: u64,
    /// What handlers took, in ticks of the processor's counter.
    pub(super) cost: u64,
    /// Processor time of threads that were taken for waiting, in nanoseconds.
    pub(super) unsampled: u64,
    /// Threads that could get no timer or no slot, each counted once.
    pub(super) refused: u64,
    /// When sampling began and ended; nanoseconds of the monotonic clock.
    pub(super) started: u64,
    pub(super) stopped: Option<u64>,
    /// The process's processor time when sampling began, and when it ended.
    pub(super) processor_started: u64,
    pub(super) processor_stopped: u64,
}

/// What a report is made of.
pub(super) struct Found {
    pub(super) hz: u32,
    pub(super) totals: Totals,
    /// By name.
    pub(super) threads: Vec<(String, Tally)>,
    pub(super) libraries: Libraries,
    /// How long was sampled.
    pub(super) nanoseconds: u64,
    /// Processor time of the process meanwhile, in nanoseconds.
    pub(super) processor: u64,
}
