//! Report sections of steps: time breakdown and outliers.

use mlprof_report::internals::sections::Content;
use mlprof_report::internals::table::{Table, markup, number, seconds, share, table, words};

use super::cells::{ACTIVITIES, action, bar, colour, ns, share_of};
use super::names::name;
use super::{heading, time};
use crate::analysis::Analysis;
use crate::answers::{Activity, OutlierStep, StepBreakdown, StepDifference};

pub(super) fn add(content: &mut Vec<Content>, analysis: &Analysis) {
    let of = if analysis.has_steps() { "steps" } else { "the trace" };
    heading(content, "time", &format!("Time breakdown of {of}{}", analysis.thread_of_parts()));
    content.push(Content::Table(times(analysis)));
    heading(content, "steps", "Steps");
    let has_outliers = !analysis.outliers.is_empty();
    if has_outliers {
        content.push(Content::Table(outliers(&analysis.outliers)));
    } else if analysis.has_steps() {
        let words = "No step is an outlier.";
        content.push(Content::Paragraph(words.to_owned()));
    }
    content.push(Content::Table(all(&analysis.steps)));
}

fn times(analysis: &Analysis) -> Table {
    let all = analysis.steps.iter().map(|step| step.duration_ns).sum();
    let caption = "Time by action and activity; the rows add up";
    let table = table!(caption, &analysis.all_steps, |part| {
        words("Action", "Innermost action") => name(&action(part.action.as_ref())),
        words("What", "Activity of the thread") => part.activity.text(),
        seconds("Time", "Total time in all steps").adds_up().bar() => ns(part.duration_ns),
        share("Share", "Share of the time of all steps").adds_up() => share_of(part.duration_ns, all),
    });
    table.sorted_by("Time").fold_small("Share")
}

fn all(steps: &[StepBreakdown]) -> Table {
    let table = table!("Steps in time order", steps, |step| {
        let device = step.parts.iter().filter(|it| it.activity == Activity::WaitingForDevice);
        let number = step.number.map_or_else(|| "whole trace".to_owned(), |it| it.to_string());
        words("Step", "Step number") => number,
        markup("Parts", "Time breakdown, in proportion to the longest step") =>
            bar(by_colour(step)),
        seconds("Time", "Duration of the step").bar() => ns(step.duration_ns),
        seconds("Waiting for data", "Time in which the loop waited for its batch") =>
            ns(step.waiting_for_data_ns),
        seconds("Waiting for device", "Time in calls that wait for the device") =>
            ns(device.map(|part| part.duration_ns).sum()),
        seconds("Start", "Start time, relative to the start of the trace").on_page() => ns(step.start_ns),
        words("Thread", "Thread that ran the step") => name(&step.thread),
    });
    table.kept_by("Time").legend(ACTIVITIES)
}

/// Returns the time of each colour, so that the bars of all steps are comparable.
fn by_colour(step: &StepBreakdown) -> impl Iterator<Item = (usize, i64)> {
    let mut sums = [0; ACTIVITIES.len()];
    for part in &step.parts {
        sums[colour(part.activity)] += part.duration_ns;
    }
    sums.into_iter().enumerate()
}

fn outliers(steps: &[OutlierStep]) -> Table {
    let table = table!("Steps much longer than the others", steps, |step| {
        let differences = step.differences.iter().map(difference).collect::<Vec<_>>();
        words("Step", "Step number") => step.number.to_string(),
        seconds("Time", "Duration of the step").bar() => ns(step.duration_ns),
        seconds("Median", "Median duration of all steps") => ns(step.median_ns),
        number("Score", "0.6745 × distance from the median, divided by the median absolute deviation") => step.score,
        words("Longer in", "Activities that took longer than the median of the other steps") =>
            name(&differences.join("; ")),
    });
    table.kept_by("Score").as_described()
}

fn difference(part: &StepDifference) -> String {
    let longer = time(part.duration_ns - part.median_ns);
    format!("{} ({}) by {longer}", action(part.action.as_ref()), part.activity.text())
}
