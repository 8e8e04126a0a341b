//! Delays between launch calls and their work.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mlprof_report::ranks::{median, quantile};
use rustc_hash::FxHashMap;

use super::earlier;
use super::window::Window;
use super::work::{Device, DeviceWork};
use crate::answers::{GraphLaunch, LaunchStatistics};
use crate::classify::Meanings;
use crate::trace::{Correlated, Name, Trace};

/// Thresholds of HolisticTraceAnalysis in nanoseconds.
const LONG_CALL: i64 = 50_000;
const LONG_DELAY: i64 = 100_000;

/// Work launched by one call on one device.
struct Launch {
    /// Start of the first work.
    begun: i64,
    duration: i64,
}

/// Returns the statistics of launch calls in the window, including the number of kernels without a
/// known call. A call counts once, even if it launches several kernels like a graph.
pub(super) fn of(
    trace: &Trace,
    work: &DeviceWork,
    device: &Device,
    window: &Window,
) -> LaunchStatistics {
    let mut launches = LaunchStatistics::default();
    let mut by_call: FxHashMap<u32, Launch> = FxHashMap::default();
    for place in device.streams.iter().flat_map(|stream| &stream.work) {
        let slice = &trace.slices[*place as usize];
        let Some(call) = work.call(*place) else {
            launches.unknown += u64::from(window.contains(slice.start));
            continue;
        };
        if window.contains(trace.slices[call as usize].start) {
            launches.launched += 1;
            let new = Launch { begun: slice.start, duration: 0 };
            let launch = by_call.entry(call).or_insert(new);
            launch.begun = launch.begun.min(slice.start);
            launch.duration += slice.duration;
        }
    }
    let mut delays = Vec::with_capacity(by_call.len());
    for (call, launch) in by_call {
        let call = &trace.slices[call as usize];
        let delay = (launch.begun - call.end()).max(0);
        launches.calls += 1;
        launches.shorter_than_call += u64::from(launch.duration < call.duration);
        launches.long_calls += u64::from(call.duration > LONG_CALL);
        launches.long_delays += u64::from(delay > LONG_DELAY);
        delays.push(delay);
    }
    launches.delay_max_ns = delays.iter().copied().max().unwrap_or(0);
    launches.delay_median_ns = median(delays.clone());
    launches.delay_p90_ns = quantile(delays, 0.9);
    let earlier = earlier::of(trace, work, device, window);
    launches.before_trace = earlier.count;
    launches.before_trace_ns = earlier.busy.length();
    launches
}

/// Sums over calls of one name.
#[derive(Default)]
struct Sum {
    launches: u64,
    kernels: u64,
    time: i64,
}

/// Returns the calls in the window that launched several kernels at once, by device, most device
/// time first.
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
        // This is true for nearly all calls.
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
        let op = meanings.op(call as usize).map(|op| trace.slices[op].name);
        let inside = op.or_else(|| {
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
