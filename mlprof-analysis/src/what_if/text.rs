//! Console text of predictions.

use mlprof_report::internals::sections::{Content, text};
use mlprof_report::internals::table::{Column, seconds, share, table, words};
use mlprof_report::internals::{notes, shown};
use mlprof_report::number::duration;

use super::{Change, Improvement, PredictedStep, Prediction};

/// Returns a help line with similar names.
pub(super) fn near(names: &[String]) -> String {
    match names.is_empty() {
        true => "\nhelp: mlprof analyze lists the names of a trace".to_owned(),
        false => format!("\nhelp: similar names: {}", names.join(", ")),
    }
}

/// Returns a change in words.
pub(super) fn change(change: &Change) -> String {
    match change {
        Change::Free(name) => format!("{name} takes no time"),
        Change::Scale(name, factor) => format!("{name} takes {factor} times its time"),
        Change::Overlap(name) => format!("{name} runs beside the other work of its step"),
        Change::HealthyRank(rank) => format!("rank {rank} is as fast as the other ranks"),
    }
}

/// Returns the limits of a prediction.
pub(super) fn limits(traces: usize) -> Vec<String> {
    let mut limits = vec![
        "the graph has no contention: work that moves may compete for cores, memory bandwidth or a device"
            .to_owned(),
        "the graph has no caches: work that changes may leave other data in them".to_owned(),
        "the graph has only dependencies that a trace shows: order on threads and streams, launches, waits for \
         devices and events, backward threads and arrows; locks and channels without arrows are missing"
            .to_owned(),
    ];
    if traces > 1 {
        limits.push(
            "ranks do not meet in the graph: a collective keeps its recorded time, with its wait for slower ranks"
                .to_owned(),
        );
    }
    limits
}

/// Returns a signed duration.
fn signed(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    format!("{sign}{}", duration(nanoseconds.unsigned_abs() as f64 / 1e9))
}

fn time(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Prediction {
    /// Returns the prediction as text, with at most `limit` steps.
    pub fn text(&self, limit: usize) -> String {
        let changes = self.changes.iter().map(|change| format!("  {}\n", shown(change)));
        let changes: String = match self.changes.is_empty() {
            true => "  nothing changes\n".to_owned(),
            false => changes.collect(),
        };
        let percent = |part: i64| -100.0 * part as f64 / self.recorded_ns.max(1) as f64;
        let gain = |after: i64| self.recorded_ns - after;
        let head = format!(
            "What if:\n{changes}\nAll steps: {} instead of {} ({:+.1} %)\nInterval:  {} to {} ({:+.1} % to {:+.1} \
             %)\n",
            signed(self.predicted_ns),
            signed(self.recorded_ns),
            percent(gain(self.predicted_ns)),
            signed(self.low_ns),
            signed(self.high_ns),
            percent(gain(self.low_ns)),
            percent(gain(self.high_ns)),
        );
        let has_ranks = self.steps.iter().any(|step| step.rank != self.steps[0].rank);
        let table = table!("Predicted steps", &self.steps, |step| {
            words("Step", "Step number") => number(step, has_ranks),
            seconds("Recorded", "Recorded duration") => time(step.recorded_ns),
            seconds("Predicted", "Predicted duration") => time(step.predicted_ns),
            CHANGE => -(step.recorded_ns - step.predicted_ns) as f64 / step.recorded_ns.max(1) as f64,
        });
        let content = [Content::Table(table.rest("… and {} more steps").as_described())];
        format!("{head}{}{}", text(&content, limit), notes(&self.limits))
    }
}

const CHANGE: Column = mlprof_report::internals::table::change("Change", "Change of the duration");

fn number(step: &PredictedStep, has_ranks: bool) -> String {
    let number = step.number.map_or_else(|| "whole trace".to_owned(), |number| number.to_string());
    if has_ranks { format!("{number} of rank {}", step.rank) } else { number }
}

/// Returns the improvements as text.
pub fn improvements_text(best: &[Improvement], prediction: &Prediction) -> String {
    if best.is_empty() {
        return "\nNo single improvement by 10 % gains time.\n".to_owned();
    }
    let of = prediction.predicted_ns.max(1) as f64;
    let table = table!("Single improvements by 10 % that gain most", best, |row| {
        words("Name", "Name of the work that takes 10 % less time") => shown(&row.name),
        seconds("Gain", "Predicted gain over all steps") => time(row.gain_ns),
        share("Share", "Gain as a share of the time of all steps") => row.gain_ns as f64 / of,
        seconds("At least", "Lower end of the interval") => time(row.low_ns),
        seconds("At most", "Upper end of the interval") => time(row.high_ns),
        seconds("On the path", "Time on the critical path, without nested ops") => time(row.on_path_ns),
    });
    text(&[Content::Table(table.name_last())], best.len())
}
