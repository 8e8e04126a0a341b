//! Analysis results for host threads.

use serde::Serialize;

use crate::trace::Category;

/// Activity of a thread, classified by its innermost open slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activity {
    /// A framework op.
    Op,
    /// An action or module, outside the ops in it.
    Annotation,
    /// A Python function.
    Python,
    /// A call of the device's library, such as a kernel launch.
    Runtime,
    /// A call that waits for a device.
    WaitingForDevice,
    /// A loop that waits for its next batch.
    WaitingForData,
    /// Overhead of a recorder or a kernel compiler.
    Overhead,
    /// A slice of another category.
    Other,
    /// Idle thread while a device works.
    DeviceWorks,
    /// Idle thread.
    Nothing,
}

impl Activity {
    /// Returns the label used in tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::Op => "ops",
            Self::Annotation => "outside of ops",
            Self::Python => "Python",
            Self::Runtime => "calls of the device's library",
            Self::WaitingForDevice => "waiting for the device",
            Self::WaitingForData => "waiting for data",
            Self::Overhead => "overhead",
            Self::Other => "other",
            Self::DeviceWorks => "a device works, nothing recorded here",
            Self::Nothing => "nothing recorded",
        }
    }
}

/// Part of a step's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StepPart {
    /// Innermost enclosing action. `None` outside all actions.
    pub action: Option<String>,
    /// Activity of the thread.
    pub activity: Activity,
    /// Duration in nanoseconds.
    pub duration_ns: i64,
}

/// Breakdown of a step's time on the thread that ran it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StepBreakdown {
    /// Step number. `None` if the trace has no steps, in which case this entry covers the whole
    /// trace.
    pub number: Option<u64>,
    /// Name of the thread.
    pub thread: String,
    /// Start of the step in nanoseconds after the start of the trace.
    pub start_ns: i64,
    /// Duration in nanoseconds, without recording pauses such as a validation within the step.
    pub duration_ns: i64,
    /// Time in which the loop waited for data, in nanoseconds. It includes everything that ran in
    /// this thread during the wait.
    pub waiting_for_data_ns: i64,
    /// Parts of the step, longest first. They add up to `duration_ns`.
    pub parts: Vec<StepPart>,
}

/// Busy, waiting and idle time of a thread in a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ThreadTimes {
    /// Name of the thread.
    pub thread: String,
    /// Length of the window in nanoseconds. The window is the time from the first to the last step
    /// without recording pauses, or the whole trace. The other times add up to it.
    pub window_ns: i64,
    /// Time in recorded slices other than waits, in nanoseconds.
    pub busy_ns: i64,
    /// Time waiting for a device, in nanoseconds.
    pub waiting_for_device_ns: i64,
    /// Time waiting for data, in nanoseconds.
    pub waiting_for_data_ns: i64,
    /// Time without a recorded slice, in nanoseconds.
    pub idle_ns: i64,
}

/// Times of all slices of one category and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NameTimes {
    /// Category of the slices.
    pub category: Category,
    /// Name of the slices.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Inclusive time in nanoseconds. Slices nested in a slice of the same name count once.
    pub total_ns: i64,
    /// Self time in nanoseconds. The self times of all rows add up to the time in which threads
    /// were not idle, including steps.
    pub self_ns: i64,
    /// Device time, in nanoseconds, of work launched in these slices and in no deeper op.
    pub device_ns: i64,
}

impl NameTimes {
    /// Returns the category with the vendor's name. PyTorch's traces also use `cuda_runtime` for
    /// HIP's runtime.
    pub(crate) fn category_text(&self) -> &'static str {
        match self.category {
            Category::CudaRuntime if self.name.starts_with("hip") => "hip_runtime",
            Category::CudaDriver if self.name.starts_with("hip") => "hip_driver",
            category => category.as_str(),
        }
    }
}

/// Times of one module of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModuleTimes {
    /// Name of the module.
    pub module: String,
    /// Number of forward calls.
    pub calls: u64,
    /// Inclusive forward time in nanoseconds.
    pub total_ns: i64,
    /// Self time of forward and backward in nanoseconds, without nested modules.
    pub self_ns: i64,
    /// Part of `self_ns` spent in backward ops, in nanoseconds. The flow arrows from forward ops
    /// identify them.
    pub backward_ns: i64,
    /// Device time in nanoseconds, without nested modules.
    pub device_ns: i64,
}

/// Step that took much longer than the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OutlierStep {
    /// Step number.
    pub number: u64,
    /// Duration in nanoseconds.
    pub duration_ns: i64,
    /// Median duration of all steps in nanoseconds.
    pub median_ns: i64,
    /// Modified z-score: 0.6745 × the distance from the median, divided by the median distance of
    /// all steps.
    pub score: f64,
    /// Parts that took longer than their median over the other steps, greatest difference first.
    pub differences: Vec<StepDifference>,
}

/// Part of a step that took longer than its median over the other steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepDifference {
    /// Innermost enclosing action.
    pub action: Option<String>,
    /// Activity of the thread.
    pub activity: Activity,
    /// Duration in this step, in nanoseconds.
    pub duration_ns: i64,
    /// Median duration in the other steps, in nanoseconds.
    pub median_ns: i64,
}

/// Kind of a critical path segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PathKind {
    /// Work of a thread.
    Host(Activity),
    /// A compute kernel.
    Compute,
    /// A communication kernel.
    Communication,
    /// A memory copy or fill.
    Memory,
    /// Delay from a launch call to the start of its work on an idle device.
    LaunchDelay,
    /// Gap between consecutive work of a stream that was already launched. If the launch is
    /// unknown, the gap is shorter than 30 µs.
    BetweenKernels,
    /// Longer idle gap of a stream before work with an unknown launch.
    Unexplained,
    /// Time from the end of a device's work to the return of the call that waited for it.
    ReturnFromWaiting,
}

impl PathKind {
    /// Returns `true` if the segment's name is the name of device work.
    pub(crate) fn names_device_work(self) -> bool {
        !matches!(self, Self::Host(_))
    }

    /// Returns the label used in tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::Host(activity) => activity.text(),
            Self::Compute => "kernels",
            Self::Communication => "communication",
            Self::Memory => "copies and fills",
            Self::LaunchDelay => "launch delay",
            Self::BetweenKernels => "between kernels",
            Self::Unexplained => "device idle, cause unknown",
            Self::ReturnFromWaiting => "return from waiting",
        }
    }
}

/// Segment of a critical path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathSegment {
    /// Start in nanoseconds of recorded time in the step. Recording pauses are not counted.
    pub start_ns: i64,
    /// Duration in nanoseconds.
    pub duration_ns: i64,
    /// Kind of the segment.
    pub kind: PathKind,
    /// Name of the slice. `None` if no slice is recorded.
    pub name: Option<String>,
    /// Name of the thread or stream.
    pub track: String,
}

/// Critical path of a step: the chain of dependencies from the step's end back to its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CriticalPath {
    /// Step number. `None` if the trace has no steps.
    pub step: Option<u64>,
    /// Length in nanoseconds, which equals the duration of the step.
    pub length_ns: i64,
    /// Parts of the path, longest first. They add up to `length_ns`.
    pub parts: Vec<PathPart>,
    /// Consecutive segments from the beginning to the end. Only the requested step has segments.
    /// Without a request it is the step with the median duration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<PathSegment>,
}

/// All segments of a critical path with one kind and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathPart {
    /// Kind of the segments.
    pub kind: PathKind,
    /// Name of the slices.
    pub name: Option<String>,
    /// Number of segments.
    pub count: u64,
    /// Total duration in nanoseconds.
    pub duration_ns: i64,
}
