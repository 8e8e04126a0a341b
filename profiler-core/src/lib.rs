//! The heart of **mlprof**: what is measured, who measures it, and how it is reported.
//!
//! A *hook* starts and stops [`Action`]s through the [`Profiler`] trait. A *profiler* aggregates.
//! A *report* formats finished numbers. This crate knows no ML framework.
//!
//! ```
//! use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
//!
//! let profiler = SimpleProfiler::new();
//! for batch in profiler.profile_iterable(0..3, "train_dataloader_next") {
//!     let _step = profiler.profile("run_training_batch");
//!     std::hint::black_box(batch);
//! }
//! profiler.describe(); // prints how often each action ran, and how long
//! # let report = profiler.snapshot();
//! # let calls = |name| report.actions.iter().find(|row| row.action == name).map(|row| row.calls);
//! # assert_eq!(calls("train_dataloader_next"), Some(4));
//! # assert_eq!(calls("run_training_batch"), Some(3));
//! ```
//!
//! | to | use |
//! |---|---|
//! | count and time actions | [`SimpleProfiler`] |
//! | see how many bytes each action read and wrote | [`SimpleProfiler::measure_io`] |
//! | tell working from waiting by CPU time | [`SimpleProfiler::measure_cpu`] |
//! | see which functions an action's time went to | [`AdvancedProfiler`], with [`prelude::profiled`] on functions or the layer of the feature `tracing` |
//! | see where code goes that nothing instruments | the feature `sampling`: [`AdvancedProfiler`]'s `sampled`, `sampler::Sampler` |
//! | see every op of a few training steps, with shapes, memory and a trace | [`TensorProfiler`] |
//! | see what every action allocates, and who allocated what is alive | [`allocation::AllocationProfiler`] |
//! | measure without passing a profiler around | [`activate`] and [`profile!`] |
//! | run several trainings at once, each with its profiler | [`Binding`], [`bound`], [`BindFutureExt`] |
//! | let a user choose by name | [`IntoProfiler`] |
//! | measure with several profilers at once | [`MultiProfiler`], `"simple+tensor"` |
//! | write reports to files | [`Output`], through the profilers' `dirpath` and `filename` |
//! | read the numbers in a program | [`Profiler::report`] and the module [`report`] |
//! | write a profiler | [`Profiler`] |
//! | report ops, device work and memory that no plugin reports | the module [`hook`] |
//! | measure functions and ops that nobody instrumented | the command `mlprof run` |
//! | know what Ctrl-C does to a program that is measured, or end politely | the module [`interrupt`] |
//! | have a profiled training loop | the crate `mlprof-train`, through a framework's plugin |

#![cfg_attr(docsrs, feature(doc_cfg))]
// Lines go through `output::say`: `eprintln!` panics where standard error is full or closed.
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
#[doc(hidden)]
pub use simple::{ActionDurations, Distribution};
pub use simple::{SimpleCountersProfiler, SimpleIoProfiler, SimpleProfiler};
#[cfg(feature = "tensor")]
pub use tensor::TensorProfiler;

/// The examples of the guide and of the package's page, run as tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/src/ops.md")]
    struct Ops;
    #[doc = include_str!("../../docs/src/nvidia.md")]
    struct Nvidia;
    #[doc = include_str!("../../docs/src/mlprof-run.md")]
    struct MlprofRun;
    #[doc = include_str!("../../docs/src/nsight-systems.md")]
    struct NsightSystems;
    #[doc = include_str!("../../docs/src/my-loss-is-nan.md")]
    struct MyLossIsNan;
    #[doc = include_str!("../../docs/src/reports.md")]
    struct Reports;
    #[doc = include_str!("../../docs/src/findings.md")]
    struct Findings;
    #[doc = include_str!("../../docs/src/page.md")]
    struct Page;
    #[doc = include_str!("../../docs/src/comparing.md")]
    struct Comparing;
    #[doc = include_str!("../../docs/src/analysis.md")]
    struct Analysis;
    #[doc = include_str!("../../docs/src/own-code.md")]
    struct OwnCode;
    #[doc = include_str!("../../docs/src/threads-and-async.md")]
    struct ThreadsAndAsync;
    #[doc = include_str!("../../docs/src/costs.md")]
    struct Costs;
}
