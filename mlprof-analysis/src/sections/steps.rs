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
    heading(
        content,
        "time",
        &format!("What the time of {of} went into{}", analysis.thread_of_parts()),
    );
    content.push(Content::Table(times(analysis)));
    heading(content, "steps", "Steps");
    let has_outliers = !analysis.outliers.is_empty();
    if has_outliers {
        content.push(Content::Table(outliers(&analysis.outliers)));
    } else if analysis.has_steps() {
        let words = "No step took much longer than the others.";
        content.push(Content::Paragraph(words.to_owned()));
    }
    content.push(Content::Table(all(&analysis.steps)));
}

fn times(analysis: &Analysis) -> Table {
    let all = analysis.steps.iter().map(|step| step.duration_ns).sum();
    let caption = "By action and what was done; the rows add up";
    let table = table!(caption, &analysis.all_steps, |part| {
        words("Action", "The innermost action around it") => name(&action(part.action.as_ref())),
        words("What", "What the thread of the steps did") => part.activity.text(),
        seconds("Time", "Of all steps together").bar() => ns(part.duration_ns),
        share("Share", "Of the time of all steps") => share_of(part.duration_ns, all),
    });
    table.sorted_by("Time")
}

fn all(steps: &[StepBreakdown]) -> Table {
    let table = table!("Each step, in the order of time", steps, |step| {
        let device = step.parts.iter().filter(|it| it.activity == Activity::WaitingForDevice);
        let number = step.number.map_or_else(|| "all of it".to_owned(), |it| it.to_string());
        words("Step", "Its number") => number,
        markup("Parts", "What its time went into; the longest step is as wide as any") =>
            bar(by_colour(step)),
        seconds("Time", "How long it took").bar() => ns(step.duration_ns),
        seconds("Waiting for data", "How long the loop waited for its batch") =>
            ns(step.waiting_for_data_ns),
        seconds("Waiting for device", "In calls that wait for it") =>
            ns(device.map(|part| part.duration_ns).sum()),
        seconds("Begins", "After the beginning of the trace").on_page() => ns(step.start_ns),
        words("Thread", "The one that ran it") => name(&step.thread),
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
    let table = table!("Steps that took much longer than the others", steps, |step| {
        let differences = step.differences.iter().map(difference).collect::<Vec<_>>();
        words("Step", "Its number") => step.number.to_string(),
        seconds("Time", "How long it took").bar() => ns(step.duration_ns),
        seconds("Usual", "What steps take in the middle") => ns(step.median_ns),
        number("Score", "0.6745 × the distance, by the median distance of all steps") => step.score,
        words("Longer in", "What took longer than in the middle of the other steps") =>
            name(&differences.join("; ")),
    });
    table.kept_by("Score").as_described()
}

fn difference(part: &StepDifference) -> String {
    let longer = time(part.duration_ns - part.median_ns);
    format!("{} ({}) by {longer}", action(part.action.as_ref()), part.activity.text())
}
