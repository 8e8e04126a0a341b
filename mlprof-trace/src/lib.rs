//! What a recorded [`Cycle`] is written as, for the tools that people have.
//!
//! | to | use |
//! |---|---|
//! | see events on a time line: Perfetto, chrome://tracing, TensorBoard, HolisticTraceAnalysis | [`Cycle::export_chrome_trace`], [`kineto`] |
//! | see where time or memory goes as a flame graph | [`Cycle::export_stacks`], [`flame`] |
//! | see what memory is used for | [`Cycle::memory_timeline`], [`memory`] |
//! | see ops with their times in a table | [`Cycle::key_averages`] |
//!
//! All of them read a cycle and write; none of them changes it or reads a clock.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod cycle;
pub mod flame;
mod flops;
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
pub use flops::flops;
pub use trace_options::{Error, TraceOptions};
