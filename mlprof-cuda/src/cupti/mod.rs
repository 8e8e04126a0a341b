//! Collection of CUPTI activity records: kernels, copies, fills, CUDA calls, waits and memory.
//!
//! The data flows through these modules:
//!
//! - `functions` loads the library that `locate_cupti` finds.
//! - `collector` enables and disables record kinds.
//! - `buffers` provides memory for records and passes full buffers to a reader thread.
//! - `records` parses the records.
//! - `timeline` converts their times to the profiler's clock.
//! - `delivery` reports them to the active profiler.
//! - `source` connects all of this to the instrumentation hook.

mod buffers;
mod calls;
mod collector;
mod delivery;
mod departure;
mod functions;
mod names;
mod recent;
mod records;
mod source;
mod timeline;
mod unavailable;

pub(super) use departure::{Departure, set_departure};
pub(super) use source::Activity;

/// `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2`. PyTorch's Kineto uses the first two kinds.
const EXTERNAL_KIND: u32 = 5;
