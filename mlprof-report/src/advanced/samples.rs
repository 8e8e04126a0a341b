//! Samples as text: a line about the sampling, and one table per action.

use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter, Write};

use crate::advanced::ActionProfile;
use crate::label::{notes, shown};
use crate::number::{duration, grouped, share};
use crate::samples::{ActionSamples, SampledCode, SampledFunction, Samples, SamplesReport};
use crate::simple::lightning::title;
use crate::table::Grid;
use mlprof_events::OrderExt;

/// Minimum share of an action's work for a function to appear in its table. The table also omits
/// functions such as `main` that are on every stack but do no work themselves. JSON contains all
/// functions.
const LEAST_SHARE: f64 = 0.005;

/// Maximum number of rows in one table.
const MOST_ROWS: usize = 25;

/// Maximum number of waiting call sites shown.
const MOST_WAITS: usize = 10;

/// Maximum number of threads shown.
const MOST_THREADS: usize = 16;

/// Sort order of an action's functions, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SampleOrder {
    /// Self time: work in the function itself.
    #[default]
    Own,
    /// Inclusive time: work in the function and its callees.
    Total,
    /// Waiting time in the function and its callees. Functions that never waited are omitted.
    Waiting,
}

/// The text of the report, as a table per action.
impl Display for SamplesReport {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&paint(self))
    }
}

/// Renders the report of a standalone sampler.
pub fn paint(report: &SamplesReport) -> String {
    paint_ordered(report, SampleOrder::default())
}

/// Renders the report of a standalone sampler in the given order.
pub fn paint_ordered(report: &SamplesReport, order: SampleOrder) -> String {
    let mut text = title(&report.header);
    text.push('\n');
    text.push_str(&heading(&report.samples));
    for action in &report.samples.actions {
        let _ = writeln!(text, "\nSamples in: {}", shown(&action.label()));
        text.push_str(&table_ordered(&report.samples, action, order));
    }
    paint_threads(&mut text, &report.samples);
    text.push_str(&notes(&report.header.notes));
    text
}

/// Appends the sample table of one action below its exact table. Appends no text if the action has
/// no samples.
pub(crate) fn append_below(text: &mut String, samples: &Samples, profile: &ActionProfile) {
    if let Some(action) = samples.actions.iter().find(|action| is_of(action, profile)) {
        let _ = writeln!(text, "Samples in: {}", shown(&action.label()));
        text.push_str(&table(samples, action));
        text.push_str("\n\n");
    }
}

/// Appends the tables of actions without an exact profile, and then the sampling summary.
pub(crate) fn append_rest(text: &mut String, samples: &Samples, exact: &[ActionProfile]) {
    for action in &samples.actions {
        if !exact.iter().any(|profile| is_of(action, profile)) {
            let _ = writeln!(text, "\nSamples in: {}", shown(&action.label()));
            text.push_str(&table(samples, action));
        }
    }
    text.push('\n');
    text.push_str(&heading(samples));
    paint_threads(text, samples);
}

fn is_of(action: &ActionSamples, profile: &ActionProfile) -> bool {
    (&action.action, action.sub_stage) == (&profile.action, profile.sub_stage)
}

/// Returns the sampling summary: sample count, rates, estimated work and notes.
pub fn heading(samples: &Samples) -> String {
    let mut text = String::new();
    if samples.samples > 0 {
        let _ = writeln!(
            text,
            "Sampled     {} samples of all threads in {}: {:.0} Hz requested, {:.1} reached, {} \
             ticks dropped",
            grouped(samples.samples),
            duration(samples.seconds),
            samples.asked_hz,
            samples.reached_hz,
            grouped(samples.dropped_ticks),
        );
        let work = samples.working_seconds();
        let _ = writeln!(
            text,
            "            {} of work, estimated; {} of CPU time by the system's clock",
            duration(work),
            duration(samples.processor_seconds),
        );
        if samples.unsampled_processor_seconds > 0.01 * samples.processor_seconds {
            let _ = writeln!(
                text,
                "            {} of the CPU time was not sampled, after long waits",
                duration(samples.unsampled_processor_seconds)
            );
        }
        let _ = writeln!(
            text,
            "            {} in signal handlers ({} per sample)",
            duration(samples.handler_seconds),
            duration(samples.handler_seconds / samples.samples as f64),
        );
    } else {
        text.push_str("Sampled     nothing\n");
    }
    text.push_str(&notes(&samples.notes));
    text
}

/// Returns the table of one action's functions and the table of its waits.
pub fn table(samples: &Samples, action: &ActionSamples) -> String {
    table_ordered(samples, action, SampleOrder::default())
}

