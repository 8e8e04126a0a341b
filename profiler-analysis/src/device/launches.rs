//! From calls to what they launched.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::window::Window;
use super::work::{Device, DeviceWork};
use crate::answers::{GraphLaunch, LaunchStatistics};
use crate::meaning::Meanings;
use crate::trace::{Category, Correlated, Name, Trace};

/// HolisticTraceAnalysis's thresholds, in nanoseconds.
const LONG_CALL: i64 = 50_000;
const LONG_DELAY: i64 = 100_000;

/// Of what was launched in the window; where the call is not known, of what began in it.
pub(super) fn of(
    trace: &Trace,
    work: &DeviceWork,
    device: &Device,
    window: &Window,
) -> LaunchStatistics {
    let mut launches = LaunchStatistics::default();
    let mut delays = Vec::new();
    let places = device.streams.iter().flat_map(|stream| &stream.work);
    for place in places {
        let slice = &trace.slices[*place as usize];
        let Some(call) = work.call(*place) else {
            launches.unknown += u64::from(window.contains(slice.start));
            continue;
        };
        let call = &trace.slices[call as usize];
        if !window.contains(call.start) {
            continue;
        }
        let delay = (slice.start - call.end()).max(0);
        launches.launched += 1;
        launches.shorter_than_call += u64::from(slice.duration < call.duration);
        launches.long_calls += u64::from(call.duration > LONG_CALL);
        launches.long_delays += u64::from(delay > LONG_DELAY);
        delays.push(delay);
    }
    delays.sort_unstable();
    let at = |share: f64| {
        let last = delays.len().saturating_sub(1);
        delays.get((last as f64 * share).ceil() as usize).copied().unwrap_or(0)
    };
    launches.delay_median_ns = delays.get(delays.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    launches.delay_p90_ns = at(0.9);
    launches.delay_max_ns = at(1.0);
    launches
}

/// What calls of one name launched.
#[derive(Default)]
struct Sum {
    launches: u64,
    kernels: u64,
    time: i64,
}

/// Calls in the window that launched several things at once, by device; the most device time first.
pub(super) fn graphs(
    trace: &Trace,
    meanings: &Meanings,
    correlations: &FxHashMap<u32, Correlated>,
    window: &Window,
) -> FxHashMap<i64, Vec<GraphLaunch>> {
    let mut sums: BTreeMap<(i64, Name, Option<Name>), Sum> = BTreeMap::new();
    for of in correlations.values() {
        let Some(call) = of.call else { continue };
        let slice = &trace.slices[call as usize];
        let is_graph = trace.name(slice).contains("GraphLaunch");
        // Nearly all.
        if (of.device.len() < 2 && !is_graph) || !window.contains(slice.start) {
            continue;
        }
        let mut by_device: BTreeMap<i64, (u64, i64)> = BTreeMap::new();
        for place in of.device.iter() {
            let slice = &trace.slices[*place as usize];
            if slice.category.is_device_work() {
                let (kernels, time) = by_device.entry(trace.device_of(slice)).or_default();
                (*kernels, *time) = (*kernels + 1, *time + slice.duration);
            }
        }
        let op = trace.around(slice).find(|around| around.category == Category::CpuOp);
        let inside = op.map(|op| op.name).or_else(|| {
            let action = meanings.action(call as usize)?;
            Some(trace.slices[action].name)
        });
        for (device, (kernels, time)) in by_device {
            if is_graph || kernels > 1 {
                let sum = sums.entry((device, slice.name, inside)).or_default();
                sum.launches += 1;
                sum.kernels += kernels;
                sum.time += time;
            }
        }
    }
    let mut found: FxHashMap<i64, Vec<GraphLaunch>> = FxHashMap::default();
    for ((device, call, inside), sum) in sums {
        let text = |name: Name| trace.names.text(name).to_owned();
        let (call, inside) = (text(call), inside.map(text));
        let Sum { launches, kernels, time: device_ns } = sum;
        let row = GraphLaunch { call, inside, launches, kernels, device_ns };
        found.entry(device).or_default().push(row);
    }
    found.values_mut().for_each(|rows| rows.sort_by_key(|row| Reverse(row.device_ns)));
    found
}
