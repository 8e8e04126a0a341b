//! What the Tensor profiler found: a table of ops, a tree of modules, and which steps they are from.

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
/// The numbers of one stage: of all its cycles, not of the last one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct TensorReport from TensorReportParts {
    /// Which run and stage; wall time; what measuring cost; notes.
    pub header: ReportHeader,
    /// Which steps were recorded; `None` without a schedule.
    pub schedule: Option<Schedule>,
    /// How many times `step()` was called in the stage.
    pub steps: u64,
    /// How many of the steps are in the numbers.
    pub recorded_steps: u64,
    /// How long all cycles recorded together, in seconds: without pauses, as for a validation
    /// within an epoch. `None` in files of versions that did not say it.
    #[serde(default)]
    pub recorded_seconds: Option<f64>,
    /// How many recorded ops of forward the framework has remembered for a backward pass, where it numbers
    /// them (tch); else 0.
    #[serde(default)]
    pub tracked_ops: u64,
    /// How many cycles there were.
    pub cycle_count: u64,
    /// The cycles, at most the first 100.
    pub cycles: Vec<CycleSummary>,
    /// The table of ops.
    pub key_averages: KeyAverages,
    /// The same told apart by shapes, module and phase, too, as far as they were recorded: whoever reads
    /// can put together what he likes. Empty where the table tells them apart already, and in files of
    /// versions that did not have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finest_rows: Vec<FinestRow>,
    /// What each thread recorded, the longest first; empty in files of versions that did not have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<RecordedThread>,
    /// The modules of the model as a tree, in the order in which they first ran.
    pub modules: Vec<ModuleStatistics>,
    /// Work on devices that a warm step does not have; not in the table.
    pub tuning: Vec<TuningSummary>,
    /// Regions of devices, by the device's own clock, the longest total first. What ran in them has
    /// rows of its own: these are in none of the other numbers.
    #[serde(default)]
    pub device_regions: Vec<DeviceRegion>,
    /// What devices' counters showed during each action; empty where none were sampled.
    #[serde(default)]
    pub device_counters: Vec<DeviceCounterStatistics>,
    /// What devices did between their first and their last kernel, and what they waited for: each device,
    /// and behind it its streams if there are several. Empty where no kernel was timed by a device's clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_idle: Vec<DeviceIdle>,
    /// How many bytes were allocated for what, moment by moment: one series per memory, of the cycle in
    /// which it was fullest; empty where memory was not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_over_time: Vec<MemoryOverTime>,
    /// What there was no room for.
    pub dropped: DroppedEvents,
    /// The files that were written.
    pub files: Vec<String>,
    /// How long each step took, by stage; empty where no loop told of steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_series: Vec<StepSeries>,
    /// What costs time that could be saved; filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

/// One cycle of the schedule.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CycleSummary {
    /// Which one, counted from 0 in its stage.
    pub number: u64,
    /// The first recorded step, counted from 0 in the stage.
    pub first_step: u64,
    /// How many steps were recorded.
    pub steps: u64,
    /// Whether all active steps are in it.
    pub is_complete: bool,
    /// When it began (UTC, RFC 3339).
    pub started_at: mlprof_events::UtcTime,
    /// How long it recorded, in seconds: without pauses, as for a validation within an epoch.
    pub wall_seconds: f64,
    /// How many ops, actions and other scopes there were.
    pub events: u64,
}

/// Events for which there was no room, or that came too late.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DroppedEvents {
    /// Ops, actions and other scopes.
    pub events: u64,
    /// Allocations and frees.
    pub memory: u64,
    /// Kernels, copies, and samples of devices' counters.
    pub device: u64,
}

/// Compiling a kernel, or trying several to find the fastest.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct TuningSummary {
    /// The kernel.
    pub name: String,
    /// How often.
    pub count: u64,
    /// How long the device was busy with it, in seconds.
    pub device_seconds: f64,
}

report_value! {
/// A table of ops, actions, modules, functions and kernels, one row per name or as
/// [`GroupBy`] says, in the order in which they first ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct KeyAverages from KeyAveragesParts {
    /// What the rows are told apart by.
    pub group_by: GroupBy,
    /// What tables call the device: `Device`, `CUDA`, …
    pub device_name: String,
    /// Whether memory was recorded.
    pub has_memory: bool,
    /// The rows.
    pub rows: Vec<KeyAverage>,
}
}

