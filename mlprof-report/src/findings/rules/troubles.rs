//! Common part of the rules on tensor values, which look for troubles in the rows of a Numerics
//! report.

use mlprof_events::TensorRole;

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::Outcome;
use crate::label;
use crate::number::grouped;
use crate::numerics::{
    FoundTrouble, TensorRow, TroubleKind, TroubleLimits, has_enough, troubles_by,
};
use mlprof_events::OrderExt;

/// Description of a rule on tensor values.
pub(super) struct OfNumbers {
    /// Name of the rule.
    pub(super) name: &'static str,
    /// Kinds of troubles that the rule reports.
    pub(super) kinds: &'static [TroubleKind],
    /// Returns `true` for the rows that the rule examines.
    pub(super) looks_at: fn(&TensorRow) -> bool,
    /// Name of these rows, in the plural.
    pub(super) rows: &'static str,
    /// Recommended action.
    pub(super) remedy: &'static str,
    /// Converts the rule's thresholds, in their order, into the limits of troubles.
    pub(super) limits: fn(&[f64]) -> TroubleLimits,
}

impl OfNumbers {
    pub(super) fn examine(&self, facts: &Facts<'_>, limits: &[f64]) -> Outcome {
        let Report::Numerics(report) = facts.report else {
            return Outcome::no_inputs(NO_NUMBERS);
        };
        let looked_at =
            report.tensors.iter().filter(|row| has_enough(row) && (self.looks_at)(row)).count();
        if looked_at == 0 {
            let missing =
                format!("the report has no {} from more than one recorded step", self.rows);
            return Outcome::NoInputs(missing);
        }
        let all = troubles_by(&report.tensors, &(self.limits)(limits));
        let found = all.into_iter().filter(|trouble| self.kinds.contains(&trouble.kind));
        let findings = self.findings(found.collect());
        match findings.is_empty() {
            true => Outcome::healthy([Evidence::new(self.rows, grouped(looked_at as u64))]),
            false => Outcome::Found(findings),
        }
    }
}

impl OfNumbers {
    /// Merges troubles of one kind with the same advice into one finding.
    fn findings(&self, mut found: Vec<FoundTrouble<'_>>) -> Vec<Finding> {
        let same = |trouble: &FoundTrouble<'_>| (trouble.kind, trouble.advice);
        found.order_by_key(same);
        let alike = found.chunk_by(|one, other| same(one) == same(other));
        alike.filter_map(|alike| Some(self.finding(alike.split_first()?))).collect()
    }

    fn finding(&self, (first, others): (&FoundTrouble<'_>, &[FoundTrouble<'_>])) -> Finding {
        let (what, mut evidence) = (capitalized(&first.what), first.evidence.clone());
        let sentence = match others.len() {
            0 => format!("{what}: {}.", first.advice),
            1 => format!("{what}, and one more is similar: {}.", first.advice),
            count => format!("{what}, and {count} more are similar: {}.", first.advice),
        };
        if !others.is_empty() {
            let names = others.iter().map(|other| label::shown(&other.row.name));
            evidence.push(Evidence::new("similar", label::first_of(names, LISTED)));
        }
        Finding {
            rule: self.name.to_owned(),
            sentence,
            evidence,
            place: place(first.row.role, &first.row.name),
            cost: Facts::cost_of_learning(),
            confidence: Confidence::Likely,
            remedy: self.remedy.to_owned(),
        }
    }
}

/// Maximum number of names that a finding lists.
const LISTED: usize = 8;

/// Message for a report of another profiler.
pub(super) const NO_NUMBERS: &str =
    "the report does not cover tensor values: use the profiler \"numerics\"";

/// Returns the location of a tensor. Outputs belong to the forward call of a module, parameters
/// belong to a module.
pub(super) fn place(role: TensorRole, name: &str) -> Place {
    match role {
        TensorRole::Gradient | TensorRole::Parameter | TensorRole::Update => {
            let module = name.rsplit_once('.').map_or(name, |(module, _)| module);
            Place { module: Some(module.to_owned()), ..Place::default() }
        }
        TensorRole::Loss => Place::default(),
        _ => Place::action(name),
    }
}

/// Returns the text on one line with an uppercase first letter.
pub(super) fn capitalized(words: &str) -> String {
    let words = label::one_line(words);
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
