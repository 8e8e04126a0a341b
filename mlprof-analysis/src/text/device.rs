//! What a device did, as tables.

use std::fmt::Write;

use mlprof_report::internals::{counted, shown};
use mlprof_report::number::{bytes, grouped};

use super::cell::LastCell;
use super::{kernels, middle, part_of, section, section_of_names, time};
use crate::answers::{CollectiveTimes, DeviceAnswers, DeviceTimes, GraphLaunch, LaunchStatistics};
use crate::vendor::Vendor;

pub(super) fn write(text: &mut String, device: &DeviceAnswers, limit: usize) {
    let number = device.device;
    let title = |what: &str| format!("Device {number}: {what}");
    kernels::write(text, device, limit);
    let times = time_rows(&device.times);
    section(text, &title("what it did"), ["Time", "Share", "What"], times.into_iter(), usize::MAX);
    if let Some(outside) = outside_in_words(&device.times) {
        let _ = writeln!(text, "{outside}");
    }
    let overlap = device.overlap.iter().map(|row| {
        [time(row.total_ns), part_of(row.hidden_ns, row.total_ns), row.kind.text().to_owned()]
    });
    let header = ["Time", "While computing", "What"];
    section(text, &title("hidden behind computing"), header, overlap, limit);
    let streams = device.streams.iter().map(|stream| {
        let of = |part| part_of(part, stream.span_ns);
        [
            time(stream.span_ns),
            of(stream.busy_ns),
            of(stream.waiting_for_host_ns),
            of(stream.launch_delay_ns),
            of(stream.between_kernels_ns),
            of(stream.waiting_for_communication_ns),
            of(stream.waiting_for_compute_ns),
            of(stream.waiting_for_memory_ns),
            of(stream.other_ns),
            stream.stream.to_string(),
        ]
    });
    let header = [
        "Span",
        "Busy",
        "Host late",
        "Launch delay",
        "Between",
        "Waits: comm.",
        "Waits: kernels",
        "Waits: copies",
        "Other",
        "Stream",
    ];
    section(text, &title("why streams are idle"), header, streams, limit);
    launches(text, device, &title("launches"));
    let queues = device.queues.iter().map(|queue| {
        let empty = part_of(queue.empty_ns, queue.span_ns);
        [format!("{:.2}", queue.mean), queue.max.to_string(), empty, queue.stream.to_string()]
    });
    let header = ["Mean", "Most", "Empty", "Stream"];
    section(text, &title("launched and not begun"), header, queues, limit);
    let copies = device.copies.iter().map(|row| {
        [
            time(row.busy_ns),
            grouped(row.count),
            row.bytes.map_or_else(|| "unknown".to_owned(), bytes),
            grouped(row.unknown),
            rate(row.mean_gb_per_s),
            rate(row.max_gb_per_s),
            shown(&row.name),
        ]
    });
    let header =
        ["Time", "Count", "Bytes", "Of unknown size", "GB/s", "Most GB/s", "Copies and fills"];
    section(text, &title("bandwidth"), header, copies, limit);
    let rows = device.collectives.iter().map(collective);
    section(text, &title("collectives"), COLLECTIVES, rows, limit);
    if !device.collectives.is_empty() {
        let _ = writeln!(text, "{WAITING_INCLUDED}");
    }
    let sequences = device.sequences.iter().map(|row| {
        let kernels = row.kernels.len().to_string();
        let cells = [time(row.device_ns), grouped(row.count), kernels, String::new()];
        (cells, LastCell::Sequence(&row.op, &row.kernels))
    });
    let header = ["Time", "Count", "Kernels", "Op and its kernels"];
    let heading = title("frequent sequences of kernels");
    section_of_names(text, &heading, header, sequences, limit);
    let graphs = device.graphs.iter().map(|row| {
        [
            time(row.device_ns),
            grouped(row.launches),
            grouped(row.kernels),
            middle(&row.call),
            row.inside.as_deref().map_or_else(|| "-".to_owned(), shown),
        ]
    });
    let header = ["Time", "Launches", "Kernels", "Call", "Inside"];
    section(text, &title(&graphs_in_words(&device.graphs)), header, graphs, limit);
}

