//! Traces of which all numbers are worked out by hand, and what is true of all traces.

mod cases;
#[cfg(feature = "parquet")]
mod columns;
mod collectives;
mod critical_path;
mod devices;
mod diff;

mod made;
mod properties;
mod reading;
mod threads;
