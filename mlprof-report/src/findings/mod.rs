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
//! # Ok::<(), mlprof_core::report::Error>(())
//! ```

#[cfg(feature = "findings")]
mod engine;
#[cfg(feature = "findings")]
mod facts;
#[cfg(feature = "findings")]
mod framework;
#[cfg(feature = "findings")]
mod long_steps;
#[cfg(feature = "findings")]
mod ranks;
#[cfg(feature = "findings")]
mod rule;
#[cfg(feature = "findings")]
mod rules;
#[cfg(test)]
pub(crate) mod samples;
#[doc(hidden)]
pub mod text;

#[cfg(feature = "findings")]
#[doc(hidden)]
pub use engine::Explanation;
#[cfg(feature = "findings")]
pub use engine::Rules;
#[cfg(feature = "findings")]
#[doc(hidden)]
pub use rule::{Outcome, Threshold};
