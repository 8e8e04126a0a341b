//! Tests of the Tensor profiler's report: tables and operations compared with those of torch, and
//! reports of recordings.

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
