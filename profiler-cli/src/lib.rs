//! What the `mlprof` command is made of.

pub mod command;
pub mod convert;
mod fingerprint;
pub mod report;
pub mod run;
pub mod runtime;
pub mod splice;
mod voice;
pub mod wrapper;
