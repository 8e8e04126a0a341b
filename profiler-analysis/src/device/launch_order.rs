//! Work of streams by when it was launched, which is its order on the stream.

use rustc_hash::FxHashMap;

use super::work::DeviceWork;
use crate::trace::Trace;

/// Of all streams, by device and stream. What no call is known of is not in it.
#[derive(Debug)]
pub(crate) struct LaunchOrder(FxHashMap<(i64, i64), Launches>);

#[derive(Debug, Default)]
struct Launches {
    /// When the call began, and what it launched.
    work: Vec<(i64, u32)>,
    /// When it began to run.
    begun: Vec<i64>,
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
            for (call, place) in launched {
                launches.work.push((start(call), place));
                launches.begun.push(start(place));
            }
            // What one call launched stays in the order in which it ran.
            launches.work.sort_by_key(|(launched, _)| *launched);
            (key, launches)
        });
        Self(streams.collect())
    }

    /// All work with its device and stream, and with when what comes before it was launched.
    pub(crate) fn each(&self) -> impl Iterator<Item = ((i64, i64), i64, (i64, u32))> {
        self.0.iter().flat_map(|(stream, launches)| {
            let before = launches.work.iter().map(|(launched, _)| *launched);
            let before = std::iter::once(i64::MIN).chain(before);
            before.zip(&launches.work).map(|(before, work)| (*stream, before, *work))
        })
    }

    /// The last work that was launched on a stream before this time.
    pub(crate) fn last_before(&self, stream: (i64, i64), time: i64) -> Option<u32> {
        let work = &self.0.get(&stream)?.work;
        let after = work.partition_point(|(launched, _)| *launched < time);
        Some(work[after.checked_sub(1)?].1)
    }

    /// The first work that was launched on a stream at this time or after it.
    pub(crate) fn first_since(&self, stream: (i64, i64), time: i64) -> Option<u32> {
        let work = &self.0.get(&stream)?.work;
        let first = work.partition_point(|(launched, _)| *launched < time);
        work.get(first).map(|(_, place)| *place)
    }

    /// How much had been launched on a stream by this time and had not begun.
    pub(crate) fn waiting(&self, stream: (i64, i64), time: i64) -> usize {
        let Some(launches) = self.0.get(&stream) else { return 0 };
        let launched = launches.work.partition_point(|(launched, _)| *launched < time);
        launched.saturating_sub(launches.begun.partition_point(|begun| *begun <= time))
    }
}
