//! Report of the Tensor profiler: a table of ops, a tree of modules, and the recorded steps.

pub(crate) mod device_counters;
pub(crate) mod device_idle;
mod device_time;
pub(crate) mod finest;
#[doc(hidden)]
pub mod memory_over_time;
#[doc(hidden)]
pub mod modules;
#[doc(hidden)]
pub mod page;
pub(crate) mod table;
mod thread;

use serde::Serialize;

pub(crate) use self::device_time::device_seconds;
#[doc(hidden)]
pub use self::finest::{FinestRow, finest_rows};
#[doc(hidden)]
pub use self::memory_over_time::MemoryOverTime;
pub use self::table::{SortKey, TableOptions, TimeUnit};
#[doc(hidden)]
pub use self::thread::RecordedThread;
use super::ReportHeader;
use super::advanced::is_zero;
use super::finding::Finding;
use super::regions::DeviceRegion;
use super::steps::StepSeries;
#[doc(hidden)]
pub use crate::tensor::device_counters::{
    ActionDeviceCounters, CounterStatistics, DeviceCounterStatistics,
};
#[doc(hidden)]
pub use crate::tensor::device_idle::{DeviceIdle, IdleGaps};
use crate::value::report_value;
use mlprof_events::{ActionKind, GroupBy, MemoryDevice, Phase, Schedule, TensorShape};

report_value! {
/// Tensor report of one stage, over all its cycles.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct TensorReport from TensorReportParts {
    /// Run, stage, wall time, measurement overhead and notes.
    pub header: ReportHeader,
    /// Schedule of the recorded steps. `None` without a schedule.
    pub schedule: Option<Schedule>,
    /// Number of `step()` calls in the stage.
    pub steps: u64,
    /// Number of recorded steps.
    pub recorded_steps: u64,
    /// Total recording time of all cycles in seconds, without pauses such as a validation within an
    /// epoch. `None` in files of versions that did not record it.
    #[serde(default)]
    pub recorded_seconds: Option<f64>,
    /// Number of recorded forward ops that the framework tracks for a backward pass. 0 if the
    /// framework does not number them (only tch does).
    #[serde(default)]
    pub tracked_ops: u64,
    /// Number of cycles.
    pub cycle_count: u64,
    /// Summaries of the cycles, at most the first 100.
    pub cycles: Vec<CycleSummary>,
    /// Table of ops.
    pub key_averages: KeyAverages,
    /// Table of ops with additional grouping by shapes, module and phase, as far as they were
    /// recorded. Readers can regroup these rows. Empty if the table already uses this grouping, and
    /// in files of versions without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finest_rows: Vec<FinestRow>,
    /// Recorded scopes of each thread, longest first. Empty in files of versions that did not
    /// record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<RecordedThread>,
    /// Modules of the model as a tree, in order of their first run.
    pub modules: Vec<ModuleStatistics>,
    /// Compilation and autotuning on devices, which warm steps do not have. The table does not
    /// include it.
    pub tuning: Vec<TuningSummary>,
    /// Device regions measured by the device's own clock, ordered by total time, longest first.
    /// Work inside them has its own rows, so the other fields do not include these times.
    #[serde(default)]
    pub device_regions: Vec<DeviceRegion>,
    /// Device counters during each action. Empty if none were sampled.
    #[serde(default)]
    pub device_counters: Vec<DeviceCounterStatistics>,
    /// Busy and idle times of devices between their first and last kernel, by cause. Each device is
    /// followed by its streams if there are several. Empty if no kernel was timed by a device's
    /// clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_idle: Vec<DeviceIdle>,
    /// Allocated bytes over time by category. There is one series per memory, from the cycle with
    /// the highest peak. Empty if memory was not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_over_time: Vec<MemoryOverTime>,
    /// Number of events that were dropped.
    pub dropped: DroppedEvents,
    /// Paths of the files that were written.
    pub files: Vec<String>,
    /// Step durations by stage. Empty if no training loop reported steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_series: Vec<StepSeries>,
    /// Findings: detected causes of avoidable cost. Filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

/// Summary of one cycle of the schedule.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CycleSummary {
    /// Index of the cycle, from 0 in its stage.
    pub number: u64,
    /// Number of the first recorded step, from 0 in the stage.
    pub first_step: u64,
    /// Number of recorded steps.
    pub steps: u64,
    /// `true` if the cycle contains all active steps.
    pub is_complete: bool,
    /// Start of the cycle (UTC, RFC 3339).
    pub started_at: mlprof_events::UtcTime,
    /// Recording time in seconds, without pauses such as a validation within an epoch.
    pub wall_seconds: f64,
    /// Number of ops, actions and other scopes.
    pub events: u64,
}

