//! Device time of actions: a region of the streams that a framework works on, around each action.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::region::Region;
use super::stream::Stream;
use crate::driver::Driver;
use mlprof_core::Action;
use mlprof_core::hook::{DeviceClock, DeviceWindow, RegionSink};
use mlprof_events::uncounted;

static STREAMS: RwLock<Vec<Stream<'static>>> = RwLock::new(Vec::new());
/// Whether some stream is timed, for threads that take no lock.
static ARE_TIMED: AtomicBool = AtomicBool::new(false);

/// Has every action timed on `stream`, too, for profilers that [measure
/// devices](mlprof_core::SimpleProfiler::measure_devices), from here to the end of the process. A
/// thread that works in no context of CUDA is not timed.
///
/// The plugins call it for the streams that candle ([`Stream::per_thread`]) and tch
/// ([`Stream::default_stream`]) use by themselves. A program calls it for a stream of its own, such as that of
/// candle's `Device::new_cuda_with_stream`: see [`Stream::from_raw`]. The time of an action is then the sum
/// over all streams.
///
/// *Cost*: none while no profiler measures devices; then, per action and stream, that of a
/// [region](super::DeviceProfilerExt::profile_device).
pub fn measure_actions_on(stream: impl Into<Stream<'static>>) {
    let stream = stream.into();
    let mut streams = STREAMS.write().unwrap_or_else(PoisonError::into_inner);
    if !streams.contains(&stream) {
        uncounted(|| streams.push(stream));
        ARE_TIMED.store(true, Ordering::Relaxed);
    }
}

/// The clock of actions, which a profiler asks that measures devices.
pub(crate) struct ActionClock;

/// The regions of an action, one per stream.
struct ActionRegions {
    _each: Vec<Region<'static>>,
}

impl DeviceWindow for ActionRegions {}

impl DeviceClock for ActionClock {
    fn open(&self, action: Action, sink: &Arc<dyn RegionSink>) -> Option<Box<dyn DeviceWindow>> {
        if !ARE_TIMED.load(Ordering::Relaxed) {
            return None;
        }
        let driver = Driver::get().ok()?;
        let streams = STREAMS.read().unwrap_or_else(PoisonError::into_inner).clone();
        let works_there = |stream: &Stream<'static>| {
            stream.context(driver).is_ok_and(|context| !context.is_null())
        };
        let timed = streams.into_iter().filter(works_there);
        let regions: Vec<_> =
            timed.filter_map(|stream| Region::open(action, stream, sink.clone())).collect();
        (!regions.is_empty())
            .then(|| Box::new(ActionRegions { _each: regions }) as Box<dyn DeviceWindow>)
    }

    fn notes(&self) -> Vec<String> {
        if !ARE_TIMED.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let failure = Driver::get().err();
        failure.map(|why| format!("no device time of CUDA: {why}")).into_iter().collect()
    }
}
