//! Tests with results worked out by hand, and properties of all traces.

mod cases;
mod collectives;
#[cfg(feature = "parquet")]
mod columns;
mod critical_path;
mod deep;
mod devices;
mod diff;
mod findings;
mod foreign;
mod kernels;
mod mutations;
mod pauses;
mod properties;
mod ranks;
mod reading;
mod simulator;
mod synthetic;
mod threads;
mod what_if;