/// Number of events that were dropped because of a full buffer or a late arrival.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DroppedEvents {
    /// Ops, actions and other scopes.
    pub events: u64,
    /// Allocations and frees.
    pub memory: u64,
    /// Kernels, copies, and samples of device counters.
    pub device: u64,
}

/// Compilation of a kernel, or autotuning among several kernels.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct TuningSummary {
    /// Name of the kernel.
    pub name: String,
    /// Number of times.
    pub count: u64,
    /// Device time in seconds.
    pub device_seconds: f64,
}

report_value! {
/// Table of ops, actions, modules, functions and kernels, in order of their first run. There is one
/// row per name, or per combination of the fields in [`GroupBy`].
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct KeyAverages from KeyAveragesParts {
    /// Grouping of the rows.
    pub group_by: GroupBy,
    /// Name of the device in tables: `Device`, `CUDA`, …
    pub device_name: String,
    /// `true` if memory was recorded.
    pub has_memory: bool,
    /// Rows of the table.
    pub rows: Vec<KeyAverage>,
}
}

report_value! {
/// Row of the table. Times are in seconds and memory is in bytes.
///
/// Totals include nested calls. A recursive call is counted in `calls` but not again in the totals.
///
/// Self values exclude nested calls and are additive, except for self device times. A kernel's time
/// appears in its own row and in the row of its op. Work on another thread for an op has its own
/// host time, which is not part of the op's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct KeyAverage from KeyAverageParts {
    /// Name of the op, kernel, action, module or function. `ProfilerStep*` for all steps.
    pub name: String,
    /// Kind of the first call.
    pub kind: ActionKind,
    /// `true` for a kernel, copy or fill that ran on a device. Such a row has device time only.
    #[serde(default)]
    pub is_on_device: bool,
    /// `true` if the first call had no enclosing scope.
    #[serde(default)]
    pub is_top_level: bool,
    /// Input shapes, if the rows are grouped by them. Empty if they are unknown.
    #[serde(default)]
    pub input_shapes: Option<Vec<TensorShape>>,
    /// Enclosing scopes, innermost first, if the rows are grouped by them.
    #[serde(default)]
    pub stack: Vec<String>,
    /// Module as `path: Type`, if the rows are grouped by modules and there is one.
    #[serde(default)]
    pub module: Option<String>,
    /// Phase, if the rows are grouped by it.
    #[serde(default)]
    pub phase: Option<Phase>,
    /// Number of calls.
    pub calls: u64,
    /// Number of polls of an async function, summed over all calls. 0 if no call was polled more
    /// than once. The times of an async function are those of its polls. `first_seconds` and `rest`
    /// then describe single polls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub polls: u64,
    /// Host time in seconds, including nested calls.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Self host time in seconds, without nested calls on the same thread.
    #[serde(default)]
    pub self_cpu_seconds: f64,
    /// Duration of the first call in seconds, on the host. For a kernel, on the device.
    #[serde(default)]
    pub first_seconds: f64,
    /// Durations of all calls except the first. `None` if there was only one call.
    #[serde(default)]
    pub rest: Option<RestDurations>,
    /// Device time in seconds of the kernels launched by it or by nested calls. The report's notes
    /// name the measurement method.
    #[serde(default)]
    pub device_seconds: f64,
    /// Device time in seconds of the kernels that it launched itself.
    #[serde(default)]
    pub self_device_seconds: f64,
    /// Host memory allocated minus freed, in bytes.
    #[serde(default)]
    pub cpu_memory_bytes: i64,
    /// Host memory allocated minus freed, in bytes, without nested calls.
    #[serde(default)]
    pub self_cpu_memory_bytes: i64,
    /// Memory allocated minus freed on all accelerators, in bytes.
    #[serde(default)]
    pub device_memory_bytes: i64,
    /// Memory allocated minus freed on all accelerators, in bytes, without nested calls.
    #[serde(default)]
    pub self_device_memory_bytes: i64,
    /// Separate counts of allocated and freed bytes, for every device with a nonzero count.
    #[serde(default)]
    pub memory: Vec<MemoryUse>,
    /// Floating-point operations of all calls, for ops with shapes that determine them. See
    /// `tensor::flops`.
    #[serde(default)]
    pub flops: u64,
    /// Bytes that all calls read and write at least, for ops with shapes that determine them. See
    /// `tensor::bytes`. `None` if they are unknown for any call.
    #[serde(default)]
    pub moved_bytes: Option<u64>,
}
}

