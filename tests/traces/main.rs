//! Reads traces with device work in the usual analysis programs: HolisticTraceAnalysis,
//! TensorBoard's profiler plugin, Perfetto's trace_processor, XProf, and Python's `json`.
//!
//! The traces are recorded through the plugin interface, because test machines have no GPU.

mod analysis;
mod perfetto;
mod readers;
mod tables;
#[path = "../../xtask/src/trace_processor.rs"]
mod trace_processor;
mod training;
mod xprof;
