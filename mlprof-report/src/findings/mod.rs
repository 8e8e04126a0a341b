//! Rules that find avoidable costs in finished reports and recommend remedies.
//!
//! [`Rules`] examine a [`Report`](crate::Report), independent of its origin and age. They return
//! [`Finding`](crate::finding::Finding)s in descending order of cost. Each rule has a condition,
//! thresholds that can be set by name, and evidence. A rule without the required numbers returns no
//! finding, and [`Rules::explain`] lists such rules.
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
