//! Report sections of a device.

use mlprof_report::internals::sections::{COLOURS, Content};
use mlprof_report::internals::table::{
    Table, bytes, count, markup, number, seconds, share, table, words,
};

use super::cells::{bar, ns, part_of, share_of};
use super::heading;
use super::names::{kernel, launched_by, name, sequence};
use super::sentences::{
    WAITING_INCLUDED, graphs_in_words, launches_in_words, outside_in_words, recomputed_in_words,
};
use crate::answers::{CollectiveTimes, DeviceAnswers, DeviceTimes};

/// Legend of the colours of a device's time.
const TIMES: [&str; COLOURS] =
    ["", "computing", "", "communicating, not hidden", "idle", "copies and fills, not hidden", ""];
/// Legend of the colours of a stream's idle causes.
const CAUSES: [&str; COLOURS] = [
    "host is late",
    "busy",
    "waits for communication",
    "between kernels",
    "other",
    "launch delay",
    "waits for kernels or copies",
];

pub(super) fn add(content: &mut Vec<Content>, device: &DeviceAnswers) {
    let subject = format!("Device {}", device.device);
    heading(content, &format!("device-{}", device.device), &subject);
    let table = |table: Table| Content::Table(table.subject(subject.clone()));
    content.extend([categories(device), kernels(device)].map(table));
    content.extend(recomputed_in_words(device).map(Content::Paragraph));
    content.push(table(times(&device.times)));
    content.extend(outside_in_words(&device.times).map(Content::Paragraph));
    content.extend([overlap(device), streams(device)].map(table));
    let launches = launches_in_words(&device.launches).into_iter().flatten();
    content.extend(launches.map(|sentence| Content::Paragraph(format!("{sentence}."))));
    content.extend([queues(device), copies(device), collectives(&device.collectives)].map(table));
    if !device.collectives.is_empty() {
        content.push(Content::Paragraph(WAITING_INCLUDED.to_owned()));
    }
    content.extend([sequences(device), graphs(device)].map(table));
}

fn categories(device: &DeviceAnswers) -> Table {
    table!("Kernels by category", &device.categories, |row| {
        words("Category", "Determined by the kernel name or the launching op") =>
            row.category.text(),
        seconds("Time", "Total time of all calls, including concurrent ones").adds_up().bar() =>
            ns(row.total_ns),
        share("Share", "Share of the device's busy time").adds_up() => row.busy_share,
        count("Calls", "Number of kernels, copies and fills launched in the window").adds_up() => row.calls,
    })
}

fn kernels(device: &DeviceAnswers) -> Table {
    let table = table!("Kernels by name", &device.kernels, |row| {
        words("Kernel", "Name without parameters; the JSON has the full name") => kernel(&row.name),
        words("Category", "Determined by the kernel name or the launching op") =>
            row.category.text(),
        seconds("Time", "Total time of all calls, including concurrent ones").adds_up().bar() =>
            ns(row.total_ns),
        share("Share", "Share of the device's busy time").adds_up() => row.busy_share,
        count("Calls", "Number of launches in the window").adds_up() => row.calls,
        seconds("Mean", "Mean time of a call").on_page() => ns(row.mean_ns),
        seconds("Min", "Time of the shortest call").on_page() => ns(row.min_ns),
        seconds("Max", "Time of the longest call") => ns(row.max_ns),
        words("Op", "Innermost op around the launches, and the number of other ops") =>
            launched_by(row),
        words("Module", "Module with the most time of the launches").on_page() =>
            row.module.as_deref().unwrap_or("–"),
    });
    table.sorted_by("Time").kept_by("Time").fold_small("Share")
}

fn times(times: &DeviceTimes) -> Table {
    let rows = times.parts().into_iter().zip([1, 3, 5, 4, 4, 4]);
    let caption = "Device time by activity; the rows add up to the window";
    let table = table!(caption, rows, |((part, what), colour)| {
        words("What", "Activity; concurrent activities count once, by priority") => what,
        markup("Parts", "Share of the window") => bar([(colour, part)]),
        seconds("Time", "Time from the first to the last step, without pauses").bar() => ns(part),
        share("Share", "Share of the window") => share_of(part, times.window_ns),
    });
    table.legend(TIMES)
}

fn overlap(device: &DeviceAnswers) -> Table {
    table!("Communication, copies and fills hidden behind computing", &device.overlap, |row| {
        words("What", "Kind of work") => row.kind.text(),
        seconds("Time", "Time in which any work of this kind ran").bar() => ns(row.total_ns),
        seconds("Hidden", "Time in which the device computed as well").bar() => ns(row.hidden_ns),
        share("Hidden, share", "Share of the work's time") => share_of(row.hidden_ns, row.total_ns),
    })
}

