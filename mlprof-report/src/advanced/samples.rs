//! Samples as text: a line about the sampling, and one table per action.

use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter, Write};

use crate::advanced::ActionProfile;
use crate::label::{notes, shown};
use crate::number::{duration, grouped};
use crate::samples::{ActionSamples, SampledCode, SampledFunction, Samples, SamplesReport};
use crate::simple::lightning::title;
use crate::table::{Cell, count, percent, seconds, table as rows_of, words};
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
    let time = |ticks: u64| duration(ticks as f64 * samples.seconds_per_tick);
    let mut text = format!(
        "{} samples of work: {}; {} of waiting, {} without a processor; shares of work, ± one \
         standard error\n",
        grouped(action.all.samples),
        time(action.all.working_ticks),
        time(action.all.waiting_ticks),
        time(action.all.stalled_ticks),
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
    rows.truncate(MOST_ROWS);
    let shown = rows.len();
    let is_shown = |row: &&SampledFunction| rows.iter().any(|it| std::ptr::eq(*it, *row));
    let left_out: Vec<_> = action.functions.iter().filter(|row| !is_shown(row)).collect();
    rows.extend(left_out);
    let rows = rows.into_iter().filter_map(|row| Some((row, samples.function(row)?)));
    let waiting =
        |ticks: u64| Cell::Number((ticks > 0).then_some(ticks as f64 * samples.seconds_per_tick));
    let table = rows_of!("Samples", rows, |(row, code)| {
        let (own, own_error) = action.share(&row.own);
        let (total, total_error) = action.share(&row.total);
        words("Function", "") => whole(function(code)),
        percent("Self %", "").adds_up() => own,
        percent("±", "") => own_error,
        percent("Total %", "") => total,
        percent("±", "") => total_error,
        seconds("Waiting", "").adds_up() => waiting(row.own.waiting_ticks),
        seconds("Total waiting", "") => waiting(row.total.waiting_ticks),
    });
    text.push_str(&table.rest("{} more functions, only in the JSON report").text(shown));
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
    let name = |index: u32| samples.functions.get(index as usize).map(function);
    let table = rows_of!("Waits", &all, |waits| {
        let (who, inside) = (name(waits.function), name(waits.inside));
        let inside = inside.filter(|inside| Some(inside) != who.as_ref());
        let inside = inside.map_or_else(String::new, |inside| format!(": {inside}"));
        words("Waiting function: function that it waits in", "") =>
            whole(who.unwrap_or_default() + &inside),
        seconds("Waiting", "").adds_up() => waits.ticks as f64 * samples.seconds_per_tick,
        percent("%", "").adds_up() =>
            waits.ticks as f64 / action.all.waiting_ticks.max(1) as f64,
    });
    let table = table.rest("{} more waits, only in the stacks of the JSON report");
    text.push_str(&table.text(MOST_WAITS));
}

/// Returns a cell of text that is already escaped.
fn whole(text: String) -> Cell {
    Cell::Fitted(vec![text], |text, _room| text.concat())
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
    let table = rows_of!("Threads", &samples.threads, |thread| {
        let [work, waiting, stalled] =
            [thread.working_ticks, thread.waiting_ticks, thread.stalled_ticks]
                .map(|ticks| ticks as f64 * samples.seconds_per_tick);
        let all = work + waiting + stalled;
        words("Name", "") => thread.thread.as_str(),
        seconds("Work", "").adds_up() => work,
        seconds("Waiting", "").adds_up() => waiting,
        seconds("No processor", "").adds_up() => stalled,
        percent("Working %", "") => (all > 0.0).then(|| work / all),
        count("Threads", "").adds_up() => thread.threads,
    });
    let table = table.rest("{} more thread names, only in the JSON report");
    text.push_str(&table.text(MOST_THREADS));
}
