//! HTML of the step chart with one bar per step, and of the long steps.

use std::fmt::Write;

mod outliers;

use super::Part;
use super::text;
use crate::Report;
use crate::number::{duration, grouped};
use crate::steps::{self, PartSeconds, StepEntry, StepSeries};
use crate::table::{seconds, share, table, words};
use outliers::{Outlier, Outliers};

/// Parts of a step in stacking order. Each has a name, a CSS class for its colour, and a function
/// that returns its time in seconds.
const PARTS: [(&str, &str, PartSeconds); 6] = {
    let [data, forward, backward, collectives, optimizer, other] = steps::PARTS;
    [
        (data.0, "p0", data.1),
        (forward.0, "p1", forward.1),
        (backward.0, "p2", backward.1),
        (collectives.0, "p6", collectives.1),
        (optimizer.0, "p3", optimizer.1),
        (other.0, "p4", other.1),
    ]
};
/// CSS class of a validation inside a training.
const VALIDATION: &str = "p5";

/// Height and top margin of the chart in pixels. The margin leaves space for markers.
const HEIGHT: f64 = 110.0;
const TOP: f64 = 12.0;
const WIDTH: f64 = 1100.0;

/// Maximum difference between the start times of one run's reports, in seconds.
pub(super) const SAME_START: f64 = 1.0;

/// Returns the reports of a run whose steps the page shows, as indices. Several profilers of one
/// stage and rank report the same steps, or some of them, so the one with the most steps is shown.
pub(super) fn shown_of(run: &[usize], reports: &[Report]) -> Vec<usize> {
    let mut shown: Vec<usize> = Vec::new();
    let count = |index: usize| reports[index].step_series().first().map(|series| series.steps);
    let place = |index: usize| (reports[index].header().stage, reports[index].header().rank);
    for index in run.iter().copied().filter(|index| count(*index).is_some()) {
        match shown.iter_mut().find(|other| place(**other) == place(index)) {
            Some(other) if count(*other) < count(index) => *other = index,
            Some(_) => {}
            None => shown.push(index),
        }
    }
    shown
}

/// Returns the heading of a report's steps. Of several, it names the stage and the rank.
pub(super) fn title(report: &Report, is_one_of_several: bool) -> String {
    let header = report.header();
    let mut title = "Steps".to_owned();
    if let Some(stage) = header.stage.filter(|_| is_one_of_several) {
        let _ = write!(title, " of {stage}");
    }
    if let Some(rank) = header.rank_of_several().filter(|_| is_one_of_several) {
        let _ = write!(title, ", rank {rank}");
    }
    title
}

/// Returns the time of each part of the steps in seconds, with its name and its CSS class.
pub(super) fn part_sums(series: &StepSeries) -> [(&'static str, &'static str, f64); 6] {
    PARTS.map(|(name, class, pick)| (name, class, series.entries.iter().map(pick).sum()))
}

/// Writes the chart and the tables of its data. `pruned` contains the steps with a bar in the
/// chart.
pub(super) fn write(
    html: &mut String,
    all: &[StepSeries],
    pruned: &[StepSeries],
    title: &str,
    part: &Part,
) {
    let (Some(steps), Some(shown)) = (all.first(), pruned.first()) else { return };
    part.heading(html, "steps", title);
    let later = steps.later();
    let outliers = Outliers::of(&later);
    Strip::new(shown, pruned.get(1), &outliers).write(html, part);
    outliers.write(html, steps, part);
    outliers.write_first(html, steps);
    html.push_str("<details><summary>All steps in numbers</summary>");
    for series in all {
        write_quantiles(html, series, part);
    }
    html.push_str("</details>\n");
}

/// A bar of the chart.
struct Bar<'steps> {
    entry: &'steps StepEntry,
    is_validation: bool,
}

struct Strip<'steps> {
    bars: Vec<Bar<'steps>>,
    outliers: &'steps Outliers<'steps>,
    /// Time of a bar with full height, in seconds. Longer bars are cut.
    highest: f64,
    /// Maximum number of steps that share a bar.
    shared_by: u64,
}

