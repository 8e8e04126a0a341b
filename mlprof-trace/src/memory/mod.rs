//! Memory timeline: the allocated bytes over time by purpose, and the allocations that were alive
//! at the peak.
//!
//! | category | rule |
//! |---|---|
//! | any | a hook labelled the address (`hook::label_memory`); valid until the memory is freed |
//! | temporary | allocated and freed inside one op, or inside one forward, backward or optimizer step |
//! | input | allocated while a batch is fetched or moved to the device |
//! | activation | allocated in forward, alive when the next backward begins |
//! | gradient | allocated in backward, alive when it ends |
//! | optimizer state | allocated in an optimizer step, alive when it ends |
//! | unknown | everything else, and memory that existed before the recording began |
//!
//! The first matching rule decides. **Only labels are certain**; the other rules are heuristics
//! based on lifetime and [phase](mlprof_events::Phase). Data that user code keeps unnecessarily
//! from the forward to the backward pass counts as an activation. Anything that an optimizer step
//! keeps counts as its state. Labelled memory without an allocation in the recording existed before
//! it.
//!
//! The level before the recording is known only if hooks report the
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

/// Maximum number of moments of a timeline per device.
#[doc(hidden)]
pub const MOST_SAMPLES: usize = 4096;

/// Categories in stacking order: the longest-lived memory is at the bottom.
const CATEGORIES: [MemoryCategory; 7] = [
    MemoryCategory::Parameter,
    MemoryCategory::OptimizerState,
    MemoryCategory::Unknown,
    MemoryCategory::Input,
    MemoryCategory::Activation,
    MemoryCategory::Gradient,
    MemoryCategory::Temporary,
];

/// Returns the index of a category in [`CATEGORIES`].
fn place(category: MemoryCategory) -> usize {
    CATEGORIES.iter().position(|other| *other == category).unwrap_or(2)
}

/// Memory usage of one cycle. All times are in microseconds since the beginning of the cycle.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryTimeline {
    /// Stage of the trainer, if it declared one.
    pub stage: Option<mlprof_events::Stage>,
    /// Rank of the process.
    pub rank: u32,
    /// Duration of the cycle.
    pub duration_us: f64,
    /// Steps in the cycle.
    pub steps: Vec<StepSpan>,
    /// Number of allocations and deallocations that were dropped for lack of space. If it is not 0,
    /// later levels are wrong.
    pub dropped: u64,
    /// One timeline per device with allocations or deallocations, host memory first.
    pub devices: Vec<DeviceTimeline>,
}

/// A training step.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StepSpan {
    /// Number of the step in its stage, counted from 0.
    pub step: u64,
    /// Start of the step.
    pub start_us: f64,
    /// End of the step.
    pub end_us: f64,
}

/// Usage of one memory.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceTimeline {
    /// Device that the memory belongs to.
    pub device: MemoryDevice,
    /// Bytes allocated before the recording began.
    pub before: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Total size of the allocations in bytes.
    pub allocated_bytes: u64,
    /// Times of the levels.
    pub times_us: Vec<f64>,
    /// Bytes allocated from each moment to the next, by category. Categories that are always 0 are
    /// omitted.
    pub levels: Vec<Levels>,
    /// Moment with the largest number of allocated bytes.
    pub peak: Peak,
}

impl DeviceTimeline {
    /// Returns the sum of all categories at a moment, given by its index.
    fn total(&self, moment: usize) -> u64 {
        self.levels.iter().filter_map(|levels| levels.bytes.get(moment)).sum()
    }
}

/// Bytes of one category over time.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Levels {
    /// Purpose of the memory.
    pub category: MemoryCategory,
    /// Bytes at each moment.
    pub bytes: Vec<u64>,
}

/// Moment with the largest number of allocated bytes; the first of several.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Peak {
    /// Time of the peak.
    pub time_us: f64,
    /// Bytes allocated at the peak.
    pub bytes: u64,
    /// Memory that was alive at the peak, largest first.
    pub alive: Vec<PeakMemory>,
}

impl MemoryTimeline {
    /// Builds the timeline of a cycle. It has no devices if memory was not recorded.
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

    /// Writes the timeline as JSON with the fields of this type.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written. In that case no file is created.
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

    /// Writes the timeline as an HTML page with pictures, which needs neither scripts nor further
    /// files.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written. In that case no file is created.
    pub fn export_html(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.write_html(path.as_ref())
    }

    fn write_html(&self, path: &Path) -> io::Result<()> {
        write_file(path, |file| file.write_all(page::html(self).as_bytes()))
    }

    /// Returns the picture of one of the [`devices`](Self::devices) as SVG.
    #[doc(hidden)]
    pub fn svg(&self, device: &DeviceTimeline) -> String {
        picture::svg(self, device)
    }
}

impl Cycle {
    /// Returns the allocated bytes over time by purpose: see [`memory`](crate::memory).
    pub fn memory_timeline(&self) -> MemoryTimeline {
        MemoryTimeline::of(self)
    }
}

fn microseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1000.0
}
