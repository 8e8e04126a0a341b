//! What steps spend their time on, and those that took much longer.

use mlprof_report::internals::sections::{Column, Content, Quantity, Table};

use super::cells::{ACTIVITIES, colour, number, parts, seconds, share, table, words};
use super::heading;
use crate::analysis::Analysis;
use crate::answers::{Activity, OutlierStep, StepBreakdown, StepDifference};
use crate::text::{action, time};

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
    let columns = [
        Column::new("Action", Quantity::Text, "The innermost action around it"),
        Column::new("What", Quantity::Text, "What the thread of the steps did"),
        Column::new("Time", Quantity::Seconds, "Of all steps together").bar(),
        Column::new("Share", Quantity::Share, "Of the time of all steps"),
    ];
    let rows = analysis.all_steps.iter().map(|part| {
        vec![
            words(action(part.action.as_ref())),
            words(part.activity.text()),
            seconds(part.duration_ns),
            share(part.duration_ns, all),
        ]
    });
    Table {
        sorted_by: Some(2),
        ..table("By action and what was done; the rows add up", columns, rows)
    }
}

fn all(steps: &[StepBreakdown]) -> Table {
    let columns = [
        Column::new("Step", Quantity::Text, "Its number"),
        Column::new(
            "Parts",
            Quantity::Parts,
            "What its time went into; the longest step is as wide as any",
        ),
        Column::new("Time", Quantity::Seconds, "How long it took").bar(),
        Column::new(
            "Waiting for data",
            Quantity::Seconds,
            "How long the loop waited for its batch",
        ),
        Column::new("Waiting for the device", Quantity::Seconds, "In calls that wait for it"),
        Column::new("Begins", Quantity::Seconds, "After the beginning of the trace"),
        Column::new("Thread", Quantity::Text, "The one that ran it"),
    ];
    let rows = steps.iter().map(|step| {
        let of = |activity: Activity| {
            let of = step.parts.iter().filter(move |part| part.activity == activity);
            of.map(|part| part.duration_ns).sum::<i64>()
        };
        // By colour, so that the bars of all steps can be compared.
        let mut sums = [0; ACTIVITIES.len()];
        for part in &step.parts {
            sums[colour(part.activity)] += part.duration_ns;
        }
        let name = step.number.map_or_else(|| "all of it".to_owned(), |number| number.to_string());
        vec![
            words(name),
            parts(sums.into_iter().enumerate()),
            seconds(step.duration_ns),
            seconds(step.waiting_for_data_ns),
            seconds(of(Activity::WaitingForDevice)),
            seconds(step.start_ns),
            words(step.thread.as_str()),
        ]
    });
    let table = table("Each step, in the order of time", columns, rows);
    Table { kept_by: Some(2), legend: ACTIVITIES.to_vec(), ..table }
}

fn outliers(steps: &[OutlierStep]) -> Table {
    let columns = [
        Column::new("Step", Quantity::Text, "Its number"),
        Column::new("Time", Quantity::Seconds, "How long it took").bar(),
        Column::new("Usual", Quantity::Seconds, "What steps take in the middle"),
        Column::new(
            "Score",
            Quantity::Number,
            "0.6745 × the distance, by the median distance of all steps",
        ),
        Column::new(
            "Longer in",
            Quantity::Text,
            "What took longer than in the middle of the other steps",
        ),
    ];
    let rows = steps.iter().map(|step| {
        let differences: Vec<String> = step.differences.iter().map(difference).collect();
        vec![
            words(step.number.to_string()),
            seconds(step.duration_ns),
            seconds(step.median_ns),
            number(step.score),
            words(differences.join("; ")),
        ]
    });
    let table = table("Steps that took much longer than the others", columns, rows);
    Table { kept_by: Some(3), ..table }
}

fn difference(part: &StepDifference) -> String {
    let longer = time(part.duration_ns - part.median_ns);
    format!("{} ({}) by {longer}", action(part.action.as_ref()), part.activity.text())
}
