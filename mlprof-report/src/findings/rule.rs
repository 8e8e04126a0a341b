//! What a rule is.

use super::facts::Facts;
use crate::finding::{Evidence, Finding};

/// A number above which, or below which, a rule speaks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Its name within its rule.
    pub name: &'static str,
    /// What it is unless it is set.
    pub default: f64,
    /// What it is compared with, and why the default is what it is.
    pub why: &'static str,
}

/// What a rule says of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// This is wrong.
    Found(Vec<Finding>),
    /// Nothing is, by these numbers.
    Healthy(Vec<Evidence>),
    /// The report does not have what the rule looks at: what that is, and how to have it.
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

/// One thing that can be wrong with a run.
pub(super) struct Rule {
    /// Its name, in words with hyphens.
    pub(super) name: &'static str,
    /// The condition of a finding.
    pub(super) condition: &'static str,
    /// The numbers that can be set.
    pub(super) thresholds: &'static [Threshold],
    /// Whether it examines times, of which a short run says too little. A number that is wrong is
    /// so after a moment.
    pub(super) is_of_time: bool,
    /// Examines a report; the second argument holds the thresholds, in their order.
    pub(super) examine: fn(&Facts<'_>, &[f64]) -> Outcome,
}
