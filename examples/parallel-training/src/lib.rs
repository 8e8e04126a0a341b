//! Framework-independent code for the examples that train one network in several processes: process
//! discovery, averaging over all ranks, and the program around it.

pub mod launch;
pub mod process_group;
mod program;
mod rank;

pub use program::{Arguments, ParallelModule, run};
pub use rank::Rank;
