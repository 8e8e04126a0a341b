//! What several ranks say together: who holds the others up, and where their times lie.

use mlprof_report::internals::sections::{Cell, Column, Content, Quantity, Section, Table};
use mlprof_report::number::grouped;
use mlprof_report::ranks::{numbers, slow_in_words};

use super::cells::{add_below, number, seconds, share, table, words};
use super::heading;
use crate::ranks::text::LAST_RANK;
use crate::ranks::{Placed, Ranks};

/// Slow ranks that are told one by one.
const NAMED: usize = 16;

pub(super) fn section(ranks: &Ranks) -> Section {
    let world = ranks.world_size as usize;
    let there = world - ranks.missing.len().min(world);
    let facts = vec![
        ("Ranks", format!("{} of {}", grouped(there as u64), grouped(world as u64))),
        ("Steps that all of them have", grouped(ranks.common_steps as u64)),
    ];
    let mut notes = ranks.not_judged.clone();
    notes.extend(ranks.notes.iter().cloned());
    if !ranks.missing.is_empty() {
        notes.push(format!("there is no trace of {}", numbers(&ranks.missing)));
    }
    let mut content = Vec::new();
    heading(&mut content, "exposed", "What holds steps up");
    if ranks.common_steps == 0 {
        let none = "There is no step that all of them have: who is slow cannot be told.";
        content.push(Content::Paragraph(none.to_owned()));
    } else {
        add_slow(&mut content, ranks);
        if !ranks.exposed.is_empty() {
            content.push(Content::Table(exposed(ranks)));
        }
        if !ranks.devices.is_empty() {
            content.push(Content::Table(devices(ranks)));
        }
    }
    let met = super::device::collectives(&ranks.collectives);
    add_below(&mut content, "collectives", LAST_RANK, met);
    heading(&mut content, "line", "One time line");
    content.push(Content::Table(line(&ranks.files)));
    Section { title: "Ranks".to_owned(), facts, notes, content, ..Section::default() }
}

fn add_slow(content: &mut Vec<Content>, ranks: &Ranks) {
    if let Some(verdict) = ranks.verdict() {
        content.push(Content::Paragraph(verdict.to_owned()));
    }
    for slow in ranks.stragglers.iter().take(NAMED) {
        content.push(Content::Paragraph(slow_in_words(slow).join(" ")));
    }
    if let Some(more @ 1..) = ranks.stragglers.len().checked_sub(NAMED) {
        content.push(Content::Paragraph(format!("And {} more slow ranks.", grouped(more as u64))));
    }
}

fn exposed(ranks: &Ranks) -> Table {
    let columns = [
        Column::new("Stage", Quantity::Text, "Of a step, in the order in which they run"),
        Column::new(
            "Exposed",
            Quantity::Seconds,
            "By how much the last rank moves the end of steps on here",
        )
        .bar(),
        Column::new(
            "Share",
            Quantity::Share,
            "Of all steps, each as long as the rank that took longest",
        ),
        Column::new("Most often last", Quantity::Text, "Which rank, and in how many steps"),
    ];
    let rows = ranks.exposed_stages().map(|part| {
        let last = part.last.map_or_else(String::new, |(rank, times)| {
            format!("rank {rank}, {} times", grouped(times as u64))
        });
        vec![
            words(part.stage.name.as_str()),
            seconds(part.exposed_ns),
            share(part.exposed_ns, ranks.length_ns),
            words(last),
        ]
    });
    let steps = grouped(ranks.common_steps as u64);
    let caption = format!(
        "What holds up the {steps} steps that all of them have, in the order in which stages run; the rows add up"
    );
    table(&caption, columns, rows)
}

fn devices(ranks: &Ranks) -> Table {
    let columns = [
        Column::new("Rank", Quantity::Text, "Rank number"),
        Column::new("Computing", Quantity::Seconds, "Time in which the device computes").bar(),
        Column::new("Copies", Quantity::Seconds, "Time in which the device only copies"),
        Column::new(
            "Communication",
            Quantity::Seconds,
            "Time in which the device communicates and does not compute",
        ),
    ];
    let rows = ranks.devices.iter().map(|device| {
        vec![
            words(device.rank.to_string()),
            seconds(device.compute_ns),
            seconds(device.memory_ns),
            seconds(device.communication_ns),
        ]
    });
    table("Time of the devices for a step, median of the steps that all ranks have", columns, rows)
}

fn line(files: &[Placed]) -> Table {
    let columns = [
        Column::new("Trace", Quantity::Text, "Its file"),
        Column::new("Rank", Quantity::Text, "Its number"),
        Column::new("Machine", Quantity::Text, "Where it ran"),
        Column::new(
            "Added, µs",
            Quantity::Number,
            "What is added to its times, so that they are those of the first one",
        ),
        Column::new("±, µs", Quantity::Number, "How wrong that may be; – where nobody knows"),
        Column::new(
            "Drift, µs/s",
            Quantity::Number,
            "How fast its clock runs away from that of the first one",
        ),
        Column::new("By", Quantity::Text, "How that was found"),
    ];
    let rows = files.iter().map(|file| {
        let offset = &file.offset;
        vec![
            words(file.file.as_str()),
            words(file.rank.to_string()),
            words(file.host.clone().unwrap_or_default()),
            number(offset.nanoseconds as f64 / 1e3),
            Cell::Number(offset.error_ns.map(|error| error as f64 / 1e3)),
            number(offset.drift * 1e6),
            words(offset.found_by()),
        ]
    });
    table("Where the times of each trace lie", columns, rows)
}