report_value! {
/// One row. Times in seconds; memory in bytes.
///
/// Totals contain what ran inside; calls inside a call of the same row are counted in `calls` and
/// not once more in the totals. Self numbers are without what ran inside, so they add up, except
/// self device times: a kernel's stands in its own row and in that of its op. What ran
/// on another thread for an op has host time of its own, which is not part of the op's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct KeyAverage from KeyAverageParts {
    /// The name; `ProfilerStep*` for all steps.
    pub name: String,
    /// What it is, in its first call.
    pub kind: ActionKind,
    /// Whether it ran on a device: a kernel, a copy or a fill. It has device time only.
    #[serde(default)]
    pub is_on_device: bool,
    /// Whether nothing was around its first call.
    #[serde(default)]
    pub is_top_level: bool,
    /// The inputs, if rows are told apart by them; empty where they are not known.
    #[serde(default)]
    pub input_shapes: Option<Vec<TensorShape>>,
    /// What is around, the innermost first, if rows are told apart by it.
    #[serde(default)]
    pub stack: Vec<String>,
    /// `path: Type` of the module, if rows are told apart by it and there is one.
    #[serde(default)]
    pub module: Option<String>,
    /// The phase, if rows are told apart by it.
    #[serde(default)]
    pub phase: Option<Phase>,
    /// How many calls.
    pub calls: u64,
    /// How often an async function was polled, all calls together: 0 where no call was polled more
    /// than once. Its times are those of being polled, the first and the rest each of one poll.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub polls: u64,
    /// Host time.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Host time without what ran inside on the same thread.
    #[serde(default)]
    pub self_cpu_seconds: f64,
    /// How long the first call took, on the host (a kernel's on the device).
    #[serde(default)]
    pub first_seconds: f64,
    /// All calls but the first; `None` when there was only one.
    #[serde(default)]
    pub rest: Option<RestDurations>,
    /// Time of kernels that it and what ran inside caused, by the method that the notes name.
    #[serde(default)]
    pub device_seconds: f64,
    /// Time of kernels that it caused itself.
    #[serde(default)]
    pub self_device_seconds: f64,
    /// Allocated less freed on the host.
    #[serde(default)]
    pub cpu_memory_bytes: i64,
    /// The same without what ran inside.
    #[serde(default)]
    pub self_cpu_memory_bytes: i64,
    /// Allocated less freed on all accelerators.
    #[serde(default)]
    pub device_memory_bytes: i64,
    /// The same without what ran inside.
    #[serde(default)]
    pub self_device_memory_bytes: i64,
    /// Allocated and freed apart, for every device where that is not 0.
    #[serde(default)]
    pub memory: Vec<MemoryUse>,
    /// Floating-point operations of all calls, of ops whose shapes tell; see
    /// `tensor::flops`.
    #[serde(default)]
    pub flops: u64,
}
}

impl KeyAverage {
    /// Floating-point operations per second: of device time where there is any, else of host time.
    /// `None` without operations.
    #[doc(hidden)]
    pub fn flops_per_second(&self) -> Option<f64> {
        per_second(self.flops, self.device_seconds, self.cpu_seconds)
    }

    /// The mean host time of a call, in seconds.
    #[doc(hidden)]
    pub fn mean_cpu_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.cpu_seconds / self.calls as f64 }
    }

    /// The mean of all calls except the first, in seconds: host time, or a kernel's device time.
    /// `None` where there was one call only. It lies between `min_seconds` and `max_seconds` of
    /// [`rest`](Self::rest).
    #[doc(hidden)]
    pub fn rest_mean_seconds(&self) -> Option<f64> {
        let rest = self.rest?;
        let total = if self.is_on_device { self.device_seconds } else { self.cpu_seconds };
        let others = self.calls.max(self.polls).saturating_sub(1).max(1);
        let mean = (total - self.first_seconds) / others as f64;
        // Of calls inside a call of the same row the total has the outer ones only.
        Some(mean.max(rest.min_seconds).min(rest.max_seconds))
    }

    /// The mean device time of a call, in seconds.
    #[doc(hidden)]
    pub fn mean_device_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.device_seconds / self.calls as f64 }
    }
}

