//! Reports: finished numbers, how they are shown, and where they go.
//!
//! A [`Report`] is plain data in seconds that any program can read as JSON. Its kinds are
//! [`SimpleReport`], [`AdvancedReport`], [`TensorReport`], [`MemoryReport`], [`LinesReport`],
//! [`SamplesReport`] and [`NumericsReport`]. [`Output`] is the destination of reports.
//!
//! The JSON layout is the stable interface. Items without documentation turn reports into text,
//! pages and other tools' formats. They serve mlprof's own crates and may change in any release.
//!
//! # The JSON layout
//!
//! [`Report::to_json`] writes one object. All times are in **seconds** (fields that end in
//! `_seconds`), and all counts are integers. Points in time are UTC in RFC 3339. Unknown values are
//! `null`.
//!
//! ```json
//! {
//!   "profiler": "simple",                  // or "advanced", "tensor"
//!   "header": {
//!     "schema_version": 1,                 // raised when a field changes or goes away
//!     "units": { "time": "seconds", "started_at": "UTC, RFC 3339" },
//!     "stage": "fit",                      // validate, test, predict, sanity_check or null
//!     "rank": 0, "world_size": 1,
//!     "started_at": "2026-01-02T03:04:05Z",
//!     "wall_seconds": 12.5,
//!     "build": { "debug_assertions": false, "opt_level": "3", "target_features": ["avx2"],
//!                "processor_features": ["avx2", "fma"] }, // or null
//!     "program": "candle-digits",          // or null
//!     "machine": { "system": "linux x86_64", "cpu": "…", "cores": 8, "memory_bytes": 16000000000,
//!                  "devices": [ { "number": 0, "name": "NVIDIA H100 80GB HBM3",
//!                                 "memory_bytes": 85000000000 } ] },
//!                                          // or null; without devices where none is known
//!     "frameworks": [ { "name": "candle", "version": "0.11", "library": null,
//!                       "features": ["avx2", "mkl"],
//!                       "threads": 4, "devices": ["cpu"] } ], // missing where none is known
//!     "startup": { "total_seconds": 1.5, "before_main_seconds": 0.25 }, // or null
//!     "overhead": { "scopes": 1000, "seconds_per_scope": 4.5e-8 },
//!     "settings": [ { "name": "shapes", "value": "recorded" } ], // missing where there are none
//!     "notes": []                          // what was lost or limited, in words
//!   },
//!   "actions": [ … ],                      // all threads together
//!   "threads": [ … ],                      // the same per thread
//!   "open": [ { "action": "…", "thread": "main", "elapsed_seconds": 1.5 } ]
//! }
//! ```
//!
//! * Simple: each of `actions`, and of `threads[i].actions`, has the fields of
//!   [`ActionStatistics`](simple::ActionStatistics); `data_waiting` those of
//!   [`DataWaiting`](simple::DataWaiting), or is `null`. Each of `actions` has a field `device`
//!   with `calls`, `total_seconds`, `min_seconds` and `max_seconds` where device time was measured
//!   (`measure_devices`), and no such field elsewhere; `actions` of Advanced have the same.
//! * Advanced: each element of `actions` has the fields of
//!   [`ActionProfile`](advanced::ActionProfile), a table of functions with their callers. Each
//!   element of `threads` has the fields of [`ThreadCallTree`](advanced::ThreadCallTree), a call
//!   tree. `roots` holds its first 50 levels and `deeper` the levels below.
//! * Tensor: instead of `actions`, `threads` and `open` the fields of [`TensorReport`]: `schedule`,
//!   `steps`, `recorded_steps`, `cycle_count`; `cycles`, each with `number`, `first_step`, `steps`,
//!   `is_complete`, `started_at`, `wall_seconds` and `events`; `key_averages` with `group_by`,
//!   `device_name`, `has_memory` and `rows`, each with the fields of
//!   [`KeyAverage`](tensor::KeyAverage); `modules`, a tree whose nodes have `name`, `path`,
//!   `type_name`, `calls`, `total` and `own` costs, and `children`; `tuning`; `device_counters`,
//!   one object per device; `dropped`; `files`. Memory is in **bytes** (fields that end in
//!   `_bytes`), operations are counted (`flops`).
//! * Memory: each of `actions`, and of `threads[i].actions`, has `action`, `kind`, `sub_stage`,
//!   `calls`, `total`, `own` and `peak_bytes`; `process` has `total`, `live_bytes`,
//!   `live_at_start_bytes`, `peak_bytes` and `uncertainty_bytes_per_thread`; `peak`, `alive` and
//!   `copies` are trees: `process_bytes`, `least_block_bytes` and the root `blocks`, whose nodes
//!   have `action`, `bytes`, `blocks`, `own_bytes`, `own_blocks` and `inside`. In **bytes**.
//! * Samples: instead of `actions`, `threads` and `open` the field `samples`: `asked_hz`,
//!   `reached_hz`, `seconds`, `seconds_per_tick`, `samples`, `dropped_ticks`, `handler_seconds`,
//!   `processor_seconds`, `unsampled_processor_seconds`, `actions`, `threads`, `functions`,
//!   `stacks` and `notes`; the Advanced report has the same field, `null` where nothing was
//!   sampled. Ticks are counted; `seconds_per_tick` says what one stands for.
//! * Lines: instead of `actions`, `threads` and `open` one array `functions`, each with `name`,
//!   `file`, `first_line`, `last_line`, `calls`, `total_seconds`, `entry_memory`, `source` (an
//!   array of lines, or `null`), and `lines`, each with `line`, `hits`, `seconds` and `memory`
//!   (`null`, or `max_bytes`, `increment_bytes` and `occurrences`). A hit is a scope of `overhead`.
//!
//! * Numerics: the fields of [`NumericsReport`] replace `actions`, `threads` and `open`. They
//!   include `steps`, `recorded_steps`, `first_not_finite`, `tensors` and `troubles`. Each of
//!   `tensors` has the fields of [`TensorRow`](numerics::TensorRow).
//!
//! All reports except Samples and Lines have an array `findings`, if there are any. They describe
//! avoidable costs, or invalid numbers in Numerics. Each has the fields of
//! [`Finding`](finding::Finding).
//!
//! Simple, Advanced and Tensor also have an array `step_series` if a training loop reports its
//! steps. It has one [`StepSeries`](steps::StepSeries) per stage, with the duration of each step
//! and its parts.
//!
//! Simple, Advanced and Tensor have an array `device_regions` besides: times by the device's clock,
//! each with `action`, `sub_stage`, `calls`, `total_seconds`, `min_seconds` and `max_seconds`. They
//! are in no other number.
//!
//! Names are complete, and only JSON's own escapes apply. Readers should ignore unknown fields,
//! because new fields do not raise the version.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Without the features for rules, pages and comparisons, some code is unused. The compiler removes
// it.
#![cfg_attr(not(all(feature = "comparison", feature = "html", feature = "read")), allow(dead_code))]

