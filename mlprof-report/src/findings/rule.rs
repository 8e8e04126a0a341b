//! Definition of a rule, its thresholds and its outcome.

use super::facts::Facts;
use crate::finding::{Evidence, Finding};

/// A number that a rule compares with a value of the report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Name of the threshold within its rule.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Meaning of the threshold, and the reason for the default.
    pub why: &'static str,
}

/// Result of applying a rule to a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The rule found avoidable costs.
    Found(Vec<Finding>),
    /// The rule found no avoidable cost. The evidence shows the numbers that it examined.
    Healthy(Vec<Evidence>),
    /// The report lacks numbers that the rule needs. The text names them and explains how to record
    /// them.
    NoInputs(String),
}

impl Outcome {
    pub(super) fn healthy<const COUNT: usize>(looked_at: [Evidence; COUNT]) -> Self {
        Self::Healthy(looked_at.into())
    }

    pub(super) fn no_inputs(missing: &str) -> Self {
        Self::NoInputs(missing.to_owned())
    }
}

/// Rule that detects one kind of problem.
pub(super) struct Rule {
    /// Name of the rule, in hyphenated words.
    pub(super) name: &'static str,
    /// Condition of a finding.
    pub(super) condition: &'static str,
    /// Configurable thresholds.
    pub(super) thresholds: &'static [Threshold],
    /// `true` if the rule examines times, which are unreliable in a short run. Invalid numbers are
    /// significant even in a short run.
    pub(super) is_of_time: bool,
    /// Examines a report. The second argument contains the threshold values in the order of
    /// `thresholds`.
    pub(super) examine: fn(&Facts<'_>, &[f64]) -> Outcome,
}
