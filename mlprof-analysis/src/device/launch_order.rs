//! Work of streams by when it was launched, which is its order on the stream.

use rustc_hash::{FxHashMap, FxHashSet};

use super::work::DeviceWork;
use crate::trace::{Slice, Trace};
use mlprof_report::ranks::median;

/// CUDA has 1,024 places for the launches of a stream that have not begun. A few are taken by what
/// traces do not show: 1,021 kernels were seen. HIP's queue grows.
const FULL: usize = 1000;
const PLACES: usize = 1024;
/// A launch that waits for a place takes more than this many times as long as one that finds one.
const LONG: i64 = 2;

/// Of all streams, by device and stream. What no call is known of is not in it.
#[derive(Debug)]
pub(crate) struct LaunchOrder {
    streams: FxHashMap<(i64, i64), Launches>,
    /// The median duration of launching calls that found a place in a queue that was full at times,
    /// in nanoseconds.
    usual_call: i64,
}

#[derive(Debug, Default)]
struct Launches {
    /// When the call began, and what it launched.
    work: Vec<(i64, u32)>,
    /// When each call began and how long it took. A call that launches a graph takes one place in
    /// the queue.
    calls: Vec<(i64, i64)>,
    /// When the first work of each call began to run.
    begun: Vec<i64>,
    /// The most calls at once whose work had not begun.
    most: usize,
}

impl Launches {
    fn waiting(&self, time: i64) -> usize {
        let launched = self.calls.partition_point(|(launched, _)| *launched < time);
        launched.saturating_sub(self.begun.partition_point(|begun| *begun <= time))
    }
}

impl LaunchOrder {
    pub(crate) fn of(trace: &Trace, work: &DeviceWork) -> Self {
        let streams = work.devices.iter().flat_map(|device| {
            device.streams.iter().map(|stream| ((device.number, stream.number), stream))
        });
        let streams = streams.map(|(key, stream)| {
            let launched =
                stream.work.iter().filter_map(|place| Some((work.call(*place)?, *place)));
            let start = |place: u32| trace.slices[place as usize].start;
            let mut launches = Launches::default();
            // The first work of a call comes first.
            let mut seen = FxHashSet::default();
            for (call, place) in launched {
                launches.work.push((start(call), place));
                if seen.insert(call) {
                    launches.calls.push((start(call), trace.slices[call as usize].duration));
                    launches.begun.push(start(place));
                }
            }
            launches.calls.sort_unstable();
            launches.begun.sort_unstable();
            let waiting = launches.calls.iter().map(|(time, _)| launches.waiting(*time + 1));
            launches.most = waiting.max().unwrap_or(0);
            // What one call launched stays in the order in which it ran.
            launches.work.sort_by_key(|(launched, _)| *launched);
            (key, launches)
        });
        let streams: FxHashMap<_, Launches> = streams.collect();
        let full = streams.values().filter(|launches| launches.most >= FULL);
        let calls = full.flat_map(|launches| {
            let found_a_place = |call: &&(i64, i64)| launches.waiting(call.0) < FULL;
            launches.calls.iter().filter(found_a_place).map(|(_, duration)| *duration)
        });
        let usual_call = median(calls.collect());
        Self { streams, usual_call }
    }

    /// All work with its device and stream, and with when what comes before it was launched.
    pub(crate) fn each(&self) -> impl Iterator<Item = ((i64, i64), i64, (i64, u32))> {
        self.streams.iter().flat_map(|(stream, launches)| {
            let before = launches.work.iter().map(|(launched, _)| *launched);
            let before = std::iter::once(i64::MIN).chain(before);
            before.zip(&launches.work).map(|(before, work)| (*stream, before, *work))
        })
    }

    /// The last work that was launched on a stream before this time.
    pub(crate) fn last_before(&self, stream: (i64, i64), time: i64) -> Option<u32> {
        let work = &self.streams.get(&stream)?.work;
        let after = work.partition_point(|(launched, _)| *launched < time);
        Some(work[after.checked_sub(1)?].1)
    }

    /// The first work that was launched on a stream at this time or after it.
    pub(crate) fn first_since(&self, stream: (i64, i64), time: i64) -> Option<u32> {
        let work = &self.streams.get(&stream)?.work;
        let first = work.partition_point(|(launched, _)| *launched < time);
        work.get(first).map(|(_, place)| *place)
    }

    /// Whether a call found CUDA's queue of a stream full: it took longer than calls that find a
    /// place.
    pub(crate) fn found_no_place(&self, stream: (i64, i64), call: &Slice) -> bool {
        let Some(launches) = self.streams.get(&stream) else { return false };
        // A queue that has held more is not of this kind.
        (FULL..=PLACES).contains(&launches.most)
            && launches.waiting(call.start) >= FULL
            && call.duration > LONG * self.usual_call
    }
}