/// What a reader of one rank's collectives must know.
pub(crate) const WAITING_INCLUDED: &str = "Times include waiting for the last rank, so bandwidths are at least these. Traces of all ranks leave the waiting out.";

/// The columns of a table of collectives.
pub(crate) const COLLECTIVES: [&str; 10] = [
    "Time",
    "Count",
    "Message",
    "Type",
    "Ranks",
    "Median",
    "Longest",
    "GB/s",
    "Bus GB/s",
    "Collective",
];

/// A row of a table of collectives.
pub(crate) fn collective(row: &CollectiveTimes) -> [String; 10] {
    let group = match row.group.as_str() {
        "" => String::new(),
        group => format!(" (group {})", shown(group)),
    };
    let known =
        |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    [
        time(row.total_ns),
        grouped(row.count),
        bytes(row.message_bytes),
        shown(&row.dtype),
        if row.group_size > 0 { grouped(row.group_size) } else { "?".to_owned() },
        time(row.median_ns),
        time(row.longest_ns),
        format!("{:.2}", row.algorithm_gb_per_s),
        known(row.bus_gb_per_s),
        format!("{}{group}", row.collective),
    ]
}

fn time_rows(times: &DeviceTimes) -> Vec<[String; 3]> {
    let row = |(of, what): (i64, &str)| [time(of), part_of(of, times.window_ns), what.to_owned()];
    times.parts().into_iter().map(row).collect()
}

/// How long the device worked in no step; `None` if it did not.
pub(crate) fn outside_in_words(times: &DeviceTimes) -> Option<String> {
    (times.outside_ns > 0).then(|| {
        format!(
            "Outside of the steps the device worked another {}, of which {} after the last step had ended on the host. \
             Tables of time are about the steps; tables of launches and kernels have what a step launched, even if \
             it ran later.",
            time(times.outside_ns),
            time(times.after_last_step_ns),
        )
    })
}

fn launches(text: &mut String, device: &DeviceAnswers, title: &str) {
    if let Some(sentences) = launches_in_words(&device.launches) {
        let _ = writeln!(text, "\n{title}\n{}", sentences.join("\n"));
    }
}

/// A heading for calls that launched several things at once, with the vendor's name of graphs.
pub(crate) fn graphs_in_words(graphs: &[GraphLaunch]) -> String {
    let of_graphs = graphs.iter().filter(|row| row.call.contains("GraphLaunch"));
    let mut vendors = of_graphs.map(|row| Vendor::of_call(&row.call));
    let first = vendors.next().flatten();
    let vendor = first.filter(|_| vendors.all(|vendor| vendor == first));
    let by = vendor.map_or_else(String::new, |vendor| {
        format!(" by {} graphs and other calls", vendor.library())
    });
    format!("launched together{by}")
}

/// A rate in gigabytes per second.
fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}"))
}

/// Number of calls and of what they launched, how long that took to begin, and how often that was
/// long. `None` if nothing was launched.
pub(crate) fn launches_in_words(launches: &LaunchStatistics) -> Option<[String; 3]> {
    (launches.calls > 0).then(|| {
        let launched = format!(
            "{} launched {}{}",
            counted(launches.calls, "call", "calls"),
            counted(launches.launched, "kernel, copy or fill", "kernels, copies and fills"),
            of_other_calls(launches),
        );
        let delays = format!(
            "Delay from the call's end: median {}, 90 % quantile {}, most {}",
            time(launches.delay_median_ns),
            time(launches.delay_p90_ns),
            time(launches.delay_max_ns),
        );
        let long = format!(
            "{} took longer than their work, {} took more than 50 µs, {} waited more than 100 µs for their work",
            counted(launches.shorter_than_call, "call", "calls"),
            grouped(launches.long_calls),
            grouped(launches.long_delays),
        );
        [launched, delays, long]
    })
}

/// Work that no recorded call launched.
fn of_other_calls(launches: &LaunchStatistics) -> String {
    let unknown = launches.unknown - launches.before_trace;
    let mut text = String::new();
    if launches.before_trace > 0 {
        text.push_str(&format!(
            " ({} more were launched before the trace began and ran for {})",
            grouped(launches.before_trace),
            time(launches.before_trace_ns),
        ));
    }
    if unknown > 0 {
        text.push_str(&format!(" ({} more of unknown calls)", grouped(unknown)));
    }
    text
}
