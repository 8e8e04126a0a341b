//! What devices did.

use serde::Serialize;

/// What a device, or a stream, does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Kernels that compute.
    Compute,
    /// Kernels that communicate with other devices.
    Communication,
    /// Copies and fills.
    Memory,
}

impl WorkKind {
    /// The word that JSON and tables have.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Communication => "communication",
            Self::Memory => "memory",
        }
    }

    /// In words, for tables.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Compute => "kernels",
            Self::Communication => "communication",
            Self::Memory => "copies and fills",
        }
    }
}

/// What kind of work a kernel does, as far as its name or its op tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KernelCategory {
    /// Products of matrices: cuBLAS, CUTLASS, hipBLASLt, mixtures of experts.
    Gemm,
    /// Attention, such as FlashAttention.
    Attention,
    /// Convolutions.
    Convolution,
    /// One result per element: activations, optimizers, conversions between element types.
    Elementwise,
    /// Sums and other walks over a dimension: softmax, scans, arg-max, top-k, losses.
    Reduction,
    /// Layer, batch, group and RMS norms.
    Normalisation,
    /// Copies between and within memories, and kernels that only move: concatenations, gathers,
    /// scatters.
    Copy,
    /// Exchange with other devices.
    Communication,
    /// Fills of memory.
    Memset,
    /// Neither the name nor the op is known.
    #[default]
    Other,
}

impl KernelCategory {
    /// In words, for tables.
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

/// All calls of a kernel, copy or fill on one device that were launched in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelTimes {
    /// The whole name, as the trace has it.
    pub name: String,
    /// The kind of work that it does.
    pub category: KernelCategory,
    /// How many were launched in the window, or began in it where no call is known.
    pub calls: u64,
    /// Time of all calls in nanoseconds, including calls that ran at the same time as others.
    pub total_ns: i64,
    /// Mean time of a call, rounded to whole nanoseconds.
    pub mean_ns: i64,
    /// Shortest call in nanoseconds.
    pub min_ns: i64,
    /// Longest call in nanoseconds.
    pub max_ns: i64,
    /// `total_ns` as part of the time in which the device was busy, from 0. Of all rows together it
    /// exceeds 1 where streams work at the same time.
    pub busy_share: f64,
    /// Part of `total_ns` that belongs to forward ops that backward runs again, as activation
    /// checkpointing does.
    pub recomputed_ns: i64,
    /// The innermost op around the launches; of several ops the one with the most time. `None`
    /// where no launch is known, or none is inside of an op.
    pub op: Option<String>,
    /// Number of different ops that launched it.
    pub ops: u64,
    /// The module that the launches belong to; of several modules the one with the most time.
    pub module: Option<String>,
    /// Number of different modules that launched it.
    pub modules: u64,
}

/// All work of one category on one device.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct CategoryTimes {
    /// The kind of work.
    pub category: KernelCategory,
    /// Number of kernels, copies and fills.
    pub calls: u64,
    /// Time of all calls in nanoseconds.
    pub total_ns: i64,
    /// Median time of a call in nanoseconds.
    pub median_ns: i64,
    /// `total_ns` as part of the time in which the device was busy.
    pub busy_share: f64,
    /// Part of `total_ns` that belongs to forward ops that backward runs again.
    pub recomputed_ns: i64,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeviceAnswers {
    /// Its number.
    pub device: i64,
    /// Kernels, copies and fills by name, the most time first.
    pub kernels: Vec<KernelTimes>,
    /// The same by category, the most time first.
    pub categories: Vec<CategoryTimes>,
    /// What it did over time.
    pub times: DeviceTimes,
    /// Its streams.
    pub streams: Vec<StreamIdle>,
    /// What ran while it computed.
    pub overlap: Vec<Overlap>,
    /// From calls to the beginning of what they launched.
    pub launches: LaunchStatistics,
    /// How much was launched and had not begun.
    pub queues: Vec<QueueLength>,
    /// Copies and fills, by their direction.
    pub copies: Vec<Bandwidth>,
    /// Collectives whose messages the trace has. Their times include waiting for the last rank.
    pub collectives: Vec<CollectiveTimes>,
    /// Kernels that ops launch one after the other.
    pub sequences: Vec<KernelSequence>,
    /// Calls that launched several things at once.
    pub graphs: Vec<GraphLaunch>,
}

/// What a device did. The six times from `compute_ns` to `idle_after_ns` add up to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DeviceTimes {
    /// The length of the window in nanoseconds: from the first to the last step without the time in
    /// which recording paused, or the whole trace. All tables of a device are about this window.
    pub window_ns: i64,
    /// It computed, whatever else it did.
    pub compute_ns: i64,
    /// It communicated and did not compute.
    pub exposed_communication_ns: i64,
    /// It copied or filled, and did nothing else.
    pub exposed_memory_ns: i64,
    /// It did nothing before its first work in the window.
    pub idle_before_ns: i64,
    /// It did nothing between its first and its last work.
    pub idle_between_ns: i64,
    /// It did nothing after its last work in the window.
    pub idle_after_ns: i64,
    /// All kernels that compute, those at the same time counted each.
    pub compute_sum_ns: i64,
    /// All kernels that communicate.
    pub communication_sum_ns: i64,
    /// All copies and fills.
    pub memory_sum_ns: i64,
    /// It worked so many nanoseconds outside of the window, in no step.
    pub outside_ns: i64,
    /// The part of `outside_ns` after the end of the last step on the host, in nanoseconds. It is
    /// large where steps return before their work has run.
    pub after_last_step_ns: i64,
}