impl<'steps> Strip<'steps> {
    fn new(
        steps: &'steps StepSeries,
        validations: Option<&'steps StepSeries>,
        outliers: &'steps Outliers<'steps>,
    ) -> Self {
        let bars = |series: &'steps StepSeries, is_validation| {
            series.entries.iter().map(move |entry| Bar { entry, is_validation })
        };
        let mut all: Vec<_> = bars(steps, false).collect();
        all.extend(validations.into_iter().flat_map(|series| bars(series, true)));
        all.sort_by(|one, other| one.entry.start_seconds.total_cmp(&other.entry.start_seconds));
        let means = steps.entries.iter().map(StepEntry::mean_seconds);
        let longest = means.fold(0.0, f64::max);
        let usual = outliers.p95.max(outliers.median) * 1.6;
        let highest = if longest > usual { usual } else { longest };
        let shared_by = steps.entries.iter().map(|entry| entry.count).max().unwrap_or(1);
        Self { bars: all, outliers, highest: highest.max(f64::MIN_POSITIVE), shared_by }
    }

    /// Writes the chart. Writing into a string cannot fail, so the results are ignored here and
    /// below.
    fn write(&self, html: &mut String, part: &Part) {
        let pitch = (WIDTH / self.bars.len() as f64).clamp(2.0, 14.0);
        let width = pitch * self.bars.len() as f64;
        let bar = if pitch > 4.0 { pitch - 1.0 } else { pitch - 0.3 };
        let bottom = TOP + HEIGHT;
        let _ = write!(
            html,
            "<figure class=strip data-report={} data-pitch={pitch:.3} data-long=\"{}\"><figcaption>",
            part.index,
            self.long_bars()
        );
        self.write_legend(html);
        let _ = write!(
            html,
            "</figcaption><div class=scroll><svg width={width:.0} height={bottom:.0} \
             viewBox=\"0 0 {width:.1} {bottom:.1}\" preserveAspectRatio=none{} role=group aria-label=\"{}\"><g stroke-width={bar:.2}>",
            if width >= WIDTH / 2.0 { " class=wide" } else { "" },
            text::escape(&self.about())
        );
        for (index, (_, class, pick)) in PARTS.iter().enumerate() {
            let below = |entry: &StepEntry| -> f64 {
                PARTS[..index].iter().map(|part| (part.2)(entry)).sum()
            };
            self.write_part(html, class, pitch, |bar| {
                let below: f64 = below(bar.entry);
                (!bar.is_validation).then(|| (below, below + pick(bar.entry)))
            });
        }
        self.write_part(html, VALIDATION, pitch, |bar| {
            bar.is_validation.then_some((0.0, bar.entry.seconds))
        });
        html.push_str("</g>");
        self.write_marks(html, pitch, part);
        html.push_str("</svg></div></figure>\n");
    }

    /// Writes all bars of one colour as one path, because there are many bars.
    fn write_part(
        &self,
        html: &mut String,
        class: &str,
        pitch: f64,
        range: impl Fn(&Bar<'_>) -> Option<(f64, f64)>,
    ) {
        let mut path = String::new();
        for (index, bar) in self.bars.iter().enumerate() {
            let Some((from, to)) = range(bar) else { continue };
            // A bar that is cut keeps its parts, scaled to the full height.
            let mean = bar.entry.mean_seconds();
            let scale = (self.highest / mean).min(1.0) / bar.entry.count.max(1) as f64;
            let [from, to] = [from, to].map(|seconds| self.y(seconds * scale));
            if from - to >= 0.05 {
                let _ = write!(path, "M{:.1} {from:.1}V{to:.1}", (index as f64 + 0.5) * pitch);
            }
        }
        if !path.is_empty() {
            let _ = write!(html, "<path class={class} d=\"{path}\"/>");
        }
    }

    fn y(&self, seconds: f64) -> f64 {
        TOP + HEIGHT * (1.0 - (seconds / self.highest).min(1.0))
    }

    /// Returns the indices of bars with long steps, including those without a marker. The script
    /// uses them to navigate to the next long step.
    fn long_bars(&self) -> String {
        let bars = self.bars.iter().enumerate();
        let long = bars.filter(|(_, bar)| {
            !bar.is_validation && self.outliers.is_long(bar.entry.longest().seconds)
        });
        long.map(|(index, _)| index.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Writes a marker above each listed long step, with a link to its row.
    fn write_marks(&self, html: &mut String, pitch: f64, part: &Part) {
        for (index, bar) in self.bars.iter().enumerate().filter(|(_, bar)| !bar.is_validation) {
            let (first, longest) = (bar.entry.number, bar.entry.longest());
            let is_in = |step: &&Outlier<'_>| {
                (first..first + bar.entry.count).contains(&step.number)
                    && step.number == longest.number
            };
            let Some(outlier) = self.outliers.steps.iter().find(is_in) else { continue };
            let x = (index as f64 + 0.5) * pitch;
            let _ = write!(
                html,
                "<a href=\"#r{}-step-{}\" aria-label=\"Step {}: {}\"><path class=mark \
                 d=\"M{x:.1} {:.1}l-4 -8h8z\"/></a>",
                part.index,
                outlier.number,
                outlier.number,
                text::escape(&duration(outlier.seconds)),
                TOP - 1.0,
            );
        }
    }

    fn write_legend(&self, html: &mut String) {
        let has = |pick: &PartSeconds| {
            self.bars.iter().any(|bar| !bar.is_validation && pick(bar.entry) > 0.0)
        };
        for (name, class, _) in PARTS.iter().filter(|(_, _, pick)| has(pick)) {
            let _ = write!(html, "<span class=\"key {class}\">{name}</span>");
        }
        if self.bars.iter().any(|bar| bar.is_validation) {
            let _ = write!(html, "<span class=\"key {VALIDATION}\">validation</span>");
        }
        let _ = write!(html, "<span class=quiet>{}</span>", text::escape(&self.about()));
    }

    fn about(&self) -> String {
        let mut about = match self.shared_by {
            1 => "One bar per step".to_owned(),
            shared => format!("One bar per {} steps, showing their mean", grouped(shared)),
        };
        let _ = write!(about, "; full height is {}", duration(self.highest));
        if self.bars.iter().any(|bar| bar.entry.mean_seconds() > self.highest) {
            about.push_str(", longer bars are cut");
        }
        about
    }
}

fn write_quantiles(html: &mut String, series: &StepSeries, part: &Part) {
    let sum = |pick: PartSeconds| series.entries.iter().map(pick).sum::<f64>();
    let all = sum(|entry| entry.seconds);
    let count = series.steps.max(1) as f64;
    let parts = PARTS.iter().map(|(name, _, pick)| (*name, sum(*pick), true));
    let parts = parts.filter(|(_, seconds, _)| *seconds > 0.0);
    let rows = [("all of the step", all, false)].into_iter().chain(parts);
    let steps = grouped(series.steps);
    let caption = match series.stage {
        Some(stage) => format!("{steps} steps of {stage}"),
        None => format!("{steps} steps"),
    };
    let table = table!(caption, rows, |(name, sum, is_part)| {
        let quantile = |share| if is_part { None } else { series.quantile(share) };
        words("Part", "Part of the step") => name,
        seconds("Sum", "Sum over all steps").bar() => sum,
        share("Share", "Share of all steps") => (is_part && all > 0.0).then(|| sum / all),
        seconds("Mean", "Mean of a step") => sum / count,
        seconds("p50", "Median of the steps") => quantile(0.5),
        seconds("p95", "95th percentile of the steps") => quantile(0.95),
        seconds("p99", "99th percentile of the steps") => quantile(0.99),
        seconds("Max", "Longest step") => quantile(1.0),
    });
    table.write(html, part.limits);
}
