//! Threads that load batches, and processes that train together, under a profiler.
//!
//! `background-loader` prepares digits on worker threads while training goes on.
//! `data-parallel` trains one network in two processes that average their gradients.

pub mod augment;
pub mod background;
pub mod parallel;
