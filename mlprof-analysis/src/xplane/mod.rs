//! Writes traces as XProf and TensorBoard's Profile page read them (`.xplane.pb`): an `XSpace`.
//!
//! | in the trace | in XProf |
//! |---|---|
//! | threads | lines of the plane `/host:CPU` |
//! | steps (`ProfilerStep#5`) | events with `step_num`, by which XProf cuts the time into steps |
//! | the loop waits for data | `IteratorGetNext`, shown under its own name: the input pipeline |
//! | ops | `path/name:type`, the path from the module around them: the table of framework ops |
//! | calls that launch, and what they launched | the same `correlation_id`; kernels have their op as `tf_op` |
//! | streams of a device | lines of the plane `/device:GPU:0` |
//! | copies | `MemcpyHToD`, `MemcpyDToH`, `MemcpyDToD` |
//! | allocations and frees | `MemoryAllocation`, `MemoryDeallocation`: the memory profile |
//! | counters | not: XProf has no place for them |
//!
//! Format: `tensorflow/tsl/profiler/protobuf/xplane.proto`; names as xprof 2.24 understands them.

mod device;
mod host;
mod memory;
mod messages;
mod op_names;
mod plane;

use std::io::{self, Write};

use prost::Message;

use self::messages::{XEvent, XLine, XSpace};
use crate::Trace;
use crate::meaning::Meanings;
use crate::trace::{Slice, Track};

/// Where times are counted from, and what names mean.
struct Source<'trace> {
    trace: &'trace Trace,
    meanings: Meanings,
    /// In the trace's own time.
    start: i64,
    end: i64,
}

/// Writes a trace, with allocations and the launches of kernels if it was
/// [read with them](crate::kineto::read_for_xprof).
///
/// *Cost*: some microseconds and 200 bytes of memory per slice: the file is made in memory.
///
/// # Errors
///
/// What `out` says.
pub fn write(trace: &Trace, mut out: impl Write) -> io::Result<()> {
    out.write_all(&space(trace).encode_to_vec())
}

fn space(trace: &Trace) -> XSpace {
    let mut space = XSpace::default();
    space.hostnames.extend(trace.info.host.clone());
    let Some((start, end)) = trace.window() else {
        space.warnings.push("nothing was recorded".to_owned());
        return space;
    };
    let source = Source { trace, meanings: Meanings::of(trace), start, end };
    space.planes.push(host::plane(&source));
    space.planes.extend(device::planes(&source));
    space.planes.push(source.environment());
    let dropped = trace.info.dropped;
    if dropped > 0 {
        space.warnings.push(format!("{dropped} events had no room while they were recorded"));
    }
    let cut = trace.info.cut_short.as_ref();
    space.warnings.extend(cut.map(|reason| format!("the end of the trace is missing: {reason}")));
    space
}

impl Source<'_> {
    /// When was recorded, which XProf shows.
    fn environment(&self) -> messages::XPlane {
        let mut plane = plane::Plane::new(0, "Task Environment".to_owned());
        for (name, time) in [("profile_start_time", self.start), ("profile_stop_time", self.end)] {
            let time = plane.number(name, self.trace.info.base_ns.saturating_add(time));
            plane.say(time);
        }
        plane.finish()
    }

    fn line(&self, place: usize, track: &Track, events: Vec<XEvent>) -> XLine {
        XLine {
            // A number of its own: threads of several processes may have the same.
            id: place as i64 + 1,
            name: self.trace.names.text(track.name).to_owned(),
            timestamp_ns: self.trace.info.base_ns.saturating_add(self.start),
            duration_ps: picoseconds(self.end - self.start),
            events,
        }
    }

    fn event(&self, slice: &Slice, metadata_id: i64) -> XEvent {
        XEvent {
            metadata_id,
            offset_ps: picoseconds(slice.start - self.start),
            duration_ps: picoseconds(slice.duration),
            stats: Vec::new(),
        }
    }
}

/// Of nanoseconds; as much as there is room for, which is a hundred days.
fn picoseconds(nanoseconds: i64) -> i64 {
    nanoseconds.saturating_mul(1000)
}

#[cfg(test)]
mod tests;
