//! What the host's threads did.

use serde::Serialize;

use crate::trace::Category;

/// What a thread does at a moment, by the innermost of what is open then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activity {
    /// An op of a framework.
    Op,
    /// An action or module, outside of the ops in it.
    Annotation,
    /// Python.
    Python,
    /// A call of a device's library, such as a launch.
    Runtime,
    /// A call that waits for a device.
    WaitingForDevice,
    /// A loop that waits for its next batch.
    WaitingForData,
    /// Work of a recorder or a compiler of kernels.
    Overhead,
    /// Something of another category.
    Other,
    /// Nothing is recorded of the thread, and a device works.
    DeviceWorks,
    /// Nothing is recorded.
    Nothing,
}

impl Activity {
    /// In words, for tables.
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

/// A part of a step's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StepPart {
    /// The innermost action around it; `None` outside of all.
    pub action: Option<String>,
    /// What was done.
    pub activity: Activity,
    /// How long.
    pub duration_ns: i64,
}

/// What the time of a step went into, by the thread that ran it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StepBreakdown {
    /// The step's number; `None` if the trace has no steps, and this is all of it.
    pub number: Option<u64>,
    /// The thread.
    pub thread: String,
    /// When it began, after the beginning of the trace.
    pub start_ns: i64,
    /// How long it took, without pauses of the recording such as a validation within the step.
    pub duration_ns: i64,
    /// How long the loop waited for data, all that happened in this thread meanwhile included.
    pub waiting_for_data_ns: i64,
    /// Where the time went, the longest first. They add up to `duration_ns`.
    pub parts: Vec<StepPart>,
}

/// How much of a window a thread worked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ThreadTimes {
    /// The thread.
    pub thread: String,
    /// The length of the window: from the first to the last step without the time in which
    /// recording paused, or the whole trace. The other times add up to it.
    pub window_ns: i64,
    /// Something is recorded, and it is no waiting.
    pub busy_ns: i64,
    /// Waiting for a device.
    pub waiting_for_device_ns: i64,
    /// Waiting for data.
    pub waiting_for_data_ns: i64,
    /// Nothing is recorded.
    pub idle_ns: i64,
}

/// Everything of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NameTimes {
    /// The category.
    pub category: Category,
    /// The name.
    pub name: String,
    /// How often.
    pub calls: u64,
    /// With what is inside; what is inside of its like is counted once.
    pub total_ns: i64,
    /// Without what is inside. Of all rows together it is the time that threads were not idle, steps
    /// included.
    pub self_ns: i64,
    /// What devices did that was launched in it, and in no op further inside.
    pub device_ns: i64,
}

impl NameTimes {
    /// The category in the vendor's words: PyTorch's traces call HIP's runtime `cuda_runtime`, too.
    pub(crate) fn category_text(&self) -> &'static str {
        match self.category {
            Category::CudaRuntime if self.name.starts_with("hip") => "hip_runtime",
            Category::CudaDriver if self.name.starts_with("hip") => "hip_driver",
            category => category.as_str(),
        }
    }
}

/// A module of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModuleTimes {
    /// The module.
    pub module: String,
    /// How often it ran forward.
    pub calls: u64,
    /// Forward, with modules inside.
    pub total_ns: i64,
    /// Forward and backward, without modules inside.
    pub self_ns: i64,
    /// That of backward ops in `self_ns`, which are known by the arrows from forward ops.
    pub backward_ns: i64,
    /// What devices did for it, without modules inside.
    pub device_ns: i64,
}

/// A step that took much longer than the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OutlierStep {
    /// The step's number.
    pub number: u64,
    /// How long it took.
    pub duration_ns: i64,
    /// What steps take in the middle.
    pub median_ns: i64,
    /// How far it is from there: 0.6745 × the distance, by the median distance of all steps.
    pub score: f64,
    /// Parts that took longer than in the middle of the other steps, the greatest difference first.
    pub differences: Vec<StepDifference>,
}

/// A part of a step that took longer than it does in the middle of the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepDifference {
    /// The innermost action around it.
    pub action: Option<String>,
    /// What was done.
    pub activity: Activity,
    /// How long in this step.
    pub duration_ns: i64,
    /// How long in the middle of the others.
    pub median_ns: i64,
}

/// What a part of a critical path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PathKind {
    /// A thread works.
    Host(Activity),
    /// A kernel that computes.
    Compute,
    /// A kernel that communicates.
    Communication,
    /// A copy or a fill.
    Memory,
    /// From a launch until the device begins, though it had nothing else to do.
    LaunchDelay,
    /// Between what a stream does one after the other, though it was launched already; where its
    /// launch is not known, less than 30 µs.
    BetweenKernels,
    /// A stream did nothing for longer, and the launch of what came next is not known.
    Unexplained,
    /// From the end of a device's work until the call returns that waited for it.
    ReturnFromWaiting,
}

impl PathKind {
    /// Whether the name of such a part is that of a device's work.
    pub(crate) fn names_device_work(self) -> bool {
        !matches!(self, Self::Host(_))
    }

    /// In words, for tables.
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

/// A stretch of a critical path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathSegment {
    /// When it begins, in the time of the step that was recorded; pauses do not count.
    pub start_ns: i64,
    /// How long it is.
    pub duration_ns: i64,
    /// What it is.
    pub kind: PathKind,
    /// What happens; `None` if nothing is recorded.
    pub name: Option<String>,
    /// The thread or stream.
    pub track: String,
}

/// What a step's end waited for, and what that waited for, back to its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CriticalPath {
    /// The step's number; `None` if the trace has no steps.
    pub step: Option<u64>,
    /// How long it is, which is how long the step took.
    pub length_ns: i64,
    /// What it goes through, the longest first. The parts add up to `length_ns`.
    pub parts: Vec<PathPart>,
    /// Stretches from the beginning to the end: each begins where the one before ends. Only of the step in
    /// the middle of all, by how long they took, or the one that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<PathSegment>,
}

/// All stretches of a critical path that are of one kind and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathPart {
    /// What they are.
    pub kind: PathKind,
    /// What happens.
    pub name: Option<String>,
    /// How many.
    pub count: u64,
    /// How long together.
    pub duration_ns: i64,
}
