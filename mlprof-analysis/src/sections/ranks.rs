//! Report sections of several ranks: slow ranks and clock offsets.

use mlprof_report::internals::sections::Content;
use mlprof_report::internals::stages_table;
use mlprof_report::internals::table::{Table, number, seconds, table, words};
use mlprof_report::number::grouped;
use mlprof_report::ranks::slow_in_words;

use super::cells::{add_below, ns};
use super::heading;
use super::names::path;
use crate::ranks::{Placed, Ranks};

/// Number of slow ranks that get a paragraph each.
const NAMED: usize = 16;

/// Returns the tables and sentences of several ranks.
pub(crate) fn content(ranks: &Ranks) -> Vec<Content> {
    let mut content = Vec::new();
    heading(&mut content, "exposed", "Step bottlenecks");
    if ranks.common_steps == 0 {
        let none = "Slow ranks cannot be detected: the ranks have no common steps.";
        content.push(Content::Paragraph(none.to_owned()));
    } else {
        add_slow(&mut content, ranks);
        if !ranks.exposed.is_empty() {
            let exposed: Vec<_> = ranks.exposed_stages().cloned().collect();
            content.push(Content::Table(stages_table(ranks.common_steps as u64, &exposed)));
        }
        if !ranks.devices.is_empty() {
            content.push(Content::Table(devices(ranks)));
        }
    }
    let met = super::device::collectives(&ranks.collectives);
    let title = "Collectives, timed on the last rank to arrive";
    add_below(&mut content, "collectives", title, met);
    heading(&mut content, "line", "Common time line");
    content.push(Content::Table(line(&ranks.files)));
    content
}

fn add_slow(content: &mut Vec<Content>, ranks: &Ranks) {
    if let Some(verdict) = ranks.verdict() {
        content.push(Content::Paragraph(verdict.to_owned()));
    }
    for slow in ranks.stragglers.iter().take(NAMED) {
        content.push(Content::Paragraph(slow_in_words(slow).join(" ")));
    }
    if let Some(more @ 1..) = ranks.stragglers.len().checked_sub(NAMED) {
        content.push(Content::Paragraph(format!("{} more ranks are slow.", grouped(more as u64))));
    }
}

fn devices(ranks: &Ranks) -> Table {
    let caption = "Devices: median time per common step";
    let table = table!(caption, &ranks.devices, |device| {
        words("Rank", "Rank number") => device.rank.to_string(),
        seconds("Computing", "Time in which the device computes").bar() => ns(device.compute_ns),
        seconds("Copies", "Time in which the device only copies") => ns(device.memory_ns),
        seconds(
            "Communication, not hidden",
            "Time in which the device communicates without computing",
        ) => ns(device.communication_ns),
    });
    table.as_described()
}

fn line(files: &[Placed]) -> Table {
    let table = table!("Clock offset of each trace", files, |file| {
        let offset = &file.offset;
        words("Trace", "Trace file") => path(&file.file),
        words("Rank", "Rank number") => file.rank.to_string(),
        words("Machine", "Host name of the machine").optional() => file.host.clone().unwrap_or_default(),
        number(
            "Offset, µs",
            "Offset added to the trace's times to match the first trace",
        ) => offset.nanoseconds as f64 / 1e3,
        number("±, µs", "Uncertainty of the offset; ? if it is unknown").absent("?") =>
            offset.error_ns.map(|error| error as f64 / 1e3),
        number("Drift, µs/s", "Clock drift relative to the first trace")
            .optional() => offset.drift * 1e6,
        words("Method", "Method by which the offset was determined") => offset.found_by(),
    });
    table.name_last()
}
