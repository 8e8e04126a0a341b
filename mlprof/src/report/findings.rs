//! `mlprof report --findings` and `--explain-rules`: prints performance findings and how the rules
//! decided.

use std::str::FromStr;

use mlprof_report::Report;
use mlprof_report::findings::{Outcome, Rules, text};

use super::{Arguments, Error};

/// New value for a rule's threshold, for example `data-waiting.share=0.05`.
#[derive(Debug, Clone, PartialEq)]
pub struct SetThreshold {
    /// Full name of the threshold.
    pub name: String,
    /// New value.
    pub value: f64,
}

impl FromStr for SetThreshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            "expected RULE.THRESHOLD=NUMBER, such as data-waiting.share=0.05".to_owned()
        })?;
        let value = value.trim();
        match value.parse() {
            Ok(number) => Ok(Self { name: name.trim().to_owned(), value: number }),
            Err(error) => Err(format!("{value:?}: {error}")),
        }
    }
}

/// Returns all rules with the given thresholds.
pub(super) fn rules(thresholds: &[SetThreshold]) -> Result<Rules, mlprof_report::Error> {
    let mut rules = Rules::new();
    for SetThreshold { name, value } in thresholds {
        rules.set(name, *value)?;
    }
    Ok(rules)
}

/// Formats the findings of a report, most expensive first.
pub(super) fn found(report: &Report, rules: &Rules) -> String {
    let findings = rules.apply(report);
    match text::whole(&findings) {
        nothing if nothing.is_empty() => {
            format!("{}No findings.\n", text::heading(report))
        }
        whole => format!("{}{}", text::heading(report), whole.trim_start_matches('\n')),
    }
}

/// Formats the findings that compare ranks. Returns an empty text unless findings were requested
/// for more than one rank. With `--explain-rules`, the rule is explained in any case.
pub(super) fn of_ranks(reports: &[Report], arguments: &Arguments) -> Result<String, Error> {
    if !arguments.findings && !arguments.explain_rules {
        return Ok(String::new());
    }
    let rules = rules(&arguments.threshold)?;
    let are_several = reports.iter().any(|report| report.header().rank != reports[0].header().rank);
    let explanation = rules.explain_ranks(reports);
    match (are_several, arguments.explain_rules) {
        (true, _) => {}
        (false, true) => return Ok(text::explained(&[explanation])),
        (false, false) => return Ok(String::new()),
    }
    let told = match arguments.explain_rules {
        true => text::explained(&[explanation]),
        false => match explanation.outcome {
            Outcome::Found(findings) => text::whole(&findings).trim_start_matches('\n').to_owned(),
            Outcome::Healthy(_) | Outcome::NoInputs(_) => "No findings.\n".to_owned(),
        },
    };
    Ok(format!("\nComparison of all ranks\n\n{told}"))
}

/// Formats each rule's result for a report, with the thresholds used.
pub(super) fn explained(report: &Report, rules: &Rules) -> String {
    format!("{}{}", text::heading(report), text::explained(&rules.explain(report)))
}