impl KeyAverage {
    /// Returns the floating-point operations per second of device time, or of host time if there is
    /// no device time. Returns `None` without operations.
    #[doc(hidden)]
    pub fn flops_per_second(&self) -> Option<f64> {
        per_second(self.flops, self.device_seconds, self.cpu_seconds)
    }

    /// Returns the bytes read and written per second of device time, or of host time if there is no
    /// device time. Returns `None` if they are unknown.
    #[doc(hidden)]
    pub fn bytes_per_second(&self) -> Option<f64> {
        per_second(self.moved_bytes?, self.device_seconds, self.cpu_seconds)
    }

    /// Returns the floating-point operations per byte read or written. Returns `None` if either is
    /// unknown.
    #[doc(hidden)]
    pub fn flops_per_byte(&self) -> Option<f64> {
        flops_per_byte(self.flops, self.moved_bytes?)
    }

    /// Returns the mean host time of a call, in seconds.
    #[doc(hidden)]
    pub fn mean_cpu_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.cpu_seconds / self.calls as f64 }
    }

    /// Returns the mean of all calls except the first, in seconds. It is host time, or device time
    /// for a kernel. Returns `None` if there was only one call. The result lies between
    /// `min_seconds` and `max_seconds` of [`rest`](Self::rest).
    #[doc(hidden)]
    pub fn rest_mean_seconds(&self) -> Option<f64> {
        let rest = self.rest?;
        let total = if self.is_on_device { self.device_seconds } else { self.cpu_seconds };
        let others = self.calls.max(self.polls).saturating_sub(1).max(1);
        let mean = (total - self.first_seconds) / others as f64;
        // With recursive calls, the total contains only the outer calls, so the mean could be too
        // small.
        Some(mean.max(rest.min_seconds).min(rest.max_seconds))
    }

    /// Returns the mean device time of a call, in seconds.
    #[doc(hidden)]
    pub fn mean_device_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.device_seconds / self.calls as f64 }
    }
}

fn flops_per_byte(flops: u64, bytes: u64) -> Option<f64> {
    (flops > 0 && bytes > 0).then(|| flops as f64 / bytes as f64)
}

fn per_second(count: u64, device_seconds: f64, cpu_seconds: f64) -> Option<f64> {
    let seconds = if device_seconds > 0.0 { device_seconds } else { cpu_seconds };
    (count > 0 && seconds > 0.0).then(|| count as f64 / seconds)
}

/// Durations of all calls except the first.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct RestDurations {
    /// Shortest duration in seconds.
    pub min_seconds: f64,
    /// Longest duration in seconds.
    pub max_seconds: f64,
    /// Standard deviation in seconds. `None` if there is only one call, and in reports of versions
    /// that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_seconds: Option<f64>,
}

/// Memory of one device, in bytes.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryUse {
    /// Device of the memory.
    pub device: MemoryDevice,
    /// Bytes allocated, including nested calls.
    pub allocated_bytes: u64,
    /// Bytes freed, including nested calls.
    pub freed_bytes: u64,
    /// Bytes allocated by itself.
    pub self_allocated_bytes: u64,
    /// Bytes freed by itself.
    pub self_freed_bytes: u64,
}

impl KeyAverages {
    /// Returns the sum of all rows with the name `Total`. Self times, self memory, calls and FLOPs
    /// are additive. The device time of a kernel counts once, and not again for the op that
    /// launched it. Totals are sums of rows that contain each other, as in torch.
    #[doc(hidden)]
    pub fn total_average(&self) -> KeyAverage {
        let mut total = KeyAverage {
            name: "Total".to_owned(),
            kind: ActionKind::Action,
            is_on_device: false,
            is_top_level: true,
            input_shapes: None,
            stack: Vec::new(),
            module: None,
            phase: None,
            calls: 0,
            polls: 0,
            cpu_seconds: 0.0,
            self_cpu_seconds: 0.0,
            first_seconds: 0.0,
            rest: None,
            device_seconds: 0.0,
            self_device_seconds: 0.0,
            cpu_memory_bytes: 0,
            self_cpu_memory_bytes: 0,
            device_memory_bytes: 0,
            self_device_memory_bytes: 0,
            memory: Vec::new(),
            flops: 0,
            moved_bytes: None,
        };
        for row in &self.rows {
            total.calls += row.calls;
            total.polls += row.polls;
            total.cpu_seconds += row.cpu_seconds;
            total.self_cpu_seconds += row.self_cpu_seconds;
            total.first_seconds += row.first_seconds;
            total.device_seconds += row.device_seconds;
            total.cpu_memory_bytes += row.cpu_memory_bytes;
            total.self_cpu_memory_bytes += row.self_cpu_memory_bytes;
            total.device_memory_bytes += row.device_memory_bytes;
            total.self_device_memory_bytes += row.self_device_memory_bytes;
            total.flops = total.flops.saturating_add(row.flops);
            total.moved_bytes = match (total.moved_bytes, row.moved_bytes) {
                (Some(sum), Some(bytes)) => Some(sum.saturating_add(bytes)),
                (sum, bytes) => sum.or(bytes),
            };
        }
        total.self_device_seconds = device_seconds(&self.rows);
        total
    }

