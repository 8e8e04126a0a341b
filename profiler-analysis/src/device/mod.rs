//! What devices did.

mod copies;
pub(crate) mod event_waits;
pub(crate) mod launch_order;
mod launches;
mod queues;
mod sequences;
mod streams;
mod times;
mod union;
pub(crate) mod work;

use rustc_hash::FxHashMap;

use self::work::DeviceWork;
use crate::answers::DeviceAnswers;
use crate::meaning::Meanings;
use crate::trace::{Correlated, Trace};

/// All answers about each device, by their numbers.
pub(crate) fn of(
    trace: &Trace,
    meanings: &Meanings,
    correlations: &FxHashMap<u32, Correlated>,
    work: &DeviceWork,
    window: (i64, i64),
) -> Vec<DeviceAnswers> {
    let mut graphs = launches::graphs(trace, meanings, correlations);
    let devices = work.devices.iter().map(|device| DeviceAnswers {
        device: device.number,
        times: times::of(trace, meanings, device, window),
        streams: device.streams.iter().map(|stream| streams::of(trace, work, stream)).collect(),
        overlap: times::overlaps(trace, meanings, device),
        launches: launches::of(trace, work, device),
        queues: device.streams.iter().filter_map(|it| queues::of(trace, work, it)).collect(),
        copies: copies::of(trace, device),
        sequences: sequences::of(trace, work, device),
        graphs: graphs.remove(&device.number).unwrap_or_default(),
    });
    devices.collect()
}
