//! Analysis results for a device.

use serde::Serialize;

/// Kind of work on a device or stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Compute kernels.
    Compute,
    /// Kernels that communicate with other devices.
    Communication,
    /// Memory copies and fills.
    Memory,
}

impl WorkKind {
    /// Returns the identifier used in JSON and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Communication => "communication",
            Self::Memory => "memory",
        }
    }

    /// Returns the label used in tables.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Compute => "kernels",
            Self::Communication => "communication",
            Self::Memory => "copies and fills",
        }
    }
}

/// Kind of work of a kernel, derived from its name or its op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KernelCategory {
    /// Matrix products: cuBLAS, CUTLASS, hipBLASLt, mixtures of experts.
    Gemm,
    /// Attention, such as FlashAttention.
    Attention,
    /// Convolutions.
    Convolution,
    /// Kernels with one result per element: activations, optimizers, conversions between element
    /// types.
    Elementwise,
    /// Reductions and scans over a dimension: softmax, arg-max, top-k, losses.
    Reduction,
    /// Layer, batch, group and RMS norms.
    Normalisation,
    /// Copies between or within memories, and kernels that only move data: concatenations, gathers,
    /// scatters.
    Copy,
    /// Communication with other devices.
    Communication,
    /// Memory fills.
    Memset,
    /// Unknown, because neither the name nor the op matches a rule.
    #[default]
    Other,
}

impl KernelCategory {
    /// Returns the label used in tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::Gemm => "GEMM",
            Self::Attention => "attention",
            Self::Convolution => "convolution",
            Self::Elementwise => "elementwise",
            Self::Reduction => "reduction",
            Self::Normalisation => "normalisation",
            Self::Copy => "copy",
            Self::Communication => "communication",
            Self::Memset => "memset",
            Self::Other => "other",
        }
    }
}

/// Times of all calls of one kernel, copy or fill on one device that were launched in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelTimes {
    /// Full name in the trace.
    pub name: String,
    /// Kind of work.
    pub category: KernelCategory,
    /// Number of calls launched in the window. A call without a known launch counts if it began in
    /// the window.
    pub calls: u64,
    /// Time of all calls in nanoseconds. Concurrent calls count in full.
    pub total_ns: i64,
    /// Mean time of a call, rounded to whole nanoseconds.
    pub mean_ns: i64,
    /// Shortest call in nanoseconds.
    pub min_ns: i64,
    /// Longest call in nanoseconds.
    pub max_ns: i64,
    /// Share of the device's busy time that `total_ns` amounts to, from 0. The shares of all rows
    /// can exceed 1 together if streams run concurrently.
    pub busy_share: f64,
    /// Part of `total_ns`, in nanoseconds, of forward ops that backward runs again, as in
    /// activation checkpointing.
    pub recomputed_ns: i64,
    /// Innermost op around the launches. If there are several, it is the op with the most time.
    /// `None` if no launch is known or no op encloses one.
    pub op: Option<String>,
    /// Number of different ops that launched it.
    pub ops: u64,
    /// Module of the launches. If there are several, it is the module with the most time.
    pub module: Option<String>,
    /// Number of different modules that launched it.
    pub modules: u64,
}

/// Times of all work of one category on one device.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct CategoryTimes {
    /// Kind of work.
    pub category: KernelCategory,
    /// Number of kernels, copies and fills.
    pub calls: u64,
    /// Time of all calls in nanoseconds.
    pub total_ns: i64,
    /// Median time of a call in nanoseconds.
    pub median_ns: i64,
    /// Share of the device's busy time that `total_ns` amounts to.
    pub busy_share: f64,
    /// Part of `total_ns`, in nanoseconds, of forward ops that backward runs again.
    pub recomputed_ns: i64,
}

/// Analysis results for one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeviceAnswers {
    /// Device id.
    pub device: i64,
    /// Kernels, copies and fills grouped by name, most time first.
    pub kernels: Vec<KernelTimes>,
    /// Kernels, copies and fills grouped by category, most time first.
    pub categories: Vec<CategoryTimes>,
    /// Breakdown of the device's time.
    pub times: DeviceTimes,
    /// Idle time of each stream.
    pub streams: Vec<StreamIdle>,
    /// Work that ran while the device computed.
    pub overlap: Vec<Overlap>,
    /// Delays between launch calls and the start of their work.
    pub launches: LaunchStatistics,
    /// Queue length of each stream.
    pub queues: Vec<QueueLength>,
    /// Copies and fills grouped by direction.
    pub copies: Vec<Bandwidth>,
    /// Collectives with known message sizes. Their times include waiting for the last rank.
    pub collectives: Vec<CollectiveTimes>,
    /// Frequent sequences of kernels launched by one op.
    pub sequences: Vec<KernelSequence>,
    /// Calls that launched several kernels, copies or fills at once.
    pub graphs: Vec<GraphLaunch>,
}

