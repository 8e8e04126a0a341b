//! Analysis of host threads.

pub(crate) mod outliers;
pub(crate) mod path;
pub(crate) mod self_times;
pub(crate) mod steps;
pub(crate) mod threads;
pub(crate) mod waits;
