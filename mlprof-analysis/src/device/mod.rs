//! Analysis of devices.

pub(crate) mod collectives;
mod copies;
mod earlier;
pub(crate) mod event_waits;
mod kernels;
pub(crate) mod launch_order;
mod launches;
mod queues;
mod sequences;
mod streams;
mod times;
pub(crate) mod union;
pub(crate) mod window;
pub(crate) mod work;

use rustc_hash::FxHashMap;

pub(crate) use self::event_waits::BETWEEN;

use self::collectives::Collectives;
use self::event_waits::EventWaits;
use self::window::Window;
use self::work::{Device, DeviceWork};
use crate::answers::{CollectiveTimes, DeviceAnswers};
use crate::classify::Meanings;
use crate::recomputed;
use crate::trace::{Correlated, Trace};

/// Returns all results for each device in the window, ordered by device id.
pub(crate) fn of(
    trace: &Trace,
    meanings: &Meanings,
    correlations: &FxHashMap<u32, Correlated>,
    work: &DeviceWork,
    waits: &EventWaits,
    window: &Window,
) -> Vec<DeviceAnswers> {
    let mut graphs = launches::graphs(trace, meanings, correlations, window);
    let causes = streams::Causes { trace, meanings, work, waits, window };
    let is_recomputed = recomputed::of(trace);
    let outermost_ops = sequences::outermost_ops(trace);
    let devices = work.devices.iter().map(|device| {
        let (kernels, categories) =
            kernels::of(trace, meanings, &is_recomputed, work, device, window);
        DeviceAnswers {
            device: device.number,
            kernels,
            categories,
            times: times::of(trace, meanings, device, window),
            streams: device
                .streams
                .iter()
                .filter_map(|stream| streams::of(&causes, stream))
                .collect(),
            overlap: times::overlaps(trace, meanings, device, window),
            launches: launches::of(trace, work, device, window),
            queues: device
                .streams
                .iter()
                .filter_map(|stream| queues::of(trace, work, stream, window))
                .collect(),
            copies: copies::of(trace, device, window),
            collectives: collectives(trace, meanings, correlations, device, window),
            sequences: sequences::of(trace, &outermost_ops, meanings, work, device, window),
            graphs: graphs.remove(&device.number).unwrap_or_default(),
        }
    });
    devices.collect()
}

/// Returns the collectives of a device that began in the window, grouped by message.
fn collectives(
    trace: &Trace,
    meanings: &Meanings,
    correlations: &FxHashMap<u32, Correlated>,
    device: &Device,
    window: &Window,
) -> Vec<CollectiveTimes> {
    let found = Collectives::of(trace, meanings, correlations, device);
    let inside = found.all.iter().filter(|one| window.contains(one.start));
    let durations = inside.map(|one| (&found.kinds[one.kind], one.end - one.start));
    collectives::rows(durations)
}