/// Breakdown of a device's time. The six times from `compute_ns` to `idle_after_ns` add up to the
/// window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DeviceTimes {
    /// Length of the window in nanoseconds. The window is the time from the first to the last step
    /// without recording pauses, or the whole trace. All tables of a device cover this window.
    pub window_ns: i64,
    /// Time in which the device computed, in nanoseconds. Other work may have run at the same time.
    pub compute_ns: i64,
    /// Time in which the device communicated and did not compute, in nanoseconds.
    pub exposed_communication_ns: i64,
    /// Time in which the device only copied or filled memory, in nanoseconds.
    pub exposed_memory_ns: i64,
    /// Idle time before the first work in the window, in nanoseconds.
    pub idle_before_ns: i64,
    /// Idle time between the first and the last work in the window, in nanoseconds.
    pub idle_between_ns: i64,
    /// Idle time after the last work in the window, in nanoseconds.
    pub idle_after_ns: i64,
    /// Summed time of all compute kernels in nanoseconds. Concurrent kernels count in full.
    pub compute_sum_ns: i64,
    /// Summed time of all communication kernels in nanoseconds.
    pub communication_sum_ns: i64,
    /// Summed time of all copies and fills in nanoseconds.
    pub memory_sum_ns: i64,
    /// Busy time outside the window, in nanoseconds. It belongs to no step.
    pub outside_ns: i64,
    /// Part of `outside_ns` after the last step ended on the host, in nanoseconds. It is large if
    /// steps return before their work has run.
    pub after_last_step_ns: i64,
}

impl DeviceTimes {
    /// Returns the parts of the window with their labels. They add up to the window.
    pub(crate) fn parts(&self) -> [(i64, &'static str); 6] {
        [
            (self.compute_ns, "computing"),
            (self.exposed_communication_ns, "communicating, not hidden"),
            (self.exposed_memory_ns, "copies and fills, not hidden"),
            (self.idle_before_ns, "idle before its first work"),
            (self.idle_between_ns, "idle in between"),
            (self.idle_after_ns, "idle after its last work"),
        ]
    }
}

/// Busy and idle time of a stream from its first to its last work in the window, by cause. The
/// parts add up to `span_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StreamIdle {
    /// Stream id.
    pub stream: i64,
    /// Time from the first to the last work in the window, in nanoseconds of the window.
    pub span_ns: i64,
    /// Busy time in nanoseconds.
    pub busy_ns: i64,
    /// Time in which the stream was idle and the launch call of its next work had not begun, in
    /// nanoseconds.
    pub waiting_for_host_ns: i64,
    /// Idle time from the start of such a late launch call to the start of its work, in
    /// nanoseconds.
    pub launch_delay_ns: i64,
    /// Idle time in gaps of less than 30 µs between work that was already launched, in nanoseconds.
    pub between_kernels_ns: i64,
    /// Time waiting for communication on another stream, in nanoseconds.
    pub waiting_for_communication_ns: i64,
    /// Time waiting for computation on another stream, in nanoseconds.
    pub waiting_for_compute_ns: i64,
    /// Time waiting for copies or fills on another stream, in nanoseconds.
    pub waiting_for_memory_ns: i64,
    /// Time in longer gaps, or in gaps with an unknown launch, in nanoseconds.
    pub other_ns: i64,
}

impl StreamIdle {
    /// Returns the `host_wait` time of HolisticTraceAnalysis in nanoseconds. It covers each gap
    /// that ends with late-launched work, except the time in which the stream waited for another
    /// stream.
    pub fn host_wait_ns(&self) -> i64 {
        self.waiting_for_host_ns + self.launch_delay_ns
    }
}

/// Overlap of one kind of work with computation in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// Kind of work.
    pub kind: WorkKind,
    /// Time in which any of this work ran, in nanoseconds.
    pub total_ns: i64,
    /// Part of `total_ns` in which the device also computed, in nanoseconds.
    pub hidden_ns: i64,
}

