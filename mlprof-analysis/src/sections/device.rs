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
        words("Category", "By the kernel's name, or the op that launched it") =>
            row.category.text(),
        seconds("Time", "Of all calls, those at the same time counted each").bar() =>
            ns(row.total_ns),
        share("Share", "Of the time in which the device was busy") => row.busy_share,
        count("Calls", "Kernels, copies and fills launched in the window") => row.calls,
    })
}

fn kernels(device: &DeviceAnswers) -> Table {
    let table = table!("Kernels by name", &device.kernels, |row| {
        words("Kernel", "Without its parameters; whole in the JSON") => kernel(&row.name),
        words("Category", "By the kernel's name, or the op that launched it") =>
            row.category.text(),
        seconds("Time", "Of all calls, those at the same time counted each").bar() =>
            ns(row.total_ns),
        share("Share", "Of the time in which the device was busy") => row.busy_share,
        count("Calls", "How many were launched in the window") => row.calls,
        seconds("Mean", "Of a call").on_page() => ns(row.mean_ns),
        seconds("Min", "The shortest call").on_page() => ns(row.min_ns),
        seconds("Max", "The longest call") => ns(row.max_ns),
        words("Op", "The innermost op around its launches, and the number of others") =>
            launched_by(row),
        words("Module", "The module that its launches belong to, most of all").on_page() =>
            row.module.as_deref().unwrap_or("–"),
    });
    table.sorted_by("Time").kept_by("Time")
}

fn times(times: &DeviceTimes) -> Table {
    let rows = times.parts().into_iter().zip([1, 3, 5, 4, 4, 4]);
    let caption = "What it did; the rows add up to the window";
    let table = table!(caption, rows, |((part, what), colour)| {
        words("What", "What the device did, whatever else it did less of") => what,
        markup("Parts", "As part of the window") => bar([(colour, part)]),
        seconds("Time", "From the first to the last step without pauses").bar() => ns(part),
        share("Share", "Of the window") => share_of(part, times.window_ns),
    });
    table.legend(TIMES)
}

fn overlap(device: &DeviceAnswers) -> Table {
    table!("Hidden behind computing", &device.overlap, |row| {
        words("What", "Beside computing") => row.kind.text(),
        seconds("Time", "When any of it ran").bar() => ns(row.total_ns),
        seconds("Hidden", "While the device computed, too").bar() => ns(row.hidden_ns),
        share("Hidden, share", "Of when it ran") => share_of(row.hidden_ns, row.total_ns),
    })
}

fn streams(device: &DeviceAnswers) -> Table {
    let caption = "Why its streams are idle; the parts add up to the span";
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
        words("Stream", "Its number") => stream.stream.to_string(),
        markup("Parts", "Busy, then idle by cause") => bar(causes),
        seconds("Span", "From its first to its last work") => ns(stream.span_ns),
        seconds("Busy", "It worked") => busy,
        seconds("Host late", "What came next was called only when it had nothing to do") => host,
        seconds("Launch delay", "From the beginning of that call to the work") => launch,
        seconds("Between", "Less than 30 µs before what was launched already") => between,
        seconds("Waits: comm.", "For another stream, which communicated") => communication,
        seconds("Waits: kernels", "For another stream, which computed") => kernels,
        seconds("Waits: copies", "For another stream, which copied") => copies,
        seconds("Other", "Longer, or nothing is known of the launch") => other,
    });
    table.kept_by("Span").legend(CAUSES)
}

fn queues(device: &DeviceAnswers) -> Table {
    table!("Launched and not begun", &device.queues, |queue| {
        words("Stream", "Its number") => queue.stream.to_string(),
        number("Mean", "How much was launched and had not begun, by time") => queue.mean,
        count("Most", "How much at once") => queue.max,
        seconds("Empty", "How long there was nothing").bar() =>
            part_of(queue.empty_ns, queue.span_ns),
        share("Empty, share", "From the first call to the last beginning").on_page() =>
            share_of(queue.empty_ns, queue.span_ns),
    })
}

fn copies(device: &DeviceAnswers) -> Table {
    table!("Bandwidth", &device.copies, |row| {
        words("Copies and fills", "As the trace calls them") => name(&row.name),
        seconds("Time", "When any ran").bar() => ns(row.busy_ns),
        count("Count", "How many") => row.count,
        bytes("Bytes", "How much was moved, as far as it is known").absent("unknown") =>
            row.bytes.map(|bytes| bytes as f64),
        count("Of unknown size", "How many have no size in the trace") => row.unknown,
        number("GB/s", "While any ran whose size is known") => row.mean_gb_per_s,
        number("Most GB/s", "At once") => row.max_gb_per_s,
    })
}

pub(super) fn collectives(rows: &[CollectiveTimes]) -> Table {
    table!("Collectives, by what they move", rows, |row| {
        words("Collective", "What ranks do together") => row.collective.as_str(),
        seconds("Time", "Of all of them together").bar() => ns(row.total_ns),
        count("Count", "How many") => row.count,
        bytes(
            "Message",
            "One rank's buffer; of all-gather, reduce-scatter and all-to-all that of all ranks \
             together",
        ) => row.message_bytes,
        words("Type", "Of its elements") => row.dtype.as_str(),
        count("Ranks", "In its group").absent("?") =>
            (row.group_size > 0).then_some(row.group_size as f64),
        words("Group", "The group's name").optional() => name(&row.group),
        seconds("Median", "How long one takes") => ns(row.median_ns),
        seconds("Longest", "How long the longest took") => ns(row.longest_ns),
        number("GB/s", "Algorithm bandwidth: the message by the median") => row.algorithm_gb_per_s,
        number("Bus GB/s", "What each rank's link moves, at the median") => row.bus_gb_per_s,
        number("Most bus GB/s", "That of the shortest").on_page() => row.most_bus_gb_per_s,
    })
}

fn sequences(device: &DeviceAnswers) -> Table {
    let caption = "Frequent sequences of kernels: what could be fused or captured";
    let table = table!(caption, &device.sequences, |row| {
        words("Op and its kernels", "In the order of their launches") =>
            sequence(&row.op, &row.kernels),
        seconds("Time", "Of the kernels together").bar() => ns(row.device_ns),
        count("Count", "How often") => row.count,
        count("Kernels", "In each") => row.kernels.len(),
    });
    table.kept_by("Time")
}

fn graphs(device: &DeviceAnswers) -> Table {
    table!(graphs_in_words(&device.graphs), &device.graphs, |row| {
        words("Inside", "The innermost op or action around the call") =>
            name(row.inside.as_deref().unwrap_or("-")),
        words("Call", "What launched them") => name(&row.call),
        seconds("Time", "Of what was launched, together").bar() => ns(row.device_ns),
        count("Launches", "How often") => row.launches,
        count("Kernels", "With copies and fills") => row.kernels,
    })
}
