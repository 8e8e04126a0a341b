//! What costs time that could be saved, and what to do: rules over finished reports.
//!
//! [`Rules`] look at a [`Report`](crate::Report), a value, whoever made it and whenever, and give
//! [`Finding`](crate::finding::Finding)s, what costs most first. A rule has a condition, thresholds that
//! can be set by name, and what it takes for evidence; one that lacks its numbers is silent, and
//! [`Rules::explain`] says which.
//!
//! ```
//! use mlprof_core::report::Report;
//! use mlprof_core::report::findings::Rules;
//! # use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
//! # let profiler = SimpleProfiler::new();
//! # drop(profiler.profile("run_training_batch"));
//! # let report: Report = profiler.report().expect("it has one");
//!
//! let mut rules = Rules::new();
//! rules.set("data-waiting.share", 0.02)?;
//! for finding in rules.apply(&report) {
//!     println!("{} {}", finding.sentence, finding.remedy);
//! }
//! # assert!(rules.apply(&report).is_empty(), "a healthy run");
//! # Ok::<(), mlprof_core::report::findings::SetThresholdError>(())
//! ```

mod engine;
mod facts;
mod framework;
mod long_steps;
mod ranks;
mod rule;
mod rules;
#[cfg(test)]
pub(crate) mod samples;
pub mod text;

pub use engine::{Explanation, Rules, SetThresholdError};
pub use rule::{Outcome, Threshold};
