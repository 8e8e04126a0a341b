//! The memory timeline: how many bytes were allocated for what, moment by moment, and what was
//! alive when it was most.
//!
//! | category | what is taken for it |
//! |---|---|
//! | any | what a hook labelled (`hook::label_memory`) so, by its address, while it lives |
//! | temporary | allocated and freed inside one op; or inside one forward, backward or optimizer step |
//! | input | allocated while a batch is fetched or moved to the device |
//! | activation | allocated in forward, alive when the next backward begins |
//! | gradient | allocated in backward, alive when it ends |
//! | optimizer state | allocated in an optimizer step, alive when it ends |
//! | unknown | everything else, and what was there before the recording began |
//!
//! The first rule that applies decides. **Only labels are knowledge**; the other rules are
//! heuristics over lifetime and [phase](mlprof_events::Phase): what a user's code keeps from
//! forward to backward without need is an activation to them, and what an optimizer step keeps for
//! other ends is its state. What has a label but no allocation in the recording was there before.
//!
//! The level before the recording is known only from hooks that tell the
//! [total](mlprof_events::MemoryChange::total_allocated).
//!
//! *Memory and time*: some 150 bytes and 1 µs per allocation while the timeline is made. What comes
//! out is small: at most 4,096 moments per device, of which each is the highest of its
//! neighbourhood; the peak is exact.

mod categories;
mod changes;
mod levels;
mod over_time;
mod page;
mod pickle;
mod picture;
mod snapshot;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;

pub(crate) use self::over_time::keep_fullest;
use crate::cycle::Cycle;
use mlprof_events::{MemoryCategory, MemoryDevice};
use mlprof_report::output::write_file;
use mlprof_report::tensor::memory_over_time::PeakMemory;

/// The most moments that a timeline has per device.
#[doc(hidden)]
pub const MOST_SAMPLES: usize = 4096;

/// In the order in which they are stacked, what stays longest at the bottom.
const CATEGORIES: [MemoryCategory; 7] = [
    MemoryCategory::Parameter,
    MemoryCategory::OptimizerState,
    MemoryCategory::Unknown,
    MemoryCategory::Input,
    MemoryCategory::Activation,
    MemoryCategory::Gradient,
    MemoryCategory::Temporary,
];

/// The place of a category in [`CATEGORIES`].
fn place(category: MemoryCategory) -> usize {
    CATEGORIES.iter().position(|other| *other == category).unwrap_or(2)
}

/// The use of memory in one cycle. All times in microseconds since the beginning of the cycle.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryTimeline {
    /// The stage, if a trainer said one.
    pub stage: Option<mlprof_events::Stage>,
    /// The rank of the process.
    pub rank: u32,
    /// How long the cycle lasted.
    pub duration_us: f64,
    /// The steps in it.
    pub steps: Vec<StepSpan>,
    /// Allocations and frees for which there was no room: if any, levels are wrong after them.
    pub dropped: u64,
    /// One timeline per memory in which something was allocated or freed, the host's first.
    pub devices: Vec<DeviceTimeline>,
}

/// A step of training.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StepSpan {
    /// Its number, from 0 in its stage.
    pub step: u64,
    /// When it began.
    pub start_us: f64,
    /// When it ended.
    pub end_us: f64,
}

/// The use of one memory.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceTimeline {
    /// Which memory.
    pub device: MemoryDevice,
    /// How many bytes were allocated before the recording began.
    pub before: u64,
    /// How many allocations there are.
    pub allocations: u64,
    /// Their sum in bytes.
    pub allocated_bytes: u64,
    /// The moments of the levels.
    pub times_us: Vec<f64>,
    /// What was allocated from each moment to the next, by category; those that are always 0 are
    /// left out.
    pub levels: Vec<Levels>,
    /// When most was allocated.
    pub peak: Peak,
}

impl DeviceTimeline {
    /// All categories at a moment, by its place among the times.
    fn total(&self, moment: usize) -> u64 {
        self.levels.iter().filter_map(|levels| levels.bytes.get(moment)).sum()
    }
}

/// One category's bytes, moment by moment.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Levels {
    /// What the memory is for.
    pub category: MemoryCategory,
    /// Bytes, one for each moment.
    pub bytes: Vec<u64>,
}

/// The moment at which most was allocated; the first one if there are several.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Peak {
    /// When.
    pub time_us: f64,
    /// How many bytes.
    pub bytes: u64,
    /// What was alive, the largest first.
    pub alive: Vec<PeakMemory>,
}

impl MemoryTimeline {
    /// The timeline of a cycle. It has no devices if memory was not recorded.
    #[doc(hidden)]
    pub fn of(cycle: &Cycle) -> Self {
        let recorded = changes::Recorded::of(cycle);
        let end = cycle.nanoseconds_since_start(cycle.ended);
        let devices = recorded.devices();
        Self {
            stage: cycle.stage,
            rank: cycle.run.rank,
            duration_us: microseconds(end),
            steps: recorded.steps.clone(),
            dropped: cycle.dropped.memory,
            devices: devices
                .into_iter()
                .map(|device| levels::timeline(&recorded, cycle, device, end))
                .collect(),
        }
    }

    /// Writes the timeline as JSON: the fields of this type.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; then there is none.
    pub fn export_json(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.write_json(path.as_ref())
    }

    fn write_json(&self, path: &Path) -> io::Result<()> {
        write_file(path, |file| {
            let mut file = BufWriter::new(file);
            serde_json::to_writer(&mut file, self)?;
            file.flush()
        })
    }

    /// Writes the timeline as a picture that any browser shows, without any script or further file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; then there is none.
    pub fn export_html(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.write_html(path.as_ref())
    }

    fn write_html(&self, path: &Path) -> io::Result<()> {
        write_file(path, |file| file.write_all(page::html(self).as_bytes()))
    }

    /// The picture of one of [`devices`](Self::devices), as SVG.
    #[doc(hidden)]
    pub fn svg(&self, device: &DeviceTimeline) -> String {
        picture::svg(self, device)
    }
}

impl Cycle {
    /// How many bytes were allocated for what, moment by moment: see
    /// [`memory`](crate::memory).
    pub fn memory_timeline(&self) -> MemoryTimeline {
        MemoryTimeline::of(self)
    }
}

fn microseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1000.0
}
