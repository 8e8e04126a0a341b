//! Analysis of traces from mlprof and from PyTorch's profiler (Kineto).
//!
//! [`kineto::read`] parses a file into a [`Trace`], one event at a time. [`Analysis::of`] computes
//! the results that `mlprof analyze` prints. All times are whole **nanoseconds**. The parts of a
//! breakdown add up to its total exactly.
//!
//! ```
//! let json = br#"{"traceEvents":[
//!     {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":10},
//!     {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":2,"dur":5.5}]}"#;
//! let trace = mlprof_analysis::kineto::read(json.as_slice())?;
//! let analysis = mlprof_analysis::Analysis::of(&trace);
//! assert_eq!(analysis.steps[0].duration_ns, 10_000);
//! assert_eq!(analysis.critical_paths[0].length_ns, 10_000);
//! # Ok::<(), mlprof_analysis::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod analysis;
mod answers;
mod classify;
#[cfg(feature = "parquet")]
#[doc(hidden)]
pub mod columns;
mod device;
#[doc(hidden)]
pub mod diff;
mod error;
mod findings;
mod host;
mod kernel_category;
pub mod kineto;
#[doc(hidden)]
pub mod numerics;
#[doc(hidden)]
pub mod page;
#[doc(hidden)]
pub mod perfetto;
#[doc(hidden)]
pub mod ranks;
mod recomputed;
#[doc(hidden)]
pub mod rollups;
mod sections;
mod sweep;
mod text;
pub mod trace;
mod vendor;
mod verdict;
#[doc(hidden)]
pub mod what_if;
#[doc(hidden)]
pub mod xplane;

pub use analysis::{Analysis, SCHEMA_VERSION};
#[doc(hidden)]
pub use answers::*;
pub use answers::{
    CriticalPath, DeviceAnswers, ModuleTimes, NameTimes, OutlierStep, StepBreakdown, StepPart,
    ThreadTimes,
};
pub use error::Error;
#[doc(hidden)]
pub use trace::Trace;
