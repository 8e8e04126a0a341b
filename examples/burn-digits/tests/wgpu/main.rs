//! Ops of burn on a CubeCL device, as the Tensor profiler records them. Needs a GPU that wgpu finds;
//! Mesa's lavapipe, a software one, will do.
//!
//! `cargo test -p burn-digits --features wgpu --profile quick --test wgpu`; with the feature
//! `autotune` in its place there is one test more, and all take longer.

#![allow(clippy::unwrap_used)]

mod costs;
mod device_time;
mod findings;
mod graphs;
mod numerics;
mod ops;
mod program;
mod recorded;
mod training;
