//! Work of an op, computed from the shapes and types of its inputs.

mod bytes;
mod convolution;
mod flops;
mod inputs;

pub use bytes::bytes;
pub use flops::flops;
