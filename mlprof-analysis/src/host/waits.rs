//! Device work that a call waited for before it returned.

use rustc_hash::FxHashMap;

use crate::classify::Meanings;
use crate::device::event_waits::EventWaits;
use crate::device::launch_order::LaunchOrder;
use crate::device::work::DeviceWork;
use crate::trace::{Category, Correlated, Slice, Trace};
use crate::vendor::Vendor;

/// Lookup of waits. All indices are indices of [`Trace::slices`].
pub(crate) struct Waits<'a> {
    trace: &'a Trace,
    meanings: &'a Meanings,
    correlations: &'a FxHashMap<u32, Correlated>,
    work: &'a DeviceWork,
    order: LaunchOrder,
    pub(crate) events: EventWaits,
    /// Time and device of each launch, by thread. Empty if the trace has a single device.
    devices: FxHashMap<u32, Vec<(i64, i64)>>,
}

impl<'a> Waits<'a> {
    pub(crate) fn new(
        trace: &'a Trace,
        meanings: &'a Meanings,
        correlations: &'a FxHashMap<u32, Correlated>,
        work: &'a DeviceWork,
    ) -> Self {
        let order = LaunchOrder::of(trace, work);
        let events = EventWaits::of(trace, meanings, correlations, work, &order);
        let devices = match work.devices.len() {
            0 | 1 => FxHashMap::default(),
            _ => devices_by_thread(trace, correlations),
        };
        Self { trace, meanings, correlations, work, order, events, devices }
    }

    fn slice(&self, place: u32) -> &'a Slice {
        &self.trace.slices[place as usize]
    }

    /// Returns the work of another stream that this device work waited for.
    pub(crate) fn of_stream(&self, work: u32) -> Option<u32> {
        self.events.before(work)
    }

    /// Returns the device work that a call waited for if it had not returned at `now`. This is the
    /// call's own work, or the last work of the stream or device that the call names.
    pub(crate) fn of_call(&self, call: &Slice, now: i64) -> Option<u32> {
        if !call.category.is_runtime() {
            return None;
        }
        let during = (call.start, now);
        let own = self.correlations.get(&call.correlation).filter(|_| call.correlation != 0);
        let own = own.map_or(&[][..], |own| &own.device);
        let waits = self.meanings.waits_for_device(call);
        let ended = own.iter().filter(|place| {
            let slice = self.slice(**place);
            let is_during = slice.end() > during.0 && slice.end() <= during.1;
            let is_waited_for = waits || self.is_staged_copy(call, slice);
            slice.category.is_device_work() && slice.duration > 0 && is_during && is_waited_for
        });
        if let Some(last) = ended.max_by_key(|place| self.slice(**place).end()) {
            return Some(*last);
        }
        if !waits {
            let launched = own.iter().find(|it| self.slice(**it).category.is_device_work());
            return launched.and_then(|launched| self.for_a_place(call, *launched, during));
        }
        let wait = self.wait_of(call);
        if let Some(source) = wait.and_then(|wait| self.events.of_wait(wait)) {
            let end = self.slice(source).end();
            return (during.0 < end && end <= during.1).then_some(source);
        }
        self.work.last_ended(self.trace, self.awaited(call), during)
    }

    /// Returns the last work launched on each stream that a call waits for. It may have ended
    /// before the call.
    pub(crate) fn all_of_call(&self, call: &Slice) -> Vec<u32> {
        if !self.meanings.waits_for_device(call) {
            return Vec::new();
        }
        if let Some(source) = self.wait_of(call).and_then(|wait| self.events.of_wait(wait)) {
            return vec![source];
        }
        let (device, stream) = self.awaited(call);
        let devices = self.work.devices.iter();
        let devices = devices.filter(|it| device.is_none_or(|number| it.number == number));
        let streams = devices.flat_map(|device| {
            device.streams.iter().map(move |stream| (device.number, stream.number))
        });
        let streams = streams.filter(|(_, it)| stream.is_none_or(|number| *it == number));
        streams.filter_map(|stream| self.order.last_before(stream, call.start)).collect()
    }

    /// Returns the wait slice (`cuda_sync`) of a call.
    fn wait_of(&self, call: &Slice) -> Option<u32> {
        let own = self.correlations.get(&call.correlation).filter(|_| call.correlation != 0)?;
        let is_wait = |place: &&u32| self.slice(**place).category == Category::CudaSync;
        own.device.iter().find(is_wait).copied()
    }

    /// Returns the device and stream that a call waits for, where they are known.
    fn awaited(&self, call: &Slice) -> (Option<i64>, Option<i64>) {
        let wait = self.wait_of(call);
        let details = wait.and_then(|wait| self.trace.details(self.slice(wait)));
        // The stream is -1 if the call waits for a whole device or context, or for an event.
        let stream = details.and_then(|it| it.stream.filter(|it| *it >= 0).or(it.event.stream));
        let device = match wait {
            Some(wait) => Some(self.trace.device_of(self.slice(wait))),
            None => self.device_of_thread(call),
        };
        let device =
            device.filter(|number| self.work.devices.iter().any(|it| it.number == *number));
        (device, stream.map(i64::from))
    }

    /// Returns `true` if an asynchronous copy call returns only after the copy, because its host
    /// memory is pageable.
    fn is_staged_copy(&self, call: &Slice, copy: &Slice) -> bool {
        copy.category == Category::GpuMemcpy
            && self.trace.name(call).contains("Memcpy")
            && self.trace.name(copy).contains("Pageable")
    }

    /// Returns the work whose end made room for a launch in the full queue of its stream.
    fn for_a_place(&self, call: &Slice, launched: u32, during: (i64, i64)) -> Option<u32> {
        let (device, stream) = self.work.stream_number(self.trace, launched)?;
        let is_cuda = Vendor::of_call(self.trace.name(call)) == Some(Vendor::Nvidia);
        if !is_cuda || !self.order.found_no_place((device, stream), call) {
            return None;
        }
        self.work.last_ended(self.trace, (Some(device), Some(stream)), during)
    }

    /// Returns the device that the thread of a call used last before the call.
    fn device_of_thread(&self, call: &Slice) -> Option<i64> {
        let launches = self.devices.get(&thread(self.trace, call))?;
        let after = launches.partition_point(|(time, _)| *time < call.start);
        Some(launches[after.checked_sub(1)?].1)
    }
}

/// Returns the first track of a slice's thread.
fn thread(trace: &Trace, slice: &Slice) -> u32 {
    trace.tracks[slice.track as usize].overlaps.unwrap_or(slice.track)
}

fn devices_by_thread(
    trace: &Trace,
    correlations: &FxHashMap<u32, Correlated>,
) -> FxHashMap<u32, Vec<(i64, i64)>> {
    let mut found: FxHashMap<u32, Vec<(i64, i64)>> = FxHashMap::default();
    for of in correlations.values() {
        let work = of.device.iter().map(|place| &trace.slices[*place as usize]);
        let work = work.clone().find(|slice| slice.category.is_device_work());
        if let (Some(call), Some(work)) = (of.call, work) {
            let call = &trace.slices[call as usize];
            let launch = (call.start, trace.device_of(work));
            found.entry(thread(trace, call)).or_default().push(launch);
        }
    }
    found.values_mut().for_each(|launches| launches.sort_unstable());
    found
}
