//! Findings as text: a few lines for the console, the full list for a file, and the outcome of each
//! rule.

use std::fmt::Write;

#[cfg(feature = "findings")]
use super::engine::Explanation;
#[cfg(feature = "findings")]
use super::rule::Outcome;
use crate::finding::{Cost, Finding};
use crate::number::{bytes, duration, share};
use crate::simple::lightning::title;
use crate::{Report, label};

/// Maximum number of findings with a line on the console.
const LINES: usize = 3;

/// Returns the heading of the report with the findings, such as `FIT Profiler Report`, and an empty
/// line.
pub fn heading(report: &Report) -> String {
    format!("{}\n\n", title(report.header()))
}

/// Returns one line for each of the first findings that cost time or memory and are not hints.
/// Findings about invalid numbers appear in the text of their own report. Returns an empty string
/// without such findings.
pub fn brief(findings: &[Finding]) -> String {
    let shown = |finding: &&Finding| finding.is_advice() && !finding.cost.is_of_learning;
    let shown = findings.iter().filter(shown).take(LINES);
    shown.map(line).collect()
}

/// Formats the description, the cost and the remedy of a finding as one line.
pub fn line(finding: &Finding) -> String {
    format!(
        "{}: {} {} {} can be saved: {}\n",
        if finding.is_advice() { "Finding" } else { "Hint" },
        label::one_line(&finding.sentence),
        if finding.cost.is_estimated { "An estimated" } else { "Up to" },
        cost(&finding.cost),
        label::one_line(&finding.remedy),
    )
}

/// Formats a cost, such as `at most 1.25 s (12.50 %)`. The text begins with `about` if the cost is
/// an estimate.
fn costs(cost: &Cost) -> String {
    match cost.is_estimated {
        _ if cost.is_of_learning => "no time, but training quality".to_owned(),
        true => format!("about {}, an estimate", self::cost(cost)),
        false => format!("at most {}", self::cost(cost)),
    }
}

/// Formats the amount of a cost, such as `1.25 s (12.50 %)` or `3.00 MiB of memory`.
fn cost(cost: &Cost) -> String {
    match cost.bytes {
        Some(count) => format!("{} of memory", bytes(count)),
        None => format!("{} ({})", duration(cost.seconds), share(cost.share, 1.0)),
    }
}

/// Formats all findings with all their details. Returns an empty string without findings.
pub fn whole(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nFindings, largest cost first\n");
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
            let _ = writeln!(text, "   Evidence: {what}: {value}");
        }
        let _ = writeln!(text, "   Remedy: {}", label::one_line(&finding.remedy));
    }
    text
}

/// Formats the outcome of each rule.
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
