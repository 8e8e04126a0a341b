//! What the `mlprof` command is made of.

pub mod command;
pub mod convert;
pub mod report;
pub mod run;
pub mod runtime;
pub mod splice;
pub mod wrapper;
