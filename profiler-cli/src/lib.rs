//! What the `mlprof` command is made of.

pub mod splice;
