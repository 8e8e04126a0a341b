//! What the Simple profiler found: per action, how often and how long.

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
/// The numbers of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SimpleReport from SimpleReportParts {
    /// Which run and stage; wall time; what measuring cost.
    pub header: ReportHeader,
    /// All threads together, one row per action, the longest total first. In the first report of a
    /// process also the rows of its start-up, which are no thread's.
    pub actions: Vec<ActionStatistics>,
    /// The same per thread.
    pub threads: Vec<ThreadStatistics>,
    /// Actions still running.
    pub open: Vec<OpenAction>,
    /// How long training waited for its data; `None` where no action
    /// [says so](DataWaiting).
    #[serde(default)]
    pub data_waiting: Option<DataWaiting>,
    /// Regions of devices, by the device's own clock, the longest total first; in none of the other
    /// numbers.
    #[serde(default)]
    pub device_regions: Vec<DeviceRegion>,
    /// How long each step took, by stage; empty where no loop told of steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_series: Vec<StepSeries>,
    /// What costs time that could be saved; filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

impl SimpleReport {
    /// Whether `row` is one of the start-up, which came before the stage
    /// and is no part of its wall time.
    pub(crate) fn is_startup(&self, row: &ActionStatistics) -> bool {
        self.header.startup.is_some()
            && row.sub_stage.is_none()
            && [PROCESS_STARTUP, PROCESS_STARTUP_BEFORE_MAIN].contains(&row.action.as_str())
    }
}

report_value! {
/// How much of training was spent waiting for the next batch: the time in actions whose names end
/// in `train_dataloader_next`, as those that trainers record, and `profile_iterable` in
/// loops written by hand.
///
/// Only the thread that trains can wait: where there is an action `run_training_epoch`, threads
/// without it (workers that prepare data) do not count; where there is none, the thread that waited
/// longest. What is still running counts up to the report. Validation in the middle of an epoch is
/// part of the epoch's time; waiting for its data is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DataWaiting from DataWaitingParts {
    /// Time spent waiting, in seconds.
    pub waiting_seconds: f64,
    /// Time in `run_training_epoch`, in seconds; `None` where there is no such action.
    pub epoch_seconds: Option<f64>,
    /// The part that waiting is of `epoch_seconds`, or else of the wall time: 0 to 1.
    pub share: f64,
}
}

report_value! {
/// One thread's rows, or those of all threads of one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ThreadStatistics from ThreadStatisticsParts {
    /// The thread's name, or `thread-N` for one that has none.
    pub thread: String,
    /// How many threads of this name there were.
    pub threads: u64,
    /// One row per action, the longest total first.
    pub actions: Vec<ActionStatistics>,
}
}

report_value! {
/// One row: all calls of one action that have ended. Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionStatistics from ActionStatisticsParts {
    /// Its name.
    pub action: String,
    /// The stage inside the reported one that the row belongs to, if any: sanity-check rows are
    /// kept apart from training.
    pub sub_stage: Option<mlprof_events::Stage>,
    /// The action that its first call was made inside of, on the same thread; `None` where there is none,
    /// and in files of versions that did not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// How many calls have ended.
    pub calls: u64,
    /// Their durations together. Calls inside a call of the same action are counted in `calls`
    /// and not once more in here.
    pub total_seconds: f64,
    /// `total_seconds` without what ran in other actions inside: these add up.
    pub self_seconds: f64,
    /// The very first call, which often pays for compilation, tuning and warm-up.
    pub first_seconds: f64,
    /// All calls but the first; `None` when there was only one.
    pub rest: Option<DurationStatistics>,
    /// Bytes read and written, where they were measured (`SimpleProfiler::measure_io`).
    #[serde(default)]
    pub io: Option<IoStatistics>,
    /// CPU time and switches, where they were measured (`SimpleProfiler::measure_cpu`).
    #[serde(default)]
    pub cpu: Option<CpuStatistics>,
    /// Device time, where it was measured (`SimpleProfiler::measure_devices`): in rows of all threads
    /// together, of actions that handed work to a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceTime>,
}
}

