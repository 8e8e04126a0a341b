//! The report of the Tensor profiler: tables against torch's own, operations against torch's own,
//! and what comes out of recordings.

#[cfg(feature = "arrow")]
mod arrow;
mod counters;
mod flops;
mod golden;
mod modules;
mod notes;
mod recorded;
mod rows;
mod short_runs;
mod ten_million;