impl DeviceTimes {
    /// What the window went into, which adds up to it, in words.
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

/// Why a stream did nothing, from its first to its last work in the window. The parts add up to
/// `span_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StreamIdle {
    /// Its number.
    pub stream: i64,
    /// From its first to its last work in the window, in nanoseconds of the window.
    pub span_ns: i64,
    /// It worked.
    pub busy_ns: i64,
    /// What came next was launched only after it had nothing to do: until the call began.
    pub waiting_for_host_ns: i64,
    /// The same, from the beginning of the call until the work began.
    pub launch_delay_ns: i64,
    /// Less than 30 µs between things that were launched already.
    pub between_kernels_ns: i64,
    /// It waited for another stream, which communicated.
    pub waiting_for_communication_ns: i64,
    /// It waited for another stream, which computed.
    pub waiting_for_compute_ns: i64,
    /// It waited for another stream, which copied or filled.
    pub waiting_for_memory_ns: i64,
    /// Longer, or nothing is known of the launch.
    pub other_ns: i64,
}

impl StreamIdle {
    /// What HolisticTraceAnalysis calls `host_wait`: all of each gap after which something was
    /// launched late, unless it waited for another stream until then.
    pub fn host_wait_ns(&self) -> i64 {
        self.waiting_for_host_ns + self.launch_delay_ns
    }
}

/// How much of one kind of work was hidden behind computing, in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// The kind of work.
    pub kind: WorkKind,
    /// When any of it ran.
    pub total_ns: i64,
    /// While the device computed, too.
    pub hidden_ns: i64,
}

/// From calls in the window to what they launched. Each call counts once, however much it launches.
///
/// Quantiles are interpolated between the two nearest calls, as
/// [`mlprof_report::ranks::quantile`] does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LaunchStatistics {
    /// Number of calls that launched work.
    pub calls: u64,
    /// Number of kernels, copies and fills that these calls launched.
    pub launched: u64,
    /// Number of kernels, copies and fills that began in the window and whose call is not known.
    pub unknown: u64,
    /// Part of `unknown` that was launched before the trace began: its stream ran it before the
    /// first work of a known call.
    pub before_trace: u64,
    /// Time within the window in nanoseconds in which work ran that was launched before the trace
    /// began.
    pub before_trace_ns: i64,
    /// Median time in nanoseconds from a call's end to the beginning of its first work; 0 for a
    /// call whose work begins earlier.
    pub delay_median_ns: i64,
    /// The quantile of these times at 90 %.
    pub delay_p90_ns: i64,
    /// The longest of these times.
    pub delay_max_ns: i64,
    /// Number of calls that took longer than all of their work together.
    pub shorter_than_call: u64,
    /// Number of calls of more than 50 µs.
    pub long_calls: u64,
    /// Number of calls whose first work began more than 100 µs after their end.
    pub long_delays: u64,
}

/// How much a stream had before it, in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueLength {
    /// The stream.
    pub stream: i64,
    /// From the first call to the last beginning.
    pub span_ns: i64,
    /// By time.
    pub mean: f64,
    /// The most.
    pub max: i64,
    /// How long there was nothing.
    pub empty_ns: i64,
}

/// Copies or fills of one direction that began in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bandwidth {
    /// As the trace calls them.
    pub name: String,
    /// How many.
    pub count: u64,
    /// How many of them have no size in the trace.
    pub unknown: u64,
    /// Bytes that the others moved; `None` if no size is known.
    pub bytes: Option<u64>,
    /// Time in nanoseconds in which any of them ran.
    pub busy_ns: i64,
    /// Gigabytes per second while any ran whose size is known; `None` if none of these took any
    /// time.
    pub mean_gb_per_s: Option<f64>,
    /// The most at one moment.
    pub max_gb_per_s: Option<f64>,
}

/// Collectives of one kind, message and group.
///
/// Sizes and bandwidths are those of [NCCL's
/// tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectiveTimes {
    /// The collective: `all_reduce`, `all_gather`, …
    pub collective: String,
    /// The type of its elements, as the trace calls it.
    pub dtype: String,
    /// The name of its group of ranks; empty if the trace does not have it.
    pub group: String,
    /// Ranks in the group; 0 if that is not known.
    pub group_size: u64,
    /// Size of the message in bytes: the buffer of one rank for all-reduce, broadcast and reduce,
    /// of all ranks together for all-gather, reduce-scatter and all-to-all.
    pub message_bytes: u64,
    /// How many.
    pub count: u64,
    /// How long all of them took together.
    pub total_ns: i64,
    /// How long the shortest took.
    pub shortest_ns: i64,
    /// Their median duration.
    pub median_ns: i64,
    /// How long the longest took.
    pub longest_ns: i64,
    /// Algorithm bandwidth: the message by the median duration.
    pub algorithm_gb_per_s: f64,
    /// Bus bandwidth: what a rank's link moves at the median duration; `None` if the group's size
    /// is not known.
    pub bus_gb_per_s: Option<f64>,
    /// Bus bandwidth of the shortest.
    pub most_bus_gb_per_s: Option<f64>,
}

/// What an op launches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelSequence {
    /// The outermost op.
    pub op: String,
    /// The kernels in the order of their launches.
    pub kernels: Vec<String>,
    /// How often.
    pub count: u64,
    /// How long the kernels took together.
    pub device_ns: i64,
}

/// A call that launches several things at once, as a graph does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphLaunch {
    /// The call.
    pub call: String,
    /// The innermost op or action around it.
    pub inside: Option<String>,
    /// How often.
    pub launches: u64,
    /// How many kernels, copies and fills together.
    pub kernels: u64,
    /// How long these took together.
    pub device_ns: i64,
}
