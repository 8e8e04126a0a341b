//! What waited for events: streams for the work of other streams, and threads.
//!
//! Kineto says which event is waited for if it is asked to (`enable_cuda_sync_events`). Where it does not, there are the
//! calls that tell a stream to wait: what is launched next on a stream that does nothing, and begins as soon as something
//! has ended on another one, is taken to have waited for that. Of what was launched before the
//! trace began not even these calls are known: it is taken to have waited where one of the two
//! communicates.

use rustc_hash::FxHashMap;

use super::launch_order::LaunchOrder;
use super::work::DeviceWork;
use crate::answers::WorkKind;
use crate::meaning::Meanings;
use crate::trace::{Category, Correlated, Slice, Trace};

/// Gaps below this are what a device needs between kernels: HolisticTraceAnalysis's threshold, in
/// nanoseconds.
pub(crate) const BETWEEN: i64 = 30_000;

/// Places of work of devices in [`Trace::slices`].
#[derive(Debug, Default)]
pub(crate) struct EventWaits {
    /// By work of a stream that waited: the last of what it waited for.
    before: FxHashMap<u32, u32>,
    /// By waits: what was on the stream when the event was recorded.
    of_waits: FxHashMap<u32, u32>,
}

impl EventWaits {
    pub(crate) fn of(
        trace: &Trace,
        meanings: &Meanings,
        correlations: &FxHashMap<u32, Correlated>,
        work: &DeviceWork,
        order: &LaunchOrder,
    ) -> Self {
        let call = |number: u32| -> Option<&Slice> {
            let call = correlations.get(&number).filter(|_| number != 0)?.call?;
            Some(&trace.slices[call as usize])
        };
        let mut found = Self::default();
        let waits = (0_u32..).zip(&trace.slices);
        for (place, wait) in waits.filter(|(_, slice)| slice.category == Category::CudaSync) {
            let Some(details) = trace.details(wait) else { continue };
            let device = trace.device_of(wait);
            let source = details.event.stream.and_then(|stream| {
                let recorded = call(details.event.recorded_by)?.start;
                order.last_before((device, stream.into()), recorded)
            });
            let Some(source) = source else { continue };
            found.of_waits.insert(place, source);
            // A thread that waits is no stream.
            let Some(stream) = details.stream.filter(|stream| *stream >= 0) else { continue };
            let since = call(wait.correlation).map_or(wait.start, |call| call.start);
            if let Some(next) = order.first_since((device, stream.into()), since) {
                let last = found.before.entry(next).or_insert(source);
                let end = |place: u32| trace.slices[place as usize].end();
                *last = if end(*last) < end(source) { source } else { *last };
            }
        }
        found.find_untold(trace, work, order);
        found.find_unlaunched(trace, meanings, work);
        found
    }

    /// What work waited for of which only the call is known that told its stream to wait.
    fn find_untold(&mut self, trace: &Trace, work: &DeviceWork, order: &LaunchOrder) {
        let tells_to_wait = trace.names.map(|name| name.contains("StreamWaitEvent"));
        let calls = trace.slices.iter().filter(|slice| slice.category.is_runtime());
        let calls = calls.filter(|slice| tells_to_wait[slice.name]);
        let mut calls: Vec<i64> = calls.map(|slice| slice.start).collect();
        calls.sort_unstable();
        for (stream, previous, (launched, place)) in order.each() {
            let before = |time: i64| calls.partition_point(|call| *call < time);
            let is_told = before(previous) < before(launched);
            if is_told
                && !self.before.contains_key(&place)
                && let Some(last) = ended_before(trace, work, stream, place)
            {
                self.before.insert(place, last);
            }
        }
    }

    /// What work waited for whose launch the trace does not have: what ended just before it on
    /// another stream, if either of them communicates, since collectives wait for kernels and
    /// kernels for collectives.
    fn find_unlaunched(&mut self, trace: &Trace, meanings: &Meanings, work: &DeviceWork) {
        let communicates = |place: u32| {
            meanings.work(&trace.slices[place as usize]) == Some(WorkKind::Communication)
        };
        for device in &work.devices {
            for stream in &device.streams {
                let unlaunched = stream.work.iter().filter(|place| work.call(**place).is_none());
                for place in unlaunched {
                    let stream = (device.number, stream.number);
                    if !self.before.contains_key(place)
                        && let Some(last) = ended_before(trace, work, stream, *place)
                        && (communicates(*place) || communicates(last))
                    {
                        self.before.insert(*place, last);
                    }
                }
            }
        }
    }

    /// What this work of a device waited for on other streams: what of it ended last.
    pub(crate) fn before(&self, work: u32) -> Option<u32> {
        self.before.get(&work).copied()
    }

    /// What a wait (`cuda_sync`) for an event waited for.
    pub(crate) fn of_wait(&self, wait: u32) -> Option<u32> {
        self.of_waits.get(&wait).copied()
    }
}

/// What ended on another stream of its device just before this work began, if its own stream did
/// nothing by then.
fn ended_before(trace: &Trace, work: &DeviceWork, stream: (i64, i64), place: u32) -> Option<u32> {
    let slice = |place: u32| &trace.slices[place as usize];
    let start = slice(place).start;
    let done = work.previous(trace, place).map_or(i64::MIN, |place| slice(place).end());
    let just_before = (start - BETWEEN - 1, start);
    (done < start - BETWEEN).then(|| work.last_ended_on_another(trace, stream, just_before))?
}
