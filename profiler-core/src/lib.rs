//! The heart of **mlprof**: what is measured, who measures it, and how it is reported.
//!
//! A *hook* starts and stops [`Action`]s through the [`Profiler`] trait. A *profiler* aggregates.
//! A *report* formats finished numbers. This crate knows no ML framework.

pub mod action;
mod active;
pub mod advanced;
mod clock;
pub mod future;
pub mod interrupt;
pub mod output;
mod pass_through;
pub mod prelude;
mod profiler;
mod recorder;
pub mod report;
mod select;
pub mod simple;
mod stage;
mod sync;
#[cfg(feature = "tracing")]
pub mod tracing_layer;

pub use action::{Action, ActionKind, Callsite};
pub use active::{Activated, ActiveScope, activate, active};
pub use advanced::AdvancedProfiler;
pub use output::Output;
pub use pass_through::PassThroughProfiler;
pub use profiler::{Interest, NeverStarted, ProfiledIterator, Profiler, ProfilerExt, Scope};
pub use report::Report;
pub use select::{IntoProfiler, PROFILER_NAMES, UnknownProfiler};
pub use simple::SimpleProfiler;
pub use stage::{RunContext, Stage};
