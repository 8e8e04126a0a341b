//! The core of **mlprof**: profilers, the hooks that feed them, and the reports they produce.
//!
//! - A *hook* starts and stops [`Action`]s through the [`Profiler`] trait.
//! - A *profiler* aggregates these measurements.
//! - A *report* holds and formats the final numbers.
//!
//! This crate does not depend on any ML framework.
//!
//! ```
//! use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
//!
//! let profiler = SimpleProfiler::new();
//! for batch in profiler.profile_iterable(0..3, "train_dataloader_next") {
//!     let _step = profiler.profile("run_training_batch");
//!     std::hint::black_box(batch);
//! }
//! profiler.describe(); // prints the calls and times of each action
//! # let report = profiler.snapshot();
//! # let calls = |name| report.actions.iter().find(|row| row.action == name).map(|row| row.calls);
//! # assert_eq!(calls("train_dataloader_next"), Some(4));
//! # assert_eq!(calls("run_training_batch"), Some(3));
//! ```
//!
//! | task | API |
//! |---|---|
//! | count and time actions | [`SimpleProfiler`] |
//! | count the bytes that each action reads and writes | [`SimpleProfiler::measure_io`] |
//! | distinguish work from waiting by CPU time | [`SimpleProfiler::measure_cpu`] |
//! | find the functions in which an action spends its time | [`AdvancedProfiler`], with [`prelude::profiled`] on functions or the `tracing` layer (feature `tracing`) |
//! | sample code that is not instrumented | [`AdvancedProfiler`]'s `sampled` and `sampler::Sampler` (feature `sampling`) |
//! | record every op of a few training steps, with shapes, memory and a trace | [`TensorProfiler`] |
//! | measure the allocations of each action, and find the origin of live memory | [`allocation::AllocationProfiler`] |
//! | measure without passing a profiler around | [`activate`] and [`profile!`] |
//! | run several trainings concurrently, each with its own profiler | [`Binding`], [`bound`], [`BindFutureExt`] |
//! | select a profiler by name | [`IntoProfiler`] |
//! | use several profilers at once | [`MultiProfiler`], `"simple+tensor"` |
//! | write reports to files | [`Output`], through the profilers' `dirpath` and `filename` |
//! | read the results in a program | [`Profiler::report`] and the module [`report`] |
//! | implement a profiler | [`Profiler`] |
//! | report ops, device work and memory that no plugin reports | the module [`hook`] |
//! | instrument functions and ops without changing the source | the command `mlprof run` |
//! | handle Ctrl-C in a profiled program | the module [`interrupt`] |
//! | use a profiled training loop | the crate `mlprof-train`, through a framework's plugin |

#![cfg_attr(docsrs, feature(doc_cfg))]
// Messages go through `output::say`, because `eprintln!` panics if standard error is full or
// closed.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod activate;
mod active;
mod advanced;
pub mod allocation;
#[doc(hidden)]
pub mod build_settings;
mod debug;
mod device_time;
#[doc(hidden)]
pub mod driver_library;
mod dynamic_library;
mod environment;
mod error;
mod forked_child;
pub mod future;
mod guarded;
pub mod hook;
mod instrumentation;
pub mod interrupt;
mod layer_wrappers;
#[doc(hidden)]
pub mod lines;
mod machine;
mod multi;
#[cfg(feature = "numerics")]
mod numerics;
pub mod nvtx;
mod output_settings;
mod pass_through;
pub mod prelude;
mod profiler;
mod profiler_names;
mod recorder;
mod select;
mod session;
mod simple;
#[doc(hidden)]
pub mod spliced;
#[cfg(feature = "tensor")]
pub mod tensor;
#[cfg(feature = "tracing")]
pub mod tracing_layer;
#[doc(hidden)]
pub mod watcher;

pub use activate::activate;
#[doc(hidden)]
pub use active::let_go;
pub use active::{Activated, ActiveScope, Binding, Bound, active, bound};
pub use advanced::AdvancedProfiler;
pub use error::{Error, PROFILER_NAMES};
pub use future::BindFutureExt;
#[doc(hidden)]
pub use interrupt::Interrupt;
#[doc(hidden)]
pub use mlprof_events::evaluation::Evaluation;
pub use mlprof_events::{
    Action, ActionKind, Interest, Observation, RunContext, SourceLocation, Stage, TrainingControl,
};
#[doc(hidden)]
pub use mlprof_events::{
    Callsite, UnattributedWork, before_main, debug_as_display, debug_as_name, names, progress,
    startup,
};
#[doc(no_inline)]
pub use mlprof_report as report;
#[doc(hidden)]
pub use mlprof_report::output;
pub use mlprof_report::{Output, Report};
#[cfg(feature = "sampling")]
#[doc(no_inline)]
pub use mlprof_sampler as sampler;
#[cfg(feature = "tensor")]
#[doc(no_inline)]
pub use mlprof_trace as trace;
pub use multi::MultiProfiler;
#[cfg(feature = "numerics")]
pub use numerics::NumericsProfiler;
pub use pass_through::PassThroughProfiler;
#[doc(hidden)]
pub use profiler::Internals;
pub use profiler::{Inner, NeverStarted, ProfiledIterator, Profiler, ProfilerExt, Scope};
pub use select::IntoProfiler;
#[doc(hidden)]
pub use select::resolve;
pub use session::Session;
pub use simple::SimpleProfiler;
#[doc(hidden)]
pub use simple::{ActionDurations, Distribution};
#[cfg(feature = "tensor")]
pub use tensor::TensorProfiler;

/// Examples of the guide and of the crate's README, compiled and run as doctests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/src/how-to/profile-every-op.md")]
    struct Ops;
    #[doc = include_str!("../../docs/src/how-to/profile-nvidia-gpus.md")]
    struct Nvidia;
    #[doc = include_str!("../../docs/src/how-to/mlprof-run.md")]
    struct MlprofRun;
    #[doc = include_str!("../../docs/src/how-to/nsight-systems.md")]
    struct NsightSystems;
    #[doc = include_str!("../../docs/src/how-to/find-a-nan.md")]
    struct MyLossIsNan;
    #[doc = include_str!("../../docs/src/how-to/choose-what-is-reported.md")]
    struct Reports;
    #[doc = include_str!("../../docs/src/explanation/findings.md")]
    struct Findings;
    #[doc = include_str!("../../docs/src/how-to/html-page.md")]
    struct Page;
    #[doc = include_str!("../../docs/src/how-to/compare-runs.md")]
    struct Comparing;
    #[doc = include_str!("../../docs/src/how-to/analyze-traces.md")]
    struct Analysis;
    #[doc = include_str!("../../docs/src/how-to/own-loop-and-profiler.md")]
    struct OwnCode;
    #[doc = include_str!("../../docs/src/how-to/threads-and-async.md")]
    struct ThreadsAndAsync;
    #[doc = include_str!("../../docs/src/explanation/costs.md")]
    struct Costs;
}
