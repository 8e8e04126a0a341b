//! Work of streams in launch order, which is its order of execution on the stream.

use rustc_hash::{FxHashMap, FxHashSet};

use super::work::DeviceWork;
use crate::trace::{Slice, Trace};
use mlprof_report::ranks::median;

/// CUDA's queue of pending launches has 1,024 entries per stream. Some are used by launches that
/// traces do not show, so at most 1,021 pending kernels were observed. HIP's queue grows without a
/// limit.
const FULL: usize = 1000;
const PLACES: usize = 1024;
/// A launch that waits for a queue entry takes more than this multiple of the usual launch time.
const LONG: i64 = 2;

/// Launch order of all streams, by device and stream. Work with an unknown launch is omitted.
#[derive(Debug)]
pub(crate) struct LaunchOrder {
    streams: FxHashMap<(i64, i64), Launches>,
    /// Median duration in nanoseconds of launch calls that found a free entry in a queue that was
    /// full at other times.
    usual_call: i64,
}

#[derive(Debug, Default)]
struct Launches {
    /// Start of the launch call, and index of the launched work.
    work: Vec<(i64, u32)>,
    /// Start and duration of each call. A graph launch takes one queue entry.
    calls: Vec<(i64, i64)>,
    /// Start of the first work of each call.
    begun: Vec<i64>,
    /// Maximum number of pending calls.
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
            // The sort is stable, so work of one call keeps its order of execution.
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

    /// Returns all work with its device and stream, and with the launch time of the previous work
    /// on the stream.
    pub(crate) fn each(&self) -> impl Iterator<Item = ((i64, i64), i64, (i64, u32))> {
        self.streams.iter().flat_map(|(stream, launches)| {
            let before = launches.work.iter().map(|(launched, _)| *launched);
            let before = std::iter::once(i64::MIN).chain(before);
            before.zip(&launches.work).map(|(before, work)| (*stream, before, *work))
        })
    }

    /// Returns the last work launched on a stream before a time.
    pub(crate) fn last_before(&self, stream: (i64, i64), time: i64) -> Option<u32> {
        let work = &self.streams.get(&stream)?.work;
        let after = work.partition_point(|(launched, _)| *launched < time);
        Some(work[after.checked_sub(1)?].1)
    }

    /// Returns the first work launched on a stream at or after a time.
    pub(crate) fn first_since(&self, stream: (i64, i64), time: i64) -> Option<u32> {
        let work = &self.streams.get(&stream)?.work;
        let first = work.partition_point(|(launched, _)| *launched < time);
        work.get(first).map(|(_, place)| *place)
    }

    /// Returns `true` if a call found CUDA's queue of a stream full. Such a call takes longer than
    /// calls that find a free entry.
    pub(crate) fn found_no_place(&self, stream: (i64, i64), call: &Slice) -> bool {
        let Some(launches) = self.streams.get(&stream) else { return false };
        // A queue that held more entries is not CUDA's queue.
        (FULL..=PLACES).contains(&launches.most)
            && launches.waiting(call.start) >= FULL
            && call.duration > LONG * self.usual_call
    }
}
