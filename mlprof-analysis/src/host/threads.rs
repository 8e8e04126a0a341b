//! Busy, waiting and idle times of threads.

use crate::answers::{Activity, ThreadTimes};
use crate::classify::Meanings;
use crate::device::window::Window;
use crate::sweep;
use crate::trace::{Trace, TrackKind};

/// Returns the times of each thread in a window, in the order of the trace.
pub(crate) fn of(trace: &Trace, meanings: &Meanings, window: &Window) -> Vec<ThreadTimes> {
    let threads = trace.tracks_of(TrackKind::Thread);
    threads.map(|(track, _)| times(trace, meanings, track, window)).collect()
}

fn times(trace: &Trace, meanings: &Meanings, track: usize, window: &Window) -> ThreadTimes {
    let mut times = ThreadTimes {
        thread: trace.track_name(track),
        window_ns: window.length(),
        busy_ns: 0,
        waiting_for_device_ns: 0,
        waiting_for_data_ns: 0,
        idle_ns: 0,
    };
    for part in window.parts() {
        sweep::innermost(trace, track, *part, |start, end, innermost| {
            let of = match meanings.activity(trace, innermost) {
                Activity::Nothing => &mut times.idle_ns,
                Activity::WaitingForDevice => &mut times.waiting_for_device_ns,
                Activity::WaitingForData => &mut times.waiting_for_data_ns,
                _ => &mut times.busy_ns,
            };
            *of += end - start;
        });
    }
    times
}
