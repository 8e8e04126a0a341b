//! Writer for XProf's format (`.xplane.pb`, an `XSpace` message), which XProf and TensorBoard's
//! Profile page read.
//!
//! | in the trace | in XProf |
//! |---|---|
//! | threads | lines of the plane `/host:CPU` |
//! | steps (`ProfilerStep#5`) | events with `step_num`, which XProf uses to divide the time into steps |
//! | waits of the loop for data | `IteratorGetNext` events, shown under the original name, for the input pipeline |
//! | ops | `path/name:type`, with the path of the enclosing module, for the table of framework ops |
//! | launches and the launched work | events with the same `correlation_id`; kernels have their op as `tf_op` |
//! | streams of a device | lines of the plane `/device:GPU:0` |
//! | copies | `MemcpyHToD`, `MemcpyDToH`, `MemcpyDToD` |
//! | allocations and frees | `MemoryAllocation`, `MemoryDeallocation`, for the memory profile |
//! | counters | not written, because XProf cannot show them |
//!
//! The format is `tensorflow/tsl/profiler/protobuf/xplane.proto`. Names follow the conventions of
//! xprof 2.24.

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
use crate::classify::Meanings;
use crate::trace::{Slice, Track};

/// Trace to write, with its time range and the classification of its names.
struct Source<'trace> {
    trace: &'trace Trace,
    meanings: Meanings,
    /// Start in nanoseconds of the trace's own time.
    start: i64,
    end: i64,
}

/// Writes a trace. Allocations and launch configurations are included if the trace was [read for
/// XProf](crate::kineto::read_for_xprof).
///
/// *Cost*: some microseconds and 200 bytes of memory per slice, because the file is built in
/// memory.
///
/// # Errors
///
/// Returns an error if writing to `out` fails.
pub fn write(trace: &Trace, mut out: impl Write) -> io::Result<()> {
    out.write_all(&space(trace).encode_to_vec())
}

fn space(trace: &Trace) -> XSpace {
    let mut space = XSpace::default();
    space.hostnames.extend(trace.info.host.clone());
    let Some((start, end)) = trace.window() else {
        space.warnings.push("the trace has no slices".to_owned());
        return space;
    };
    let source = Source { trace, meanings: Meanings::of(trace), start, end };
    space.planes.push(host::plane(&source));
    space.planes.extend(device::planes(&source));
    space.planes.push(source.environment());
    let dropped = trace.info.dropped;
    if dropped > 0 {
        space.warnings.push(format!("{dropped} events were dropped during recording"));
    }
    let cut = trace.info.cut_short.as_ref();
    space.warnings.extend(cut.map(|reason| format!("the end of the trace is missing: {reason}")));
    space
}

impl Source<'_> {
    /// Returns the plane with the recording times, which XProf displays.
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
            // Line ids are consecutive, because threads of several processes may share a number.
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

/// Converts nanoseconds to picoseconds. The result saturates after about a hundred days.
fn picoseconds(nanoseconds: i64) -> i64 {
    nanoseconds.saturating_mul(1000)
}

#[cfg(test)]
mod tests;
