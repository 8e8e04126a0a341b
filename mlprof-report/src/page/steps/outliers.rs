//! HTML of the steps that took much longer than the median, with their causes.

use std::fmt::Write;

use super::super::Part;
use super::super::text;
use super::PARTS;
use crate::label::shown_within;
use crate::number::{duration, grouped};
use crate::quantile::median_of_floats;
use crate::steps::{PartSeconds, StepEntry, StepSeries};
use crate::table::{count, number, seconds, table, words};

/// Maximum number of long steps listed.
const OUTLIERS: usize = 16;
/// A step is long if it took at least this many times the median.
const TIMES: f64 = 1.5;

/// A step that took much longer than the median.
pub(super) struct Outlier<'steps> {
    pub(super) number: u64,
    pub(super) seconds: f64,
    entry: &'steps StepEntry,
}

/// Long steps of a series.
pub(super) struct Outliers<'steps> {
    pub(super) median: f64,
    pub(super) p95: f64,
    /// Longest of these steps, in chronological order.
    pub(super) steps: Vec<Outlier<'steps>>,
    /// Number of long steps. Of steps that share an entry, only the longest counts.
    all: usize,
}

impl<'steps> Outliers<'steps> {
    pub(super) fn of(series: &'steps StepSeries) -> Self {
        let median = series.quantile(0.5).unwrap_or(0.0);
        let p95 = series.quantile(0.95).unwrap_or(0.0);
        let mut outliers = Self { median, p95, steps: Vec::new(), all: 0 };
        let mut steps: Vec<_> = series
            .entries
            .iter()
            .map(|entry| (entry, entry.longest()))
            .filter(|(_, longest)| outliers.is_long(longest.seconds))
            .map(|(entry, longest)| Outlier {
                number: longest.number,
                seconds: longest.seconds,
                entry,
            })
            .collect();
        outliers.all = steps.len();
        steps.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        steps.truncate(OUTLIERS);
        steps.sort_by_key(|step| step.number);
        outliers.steps = steps;
        outliers
    }

    /// Returns `true` if a step of this duration is long.
    pub(super) fn is_long(&self, seconds: f64) -> bool {
        self.median > 0.0 && seconds >= TIMES * self.median
    }

    /// Writes the duration of the first step if it was long. It is not compared with other steps.
    pub(super) fn write_first(&self, html: &mut String, series: &StepSeries) {
        let first = series.entries.first().filter(|entry| (entry.number, entry.count) == (0, 1));
        if let Some(first) = first.filter(|first| self.is_long(first.seconds)) {
            let (first, median) = (duration(first.seconds), duration(self.median));
            let text = format!(
                "The first step took {first}. It is not compared: the median, {median}, covers \
                 later steps."
            );
            let _ = writeln!(html, "<p class=quiet>{}</p>", text::escape(&text));
        }
    }

    pub(super) fn write(&self, html: &mut String, series: &StepSeries, part: &Part) {
        let usual = PARTS.map(|(_, _, pick)| median_of(series, pick));
        let median = duration(self.median);
        let caption = match self.all > self.steps.len() {
            true => format!(
                "The {} longest of {} steps of at least {TIMES} times the median, {median}",
                self.steps.len(),
                grouped(self.all as u64)
            ),
            false => format!("Steps of at least {TIMES} times the median, {median}"),
        };
        let table = table!(caption, &self.steps, |step| {
            let is_alone = step.entry.count == 1;
            let of = |pick: PartSeconds| is_alone.then(|| pick(step.entry));
            let [data, forward, backward, collectives, optimizer, other] =
                PARTS.map(|(_, _, pick)| of(pick));
            let slowest = step.entry.slowest.as_ref().map_or_else(String::new, |slowest| {
                let room = part.limits.name.saturating_sub(12);
                format!("{}, {}", shown_within(&slowest.name, room), duration(slowest.seconds))
            });
            count("Step", "Number of the step, from 0") => step.number,
            words("Longest part", "Part with the largest excess over its median") =>
                if is_alone { made_long_by(step.entry, &usual) } else { String::new() },
            seconds("Took", "Duration of the step").bar() => step.seconds,
            number("× median", "Duration divided by the median of the steps") =>
                step.seconds / self.median,
            seconds("At", "Time since the start of the stage") => step.entry.start_seconds,
            seconds("Data", "Wait for data") => data,
            seconds("Forward", "From the batch to the loss") => forward,
            seconds("Backward", "From the loss back to the gradients") => backward,
            seconds("Collectives", "Wait for other processes") =>
                collectives.filter(|seconds| *seconds > 0.0),
            seconds("Optimizer", "From the gradients to new parameters") => optimizer,
            seconds("Other", "Callbacks, logging and the time between epochs") => other,
            words("Slowest", "Action with the most self time in this step") => slowest,
        });
        if table.is_empty() {
            let _ = writeln!(
                html,
                "<p class=quiet>No step took at least {TIMES} times the median, {}.</p>",
                text::escape(&duration(self.median))
            );
            return;
        }
        let anchors = self.steps.iter().map(|step| format!("r{}-step-{}", part.index, step.number));
        table.anchors(anchors).write(html, part.limits);
    }
}

/// Returns the median time of a part per step, in seconds.
fn median_of(series: &StepSeries, pick: PartSeconds) -> f64 {
    let mean = |entry: &StepEntry| pick(entry) / entry.count.max(1) as f64;
    median_of_floats(series.entries.iter().map(mean).collect()).unwrap_or(0.0)
}

/// Returns the part with the largest excess over its median, such as `data, +31.0 ms`.
fn made_long_by(entry: &StepEntry, usual: &[f64; 6]) -> String {
    let beyond =
        PARTS.iter().zip(usual).map(|((name, _, pick), usual)| (name, pick(entry) - usual));
    let most = beyond.max_by(|(_, one), (_, other)| one.total_cmp(other));
    most.map_or_else(String::new, |(name, seconds)| format!("{name}, +{}", duration(seconds)))
}
