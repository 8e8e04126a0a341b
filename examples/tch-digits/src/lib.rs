//! Code shared by the programs of this example: digits as tensors, and a small network.

mod data;
mod learner;
mod net;
mod parallel;

pub use data::Batch;
pub use learner::{LEARNING_RATE, Learner};
pub use net::DigitNet;
pub use parallel::ParallelLearner;