fn table_ordered(samples: &Samples, action: &ActionSamples, order: SampleOrder) -> String {
    let seconds = |ticks: u64| duration(ticks as f64 * samples.seconds_per_tick);
    let mut text = format!(
        "{} samples of work: {}; {} of waiting, {} without a processor; shares of work, ± one \
         standard error\n",
        grouped(action.all.samples),
        seconds(action.all.working_ticks),
        seconds(action.all.waiting_ticks),
        seconds(action.all.stalled_ticks),
    );
    let waited = action.all.waiting_ticks as f64;
    let is_shown = |row: &&SampledFunction| {
        let is_everywhere = row.own.working_ticks == 0
            && row.own.waiting_ticks == 0
            && row.total.working_ticks == action.all.working_ticks;
        let is_large = action.share(&row.total).0 >= LEAST_SHARE && action.all.working_ticks > 0;
        let waits = waited > 0.0 && row.own.waiting_ticks as f64 >= 0.05 * waited;
        (is_large || waits) && !is_everywhere
    };
    let mut rows: Vec<_> = match order {
        SampleOrder::Waiting => {
            action.functions.iter().filter(|row| row.total.waiting_ticks > 0).collect()
        }
        _ => action.functions.iter().filter(is_shown).collect(),
    };
    match order {
        SampleOrder::Own => {}
        SampleOrder::Total => rows.order_by_key(|row| Reverse(row.total.working_ticks)),
        SampleOrder::Waiting => rows.order_by_key(|row| Reverse(row.total.waiting_ticks)),
    }
    let titles = ["Self %", "±", "Total %", "±", "Waiting", "Total waiting", "Function"];
    let mut table = Grid::new(titles);
    let or_none = |ticks: u64| if ticks == 0 { "-".to_owned() } else { seconds(ticks) };
    for row in rows.iter().take(MOST_ROWS) {
        let Some(code) = samples.function(row) else { continue };
        let (own, own_error) = action.share(&row.own);
        let (total, total_error) = action.share(&row.total);
        table.row([
            percent(own),
            percent(own_error),
            percent(total),
            percent(total_error),
            or_none(row.own.waiting_ticks),
            or_none(row.total.waiting_ticks),
            function(code),
        ]);
    }
    text.push_str(&table.paint());
    let left = action.functions.len() - rows.len().min(MOST_ROWS);
    if left > 0 {
        let _ =
            writeln!(text, "{} more functions are only in the JSON report.", grouped(left as u64));
    }
    paint_waits(&mut text, samples, action);
    text
}

/// Appends a table of program functions that waited and the callees in which they waited.
fn paint_waits(text: &mut String, samples: &Samples, action: &ActionSamples) {
    let all = crate::samples::waits::of_action(samples, action);
    if all.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nWaited in: {}", shown(&action.label()));
    let mut table = Grid::new(["Waiting", "%", "Waiting function: function that it waits in"]);
    let name = |index: u32| samples.functions.get(index as usize).map(function);
    for waits in all.iter().take(MOST_WAITS) {
        let (who, inside) = (name(waits.function), name(waits.inside));
        let inside = inside.filter(|inside| Some(inside) != who.as_ref());
        let inside = inside.map_or_else(String::new, |inside| format!(": {inside}"));
        table.row([
            duration(waits.ticks as f64 * samples.seconds_per_tick),
            percent(waits.ticks as f64 / action.all.waiting_ticks.max(1) as f64),
            who.unwrap_or_default() + &inside,
        ]);
    }
    text.push_str(&table.paint());
    let left = all.len().saturating_sub(MOST_WAITS);
    if left > 0 {
        let _ = writeln!(text, "{left} more waits are only in the stacks of the JSON report.");
    }
}

fn percent(part: f64) -> String {
    format!("{:.2}", 100.0 * part)
}

/// Returns `name (file:line)`, or `name [library]` if the source file is unknown.
fn function(code: &SampledCode) -> String {
    let name = shown(&code.name);
    match (&code.file, code.line) {
        (Some(file), line) => {
            let file = file.rsplit('/').next().unwrap_or(file);
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            format!("{name} ({}{line})", shown(file))
        }
        (None, _) if code.library.is_empty() => name,
        (None, _) => format!("{name} [{}]", shown(&code.library)),
    }
}

fn paint_threads(text: &mut String, samples: &Samples) {
    if samples.threads.is_empty() {
        return;
    }
    text.push_str("\nThreads\n");
    let mut table = Grid::new(["Work", "Waiting", "No processor", "Working %", "Threads", "Name"]);
    for thread in samples.threads.iter().take(MOST_THREADS) {
        let seconds = |ticks: u64| ticks as f64 * samples.seconds_per_tick;
        let (work, waiting) = (seconds(thread.working_ticks), seconds(thread.waiting_ticks));
        let stalled = seconds(thread.stalled_ticks);
        table.row([
            duration(work),
            duration(waiting),
            duration(stalled),
            share(work, work + waiting + stalled).trim_end_matches(" %").to_owned(),
            grouped(thread.threads),
            shown(&thread.thread),
        ]);
    }
    text.push_str(&table.paint());
    let left = samples.threads.len().saturating_sub(MOST_THREADS);
    if left > 0 {
        let _ = writeln!(text, "{left} more thread names are only in the JSON report.");
    }
}
