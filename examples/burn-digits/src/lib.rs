//! What the programs of this example share: the digits, a small network, progress on the console.

pub mod data;
pub mod model;
pub mod progress;
