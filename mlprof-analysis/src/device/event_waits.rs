//! Waits for events: streams that wait for work of other streams, and threads that wait.
//!
//! Kineto records the awaited event only with the option `enable_cuda_sync_events`. Otherwise,
//! waits are inferred:
//!
//! - The trace contains the calls that make a stream wait. The next work launched on an idle stream
//!   is assumed to have waited if it begins right after work of another stream ends.
//! - For work launched before the trace began, even these calls are missing. It is assumed to have
//!   waited if one of the two communicates.

use rustc_hash::FxHashMap;

use super::launch_order::LaunchOrder;
use super::work::DeviceWork;
use crate::answers::WorkKind;
use crate::classify::Meanings;
use crate::trace::{Category, Correlated, Slice, Trace};

/// Gaps shorter than this are the device's normal gaps between kernels, in nanoseconds. The
/// threshold is that of HolisticTraceAnalysis.
pub(crate) const BETWEEN: i64 = 30_000;

/// Event waits. All indices are indices of [`Trace::slices`].
#[derive(Debug, Default)]
pub(crate) struct EventWaits {
    /// For work that waited, the last work on another stream that it waited for.
    before: FxHashMap<u32, u32>,
    /// For wait slices, the last work on the stream when the event was recorded.
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
            // The wait of a thread has no waiting stream.
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

    /// Infers the waits of work if only the call is known that made its stream wait.
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

    /// Infers the waits of work with an unknown launch. Such work is assumed to have waited for
    /// work on another stream that ended just before it, if either of them communicates.
    /// Collectives wait for kernels, and kernels for collectives.
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

    /// Returns the last work on another stream that this work waited for.
    pub(crate) fn before(&self, work: u32) -> Option<u32> {
        self.before.get(&work).copied()
    }

    /// Returns the work that an event wait (`cuda_sync`) waited for.
    pub(crate) fn of_wait(&self, wait: u32) -> Option<u32> {
        self.of_waits.get(&wait).copied()
    }
}

/// Returns the work on another stream of the device that ended just before this work began. `None`
/// if its own stream was busy until then.
fn ended_before(trace: &Trace, work: &DeviceWork, stream: (i64, i64), place: u32) -> Option<u32> {
    let slice = |place: u32| &trace.slices[place as usize];
    let start = slice(place).start;
    let done = work.previous(trace, place).map_or(i64::MIN, |place| slice(place).end());
    let just_before = (start - BETWEEN - 1, start);
    (done < start - BETWEEN).then(|| work.last_ended_on_another(trace, stream, just_before))?
}