pub mod advanced;
#[cfg(feature = "arrow")]
mod arrow;
mod build_settings;
#[cfg(feature = "comparison")]
#[doc(hidden)]
pub mod comparison;
mod confidence;
mod counted;
mod error;
pub mod finding;
pub mod findings;
#[doc(hidden)]
pub mod folded;
mod frameworks;
#[doc(hidden)]
pub mod internals;
mod json;
mod label;
mod line_count_restriction;
pub mod lines;
mod machine;
mod markup;
pub mod memory;
mod missing;
mod no_numbers;
#[doc(hidden)]
pub mod number;
pub mod numerics;
pub mod output;
#[cfg(feature = "html")]
#[doc(hidden)]
pub mod page;
mod quantile;
#[doc(hidden)]
pub mod ranks;
#[doc(hidden)]
#[doc(hidden)]
pub mod regions;
pub mod samples;
mod setting;
pub mod simple;
pub mod steps;
#[doc(hidden)]
pub mod table;
pub mod tensor;
mod training_steps;
mod value;
mod verdict;

use std::borrow::Cow;

use crate::value::report_value;
use serde::Serialize;

/// The Arrow crate with the record batches of
/// [`to_record_batch`](tensor::KeyAverages::to_record_batch).
#[cfg(feature = "arrow")]
pub use arrow_array;
pub use build_settings::BuildSettings;
pub use error::Error;
pub use line_count_restriction::LineCountRestriction;
pub use machine::{Machine, MachineDevice};
pub use mlprof_events::{Framework, ParseTimeError, UtcTime};
pub use setting::Setting;

