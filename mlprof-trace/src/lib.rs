//! Output formats of a recorded [`Cycle`] for common tools.
//!
//! | to | use |
//! |---|---|
//! | see events on a time line: Perfetto, chrome://tracing, TensorBoard, HolisticTraceAnalysis | [`Cycle::export_chrome_trace`], [`kineto`] |
//! | see where time or memory goes as a flame graph | [`Cycle::export_stacks`], [`flame`] |
//! | see what memory is used for | [`Cycle::memory_timeline`], [`memory`] |
//! | see ops with their times in a table | [`Cycle::key_averages`] |
//!
//! All of these functions only read a cycle and write output. They never change the cycle or read a
//! clock.

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

pub use cycle::{ContextActions, Cycle, Dropped, Event, MemoryEvent, Track};
pub use flops::flops;
pub use trace_options::{Error, TraceOptions};