fn streams(device: &DeviceAnswers) -> Table {
    let caption = "Idle causes of the streams; the parts add up to the span";
    let table = table!(caption, &device.streams, |stream| {
        let causes = [
            (1, stream.busy_ns),
            (0, stream.waiting_for_host_ns),
            (5, stream.launch_delay_ns),
            (3, stream.between_kernels_ns),
            (2, stream.waiting_for_communication_ns),
            (6, stream.waiting_for_compute_ns),
            (6, stream.waiting_for_memory_ns),
            (4, stream.other_ns),
        ];
        let [busy, host, launch, between, communication, kernels, copies, other] =
            causes.map(|(_, part)| part_of(part, stream.span_ns));
        words("Stream", "Stream number") => stream.stream.to_string(),
        markup("Parts", "Busy time, then idle time by cause") => bar(causes),
        seconds("Span", "Time from the first to the last work of the stream") => ns(stream.span_ns),
        seconds("Busy", "Time in which the stream worked") => busy,
        seconds("Host late", "Idle time until the host called the next launch") => host,
        seconds("Launch delay", "Time from the start of that launch call to the work") => launch,
        seconds("Between", "Gaps below 30 µs before work that was already launched") => between,
        seconds("Waits: comm.", "Waiting time for another stream that communicated") => communication,
        seconds("Waits: kernels", "Waiting time for another stream that computed") => kernels,
        seconds("Waits: copies", "Waiting time for another stream that copied") => copies,
        seconds("Other", "Longer gaps, or work with an unknown launch") => other,
    });
    table.kept_by("Span").legend(CAUSES)
}

fn queues(device: &DeviceAnswers) -> Table {
    table!("Launch queue: work launched and not started", &device.queues, |queue| {
        words("Stream", "Stream number") => queue.stream.to_string(),
        number("Mean", "Time-weighted mean number of queued launches") => queue.mean,
        count("Most", "Maximum number of queued launches") => queue.max,
        seconds("Empty", "Time without queued launches").bar() =>
            part_of(queue.empty_ns, queue.span_ns),
        share("Empty, share", "Share of the time from the first launch call to the last start of work").on_page() =>
            share_of(queue.empty_ns, queue.span_ns),
    })
}

fn copies(device: &DeviceAnswers) -> Table {
    table!("Bandwidth", &device.copies, |row| {
        words("Copies and fills", "Name in the trace") => name(&row.name),
        seconds("Time", "Time in which any of these copies ran").bar() => ns(row.busy_ns),
        count("Count", "Number of operations").adds_up() => row.count,
        bytes("Bytes", "Number of moved bytes, without copies of unknown size").absent("unknown") =>
            row.bytes.map(|bytes| bytes as f64),
        count("Of unknown size", "Number of copies without a size in the trace") => row.unknown,
        number("GB/s", "Bandwidth while any copy of known size ran") => row.mean_gb_per_s,
        number("Most GB/s", "Maximum bandwidth at any time") => row.max_gb_per_s,
    })
}

pub(super) fn collectives(rows: &[CollectiveTimes]) -> Table {
    table!("Collectives by message", rows, |row| {
        words("Collective", "Collective operation") => row.collective.as_str(),
        seconds("Time", "Total time of these collectives").adds_up().bar() => ns(row.total_ns),
        count("Count", "Number of operations").adds_up() => row.count,
        bytes(
            "Message",
            "Buffer size of one rank; for all-gather, reduce-scatter and all-to-all, of all ranks together",
        ) => row.message_bytes,
        words("Type", "Element type") => row.dtype.as_str(),
        count("Ranks", "Number of ranks in the group").absent("?") =>
            (row.group_size > 0).then_some(row.group_size as f64),
        words("Group", "Name of the process group").optional() => name(&row.group),
        seconds("Median", "Median time of a collective") => ns(row.median_ns),
        seconds("Longest", "Time of the longest collective") => ns(row.longest_ns),
        number("GB/s", "Algorithm bandwidth: message size divided by the median time") => row.algorithm_gb_per_s,
        number("Bus GB/s", "Bus bandwidth of each rank's link, at the median time") => row.bus_gb_per_s,
        number("Most bus GB/s", "Bus bandwidth of the shortest collective").on_page() => row.most_bus_gb_per_s,
    })
}

fn sequences(device: &DeviceAnswers) -> Table {
    let caption = "Frequent kernel sequences, candidates for fusion or graph capture";
    let table = table!(caption, &device.sequences, |row| {
        words("Op and its kernels", "Kernels in launch order") =>
            sequence(&row.op, &row.kernels),
        seconds("Time", "Total time of the kernels").bar() => ns(row.device_ns),
        count("Count", "Number of occurrences") => row.count,
        count("Kernels", "Number of kernels in the sequence") => row.kernels.len(),
    });
    table.kept_by("Time")
}

fn graphs(device: &DeviceAnswers) -> Table {
    table!(graphs_in_words(&device.graphs), &device.graphs, |row| {
        words("Inside", "Innermost op or action around the call") =>
            name(row.inside.as_deref().unwrap_or("-")),
        words("Call", "Launch call") => name(&row.call),
        seconds("Time", "Total time of the launched work").bar() => ns(row.device_ns),
        count("Launches", "Number of occurrences") => row.launches,
        count("Kernels", "Number of launched kernels, copies and fills") => row.kernels,
    })
}
