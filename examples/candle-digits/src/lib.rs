//! Code shared by the programs of this example: digits as tensors, and a small network.

mod data;
mod learner;
mod net;

pub use data::Batch;
pub use learner::Learner;
pub use net::DigitNet;
