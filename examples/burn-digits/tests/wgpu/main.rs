//! Tests the recording of burn's ops on a CubeCL device by the Tensor profiler. They need a GPU
//! that wgpu finds; Mesa's software GPU lavapipe is sufficient.
//!
//! Run them with `cargo test -p burn-digits --features wgpu --profile quick --test wgpu`. With the
//! feature `autotune` instead of `wgpu`, one more test runs, and all tests take longer.

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
