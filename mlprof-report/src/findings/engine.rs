//! Rule engine: applies all rules with their thresholds to a report.

use crate::Error;
use std::collections::HashMap;

use super::facts::Facts;
use super::ranks::{self, Examined};
use super::rule::{Outcome, Rule, Threshold};
use super::rules::ALL;
use crate::Report;
use crate::counted::counted_were;
use crate::finding::Finding;
use mlprof_events::OrderExt;

/// Thresholds that apply to all rules.
const GENERAL: &[Threshold] = &[
    Threshold {
        name: "least-seconds",
        default: 1.0,
        why: "minimum duration of the stage in seconds: chance and warm-up dominate shorter stages",
    },
    Threshold {
        name: "least-recorded-steps",
        default: 3.0,
        why: "minimum number of recorded steps in a report that covers recorded steps only; the \
              default schedule records as many",
    },
];
/// Prefix of the names of thresholds that apply to all rules.
const GENERAL_NAME: &str = "all";

/// All rules with their thresholds.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Overridden thresholds by full name, which is the rule's name, a dot and the threshold's
    /// name.
    set: HashMap<String, f64>,
}

/// Outcome of one rule for a report, with the thresholds used.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Name of the rule.
    pub rule: &'static str,
    /// Condition under which the rule produces a finding.
    pub condition: &'static str,
    /// Thresholds of the rule with their current values.
    pub thresholds: Vec<(Threshold, f64)>,
    /// Result of the rule.
    pub outcome: Outcome,
}

impl Rules {
    /// Creates all rules with their default thresholds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a threshold, such as `data-waiting.share`.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - No rule has this threshold. The error lists all thresholds.
    /// - The value is negative or not a number.
    pub fn set(&mut self, name: &str, value: f64) -> Result<&mut Self, Error> {
        let known = self.thresholds();
        if !known.iter().any(|(full_name, _)| full_name == name) {
            let known = known.into_iter().map(|(name, _)| name).collect();
            return Err(Error::UnknownThreshold { name: name.to_owned(), known });
        }
        if value.is_nan() || value < 0.0 {
            return Err(Error::InvalidThreshold { name: name.to_owned(), value });
        }
        self.set.insert(name.to_owned(), value);
        Ok(self)
    }

    /// Returns all thresholds with their full names, as [`set`](Self::set) accepts them.
    #[doc(hidden)]
    pub fn thresholds(&self) -> Vec<(String, Threshold)> {
        let of_rules = ALL.iter().map(|rule| (rule.name, rule.thresholds));
        let all = [(GENERAL_NAME, GENERAL)].into_iter().chain(of_rules);
        let all = all.chain([(ranks::NAME, ranks::THRESHOLDS)]);
        let named = |(rule, thresholds): (&'static str, &'static [Threshold])| {
            thresholds.iter().map(move |threshold| (full_name(rule, threshold), *threshold))
        };
        all.flat_map(named).collect()
    }

    /// Returns the findings in `report`, in descending order of cost.
    pub fn apply(&self, report: &Report) -> Vec<Finding> {
        let facts = Facts::of(report);
        let outcomes = ALL.iter().map(|rule| self.examine(rule, &facts));
        let mut findings: Vec<_> = outcomes
            .flat_map(|outcome| match outcome {
                Outcome::Found(findings) => findings,
                Outcome::Healthy(_) | Outcome::NoInputs(_) => Vec::new(),
            })
            .collect();
        findings.order_by(|one, other| other.cost.seconds.total_cmp(&one.cost.seconds));
        findings
    }

    /// Stores the findings of `report` in it as its [findings](Report::findings). Kinds of reports
    /// without findings are unchanged.
    #[doc(hidden)]
    #[must_use]
    pub fn annotate(&self, report: Report) -> Report {
        let findings = self.apply(&report);
        report.with_findings(findings)
    }

    /// Returns the outcome of every rule for `report`, with the numbers that it used.
    #[doc(hidden)]
    pub fn explain(&self, report: &Report) -> Vec<Explanation> {
        let facts = Facts::of(report);
        let explain = |rule: &&Rule| Explanation {
            rule: rule.name,
            condition: rule.condition,
            thresholds: rule.thresholds.iter().copied().zip(self.limits(rule)).collect(),
            outcome: self.examine(rule, &facts),
        };
        ALL.iter().map(explain).collect()
    }

    /// Returns the findings of several processes of one run, compared with each other; none for the
    /// reports of one process.
    #[cfg(test)]
    pub(crate) fn apply_to_ranks(&self, reports: &[Report]) -> Vec<Finding> {
        self.found_in_ranks(reports).into_iter().map(|(_, finding)| finding).collect()
    }

