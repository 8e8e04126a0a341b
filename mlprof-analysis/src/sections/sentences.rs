//! Sentences about a device.

use mlprof_report::internals::counted;
use mlprof_report::number::{grouped, share};

use super::time;
use crate::answers::{DeviceAnswers, DeviceTimes, GraphLaunch, LaunchStatistics};
use crate::vendor::Vendor;

/// Caveat for the collectives of a single rank.
pub(super) const WAITING_INCLUDED: &str = "The times include waiting for the last rank, so the bandwidths are \
                                           lower bounds. Analyze the traces of all ranks together to exclude \
                                           the waiting.";

/// Returns a sentence about device work outside all steps. `None` if there is none.
pub(super) fn outside_in_words(times: &DeviceTimes) -> Option<String> {
    (times.outside_ns > 0).then(|| {
        format!(
            "The device worked another {} outside the steps, of which {} after the last step had ended on the \
             host. Time tables cover the steps; launch and kernel tables include all work that steps launched.",
            time(times.outside_ns),
            time(times.after_last_step_ns),
        )
    })
}

/// Returns the heading for calls that launched several kernels at once, with the vendor's name for
/// graphs.
pub(super) fn graphs_in_words(graphs: &[GraphLaunch]) -> String {
    let of_graphs = graphs.iter().filter(|row| row.call.contains("GraphLaunch"));
    let mut vendors = of_graphs.map(|row| Vendor::of_call(&row.call));
    let first = vendors.next().flatten();
    let vendor = first.filter(|_| vendors.all(|vendor| vendor == first));
    let by = vendor.map_or_else(String::new, |vendor| {
        format!(" by {} graphs and other calls", vendor.library())
    });
    format!("Kernels launched together{by}")
}

/// Returns sentences about the number of launches, their delays and the long ones. `None` if no
/// work was launched.
pub(super) fn launches_in_words(launches: &LaunchStatistics) -> Option<[String; 3]> {
    (launches.calls > 0).then(|| {
        let launched = format!(
            "{} launched {}{}",
            counted(launches.calls, "call", "calls"),
            counted(launches.launched, "kernel, copy or fill", "kernels, copies and fills"),
            of_other_calls(launches),
        );
        let delays = format!(
            "Delay after the end of the call: median {}, 90 % quantile {}, maximum {}",
            time(launches.delay_median_ns),
            time(launches.delay_p90_ns),
            time(launches.delay_max_ns),
        );
        let long = format!(
            "{} took longer than the launched work, {} took more than 50 µs, the work of {} started more than \
             100 µs later",
            counted(launches.shorter_than_call, "call", "calls"),
            grouped(launches.long_calls),
            grouped(launches.long_delays),
        );
        [launched, delays, long]
    })
}

/// Returns a phrase about work without a recorded launch call.
fn of_other_calls(launches: &LaunchStatistics) -> String {
    let unknown = launches.unknown - launches.before_trace;
    let mut text = String::new();
    if launches.before_trace > 0 {
        text.push_str(&format!(
            " ({} more were launched before the trace and ran for {})",
            grouped(launches.before_trace),
            time(launches.before_trace_ns),
        ));
    }
    if unknown > 0 {
        text.push_str(&format!(" ({} more have unknown calls)", grouped(unknown)));
    }
    text
}

/// Returns a sentence about device work that ran again in backward. `None` if there is none.
pub(super) fn recomputed_in_words(device: &DeviceAnswers) -> Option<String> {
    let again: i64 = device.categories.iter().map(|row| row.recomputed_ns).sum();
    let all: i64 = device.categories.iter().map(|row| row.total_ns).sum();
    (again > 0).then(|| {
        let part = share(again as f64, all as f64);
        format!(
            "Kernels of forward ops recomputed in backward took {}, {part} of the kernel time.",
            time(again)
        )
    })
}
