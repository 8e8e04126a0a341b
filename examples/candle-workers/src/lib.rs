//! Examples of batch-loading threads and multi-process training under a profiler.
//!
//! `background-loader` prepares digits on worker threads during training. `data-parallel` trains
//! one network in two processes that average their gradients.

pub mod augment;
pub mod background;
pub mod parallel;