// Short paths, for mlprof's own crates.
#[doc(hidden)]
pub use self::{
    advanced::AdvancedReport, lines::LinesReport, memory::MemoryReport, numerics::NumericsReport,
    output::Output, samples::SamplesReport, simple::SimpleReport, tensor::TensorReport,
};
#[doc(hidden)]
pub use self::{
    advanced::AdvancedReportParts,
    build_settings::BuildSettingsParts,
    lines::LinesReportParts,
    machine::{MachineDeviceParts, MachineParts},
    memory::MemoryReportParts,
    numerics::NumericsReportParts,
    samples::SamplesReportParts,
    simple::SimpleReportParts,
    tensor::TensorReportParts,
};

/// Version of the JSON layout of every [`Report`]. It is raised when a field is removed or changes
/// its meaning. New fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Report of any profiler. In JSON, the field `profiler` contains the kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[serde(tag = "profiler", rename_all = "snake_case")]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a program has a few reports, one per stage")]
pub enum Report {
    /// Report of the Simple profiler.
    Simple(SimpleReport),
    /// Report of the Advanced profiler.
    Advanced(AdvancedReport),
    /// Report of the Tensor profiler.
    Tensor(TensorReport),
    /// Report of the memory profiler.
    Memory(MemoryReport),
    /// Report of the line profiler.
    Lines(LinesReport),
    /// Report of a standalone sampler.
    Samples(SamplesReport),
    /// Report of the numerics profiler.
    Numerics(NumericsReport),
}

impl Report {
    /// Returns the header, which every report has.
    pub fn header(&self) -> &ReportHeader {
        match self {
            Self::Simple(report) => &report.header,
            Self::Advanced(report) => &report.header,
            Self::Tensor(report) => &report.header,
            Self::Memory(report) => &report.header,
            Self::Lines(report) => &report.header,
            Self::Samples(report) => &report.header,
            Self::Numerics(report) => &report.header,
        }
    }

    /// Returns the kind of the report as a word for text output.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Simple(_) => "Simple",
            Self::Advanced(_) => "Advanced",
            Self::Tensor(_) => "Tensor",
            Self::Memory(_) => "Memory",
            Self::Lines(_) => "Lines",
            Self::Samples(_) => "Samples",
            Self::Numerics(_) => "Numerics",
        }
    }

    /// Returns the step durations by stage. Returns an empty slice if the profiler records no
    /// steps.
    pub fn step_series(&self) -> &[steps::StepSeries] {
        match self {
            Self::Simple(report) => &report.step_series,
            Self::Advanced(report) => &report.step_series,
            Self::Tensor(report) => &report.step_series,
            Self::Memory(_) | Self::Lines(_) | Self::Samples(_) | Self::Numerics(_) => &[],
        }
    }

    /// Returns the header for changes, for example to add notes.
    #[doc(hidden)]
    pub fn header_mut(&mut self) -> &mut ReportHeader {
        match self {
            Self::Simple(report) => &mut report.header,
            Self::Advanced(report) => &mut report.header,
            Self::Tensor(report) => &mut report.header,
            Self::Memory(report) => &mut report.header,
            Self::Lines(report) => &mut report.header,
            Self::Samples(report) => &mut report.header,
            Self::Numerics(report) => &mut report.header,
        }
    }

    /// Returns the actions that were still running. Returns an empty slice if the profiler does not
    /// record them.
    pub fn open(&self) -> &[OpenAction] {
        match self {
            Self::Simple(report) => &report.open,
            Self::Advanced(report) => &report.open,
            Self::Memory(report) => &report.open,
            Self::Tensor(_) | Self::Lines(_) | Self::Samples(_) | Self::Numerics(_) => &[],
        }
    }

    /// Returns the findings that were stored when the report was delivered. Use
    /// [`Rules::apply`](findings::Rules::apply) to compute them again.
    pub fn findings(&self) -> &[finding::Finding] {
        match self {
            Self::Simple(report) => &report.findings,
            Self::Advanced(report) => &report.findings,
            Self::Tensor(report) => &report.findings,
            Self::Memory(report) => &report.findings,
            Self::Numerics(report) => &report.findings,
            Self::Lines(_) | Self::Samples(_) => &[],
        }
    }

    /// Returns the report with these findings. Kinds of reports without findings are unchanged.
    #[doc(hidden)]
    #[must_use]
    pub fn with_findings(mut self, findings: Vec<finding::Finding>) -> Self {
        match &mut self {
            Self::Simple(report) => report.findings = findings,
            Self::Advanced(report) => report.findings = findings,
            Self::Tensor(report) => report.findings = findings,
            Self::Memory(report) => report.findings = findings,
            Self::Numerics(report) => report.findings = findings,
            Self::Lines(_) | Self::Samples(_) => {}
        }
        self
    }

    /// Returns the report as indented JSON with the layout described in the [module](self).
    ///
    /// # Errors
    ///
    /// Returns the serializer's error. No report of mlprof can cause one.
    pub fn to_json(&self) -> serde_json::Result<String> {
        json::to_string(self)
    }

    /// Parses the JSON written by [`to_json`](Self::to_json). Requires the feature `read`.
    ///
    /// # Errors
    ///
    /// Returns an error if `json` is invalid JSON, is not a report, or lacks a field. A later
    /// schema may have removed a field. The error names the field and its position.
    #[cfg(feature = "read")]
    pub fn from_json(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }
}