report_value! {
/// Bytes that one action's calls read and wrote, as the operating system counts them for the thread
/// that runs them. Like `total_seconds` with all that ran inside, and calls inside a call of the
/// same action once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct IoStatistics from IoStatisticsParts {
    /// What `read` and its like returned: from files, pipes, sockets, terminals. Much of it may
    /// have come from the page cache. What a program reads through a memory map is not in here.
    pub read_bytes: u64,
    /// What was handed to `write` and its like.
    pub written_bytes: u64,
    /// What had to be fetched from storage, for memory maps too, by and by in whole pages and with
    /// what the system read ahead. 0 for data that was in the page cache.
    pub storage_read_bytes: u64,
    /// What will have to go to storage: counted when a page of the cache is first written to.
    pub storage_written_bytes: u64,
}
}

impl IoStatistics {
    /// Whether there is nothing to show.
    #[doc(hidden)]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// From `start` until this moment, for counters of two moments.
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

    /// What was counted elsewhere, besides.
    #[doc(hidden)]
    pub fn add(&mut self, other: &Self) {
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.storage_read_bytes += other.storage_read_bytes;
        self.storage_written_bytes += other.storage_written_bytes;
    }
}

report_value! {
/// CPU time of one action's calls and how often their thread lost its core, as the operating system
/// counts them. Like `total_seconds` with all that ran inside, and calls inside a call of the same
/// action once. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CpuStatistics from CpuStatisticsParts {
    /// Of the thread that ran the action: it was working, in the program or in the system. The rest
    /// of the action's time it [waited](ActionStatistics::waiting_seconds).
    pub thread_seconds: f64,
    /// Of all threads of the process while the action ran, this one among them. Actions that run side
    /// by side on several threads each count all of it, so their sum says nothing. What a thread that
    /// runs on another core has worked is known to the system up to its last timer tick, 1 to 10 ms
    /// ago.
    pub process_seconds: f64,
    /// How often the thread gave its core away: it waited for input or output, a lock, a message, the
    /// end of a sleep.
    pub voluntary_switches: u64,
    /// How often its core was taken from it: others wanted it, too.
    pub involuntary_switches: u64,
}
}

impl ActionStatistics {
    /// The part of `total_seconds` in which the thread was not working, in seconds: it waited for
    /// something, or for a core. `None` where CPU time was not measured (`SimpleProfiler::measure_cpu`).
    #[doc(hidden)]
    pub fn waiting_seconds(&self) -> Option<f64> {
        // CPU time is read just outside of the two moments between which the action is timed.
        self.cpu.map(|cpu| (self.total_seconds - cpu.thread_seconds).max(0.0))
    }

    /// How many cores the process kept busy while the action ran, on average; `None` where CPU time
    /// was not measured. It says something of actions that do not run side by side, see
    /// [`CpuStatistics::process_seconds`].
    #[doc(hidden)]
    pub fn busy_cores(&self) -> Option<f64> {
        let cpu = self.cpu.filter(|_| self.total_seconds > 0.0)?;
        Some(cpu.process_seconds / self.total_seconds)
    }

    /// The name as reports show it: rows of a stage inside the reported one carry its name, as in
    /// `[SanityCheck]validation_step`.
    #[doc(hidden)]
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }

    /// The mean over all calls, first included, as Lightning's report shows it.
    pub fn mean_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_seconds / self.calls as f64 }
    }
}

report_value! {
/// How the durations of several calls are distributed. Times in seconds.
///
/// Percentiles come from a histogram with eight buckets per power of two: they are within 7 % of
/// the exact value, and never outside `min` and `max`. The median is closer where most calls are in few
/// buckets: it is moved by what the sum of all durations, which is exact, differs from that of the
/// histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DurationStatistics from DurationStatisticsParts {
    /// The shortest.
    pub min_seconds: f64,
    /// The mean.
    pub mean_seconds: f64,
    /// Half of the calls took no longer.
    pub p50_seconds: f64,
    /// How well the median is known; `None` of fewer than eight calls, which tell too little, and in
    /// reports of versions that did not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_limits: Option<MedianLimits>,
    /// 95 % of the calls took no longer.
    pub p95_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
}
}

/// Between which durations the median lies, were there any number of such calls: so it is with a
/// confidence of 99 %, by the order of calls alone, whatever their distribution. It takes calls to be
/// independent of each other, which those of one run are not quite; what buckets hide is in it. Times
/// in seconds.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MedianLimits {
    /// No less than this.
    pub low_seconds: f64,
    /// No more than this.
    pub high_seconds: f64,
}
