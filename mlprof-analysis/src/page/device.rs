//! What a device did and waited for.

use mlprof_report::internals::sections::{COLOURS, Cell, Column, Content, Quantity, Table};

use super::cells::{number, parts, seconds, share, table, words};
use super::heading;
use crate::answers::{CollectiveTimes, DeviceAnswers, DeviceTimes};
use crate::text::cell::{LastCell, kernel};
use crate::text::device::{WAITING_INCLUDED, graphs_in_words, launches_in_words, outside_in_words};
use crate::text::kernels::{launched_by, recomputed_in_words};

/// The most characters of a kernel's name, and of a sequence of kernels.
const LONGEST_KERNEL: usize = 100;
const LONGEST_SEQUENCE: usize = 200;

/// What the colours of a device's time stand for.
const TIMES: [&str; COLOURS] =
    ["", "computing", "", "communicating, not hidden", "idle", "copies and fills, not hidden", ""];
/// Those of a stream's.
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
    let number = device.device;
    heading(content, &format!("device-{number}"), &format!("Device {number}"));
    content.extend([categories(device), kernels(device)].map(Content::Table));
    content.extend(recomputed_in_words(device).map(Content::Paragraph));
    content.push(Content::Table(times(&device.times)));
    content.extend(outside_in_words(&device.times).map(Content::Paragraph));
    content.extend([overlap(device), streams(device)].map(Content::Table));
    if let Some(sentences) = launches_in_words(&device.launches) {
        content.push(Content::Paragraph(format!("{}.", sentences.join(". "))));
    }
    let tables = [queues(device), copies(device), collectives(&device.collectives)];
    content.extend(tables.map(Content::Table));
    if !device.collectives.is_empty() {
        content.push(Content::Paragraph(WAITING_INCLUDED.to_owned()));
    }
    let tables = [sequences(device), graphs(device)];
    content.extend(tables.map(Content::Table));
}

fn categories(device: &DeviceAnswers) -> Table {
    let columns = [
        Column::new("Category", Quantity::Text, "By the kernel's name, or the op that launched it"),
        Column::new("Time", Quantity::Seconds, "Of all calls, those at the same time counted each")
            .bar(),
        Column::new("Share", Quantity::Share, "Of the time in which the device was busy"),
        Column::new("Calls", Quantity::Count, "Kernels, copies and fills launched in the window"),
    ];
    let rows = device.categories.iter().map(|row| {
        vec![
            words(row.category.text()),
            seconds(row.total_ns),
            number(row.busy_share),
            number(row.calls as f64),
        ]
    });
    table("Kernels by category", columns, rows)
}

fn kernels(device: &DeviceAnswers) -> Table {
    let columns = [
        Column::new("Kernel", Quantity::Text, "Without its parameters; whole in the JSON"),
        Column::new("Category", Quantity::Text, "By the kernel's name, or the op that launched it"),
        Column::new("Time", Quantity::Seconds, "Of all calls, those at the same time counted each")
            .bar(),
        Column::new("Share", Quantity::Share, "Of the time in which the device was busy"),
        Column::new("Calls", Quantity::Count, "How many were launched in the window"),
        Column::new("Mean", Quantity::Seconds, "Of a call"),
        Column::new("Min", Quantity::Seconds, "The shortest call"),
        Column::new("Max", Quantity::Seconds, "The longest call"),
        Column::new(
            "Op",
            Quantity::Text,
            "The innermost op around its launches, and the number of others",
        ),
        Column::new(
            "Module",
            Quantity::Text,
            "The module that its launches belong to, most of all",
        ),
    ];
    let rows = device.kernels.iter().map(|row| {
        vec![
            words(kernel(&row.name, LONGEST_KERNEL)),
            words(row.category.text()),
            seconds(row.total_ns),
            number(row.busy_share),
            number(row.calls as f64),
            seconds(row.mean_ns),
            seconds(row.min_ns),
            seconds(row.max_ns),
            words(launched_by(row, LONGEST_KERNEL)),
            words(row.module.as_deref().unwrap_or("–")),
        ]
    });
    let table = table("Kernels by name", columns, rows);
    Table { sorted_by: Some(2), kept_by: Some(2), ..table }
}

