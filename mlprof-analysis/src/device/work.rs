//! Device work by stream, and its launch calls.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::window::Window;
use crate::trace::{Correlated, NONE, Slice, Trace, TrackKind};

/// Kernels, copies and fills of all devices, as indices of [`Trace::slices`].
#[derive(Debug)]
pub(crate) struct DeviceWork {
    pub(crate) devices: Vec<Device>,
    /// Launch call and position on its stream of each slice, by slice index.
    of: FxHashMap<u32, (u32, u32)>,
    stream_of: FxHashMap<u32, (usize, usize)>,
}

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) number: i64,
    pub(crate) streams: Vec<Stream>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) number: i64,
    /// First track of the stream, not a track of crossing slices.
    pub(crate) track: u32,
    /// Work in order of its starts.
    pub(crate) work: Vec<u32>,
    /// Work in order of its ends.
    by_end: Vec<u32>,
}

impl DeviceWork {
    pub(crate) fn of(trace: &Trace, correlations: &FxHashMap<u32, Correlated>) -> Self {
        let mut streams: BTreeMap<(i64, i64), Stream> = BTreeMap::new();
        let tracks = (0_u32..).zip(&trace.tracks);
        for (place, track) in tracks.filter(|(_, track)| track.kind == TrackKind::Stream) {
            let work = (track.slices.start as u32..track.slices.end as u32)
                .filter(|place| trace.slices[*place as usize].category.is_device_work());
            let work: Vec<u32> = work.collect();
            if work.is_empty() {
                continue;
            }
            let base = track.overlaps.unwrap_or(place);
            let device = trace.processes[track.process as usize].number.unwrap_or(-1);
            let number = trace.tracks[base as usize].number.unwrap_or(-1);
            let new = Stream { number, track: base, work: Vec::new(), by_end: Vec::new() };
            streams.entry((device, number)).or_insert(new).work.extend(work);
        }
        let (mut devices, mut of) = (Vec::<Device>::new(), FxHashMap::default());
        let mut stream_of = FxHashMap::default();
        for ((number, _), mut stream) in streams {
            let slice = |place: &u32| &trace.slices[*place as usize];
            stream.work.sort_by_key(|place| (slice(place).start, slice(place).end()));
            stream.by_end = stream.work.clone();
            stream.by_end.sort_by_key(|place| slice(place).end());
            for (position, place) in (0_u32..).zip(&stream.work) {
                let call = correlations.get(&slice(place).correlation).and_then(|it| it.call);
                of.insert(*place, (call.unwrap_or(NONE), position));
            }
            if devices.last().is_none_or(|device| device.number != number) {
                devices.push(Device { number, streams: Vec::new() });
            }
            let device = devices.len() - 1;
            stream_of.insert(stream.track, (device, devices[device].streams.len()));
            devices[device].streams.push(stream);
        }
        Self { devices, of, stream_of }
    }

    /// Returns the times in which any device worked.
    pub(crate) fn busy(&self, trace: &Trace) -> Window {
        let slices = self.devices.iter().flat_map(|device| device.slices(trace));
        Window::new(slices.map(|slice| (slice.start, slice.end())).collect())
    }

    /// Returns the launch call of a slice.
    pub(crate) fn call(&self, place: u32) -> Option<u32> {
        self.of.get(&place).map(|(call, _)| *call).filter(|call| *call != NONE)
    }

    fn stream(&self, trace: &Trace, place: u32) -> Option<&Stream> {
        let track = trace.slices[place as usize].track;
        let track = trace.tracks[track as usize].overlaps.unwrap_or(track);
        let (device, stream) = self.stream_of.get(&track)?;
        Some(&self.devices[*device].streams[*stream])
    }

    /// Returns the device id and stream id of a slice.
    pub(crate) fn stream_number(&self, trace: &Trace, place: u32) -> Option<(i64, i64)> {
        let device = trace.device_of(&trace.slices[place as usize]);
        Some((device, self.stream(trace, place)?.number))
    }

    /// Returns the previous work on the same stream.
    pub(crate) fn previous(&self, trace: &Trace, place: u32) -> Option<u32> {
        let (_, position) = self.of.get(&place)?;
        let before = position.checked_sub(1)?;
        self.stream(trace, place)?.work.get(before as usize).copied()
    }

    /// Returns the last work to end after `from` and not after `to`. `device` and `stream` restrict
    /// the search if given.
    pub(crate) fn last_ended(
        &self,
        trace: &Trace,
        (device, stream): (Option<i64>, Option<i64>),
        (from, to): (i64, i64),
    ) -> Option<u32> {
        let devices =
            self.devices.iter().filter(|it| device.is_none_or(|number| it.number == number));
        let streams = devices.flat_map(|device| &device.streams);
        let streams = streams.filter(|it| stream.is_none_or(|number| it.number == number));
        let last = streams.filter_map(|stream| stream.last_ended(trace, (from, to)));
        last.max_by_key(|place| trace.slices[*place as usize].end())
    }

    /// Returns the last work to end after `from` and not after `to` on another stream of the
    /// device.
    pub(crate) fn last_ended_on_another(
        &self,
        trace: &Trace,
        (device, stream): (i64, i64),
        (from, to): (i64, i64),
    ) -> Option<u32> {
        let devices = self.devices.iter().filter(|it| it.number == device);
        let streams = devices.flat_map(|it| &it.streams).filter(|it| it.number != stream);
        let last = streams.filter_map(|stream| stream.last_ended(trace, (from, to)));
        last.max_by_key(|place| trace.slices[*place as usize].end())
    }
}

impl Stream {
    fn last_ended(&self, trace: &Trace, (from, to): (i64, i64)) -> Option<u32> {
        let slice = |place: &u32| -> &Slice { &trace.slices[*place as usize] };
        let until = self.by_end.partition_point(|place| slice(place).end() <= to);
        let ended = self.by_end[..until].iter().rev();
        let mut ended = ended.take_while(|place| slice(place).end() > from);
        // Work of zero duration cannot make anything wait.
        ended.find(|place| slice(place).duration > 0).copied()
    }

    /// Returns the slices of the stream in order of their starts.
    pub(crate) fn slices<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = &'a Slice> {
        self.work.iter().map(|place| &trace.slices[*place as usize])
    }
}

impl Device {
    /// Returns the slices of all streams, one stream after the other.
    pub(crate) fn slices<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = &'a Slice> {
        self.streams.iter().flat_map(|stream| stream.slices(trace))
    }
}
