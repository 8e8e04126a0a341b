//! Findings as text: a few lines for the console, all of them for a file, and what each rule had to
//! say.

use std::fmt::Write;

#[cfg(feature = "findings")]
use super::engine::Explanation;
#[cfg(feature = "findings")]
use super::rule::Outcome;
use crate::finding::{Cost, Finding};
use crate::number::{bytes, duration, share};
use crate::simple::lightning::title;
use crate::{Report, label};

/// So many have a line on the console.
const LINES: usize = 3;

/// Which report findings are of: `FIT Profiler Report`, and a line that is left free.
pub fn heading(report: &Report) -> String {
    format!("{}\n\n", title(report.header()))
}

/// A line for each of the first findings that are more than hints, and cost time or memory: what is wrong with numbers stands in
/// the text of their report. Nothing without such.
pub fn brief(findings: &[Finding]) -> String {
    let shown = |finding: &&Finding| finding.is_advice() && !finding.cost.is_of_learning;
    let shown = findings.iter().filter(shown).take(LINES);
    shown.map(line).collect()
}

/// What a finding is, what it costs and what to do, as one line.
pub fn line(finding: &Finding) -> String {
    format!(
        "{}: {} {} {} can be saved: {}\n",
        if finding.is_advice() { "Finding" } else { "Hint" },
        label::one_line(&finding.sentence),
        if finding.cost.is_estimated { "By an estimate" } else { "Up to" },
        cost(&finding.cost),
        label::one_line(&finding.remedy),
    )
}

/// `at most 1.25 s (12.50 %)`, or `about`, where that is an estimate.
fn costs(cost: &Cost) -> String {
    match cost.is_estimated {
        _ if cost.is_of_learning => "no time, but what is learned".to_owned(),
        true => format!("about {}, an estimate", self::cost(cost)),
        false => format!("at most {}", self::cost(cost)),
    }
}

/// `1.25 s (12.50 %)`, or `3.00 MiB of memory`.
fn cost(cost: &Cost) -> String {
    match cost.bytes {
        Some(count) => format!("{} of memory", bytes(count)),
        None => format!("{} ({})", duration(cost.seconds), share(cost.share, 1.0)),
    }
}

/// All findings with all that is known of them; nothing without any.
pub fn whole(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nFindings, what costs most first\n");
    for (number, finding) in (1..).zip(findings) {
        let in_time = finding.cost.seconds_per_step.filter(|_| finding.cost.bytes.is_none());
        let step =
            in_time.map_or_else(String::new, |seconds| format!(", {} per step", duration(seconds)));
        let _ = write!(
            text,
            "\n{number}. {} ({})\n   Costs {}{step}\n",
            label::one_line(&finding.sentence),
            finding.confidence,
            costs(&finding.cost),
        );
        for (what, name) in finding.place.parts() {
            let _ = writeln!(text, "   Where: {what} {}", label::shown(name));
        }
        for evidence in &finding.evidence {
            let (what, value) = (label::one_line(&evidence.what), label::one_line(&evidence.value));
            let _ = writeln!(text, "   Seen: {what}: {value}");
        }
        let _ = writeln!(text, "   What to do: {}", label::one_line(&finding.remedy));
    }
    text
}

/// What each rule says, found or not.
#[cfg(feature = "findings")]
pub fn explained(explanations: &[Explanation]) -> String {
    let mut text = String::new();
    for Explanation { rule, condition, thresholds, outcome } in explanations {
        let _ = writeln!(text, "{rule}: {condition}");
        for (threshold, value) in thresholds {
            let _ = writeln!(
                text,
                "   {} = {value} (default {}): {}",
                threshold.name, threshold.default, threshold.why
            );
        }
        match outcome {
            Outcome::Found(findings) => {
                for finding in findings {
                    let _ = writeln!(
                        text,
                        "   found ({}): {} Costs {}",
                        finding.confidence,
                        label::one_line(&finding.sentence),
                        costs(&finding.cost),
                    );
                }
            }
            Outcome::Healthy(looked_at) => {
                let seen: Vec<_> = looked_at
                    .iter()
                    .map(|seen| label::one_line(&format!("{}: {}", seen.what, seen.value)))
                    .collect();
                let _ = writeln!(text, "   healthy: {}", seen.join(", "));
            }
            Outcome::NoInputs(missing) => {
                let _ = writeln!(text, "   no inputs: {}", label::one_line(missing));
            }
        }
    }
    text
}
