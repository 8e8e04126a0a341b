//! Report of the Simple profiler: number and duration of calls per action.

pub(crate) mod counters;
#[doc(hidden)]
pub mod detailed;
#[doc(hidden)]
pub mod lightning;
#[doc(hidden)]
pub mod rows;
pub(crate) mod selection;

use serde::Serialize;

use super::finding::Finding;
use super::regions::{DeviceRegion, DeviceTime};
use super::steps::StepSeries;
use super::{OpenAction, ReportHeader};
use crate::value::report_value;
use mlprof_events::startup::{PROCESS_STARTUP, PROCESS_STARTUP_BEFORE_MAIN};

report_value! {
/// Simple report of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SimpleReport from SimpleReportParts {
    /// Run, stage, wall time and measurement overhead.
    pub header: ReportHeader,
    /// All threads together, one row per action, the longest total first. In the first report of a
    /// process also the rows of its start-up, which are no thread's.
    pub actions: Vec<ActionStatistics>,
    /// Actions by thread.
    pub threads: Vec<ThreadStatistics>,
    /// Actions that were still running when the report was made.
    pub open: Vec<OpenAction>,
    /// Time that training waited for its data. `None` if no action [records it](DataWaiting).
    #[serde(default)]
    pub data_waiting: Option<DataWaiting>,
    /// Device regions measured by the device's own clock, ordered by total time, longest first. The
    /// other fields do not include this time.
    #[serde(default)]
    pub device_regions: Vec<DeviceRegion>,
    /// Step durations by stage. Empty if no training loop reported steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_series: Vec<StepSeries>,
    /// Findings: detected causes of avoidable cost. Filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

impl SimpleReport {
    /// Returns `true` if `row` belongs to the start-up, which precedes the stage and is not part of
    /// its wall time.
    pub(crate) fn is_startup(&self, row: &ActionStatistics) -> bool {
        self.header.startup.is_some()
            && row.sub_stage.is_none()
            && [PROCESS_STARTUP, PROCESS_STARTUP_BEFORE_MAIN].contains(&row.action.as_str())
    }
}

report_value! {
/// Time that training spent waiting for the next batch. It is the time in actions with names that
/// end in `train_dataloader_next`. Trainers record such actions, and handwritten loops record them
/// with `profile_iterable`.
///
/// Only the training thread can wait. If there is an action `run_training_epoch`, threads without
/// it do not count, such as data workers. Otherwise the thread with the longest wait counts.
///
/// Running actions count up to the time of the report. Validation during an epoch is part of the
/// epoch's time, but the wait for validation data does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DataWaiting from DataWaitingParts {
    /// Time spent waiting, in seconds.
    pub waiting_seconds: f64,
    /// Time in `run_training_epoch`, in seconds. `None` if there is no such action.
    pub epoch_seconds: Option<f64>,
    /// Share of waiting in `epoch_seconds`, or else in the wall time, 0 to 1.
    pub share: f64,
}
}

report_value! {
/// Rows of one thread, or of all threads with one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ThreadStatistics from ThreadStatisticsParts {
    /// Name of the thread, or `thread-N` if it has none.
    pub thread: String,
    /// Number of threads with this name.
    pub threads: u64,
    /// One row per action, ordered by total time, longest first.
    pub actions: Vec<ActionStatistics>,
}
}

report_value! {
/// Statistics of all finished calls of one action. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionStatistics from ActionStatisticsParts {
    /// Name of the action.
    pub action: String,
    /// Nested stage that the row belongs to, if any. Rows of the sanity check are therefore
    /// separate from training.
    pub sub_stage: Option<mlprof_events::Stage>,
    /// Parent action of the first call, on the same thread. `None` without a parent, and in files
    /// of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// Number of finished calls.
    pub calls: u64,
    /// Total duration of the calls in seconds. A recursive call is counted in `calls` but not again
    /// here.
    pub total_seconds: f64,
    /// Self time in seconds, without nested actions. Self times add up.
    pub self_seconds: f64,
    /// Duration of the first call in seconds, which often includes compilation, autotuning and
    /// warm-up.
    pub first_seconds: f64,
    /// Duration statistics of all calls except the first. `None` if there was only one call.
    pub rest: Option<DurationStatistics>,
    /// Bytes read and written, if they were measured (`SimpleProfiler::measure_io`).
    #[serde(default)]
    pub io: Option<IoStatistics>,
    /// CPU time and context switches, if they were measured (`SimpleProfiler::measure_cpu`).
    #[serde(default)]
    pub cpu: Option<CpuStatistics>,
    /// Device time, if it was measured (`SimpleProfiler::measure_devices`). Present only in rows
    /// summed over all threads, for actions that submitted work to a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceTime>,
}
}

