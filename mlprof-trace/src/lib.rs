//! Output formats of a recorded [`Cycle`] for common tools.
//!
//! | output | function and module |
//! |---|---|
//! | timeline of events for Perfetto, chrome://tracing, TensorBoard and HolisticTraceAnalysis | [`Cycle::export_chrome_trace`], [`kineto`] |
//! | flame graph of time or memory | [`Cycle::export_stacks`], [`flame`] |
//! | memory by purpose over time | [`Cycle::memory_timeline`], [`memory`] |
//! | table of ops with their times | [`Cycle::key_averages`] |
//!
//! All of these functions only read a cycle and write output. They never change the cycle or read a
//! clock.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod cycle;
pub mod flame;
mod gzip;
mod host;
#[doc(hidden)]
pub mod internals;
mod json;
pub mod kineto;
pub mod memory;
mod nest;
mod profile;
mod trace_options;
mod walk;

#[doc(hidden)]
pub use cycle::{ContextActions, MemoryEvent};
pub use cycle::{Cycle, Dropped, Event, Track};
#[doc(hidden)]
pub use mlprof_events::work::{bytes, flops};
pub use trace_options::{Error, TraceOptions};
