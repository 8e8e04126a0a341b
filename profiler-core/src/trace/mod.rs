//! What a recorded [`Cycle`](crate::tensor::Cycle) is written as, for the tools that people have.
//!
//! | to | use |
//! |---|---|
//! | see events on a time line: Perfetto, chrome://tracing, TensorBoard, HolisticTraceAnalysis | [`Cycle::export_chrome_trace`](crate::tensor::Cycle::export_chrome_trace), [`kineto`] |
//! | see where time or memory goes as a flame graph | [`Cycle::export_stacks`](crate::tensor::Cycle::export_stacks), [`flame`] |
//! | see what memory is used for | [`Cycle::memory_timeline`](crate::tensor::Cycle::memory_timeline), [`memory`] |
//!
//! All of them read a cycle and write; none of them changes it or reads a clock.

pub(crate) mod cycle;
pub mod flame;
mod host;
mod json;
pub mod kineto;
pub mod memory;
mod nest;
mod walk;

/// What a process calls itself in file names: `{host}_{process number}`.
pub(crate) fn worker_name() -> String {
    format!("{}_{}", host::host_name(), std::process::id())
}
