//! What the examples that train one network in several processes share, whatever their framework: processes that
//! find each other, means of what all of them have, and the program around it.

pub mod launch;
pub mod process_group;
mod program;
mod rank;

pub use program::{Arguments, ParallelModule, run};
pub use rank::Rank;