/// Delays between launch calls in the window and the work they launched. Each call counts once,
/// even if it launches several kernels.
///
/// Quantiles are interpolated between the two nearest calls, as in
/// [`mlprof_report::ranks::quantile`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LaunchStatistics {
    /// Number of calls that launched work.
    pub calls: u64,
    /// Number of kernels, copies and fills that these calls launched.
    pub launched: u64,
    /// Number of kernels, copies and fills that began in the window without a known launch call.
    pub unknown: u64,
    /// Part of `unknown` that was launched before the trace began. Its stream ran it before the
    /// first work with a known call.
    pub before_trace: u64,
    /// Time within the window, in nanoseconds, in which work launched before the trace ran.
    pub before_trace_ns: i64,
    /// Median delay, in nanoseconds, from the end of a call to the start of its first work. The
    /// delay is 0 if the work starts before the call ends.
    pub delay_median_ns: i64,
    /// 90th percentile of these delays in nanoseconds.
    pub delay_p90_ns: i64,
    /// Longest of these delays in nanoseconds.
    pub delay_max_ns: i64,
    /// Number of calls that took longer than all of their work together.
    pub shorter_than_call: u64,
    /// Number of calls longer than 50 µs.
    pub long_calls: u64,
    /// Number of calls whose first work began more than 100 µs after their end.
    pub long_delays: u64,
}

/// Number of launched but not yet started kernels, copies and fills of a stream in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueLength {
    /// Stream id.
    pub stream: i64,
    /// Time from the first launch call to the start of the last work, in nanoseconds.
    pub span_ns: i64,
    /// Time-weighted mean queue length.
    pub mean: f64,
    /// Maximum queue length.
    pub max: i64,
    /// Time in which the queue was empty, in nanoseconds.
    pub empty_ns: i64,
}

/// Copies or fills of one direction that began in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bandwidth {
    /// Name in the trace.
    pub name: String,
    /// Number of copies or fills.
    pub count: u64,
    /// Number of copies or fills without a size in the trace.
    pub unknown: u64,
    /// Bytes moved by copies or fills with a known size. `None` if no size is known.
    pub bytes: Option<u64>,
    /// Time in nanoseconds in which at least one of them ran.
    pub busy_ns: i64,
    /// Mean bandwidth in gigabytes per second while any copy or fill of known size ran. `None` if
    /// these took no time.
    pub mean_gb_per_s: Option<f64>,
    /// Peak bandwidth in gigabytes per second.
    pub max_gb_per_s: Option<f64>,
}

/// Collectives of one kind, message size and group.
///
/// Sizes and bandwidths are defined as in [NCCL's
/// tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectiveTimes {
    /// Kind of collective: `all_reduce`, `all_gather`, …
    pub collective: String,
    /// Element type as named in the trace.
    pub dtype: String,
    /// Name of the process group. Empty if the trace does not contain it.
    pub group: String,
    /// Number of ranks in the group. 0 if it is unknown.
    pub group_size: u64,
    /// Message size in bytes. For all-reduce, broadcast and reduce it is the buffer of one rank.
    /// For all-gather, reduce-scatter and all-to-all it is the buffers of all ranks together.
    pub message_bytes: u64,
    /// Number of collectives.
    pub count: u64,
    /// Total duration in nanoseconds.
    pub total_ns: i64,
    /// Shortest duration in nanoseconds.
    pub shortest_ns: i64,
    /// Median duration in nanoseconds.
    pub median_ns: i64,
    /// Longest duration in nanoseconds.
    pub longest_ns: i64,
    /// Algorithm bandwidth in gigabytes per second: message size divided by median duration.
    pub algorithm_gb_per_s: f64,
    /// Bus bandwidth in gigabytes per second, which is the traffic of a rank's link at the median
    /// duration. `None` if the group size is unknown.
    pub bus_gb_per_s: Option<f64>,
    /// Bus bandwidth in gigabytes per second of the shortest collective.
    pub most_bus_gb_per_s: Option<f64>,
}

/// Sequence of kernels launched by an op.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelSequence {
    /// Outermost op.
    pub op: String,
    /// Kernels in launch order.
    pub kernels: Vec<String>,
    /// Number of occurrences.
    pub count: u64,
    /// Total time of the kernels in nanoseconds.
    pub device_ns: i64,
}

/// Call that launches several kernels, copies or fills at once, such as a graph launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphLaunch {
    /// Name of the call.
    pub call: String,
    /// Innermost op or action around the call.
    pub inside: Option<String>,
    /// Number of launches.
    pub launches: u64,
    /// Total number of kernels, copies and fills.
    pub kernels: u64,
    /// Total time of this work in nanoseconds.
    pub device_ns: i64,
}