    /// Returns the outcome of the comparison of several ranks, with the numbers that it used. If
    /// all reports are of one process, the outcome is [`Outcome::NoInputs`].
    #[doc(hidden)]
    pub fn explain_ranks(&self, reports: &[Report]) -> Explanation {
        let examined = self.examine_ranks(reports);
        let outcome = examined.map_or_else(
            || {
                Outcome::no_inputs(
                    "all reports come from one process: pass the reports of several ranks together",
                )
            },
            |examined| examined.outcome,
        );
        let threshold = ranks::THRESHOLDS[0];
        Explanation {
            rule: ranks::NAME,
            condition: ranks::CONDITION,
            thresholds: vec![(threshold, self.limit(ranks::NAME, &threshold))],
            outcome,
        }
    }

    /// Compares the reports of several processes of one run, and returns which of the reports each
    /// finding is of. The finding is of the slowest process.
    pub(crate) fn found_in_ranks(&self, reports: &[Report]) -> Vec<(usize, Finding)> {
        match self.examine_ranks(reports) {
            Some(Examined { outcome: Outcome::Found(findings), slowest: Some(index) }) => {
                findings.into_iter().map(|finding| (index, finding)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn examine_ranks(&self, reports: &[Report]) -> Option<Examined> {
        let first = reports.first()?.header().rank;
        let are_several = reports.iter().any(|report| report.header().rank != first);
        let limit = self.limit(ranks::NAME, &ranks::THRESHOLDS[0]);
        are_several.then(|| ranks::examine(reports, limit))
    }

    fn examine(&self, rule: &Rule, facts: &Facts<'_>) -> Outcome {
        if rule.is_of_time
            && let Some(too_little) = self.too_little(facts)
        {
            return Outcome::NoInputs(too_little);
        }
        (rule.examine)(facts, &self.limits(rule))
    }

    /// Returns the reason if a report covers too little for any rule.
    fn too_little(&self, facts: &Facts<'_>) -> Option<String> {
        let seconds = facts.report.header().wall_seconds;
        let least = self.limit(GENERAL_NAME, &GENERAL[0]);
        if seconds < least {
            return Some(format!(
                "the stage took {seconds:.3} s, which is less than the minimum of {least} s \
                 ({GENERAL_NAME}.{})",
                GENERAL[0].name
            ));
        }
        let Report::Tensor(report) = facts.report else { return None };
        if !facts.knows_its_seconds {
            return Some(format!(
                "the report lists only the first {} of its {} cycles and no total duration: it was \
                 written by an earlier version",
                report.cycles.len(),
                report.cycle_count
            ));
        }
        let least = self.limit(GENERAL_NAME, &GENERAL[1]);
        ((report.recorded_steps as f64) < least).then(|| {
            format!(
                "{} recorded, fewer than the minimum of {least} ({GENERAL_NAME}.{})",
                counted_were(report.recorded_steps, "step", "steps"),
                GENERAL[1].name
            )
        })
    }

    fn limits(&self, rule: &Rule) -> Vec<f64> {
        rule.thresholds.iter().map(|threshold| self.limit(rule.name, threshold)).collect()
    }

    fn limit(&self, rule: &str, threshold: &Threshold) -> f64 {
        self.set.get(&full_name(rule, threshold)).copied().unwrap_or(threshold.default)
    }
}

fn full_name(rule: &str, threshold: &Threshold) -> String {
    format!("{rule}.{}", threshold.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorReport;
    use crate::findings::samples::{op, recorded, row, steps};

    fn saving(report_seconds: f64) -> Report {
        let mut report = steps(100, report_seconds / 100.0);
        report.actions.push(row("save_checkpoint", 20, 0.6 * report_seconds));
        report.actions.push(row("[Callback]A.on_train_batch_end", 100, 0.9 * report_seconds));
        Report::Simple(report)
    }

    #[test]
    fn findings_are_sorted_by_cost() {
        let findings = Rules::new().apply(&saving(2.0));
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule.as_str()).collect();
        assert_eq!(rules, ["slow-hooks", "checkpoints"]);
    }

    #[test]
    fn of_a_very_short_run_nothing_is_said_unless_it_is_asked_for() {
        let report = saving(0.5);
        let mut rules = Rules::new();
        assert_eq!(rules.apply(&report), []);
        assert!(rules.explain(&report).iter().all(|explanation| {
            // The rules for invalid numbers apply to short runs too, but this report has no
            // numerics.
            let lacks = |why: &str| why.contains("0.500 s") || why.contains("\"numerics\"");
            matches!(&explanation.outcome, Outcome::NoInputs(why) if lacks(why))
        }));
        rules.set("all.least-seconds", 0.1).expect("there is such a threshold");
        assert_eq!(rules.apply(&report).len(), 2);
    }

    #[test]
    fn of_recorded_steps_the_report_must_say_how_long_they_took() {
        let explained = |report: &TensorReport| {
            let explanations = Rules::new().explain(&Report::Tensor(report.clone()));
            let rule = explanations.into_iter().find(|rule| rule.rule == "hidden-waits");
            rule.expect("there is such a rule").outcome
        };
        // The report has more cycles than it lists, with two seconds in total.
        let mut report = recorded(vec![op("candle::to_scalar", 100, 0.6)]);
        report.cycle_count = 150;
        let Outcome::Found(found) = explained(&report) else { panic!("it takes 30 %") };
        assert!((found[0].cost.share - 0.3).abs() < 1e-9, "{found:?}");
        // Reports of earlier versions lack this field.
        report.recorded_seconds = None;
        let Outcome::NoInputs(why) = explained(&report) else { panic!("of what is not known") };
        assert!(why.contains("the first 1 of its 150 cycles"), "{why}");
        report.cycle_count = 1;
        assert!(matches!(explained(&report), Outcome::Found(_)));
    }

    #[test]
    fn thresholds_are_set_by_name_and_hold() {
        let mut rules = Rules::new();
        rules.set("checkpoints.share", 0.7).expect("there is such a threshold");
        let found = rules.apply(&saving(2.0));
        assert!(found.iter().all(|finding| finding.rule != "checkpoints"), "{found:?}");
        let error = rules.set("checkpoint.share", 0.7).expect_err("there is none");
        assert!(error.to_string().contains("checkpoints.share"), "{error}");
        for value in [-1.0, f64::NAN] {
            let error = rules.set("checkpoints.share", value).expect_err("refused");
            assert!(matches!(error, Error::InvalidThreshold { .. }), "{error}");
        }
    }

    #[test]
    fn names_of_rules_and_thresholds_are_unique() {
        let names = Rules::new().thresholds();
        let mut unique: Vec<_> = names.iter().map(|(name, _)| name).collect();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        let mut rules: Vec<_> = ALL.iter().map(|rule| rule.name).collect();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules.len(), ALL.len());
    }

    /// Checks that the guide's table lists exactly the existing rules and thresholds, with their
    /// defaults.
    #[test]
    fn the_guide_lists_all_rules_and_thresholds_as_they_are() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/explanation/findings.md");
        let guide = std::fs::read_to_string(guide).expect("the guide");
        let mut told: Vec<(String, f64)> = Vec::new();
        let mut rules: Vec<&str> = Vec::new();
        for row in guide.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = row.trim_matches('|').split('|').collect();
            let rule = cells[0].split('`').nth(1).expect("a rule's name");
            rules.push(rule);
            // The third cell contains the threshold names in backquotes. The default follows the
            // next colon.
            for (at, _) in cells[2].match_indices('`').step_by(2) {
                let (name, rest) = cells[2][at + 1..].split_once('`').expect("a name");
                let (_, rest) = rest.split_once(':').expect("a default");
                let number = rest.split([';', ' ']).find(|part| !part.is_empty());
                let default = number.expect("a default").parse().expect("a number");
                told.push((format!("{rule}.{name}"), default));
            }
        }
        let known = ALL.iter().map(|rule| rule.name).chain([ranks::NAME]);
        let known: Vec<_> = known.collect();
        let missing = |these: &[&str], of: &[&str]| -> Vec<String> {
            of.iter().filter(|name| !these.contains(name)).map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(missing(&rules, &known), [""; 0], "rules that the guide does not have");
        assert_eq!(missing(&known, &rules), [""; 0], "rules that only the guide has");
        let general = format!("{GENERAL_NAME}.");
        let thresholds = Rules::new().thresholds().into_iter();
        let mut thresholds: Vec<_> = thresholds
            .filter(|(name, _)| !name.starts_with(&general))
            .map(|(name, threshold)| (name, threshold.default))
            .collect();
        for list in [&mut thresholds, &mut told] {
            list.sort_by(|one, other| one.0.cmp(&other.0));
        }
        assert_eq!(told, thresholds);
        for threshold in GENERAL {
            let written = format!("(`{general}{}`,", threshold.name);
            let (_, rest) = guide.split_once(&written).expect("each of all rules is there");
            let default = rest.trim_start().split(')').next().expect("a number");
            assert_eq!(default.parse(), Ok(threshold.default), "{}", threshold.name);
        }
    }

    #[test]
    fn findings_are_read_back_as_they_were_written() {
        let report = Rules::new().annotate(saving(2.0));
        assert_eq!(report.findings().len(), 2);
        let read = Report::from_json(&report.to_json().expect("JSON")).expect("a report");
        assert_eq!(read, report);
    }
}
