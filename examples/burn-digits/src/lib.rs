//! Code shared by the programs of this example: the digits, a small network, and console progress.

pub mod data;
pub mod model;
pub mod progress;