    /// Renders the table in torch's format, see [`TableOptions`]. Returns an empty string without
    /// rows.
    pub fn table(&self, options: &TableOptions) -> String {
        table::paint(self, options)
    }

    /// Returns `true` if any row has device time.
    #[doc(hidden)]
    pub fn has_device_time(&self) -> bool {
        self.rows.iter().any(|row| row.self_device_seconds > 0.0)
    }
}

/// A module of the model with its submodules. Times are in seconds and memory is in bytes.
///
/// The paths determine the tree, and the calls determine the numbers:
///
/// - Forward is everything that ran inside the module's calls, including other modules with any
///   path. If a module is called outside of its parent, it counts for the caller.
/// - Backward is known if the framework links backward ops to their forward ops by a sequence
///   number. A backward op belongs to the modules in which its forward op ran.
/// - Recursive calls of a module count once.
/// - Host time of ops that ran on another thread for the module is included.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ModuleStatistics {
    /// Last part of the path, or the type for the root of a model.
    pub name: String,
    /// Full path. Empty for a root.
    pub path: String,
    /// Type of the module. Empty for a part of a path that is not a module that ran.
    pub type_name: String,
    /// Number of calls.
    pub calls: u64,
    /// Cost of everything inside the module's calls. For a part of a path, the sum over the modules
    /// below it.
    pub total: ModuleCost,
    /// Cost without the modules that it called. These costs are additive.
    pub own: ModuleCost,
    /// Submodules by path, in order of their first run.
    pub children: Vec<ModuleStatistics>,
}

/// Cost of modules.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ModuleCost {
    /// Host time of the forward pass in seconds.
    pub forward_seconds: f64,
    /// Host time of the backward pass in seconds.
    pub backward_seconds: f64,
    /// Device time of the forward pass in seconds.
    pub forward_device_seconds: f64,
    /// Device time of the backward pass in seconds.
    pub backward_device_seconds: f64,
    /// Memory allocated in the forward pass on all devices, in bytes.
    pub allocated_bytes: u64,
    /// Memory allocated minus freed in both passes on all devices, in bytes.
    pub memory_bytes: i64,
    /// Floating-point operations of the forward pass.
    pub forward_flops: u64,
    /// Floating-point operations of the backward pass.
    pub backward_flops: u64,
    /// Bytes that ops of the forward pass read and write at least, as far as they are known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forward_moved_bytes: u64,
    /// Bytes that ops of the backward pass read and write at least, as far as they are known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub backward_moved_bytes: u64,
}

impl std::ops::AddAssign for ModuleCost {
    fn add_assign(&mut self, other: Self) {
        self.forward_seconds += other.forward_seconds;
        self.backward_seconds += other.backward_seconds;
        self.forward_device_seconds += other.forward_device_seconds;
        self.backward_device_seconds += other.backward_device_seconds;
        self.allocated_bytes += other.allocated_bytes;
        self.memory_bytes += other.memory_bytes;
        self.forward_flops = self.forward_flops.saturating_add(other.forward_flops);
        self.backward_flops = self.backward_flops.saturating_add(other.backward_flops);
        let sum = u64::saturating_add;
        self.forward_moved_bytes = sum(self.forward_moved_bytes, other.forward_moved_bytes);
        self.backward_moved_bytes = sum(self.backward_moved_bytes, other.backward_moved_bytes);
    }
}

impl ModuleCost {
    /// Returns the host time of both passes in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.forward_seconds + self.backward_seconds
    }

    /// Returns the device time of both passes in seconds.
    pub fn device_seconds(&self) -> f64 {
        self.forward_device_seconds + self.backward_device_seconds
    }

    /// Returns the floating-point operations of both passes.
    pub fn flops(&self) -> u64 {
        self.forward_flops.saturating_add(self.backward_flops)
    }

    /// Returns the floating-point operations per second of device time, or of host time if there is
    /// no device time. Returns `None` without operations.
    pub fn flops_per_second(&self) -> Option<f64> {
        per_second(self.flops(), self.device_seconds(), self.cpu_seconds())
    }
}