fn times(times: &DeviceTimes) -> Table {
    let columns = [
        Column::new("What", Quantity::Text, "What the device did, whatever else it did less of"),
        Column::new("Parts", Quantity::Parts, "As part of the window"),
        Column::new("Time", Quantity::Seconds, "From the first to the last step without pauses")
            .bar(),
        Column::new("Share", Quantity::Share, "Of the window"),
    ];
    let colours = [1, 3, 5, 4, 4, 4];
    let rows = times.parts().into_iter().zip(colours).map(|((part, what), colour)| {
        let bar = parts([(colour, part)]);
        vec![words(what), bar, seconds(part), share(part, times.window_ns)]
    });
    let table = table("What it did; the rows add up to the window", columns, rows);
    Table { legend: TIMES.to_vec(), ..table }
}

fn overlap(device: &DeviceAnswers) -> Table {
    let columns = [
        Column::new("What", Quantity::Text, "Beside computing"),
        Column::new("Time", Quantity::Seconds, "When any of it ran").bar(),
        Column::new("Hidden", Quantity::Seconds, "While the device computed, too").bar(),
        Column::new("Hidden, share", Quantity::Share, "Of when it ran"),
    ];
    let rows = device.overlap.iter().map(|row| {
        let hidden = share(row.hidden_ns, row.total_ns);
        vec![words(row.kind.text()), seconds(row.total_ns), seconds(row.hidden_ns), hidden]
    });
    table("Hidden behind computing", columns, rows)
}

fn streams(device: &DeviceAnswers) -> Table {
    let columns = [
        Column::new("Stream", Quantity::Text, "Its number"),
        Column::new("Parts", Quantity::Parts, "Busy, then idle by cause"),
        Column::new("Span", Quantity::Seconds, "From its first to its last work"),
        Column::new("Busy", Quantity::Seconds, "It worked"),
        Column::new(
            "Host is late",
            Quantity::Seconds,
            "What came next was called only when it had nothing to do",
        ),
        Column::new(
            "Launch delay",
            Quantity::Seconds,
            "From the beginning of that call to the work",
        ),
        Column::new(
            "Between kernels",
            Quantity::Seconds,
            "Less than 30 µs before what was launched already",
        ),
        Column::new(
            "Waits for communication",
            Quantity::Seconds,
            "For another stream, which communicated",
        ),
        Column::new("Waits for kernels", Quantity::Seconds, "For another stream, which computed"),
        Column::new("Waits for copies", Quantity::Seconds, "For another stream, which copied"),
        Column::new("Other", Quantity::Seconds, "Longer, or nothing is known of the launch"),
    ];
    let rows = device.streams.iter().map(|stream| {
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
        let mut row =
            vec![words(stream.stream.to_string()), parts(causes), seconds(stream.span_ns)];
        row.extend(causes.map(|(_, cause)| seconds(cause)));
        row
    });
    let table = table("Why its streams are idle; the parts add up to the span", columns, rows);
    Table { kept_by: Some(2), legend: CAUSES.to_vec(), ..table }
}

fn queues(device: &DeviceAnswers) -> Table {
    let columns = [
        Column::new("Stream", Quantity::Text, "Its number"),
        Column::new("Mean", Quantity::Number, "How much was launched and had not begun, by time"),
        Column::new("Most", Quantity::Count, "How much at once"),
        Column::new("Empty", Quantity::Seconds, "How long there was nothing").bar(),
        Column::new("Empty, share", Quantity::Share, "From the first call to the last beginning"),
    ];
    let rows = device.queues.iter().map(|queue| {
        vec![
            words(queue.stream.to_string()),
            number(queue.mean),
            number(queue.max as f64),
            seconds(queue.empty_ns),
            share(queue.empty_ns, queue.span_ns),
        ]
    });
    table("Launched and not begun", columns, rows)
}