fn per_second(flops: u64, device_seconds: f64, cpu_seconds: f64) -> Option<f64> {
    let seconds = if device_seconds > 0.0 { device_seconds } else { cpu_seconds };
    (flops > 0 && seconds > 0.0).then(|| flops as f64 / seconds)
}

/// How long calls took but for the first.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct RestDurations {
    /// The shortest.
    pub min_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
    /// Their standard deviation; `None` where there is only one, and in reports of versions that did not
    /// say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_seconds: Option<f64>,
}

/// Memory of one device. In bytes.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryUse {
    /// Which memory.
    pub device: MemoryDevice,
    /// Allocated by it and what ran inside.
    pub allocated_bytes: u64,
    /// Freed by it and what ran inside.
    pub freed_bytes: u64,
    /// Allocated by itself.
    pub self_allocated_bytes: u64,
    /// Freed by itself.
    pub self_freed_bytes: u64,
}

impl KeyAverages {
    /// All rows together, called `Total`. Self times, self memory, calls and FLOPs add up; the
    /// device time of a kernel counts once, not again for the op that launched it. Totals are the
    /// sums of rows that contain each other, as in torch.
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
        }
        total.self_device_seconds = device_seconds(&self.rows);
        total
    }

    /// The table as torch prints it; see [`TableOptions`]. Empty without rows.
    pub fn table(&self, options: &TableOptions) -> String {
        table::paint(self, options)
    }

    /// Whether anything was timed on a device.
    #[doc(hidden)]
    pub fn has_device_time(&self) -> bool {
        self.rows.iter().any(|row| row.self_device_seconds > 0.0)
    }
}

/// A module of the model, with those whose paths are below its own. Times in seconds; memory in bytes.
///
/// The tree goes by paths and the numbers by calls. Forward is what ran inside the calls of the module,
/// those of other modules included, wherever their paths are; a module that is called outside of the
/// one that it is below counts where it is called. Backward is known where the framework ties a backward
/// op to its forward op by a sequence number: it then belongs to the modules that the forward op ran
/// in. Calls inside a call of the same module count once. Host time of ops that ran on another thread
/// for the module is in it too.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ModuleStatistics {
    /// The last part of the path; the type for the root of a model.
    pub name: String,
    /// The whole path; empty for a root.
    pub path: String,
    /// The type; empty for a part of a path that is no module that ran.
    pub type_name: String,
    /// How many times it ran.
    pub calls: u64,
    /// All that ran inside its calls; of a part of a path, inside those of the modules below it.
    pub total: ModuleCost,
    /// Without what ran inside the modules that it called: these add up.
    pub own: ModuleCost,
    /// The modules whose paths are below, in the order in which they first ran.
    pub children: Vec<ModuleStatistics>,
}

/// What modules cost.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ModuleCost {
    /// Host time of forward.
    pub forward_seconds: f64,
    /// Host time of backward.
    pub backward_seconds: f64,
    /// Device time of forward.
    pub forward_device_seconds: f64,
    /// Device time of backward.
    pub backward_device_seconds: f64,
    /// Allocated in forward, on all devices.
    pub allocated_bytes: u64,
    /// Allocated less freed in forward and backward, on all devices.
    pub memory_bytes: i64,
    /// Floating-point operations of forward.
    pub forward_flops: u64,
    /// Floating-point operations of backward.
    pub backward_flops: u64,
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
    }
}

impl ModuleCost {
    /// Host time of both directions, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.forward_seconds + self.backward_seconds
    }

    /// Device time of both directions, in seconds.
    pub fn device_seconds(&self) -> f64 {
        self.forward_device_seconds + self.backward_device_seconds
    }

    /// Operations of both directions.
    pub fn flops(&self) -> u64 {
        self.forward_flops.saturating_add(self.backward_flops)
    }

    /// Floating-point operations per second: of device time where there is any, else of host time.
    /// `None` without operations.
    pub fn flops_per_second(&self) -> Option<f64> {
        per_second(self.flops(), self.device_seconds(), self.cpu_seconds())
    }
}
