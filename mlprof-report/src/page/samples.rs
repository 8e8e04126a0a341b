//! What sampling found.

use std::fmt::Write;

use super::Part;
use super::table::{Column, Merge, Table, Unit};
use super::text;
use crate::samples::{ActionSamples, Samples};

/// Tables per action are many: the first of them are enough, and the JSON has all.
const ACTIONS: usize = 24;

/// The stacks as an icicle, threads, and a table per action.
pub(super) fn write(html: &mut String, samples: &Samples, part: &Part) {
    part.heading(html, "samples", "Samples");
    let _ = write!(
        html,
        "<p>{} samples at {:.0} Hz of {:.0} Hz asked for, {} per tick.</p>",
        Unit::Count.write(samples.samples as f64),
        samples.reached_hz,
        samples.asked_hz,
        Unit::Seconds.write(samples.seconds_per_tick)
    );
    for note in &samples.notes {
        let _ = write!(html, "<p class=note>{}</p>", text::sentence(note));
    }
    if !samples.stacks.is_empty() {
        part.icicle(html, "samples", "Sampled stacks: the width is working time, an estimate");
    }
    for (index, action) in samples.actions.iter().take(ACTIONS).enumerate() {
        write_action(html, samples, action, index == 0, part);
    }
    write_threads(html, samples, part);
}

fn write_action(
    html: &mut String,
    samples: &Samples,
    action: &ActionSamples,
    is_open: bool,
    part: &Part,
) {
    let seconds = |ticks: u64| ticks as f64 * samples.seconds_per_tick;
    let mut table = Table::new([
        Column::new("Function", Unit::Text, "Its name, demangled").merge(Merge::Key),
        Column::new("Self", Unit::Seconds, "Work in the function itself, estimated").bar(),
        Column::new("Share", Unit::Share, "Self as a part of the action's work"),
        Column::new("± share", Unit::Share, "Its standard error"),
        Column::new("Total", Unit::Seconds, "With what it called").bar(),
        Column::new("Waiting", Unit::Seconds, "Asleep in it or in what it called"),
        Column::new("Place", Unit::Text, "File and line, or the library"),
    ])
    .sorted_by(1);
    for row in action.functions.iter().take(part.limits.rows) {
        let Some(code) = samples.function(row) else { continue };
        let (share, error) = action.share(&row.own);
        let file = code.file.as_deref().unwrap_or(&code.library);
        let file = file.rsplit(['/', '\\']).next().unwrap_or_default();
        let line = code.line.map_or_else(String::new, |line| format!(":{line}"));
        table.row([
            text::name(&code.name, part.limits.name).into(),
            seconds(row.own.working_ticks).into(),
            share.into(),
            error.into(),
            seconds(row.total.working_ticks).into(),
            seconds(row.total.waiting_ticks).into(),
            (text::name(file, part.limits.name) + &line).into(),
        ]);
    }
    let name = text::name(&action.label(), part.limits.name);
    let open = if is_open { " open" } else { "" };
    let _ = write!(
        html,
        "<details{open}><summary><b>{name}</b> <span class=quiet>{} of work</span></summary>",
        Unit::Seconds.write(seconds(action.all.working_ticks))
    );
    table.write(html, "Sampled functions, those with the most work first");
    html.push_str("</details>");
}

fn write_threads(html: &mut String, samples: &Samples, part: &Part) {
    let seconds = |ticks: u64| ticks as f64 * samples.seconds_per_tick;
    let mut table = Table::new([
        Column::new("Thread", Unit::Text, "As the system knows it").merge(Merge::Key),
        Column::new("Threads", Unit::Count, "How many of this name"),
        Column::new("Working", Unit::Seconds, "On a processor").bar(),
        Column::new("Waiting", Unit::Seconds, "Asleep in a system call").bar(),
        Column::new("Stalled", Unit::Seconds, "Ready without a processor, or waiting for a disk"),
    ]);
    for thread in samples.threads.iter().take(part.limits.rows) {
        table.row([
            text::name(&thread.thread, part.limits.name).into(),
            thread.threads.into(),
            seconds(thread.working_ticks).into(),
            seconds(thread.waiting_ticks).into(),
            seconds(thread.stalled_ticks).into(),
        ]);
    }
    table.write(html, "What each thread did and waited for");
}
