//! Tests of the output of a recorded cycle: traces, flame graphs, memory timelines, and their
//! files.

mod asked_for;
mod counters;
mod devices;
mod files;
mod flame;
#[cfg(feature = "trace-formats")]
mod formats;
mod links;
mod memory;
mod names;
mod nesting;
mod parsed;
#[path = "../report/python.rs"]
mod python;
mod ranks;
mod recorded;
#[cfg(feature = "parquet")]
mod tables;
mod threads;
