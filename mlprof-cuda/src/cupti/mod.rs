//! CUPTI's activity records: kernels, copies, fills, calls of CUDA, waiting, memory.
//!
//! From CUPTI to a profiler: `library` and `functions` find it, `collector` turns kinds of records on
//! and off, `buffers` gives it room and has the filled ones read by a thread of ours, `records` reads
//! their bytes, and `delivery` tells the active profiler, with times on its clock (`timeline`). `source`
//! makes it a hook like others.

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

/// `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2`: torch's Kineto takes the first two.
const EXTERNAL_KIND: u32 = 5;