fn copies(device: &DeviceAnswers) -> Table {
    let columns = [
        Column::new("Copies and fills", Quantity::Text, "As the trace calls them"),
        Column::new("Time", Quantity::Seconds, "When any ran").bar(),
        Column::new("Count", Quantity::Count, "How many"),
        Column::new("Bytes", Quantity::Bytes, "How much was moved, as far as it is known"),
        Column::new("Of unknown size", Quantity::Count, "How many have no size in the trace"),
        Column::new("GB/s", Quantity::Number, "While any ran whose size is known"),
        Column::new("Most GB/s", Quantity::Number, "At once"),
    ];
    let rows = device.copies.iter().map(|row| {
        vec![
            words(row.name.as_str()),
            seconds(row.busy_ns),
            number(row.count as f64),
            Cell::Number(row.bytes.map(|bytes| bytes as f64)),
            number(row.unknown as f64),
            Cell::Number(row.mean_gb_per_s),
            Cell::Number(row.max_gb_per_s),
        ]
    });
    table("Bandwidth", columns, rows)
}

pub(super) fn collectives(rows: &[CollectiveTimes]) -> Table {
    let columns = [
        Column::new("Collective", Quantity::Text, "What ranks do together"),
        Column::new("Time", Quantity::Seconds, "Of all of them together").bar(),
        Column::new("Count", Quantity::Count, "How many"),
        Column::new(
            "Message",
            Quantity::Bytes,
            "One rank's buffer; of all-gather, reduce-scatter and all-to-all that of all ranks together",
        ),
        Column::new("Type", Quantity::Text, "Of its elements"),
        Column::new("Ranks", Quantity::Count, "In its group"),
        Column::new("Group", Quantity::Text, "The group's name"),
        Column::new("Median", Quantity::Seconds, "How long one takes"),
        Column::new("Longest", Quantity::Seconds, "How long the longest took"),
        Column::new("GB/s", Quantity::Number, "Algorithm bandwidth: the message by the median"),
        Column::new("Bus GB/s", Quantity::Number, "What each rank's link moves, at the median"),
        Column::new("Most bus GB/s", Quantity::Number, "That of the shortest"),
    ];
    let known = |number: Option<f64>| Cell::Number(number);
    let rows = rows.iter().map(|row| {
        let ranks = (row.group_size > 0).then_some(row.group_size as f64);
        vec![
            words(row.collective.as_str()),
            seconds(row.total_ns),
            number(row.count as f64),
            number(row.message_bytes as f64),
            words(row.dtype.as_str()),
            known(ranks),
            words(row.group.as_str()),
            seconds(row.median_ns),
            seconds(row.longest_ns),
            number(row.algorithm_gb_per_s),
            known(row.bus_gb_per_s),
            known(row.most_bus_gb_per_s),
        ]
    });
    table("Collectives, by what they move", columns, rows)
}

fn sequences(device: &DeviceAnswers) -> Table {
    let columns = [
        Column::new("Op and its kernels", Quantity::Text, "In the order of their launches"),
        Column::new("Time", Quantity::Seconds, "Of the kernels together").bar(),
        Column::new("Count", Quantity::Count, "How often"),
        Column::new("Kernels", Quantity::Count, "In each"),
    ];
    let rows = device.sequences.iter().map(|row| {
        vec![
            words(LastCell::Sequence(&row.op, &row.kernels).fit(LONGEST_SEQUENCE)),
            seconds(row.device_ns),
            number(row.count as f64),
            number(row.kernels.len() as f64),
        ]
    });
    let table =
        table("Frequent sequences of kernels: what could be fused or captured", columns, rows);
    Table { kept_by: Some(1), ..table }
}

fn graphs(device: &DeviceAnswers) -> Table {
    let columns = [
        Column::new("Inside", Quantity::Text, "The innermost op or action around the call"),
        Column::new("Call", Quantity::Text, "What launched them"),
        Column::new("Time", Quantity::Seconds, "Of what was launched, together").bar(),
        Column::new("Launches", Quantity::Count, "How often"),
        Column::new("Kernels", Quantity::Count, "With copies and fills"),
    ];
    let rows = device.graphs.iter().map(|row| {
        vec![
            words(row.inside.clone().unwrap_or_else(|| "–".to_owned())),
            words(row.call.as_str()),
            seconds(row.device_ns),
            number(row.launches as f64),
            number(row.kernels as f64),
        ]
    });
    let caption = graphs_in_words(&device.graphs).replacen('l', "L", 1);
    table(&caption, columns, rows)
}
