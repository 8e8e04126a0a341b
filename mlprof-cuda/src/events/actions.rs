//! Device time of actions: a region on the framework's streams around each action.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::region::Region;
use super::stream::Stream;
use crate::driver::Driver;
use mlprof_core::Action;
use mlprof_core::hook::{DeviceClock, DeviceWindow, RegionSink};
use mlprof_events::uncounted;

static STREAMS: RwLock<Vec<Stream<'static>>> = RwLock::new(Vec::new());
/// Set if any stream is measured. Threads read it without taking the lock.
static ARE_TIMED: AtomicBool = AtomicBool::new(false);

/// Times every action on `stream` as well, until the process ends, for profilers that [measure
/// devices](mlprof_core::SimpleProfiler::measure_devices). Threads without a CUDA context are not
/// timed.
///
/// The plugins call this function for the default streams of candle ([`Stream::per_thread`]) and
/// tch ([`Stream::default_stream`]). A program calls it for its own streams, such as that of
/// candle's `Device::new_cuda_with_stream`. See [`Stream::from_raw`]. The device time of an action
/// is the sum over all these streams.
///
/// *Cost*: none while no profiler measures devices. Otherwise it is that of a
/// [region](super::DeviceProfilerExt::profile_device) per action and stream.
pub fn measure_actions_on(stream: impl Into<Stream<'static>>) {
    let stream = stream.into();
    let mut streams = STREAMS.write().unwrap_or_else(PoisonError::into_inner);
    if !streams.contains(&stream) {
        uncounted(|| streams.push(stream));
        ARE_TIMED.store(true, Ordering::Relaxed);
    }
}

/// Device clock of actions, used by profilers that measure devices.
pub(crate) struct ActionClock;

/// Open regions of an action, one per stream.
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
        failure.map(|why| format!("no CUDA device time: {why}")).into_iter().collect()
    }
}