report_value! {
/// Bytes that the calls of one action read and wrote, as the operating system counts them for the
/// calling thread. As in `total_seconds`, nested actions are included and recursive calls count
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct IoStatistics from IoStatisticsParts {
    /// Bytes returned by `read` and similar calls, from files, pipes, sockets and terminals. Many
    /// of them may come from the page cache. Data read through a memory map is not included.
    pub read_bytes: u64,
    /// Bytes passed to `write` and similar calls.
    pub written_bytes: u64,
    /// Bytes fetched from storage, including data of memory maps. They are counted in whole pages
    /// and include the system's read-ahead. 0 for data in the page cache.
    pub storage_read_bytes: u64,
    /// Bytes that will be written to storage. They are counted when a page of the cache is first
    /// modified.
    pub storage_written_bytes: u64,
}
}

impl IoStatistics {
    /// Returns `true` if all counters are 0.
    #[doc(hidden)]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the difference from the counters at `start` to these counters.
    #[doc(hidden)]
    pub fn since(&self, start: &Self) -> Self {
        let since = |pick: fn(&Self) -> u64| pick(self).saturating_sub(pick(start));
        Self {
            read_bytes: since(|io| io.read_bytes),
            written_bytes: since(|io| io.written_bytes),
            storage_read_bytes: since(|io| io.storage_read_bytes),
            storage_written_bytes: since(|io| io.storage_written_bytes),
        }
    }

    /// Adds other counters to these.
    #[doc(hidden)]
    pub fn add(&mut self, other: &Self) {
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.storage_read_bytes += other.storage_read_bytes;
        self.storage_written_bytes += other.storage_written_bytes;
    }
}

report_value! {
/// CPU time and context switches of the calls of one action, as counted by the operating system. As
/// in `total_seconds`, nested actions are included and recursive calls count once. Times are in
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CpuStatistics from CpuStatisticsParts {
    /// CPU time of the thread that ran the action, in user and system mode, in seconds. During the
    /// rest of the action's time, the thread [waited](ActionStatistics::waiting_seconds).
    pub thread_seconds: f64,
    /// CPU time of all threads of the process while the action ran, in seconds. Concurrent actions
    /// on several threads each count all of it, so a sum over actions has no meaning. For threads
    /// on other cores, the system knows the CPU time only up to its last timer tick, 1 to 10 ms
    /// ago.
    pub process_seconds: f64,
    /// Number of voluntary context switches. The thread waited for input or output, a lock, a
    /// message or the end of a sleep.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches. The system gave the core to another thread.
    pub involuntary_switches: u64,
}
}

impl ActionStatistics {
    /// Returns the part of `total_seconds` in which the thread was not working, in seconds. It
    /// waited for an event or for a core. Returns `None` if CPU time was not measured
    /// (`SimpleProfiler::measure_cpu`).
    #[doc(hidden)]
    pub fn waiting_seconds(&self) -> Option<f64> {
        // CPU time is read just outside of the two timestamps of the action, so it can exceed the
        // duration slightly.
        self.cpu.map(|cpu| (self.total_seconds - cpu.thread_seconds).max(0.0))
    }

    /// Returns the mean number of cores that the process kept busy while the action ran. Returns
    /// `None` if CPU time was not measured. The value is meaningful only for actions that do not
    /// run concurrently, see [`CpuStatistics::process_seconds`].
    #[doc(hidden)]
    pub fn busy_cores(&self) -> Option<f64> {
        let cpu = self.cpu.filter(|_| self.total_seconds > 0.0)?;
        Some(cpu.process_seconds / self.total_seconds)
    }

    /// Returns the name as reports show it. Rows of a nested stage carry its name, as in
    /// `[SanityCheck]validation_step`.
    #[doc(hidden)]
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }

    /// Returns the mean over all calls including the first, in seconds, as Lightning's report shows
    /// it.
    pub fn mean_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_seconds / self.calls as f64 }
    }
}

report_value! {
/// Distribution of the durations of several calls. Times are in seconds.
///
/// Percentiles come from a histogram with eight buckets per power of two. They are within 7 % of
/// the exact value, and never outside `min` and `max`. The median is more exact if most calls are
/// in few buckets. It is corrected by the difference between the exact sum of all durations and the
/// histogram's sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DurationStatistics from DurationStatisticsParts {
    /// Shortest duration in seconds.
    pub min_seconds: f64,
    /// Mean duration in seconds.
    pub mean_seconds: f64,
    /// Median duration in seconds.
    pub p50_seconds: f64,
    /// Confidence limits of the median. `None` for fewer than eight calls, and in reports of
    /// versions that did not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_limits: Option<MedianLimits>,
    /// 95th percentile of the durations in seconds.
    pub p95_seconds: f64,
    /// Longest duration in seconds.
    pub max_seconds: f64,
}
}

/// Confidence limits of the median of an unlimited number of such calls, at 99 %. They depend only
/// on the order of the calls, for any distribution of durations. The calls are assumed to be
/// independent, which holds only approximately within one run. The limits include the uncertainty
/// of the histogram's buckets. Times are in seconds.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MedianLimits {
    /// Lower limit in seconds.
    pub low_seconds: f64,
    /// Upper limit in seconds.
    pub high_seconds: f64,
}