/// Units of a report's numbers. They are constant, and the file contains them for readers without
/// this documentation.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Units {
    /// Unit of every field that ends in `_seconds`, and of `seconds_per_scope`.
    pub time: Cow<'static, str>,
    /// Format of `started_at`.
    pub started_at: Cow<'static, str>,
}

impl Default for Units {
    fn default() -> Self {
        Self { time: "seconds".into(), started_at: "UTC, RFC 3339".into() }
    }
}

report_value! {
/// Information about the run that every report contains.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ReportHeader from ReportHeaderParts {
    /// Version of the JSON layout, [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Units of the numbers.
    pub units: Units,
    /// Stage, if a trainer set one.
    pub stage: Option<mlprof_events::Stage>,
    /// Rank of this process, from 0.
    pub rank: u32,
    /// Number of processes that take part in the run.
    pub world_size: u32,
    /// Start of the stage (UTC, RFC 3339).
    pub started_at: mlprof_events::UtcTime,
    /// Time from the start of the stage to its end, or to now if it is running, in seconds.
    pub wall_seconds: f64,
    /// Compiler settings of the program, if known.
    #[serde(default)]
    pub build: Option<BuildSettings>,
    /// File name of the program, if known.
    #[serde(default)]
    pub program: Option<String>,
    /// Machine that the program ran on, if known.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// Frameworks that the program trains with, if hooks reported them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frameworks: Vec<Framework>,
    /// Time from the start of the process to its first action. Only one report of the process
    /// contains it. It is not part of the wall time.
    #[serde(default)]
    pub startup: Option<StartupDurations>,
    /// Measurement overhead, summed over all threads.
    pub overhead: Overhead,
    /// Settings of the profiler as text. Empty in files of versions that did not record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// Notes that are needed to interpret the numbers, such as calls that could not be recorded or
    /// limits that were reached. Empty if no data was lost.
    pub notes: Vec<String>,
}
}

impl ReportHeader {
    /// Returns the rank if there are several processes.
    pub(crate) fn rank_of_several(&self) -> Option<u32> {
        (self.world_size > 1 || self.rank > 0).then_some(self.rank)
    }
}

report_value! {
/// From the start of the process to its first action.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StartupDurations from StartupDurationsParts {
    /// Total start-up time in seconds. It begins at `main` if `before_main_seconds` is `None`.
    pub total_seconds: f64,
    /// Time before `main` in seconds. `None` if it is unknown.
    pub before_main_seconds: Option<f64>,
}
}

impl StartupDurations {
    /// Returns `total_seconds` without the part before `main`, in seconds.
    #[doc(hidden)]
    pub fn after_main_seconds(&self) -> f64 {
        self.total_seconds - self.before_main_seconds.unwrap_or(0.0)
    }
}

report_value! {
/// Estimated cost of the profiler itself, from a calibration on this machine when the report is
/// made.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Overhead from OverheadParts {
    /// Number of recorded scopes.
    pub scopes: u64,
    /// Cost of one scope (start and stop) in seconds.
    pub seconds_per_scope: f64,
}
}

impl Overhead {
    /// Returns the cost of all scopes in seconds, summed over the threads that recorded them.
    #[doc(hidden)]
    pub fn total_seconds(&self) -> f64 {
        self.scopes as f64 * self.seconds_per_scope
    }
}

report_value! {
/// An action that was still running when the report was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct OpenAction from OpenActionParts {
    /// Name of the action.
    pub action: String,
    /// Name of the thread that started the action.
    pub thread: String,
    /// Time since the start of the action, in seconds.
    pub elapsed_seconds: f64,
}
}
