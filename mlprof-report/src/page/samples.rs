//! HTML of sampling results.

use std::fmt::Write;

use super::Part;
use super::text;
use crate::samples::{ActionSamples, Samples};
use crate::table::{Unit, count, seconds, share, table, words};

/// Maximum number of actions with their own table. JSON contains all actions.
const ACTIONS: usize = 24;

/// Writes an icicle chart of the stacks, a table per action, and the threads.
pub(super) fn write(html: &mut String, samples: &Samples, part: &Part) {
    part.heading(html, "samples", "Samples");
    let _ = write!(
        html,
        "<p>{} samples at {:.0} of {:.0} requested Hz, {} per tick.</p>",
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
    let time = |ticks: u64| ticks as f64 * samples.seconds_per_tick;
    let rows = action.functions.iter().take(part.limits.rows);
    let rows = rows.filter_map(|row| Some((row, samples.function(row)?)));
    let table = table!("Sampled functions, most work first", rows, |(row, code)| {
        let (part, error) = action.share(&row.own);
        let file = code.file.as_deref().unwrap_or(&code.library);
        let file = file.rsplit(['/', '\\']).next().unwrap_or_default();
        let line = code.line.map_or_else(String::new, |line| format!(":{line}"));
        words("Function", "Demangled name").key() => code.name.as_str(),
        seconds("Self", "Estimated work in the function itself").bar() =>
            time(row.own.working_ticks),
        share("Share", "Self as a share of the action's work") => part,
        share("± share", "Standard error of the share") => error,
        seconds("Total", "Work including callees").bar() => time(row.total.working_ticks),
        seconds("Waiting", "Waiting time in the function or its callees") => time(row.total.waiting_ticks),
        words("Place", "File and line, or the library") => file.to_owned() + &line,
    });
    let name = text::name(&action.label(), part.limits.name);
    let open = if is_open { " open" } else { "" };
    let _ = write!(
        html,
        "<details{open}><summary><b>{name}</b> <span class=quiet>{} of work</span></summary>",
        Unit::Seconds.write(time(action.all.working_ticks))
    );
    table.sorted_by("Self").write(html, part.limits);
    html.push_str("</details>");
}

fn write_threads(html: &mut String, samples: &Samples, part: &Part) {
    let time = |ticks: u64| ticks as f64 * samples.seconds_per_tick;
    let table = table!("Work and waits of each thread", &samples.threads, |thread| {
        words("Thread", "Thread name in the system").key() => thread.thread.as_str(),
        count("Threads", "Number of threads with this name") => thread.threads,
        seconds("Working", "Time on a processor").bar() => time(thread.working_ticks),
        seconds("Waiting", "Time asleep in a system call").bar() => time(thread.waiting_ticks),
        seconds("Stalled", "Time ready without a processor, or waiting for a disk") =>
            time(thread.stalled_ticks),
    });
    table.write(html, part.limits);
}
