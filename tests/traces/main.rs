//! Traces with device work, read by the programs that people analyse traces with:
//! HolisticTraceAnalysis, TensorBoard's profiler plugin, and Python's `json`.
//!
//! The traces are recorded through the interface that plugins use, since machines that run tests
//! have no GPU.

mod analysis;
mod readers;
mod tables;
mod training;
