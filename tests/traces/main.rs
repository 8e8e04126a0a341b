//! Traces with device work, read by the programs that people analyse traces with:
//! HolisticTraceAnalysis, TensorBoard's profiler plugin, Perfetto's trace_processor, XProf, and
//! Python's `json`.
//!
//! The traces are recorded through the interface that plugins use, since machines that run tests
//! have no GPU.

mod analysis;
mod perfetto;
mod readers;
mod tables;
#[path = "../../xtask/src/trace_processor.rs"]
mod trace_processor;
mod training;
mod xprof;
